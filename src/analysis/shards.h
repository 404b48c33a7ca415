/*
 * Sinks of which each thread has one of its own.
 *
 * What threads count apart and add up afterwards must be what one thread would have counted, to the
 * bit: sums are integers, and its queue says what comes first. Where one thread would have
 * had to leave something out, for memory, that would depend on the order; then threads give up, and
 * one thread reads all of it again.
 */
#ifndef ANALYSIS_SHARDS_H
#define ANALYSIS_SHARDS_H

#include "internal.h"

struct shards {
    unsigned count; /* threads */
    struct shard {
        struct spex_sink sinks[SPEX_SINKS_MAX];
        uint32_t versions; /* see struct lane */
    } * shards;
    const struct spex_sink *sinks;
    size_t sink_count;
};

/* As analysis->shards. NULL: the sinks, the files or the options allow one thread alone. */
struct shards *shards_new(struct spex_analysis *analysis, const struct spex_sink *sinks,
                          size_t count);
/*
 * Adds up what the threads counted. False if one thread would have counted otherwise: the sinks
 * then get none of it.
 */
bool shards_add_up(struct shards *shards, struct spex_analysis *analysis);
void shards_free(struct shards *shards);

/* Exchanges a member of two objects: what an empty one takes over, the other must not free. */
#define SHARD_SWAP(a, b, member)                                                                   \
    do {                                                                                           \
        const __typeof__((a)->member) swap_ = (a)->member;                                         \
        (a)->member = (b)->member;                                                                 \
        (b)->member = swap_;                                                                       \
    } while (0)

#endif
