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

enum {
    WINDOW = SPEX_RECORD_MAX + 32,
    CHAIN_VALID = 1 << 31, /* packets lead from here to a closing one, no repeat, none reserved */
    CHAIN_START = 1 << 30, /* and it is a whole record */
};

struct chain {
    uint32_t slots;  /* of the packets from here on, and the flags above */
    uint16_t end;    /* of the closing packet */
    uint8_t length;  /* of the packet here */
};

/*
 * For every byte of data, what a record that began there would be. Worked out
 * from the back, one step per byte. Records must end at end_low or behind it.
 */
static void follow_chains(bool table, const uint8_t *data, size_t size, size_t end_low,
                          struct chain *chain)
{
    memset(chain + size, 0, sizeof *chain * (SPEX_PACKET_MAX + 1));
    for (size_t i = size; i-- > 0;) {
        struct spex_packet packet;
        chain[i] = (struct chain){0};
        if (!fetch(table, data + i, size - i, &packet))
            continue;
        uint32_t slot = slot_of(packet.type, packet.index);
        size_t next = i + spex_packet_length(&packet);
        if (slot & (SPEX_HAS_TIMESTAMP | SLOT_END)) {
            if (next >= end_low)
                chain[i] = (struct chain){CHAIN_VALID | slot, (uint16_t)next, 0};
            continue;
        }
        struct chain rest = chain[next];
        if (!(rest.slots & CHAIN_VALID) || slot == SLOT_RESERVED ||
            (rest.slots & slot & ~(uint32_t)SPEX_HAS_OTHER) || rest.end - i > SPEX_RECORD_MAX)
            continue;
        rest.slots = (rest.slots & ~(uint32_t)CHAIN_START) | slot;
        rest.length = (uint8_t)(next - i);
        if (slot != SLOT_PADDING && (rest.slots & SLOTS_WHOLE) == SLOTS_WHOLE)
            rest.slots |= CHAIN_START;
        chain[i] = rest;
    }
}

/*
 * The latest whole record in [low, high) that begins before limit: one that
 * begins with the header byte `first` if there is any. A place inside the first
 * packet of another such record is no place of its own.
 */
static bool find_whole(bool table, const uint8_t *data, size_t low, size_t high, size_t end_low,
                       size_t limit, int first, size_t *found)
{
    struct chain chain[WINDOW + SPEX_PACKET_MAX + 1];
    if (high - low > WINDOW)
        low = high - WINDOW;
    data += low;
    follow_chains(table, data, high - low, end_low - low, chain);
    for (int any = first < 0; any < 2; any++) {
        for (size_t i = limit - low; i-- > 0;) {
            if (!(chain[i].slots & CHAIN_START) || (!any && data[i] != first))
                continue;
            size_t best = i;
            for (size_t j = i; j-- > 0 && i - j < SPEX_PACKET_MAX;)
                if ((chain[j].slots & CHAIN_START) && (any || data[j] == first) &&
                    j + chain[j].length > i)
                    best = j;
            *found = low + best;
            return true;
        }
    }
    return false;
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

/* Whole, nothing twice, nothing reserved: no reason to doubt it. */
static inline bool is_clean(const struct run *run)
{
    return !run->repeated && (run->seen & SLOTS_WHOLE) == SLOTS_WHOLE &&
           (run->seen & SLOT_RESERVED) != SLOT_RESERVED;
}

/*
 * A record that is not whole, repeats a packet, has a reserved one or no end:
 * is there a better reading of its bytes? SPEX_OK if not and it stands as it is.
 */
static enum spex_status resynchronize(bool table, struct spex_record_reader *reader, size_t start,
                                      const struct run *run, enum outcome outcome,
                                      struct spex_damage *damage)
{
    const struct reader_state *state = reader_state(reader);
    const uint8_t *data = reader->data;
    size_t found, high = run->next, end_low = run->next, limit = run->next;
    if (outcome == UNCLOSED) {
        /* A record may end before trailing padding, or in a Timestamp's own zero bytes. */
        for (end_low = reader->size; end_low > start && !data[end_low - 1]; end_low--)
            ;
        limit = high = reader->size - end_low > 8 ? end_low + 8 : reader->size;
    }
    bool better = find_whole(table, data, state->floor, high, end_low, limit, state->first, &found);
    if (!better && outcome == CLOSED) {
        /* The closing packet may be bytes of a record that ends later. */
        struct spex_record ignored;
        struct run after;
        if (run_packets(table, data, reader->size, run->next, &ignored, &after) == CLOSED &&
            !is_clean(&after))
            better = find_whole(table, data, state->floor, after.next, after.next, limit,
                                state->first, &found);
    }
    if (better && found > start)
        return give_up(reader, SPEX_INVALID, start, found, found,
                       "damaged record: a whole one begins behind it", damage);
    if (better)
        return give_up(reader, SPEX_INVALID, state->close, found, found,
                       "damaged closing packet: a whole record begins inside it", damage);
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
    bool clean = outcome == CLOSED && is_clean(&run);
    /* An operation that was not retired or took an exception may lack anything else (D17.6). */
    bool partial = outcome == CLOSED && !run.repeated &&
                   (run.seen & SLOT_RESERVED) != SLOT_RESERVED && run.seen & SPEX_HAS_EVENTS &&
                   (r.events & 3) != 2;
    if (!clean && !partial) {
        enum spex_status status = resynchronize(table, reader, start, &run, outcome, damage);
        if (status != SPEX_OK)
            return status;
    }
    r.size = (uint16_t)(run.end - start);
    r.present = (uint16_t)run.seen;
    *record = r;
    reader->position = run.end;
    if (clean) {
        state->first = reader->data[start];
        state->close = run.close;
        state->floor = run.seen & SLOT_END ? run.end : run.close + 1;
    }
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
