/* A record -> packets in the order of an implementation (docs/format.md, "Layouts"). */
#include <spex/record.h>

#include "base/bits.h"

#include <string.h>

/* Short headers; every architected index is below 8. */
/* clang-format off */
enum { END = 0x01, TIMESTAMP = 0x71, EVENTS = 0x42, DATA_SOURCE = 0x43, CONTEXT = 0x64,
       OPERATION = 0x48, ADDRESS = 0xb0, COUNTER = 0x98 };
/* clang-format on */

/* The worst case: every architected packet, and padding before the closing one. */
enum { SCRATCH = 5 * 9 + 4 * 3 + 2 * 5 + 9 + 3 + 2 + 9 + 24 };

struct writer {
    uint8_t bytes[SCRATCH];
    size_t size;
};

static void put(struct writer *w, unsigned header, uint64_t payload, unsigned size)
{
    w->bytes[w->size] = (uint8_t)header;
    put_le64(w->bytes + w->size + 1, payload);
    w->size += 1 + size;
}

static void pad_to(struct writer *w, size_t size)
{
    memset(w->bytes + w->size, 0, size - w->size);
    w->size = size;
}

/* As asked, or the smallest that holds the payload. */
static unsigned sized(uint64_t payload, unsigned asked)
{
    if (asked)
        return asked;
    return payload >> 32 ? 8 : payload >> 16 ? 4 : payload >> 8 ? 2 : 1;
}

static unsigned size_code(unsigned size)
{
    return (unsigned)__builtin_ctz(size) << 4;
}

static bool has(const struct spex_record *r, unsigned slot)
{
    return r->present & slot;
}

static void put_address(struct writer *w, const struct spex_record *r, unsigned index)
{
    if (has(r, SPEX_HAS_PC << index))
        put(w, ADDRESS | index, r->address[index], 8);
}

static void put_counter(struct writer *w, const struct spex_record *r, unsigned index)
{
    switch (index) {
    case SPEX_COUNTER_TOTAL:
        if (has(r, SPEX_HAS_TOTAL))
            put(w, COUNTER | index, r->total, 2);
        break;
    case SPEX_COUNTER_ISSUE:
        if (has(r, SPEX_HAS_ISSUE))
            put(w, COUNTER | index, r->issue, 2);
        break;
    case SPEX_COUNTER_TRANSLATION:
        if (has(r, SPEX_HAS_TRANSLATION))
            put(w, COUNTER | index, r->translation, 2);
        break;
    default:
        if (has(r, SPEX_HAS_ALT_ISSUE))
            put(w, COUNTER | SPEX_COUNTER_ALT_ISSUE, r->alt_issue, 2);
        break;
    }
}

static void put_context(struct writer *w, const struct spex_record *r, unsigned index)
{
    if (has(r, SPEX_HAS_CONTEXT_EL1 << index))
        put(w, CONTEXT | index, r->context[index], 4);
}

static void put_events(struct writer *w, const struct spex_record *r)
{
    unsigned size = sized(r->events, r->events_size);
    if (has(r, SPEX_HAS_EVENTS))
        put(w, EVENTS | size_code(size), r->events, size);
}

static void put_source(struct writer *w, const struct spex_record *r)
{
    unsigned size = sized(r->data_source, r->data_source_size);
    if (has(r, SPEX_HAS_DATA_SOURCE))
        put(w, DATA_SOURCE | size_code(size), r->data_source, size);
}

static void put_operation(struct writer *w, const struct spex_record *r)
{
    if (has(r, SPEX_HAS_OP))
        put(w, OPERATION | r->op_class, r->op_payload, 1);
}

static size_t closing_size(const struct spex_record *r)
{
    return has(r, SPEX_HAS_TIMESTAMP) ? 9 : 1;
}

static void put_closing(struct writer *w, const struct spex_record *r)
{
    if (has(r, SPEX_HAS_TIMESTAMP))
        put(w, TIMESTAMP, r->timestamp, 8);
    else
        put(w, END, 0, 0);
}

/* The order of the pseudocode's SPEConstructRecord. */
static void compact(struct writer *w, const struct spex_record *r)
{
    put_context(w, r, 0);
    put_context(w, r, 1);
    put_counter(w, r, SPEX_COUNTER_TOTAL);
    put_counter(w, r, SPEX_COUNTER_ISSUE);
    put_counter(w, r, SPEX_COUNTER_TRANSLATION);
    put_counter(w, r, SPEX_COUNTER_ALT_ISSUE);
    for (unsigned i = 0; i < 5; i++)
        put_address(w, r, i);
    put_source(w, r);
    put_operation(w, r);
    put_events(w, r);
    put_closing(w, r);
}

