/* Reads the queues of a file in several threads: each has a lane, and takes queue after queue. */
#include "pass.h"

#include "base/jobs.h"
#include "base/memory.h"
#include "perfdata/spans.h"

#include <stdlib.h>
#include <string.h>

void lane_init(struct lane *lane, struct spex_analysis *a, uint32_t *versions)
{
    lane->analysis = a;
    lane->versions = versions;
    lane->places = memory_get(PLACES, sizeof *lane->places);
}

void lane_fini(struct lane *lane)
{
    state_free(&lane->threads, true);
    state_free(&lane->processes, true);
    memory_free(lane->places);
    memory_free(lane->modules);
    for (size_t i = 0; i < SPEX_FILTER_MAX; i++)
        filter_free(lane->filters[i]);
    for (size_t i = 0; i < lane->model_count; i++)
        memory_free(lane->models[i]);
    memory_free(lane->models);
    memory_free(lane->reader);
    memory_free(lane->room);
    memory_free(lane->shapes);
}

int16_t *lane_sources(struct lane *lane, const struct spex_cpu_model *model)
{
    for (size_t i = 0; i < lane->model_count; i++) /* one for each kind of core */
        if (lane->models[i]->model == model)
            return lane->models[i]->sources;
    lane->models =
        memory_grow(lane->models, lane->model_count, &lane->model_capacity, sizeof *lane->models);
    struct model_sources *m = memory_get(1, sizeof *m);
    lane->models[lane->model_count++] = m;
    m->model = model;
    memset(m->sources, 0xff, sizeof m->sources);
    m->sources[0] = SPEX_SOURCE_UNKNOWN; /* neither packet nor memory */
    return m->sources;
}

void lane_count_modules(struct lane *lane)
{
    for (size_t i = 1; i < lane->module_room; i++) {
        struct spex_module *m = spex_symbols_nth(lane->analysis->symbols, i - 1);
        struct lane_module *of = &lane->modules[i];
        if (m) {
            m->samples += of->samples;
            m->left_out += of->left_out;
            m->unnamed += of->unnamed;
        }
        of->samples = of->left_out = of->unnamed = 0;
    }
}

/* ---- several threads ---- */

enum { APART = 128 }; /* bytes: no two threads write to the same line of a cache */

struct lanes_thread {
    _Alignas(APART) struct lane *lane; /* the first thread uses the file's own lane */
    struct lane own;
    struct piece piece;
    struct spex_time_bins intervals;
};

/* The state at the beginning or end of a run of stretches. */
struct between {
    struct clock clock;
    uint64_t position, size; /* the span at that point */
    bool damaged;
};

/* Consecutive stretches of a queue. */
struct run {
    struct queue queue;
    uint32_t first, end;
    uint64_t bytes;
    struct between before, behind;
    enum spex_status status;
};

struct runs {
    struct lanes lanes;
    struct run *list; /* ordered by queue */
    size_t *order;    /* the longest first */
    size_t count;
    _Atomic bool inexact;
};

static void add_threads(struct table *to, struct table *from)
{
    for (size_t i = 0; from->slots && i <= from->mask; i++) {
        struct thread *t = from->slots[i].value;
        if (!t)
            continue;
        void **slot = state_slot(to, (uint32_t)t->tid);
        struct thread *sum = *slot;
        if (!sum) {
            *slot = sum = memory_get(1, sizeof *sum);
            sum->tid = t->tid;
            sum->span.from = 1; /* empty */
            sum->latest.pid = INT32_MIN;
        }
        sum->samples += t->samples;
        thread_latest(sum, t->latest.since, t->latest.comm, t->latest.pid);
    }
}

static void add_intervals(struct spex_time_bins *to, const struct spex_time_bins *from)
{
    for (unsigned i = 0; i < from->count; i++)
        to->ns[i] += from->ns[i];
}

static struct between between_of(const struct queue *q)
{
    return (struct between){q->clock, q->span.position, q->span.size, q->damaged};
}

/* Reads the end of the data before a run, to know what it begins with. */
static bool look_before(struct lanes_thread *thread, struct run *run)
{
    struct lane *lane = thread->lane;
    struct queue *q = &run->queue;
    struct spex_time_bins *const intervals = lane->intervals;
    lane->intervals = NULL;
    spans_seek(q->cursor, run->first);
    q->looking = true;
    q->stretch = run->first - 1;
    q->stretch_end = run->first;
    for (bool more = true; more;) {
        piece_read(lane, q, &thread->piece, PIECE, &more);
        piece_share(lane, &thread->piece);
    }
    lane->intervals = intervals;
    q->looking = false;
    q->stretch_end = run->end;
    q->clock.spent = q->clock.away = q->clock.lost = q->clock.unseen = 0;
    run->before = between_of(q);
    if (q->stretch != run->first)
        return false;
    lane->analysis->done += q->span.size;
    return true;
}

