/*
 * Sinks with a separate copy for each thread.
 *
 * What threads count separately and then add up must equal what one thread would have counted, to
 * the bit: sums are integers, and the queue's number decides what comes first. Where one thread
 * would have left something out for lack of memory, the result would depend on the order; then
 * threads give up, and one thread reads everything again.
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

/* See analysis->shards. NULL: the sinks, files or options allow only one thread. */
struct shards *shards_new(struct spex_analysis *analysis, const struct spex_sink *sinks,
                          size_t count);
/*
 * Adds up what the threads counted. False if one thread would have counted otherwise: the sinks
 * then receive nothing.
 */
bool shards_add_up(struct shards *shards, struct spex_analysis *analysis);
void shards_free(struct shards *shards);

/* Exchanges a member of two objects, so that it is freed once. */
#define SHARD_SWAP(a, b, member)                                                                   \
    do {                                                                                           \
        const __typeof__((a)->member) swap_ = (a)->member;                                         \
        (a)->member = (b)->member;                                                                 \
        (b)->member = swap_;                                                                       \
    } while (0)

#endif
