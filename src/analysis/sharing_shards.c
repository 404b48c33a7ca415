/* Counts cache lines in several threads: each pass of sharing.c in shards (shards.h). */
#include "sharing.h"
#include "shards.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

static void drop(void *shard)
{
    spex_sharing_free(shard);
}

/* ---- first pass: lines ---- */

static void *split_lines(void *context, unsigned threads)
{
    struct spex_sharing *s = context, *shard;
    (void)threads;
    if (s->count || s->failed || spex_sharing_new(s->analysis, &shard, NULL))
        return NULL;
    s->shard_lines = 0;
    shard->shard_of = s;
    return shard;
}

static bool join_lines(void *context, void *other)
{
    struct spex_sharing *to = context;
    const struct spex_sharing *from = other;
    if (to->failed || from->failed)
        return false;
    for (size_t i = 0; i < from->count; i++) {
        const struct line *l = &from->lines[i];
        struct line *sum = sharing_line(to, &l->id);
        if (to->count > SHARING_LINES)
            return false;
        sharing_use_line(sum, l);
        sum->samples += l->samples;
        sum->writes += l->writes;
        sum->cycles += l->cycles;
        sum->several |= l->several;
    }
    to->with_source += from->with_source;
    to->totals.memory += from->totals.memory;
    return to->totals.memory <= UINT32_MAX;
}

static void take_lines(void *context, void *sum)
{
    struct spex_sharing *to = context, *from = sum;
    assert(!to->count);
    SHARD_SWAP(to, from, lines);
    SHARD_SWAP(to, from, index);
    SHARD_SWAP(to, from, count);
    SHARD_SWAP(to, from, capacity);
    SHARD_SWAP(to, from, mask);
    SHARD_SWAP(to, from, totals);
    SHARD_SWAP(to, from, with_source);
}

static const struct spex_sink_shards line_shards = {split_lines, join_lines, take_lines, drop};

struct spex_sink spex_sink_find(struct spex_sharing *s)
{
    assert(s);
    return (struct spex_sink){spex_sharing_find, s, &line_shards, NULL};
}

/* ---- second pass: how candidates are used ---- */

static void *split_uses(void *context, unsigned threads)
{
    struct spex_sharing *s = context, *shard;
    if (s->failed || spex_sharing_new(s->analysis, &shard, NULL))
        return NULL;
    memory_free(shard->index);
    shard->shard_of = s;
    shard->lines = s->lines; /* only read here */
    shard->index = s->index;
    shard->count = s->count;
    shard->mask = s->mask;
    shard->totals = s->totals;
    shard->first_time = s->first_time;
    shard->time_span = s->time_span;
    shard->candidates = s->candidates;
    shard->group = group_shards.split(s->group, threads);
    if (shard->group && memory_guarded(memory_current(), sharing_start_uses(shard)))
        return shard;
    drop(shard);
    return NULL;
}

static bool join_uses(void *context, void *other)
{
    struct spex_sharing *to = context;
    const struct spex_sharing *from = other;
    if (to->failed || from->failed)
        return false;
    for (size_t i = 0; i < from->candidates * WORDS; i++) {
        struct word *sum = &to->words[i];
        const struct word *w = &from->words[i];
        sum->samples += w->samples;
        sum->atomics += w->atomics;
        sum->swaps += w->swaps;
        sum->stores += w->stores;
    }
    for (size_t i = 0; i < from->activity_count; i++) {
        const struct activity *a = &from->activities[i];
        struct activity *sum = sharing_activity(to, a->line, a->tid, true);
        sum->samples += a->samples;
        sum->buckets |= a->buckets;
        sharing_name_activity(sum, a->comm, a->queue);
    }
    return true;
}

static void take_uses(void *context, void *sum)
{
    struct spex_sharing *to = context, *from = sum;
    assert(!to->activity_count);
    SHARD_SWAP(to, from, words);
    SHARD_SWAP(to, from, activities);
    SHARD_SWAP(to, from, activity_count);
    SHARD_SWAP(to, from, activity_capacity);
    SHARD_SWAP(to, from, activity_index);
    SHARD_SWAP(to, from, activity_mask);
}

static const struct spex_sink_shards use_shards = {split_uses, join_uses, take_uses, drop};

struct spex_group *sharing_shard_group(const struct spex_sink_shards *how, void *context)
{
    return how == &use_shards ? ((struct spex_sharing *)context)->group : NULL;
}

struct spex_sink spex_sink_look(struct spex_sharing *s)
{
    assert(s);
    return (struct spex_sink){spex_sharing_look, s, &use_shards, NULL};
}
