/* What a sample adds to the row of a group. */
#include "group.h"

#include <string.h>

/*
 * Facts are bits in the order of struct stats, from bit 1 on: events 1 to 10 and 19 to 21, answered
 * by a peer, reads, writes, the three latencies, branch, and those named here.
 */
enum { FACTS = 24, FACT = 1, LATENCY = 17, SAMPLE = 21, EXECUTES = 22, REPEATS = 23 };

_Static_assert(SPEX_EV_RETIRED == 1 && SPEX_EV_REMOTE == 10 && SPEX_EV_L2D_ACCESS == 19 &&
                   SPEX_EV_MODIFIED == 21 && SPEX_SAMPLE_PEER == 2 && SPEX_SAMPLE_READS == 4 &&
                   SPEX_SAMPLE_WRITES == 8 && SPEX_HAS_TOTAL == 1 << 5 &&
                   SPEX_HAS_ISSUE == 1 << 6 && SPEX_HAS_TRANSLATION == 1 << 7 &&
                   offsetof(struct stats, latency_count) == 4 * (LATENCY - FACT) &&
                   offsetof(struct stats, samples) == 4 * (SAMPLE - FACT) &&
                   offsetof(struct stats, executes) == 4 * (EXECUTES - FACT) &&
                   offsetof(struct stats, repeats) == 4 * (REPEATS - FACT) &&
                   SPEX_LATENCY_TOTAL == 0 && SPEX_LATENCY_ISSUE == 1 &&
                   SPEX_LATENCY_TRANSLATION == 2 && SPEX_LATENCY_EXECUTE == 3,
               "the order of struct stats and of latencies");

#define PART static inline __attribute__((always_inline))

/*
 * Has no branches that depend on the record: absent fields are 0 and add nothing. follows: the
 * previous sample was of the same queue and thread.
 */
PART void prepare(const struct spex_sample *s, bool follows, struct group_counted *c)
{
    const struct spex_record *r = s->record;
    unsigned present = r->present, flags = s->flags;
    unsigned execute = r->total > r->issue ? r->total - r->issue : 0;
    bool known = present / SPEX_HAS_TOTAL & ~flags / SPEX_SAMPLE_LEAST_ISSUE & 1;
    static const double most = 0x1p62;
    double ns = (double)(int64_t)s->spent * 1e-3, square = ns * ns * (double)(int)sample_alike(s);
    c->facts = (uint32_t)((r->events & 0x7fe) | (r->events >> 8 & 0x3800)) | (flags & 0xe) << 13 |
               (present & 0xe0) << 12 | (uint32_t)(s->op == SPEX_SAMPLE_BRANCH) << 20 |
               1u << SAMPLE | (uint32_t)known << EXECUTES | (uint32_t)follows << REPEATS;
    typedef uint16_t four __attribute__((vector_size(8)));
    four counters; /* the last one is replaced */
    memcpy(&counters, &r->total, sizeof counters);
    c->each = __builtin_convertvector(counters, group_latencies);
    c->each[SPEX_LATENCY_EXECUTE] = execute;
    c->time = s->spent;
    c->square = (uint64_t)(int64_t)((square < most ? square : most) + 0.5);
    c->flags = (uint8_t)flags;
    c->source = s->source;
    c->memory = (flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES)) != 0;
}

PART bool is_after(const struct spex_sample *s, const struct spex_sample *before)
{
    return (s->queue == before->queue) & (s->tid == before->tid);
}

typedef uint32_t eight __attribute__((vector_size(32), aligned(8)));

/* Eight at a time. */
PART void count_facts(struct stats *t, uint32_t facts)
{
#define BITS(n)                                                                                    \
    {                                                                                              \
        1u << (n), 2u << (n), 4u << (n), 8u << (n), 16u << (n), 32u << (n), 64u << (n),            \
            128u << (n)                                                                            \
    }
    static const eight masks[FACTS / 8] = {BITS(FACT), BITS(FACT + 8), BITS(FACT + 16)};
#undef BITS
    eight all = {facts, facts, facts, facts, facts, facts, facts, facts};
    eight *counts = (eight *)t;
    counts[0] -= (eight)((all & masks[0]) == masks[0]); /* true is all ones: minus one */
    counts[1] -= (eight)((all & masks[1]) == masks[1]);
    counts[2] -= (eight)((all & masks[2]) == masks[2]);
}

PART void count_latency(struct spex_group *g, struct spex_row *row, const struct group_counted *c,
                        enum spex_latency latency, unsigned fact)
{
    if (c->facts >> fact & 1)
        histogram_count(&g->histograms, &group_handles(g, row)[latency],
                        (uint16_t)c->each[latency]);
}

