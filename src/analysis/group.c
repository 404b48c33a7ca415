/*
 * Grouping samples by a few keys.
 *
 * Rows live in chunks and are found through an open-addressed index of (hash tag, row number).
 * When the limit of rows is reached, the rows with the fewest samples are merged into one
 * "rest" row and their slots reused. So the large rows stay, and each lacks at most the
 * samples it had when it was merged: the sum of those thresholds is the error bound.
 */
#include "group.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sized.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CACHE_LINE = 64,  /* line size of the host */
    DATA_LINE = 64,   /* line size of the profiled machine */
    NEAR_ROWS = 4096, /* stay in the caches of a CPU by themselves */
    SLOTS_MAX = 2 * SPEX_KEYS_MAX,
    RANK_BITS = 12,
    RANKS = 1 << RANK_BITS,
    MAGNITUDES = 17, /* magnitudes of a latency */
    FEW = (SPEX_SOURCE_COUNT + 1) * MAGNITUDES,
    /* bytes for histograms: the more rows, the less is left for them */
    HISTOGRAMS_MOST = 64 << 20,
    HISTOGRAMS_LEAST = 16 << 20,
};

/* The shift that gives a file 64 to 128 intervals. */
static unsigned usual_shift(const struct spex_analysis *analysis)
{
    uint64_t first = 0, last = 0;
    if (analysis)
        spex_analysis_extent(analysis, &first, &last);
    uint64_t span = last > first ? last - first : 0;
    return span > 128 ? 57 - (unsigned)__builtin_clzll(span) : 1;
}

static void repeat_by_function(struct spex_group *g)
{
    const size_t n = group_key_of(g, SPEX_KEY_SYMBOL);
    assert(n && n < g->key_count && key_kinds[SPEX_KEY_SYMBOL].slots == 2);
    g->repeats_at = g->first_slot[n];
}

enum spex_status spex_group_new(struct spex_analysis *analysis,
                                const struct spex_group_options *options, struct spex_group **group,
                                struct spex_error *error)
{
    assert(options && group);
    struct spex_group_options o;
    enum spex_status status = sized_take("spex_group_options", options, &o, sizeof o, error);
    if (status)
        return status;
    if (!o.key_count || o.key_count > SPEX_KEYS_MAX)
        return error_set(error, SPEX_RANGE, 0, "%zu keys; 1 to %d", o.key_count, SPEX_KEYS_MAX);
    for (size_t i = 0; i < o.key_count; i++)
        if ((unsigned)o.keys[i] >= SPEX_KEY_COUNT)
            return error_set(error, SPEX_UNSUPPORTED, 0, "no key %u", (unsigned)o.keys[i]);
    struct memory *account =
        analysis ? memory_keep(analysis_account(analysis)) : memory_open(0, NULL);
    MEMORY_OF(account);
    struct spex_group *g = account ? memory_zeroed(1, sizeof *g) : NULL;
    if (!g) {
        memory_end(account, memory_before_);
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a table");
    }
    g->account = account;
    g->analysis = analysis;
    g->seed = hash_seed();
    g->key_count = o.key_count;
    g->by_place = g->by_who = true;
    bool few = true;
    for (size_t i = 0; i < o.key_count; i++) {
        enum spex_key by = o.keys[i];
        few &= by == SPEX_KEY_SOURCE || by == SPEX_KEY_LATENCY;
        g->timed |= by == SPEX_KEY_TIME_BIN;
        g->by_place &= by == SPEX_KEY_SYMBOL || by == SPEX_KEY_PC || by == SPEX_KEY_DSO ||
                       by == SPEX_KEY_SRCLINE || by == SPEX_KEY_TIME_BIN;
        g->by_who &= by == SPEX_KEY_COMM || by == SPEX_KEY_PID || by == SPEX_KEY_TID ||
                     by == SPEX_KEY_CPU || by == SPEX_KEY_TIME_BIN;
        g->keys[i] = by;
        g->first_slot[i] = (uint8_t)g->slots;
        g->slots += key_kinds[by].slots;
    }
    g->by_data = o.key_count == 1 && o.keys[0] == SPEX_KEY_DATA_SYMBOL;
    if (few && !(g->few = memory_zeroed(FEW, sizeof *g->few)))
        g->failed = true;
    g->flags = o.flags & ~(unsigned)SPEX_GROUP_REPEAT_FUNCTIONS;
    g->time_shift = o.time_shift ? o.time_shift & 63 : usual_shift(analysis);
    g->histograms_at = sizeof(struct spex_row) + g->slots * sizeof(uint64_t);
    g->stride = g->histograms_at + (g->flags ? SPEX_LATENCY_COUNT * sizeof(uint32_t) : 0);
    if (o.flags & SPEX_GROUP_REPEAT_FUNCTIONS)
        repeat_by_function(g);
    g->mask = 1023;
    g->index = memory_zeroed(g->mask + 1, sizeof *g->index);
    g->limit = SPEX_GROUP_MAX + GROUP_CHUNK; /* room is made for several at a time */
    g->total = memory_zeroed(1, g->stride);
    g->ranks = memory_zeroed(RANKS, sizeof *g->ranks);
    bool done = memory_guarded(g->account, histograms_init(&g->histograms, HISTOGRAMS_MOST));
    if (!done || !g->index || !g->total || !g->ranks || g->failed) {
        spex_group_free(g);
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a table");
    }
    *group = g;
    return SPEX_OK;
}

