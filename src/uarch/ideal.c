/* The ideal parts of spex whatif --ideal: address ranges whose code or data costs less. */
#include "uarch/access.h"
#include "uarch/timing.h"

void timing_set_ideal(struct timing *timing, const struct ideal_range *ranges, size_t count)
{
    timing->ideal = (struct timing_ideal){.ranges = ranges, .count = count};
    for (size_t i = 0; i < count; i++)
        timing->ideal.kinds |= ranges[i].kinds;
}

unsigned timing_ideal_at(const struct timing_ideal *ideal, uint64_t address)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < ideal->count; i++)
        if (address - ideal->ranges[i].first < ideal->ranges[i].size)
            kinds |= ideal->ranges[i].kinds;
    return kinds;
}

bool uarch_is_huge(const struct uarch_mmu *mmu, uint64_t va)
{
    return timing_ideal_at(mmu->ideal, va) & SPEX_IDEAL_PAGES;
}

unsigned timing_ideal_op(const struct timing_ideal *ideal, uint64_t pc, struct spex_op *op)
{
    unsigned kinds = timing_ideal_at(ideal, pc);
    if (kinds & SPEX_IDEAL_DIVIDE) {
        if (op->exec == SPEX_EXEC_DIV)
            op->exec = SPEX_EXEC_ALU;
        else if (op->exec == SPEX_EXEC_FP_DIV || op->exec == SPEX_EXEC_FP_SQRT)
            op->exec = SPEX_EXEC_FP_ADD;
    }
    return kinds;
}

void timing_ideal_uop(unsigned kinds, const struct spex_op *op, struct account_op *u)
{
    u->hits = kinds & SPEX_IDEAL_LOADS && u->kind == ACCOUNT_LOAD;
    if (!(kinds & SPEX_IDEAL_TIME))
        return;
    u->kind = ACCOUNT_GONE;
    u->writes = op->flags & SPEX_OPF_STORE;
}

void timing_ideal_access(struct timing_core *core, uint64_t va, unsigned size, uint64_t t,
                         bool write)
{
    const uint64_t ends[2] = {va, va + size - 1};
    for (unsigned i = 0; i < ((va & 63) + size > 64 ? 2 : 1); i++) {
        uarch_result unused = 0;
        uint64_t misses = core->counts.tlb_miss, walks = core->counts.walk;
        translate(core, ends[i], &unused);
        core->counts.tlb_miss = misses;
        core->counts.walk = walks;
        timing_memory_there(core, ends[i], t, write);
    }
}
