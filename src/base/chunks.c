#include "base/chunks.h"

#include "base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum phase { FREE, BUSY, DONE };

struct slot {
    struct chunks_state from, to;
    bool guessed;
    enum phase phase;
    void *result;
};

struct chunks {
    struct memory *account; /* account of the creator */
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* work: for the other threads; done: for the caller's */
    pthread_t others[CHUNKS_THREADS_MAX];
    unsigned threads, slot_count, started;
    bool quit;
    const struct chunks_job *job; /* NULL: none */
    size_t next, first_open, end; /* chunks: next to take; first not yet reduced; past the last */
    struct slot slots[];
};

static struct slot *slot_of(struct chunks *c, size_t chunk)
{
    return &c->slots[chunk % c->slot_count];
}

static bool available(const struct chunks *c)
{
    return c->job && c->next < c->end && c->next - c->first_open < c->slot_count;
}

static size_t chunk_end(const struct chunks_job *job, size_t chunk)
{
    size_t from = chunk * job->chunk;
    return job->size - from > job->chunk ? from + job->chunk : job->size;
}

/* Takes the next chunk and works on it from a guess. The lock is held on entry and return. */
static void take_one(struct chunks *c, unsigned thread)
{
    const struct chunks_job *job = c->job;
    assert(available(c));
    size_t chunk = c->next++, to = chunk_end(job, chunk);
    struct slot *slot = slot_of(c, chunk);
    slot->phase = BUSY;
    pthread_mutex_unlock(&c->lock);
    slot->guessed = job->guess(job->user, chunk * job->chunk, to, &slot->from);
    if (slot->guessed) {
        slot->to = slot->from;
        job->run(job->user, thread, &slot->to, to, slot->result);
    }
    pthread_mutex_lock(&c->lock);
    slot->phase = DONE;
}

static void *other_thread(void *argument)
{
    struct chunks *c = argument;
    memory_enter(c->account);
    pthread_mutex_lock(&c->lock);
    unsigned thread = ++c->started;
    while (!c->quit) {
        if (available(c)) {
            take_one(c, thread);
            pthread_cond_signal(&c->done);
        } else {
            pthread_cond_wait(&c->work, &c->lock);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct chunks *chunks_new(unsigned threads, size_t result_size)
{
    threads = threads < 1 ? 1 : threads > CHUNKS_THREADS_MAX ? CHUNKS_THREADS_MAX : threads;
    unsigned slot_count = threads == 1 ? 1 : 3 * threads;
    result_size = (result_size + CHUNKS_APART - 1) / CHUNKS_APART * CHUNKS_APART;
    size_t head = sizeof(struct chunks) + slot_count * sizeof(struct slot);
    head = (head + CHUNKS_APART - 1) / CHUNKS_APART * CHUNKS_APART;
    struct chunks *c = aligned_alloc(CHUNKS_APART, head + slot_count * result_size);
    if (!c)
        return NULL;
    memset(c, 0, head + slot_count * result_size);
    c->slot_count = slot_count;
    c->account = memory_current();
    for (unsigned i = 0; i < slot_count; i++)
        c->slots[i].result = (char *)c + head + i * result_size;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    pthread_cond_init(&c->done, NULL);
    for (c->threads = 1; c->threads < threads; c->threads++)
        if (pthread_create(&c->others[c->threads], NULL, other_thread, c))
            break;
    return c;
}

unsigned chunks_threads(const struct chunks *c)
{
    return c->threads;
}

void chunks_free(struct chunks *c, void (*fini)(void *result))
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 1; i < c->threads; i++)
        pthread_join(c->others[i], NULL);
    for (unsigned i = 0; fini && i < c->slot_count; i++)
        fini(c->slots[i].result);
    pthread_cond_destroy(&c->done);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/*
 * Finishes one chunk whose beginning is proven. If another thread works on it, this one takes other
 * chunks meanwhile. Sets *ok to false if reduce ended the job. Returns whether there may be more.
 * The lock is held on entry and return.
 */
static bool settle(struct chunks *c, size_t chunk, struct chunks_state *state, bool *ok)
{
    const struct chunks_job *job = c->job;
    struct slot *slot = slot_of(c, chunk);
    size_t to = chunk_end(job, chunk);
    bool mine = c->next == chunk, empty = state->position >= to;
    if (mine)
        c->next++;
    while (!mine && slot->phase != DONE) {
        if (available(c))
            take_one(c, 0);
        else
            pthread_cond_wait(&c->done, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    if (!empty) {
        if (!mine && slot->guessed && !memcmp(&slot->from, state, sizeof *state))
            *state = slot->to;
        else
            job->run(job->user, 0, state, to, slot->result);
        *ok = job->reduce(job->user, slot->result);
    }
    pthread_mutex_lock(&c->lock);
    slot->phase = FREE;
    c->first_open++;
    pthread_cond_signal(&c->work);
    return *ok && state->position >= to;
}

bool chunks_run(struct chunks *c, const struct chunks_job *job, struct chunks_state *state)
{
    bool ok = true, more = true;
    if (state->position >= job->size)
        return true;
    pthread_mutex_lock(&c->lock);
    c->job = job;
    c->next = c->first_open = state->position / job->chunk;
    c->end = (job->size - 1) / job->chunk + 1;
    if (c->threads > 1 && c->end - c->next > 1)
        pthread_cond_broadcast(&c->work);
    for (size_t chunk = c->next; more && chunk < c->end; chunk++)
        more = settle(c, chunk, state, &ok);
    /* Ended early: no thread begins another chunk; those at work finish theirs. */
    c->end = 0;
    for (unsigned i = 0; i < c->slot_count; i++) {
        while (c->slots[i].phase == BUSY)
            pthread_cond_wait(&c->done, &c->lock);
        c->slots[i].phase = FREE;
    }
    c->job = NULL;
    pthread_mutex_unlock(&c->lock);
    return ok;
}
