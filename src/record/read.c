/* Packets -> records (Arm ARM D18.1.2). */
#include <spex/record.h>

#include "base/error.h"
#include "base/sized.h"
#include "record/reader.h"
#include "record/resync.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

size_t spex_shapes_size(void)
{
    return sizeof(struct spex_shapes);
}

struct spex_shapes *spex_shapes_init(void *memory)
{
    assert(memory);
    struct spex_shapes *shapes = memory;
    shapes_init(shapes, fast_variant(0));
    return shapes;
}

enum spex_status spex_shapes_new(struct spex_shapes **shapes, struct spex_error *error)
{
    assert(shapes);
    void *memory = malloc(sizeof(struct spex_shapes));
    if (!memory)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for the shapes of records");
    *shapes = spex_shapes_init(memory);
    return SPEX_OK;
}

void spex_shapes_free(struct spex_shapes *shapes)
{
    free(shapes);
}

void reader_init(struct spex_reader *reader, struct spex_shapes *shapes)
{
    memset(reader, 0, offsetof(struct spex_reader, stream.queue));
    reader->good.first = -1;
    reader->last = true;
    reader->shapes = shapes;
}

size_t spex_reader_size(void)
{
    return sizeof(struct spex_reader);
}

enum spex_status spex_reader_init(void *memory, const struct spex_reader_options *options,
                                  struct spex_reader **reader, struct spex_error *error)
{
    assert(memory && reader);
    struct spex_reader_options o = {.size = sizeof o};
    enum spex_status status =
        options ? sized_take("spex_reader_options", options, &o, sizeof o, error) : SPEX_OK;
    if (status)
        return status;
    *reader = memory;
    reader_init(*reader, o.shapes);
    return SPEX_OK;
}

enum spex_status spex_reader_new(const struct spex_reader_options *options,
                                 struct spex_reader **reader, struct spex_error *error)
{
    assert(reader);
    struct spex_reader *r = NULL;
    void *memory = malloc(sizeof *r);
    enum spex_status status =
        memory ? spex_reader_init(memory, options, &r, error)
               : error_set(error, SPEX_NO_MEMORY, 0, "no memory for a reader of records");
    if (!status && !r->shapes) {
        r->owned = true;
        status = spex_shapes_new(&r->shapes, error);
    }
    if (status)
        free(memory);
    else
        *reader = r;
    return status;
}

void spex_reader_free(struct spex_reader *reader)
{
    if (reader && reader->owned)
        spex_shapes_free(reader->shapes);
    free(reader);
}

/* ---- feeding ---- */

size_t spex_reader_rest(const struct spex_reader *reader)
{
    /* A record may begin inside the closing packet of the last good one, but no earlier. */
    size_t from = reader->position > RESYNC_WINDOW ? reader->position - RESYNC_WINDOW : 0;
    from = reader->good.floor > from ? reader->good.floor : from;
    assert(reader->good.floor <= reader->position);
    return reader->last ? 0 : reader->size - from;
}

uint64_t spex_reader_position(const struct spex_reader *reader)
{
    assert(reader);
    return reader->base + reader->position;
}

void spex_reader_feed(struct spex_reader *reader, const uint8_t *data, size_t size, uint64_t offset,
                      bool last)
{
    assert(reader && (data || !size));
    size_t from = reader->size - spex_reader_rest(reader);
    if (!reader->last && offset == reader->base + from) {
        reader->position -= from;
        reader->good.floor = 0; /* at or before `from` */
    } else {
        reader->position = 0;
        reader->good = (struct reader_good){.close = offset, .first = -1};
    }
    reader->data = data;
    reader->size = size;
    reader->base = offset;
    reader->last = last;
    reader->stream.queued = reader->stream.taken = reader->stream.missed = 0;
}

/* ---- reading ---- */

/*
 * Remembers the last record that was certainly good: [start, end), with its closing packet
 * at close.
 */
static void remember(struct spex_reader *reader, size_t start, size_t close, size_t end)
{
    reader->good.first = reader->data[start];
    reader->good.close = reader->base + close;
    reader->good.floor = end - close > 1 ? close + 1 : end;
}

/* Implements the rules of docs/format.md. */
enum spex_status spex_reader_next(struct spex_reader *reader, struct spex_record *record,
                                  struct spex_damage *damage)
{
    assert(reader && record);
    size_t start = reader->position;
    while (start < reader->size && reader->data[start] == 0)
        start++;
    if (start == reader->size) {
        reader->position = start;
        return SPEX_END;
    }
    /* Later bytes cannot change what this record is. */
    size_t size = reader->size - start > READER_VIEW ? start + READER_VIEW : reader->size;
    /* Filled in place; restored if there is no record. */
    const struct spex_record before = *record;
    struct run run;
    enum outcome outcome = run_packets(reader->data, size, start, record, &run);
    bool clean = outcome == RUN_CLOSED && run.close > start && !run_is_odd(&run, record);
    if (!clean && !reader->last && reader->size - start < READER_VIEW) {
        reader->position = start; /* judged again once more bytes are there */
        *record = before;
        return SPEX_END;
    }
    if (!clean) {
        enum spex_status status = resync(reader, size, start, &run, outcome, damage);
        if (status != SPEX_OK) {
            *record = before;
            return status;
        }
    }
    record->offset = reader->base + start;
    record->size = (uint16_t)(run.end - start);
    record->present = (uint16_t)run.seen;
    reader->position = run.end;
    if (clean)
        remember(reader, start, run.close, run.end);
    return SPEX_OK;
}

/*
 * Tries the matching fast path: cells of known shapes, or any records, up to the first odd
 * one.
 */
static size_t fast_records(struct spex_reader *reader, struct spex_record *records, size_t count)
{
    if (!reader->shapes)
        return 0;
    return reader->shapes->streaming ? stream_read(reader, records, count)
                                     : cells_read(reader, records, count);
}

size_t spex_reader_batch(struct spex_reader *reader, struct spex_record *records, size_t count,
                         enum spex_status *status, struct spex_damage *damage)
{
    assert(reader && (records || !count) && status);
    size_t n = 0;
    *status = SPEX_OK;
    while (n < count) {
        size_t fast = fast_records(reader, records + n, count - n);
        n += fast;
        if (fast) {
            const struct spex_record *last = &records[n - 1];
            size_t start = (size_t)(last->offset - reader->base), end = start + last->size;
            remember(reader, start, end - closing_length(last->present), end);
            continue;
        }
        *status = spex_reader_next(reader, &records[n], damage);
        if (*status != SPEX_OK)
            break;
        bool odd = reader->good.floor <= records[n].offset - reader->base;
        if (!odd && reader->shapes && reader->shapes->streaming)
            stream_learn(reader, &records[n]);
        else if (!odd && reader->shapes)
            cells_learn(reader, &records[n]);
        n++;
    }
    return n;
}
