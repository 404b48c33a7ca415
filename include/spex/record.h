/*
 * One SPE sample record: packets <-> a struct (Arm ARM D18.1, D17.6).
 *
 * A record is a run of packets closed by an End or a Timestamp packet.
 * struct spex_record holds the raw payloads of every architected packet with a
 * presence bit each, 0 where the packet is absent; wire.h takes payloads apart. Packets that have
 * no field (IMPLEMENTATION DEFINED indexes, reserved packets and values) set SPEX_HAS_OTHER and
 * stay reachable: walk the bytes [offset, offset + size) with spex_packet_decode. No I/O; only
 * functions called _new allocate.
 */
#ifndef SPEX_RECORD_H
#define SPEX_RECORD_H

#include <spex/wire.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spex_has {
    SPEX_HAS_PC = 1u << 0, /* bits 0..4 follow enum spex_address_index */
    SPEX_HAS_TARGET = 1u << 1,
    SPEX_HAS_VA = 1u << 2,
    SPEX_HAS_PA = 1u << 3,
    SPEX_HAS_PREV_TARGET = 1u << 4,
    SPEX_HAS_TOTAL = 1u << 5,
    SPEX_HAS_ISSUE = 1u << 6,
    SPEX_HAS_TRANSLATION = 1u << 7,
    SPEX_HAS_ALT_ISSUE = 1u << 8,
    SPEX_HAS_CONTEXT_EL1 = 1u << 9,
    SPEX_HAS_CONTEXT_EL2 = 1u << 10,
    SPEX_HAS_EVENTS = 1u << 11,
    SPEX_HAS_DATA_SOURCE = 1u << 12,
    SPEX_HAS_OP = 1u << 13,
    SPEX_HAS_TIMESTAMP = 1u << 14, /* closed by Timestamp; otherwise by End */
    SPEX_HAS_OTHER = 1u << 15,     /* packets without a field: walk the bytes */
};

struct spex_record {
    uint64_t address[5]; /* raw payloads by enum spex_address_index */
    uint64_t events;
    uint64_t timestamp;
    uint64_t offset;     /* stream offset of the first packet, padding skipped */
    uint32_t context[2]; /* CONTEXTIDR_EL1, CONTEXTIDR_EL2 */
    uint16_t total, issue, translation, alt_issue;
    uint16_t data_source;
    uint16_t size;                         /* bytes from offset to past the closing packet */
    uint16_t present;                      /* enum spex_has */
    uint8_t op_class, op_payload;          /* Operation Type packet: CLASS and payload */
    uint8_t events_size, data_source_size; /* payload sizes as seen, 0 if absent */
    uint8_t zero[6];                       /* keeps memcmp of two records meaningful */
};

/* ---- reading a stream ---- */

/* Damage the reader met and stepped over; see docs/format.md for the rules. */
struct spex_damage {
    enum spex_status status; /* SPEX_TRUNCATED or SPEX_INVALID */
    uint64_t offset;         /* where the damaged bytes begin */
    uint64_t size;           /* how many bytes were given up */
    const char *reason;      /* static text */
    uint64_t zero;
};

/*
 * What readers have learnt about the shapes of records, which makes reading fast; some 400 KB.
 * Readers of one source share it: many queues then cost little, and a new reader starts with
 * what others learnt. It never changes what is read. Only one thread at a time may use it and
 * its readers.
 */
struct spex_shapes; /* opaque */

/* Since 1.0. */
enum spex_status spex_shapes_new(struct spex_shapes **shapes, struct spex_error *error);
void spex_shapes_free(struct spex_shapes *shapes); /* free its readers first; since 1.0 */

/* The same in memory of the caller: spex_shapes_size() bytes, aligned as for malloc. */
size_t spex_shapes_size(void);                      /* since 1.0 */
struct spex_shapes *spex_shapes_init(void *memory); /* since 1.0 */

struct spex_reader; /* opaque; belongs to one thread */

