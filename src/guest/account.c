/*
 * Consumer side of the full model: reads the words of the rings, runs the timing model, asks the
 * units about samples and keeps the exact counts.
 */
#include "account.h"

#include "need.h"
#include "plugin.h"
#include "region.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ACCESSES = 1 << 15 };

/* Scratch of the one thread that runs the model. */
static struct {
    struct account_insn insns[4096];
    uarch_result results[MAX_ACCESSES];
    uint64_t words[MAX_ACCESSES]; /* a block's accesses, sorted when they were out of order */
} scratch;

/* When the waker of each ticket woke another thread. */
static struct {
    uint64_t ticket, clock;
} wakes[4096];

static uint64_t word_at(const struct flow *f, uint64_t at)
{
    return f->ring[at % FLOW_RING];
}

static struct block *block_of(uint64_t word)
{
    char *timing = (char *)timing_block_of(word);
    return (struct block *)(timing - offsetof(struct block, timing));
}

static enum flow_mark mark_of(uint64_t word)
{
    return (enum flow_mark)(word >> 48 & 0x7ff);
}

uint64_t account_clock(const struct flow *f)
{
    return __atomic_load_n(&f->clock, __ATOMIC_RELAXED);
}

static void publish_clock(struct flow *f)
{
    __atomic_store_n(&f->clock, timing_clock(f->core), __ATOMIC_RELAXED);
}

uint64_t account_busy(const struct flow *f)
{
    return timing_clock(f->core) - f->waited;
}

/* Lets the flow wait until a time. */
static void reach(struct flow *f, uint64_t time)
{
    f->waited += timing_reach(f->core, time);
}

/* ---- samples ---- */

static void complete_pending(struct flow *f)
{
    struct vcpu *v = f->vcpu;
    int slot = v->pending.slot;
    if (slot == NO_SLOT)
        return;
    v->pending.slot = NO_SLOT;
    if (v->pending.done > v->task.now)
        v->task.now = v->pending.done;
    task_complete(&v->task, slot, v->pending.op, &v->pending.outcome);
}

/* One execution of a block, with everything that is known about it. */
struct execution {
    const struct block *block;
    struct timing_run *run;
    bool fault; /* the last executed instruction raised an exception */
};

/* The heap's time when the words up to `end` were written. */
static uint64_t heap_time_at(struct flow *f, uint64_t end)
{
    uint64_t count = __atomic_load_n(&f->heap_count, __ATOMIC_ACQUIRE);
    for (; f->heap_read < count && f->heap[f->heap_read % FLOW_HEAP].at < end; f->heap_read++)
        f->heap_time = f->heap[f->heap_read % FLOW_HEAP].time;
    return f->heap_time;
}

static void fill_parts(struct flow *f, const struct execution *e, uint32_t at)
{
    struct vcpu *v = f->vcpu;
    const struct insn *insn = &e->block->insns[at];
    struct spex_outcome *out = &v->pending.outcome;
    bool prefetch = is_prefetch(op_of(insn));
    unsigned count = 0;
    uint64_t first = f->at + 1;
    for (size_t i = 0; i < e->run->access_count; i++) {
        if (e->run->access[i] >> 48 != at || count == PARTS)
            continue;
        uint64_t va = e->run->access[i] & FLOW_VALUE;
        struct spex_access *part = &v->pending.parts[count++];
        *part = (struct spex_access){
            .va = va, .pas = SPEX_NONSECURE, .flags = SPEX_ACC_VA | SPEX_ACC_DONE};
        if (prefetch) {
            part->flags = SPEX_ACC_VA;
            continue;
        }
        unsigned size = op_of(insn)->kind == SPEX_OP_DC_ZVA ? 64 : insn->size;
        timing_access_outcome(f->core, op_of(insn), va, size, e->run->results[i], part);
    }
    while (insn->sve && count && word_at(f, first) >> 48 != at)
        first++;
    if (insn->sve)
        out->events |= sve_events(insn, count, flow_partial(f->ring)[first % FLOW_RING]);
    if (count)
        out->access[0] = v->pending.parts[0];
    if (count && plugin.user.allocs)
        allocs_look(v, v->pending.parts[0].va, heap_time_at(f, f->scan));
    if (count > 1) {
        out->parts = v->pending.parts;
        out->part_count = count;
    }
}

