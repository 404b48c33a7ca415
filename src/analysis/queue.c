/* The records of a queue, batch by batch: AUX spans, or a raw stream in chunks. */
#include "pass.h"
#include "replay.h"

#include "base/memory.h"
#include "perfdata/spans.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void note_damage(struct lane *lane, struct queue *q, const struct spex_damage *damage)
{
    if (!q->first_damage.reason)
        q->first_damage = *damage;
    lane->totals.damaged++;
    lane->totals.damaged_bytes += damage->size;
}

/* Reads a raw stream in chunks; a record cut off at the end of one is read again with the next. */
static bool next_raw(struct spex_analysis *a, struct queue *q)
{
    ssize_t n;
    do
        n = pread(a->raw_fd, q->buffer + q->kept, RAW_CHUNK, (off_t)(q->position + q->kept));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        n = 0;
    q->span = (struct spex_aux_span){
        .data = q->buffer, .size = q->kept + (size_t)n, .file_offset = q->position, .last = n == 0};
    return n > 0;
}

void queue_need_reader(struct lane *lane, struct spex_reader **reader)
{
    if (!lane->shapes)
        lane->shapes = spex_shapes_init(memory_get(1, spex_shapes_size()));
    if (!*reader) {
        const struct spex_reader_options options = {.size = sizeof options, .shapes = lane->shapes};
        spex_reader_init(memory_get(1, spex_reader_size()), &options, reader, NULL);
    }
}

/* Only the calling thread reports progress to the host. */
static void tell_progress(struct lane *lane)
{
    struct spex_analysis *a = lane->analysis;
    struct memory_pause pause = memory_pause();
    if (a->options.progress && lane == &a->lane)
        a->options.progress(a->options.context, a->done,
                            a->file ? a->info->aux_bytes : a->raw_size);
    memory_resume(pause);
}

static bool next_span(struct lane *lane, struct queue *q)
{
    struct spex_analysis *a = lane->analysis;
    const bool merged = a->options.ordered && a->queue_count > 1;
    if (a->file && !merged) {
        if (!lane->room)
            lane->room = memory_get(1, SPANS_ROOM);
        const bool all = !a->look || a->look >= a->info->aux_bytes;
        spans_read_into(q->cursor, lane->room,
                        all ? 1 : (double)a->look / (double)a->info->aux_bytes);
    }
    bool more = a->file ? spex_aux_next(q->cursor, &q->span) == SPEX_OK : next_raw(a, q);
    if (!more)
        return false;
    q->turn = a->file && spans_begins(q->cursor);
    if (!q->looking)
        a->done += q->span.size;
    tell_progress(lane);
    struct spex_reader **reader = merged ? &q->reader : &lane->reader;
    queue_need_reader(lane, reader);
    bool last = a->file ? q->span.last : q->position + q->span.size >= a->raw_size;
    spex_reader_feed(*reader, q->span.data, q->span.size, q->span.file_offset, last);
    q->reader = *reader;
    return true;
}

/* Keeps a record that is cut off at the end of the span, to be read again with the next one. */
static void keep_rest(struct spex_analysis *a, struct queue *q)
{
    size_t read = (size_t)(spex_reader_position(q->reader) - q->span.file_offset);
    size_t rest = q->span.size - read;
    if (a->file) {
        if (rest && !a->look)
            spex_aux_keep(q->cursor, rest);
        return;
    }
    memmove(q->buffer, q->buffer + read, rest);
    a->done -= rest;
    q->kept = rest;
    q->position += read;
}

void queue_share(struct lane *lane, struct queue *q, const struct spex_record *records,
                 size_t count, bool cut, struct clock_part *spent)
{
    const struct spex_analysis *a = lane->analysis;
    enum { SLOWEST = 1000 }; /* ns per operation: slower than any code, so the thread did not run */
    if (!(a->options.want & SPEX_WANT_SPENT))
        return;
    struct clock_rules rules = {
        .counter = a->info && a->info->has_time ? &a->info->time : NULL,
        .switches = q->cpu >= 0 ? &a->cpu_changes : &a->switches,
        .most = a->sampling.filters[0] ? 0 : a->sampling.period * SLOWEST,
        .intervals = lane->intervals,
        .user_only = a->user_only && !a->sampling.filters[0],
        .replay = a->replay && a->replay->fits ? a->replay : NULL,
    };
    if (rules.counter)
        rules.most = spex_perf_time_from_ns(rules.counter, rules.counter->zero + rules.most) -
                     spex_perf_time_from_ns(rules.counter, rules.counter->zero);
    q->clock.id = q->cpu >= 0 ? q->cpu : q->tid;
    q->clock.cut |= cut;
    clock_share(&q->clock, &rules, records, count, spent);
}

/* Reads the stacks and allocations of a batch. */
static void join_stacks(struct spex_analysis *a, struct queue *q)
{
    uint64_t times[BATCH];
    if (!q->stacks && !q->allocs)
        return;
    for (size_t i = 0; i < q->count; i++)
        times[i] = tick_time(a, q->records[i].timestamp);
    if (q->stacks)
        stacks_join(a->stacks, &q->cursor_of_stacks, q->records, times, q->count, q->stacks);
    if (q->allocs)
        stacks_join(a->allocs, &q->cursor_of_allocs, q->records, times, q->count, q->allocs);
}

bool queue_refill(struct lane *lane, struct queue *q)
{
    struct spex_analysis *a = lane->analysis;
    q->count = 0;
    q->cut = false;
    while (q->count == 0 && !analysis_ends(a)) {
        struct spex_damage damage = {0};
        enum spex_status status;
        if (!q->reading) {
            if (!next_span(lane, q))
                return false;
            q->reading = true;
            q->cut |= a->file && !q->span.contiguous;
            if (q->turn) {
                q->damaged |= q->cut; /* for the next call */
                return true;
            }
        }
        q->cut |= q->damaged;
        q->count = spex_reader_batch(q->reader, q->records, a->batch, &status, &damage);
        if (status == SPEX_END) {
            keep_rest(a, q);
            q->reading = false;
        } else if (status != SPEX_OK && !q->looking) {
            note_damage(lane, q, &damage);
        }
        join_stacks(a, q);
        q->damaged = status != SPEX_OK && status != SPEX_END;
    }
    return q->count > 0;
}

bool queue_open(struct spex_analysis *a, struct queue *q, enum spex_status *status)
{
    *status = a->file ? spex_aux_open(a->file, q->index, &q->cursor) : SPEX_OK;
    return *status == SPEX_OK;
}

void queue_close(struct queue *q)
{
    if (q->cursor)
        spex_aux_close(q->cursor);
    q->cursor = NULL;
}
