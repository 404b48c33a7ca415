/*
 * The queues of a file merged by time, in rounds: all queues are read further, each by the thread
 * that owns it; everything before the end of the queue that was read least far is cut by time into
 * slices; threads merge one slice each, and pass them on in order.
 *
 * The order is that of one thread that always takes the earliest record: by time, at equal times by
 * queue. A record without a timestamp, or with an earlier one than the record before it, comes
 * right after that record, so its key is the latest time so far.
 */
#include "pass.h"

#include "base/jobs.h"
#include "base/memory.h"
#include "base/search.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICES = 4,      /* slices of each thread in a round */
    SLICE_MIN = 256, /* samples, unless a round has fewer */
    MARKS = 16,      /* marks per queue; slices are cut at them */
    ALONE = 2048,    /* samples in a slice of one thread */
};

/* A queue and what was read of it. */
struct strand {
    struct queue *queue;
    struct piece piece;
    uint64_t *keys; /* one per record: its time */
    uint32_t *stacks, *allocs;
    size_t room; /* records */
    unsigned reader;
    size_t at, take; /* samples passed on so far; samples before the end of this round */
    bool ended;
};

struct mark {
    uint64_t key, weight;
};

/* The samples of a strand that a slice still has to merge. */
struct source {
    uint64_t key;
    size_t strand;
    const struct spex_sample *next, *end;
};

struct slot {
    bool done;
    void *item;
    struct source *sources;
};

struct rounds {
    struct spex_analysis *analysis;
    struct lanes lanes;
    struct strand *strands;
    /* Call stacks are read through the file's one cursor into the file's one table, which numbers
     * them as they come: by one thread, and in the same order whatever the number of lanes. */
    unsigned readers;
    struct jobs_pool *pool;
    enum spex_status status;
    const struct spex_sink_slices *how;
    void *context;
    struct mark *marks;
    uint64_t *cuts; /* slice n has the keys from cuts[n] to cuts[n + 1] */
    size_t slice_count;
    uint64_t before; /* samples of all rounds so far */
    struct slot slots[SLICES * JOBS_THREADS];
    pthread_mutex_t lock;
    size_t put; /* slices of this round that have been put */
    bool putting;
};

/* ---- reading ---- */

static uint64_t key_of(const struct strand *s, const struct spex_sample *sample)
{
    return s->keys[sample->record - s->piece.records];
}

static size_t left_of(const struct strand *s)
{
    return s->piece.sample_count - s->at;
}

/* Moves what has not been passed on to the front, and points the samples at their moved records. */
static void move_rest(struct strand *s)
{
    struct piece *p = &s->piece;
    const size_t rest = left_of(s);
    const size_t from = rest ? (size_t)(p->samples[s->at].record - p->records) : p->count;
    const size_t count = p->count - from;
    memmove(p->records, p->records + from, count * sizeof *p->records);
    memmove(s->keys, s->keys + from, count * sizeof *s->keys);
    if (s->stacks)
        memmove(s->stacks, s->stacks + from, count * sizeof *s->stacks);
    if (s->allocs)
        memmove(s->allocs, s->allocs + from, count * sizeof *s->allocs);
    memmove(p->samples, p->samples + s->at, rest * sizeof *p->samples);
    for (size_t i = 0; from && i < rest; i++)
        p->samples[i].record -= from;
    p->count = count;
    p->sample_count = rest;
    s->at = 0;
}

/* Reads until the strand is full or ends; only few of the records may pass the filters. */
static void read_on(struct rounds *r, struct lane *lane, struct strand *s)
{
    struct queue *q = s->queue;
    const size_t batch = r->analysis->batch;
    bool more = !s->ended;
    if (s->ended || left_of(s) + batch > s->room)
        return;
    move_rest(s);
    struct piece *p = &s->piece;
    while (more && p->count + batch <= s->room) {
        struct piece next = *p;
        const size_t at = p->count;
        next.records += at;
        next.spent += at;
        q->stacks = s->stacks ? s->stacks + at : NULL;
        q->allocs = s->allocs ? s->allocs + at : NULL;
        piece_read(lane, q, &next, batch, &more);
        piece_share(lane, &next);
        for (size_t i = 0; i < next.count; i++) {
            const struct spex_record *record = &next.records[i];
            if (record->present & SPEX_HAS_TIMESTAMP && record->timestamp > q->time)
                q->time = record->timestamp;
            s->keys[at + i] = q->time;
        }
        lane->samples = p->samples;
        lane->sample_count = p->sample_count;
        join_records(lane, q, next.records, next.spent, next.count);
        p->sample_count = lane->sample_count;
        p->count += next.count;
    }
    q->records = p->records; /* so that the stack of a sample can be looked up */
    q->stacks = s->stacks;
    q->allocs = s->allocs;
    s->ended = !more;
    if (!more)
        queue_close(q);
}

