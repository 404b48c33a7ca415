/* All four counters of a record at once. One that is absent is 0. */
#ifndef RECORD_COUNTERS_H
#define RECORD_COUNTERS_H

#include <spex/record.h>

#include <assert.h>
#include <string.h>

#define EACH_COUNTER UINT64_C(0x0001000100010001)

static inline uint64_t counters_of(const struct spex_record *r)
{
    uint64_t counters;
    static_assert(offsetof(struct spex_record, alt_issue) - offsetof(struct spex_record, total) ==
                      sizeof counters - sizeof r->alt_issue,
                  "the counters stand together");
    memcpy(&counters, &r->total, sizeof counters);
    return counters;
}

/* Constants of a quick test that rules out most records, which have no saturated counter. */
struct counters_end {
    uint64_t add, bits;
};

/*
 * most is 0xfff or 0xffff: a counter of at least 0xfff, or at least 0x8000, has one of these
 * bits set.
 */
static inline struct counters_end counters_end(unsigned most)
{
    if (most > 0xfff)
        return (struct counters_end){0, EACH_COUNTER << 15};
    return (struct counters_end){EACH_COUNTER, 0xf * EACH_COUNTER << 12};
}

static inline bool counters_may_end(const struct spex_record *r, const struct counters_end *end)
{
    return __builtin_expect(((counters_of(r) + end->add) & end->bits) != 0, 0);
}

#endif
