/*
 * Samples on request: another thread runs the pass, and waits with each batch until the next one is
 * asked for. Only one of that thread and the host works at any time.
 */
#include "pass.h"

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>

struct pull {
    struct spex_analysis *analysis;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    const struct spex_sample *samples; /* samples given to the host; NULL: it waits for some */
    size_t count;
    bool ended, closing; /* the pass has ended; the analysis is being closed */
    enum spex_status status;
    struct spex_error error;
};

static enum spex_status hand_over(void *context, const struct spex_sample *samples, size_t count)
{
    struct pull *p = context;
    pthread_mutex_lock(&p->lock);
    p->samples = samples;
    p->count = count;
    pthread_cond_signal(&p->change);
    while (p->samples && !p->closing)
        pthread_cond_wait(&p->change, &p->lock);
    const bool closing = p->closing;
    pthread_mutex_unlock(&p->lock);
    return closing ? SPEX_END : SPEX_OK;
}

static void *make_pass(void *context)
{
    struct pull *p = context;
    p->status = spex_analysis_each(p->analysis, hand_over, p, &p->error);
    pthread_mutex_lock(&p->lock);
    p->ended = true;
    pthread_cond_signal(&p->change);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static enum spex_status start(struct spex_analysis *a, struct spex_error *error)
{
    struct pull *p = memory_zeroed(1, sizeof *p);
    if (!p)
        return error_set(error, SPEX_NO_MEMORY, 0, "%s: not enough memory to read it", a->name);
    p->analysis = a;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->change, NULL);
    a->pull = p;
    if (!pthread_create(&p->thread, NULL, make_pass, p))
        return SPEX_OK;
    p->ended = true; /* nothing to wait for */
    p->thread = pthread_self();
    pull_end(a);
    return error_set(error, SPEX_NO_MEMORY, 0, "%s: no thread can be had to read it", a->name);
}

void pull_end(struct spex_analysis *a)
{
    struct pull *p = a->pull;
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_signal(&p->change);
    pthread_mutex_unlock(&p->lock);
    if (!pthread_equal(p->thread, pthread_self()))
        pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->change);
    pthread_mutex_destroy(&p->lock);
    memory_free(p);
    a->pull = NULL;
}

enum spex_status spex_analysis_next(struct spex_analysis *a, const struct spex_sample **samples,
                                    size_t *count, struct spex_error *error)
{
    assert(a && samples && count);
    MEMORY_OF(a->account);
    const bool first = !a->pull;
    enum spex_status status = first ? start(a, error) : SPEX_OK;
    if (status != SPEX_OK)
        return status;
    struct pull *p = a->pull;
    pthread_mutex_lock(&p->lock);
    if (!first) { /* the host is done with the previous samples */
        p->samples = NULL;
        pthread_cond_signal(&p->change);
    }
    while (!p->samples && !p->ended)
        pthread_cond_wait(&p->change, &p->lock);
    const struct spex_sample *got = p->samples;
    const size_t n = p->count;
    pthread_mutex_unlock(&p->lock);
    if (got) {
        *samples = got;
        *count = n;
        return SPEX_OK;
    }
    status = p->status;
    if (status != SPEX_OK && error)
        *error = p->error;
    pull_end(a);
    return status == SPEX_OK ? SPEX_END : status;
}
