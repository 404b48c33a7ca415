/* The rows of a group once all samples are counted: their order and values. */
#include "group.h"

#include "allocs.h"

#include "base/memory.h"
#include "base/sized.h"
#include "base/sort.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t spex_row_stat(const struct spex_row *row, enum spex_stat stat)
{
    assert(row);
    static const uint16_t at[SPEX_STAT_COUNT] = {
#define STAT(name, field) [SPEX_STAT_##name] = offsetof(struct stats, field)
        STAT(SAMPLES, samples),
        STAT(RETIRED, retired),
        STAT(READS, reads),
        STAT(WRITES, writes),
        STAT(BRANCHES, branches),
        STAT(NOT_TAKEN, not_taken),
        STAT(MISPREDICTED, mispredicted),
        STAT(L1_ACCESS, l1_access),
        STAT(L1_MISS, l1_miss),
        STAT(L2_ACCESS, l2_access),
        STAT(L2_MISS, l2_miss),
        STAT(LLC_ACCESS, llc_access),
        STAT(LLC_MISS, llc_miss),
        STAT(TLB_ACCESS, tlb_access),
        STAT(TLB_WALK, tlb_walk),
        STAT(REMOTE, remote),
        STAT(PEER, peer),
        STAT(MODIFIED, modified),
#undef STAT
    };
    if ((unsigned)stat >= SPEX_STAT_COUNT)
        return 0;
    return *(const uint32_t *)((const char *)&row->stats + at[stat]);
}

uint64_t spex_row_source(const struct spex_row *row, enum spex_source source)
{
    assert(row);
    return (unsigned)source < SPEX_SOURCE_COUNT ? row->stats.source[source] : 0;
}

uint64_t spex_row_latencies(const struct spex_row *row, enum spex_latency latency, uint64_t *sum)
{
    assert(row);
    assert((unsigned)latency < SPEX_LATENCY_COUNT);
    if (sum)
        *sum = row->stats.latency_sum[latency];
    return latency == SPEX_LATENCY_EXECUTE ? row->stats.executes
                                           : row->stats.latency_count[latency];
}

double spex_row_time(const struct spex_row *row)
{
    assert(row);
    return (double)row->stats.time / 1000;
}

void spex_row_stats(const struct spex_row *row, struct spex_stats *out)
{
    assert(row && out);
    const struct stats *s = &row->stats;
    struct spex_stats short_of_some, *all = out->size == sizeof *all ? out : &short_of_some;
    *all = (struct spex_stats){
        .size = sizeof *all,
        .samples = s->samples,
        .retired = s->retired,
        .reads = s->reads,
        .writes = s->writes,
        .branches = s->branches,
        .not_taken = s->not_taken,
        .mispredicted = s->mispredicted,
        .l1_access = s->l1_access,
        .l1_miss = s->l1_miss,
        .l2_access = s->l2_access,
        .l2_miss = s->l2_miss,
        .llc_access = s->llc_access,
        .llc_miss = s->llc_miss,
        .tlb_access = s->tlb_access,
        .tlb_walk = s->tlb_walk,
        .remote = s->remote,
        .peer = s->peer,
        .modified = s->modified,
        .repeats = s->repeats,
        .time = s->time,
        .time_square = stats_square(s),
        .flags = row->flags,
    };
    for (unsigned l = 0; l < SPEX_LATENCY_COUNT; l++) {
        all->latency_sum[l] = s->latency_sum[l];
        all->latency_count[l] = l == SPEX_LATENCY_EXECUTE ? s->executes : s->latency_count[l];
    }
    for (unsigned i = 0; i < SPEX_SOURCE_COUNT; i++)
        all->source[i] = s->source[i];
    if (all != out)
        sized_give(out, all);
}

static uint64_t rank_of(const struct spex_row *row, enum spex_order order)
{
    switch (order) {
    case SPEX_BY_LATENCY:
        return row->stats.latency_sum[SPEX_LATENCY_TOTAL];
    case SPEX_BY_EXECUTE:
        return row->stats.latency_sum[SPEX_LATENCY_EXECUTE];
    case SPEX_BY_TIME: /* rows without time are ordered by samples */
        return row->stats.time ? row->stats.time : row->stats.samples;
    case SPEX_BY_KEYS:
        return 0;
    case SPEX_BY_MISPREDICTS:
        return (uint64_t)row->stats.mispredicted << 32 | row->stats.samples;
    default:
        return row->stats.samples;
    }
}

