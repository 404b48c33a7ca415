/*
 * Several threads on items that pass through stages.
 *
 * Each thread makes an item and carries it through all stages; at each it waits for its turn. So a
 * stage sees one item at a time and all of them in order: it needs no lock for what is its own, and
 * does the same whatever the number of threads. What an item holds stays with one thread, in the
 * caches of its CPU. Threads are busy as long as no stage has more of the work than each of them.
 */
#ifndef BASE_STAGES_H
#define BASE_STAGES_H

#include <spex/base.h>

enum { STAGES_MAX = 16 };

struct stages_job {
    void *user;
    unsigned stages; /* 1 to STAGES_MAX */
    /*
     * thread, from 0, says whose item it is. Stage 0 makes an item and says false, without one,
     * when there are no more.
     */
    bool (*run)(void *user, unsigned stage, unsigned thread);
};

/* threads counts the caller's; fewer if no more can be had, and never more than stages. */
void stages_run(const struct stages_job *job, unsigned threads);

#endif
