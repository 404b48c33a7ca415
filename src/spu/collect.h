/* An operation whose record is being made, shared by collect.c and op_type.c. */
#ifndef SPU_COLLECT_H
#define SPU_COLLECT_H

#include "spu/unit.h"

struct collector {
    struct spex_spu *u;
    const struct slot *slot;
    const struct spex_op *op;
    const struct spex_outcome *o;
    struct sample *s;
    bool branch; /* SPE counts it as a branch */
    bool taken;
    bool load, store; /* the sampled side, for record and filter */
    bool hidden; /* misspeculated: must reveal nothing that the operation may not use (D17.6.7) */
    uint32_t total;
};

#define FEATURES (&k->u->config.features)
#define CHOICES (&k->u->config.choices)

static inline bool flag(const struct collector *k, uint32_t flags)
{
    return (k->op->flags & flags) != 0;
}

/* ---- op_type.c ---- */

/* D17.6.5: conditional by PSTATE.{N,Z,C,V}. */
bool collect_conditional(const struct collector *k);
/* SPEConstructClass: the Operation Type packet of an operation that is classified. */
void collect_op_type(struct collector *k);

#endif
