/*
 * AUX data: which AUXTRACE chunks make up a queue, and cursors over a queue.
 *
 * Two chunks are contiguous if the second's AUX offset is where the first ends, and no AUX
 * record reports lost data there. perf pads chunks to whole words with zeros and counts the
 * padding in the size but not in the next chunk's offset, so up to seven bytes of overlap are
 * padding.
 */
#include "file.h"
#include "spans.h"

#include "base/hash.h"
#include "base/order.h"
#include "base/search.h"
#include "base/vec.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- collecting ---- */

static size_t hash_queue(const struct spex_perf_queue *queue)
{
    uint64_t hash = hash_word(hash_seed(), (uint64_t)(uint32_t)queue->cpu << 32 | queue->idx);
    return (size_t)hash_word(hash, (uint32_t)queue->tid);
}

/* Open addressing; slots hold the queue's number plus one. */
static bool grow_slots(struct spex_perfdata *file)
{
    size_t count = file->queue_slot_count ? 2 * file->queue_slot_count : 64;
    uint32_t *slots = memory_zeroed(count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < file->queues.count; i++) {
        size_t slot = hash_queue(&file->queues.items[i].queue) & (count - 1);
        while (slots[slot])
            slot = (slot + 1) & (count - 1);
        slots[slot] = (uint32_t)i + 1;
    }
    memory_free(file->queue_slots);
    file->queue_slots = slots;
    file->queue_slot_count = count;
    return true;
}

static struct queue *find_queue(struct spex_perfdata *file, const struct spex_perf_queue *key)
{
    if (2 * file->queues.count >= file->queue_slot_count && !grow_slots(file))
        return NULL;
    size_t mask = file->queue_slot_count - 1, slot = hash_queue(key) & mask;
    for (; file->queue_slots[slot]; slot = (slot + 1) & mask) {
        struct queue *queue = &file->queues.items[file->queue_slots[slot] - 1];
        if (queue->queue.cpu == key->cpu && queue->queue.tid == key->tid &&
            queue->queue.idx == key->idx)
            return queue;
    }
    struct queue *queue = vec_push(&file->queues);
    if (!queue)
        return NULL;
    memset(queue, 0, sizeof *queue);
    queue->queue = *key;
    file->queue_slots[slot] = (uint32_t)file->queues.count;
    return queue;
}

void perfdata_aux_chunk(struct spex_perfdata *file, const struct raw *raw,
                        const struct spex_perf_event *event)
{
    if (!raw->payload_size)
        return;
    struct spex_perf_queue key = {
        .cpu = event->u.auxtrace.cpu,
        .tid = event->u.auxtrace.tid,
        .idx = event->u.auxtrace.idx,
    };
    struct queue *queue = find_queue(file, &key);
    struct chunk *chunk = queue ? vec_push(&queue->chunks) : NULL;
    if (!chunk) {
        file->failed = true;
        return;
    }
    *chunk = (struct chunk){
        .file_offset = (uint64_t)(raw->payload - file->data),
        .offset = event->u.auxtrace.offset,
        .size = raw->payload_size,
        .reference = event->u.auxtrace.reference,
        .foreign = file->foreign.now,
    };
    queue->queue.bytes += chunk->size;
    queue->queue.chunks++;
    file->info.aux_bytes += chunk->size;
    file->info.aux_chunks++;
}

void perfdata_aux_record(struct spex_perfdata *file, const struct spex_perf_event *event)
{
    uint32_t flags = event->u.aux.flags;
    perfdata_foreign_aux(file, event);
    if (flags & SPEX_PERF_AUX_TRUNCATED)
        file->info.truncated++;
    if (flags & SPEX_PERF_AUX_COLLISION)
        file->info.collisions++;
    if (flags & SPEX_PERF_AUX_OVERWRITE)
        file->info.snapshot = true;
    if (!(flags & (SPEX_PERF_AUX_TRUNCATED | SPEX_PERF_AUX_PARTIAL)))
        return;
    struct gap *gap = vec_push(&file->gaps);
    if (!gap) {
        file->failed = true;
        return;
    }
    *gap = (struct gap){
        .offset = event->u.aux.offset + event->u.aux.size,
        .cpu = event->cpu,
        .tid = event->tid,
        .flags = flags,
    };
    const struct id_entry *id = event->id ? perfdata_id_find(file, event->id) : NULL;
    if (id && id->placed) {
        gap->cpu = id->cpu;
        gap->tid = id->tid;
    }
}

