#include "pass.h"

#include "base/jobs.h"
#include "base/memory.h"

#include <stdlib.h>

static bool reads_apart(const struct spex_analysis *a)
{
    /* a sink asks for a sample's stack by its index in the batch that was read last */
    return !a->options.ordered && !(a->stacks && a->options.want & SPEX_WANT_STACK) &&
           !(a->allocs && a->options.want & SPEX_WANT_ALLOC);
}

/* How many threads can get a queue. */
static unsigned threads_of(const struct spex_analysis *a)
{
    size_t most = 0;
    for (size_t i = 0; i < (a->part_count ? a->part_count : 1); i++) {
        const struct spex_analysis *part = a->part_count ? a->parts[i] : a;
        if (!reads_apart(part))
            return 1;
        const size_t some = lanes_most(part);
        most = some > most ? some : most;
    }
    unsigned threads = a->options.threads < JOBS_THREADS ? a->options.threads : JOBS_THREADS;
    return threads < most ? threads : (unsigned)most;
}

struct shards *shards_new(struct spex_analysis *a, const struct spex_sink *sinks, size_t count,
                          unsigned most)
{
    const unsigned can = threads_of(a), threads = can < most ? can : most;
    bool all = threads > 1 && count;
    for (size_t i = 0; i < count; i++)
        all = all && sinks[i].shards;
    if (!all)
        return NULL;
    struct shards *s = a->shards = memory_get(1, sizeof *s);
    s->shards = memory_zeroed(threads, sizeof *s->shards);
    s->count = s->shards ? threads : 0;
    s->sinks = sinks;
    s->sink_count = count;
    for (unsigned t = 0; t < s->count && all; t++)
        for (size_t i = 0; i < count && all; i++) {
            struct spex_sink *own = &s->shards[t].sinks[i];
            *own = sinks[i];
            own->context = sinks[i].shards->split(sinks[i].context, threads);
            all = own->context != NULL;
        }
    if (all && s->count)
        return s;
    shards_free(s);
    return NULL;
}

/* The sums of groups; of what else there is in sinks, in each round, the second of two shards is
 * added to the first. */
struct adding {
    struct shards *shards;
    struct group_sum **sums;
    size_t sum_count, sum_room;
    struct sum_part {
        struct group_sum *sum;
        unsigned range;
    } * parts;
    size_t part_count;
    unsigned apart;
    _Atomic bool exact;
};

static void add_range(void *user, size_t job, unsigned thread)
{
    struct adding *adding = user;
    const struct sum_part *part = &adding->parts[job];
    volatile bool exact = false;
    (void)thread;
    if (!adding->exact)
        return;
    if (!memory_guarded(memory_current(), exact = group_sum_range(part->sum, part->range)) ||
        !exact)
        adding->exact = false;
}

static void move_range(void *user, size_t job, unsigned thread)
{
    struct adding *adding = user;
    (void)thread;
    group_sum_move(adding->parts[job].sum, adding->parts[job].range);
}

/* The groups of a sink, and how their ranges are shared out. */
static void find_groups(struct adding *adding, size_t sink)
{
    const struct shards *s = adding->shards;
    const struct spex_sink_shards *how = s->sinks[sink].shards;
    struct spex_group *group;
    for (size_t n = 0; shards_group(how, s->sinks[sink].context, n, &group); n++) {
        if (!group)
            continue;
        adding->sums =
            memory_grow(adding->sums, adding->sum_count, &adding->sum_room, sizeof *adding->sums);
        struct group_sum *sum = group_sum_new(group, s->count);
        adding->sums[adding->sum_count++] = sum;
        for (unsigned t = 0; t < s->count; t++) {
            shards_group(how, s->shards[t].sinks[sink].context, n, &group);
            group_sum_add(sum, group);
        }
    }
}

static void start_sums(struct adding *adding)
{
    size_t count = 0;
    for (size_t i = 0; i < adding->shards->sink_count; i++)
        find_groups(adding, i);
    for (size_t i = 0; i < adding->sum_count; i++)
        count += group_sum_ranges(adding->sums[i]);
    adding->parts = memory_get(count + 1, sizeof *adding->parts);
    for (size_t i = 0; i < adding->sum_count; i++)
        for (unsigned range = 0; range < group_sum_ranges(adding->sums[i]); range++)
            adding->parts[adding->part_count++] = (struct sum_part){adding->sums[i], range};
}

