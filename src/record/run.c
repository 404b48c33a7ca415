/* Reads the packets of one record: a careful version, and a fast one. */
#include "record/run.h"

#include "wire/headers.h"

#include <string.h>

/* ---- the careful version: near the ends of the data ---- */

static void store(struct spex_record *record, const struct spex_packet *packet, enum slot slot)
{
    switch (slot) {
#define SLOT(name, type, index, field, words)                                                      \
    case SLOT_##name:                                                                              \
        record->field = (__typeof__(record->field))packet->payload;                                \
        break;
#include "record/slots.def"
    default:
        break;
    }
    if (slot == SLOT_EVENTS)
        record->events_size = packet->size;
    else if (slot == SLOT_DATA_SOURCE)
        record->data_source_size = packet->size;
    else if (slot == SLOT_OP)
        record->op_class = packet->index;
}

static enum outcome run_carefully(const uint8_t *data, size_t size, size_t start,
                                  struct spex_record *record, struct run *run)
{
    size_t position = start;
    *run = (struct run){.end = start};
    *record = (struct spex_record){0};
    while (position < size) {
        struct spex_packet packet;
        if (!wire_decode(data + position, size - position, &packet)) {
            run->cut = true;
            break;
        }
        size_t end = position + spex_packet_length(&packet);
        enum slot slot = slot_of(&packet);
        uint32_t bits = SLOT_BITS(slot);
        run->next = position;
        if (slot == SLOT_PADDING) {
            position = end;
            continue;
        }
        if (end - start > SPEX_RECORD_MAX)
            return RUN_OVERLONG;
        run->end = end;
        if (slot == SLOT_PC)
            run->pc = position + packet.header_size - 1;
        if (run->seen & bits & ~(uint32_t)HAS_RESERVED)
            run->repeated = true;
        else
            store(record, &packet, slot);
        run->seen |= bits;
        if (bits & HAS_CLOSING) {
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

/*
 * What a header byte means; extended headers use the entry of another byte. The payload is the
 * 8 bytes up to its end, shifted right; it goes to the place of its slot, or to a dummy.
 */
struct header {
    uint32_t slots;
    uint8_t place, length, shift;
};

enum { NOWHERE = SLOTS, PLACES };

#define PLACE(slot) ((slot) < SLOTS ? (slot) : NOWHERE)
#define ENTRY(h)                                                                                   \
    {                                                                                              \
        SLOT_BITS(SLOT_OF_HEADER(h)), PLACE(SLOT_OF_HEADER(h)), WIRE_LENGTH(h),                    \
            (64 - 8 * WIRE_SIZE(h)) & 63                                                           \
    }

static const struct header headers[256] = WIRE_ALL(ENTRY);

/*
 * The header byte whose entry an extended header uses: its second byte for INDEX below 8, an
 * IMPLEMENTATION DEFINED one from 16 on, else a reserved one of the same size.
 */
static unsigned extended(unsigned first, unsigned second)
{
    enum { NO_PAYLOAD = 0x1f, PAYLOAD = 0xc0, SZ = 0x30 };
    struct wire_header h = wire_extended(first, second);
    if (h.type != SPEX_PACKET_RESERVED && h.index < 8)
        return second;
    if (h.type != SPEX_PACKET_RESERVED && SLOT_OF_IMPDEF(h.index) == SLOT_OTHER)
        return (second & ~7u) | 6;
    return h.size ? PAYLOAD | (second & SZ) : NO_PAYLOAD;
}

enum outcome run_packets(const uint8_t *data, size_t size, size_t start, struct spex_record *record,
                         struct run *run)
{
    /*
     * This far from both ends of the data and from the longest record, no packet can be cut
     * off.
     */
    enum { NEAR = 16 };
    size_t last = size - start > SPEX_RECORD_MAX ? start + SPEX_RECORD_MAX : size;
    if (start < NEAR || last - start < 2 * NEAR)
        return run_carefully(data, size, start, record, run);
    last -= NEAR;
    uint64_t place[PLACES] = {0};
    uint8_t kind[PLACES] = {0}; /* header bytes */
    uint32_t seen = 0, repeated = 0;
    size_t position = start, pc = 0;
    while (position < last) {
        /*
         * The next step needs only the length, so it is computed rather than loaded: loads
         * are slow.
         */
        unsigned first = data[position], more = 0;
        if (__builtin_expect(WIRE_IS_EXTENDED(first), 0)) {
            first = extended(first, data[position + 1]);
            more = 1;
        }
        struct header h = headers[first];
        size_t end = position + more + h.length;
        place[h.place] = le64(data + end - 8) >> h.shift;
        kind[h.place] = (uint8_t)first;
        repeated |= seen & h.slots;
        seen |= h.slots;
        pc = h.place == SLOT_PC ? position + more : pc;
        if (h.slots & HAS_CLOSING) {
            *run = (struct run){.seen = seen,
                                .repeated = repeated & ~(uint32_t)HAS_RESERVED,
                                .pc = pc,
                                .close = position,
                                .end = end,
                                .next = end};
            /*
             * Word by word: a wider load would have to wait until the stores above have left
             * the core.
             */
            const volatile uint64_t *words = place;
#define SLOT(name, type, index, field, words_)                                                     \
    record->field = (__typeof__(record->field))words[SLOT_##name];
#include "record/slots.def"
            record->op_class = kind[SLOT_OP] & WIRE_INDEX_OPERATION_TYPE;
            record->events_size = (uint8_t)(headers[kind[SLOT_EVENTS]].length - 1);
            record->data_source_size = (uint8_t)(headers[kind[SLOT_DATA_SOURCE]].length - 1);
            memset(record->zero, 0, sizeof record->zero);
            return RUN_CLOSED;
        }
        position = end;
    }
    return run_carefully(data, size, start, record, run);
}