/* Called when the unit has taken operation `at` of the block. */
static void take(struct flow *f, const struct execution *e, uint32_t at, int slot)
{
    struct vcpu *v = f->vcpu;
    const struct insn *insn = &e->block->insns[at];
    const struct spex_op *op = op_of(insn);
    const struct account_insn *time = &e->run->insns[at];
    struct spex_outcome *out = &v->pending.outcome;
    bool exception = e->fault && at + 1 == e->run->executed;
    turns_sampled(v, &f->stack, pc_of(insn));
    *out = (struct spex_outcome){.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED,
                                 .issue = (uint32_t)(time->issue - time->dispatch),
                                 .total = (uint32_t)(time->done - time->dispatch)};
    if (exception)
        out->flags = SPEX_OUT_EXCEPTION;
    else if (op->kind == SPEX_OP_EXCEPTION)
        out->flags |= SPEX_OUT_EXCEPTION;
    if (e->block->streaming)
        out->flags |= SPEX_OUT_STREAMING;
    if (op->kind == SPEX_OP_BRANCH && !exception) {
        if (op->flags & SPEX_OPF_COND && e->run->next == e->block->timing.next)
            out->flags &= ~(uint32_t)SPEX_OUT_PASSED;
        out->target = e->run->next;
        out->target_security = SPEX_NONSECURE;
        if (e->run->mispredicted)
            out->events |= UINT64_C(1) << 7;
    }
    if (!exception)
        fill_parts(f, e, at);
    sample_unseen(v, op, out, exception);
    v->pending.slot = slot;
    v->pending.op = sample_op(op, out);
    v->pending.done = time->done;
}

/* See sample.c: false if the unit is off, or has just been switched on. */
static bool in_region(struct flow *f)
{
    struct vcpu *v = f->vcpu;
    bool on = region_on(plugin.run, timing_clock(f->core));
    if (on && !v->off)
        return true;
    if (on) {
        uint64_t until;
        v->off = false;
        task_go_on(&v->task);
        until = spex_spu_until(v->task.unit);
        f->left = until < NEVER ? until : NEVER;
        return false;
    }
    if (!v->off) {
        complete_pending(f);
        task_pause(&v->task);
        v->off = true;
    }
    f->left = REGION_POLL;
    return false;
}

/* The block ran `executed` operations: asks the unit about those that it may take. */
static void sample(struct flow *f, const struct execution *e)
{
    struct vcpu *v = f->vcpu;
    struct spex_spu *unit = v->task.unit;
    uint64_t at = f->left;
    if (!unit)
        at = NEVER;
    else if (plugin.run->regions && at < e->run->executed && !in_region(f))
        return;
    while (at < e->run->executed) {
        const struct account_insn *time = &e->run->insns[at];
        spex_spu_pass(unit, spex_spu_until(unit));
        if (v->pending.done <= time->dispatch)
            complete_pending(f);
        if (time->dispatch > v->task.now)
            v->task.now = time->dispatch;
        if (f->branch && spex_spu_wants_branches(unit)) {
            struct spex_outcome taken = {.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED,
                                         .target = f->branch_target,
                                         .target_security = SPEX_NONSECURE};
            spex_spu_note_branch(unit, f->branch, &taken);
        }
        int slot = spex_spu_begin(unit, e->block->timing.pc + 4 * at, 0);
        if (slot != SPEX_SPU_NOT_SAMPLED) {
            complete_pending(f); /* a unit that takes several at a time */
            take(f, e, (uint32_t)at, slot);
        }
        uint64_t until = spex_spu_until(unit);
        at += 1 + (until < NEVER ? until : NEVER);
    }
    f->left = at - e->run->executed;
}

/* ---- exact counts ---- */

/* Counts by instruction, and in total for the thread. */
static void count(struct run_truth *rows, const struct execution *e, uint64_t sum[RUN_COUNTS])
{
    const struct timing_run *run = e->run;
    const struct block *block = e->block;
    rows->count++;
    sum[RUN_OPERATIONS] += run->executed;
    for (uint32_t i = run->executed; i < block->timing.count; i++)
        block->insns[i].truth->cut++;
    for (size_t i = 0; i < run->access_count; i++) {
        struct run_truth *t = block->insns[run->access[i] >> 48].truth;
        uarch_result r = run->results[i];
        bool l1 = uarch_result_level(r) != SPEX_UARCH_L1;
        bool l2 = uarch_result_level(r) > SPEX_UARCH_L2;
        bool llc = uarch_result_level(r) > SPEX_UARCH_LLC, walk = r & SPEX_UARCH_WALK;
        t->l1_miss += l1;
        t->l2_miss += l2;
        t->llc_miss += llc;
        t->walk += walk;
        sum[RUN_L1_MISS] += l1;
        sum[RUN_L2_MISS] += l2;
        sum[RUN_LLC_MISS] += llc;
        sum[RUN_WALK] += walk;
    }
    if (run->cut || block->timing.end == SPEX_UARCH_END_NONE)
        return;
    struct run_truth *last = block->insns[block->timing.count - 1].truth;
    bool taken = block->timing.end != SPEX_UARCH_END_COND || run->next != block->timing.next;
    last->taken += taken;
    last->mispredict += run->mispredicted;
    sum[RUN_TAKEN] += taken;
    sum[RUN_MISPREDICT] += run->mispredicted;
}

