/* A record -> packets in the order of an implementation (docs/format.md, "Layouts"). */
#include "record/emit.h"
#include "record/slots.h"

#include <assert.h>
#include <string.h>

/* ---- the emitter: straight code from the rows, since it is the path of every sample ---- */

/* Always writes eight bytes of payload: the next packet overwrites the surplus. */
static inline uint8_t *put(uint8_t *p, unsigned header, uint64_t payload, size_t size)
{
    *p = (uint8_t)header;
    put_le64(p + 1, payload);
    return p + 1 + size;
}

/* The header of a slot in this record, and its payload size; slot is a constant. */
static inline unsigned header_of(const struct spex_record *r, enum slot slot)
{
    switch (slot) {
#define SLOT(name, type, index, field, words)                                                      \
    case SLOT_##name:                                                                              \
        return WIRE_##type | (index) |                                                             \
               (SLOT_##name == SLOT_EVENTS        ? WIRE_SZ(r->events_size)                        \
                : SLOT_##name == SLOT_DATA_SOURCE ? WIRE_SZ(r->data_source_size)                   \
                : SLOT_##name == SLOT_OP          ? r->op_class                                    \
                                                  : 0u);
#include "record/slots.def"
    default:
        return WIRE_END;
    }
}

static inline size_t size_of(const struct spex_record *r, enum slot slot)
{
    switch (slot) {
#define SLOT(name, type, index, field, words)                                                      \
    case SLOT_##name:                                                                              \
        return SLOT_##name == SLOT_EVENTS        ? r->events_size                                  \
               : SLOT_##name == SLOT_DATA_SOURCE ? r->data_source_size                             \
                                                 : (size_t)WIRE_SIZE(WIRE_##type);
#include "record/slots.def"
    default:
        return 0;
    }
}

static inline uint64_t payload_of(const struct spex_record *r, enum slot slot)
{
    switch (slot) {
#define SLOT(name, type, index, field, words)                                                      \
    case SLOT_##name:                                                                              \
        return r->field;
#include "record/slots.def"
    default:
        return 0;
    }
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))
ALWAYS_INLINE uint8_t *put_slot(uint8_t *p, const struct spex_record *r, unsigned present,
                                enum slot slot)
{
    if (present & 1u << slot)
        p = put(p, header_of(r, slot), payload_of(r, slot), size_of(r, slot));
    return p;
}

static inline uint8_t *put_closing(uint8_t *p, const struct spex_record *r, unsigned present)
{
    if (present & SPEX_HAS_TIMESTAMP)
        return put_slot(p, r, present, SLOT_TIMESTAMP);
    *p = WIRE_END;
    return p + WIRE_LENGTH(WIRE_END);
}

static uint8_t *put_indexed(uint8_t *p, unsigned short_header, unsigned first, unsigned second,
                            unsigned index, uint64_t payload)
{
    if (index < 8)
        return put(p, short_header | index, payload, WIRE_SIZE(short_header));
    *p = (uint8_t)(first | index >> 3);
    return put(p + 1, second | (index & 7), payload, WIRE_SIZE(second));
}

static inline uint8_t *put_extra_counter(uint8_t *p, const struct record_extra *x)
{
    if (!x || !x->counter_index)
        return p;
    return put_indexed(p, WIRE_COUNTER, WIRE16_FIRST_COUNTER, WIRE16_COUNTER, x->counter_index,
                       x->counter);
}

static inline uint8_t *put_extra_address(uint8_t *p, const struct record_extra *x)
{
    if (!x || !x->address_index)
        return p;
    return put_indexed(p, WIRE_ADDRESS, WIRE16_FIRST_ADDRESS, WIRE16_ADDRESS, x->address_index,
                       x->address);
}

static inline uint8_t *pad(uint8_t *p, size_t size)
{
    memset(p, 0, size);
    return p + size;
}

/* The steps of layouts.def. */
#define PACKET(slot) p = put_slot(p, r, present, SLOT_##slot);
#define PADDING(size)                                                                              \
    memset(out, 0, size);                                                                          \
    uint8_t *from = out;