static int compare_gap(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;
    return x->owner != y->owner ? ORDER(x->owner, y->owner) : ORDER(x->offset, y->offset);
}

/* Gaps belong to a CPU if queues are per CPU, else to a thread. */
static void sort_gaps(struct spex_perfdata *file)
{
    for (size_t i = 0; i < file->gaps.count; i++) {
        struct gap *gap = &file->gaps.items[i];
        gap->owner = file->info.per_cpu ? gap->cpu : gap->tid;
    }
    if (file->gaps.count)
        qsort(file->gaps.items, file->gaps.count, sizeof *file->gaps.items, compare_gap);
}

/* The owner's first gap at or after an AUX offset, or NULL. */
static const struct gap *search_gap(const struct spex_perfdata *file, int32_t owner,
                                    uint64_t offset)
{
    struct gap key = {.owner = owner, .offset = offset};
    size_t low = SEARCH(i, 0, file->gaps.count, compare_gap(&file->gaps.items[i], &key) < 0);
    return low < file->gaps.count && file->gaps.items[low].owner == owner ? &file->gaps.items[low]
                                                                          : NULL;
}

/*
 * Same, for a queue. An AUX record that names neither CPU nor thread may refer to any queue;
 * applying it to all costs at most the item that spans its offset.
 */
static const struct gap *next_gap(const struct spex_perfdata *file, const struct queue *queue,
                                  uint64_t offset)
{
    int32_t owner = file->info.per_cpu ? queue->queue.cpu : queue->queue.tid;
    const struct gap *own = owner >= 0 ? search_gap(file, owner, offset) : NULL;
    const struct gap *any = search_gap(file, -1, offset);
    return !own || (any && any->offset < own->offset) ? any : own;
}

/* How many bytes at the end of a chunk are padding, judged by where the next one begins. */
static uint64_t filling(const struct spex_perfdata *file, const struct chunk *chunk,
                        const struct chunk *next)
{
    uint64_t over = chunk->offset + chunk->size - next->offset;
    if (over == 0 || over > 7 || over > chunk->size)
        return 0;
    uint64_t end = chunk->file_offset + chunk->size, set = 0;
    for (uint64_t i = 1; i <= over; i++)
        set |= file->data[end - i];
    perfdata_drop_pages(file, end - over, end);
    return set ? 0 : over;
}

static void number_stretches(struct queue *queue)
{
    enum { LONG = 1 << 20, LOOK = 4096 }; /* bytes of a stretch; and of the data before one */
    uint64_t bytes = 0;
    uint32_t stretch = 0;
    for (size_t i = 0; i < queue->chunks.count; i++) {
        struct chunk *chunk = &queue->chunks.items[i];
        if (bytes >= LONG && chunk[-1].size >= LOOK) {
            stretch++;
            bytes = 0;
        }
        chunk->stretch = stretch;
        bytes += chunk->size;
    }
}

void perfdata_aux_build(struct spex_perfdata *file)
{
    for (size_t i = 0; i < file->queues.count; i++) {
        struct queue *queue = &file->queues.items[i];
        for (size_t j = 0; j + 1 < queue->chunks.count; j++) {
            struct chunk *chunk = &queue->chunks.items[j];
            const struct chunk *next = chunk + 1;
            uint64_t over = filling(file, chunk, next);
            chunk->size -= over;
            queue->queue.bytes -= over;
            file->info.aux_bytes -= over;
            if (next->offset < chunk->offset + chunk->size && !file->info.snapshot)
                perfdata_problem(
                    file, SPEX_INVALID, next->file_offset,
                    "AUXTRACE data at offset 0x%llx of CPU %d, thread %d overlaps earlier "
                    "data; read as it is",
                    (unsigned long long)next->offset, queue->queue.cpu, queue->queue.tid);
        }
        number_stretches(queue);
        if (queue->queue.cpu >= 0)
            file->info.per_cpu = true;
    }
    sort_gaps(file);
}

void perfdata_aux_fini(struct spex_perfdata *file)
{
    for (size_t i = 0; i < file->queues.count; i++)
        vec_free(&file->queues.items[i].chunks);
    vec_free(&file->queues);
    vec_free(&file->gaps);
    vec_free(&file->foreign.spans);
    memory_free(file->queue_slots);
}

