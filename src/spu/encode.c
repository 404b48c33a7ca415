/*
 * A sample -> bytes, in the order of the layout, padded to PMBIDR_EL1.Align.
 *
 * The same bytes as spex_record_encode, plus IMPLEMENTATION DEFINED packets; the
 * order is written out here because this is the path of every record.
 */
#include "unit.h"

#include <string.h>

/* clang-format off */
enum { END = 0x01, TIMESTAMP = 0x71, EVENTS = 0x42, DATA_SOURCE = 0x43, CONTEXT = 0x64,
       OPERATION = 0x48, ADDRESS = 0xb0, COUNTER = 0x98, EXTENDED = 0x20 };
/* clang-format on */

/* The buffer behind p has room for eight bytes more than any record needs. */
static inline uint8_t *put(uint8_t *p, unsigned header, uint64_t payload, unsigned size)
{
    *p = (uint8_t)header;
    put_le64(p + 1, payload);
    return p + 1 + size;
}

static inline uint8_t *put_address(uint8_t *p, const struct spex_record *r, unsigned index)
{
    return r->present & SPEX_HAS_PC << index ? put(p, ADDRESS | index, r->address[index], 8) : p;
}

static inline uint8_t *put_counter(uint8_t *p, const struct spex_record *r, unsigned has,
                                   unsigned index, uint16_t value)
{
    return r->present & has ? put(p, COUNTER | index, value, 2) : p;
}

static inline uint8_t *put_context(uint8_t *p, const struct spex_record *r, unsigned index)
{
    return r->present & SPEX_HAS_CONTEXT_EL1 << index
               ? put(p, CONTEXT | index, r->context[index], 4)
               : p;
}

static inline unsigned size_code(unsigned size)
{
    return (unsigned)__builtin_ctz(size) << 4;
}

static inline uint8_t *put_events(uint8_t *p, const struct spex_record *r)
{
    return put(p, EVENTS | size_code(r->events_size), r->events, r->events_size);
}

static inline uint8_t *put_source(uint8_t *p, const struct spex_record *r)
{
    if (!(r->present & SPEX_HAS_DATA_SOURCE))
        return p;
    return put(p, DATA_SOURCE | size_code(r->data_source_size), r->data_source,
               r->data_source_size);
}

static inline uint8_t *put_operation(uint8_t *p, const struct spex_record *r)
{
    return r->present & SPEX_HAS_OP ? put(p, OPERATION | r->op_class, r->op_payload, 1) : p;
}

static inline uint8_t *put_closing(uint8_t *p, const struct spex_record *r)
{
    if (r->present & SPEX_HAS_TIMESTAMP)
        return put(p, TIMESTAMP, r->timestamp, 8);
    *p = END;
    return p + 1;
}

static inline size_t closing_size(const struct spex_record *r)
{
    return r->present & SPEX_HAS_TIMESTAMP ? 9 : 1;
}

static uint8_t *put_extended(uint8_t *p, unsigned header, unsigned index, uint64_t payload,
                             unsigned size)
{
    if (index >= 8)
        *p++ = (uint8_t)(EXTENDED | index >> 3);
    return put(p, header | (index & 7), payload, size);
}

static uint8_t *put_impdef_counter(const struct spex_spu *u, uint8_t *p, const struct sample *s)
{
    unsigned index = (unsigned)u->config.choices.impdef_counter;
    return s->has_impdef_counter ? put_extended(p, COUNTER, index, s->impdef_counter, 2) : p;
}

static uint8_t *put_impdef_address(const struct spex_spu *u, uint8_t *p, const struct sample *s)
{
    unsigned index = (unsigned)u->config.choices.impdef_address;
    return s->has_impdef_address ? put_extended(p, ADDRESS, index, s->impdef_address, 8) : p;
}

/* The order of the pseudocode's SPEConstructRecord. */
static uint8_t *compact(const struct spex_spu *u, uint8_t *p, const struct sample *s)
{
    const struct spex_record *r = &s->record;
    p = put_context(p, r, 0);
    p = put_context(p, r, 1);
    p = put_counter(p, r, SPEX_HAS_TOTAL, SPEX_COUNTER_TOTAL, r->total);
    p = put_counter(p, r, SPEX_HAS_ISSUE, SPEX_COUNTER_ISSUE, r->issue);
    p = put_counter(p, r, SPEX_HAS_TRANSLATION, SPEX_COUNTER_TRANSLATION, r->translation);
    p = put_counter(p, r, SPEX_HAS_ALT_ISSUE, SPEX_COUNTER_ALT_ISSUE, r->alt_issue);
    p = put_impdef_counter(u, p, s);
    for (unsigned i = 0; i < 5; i++)
        p = put_address(p, r, i);
    p = put_impdef_address(u, p, s);
    p = put_source(p, r);
    p = put_operation(p, r);
    p = put_events(p, r);
    return put_closing(p, r);
}

/*
 * 64 bytes, fixed places. What follows the Events packet moves up by its extra
 * payload when it has four bytes (cores with SVE): they come out of the two
 * bytes that are free before the closing packet. Places are filled in ascending
 * order, because put() clears the bytes behind a short payload.
 */
