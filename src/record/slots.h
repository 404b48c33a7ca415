/*
 * Where a packet goes in struct spex_record: its presence bit, or none.
 */
#ifndef RECORD_SLOTS_H
#define RECORD_SLOTS_H

#include <spex/record.h>

/* What a packet means to a record. */
enum {
    SLOT_PADDING = 0,
    SLOT_OTHER = SPEX_HAS_OTHER,              /* IMPLEMENTATION DEFINED */
    SLOT_RESERVED = SPEX_HAS_OTHER | 1 << 16, /* reserved header or value: ignored, but told */
    SLOT_END = 1 << 17,
    SLOTS_CLOSING = SPEX_HAS_TIMESTAMP | SLOT_END,
};

/* The slot of a packet by type and index: one bit of enum spex_has or one of the above. */
static inline uint32_t slot_of(unsigned type, unsigned index)
{
    switch (type) {
    case SPEX_PACKET_PADDING:
        return SLOT_PADDING;
    case SPEX_PACKET_END:
        return SLOT_END;
    case SPEX_PACKET_TIMESTAMP:
        return SPEX_HAS_TIMESTAMP;
    case SPEX_PACKET_EVENTS:
        return SPEX_HAS_EVENTS;
    case SPEX_PACKET_DATA_SOURCE:
        return SPEX_HAS_DATA_SOURCE;
    case SPEX_PACKET_CONTEXT:
        return index < 2 ? SPEX_HAS_CONTEXT_EL1 << index : SLOT_RESERVED;
    case SPEX_PACKET_OPERATION_TYPE:
        return index < 3 ? SPEX_HAS_OP : SLOT_RESERVED;
    case SPEX_PACKET_ADDRESS: /* 5 and 8-15 are reserved, 6, 7 and 16-31 IMPLEMENTATION DEFINED */
        return index < 5                                ? SPEX_HAS_PC << index
               : index == 6 || index == 7 || index > 15 ? SLOT_OTHER
                                                        : SLOT_RESERVED;
    case SPEX_PACKET_COUNTER: /* 3, 5 and 8-15 are reserved */
        return index < 3                                ? SPEX_HAS_TOTAL << index
               : index == 4                             ? SPEX_HAS_ALT_ISSUE
               : index == 6 || index == 7 || index > 15 ? SLOT_OTHER
                                                        : SLOT_RESERVED;
    default:
        return SLOT_RESERVED;
    }
}

/* In every record (D17.6): what a record found by resynchronization must have. */
enum { SLOTS_WHOLE = SPEX_HAS_PC | SPEX_HAS_OP | SPEX_HAS_EVENTS | SPEX_HAS_TOTAL };

#endif
