/* Packets: decode, encode and make (Arm ARM D18.1.1, D18.1.4, D18.2). */
#include <spex/wire.h>

#include "base/bits.h"
#include "wire/fast.h"
#include "wire/rows.h"

/* clang-format off */
/* ---- the fast decoder ---- */

#define TYPE(h)                                                                                    \
    ((h) == 0x00                                        ? SPEX_PACKET_PADDING                      \
     : (h) == 0x01                                      ? SPEX_PACKET_END                          \
     : (h) == 0x71                                      ? SPEX_PACKET_TIMESTAMP                    \
     : ((h)&0xcf) == 0x42                               ? SPEX_PACKET_EVENTS                       \
     : ((h)&0xef) == 0x43                               ? SPEX_PACKET_DATA_SOURCE                  \
     : ((h)&0xfc) == 0x64                               ? SPEX_PACKET_CONTEXT                      \
     : ((h)&0xfc) == 0x48                               ? SPEX_PACKET_OPERATION_TYPE               \
     : ((h)&0xf8) == 0xb0                               ? SPEX_PACKET_ADDRESS                      \
     : ((h)&0xf8) == 0x98                               ? SPEX_PACKET_COUNTER                      \
                                                        : SPEX_PACKET_RESERVED)
#define INDEX(h)                                                                                   \
    (((h)&0xfc) == 0x64 || ((h)&0xfc) == 0x48   ? (h)&3                                            \
     : ((h)&0xf8) == 0xb0 || ((h)&0xf8) == 0x98 ? (h)&7                                            \
                                                : 0)
#define SIZE(h) ((h) < 0x40 ? 0 : 1 << ((h) >> 4 & 3))
#define LENGTH(h) (((h)&0xe0) == 0x20 ? 0 : 1 + SIZE(h))
#define ENTRY(h) {TYPE(h), INDEX(h), SIZE(h), LENGTH(h)}
#define ENTRIES4(h) ENTRY(h), ENTRY((h) + 1), ENTRY((h) + 2), ENTRY((h) + 3)
#define ENTRIES16(h) ENTRIES4(h), ENTRIES4((h) + 4), ENTRIES4((h) + 8), ENTRIES4((h) + 12)
#define ENTRIES64(h) ENTRIES16(h), ENTRIES16((h) + 16), ENTRIES16((h) + 32), ENTRIES16((h) + 48)
/* clang-format on */

const struct wire_header wire_headers[256] = {ENTRIES64(0), ENTRIES64(64), ENTRIES64(128),
                                              ENTRIES64(192)};

enum spex_status spex_packet_decode(const uint8_t *data, size_t size, struct spex_packet *packet)
{
    return wire_decode(data, size, packet) ? SPEX_OK : SPEX_TRUNCATED;
}

/* ---- the manual's tables ---- */

enum { B0 = 1, B1 = 2, B2 = 4, B4 = 16, B8 = 256 }; /* 1 << payload bytes */

struct row {
    uint8_t type;
    uint8_t header_size;
    uint8_t mask[2], value[2]; /* by header byte */
    uint8_t index[2];          /* bits of INDEX or CLASS, always at the bottom */
    uint16_t sizes;
};

