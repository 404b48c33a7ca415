/* A pass over the queues of a file: one after the other in one thread, or in stages. */
#include "pass.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/stages.h"

#include <stdlib.h>
#include <string.h>

_Thread_local uint32_t analysis_order;

void piece_init(struct piece *p, size_t records)
{
    p->records = memory_get(records, sizeof *p->records);
    p->spent = memory_get(records, sizeof *p->spent);
    p->batches = memory_get(records, sizeof *p->batches);
    p->samples = memory_get(records, sizeof *p->samples);
}

void piece_fini(struct piece *p)
{
    memory_free(p->records);
    memory_free(p->spent);
    memory_free(p->batches);
    memory_free(p->samples);
}

/* Makes sure that there are at least count pieces; they are kept from pass to pass. */
static void need_pieces(struct spex_analysis *a, size_t count)
{
    while (a->piece_count < count)
        piece_init(&a->pieces[a->piece_count++], PIECE);
}

/* ---- in turn ---- */

/* Reads one queue after the other, in stages (base/stages.h): the data of each stage. */
enum { READ, SHARE, JOIN, SINKS };  /* the first sink */
enum { WORK = SINKS, PUT, SLICED }; /* a sink that takes slices: each piece is one */
struct turn {
    struct spex_analysis *analysis;
    size_t queue; /* the queue being read */
    bool open;
    enum spex_status status;
    size_t most; /* records of a piece */
    const struct spex_sink_slices *slices;
    void *items[PIECES];
};

void piece_read(struct lane *lane, struct queue *q, struct piece *p, size_t most, bool *more)
{
    const size_t batch = lane->analysis->batch;
    p->queue = q;
    p->count = p->batch_count = 0;
    while (*more && p->count + batch <= most && !(q->turn && p->count)) {
        if (q->turn) {
            q->turn = false;
            *more = ++q->stretch != q->stretch_end;
            continue;
        }
        q->records = p->records + p->count;
        *more = queue_refill(lane, q);
        p->count += q->count;
        if (q->count)
            p->batches[p->batch_count++] = (uint16_t)(q->count | q->cut * PIECE_CUT);
    }
    p->order = stretch_order(lane->analysis, q);
}

/*
 * In the batches in which records were read: shares of time do not depend on the size of a piece.
 */
void piece_share(struct lane *lane, const struct piece *p)
{
    for (size_t i = 0, at = 0, count; i < p->batch_count; i++, at += count) {
        count = p->batches[i] & (PIECE_CUT - 1);
        queue_share(lane, p->queue, p->records + at, count, p->batches[i] & PIECE_CUT,
                    p->spent + at);
    }
}

static bool read_piece(struct turn *t, struct piece *p)
{
    struct spex_analysis *a = t->analysis;
    for (p->count = 0; !p->count && t->queue < a->queue_count; t->queue += !t->open) {
        struct queue *q = &a->queues[t->queue];
        if (!t->open) { /* set what the next stages read before the queue's first piece */
            if (!queue_open(a, q, &t->status))
                return false;
            q->sources = lane_sources(&a->lane, q->model);
        }
        t->open = true;
        q->stacks = a->stack_numbers;
        q->allocs = a->alloc_numbers;
        piece_read(&a->lane, q, p, t->most, &t->open);
        if (!t->open)
            queue_close(q);
    }
    return p->count > 0;
}

static void run_slice(struct turn *t, unsigned stage, struct piece *p, unsigned thread)
{
    void *context = t->analysis->lane.sinks[0].context, *item = t->items[thread];
    if (stage == WORK) {
        t->slices->work(context, item, thread, p->samples, p->sample_count);
        t->slices->work(context, item, thread, NULL, 0);
    } else {
        struct memory_pause pause = memory_pause();
        t->slices->put(context, item);
        memory_resume(pause);
    }
}

static bool run_stage(struct turn *t, unsigned stage, unsigned thread)
{
    struct spex_analysis *a = t->analysis;
    struct piece *p = &a->pieces[thread];
    if (stage == READ)
        return read_piece(t, p);
    if (stage == SHARE) {
        piece_share(&a->lane, p);
    } else if (stage == JOIN) {
        a->lane.samples = p->samples;
        a->lane.sample_count = 0;
        join_records(&a->lane, p->queue, p->records, p->spent, p->count);
        p->sample_count = a->lane.sample_count;
    } else if (p->sample_count && t->slices) {
        run_slice(t, stage, p, thread);
    } else if (p->sample_count) {
        const struct spex_sink *sink = &a->lane.sinks[stage - SINKS];
        struct memory_pause pause = memory_pause();
        analysis_order = p->order;
        sink->call(sink->context, p->samples, p->sample_count);
        analysis_order = 0;
        memory_resume(pause);
    }
    return true;
}

static bool run_guarded(void *user, unsigned stage, unsigned thread)
{
    struct turn *t = user;
    struct spex_analysis *first = analysis_first(t->analysis);
    volatile bool more = false;
    if (first->no_memory)
        return false;
    if (!memory_guarded(memory_current(), more = run_stage(t, stage, thread)))
        analysis_no_memory(first);
    return more;
}