/* ---- words ---- */

void account_branch(struct flow *f, const struct timing_block *timing, uint64_t next)
{
    if (timing->end > SPEX_UARCH_END_COND ||
        (timing->end == SPEX_UARCH_END_COND && next != timing->next)) {
        f->branch = &timing->ops[timing->count - 1];
        f->branch_target = next;
    }
}

struct timing_run account_ended(const struct block *block, uint64_t end)
{
    const struct timing_block *timing = &block->timing;
    struct timing_run run = {.executed = timing->count, .next = timing->next};
    if (end >> 60 == FLOW_BLOCK >> 60) {
        run.next = block_of(end)->timing.pc;
    } else if (end && mark_of(end) == FLOW_REGION) {
        run.next = end & FLOW_VALUE & ~UINT64_C(3);
    } else if (end && mark_of(end) == FLOW_SIGNAL) {
        const struct flow_signal *signal =
            (const struct flow_signal *)(uintptr_t)(end & FLOW_VALUE);
        run.next = signal->pc;
        run.cut = signal->fault && signal->pc - timing->pc < 4ull * timing->count;
        if (run.cut)
            run.executed = (uint32_t)(signal->pc - timing->pc) / 4 + 1;
    }
    run.mispredicted = end & FLOW_WRONG;
    return run;
}

bool account_judge(struct flow *f, const struct block *block, uint64_t mark)
{
    struct timing_run run = account_ended(block, mark);
    return !run.cut && timing_predict(f->core, &block->timing, run.next);
}

static uint64_t *cycles_of(const void *insns, uint32_t i)
{
    return &((const struct insn *)insns)[i].truth->cycles;
}

static uint64_t *nobodys(const void *context, uint32_t insn)
{
    (void)insn;
    return (uint64_t *)(uintptr_t)context;
}

/* Charges the cycles of a block that has run to its instructions. clock: the time before it ran. */
static void blame_block(struct flow *f, const struct block *block, const struct timing_run *run,
                        uint64_t clock, bool counted)
{
    const struct blame_block ran = {.insns = run->insns,
                                    .executed = run->executed,
                                    .wrong = run->mispredicted,
                                    .cut = run->cut,
                                    .ready = run->ready,
                                    .ports = run->ports,
                                    .clock = clock};
    if (counted)
        blame_count(f->cycles, &plugin.run->model, &ran, cycles_of, block->insns);
    else
        blame_count(f->cycles, &plugin.run->model, &ran, nobodys, &f->uncounted);
}

static void run_block(struct flow *f, struct block *block, struct timing_run *run)
{
    struct timing_block *timing = &block->timing;
    struct execution e = {.block = block, .run = run, .fault = run->cut};
    uint64_t before = timing_clock(f->core);
    if (run->executed < timing->count)
        f->vcpu->task.shared->cut++;
    if (__builtin_expect(f->left >= run->executed && !block->truth, 1)) {
        timing_run(f->core, timing, run);
        f->left -= run->executed;
    } else {
        uint64_t clock = timing_clock(f->core);
        run->insns = scratch.insns;
        run->results = scratch.results;
        timing_run(f->core, timing, run);
        if (block->truth) {
            bool counted = !plugin.run->truth_parts || region_on(plugin.run, clock);
            if (counted)
                count(block->truth, &e, f->made.sum);
            blame_block(f, block, run, clock, counted);
            calls_settle(&f->made, f->cycles);
        }
        sample(f, &e);
    }
    account_branch(f, timing, run->next);
    if (f->detail.learns)
        detail_learn(&f->detail, timing, run, timing_clock(f->core) - before);
}

