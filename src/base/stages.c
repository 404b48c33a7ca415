#include "base/stages.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

struct item {
    size_t number; /* from 0, in order */
    unsigned stage;
    bool live; /* on its way */
};

struct stages {
    const struct stages_job *job;
    pthread_mutex_t lock; /* of all below; what a stage does takes far longer */
    pthread_cond_t change;
    atomic_uint changes;
    unsigned waiting, started; /* threads */
    size_t made;               /* items */
    size_t done[STAGES_MAX];   /* items that have passed a stage */
    bool end;                  /* no more items */
};

static inline void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* Can the item go on or, if there is none yet, can one be made? */
static bool is_ready(const struct stages *s, const struct item *i)
{
    if (!i->live)
        return !s->end && s->done[0] == s->made;
    return s->done[i->stage] == i->number;
}

/*
 * Which of a thread's two items to go on with: the current one, else the other, else a new one;
 * NULL: none is ready.
 */
static struct item *choose(struct stages *s, struct item *hand, struct item *other)
{
    struct item *i = hand->live && is_ready(s, hand) ? hand
                     : other->live || hand->live     ? other
                                                     : hand;
    if (!is_ready(s, i))
        i = hand;
    if (!is_ready(s, i))
        return NULL;
    if (!i->live)
        *i = (struct item){.number = s->made++, .live = true};
    return i;
}

/* Usually something changes soon, and going to sleep and waking up would take longer. */
static void wait_for_change(struct stages *s)
{
    enum { SOON = 500 };
    unsigned seen = atomic_load(&s->changes);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; i < SOON && atomic_load(&s->changes) == seen; i++)
        relax();
    pthread_mutex_lock(&s->lock);
    s->waiting++;
    while (atomic_load(&s->changes) == seen)
        pthread_cond_wait(&s->change, &s->lock);
    s->waiting--;
}

static void *work(void *argument)
{
    struct stages *s = argument;
    const struct stages_job *job = s->job;
    struct item own[2] = {{0}};
    unsigned hand = 0;
    pthread_mutex_lock(&s->lock);
    const unsigned first = 2 * s->started++;
    while (!s->end || own[0].live || own[1].live) {
        struct item *i = choose(s, &own[hand], &own[!hand]);
        if (!i) {
            wait_for_change(s);
            continue;
        }
        hand = (unsigned)(i - own);
        pthread_mutex_unlock(&s->lock);
        bool more = job->run(job->user, i->stage, first + hand);
        pthread_mutex_lock(&s->lock);
        s->done[i->stage]++;
        bool none = !i->stage && !more;
        s->end |= none;
        i->live = ++i->stage < job->stages && !none;
        atomic_fetch_add(&s->changes, 1);
        if (s->waiting)
            pthread_cond_broadcast(&s->change);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
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
