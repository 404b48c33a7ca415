/*
 * Header bytes -> packet, without a search: the fast decoder's core. One lookup
 * in a table of 256 entries that the compiler builds from the arithmetic below,
 * which is written apart from packets.def so that each checks the other.
 */
#ifndef WIRE_FAST_H
#define WIRE_FAST_H

#include <spex/wire.h>

#include "base/bits.h"

struct wire_header {
    uint8_t type;   /* enum spex_packet_type */
    uint8_t index;  /* short format */
    uint8_t size;   /* payload bytes */
    uint8_t length; /* header and payload bytes; 0: extended, look at the second byte */
};

extern const struct wire_header wire_headers[256];

/* Second byte of an extended header: payload bytes (FMT-09). */
static inline unsigned wire_extended_size(unsigned second)
{
    return second < 0x40 ? 0 : 1u << (second >> 4 & 3);
}

/* The packet at data; false if it does not fit into size bytes. */
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
        h.size = (uint8_t)wire_extended_size(second);
        h.length = 2 + h.size;
        h.type = SPEX_PACKET_RESERVED;
        h.index = 0;
        unsigned kind = second & 0xf8;
        if ((data[0] & 0x1c) == 0 && (kind == 0xb0 || kind == 0x98)) {
            h.type = kind == 0xb0 ? SPEX_PACKET_ADDRESS : SPEX_PACKET_COUNTER;
            h.index = (uint8_t)((data[0] & 3) << 3 | (second & 7));
        }
    }
    if (size < h.length)
        return false;
    uint64_t payload = 0;
    if (size >= 10)
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
