#include "base/stages.h"

#include "base/chunks.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct stages {
    const struct stages_job *job;
    pthread_mutex_t lock; /* of those that wait for long */
    pthread_cond_t change;
    atomic_uint waiting;
    atomic_uint started; /* threads */
    atomic_bool end;     /* no more items */
    struct {
        _Alignas(CHUNKS_APART) atomic_size_t done; /* items */
    } stage[STAGES_MAX];
    atomic_size_t next; /* item to be made */
};

static inline void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb" ::: "memory");
#endif
}

static bool is_turn(struct stages *s, unsigned stage, size_t item)
{
    return atomic_load(&s->stage[stage].done) == item || (!stage && atomic_load(&s->end));
}

/* Mostly the turn comes soon, and to sleep and be woken would take longer. */
static void wait_for_turn(struct stages *s, unsigned stage, size_t item)
{
    enum { SOON = 500 };
    for (unsigned i = 0; i < SOON; i++) {
        if (is_turn(s, stage, item))
            return;
        relax();
    }
    pthread_mutex_lock(&s->lock);
    atomic_fetch_add(&s->waiting, 1);
    while (!is_turn(s, stage, item))
        pthread_cond_wait(&s->change, &s->lock);
    atomic_fetch_sub(&s->waiting, 1);
    pthread_mutex_unlock(&s->lock);
}

static void wake(struct stages *s)
{
    if (!atomic_load(&s->waiting))
        return;
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

static void *work(void *argument)
{
    struct stages *s = argument;
    const struct stages_job *job = s->job;
    unsigned thread = atomic_fetch_add(&s->started, 1);
    for (;;) {
        size_t item = atomic_fetch_add(&s->next, 1);
        for (unsigned k = 0; k < job->stages; k++) {
            wait_for_turn(s, k, item);
            if (!k && atomic_load(&s->end))
                return NULL;
            bool more = job->run(job->user, k, thread);
            if (!k && !more) {
                atomic_store(&s->end, true);
                wake(s);
                return NULL;
            }
            atomic_store(&s->stage[k].done, item + 1);
            wake(s);
        }
    }
}

void stages_run(const struct stages_job *job, unsigned threads)
{
    struct stages s = {
        .job = job, .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    pthread_t others[STAGES_MAX];
    unsigned started = 0;
    assert(job->stages >= 1 && job->stages <= STAGES_MAX);
    while (started + 1 < threads && started + 1 < job->stages &&
           !pthread_create(&others[started], NULL, work, &s))
        started++;
    work(&s);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    pthread_cond_destroy(&s.change);
    pthread_mutex_destroy(&s.lock);
}
