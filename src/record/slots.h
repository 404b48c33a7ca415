/*
 * The role of a packet in a record: a slot of slots.def, with a number, a bit of enum spex_has
 * and a field of struct spex_record; or one of a few that have no field.
 */
#ifndef RECORD_SLOTS_H
#define RECORD_SLOTS_H

#include <spex/record.h>

#include "wire/headers.h"

enum slot {
#define SLOT(name, type, index, field, words) SLOT_##name,
#include "record/slots.def"
    SLOTS,
    SLOT_OTHER = SLOTS, /* IMPLEMENTATION DEFINED; the bit SPEX_HAS_OTHER */
    SLOT_RESERVED,      /* reserved header or value: ignored, but counted as odd */
    SLOT_END,
    SLOT_PADDING,
};

#define SLOT(name, type, index, field, words)                                                      \
    _Static_assert(SPEX_HAS_##name == 1u << SLOT_##name, "record.h and slots.def");
#include "record/slots.def"

/* Sets of slots. A reserved packet has SPEX_HAS_OTHER as well. */
enum {
    HAS_RESERVED = 1 << SLOT_RESERVED | SPEX_HAS_OTHER,
    HAS_END = 1 << SLOT_END,
    HAS_CLOSING = SPEX_HAS_TIMESTAMP | HAS_END,
    /* What every record has (D17.6), and one found by resynchronization must have. */
    HAS_WHOLE = SPEX_HAS_PC | SPEX_HAS_OP | SPEX_HAS_EVENTS | SPEX_HAS_TOTAL,
};
_Static_assert(SPEX_HAS_OTHER == 1u << SLOT_OTHER, "record.h and slots.def");

/* By INDEX or CLASS; constant if its argument is. */
#define SLOT_OF_CONTEXT(i) ((i) < 2 ? SLOT_CONTEXT_EL1 + (i) : SLOT_RESERVED)
#define SLOT_OF_CLASS(i) ((i) <= SPEX_CLASS_BRANCH ? SLOT_OP : SLOT_RESERVED)
#define SLOT_OF_IMPDEF(i) ((i) == 6 || (i) == 7 || (i) >= 16 ? SLOT_OTHER : SLOT_RESERVED)
#define SLOT_OF_ADDRESS(i) ((i) <= SPEX_ADDRESS_PREV_TARGET ? SLOT_PC + (i) : SLOT_OF_IMPDEF(i))
#define SLOT_OF_COUNTER(i)                                                                         \
    ((i) <= SPEX_COUNTER_TRANSLATION ? SLOT_TOTAL + (i)                                            \
     : (i) == SPEX_COUNTER_ALT_ISSUE ? SLOT_ALT_ISSUE                                              \
                                     : SLOT_OF_IMPDEF(i))

/* The slot of a short header byte, for tables. */
#define SLOT_OF_HEADER(h)                                                                          \
    WIRE_CHOOSE(h, SLOT_PADDING, SLOT_END, SLOT_TIMESTAMP, SLOT_EVENTS, SLOT_DATA_SOURCE,          \
                SLOT_OF_CONTEXT((h)&WIRE_INDEX_CONTEXT),                                           \
                SLOT_OF_CLASS((h)&WIRE_INDEX_OPERATION_TYPE),                                      \
                SLOT_OF_ADDRESS((h)&WIRE_INDEX_ADDRESS), SLOT_OF_COUNTER((h)&WIRE_INDEX_COUNTER),  \
                SLOT_RESERVED)

/* As a set. */
#define SLOT_BITS(slot)                                                                            \
    ((slot) == SLOT_PADDING ? 0u : (slot) == SLOT_RESERVED ? (unsigned)HAS_RESERVED : 1u << (slot))

static inline enum slot slot_of(const struct spex_packet *packet)
{
    switch (packet->type) {
    case SPEX_PACKET_PADDING:
        return SLOT_PADDING;
    case SPEX_PACKET_END:
        return SLOT_END;
    case SPEX_PACKET_TIMESTAMP:
        return SLOT_TIMESTAMP;
    case SPEX_PACKET_EVENTS:
        return SLOT_EVENTS;
    case SPEX_PACKET_DATA_SOURCE:
        return SLOT_DATA_SOURCE;
    case SPEX_PACKET_CONTEXT:
        return (enum slot)SLOT_OF_CONTEXT(packet->index);
    case SPEX_PACKET_OPERATION_TYPE:
        return (enum slot)SLOT_OF_CLASS(packet->index);
    case SPEX_PACKET_ADDRESS:
        return (enum slot)SLOT_OF_ADDRESS(packet->index);
    case SPEX_PACKET_COUNTER:
        return (enum slot)SLOT_OF_COUNTER(packet->index);
    default:
        return SLOT_RESERVED;
    }
}

/* Length of the closing packet of a record with these bits of enum spex_has. */
static inline size_t closing_length(unsigned present)
{
    return present & SPEX_HAS_TIMESTAMP ? WIRE_LENGTH(WIRE_TIMESTAMP) : WIRE_LENGTH(WIRE_END);
}

#endif