static bool read_run(struct lanes_thread *thread, struct run *run)
{
    struct lane *lane = thread->lane;
    struct piece *p = &thread->piece;
    struct queue *q = &run->queue;
    q->sources = lane_sources(lane, q->model);
    if (run->first && !look_before(thread, run))
        return false;
    for (bool more = true; more;) {
        piece_read(lane, q, p, PIECE, &more);
        piece_share(lane, p);
        lane->samples = p->samples;
        lane->sample_count = 0;
        join_records(lane, q, p->records, p->spent, p->count);
        analysis_order = p->order;
        join_flush(lane);
        analysis_order = 0;
    }
    run->behind = between_of(q);
    if (q->stretch == run->end) /* it belongs to the next run */
        lane->analysis->done -= q->span.size;
    return true;
}

static void take_run(void *user, size_t job, unsigned thread)
{
    struct runs *runs = user;
    struct run *run = &runs->list[runs->order[job]];
    struct spex_analysis *a = runs->lanes.analysis;
    volatile bool read = false;
    if (analysis_ends(a) || !queue_open(a, &run->queue, &run->status))
        return;
    if (!memory_guarded(memory_current(), read = read_run(&runs->lanes.threads[thread], run)))
        analysis_no_memory(analysis_first(a));
    else if (!read)
        runs->inexact = true;
    queue_close(&run->queue);
}

static int by_length(const void *x, const void *y, void *context)
{
    const struct spex_analysis *a = context;
    size_t i = *(const size_t *)x, j = *(const size_t *)y;
    uint64_t m = spex_perfdata_queue(a->file, i)->bytes, n = spex_perfdata_queue(a->file, j)->bytes;
    return m != n ? (m > n ? -1 : 1) : i < j ? -1 : i > j;
}

static void start_lane(struct lanes *lanes, unsigned n, uint32_t *versions)
{
    struct spex_analysis *a = lanes->analysis;
    struct lanes_thread *t = &lanes->threads[n];
    t->lane = n ? &t->own : &a->lane;
    if (!n)
        return;
    lane_init(t->lane, a, versions);
    t->lane->totals.first_time = UINT64_MAX;
    for (size_t f = 0; f < a->options.filter_count; f++)
        filter_copy(a->lane.filters[f], &t->lane->filters[f]);
    if (a->lane.intervals) {
        uint64_t *ns = memory_get(a->lane.intervals->count + 1, sizeof *ns);
        t->intervals = *a->lane.intervals;
        t->intervals.ns = ns;
        t->lane->intervals = &t->intervals;
    }
}

void lanes_start(struct lanes *lanes, struct spex_analysis *a, unsigned count,
                 struct shards *shards)
{
    lanes->analysis = a;
    lanes->threads = memory_aligned(APART, count * sizeof *lanes->threads);
    memset(lanes->threads, 0, count * sizeof *lanes->threads);
    lanes->count = count;
    lanes->order = memory_get(a->queue_count + 1, sizeof *lanes->order);
    for (size_t i = 0; i < a->queue_count; i++)
        lanes->order[i] = i;
    if (a->file)
        qsort_r(lanes->order, a->queue_count, sizeof *lanes->order, by_length, a);
    for (unsigned n = 0; n < count; n++)
        start_lane(lanes, n, shards ? &shards->shards[n].versions : a->lane.versions);
}

struct lane *lanes_get(const struct lanes *lanes, unsigned n)
{
    return lanes->threads[n].lane;
}

void lanes_add_up(struct lanes *lanes)
{
    struct lane *first = &lanes->analysis->lane;
    for (unsigned n = 1; n < lanes->count; n++) {
        struct lanes_thread *t = &lanes->threads[n];
        totals_add(&first->totals, &t->lane->totals);
        add_threads(&first->threads, &t->lane->threads);
        lane_count_modules(t->lane);
        if (t->intervals.ns)
            add_intervals(first->intervals, &t->intervals);
    }
}

void lanes_end(struct lanes *lanes)
{
    for (unsigned n = 0; n < lanes->count; n++) {
        piece_fini(&lanes->threads[n].piece);
        memory_free(lanes->threads[n].intervals.ns);
        lane_fini(&lanes->threads[n].own);
    }
    memory_free(lanes->threads);
    memory_free(lanes->order);
}

/* ---- runs ---- */

/*
 * If the kernel's calls have to be guessed, its times depend on records far back, so it is one
 * stretch.
 */
static uint32_t stretches_of(const struct spex_analysis *a, size_t queue)
{
    const bool far = a->user_only && a->options.want & SPEX_WANT_SPENT;
    return a->file && !far ? spans_stretches(a->file, queue) : 1;
}

size_t lanes_most(const struct spex_analysis *a)
{
    size_t most = 0;
    for (size_t i = 0; i < a->queue_count; i++)
        most += stretches_of(a, i);
    return most;
}