/* Only once all ranges of all groups are exact, since groups take what they get. */
static void place_sums(struct adding *adding)
{
    for (size_t i = 0; i < adding->sum_count && adding->exact; i++)
        adding->exact = group_sum_fits(adding->sums[i]);
    for (size_t i = 0; i < adding->sum_count && adding->exact; i++)
        group_sum_place(adding->sums[i]);
    for (size_t i = 0; i < adding->sum_count && adding->exact; i++)
        group_sum_take(adding->sums[i]);
}

static void add_groups(struct adding *adding)
{
    const unsigned threads = adding->shards->count;
    start_sums(adding);
    jobs_run(&(struct jobs){adding, adding->part_count, add_range}, threads);
    place_sums(adding);
    if (adding->exact)
        jobs_run(&(struct jobs){adding, adding->part_count, move_range}, threads);
}

static void free_sums(struct adding *adding)
{
    for (size_t i = 0; i < adding->sum_count; i++)
        group_sum_free(adding->sums[i]);
    memory_free(adding->sums);
    memory_free(adding->parts);
}

static void add_two(void *user, size_t job, unsigned thread)
{
    struct adding *adding = user;
    struct shards *s = adding->shards;
    const size_t sink = job % s->sink_count;
    const unsigned to = (unsigned)(job / s->sink_count) * 2 * adding->apart;
    const struct spex_sink_shards *how = s->sinks[sink].shards;
    volatile bool exact = false;
    (void)thread;
    if (to + adding->apart >= s->count || !adding->exact)
        return;
    if (!memory_guarded(memory_current(),
                        exact = how->join(s->shards[to].sinks[sink].context,
                                          s->shards[to + adding->apart].sinks[sink].context)) ||
        !exact)
        adding->exact = false;
}

bool shards_add_up(struct shards *s, struct spex_analysis *a)
{
    struct adding adding = {.shards = s, .apart = 1};
    adding.exact = !a->inexact && !a->no_memory && !a->too_many;
    for (; adding.apart < s->count && adding.exact; adding.apart *= 2) {
        const size_t pairs = (s->count + 2 * adding.apart - 1) / (2 * adding.apart);
        const struct jobs jobs = {&adding, pairs * s->sink_count, add_two};
        jobs_run(&jobs, s->count);
    }
    for (size_t i = 0; adding.exact && i < s->sink_count; i++) {
        void *contexts[JOBS_THREADS];
        for (unsigned t = 0; t < s->count; t++)
            contexts[t] = s->shards[t].sinks[i].context;
        adding.exact = sharing_add_up(s->sinks[i].shards, s->sinks[i].context, contexts, s->count);
    }
    if (adding.exact && !memory_guarded(memory_current(), add_groups(&adding)))
        adding.exact = false;
    for (size_t i = 0; !adding.exact && i < s->sink_count; i++)
        sharing_forget(s->sinks[i].shards, s->sinks[i].context);
    free_sums(&adding);
    for (size_t i = 0; adding.exact && i < s->sink_count; i++)
        s->sinks[i].shards->take(s->sinks[i].context, s->shards[0].sinks[i].context);
    return adding.exact;
}

static void free_shard(void *user, size_t t, unsigned thread)
{
    struct shards *s = user;
    (void)thread;
    for (size_t i = 0; i < s->sink_count; i++)
        if (s->shards[t].sinks[i].context)
            s->sinks[i].shards->drop(s->shards[t].sinks[i].context);
}

void shards_free(struct shards *s)
{
    if (s) {
        jobs_run(&(struct jobs){s, s->count, free_shard}, s->count);
        memory_free(s->shards);
    }
    memory_free(s);
}

void analysis_crowded(struct spex_analysis *a)
{
    analysis_first(a)->crowded = true;
    analysis_inexact(a);
}

void analysis_inexact(struct spex_analysis *a)
{
    analysis_first(a)->inexact = true;
    spex_analysis_stop(analysis_first(a));
}
