/*
 * The fast path: recognizes records by shapes, which it learns from the stream itself.
 *
 * A shape says which packets stand at which offsets; a stream uses few. A shape is learnt once.
 * A record of that shape is recognized by one masked compare, and its fields are taken from
 * fixed offsets. A key suggests which shape to compare with, but the compare decides, so the
 * result is always that of the general reader: equal headers and padding mean equal packets.
 *
 * cells.c: records that begin every 64 bytes, as on Arm's own cores. stream.c: records of any
 * length. learn.c: learning shapes. loop.h: the loops, which every variant (portable, AVX2,
 * AVX-512, NEON) compiles once with its own way to compare bytes and to move fields.
 */
#ifndef RECORD_FAST_H
#define RECORD_FAST_H

#include <spex/record.h>

struct spex_reader;

/* For steps of the loops, where a call would cost as much as the step. */
#define FAST_INLINE static inline __attribute__((always_inline))

enum {
    CELL = 64, /* bytes of a cell: records of many implementations begin every 64 bytes */
    SHAPES = 2000,
    CELL_SHAPES = 1000, /* shapes for cells */
    TAILS = 96,         /* tails of records longer than a cell; number 0 is unused */
    NO_SHAPE = 0xffff,  /* all ones */
    KEY_BITS = 13,
    KEY_PLACES = 4, /* shapes per key */
    REST = 63,      /* records to skip before learning is tried again where it did not help */
    NO_KEY = 0xffff,
    AT_ONCE = 64,      /* most records per call of the fast path */
    MARGIN = CELL + 8, /* bytes that must be readable past the start of a cell */
    /* stream.c */
    LANES = 8,         /* parts of the data that are searched for records side by side */
    LANE = 8128,       /* most bytes of each, so that all begin within 16 bits */
    LANE_ROOM = 512,   /* records of each */
    LANE_MARGIN = 384, /* bytes that must be readable past the last lane */
    STEPS = 16,        /* steps of a walk: packets, and first bytes of extended headers */
};

/* The fields that packets fill, in the order of a shape. */
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

/* Bytes, and a bit for each one that is compared: headers and padding. */
struct pattern {
    uint8_t value[CELL];
    uint64_t compared;
};

/*
 * The shape of a cell, or of a record of at most 128 bytes: where headers and padding are.
 * Cells (or records) that match the pattern hold exactly these packets, so their fields are at
 * fixed offsets.
 */
struct shape {
    struct pattern head;
    uint64_t filled_low; /* bytes of struct spex_record that payloads fill: the first 64 */
    uint32_t filled_high;
    uint8_t lead;   /* padding before the record */
    bool partial;   /* lacks a packet that records of executed operations have */
    uint8_t tail;   /* index into tails, for the second 64 bytes; 0: none */
    bool special;   /* partial record, or with a tail */
    uint8_t at[16]; /* offset of the payload of each enum shape_field */
    /* As in struct spex_record from data_source on: the part that headers alone determine. */
    struct {
        uint16_t data_source, size, present;
        uint8_t op_class, op_payload, events_size, data_source_size, zero[6];
    } fixed;
    /* All ones where a field is present, for variants that cannot permute 64 bytes. */
    uint16_t counter_mask[4];
    uint32_t context_mask[2];
    uint64_t wide_mask[7]; /* addresses, events, timestamp */
};
_Static_assert(sizeof(struct shape) == 3 * CELL, "what every variant needs is in two cache lines");

/* Where STEPS packets lead: just past the closing packet, if it is among them. */
struct walked {
    uint16_t end, key; /* key: a hash of the headers */
    bool closed;
};

/* The combined key of a record that takes more than one walk. */
static inline unsigned keys_together(unsigned first, unsigned second)
{
    return (first * 5 + second) & ((1 << KEY_BITS) - 1);
}

/*
 * The key of a cell is a hash of its first byte and of those at a few more positions, which are
 * header or padding in every shape and differ between some shapes. Shapes with the same first
 * byte mostly have their packets in the same places, but others may not: each group has its own
 * positions.
 */
struct cell_keys {
    uint64_t places, common, differ;
    uint64_t words[CELL / 8]; /* places as bytes */
    uint8_t example[CELL];    /* headers of the group's first shape */
};
enum { CELL_GROUPS = 16 };

