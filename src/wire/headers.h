/*
 * What header bytes mean, from packets.def: constants for code that writes packets, a table of the
 * 256 header bytes for code that reads them, and the decoder's core.
 */
#ifndef WIRE_HEADERS_H
#define WIRE_HEADERS_H

#include <spex/wire.h>

#include "base/bits.h"
#include "wire/rows.h"

/* Payload bytes by the last header byte (D18.1.1). Everything else uses this. */
#define WIRE_SIZE(h) ((h) < 0x40 ? 0 : 1 << ((h) >> 4 & 3))
/* Header and payload bytes of a packet with a short header. */
#define WIRE_LENGTH(h) (1 + WIRE_SIZE(h))
/* The SZ bits of a header for a size, which is a power of two. */
#define WIRE_SZ(size) ((unsigned)__builtin_ctz(size) << 4)
/* The first byte of an extended header; the second one has type, size and INDEX[2:0]. */
#define WIRE_IS_EXTENDED(h) (((h)&0xe0) == 0x20)

/*
 * WIRE_x: the header byte of packet x with SZ, INDEX and CLASS 0. WIRE16_x: the second byte of
 * its extended header. The other constants: which bits are fixed, where INDEX or CLASS is,
 * allowed sizes as bits.
 */
enum {
#define B0 1
#define B1 (1 << 1)
#define B2 (1 << 2)
#define B4 (1 << 4)
#define B8 (1 << 8)
#define PACKET(type, b7, b6, b5, b4, b3, b2, b1, b0, sizes, name)                                  \
    WIRE_##type = ROW_VALUE(b7, b6, b5, b4, b3, b2, b1, b0),                                       \
    WIRE_FIXED_##type = ROW_MASK(b7, b6, b5, b4, b3, b2, b1, b0),                                  \
    WIRE_INDEX_##type = ROW_BITS('i', b7, b6, b5, b4, b3, b2, b1, b0) |                            \
                        ROW_BITS('c', b7, b6, b5, b4, b3, b2, b1, b0),                             \
    WIRE_SIZES_##type = sizes,
#define PACKET16(type, a7, a6, a5, a4, a3, a2, a1, a0, b7, b6, b5, b4, b3, b2, b1, b0, sizes)      \
    WIRE16_FIRST_##type = ROW_VALUE(a7, a6, a5, a4, a3, a2, a1, a0),                               \
    WIRE16_FIRST_FIXED_##type = ROW_MASK(a7, a6, a5, a4, a3, a2, a1, a0),                          \
    WIRE16_FIRST_INDEX_##type = ROW_BITS('i', a7, a6, a5, a4, a3, a2, a1, a0),                     \
    WIRE16_##type = ROW_VALUE(b7, b6, b5, b4, b3, b2, b1, b0),                                     \
    WIRE16_FIXED_##type = ROW_MASK(b7, b6, b5, b4, b3, b2, b1, b0),                                \
    WIRE16_INDEX_##type = ROW_BITS('i', b7, b6, b5, b4, b3, b2, b1, b0),                           \
    WIRE16_SIZES_##type = sizes,
#include "wire/packets.def"
#undef B0
#undef B1
#undef B2
#undef B4
#undef B8
};

