#include "base/crew.h"

#include "base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum state { IDLE, PASSED, PREPARING, OPEN };

struct worker {
    struct crew *crew;
    unsigned number;
    pthread_t thread;
};

struct crew {
    struct crew_work work;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum state state;
    void *item;
    size_t next, done; /* parts */
    bool end;
    unsigned threads;
    struct worker *workers;
    struct memory *account; /* account of the creator */
};

/* Does the next piece of work for the current item; false if there is none. The lock is held. */
static bool step(struct crew *c, unsigned worker)
{
    if (c->state == PASSED) {
        c->state = PREPARING;
        pthread_mutex_unlock(&c->lock);
        c->work.prepare(c->work.user, c->item);
        pthread_mutex_lock(&c->lock);
        c->state = OPEN;
        pthread_cond_broadcast(&c->changed);
        return true;
    }
    if (c->state != OPEN || c->next == c->work.parts)
        return false;
    size_t part = c->next++;
    assert(part < c->work.parts && c->done <= part);
    pthread_mutex_unlock(&c->lock);
    c->work.part(c->work.user, c->item, part, worker);
    pthread_mutex_lock(&c->lock);
    if (++c->done < c->work.parts)
        return true;
    pthread_mutex_unlock(&c->lock);
    c->work.finish(c->work.user, c->item);
    pthread_mutex_lock(&c->lock);
    c->state = IDLE;
    pthread_cond_broadcast(&c->changed);
    return true;
}

static void *run(void *context)
{
    struct worker *w = context;
    struct crew *c = w->crew;
    memory_enter(c->account);
    pthread_mutex_lock(&c->lock);
    while (!c->end || c->state != IDLE)
        if (!step(c, w->number))
            pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct crew *crew_new(unsigned threads, const struct crew_work *work)
{
    struct crew *c = memory_get(1, sizeof *c);
    c->work = *work;
    c->account = memory_current();
    c->workers = memory_get(threads + 1, sizeof *c->workers);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    while (c->threads < threads) {
        struct worker *w = &c->workers[c->threads];
        *w = (struct worker){.crew = c, .number = c->threads + 1};
        if (pthread_create(&w->thread, NULL, run, w))
            break;
        c->threads++;
    }
    return c;
}

unsigned crew_threads(const struct crew *c)
{
    return c->threads;
}

/* The owner's share of the work. The lock is held. */
static void help(struct crew *c)
{
    while (c->state != IDLE)
        if (!step(c, 0))
            pthread_cond_wait(&c->changed, &c->lock);
}

void crew_pass(struct crew *c, void *item)
{
    pthread_mutex_lock(&c->lock);
    help(c);
    assert(c->state == IDLE);
    c->item = item;
    c->next = c->done = 0;
    c->state = PASSED;
    pthread_cond_broadcast(&c->changed);
    if (!c->threads)
        help(c);
    pthread_mutex_unlock(&c->lock);
}

void crew_free(struct crew *c)
{
    pthread_mutex_lock(&c->lock);
    help(c);
    c->end = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->threads; i++)
        pthread_join(c->workers[i].thread, NULL);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    memory_free(c->workers);
    memory_free(c);
}