static int by_bytes(const void *x, const void *y, void *context)
{
    const struct runs *runs = context;
    const size_t i = *(const size_t *)x, j = *(const size_t *)y;
    const uint64_t m = runs->list[i].bytes, n = runs->list[j].bytes;
    return m != n ? (m > n ? -1 : 1) : i < j ? -1 : i > j;
}

/* Cuts a queue into runs, so that each thread gets a few. */
static void cut_queue(struct runs *runs, size_t queue, uint64_t most)
{
    struct spex_analysis *a = runs->lanes.analysis;
    const uint64_t bytes = a->file ? spex_perfdata_queue(a->file, queue)->bytes : 0;
    const uint32_t stretches = stretches_of(a, queue);
    const uint64_t wanted = bytes / (most + 1) + 1;
    const uint64_t count = wanted < stretches ? wanted : stretches;
    for (uint64_t i = 0; i < count; i++) {
        struct run *run = &runs->list[runs->count];
        *run = (struct run){.queue = a->queues[queue],
                            .first = (uint32_t)(i * stretches / count),
                            .end = (uint32_t)((i + 1) * stretches / count),
                            .bytes = bytes / count};
        run->queue.samples = 0;
        run->end = i + 1 < count ? run->end : UINT32_MAX;
        run->queue.stretch_end = run->end;
        runs->order[runs->count] = runs->count;
        runs->count++;
    }
}

static void start(struct runs *runs, struct spex_analysis *a, struct shards *shards)
{
    enum { EACH = 8 };
    const uint64_t bytes = a->file ? a->info->aux_bytes : 0;
    const size_t most = a->queue_count + EACH * (size_t)shards->count + 1;
    runs->list = memory_get(most, sizeof *runs->list);
    runs->order = memory_get(most, sizeof *runs->order);
    for (size_t i = 0; i < a->queue_count; i++)
        cut_queue(runs, i, bytes / (EACH * shards->count));
    qsort_r(runs->order, runs->count, sizeof *runs->order, by_bytes, runs);
    lanes_start(&runs->lanes, a, shards->count, shards);
    for (unsigned n = 0; n < shards->count; n++) {
        struct lanes_thread *t = &runs->lanes.threads[n];
        piece_init(&t->piece, PIECE);
        t->lane->sinks = shards->shards[n].sinks;
        t->lane->sink_count = shards->sink_count;
        t->lane->sample_most = PIECE + 1; /* a piece is never flushed from within */
    }
}

/* Did a run begin with the state in which the one before it ended? */
static bool follows(const struct run *before, const struct run *run)
{
    const struct between *x = &before->behind, *y = &run->before;
    return x->position == y->position && x->size == y->size && x->damaged == y->damaged &&
           x->clock.running == y->clock.running && x->clock.cut == y->clock.cut &&
           x->clock.tick == y->clock.tick && x->clock.who == y->clock.who &&
           x->clock.until == y->clock.until;
}

static void add_queue(struct queue *to, const struct queue *from)
{
    to->samples += from->samples;
    to->first_tick = from->first_tick < to->first_tick ? from->first_tick : to->first_tick;
    to->last_tick = from->last_tick > to->last_tick ? from->last_tick : to->last_tick;
    to->clock.spent += from->clock.spent;
    to->clock.away += from->clock.away;
    to->clock.lost += from->clock.lost;
    to->clock.unseen += from->clock.unseen;
    if (!to->first_damage.reason)
        to->first_damage = from->first_damage;
}

/* Returns why the first queue that could not be opened could not. */
static enum spex_status add_runs(struct runs *runs)
{
    struct spex_analysis *a = runs->lanes.analysis;
    enum spex_status status = SPEX_OK;
    for (size_t i = 0; i < runs->count; i++) {
        struct run *run = &runs->list[i];
        if (run->first && !follows(run - 1, run))
            runs->inexact = true;
        add_queue(&a->queues[run->queue.index], &run->queue);
        status = status ? status : run->status;
    }
    if (runs->inexact && !analysis_ends(a))
        analysis_first(a)->inexact = true;
    return status;
}

enum spex_status lanes_run(struct spex_analysis *a, struct shards *shards)
{
    struct runs runs = {.lanes.analysis = a};
    bool done = memory_guarded(memory_current(), start(&runs, a, shards));
    if (done) {
        spex_analysis_together(a, true);
        jobs_run(&(struct jobs){&runs, runs.count, take_run}, shards->count);
        spex_analysis_together(a, false);
        done = memory_guarded(memory_current(), lanes_add_up(&runs.lanes));
    }
    if (!done)
        analysis_no_memory(analysis_first(a));
    const enum spex_status status = add_runs(&runs);
    lanes_end(&runs.lanes);
    memory_free(runs.list);
    memory_free(runs.order);
    return status;
}