/* Enters the block: passes on the register words at its entry; returns how many there are. */
static size_t enter(struct flow *f, const struct block *block, const uint64_t *words, size_t most)
{
    uint64_t value[FLOW_REGISTERS] = {0};
    size_t n = 0;
    const struct block *last = f->stack.last;
    f->stack.last = block;
    for (; n < most && n < FLOW_REGISTERS && words[n] >> 60 == FLOW_REGISTER >> 60; n++)
        value[(words[n] >> 48 & 0xfff) % FLOW_REGISTERS] = words[n] & FLOW_VALUE;
    if (n)
        turns_follow(&f->stack, last, block->timing.pc, value[FLOW_SP], value[FLOW_X29],
                     value[FLOW_X30]);
    if (n && plugin.user.truth)
        calls_follow(&f->made, &f->stack, last->turn, block->timing.pc, f->cycles->number);
    return n;
}

/*
 * --stacks: passes on the registers at the entry of the next block. False if there are some, and
 * timing_follow() must not run the block.
 */
static bool enter_next(struct flow *f, struct timing_words *w)
{
    const uint64_t *end = w->at;
    if (end == w->stop || *end >> 60 != FLOW_REGISTER >> 60)
        return true;
    while (end < w->stop && (*end >> 60 == 0 || *end >> 60 == FLOW_REGISTER >> 60))
        end++;
    if (end == w->stop || *end >> 60 != FLOW_BLOCK >> 60 || w->block->apart ||
        w->instructions < w->block->count)
        return false;
    w->at += enter(f, block_of(w->at[-1]), w->at, (size_t)(end - w->at));
    return true;
}

/*
 * The common case, for up to `most` words: whole blocks that follow each other, have all their
 * words in one piece, and need neither the unit nor exact counts.
 */
static void quick_blocks(struct flow *f, uint64_t limit, uint64_t most)
{
    size_t place = f->at % FLOW_RING, ready = (size_t)(f->seen - f->at);
    const uint64_t *begin = f->ring + place, *at = begin;
    if (ready > FLOW_RING - place)
        ready = FLOW_RING - place;
    struct timing_words w = {
        .stop = begin + (ready < most ? ready : most), .limit = limit, .instructions = f->left};
    while (at < w.stop && *at >> 60 == FLOW_BLOCK >> 60) {
        w.block = timing_block_of(*at);
        w.at = at + 1;
        if (plugin.user.stacks && !enter_next(f, &w))
            break;
        const uint64_t *first = w.at;
        timing_follow(f->core, &w);
        if (w.at == first)
            break;
        at = w.at - 1;
        if (plugin.user.stacks) {
            const uint64_t *last = at - 1;
            while (*last >> 60 != FLOW_BLOCK >> 60)
                last--;
            f->stack.last = block_of(*last);
        }
        if (timing_clock(f->core) > limit)
            break;
    }
    f->left = w.instructions;
    if (w.taken) {
        f->branch = &w.taken->ops[w.taken->count - 1];
        f->branch_target = w.target;
    }
    f->at += (uint64_t)(at - begin);
}

static void do_signal(struct flow *f, struct flow_signal *signal)
{
    struct vcpu *v = f->vcpu;
    if (v->task.unit)
        spex_spu_exception_taken(v->task.unit);
    if (plugin.user.stacks)
        turns_signal(&f->stack, signal);
    free(signal);
}

static void do_signal_end(struct flow *f, struct flow_signal *signal)
{
    stack_signal_end(&f->stack, signal->pc, signal->sp, signal->x30);
    f->stack.last = &turns_none;
    free(signal);
}

static void do_mark(struct flow *f, uint64_t word)
{
    struct vcpu *v = f->vcpu;
    uint64_t value = word & FLOW_VALUE;
    switch (mark_of(word)) {
    case FLOW_CALL: /* nothing stays in flight */
        complete_pending(f);
        f->idle = true;
        elapsed_enter(&f->elapsed, (struct elapsed_syscall *)(uintptr_t)value,
                      timing_clock(f->core));
        break;
    case FLOW_RETURN:
        timing_spend(f->core, value);
        f->idle = false;
        elapsed_leave(&f->elapsed, timing_clock(f->core), value);
        break;
    case FLOW_LOG: {
        struct flow_log *log = (struct flow_log *)(uintptr_t)value;
        log->event.time = timing_clock(f->core);
        task_log(&v->task, &log->event, log->text);
        free(log);
        break;
    }
    case FLOW_WAKE:
        wakes[value % 4096].ticket = value;
        wakes[value % 4096].clock = timing_clock(f->core);
        break;
    case FLOW_WOKEN:
        reach(f, wakes[value % 4096].clock);
        break;
    case FLOW_REACH:
        reach(f, value);
        break;
    case FLOW_SLEPT:
        reach(f, timing_clock(f->core) + value);
        break;
    case FLOW_REGION:
        __atomic_store_n(&plugin.run->disabled, !(value & 1), __ATOMIC_RELAXED);
        if (v->task.unit)
            in_region(f);
        break;
    case FLOW_SIGNAL:
        do_signal(f, (struct flow_signal *)(uintptr_t)value);
        break;
    case FLOW_SIGNAL_END:
        do_signal_end(f, (struct flow_signal *)(uintptr_t)value);
        break;
    }
    if (timing_clock(f->core) > v->task.now)
        v->task.now = timing_clock(f->core);
    publish_clock(f);
}

