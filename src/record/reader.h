/* The private part of struct spex_record_reader. */
#ifndef RECORD_READER_H
#define RECORD_READER_H

#include <spex/record.h>

/* How the fast path does its work; every variant gives the same records. */
enum reader_variant {
    READER_PORTABLE,
    READER_AVX2,
    READER_AVX512, /* with VBMI and VBMI2 */
    READER_VARIANTS
};

enum {
    SHAPE_BYTES = 64, /* longest record that has a shape */
    SHAPES = 24,
    SHAPE_KEYS = 8,
};

/*
 * A record shape: where the headers and the padding are. Records whose bytes
 * agree with value under mask have exactly these packets, so their fields are
 * at fixed places.
 */
struct shape {
    uint8_t value[SHAPE_BYTES], mask[SHAPE_BYTES];
    struct spex_record fixed;          /* what the headers alone say */
    uint8_t source[sizeof(struct spex_record)]; /* payload byte of each byte of the struct */
    uint64_t compared;                 /* mask, a bit per byte */
    uint64_t filled[2];                /* bytes of the struct that source fills */
    uint64_t address_mask[5], events_mask, timestamp_mask;
    uint32_t context_mask[2];
    uint16_t counter_mask[4], data_source_mask;
    uint8_t address_at[5], events_at, timestamp_at, context_at[2], counter_at[4], data_source_at;
    uint8_t op_at;
    uint8_t next; /* another shape to try, or NO_SHAPE */
};

enum { NO_SHAPE = 0xff };

struct reader_state {
    /* For resynchronization: the last record that was beyond doubt. */
    size_t close; /* where its closing packet begins */
    size_t floor; /* bytes before this belong to it */
    int first;    /* its first header byte, -1 at the start */

    uint8_t variant; /* enum reader_variant */
    uint8_t shape_count;
    uint8_t key_count;           /* positions that tell shapes apart */
    uint8_t key_at[SHAPE_KEYS];
    uint64_t key_mask;           /* the same as bits */
    uint64_t key_multiplier;     /* perfect hash of the keys */
    uint64_t hits, misses;
    size_t common_size;          /* of all shapes, or 0 */
    uint8_t by_key[256];         /* shape by hash of the key bytes, or NO_SHAPE */
    struct shape shapes[SHAPES];
};

static inline struct reader_state *reader_state(struct spex_record_reader *reader)
{
    return (struct reader_state *)(void *)reader->opaque;
}

/* The best variant of this machine. */
enum reader_variant reader_best_variant(void);
bool reader_has_variant(enum reader_variant variant);

/*
 * Records from reader->position on that have a known shape, up to count. Stops
 * in front of the first that has not. Returns how many.
 */
size_t fast_records(struct spex_record_reader *reader, struct spex_record *records, size_t count);

/* Remember the shape of the clean record at data[0..size); available bytes can be read. */
void fast_learn(struct reader_state *state, const uint8_t *data, size_t size, size_t available);

#endif
