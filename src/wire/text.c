/*
 * Text of one packet in three styles. The two perf styles differ where perf's versions do;
 * docs/format.md shows both.
 */
#include <spex/wire.h>

#include "base/bits.h"

#include <assert.h>
#include <string.h>

/* ---- writing; the caller provides SPEX_PACKET_TEXT_MAX bytes of room ---- */

static char *put_n(char *p, const char *text, size_t n)
{
    memcpy(p, text, n);
    return p + n;
}

#define PUT(p, literal) put_n(p, literal, sizeof(literal) - 1)

static char *put(char *p, const char *text)
{
    return put_n(p, text, strlen(text));
}

static char *put_hex(char *p, uint64_t value)
{
    unsigned digits = value ? (67 - (unsigned)__builtin_clzll(value)) / 4 : 1;
    for (unsigned i = digits; i-- > 0; value >>= 4)
        p[i] = "0123456789abcdef"[value & 15];
    return p + digits;
}

static char *put_u64(char *p, uint64_t value)
{
    char text[20], *t = text + sizeof text;
    do
        *--t = (char)('0' + value % 10);
    while (value /= 10);
    return put_n(p, t, (size_t)(text + sizeof text - t));
}

/* ---- names ---- */

struct event_name {
    uint8_t bit, since;
    uint8_t own_size, perf_size;
    const char *own, *perf;
};

static const struct event_name events[] = {
#define SPEX_EVENT(bit, constant, own, perf, since)                                                \
    {bit, since, sizeof(own), sizeof(perf), " " own, " " perf},
#include <spex/events.def>
};

enum { EVENTS = sizeof events / sizeof events[0] };

const char *spex_event_name(unsigned bit)
{
    for (unsigned i = 0; i < EVENTS; i++)
        if (events[i].bit == bit)
            return events[i].own + 1;
    return NULL;
}

/* Writes " WORD" for each bit that has a name; *rest gets the bits without one. */
static char *put_events(char *p, uint64_t payload, bool own, unsigned version, uint64_t *rest)
{
    for (unsigned i = 0; i < EVENTS; i++) {
        const struct event_name *e = &events[i];
        if (!(payload >> e->bit & 1) || e->since > version)
            continue;
        payload &= ~BIT(e->bit);
        p = own ? put_n(p, e->own, e->own_size) : put_n(p, e->perf, e->perf_size);
    }
    *rest = payload;
    return p;
}

/* Bit numbers, comma separated. */
static char *put_bit_list(char *p, uint64_t bits)
{
    for (bool first = true; bits; bits &= bits - 1, first = false) {
        if (!first)
            *p++ = ',';
        p = put_u64(p, (unsigned)__builtin_ctzll(bits));
    }
    return p;
}

/* ---- our own style ---- */

static const char *const state_names[4] = {"secure", "non-secure", "reserved-state", "realm"};

static char *own_address(char *p, const struct spex_packet *packet)
{
    static const char *const names[5] = {"pc", "target", "va", "pa", "previous-target"};
    uint64_t payload = packet->payload, top = payload >> 56;
    unsigned state = spex_address_nse(payload) << 1 | spex_address_ns(payload);
    if (packet->index > SPEX_ADDRESS_PREV_TARGET) {
        p = PUT(p, "address[");
        p = put_u64(p, packet->index);
        p = PUT(p, "] 0x");
        return put_hex(p, payload);
    }
    p = put(p, names[packet->index]);
    p = PUT(p, " 0x");
    p = put_hex(p, spex_address_bits(payload));
    switch (packet->index) {
    case SPEX_ADDRESS_VA:
        if (top) {
            p = PUT(p, " tag 0x");
            p = put_hex(p, top);
        }
        return p;
    case SPEX_ADDRESS_PA:
        *p++ = ' ';
        p = put(p, state_names[state]);
        if (top >> 6 & 1)
            p = PUT(p, " checked");
        if (top & 0xf) {
            p = PUT(p, " tag 0x");
            p = put_hex(p, top & 0xf);
        }
        if (top >> 5 & 1)
            p = PUT(p, " bit61");
        return p;
    default:
        p = PUT(p, " el");
        p = put_u64(p, spex_address_el(payload));
        *p++ = ' ';
        p = put(p, state_names[state]);
        if (top & 0xf) {
            p = PUT(p, " bits59:56 0x");
            p = put_hex(p, top & 0xf);
        }
        return p;
    }
}