/* Compares by letter, but numbers by value: "a+0x9" is before "a+0x10". */
static int compare_words(const char *s, const char *t)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t n, m; *s || *t; s += n, t += m) {
        const bool hex = !strncmp(s, "0x", 2) && !strncmp(t, "0x", 2);
        s += 2 * hex;
        t += 2 * hex;
        n = hex ? strspn(s, digits) : strspn(s, "0123456789");
        m = hex ? strspn(t, digits) : strspn(t, "0123456789");
        if (!n || !m)
            n = m = *s || *t;
        int order = n != m ? (n < m ? -1 : 1) : memcmp(s, t, n);
        if (order)
            return order;
    }
    return 0;
}

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct group_order *left = a, *right = b;
    const struct spex_group *g = context;
    if (left->rank != right->rank)
        return left->rank > right->rank ? -1 : 1;
    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    const struct spex_row *x = group_row_at(g, left->row), *y = group_row_at(g, right->row);
    bool pointers = false;
    for (size_t k = 0; k < g->key_count; k++) {
        const uint64_t *a_key = group_key(g, x, k), *b_key = group_key(g, y, k);
        char s[256], t[256];
        if (key_kinds[g->keys[k]].numeric) {
            if (a_key[0] != b_key[0])
                return a_key[0] < b_key[0] ? -1 : 1;
            continue;
        }
        if (a_key[0] == b_key[0] && (key_kinds[g->keys[k]].slots == 1 || a_key[1] == b_key[1]))
            continue;
        spex_row_text(g, x, k, s, sizeof s);
        spex_row_text(g, y, k, t, sizeof t);
        int order = compare_words(s, t);
        if (order)
            return order;
        pointers = true;
    }
    /* different things with equal names: compare counts, since addresses in memory are random */
    int order = pointers ? memcmp(&x->stats, &y->stats, sizeof x->stats) : 0;
    return order ? order : memcmp(x->key, y->key, g->slots * sizeof *x->key);
}

static void sort_rows(struct spex_group *g, enum spex_order order)
{
    for (size_t i = 0; g->finer && i < g->finer->count; i++)
        group_roll_up(g, g->finer, group_row_at(g->finer, i));
    memory_free(g->index); /* no more samples come: free its memory */
    g->index = NULL;
    memory_free(g->order);
    g->order = NULL;
    g->order = memory_get(g->count + 1, sizeof *g->order);
    bool numeric = g->key_count && key_kinds[g->keys[0]].numeric;
    memset(g->total, 0, g->stride);
    for (size_t i = 0; i < g->count; i++) {
        const struct spex_row *row = group_row_at(g, i);
        g->order[i] =
            (struct group_order){rank_of(row, order), numeric ? row->key[0] : 0, (uint32_t)i};
    }
    if (order == SPEX_BY_NOTHING)
        return;
    for (size_t i = 0; i < g->count; i++)
        group_add_stats(g, g->total, g, group_row_at(g, i));
    if (g->rest)
        group_add_stats(g, g->total, g, g->rest);
    const unsigned threads = g->analysis ? spex_analysis_together(g->analysis, true) : 1;
    sort_items(g->order, g->count, sizeof *g->order, compare_rows, g, threads);
    if (g->analysis)
        spex_analysis_together(g->analysis, false);
}

enum spex_status spex_group_sort(struct spex_group *g, enum spex_order order)
{
    assert(g);
    if (g->failed || !memory_guarded(g->account, sort_rows(g, order))) {
        g->failed = true;
        g->count = 0;
        return SPEX_NO_MEMORY;
    }
    return SPEX_OK;
}

size_t spex_group_count(const struct spex_group *g)
{
    assert(g);
    return g->count;
}

const struct spex_row *spex_group_row(const struct spex_group *g, size_t index)
{
    assert(g);
    return index < g->count ? group_row_at(g, g->order[index].row) : NULL;
}

