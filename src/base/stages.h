/*
 * Several threads carry items through stages.
 *
 * Each thread makes an item, carries it through all stages and makes the next one. A stage sees
 * one item at a time and all of them in order: it needs no lock for its own data, and does the
 * same whatever the number of threads; but for stages that are apart, which see several items at
 * the same time, in any order. An item stays with one thread, in the caches of its CPU. A thread
 * that catches up with another waits: if it went on with a second item, it would hold up the
 * threads that wait for its first.
 */
#ifndef BASE_STAGES_H
#define BASE_STAGES_H

#include <spex/base.h>

enum { STAGES_MAX = 16, STAGES_THREADS = 64 };

struct stages_job {
    void *user;
    unsigned stages; /* 1 to STAGES_MAX */
    uint32_t apart;  /* a bit for each stage that is apart; never the first one */
    /*
     * thread is below the number of threads and also identifies the item. Stage 0 makes an
     * item, or returns false when there are no more.
     */
    bool (*run)(void *user, unsigned stage, unsigned thread);
};

/*
 * threads includes the caller's; there are fewer if no more can be started, and never more
 * than stages unless one is apart.
 */
void stages_run(const struct stages_job *job, unsigned threads);

#endif