/* The end of the block at f->at, if it is there. */
static bool find_end(struct flow *f)
{
    if (f->scan <= f->at)
        f->scan = f->at + 1;
    for (;;) {
        for (; f->scan < f->seen; f->scan++) {
            uint64_t tag = word_at(f, f->scan) >> 60;
            if (tag && tag != FLOW_REGISTER >> 60)
                return true;
        }
        uint64_t head = __atomic_load_n(&f->head, __ATOMIC_ACQUIRE);
        if (head == f->seen)
            return f->finish || f->end;
        f->seen = head;
    }
}

bool account_ready(struct flow *f)
{
    if (f->at == f->seen)
        f->seen = __atomic_load_n(&f->head, __ATOMIC_ACQUIRE);
    if (f->at == f->seen)
        return false;
    uint64_t word = word_at(f, f->at);
    if (word >> 60 == FLOW_BLOCK >> 60)
        return find_end(f);
    if (mark_of(word) == FLOW_WOKEN) {
        uint64_t ticket = word & FLOW_VALUE;
        return wakes[ticket % 4096].ticket >= ticket || f->finish;
    }
    return true;
}

/* The accesses of the block; those reported at its entry come first and must be sorted in. */
static const uint64_t *accesses_of(const struct flow *f, uint64_t first, bool sort, size_t *count)
{
    size_t n = (size_t)(f->scan - first), place = first % FLOW_RING;
    if (n > MAX_ACCESSES)
        n = MAX_ACCESSES;
    *count = n;
    if (place + n <= FLOW_RING && !sort)
        return &f->ring[place];
    for (size_t i = 0; i < n; i++) {
        uint64_t word = word_at(f, first + i);
        size_t to = i;
        for (; sort && to && scratch.words[to - 1] >> 48 > word >> 48; to--)
            scratch.words[to] = scratch.words[to - 1];
        scratch.words[to] = word;
    }
    return scratch.words;
}

static bool step(struct flow *f)
{
    if (!account_ready(f))
        return false;
    uint64_t word = word_at(f, f->at);
    if (word >> 60 != FLOW_BLOCK >> 60) {
        do_mark(f, word);
        f->at++;
        return true;
    }
    struct block *block = block_of(word);
    uint64_t end = f->scan < f->seen ? word_at(f, f->scan) : f->end;
    struct timing_run run = account_ended(block, end);
    if (!end) /* the last block, whose branch was not judged */
        run.mispredicted = timing_predict(f->core, &block->timing, run.next);
    uint64_t first = f->at + 1, words[FLOW_REGISTERS];
    if (plugin.user.stacks) {
        size_t most = f->scan - first < FLOW_REGISTERS ? f->scan - first : FLOW_REGISTERS;
        for (size_t i = 0; i < most; i++)
            words[i] = word_at(f, first + i);
        first += enter(f, block, words, most);
    }
    run.access = accesses_of(f, first, block->early, &run.access_count);
    run_block(f, block, &run);
    f->at = f->scan;
    return true;
}

bool account_turn(struct flow *f, uint64_t limit, uint64_t most)
{
    uint64_t from = f->at;
    do {
        if (!f->detail.learns)
            quick_blocks(f, limit, most - (f->at - from));
        if (f->at - from >= most || (f->at != from && timing_clock(f->core) > limit))
            break;
    } while (step(f) && f->at - from < most && timing_clock(f->core) <= limit);
    publish_clock(f);
    if (plugin.user.allocs)
        heap_time_at(f, f->at);
    __atomic_store_n(&f->tail, f->at, __ATOMIC_RELEASE);
    return f->at != from;
}

/*
 * The words before `end` that make up one iteration of a loop with accesses only and no plain
 * stores.
 */