/* The queues of a lane stay with it: their thread states belong to the lane. */
static void read_queues(struct rounds *r, size_t reader)
{
    for (size_t i = 0; i < r->analysis->queue_count; i++) {
        struct strand *s = &r->strands[r->lanes.order[i]];
        if (r->readers == 1 || s->reader == reader)
            read_on(r, lanes_get(&r->lanes, s->reader), s);
    }
}

static void read_some(void *user, size_t job, unsigned thread)
{
    struct rounds *r = user;
    (void)thread;
    if (!memory_guarded(memory_current(), read_queues(r, job)))
        analysis_no_memory(analysis_first(r->analysis));
}

/* ---- cutting ---- */

/* The first sample of a strand, from `from` on, with at least this key. */
static size_t sample_at(const struct strand *s, size_t from, uint64_t key)
{
    return SEARCH(i, from, s->piece.sample_count, key_of(s, &s->piece.samples[i]) < key);
}

/*
 * How far this round goes: to the last record of the queue that was read least far. At the same
 * key, later queues wait, since such a record may still come in this one.
 */
static size_t take(struct rounds *r)
{
    const size_t count = r->analysis->queue_count;
    uint64_t least = UINT64_MAX;
    size_t of = count, total = 0;
    for (size_t i = 0; i < count; i++) {
        const struct strand *s = &r->strands[i];
        if (!s->ended && s->piece.count && s->keys[s->piece.count - 1] < least) {
            least = s->keys[s->piece.count - 1];
            of = i;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct strand *s = &r->strands[i];
        if (of == count || (i <= of && least == UINT64_MAX))
            s->take = s->piece.sample_count;
        else
            s->take = sample_at(s, s->at, least + (i <= of));
        total += s->take - s->at;
    }
    return total;
}

static int by_key(const void *x, const void *y)
{
    const struct mark *m = x, *n = y;
    return m->key < n->key ? -1 : m->key > n->key;
}

/* Cuts slices of about the same size, at keys taken from each queue. */
static void cut(struct rounds *r, size_t total)
{
    const unsigned threads = r->lanes.count;
    const size_t least = threads > 1 ? SLICE_MIN : ALONE;
    size_t wanted = total / least + 1, marks = 0, n = 1;
    uint64_t weight = 0;
    if (threads > 1 && wanted > SLICES * threads)
        wanted = SLICES * threads;
    for (size_t i = 0; i < r->analysis->queue_count; i++) {
        const struct strand *s = &r->strands[i];
        const size_t count = s->take - s->at, most = count < MARKS ? count : MARKS;
        for (size_t k = 0; k < most; k++)
            r->marks[marks++] = (struct mark){
                .key = key_of(s, &s->piece.samples[s->at + count * k / most]),
                .weight = count * (k + 1) / most - count * k / most,
            };
    }
    qsort(r->marks, marks, sizeof *r->marks, by_key);
    r->cuts[0] = 0;
    for (size_t i = 0; i < marks && n < wanted; weight += r->marks[i++].weight)
        if (weight * wanted >= n * total && r->marks[i].key > r->cuts[n - 1])
            r->cuts[n++] = r->marks[i].key;
    r->cuts[n] = UINT64_MAX;
    r->slice_count = n;
}

/* ---- merging ---- */

static inline bool earlier(const struct source *x, const struct source *y)
{
    return x->key != y->key ? x->key < y->key : x->strand < y->strand;
}

static void sift_down(struct source *heap, size_t count, size_t at)
{
    const struct source moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && earlier(&heap[child + 1], &heap[child]);
        if (!earlier(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static size_t sources_of(const struct rounds *r, size_t slice, struct source *heap)
{
    size_t count = 0;
    for (size_t i = 0; i < r->analysis->queue_count; i++) {
        const struct strand *s = &r->strands[i];
        const struct spex_sample *samples = s->piece.samples;
        if (s->at == s->take)
            continue;
        const size_t from = slice ? sample_at(s, s->at, r->cuts[slice]) : s->at;
        const size_t end =
            slice + 1 < r->slice_count ? sample_at(s, from, r->cuts[slice + 1]) : s->take;
        const size_t to = end < s->take ? end : s->take;
        if (from < to)
            heap[count++] =
                (struct source){key_of(s, &samples[from]), i, &samples[from], &samples[to]};
    }
    for (size_t i = count; i-- > 0;)
        sift_down(heap, count, i);
    return count;
}

/* Copies runs of samples from one queue, each until another queue has an earlier one. */
static void merge_slice(struct rounds *r, struct slot *slot, size_t slice, unsigned thread)
{
    struct source *heap = slot->sources, *first = heap;
    size_t live = sources_of(r, slice, heap);
    while (live) {
        const struct strand *s = &r->strands[first->strand];
        const struct spex_sample *from = first->next;
        const struct source *second = live > 2 && earlier(&heap[2], &heap[1]) ? &heap[2] : &heap[1];
        do {
            if (++first->next < first->end)
                first->key = key_of(s, first->next);
        } while (first->next < first->end && (live == 1 || earlier(first, second)));
        r->how->work(r->context, slot->item, thread, from, (size_t)(first->next - from));
        if (first->next == first->end)
            *first = heap[--live];
        sift_down(heap, live, 0);
    }
    r->how->work(r->context, slot->item, thread, NULL, 0);
}

/* Puts the next finished slices in order, unless another thread is doing so. */
static void put_done(struct rounds *r)
{
    pthread_mutex_lock(&r->lock);
    while (!r->putting && r->put < r->slice_count) {
        struct slot *slot = &r->slots[r->lanes.count > 1 ? r->put : 0];
        if (!slot->done)
            break;
        slot->done = false;
        r->putting = true;
        pthread_mutex_unlock(&r->lock);
        r->how->put(r->context, slot->item);
        pthread_mutex_lock(&r->lock);
        r->putting = false;
        r->put++;
    }
    pthread_mutex_unlock(&r->lock);
}

static void run_slice(void *user, size_t slice, unsigned thread)
{
    struct rounds *r = user;
    struct slot *slot = &r->slots[r->lanes.count > 1 ? slice : 0];
    if (analysis_ends(r->analysis))
        return;
    if (!memory_guarded(memory_current(), merge_slice(r, slot, slice, thread))) {
        analysis_no_memory(analysis_first(r->analysis));
        return;
    }
    struct memory_pause pause = memory_pause();
    pthread_mutex_lock(&r->lock);
    slot->done = true;
    pthread_mutex_unlock(&r->lock);
    put_done(r);
    memory_resume(pause);
}

/* ---- rounds ---- */

static uint64_t length_of(const struct spex_analysis *a, size_t queue)
{
    return a->file ? spex_perfdata_queue(a->file, queue)->bytes : 1;
}

/*
 * Room for the records of each queue: of the file's, a part by its length, so that a round reads
 * about the same stretch of time of all, but at least some batches, since less than one may be left
 * of the last round. The longest is given first, to the reader who has least.
 */
static void share_out(struct rounds *r, unsigned threads)
{
    enum { EACH = 1 << 14 }; /* records */
    struct spex_analysis *a = r->analysis;
    const size_t all = r->readers > 4   ? (size_t)EACH * r->readers
                       : r->readers > 1 ? 2 * RECORDS
                                        : RECORDS;
    const size_t least = r->readers > 1 ? 4 : 2;
    uint64_t sum = 0, given[JOBS_THREADS] = {0};
    for (size_t i = 0; i < a->queue_count; i++)
        sum += length_of(a, i);
    for (size_t i = 0; i < a->queue_count; i++) {
        struct strand *s = &r->strands[r->lanes.order[i]];
        const uint64_t length = length_of(a, r->lanes.order[i]);
        const size_t batches =
            (size_t)((double)all * (double)length / (double)(sum + !sum)) / a->batch;
        s->room = (batches > least ? batches : least) * a->batch;
        for (unsigned n = 1; n < threads; n++)
            if (given[n] < given[s->reader])
                s->reader = n;
        given[s->reader] += length + 1;
    }
}

static void start(struct rounds *r, struct spex_analysis *a, unsigned threads)
{
    const size_t queues = a->queue_count;
    const bool stacks = a->stacks && a->options.want & SPEX_WANT_STACK;
    const bool allocs = a->allocs && a->options.want & SPEX_WANT_ALLOC;
    r->strands = memory_get(queues, sizeof *r->strands);
    r->readers = stacks || allocs ? 1 : threads;
    r->marks = memory_get(queues * MARKS, sizeof *r->marks);
    lanes_start(&r->lanes, a, threads, NULL);
    share_out(r, threads);
    size_t all = 0;
    for (size_t i = 0; i < queues; i++) {
        struct strand *s = &r->strands[i];
        s->queue = &a->queues[i];
        piece_init(&s->piece, s->room);
        s->keys = memory_get(s->room, sizeof *s->keys);
        if (stacks)
            s->stacks = memory_get(s->room, sizeof *s->stacks);
        if (allocs)
            s->allocs = memory_get(s->room, sizeof *s->allocs);
        all += s->room;
    }
    for (unsigned n = 0; n < threads; n++)
        lanes_get(&r->lanes, n)->sample_most = all + 1; /* never flushed from within */
    const size_t slots = threads > 1 ? SLICES * (size_t)threads : 1;
    r->cuts = memory_get((slots > 2 ? slots : all / ALONE + 2) + 1, sizeof *r->cuts);
    for (size_t i = 0; i < slots; i++) {
        r->slots[i].item = memory_get(1, r->how->size);
        r->slots[i].sources = memory_get(queues, sizeof *r->slots[i].sources);
    }
    for (size_t i = 0; i < queues && !r->status; i++) {
        struct queue *q = &a->queues[r->lanes.order[i]];
        struct strand *s = &r->strands[q->index];
        s->ended = !queue_open(a, q, &r->status);
        q->sources = lane_sources(lanes_get(&r->lanes, s->reader), q->model);
    }
    r->pool = jobs_pool_new(threads);
}

static void run_rounds(struct rounds *r)
{
    struct spex_analysis *a = r->analysis;
    const struct jobs reading = {r, r->readers, read_some};
    for (bool ended = false; !ended && !analysis_ends(a);) {
        spex_analysis_together(a, true);
        jobs_pool_run(r->pool, &reading);
        const size_t total = take(r);
        cut(r, total);
        r->put = 0;
        const struct jobs merging = {r, total ? r->slice_count : 0, run_slice};
        jobs_pool_run(r->pool, &merging);
        spex_analysis_together(a, false);
        ended = true;
        for (size_t i = 0; i < a->queue_count; i++) {
            struct strand *s = &r->strands[i];
            s->at = s->take;
            ended &= s->ended && !left_of(s);
        }
    }
}

static void end(struct rounds *r)
{
    jobs_pool_free(r->pool);
    for (size_t i = 0; r->strands && i < r->analysis->queue_count; i++) {
        struct strand *s = &r->strands[i];
        piece_fini(&s->piece);
        memory_free(s->keys);
        memory_free(s->stacks);
        memory_free(s->allocs);
        if (!s->queue)
            break;                     /* memory ran out earlier */
        memory_free(s->queue->reader); /* freed first: it uses the lane's shapes */
        s->queue->reader = NULL;
        s->queue->stacks = s->queue->allocs = NULL;
    }
    for (size_t i = 0; i < sizeof r->slots / sizeof *r->slots; i++) {
        if (r->slots[i].item && r->how->fini)
            r->how->fini(r->slots[i].item);
        memory_free(r->slots[i].item);
        memory_free(r->slots[i].sources);
    }
    memory_free(r->strands);
    memory_free(r->marks);
    memory_free(r->cuts);
    lanes_end(&r->lanes);
}

/* ---- sinks that take samples in order: slices of copies ---- */

struct copies {
    struct spex_sample *samples;
    size_t count, capacity;
};

static void copy(void *context, void *item, unsigned thread, const struct spex_sample *samples,
                 size_t count)
{
    struct copies *c = item;
    (void)context, (void)thread;
    if (!count)
        return;
    if (c->capacity - c->count < count) {
        c->capacity = 2 * c->capacity + count + ALONE;
        c->samples = memory_resize(c->samples, c->capacity, sizeof *c->samples);
    }
    memcpy(c->samples + c->count, samples, count * sizeof *samples);
    c->count += count;
}

static void pass_copies(void *context, void *item)
{
    struct lane *lane = context;
    struct copies *c = item;
    for (size_t i = 0; c->count && i < lane->sink_count; i++)
        lane->sinks[i].call(lane->sinks[i].context, c->samples, c->count);
    c->count = 0;
}

static void free_copies(void *item)
{
    memory_free(((struct copies *)item)->samples);
}

static const struct spex_sink_slices as_copies = {sizeof(struct copies), copy, pass_copies,
                                                  free_copies};

enum spex_status rounds_run(struct spex_analysis *a)
{
    const struct lane *lane = &a->lane;
    const bool slices = lane->sink_count == 1 && lane->sinks[0].slices;
    unsigned threads = a->options.threads < JOBS_THREADS ? a->options.threads : JOBS_THREADS;
    struct rounds r = {.analysis = a, .lanes.analysis = a};
    r.how = slices ? lane->sinks[0].slices : &as_copies;
    r.context = slices ? lane->sinks[0].context : &a->lane;
    pthread_mutex_init(&r.lock, NULL);
    bool done = memory_guarded(memory_current(), start(&r, a, threads ? threads : 1));
    if (done && !r.status) {
        run_rounds(&r);
        done = memory_guarded(memory_current(), lanes_add_up(&r.lanes));
    }
    if (!done)
        analysis_no_memory(analysis_first(a));
    end(&r);
    pthread_mutex_destroy(&r.lock);
    return r.status;
}