size_t spex_perfdata_queue_count(const struct spex_perfdata *file)
{
    assert(file);
    return file->queues.count;
}

const struct spex_perf_queue *spex_perfdata_queue(const struct spex_perfdata *file, size_t index)
{
    assert(file);
    return index < file->queues.count ? &file->queues.items[index].queue : NULL;
}

/* ---- walking ---- */

enum {
    SPAN_MAX = SPANS_ROOM, /* larger pieces are split, so that pages can be released */
    BRIDGE_MIN = 4096,     /* bytes first tried after a kept tail */
    PART_LEAST = 4096,
};

struct spex_aux_cursor {
    const struct spex_perfdata *file;
    const struct queue *queue;
    size_t chunk;         /* the current one */
    uint64_t position;    /* where in the chunk the next direct span begins */
    uint64_t before;      /* bytes of this queue in earlier chunks */
    uint64_t dropped;     /* bytes of this queue whose pages were released */
    size_t dropped_chunk; /* the last chunk among them */
    size_t kept;          /* requested by spex_aux_keep after the last span */
    size_t tail;          /* bytes of earlier chunks at the start of joined */
    uint64_t tail_file_offset;
    size_t bridge;     /* bytes of this chunk that followed the tail in the last span; 0: direct */
    size_t bridge_try; /* bytes to try there next */
    size_t span;       /* size of the last span */
    uint64_t stop;     /* where the last span ended, in the chunk */
    bool last;         /* the last span was the end of a contiguous run */
    bool begins;       /* the last span was the first of a stretch */
    bool started, broken; /* broken: the next span does not follow the previous one */
    uint8_t *room;        /* see spans.h; NULL: spans are mapped */
    double part;
    const uint8_t *data; /* data of the last span */
    uint8_t *joined;     /* tail and bridge; freed when not needed, as there may be many queues */
    size_t joined_size;
};

enum spex_status spex_aux_open(struct spex_perfdata *file, size_t queue,
                               struct spex_aux_cursor **result)
{
    assert(file && result);
    if (queue >= file->queues.count)
        return SPEX_RANGE;
    MEMORY_OF(file->account);
    struct spex_aux_cursor *cursor = memory_zeroed(1, sizeof *cursor);
    if (!cursor)
        return SPEX_NO_MEMORY;
    cursor->file = file;
    cursor->queue = &file->queues.items[queue];
    cursor->broken = true;
    cursor->part = 1;
    *result = cursor;
    return SPEX_OK;
}

void spex_aux_close(struct spex_aux_cursor *cursor)
{
    if (!cursor)
        return;
    MEMORY_OF(cursor->file->account);
    memory_free(cursor->joined);
    memory_free(cursor);
}

void spans_read_into(struct spex_aux_cursor *cursor, uint8_t *room, double part)
{
    cursor->part = part;
    cursor->room = cursor->file->fd < 0 ? NULL : room;
}

uint32_t spans_stretches(const struct spex_perfdata *file, size_t queue)
{
    const struct queue *q = &file->queues.items[queue];
    return q->chunks.count ? q->chunks.items[q->chunks.count - 1].stretch + 1 : 1;
}

void spans_seek(struct spex_aux_cursor *cursor, uint32_t stretch)
{
    enum { LOOK = 64 << 10, PAGE = 4096 };
    const struct chunk *chunks = cursor->queue->chunks.items;
    const size_t first = SEARCH(i, 0, cursor->queue->chunks.count, chunks[i].stretch < stretch);
    uint64_t seen = 0;
    cursor->chunk = first;
    do {
        cursor->chunk--;
        seen += chunks[cursor->chunk].size;
    } while (seen < LOOK && cursor->chunk && chunks[cursor->chunk - 1].stretch + 1 == stretch);
    cursor->position = seen > LOOK ? (seen - LOOK) / PAGE * PAGE : 0;
    for (size_t i = 0; i < cursor->chunk; i++)
        cursor->before += chunks[i].size;
    cursor->dropped = cursor->before + cursor->position;
    cursor->dropped_chunk = cursor->chunk;
}

bool spans_begins(const struct spex_aux_cursor *cursor)
{
    return cursor->begins;
}

