#include "base/crew.h"

#include "base/memory.h"
#include "base/spin.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

struct worker {
    struct crew *crew;
    unsigned number;
    pthread_t thread;
};

struct under_way {
    void *item;
    size_t done; /* parts */
};

struct crew {
    struct crew_work work;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct under_way *items; /* work.items of them, by number */
    size_t passed, finished; /* items */
    size_t next, part;       /* the item and its part to be begun next */
    bool finishing, end;
    pthread_mutex_t turn_lock;
    pthread_cond_t turned;
    atomic_size_t *turns; /* by kind */
    atomic_uint asleep;   /* threads that wait for a turn; changed with turn_lock held */
    unsigned threads;
    struct worker *workers;
    struct memory *account; /* account of the creator */
};

static struct under_way *nth(struct crew *c, size_t number)
{
    return &c->items[number % c->work.items];
}

/* Finishes what can be, unless another thread does. The lock is held. */
static void finish(struct crew *c)
{
    while (!c->finishing && c->finished < c->passed && nth(c, c->finished)->done == c->work.parts) {
        c->finishing = true;
        pthread_mutex_unlock(&c->lock);
        c->work.finish(c->work.user, nth(c, c->finished)->item);
        pthread_mutex_lock(&c->lock);
        c->finishing = false;
        c->finished++;
        pthread_cond_broadcast(&c->changed);
    }
}

/* Does the next part; false if there is none. The lock is held. */
static bool step(struct crew *c, unsigned worker)
{
    if (c->next == c->passed)
        return false;
    const size_t number = c->next, part = c->part++;
    struct under_way *u = nth(c, number);
    assert(number < c->passed && number - c->finished < c->work.items && u->done <= part);
    if (c->part == c->work.parts) {
        c->part = 0;
        c->next++;
    }
    pthread_mutex_unlock(&c->lock);
    c->work.part(c->work.user, u->item, number, part, worker);
    pthread_mutex_lock(&c->lock);
    u->done++;
    finish(c);
    return true;
}

static void *run(void *context)
{
    struct worker *w = context;
    struct crew *c = w->crew;
    memory_enter(c->account);
    pthread_mutex_lock(&c->lock);
    while (!c->end)
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
    c->items = memory_get(work->items, sizeof *c->items);
    c->turns = memory_get(work->turns + 1, sizeof *c->turns);
    c->workers = memory_get(threads + 1, sizeof *c->workers);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    pthread_mutex_init(&c->turn_lock, NULL);
    pthread_cond_init(&c->turned, NULL);
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

/* The lock is held. */
static void wait_for(struct crew *c, size_t finished)
{
    while (c->finished < finished)
        if (!step(c, 0))
            pthread_cond_wait(&c->changed, &c->lock);
}

void crew_pass(struct crew *c, void *item)
{
    pthread_mutex_lock(&c->lock);
    if (c->passed >= c->work.items)
        wait_for(c, c->passed - c->work.items + 1);
    assert(c->passed - c->finished < c->work.items);
    *nth(c, c->passed++) = (struct under_way){.item = item};
    pthread_cond_broadcast(&c->changed);
    if (!c->threads)
        wait_for(c, c->passed);
    pthread_mutex_unlock(&c->lock);
}

void crew_wait(struct crew *c, size_t items)
{
    pthread_mutex_lock(&c->lock);
    wait_for(c, items);
    pthread_mutex_unlock(&c->lock);
}

void crew_turn(struct crew *c, size_t kind, size_t count)
{
    for (unsigned i = 0; i < SPIN_TURNS; i++) {
        if (atomic_load(&c->turns[kind]) >= count)
            return;
        spin_relax();
    }
    pthread_mutex_lock(&c->turn_lock);
    atomic_fetch_add(&c->asleep, 1);
    while (atomic_load(&c->turns[kind]) < count)
        pthread_cond_wait(&c->turned, &c->turn_lock);
    atomic_fetch_sub(&c->asleep, 1);
    pthread_mutex_unlock(&c->turn_lock);
}

/* Either the sleeper sees that it is over, or this thread sees that there is a sleeper. */
void crew_next(struct crew *c, size_t kind)
{
    atomic_fetch_add(&c->turns[kind], 1);
    if (!atomic_load(&c->asleep))
        return;
    pthread_mutex_lock(&c->turn_lock);
    pthread_cond_broadcast(&c->turned);
    pthread_mutex_unlock(&c->turn_lock);
}

void crew_free(struct crew *c)
{
    pthread_mutex_lock(&c->lock);
    wait_for(c, c->passed);
    c->end = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->threads; i++)
        pthread_join(c->workers[i].thread, NULL);
    pthread_cond_destroy(&c->turned);
    pthread_mutex_destroy(&c->turn_lock);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    memory_free(c->workers);
    memory_free(c->turns);
    memory_free(c->items);
    memory_free(c);
}
