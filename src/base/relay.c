#include "base/relay.h"

#include "base/chunks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct relay {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t some, free; /* half of the items are to be used; are free */
    size_t passed, used;       /* items so far */
    bool end;
    void (*use)(void *user, void *item);
    void *user;
    size_t size, count, half;
    char *items;
};

static void *item_of(const struct relay *r, size_t index)
{
    return r->items + index % r->count * r->size;
}

/*
 * Both sides wait for half of the items: waking a thread for each would cost more than most items
 * do.
 */
static void *run(void *context)
{
    struct relay *r = context;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (r->passed - r->used < r->half && !r->end)
            pthread_cond_wait(&r->some, &r->lock);
        if (r->passed == r->used)
            break;
        do {
            pthread_mutex_unlock(&r->lock);
            r->use(r->user, item_of(r, r->used));
            pthread_mutex_lock(&r->lock);
            if (r->passed - ++r->used == r->half)
                pthread_cond_signal(&r->free);
        } while (r->passed != r->used);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

struct relay *relay_new(size_t items, size_t size, void (*use)(void *user, void *item), void *user)
{
    struct relay *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->size = (size + CHUNKS_APART - 1) / CHUNKS_APART * CHUNKS_APART;
    r->items = aligned_alloc(CHUNKS_APART, items * r->size);
    r->count = items;
    r->half = items / 2;
    r->use = use;
    r->user = user;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->some, NULL);
    pthread_cond_init(&r->free, NULL);
    if (r->items) {
        memset(r->items, 0, items * r->size);
        if (!pthread_create(&r->thread, NULL, run, r))
            return r;
    }
    free(r->items);
    free(r);
    return NULL;
}

void *relay_item(struct relay *r)
{
    return item_of(r, r->passed);
}

void relay_pass(struct relay *r)
{
    pthread_mutex_lock(&r->lock);
    if (++r->passed - r->used >= r->half)
        pthread_cond_signal(&r->some);
    if (r->passed - r->used == r->count)
        while (r->passed - r->used > r->half)
            pthread_cond_wait(&r->free, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

void relay_free(struct relay *r)
{
    pthread_mutex_lock(&r->lock);
    r->end = true;
    pthread_cond_signal(&r->some);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->free);
    pthread_cond_destroy(&r->some);
    pthread_mutex_destroy(&r->lock);
    free(r->items);
    free(r);
}
