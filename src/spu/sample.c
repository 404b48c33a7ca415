/*
 * Which operations are sampled, from selection to completion (D17.3).
 *
 * Between calls the unit only counts down quiet.until. spu_sample_settle accounts for the
 * operations that passed; spu_sample_plan computes how far away the next operation that may be
 * selected is. The arithmetic is that of SPEToCollectSample: the counter stays at zero for the
 * operation that is selected, and the next member reloads it without decrementing, so the
 * distance is INTERVAL*256 + 1.
 */
#include "unit.h"

#include <assert.h>

enum { NEVER_SHIFT = 62 }; /* enabled, but the counters never select: interval_zero=never */

struct counters {
    uint32_t count;
    uint8_t ecount;
};

static struct counters counters_get(const struct spex_spu *u)
{
    uint64_t value = u->w.eff[R_PMSICR_EL1];
    return (struct counters){(uint32_t)value, (uint8_t)(value >> 56)};
}

static void counters_put(struct spex_spu *u, struct counters c)
{
    uint64_t value = c.count | (uint64_t)c.ecount << 56;
    if (value != u->w.eff[R_PMSICR_EL1])
        spu_put(u, R_PMSICR_EL1, value);
}

/* Whether the secondary counter ECOUNT is in use. */
static bool two_counters(const struct spex_spu *u)
{
    return u->config.features.ERnd && EFF(RND, PMSIRR_EL1);
}

/* SPEResetSampleCounter. */
static uint32_t reload_value(struct spex_spu *u)
{
    uint32_t value = (uint32_t)u->w.eff[R_PMSIRR_EL1] & 0xffffff00;
    if (EFF(RND, PMSIRR_EL1) && !u->config.features.ERnd)
        value |= spu_random(u);
    return value;
}

/*
 * D17.3.3: profiling becomes enabled. If a selection left a counter at zero, the next member
 * reloads it, whatever lies between: otherwise the distance would be one less.
 */
void spu_sample_initial_load(struct spex_spu *u)
{
    if (u->w.eff[R_PMSICR_EL1] == 0 && !u->w.due && u->config.choices.initial_load == LOAD_ENABLING)
        counters_put(u, (struct counters){reload_value(u), 0});
}

/* n members passed; spu_sample_plan has ensured that none of them could be selected. */
static void count_down(struct spex_spu *u, uint64_t n)
{
    struct counters c = counters_get(u);
    uint64_t primary = n;
    bool interval = u->w.eff[R_PMSIRR_EL1] & 0xffffff00, two = two_counters(u);
    if (two && c.ecount)
        c.ecount = (uint8_t)(c.ecount - n);
    if (u->w.after)
        u->w.after -= n;
    u->w.member += n;
    if (c.count ==
        0) { /* the first member reloads; the counter is zero again if INTERVAL is zero */
        c.count = reload_value(u);
        u->w.due = false;
        primary = interval ? primary - 1 : 0;
    }
    c.count -= (uint32_t)primary;
    counters_put(u, c);
}

void spu_sample_settle(struct spex_spu *u)
{
    uint64_t until = u->quiet.until;
    if (u->mark == UINT64_MAX || until == u->mark)
        return;
    assert(until < u->mark && "more members passed than spex_spu_until allowed, or given back");
    count_down(u, u->mark - until);
    u->pop += u->mark - until;
    u->mark = until;
}

void spu_sample_plan(struct spex_spu *u)
{
    if (!u->w.enabled) {
        u->quiet.until = u->mark = UINT64_MAX;
        return;
    }
    struct counters c = counters_get(u);
    uint64_t interval = u->w.eff[R_PMSIRR_EL1] & 0xffffff00;
    bool rnd = EFF(RND, PMSIRR_EL1), two = two_counters(u);
    uint64_t until;
    if (c.count)
        until = c.count - 1;
    else if (interval) /* one member reloads; the other interval - 1 or more only decrement */
        until = interval;
    else if (u->config.choices.interval_zero == INTERVAL_ZERO_EACH)
        until = 0;
    else
        until = rnd && !two ? 1 : UINT64_C(1) << NEVER_SHIFT;
    if (two && c.ecount && c.ecount - 1u < until)
        until = c.ecount - 1u;
    if (u->w.after && u->w.after - 1 < until)
        until = u->w.after - 1;
    u->quiet.until = u->mark = until;
}

