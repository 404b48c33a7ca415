/* Reading in three ways at once, which must agree at every step; bytes from hex. */
#ifndef TESTS_RECORD_READERS_H
#define TESTS_RECORD_READERS_H

#include "support/test.h"

#include <spex/record.h>

#include "record/oracle.h"
#include "record/reader.h"

static inline size_t bytes_of(const char *hex, uint8_t *out)
{
    size_t n = 0;
    unsigned byte;
    int used;
    for (; sscanf(hex, " %2x%n", &byte, &used) == 1; hex += used)
        out[n++] = (uint8_t)byte;
    return n;
}

static inline void assert_same_record(const struct spex_record *a, const struct spex_record *b)
{
    for (unsigned i = 0; i < 5; i++)
        assert_true(a->address[i] == b->address[i]);
    assert_true(a->events == b->events);
    assert_true(a->timestamp == b->timestamp);
    assert_true(a->offset == b->offset);
    assert_int_equal(a->context[0], b->context[0]);
    assert_int_equal(a->context[1], b->context[1]);
    assert_int_equal(a->total, b->total);
    assert_int_equal(a->issue, b->issue);
    assert_int_equal(a->translation, b->translation);
    assert_int_equal(a->alt_issue, b->alt_issue);
    assert_int_equal(a->data_source, b->data_source);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->present, b->present);
    assert_int_equal(a->op_class, b->op_class);
    assert_int_equal(a->op_payload, b->op_payload);
    assert_int_equal(a->events_size, b->events_size);
    assert_int_equal(a->data_source_size, b->data_source_size);
}

/* One step of the three ways to read, which must agree. */
struct readers {
    struct spex_reader next, batch;
    struct spex_shapes shapes;
    struct oracle oracle;
};

static inline void readers_init(struct readers *r, const uint8_t *data, size_t size, uint64_t base)
{
    reader_whole(&r->next, data, size, base);
    r->oracle = oracle_start(data, size, base);
    shapes_init(&r->shapes, fast_variant(0));
    reader_init(&r->batch, &r->shapes);
    spex_reader_feed(&r->batch, data, size, base, true);
}

static inline enum spex_status step(struct readers *r, struct spex_record *record,
                                    struct spex_damage *damage)
{
    struct spex_record a, b;
    struct spex_damage da = {0}, db = {0}, dc = {0};
    enum spex_status status;
    memset(&a, 0xa5, sizeof a);
    memset(&b, 0x5a, sizeof b);
    enum spex_status sa = spex_reader_next(&r->next, &a, &da);
    enum spex_status sb = oracle_next(&r->oracle, &b, &db);
    struct spex_record c;
    size_t n = spex_reader_batch(&r->batch, &c, 1, &status, &dc);
    assert_int_equal(sa, sb);
    assert_int_equal(sa, status);
    assert_int_equal(n, sa == SPEX_OK);
    assert_int_equal(r->next.position, r->oracle.position);
    assert_int_equal(r->next.position, r->batch.position);
    struct spex_record untouched[2]; /* what there is no record for */
    memset(&untouched[0], 0xa5, sizeof a);
    memset(&untouched[1], 0x5a, sizeof b);
    if (sa == SPEX_OK) {
        assert_same_record(&a, &b);
        assert_same_record(&a, &c);
        *record = a;
    } else {
        assert_memory_equal(&a, &untouched[0], sizeof a);
        assert_memory_equal(&b, &untouched[1], sizeof b);
    }
    if (sa != SPEX_OK && sa != SPEX_END) {
        assert_int_equal(da.status, sa);
        assert_true(da.offset == db.offset && da.size == db.size && da.status == db.status);
        assert_true(da.offset == dc.offset && da.size == dc.size && da.status == dc.status);
        assert_true(da.reason == dc.reason && da.reason);
        if (damage)
            *damage = da;
    }
    return sa;
}

#endif
