/*
 * The stream checker. One pass over the packets: each packet is checked by its header, each
 * record when it closes. Masks and tables (verify_tables.c) hold what a feature set forbids, so
 * that a record costs a few ANDs.
 */
#include "verifier.h"
#include "verify_tables.h"

#include "base/error.h"
#include "base/sized.h"
#include "record/slots.h"
#include "wire/headers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const slot_names[SLOTS] = {
#define SLOT(name, type, index, field, words) words,
#include "record/slots.def"
};

/* By header byte; an Operation Type packet of any CLASS is one slot. */
#define ENTRY(h) WIRE_IS(h, OPERATION_TYPE) ? SLOT_OP : SLOT_OF_HEADER(h)
static const uint8_t slots[256] = WIRE_ALL(ENTRY);

#define CACHE_EVENTS (BITS(3, 2) | BITS(10, 8) | BITS(23, 19))
#define MEMORY_EVENTS (CACHE_EVENTS | BITS(5, 4) | BIT(11))

enum { QUEUE = VERIFY_CHECKS + 32 };
enum { REALM_EL3 = 0xf }; /* NS, EL, NSE in [63:60] */

struct state {
    struct verify_tables tables;
    /* the stream */
    const uint8_t *data;
    size_t size, position;
    uint64_t base;
    uint64_t begin, end; /* bounds of the previous record; both the start of the stream at first */
    bool last, done;
    uint64_t until; /* no record that begins at or after this offset is read */
    bool stopped;   /* because of that */
    /* the record being read */
    bool open;
    uint64_t start;
    uint64_t present;
    uint64_t payload[SLOTS];
    uint64_t at[SLOTS];
    /* found and not yet reported */
    unsigned queued, taken;
    struct {
        uint64_t offset;
        uint8_t rule, slot;
        uint64_t value;
        uint64_t record;
        const char *text;
    } queue[QUEUE];
};

static_assert(sizeof(struct state) <= sizeof((struct spex_verifier){0}.opaque), "state fits");

static struct state *state_of(struct spex_verifier *verifier)
{
    return (struct state *)verifier->opaque;
}

const struct spex_rule *spex_verifier_rule(size_t index)
{
    return index < RULES ? &verify_rules[index] : NULL;
}

void verifier_init(struct spex_verifier *verifier, const struct arch_features *features)
{
    memset(verifier, 0, sizeof *verifier);
    verify_tables_init(&state_of(verifier)->tables, features);
}

size_t spex_verifier_size(void)
{
    return sizeof(struct spex_verifier);
}

enum spex_status spex_verifier_init(void *memory, const struct spex_verify_options *options,
                                    struct spex_verifier **verifier, struct spex_error *error)
{
    assert(memory && verifier);
    struct spex_verify_options in = {0};
    struct arch_features features;
    enum spex_status status = SPEX_OK;
    if (options)
        status = sized_take("spex_verify_options", options, &in, sizeof in, error);
    if (!status && in.features)
        status = arch_features_parse(in.features, &features, error);
    if (status)
        return status;
    verifier_init(memory, in.features ? &features : NULL);
    *verifier = memory;
    return SPEX_OK;
}

enum spex_status spex_verifier_new(const struct spex_verify_options *options,
                                   struct spex_verifier **verifier, struct spex_error *error)
{
    assert(verifier);
    void *memory = malloc(sizeof(struct spex_verifier));
    if (!memory)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a verifier");
    enum spex_status status = spex_verifier_init(memory, options, verifier, error);
    if (status)
        free(memory);
    return status;
}

void spex_verifier_free(struct spex_verifier *verifier)
{
    free(verifier);
}

uint64_t spex_verifier_records(const struct spex_verifier *verifier)
{
    assert(verifier);
    return verifier->records;
}

