/* Groups of threads that count apart, added up: shards.h says when that is exact. */
#include "group.h"
#include "shards.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *split_group(void *context, unsigned threads)
{
    struct spex_group *g = context, *shard;
    const struct spex_group_options options = {.size = sizeof options,
                                               .keys = g->keys,
                                               .key_count = g->key_count,
                                               .flags = g->flags,
                                               .time_shift = g->time_shift};
    if (g->count || g->rest || g->failed || spex_group_new(g->analysis, &options, &shard, NULL))
        return NULL;
    g->shard_chunks = 0;
    shard->shard_of = g;
    shard->threads = threads;
    shard->repeats_at = g->repeats_at;
    shard->limit = g->limit;
    group_limit_histograms(shard);
    return shard;
}

/* Could one thread have counted these rows, whatever their order, with all their latencies? */
static bool would_fit(const struct spex_group *g)
{
    size_t words = 0;
    if (g->count + GROUP_STEP > g->limit || g->histograms.lost)
        return false;
    for (size_t i = 0; i < g->count && g->flags; i++)
        for (unsigned l = 0; l < SPEX_LATENCY_COUNT; l++)
            words += histogram_most_words(&g->histograms, group_handles(g, group_row_at(g, i))[l]);
    return words + HISTOGRAM_LOST + 1 <= g->histograms.limit;
}

static bool join_groups(void *context, void *other)
{
    struct spex_group *to = context, *from = other;
    if (to->failed || from->failed || from->histograms.lost || from->counted > ~to->counted)
        return false;
    to->threads = 1;
    group_limit_histograms(to);
    for (size_t i = 0; i < from->count; i++) {
        const struct spex_row *row = group_row_at(from, i);
        if (to->count + GROUP_STEP > to->limit)
            return false;
        group_add_stats(to, group_row_like(to, row), from, row);
    }
    to->counted += from->counted;
    return would_fit(to);
}

static void take_group(void *context, void *sum)
{
    struct spex_group *to = context, *from = sum;
    assert(!to->count && !to->rest);
    SHARD_SWAP(to, from, chunks);
    SHARD_SWAP(to, from, count);
    SHARD_SWAP(to, from, chunk_count);
    SHARD_SWAP(to, from, index);
    SHARD_SWAP(to, from, mask);
    SHARD_SWAP(to, from, histograms);
    SHARD_SWAP(to, from, ranks);
    SHARD_SWAP(to, from, counted);
    group_limit_histograms(to);
}

static void drop_group(void *shard)
{
    spex_group_free(shard);
}

const struct spex_sink_shards group_shards = {split_group, join_groups, take_group, drop_group};

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

static bool join_feeds(void *to, void *from)
{
    const struct spex_feed *f = to, *other = from;
    bool exact = true;
    for (size_t i = 0; i < f->count && exact; i++)
        exact = !f->groups[i] || join_groups(f->groups[i], other->groups[i]);
    return exact;
}

static void take_feed(void *context, void *sum)
{
    const struct spex_feed *f = context, *from = sum;
    for (size_t i = 0; i < f->count; i++)
        if (f->groups[i])
            take_group(f->groups[i], from->groups[i]);
}

struct spex_sink spex_sink_groups(struct spex_feed *feed, spex_sample_sink *call)
{
    static const struct spex_sink_shards shards = {split_feed, join_feeds, take_feed, drop_feed};
    assert(feed && feed->size >= sizeof *feed && call);
    return (struct spex_sink){call, feed, &shards, NULL};
}
