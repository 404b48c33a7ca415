/*
 * Random streams for the tests of the record reader: records of every shape with
 * what was meant by each, and damage that leaves a list of the untouched ones.
 */
#ifndef TESTS_RECORD_STREAM_H
#define TESTS_RECORD_STREAM_H

#include <spex/record.h>

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum stream_kind {
    STREAM_COMPACT,
    STREAM_N1,
    STREAM_HISI,
    STREAM_VARIED, /* any order, extended headers, IMPLEMENTATION DEFINED packets, padding */
    STREAM_KINDS
};

__attribute__((unused)) static const char *const stream_names[STREAM_KINDS] = {"compact", "n1",
                                                                               "hisi", "varied"};

struct stream {
    uint8_t *data;
    size_t size;
    struct spex_record *records; /* what was written, in order */
    size_t count;
};

/* A plausible record: a kernel or user PC, small latencies, one kind of operation. */
static struct spex_record stream_record(struct rng *rng, enum stream_kind kind, unsigned always,
                                        uint64_t *clock)
{
    static const uint8_t ldst[] = {0x00, 0x01, 0x04, 0x05, 0x06, 0x0a, 0x16, 0x10,
                                   0x14, 0x30, 0x20, 0x25, 0x38, 0x3d, 0x44, 0xb8};
    struct spex_record r = {0};
    bool user = rng_chance(rng, 1, 2);
    uint64_t top = user ? UINT64_C(0x8000) << 48 : UINT64_C(0xc0ff) << 48;
    r.address[0] = top | UINT64_C(0xaaaa00000000) | (rng_below(rng, 1 << 20) << 2);
    r.present = SPEX_HAS_PC | SPEX_HAS_OP | SPEX_HAS_EVENTS | SPEX_HAS_TOTAL | SPEX_HAS_ISSUE;
    r.issue = (uint16_t)rng_below(rng, 300);
    r.total = (uint16_t)(r.issue + rng_below(rng, 500));
    r.events = 2;
    r.events_size =
        kind == STREAM_N1 || rng_chance(rng, 2, 3) ? 2 : (uint8_t)(1 << rng_below(rng, 4));
    if (always & SPEX_HAS_CONTEXT_EL1)
        r.present |= SPEX_HAS_CONTEXT_EL1, r.context[0] = rng_below(rng, 100000);
    if (always & SPEX_HAS_CONTEXT_EL2)
        r.present |= SPEX_HAS_CONTEXT_EL2, r.context[1] = rng_below(rng, 100000);
    switch (rng_below(rng, 3)) {
    case 0:
        r.op_class = SPEX_CLASS_OTHER;
        r.op_payload = (uint8_t)rng_below(rng, 2);
        break;
    case 1:
        r.op_class = SPEX_CLASS_BRANCH;
        r.op_payload = (uint8_t)rng_below(rng, 4);
        r.events |= rng_chance(rng, 1, 4) ? 0x80 : 0;
        r.present |= SPEX_HAS_TARGET;
        r.address[1] = top | UINT64_C(0xaaaa00000000) | (rng_below(rng, 1 << 20) << 2);
        if (kind != STREAM_N1 && rng_chance(rng, 1, 4))
            r.present |= SPEX_HAS_PREV_TARGET, r.address[4] = r.address[0] - 64;
        break;
    default:
        r.op_class = SPEX_CLASS_LDST;
        r.op_payload = ldst[rng_below(rng, sizeof ldst)];
        r.events |= 0x14 | (rng_chance(rng, 1, 4) ? 0x28 : 0);
        r.present |= SPEX_HAS_VA | SPEX_HAS_TRANSLATION;
        r.address[2] = (rng_chance(rng, 1, 8) ? UINT64_C(0xb4) << 56 : 0) |
                       UINT64_C(0xffff00000000) | rng_below(rng, 1 << 30);
        r.translation = (uint16_t)rng_below(rng, 30);
        if (always & SPEX_HAS_PA)
            r.present |= SPEX_HAS_PA, r.address[3] = UINT64_C(0x80) << 56 | rng_next(rng) >> 24;
        if (rng_chance(rng, 1, 2)) {
            r.present |= SPEX_HAS_DATA_SOURCE;
            r.data_source = (uint16_t)rng_below(rng, 15);
            r.data_source_size = kind == STREAM_N1 || rng_chance(rng, 3, 4) ? 1 : 2;
        }
        break;
    }
    if (kind == STREAM_VARIED && rng_chance(rng, 1, 6))
        r.present |= SPEX_HAS_ALT_ISSUE, r.alt_issue = (uint16_t)rng_below(rng, 300);
    *clock += rng_below(rng, 3000);
    if (always & SPEX_HAS_TIMESTAMP)
        r.present |= SPEX_HAS_TIMESTAMP, r.timestamp = *clock;
    return r;
}

/* Packets in a fixed but unusual order, some with extended headers, IMPLEMENTATION DEFINED ones
 * added. */
