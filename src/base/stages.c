#include "base/stages.h"

#include "base/memory.h"
#include "base/spin.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

struct stages {
    const struct stages_job *job;
    struct memory *account;           /* account of the caller */
    atomic_uint started;              /* threads */
    atomic_size_t made;               /* items */
    atomic_size_t passed[STAGES_MAX]; /* how many items have passed each stage */
    bool more;                        /* stage 0 may have more items */
    atomic_uint asleep;               /* number of threads; changed with the lock held */
    pthread_mutex_t lock;
    pthread_cond_t change;
};

/* Spin first: the turn usually comes before a thread could go to sleep and wake up. */
static void wait_for_turn(struct stages *s, unsigned stage, size_t item)
{
    for (unsigned i = 0; i < SPIN_TURNS; i++) {
        if (atomic_load(&s->passed[stage]) == item)
            return;
        spin_relax();
    }
    pthread_mutex_lock(&s->lock);
    atomic_fetch_add(&s->asleep, 1);
    while (atomic_load(&s->passed[stage]) != item)
        pthread_cond_wait(&s->change, &s->lock);
    atomic_fetch_sub(&s->asleep, 1);
    pthread_mutex_unlock(&s->lock);
}

/* Either the sleeper sees that its turn has come, or this thread sees that there is a sleeper. */
static void pass(struct stages *s, unsigned stage, size_t item)
{
    atomic_store(&s->passed[stage], item + 1);
    if (!atomic_load(&s->asleep))
        return;
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

static void *work(void *argument)
{
    struct stages *s = argument;
    const struct stages_job *job = s->job;
    memory_enter(s->account);
    const unsigned thread = atomic_fetch_add(&s->started, 1);
    bool more = true;
    while (more) {
        const size_t item = atomic_fetch_add(&s->made, 1);
        for (unsigned stage = 0; stage < job->stages && more; stage++) {
            if (job->apart >> stage & 1) {
                job->run(job->user, stage, thread);
                continue;
            }
            wait_for_turn(s, stage, item);
            if (stage)
                job->run(job->user, stage, thread);
            else
                more = s->more = s->more && job->run(job->user, 0, thread);
            pass(s, stage, item);
        }
    }
    return NULL;
}

void stages_run(const struct stages_job *job, unsigned threads)
{
    struct stages s = {.job = job,
                       .account = memory_current(),
                       .more = true,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .change = PTHREAD_COND_INITIALIZER};
    pthread_t others[STAGES_THREADS];
    const unsigned useful = job->apart ? STAGES_THREADS : job->stages;
    unsigned started = 0;
    assert(job->stages >= 1 && job->stages <= STAGES_MAX);
    while (started + 1 < threads && started + 1 < useful &&
           !pthread_create(&others[started], NULL, work, &s))
        started++;
    work(&s);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    pthread_cond_destroy(&s.change);
    pthread_mutex_destroy(&s.lock);
}