void group_set_limit(struct spex_group *g, size_t limit)
{
    g->limit = limit;
}

void group_empty(struct spex_group *g)
{
    for (size_t i = 0; i < g->chunk_count; i++)
        memory_free(g->chunks[i]);
    memory_free(g->chunks);
    memory_free(g->index);
    histograms_free(&g->histograms);
    g->chunks = NULL;
    g->index = NULL;
    g->histograms = (struct histograms){0};
    g->count = g->chunk_count = 0;
}

void spex_group_free(struct spex_group *g)
{
    if (!g)
        return;
    struct memory *account = g->account, *before = memory_enter(account);
    group_empty(g);
    memory_free(g->memo);
    memory_free(g->recent);
    memory_free(g->few);
    memory_free(g->data);
    place_cache_free(g->data_places);
    memory_free(g->lines);
    memory_free(g->order);
    memory_free(g->rest);
    memory_free(g->total);
    memory_free(g->ranks);
    memory_free(g);
    memory_end(account, before);
}

uint64_t group_hash(const struct spex_group *g, const struct spex_row *row)
{
    uint64_t hash = g->seed;
    for (size_t k = 0; k < g->slots; k++)
        hash = hash_word(hash, row->key[k]);
    return hash;
}

static void index_row(struct spex_group *g, uint64_t hash, size_t row)
{
    size_t i = hash & g->mask;
    while (g->index[i].row)
        i = (i + 1) & g->mask;
    g->index[i] = (struct group_index){(uint32_t)(hash >> 32), (uint32_t)row + 1};
}

static void reindex(struct spex_group *g, size_t mask)
{
    if (mask != g->mask) {
        struct group_index *index = memory_get(mask + 1, sizeof *index);
        memory_free(g->index);
        g->index = index;
        g->mask = mask;
    } else {
        memset(g->index, 0, (mask + 1) * sizeof *g->index);
    }
    for (size_t i = 0; i < g->count; i++)
        index_row(g, group_hash(g, group_row_at(g, i)), i);
}

void group_add_stats(struct spex_group *g, struct spex_row *to, const struct spex_group *of,
                     const struct spex_row *from)
{
    /* everything before the sums is an array of 32-bit counts */
    const uint32_t *n = (const uint32_t *)&from->stats;
    uint32_t *m = (uint32_t *)&to->stats;
    for (size_t i = 0; i < offsetof(struct stats, latency_sum) / sizeof *m; i++)
        m[i] += n[i];
    to->flags |= from->flags;
    to->stats.time += from->stats.time;
    stats_add_square(&to->stats, from->stats.square_low);
    to->stats.square_high += from->stats.square_high;
    for (unsigned l = 0; l < SPEX_LATENCY_COUNT; l++) {
        to->stats.latency_sum[l] += from->stats.latency_sum[l];
        if (g->flags && of->flags)
            histogram_merge(&g->histograms, &group_handles(g, to)[l], &of->histograms,
                            group_handles(of, from)[l]);
    }
}

