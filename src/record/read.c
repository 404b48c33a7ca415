/*
 * Packets -> records, and how reading goes on behind damage (Arm ARM D18.1.2;
 * docs/format.md, "Resynchronization", numbers the rules named here).
 */
#include <spex/record.h>

#include "record/reader.h"
#include "record/slots.h"
#include "wire/fast.h"

#include <string.h>

_Static_assert(sizeof(struct reader_state) <= sizeof((struct spex_record_reader *)0)->opaque,
               "the private part of a reader fits");

void spex_record_reader_init(struct spex_record_reader *reader, const uint8_t *data, size_t size,
                             uint64_t base)
{
    *reader = (struct spex_record_reader){.data = data, .size = size, .base = base};
    reader_state(reader)->first = -1;
}

/* One source for both decoders: the same rules over either way to decode a packet. */
static inline __attribute__((always_inline)) bool
fetch(bool table, const uint8_t *data, size_t size, struct spex_packet *packet)
{
    return table ? spex_packet_decode_table(data, size, packet) == SPEX_OK
                 : wire_decode(data, size, packet);
}

/* Stores the payload where slot says; the caller has checked that it is the first. */
static inline void store(struct spex_record *record, uint32_t slot, const struct spex_packet *packet)
{
    switch (packet->type) {
    case SPEX_PACKET_ADDRESS:
        if (packet->index < 5)
            record->address[packet->index] = packet->payload;
        break;
    case SPEX_PACKET_COUNTER:
        if (slot == SPEX_HAS_TOTAL)
            record->total = (uint16_t)packet->payload;
        else if (slot == SPEX_HAS_ISSUE)
            record->issue = (uint16_t)packet->payload;
        else if (slot == SPEX_HAS_TRANSLATION)
            record->translation = (uint16_t)packet->payload;
        else if (slot == SPEX_HAS_ALT_ISSUE)
            record->alt_issue = (uint16_t)packet->payload;
        break;
    case SPEX_PACKET_CONTEXT:
        if (packet->index < 2)
            record->context[packet->index] = (uint32_t)packet->payload;
        break;
    case SPEX_PACKET_EVENTS:
        record->events = packet->payload;
        record->events_size = packet->size;
        break;
    case SPEX_PACKET_DATA_SOURCE:
        record->data_source = (uint16_t)packet->payload;
        record->data_source_size = packet->size;
        break;
    case SPEX_PACKET_OPERATION_TYPE:
        if (packet->index < 3) {
            record->op_class = packet->index;
            record->op_payload = (uint8_t)packet->payload;
        }
        break;
    case SPEX_PACKET_TIMESTAMP:
        record->timestamp = packet->payload;
        break;
    default:
        break;
    }
}

/* How a run of packets ended. */
enum outcome { CLOSED, UNCLOSED, OVERLONG };

struct run {
    uint32_t seen;  /* slots */
    bool repeated;  /* an architected packet came twice */
    bool cut;       /* UNCLOSED: inside a packet */
    size_t close;   /* CLOSED: where the closing packet begins */
    size_t end;     /* end of the last packet that is not padding */
    size_t next;    /* where the run stopped */
};

static inline __attribute__((always_inline)) enum outcome
run_packets(bool table, const uint8_t *data, size_t size, size_t start, struct spex_record *record,
            struct run *run)
{
    size_t position = start;
    *run = (struct run){.end = start};
    while (position < size) {
        struct spex_packet packet;
        if (!fetch(table, data + position, size - position, &packet)) {
            run->cut = true;
            break;
        }
        size_t end = position + spex_packet_length(&packet);
        uint32_t slot = slot_of(packet.type, packet.index);
        run->next = position;
        if (slot == SLOT_PADDING) {
            position = end;
            continue;
        }
        if (end - start > SPEX_RECORD_MAX)
            return OVERLONG;
        run->end = end;
        if (run->seen & slot & ~(uint32_t)SLOT_RESERVED)
            run->repeated = true;
        else
            store(record, slot, &packet);
        run->seen |= slot;
        if (slot & (SPEX_HAS_TIMESTAMP | SLOT_END)) {
            run->close = position;
            run->next = end;
            return CLOSED;
        }
        position = end;
    }
    run->next = size;
    return UNCLOSED;
}

/*
 * Rule 5: the latest place in [low, high) from which a whole record, free of
 * repeats and reserved packets, is closed at or after close_low, ending exactly
 * at high or (before trailing padding) anywhere up to it. A place that begins
 * like the record before (first) wins. Works backwards, one step per byte.
 */
