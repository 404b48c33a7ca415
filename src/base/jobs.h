/* Threads that take jobs, each the next one when it is done with one. */
#ifndef BASE_JOBS_H
#define BASE_JOBS_H

#include <spex/base.h>

enum { JOBS_THREADS = 64 }; /* at most */

struct jobs {
    void *user;
    size_t count;
    /* Jobs 0 to count - 1, in this order; thread is below the number of threads. */
    void (*run)(void *user, size_t job, unsigned thread);
};

/* threads counts the caller's, which is thread 0; fewer if no more can be had or are needed. */
void jobs_run(const struct jobs *jobs, unsigned threads);

/* CPUs that this process may use, going by its affinity and its control group's quota. */
unsigned jobs_cpus(void);

#endif
