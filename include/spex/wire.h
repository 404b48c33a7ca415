/*
 * SPE packets: bytes <-> one packet (Arm ARM D18.1, D18.2).
 *
 * A packet is one or two header bytes and 0, 1, 2, 4 or 8 payload bytes,
 * little-endian. Decoding classifies by the header alone and keeps every bit,
 * so that encode(decode(x)) == x, reserved encodings included. No allocation,
 * no I/O, no state; safe from any thread. Positions are offsets, never pointers.
 */
#ifndef SPEX_WIRE_H
#define SPEX_WIRE_H

#include <spex/base.h>
#include <spex/events.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spex_packet_type {
    SPEX_PACKET_PADDING,
    SPEX_PACKET_END,
    SPEX_PACKET_TIMESTAMP,
    SPEX_PACKET_EVENTS,
    SPEX_PACKET_DATA_SOURCE,
    SPEX_PACKET_CONTEXT,        /* index 0 CONTEXTIDR_EL1, 1 CONTEXTIDR_EL2 */
    SPEX_PACKET_OPERATION_TYPE, /* index is CLASS */
    SPEX_PACKET_ADDRESS,        /* enum spex_address_index */
    SPEX_PACKET_COUNTER,        /* enum spex_counter_index */
    SPEX_PACKET_RESERVED,       /* any header that Tables D18-1 and D18-2 do not define */
    SPEX_PACKET_TYPE_COUNT
};

enum spex_address_index {
    SPEX_ADDRESS_PC = 0,
    SPEX_ADDRESS_TARGET = 1,
    SPEX_ADDRESS_VA = 2,
    SPEX_ADDRESS_PA = 3,
    SPEX_ADDRESS_PREV_TARGET = 4,
};

enum spex_counter_index {
    SPEX_COUNTER_TOTAL = 0,
    SPEX_COUNTER_ISSUE = 1,
    SPEX_COUNTER_TRANSLATION = 2,
    SPEX_COUNTER_ALT_ISSUE = 4,
};

enum spex_op_class_code {
    SPEX_CLASS_OTHER = 0, /* Other, SVE or SME data processing */
    SPEX_CLASS_LDST = 1,
    SPEX_CLASS_BRANCH = 2,
};

enum {
    SPEX_PACKET_MAX = 10,   /* two header bytes and eight payload bytes */
    SPEX_RECORD_MAX = 2048, /* PMSIDR_EL1.MaxSize at its largest */
};

struct spex_packet {
    uint64_t payload;    /* zero-extended */
    uint8_t type;        /* enum spex_packet_type */
    uint8_t index;       /* address, counter, context: INDEX; operation type: CLASS; else 0 */
    uint8_t header[2];   /* header[1] is 0 for a short header */
    uint8_t header_size; /* 1 or 2 */
    uint8_t size;        /* payload bytes: 0, 1, 2, 4 or 8 */
};

/*
 * Decode the packet at the start of data. SPEX_TRUNCATED if its header or
 * payload does not fit into size bytes (also for size 0). A reserved packet is
 * SPEX_OK with type SPEX_PACKET_RESERVED: it is skipped by its size. Since 1.0.
 */
enum spex_status spex_packet_decode(const uint8_t *data, size_t size, struct spex_packet *packet);

/* Bytes the packet takes in a stream. */
static inline size_t spex_packet_length(const struct spex_packet *packet)
{
    return (size_t)packet->header_size + packet->size;
}

/*
 * Encode into out. Uses header[] and header_size as they are (so a decoded
 * packet comes back byte for byte); SPEX_INVALID if they contradict type,
 * index or size, SPEX_RANGE if the payload does not fit or capacity is short.
 */
enum spex_status spex_packet_encode(const struct spex_packet *packet, uint8_t *out, size_t capacity,
                                    size_t *length); /* since 1.0 */

/*
 * Make a packet of a type, choosing the shortest header (extended only for
 * index >= 8). size is the payload size where the type has a choice (events
 * 1/2/4/8, data source 1/2), else 0. SPEX_RANGE or SPEX_INVALID if the format
 * cannot say it.
 */
enum spex_status spex_packet_make(enum spex_packet_type type, unsigned index, unsigned size,
                                  uint64_t payload, struct spex_packet *packet); /* since 1.0 */

/* ---- fields of payloads (D18.2.1) ---- */

static inline uint64_t spex_address_bits(uint64_t payload)
{
    return payload & 0x00ffffffffffffffull;
}
static inline unsigned spex_address_ns(uint64_t payload)
{
    return (unsigned)(payload >> 63);
}
static inline unsigned spex_address_el(uint64_t payload)
{
    return (unsigned)(payload >> 61) & 3;
}
static inline unsigned spex_address_nse(uint64_t payload)
{
    return (unsigned)(payload >> 60) & 1;
}

/* What the Operation Type packet says (D18.2.7). */
enum spex_op_subclass {
    SPEX_SUB_RESERVED,
    SPEX_SUB_OTHER,
    SPEX_SUB_SVE,
    SPEX_SUB_SME,
    SPEX_SUB_LDST_GP,
    SPEX_SUB_LDST_SIMD_FP,
    SPEX_SUB_LDST_UNSPEC,
    SPEX_SUB_LDST_TAG,
    SPEX_SUB_LDST_NV2,
    SPEX_SUB_LDST_EXTENDED,
    SPEX_SUB_LDST_SVE_SME,
    SPEX_SUB_LDST_MEMCPY,
    SPEX_SUB_LDST_MEMSET,
    SPEX_SUB_LDST_GCS,
    SPEX_SUB_BRANCH,
    SPEX_SUB_COUNT
};

struct spex_op_type {
    uint8_t subclass; /* enum spex_op_subclass */
    bool store;       /* LDST bit, load/store class only */
    bool cond, fp, ase, pred, sg, ar, excl, at, gcs, comm, indirect;
    uint8_t cr;          /* branch: 0 not recorded, 1 link, 2 return, 3 neither */
    uint8_t length_code; /* EVL or ETS as encoded */
    uint32_t bits;       /* length in bits; 0 for "more than 2048", all of ZA, or no length */
};
/* Since 1.0. */
void spex_op_type_decode(unsigned op_class, unsigned payload, struct spex_op_type *type);
enum spex_status spex_op_type_encode(const struct spex_op_type *type, unsigned *op_class,
                                     unsigned *payload);           /* since 1.0 */
const char *spex_op_subclass_name(enum spex_op_subclass subclass); /* since 1.0 */

/* ---- names and text ---- */

/* Name of an Events bit, for example "l1d-miss"; NULL for bits without an architected meaning. */
const char *spex_event_name(unsigned bit); /* since 1.0 */

/* Names: "operation-type", as in the JSON of `spex dump`. */
const char *spex_packet_type_name(enum spex_packet_type type); /* since 1.0 */

/*
 * Text of one packet, without offset, bytes or newline. Writes at most capacity bytes, the
 * terminator included; returns the length of the whole text. Styles are never mixed.
 */
enum spex_text_style {
    SPEX_TEXT_SPEX,     /* our own, readable, complete */
    SPEX_TEXT_PERF,     /* perf 6.1's `report -D` */
    SPEX_TEXT_PERF7,    /* perf 7's `report -D` */
    SPEX_TEXT_PERF7_N1, /* perf 7's for a Neoverse N1, with a name for E[12] */
};
enum { SPEX_PACKET_TEXT_MAX = 512 };
size_t spex_packet_text(const struct spex_packet *packet, enum spex_text_style style, char *text,
                        size_t capacity); /* since 1.0 */

#ifdef __cplusplus
}
#endif
#endif