PART bool repeats(const struct spex_group *g, const struct spex_row *row,
                  const struct spex_row *before)
{
    if (!g->repeats_at || !before)
        return row == before;
    const uint64_t *a = row->key + g->repeats_at, *b = before->key + g->repeats_at;
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]));
}

/* histograms: a bit for each latency that has one. */
PART void count_one(struct spex_group *g, struct spex_row *row, const struct spex_row *before,
                    const struct group_counted *c, unsigned histograms)
{
    typedef uint64_t sums __attribute__((vector_size(32), aligned(8)));
    struct stats *t = &row->stats;
    /* no branches: the next row is unpredictable */
    count_facts(t, c->facts & ~((uint32_t)!repeats(g, row, before) << REPEATS));
    row->flags |= c->flags;
    t->source[c->source] += c->memory;
    *(sums *)t->latency_sum += __builtin_convertvector(c->each, sums);
    t->time += c->time;
    stats_add_square(t, c->square);
    if (histograms & 1u << SPEX_LATENCY_TOTAL)
        count_latency(g, row, c, SPEX_LATENCY_TOTAL, LATENCY + SPEX_LATENCY_TOTAL);
    if (histograms & 1u << SPEX_LATENCY_EXECUTE)
        count_latency(g, row, c, SPEX_LATENCY_EXECUTE, EXECUTES);
    if (histograms & 1u << SPEX_LATENCY_ISSUE)
        count_latency(g, row, c, SPEX_LATENCY_ISSUE, LATENCY + SPEX_LATENCY_ISSUE);
    if (histograms & 1u << SPEX_LATENCY_TRANSLATION)
        count_latency(g, row, c, SPEX_LATENCY_TRANSLATION, LATENCY + SPEX_LATENCY_TRANSLATION);
}

/* prepared: NULL unless several groups count the samples. */
PART void count_each(struct spex_group *g, struct spex_row *const *rows,
                     const struct spex_sample *const *samples, const struct group_counted *prepared,
                     size_t count, unsigned histograms)
{
    const struct spex_row *before = g->last.row;
    const struct spex_sample *last = samples[0];
    if (prepared)
        for (size_t i = 0; i < count; before = rows[i], i++)
            count_one(g, rows[i], before, &prepared[i], histograms);
    else
        for (size_t i = 0; i < count; before = rows[i], last = samples[i], i++) {
            struct group_counted c;
            prepare(samples[i], is_after(samples[i], last), &c);
            count_one(g, rows[i], before, &c, histograms);
        }
    g->last.row = before;
}

/* The choice is made outside the loops. */
PART void count_all(struct spex_group *g, struct spex_row *const *rows,
                    const struct spex_sample *const *samples, const struct group_counted *prepared,
                    size_t count)
{
    if (g->flags & SPEX_GROUP_ALL_PERCENTILES)
        count_each(g, rows, samples, prepared, count, (1u << SPEX_LATENCY_COUNT) - 1);
    else if (g->flags & SPEX_GROUP_PERCENTILES)
        count_each(g, rows, samples, prepared, count, 1u << SPEX_LATENCY_TOTAL);
    else if (g->flags & SPEX_GROUP_TRANSLATION)
        count_each(g, rows, samples, prepared, count,
                   1u << SPEX_LATENCY_EXECUTE | 1u << SPEX_LATENCY_TRANSLATION);
    else if (g->flags & SPEX_GROUP_EXECUTE)
        count_each(g, rows, samples, prepared, count, 1u << SPEX_LATENCY_EXECUTE);
    else
        count_each(g, rows, samples, prepared, count, 0);
}

#if defined __x86_64__
__attribute__((target("avx2"))) static void count_avx2(struct spex_group *g,
                                                       struct spex_row *const *rows,
                                                       const struct spex_sample *const *samples,
                                                       const struct group_counted *prepared,
                                                       size_t count)
{
    count_all(g, rows, samples, prepared, count);
}
#endif

void group_count_samples(struct spex_group *g, struct spex_row *const *rows,
                         const struct spex_sample *const *samples,
                         const struct group_counted *prepared, size_t count)
{
    /* only this group knows whether the first sample follows the last one before it */
    if (samples[0]->queue != g->last.queue || samples[0]->tid != g->last.tid ||
        analysis_order != g->last.order)
        g->last.row = NULL;
    g->last.order = analysis_order;
    g->last.queue = samples[count - 1]->queue;
    g->last.tid = samples[count - 1]->tid;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        count_avx2(g, rows, samples, prepared, count);
        return;
    }
#endif
    count_all(g, rows, samples, prepared, count);
}

void group_prepare(const struct spex_sample *const *samples, size_t count,
                   struct group_counted *prepared)
{
    const struct spex_sample *last = samples[0];
    for (size_t i = 0; i < count; last = samples[i], i++)
        prepare(samples[i], is_after(samples[i], last), &prepared[i]);
}
