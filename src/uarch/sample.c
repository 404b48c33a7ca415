/* What is worked out only when a sample completes: events, data source, latencies. */
#include "uarch/uarch.h"

#include "base/bits.h"

#define EVENT(name) BIT(SPEX_EV_##name)

static uint64_t ticks_of(const struct spex_uarch_core *hot)
{
    return hot->clock_base + ((uint64_t)hot->counter & ((1ull << SPEX_UARCH_OPS_SHIFT) - 1));
}

/* Cycles until a line that missed lately arrives; 0 if it is here. */
static uint32_t still_coming(const struct uarch_core *core, uint64_t line)
{
    uint64_t now = ticks_of(core->hot);
    for (unsigned i = 0; i < UARCH_MISSES; i++) {
        const struct uarch_miss *m = &core->miss[i];
        if (m->line == line && m->ready > now)
            return (uint32_t)((m->ready - now) / SPEX_UARCH_TICK);
    }
    return 0;
}

/*
 * D17.6.4.6: a penalty that no other address would avoid is not the alignment's. An access longer
 * than the boundary crosses some of them wherever it is; the best address crosses the fewest.
 */
static bool misaligned(const struct spex_uarch_config *c, const struct spex_op *op, uint64_t va,
                       unsigned size)
{
    uint32_t boundary = op->flags & SPEX_OPF_LOAD ? c->align_load : c->align_store;
    uint32_t best = (size ? size - 1 : 0) | (boundary - 1); /* the last byte that costs no more */
    return (va & (boundary - 1)) + size > best + 1;
}

void uarch_outcome(const struct spex_uarch_config *c, const struct spex_op *op, uint64_t va,
                   unsigned size, spex_uarch_result r, struct spex_access *access)
{
    enum spex_uarch_level level = spex_uarch_result_level(r);
    uint64_t events = EVENT(L1D_ACCESS) | EVENT(TLB_ACCESS);
    if (level != SPEX_UARCH_L1)
        events |= EVENT(L1D_MISS);
    if (r & SPEX_UARCH_WALK)
        events |= EVENT(TLB_WALK);
    if (level > SPEX_UARCH_L2)
        events |= EVENT(LLC_ACCESS);
    if (level > SPEX_UARCH_LLC)
        events |= EVENT(LLC_MISS);
    if (r & SPEX_UARCH_SOCKET)
        events |= EVENT(REMOTE);
    if (misaligned(c, op, va, size)) /* D17.6.4.6: flag and penalty go together */
        events |= EVENT(MISALIGNED);
    access->flags &= (uint16_t)~SPEX_ACC_SOURCE;
    access->data_source = 0;
    if (op->flags & SPEX_OPF_LOAD) { /* for these, 0 also means that it was not a load */
        if (level != SPEX_UARCH_L1)
            events |= EVENT(L2D_ACCESS);
        if (level > SPEX_UARCH_L2)
            events |= EVENT(L2D_MISS);
        if (r & SPEX_UARCH_MODIFIED)
            events |= EVENT(MODIFIED);
        if (r & SPEX_UARCH_RECENT)
            events |= EVENT(RECENT);
        if (r & SPEX_UARCH_SNOOPED)
            events |= EVENT(SNOOPED);
        access->flags |= SPEX_ACC_SOURCE;
        if (r & SPEX_UARCH_RECENT) /* a line on its way: where it comes from */
            level = (enum spex_uarch_level)(r >> 13 & 7);
        access->data_source = uarch_source(c->sources, level, r);
    }
    access->events = events;
    access->start = 0;
    access->translation = spex_uarch_result_translation(r);
    access->memory = spex_uarch_result_latency(r);
}

spex_uarch_result spex_uarch_access(const struct spex_uarch_core *hot, const struct spex_op *op,
                                    uint64_t va, unsigned size, spex_uarch_result r,
                                    struct spex_access *access)
{
    const struct uarch_core *core = hot->rest;
    const struct spex_uarch_config *c = &core->model->config;
    uint32_t remaining;
    if (c->none) {
        access->events = 0;
        access->start = access->translation = access->memory = 0;
        access->data_source = 0;
        access->flags &= (uint16_t)~SPEX_ACC_SOURCE;
        return 0;
    }
    if (op->flags & SPEX_OPF_LOAD && spex_uarch_result_level(r) == SPEX_UARCH_L1 &&
        !(r & (SPEX_UARCH_SPLIT | SPEX_UARCH_CONTENDED)) &&
        (remaining = still_coming(core, va & ~63ull)) > c->l1d_latency) {
        r |= SPEX_UARCH_RECENT;
        r = (r & ~(0xffffull << 16)) | (uint64_t)(remaining > 0xffff ? 0xffff : remaining) << 16;
    }
    r &= ~(spex_uarch_result)SPEX_UARCH_SPLIT; /* two lines may be the best that there is */
    if (misaligned(c, op, va, size)) {
        r |= SPEX_UARCH_SPLIT;
        if (!spex_uarch_result_latency(r))
            r |= (uint64_t)c->l1d_latency << 16;
    }
    uarch_outcome(c, op, va, size, r, access);
    return r;
}

/* ---- replay ---- */

struct step {
    const struct spex_op *op;
    uint32_t sequence;
    uint16_t insn;
    bool after_mispredict;
};

