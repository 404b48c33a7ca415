/*
 * Without a model (--model none): no caches, no TLBs, no prediction. What a block takes is guessed
 * from its operations, and so is how long one of them is in flight.
 */
#ifndef UARCH_NONE_H
#define UARCH_NONE_H

#include "account/op.h"
#include "uarch/timing.h"

/* As timing_block_init(); its mean is the guess. */
void none_block_init(const struct uarch_config *c, struct timing_block *block, uint64_t pc,
                     const struct spex_op *ops, size_t count);
/* Of an instruction, if the block begins with an empty pipeline at this cycle. */
struct account_insn none_time(const struct uarch_config *c, const struct timing_block *block,
                              uint32_t insn, uint64_t cycle);

#endif
