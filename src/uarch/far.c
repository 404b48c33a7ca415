/* Caches, TLBs and predictors while the account of time is not running. */
#include "uarch/far.h"

#include "uarch/access.h"

void timing_far_begin(struct timing_core *core)
{
    timing_memo_leave(core);
}

void timing_far_end(struct timing_core *core, uint64_t cycles)
{
    core->retire = later(core->retire, cycles);
    core->fetch = core->retire;
    core->dispatch = core->retire << 16 | core->begin;
}

void timing_far_target(struct timing_core *core, struct timing_block *block, uint64_t next)
{
    core->counts.mispredict += timing_predict(core, block, next);
    timing_btb(core, block);
}

/* Requests come at this time, and none earlier. */
static void set_time(struct timing_core *core, uint64_t cycles)
{
    core->dispatch = cycles << 16 | core->begin;
}

void timing_far_lines(struct timing_core *core, struct timing_block *block, uint64_t cycles)
{
    set_time(core, cycles);
    timing_fetch_lines(core, block, cycles);
}

void timing_far_load_slow(struct timing_core *core, const struct timing_block *block,
                          timing_access access, unsigned size, uint64_t cycles)
{
    uint64_t va = address(access), end = va + size - 1, pc = block->pc + 4 * (access >> 48);
    uarch_result result = 0;
    set_time(core, cycles);
    uint64_t t = cycles + translate(core, va, &result);
    if ((va ^ end) > 63)
        t += translate(core, end, &result);
    timing_memory_load(core, va, t, pc, &result);
    if ((va & 63) + size > 64)
        timing_memory_load(core, end & ~63ull, t, pc, &result);
}

static void far_store(struct timing_core *core, const struct timing_block *block,
                      timing_access access, unsigned size, bool atomic, uint64_t cycles)
{
    uint64_t va = address(access), end = va + size - 1, accepted;
    uarch_result result = 0;
    set_time(core, cycles);
    uint64_t t = cycles + translate(core, va, &result);
    if ((va ^ end) > 63)
        t += translate(core, end, &result);
    own(core, va, size, t, block->pc + 4 * (access >> 48), atomic, &result, &accepted);
}

void timing_far_store_slow(struct timing_core *core, const struct timing_block *block,
                           timing_access access, unsigned size, uint64_t cycles)
{
    far_store(core, block, access, size, false, cycles);
}

void timing_far_access(struct timing_core *core, const struct timing_block *block,
                       timing_access access, uint64_t cycles)
{
    const struct account_op *u = &block->uops[access >> 48];
    uint64_t va = address(access);
    uarch_result unused = 0;
    switch (u->kind) {
    case ACCOUNT_LOAD:
        timing_far_load_slow(core, block, access, u->size, cycles);
        break;
    case ACCOUNT_HINT:
        set_time(core, cycles);
        if (u->hint)
            cycles += translate(core, va, &unused);
        timing_memory_hint(core, va & ~63ull, cycles, u->hint);
        break;
    default:
        far_store(core, block, access, u->size, u->kind == ACCOUNT_ATOMIC, cycles);
    }
}
