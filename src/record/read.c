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
    reader->data = data;
    reader->size = size;
    reader->position = 0;
    reader->base = base;
    memset(state, 0, offsetof(struct reader_state, shapes));
    state->first = -1;
    state->variant = (uint8_t)reader_best_variant();
}

/* The last record that was beyond doubt is [start, end), closed from close on. */
static void remember(struct spex_record_reader *reader, size_t start, size_t close, size_t end)
{
    struct reader_state *state = reader_state(reader);
    state->first = reader->data[start];
    state->close = close;
    state->floor = end - close > 1 ? close + 1 : end;
}

/* The rules of docs/format.md, over either way to run through packets. */
static enum spex_status next_record(struct spex_record_reader *reader, struct spex_record *record,
                                    struct spex_damage *damage, run_function *run_record)
{
    size_t start = reader->position;
    while (start < reader->size && reader->data[start] == 0)
        start++;
    if (start == reader->size) {
        reader->position = start;
        return SPEX_END;
    }
    struct spex_record r = {.offset = reader->base + start};
    struct run run;
    enum outcome outcome = run_record(reader->data, reader->size, start, &r, &run);
    if (outcome == RUN_OVERLONG)
        return resync_give_up(reader, SPEX_INVALID, start, run.end, run.next,
                              "no closing packet within 2048 bytes", damage);
    if (outcome == RUN_CLOSED && run.close == start)
        return resync_give_up(reader, SPEX_INVALID, start, run.end, run.end,
                              "a closing packet without a record", damage);
    bool clean = outcome == RUN_CLOSED && !run_is_odd(&run, &r);
    if (!clean) {
        enum spex_status status = resync(reader, start, &run, outcome, run_record, damage);
        if (status != SPEX_OK)
            return status;
    }
    r.size = (uint16_t)(run.end - start);
    r.present = (uint16_t)run.seen;
    *record = r;
    reader->position = run.end;
    if (clean)
        remember(reader, start, run.close, run.end);
    return SPEX_OK;
}

enum spex_status spex_record_next(struct spex_record_reader *reader, struct spex_record *record,
                                  struct spex_damage *damage)
{
    return next_record(reader, record, damage, run_packets);
}

enum spex_status spex_record_next_table(struct spex_record_reader *reader,
                                        struct spex_record *record, struct spex_damage *damage)
{
    return next_record(reader, record, damage, run_packets_table);
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
            remember(reader, start, end - (last->present & SPEX_HAS_TIMESTAMP ? 9 : 1), end);
        }
        if (n == count)
            break;
        *status = spex_record_next(reader, &records[n], damage);
        if (*status != SPEX_OK)
            break;
        size_t start = (size_t)(records[n].offset - reader->base);
        if (state->floor > start) /* it was beyond doubt */
            fast_learn(state, reader->data + start, records[n].size, reader->size - start);
        n++;
    }
    return n;
}