#define PLACE(n) p = from + (n);
#define SHIFT(slot, n)                                                                             \
    if (present & SPEX_HAS_##slot)                                                                 \
        from += size_of(r, SLOT_##slot) - (n);
#define EITHER(a, b)                                                                               \
    p = present & SPEX_HAS_##a ? put_slot(p, r, present, SLOT_##a)                                 \
                               : put_slot(p, r, present, SLOT_##b);
#define GAP(slot, any)                                                                             \
    if (!(present & SPEX_HAS_##slot) && (present & (any)))                                         \
        p = pad(p, 1 + size_of(r, SLOT_##slot));
#define EXTRA(kind) p = put_extra_##kind(p, extra);
#define CLOSE_AT(size)                                                                             \
    p = put_closing(out + (size)-closing_length(present), r, present);                             \
    return (size_t)(p - out);
#define CLOSE_UNIT(n)                                                                              \
    if ((n) > 1)                                                                                   \
        p = pad(p, (0 - (size_t)(p - out) - closing_length(present)) % (n));                       \
    p = put_closing(p, r, present);                                                                \
    return (size_t)(p - out);

static size_t emit_n1(const struct spex_record *r, uint8_t *out)
{
    const unsigned present = r->present; /* a copy: the compiler must assume that out overlaps *r */
    uint8_t *p;
#define LAYOUT_N1
#include "record/layouts.def"
#undef LAYOUT_N1
}

static size_t emit_hisi(const struct spex_record *r, const struct record_extra *extra, uint8_t *out)
{
    const unsigned present = r->present; /* a copy: the compiler must assume that out overlaps *r */
    uint8_t *p = out;
#define LAYOUT_HISI
#include "record/layouts.def"
#undef LAYOUT_HISI
}

static size_t emit_compact(const struct spex_record *r, const struct record_extra *extra,
                           uint8_t *out)
{
    const unsigned present = r->present; /* a copy: the compiler must assume that out overlaps *r */
    uint8_t *p = out;
#define LAYOUT_COMPACT
#include "record/layouts.def"
#undef LAYOUT_COMPACT
}

size_t record_emit(const struct spex_record *r, enum spex_layout layout,
                   const struct record_extra *extra, uint8_t *out)
{
    return layout == SPEX_LAYOUT_N1     ? emit_n1(r, out)
           : layout == SPEX_LAYOUT_HISI ? emit_hisi(r, extra, out)
                                        : emit_compact(r, extra, out);
}

bool record_fits(enum spex_layout layout, unsigned present, unsigned events_size,
                 unsigned data_source_size)
{
    const unsigned never = SPEX_HAS_PREV_TARGET | SPEX_HAS_ALT_ISSUE;
    const unsigned memory = SPEX_HAS_VA | SPEX_HAS_TRANSLATION | SPEX_HAS_PA | SPEX_HAS_DATA_SOURCE;
    if (layout != SPEX_LAYOUT_N1)
        return true;
    return !(present & never) && !(present & SPEX_HAS_TARGET && present & memory) &&
           (!(present & SPEX_HAS_EVENTS) || events_size == 2 || events_size == 4) &&
           (!(present & SPEX_HAS_DATA_SOURCE) || data_source_size == 1);
}

/* ---- checked encoding, for arbitrary callers ---- */

static bool size_is(uint64_t payload, unsigned size, unsigned allowed)
{
    return size <= 8 && (allowed >> size & 1) && (size == 8 || payload >> (8 * size) == 0);
}

/* The size asked for, or the smallest that holds the payload, but at least `least`. */
static uint8_t sized(uint64_t payload, unsigned asked, unsigned least)
{
    unsigned size = payload >> 32 ? 8 : payload >> 16 ? 4 : payload >> 8 ? 2 : 1;
    return (uint8_t)(asked ? asked : size > least ? size : least);
}

enum spex_status spex_record_encode(const struct spex_record *record, enum spex_layout layout,
                                    unsigned align, uint8_t *out, size_t capacity, size_t *length)
{
    assert(record && (out || !capacity) && length);
    uint8_t bytes[RECORD_EMIT_ROOM];
    struct spex_record r = *record;
    r.events_size = sized(r.events, r.events_size, layout == SPEX_LAYOUT_N1 ? 2 : 1);
    r.data_source_size = sized(r.data_source, r.data_source_size, 1);
    if (layout > SPEX_LAYOUT_HISI || align > 11 ||
        (r.present & SPEX_HAS_EVENTS && !size_is(r.events, r.events_size, WIRE_SIZES_EVENTS)) ||
        (r.present & SPEX_HAS_DATA_SOURCE &&
         !size_is(r.data_source, r.data_source_size, WIRE_SIZES_DATA_SOURCE)) ||
        (r.present & SPEX_HAS_OP && r.op_class > SPEX_CLASS_BRANCH))
        return SPEX_INVALID;
    if (!record_fits(layout, r.present, r.events_size, r.data_source_size))
        return SPEX_RANGE;
    size_t size = record_emit(&r, layout, NULL, bytes);
    size_t total = (size + ((size_t)1 << align) - 1) >> align << align;
    if (total > capacity)
        return SPEX_RANGE;
    memcpy(out, bytes, size);
    memset(out + size, 0, total - size);
    *length = total;
    return SPEX_OK;
}
