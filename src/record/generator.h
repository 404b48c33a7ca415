/* The generator as a plain struct, for other modules of spex; see <spex/generate.h>. */
#ifndef RECORD_GENERATOR_H
#define RECORD_GENERATOR_H

#include <spex/generate.h>

#include "arch/feature_set.h"

struct generate_options {
    struct arch_features features;
    uint64_t seed;
    enum spex_layout layout;
    unsigned align, ops;
};

struct spex_generator {
    struct generate_options options;
    uint64_t offset; /* stream offset of the next record */
    uint64_t opaque[32];
};

enum spex_status generator_init(struct spex_generator *generator,
                                const struct generate_options *options, struct spex_error *error);

#endif