/* Copies bytes of the file without mapping them; false: they cannot be read. */
static bool read_bytes(const struct spex_perfdata *file, uint64_t offset, uint8_t *to, size_t size)
{
    for (ssize_t n; size; to += n, offset += (uint64_t)n, size -= (size_t)n)
        if ((n = pread(file->fd, to, size, (off_t)offset)) <= 0)
            return false;
    return true;
}

static bool join_room(struct spex_aux_cursor *cursor, size_t size)
{
    return vec_grow(&cursor->joined, &cursor->joined_size, size, 1);
}

static void drop_tail(struct spex_aux_cursor *cursor)
{
    memory_free(cursor->joined);
    cursor->joined = NULL;
    cursor->joined_size = cursor->tail = 0;
}

void spex_aux_keep(struct spex_aux_cursor *cursor, size_t rest)
{
    assert(cursor);
    if (rest > cursor->span)
        rest = cursor->span;
    cursor->kept = rest;
}

/*
 * Releases the pages of this queue that were read, up to position of the current chunk. Not
 * those of other queues in between: other threads may be reading them.
 */
static void give_back(struct spex_aux_cursor *cursor, uint64_t position)
{
    enum { STEP = 4 << 20, NEAR = 256 << 10 };
    const struct spex_perfdata *file = cursor->file;
    const uint64_t here = cursor->before + position;
    uint64_t from = 0, to = 0;
    if (!file->mapped || cursor->room || here < cursor->dropped + STEP)
        return;
    for (; cursor->dropped_chunk <= cursor->chunk; cursor->dropped_chunk++) {
        const struct chunk *chunk = &cursor->queue->chunks.items[cursor->dropped_chunk];
        const bool last = cursor->dropped_chunk == cursor->chunk;
        if (chunk->file_offset < from || chunk->file_offset > to + NEAR) {
            perfdata_drop_pages(file, from, to);
            from = chunk->file_offset;
        }
        to = chunk->file_offset + (last ? position : chunk->size);
        if (last)
            break;
    }
    perfdata_drop_pages(file, from, to);
    cursor->dropped = here;
}

/*
 * Where the contiguous run around position ends in the current chunk, and whether it continues
 * in the next. flags: those of the gap, if there is one.
 */
static uint64_t run_end(const struct spex_aux_cursor *cursor, bool *goes_on, uint32_t *flags)
{
    const struct queue *queue = cursor->queue;
    const struct chunk *chunk = &queue->chunks.items[cursor->chunk];
    const struct gap *gap = next_gap(cursor->file, queue, chunk->offset + cursor->position + 1);
    *flags = 0;
    *goes_on = false;
    if (gap && gap->offset - chunk->offset <= chunk->size) {
        *flags = gap->flags;
        return gap->offset - chunk->offset;
    }
    if (cursor->chunk + 1 < queue->chunks.count)
        *goes_on = chunk[1].offset == chunk->offset + chunk->size;
    return chunk->size;
}

/* Moves the kept bytes to where the next span will begin; false: out of memory. */
static bool apply_keep(struct spex_aux_cursor *cursor)
{
    const struct chunk *chunk = &cursor->queue->chunks.items[cursor->chunk];
    size_t kept = cursor->kept;
    cursor->kept = 0;
    if (cursor->bridge) {
        size_t fresh = cursor->bridge;
        cursor->bridge = 0;
        if (kept <= fresh) {
            drop_tail(cursor); /* the chunk itself now holds everything */
            cursor->position = cursor->stop - kept;
            return true;
        }
        bool exhausted = cursor->stop == chunk->size;
        size_t old = kept - fresh; /* part of the tail that is still needed */
        if (exhausted || fresh >= SPEX_AUX_KEEP_MAX) {
            /* Tiny chunks, or an endless item: keep as much as possible and go on. */
            size_t most = kept < SPEX_AUX_KEEP_MAX ? kept : SPEX_AUX_KEEP_MAX;
            cursor->tail_file_offset += cursor->tail + fresh - most;
            memmove(cursor->joined, cursor->joined + cursor->tail + fresh - most, most);
            cursor->tail = most;
            cursor->position = cursor->stop;
            cursor->bridge_try = BRIDGE_MIN;
        } else {
            cursor->tail_file_offset += cursor->tail - old;
            memmove(cursor->joined, cursor->joined + cursor->tail - old, old);
            cursor->tail = old;
            cursor->bridge_try = 2 * fresh;
            if (cursor->bridge_try < BRIDGE_MIN)
                cursor->bridge_try = BRIDGE_MIN;
            if (cursor->bridge_try > SPEX_AUX_KEEP_MAX)
                cursor->bridge_try = SPEX_AUX_KEEP_MAX;
        }
        return true;
    }
    cursor->position = cursor->stop;
    if (!kept)
        return true;
    if (kept > SPEX_AUX_KEEP_MAX)
        kept = SPEX_AUX_KEEP_MAX;
    if (cursor->stop < chunk->size) {
        cursor->position -= kept; /* within one chunk, nothing needs copying */
        return true;
    }
    if (!join_room(cursor, kept))
        return false;
    memcpy(cursor->joined, cursor->data + cursor->span - kept, kept);
    cursor->tail = kept;
    cursor->tail_file_offset = chunk->file_offset + cursor->stop - kept;
    cursor->bridge_try = BRIDGE_MIN;
    return true;
}