struct spex_reader_options {
    size_t size; /* sizeof(struct spex_reader_options) */
    /*
     * Borrowed for the reader's life. NULL: new makes shapes for this reader alone; init makes
     * none, and every record is read by the general, slower code.
     */
    struct spex_shapes *shapes;
};

/* options NULL: none. SPEX_NO_MEMORY, or what is wrong with the options. Since 1.0. */
enum spex_status spex_reader_new(const struct spex_reader_options *options,
                                 struct spex_reader **reader, struct spex_error *error);
void spex_reader_free(struct spex_reader *reader); /* since 1.0 */

/* Same, in the caller's memory: spex_reader_size() bytes (17 KB), aligned as for malloc. */
size_t spex_reader_size(void); /* since 1.0 */
/* Since 1.0. */
enum spex_status spex_reader_init(void *memory, const struct spex_reader_options *options,
                                  struct spex_reader **reader, struct spex_error *error);

enum { SPEX_READER_REST = 5 * SPEX_RECORD_MAX }; /* upper bound of spex_reader_rest */

/*
 * Supplies the next piece of a stream, or all of it; offset is that of data[0] in the stream.
 * The bytes are borrowed until the next feed or free. Unread bytes of the previous piece are
 * forgotten.
 *
 * last: nothing follows, so a record cut off at the end is damage. Otherwise SPEX_END leaves
 * such a record unread, and likewise damage that cannot be judged without the bytes that
 * follow: the caller puts the last spex_reader_rest() bytes in front of the next piece. However
 * a stream is cut, the same records and damage come out. A piece that does not begin with these
 * bytes begins a new stream.
 */
void spex_reader_feed(struct spex_reader *reader, const uint8_t *data, size_t size, uint64_t offset,
                      bool last);                          /* since 1.0 */
size_t spex_reader_rest(const struct spex_reader *reader); /* since 1.0 */

/* The stream offset up to which records have been read. */
uint64_t spex_reader_position(const struct spex_reader *reader); /* since 1.0 */

/*
 * Reads the next record. SPEX_OK; SPEX_END at the end of the piece (trailing padding included);
 * SPEX_TRUNCATED if the data ends inside a record and SPEX_INVALID for damage: then *damage
 * says which bytes were given up, and the next call goes on after them. damage may be NULL.
 */
enum spex_status spex_reader_next(struct spex_reader *reader, struct spex_record *record,
                                  struct spex_damage *damage); /* since 1.0 */

enum { SPEX_RECORD_BATCH = 64 }; /* a good batch size: it fits the nearest cache */

/*
 * Reads up to count records at once, the fast path. Returns how many were decoded and sets
 * *status to SPEX_OK (call again), or to what ended the batch early, as spex_reader_next would.
 */
size_t spex_reader_batch(struct spex_reader *reader, struct spex_record *records, size_t count,
                         enum spex_status *status, struct spex_damage *damage); /* since 1.0 */

/* ---- reading with several threads ---- */

/*
 * Finds where a record most likely begins: the first offset in [from, to), and before size,
 * that a run of certainly good records leads up to. *before is the last record of that run,
 * with its offset in data. For threads that each read a part of a stream: the offset is
 * confirmed when the thread that reads the part before ends there.
 */
bool spex_record_find(const uint8_t *data, size_t size, size_t from, size_t to,
                      struct spex_record *before, size_t *start); /* since 1.0 */

/* ---- writing ---- */

/* Where an implementation puts packets; see docs/format.md. */
enum spex_layout {
    SPEX_LAYOUT_COMPACT, /* manual's example order, no padding inside */
    SPEX_LAYOUT_N1,      /* 64 bytes, fixed offsets (Neoverse) */
    SPEX_LAYOUT_HISI,    /* PC ISSUE TOT EV OP ADDR ... TS, variable length */
};

/*
 * Encode the architected packets of record (present, payloads, sizes) and pad with Padding
 * packets to a multiple of 2^align. SPEX_RANGE if out is too small or a packet does not fit
 * the layout. Since 1.0.
 */
enum spex_status spex_record_encode(const struct spex_record *record, enum spex_layout layout,
                                    unsigned align, uint8_t *out, size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