static bool find_whole(bool table, const uint8_t *data, size_t low, size_t high, size_t end_low,
                       size_t not_here, int first, size_t *found)
{
    enum { WINDOW = SPEX_RECORD_MAX + 32, VALID = 1 << 31 };
    uint32_t chain[WINDOW + SPEX_PACKET_MAX + 1];
    uint16_t chain_end[WINDOW + SPEX_PACKET_MAX + 1]; /* end of the record, from low */
    if (high - low > WINDOW)
        low = high - WINDOW;
    size_t n = high - low;
    bool any = false;
    memset(chain + n, 0, sizeof *chain * (SPEX_PACKET_MAX + 1));
    for (size_t i = n; i-- > 0;) {
        struct spex_packet packet;
        chain[i] = 0;
        if (!fetch(table, data + low + i, n - i, &packet))
            continue;
        uint32_t slot = slot_of(packet.type, packet.index);
        size_t next = i + spex_packet_length(&packet);
        if (slot & (SPEX_HAS_TIMESTAMP | SLOT_END)) {
            if (low + next >= end_low) {
                chain[i] = VALID | slot;
                chain_end[i] = (uint16_t)next;
            }
            continue;
        }
        uint32_t rest = chain[next];
        if (!(rest & VALID) || slot == SLOT_RESERVED ||
            (rest & slot & ~(uint32_t)SPEX_HAS_OTHER) || chain_end[next] - i > SPEX_RECORD_MAX)
            continue;
        chain[i] = rest | slot;
        chain_end[i] = chain_end[next];
        if (slot == SLOT_PADDING || low + i == not_here ||
            (chain[i] & SLOTS_WHOLE) != SLOTS_WHOLE)
            continue;
        if (!any) {
            *found = low + i;
            any = true;
        }
        if (first < 0)
            return true;
        if (data[low + i] == first) {
            *found = low + i;
            return true;
        }
    }
    return any;
}

static enum spex_status give_up(struct spex_record_reader *reader, enum spex_status status,
                                size_t from, size_t to, size_t next, const char *reason,
                                struct spex_damage *damage)
{
    if (damage)
        *damage = (struct spex_damage){.status = status,
                                       .offset = reader->base + from,
                                       .size = to - from,
                                       .reason = reason};
    reader->position = next;
    return status;
}

/* A record ended in some suspicious way: is there a better reading of its bytes? */
static enum spex_status resynchronize(bool table, struct spex_record_reader *reader, size_t start,
                                      const struct run *run, enum outcome outcome,
                                      struct spex_damage *damage)
{
    struct reader_state *state = reader_state(reader);
    size_t found, high = run->next, end_low = run->next;
    if (outcome == UNCLOSED) {
        /* The record may end before trailing padding, or a Timestamp's own zero bytes. */
        for (end_low = reader->size; end_low > start && !reader->data[end_low - 1]; end_low--)
            ;
        high = reader->size - end_low > 8 ? end_low + 8 : reader->size;
    }
    if (find_whole(table, reader->data, state->floor, high, end_low, start, state->first, &found)) {
        if (found > start)
            return give_up(reader, SPEX_INVALID, start, found, found,
                           "no closing packet before the next record", damage);
        return give_up(reader, SPEX_INVALID, state->close, found, found,
                       "the next record begins inside this closing packet", damage);
    }
    if (outcome == UNCLOSED)
        return give_up(reader, SPEX_TRUNCATED, start, run->cut ? reader->size : run->end,
                       reader->size,
                       run->cut ? "the data ends inside a packet"
                                : "the data ends before the closing packet",
                       damage);
    if (run->repeated)
        return give_up(reader, SPEX_INVALID, start, run->end, run->next,
                       "a packet comes twice in one record", damage);
    return SPEX_OK;
}

static inline __attribute__((always_inline)) enum spex_status
next_record(bool table, struct spex_record_reader *reader, struct spex_record *record,
            struct spex_damage *damage)
{
    struct reader_state *state = reader_state(reader);
    size_t start = reader->position;
    while (start < reader->size && reader->data[start] == 0)
        start++;
    if (start == reader->size) {
        reader->position = start;
        return SPEX_END;
    }
    struct spex_record r = {.offset = reader->base + start};
    struct run run;
    enum outcome outcome = run_packets(table, reader->data, reader->size, start, &r, &run);
    if (outcome == OVERLONG)
        return give_up(reader, SPEX_INVALID, start, run.end, run.next,
                       "no closing packet within 2048 bytes", damage);
    if (outcome == CLOSED && run.close == start)
        return give_up(reader, SPEX_INVALID, start, run.end, run.end,
                       "a closing packet without a record", damage);
    bool clean = outcome == CLOSED && !run.repeated && (run.seen & SPEX_HAS_PC) &&
                 (run.seen & SLOT_RESERVED) != SLOT_RESERVED;
    if (!clean) {
        enum spex_status status = resynchronize(table, reader, start, &run, outcome, damage);
        if (status != SPEX_OK)
            return status;
    }
    r.size = (uint16_t)(run.end - start);
    r.present = (uint16_t)run.seen;
    *record = r;
    reader->position = run.end;
    state->first = reader->data[start];
    state->close = run.close;
    state->floor = run.seen & SLOT_END ? run.end : run.close + 1;
    return SPEX_OK;
}

enum spex_status spex_record_next(struct spex_record_reader *reader, struct spex_record *record,
                                  struct spex_damage *damage)
{
    return next_record(false, reader, record, damage);
}

enum spex_status spex_record_next_table(struct spex_record_reader *reader,
                                        struct spex_record *record, struct spex_damage *damage)
{
    return next_record(true, reader, record, damage);
}

size_t spex_record_batch(struct spex_record_reader *reader, struct spex_record *records,
                         size_t count, enum spex_status *status, struct spex_damage *damage)
{
    size_t n = 0;
    *status = SPEX_OK;
    while (n < count) {
        *status = spex_record_next(reader, &records[n], damage);
        if (*status != SPEX_OK)
            break;
        n++;
    }
    return n;
}
