#include "base/turns.h"

#include "base/chunks.h"
#include "base/jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 4 }; /* items per thread */

struct worker {
    struct turns *turns;
    unsigned number;
    pthread_t thread;
};

struct turns {
    struct turns_work work;
    pthread_mutex_t lock;
    pthread_cond_t some, free;
    size_t passed, taken, put; /* items so far */
    bool putting, end;
    size_t size, count;
    char *items;
    bool *done;
    unsigned threads;
    struct worker workers[JOBS_THREADS];
};

static void *item_of(const struct turns *t, size_t index)
{
    return t->items + index % t->count * t->size;
}

/*
 * Puts the finished items that are next in order, unless another thread is doing so. The
 * lock is held.
 */
static void put_done(struct turns *t)
{
    if (t->putting)
        return;
    t->putting = true;
    while (t->put < t->taken && t->done[t->put % t->count]) {
        t->done[t->put % t->count] = false;
        pthread_mutex_unlock(&t->lock);
        t->work.put(t->work.user, item_of(t, t->put));
        pthread_mutex_lock(&t->lock);
        t->put++;
        pthread_cond_signal(&t->free);
    }
    t->putting = false;
}

static void *run(void *context)
{
    struct worker *w = context;
    struct turns *t = w->turns;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (t->taken == t->passed && !t->end)
            pthread_cond_wait(&t->some, &t->lock);
        if (t->taken == t->passed)
            break;
        const size_t index = t->taken++;
        pthread_mutex_unlock(&t->lock);
        t->work.work(t->work.user, item_of(t, index), w->number);
        pthread_mutex_lock(&t->lock);
        t->done[index % t->count] = true;
        put_done(t);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

struct turns *turns_new(unsigned threads, size_t size, const struct turns_work *work)
{
    struct turns *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    threads = threads < JOBS_THREADS ? threads : JOBS_THREADS;
    t->work = *work;
    t->size = (size + CHUNKS_APART - 1) / CHUNKS_APART * CHUNKS_APART;
    t->count = AHEAD * (size_t)threads;
    t->items = aligned_alloc(CHUNKS_APART, t->count * t->size);
    t->done = calloc(t->count, sizeof *t->done);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->some, NULL);
    pthread_cond_init(&t->free, NULL);
    if (t->items && t->done) {
        memset(t->items, 0, t->count * t->size);
        for (; t->threads < threads; t->threads++) {
            struct worker *w = &t->workers[t->threads];
            *w = (struct worker){.turns = t, .number = t->threads};
            if (pthread_create(&w->thread, NULL, run, w))
                break;
        }
    }
    if (t->threads)
        return t;
    turns_free(t, NULL);
    return NULL;
}

unsigned turns_threads(const struct turns *t)
{
    return t->threads;
}

void *turns_item(struct turns *t)
{
    return item_of(t, t->passed);
}

void turns_pass(struct turns *t)
{
    pthread_mutex_lock(&t->lock);
    t->passed++;
    pthread_cond_signal(&t->some);
    while (t->passed - t->put == t->count)
        pthread_cond_wait(&t->free, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void turns_free(struct turns *t, void (*fini)(void *item))
{
    pthread_mutex_lock(&t->lock);
    t->end = true;
    pthread_cond_broadcast(&t->some);
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i < t->threads; i++)
        pthread_join(t->workers[i].thread, NULL);
    for (size_t i = 0; fini && i < t->count; i++)
        fini((char *)t->items + i * t->size);
    pthread_cond_destroy(&t->free);
    pthread_cond_destroy(&t->some);
    pthread_mutex_destroy(&t->lock);
    free(t->items);
    free(t->done);
    free(t);
}
