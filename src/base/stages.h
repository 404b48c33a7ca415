/*
 * Several threads carry items through stages.
 *
 * Each thread makes items and carries them through all stages. A stage sees one item at a time and
 * all of them in order: it needs no lock for its own data, and does the same whatever the number of
 * threads. What an item holds stays with one thread, in the caches of its CPU. Where a thread would
 * have to wait for its turn it goes on with another item of its own, so threads are busy as long as
 * no stage has more of the work than each of them.
 */
#ifndef BASE_STAGES_H
#define BASE_STAGES_H

#include <spex/base.h>

enum { STAGES_MAX = 16 };

struct stages_job {
    void *user;
    unsigned stages; /* 1 to STAGES_MAX */
    /*
     * item, below stages_items(), is the number of an item under way. Stage 0 makes an item, or
     * returns false when there are no more.
     */
    bool (*run)(void *user, unsigned stage, unsigned item);
};

/* How many items are under way at most: two for each thread, one if there is only one thread. */
static inline unsigned stages_items(unsigned threads)
{
    return threads > 1 ? 2 * threads : 1;
}

/* threads counts the caller's; fewer if no more can be had, and never more than stages. */
void stages_run(const struct stages_job *job, unsigned threads);

#endif