const struct spex_row *spex_group_total(const struct spex_group *g)
{
    assert(g);
    return g->total;
}

const struct spex_row *spex_group_rest(const struct spex_group *g)
{
    assert(g);
    return g->rest;
}

uint64_t spex_group_error(const struct spex_group *g)
{
    assert(g);
    return g->error;
}

/*
 * A row's time is a sum of estimates t of its samples, each of which might as well have fallen
 * into another row: the variance of its share f is (1 - 2f) sum(t^2) of the row + f^2 sum(t^2) of
 * all. Long phases vary less.
 */
double spex_time_variance(double time, double square, double all, double all_square)
{
    double f = time / all, variance = (1 - 2 * f) * square + f * f * all_square;
    return variance > 0 ? variance : 0;
}

struct spex_interval spex_time_interval(double time, double variance, double all)
{
    return share_interval(time / all, variance / (all * all));
}

/* The share of a row's samples that follow another one of it, beyond chance: 0 to 1. */
static double stays(const struct spex_group *g, const struct spex_row *row)
{
    const struct stats *s = &row->stats, *t = &g->total->stats;
    if (!s->samples || s->samples == t->samples)
        return 1;
    const double chance = (double)s->samples / (double)t->samples;
    const double more = (double)s->repeats / (double)s->samples - chance;
    return more > 0 ? more / (1 - chance) : 0;
}

/* Error from weights. turns: the least part of a row's time that is assumed to depend on them. */
static double time_off(const struct spex_group *g, const struct spex_row *row, double turns)
{
    const double time = (double)row->stats.time / 1000, all = (double)g->total->stats.time / 1000;
    const double off = weights_off(g->analysis) * fmax(1 - stays(g, row), turns);
    return all > 0 ? off * time * (1 - time / all) : 0;
}

/*
 * Variance of a row's time in another run, ns^2, by what lies before the first sample and after
 * the last in each thread: there is one in some time of a sample, no matter how many others.
 */
static double ends_variance(const struct spex_group *g, const struct spex_row *row)
{
    if (!row->stats.samples)
        return 0;
    const double gap = (double)row->stats.time / 1000 / (double)row->stats.samples;
    const double threads = (double)spex_analysis_threads(g->analysis);
    return 2 * fmin(threads, (double)row->stats.samples) * gap * gap;
}

/*
 * The time between samples is exact; which part of it a row has, or what the filters leave, would
 * differ if samples were drawn again, and so would what lies outside of them, in each thread.
 */
double spex_row_time_variance(const struct spex_group *g, const struct spex_row *row)
{
    assert(g && row && g->analysis);
    const double all = (double)spex_analysis_totals(g->analysis)->spent;
    const double time = spex_row_time(g->total), off = time_off(g, row, 0);
    if (time <= 0 || all <= 0)
        return 0;
    return off * off + ends_variance(g, row) +
           spex_time_variance(spex_row_time(row), stats_square(&row->stats), all,
                              stats_square(&g->total->stats) * all / time);
}

struct spex_interval spex_row_time_interval(const struct spex_group *g, const struct spex_row *row)
{
    assert(g && row);
    const struct stats *s = &row->stats, *t = &g->total->stats;
    if (!t->time)
        return spex_share_interval(s->samples, t->samples);
    const double time = (double)s->time / 1000, all = (double)t->time / 1000;
    /*
     * Gaps measure the time of a long run, except where it begins and ends, and what no record
     * shows.
     */
    const double off = time_off(g, row, 0.5);
    const double variance =
        spex_time_variance(time, stats_square(s), all, stats_square(t)) + off * off;
    return spex_time_interval(time, variance, all);
}

bool spex_row_long_runs(const struct spex_group *g, const struct spex_row *row)
{
    assert(g && row);
    /*
     * If the lengths of runs are exponential with a mean of two periods, this share of runs
     * continues past the next sample, beyond chance.
     */
    static const double stay = 0.61;
    return stays(g, row) >= stay;
}