static const struct row rows[] = {
#define PACKET(type, b7, b6, b5, b4, b3, b2, b1, b0, sizes, name)                                  \
    {SPEX_PACKET_##type,                                                                           \
     1,                                                                                            \
     {ROW_MASK(b7, b6, b5, b4, b3, b2, b1, b0)},                                                   \
     {ROW_VALUE(b7, b6, b5, b4, b3, b2, b1, b0)},                                                  \
     {ROW_BITS('i', b7, b6, b5, b4, b3, b2, b1, b0) |                                              \
      ROW_BITS('c', b7, b6, b5, b4, b3, b2, b1, b0)},                                              \
     sizes},
#define PACKET16(type, a7, a6, a5, a4, a3, a2, a1, a0, b7, b6, b5, b4, b3, b2, b1, b0, sizes)      \
    {SPEX_PACKET_##type,                                                                           \
     2,                                                                                            \
     {ROW_MASK(a7, a6, a5, a4, a3, a2, a1, a0), ROW_MASK(b7, b6, b5, b4, b3, b2, b1, b0)},         \
     {ROW_VALUE(a7, a6, a5, a4, a3, a2, a1, a0), ROW_VALUE(b7, b6, b5, b4, b3, b2, b1, b0)},       \
     {ROW_BITS('i', a7, a6, a5, a4, a3, a2, a1, a0),                                               \
      ROW_BITS('i', b7, b6, b5, b4, b3, b2, b1, b0)},                                              \
     sizes},
#include "wire/packets.def"
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* D18.1.1: the last header byte says how many payload bytes follow. */
static unsigned payload_size(uint8_t last)
{
    static const uint8_t sizes[4] = {1, 2, 4, 8};
    return last < 0x40 ? 0 : sizes[bits_get(last, 5, 4)];
}

static bool row_matches(const struct row *row, const uint8_t *header, unsigned header_size,
                        unsigned size)
{
    if (row->header_size != header_size || !(row->sizes >> size & 1))
        return false;
    for (unsigned i = 0; i < header_size; i++)
        if ((header[i] & row->mask[i]) != row->value[i])
            return false;
    return true;
}

static unsigned row_index(const struct row *row, const uint8_t *header)
{
    unsigned index = header[0] & row->index[0];
    return row->header_size == 1 ? index : index << 3 | (header[1] & row->index[1]);
}

/* Type and index of a header by the rows; reserved if none matches. */
static void classify(const uint8_t *header, unsigned header_size, unsigned size, uint8_t *type,
                     uint8_t *index)
{
    *type = SPEX_PACKET_RESERVED;
    *index = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        if (row_matches(&rows[i], header, header_size, size)) {
            *type = rows[i].type;
            *index = (uint8_t)row_index(&rows[i], header);
            return;
        }
    }
}

static unsigned header_bytes(uint8_t first)
{
    return bits_get(first, 7, 5) == 1 ? 2 : 1; /* 0x20-0x3F: extended */
}

enum spex_status spex_packet_decode_table(const uint8_t *data, size_t size,
                                          struct spex_packet *packet)
{
    if (size == 0 || size < header_bytes(data[0]))
        return SPEX_TRUNCATED;
    struct spex_packet p = {.header_size = (uint8_t)header_bytes(data[0])};
    for (unsigned i = 0; i < p.header_size; i++)
        p.header[i] = data[i];
    p.size = (uint8_t)payload_size(p.header[p.header_size - 1]);
    if (size < spex_packet_length(&p))
        return SPEX_TRUNCATED;
    for (unsigned i = 0; i < p.size; i++)
        p.payload |= (uint64_t)data[p.header_size + i] << (8 * i);
    classify(p.header, p.header_size, p.size, &p.type, &p.index);
    *packet = p;
    return SPEX_OK;
}

/* ---- encode ---- */

static bool payload_fits(uint64_t payload, unsigned size)
{
    return size == 8 || payload >> (8 * size) == 0;
}

enum spex_status spex_packet_encode(const struct spex_packet *packet, uint8_t *out, size_t capacity,
                                    size_t *length)
{
    uint8_t type, index;
    unsigned header_size = packet->header_size;
    if (header_size != header_bytes(packet->header[0]) ||
        (header_size == 1 && packet->header[1] != 0) ||
        packet->size != payload_size(packet->header[header_size - 1]))
        return SPEX_INVALID;
    classify(packet->header, header_size, packet->size, &type, &index);
    if (type != packet->type || index != packet->index)
        return SPEX_INVALID;
    if (!payload_fits(packet->payload, packet->size) || capacity < spex_packet_length(packet))
        return SPEX_RANGE;
    for (unsigned i = 0; i < header_size; i++)
        out[i] = packet->header[i];
    for (unsigned i = 0; i < packet->size; i++)
        out[header_size + i] = (uint8_t)(packet->payload >> (8 * i));
    *length = spex_packet_length(packet);
    return SPEX_OK;
}

enum spex_status spex_packet_make(enum spex_packet_type type, unsigned index, unsigned size,
                                  uint64_t payload, struct spex_packet *packet)
{
    static const uint8_t size_code[9] = {[2] = 1, [4] = 2, [8] = 3};
    enum spex_status status = SPEX_INVALID; /* no such type */
    for (unsigned i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
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
        uint8_t *last = &p.header[row->header_size - 1];
        *last |= (uint8_t)(low | (choice ? size_code[bytes] << 4 : 0));
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
