/*
 * Stage 1 translation of VMSAv8-64 for a privileged write, from the guest's own registers and
 * tables (Arm ARM D8): for versions of QEMU that translate only at the current Exception level.
 * Stage 2 is off in the guests that we run.
 */
#ifndef GUEST_WALK_H
#define GUEST_WALK_H

#include <spex/base.h>

struct walk_regime {
    uint64_t sctlr, tcr, tcr2, ttbr[2];
    bool two_ranges; /* EL1&0 and EL2&0: two ranges, of lower and upper addresses */
};

/* Reads a descriptor of the tables; false if there is no memory. */
typedef bool (*walk_read)(void *user, uint64_t pa, uint64_t *descriptor);

/* True with *pa, or false with *fsc: the Fault Status Code, with its level. */
bool walk_stage1(const struct walk_regime *regime, uint64_t va, walk_read read, void *user,
                 uint64_t *pa, unsigned *fsc);

#endif