static int compare_counts(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Merges at least half of the rows, the smallest, into the rest row. */
static void shrink(struct spex_group *g)
{
    if (!g->rest)
        g->rest = memory_get(1, g->stride);
    uint32_t *counts = memory_get(g->count, sizeof *counts);
    for (size_t i = 0; i < g->count; i++)
        counts[i] = group_row_at(g, i)->stats.samples;
    qsort(counts, g->count, sizeof *counts, compare_counts);
    uint32_t threshold = counts[g->count / 2];
    memory_free(counts);
    size_t kept = 0;
    for (size_t i = 0; i < g->count; i++) {
        struct spex_row *row = group_row_at(g, i);
        if (row->stats.samples <= threshold) {
            group_add_stats(g, g->rest, g, row);
            for (unsigned c = 0; c < GROUP_COARSER && g->coarser[c]; c++)
                group_roll_up(g->coarser[c], g, row);
            /* the histogram's words are not reused: the arena has its own limit */
        } else {
            if (kept != i)
                memcpy(group_row_at(g, kept), row, g->stride);
            kept++;
        }
    }
    g->count = kept;
    g->last.row = NULL;
    g->error += threshold;
    reindex(g, g->mask);
    g->who.row = NULL; /* rows have moved */
    if (g->memo)
        memset(g->memo, 0, SPEX_PLACES * sizeof *g->memo);
    if (g->recent)
        memset(g->recent, 0, GROUP_RECENT * sizeof *g->recent);
    if (g->few)
        memset(g->few, 0, FEW * sizeof *g->few);
    if (g->data)
        memset(g->data, 0, GROUP_DATA * sizeof *g->data);
    place_cache_clear(g->data_places);
}

/*
 * The number of keys is estimated with HyperLogLog: among hashes with the same beginning, the
 * longest run of zeros at the end. The hash has no seed, so that the number is always the same.
 */
static void rank_key(struct spex_group *g, const struct spex_row *row)
{
    uint64_t hash = UINT64_C(0x243f6a8885a308d3);
    for (size_t k = 0; k < g->slots; k++)
        hash = hash_word(hash, row->key[k]);
    hash = hash_word(hash, UINT64_C(0x13198a2e03707344));
    uint8_t rank = (uint8_t)(1 + __builtin_ctzll(hash | UINT64_C(1) << 51)), *most;
    most = &g->ranks[hash >> (64 - RANK_BITS)];
    *most = rank > *most ? rank : *most;
}

uint64_t spex_group_keys(const struct spex_group *g)
{
    assert(g);
    double sum = 0;
    if (!g->rest)
        return g->count;
    for (size_t i = 0; i < RANKS; i++)
        sum += ldexp(1, -g->ranks[i]);
    double all = 0.7213 / (1 + 1.079 / RANKS) * RANKS * RANKS / sum;
    return all > (double)g->count ? (uint64_t)all : g->count;
}

static size_t histogram_bytes(const struct spex_group *g, size_t chunks)
{
    const size_t rows = chunks * GROUP_CHUNK * g->stride / 4;
    return rows < HISTOGRAMS_MOST - HISTOGRAMS_LEAST ? HISTOGRAMS_MOST - rows : HISTOGRAMS_LEAST;
}

size_t group_histogram_room(const struct spex_group *g, size_t chunks)
{
    return histogram_bytes(g, chunks) / sizeof *g->histograms.words;
}

void group_limit_histograms(struct spex_group *g)
{
    const size_t room = histogram_bytes(g, g->chunk_count);
    histograms_limit(&g->histograms, g->threads > 2 ? 2 * room / g->threads : room);
}

/* Rows of a shard are not merged: all shards together may have twice as many as the group. */
static void keep_limits(struct spex_group *g, size_t more, bool grows)
{
    const size_t most = 2 * (g->limit >> GROUP_CHUNK_BITS) + 2 * (size_t)g->threads;
    const bool full = grows && atomic_fetch_add(&g->shard_of->shard_chunks, 1) >= most;
    if (g->count + more > g->limit)
        analysis_inexact(g->analysis);
    else if (full || g->histograms.lost)
        analysis_crowded(g->analysis);
}

/* Room for more rows, so that pointers to rows stay good while that many are added. */
static void make_room(struct spex_group *g, size_t more)
{
    size_t chunk = GROUP_CHUNK * g->stride;
    bool grows = g->count + more > g->chunk_count << GROUP_CHUNK_BITS;
    if (grows && g->chunk_count > 4 && !memory_allows(4 * chunk + 2 * g->mask * sizeof *g->index))
        g->limit = g->count; /* merge here, not where there is no memory */
    if (g->shard_of)
        keep_limits(g, more, grows);
    else if (g->count + more > g->limit)
        shrink(g);
    while ((g->count + more) * 4 > (g->mask + 1) * 3)
        reindex(g, g->mask * 2 + 1);
    while (g->count + more > g->chunk_count << GROUP_CHUNK_BITS) {
        g->chunks = memory_resize(g->chunks, g->chunk_count + 1, sizeof *g->chunks);
        g->chunks[g->chunk_count] = memory_aligned(CACHE_LINE, chunk);
        g->chunk_count++;
        group_limit_histograms(g);
    }
}

/*
 * Call it after make_room. The words of a key are `step` apart: the first words of all samples come
 * first, then the second words.
 */
static inline struct spex_row *find_row(struct spex_group *g, size_t slots, const uint64_t *key,
                                        size_t step, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    size_t i = hash & g->mask;
    for (; g->index[i].row; i = (i + 1) & g->mask) {
        if (g->index[i].tag != tag)
            continue;
        struct spex_row *row = group_row_at(g, g->index[i].row - 1);
        uint64_t differ = 0;
        for (size_t k = 0; k < slots; k++)
            differ |= row->key[k] ^ key[k * step];
        if (!differ)
            return row;
    }
    g->index[i] = (struct group_index){tag, (uint32_t)++g->count};
    struct spex_row *row = group_row_at(g, g->count - 1);
    memset(row, 0, g->stride);
    for (size_t k = 0; k < slots; k++)
        row->key[k] = key[k * step];
    rank_key(g, row);
    return row;
}

/* Call it after make_room. */
static struct spex_row *row_of(struct spex_group *g, const struct spex_sample *s)
{
    uint64_t key[SLOTS_MAX][GROUP_STEP], hash = g->seed;
    for (size_t k = 0; k < g->key_count; k++)
        group_make_keys(g, g->keys[k], &s, 1, key + g->first_slot[k]);
    for (size_t k = 0; k < g->slots; k++)
        hash = hash_word(hash, key[k][0]);
    return find_row(g, g->slots, key[0], GROUP_STEP, hash);
}

/* Caches the row by the sample's `place`: samples of an interval come together. */
static void rows_by_place(struct spex_group *g, const struct spex_sample *const *samples,
                          size_t count, struct spex_row **rows)
{
    if (!g->memo)
        g->memo = memory_get(SPEX_PLACES, sizeof *g->memo);
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = samples[i];
        struct group_memo *m = &g->memo[s->place];
        uint64_t interval = g->timed ? group_interval(g, s) : 0;
        if (__builtin_expect(!m->row || m->module != s->module || m->address != s->address ||
                                 m->symbol != s->symbol || m->interval != interval,
                             0))
            *m = (struct group_memo){s->module, s->symbol, s->address, interval, row_of(g, s)};
        rows[i] = m->row;
    }
}