static enum spex_status run_in_turn(struct spex_analysis *a)
{
    /* a sink asks for a sample's stack by its index in the batch that was read last */
    bool by_batch = a->stack_numbers || a->alloc_numbers;
    struct turn turn = {.analysis = a};
    unsigned threads = by_batch || !a->options.threads ? 1 : a->options.threads;
    const bool slices = threads > 1 && a->lane.sink_count == 1 && a->lane.sinks[0].slices;
    const unsigned most = slices ? PIECES : THREADS;
    threads = threads < most ? threads : most;
    const struct stages_job job = {.user = &turn,
                                   .stages = slices ? SLICED : SINKS + (unsigned)a->lane.sink_count,
                                   .apart = slices ? 1u << WORK : 0,
                                   .run = run_guarded};
    need_pieces(a, threads);
    turn.slices = slices ? a->lane.sinks[0].slices : NULL;
    for (unsigned i = 0; slices && i < threads; i++)
        turn.items[i] = memory_get(1, turn.slices->size);
    turn.most = by_batch ? a->batch : PIECE;
    a->lane.sample_most = PIECE + 1; /* a piece is never flushed while it is being filled */
    spex_analysis_together(a, true);
    stages_run(&job, threads);
    spex_analysis_together(a, false);
    for (unsigned i = 0; slices && i < threads; i++) {
        if (turn.slices->fini)
            turn.slices->fini(turn.items[i]);
        memory_free(turn.items[i]);
    }
    return turn.status;
}

void merge_losses(struct spex_analysis *a)
{
    if (!a->info)
        return;
    a->totals.lost = a->info->lost;
    a->totals.truncated = a->info->truncated;
    a->totals.collided = a->info->collisions;
}

/* Prepares stacks and allocations if the file has them and sinks want them: room for one batch. */
static void start_stacks(struct spex_analysis *a)
{
    bool stacks = a->stacks && a->options.want & SPEX_WANT_STACK;
    bool allocs = a->allocs && a->options.want & SPEX_WANT_ALLOC;
    if (stacks)
        stacks_read(a->stacks);
    if (stacks && !a->stack_numbers)
        a->stack_numbers = memory_get(a->batch, sizeof *a->stack_numbers);
    if (allocs)
        stacks_read(a->allocs);
    if (allocs && !a->alloc_numbers)
        a->alloc_numbers = memory_get(a->batch, sizeof *a->alloc_numbers);
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        if (a->stack_numbers)
            stacks_start(a->stacks, &q->cursor_of_stacks, q->cpu);
        if (a->alloc_numbers)
            stacks_start(a->allocs, &q->cursor_of_allocs, q->cpu);
    }
}

static void start_queue(struct queue *q, bool again)
{
    queue_close(q); /* a pass that ran out of memory left it open */
    q->samples = again ? q->samples : 0;
    q->reading = q->turn = q->looking = false;
    q->stretch = 0;
    q->stretch_end = UINT32_MAX;
    q->clock = (struct clock){0};
    q->first_damage = (struct spex_damage){0};
    q->damaged = false;
    q->count = q->kept = 0;
    q->position = q->time = 0;
    q->thread = NULL;
    q->who = UINT64_MAX; /* nobody */
    q->first_tick = UINT64_MAX;
    q->last_tick = 0;
    q->stacks = q->allocs = NULL;
}

static void start_pass(struct spex_analysis *a, const struct spex_sink *sinks, size_t sink_count)
{
    const bool again = a->only && a->counted;
    memset(&a->totals, 0, sizeof a->totals);
    memset(&a->lane.totals, 0, sizeof a->lane.totals);
    a->totals.first_time = UINT64_MAX;
    a->lane.sinks = sinks;
    a->lane.sink_count = sink_count;
    a->lane.sample_count = 0;
    a->lane.intervals = analysis_first(a)->intervals;
    a->done = 0;
    a->stopped = false;
    merge_losses(a);
    if (!a->only)
        a->counted = a->options.want & SPEX_WANT_SYMBOL;
    for (size_t i = 0; !again && a->lane.threads.slots && i <= a->lane.threads.mask; i++)
        if (a->lane.threads.slots[i].value)
            ((struct thread *)a->lane.threads.slots[i].value)->samples = 0;
    for (size_t i = 0; i < a->queue_count; i++)
        start_queue(&a->queues[i], again);
    start_stacks(a);
}

/* The totals of a pass: those of its lane, and of its queues in order. */
static void end_pass(struct spex_analysis *a)
{
    struct spex_totals *t = &a->totals;
    totals_add(t, &a->lane.totals);
    t->bytes = a->done;
    lane_count_modules(&a->lane);
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        queue_close(q);
        t->spent += q->clock.spent;
        t->away += q->clock.away;
        t->beside_loss += q->clock.lost;
        t->unseen += q->clock.unseen;
        if (q->first_damage.reason && !t->damage_reason) {
            t->first_damage = q->first_damage.offset;
            t->damage_reason = q->first_damage.reason;
        }
        if (q->first_tick > q->last_tick)
            continue;
        uint64_t first = tick_time(a, q->first_tick), last = tick_time(a, q->last_tick);
        t->first_time = first < t->first_time ? first : t->first_time;
        t->last_time = last > t->last_time ? last : t->last_time;
    }
    if (t->first_time > t->last_time)
        t->first_time = t->last_time = 0;
}

enum spex_status merge_file(struct spex_analysis *a, const struct spex_sink *sinks,
                            size_t sink_count, struct shards *shards, struct spex_error *error)
{
    const struct spex_totals whole = a->totals;
    const bool merge = a->options.ordered && a->queue_count > 1;
    start_pass(a, sinks, sink_count);
    enum spex_status status = shards  ? lanes_run(a, shards)
                              : merge ? rounds_run(a)
                                      : run_in_turn(a);
    end_pass(a);
    if (a->only) /* only some lines were read: keep the totals of the whole */
        a->totals = whole;
    if (status)
        return error_set(error, status, 0, "%s: cannot read its AUX data: %s", a->name,
                         spex_status_name(status));
    return SPEX_OK;
}