static size_t stream_varied(struct rng *rng, struct spex_record *r, uint8_t *out)
{
    uint8_t compact[256];
    size_t size, n = 0, at = 0, pieces = 0;
    struct {
        uint8_t bytes[SPEX_PACKET_MAX];
        size_t size;
    } piece[32], closing = {{0}, 0};
    spex_record_encode(r, SPEX_LAYOUT_COMPACT, 0, compact, sizeof compact, &size);
    while (at < size) {
        struct spex_packet packet;
        spex_packet_decode(compact + at, size - at, &packet);
        at += spex_packet_length(&packet);
        if ((packet.type == SPEX_PACKET_ADDRESS || packet.type == SPEX_PACKET_COUNTER) &&
            rng_chance(rng, 1, 8)) {
            packet.header[1] = packet.header[0];
            packet.header[0] = 0x20;
            packet.header_size = 2;
        }
        if (packet.type == SPEX_PACKET_END || packet.type == SPEX_PACKET_TIMESTAMP)
            spex_packet_encode(&packet, closing.bytes, SPEX_PACKET_MAX, &closing.size);
        else
            spex_packet_encode(&packet, piece[pieces].bytes, SPEX_PACKET_MAX, &piece[pieces].size),
                pieces++;
    }
    while (rng_chance(rng, 1, 4) && pieces < 20) {
        struct spex_packet packet;
        unsigned index = rng_chance(rng, 1, 2) ? 6 + rng_below(rng, 2) : 16 + rng_below(rng, 16);
        if (rng_chance(rng, 1, 2))
            spex_packet_make(SPEX_PACKET_ADDRESS, index, 0, rng_next(rng), &packet);
        else
            spex_packet_make(SPEX_PACKET_COUNTER, index, 0, rng_below(rng, 65536), &packet);
        spex_packet_encode(&packet, piece[pieces].bytes, SPEX_PACKET_MAX, &piece[pieces].size);
        pieces++;
        r->present |= SPEX_HAS_OTHER;
    }
    for (size_t i = pieces; i > 1; i--) {
        size_t j = rng_below(rng, (uint32_t)i);
        __typeof__(piece[0]) swap = piece[i - 1];
        piece[i - 1] = piece[j];
        piece[j] = swap;
    }
    for (size_t i = 0; i < pieces; i++) {
        memcpy(out + n, piece[i].bytes, piece[i].size);
        n += piece[i].size;
        if (rng_chance(rng, 1, 8)) {
            size_t zeros = 1 + rng_below(rng, 12);
            memset(out + n, 0, zeros);
            n += zeros;
        }
    }
    memcpy(out + n, closing.bytes, closing.size);
    return n + closing.size;
}

static struct stream stream_make(uint64_t seed, enum stream_kind kind, size_t count)
{
    struct rng rng = {seed};
    struct stream s = {.data = malloc(count * 512), .records = calloc(count, sizeof *s.records)};
    uint64_t clock = rng_next(&rng) >> 24;
    /* What PMSCR_EL1 switches on is in every record of a stream. */
    unsigned always =
        (unsigned)rng_next(&rng) & (SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2 | SPEX_HAS_PA);
    always |= rng_chance(&rng, 3, 4) ? SPEX_HAS_TIMESTAMP : 0;
    unsigned align = kind == STREAM_N1 ? 6 : rng_chance(&rng, 1, 2) ? 0 : 3;
    for (; s.count < count; s.count++) {
        struct spex_record *r = &s.records[s.count];
        size_t n = 0;
        *r = stream_record(&rng, kind, always, &clock);
        uint8_t *out = s.data + s.size;
        if (kind == STREAM_VARIED) {
            r->size = (uint16_t)stream_varied(&rng, r, out);
            n = r->size;
            if (rng_chance(&rng, 1, 8))
                memset(out + n, 0, 3), n += 3;
        } else {
            enum spex_layout layout = kind == STREAM_N1     ? SPEX_LAYOUT_N1
                                      : kind == STREAM_HISI ? SPEX_LAYOUT_HISI
                                                            : SPEX_LAYOUT_COMPACT;
            spex_record_encode(r, layout, 0, out, 512, &n);
            r->size = (uint16_t)n;
            spex_record_encode(r, layout, align, out, 512, &n);
        }
        r->offset = s.size;
        s.size += n;
    }
    return s;
}

static void stream_free(struct stream *s)
{
    free(s->data);
    free(s->records);
}

/* Removes bytes [from, to); records that had any of them are dropped from the list. */
static inline void stream_remove(struct stream *s, size_t from, size_t to)
{
    size_t kept = 0;
    memmove(s->data + from, s->data + to, s->size - to);
    s->size -= to - from;
    for (size_t i = 0; i < s->count; i++) {
        struct spex_record r = s->records[i];
        if (r.offset < to && r.offset + r.size > from)
            continue;
        if (r.offset >= to)
            r.offset -= to - from;
        s->records[kept++] = r;
    }
    s->count = kept;
}

/* Flips a bit; the record that holds it is dropped from the list. */
static inline void stream_flip(struct stream *s, size_t at, unsigned bit)
{
    size_t kept = 0;
    s->data[at] ^= (uint8_t)(1u << bit);
    for (size_t i = 0; i < s->count; i++) {
        struct spex_record r = s->records[i];
        if (r.offset > at || r.offset + r.size <= at)
            s->records[kept++] = r;
    }
    s->count = kept;
}

#endif