/* Caches the row by the place of the data, and by line if it is right for the whole line. */
static struct spex_row *row_by_data(struct spex_group *g, const struct spex_sample *s,
                                    struct group_data *recent)
{
    bool whole;
    struct data_place *place = analysis_data_line(g->analysis, &g->data_places, s, &whole);
    if (!place->row)
        place->row = row_of(g, s);
    if (whole)
        *recent = (struct group_data){s->va / DATA_LINE, place->row, sample_maps(s, s->va)};
    return place->row;
}

static void rows_by_data(struct spex_group *g, const struct spex_sample *const *samples,
                         size_t count, struct spex_row **rows)
{
    if (!g->data)
        g->data = memory_get(GROUP_DATA, sizeof *g->data);
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = samples[i];
        const uint64_t line = s->va / DATA_LINE, odd = UINT64_C(0x9e3779b97f4a7c15);
        const uint32_t maps = sample_maps(s, s->va);
        struct group_data *d = &g->data[(line + maps) * odd >> (64 - GROUP_DATA_BITS)];
        bool known = s->record->present & SPEX_HAS_VA && d->line == line && d->maps == maps;
        rows[i] = __builtin_expect(known && d->row, 1) ? d->row : row_by_data(g, s, d);
    }
}

static void rows_of_few(struct spex_group *g, const struct spex_sample *const *samples,
                        size_t count, struct spex_row **rows)
{
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = samples[i];
        struct spex_row **row = &g->few[group_source(s) * MAGNITUDES + group_magnitude(s)];
        if (__builtin_expect(!*row, 0))
            *row = row_of(g, s);
        rows[i] = *row;
    }
}

