/* The queues of a file, one after the other or merged by time. */
#include "pass.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/stages.h"

#include <string.h>

/* A record without a timestamp comes right after the one before it. */
static inline void queue_time(struct queue *q)
{
    const struct spex_record *r = &q->records[q->at];
    if (r->present & SPEX_HAS_TIMESTAMP)
        q->time = r->timestamp;
}

/* Earliest first; of equal times the first queue of the file. */
static bool earlier(const struct queue *x, const struct queue *y)
{
    return x->time != y->time ? x->time < y->time : x->index < y->index;
}

static void sift_down(struct queue **heap, size_t count, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (earlier(heap[child], heap[least]))
                least = child;
        if (least == at)
            return;
        struct queue *swap = heap[at];
        heap[at] = heap[least];
        heap[least] = swap;
        at = least;
    }
}

/* The same number in each pass over the file. */
static void need_pieces(struct spex_analysis *a, size_t count)
{
    while (a->piece_count < count) {
        struct piece *p = &a->pieces[a->piece_count++];
        p->records = memory_get(PIECE, sizeof *p->records);
        p->spent = memory_get(PIECE, sizeof *p->spent);
        p->batches = memory_get(PIECE, sizeof *p->batches);
        p->samples = memory_get(PIECE, sizeof *p->samples);
    }
}

static bool refill_shared(struct spex_analysis *a, struct queue *q)
{
    bool more = queue_refill(a, q);
    queue_share(a, q, q->records, q->count, q->cut, q->spent);
    return more;
}

/* Hands out runs of the earliest queue, each as long as it stays the earliest. */
static enum spex_status run_ordered(struct spex_analysis *a)
{
    struct queue **heap = a->heap;
    size_t live = 0;
    enum spex_status status = SPEX_OK;
    need_pieces(a, 1);
    a->samples = a->pieces[0].samples;
    a->sample_most = BATCH;
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        if (!queue_open(a, q, &status))
            break;
        q->records = a->records + i * a->batch;
        q->spent = a->spent + i * a->batch;
        q->stacks = a->stack_numbers ? a->stack_numbers + i * a->batch : NULL;
        q->allocs = a->alloc_numbers ? a->alloc_numbers + i * a->batch : NULL;
        if (refill_shared(a, q)) {
            queue_time(q);
            heap[live++] = q;
        } else {
            queue_close(q);
        }
    }
    if (status)
        live = 0;
    for (size_t i = live; i-- > 0;)
        sift_down(heap, live, i);
    while (live) {
        struct queue *q = heap[0];
        uint64_t limit = UINT64_MAX;
        for (size_t child = 1; child <= 2 && child < live; child++)
            limit = heap[child]->time < limit ? heap[child]->time : limit;
        size_t from = q->at;
        bool more = true;
        do {
            if (++q->at == q->count) {
                join_records(a, q, q->records + from, q->spent + from, q->count - from);
                join_flush(a); /* the samples point at the records */
                more = refill_shared(a, q);
                from = 0;
            }
            if (more)
                queue_time(q);
        } while (more && q->time <= limit);
        if (more) {
            join_records(a, q, q->records + from, q->spent + from, q->at - from);
        } else {
            queue_close(q);
            heap[0] = heap[--live];
        }
        sift_down(heap, live, 0);
    }
    join_flush(a);
    return status;
}

/* ---- in turn ---- */

/* One queue after the other, in stages (base/stages.h): the data of each stage. */
enum { READ, SHARE, JOIN, SINKS }; /* the first sink */
struct turn {
    struct spex_analysis *analysis;
    size_t queue; /* that is read */
    bool open;
    enum spex_status status;
    size_t most; /* records of a piece */
};

static bool read_piece(struct turn *t, struct piece *p)
{
    struct spex_analysis *a = t->analysis;
    p->count = p->batch_count = 0;
    for (; !p->count && t->queue < a->queue_count; t->queue += !t->open) {
        struct queue *q = p->queue = &a->queues[t->queue];
        if (!t->open && !queue_open(a, q, &t->status))
            return false;
        t->open = true;
        while (t->open && p->count + a->batch <= t->most) {
            q->records = p->records + p->count;
            q->stacks = a->stack_numbers;
            q->allocs = a->alloc_numbers;
            t->open = queue_refill(a, q);
            p->count += q->count;
            if (q->count)
                p->batches[p->batch_count++] = (uint16_t)(q->count | q->cut * PIECE_CUT);
        }
        if (!t->open)
            queue_close(q);
    }
    return p->count > 0;
}

/* By batches, as they were read: shares of time do not depend on how many make a piece. */
static void share_piece(struct spex_analysis *a, const struct piece *p)
{
    for (size_t i = 0, at = 0, count; i < p->batch_count; i++, at += count) {
        count = p->batches[i] & (PIECE_CUT - 1);
        queue_share(a, p->queue, p->records + at, count, p->batches[i] & PIECE_CUT, p->spent + at);
    }
}

