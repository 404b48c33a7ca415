/*
 * tests/vectors/packets.json: one packet of every kind, index, size and header form, every
 * operation type and events bit, with its meaning, for authors of other decoders. Printed from our
 * tables; test_vectors.py checks that the file is current.
 */
#include <spex/record.h>

#include <inttypes.h>
#include <stdio.h>

static const char *separator = "";

static void put(const struct spex_packet *p)
{
    uint8_t bytes[SPEX_PACKET_MAX];
    char text[SPEX_PACKET_TEXT_MAX];
    size_t length;
    if (spex_packet_encode(p, bytes, sizeof bytes, &length))
        return;
    spex_packet_text(p, SPEX_TEXT_SPEX, text, sizeof text);
    printf("%s{\"bytes\":\"", separator);
    for (size_t i = 0; i < length; i++)
        printf("%02x", bytes[i]);
    printf("\",\"packet\":\"%s\",\"index\":%u,\"size\":%u,\"payload\":\"0x%" PRIx64
           "\",\"meaning\":\"%s\"}",
           spex_packet_type_name(p->type), p->index, p->size, p->payload, text);
    separator = ",\n";
}

static void make(enum spex_packet_type type, unsigned index, unsigned size, uint64_t payload)
{
    struct spex_packet p;
    if (spex_packet_make(type, index, size, payload, &p) == SPEX_OK)
        put(&p);
}

/* A header byte pair as it is, with a payload of ones: extended and reserved forms. */
static void raw(uint8_t first, uint8_t second)
{
    uint8_t bytes[SPEX_PACKET_MAX] = {first, second, 1, 1, 1, 1, 1, 1, 1, 1};
    struct spex_packet p;
    if (spex_packet_decode(bytes, sizeof bytes, &p) == SPEX_OK)
        put(&p);
}

int main(void)
{
    const uint64_t address = UINT64_C(0xa0ff800012345678);
    printf("[\n");
    make(SPEX_PACKET_PADDING, 0, 0, 0);
    make(SPEX_PACKET_END, 0, 0, 0);
    make(SPEX_PACKET_TIMESTAMP, 0, 0, UINT64_C(0x123456789abcdef));
    for (unsigned size = 1; size <= 8; size *= 2)
        for (unsigned bit = 0; bit < 8 * size; bit++)
            make(SPEX_PACKET_EVENTS, 0, size, UINT64_C(1) << bit);
    make(SPEX_PACKET_DATA_SOURCE, 0, 1, 0xe);
    make(SPEX_PACKET_DATA_SOURCE, 0, 2, 0x10e);
    for (unsigned index = 0; index < 4; index++)
        make(SPEX_PACKET_CONTEXT, index, 0, 0x5f80);
    for (unsigned class = 0; class < 3; class ++)
        for (unsigned payload = 0; payload < 256; payload++) {
            struct spex_op_type type;
            spex_op_type_decode(class, payload, &type);
            if (type.subclass != SPEX_SUB_RESERVED)
                make(SPEX_PACKET_OPERATION_TYPE, class, 0, payload);
        }
    for (unsigned index = 0; index < 32; index++) {
        make(SPEX_PACKET_ADDRESS, index, 0, address);
        make(SPEX_PACKET_COUNTER, index, 0, 0xabc);
    }
    for (unsigned low = 0; low < 8; low++) { /* the extended form of a small index */
        raw(0x20, (uint8_t)(0xb0 | low));
        raw(0x20, (uint8_t)(0x98 | low));
    }
    static const uint8_t reserved[][2] = {{0x02, 0},    {0x1f, 0}, {0x20, 0x00}, {0x3f, 0x10},
                                          {0x24, 0xb0}, {0x40, 0}, {0x63, 0},    {0x73, 0},
                                          {0x4b, 0},    {0xff, 0}};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        raw(reserved[i][0], reserved[i][1]);
    printf("\n]\n");
    return 0;
}
