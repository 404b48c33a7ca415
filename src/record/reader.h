/* The private part of struct spex_record_reader. */
#ifndef RECORD_READER_H
#define RECORD_READER_H

#include <spex/record.h>

/* How the fast path does its work; every variant gives the same records. */
enum reader_variant {
    READER_PORTABLE,
    READER_AVX2,
    READER_AVX512, /* with VBMI */
    READER_NEON,
    READER_VARIANTS
};

/* Fields that a packet fills, by place in a shape. */
enum shape_field {
    FIELD_ADDRESS, /* five */
    FIELD_EVENTS = 5,
    FIELD_TIMESTAMP,
    FIELD_CONTEXT,     /* two */
    FIELD_COUNTER = 9, /* total, issue, translation, alternate issue */
    FIELD_DATA_SOURCE = 13,
    FIELD_OP,
    FIELD_COUNT
};

enum {
    CELL = 64, /* bytes of a cell: records of many implementations begin every 64 bytes */
    SHAPES = 2000,
    CELL_SHAPES = 1000, /* of these, for cells */
    TAILS = 96,         /* of records longer than a cell, and one that is not used */
    NO_SHAPE = 0xffff,  /* all ones */
    KEY_BITS = 13,
    NO_KEY = 0xffff,
    READER_VIEW = 3 * SPEX_RECORD_MAX, /* bytes from a record's beginning on that decide about it */
    AT_ONCE = 64,                      /* records that the fast path reads at most */
    /* stream.c */
    LANES = 8,        /* parts of the data in which records are found side by side */
    LANE = 8128,      /* bytes of each, at most: all begin within 16 bits */
    LANE_ROOM = 512,  /* records of each */
    LANE_MARGIN = 384 /* bytes that must be readable behind the last lane */
};

/* Bytes, and a bit for each that counts: headers and padding. */
struct pattern {
    uint8_t value[CELL];
    uint64_t compared;
};

/*
 * The shape of a cell, or of a record of at most 128 bytes: where headers and padding
 * are. Cells (records) that agree with the pattern hold exactly these packets, so their
 * fields are at fixed places.
 */
struct shape {
    struct pattern head;
    uint64_t filled_low; /* bytes of struct spex_record that payloads fill, the first 64 */
    uint32_t filled_high;
    uint8_t lead;   /* padding before the record */
    bool partial;   /* lacks a packet that every executed operation has */
    uint8_t tail;   /* of tails, for the second 64 bytes; 0: none */
    bool special;   /* partial, or with a tail */
    uint8_t at[16]; /* where the payload of each enum shape_field is */
    /* As in struct spex_record, from data_source on: what the headers alone say. */
    struct {
        uint16_t data_source, size, present;
        uint8_t op_class, op_payload, events_size, data_source_size, zero[6];
    } fixed;
    /* All ones where a field is there, for variants without a permutation of 64 bytes. */
    uint16_t counter_mask[4];
    uint32_t context_mask[2];
    uint64_t wide_mask[7]; /* addresses, events, timestamp */
};
_Static_assert(sizeof(struct shape) == 3 * CELL, "what every variant needs is in two cache lines");

struct reader_state {
    /* For resynchronization: the last record that was beyond doubt. */
    size_t close; /* where its closing packet begins */
    size_t floor; /* bytes before this belong to it */
    int first;    /* its first header byte, -1 at the start */

    uint8_t variant; /* enum reader_variant */
    uint8_t anchor;  /* cells begin at positions that are this modulo CELL */
    uint8_t tail_count;
    uint16_t shape_count;
    uint16_t last_shape; /* of the last cell, or NO_SHAPE */
    bool streaming;      /* shapes are of records in a stream, not of cells */
    uint32_t failures;   /* in a row, of cells or of streams */
    uint32_t pause;      /* how many of streams until cells are tried again */
    uint8_t seen[512];   /* a bit per hash of what a shape is about, if one came */

    /* Records of a stream that were found and not yet read: see stream.c. */
    uint32_t queued, taken, missed; /* missed: of those taken, not of a known shape */
    size_t origin;                  /* position that they count from */
    uint32_t idle, idle_left;       /* records until the next try, as the last was no use */

    /*
     * Cells: a shape is looked up by the bytes at a few places that are header or
     * padding in every shape and tell some of them apart.
     */
    uint64_t key_places, common, differ;
    uint64_t key_words[CELL / 8]; /* key_places as bytes */

    struct queued {
        uint16_t at, key;
    } queue[LANES * LANE_ROOM];
    uint16_t by_key[1 << KEY_BITS]; /* shape, or NO_SHAPE */
    struct pattern tails[TAILS];
    uint32_t shapes_at; /* so that shapes begin with a cache line; a copied reader keeps it */
    uint8_t shapes[SHAPES * sizeof(struct shape) + CELL];
};

static inline struct reader_state *reader_state(struct spex_record_reader *reader)
{
    return (struct reader_state *)(void *)reader->opaque;
}

static inline struct shape *shapes_of(const struct reader_state *state)
{
    return (struct shape *)(uintptr_t)(state->shapes + state->shapes_at);
}

/* The best variant of this machine. */
enum reader_variant reader_best_variant(void);
bool reader_has_variant(enum reader_variant variant);

/*
 * Records from reader->position on whose cells have a known shape, up to count or AT_ONCE.
 * Stops in front of the first that has not. Returns how many.
 */
size_t shape_records(struct spex_record_reader *reader, struct spex_record *records, size_t count);

/* Begin anew with cells. Remember the shape of the cell of this record, which is not odd. */
void shape_start(struct spex_record_reader *reader);
void shape_learn(struct spex_record_reader *reader, const struct spex_record *record);

/* The same for records of a stream that have a known shape; one that has not is left out. */
size_t stream_records(struct spex_record_reader *reader, struct spex_record *records, size_t count);

/* Begin anew with records of a stream; remember the shape of this one, which is not odd. */
void stream_start(struct spex_record_reader *reader);
void stream_learn(struct spex_record_reader *reader, const struct spex_record *record);

/*
 * For stream.c, by variant. Find: fills the queue with where records begin. Found: reads
 * those in front, up to one that is not known. Drops the queue if the position was changed.
 */
void shape_find(struct spex_record_reader *reader);
size_t shape_found(struct spex_record_reader *reader, struct spex_record *records, size_t count);

#endif