/* The thread is mostly that of the previous sample, and so is the interval. */
static void rows_by_who(struct spex_group *g, const struct spex_sample *const *samples,
                        size_t count, struct spex_row **rows)
{
    struct group_who *w = &g->who;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = samples[i];
        uint64_t interval = g->timed ? group_interval(g, s) : 0;
        if (__builtin_expect(!w->row || w->comm != s->comm || w->pid != s->pid ||
                                 w->tid != s->tid || w->cpu != s->cpu || w->interval != interval,
                             0))
            *w = (struct group_who){s->comm, interval, row_of(g, s), s->pid, s->tid, s->cpu};
        rows[i] = w->row;
    }
}

/*
 * In an interval of time few keys are used: most rows are those of a recent sample with the same
 * key, which needs neither the index nor the row.
 */
static inline __attribute__((always_inline)) void
rows_by_recent(struct spex_group *g, size_t slots, const struct spex_sample *const *samples,
               size_t count, struct spex_row **rows)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t key[GROUP_RECENT_SLOTS][GROUP_STEP];
    if (__builtin_expect(!g->recent, 0))
        g->recent = memory_get(GROUP_RECENT, sizeof *g->recent);
    for (size_t k = 0; k < g->key_count; k++)
        group_make_keys(g, g->keys[k], samples, count, key + g->first_slot[k]);
    for (size_t i = 0; i < count; i++) {
        uint64_t at = key[0][i], differ = 0;
        for (size_t k = 1; k < slots; k++)
            at = at * odd + key[k][i];
        struct group_recent *r = &g->recent[at * odd >> (64 - GROUP_RECENT_BITS)];
        for (size_t k = 0; k < slots; k++)
            differ |= r->key[k] ^ key[k][i];
        if (__builtin_expect(!r->row || differ, 0)) {
            uint64_t hash = g->seed;
            for (size_t k = 0; k < slots; k++) {
                hash = hash_word(hash, key[k][i]);
                r->key[k] = key[k][i];
            }
            r->row = find_row(g, slots, &key[0][i], GROUP_STEP, hash);
        }
        rows[i] = r->row;
    }
}

/*
 * Each step prefetches the memory that the next one needs, since with many keys nearly every access
 * to the index and to the rows would wait for DRAM. Inlined for a known number of slots, so that
 * the loops over them disappear.
 */