static bool waits(const struct flow *f, uint64_t end, unsigned period)
{
    bool reads = false;
    for (uint64_t at = end - period; at < end; at++) {
        uint64_t word = word_at(f, at), from = at;
        if (word >> 60)
            continue;
        while (word_at(f, from) >> 60 != FLOW_BLOCK >> 60 && from + period > at)
            from--;
        if (word_at(f, from) >> 60 != FLOW_BLOCK >> 60)
            return false;
        uint32_t flags = block_of(word_at(f, from))->timing.ops[word >> 48].flags;
        if (flags & SPEX_OPF_STORE && !(flags & SPEX_OPF_ATOMIC))
            return false;
        reads = true;
    }
    return reads;
}

bool account_spins(const struct flow *f)
{
    enum { LONGEST = 16 };
    uint64_t end = __atomic_load_n(&f->head, __ATOMIC_RELAXED);
    for (unsigned period = 2; period <= LONGEST && end >= 3 * period; period++) {
        unsigned same = 0;
        while (same < 2 * period &&
               !((word_at(f, end - 1 - same) ^ word_at(f, end - 1 - same - period)) & ~FLOW_WRONG))
            same++;
        if (same == 2 * period)
            return waits(f, end, period);
    }
    return false;
}

bool account_waits(const struct flow *f)
{
    return f->at < f->seen && word_at(f, f->at) >> 60 == FLOW_MARK >> 60 &&
           mark_of(word_at(f, f->at)) == FLOW_WOKEN;
}

void account_wait_no_more(struct flow *f)
{
    uint64_t ticket = word_at(f, f->at) & FLOW_VALUE;
    wakes[ticket % 4096].ticket = ticket;
}

void account_finish(struct flow *f)
{
    f->finish = true;
}

/* ---- life ---- */

struct flow *account_new(struct vcpu *v, int cpu)
{
    struct flow *f = need(aligned_alloc(64, (sizeof *f + 63) / 64 * 64));
    memset(f, 0, sizeof *f);
    f->vcpu = v;
    need(timing_core_new(plugin.user.timing, (unsigned)cpu, &f->core) ? NULL : f->core);
    f->stack.last = &turns_start;
    if (plugin.user.stacks)
        stack_begin(&f->stack);
    if (plugin.user.truth)
        f->cycles = need(calloc(1, sizeof *f->cycles));
    if (plugin.user.allocs) /* pages that are not touched cost nothing */
        f->heap = need(calloc(FLOW_HEAP, sizeof *f->heap));
    return f;
}

void account_begin(struct flow *f, uint64_t start)
{
    struct spex_spu *unit = f->vcpu->task.unit;
    uint64_t until = unit ? spex_spu_until(unit) : NEVER;
    f->vcpu->pending.slot = NO_SLOT;
    f->left = until < NEVER ? until : NEVER;
    f->branch = NULL;
    detail_begin(f);
    f->waited = timing_clock(f->core);
    reach(f, start);
    elapsed_begin(&f->elapsed, timing_clock(f->core));
    publish_clock(f);
}

void account_tell(struct flow *f)
{
    struct spex_spu *unit = f->vcpu->task.unit;
    complete_pending(f);
    uint64_t until = unit ? spex_spu_until(unit) : UINT64_MAX;
    detail_settle(f);
    if (until < NEVER && f->left <= until)
        spex_spu_pass(unit, until - f->left);
}

void account_save(struct flow *f)
{
    elapsed_save(&f->elapsed, &f->vcpu->task, timing_clock(f->core), 0);
}

void account_free(struct flow *f, uint64_t end)
{
    struct vcpu *v = f->vcpu;
    account_tell(f);
    elapsed_save(&f->elapsed, &v->task, timing_clock(f->core), end);
    elapsed_fini(&f->elapsed);
    if (f->cycles)
        blame_drain(f->cycles, &plugin.run->model);
    calls_end(&f->made, f->cycles);
    struct uarch_counts counts;
    timing_counts(f->core, &counts);
    if (v->task.shared)
        task_count(&v->task, &counts);
    task_end(&v->task, timing_clock(f->core));
    timing_core_free(f->core);
    stack_end(&f->stack);
}

void account_forget(struct flow *f)
{
    f->vcpu->live = false;
    f->vcpu->flow = NULL;
    timing_core_free(f->core);
    stack_end(&f->stack);
    elapsed_fini(&f->elapsed);
    free(f->heap);
    free(f->made.open);
    free(f->made.ended);
    free(f->cycles);
    free(f);
}
