/* Packets: decode, encode and make (Arm ARM D18.1.1, D18.1.4, D18.2). */
#include <spex/wire.h>

#include "wire/headers.h"

#include <assert.h>

#define TYPE(h)                                                                                    \
    WIRE_CHOOSE(h, SPEX_PACKET_PADDING, SPEX_PACKET_END, SPEX_PACKET_TIMESTAMP,                    \
                SPEX_PACKET_EVENTS, SPEX_PACKET_DATA_SOURCE, SPEX_PACKET_CONTEXT,                  \
                SPEX_PACKET_OPERATION_TYPE, SPEX_PACKET_ADDRESS, SPEX_PACKET_COUNTER,              \
                SPEX_PACKET_RESERVED)
#define ENTRY(h)                                                                                   \
    {                                                                                              \
        TYPE(h), WIRE_INDEX(h), WIRE_SIZE(h), WIRE_IS_EXTENDED(h) ? 0 : WIRE_LENGTH(h)             \
    }

const struct wire_header wire_headers[256] = WIRE_ALL(ENTRY);

enum spex_status spex_packet_decode(const uint8_t *data, size_t size, struct spex_packet *packet)
{
    assert((data || !size) && packet);
    return wire_decode(data, size, packet) ? SPEX_OK : SPEX_TRUNCATED;
}

/* ---- encode ---- */

static bool payload_fits(uint64_t payload, unsigned size)
{
    return size == 8 || payload >> (8 * size) == 0;
}

enum spex_status spex_packet_encode(const struct spex_packet *packet, uint8_t *out, size_t capacity,
                                    size_t *length)
{
    assert(packet && (out || !capacity) && length);
    const uint8_t *header = packet->header;
    struct wire_header h = wire_headers[header[0]];
    unsigned header_size = h.length ? 1 : 2;
    if (header_size == 2)
        h = wire_extended(header[0], header[1]);
    if (packet->header_size != header_size || (header_size == 1 && header[1] != 0) ||
        packet->size != h.size || packet->type != h.type || packet->index != h.index)
        return SPEX_INVALID;
    if (!payload_fits(packet->payload, packet->size) || capacity < spex_packet_length(packet))
        return SPEX_RANGE;
    for (unsigned i = 0; i < header_size; i++)
        out[i] = header[i];
    for (unsigned i = 0; i < packet->size; i++)
        out[header_size + i] = (uint8_t)(packet->payload >> (8 * i));
    *length = spex_packet_length(packet);
    return SPEX_OK;
}

/* The rows of packets.def: the short form of a type comes first. */
static const struct row {
    uint8_t type, header_size;
    uint8_t value[2], index[2]; /* indexed by header byte */
    uint16_t sizes;
} rows[] = {
#define PACKET(type, b7, b6, b5, b4, b3, b2, b1, b0, sizes, name)                                  \
    {SPEX_PACKET_##type, 1, {WIRE_##type}, {WIRE_INDEX_##type}, WIRE_SIZES_##type},
#define PACKET16(type, a7, a6, a5, a4, a3, a2, a1, a0, b7, b6, b5, b4, b3, b2, b1, b0, sizes)      \
    {SPEX_PACKET_##type,                                                                           \
     2,                                                                                            \
     {WIRE16_FIRST_##type, WIRE16_##type},                                                         \
     {WIRE16_FIRST_INDEX_##type, WIRE16_INDEX_##type},                                             \
     WIRE16_SIZES_##type},
#include "wire/packets.def"
};

enum spex_status spex_packet_make(enum spex_packet_type type, unsigned index, unsigned size,
                                  uint64_t payload, struct spex_packet *packet)
{
    assert(packet);
    enum spex_status status = SPEX_INVALID; /* no such type */
    for (const struct row *row = rows; row < rows + sizeof rows / sizeof rows[0]; row++) {
        if (row->type != type)
            continue;
        bool choice = (row->sizes & (row->sizes - 1)) != 0;
        unsigned bytes = choice || size ? size : (unsigned)__builtin_ctz(row->sizes);
        unsigned high = row->header_size == 2 ? index >> 3 : 0;
        unsigned low = row->header_size == 2 ? index & 7 : index;
        status = SPEX_RANGE;
        if (bytes > 8 || !(row->sizes >> bytes & 1) || !payload_fits(payload, bytes) ||
            (low & ~row->index[row->header_size - 1]) || (high & ~row->index[0]))
            continue;
        struct spex_packet p = {.payload = payload,
                                .type = (uint8_t)type,
                                .index = (uint8_t)index,
                                .header_size = row->header_size,
                                .size = (uint8_t)bytes};
        p.header[0] = row->value[0];
        p.header[1] = row->value[1];
        p.header[row->header_size - 1] |= (uint8_t)(low | (choice ? WIRE_SZ(bytes) : 0));
        p.header[0] |= (uint8_t)high;
        *packet = p;
        return SPEX_OK;
    }
    return status;
}

const char *spex_packet_type_name(enum spex_packet_type type)
{
    static const char *const names[SPEX_PACKET_TYPE_COUNT] = {
#define PACKET(type, b7, b6, b5, b4, b3, b2, b1, b0, sizes, name) [SPEX_PACKET_##type] = name,
#include "wire/packets.def"

        [SPEX_PACKET_RESERVED] = "reserved",
    };
    return type < SPEX_PACKET_TYPE_COUNT ? names[type] : "?";
}