/* SPEToCollectSample: one member of the population. */
static bool to_collect(struct spex_spu *u)
{
    struct counters c = counters_get(u);
    bool two = two_counters(u), selected = false, loaded = false, zero;
    if (c.count == 0) { /* our choice: reloading zero counts as reaching zero at once */
        c.count = reload_value(u);
        u->w.due = false;
        zero = c.count == 0 && u->config.choices.interval_zero == INTERVAL_ZERO_EACH;
    } else {
        zero = --c.count == 0;
    }
    if (zero) {
        u->w.due = true;
        if (two) {
            c.ecount = spu_random(u);
            loaded = true;
            selected = c.ecount == 0;
        } else {
            selected = true;
        }
    }
    if (two && !loaded && c.ecount && --c.ecount == 0)
        selected = true;
    counters_put(u, c);

    /*
     * SMP-06: the sampled operation may come a fixed distance later, or from a group that
     * begins here.
     */
    uint64_t distance = u->config.choices.select_after;
    uint64_t group = u->config.choices.select_group, member = u->w.member++;
    if (group)
        distance += (group - (member + distance) % group) % group;
    bool chosen = u->w.after && --u->w.after == 0;
    if (selected && !u->w.after)
        u->w.after = distance;
    return chosen || (selected && !distance);
}

static inline void tell_population(struct spex_spu *u)
{
    if (u->pop) {
        uint64_t n = u->pop;
        u->pop = 0;
        spu_pmu(u, SPEX_PMU_SAMPLE_POP, n);
    }
}

void spex_spu_flush(struct spex_spu *u)
{
    assert(u);
    spu_sample_settle(u);
    tell_population(u);
}

bool spex_spu_member(const struct spex_spu *u, uint32_t flags)
{
    assert(u);
    const struct spu_choices *c = &u->config.choices;
    if (!(flags & (SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN | SPEX_OUT_NONARCH_EXC)))
        return true;
    return !((flags & SPEX_OUT_SPECULATIVE && !c->population_speculative) ||
             (flags & SPEX_OUT_NO_INSN && !c->population_no_insn) ||
             (flags & SPEX_OUT_NONARCH_EXC && !c->population_nonarch));
}

/* ---- the previous branch target (D17.6.3.1) ---- */

static uint64_t code_address(uint64_t address, unsigned el, unsigned security)
{
    uint64_t ns = security == SPEX_NONSECURE || security == SPEX_REALM;
    uint64_t nse = security == SPEX_REALM || security == SPEX_ROOT;
    return ns << 63 | (uint64_t)el << 61 | nse << 60 | (address & BITS(55, 0));
}

/* Notes a taken, retired branch in program order that later samples may refer to. */
static void note_branch(struct spex_spu *u, const struct spex_op *op, const struct spex_outcome *o,
                        uint64_t pc, uint64_t order, bool enabled)
{
    const struct spu_choices *c = &u->config.choices;
    uint64_t target = code_address(o->target, o->target_el, o->target_security);
    bool counts = true;
    if (o->flags & (SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN) || order < u->w.previous_order)
        return;
    if (op->kind != SPEX_OP_EXCEPTION && !spu_executed(u, o->flags))
        return;
    switch (op->kind) {
    case SPEX_OP_BRANCH:
        if (op->flags & SPEX_OPF_COND && !(o->flags & SPEX_OUT_PASSED))
            return;
        break;
    case SPEX_OP_ERET:
        counts = c->pbt_eret;
        break;
    case SPEX_OP_EXCEPTION:
        counts = c->pbt_exception;
        break;
    case SPEX_OP_ISB:
        if (!c->isb_branch)
            return;
        counts = c->pbt_csync;
        target = code_address(pc + 4, (unsigned)u->w.el, (unsigned)u->w.security);
        break;
    default:
        return;
    }
    u->w.previous_valid = counts && enabled;
    u->w.previous = target;
    u->w.previous_order = order;
}

void spex_spu_note_branch(struct spex_spu *u, const struct spex_op *op,
                          const struct spex_outcome *outcome)
{
    assert(u && op && outcome);
    if (u->quiet.wants_branches)
        note_branch(u, op, outcome, outcome->target - 4, ++u->w.order, u->w.enabled);
}

/* ---- a sampled operation ---- */

static void take_time(struct spex_spu *u, struct slot *slot)
{
    uint64_t count = 0;
    bool running = u->config.host.counter && u->config.host.counter(u->config.host.user, &count);
    slot->present |= SPEX_HAS_TIMESTAMP;
    slot->time = count - slot->time_offset;
    if (running)
        return;
    if (u->config.choices.counter_disabled)
        slot->time = u->config.choices.unknown_timestamp;
    else
        slot->present &= ~(uint64_t)SPEX_HAS_TIMESTAMP;
}