static char *own_length(char *p, const struct spex_op_type *op)
{
    if (op->bits) {
        *p++ = ' ';
        p = put_u64(p, op->bits);
        return PUT(p, " bits");
    }
    if (op->subclass != SPEX_SUB_SME)
        return PUT(p, " >2048 bits");
    if (op->length_code == 15)
        return PUT(p, " whole-za");
    p = PUT(p, " reserved-size ");
    return put_u64(p, op->length_code);
}

static char *own_operation(char *p, const struct spex_packet *packet)
{
    static const char *const cr[4] = {"", " call", " return", " jump"};
    struct spex_op_type op;
    spex_op_type_decode(packet->index, (unsigned)packet->payload, &op);
    p = PUT(p, "op ");
    if (op.subclass == SPEX_SUB_RESERVED) {
        p = PUT(p, "reserved class ");
        p = put_u64(p, packet->index);
        p = PUT(p, " payload 0x");
        return put_hex(p, packet->payload);
    }
    if (packet->index == SPEX_CLASS_LDST)
        p = op.store ? PUT(p, "store ") : PUT(p, "load ");
    p = put(p, spex_op_subclass_name(op.subclass));
    if (op.subclass == SPEX_SUB_SVE || op.subclass == SPEX_SUB_SME ||
        op.subclass == SPEX_SUB_LDST_SVE_SME)
        p = own_length(p, &op);
    p = op.cond ? PUT(p, " conditional") : p;
    p = op.indirect ? PUT(p, " indirect") : p;
    p = op.gcs ? PUT(p, " gcs") : p;
    p = put(p, cr[op.cr]);
    p = op.ase ? PUT(p, " ase") : p;
    p = op.fp ? PUT(p, " fp") : p;
    p = op.pred ? PUT(p, " predicated") : p;
    p = op.sg ? PUT(p, " gather-scatter") : p;
    p = op.at ? PUT(p, " atomic") : p;
    p = op.excl ? PUT(p, " exclusive") : p;
    p = op.ar ? PUT(p, " acquire-release") : p;
    p = op.comm ? PUT(p, " common") : p;
    return p;
}

static char *own_text(char *p, const struct spex_packet *packet)
{
    static const char *const counters[5] = {"total ", "issue ", "translation ", NULL, "alt-issue "};
    uint64_t payload = packet->payload, rest;
    switch (packet->type) {
    case SPEX_PACKET_PADDING:
        return PUT(p, "padding");
    case SPEX_PACKET_END:
        return PUT(p, "end");
    case SPEX_PACKET_TIMESTAMP:
        return put_u64(PUT(p, "timestamp "), payload);
    case SPEX_PACKET_EVENTS:
        p = put_events(PUT(p, "events"), payload, true, 7, &rest);
        return rest ? put_bit_list(PUT(p, " bits "), rest) : p;
    case SPEX_PACKET_DATA_SOURCE:
        return put_hex(PUT(p, "data-source 0x"), payload);
    case SPEX_PACKET_CONTEXT:
        if (packet->index < 2) {
            p = put_u64(PUT(p, "context-el"), packet->index + 1u);
            return put_hex(PUT(p, " 0x"), payload);
        }
        p = put_u64(PUT(p, "context["), packet->index);
        return put_hex(PUT(p, "] 0x"), payload);
    case SPEX_PACKET_OPERATION_TYPE:
        return own_operation(p, packet);
    case SPEX_PACKET_ADDRESS:
        return own_address(p, packet);
    case SPEX_PACKET_COUNTER:
        if (packet->index < 5 && counters[packet->index])
            return put_u64(put(p, counters[packet->index]), payload);
        p = put_u64(PUT(p, "counter["), packet->index);
        return put_u64(PUT(p, "] "), payload);
    default:
        p = PUT(p, "reserved");
        if (packet->size)
            p = put_hex(PUT(p, " 0x"), payload);
        return p;
    }
}

/* ---- perf's styles ---- */

static char *perf_unknown(char *p, const char *name, const struct spex_packet *packet)
{
    p = put_hex(PUT(put(p, name), " 0x"), packet->payload);
    p = put_u64(PUT(p, " ("), packet->index);
    *p++ = ')';
    return p;
}