enum spex_status spex_verifier_ignore(struct spex_verifier *verifier, const char *rule)
{
    assert(verifier && rule);
    struct state *s = state_of(verifier);
    for (size_t i = 0; i < RULES; i++) {
        if (!strcmp(verify_rules[i].id, rule)) {
            s->tables.ignored[i] = true;
            verify_tables_activate(&s->tables);
            return SPEX_OK;
        }
    }
    return SPEX_INVALID;
}

void spex_verifier_feed(struct spex_verifier *verifier, const uint8_t *data, size_t size,
                        uint64_t base, bool last)
{
    assert(verifier && (data || !size));
    struct state *s = state_of(verifier);
    if (s->last || base != s->base + s->position) {
        s->begin = s->end = base;
        s->open = false;
        s->present = 0;
    }
    s->data = data;
    s->size = size;
    s->base = base;
    s->last = last;
    s->position = 0;
    s->done = s->stopped = false;
    s->until = UINT64_MAX;
}

void spex_verifier_until(struct spex_verifier *verifier, uint64_t offset)
{
    assert(verifier);
    state_of(verifier)->until = offset;
}

bool spex_verifier_at_place(const struct spex_verifier *verifier, struct spex_verifier_place *place)
{
    assert(verifier && place);
    const struct state *s = (const struct state *)verifier->opaque;
    *place = (struct spex_verifier_place){.begin = s->begin, .end = s->end};
    return s->stopped;
}

void spex_verifier_feed_at(struct spex_verifier *verifier, struct spex_verifier_place place,
                           const uint8_t *data, size_t size, uint64_t base, bool last)
{
    assert(verifier && (data || !size));
    struct state *s = state_of(verifier);
    s->last = true; /* whatever came before, start afresh */
    spex_verifier_feed(verifier, data, size, base, last);
    s->begin = place.begin;
    s->end = place.end;
}

size_t spex_verifier_rest(const struct spex_verifier *verifier)
{
    assert(verifier);
    const struct state *s = (const struct state *)verifier->opaque;
    return s->size - s->position;
}

/* ---- checking ---- */

/*
 * Queues a violation. text is a format for value or for the payload of the slot; if there is
 * neither, value is the slot that should have been filled. The queue is emptied before more is
 * read, and one step adds each check at most once.
 */
static void found(struct spex_verifier *v, enum rule rule, uint64_t offset, unsigned slot,
                  uint64_t value, const char *text)
{
    struct state *s = state_of(v);
    if (rule == FINE || s->tables.ignored[rule] || (verify_rules[rule].exact && !s->tables.known))
        return;
    assert(s->queued < QUEUE);
    unsigned i = s->queued++;
    s->queue[i].offset = offset;
    s->queue[i].rule = (uint8_t)rule;
    s->queue[i].slot = (uint8_t)slot;
    s->queue[i].value = value;
    s->queue[i].record = v->records;
    s->queue[i].text = text;
}

static void found_in(struct spex_verifier *v, enum rule rule, unsigned slot)
{
    struct state *s = state_of(v);
    found(v, rule, s->at[slot], slot, s->payload[slot], NULL);
}

static void check_address(struct spex_verifier *v, unsigned slot)
{
    struct state *s = state_of(v);
    const struct arch_features *f = &s->tables.features;
    uint64_t value = s->payload[slot];
    unsigned space = (unsigned)(spex_address_nse(value) << 1 | spex_address_ns(value));
    if (value & (slot == PA ? BIT(61) : BITS(59, 56)))
        found_in(v, ADDRESS_ZERO, slot);
    if (slot == PA && !f->MTE2 && value & (BIT(62) | BITS(59, 56)))
        found_in(v, PA_TAG, slot);
    if (space & 2 && !f->RME)
        found_in(v, ADDRESS_NSE, slot);
    else if (s->tables.reserved_spaces >> space & 1)
        found_in(v, ADDRESS_SECURITY, slot);
}

/*
 * Whether an operation in this Security state (NSE:NS) cannot reach the address space of the PA
 * (a bit per NSE:NS).
 */