#define WIRE_IS(h, type)                                                                           \
    (((h)&WIRE_FIXED_##type) == WIRE_##type && (WIRE_SIZES_##type >> WIRE_SIZE(h) & 1))
#define WIRE16_IS(first, second, type)                                                             \
    (((first)&WIRE16_FIRST_FIXED_##type) == WIRE16_FIRST_##type &&                                 \
     ((second)&WIRE16_FIXED_##type) == WIRE16_##type &&                                            \
     (WIRE16_SIZES_##type >> WIRE_SIZE(second) & 1))

/* Selects by the packet that a header byte stands for; constant if the byte is. */
#define WIRE_CHOOSE(h, padding, end, timestamp, events, source, context, op, address, counter,     \
                    other)                                                                         \
    (WIRE_IS(h, PADDING)          ? (padding)                                                      \
     : WIRE_IS(h, END)            ? (end)                                                          \
     : WIRE_IS(h, TIMESTAMP)      ? (timestamp)                                                    \
     : WIRE_IS(h, EVENTS)         ? (events)                                                       \
     : WIRE_IS(h, DATA_SOURCE)    ? (source)                                                       \
     : WIRE_IS(h, CONTEXT)        ? (context)                                                      \
     : WIRE_IS(h, OPERATION_TYPE) ? (op)                                                           \
     : WIRE_IS(h, ADDRESS)        ? (address)                                                      \
     : WIRE_IS(h, COUNTER)        ? (counter)                                                      \
                                  : (other))
#define WIRE_INDEX(h)                                                                              \
    WIRE_CHOOSE(h, 0, 0, 0, 0, 0, (h)&WIRE_INDEX_CONTEXT, (h)&WIRE_INDEX_OPERATION_TYPE,           \
                (h)&WIRE_INDEX_ADDRESS, (h)&WIRE_INDEX_COUNTER, 0)

/* {entry(0), ..., entry(255)} */
#define WIRE_ALL_4(entry, h) entry(h), entry((h) + 1), entry((h) + 2), entry((h) + 3)
#define WIRE_ALL_16(entry, h)                                                                      \
    WIRE_ALL_4(entry, h), WIRE_ALL_4(entry, (h) + 4), WIRE_ALL_4(entry, (h) + 8),                  \
        WIRE_ALL_4(entry, (h) + 12)
#define WIRE_ALL_64(entry, h)                                                                      \
    WIRE_ALL_16(entry, h), WIRE_ALL_16(entry, (h) + 16), WIRE_ALL_16(entry, (h) + 32),             \
        WIRE_ALL_16(entry, (h) + 48)
#define WIRE_ALL(entry)                                                                            \
    {                                                                                              \
        WIRE_ALL_64(entry, 0), WIRE_ALL_64(entry, 64), WIRE_ALL_64(entry, 128),                    \
            WIRE_ALL_64(entry, 192)                                                                \
    }

struct wire_header {
    uint8_t type;   /* enum spex_packet_type */
    uint8_t index;  /* INDEX or CLASS */
    uint8_t size;   /* payload bytes */
    uint8_t length; /* header and payload bytes; 0 in the table: extended */
};

extern const struct wire_header wire_headers[256];

/* The extended header of these two bytes. */
static inline struct wire_header wire_extended(unsigned first, unsigned second)
{
    struct wire_header h = {.type = SPEX_PACKET_RESERVED, .size = (uint8_t)WIRE_SIZE(second)};
    h.length = 2 + h.size;
    if (WIRE16_IS(first, second, ADDRESS)) {
        h.type = SPEX_PACKET_ADDRESS;
        h.index =
            (uint8_t)((first & WIRE16_FIRST_INDEX_ADDRESS) << 3 | (second & WIRE16_INDEX_ADDRESS));
    } else if (WIRE16_IS(first, second, COUNTER)) {
        h.type = SPEX_PACKET_COUNTER;
        h.index =
            (uint8_t)((first & WIRE16_FIRST_INDEX_COUNTER) << 3 | (second & WIRE16_INDEX_COUNTER));
    }
    return h;
}

/* Decodes the packet at data; false if it does not fit into size bytes. */
static inline bool wire_decode(const uint8_t *data, size_t size, struct spex_packet *packet)
{
    if (size == 0)
        return false;
    struct wire_header h = wire_headers[data[0]];
    uint8_t header_size = 1, second = 0;
    if (h.length == 0) {
        if (size < 2)
            return false;
        second = data[1];
        header_size = 2;
        h = wire_extended(data[0], second);
    }
    if (size < h.length)
        return false;
    uint64_t payload = 0;
    if (size >= SPEX_PACKET_MAX)
        payload = h.size ? le64(data + header_size) & (~UINT64_C(0) >> (64 - 8 * h.size)) : 0;
    else
        for (unsigned i = 0; i < h.size; i++)
            payload |= (uint64_t)data[header_size + i] << (8 * i);
    *packet = (struct spex_packet){.payload = payload,
                                   .type = h.type,
                                   .index = h.index,
                                   .header = {data[0], second},
                                   .header_size = header_size,
                                   .size = h.size};
    return true;
}

#endif