static char *perf_address(char *p, const struct spex_packet *packet, unsigned version)
{
    uint64_t payload = packet->payload;
    switch (packet->index) {
    case SPEX_ADDRESS_PREV_TARGET:
        if (version < 7)
            break;
        /* fall through */
    case SPEX_ADDRESS_PC:
    case SPEX_ADDRESS_TARGET:
        p = packet->index == SPEX_ADDRESS_PC       ? PUT(p, "PC 0x")
            : packet->index == SPEX_ADDRESS_TARGET ? PUT(p, "TGT 0x")
                                                   : PUT(p, "PBT 0x");
        p = PUT(put_hex(p, spex_address_bits(payload)), " el");
        *p++ = (char)('0' + spex_address_el(payload));
        p = PUT(p, " ns=");
        *p++ = (char)('0' + spex_address_ns(payload));
        return p;
    case SPEX_ADDRESS_VA:
        return put_hex(PUT(p, "VA 0x"), payload);
    case SPEX_ADDRESS_PA:
        p = PUT(put_hex(PUT(p, "PA 0x"), spex_address_bits(payload)), " ns=");
        *p++ = (char)('0' + spex_address_ns(payload));
        p = PUT(p, " ch=");
        *p++ = (char)('0' + (payload >> 62 & 1));
        return put_hex(PUT(p, " pat="), payload >> 56 & 0xf);
    default:
        break;
    }
    return perf_unknown(p, "ADDR", packet);
}

static char *perf_evlen(char *p, unsigned payload)
{
    return put_u64(PUT(p, " EVLEN "), 32u << (payload >> 4 & 7));
}

static char *perf_other(char *p, unsigned payload, unsigned version)
{
    if ((payload & 0x89) == 0x08) {
        p = perf_evlen(PUT(p, "SVE-OTHER"), payload);
        p = payload & 2 ? PUT(p, " FP") : p;
        return payload & 4 ? PUT(p, " PRED") : p;
    }
    if (version >= 7) {
        if ((payload & 0x89) == 0x88) {
            p = put_u64(PUT(p, "SME-OTHER ETS "),
                        128u << ((payload >> 4 & 7) << 1 | (payload >> 2 & 1)));
            return payload & 2 ? PUT(p, " FP") : p;
        }
        if (payload & 0xf8)
            return p;
    }
    p = PUT(p, "OTHER");
    if (version >= 7) {
        p = payload & 4 ? PUT(p, " ASE") : p;
        p = payload & 2 ? PUT(p, " FP") : p;
    }
    return payload & 1 ? PUT(p, " COND-SELECT") : PUT(p, " INSN-OTHER");
}

static char *perf_ldst(char *p, unsigned payload, unsigned version)
{
    p = payload & 1 ? PUT(p, "ST") : PUT(p, "LD");
    if ((payload & 0xe2) == 0x02) {
        p = payload & 4 ? PUT(p, " AT") : p;
        p = payload & 8 ? PUT(p, " EXCL") : p;
        return payload & 16 ? PUT(p, " AR") : p;
    }
    switch (payload & 0xfe) {
    case 0x04:
        return PUT(p, " SIMD-FP");
    case 0x00:
        return PUT(p, " GP-REG");
    case 0x10:
        return PUT(p, " UNSPEC-REG");
    case 0x30:
        return PUT(p, " NV-SYSREG");
    default:
        break;
    }
    if (version >= 7) {
        if ((payload & 0xfe) == 0x14)
            return PUT(p, " MTE-TAG");
        if ((payload & 0xfe) == 0x20)
            return PUT(p, " MEMCPY");
        if (payload == 0x25)
            return PUT(p, " MEMSET");
    }
    if ((payload & 0x0a) == 0x08) {
        p = perf_evlen(version >= 7 ? PUT(p, " SVE-SME-REG") : p, payload);
        p = payload & 4 ? PUT(p, " PRED") : p;
        return payload & 0x80 ? PUT(p, " SG") : p;
    }
    if (version >= 7 && (payload & 0xfa) == 0x40) {
        p = PUT(p, " GCS");
        return payload & 4 ? PUT(p, " COMM") : p;
    }
    return p;
}

