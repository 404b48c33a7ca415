/* Groups counted by separate threads are added up: shards.h says when that is exact. */
#include "group.h"
#include "shards.h"

#include "base/jobs.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Another group with the same keys; NULL: out of memory. */
static struct spex_group *new_like(struct spex_group *g)
{
    struct spex_group *other;
    const struct spex_group_options options = {.size = sizeof options,
                                               .keys = g->keys,
                                               .key_count = g->key_count,
                                               .flags = g->flags,
                                               .time_shift = g->time_shift};
    if (spex_group_new(g->analysis, &options, &other, NULL))
        return NULL;
    other->repeats_at = g->repeats_at;
    other->limit = g->limit;
    return other;
}

static void *split_group(void *context, unsigned threads)
{
    struct spex_group *g = context;
    struct spex_group *shard = g->count || g->chunk_count || g->failed ? NULL : new_like(g);
    if (!shard)
        return NULL;
    g->shard_chunks = 0;
    shard->shard_of = g;
    shard->threads = threads;
    group_limit_histograms(shard);
    return shard;
}

/* ---- adding up ---- */

/*
 * First each range of hashes gets a table with the rows of all shards. Then these tables are copied
 * one after the other.
 */
enum { RANGES = JOBS_THREADS, FEW_ROWS = 4096, CACHE_LINE = 64 };

struct group_sum {
    struct spex_group *to, *shards[JOBS_THREADS], *ranges[RANGES];
    unsigned shard_count, bits;
    /* where the rows and words of a range begin in `to` */
    size_t rows_at[RANGES], words_at[RANGES];
    size_t most_words[RANGES]; /* the most words that histograms of a range can take */
    size_t rows, words;        /* sums over all ranges */
};

struct group_sum *group_sum_new(struct spex_group *to, unsigned threads)
{
    struct group_sum *sum = memory_get(1, sizeof *sum);
    sum->to = to;
    while (1u << sum->bits < threads && 1u << sum->bits < RANGES)
        sum->bits++;
    return sum;
}

void group_sum_add(struct group_sum *sum, struct spex_group *shard)
{
    sum->shards[sum->shard_count++] = shard;
}

unsigned group_sum_ranges(struct group_sum *sum)
{
    size_t rows = 0;
    for (unsigned i = 0; i < sum->shard_count; i++)
        rows += sum->shards[i]->count;
    sum->bits = rows < FEW_ROWS ? 0 : sum->bits;
    return 1u << sum->bits;
}

/* Adds the rows of a range, several at a time, so that they are prefetched. */
static bool add_rows(struct spex_group *to, const struct spex_group *from,
                     const struct spex_row *const *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (to->count + GROUP_STEP > to->limit)
            return false;
        group_add_stats(to, group_row_like(to, rows[i]), from, rows[i]);
    }
    return true;
}

static bool add_range(struct spex_group *to, const struct spex_group *from, unsigned range,
                      unsigned bits)
{
    const struct spex_row *rows[GROUP_STEP];
    size_t count = 0;
    for (size_t i = 0; i <= from->mask; i++) {
        const struct group_index *e = &from->index[i];
        if (!e->row || (uint64_t)e->tag >> (32 - bits) != range)
            continue;
        rows[count] = group_row_at(from, e->row - 1);
        for (size_t line = 0; line < from->stride; line += 64)
            __builtin_prefetch((const char *)rows[count] + line);
        if (++count < GROUP_STEP)
            continue;
        if (!add_rows(to, from, rows, count))
            return false;
        count = 0;
    }
    return add_rows(to, from, rows, count);
}

bool group_sum_range(struct group_sum *sum, unsigned range)
{
    struct spex_group *g = sum->ranges[range] = new_like(sum->to);
    bool exact = g != NULL;
    for (unsigned i = 0; i < sum->shard_count && exact; i++) {
        const struct spex_group *from = sum->shards[i];
        exact = !from->failed && !from->histograms.lost && add_range(g, from, range, sum->bits) &&
                !g->rest && !g->histograms.lost;
    }
    for (size_t i = 0; exact && i < g->count && g->flags; i++)
        for (unsigned l = 0; l < SPEX_LATENCY_COUNT; l++)
            sum->most_words[range] +=
                histogram_most_words(&g->histograms, group_handles(g, group_row_at(g, i))[l]);
    return exact;
}

/* Could a single thread have counted these rows, in any order, with all their latencies? */
bool group_sum_fits(struct group_sum *sum)
{
    const struct spex_group *to = sum->to;
    uint64_t counted = 0;
    size_t words = HISTOGRAM_LOST + 1;
    for (unsigned i = 0; i < sum->shard_count; i++)
        counted += sum->shards[i]->counted;
    sum->words = words;
    for (unsigned i = 0; i < 1u << sum->bits; i++) {
        sum->rows_at[i] = sum->rows;
        sum->words_at[i] = sum->words;
        sum->rows += sum->ranges[i]->count;
        sum->words += sum->ranges[i]->histograms.count;
        words += sum->most_words[i];
    }
    const size_t chunks = (sum->rows + GROUP_STEP - 1) / GROUP_CHUNK + 1;
    return sum->rows + GROUP_STEP <= to->limit && counted <= UINT32_MAX &&
           words <= group_histogram_room(to, chunks) &&
           memory_allows(chunks * GROUP_CHUNK * to->stride + sum->words * sizeof(uint32_t));
}