static uint8_t *n1(uint8_t *p, const struct sample *s)
{
    const struct spex_record *r = &s->record;
    uint8_t *rest = p + r->events_size - 2, *close = p + 64 - closing_size(r);
    bool target = r->present & SPEX_HAS_TARGET;
    memset(p, 0, 64);
    put_address(p, r, SPEX_ADDRESS_PC);
    put_context(p + 9, r, 0);
    put_context(p + 14, r, 1);
    put_operation(p + 19, r);
    put_events(p + 21, r);
    put_counter(rest + 24, r, SPEX_HAS_ISSUE, SPEX_COUNTER_ISSUE, r->issue);
    put_counter(rest + 27, r, SPEX_HAS_TOTAL, SPEX_COUNTER_TOTAL, r->total);
    put_address(rest + 30, r, target ? SPEX_ADDRESS_TARGET : SPEX_ADDRESS_VA);
    put_counter(rest + 39, r, SPEX_HAS_TRANSLATION, SPEX_COUNTER_TRANSLATION, r->translation);
    put_address(rest + 42, r, SPEX_ADDRESS_PA);
    put_source(rest + 51, r);
    return put_closing(close, r);
}

/* Variable length; padding before the closing packet makes it a multiple of four. */
static uint8_t *hisi(const struct spex_spu *u, uint8_t *start, const struct sample *s)
{
    const struct spex_record *r = &s->record;
    uint8_t *p = put_address(start, r, SPEX_ADDRESS_PC);
    p = put_counter(p, r, SPEX_HAS_ISSUE, SPEX_COUNTER_ISSUE, r->issue);
    p = put_counter(p, r, SPEX_HAS_TOTAL, SPEX_COUNTER_TOTAL, r->total);
    p = put_events(p, r);
    p = put_operation(p, r);
    p = put_address(p, r, SPEX_ADDRESS_TARGET);
    p = put_address(p, r, SPEX_ADDRESS_VA);
    if (r->present & SPEX_HAS_TRANSLATION) {
        p = put_counter(p, r, SPEX_HAS_TRANSLATION, SPEX_COUNTER_TRANSLATION, r->translation);
    } else if (r->present & (SPEX_HAS_TARGET | SPEX_HAS_VA)) {
        memset(p, 0, 3);
        p += 3;
    }
    p = put_counter(p, r, SPEX_HAS_ALT_ISSUE, SPEX_COUNTER_ALT_ISSUE, r->alt_issue);
    p = put_address(p, r, SPEX_ADDRESS_PA);
    p = put_address(p, r, SPEX_ADDRESS_PREV_TARGET);
    p = put_impdef_counter(u, p, s);
    p = put_impdef_address(u, p, s);
    p = put_source(p, r);
    p = put_context(p, r, 0);
    p = put_context(p, r, 1);
    size_t used = (size_t)(p - start) + closing_size(r);
    size_t padding = (4 - used % 4) % 4;
    memset(p, 0, padding);
    return put_closing(p + padding, r);
}

size_t SPEConstructRecord(const struct spex_spu *u, const struct sample *s, uint8_t *out)
{
    uint8_t *end = u->layout == SPEX_LAYOUT_N1     ? n1(out, s)
                   : u->layout == SPEX_LAYOUT_HISI ? hisi(u, out, s)
                                                   : compact(u, out, s);
    size_t size = (size_t)(end - out), align = (size_t)1 << u->config.features.Align;
    size_t padded = (size + align - 1) & ~(align - 1);
    if (padded != size)
        memset(end, 0, padded - size);
    return padded;
}

/* The largest record that the feature set and the choices can make; 0: no place for a packet. */
size_t spu_record_bound(const struct spu_config *config, unsigned events_size, unsigned layout)
{
    const struct spex_features *f = &config->features;
    const struct spex_spu_choices *c = &config->choices;
    bool alt = f->ALTCLK && c->alt_clock == 1;
    if (layout == SPEX_LAYOUT_N1)
        return f->PBT || f->GCS || alt || c->impdef_counter || c->impdef_address ||
                       c->data_source_size == 2 || events_size < 2 || events_size > 4
                   ? 0
                   : 64;
    size_t source = c->data_source_size ? (size_t)c->data_source_size : f->MaxSize > 6 ? 2 : 1;
    size_t memory = 9 + 9 + 3 + (f->LDS ? 1 + source : 0);
    size_t branch = 9 + (f->PBT ? 9 : 0);
    size_t most = f->GCS ? memory + branch : memory > branch ? memory : branch;
    if (f->PBT && c->pbt_any_op && !f->GCS)
        most = memory + 9 > branch ? memory + 9 : branch;
    size_t size = 9 + (f->EL2 ? 10 : 5) + 3 + (c->omit_issue ? 0 : 3) + (alt ? 3 : 0) + most + 2 +
                  1 + events_size + 9;
    size += (c->impdef_counter ? 4 : 0) + (c->impdef_address ? 10 : 0);
    if (layout == SPEX_LAYOUT_HISI)
        size = (size + 3 + 3) & ~(size_t)3; /* gap for no translation latency, padding */
    size_t align = (size_t)1 << f->Align;
    return (size + align - 1) & ~(align - 1);
}
