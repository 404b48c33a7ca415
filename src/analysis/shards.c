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
        most = part->queue_count > most ? part->queue_count : most;
    }
    unsigned threads = a->options.threads < JOBS_THREADS ? a->options.threads : JOBS_THREADS;
    return threads < most ? threads : (unsigned)most;
}

struct shards *shards_new(struct spex_analysis *a, const struct spex_sink *sinks, size_t count)
{
    const unsigned threads = threads_of(a);
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

/* In each round, the second of two shards is added to the first one. */
struct adding {
    struct shards *shards;
    unsigned apart;
    _Atomic bool exact;
};

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
    for (; adding.apart < s->count; adding.apart *= 2) {
        const size_t pairs = (s->count + 2 * adding.apart - 1) / (2 * adding.apart);
        const struct jobs jobs = {&adding, pairs * s->sink_count, add_two};
        jobs_run(&jobs, s->count);
    }
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

void analysis_inexact(struct spex_analysis *a)
{
    analysis_first(a)->inexact = true;
    spex_analysis_stop(analysis_first(a));
}