static inline unsigned cell_group(const uint8_t *cell)
{
    return (unsigned)(cell[0] ^ cell[0] >> 4) % CELL_GROUPS;
}

/* The functions of a variant; all variants give the same records. */
struct fast_variant {
    const char *name;
    /* Reads cells of known shapes from the reader's position on, up to AT_ONCE; see cells.c. */
    size_t (*cells)(struct spex_reader *, struct spex_record *, size_t);
    /* Fills the queue with starts of records, and reads those at its front; see stream.c. */
    void (*find)(struct spex_reader *);
    size_t (*found)(struct spex_reader *, struct spex_record *, size_t);
    /* For learning. */
    unsigned (*cell_key)(const struct cell_keys *, const uint8_t *);
    void (*walk)(const uint8_t *, struct walked *);
};

#if defined(__x86_64__) && defined(__GNUC__)
#define FAST_X86
#elif defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FAST_NEON
#endif
extern const struct fast_variant fast_portable, fast_avx2, fast_avx512, fast_neon;

/* The variants that this machine can run, best first; NULL past the last. */
const struct fast_variant *fast_variant(size_t index);

/* What has been learnt. Readers of one source share it; any of them may reset it. */
struct spex_shapes {
    const struct fast_variant *variant;
    bool streaming; /* shapes describe records in a stream, not cells */
    uint32_t pause; /* failures of stream.c before cells are tried again */
    uint8_t tail_count;
    uint16_t count;
    uint16_t last; /* shape of the last cell, or NO_SHAPE */
    uint16_t rest; /* records left to skip before learning resumes */
    struct cell_keys cell_keys[CELL_GROUPS];
    uint8_t seen[512];              /* a bit for each hash of a shape seen so far */
    uint16_t by_key[1 << KEY_BITS]; /* shape, or NO_SHAPE */
    struct pattern tails[TAILS];
    uint32_t shapes_at; /* aligns shapes with a cache line */
    uint8_t shapes[SHAPES * sizeof(struct shape) + CELL];
};

static inline struct shape *shapes_of(const struct spex_shapes *shapes)
{
    return (struct shape *)(uintptr_t)(shapes->shapes + shapes->shapes_at);
}

/* A reader's own state: cells. */
struct fast_cells {
    uint8_t anchor;    /* cells begin at positions that equal this modulo CELL */
    bool anchored;     /* a record has confirmed the anchor */
    uint32_t failures; /* consecutive failures */
};

/* Records of a stream that were found but not yet read. */
struct fast_stream {
    uint32_t queued, taken, missed; /* missed: how many of the taken ones have no known shape */
    size_t origin;                  /* position that queue entries count from */
    /* records to wait until the next try, since the last one did not help */
    uint32_t idle, idle_left;
    uint32_t failures; /* consecutive failures */
    struct queued {
        uint16_t at, key;
    } queue[LANES * LANE_ROOM];
};

/* ---- learn.c ---- */

void shapes_init(struct spex_shapes *shapes, const struct fast_variant *variant);
/* Forgets all shapes, then learns those of cells, or those of a stream. */
void shapes_restart(struct spex_shapes *shapes, bool streaming);
/*
 * Remembers the shape of a record, which is not odd. Cells: the record's place in the 64 bytes
 * at cell, which hold nothing else.
 */
void shapes_learn_cell(struct spex_shapes *shapes, const uint8_t *cell, size_t lead,
                       const struct spex_record *record);
void shapes_learn_stream(struct spex_shapes *shapes, const uint8_t *data,
                         const struct spex_record *record);

/* Eight bits to eight bytes of ones or zeros. */
static inline uint64_t spread(unsigned bits)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t one_bit = bits * ones & UINT64_C(0x8040201008040201);
    return ((one_bit + 0x7f * ones) >> 7 & ones) * 0xff;
}

/* ---- cells.c, stream.c ---- */

/*
 * Reads records of known shapes from the reader's position on, up to count or AT_ONCE. Stops
 * before the first without a known shape. Returns how many; 0: the general reader must read the
 * next one.
 */
size_t cells_read(struct spex_reader *reader, struct spex_record *records, size_t count);
size_t stream_read(struct spex_reader *reader, struct spex_record *records, size_t count);

/* Learns from a record that the general reader has read and that is not odd. */
void cells_learn(struct spex_reader *reader, const struct spex_record *record);
void stream_learn(struct spex_reader *reader, const struct spex_record *record);

#endif
