/* The verifier as a plain struct, for other modules of spex; see <spex/verify.h>. */
#ifndef RECORD_VERIFIER_H
#define RECORD_VERIFIER_H

#include <spex/verify.h>

#include "arch/feature_set.h"

struct spex_verifier {
    uint64_t records; /* closed records seen so far */
    uint64_t opaque[1536];
};

/* features NULL: unknown. */
void verifier_init(struct spex_verifier *verifier, const struct arch_features *features);

#endif