/* 64 bytes; a packet that is not there leaves padding in its place. */
static bool n1(struct writer *w, const struct spex_record *r)
{
    enum { NEVER = SPEX_HAS_PREV_TARGET | SPEX_HAS_ALT_ISSUE };
    bool target = has(r, SPEX_HAS_TARGET);
    unsigned memory = SPEX_HAS_VA | SPEX_HAS_TRANSLATION | SPEX_HAS_PA | SPEX_HAS_DATA_SOURCE;
    if (has(r, NEVER) || (target && has(r, memory)))
        return false;
    struct spex_record sized = *r;
    sized.events_size = 2;
    sized.data_source_size = 1;
    if ((has(r, SPEX_HAS_EVENTS) && (r->events >> 16 || (r->events_size && r->events_size != 2))) ||
        (has(r, SPEX_HAS_DATA_SOURCE) && (r->data_source >> 8 || r->data_source_size == 2)))
        return false;
    put_address(w, r, SPEX_ADDRESS_PC);
    pad_to(w, 9);
    put_context(w, r, 0);
    pad_to(w, 14);
    put_context(w, r, 1);
    pad_to(w, 19);
    put_operation(w, r);
    pad_to(w, 21);
    put_events(w, &sized);
    pad_to(w, 24);
    put_counter(w, r, SPEX_COUNTER_ISSUE);
    pad_to(w, 27);
    put_counter(w, r, SPEX_COUNTER_TOTAL);
    pad_to(w, 30);
    put_address(w, r, target ? SPEX_ADDRESS_TARGET : SPEX_ADDRESS_VA);
    pad_to(w, 39);
    put_counter(w, r, SPEX_COUNTER_TRANSLATION);
    pad_to(w, 42);
    put_address(w, r, SPEX_ADDRESS_PA);
    pad_to(w, 51);
    put_source(w, &sized);
    pad_to(w, 64 - closing_size(r));
    put_closing(w, r);
    return true;
}

/* Variable length; padding before the closing packet makes it a multiple of four. */
static void hisi(struct writer *w, const struct spex_record *r)
{
    put_address(w, r, SPEX_ADDRESS_PC);
    put_counter(w, r, SPEX_COUNTER_ISSUE);
    put_counter(w, r, SPEX_COUNTER_TOTAL);
    put_events(w, r);
    put_operation(w, r);
    put_address(w, r, SPEX_ADDRESS_TARGET);
    put_address(w, r, SPEX_ADDRESS_VA);
    if (has(r, SPEX_HAS_TRANSLATION))
        put_counter(w, r, SPEX_COUNTER_TRANSLATION);
    else if (has(r, SPEX_HAS_TARGET | SPEX_HAS_VA))
        pad_to(w, w->size + 3);
    put_counter(w, r, SPEX_COUNTER_ALT_ISSUE);
    put_address(w, r, SPEX_ADDRESS_PA);
    put_address(w, r, SPEX_ADDRESS_PREV_TARGET);
    put_source(w, r);
    put_context(w, r, 0);
    put_context(w, r, 1);
    pad_to(w, ((w->size + closing_size(r) + 3) & ~(size_t)3) - closing_size(r));
    put_closing(w, r);
}

static bool size_is(uint64_t payload, unsigned size, unsigned allowed)
{
    return !size || ((allowed >> size & 1) && (size == 8 || payload >> (8 * size) == 0));
}

enum spex_status spex_record_encode(const struct spex_record *record, enum spex_layout layout,
                                    unsigned align, uint8_t *out, size_t capacity, size_t *length)
{
    struct writer w = {.size = 0};
    if ((has(record, SPEX_HAS_EVENTS) &&
         !size_is(record->events, record->events_size, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8)) ||
        (has(record, SPEX_HAS_DATA_SOURCE) &&
         !size_is(record->data_source, record->data_source_size, 1 << 1 | 1 << 2)) ||
        (has(record, SPEX_HAS_OP) && record->op_class > SPEX_CLASS_BRANCH))
        return SPEX_INVALID;
    switch (layout) {
    case SPEX_LAYOUT_COMPACT:
        compact(&w, record);
        break;
    case SPEX_LAYOUT_N1:
        if (!n1(&w, record))
            return SPEX_RANGE;
        break;
    case SPEX_LAYOUT_HISI:
        hisi(&w, record);
        break;
    default:
        return SPEX_INVALID;
    }
    if (align > 11)
        return SPEX_INVALID;
    size_t total = (w.size + ((size_t)1 << align) - 1) >> align << align;
    if (total > capacity)
        return SPEX_RANGE;
    memcpy(out, w.bytes, w.size);
    memset(out + w.size, 0, total - w.size);
    *length = total;
    return SPEX_OK;
}
