/*
 * Several threads carry items through stages.
 *
 * Each thread makes an item, carries it through all stages and makes the next one. A stage sees one
 * item at a time and all of them in order: it needs no lock for its own data, and does the same
 * whatever the number of threads. What an item holds stays with one thread, in the caches of its
 * CPU. A thread has one item, and waits where it catches up with another: going on with a second
 * item meanwhile would keep the others from what they wait for in the first.
 */
#ifndef BASE_STAGES_H
#define BASE_STAGES_H

#include <spex/base.h>

enum { STAGES_MAX = 16 };

struct stages_job {
    void *user;
    unsigned stages; /* 1 to STAGES_MAX */
    /*
     * thread, below the number of threads, is also that of its item. Stage 0 makes an item, or
     * returns false when there are no more.
     */
    bool (*run)(void *user, unsigned stage, unsigned thread);
};

/* threads counts the caller's; fewer if no more can be had, and never more than stages. */
void stages_run(const struct stages_job *job, unsigned threads);

#endif