static char *perf_branch(char *p, unsigned payload, unsigned version)
{
    static const char *const cr[4] = {"", " CR-BL", " CR-RET", " CR-NON-BL-RET"};
    *p++ = 'B';
    p = payload & 1 ? PUT(p, " COND") : p;
    if (version < 7) /* 6.1 compares all bits above COND */
        return (payload & 0xfe) == 2 ? PUT(p, " IND") : p;
    p = payload & 2 ? PUT(p, " IND") : p;
    p = payload & 4 ? PUT(p, " GCS") : p;
    return put(p, cr[payload >> 3 & 3]);
}

static char *perf_operation(char *p, const struct spex_packet *packet, unsigned version)
{
    unsigned payload = (unsigned)packet->payload;
    switch (packet->index) {
    case SPEX_CLASS_OTHER:
        return perf_other(p, payload, version);
    case SPEX_CLASS_LDST:
        return perf_ldst(p, payload, version);
    case SPEX_CLASS_BRANCH:
        return perf_branch(p, payload, version);
    default:
        return perf_unknown(p, "OP-TYPE", packet);
    }
}

/* perf prints 64-bit decimals signed. */
static char *perf_decimal(char *p, uint64_t value)
{
    if (value >> 63)
        *p++ = '-';
    return put_u64(p, value >> 63 ? -value : value);
}

static char *perf_text(char *p, const struct spex_packet *packet, unsigned version, bool n1)
{
    uint64_t payload = packet->payload, rest;
    switch (packet->type) {
    case SPEX_PACKET_PADDING:
        return PUT(p, "PAD");
    case SPEX_PACKET_END:
        return PUT(p, "END");
    case SPEX_PACKET_TIMESTAMP:
        return perf_decimal(PUT(p, "TS "), payload);
    case SPEX_PACKET_EVENTS:
        p = put_events(PUT(p, "EV"), payload, false, version, &rest);
        if (n1 && rest & BIT(12)) {
            p = PUT(p, " LATE-PREFETCH");
            rest &= ~BIT(12);
        }
        return version >= 7 && rest ? put_bit_list(PUT(p, " IMPDEF:"), rest) : p;
    case SPEX_PACKET_DATA_SOURCE:
        return put_u64(PUT(p, "DATA-SOURCE "), payload);
    case SPEX_PACKET_CONTEXT:
        p = PUT(put_hex(PUT(p, "CONTEXT 0x"), payload), " el");
        return put_u64(p, packet->index + 1u);
    case SPEX_PACKET_OPERATION_TYPE:
        return perf_operation(p, packet, version);
    case SPEX_PACKET_ADDRESS:
        return perf_address(p, packet, version);
    case SPEX_PACKET_COUNTER:
        p = put_u64(PUT(p, "LAT "), payload);
        return packet->index == SPEX_COUNTER_TOTAL         ? PUT(p, " TOT")
               : packet->index == SPEX_COUNTER_ISSUE       ? PUT(p, " ISSUE")
               : packet->index == SPEX_COUNTER_TRANSLATION ? PUT(p, " XLAT")
                                                           : PUT(p, " ");
    default:
        if (packet->header[0] == 0x63 || packet->header[0] == 0x73) /* perf takes any SZ */
            return perf_decimal(PUT(p, "DATA-SOURCE "), payload);
        return PUT(p, "Bad packet!");
    }
}

size_t spex_packet_text(const struct spex_packet *packet, enum spex_text_style style, char *text,
                        size_t capacity)
{
    assert(packet && (text || !capacity));
    char scratch[SPEX_PACKET_TEXT_MAX];
    char *start = capacity >= SPEX_PACKET_TEXT_MAX ? text : scratch;
    char *end = style == SPEX_TEXT_SPEX ? own_text(start, packet)
                : style == SPEX_TEXT_PERF
                    ? perf_text(start, packet, 6, false)
                    : perf_text(start, packet, 7, style == SPEX_TEXT_PERF7_N1);
    size_t n = (size_t)(end - start);
    if (start == text) {
        *end = 0;
    } else if (capacity > 0) {
        size_t keep = n < capacity ? n : capacity - 1;
        memcpy(text, scratch, keep);
        text[keep] = 0;
    }
    return n;
}