static inline __attribute__((always_inline)) void
rows_by_key(struct spex_group *g, size_t slots, const struct spex_sample *const *samples,
            size_t count, struct spex_row **rows)
{
    uint64_t key[SLOTS_MAX][GROUP_STEP], hash[GROUP_STEP];
    for (size_t k = 0; k < g->key_count; k++)
        group_make_keys(g, g->keys[k], samples, count, key + g->first_slot[k]);
    for (size_t i = 0; i < count; i++) {
        hash[i] = g->seed;
        for (size_t k = 0; k < slots; k++)
            hash[i] = hash_word(hash[i], key[k][i]);
    }
    if (g->count > NEAR_ROWS) {
        for (size_t i = 0; i < count; i++)
            __builtin_prefetch(&g->index[hash[i] & g->mask]);
        for (size_t i = 0; i < count; i++) {
            const struct group_index *e = &g->index[hash[i] & g->mask];
            const char *row = e->row ? (const char *)group_row_at(g, e->row - 1) : NULL;
            for (size_t line = 0; row && line < g->stride; line += CACHE_LINE)
                __builtin_prefetch(row + line, 1);
        }
    }
    for (size_t i = 0; i < count; i++)
        rows[i] = find_row(g, slots, &key[0][i], GROUP_STEP, hash[i]);
}

#define ROWS_BY(name, how, slots)                                                                  \
    static void rows_by_##name(struct spex_group *g, const struct spex_sample *const *samples,     \
                               size_t count, struct spex_row **rows)                               \
    {                                                                                              \
        rows_by_##how(g, slots, samples, count, rows);                                             \
    }
ROWS_BY(any, key, g->slots)
ROWS_BY(one, key, 1)
ROWS_BY(two, key, 2)
ROWS_BY(three, key, 3)
ROWS_BY(four, key, 4)
ROWS_BY(five, key, 5)
ROWS_BY(recent_three, recent, 3)
ROWS_BY(recent_four, recent, 4)
#undef ROWS_BY
typedef void rows_finder(struct spex_group *, const struct spex_sample *const *, size_t,
                         struct spex_row **);

/* Chooses how the rows of a group's samples are found. */
static rows_finder *finder_of(const struct spex_group *g)
{
    static rows_finder *const by_slots[] = {rows_by_any,   rows_by_one,  rows_by_two,
                                            rows_by_three, rows_by_four, rows_by_five};
    if (g->by_place)
        return rows_by_place;
    if (g->by_data)
        return rows_by_data;
    if (g->few)
        return rows_of_few;
    if (g->by_who)
        return rows_by_who;
    if (g->timed && (g->slots == 3 || g->slots == 4))
        return g->slots == 3 ? rows_by_recent_three : rows_by_recent_four;
    return by_slots[g->slots < 6 ? g->slots : 0];
}

static struct spex_row *make_row_of(struct spex_group *g, const struct spex_sample *sample)
{
    make_room(g, 1);
    return row_of(g, sample);
}

struct spex_row *group_row_like(struct spex_group *g, const struct spex_row *row)
{
    make_room(g, 1);
    return find_row(g, g->slots, row->key, 1, group_hash(g, row));
}

/* Adds at most GROUP_STEP samples. */
static void add_step(struct spex_group *g, const struct spex_sample *const *samples,
                     const struct group_counted *prepared, size_t count)
{
    struct spex_row *rows[GROUP_STEP];
    if (__builtin_expect(count > UINT32_MAX - g->counted, 0)) {
        analysis_too_many(g->analysis);
        return;
    }
    g->counted += (uint32_t)count;
    make_room(g, count);
    finder_of(g)(g, samples, count, rows);
    group_count_samples(g, rows, samples, prepared, count);
}

static void add_samples(struct spex_group *const *groups, size_t group_count,
                        const struct spex_sample *const *samples, size_t count)
{
    struct group_counted prepared[GROUP_STEP];
    for (size_t n; count; samples += n, count -= n) {
        n = count < GROUP_STEP ? count : GROUP_STEP;
        if (group_count > 1)
            group_prepare(samples, n, prepared);
        for (size_t g = 0; g < group_count; g++)
            add_step(groups[g], samples, group_count > 1 ? prepared : NULL, n);
    }
}

static void add_all(struct spex_group *g, const struct spex_sample *samples, size_t count)
{
    const struct spex_sample *all[GROUP_STEP];
    for (size_t n; count; samples += n, count -= n) {
        n = count < GROUP_STEP ? count : GROUP_STEP;
        for (size_t i = 0; i < n; i++)
            all[i] = &samples[i];
        add_samples(&g, 1, all, n);
    }
}

static void give_up(struct spex_group *g)
{
    g->failed = true;
    analysis_no_memory(g->analysis);
}

