/* Packets -> records (Arm ARM D18.1.2). */
#include <spex/record.h>

#include "record/reader.h"
#include "record/resync.h"

#include <string.h>

_Static_assert(sizeof(struct reader_state) <= sizeof((struct spex_record_reader *)0)->opaque,
               "the private part of a reader fits");

void spex_record_reader_init(struct spex_record_reader *reader, const uint8_t *data, size_t size,
                             uint64_t base)
{
    struct reader_state *state = reader_state(reader);
    memset(state, 0, offsetof(struct reader_state, key_places));
    state->last_shape = NO_SHAPE;
    state->variant = (uint8_t)reader_best_variant();
    state->pause = 256;
    state->shapes_at = -(uintptr_t)state->shapes % CELL;
    spex_record_reader_continue(reader, data, size, base);
}

void spex_record_reader_continue(struct spex_record_reader *reader, const uint8_t *data,
                                 size_t size, uint64_t base)
{
    struct reader_state *state = reader_state(reader);
    reader->data = data;
    reader->size = size;
    reader->position = 0;
    reader->base = base;
    state->close = state->floor = 0;
    state->first = -1;
    state->queued = state->taken = state->missed = 0;
}

/* The last record that was beyond doubt is [start, end), closed from close on. */
static void remember(struct spex_record_reader *reader, size_t start, size_t close, size_t end)
{
    struct reader_state *state = reader_state(reader);
    state->first = reader->data[start];
    state->close = close;
    state->floor = end - close > 1 ? close + 1 : end;
}

/* The rules of docs/format.md. */
enum spex_status spex_record_next(struct spex_record_reader *reader, struct spex_record *record,
                                  struct spex_damage *damage)
{
    size_t start = reader->position;
    while (start < reader->size && reader->data[start] == 0)
        start++;
    if (start == reader->size) {
        reader->position = start;
        return SPEX_END;
    }
    /* What a record is does not depend on what stands further behind. */
    size_t size = reader->size - start > READER_VIEW ? start + READER_VIEW : reader->size;
    /* Filled in place; put back if there is no record. */
    const struct spex_record before = *record;
    struct run run;
    enum outcome outcome = run_packets(reader->data, size, start, record, &run);
    bool clean = outcome == RUN_CLOSED && run.close > start && !run_is_odd(&run, record);
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

/* Cells of known shapes fail to come so many times in a row, and are no use. */
enum { GIVE_UP = 32 };

/* Whatever is fast here: cells of known shapes, or any records; up to the first that is odd. */
static size_t fast_records(struct spex_record_reader *reader, struct spex_record *records,
                           size_t count)
{
    enum { LONGEST = 1 << 20 };
    struct reader_state *state = reader_state(reader);
    if (!state->streaming) {
        size_t n = shape_records(reader, records, count);
        state->failures = n ? 0 : state->failures + 1;
        if (state->failures == GIVE_UP)
            stream_start(reader);
        return n;
    }
    /* Neither is the tree of any use: try cells again later, ever less often. */
    if (state->idle && ++state->failures > state->pause) {
        state->pause = state->pause < LONGEST ? 2 * state->pause : LONGEST;
        shape_start(reader);
        return 0;
    }
    return stream_records(reader, records, count);
}

size_t spex_record_batch(struct spex_record_reader *reader, struct spex_record *records,
                         size_t count, enum spex_status *status, struct spex_damage *damage)
{
    struct reader_state *state = reader_state(reader);
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
        *status = spex_record_next(reader, &records[n], damage);
        if (*status != SPEX_OK)
            break;
        bool odd = state->floor <= records[n].offset - reader->base;
        if (!odd && state->streaming)
            stream_learn(reader, &records[n]);
        else if (!odd)
            shape_learn(reader, &records[n]);
        n++;
    }
    return n;
}