/* The operations up to and with the sampled one: fills steps from its end, returns how many. */
static unsigned collect(const struct spex_uarch_core *hot, uint32_t sequence, unsigned insn,
                        struct step steps[UARCH_REPLAY])
{
    struct step *step = steps + UARCH_REPLAY;
    uint32_t oldest = hot->sequence - (SPEX_UARCH_RING - 1);
    for (uint32_t s = sequence; step > steps; s--) {
        uintptr_t word = hot->ring[s % SPEX_UARCH_RING];
        const struct spex_uarch_block *block = (const void *)(word & ~(uintptr_t)1);
        if (!block->ops)
            break;
        unsigned i = s == sequence ? insn + 1 : block->count;
        while (i > 0 && step > steps) {
            i--;
            *--step = (struct step){&block->ops[i], s, (uint16_t)i, i == 0 && (word & 1)};
        }
        if (s == oldest)
            break;
    }
    return (unsigned)(steps + UARCH_REPLAY - step);
}

static bool not_pipelined(uint8_t exec)
{
    return exec == SPEX_EXEC_DIV || exec == SPEX_EXEC_FP_DIV || exec == SPEX_EXEC_FP_SQRT;
}

static inline uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* What the misses of a step that was not sampled took; *first: the next miss to look at. */
static void missed(const struct uarch_core *core, const struct step *step, bool sampled,
                   uint32_t *first, uint32_t *data, uint32_t *translation)
{
    for (; *first != core->miss_next; ++*first) {
        const struct uarch_miss *m = &core->miss[*first % UARCH_MISSES];
        int32_t order = (int32_t)(m->sequence - step->sequence);
        if (order > 0 || (order == 0 && m->insn > step->insn))
            break;
        if (order < 0 || m->insn < step->insn || sampled)
            continue;
        *data = later(*data, m->latency);
        *translation = later(*translation, m->translation);
    }
}

void spex_uarch_replay(const struct spex_uarch_core *hot, uint32_t sequence, unsigned insn,
                       spex_uarch_result result, struct spex_outcome *outcome)
{
    const struct uarch_core *core = hot->rest;
    const struct spex_uarch *model = core->model;
    const struct spex_uarch_config *c = &model->config;
    struct step window[UARCH_REPLAY];
    uint32_t issued[UARCH_REPLAY];
    uint32_t ready[256] = {0},
             busy[SPEX_EXEC_CLASS_COUNT] = {0}; /* SPEX_REG_NONE is always ready */
    unsigned count = collect(hot, sequence, insn, window);
    const struct step *steps = window + UARCH_REPLAY - count;
    uint32_t cycle = 0, in_cycle = 0, branch_done = 0;
    uint32_t first = core->miss_next > UARCH_MISSES ? core->miss_next - UARCH_MISSES : 0;
    outcome->total = outcome->issue = 1;
    for (unsigned i = 0; i < count; i++) {
        const struct spex_op *op = steps[i].op;
        bool sampled = i + 1 == count;
        uint32_t start = cycle;
        if (steps[i].after_mispredict && branch_done + c->mispredict > start)
            start = branch_done + c->mispredict;
        if (i >= c->window && issued[i - c->window] > start)
            start = issued[i - c->window];
        if (start > cycle) {
            cycle = start;
            in_cycle = 0;
        }
        uint32_t dispatch = cycle, issue = dispatch + 1;
        issue = later(issue,
                      later(later(ready[op->src[0]], ready[op->src[1]]),
                            later(later(ready[op->src[2]], ready[op->src[3]]), ready[op->src[4]])));
        if (not_pipelined(op->exec) && busy[op->exec] > issue)
            issue = busy[op->exec];
        issued[i] = issue;

        uint32_t latency = model->latency[op->exec], translation = 0;
        if (op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE)) {
            uint32_t data = 0;
            if (sampled) {
                data = spex_uarch_result_latency(result);
                translation = spex_uarch_result_translation(result);
            }
            missed(core, &steps[i], sampled, &first, &data, &translation);
            /* ST64BV waits for its status (D17.6.4.4). */
            bool waits = op->flags & (SPEX_OPF_LOAD | SPEX_OPF_ATOMIC | SPEX_OPF_STATUS_RESULT);
            if (waits && data > c->l1d_latency)
                latency += data - c->l1d_latency;
            latency += translation;
            if (sampled && (result & SPEX_UARCH_SPLIT))
                latency += c->split_latency;
        }
        uint32_t done = issue + latency;
        for (unsigned d = 0; d < 4; d++)
            ready[op->dst[d]] = done;
        if (op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE))
            for (unsigned d = 0; d < 4; d++)
                if (account_writes_base(op, d))
                    ready[op->dst[d]] = issue + c->lat_alu;
        ready[SPEX_REG_NONE] = 0;
        if (not_pipelined(op->exec))
            busy[op->exec] = done;
        if (op->kind == SPEX_OP_BRANCH)
            branch_done = done;
        if (sampled) {
            outcome->issue = issue - dispatch;
            outcome->total = done - dispatch;
        }
        if (op->exec == SPEX_EXEC_BARRIER && done > cycle) {
            cycle = done;
            in_cycle = 0;
        } else if (++in_cycle >= c->width) {
            cycle++;
            in_cycle = 0;
        }
    }
}