static bool foreign(uint64_t pc, uint64_t pa)
{
    static const uint8_t reach[4] = {
        [0] = 1 << 0 | 1 << 1, [1] = 1 << 1, [2] = 15, [3] = 1 << 3 | 1 << 1};
    unsigned from = spex_address_nse(pc) << 1 | spex_address_ns(pc);
    unsigned to = spex_address_nse(pa) << 1 | spex_address_ns(pa);
    return to != 2 && !(reach[from] >> to & 1);
}

static uint64_t counter_facts(const struct state *s)
{
    uint64_t facts = 0;
    bool total = s->present & HAS(TOTAL);
    if (s->present & HAS(TRANSLATION) && s->payload[TRANSLATION])
        facts |= TRANSLATED;
    if (total && s->present & HAS(TRANSLATION) && s->payload[TRANSLATION] > s->payload[TOTAL])
        facts |= TRANSLATION_ABOVE;
    if (total && s->present & HAS(ISSUE) && s->payload[ISSUE] > s->payload[TOTAL])
        facts |= ISSUE_ABOVE;
    return facts;
}

/* Checks a closed record: everything that needs it as a whole. */
static void check_record(struct spex_verifier *v, uint64_t end)
{
    struct state *s = state_of(v);
    uint64_t facts = s->present;
    if (facts & HAS(EVENTS)) {
        uint64_t e = s->payload[EVENTS];
        /*
         * A failed condition that raised no exception may leave nothing else, not even E[0]
         * (D17.6.10).
         */
        bool bare = !(facts & ~(HAS(PC) | HAS(EVENTS) | HAS(TIMESTAMP)));
        facts |= (e & 3) == 2 ? (bare ? 0 : EXECUTED) : (e & 3) == 3 ? EXCEPTION : 0;
        facts |= bits_get(e, 7, 6) << 18;
        facts |= bits_get(e, 18, 17) << 20;
        facts |= bits_get(e, 24, 24) << 31;
        facts |= e & MEMORY_EVENTS ? MEMORY_EVENT : 0;
        facts |= e & CACHE_EVENTS ? CACHE_EVENT : 0;
        uint64_t alone = e & ~(e << 1); /* events whose access event below is missing */
        facts |= (alone & s->tables.misses ? MISS_ALONE : 0) | (alone & BIT(5) ? WALK_ALONE : 0);
        if (e & s->tables.events_zero) {
            for (size_t i = 0; i < VERIFY_EVENTS; i++)
                if (e & s->tables.events[i].mask)
                    found(v, s->tables.events[i].rule, s->at[EVENTS], RECORD,
                          e & s->tables.events[i].mask, "events bits 0x%" PRIx64 " set");
        }
    }
    if (facts & HAS(OP)) {
        unsigned class = (unsigned)(s->payload[OP] >> 8), payload = s->payload[OP] & 0xff;
        found_in(v, s->tables.op_rules[class][payload], OP);
        facts |= (uint64_t)s->tables.op_facts[class][payload] << 32;
    }
    if (facts & HAS(PC)) {
        uint64_t pc = s->payload[PC];
        facts |= (uint64_t)s->tables.pc_facts[pc >> 60] << 16;
        facts |= pc & 3 ? PC_UNALIGNED : 0;
        check_address(v, PC);
        if (facts & HAS(TARGET) && s->payload[TARGET] >> 60 != pc >> 60)
            facts |= MOVED;
        if (facts & HAS(PA) && foreign(pc, s->payload[PA]))
            facts |= FOREIGN;
    }
    /* The target of a branch that was not taken is UNKNOWN (D17.6.3). */
    if (facts & HAS(TARGET) && !(facts & NOT_TAKEN))
        check_address(v, TARGET);
    if (facts & HAS(PA))
        check_address(v, PA);
    if (facts & HAS(PREV))
        check_address(v, PREV);
    if (facts & HAS(PREV) && s->payload[PREV] >> 60 == REALM_EL3)
        facts |= PREV_REALM_EL3;
    for (unsigned slot = TOTAL; slot <= ALT; slot++)
        if (facts & HAS(slot) && s->payload[slot] & s->tables.counter_zero)
            found_in(v, COUNTER_RANGE, slot);
    facts |= counter_facts(s);
    for (unsigned i = 0; i < s->tables.active_count; i++) {
        const struct check *c = &s->tables.active[i];
        if ((facts & c->all) == c->all && !(facts & c->none)) {
            if (c->at == RECORD)
                found(v, c->rule, s->start, RECORD, (unsigned)__builtin_ctzll(c->none), NULL);
            else
                found_in(v, c->rule, c->at);
        }
    }
    if (end - s->start > UINT64_C(1) << s->tables.features.MaxSize)
        found(v, RECORD_SIZE, s->start, RECORD, end - s->start, "%" PRIu64 " bytes");
}

