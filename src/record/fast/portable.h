/*
 * Keys, fields and walks for variants that cannot permute 64 bytes at once; included before
 * loop.h. A variant defines its own struct bytes, load and matches.
 */
#ifndef RECORD_FAST_PORTABLE_H
#define RECORD_FAST_PORTABLE_H

#include "record/fast/fast.h"
#include "record/slots.h"

#include <string.h>

struct bytes; /* the variant's */

/* What take needs for all shapes, and for one. */
struct constants {
    char none;
};

struct prepared {
    const struct shape *shape;
};

enum { WALK_WIDTH = LANES }; /* records walked side by side */

FAST_INLINE struct constants constants_make(void)
{
    return (struct constants){0};
}

FAST_INLINE struct prepared prepare(struct constants constants, const struct shape *shape)
{
    return (struct prepared){shape};
}

/* The key of a cell: a hash of its bytes at those positions. */
FAST_INLINE unsigned hash_cell(const struct cell_keys *keys, const uint8_t *cell)
{
    static const uint64_t factors[CELL / 8] = {
        UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xc2b2ae3d27d4eb4f), UINT64_C(0xd6e8feb86659fd93),
        UINT64_C(0xa0761d6478bd642f), UINT64_C(0xe7037ed1a0b428db), UINT64_C(0x8ebc6af09c88c6e3),
        UINT64_C(0x589965cc75374cc3), UINT64_C(0x1d8e4e27c47d124f)};
    const uint64_t *words = keys[cell_group(cell)].words;
    uint64_t hash = 0;
    for (unsigned i = 0; i < CELL / 8; i++)
        hash += (le64(cell + 8 * i) & words[i]) * factors[i];
    return (unsigned)((hash ^ hash >> 29) * factors[0] >> (64 - KEY_BITS));
}

FAST_INLINE void take(const struct prepared *prepared, const struct bytes *bytes,
                      const struct bytes *more, const uint8_t *data, uint64_t offset,
                      struct spex_record *record)
{
    const struct shape *shape = prepared->shape;
    const uint8_t *at = shape->at;
    const uint64_t *wide = shape->wide_mask;
    const uint16_t *counter = shape->counter_mask;
    memcpy(&record->data_source, &shape->fixed, sizeof shape->fixed);
    for (unsigned i = 0; i < 5; i++)
        record->address[i] = le64(data + at[FIELD_ADDRESS + i]) & wide[i];
    record->events = le64(data + at[FIELD_EVENTS]) & wide[5];
    record->timestamp = le64(data + at[FIELD_TIMESTAMP]) & wide[6];
    record->offset = offset + shape->lead;
    record->context[0] = le32(data + at[FIELD_CONTEXT]) & shape->context_mask[0];
    record->context[1] = le32(data + at[FIELD_CONTEXT + 1]) & shape->context_mask[1];
    record->total = le16(data + at[FIELD_COUNTER]) & counter[0];
    record->issue = le16(data + at[FIELD_COUNTER + 1]) & counter[1];
    record->translation = le16(data + at[FIELD_COUNTER + 2]) & counter[2];
    record->alt_issue = le16(data + at[FIELD_COUNTER + 3]) & counter[3];
    record->data_source = (uint16_t)(le16(data + at[FIELD_DATA_SOURCE]) &
                                     ((1u << 8 * shape->fixed.data_source_size) - 1));
    record->op_payload = shape->fixed.present & SPEX_HAS_OP ? data[at[FIELD_OP]] : 0;
}

/*
 * The distance from a header byte to the next; the first byte of an extended header counts as a
 * header. 0 for a closing packet.
 */
#define LENGTH(h) ((h) == WIRE_END || (h) == WIRE_TIMESTAMP ? 0 : WIRE_LENGTH(h))
/* LENGTH, and a hash of the header in the other 24 bits: sixteen lengths do not reach there. */
#define STEP(h) ((uint32_t)LENGTH(h) | ((h)*UINT32_C(0x9e3779b1) & 0xffffff00))

static const uint32_t steps[256] = WIRE_ALL(STEP);

/* Walks several records side by side, since each step waits for the one before. */
FAST_INLINE void walk(const uint8_t *const *p, unsigned lanes, struct walked *walked)
{
    uint32_t sum[LANES] = {0};
    for (unsigned step = 0; step < STEPS; step++) {
#pragma GCC unroll 8
        for (unsigned i = 0; i < lanes; i++) {
            sum[i] += steps[p[i][(uint8_t)sum[i]]];
            /* keeps the compiler from building a vector, which would be taken apart again */
            __asm__("" : "+r"(sum[i]));
        }
    }
    for (unsigned i = 0; i < lanes; i++) {
        unsigned at = (uint8_t)sum[i], header = p[i][at], closed = !(uint8_t)steps[header];
        walked[i] = (struct walked){
            .end = (uint16_t)(at + closed + (header == WIRE_TIMESTAMP) * WIRE_SIZE(WIRE_TIMESTAMP)),
            .key = (uint16_t)(sum[i] * UINT32_C(0x9e3779b1) >> (32 - KEY_BITS)),
            .closed = closed};
    }
}

#endif
