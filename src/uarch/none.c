#include "uarch/none.h"

#include "account/plain.h"
#include "uarch/uarch.h"

struct account_insn none_time(const struct uarch_config *c, const struct timing_block *block,
                              uint32_t insn, uint64_t cycle)
{
    struct plain plain;
    struct account_insn time = {0};
    plain_init(&plain, c);
    plain_restart(&plain, cycle);
    for (uint32_t i = 0; i <= insn; i++) {
        struct account_op u;
        account_op(c, plain.latency, &u, &block->ops[i]);
        const struct plain_access hit = {.took = u.latency};
        time = plain_run(&plain, &u, &hit);
    }
    return time;
}

/*
 * Halfway between the time that dispatch allows (blocks overlap perfectly) and the time when its
 * last instruction retires (blocks do not overlap).
 */
void none_block_init(const struct uarch_config *c, struct timing_block *block, uint64_t pc,
                     const struct spex_op *ops, size_t count)
{
    *block = (struct timing_block){.pc = pc,
                                   .next = pc + 4 * count,
                                   .count = (uint32_t)count,
                                   .end = (uint8_t)uarch_end_of(&ops[count - 1]),
                                   .ops = ops};
    uint64_t least = ((uint64_t)count << 16) / c->width;
    uint64_t most = none_time(c, block, (uint32_t)count - 1, 0).retire << 16;
    block->mean = most > least ? (least + most) / 2 : least;
}
