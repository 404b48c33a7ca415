/*
 * Replaces the model for --model none: no caches, no TLBs, no prediction. Guesses a block's time
 * from its operations, and how long each of them is in flight.
 */
#ifndef UARCH_NONE_H
#define UARCH_NONE_H

#include "account/op.h"
#include "uarch/timing.h"

/* Like timing_block_init(); sets the block's mean to the guess. */
void none_block_init(const struct uarch_config *c, struct timing_block *block, uint64_t pc,
                     const struct spex_op *ops, size_t count);
/* Times of an instruction, if the block begins with an empty pipeline at this cycle. */
struct account_insn none_time(const struct uarch_config *c, const struct timing_block *block,
                              uint32_t insn, uint64_t cycle);

#endif