static void close_record(struct spex_verifier *v, uint64_t at, uint64_t end)
{
    struct state *s = state_of(v);
    if (s->open) {
        check_record(v, end);
        s->begin = s->start;
    } else {
        found(v, RECORD_EMPTY, at, RECORD, s->end, "nothing to close since offset 0x%" PRIx64);
        s->begin = at;
    }
    v->records++;
    s->end = end;
    s->open = false;
    s->present = 0;
}

/*
 * Whether a multiple of the alignment lies between the previous record and offset to. Padding
 * may stand before, inside or after a record's packets, so no more can be asked.
 */
static bool boundary(const struct state *s, uint64_t to)
{
    return to >> s->tables.features.Align << s->tables.features.Align >= s->end;
}

static void begin_record(struct spex_verifier *v, uint64_t at)
{
    struct state *s = state_of(v);
    s->open = true;
    s->start = at;
    if (!boundary(s, at))
        found(v, RECORD_ALIGN, at, RECORD, s->end,
              "no unit boundary since the record before, which ends at 0x%" PRIx64);
}

static void fill(struct spex_verifier *v, unsigned slot, uint64_t at, uint64_t payload)
{
    struct state *s = state_of(v);
    if (s->present & HAS(slot))
        found(v, PACKET_TWICE, at, slot, payload, NULL);
    s->present |= HAS(slot);
    s->payload[slot] = payload;
    s->at[slot] = at;
}

/* A packet outside the fast table: extended, reserved or IMPLEMENTATION DEFINED. */
static void odd_packet(struct spex_verifier *v, const struct spex_packet *packet, uint64_t at)
{
    struct state *s = state_of(v);
    unsigned slot = packet->type == SPEX_PACKET_OPERATION_TYPE ? SLOT_OP : slot_of(packet);
    unsigned index = packet->index;
    if (slot < SLOTS) {
        fill(v, slot, at, packet->payload);
        return;
    }
    switch (packet->type) {
    case SPEX_PACKET_ADDRESS:
        if (slot == SLOT_RESERVED)
            found(v, ADDRESS_INDEX, at, RECORD, index, "INDEX %" PRIu64);
        break;
    case SPEX_PACKET_COUNTER:
        if (slot == SLOT_RESERVED)
            found(v, COUNTER_INDEX, at, RECORD, index, "INDEX %" PRIu64);
        else if (packet->payload & s->tables.counter_zero)
            found(v, COUNTER_RANGE, at, RECORD, packet->payload, "counter 0x%" PRIx64);
        break;
    case SPEX_PACKET_CONTEXT:
        found(v, CONTEXT_INDEX, at, RECORD, index, "INDEX %" PRIu64);
        break;
    default:
        found(v, HEADER_RESERVED, at, RECORD,
              packet->header_size == 2 ? packet->header[0] << 8 | packet->header[1]
                                       : packet->header[0],
              "header 0x%02" PRIx64);
    }
}

