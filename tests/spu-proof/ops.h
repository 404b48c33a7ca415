/* Random operations and outcomes that a PE of a feature set can produce. */
#ifndef OPS_H
#define OPS_H

#include <spex/op.h>
#include "spu/config.h"

struct made_op {
    uint64_t pc;
    struct spex_op op;
    struct spex_outcome outcome;
    struct spex_access parts[4];
};

/* The same seed and features make the same operation. parts points into made. */
void ops_make(uint64_t seed, const struct arch_features *features, struct made_op *made);

/* Cut to what can happen in a state. */
void ops_fit(struct made_op *made, const struct spex_spu_state *state);

/* Plain ones for written tests. */
void ops_plain(enum spex_op_kind kind, uint32_t flags, struct made_op *made);

#endif
