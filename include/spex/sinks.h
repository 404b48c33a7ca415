/*
 * Several sinks in one pass, and sinks of which each thread has a part of its own.
 *
 * spex_analysis_run and spex_analysis_each hand all samples to one sink, by one thread at a time.
 * spex_analysis_pass hands them to several, which may run at the same time; and where all of them
 * know how to count apart, or how to work on slices of time, each of options.threads threads reads,
 * joins and counts queues of its own. What comes out is the same for any number of threads.
 *
 *     const struct spex_sink sinks[] = {spex_sink_group(by_function), spex_sink_group(by_line)};
 *     status = spex_analysis_pass(analysis, sinks, 2, &error);
 *
 * Ownership: sinks and what they point to are the host's, and are only used during the pass.
 * Threads: the functions of a sink are called by threads of the library, those of one context by
 * one thread at a time. Errors: as spex_analysis_run.
 */
#ifndef SPEX_SINKS_H
#define SPEX_SINKS_H

#include <spex/analysis.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPEX_SINKS_MAX = 8 }; /* most sinks of one pass */

/*
 * How threads that read different queues count apart: each has a context of its own, a shard, that
 * has counted nothing at first. Sums must not depend on the order of samples of different queues.
 */
struct spex_sink_shards {
    /* A shard for one of so many threads; NULL: it cannot be had, and one thread does it all. */
    void *(*split)(void *context, unsigned threads);
    /* Adds what `from` counted to `to`; false: the sum is not what one thread would have. */
    bool (*join)(void *to, void *from);
    /* Gives the sum of all shards, which is dropped then, to the context that was split. */
    void (*take)(void *context, void *sum);
    void (*drop)(void *shard);
};

/*
 * How threads work apart on samples in order of time (options.ordered) or of one queue: each slice
 * of a pass has an item of this size, all zero at first, that work is called with for its samples,
 * a run at a time, and with none at its end. Items are put in order; then they are used again. Used
 * where it is the only sink.
 */
struct spex_sink_slices {
    size_t size;
    void (*work)(void *context, void *item, unsigned thread, const struct spex_sample *samples,
                 size_t count);
    void (*put)(void *context, void *item);
    void (*fini)(void *item); /* frees what it holds, at the end; may be NULL */
};

struct spex_sink {
    spex_sample_sink *call;
    void *context;
    const struct spex_sink_shards *shards; /* NULL: it needs all samples, in their order */
    const struct spex_sink_slices *slices; /* NULL: by call */
};

/* One pass with count sinks, at most SPEX_SINKS_MAX. */
enum spex_status spex_analysis_pass(struct spex_analysis *analysis, const struct spex_sink *sinks,
                                    size_t count, struct spex_error *error); /* since 1.4 */

/* A group, counted by all threads; otherwise as spex_group_sink. */
struct spex_sink spex_sink_group(struct spex_group *group); /* since 1.4 */

/*
 * A sink that counts in several groups, as it chooses. Its context begins with this; each thread
 * has a copy of all of it, whose groups are its own.
 */
struct spex_feed {
    size_t size;                /* bytes of the whole context */
    struct spex_group **groups; /* some may be NULL */
    size_t count;
};
struct spex_sink spex_sink_groups(struct spex_feed *feed, spex_sample_sink *call); /* since 1.4 */
/* For such a call: adds chosen samples to all of the groups, of which none is NULL. */
void spex_feed_add(const struct spex_feed *feed, const struct spex_sample *const *samples,
                   size_t count); /* since 1.4 */

/*
 * For a sink that cannot go on: the pass ends, and returns this. Some samples may still come. The
 * sink of a shard may call it, too.
 */
void spex_analysis_fail(struct spex_analysis *analysis, enum spex_status status); /* since 1.4 */

/* The first and the second pass of spex_sharing: spex_sharing_find and _look by all threads. */
struct spex_sink spex_sink_find(struct spex_sharing *sharing); /* since 1.4 */
struct spex_sink spex_sink_look(struct spex_sharing *sharing); /* since 1.4 */

#ifdef __cplusplus
}
#endif
#endif