int spex_row_latency(const struct spex_group *g, const struct spex_row *row,
                     enum spex_latency latency, double q)
{
    assert(g && row);
    return g->flags ? histogram_quantile(&g->histograms, group_handles(g, row)[latency], q) : -1;
}

bool spex_row_buckets(const struct spex_group *g, const struct spex_row *row,
                      enum spex_latency latency, uint64_t counts[SPEX_BUCKETS])
{
    assert(g && row && (unsigned)latency < SPEX_LATENCY_COUNT);
    return g->flags && histogram_buckets(&g->histograms, group_handles(g, row)[latency], counts);
}

uint64_t spex_row_value(const struct spex_group *g, const struct spex_row *row, size_t n)
{
    assert(g && row);
    return row->key[g->first_slot[n]];
}

const struct spex_symbol *spex_row_symbol(const struct spex_group *g, const struct spex_row *row,
                                          size_t n)
{
    assert(g && row);
    uint64_t key = group_key(g, row, n)[0];
    return key & KEY_NO_SYMBOL ? NULL : (const struct spex_symbol *)(uintptr_t)key;
}

const struct spex_site *spex_row_site(const struct spex_group *g, const struct spex_row *row,
                                      size_t n)
{
    assert(g && row && n < g->key_count);
    uint64_t key = group_key(g, row, n)[0];
    bool site = g->keys[n] == SPEX_KEY_ALLOC && key & KEY_SITE;
    return site ? spex_analysis_site(g->analysis, (uint32_t)(key >> 2)) : NULL;
}

const struct spex_member *spex_row_member(const struct spex_group *g, const struct spex_row *row,
                                          size_t n)
{
    assert(g && row && n < g->key_count);
    const uintptr_t key = group_key(g, row, n)[0];
    return g->keys[n] == SPEX_KEY_MEMBER ? (const struct spex_member *)key : NULL;
}

uint64_t spex_row_address(const struct spex_group *g, const struct spex_row *row, size_t n)
{
    assert(g && row);
    return group_key(g, row, n)[1];
}

struct spex_module *spex_row_module(const struct spex_group *g, const struct spex_row *row,
                                    size_t n)
{
    assert(g && row && n < g->key_count);
    const uint64_t key = group_key(g, row, n)[0];
    const enum spex_key kind = g->keys[n];
    if (kind == SPEX_KEY_PC || kind == SPEX_KEY_DSO || kind == SPEX_KEY_DATA_DSO)
        return (struct spex_module *)(uintptr_t)key;
    const bool place = kind == SPEX_KEY_SYMBOL || kind == SPEX_KEY_CALLER ||
                       kind == SPEX_KEY_DATA_SYMBOL || kind == SPEX_KEY_ALLOC;
    if (!place || !key || (kind == SPEX_KEY_ALLOC && key & KEY_SITE))
        return NULL;
    return key & KEY_NO_SYMBOL ? (struct spex_module *)(uintptr_t)(key & ~(uint64_t)KEY_NO_SYMBOL)
                               : ((const struct spex_symbol *)(uintptr_t)key)->module;
}

bool spex_row_line(const struct spex_group *g, const struct spex_row *row, size_t n,
                   struct spex_line *line)
{
    assert(g && row && n < g->key_count);
    const uint64_t *key = group_key(g, row, n);
    if (g->keys[n] != SPEX_KEY_SRCLINE || !(key[1] >> 63) || key[0] & KEY_NO_SYMBOL)
        return false;
    *line = (struct spex_line){.file = (const char *)(uintptr_t)key[0], .line = (unsigned)key[1]};
    return true;
}

int32_t spex_row_pid(const struct spex_group *g, const struct spex_row *row, size_t n)
{
    assert(g && row && n < g->key_count);
    const enum spex_key kind = g->keys[n];
    const bool data = kind == SPEX_KEY_PAGE || kind == SPEX_KEY_CACHE_LINE;
    return data ? (int32_t)(int64_t)group_key(g, row, n)[1] : -1;
}

const uint64_t *spex_row_words(const struct spex_group *g, const struct spex_row *row, size_t n,
                               size_t *words)
{
    assert(g && row && words && n < g->key_count);
    *words = key_kinds[g->keys[n]].slots;
    return group_key(g, row, n);
}
