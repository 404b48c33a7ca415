/* Counts cache lines in several threads: each pass of sharing.c in shards (shards.h). */
#include "sharing.h"
#include "shards.h"

#include "base/jobs.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static const struct spex_sink_shards line_shards;

/* Lines of all shards whose hashes are in a range are added up by one thread. */
struct line_sum {
    struct spex_sharing *to, *const *shards, *ranges[JOBS_THREADS];
    unsigned shard_count, range_count;
    size_t at[JOBS_THREADS]; /* where in `to` the lines of a range begin */
    _Atomic bool exact;
};

static bool add_lines(struct spex_sharing *to, const struct spex_sharing *from, unsigned range,
                      unsigned ranges)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct line *l = &from->lines[i];
        if ((sharing_hash(from, &l->id) >> 32) * ranges >> 32 != range)
            continue;
        if (to->count == SHARING_LINES)
            return false;
        struct line *sum = sharing_line(to, &l->id);
        sharing_use_line(sum, l);
        sum->samples += l->samples;
        sum->writes += l->writes;
        sum->cycles += l->cycles;
        sum->several |= l->several;
    }
    return true;
}

static void add_range(void *user, size_t range, unsigned thread)
{
    struct line_sum *sum = user;
    volatile bool exact = !spex_sharing_new(sum->to->analysis, &sum->ranges[range], NULL);
    (void)thread;
    for (unsigned i = 0; i < sum->shard_count && exact; i++)
        if (sum->shards[i]->failed ||
            !memory_guarded(memory_current(), exact = add_lines(sum->ranges[range], sum->shards[i],
                                                                (unsigned)range, sum->range_count)))
            exact = false;
    if (!exact)
        sum->exact = false;
}

/* Room for all lines, if one thread would have had it. */
static bool place_lines(struct line_sum *sum)
{
    struct spex_sharing *to = sum->to;
    size_t count = 0, mask = to->mask;
    uint64_t memory = 0;
    for (unsigned r = 0; r < sum->range_count; r++) {
        sum->at[r] = count;
        count += sum->ranges[r]->count;
    }
    for (unsigned i = 0; i < sum->shard_count; i++)
        memory += sum->shards[i]->totals.memory;
    if (count > SHARING_LINES || memory > UINT32_MAX)
        return false;
    while (count * 4 > mask)
        mask = mask * 2 + 1;
    to->lines = memory_get(count + 1, sizeof *to->lines);
    to->capacity = count + 1;
    uint32_t *index = memory_get(mask + 1, sizeof *index);
    memory_free(to->index);
    to->index = index;
    to->mask = mask;
    to->count = count;
    to->totals.lines += count;
    to->totals.memory += memory;
    for (unsigned i = 0; i < sum->shard_count; i++)
        to->with_source += sum->shards[i]->with_source;
    return true;
}

static void move_range(void *user, size_t range, unsigned thread)
{
    struct line_sum *sum = user;
    struct spex_sharing *to = sum->to;
    const struct spex_sharing *from = sum->ranges[range];
    (void)thread;
    if (!from->count)
        return;
    memcpy(to->lines + sum->at[range], from->lines, from->count * sizeof *from->lines);
    for (size_t i = 0; i < from->count; i++) {
        const uint32_t line = (uint32_t)(sum->at[range] + i) + 1;
        size_t slot = sharing_hash(to, &from->lines[i].id) & to->mask;
        for (uint32_t none = 0; !__atomic_compare_exchange_n(&to->index[slot], &none, line, false,
                                                             __ATOMIC_RELAXED, __ATOMIC_RELAXED);
             none = 0)
            slot = (slot + 1) & to->mask;
    }
}

bool sharing_add_up(const struct spex_sink_shards *how, void *context, void *const *shards,
                    unsigned count)
{
    struct line_sum sum = {.to = context, .shard_count = count, .range_count = count};
    if (how != &line_shards)
        return true;
    assert(!sum.to->count && count <= JOBS_THREADS);
    sum.shards = (struct spex_sharing *const *)shards;
    sum.exact = true;
    jobs_run(&(struct jobs){&sum, count, add_range}, count);
    volatile bool placed = false;
    if (!sum.exact || !memory_guarded(memory_current(), placed = place_lines(&sum)))
        placed = false;
    if (placed)
        jobs_run(&(struct jobs){&sum, count, move_range}, count);
    for (unsigned r = 0; r < count; r++)
        spex_sharing_free(sum.ranges[r]);
    return placed;
}

void sharing_forget(const struct spex_sink_shards *how, void *context)
{
    struct spex_sharing *s = context;
    if (how != &line_shards)
        return;
    memory_free(s->lines);
    s->lines = NULL;
    s->count = s->capacity = 0;
    s->totals = (struct spex_sharing_totals){0};
    s->with_source = 0;
    memset(s->index, 0, (s->mask + 1) * sizeof *s->index);
}

static bool join_lines(void *to, void *from)
{
    (void)to, (void)from; /* sharing_add_up does that */
    return true;
}

static void take_lines(void *context, void *sum)
{
    (void)context, (void)sum;
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
