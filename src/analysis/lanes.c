/* The queues of a file by several threads: each has a lane, and takes queue after queue. */
#include "pass.h"

#include "base/jobs.h"
#include "base/memory.h"

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

/* ---- by several threads ---- */

enum { APART = 128 }; /* bytes: no two threads write to the same line of a cache */

struct lanes_thread {
    _Alignas(APART) struct lane *lane; /* the first thread uses the file's own lane */
    struct lane own;
    struct piece piece;
    struct spex_time_bins intervals;
};

struct run {
    struct lanes lanes;
    enum spex_status *status; /* one per queue */
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

static void read_queue(struct lanes_thread *thread, struct queue *q)
{
    struct lane *lane = thread->lane;
    struct piece *p = &thread->piece;
    q->sources = lane_sources(lane, q->model);
    for (bool more = true; more;) {
        piece_read(lane, q, p, PIECE, &more);
        piece_share(lane, p);
        lane->samples = p->samples;
        lane->sample_count = 0;
        join_records(lane, q, p->records, p->spent, p->count);
        join_flush(lane);
    }
}

static void run_queue(void *user, size_t job, unsigned thread)
{
    struct run *run = user;
    struct spex_analysis *a = run->lanes.analysis;
    struct queue *q = &a->queues[run->lanes.order[job]];
    if (analysis_ends(a) || !queue_open(a, q, &run->status[q->index]))
        return;
    if (!memory_guarded(memory_current(), read_queue(&run->lanes.threads[thread], q)))
        analysis_no_memory(analysis_first(a));
    queue_close(q);
    q->reader = NULL; /* the lane's */
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

static void start(struct run *run, struct spex_analysis *a, struct shards *shards)
{
    run->status = memory_get(a->queue_count + 1, sizeof *run->status);
    lanes_start(&run->lanes, a, shards->count, shards);
    for (unsigned n = 0; n < shards->count; n++) {
        struct lanes_thread *t = &run->lanes.threads[n];
        piece_init(&t->piece, PIECE);
        t->lane->sinks = shards->shards[n].sinks;
        t->lane->sink_count = shards->sink_count;
        t->lane->sample_most = PIECE + 1; /* a piece is never flushed from within */
    }
}

/* Of the first queue that could not be opened. */
static enum spex_status status_of(const struct run *run)
{
    for (size_t i = 0; run->status && i < run->lanes.analysis->queue_count; i++)
        if (run->status[i])
            return run->status[i];
    return SPEX_OK;
}

enum spex_status lanes_run(struct spex_analysis *a, struct shards *shards)
{
    struct run run = {.lanes.analysis = a};
    const struct jobs jobs = {&run, a->queue_count, run_queue};
    bool done = memory_guarded(memory_current(), start(&run, a, shards));
    if (done) {
        spex_analysis_together(a, true);
        jobs_run(&jobs, shards->count);
        spex_analysis_together(a, false);
        done = memory_guarded(memory_current(), lanes_add_up(&run.lanes));
    }
    if (!done)
        analysis_no_memory(analysis_first(a));
    const enum spex_status status = status_of(&run);
    lanes_end(&run.lanes);
    memory_free(run.status);
    return status;
}
