/* Running through the packets of one record: by the tables, and fast. */
#include "record/run.h"

#include "base/bits.h"
#include "wire/fast.h"

#include <string.h>

/* ---- by the tables ---- */

static void store(struct spex_record *record, const struct spex_packet *packet)
{
    switch (packet->type) {
    case SPEX_PACKET_ADDRESS:
        if (packet->index < 5)
            record->address[packet->index] = packet->payload;
        break;
    case SPEX_PACKET_COUNTER:
        if (packet->index == SPEX_COUNTER_TOTAL)
            record->total = (uint16_t)packet->payload;
        else if (packet->index == SPEX_COUNTER_ISSUE)
            record->issue = (uint16_t)packet->payload;
        else if (packet->index == SPEX_COUNTER_TRANSLATION)
            record->translation = (uint16_t)packet->payload;
        else if (packet->index == SPEX_COUNTER_ALT_ISSUE)
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
        if (packet->index <= SPEX_CLASS_BRANCH) {
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

enum outcome run_packets_table(const uint8_t *data, size_t size, size_t start,
                               struct spex_record *record, struct run *run)
{
    size_t position = start;
    *run = (struct run){.end = start};
    *record = (struct spex_record){0};
    while (position < size) {
        struct spex_packet packet;
        if (spex_packet_decode_table(data + position, size - position, &packet) != SPEX_OK) {
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
            return RUN_OVERLONG;
        run->end = end;
        if (slot == SPEX_HAS_PC)
            run->pc = position + packet.header_size - 1;
        if (run->seen & slot & ~(uint32_t)SLOT_RESERVED)
            run->repeated = true;
        else
            store(record, &packet);
        run->seen |= slot;
        if (slot & SLOTS_CLOSING) {
            run->close = position;
            run->next = end;
            return RUN_CLOSED;
        }
        position = end;
    }
    run->next = size;
    return RUN_UNCLOSED;
}

/* ---- fast ---- */

/* Places of payloads while a record is read; the first eight are struct spex_record's own. */
enum {
    AT_ADDRESS, /* five */
    AT_EVENTS = 5,
    AT_TIMESTAMP,
    AT_OFFSET,                   /* not a packet's */
    AT_CONTEXT,                  /* two */
    AT_COUNTER = AT_CONTEXT + 2, /* total, issue, translation, alternate issue */
    AT_DATA_SOURCE = AT_COUNTER + 4,
    AT_OPERATION,
    AT_NOWHERE,
    AT_COUNT
};

/* What a header byte means (Table D18-1); extended headers borrow the entry of another. */
/* clang-format off */
struct header {
    uint32_t slots;
    uint8_t place, length; /* length: of header and payload */
    uint8_t shift;         /* the payload is the 8 bytes up to its end, shifted right */
};

#define IS(h, low, high) ((h) >= (low) && (h) <= (high))
#define SLOTS_OF(h)                                                                                \
    ((h) == 0x00                              ? SLOT_PADDING                                       \
     : (h) == 0x01                            ? SLOT_END                                           \
     : (h) == 0x71                            ? SPEX_HAS_TIMESTAMP                                 \
     : ((h)&0xcf) == 0x42                     ? SPEX_HAS_EVENTS                                    \
     : ((h)&0xef) == 0x43                     ? SPEX_HAS_DATA_SOURCE                               \
     : IS(h, 0x64, 0x65)                      ? SPEX_HAS_CONTEXT_EL1 << ((h)&1)                    \
     : IS(h, 0x48, 0x4a)                      ? SPEX_HAS_OP                                        \
     : IS(h, 0xb0, 0xb4)                      ? SPEX_HAS_PC << ((h)&7)                             \
     : IS(h, 0x98, 0x9a)                      ? SPEX_HAS_TOTAL << ((h)&7)                          \
     : (h) == 0x9c                            ? SPEX_HAS_ALT_ISSUE                                 \
     : IS(h, 0xb6, 0xb7) || IS(h, 0x9e, 0x9f) ? SLOT_OTHER                                         \
                                              : SLOT_RESERVED)
#define PLACE_OF(h)                                                                                \
    ((h) == 0x71          ? AT_TIMESTAMP                                                           \
     : ((h)&0xcf) == 0x42 ? AT_EVENTS                                                              \
     : ((h)&0xef) == 0x43 ? AT_DATA_SOURCE                                                         \
     : IS(h, 0x64, 0x65)  ? AT_CONTEXT + ((h)&1)                                                   \
     : IS(h, 0x48, 0x4a)  ? AT_OPERATION                                                           \
     : IS(h, 0xb0, 0xb4)  ? AT_ADDRESS + ((h)&7)                                                   \
     : IS(h, 0x98, 0x9a)  ? AT_COUNTER + ((h)&7)                                                   \
     : (h) == 0x9c        ? AT_COUNTER + 3                                                         \
                          : AT_NOWHERE)
#define SIZE_OF(h) ((h) < 0x40 ? 0 : 1 << ((h) >> 4 & 3))
#define ENTRY(h) {SLOTS_OF(h), PLACE_OF(h), 1 + SIZE_OF(h), (64 - 8 * SIZE_OF(h)) & 63}
#define ENTRIES4(h) ENTRY(h), ENTRY((h) + 1), ENTRY((h) + 2), ENTRY((h) + 3)
#define ENTRIES16(h) ENTRIES4(h), ENTRIES4((h) + 4), ENTRIES4((h) + 8), ENTRIES4((h) + 12)
#define ENTRIES64(h) ENTRIES16(h), ENTRIES16((h) + 16), ENTRIES16((h) + 32), ENTRIES16((h) + 48)
/* clang-format on */

static const struct header headers[256] = {ENTRIES64(0), ENTRIES64(64), ENTRIES64(128),
                                           ENTRIES64(192)};

/*
 * The header byte that stands for an extended header: its second byte for INDEX
 * below 8, an IMPLEMENTATION DEFINED one from 16 on, else a reserved one of the
 * same size.
 */
static unsigned extended(unsigned first, unsigned second)
{
    unsigned kind = second & 0xf8;
    if (first <= 0x23 && (kind == 0xb0 || kind == 0x98) && first != 0x21)
        return first == 0x20 ? second : kind | 6;
    return second < 0x40 ? 0x1f : (second & 0x30) | 0xc0;
}

enum outcome run_packets(const uint8_t *data, size_t size, size_t start, struct spex_record *record,
                         struct run *run)
{
    /* Away from both ends of the data and of the longest record no packet can be cut. */
    enum { NEAR = 16 };
    size_t last = size - start > SPEX_RECORD_MAX ? start + SPEX_RECORD_MAX : size;
    if (start < NEAR || last - start < 2 * NEAR)
        return run_packets_table(data, size, start, record, run);
    last -= NEAR;
    uint64_t place[AT_COUNT] = {0};
    uint8_t kind[AT_COUNT] = {0}; /* header bytes */
    uint32_t seen = 0, repeated = 0;
    size_t position = start, pc = 0;
    while (position < last) {
        /* Nothing but the length stands between one header and the next: loads are slow. */
        unsigned first = data[position], more = 0;
        if (__builtin_expect((first & 0xe0) == 0x20, 0)) {
            first = extended(first, data[position + 1]);
            more = 1;
        }
        struct header h = headers[first];
        size_t end = position + more + h.length;
        place[h.place] = le64(data + end - 8) >> h.shift;
        kind[h.place] = (uint8_t)first;
        repeated |= seen & h.slots;
        seen |= h.slots;
        pc = h.place == AT_ADDRESS ? position + more : pc;
        if (h.slots & SLOTS_CLOSING) {
            *run = (struct run){.seen = seen,
                                .repeated = repeated & ~(uint32_t)SLOT_RESERVED,
                                .pc = pc,
                                .close = position,
                                .end = end,
                                .next = end};
            /* Word by word: a wider load would wait for the stores above to leave the core. */
            const volatile uint64_t *words = place;
            for (unsigned i = 0; i < 5; i++)
                record->address[i] = words[AT_ADDRESS + i];
            record->events = words[AT_EVENTS];
            record->timestamp = words[AT_TIMESTAMP];
            record->context[0] = (uint32_t)place[AT_CONTEXT];
            record->context[1] = (uint32_t)place[AT_CONTEXT + 1];
            record->total = (uint16_t)place[AT_COUNTER];
            record->issue = (uint16_t)place[AT_COUNTER + 1];
            record->translation = (uint16_t)place[AT_COUNTER + 2];
            record->alt_issue = (uint16_t)place[AT_COUNTER + 3];
            record->data_source = (uint16_t)place[AT_DATA_SOURCE];
            record->op_payload = (uint8_t)place[AT_OPERATION];
            record->op_class = kind[AT_OPERATION] & 3;
            record->events_size = (uint8_t)(headers[kind[AT_EVENTS]].length - 1);
            record->data_source_size = (uint8_t)(headers[kind[AT_DATA_SOURCE]].length - 1);
            memset(record->zero, 0, sizeof record->zero);
            return RUN_CLOSED;
        }
        position = end;
    }
    return run_packets_table(data, size, start, record, run);
}