/* Handles the end of the piece: what is cut off there if nothing follows. */
static void finish(struct spex_verifier *v)
{
    struct state *s = state_of(v);
    size_t left = s->size - s->position;
    s->done = true;
    if (!s->last)
        return;
    uint64_t at = s->base + s->position, end = s->base + s->size;
    s->position = s->size;
    if (left)
        found(v, PACKET_TRUNCATED, at, RECORD, left, "bytes left: %" PRIu64);
    else if (s->open)
        found(v, RECORD_UNCLOSED, s->start, RECORD, end - s->start,
              "%" PRIu64 " bytes without End or Timestamp");
    else if (!boundary(s, end))
        found(v, RECORD_ALIGN, s->begin, RECORD, s->end,
              "the stream ends before the padding of the record, which ends at 0x%" PRIx64);
    s->open = false;
    s->present = 0;
}

/* Reads packets until something is found or the data ends. */
static void walk(struct spex_verifier *v)
{
    struct state *s = state_of(v);
    while (!s->queued && s->position < s->size) {
        const uint8_t *data = s->data + s->position;
        size_t left = s->size - s->position;
        uint64_t at = s->base + s->position;
        unsigned header = *data, size = wire_headers[header].size;
        unsigned slot = slots[header];
        if (slot == SLOT_PADDING) {
            s->position++;
            continue;
        }
        if (!s->open && at >= s->until) {
            s->done = s->stopped = true;
            break;
        }
        if (slot == SLOT_END) {
            s->position++;
            close_record(v, at, at + 1);
            continue;
        }
        if (slot < SLOTS && left >= SPEX_PACKET_MAX) {
            uint64_t payload = le64(data + 1) & ~UINT64_C(0) >> (64 - 8 * size);
            s->position += 1 + size;
            if (!s->open && slot != TIMESTAMP)
                begin_record(v, at);
            fill(v, slot, at,
                 slot == OP ? payload | (header & WIRE_INDEX_OPERATION_TYPE) << 8 : payload);
        } else {
            struct spex_packet packet;
            if (spex_packet_decode(data, left, &packet) != SPEX_OK)
                break;
            s->position += spex_packet_length(&packet);
            if (!s->open && slot != TIMESTAMP)
                begin_record(v, at);
            if (packet.type == SPEX_PACKET_OPERATION_TYPE)
                packet.payload |= (uint64_t)packet.index << 8;
            odd_packet(v, &packet, at);
        }
        if (slot == TIMESTAMP)
            close_record(v, at, s->base + s->position);
    }
    if (!s->queued && !s->done)
        finish(v);
}

enum spex_status spex_verifier_next(struct spex_verifier *v, struct spex_violation *violation)
{
    assert(v && violation);
    struct state *s = state_of(v);
    if (s->taken == s->queued) {
        s->taken = s->queued = 0;
        walk(v);
        if (!s->queued)
            return SPEX_END;
    }
    unsigned i = s->taken++;
    violation->offset = s->queue[i].offset;
    violation->record = s->queue[i].record;
    violation->rule = &verify_rules[s->queue[i].rule];
    memset(violation->zero, 0, sizeof violation->zero);
    if (s->queue[i].slot == OP)
        snprintf(violation->what, sizeof violation->what,
                 "operation type CLASS %u with payload 0x%02x", (unsigned)(s->queue[i].value >> 8),
                 (unsigned)s->queue[i].value & 0xff);
    else if (s->queue[i].slot < SLOTS)
        snprintf(violation->what, sizeof violation->what, "%s 0x%" PRIx64,
                 slot_names[s->queue[i].slot], s->queue[i].value);
    else if (s->queue[i].text)
        snprintf(violation->what, sizeof violation->what, s->queue[i].text, s->queue[i].value);
    else
        snprintf(violation->what, sizeof violation->what, "no %s packet",
                 slot_names[s->queue[i].value]);
    return SPEX_OK;
}