void spu_now_compute(struct spex_spu *u)
{
    struct slot *slot = &u->now.slot;
    *slot = (struct slot){.busy = 1,
                          .pc = code_address(0, (unsigned)u->w.el, (unsigned)u->w.security),
                          .el = u->w.el,
                          .security = u->w.security,
                          .time_kind = CollectTimeStamp(u),
                          .physical = CollectPhysicalAddress(u),
                          .el2_enabled = StatisticalProfilingEnabled(u, 2)};
    slot->present = (CollectContextIDR1(u) ? SPEX_HAS_CONTEXT_EL1 : 0u) |
                    (CollectContextIDR2(u) ? SPEX_HAS_CONTEXT_EL2 : 0u);
    slot->time_offset = spu_time_offset(u, slot->time_kind);
    spu_store_init(u, &u->now.store);
    u->now.discard = spu_discard_mode(u);
    u->now.buffer_enabled = ProfilingBufferEnabled(u);
    u->now.known = true;
}

/* Sets the values that are fixed when the operation is selected (DAT-189). */
static void slot_start(struct spex_spu *u, struct slot *slot, uint64_t pc)
{
    struct words *w = &u->w;
    spu_sample_now(u);
    *slot = u->now.slot;
    slot->pc |= pc & BITS(55, 0);
    slot->context[0] = w->eff[R_CONTEXTIDR_EL1];
    slot->context[1] = w->eff[R_CONTEXTIDR_EL2];
    if (slot->time_kind != TIME_NONE && u->config.choices.timestamp_at == TIMESTAMP_SELECTION)
        take_time(u, slot);
    if (u->config.features.PBT && w->previous_valid) {
        slot->present |= SPEX_HAS_PREV_TARGET;
        slot->previous = w->previous;
    }
    slot->order = ++w->order;
}

int spex_spu_begin(struct spex_spu *u, uint64_t pc, uint32_t flags)
{
    assert(u);
    spu_sample_settle(u);
    if (!u->w.enabled || !spex_spu_member(u, flags))
        return SPEX_SPU_NOT_SAMPLED;
    u->pop++;
    bool selected = to_collect(u);
    spu_sample_plan(u);
    if (!selected)
        return SPEX_SPU_NOT_SAMPLED;
    tell_population(u);
    for (unsigned i = 0; i < u->config.choices.in_flight; i++) {
        if (!u->w.slot[i].busy) {
            slot_start(u, &u->w.slot[i], pc);
            return (int)i;
        }
    }
    SPESampleCollision(u);
    return SPEX_SPU_NOT_SAMPLED;
}

void spex_spu_abandon(struct spex_spu *u, int slot)
{
    assert(slot >= 0 && slot < SLOTS && u->w.slot[slot].busy);
    u->w.slot[slot].busy = 0;
}

/* SPECompleteSample. */
static void complete(struct spex_spu *u, struct slot *slot, const struct spex_op *op,
                     const struct spex_outcome *outcome)
{
    struct sample sample;
    uint8_t bytes[SPEX_RECORD_MAX];
    slot->busy = 0;
    if (u->quiet.wants_branches)
        note_branch(u, op, outcome, slot->pc & BITS(55, 0), slot->order, true);
    if (slot->time_kind != TIME_NONE && u->config.choices.timestamp_at == TIMESTAMP_COMPLETION)
        take_time(u, slot);
    spu_pmu(u, SPEX_PMU_SAMPLE_FEED, 1);
    SPECollect(u, slot, op, outcome, &sample);
    spu_sample_now(u);
    if (!sample.captured || !SPECollectRecord(u, &sample) || u->now.discard)
        return;
    size_t size = SPEConstructRecord(u, &sample, bytes);
    spu_buffer_record(u, bytes, size);
    if (u->config.host.trigger)
        u->config.host.trigger(u->config.host.user);
}

void spex_spu_complete(struct spex_spu *u, int slot, const struct spex_op *op,
                       const struct spex_outcome *outcome)
{
    assert(slot >= 0 && slot < SLOTS && u->w.slot[slot].busy);
    spex_spu_flush(u);
    complete(u, &u->w.slot[slot], op, outcome);
}

bool spex_spu_op(struct spex_spu *u, uint64_t pc, const struct spex_op *op,
                 const struct spex_outcome *outcome)
{
    assert(u && op && outcome);
    int slot = spex_spu_begin(u, pc, outcome->flags);
    if (slot == SPEX_SPU_NOT_SAMPLED) {
        if (u->quiet.wants_branches)
            note_branch(u, op, outcome, pc, ++u->w.order, u->w.enabled);
        return false;
    }
    complete(u, &u->w.slot[slot], op, outcome);
    return true;
}
