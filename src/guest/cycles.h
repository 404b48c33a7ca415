/*
 * Whose each cycle of a thread is (--truth with the full model): docs/model.md has the rules.
 *
 * A cycle has as many slots as operations can be dispatched in it. Each operation has the slot that
 * it was dispatched in. A slot that stayed empty is of what it stayed empty for: of the block whose
 * ports were busy, of a mispredicted branch, of the operation that had to be fetched first, or,
 * where the window or a queue was full, of the oldest operation in it. So a latency counts where it
 * holds the core up, and not where others run beside it.
 */
#ifndef GUEST_CYCLES_H
#define GUEST_CYCLES_H

#include "code.h"
#include "run.h"

#include "uarch/timing.h"

enum { CYCLES_OPERATIONS = 4096 }; /* more than the largest window and two blocks */

/* All zero before the first block. Operations have numbers, from 0 on. */
struct cycles {
    struct {
        uint64_t retire;
        struct run_truth *row;
        uint64_t parts, before; /* of a cycle (RUN_CYCLE): its own; of all before, once settled */
    } operation[CYCLES_OPERATIONS];
    uint64_t number;  /* of the next */
    uint64_t oldest;  /* that may not have retired */
    uint64_t settled; /* those before have all that they get */
    uint64_t slots;   /* since cycle 0, that are somebody's or were not counted */
    uint64_t retire;  /* of the last operation */
    /* of the last block */
    uint64_t first, ports; /* operation; slot from which its ports let others go */
    bool wrong;            /* its branch was mispredicted */
    uint64_t again;        /* slot from which dispatch could go on after that */
};

/* A block has run, with its insns, and the clock was this before. */
void cycles_count(struct cycles *c, const struct spex_uarch_config *config,
                  const struct block *block, const struct spex_timing_run *run, uint64_t clock);
/* Nothing follows for a while: the rest is of what has not retired. */
void cycles_drain(struct cycles *c, const struct spex_uarch_config *config);
/* In the child of a fork: what ran before is its parent's. */
void cycles_forked(struct cycles *c);
/* Parts of a cycle of all operations before this one, which is settled and was not long ago. */
uint64_t cycles_before(const struct cycles *c, uint64_t number);

#endif