static bool run_stage(struct turn *t, unsigned stage, struct piece *p)
{
    struct spex_analysis *a = t->analysis;
    if (stage == READ)
        return read_piece(t, p);
    if (stage == SHARE) {
        share_piece(a, p);
    } else if (stage == JOIN) {
        a->samples = p->samples;
        a->sample_count = 0;
        join_records(a, p->queue, p->records, p->spent, p->count);
        p->sample_count = a->sample_count;
    } else if (p->sample_count) {
        const struct analysis_sink *sink = &a->sinks[stage - SINKS];
        struct memory_guard *guard = memory_guard_pause();
        sink->call(sink->context, p->samples, p->sample_count);
        memory_guard_resume(guard);
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
    if (!memory_guarded(more = run_stage(t, stage, &t->analysis->pieces[thread])))
        analysis_no_memory(first);
    return more;
}

static enum spex_status run_in_turn(struct spex_analysis *a)
{
    /* a sink asks for a sample's stack by its index in the batch that was read last */
    bool by_batch = a->stack_numbers || a->alloc_numbers;
    struct turn turn = {.analysis = a};
    unsigned threads = by_batch || !a->options.threads ? 1 : a->options.threads;
    threads = threads < THREADS ? threads : THREADS;
    const struct stages_job job = {
        .user = &turn, .stages = SINKS + (unsigned)a->sink_count, .run = run_guarded};
    need_pieces(a, threads);
    turn.most = by_batch ? a->batch : PIECE;
    a->sample_most = PIECE + 1; /* a piece is never flushed from within */
    analysis_first(a)->parallel = threads > 1;
    stages_run(&job, threads);
    analysis_first(a)->parallel = false;
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

/* Stacks and allocations, if they are there and wanted: room for so many numbers. */
static void start_stacks(struct spex_analysis *a, size_t room)
{
    bool stacks = a->stacks && a->options.want & SPEX_WANT_STACK;
    bool allocs = a->allocs && a->options.want & SPEX_WANT_ALLOC;
    if (stacks)
        stacks_read(a->stacks);
    if (stacks && !a->stack_numbers)
        a->stack_numbers = memory_get(room, sizeof *a->stack_numbers);
    if (allocs)
        stacks_read(a->allocs);
    if (allocs && !a->alloc_numbers)
        a->alloc_numbers = memory_get(room, sizeof *a->alloc_numbers);
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        if (a->stack_numbers)
            stacks_start(a->stacks, &q->cursor_of_stacks, q->cpu);
        if (a->alloc_numbers)
            stacks_start(a->allocs, &q->cursor_of_allocs, q->cpu);
    }
}

enum spex_status merge_file(struct spex_analysis *a, const struct analysis_sink *sinks,
                            size_t sink_count, struct spex_error *error)
{
    const struct spex_totals whole = a->totals;
    memset(&a->totals, 0, sizeof a->totals);
    a->totals.first_time = UINT64_MAX;
    a->sinks = sinks;
    a->sink_count = sink_count;
    a->done = 0;
    a->stopped = false;
    a->sample_count = 0;
    merge_losses(a);
    if (!a->only)
        a->counted = a->options.want & SPEX_WANT_SYMBOL;
    const bool again = a->only && a->counted;
    for (size_t i = 0; !again && a->threads.slots && i <= a->threads.mask; i++)
        if (a->threads.slots[i].value)
            ((struct thread *)a->threads.slots[i].value)->samples = 0;
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        queue_close(q); /* of a pass that ended when out of memory */
        q->samples = again ? q->samples : 0;
        q->reading = false;
        q->clock = (struct clock){0};
        q->damaged = false;
        q->at = q->count = q->kept = 0;
        q->position = q->time = 0;
        q->thread = NULL;
        q->who = UINT64_MAX; /* nobody */
        q->first_tick = UINT64_MAX;
        q->last_tick = 0;
    }
    bool merge = a->options.ordered && a->queue_count > 1;
    start_stacks(a, merge ? a->queue_count * a->batch : a->batch);
    enum spex_status status = merge ? run_ordered(a) : run_in_turn(a);
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        queue_close(q);
        a->totals.spent += q->clock.spent;
        a->totals.away += q->clock.away;
        a->totals.beside_loss += q->clock.lost;
        a->totals.unseen += q->clock.unseen;
        if (q->first_tick > q->last_tick)
            continue;
        uint64_t first = tick_time(a, q->first_tick), last = tick_time(a, q->last_tick);
        a->totals.first_time = first < a->totals.first_time ? first : a->totals.first_time;
        a->totals.last_time = last > a->totals.last_time ? last : a->totals.last_time;
    }
    if (a->totals.first_time > a->totals.last_time)
        a->totals.first_time = a->totals.last_time = 0;
    if (a->only) /* a closer look at a part: keep the totals of the whole */
        a->totals = whole;
    if (status)
        return error_set(error, status, 0, "%s: cannot read its AUX data: %s", a->name,
                         spex_status_name(status));
    return SPEX_OK;
}