enum spex_status spex_aux_next(struct spex_aux_cursor *cursor, struct spex_aux_span *span)
{
    assert(cursor && span);
    const struct queue *queue = cursor->queue;
    bool goes_on;
    uint32_t flags;
    MEMORY_OF(cursor->file->account);

    if (cursor->started) {
        if (cursor->last) {
            /* Nothing is kept across the end of a run. */
            cursor->kept = cursor->bridge = 0;
            drop_tail(cursor);
            cursor->position = cursor->stop;
            cursor->broken = true;
        } else {
            if (!apply_keep(cursor))
                return SPEX_NO_MEMORY;
            cursor->broken = false;
        }
    }
    cursor->started = true;
    cursor->begins = false;
    while (cursor->chunk < queue->chunks.count &&
           cursor->position == queue->chunks.items[cursor->chunk].size) {
        give_back(cursor, cursor->position);
        cursor->before += cursor->position;
        cursor->position = 0;
        cursor->chunk++;
        cursor->begins |=
            cursor->chunk < queue->chunks.count && queue->chunks.items[cursor->chunk - 1].stretch !=
                                                       queue->chunks.items[cursor->chunk].stretch;
    }
    if (cursor->chunk >= queue->chunks.count)
        return SPEX_END;
    const struct chunk *chunk = &queue->chunks.items[cursor->chunk];
    uint64_t end = run_end(cursor, &goes_on, &flags);
    const uint8_t *data = cursor->file->data + chunk->file_offset;

    *span = (struct spex_aux_span){.reference = chunk->reference};
    if (cursor->tail) {
        size_t fresh = cursor->bridge_try;
        if (fresh > end - cursor->position)
            fresh = (size_t)(end - cursor->position);
        if (!join_room(cursor, cursor->tail + fresh))
            return SPEX_NO_MEMORY;
        uint8_t *to = cursor->joined + cursor->tail;
        if (!cursor->room ||
            !read_bytes(cursor->file, chunk->file_offset + cursor->position, to, fresh))
            memcpy(to, data + cursor->position, fresh);
        cursor->bridge = fresh;
        cursor->stop = cursor->position + fresh;
        span->data = cursor->joined;
        span->size = cursor->tail + fresh;
        span->file_offset = cursor->tail_file_offset;
    } else {
        uint64_t size = end - cursor->position;
        give_back(cursor, cursor->position);
        if (size > SPAN_MAX)
            size = SPAN_MAX;
        cursor->bridge = 0;
        cursor->stop = cursor->position + size;
        if (cursor->part < 1 && size > PART_LEAST + (uint64_t)((double)size * cursor->part))
            size = PART_LEAST + (uint64_t)((double)size * cursor->part);
        span->data = data + cursor->position;
        span->size = (size_t)size;
        span->file_offset = chunk->file_offset + cursor->position;
        if (cursor->room && read_bytes(cursor->file, span->file_offset, cursor->room, span->size))
            span->data = cursor->room;
        else
            perfdata_need_pages(cursor->file, span->file_offset, span->file_offset + size);
    }
    span->offset = chunk->offset + cursor->position - cursor->tail;
    span->position = cursor->before + cursor->position - cursor->tail;
    span->contiguous = !cursor->broken;
    cursor->last = span->last = cursor->stop == end && !goes_on;
    span->flags = span->last ? flags : 0;
    cursor->span = span->size;
    cursor->data = span->data;
    return SPEX_OK;
}
