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

/*
 * See analysis->shards. most: threads. NULL: the sinks, files or options allow only one thread, or
 * most does.
 */
struct shards *shards_new(struct spex_analysis *analysis, const struct spex_sink *sinks,
                          size_t count, unsigned most);
/*
 * Adds up what the threads counted. False if one thread would have counted otherwise: the sinks
 * then receive nothing.
 */
bool shards_add_up(struct shards *shards, struct spex_analysis *analysis);
void shards_free(struct shards *shards);

/*
 * The groups in the context of a sink or shard are added up apart, and by all shards at once: each
 * thread takes a range of the hashes of their keys. What is left for join and take is the rest.
 * *group: the n-th, some are NULL; false: there are no more, or the sink is of another kind.
 */
bool shards_group(const struct spex_sink_shards *how, void *context, size_t n,
                  struct spex_group **group);
/* The group of such a context of spex_sink_look, else NULL. */
struct spex_group *sharing_shard_group(const struct spex_sink_shards *how, void *context);

/*
 * Adds up the lines of spex_sink_find, in the same way; true for other sinks. False: the sum is not
 * what one thread would have counted. The other empties the context again.
 */
bool sharing_add_up(const struct spex_sink_shards *how, void *context, void *const *shards,
                    unsigned count);
void sharing_forget(const struct spex_sink_shards *how, void *context);

/* Adding up a group's shards. */
struct group_sum;
/* threads: how many may work on it at a time. */
struct group_sum *group_sum_new(struct spex_group *to, unsigned threads);
void group_sum_add(struct group_sum *sum, struct spex_group *shard);
/*
 * In this order; range: each below `group_sum_ranges`, by any thread. False: the sum is not what
 * one thread would have counted. Up to group_sum_place memory may run out, and `to` is empty then.
 */
unsigned group_sum_ranges(struct group_sum *sum);
bool group_sum_range(struct group_sum *sum, unsigned range);
bool group_sum_fits(struct group_sum *sum);
void group_sum_place(struct group_sum *sum);
void group_sum_take(struct group_sum *sum);
void group_sum_move(struct group_sum *sum, unsigned range);
void group_sum_free(struct group_sum *sum);

/* Exchanges a member of two objects, so that it is freed once. */
#define SHARD_SWAP(a, b, member)                                                                   \
    do {                                                                                           \
        const __typeof__((a)->member) swap_ = (a)->member;                                         \
        (a)->member = (b)->member;                                                                 \
        (b)->member = swap_;                                                                       \
    } while (0)

#endif