void group_sum_place(struct group_sum *sum)
{
    struct spex_group *to = sum->to;
    size_t mask = to->mask;
    assert(!to->count && !to->chunk_count && !to->rest);
    while (sum->rows * 4 > (mask + 1) * 3)
        mask = mask * 2 + 1;
    struct group_index *index = memory_get(mask + 1, sizeof *index);
    memory_free(to->index);
    to->index = index;
    to->mask = mask;
    to->chunks = memory_get(sum->rows / GROUP_CHUNK + 1, sizeof *to->chunks);
    while (to->chunk_count * GROUP_CHUNK < sum->rows) {
        to->chunks[to->chunk_count] = memory_aligned(CACHE_LINE, GROUP_CHUNK * to->stride);
        to->chunk_count++;
    }
    group_limit_histograms(to);
    histograms_reserve(&to->histograms, sum->words);
}

void group_sum_take(struct group_sum *sum)
{
    struct spex_group *to = sum->to;
    to->count = sum->rows;
    to->histograms.count = sum->words;
    for (unsigned i = 0; i < sum->shard_count; i++)
        to->counted += sum->shards[i]->counted;
}

void group_sum_move(struct group_sum *sum, unsigned range)
{
    struct spex_group *to = sum->to, *from = sum->ranges[range];
    histograms_append(&to->histograms, sum->words_at[range], &from->histograms);
    for (size_t i = 0; i < from->count; i++) {
        const size_t at = sum->rows_at[range] + i;
        struct spex_row *row = group_row_at(to, at);
        memcpy(row, group_row_at(from, i), to->stride);
        for (unsigned l = 0; l < SPEX_LATENCY_COUNT && to->flags; l++)
            histogram_moved(&to->histograms, &group_handles(to, row)[l], sum->words_at[range]);
        uint64_t hash = group_hash(to, row);
        size_t slot = hash & to->mask;
        for (uint32_t none = 0;
             !__atomic_compare_exchange_n(&to->index[slot].row, &none, (uint32_t)at + 1, false,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED);
             none = 0)
            slot = (slot + 1) & to->mask;
        to->index[slot].tag = (uint32_t)(hash >> 32);
    }
    spex_group_free(from);
    sum->ranges[range] = NULL;
    for (unsigned i = range; i < sum->shard_count; i += 1u << sum->bits)
        group_empty(sum->shards[i]);
}

void group_sum_free(struct group_sum *sum)
{
    for (unsigned i = 0; sum && i < RANGES; i++)
        spex_group_free(sum->ranges[i]);
    memory_free(sum);
}

/* ---- sinks ---- */

static bool join_group(void *to, void *from)
{
    (void)to, (void)from; /* group_sum does that */
    return true;
}

static void take_group(void *context, void *sum)
{
    (void)context, (void)sum;
}

static void drop_group(void *shard)
{
    spex_group_free(shard);
}

const struct spex_sink_shards group_shards = {split_group, join_group, take_group, drop_group};

struct spex_sink spex_sink_group(struct spex_group *group)
{
    assert(group);
    return (struct spex_sink){spex_group_sink, group, &group_shards, NULL};
}

/* ---- contexts with several groups ---- */

static void drop_feed(void *shard)
{
    struct spex_feed *f = shard;
    for (size_t i = 0; f && f->groups && i < f->count; i++)
        spex_group_free(f->groups[i]);
    if (f)
        memory_free(f->groups);
    memory_free(f);
}

static void *split_feed(void *context, unsigned threads)
{
    const struct spex_feed *of = context;
    struct spex_feed *f = memory_new(of->size);
    if (!f)
        return NULL;
    memcpy(f, of, of->size);
    f->groups = memory_zeroed(of->count + 1, sizeof(struct spex_group *));
    for (size_t i = 0; f->groups && i < of->count; i++)
        if (of->groups[i] && !(f->groups[i] = split_group(of->groups[i], threads))) {
            drop_feed(f);
            return NULL;
        }
    if (f->groups)
        return f;
    memory_free(f);
    return NULL;
}

static const struct spex_sink_shards feed_shards = {split_feed, join_group, take_group, drop_feed};

struct spex_sink spex_sink_groups(struct spex_feed *feed, spex_sample_sink *call)
{
    assert(feed && feed->size >= sizeof *feed && call);
    return (struct spex_sink){call, feed, &feed_shards, NULL};
}

bool shards_group(const struct spex_sink_shards *how, void *context, size_t n,
                  struct spex_group **group)
{
    const struct spex_feed *feed = how == &feed_shards ? context : NULL;
    if (how == &group_shards)
        *group = context;
    else if (feed && n < feed->count)
        *group = feed->groups[n];
    else
        *group = n ? NULL : sharing_shard_group(how, context);
    return feed ? n < feed->count : !n && *group;
}
