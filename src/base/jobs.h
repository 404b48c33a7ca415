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

/*
 * Threads that stay for several runs, one after the other; they are for the thread that made them
 * to use. Ends the command if memory runs out.
 */
struct jobs_pool;
struct jobs_pool *jobs_pool_new(unsigned threads);
void jobs_pool_run(struct jobs_pool *pool, const struct jobs *jobs);
void jobs_pool_free(struct jobs_pool *pool);

/* CPUs that this process may use, by its affinity and its control group's quota. */
unsigned jobs_cpus(void);

#endif