const struct spex_row *spex_group_find(struct spex_group *g, const struct spex_sample *sample)
{
    assert(g && sample);
    struct spex_row *volatile row = NULL;
    if (g->failed || !memory_guarded(g->account, row = make_row_of(g, sample)))
        give_up(g);
    return g->failed ? NULL : row;
}

const struct spex_row *spex_group_find_like(struct spex_group *g, const struct spex_row *like)
{
    assert(g && like);
    struct spex_row *volatile row = NULL;
    if (g->failed || !memory_guarded(g->account, row = group_row_like(g, like)))
        give_up(g);
    return g->failed ? NULL : row;
}

void spex_group_add(struct spex_group *g, const struct spex_sample *const *samples, size_t count)
{
    assert(g);
    if (g->failed || !memory_guarded(g->account, add_samples(&g, 1, samples, count)))
        give_up(g);
}

void spex_feed_add(const struct spex_feed *feed, const struct spex_sample *const *samples,
                   size_t count)
{
    assert(feed && feed->count);
    struct spex_group *const *groups = feed->groups;
    bool failed = false;
    for (size_t g = 0; g < feed->count; g++)
        failed |= groups[g]->failed;
    if (failed ||
        !memory_guarded(groups[0]->account, add_samples(groups, feed->count, samples, count)))
        for (size_t g = 0; g < feed->count; g++)
            give_up(groups[g]);
}

void spex_group_sink(void *context, const struct spex_sample *samples, size_t count)
{
    assert(samples);
    struct spex_group *g = context;
    if (g->failed || !memory_guarded(g->account, add_all(g, samples, count)))
        give_up(g);
}

/* ---- coarser groups ---- */

void spex_group_derive(struct spex_group *g, struct spex_group *finer)
{
    assert(g && finer);
    unsigned n = 0;
    while (finer->coarser[n])
        n++;
    assert(n < GROUP_COARSER);
    finer->coarser[n] = g;
    g->finer = finer;
}

bool spex_group_exact(const struct spex_group *g)
{
    assert(g);
    return !g->rest && !g->failed && !g->histograms.lost;
}

void spex_group_derive_of(struct spex_group *g, struct spex_group *finer,
                          const struct spex_symbol *symbol)
{
    assert(g && finer && symbol);
    g->finer = finer;
    g->only = symbol;
}

/* Derives the words of a key from a row of the finer group. */
static void coarser_key(const struct spex_group *finer, const struct spex_row *from,
                        enum spex_key wanted, uint64_t *key)
{
    size_t n = group_key_of(finer, wanted);
    bool follows = n == finer->key_count;
    if (follows)
        n = group_key_of(finer, wanted == SPEX_KEY_PAGE ? SPEX_KEY_CACHE_LINE : SPEX_KEY_PC);
    assert(n < finer->key_count);
    const uint64_t *words = group_key(finer, from, n);
    memcpy(key, words, key_kinds[wanted].slots * sizeof *key);
    if (follows && wanted == SPEX_KEY_PAGE)
        key[0] &= KEY_PAGE;
    else if (follows)
        group_line_key(finer->analysis, (struct spex_module *)(uintptr_t)words[0], words[1],
                       &key[0], &key[1]);
}

/* Adds a row of the finer group. */
void group_roll_up(struct spex_group *g, const struct spex_group *finer,
                   const struct spex_row *from)
{
    uint64_t key[SLOTS_MAX], hash = g->seed;
    if (g->only &&
        group_key(finer, from, group_key_of(finer, SPEX_KEY_SYMBOL))[0] != (uintptr_t)g->only)
        return;
    for (size_t k = 0; k < g->key_count; k++)
        coarser_key(finer, from, g->keys[k], key + g->first_slot[k]);
    for (size_t k = 0; k < g->slots; k++)
        hash = hash_word(hash, key[k]);
    make_room(g, 1);
    group_add_stats(g, find_row(g, g->slots, key, 1, hash), finer, from);
}

const uint64_t *group_key(const struct spex_group *g, const struct spex_row *row, size_t n)
{
    return row->key + g->first_slot[n];
}
