/*
 * Sampled detail: what the full model does between samples (docs/model.md, "Sampled detail").
 * Caches, TLBs, prefetchers and predictors see every access and every branch, at a time that the
 * caller estimates. There is no pipeline, store buffer or window: a block takes its average time
 * from when the account of time ran it.
 *
 * Between timing_far_begin() and timing_far_end() these functions replace timing_predict() and
 * timing_run(); the caller keeps the time.
 */
#ifndef UARCH_FAR_H
#define UARCH_FAR_H

#include "uarch/account.h"

enum { SPEX_FAR_FRACTION = 16 }; /* bits of time below a cycle */

/* Leaves the pipeline; timing_far_end continues at a time with an empty one. */
void timing_far_begin(struct timing_core *core);
void timing_far_end(struct timing_core *core, uint64_t cycles);

/* ---- blocks ---- */

/* The block is entered at this time. */
void timing_far_lines(struct timing_core *core, struct timing_block *block, uint64_t cycles);

/* The predictor sees a branch, and so do the branch target buffers if it is taken. */
void timing_far_cond(struct timing_core *core, struct timing_block *block, uint64_t next);
void timing_far_target(struct timing_core *core, struct timing_block *block, uint64_t next);

/* Control went from the end of the block to next. */
static inline __attribute__((always_inline)) void
timing_far_branch(struct timing_core *core, struct timing_block *block, uint64_t next)
{
    if (block->end == SPEX_UARCH_END_COND)
        timing_far_cond(core, block, next);
    else if (block->end > SPEX_UARCH_END_DIRECT)
        timing_far_target(core, block, next);
    else if (block->end == SPEX_UARCH_END_DIRECT && !timing_btb_near(core, block))
        timing_btb_look(core, block);
}

/* Whether entering the block needs no timing_far_lines(). */
static inline bool timing_far_fetched(const struct timing_core *core,
                                      const struct timing_block *block)
{
    return block->fetched == core->code_generation;
}

/* ---- accesses: of `size` bytes, by instruction `insn` of the block, at this time ---- */

void timing_far_load_slow(struct timing_core *core, const struct timing_block *block,
                          timing_access access, unsigned size, uint64_t cycles);
void timing_far_store_slow(struct timing_core *core, const struct timing_block *block,
                           timing_access access, unsigned size, uint64_t cycles);
/* Any access by any instruction. */
void timing_far_access(struct timing_core *core, const struct timing_block *block,
                       timing_access access, uint64_t cycles);

static inline __attribute__((always_inline)) bool
far_quick(const struct timing_core *core, uint64_t va, unsigned size, unsigned *state)
{
    *state = timing_l1_quick(&core->l1, va);
    return va >> core->page_shift == core->page && (va & 63) + size <= 64;
}

/* Handles the common case; if it returns false, call the _slow() variant. */
static inline __attribute__((always_inline)) bool timing_far_load(const struct timing_core *core,
                                                                  uint64_t va, unsigned size)
{
    unsigned state;
    return far_quick(core, va, size, &state) && state;
}

static inline __attribute__((always_inline)) bool timing_far_store(struct timing_core *core,
                                                                   uint64_t va, unsigned size)
{
    unsigned state;
    if (!far_quick(core, va, size, &state) || state != UARCH_MODIFIED ||
        (va & ~63ull) == core->stream_line)
        return false;
    if (va != core->stream_next) {
        core->stream_begin = va;
        core->stream_lines = 0;
    } else if (!((va + size) & 63)) {
        return false;
    }
    core->stream_next = va + size;
    return true;
}

#endif
