/*
 * Records, read as docs/format.md describes them, "Records" and "Resynchronization": naively, and
 * with nothing of the product but its structs. What readers find is compared with this.
 */
#ifndef TESTS_RECORD_ORACLE_H
#define TESTS_RECORD_ORACLE_H

#include <spex/record.h>

#include "wire/oracle.h"

struct oracle {
    const uint8_t *data;
    size_t size, position;
    uint64_t base;
    /* The last good record: its first header byte or -1, where its closing packet begins. */
    int first;
    size_t close, close_end;
};

static inline struct oracle oracle_start(const uint8_t *data, size_t size, uint64_t base)
{
    return (struct oracle){.data = data, .size = size, .base = base, .first = -1};
}

/* A run of packets. */
struct oracle_run {
    struct spex_record record;
    bool closed, overlong, cut, repeated, reserved;
    size_t end, next, close, pc; /* end: of the last packet that is no padding */
};

static inline bool oracle_whole(const struct oracle_run *run)
{
    const unsigned needed = SPEX_HAS_PC | SPEX_HAS_OP | SPEX_HAS_EVENTS | SPEX_HAS_TOTAL;
    return run->closed && (run->record.present & needed) == needed;
}

static inline bool oracle_odd(const struct oracle_run *run)
{
    const struct spex_record *r = &run->record;
    bool executed = (r->events & 3) == 2; /* E[1] and not E[0] */
    bool excused = r->present & SPEX_HAS_EVENTS && !executed;
    return run->repeated || run->reserved || !(oracle_whole(run) || excused);
}

/* Puts a packet into the record. */
static inline void oracle_add(struct oracle_run *run, const struct spex_packet *p)
{
    static const int counters[8] = {0, 1, 2, -1, 3, -1, -1, -1};
    struct spex_record *r = &run->record;
    uint16_t *const counter[4] = {&r->total, &r->issue, &r->translation, &r->alt_issue};
    unsigned has = 0, i = p->index;
    bool indexed = p->type == SPEX_PACKET_ADDRESS || p->type == SPEX_PACKET_COUNTER;
    if (p->type == SPEX_PACKET_ADDRESS && i <= 4)
        has = SPEX_HAS_PC << i;
    else if (p->type == SPEX_PACKET_COUNTER && i < 8 && counters[i] >= 0)
        has = SPEX_HAS_TOTAL << counters[i];
    else if (p->type == SPEX_PACKET_CONTEXT && i < 2)
        has = SPEX_HAS_CONTEXT_EL1 << i;
    else if (p->type == SPEX_PACKET_EVENTS)
        has = SPEX_HAS_EVENTS;
    else if (p->type == SPEX_PACKET_DATA_SOURCE)
        has = SPEX_HAS_DATA_SOURCE;
    else if (p->type == SPEX_PACKET_OPERATION_TYPE && i < 3)
        has = SPEX_HAS_OP;
    else if (p->type == SPEX_PACKET_TIMESTAMP)
        has = SPEX_HAS_TIMESTAMP;
    else if (p->type != SPEX_PACKET_END)
        r->present |= SPEX_HAS_OTHER;
    if (!has && p->type != SPEX_PACKET_END && !(indexed && (i == 6 || i == 7 || i >= 16)))
        run->reserved = true;
    if (r->present & has) {
        run->repeated = true;
        return;
    }
    r->present |= (uint16_t)has;
    if (has <= SPEX_HAS_PREV_TARGET && has)
        r->address[i] = p->payload;
    else if (has && has <= SPEX_HAS_ALT_ISSUE)
        *counter[counters[i]] = (uint16_t)p->payload;
    else if (has == SPEX_HAS_CONTEXT_EL1 || has == SPEX_HAS_CONTEXT_EL2)
        r->context[i] = (uint32_t)p->payload;
    else if (has == SPEX_HAS_EVENTS)
        r->events = p->payload, r->events_size = p->size;
    else if (has == SPEX_HAS_DATA_SOURCE)
        r->data_source = (uint16_t)p->payload, r->data_source_size = p->size;
    else if (has == SPEX_HAS_OP)
        r->op_class = p->index, r->op_payload = (uint8_t)p->payload;
    else if (has == SPEX_HAS_TIMESTAMP)
        r->timestamp = p->payload;
}

/* Clean: go no further than the first packet that is reserved or comes twice. */
static inline struct oracle_run oracle_run(const uint8_t *data, size_t size, size_t start,
                                           bool clean)
{
    struct oracle_run run = {.end = start, .pc = SIZE_MAX};
    for (size_t at = start, length; at < size; at += length) {
        struct spex_packet p;
        run.cut = oracle_packet(data + at, size - at, &p) != SPEX_OK;
        if (run.cut)
            break;
        length = spex_packet_length(&p);
        if (p.type == SPEX_PACKET_PADDING)
            continue;
        if (at + length - start > SPEX_RECORD_MAX) {
            run.overlong = true;
            run.next = at;
            return run;
        }
        run.end = at + length;
        if (p.type == SPEX_PACKET_ADDRESS && p.index == SPEX_ADDRESS_PC)
            run.pc = at + p.header_size - 1;
        oracle_add(&run, &p);
        if (clean && (run.reserved || run.repeated))
            break;
        if (p.type == SPEX_PACKET_END || p.type == SPEX_PACKET_TIMESTAMP) {
            run.closed = true;
            run.close = at;
            run.next = run.end;
            return run;
        }
    }
    run.next = size;
    return run;
}

