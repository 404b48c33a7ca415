/* Threads that each take the next job when they finish one. */
#ifndef BASE_JOBS_H
#define BASE_JOBS_H

#include <spex/base.h>

enum { JOBS_THREADS = 64 }; /* most threads */

struct jobs {
    void *user;
    size_t count;
    /*
     * Called with jobs 0 to count - 1, started in this order; thread is below the number of
     * threads.
     */
    void (*run)(void *user, size_t job, unsigned thread);
};

/*
 * threads includes the caller's, which is thread 0; fewer are started if no more can be had
 * or are needed.
 */
void jobs_run(const struct jobs *jobs, unsigned threads);

/* CPUs that this process may use, by its affinity and its control group's quota. */
unsigned jobs_cpus(void);

#endif
