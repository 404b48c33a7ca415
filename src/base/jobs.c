#include "base/jobs.h"

#include <pthread.h>
#include <stdatomic.h>

struct taking {
    const struct jobs *jobs;
    atomic_size_t next;
    atomic_uint started;
};

static void take_all(struct taking *t, unsigned thread)
{
    size_t job;
    while ((job = atomic_fetch_add(&t->next, 1)) < t->jobs->count)
        t->jobs->run(t->jobs->user, job, thread);
}

static void *run(void *argument)
{
    struct taking *t = argument;
    take_all(t, atomic_fetch_add(&t->started, 1) + 1);
    return NULL;
}

void jobs_run(const struct jobs *jobs, unsigned threads)
{
    struct taking t = {.jobs = jobs};
    pthread_t others[JOBS_THREADS];
    unsigned count = 0;
    while (count + 1 < threads && count + 1 < jobs->count && count < JOBS_THREADS - 1 &&
           !pthread_create(&others[count], NULL, run, &t))
        count++;
    take_all(&t, 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(others[i], NULL);
}