/* Where to look for a whole record: it lies in [low, high), ends at end_low or after, begins
 * before limit, and its PC packet is not the one at pc. */
struct oracle_search {
    size_t low, high, end_low, limit, pc;
};

static inline bool oracle_fits(const uint8_t *data, const struct oracle_search *s, size_t at)
{
    if (data[at] == 0)
        return false;
    struct oracle_run run = oracle_run(data, s->high, at, true);
    return run.closed && !run.repeated && !run.reserved && oracle_whole(&run) &&
           run.end >= s->end_low && run.pc != s->pc;
}

/* The latest that begins with this byte, or with any (-1). Inside the first packet of another
 * such record is no place of its own. */
static inline bool oracle_latest(const uint8_t *data, const struct oracle_search *s, int first,
                                 size_t *found)
{
    for (size_t at = s->limit; at-- > s->low;) {
        if ((first >= 0 && data[at] != first) || !oracle_fits(data, s, at))
            continue;
        *found = at;
        for (size_t other = at; other-- > s->low && at - other < SPEX_PACKET_MAX;) {
            struct spex_packet p;
            if ((first < 0 || data[other] == first) && oracle_fits(data, s, other) &&
                oracle_packet(data + other, s->high - other, &p) == SPEX_OK &&
                other + spex_packet_length(&p) > at)
                *found = other;
        }
        return true;
    }
    return false;
}

static inline bool oracle_better(const struct oracle *o, struct oracle_search s, size_t *found)
{
    enum { WINDOW = SPEX_RECORD_MAX + 32 };
    if (s.high - s.low > WINDOW)
        s.low = s.high - WINDOW;
    return (o->first >= 0 && oracle_latest(o->data, &s, o->first, found)) ||
           oracle_latest(o->data, &s, -1, found);
}

static inline enum spex_status oracle_give_up(struct oracle *o, enum spex_status status,
                                              size_t from, size_t to, size_t next,
                                              struct spex_damage *damage)
{
    if (damage)
        *damage =
            (struct spex_damage){.status = status, .offset = o->base + from, .size = to - from};
    o->position = next;
    return status;
}

/* As a reader's next, but damage has no reason. */
static inline enum spex_status oracle_next(struct oracle *o, struct spex_record *record,
                                           struct spex_damage *damage)
{
    const uint8_t *data = o->data;
    while (o->position < o->size && data[o->position] == 0)
        o->position++;
    size_t start = o->position, size = o->size, found = 0;
    if (start == size)
        return SPEX_END;
    if (size - start > 3 * SPEX_RECORD_MAX)
        size = start + 3 * SPEX_RECORD_MAX;
    struct oracle_run run = oracle_run(data, size, start, false);
    if (run.overlong)
        return oracle_give_up(o, SPEX_INVALID, start, run.end, run.next, damage);
    if (run.closed && run.close == start)
        return oracle_give_up(o, SPEX_INVALID, start, run.end, run.end, damage);
    bool good = run.closed && !oracle_odd(&run);
    if (!good) {
        /* Not before the payload of the last good record's closing packet. */
        size_t low = o->close_end - o->close > 1 ? o->close + 1 : o->close_end;
        struct oracle_search search = {low, run.next, run.next, run.next, SIZE_MAX};
        if (run.closed && !run.repeated && oracle_whole(&run))
            search.pc = run.pc;
        if (!run.closed) {
            size_t end = size;
            while (end > start && !data[end - 1])
                end--;
            search.end_low = end;
            search.limit = search.high = size - end > 8 ? end + 8 : size;
        }
        bool better = oracle_better(o, search, &found);
        if (!better && run.closed) {
            struct oracle_run after = oracle_run(data, size, run.next, false);
            if (after.closed && (!oracle_whole(&after) || oracle_odd(&after))) {
                search.high = search.end_low = after.next;
                better = oracle_better(o, search, &found);
            }
        }
        if (better)
            return oracle_give_up(o, SPEX_INVALID, found > start ? start : o->close, found, found,
                                  damage);
        if (!run.closed)
            return oracle_give_up(o, SPEX_TRUNCATED, start, run.cut ? size : run.end, size, damage);
        if (run.repeated)
            return oracle_give_up(o, SPEX_INVALID, start, run.end, run.next, damage);
    }
    *record = run.record;
    record->offset = o->base + start;
    record->size = (uint16_t)(run.end - start);
    o->position = run.end;
    if (good) {
        o->first = data[start];
        o->close = run.close;
        o->close_end = run.end;
    }
    return SPEX_OK;
}

#endif
