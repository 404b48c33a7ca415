/*
 * One packet, read as docs/format.md prints it: bit by bit, slowly, and with nothing of the
 * product's tables. What the product decodes is compared with this.
 */
#ifndef TESTS_WIRE_ORACLE_H
#define TESTS_WIRE_ORACLE_H

#include <spex/wire.h>

#include <string.h>

/* The table "Packets": header bits, bit 7 first; letters are bits that vary. */
static const struct {
    const char *header;
    enum spex_packet_type type;
    const char *sizes;
} oracle_rows[] = {
    {"00000000", SPEX_PACKET_PADDING, "0"},         {"00000001", SPEX_PACKET_END, "0"},
    {"01110001", SPEX_PACKET_TIMESTAMP, "8"},       {"01ss0010", SPEX_PACKET_EVENTS, "1248"},
    {"01ss0011", SPEX_PACKET_DATA_SOURCE, "12"},    {"011001ii", SPEX_PACKET_CONTEXT, "4"},
    {"010010cc", SPEX_PACKET_OPERATION_TYPE, "1"},  {"10110iii", SPEX_PACKET_ADDRESS, "8"},
    {"10011iii", SPEX_PACKET_COUNTER, "2"},         {"001000hh10110lll", SPEX_PACKET_ADDRESS, "8"},
    {"001000hh10011lll", SPEX_PACKET_COUNTER, "2"},
};

/* Type and index of a header of one or two bytes, by the rows. */
static inline void oracle_classify(struct spex_packet *p)
{
    p->type = SPEX_PACKET_RESERVED;
    for (size_t row = 0; row < sizeof oracle_rows / sizeof oracle_rows[0]; row++) {
        const char *bits = oracle_rows[row].header;
        unsigned index = 0;
        bool same = strlen(bits) == 8u * p->header_size &&
                    strchr(oracle_rows[row].sizes, '0' + p->size) != NULL;
        for (unsigned i = 0; same && bits[i]; i++) {
            unsigned bit = p->header[i / 8] / (128u >> i % 8) % 2;
            if (strchr("ichl", bits[i]))
                index = 2 * index + bit;
            else if (bits[i] != 's')
                same = bit == (unsigned)(bits[i] - '0');
        }
        if (same) {
            p->type = (uint8_t)oracle_rows[row].type;
            p->index = (uint8_t)index;
        }
    }
}

static inline enum spex_status oracle_packet(const uint8_t *data, size_t size,
                                             struct spex_packet *packet)
{
    static struct {
        bool known;
        uint8_t type, index;
    } classified[0x10000]; /* what was worked out before */
    struct spex_packet p = {.payload = 0};
    if (size == 0)
        return SPEX_TRUNCATED;
    p.header_size = data[0] >= 0x20 && data[0] <= 0x3f ? 2 : 1;
    if (size < p.header_size)
        return SPEX_TRUNCATED;
    memcpy(p.header, data, p.header_size);
    uint8_t last = p.header[p.header_size - 1];
    if (last >= 0x40) {
        p.size = 1;
        for (unsigned doubled = last / 16 % 4; doubled > 0; doubled--)
            p.size = (uint8_t)(2 * p.size);
    }
    if (size < (size_t)p.header_size + p.size)
        return SPEX_TRUNCATED;
    for (unsigned i = p.size; i-- > 0;)
        p.payload = p.payload * 256 + data[p.header_size + i];
    unsigned both = p.header[0] * 256u + p.header[1];
    if (!classified[both].known) {
        oracle_classify(&p);
        classified[both].known = true;
        classified[both].type = p.type;
        classified[both].index = p.index;
    }
    p.type = classified[both].type;
    p.index = classified[both].index;
    *packet = p;
    return SPEX_OK;
}

#endif
