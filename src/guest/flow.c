/* Rings and the model's thread: who runs when. What words mean is in account.c. */
#include "flow.h"

#include "account.h"
#include "need.h"
#include "vcpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * The lock is held by whoever runs the model, and to make or end a flow. The guest's
 * threads touch their own ring alone; head and tail are all that is shared.
 */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, space; /* the model's thread waits for work, the guest's for space */
    pthread_t thread;
    bool threaded, running, stop;
    uint32_t sleeping; /* the model's thread is */
    uint32_t waiting;  /* threads of the guest that are */
    uint32_t wanted;   /* threads of the guest that want the lock */
    unsigned stalled;  /* milliseconds that a thread that is behind let us wait */
    struct flow *flows[MAX_VCPUS];
    unsigned count;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER,
         .work = PTHREAD_COND_INITIALIZER,
         .space = PTHREAD_COND_INITIALIZER};

enum { PATIENCE = 20 }; /* milliseconds */

static uint64_t head_of(const struct flow *f)
{
    return __atomic_load_n(&f->head, __ATOMIC_ACQUIRE);
}

static void take_lock(void)
{
    __atomic_fetch_add(&all.wanted, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&all.lock);
    __atomic_fetch_sub(&all.wanted, 1, __ATOMIC_RELAXED);
}

/* ---- the model's side, under the lock ---- */

/*
 * Whose turn it is: the one that is furthest behind in modelled time. NULL if there is
 * nothing to do, or if that one is running and has not told yet what it did (*behind).
 * limit: how far it may go.
 */
static struct flow *choose(uint64_t *limit, bool *behind)
{
    struct flow *best = NULL;
    uint64_t first = UINT64_MAX, second = UINT64_MAX;
    *behind = false;
    if (all.count == 1) {
        *limit = UINT64_MAX;
        return account_ready(all.flows[0]) ? all.flows[0] : NULL;
    }
    for (unsigned i = 0; i < all.count; i++) {
        struct flow *f = all.flows[i];
        bool ready = account_ready(f);
        if (!ready && f->idle)
            continue;
        uint64_t clock = account_clock(f);
        if (clock < first) {
            second = first;
            first = clock;
            best = ready ? f : NULL;
            *behind = !ready;
        } else if (clock < second) {
            second = clock;
        }
    }
    if (*behind && all.stalled >= PATIENCE) { /* QEMU may hold it up until another one goes on */
        for (unsigned i = 0; i < all.count; i++)
            if (account_ready(all.flows[i]) &&
                (!best || account_clock(all.flows[i]) < account_clock(best)))
                best = all.flows[i];
        second = best ? account_clock(best) : 0;
        all.stalled = best ? PATIENCE - 5 : all.stalled;
    }
    *limit = second < UINT64_MAX - task_run->model.turn ? second + task_run->model.turn : second;
    return best;
}

static void free_words(struct flow *f)
{
    __atomic_store_n(&f->tail, f->at, __ATOMIC_RELEASE);
}

/* One turn of one flow. */
static bool pump(bool *behind)
{
    uint64_t limit;
    struct flow *f = choose(&limit, behind);
    if (!f)
        return false;
    if (!*behind)
        all.stalled = 0;
    account_turn(f, limit, FLOW_RING / 16);
    free_words(f);
    return true;
}

static struct timespec in_a_millisecond(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static void wake_guests(void)
{
    if (!__atomic_load_n(&all.waiting, __ATOMIC_SEQ_CST))
        return;
    for (unsigned i = 0; i < all.count; i++) {
        struct flow *f = all.flows[i];
        if (f->waits &&
            (f->tail >= f->wants || (!f->drains && head_of(f) - f->tail < FLOW_RING / 2))) {
            pthread_cond_broadcast(&all.space);
            return;
        }
    }
}

static void *run_model(void *unused)
{
    pthread_mutex_lock(&all.lock);
    while (!all.stop) {
        bool behind;
        if (pump(&behind)) {
            wake_guests();
            if (__atomic_load_n(&all.wanted, __ATOMIC_RELAXED)) {
                pthread_mutex_unlock(&all.lock);
                sched_yield();
                pthread_mutex_lock(&all.lock);
            }
            continue;
        }
        __atomic_store_n(&all.sleeping, 1, __ATOMIC_SEQ_CST);
        if (!pump(&behind)) { /* who publishes from here on will wake us */
            struct timespec until = in_a_millisecond();
            if (pthread_cond_timedwait(&all.work, &all.lock, &until) == ETIMEDOUT && behind)
                all.stalled++;
        }
        __atomic_store_n(&all.sleeping, 0, __ATOMIC_SEQ_CST);
        wake_guests();
    }
    pthread_mutex_unlock(&all.lock);
    return unused;
}

static void start_thread(void)
{
    sigset_t every, old;
    all.threaded = task_run->model.thread;
    all.stop = false;
    if (!all.threaded)
        return;
    sigfillset(&every); /* the guest's signals are for the guest's threads */
    pthread_sigmask(SIG_SETMASK, &every, &old);
    if (pthread_create(&all.thread, NULL, run_model, NULL))
        all.threaded = false; /* then the guest's threads do it */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    all.running = true;
}

/* ---- the guest's side ---- */

static uint64_t total(const struct vcpu *v)
{
    return v->flow->lap + (uint64_t)(v->hot->at - v->flow->ring);
}

void flow_publish(struct vcpu *v)
{
    __atomic_store_n(&v->flow->head, total(v), __ATOMIC_SEQ_CST);
    if (all.threaded && __atomic_load_n(&all.sleeping, __ATOMIC_SEQ_CST)) {
        take_lock();
        pthread_cond_signal(&all.work);
        pthread_mutex_unlock(&all.lock);
    }
}

/* Until the model has read so far. */
static void wait_for(struct flow *f, uint64_t tail, bool drains)
{
    if (!all.running)
        start_thread(); /* not before there is something to do: QEMU forks early */
    while (__atomic_load_n(&f->tail, __ATOMIC_ACQUIRE) < tail) {
        bool behind = false;
        take_lock();
        if (all.threaded) {
            f->waits = true;
            f->drains = drains;
            f->wants = tail;
            __atomic_fetch_add(&all.waiting, 1, __ATOMIC_SEQ_CST);
            pthread_cond_signal(&all.work);
            struct timespec until = in_a_millisecond();
            if (f->tail < tail)
                pthread_cond_timedwait(&all.space, &all.lock, &until);
            __atomic_fetch_sub(&all.waiting, 1, __ATOMIC_SEQ_CST);
            f->waits = false;
            pthread_mutex_unlock(&all.lock);
            continue;
        }
        bool done = pump(&behind);
        if (!done && behind)
            all.stalled++;
        pthread_mutex_unlock(&all.lock);
        if (!done)
            nanosleep(&(struct timespec){.tv_nsec = behind ? 1000000 : 1000}, NULL);
    }
}

void flow_turn(struct hot *h)
{
    struct vcpu *v = h->vcpu;
    struct flow *f = v->flow;
    if (!v->live) { /* the process ends on another thread */
        h->at -= FLOW_CHUNK;
        return;
    }
    if (h->at == f->ring + FLOW_RING) {
        f->lap += FLOW_RING;
        h->at = f->ring;
    }
    uint64_t now = total(v);
    flow_publish(v);
    if (now + FLOW_CHUNK > FLOW_RING)
        wait_for(f, now + FLOW_CHUNK - FLOW_RING, false);
}

void flow_drain(struct vcpu *v)
{
    struct flow *f = v->flow;
    flow_publish(v);
    wait_for(f, f->head, true);
}

static void push(struct vcpu *v, uint64_t word)
{
    struct hot *h = v->hot;
    *h->at++ = word;
    if (!((uintptr_t)h->at % (FLOW_CHUNK * sizeof word)))
        flow_turn(h);
}

void flow_access(struct vcpu *v, uint64_t word)
{
    push(v, word);
}

void flow_mark(struct vcpu *v, enum flow_mark mark, uint64_t value)
{
    push(v, FLOW_MARK | (uint64_t)mark << 48 | (value & FLOW_VALUE));
}

uint64_t flow_clock(const struct vcpu *v)
{
    return account_clock(v->flow);
}

uint64_t flow_call_cycles(int64_t number, int64_t result)
{
    enum { SYSCALL_OTHER = 800 };
    uint64_t bytes = result > 0 ? (uint64_t)result : 0;
    switch (number) {
#define SYSCALL(n, name, cycles, moves)                                                            \
    case n:                                                                                        \
        return cycles + ((moves) ? bytes / 16 : 0);
#include "syscalls.def"
    }
    return SYSCALL_OTHER;
}

/* ---- life ---- */

void flow_begin(struct vcpu *v, int cpu, uint64_t start)
{
    struct hot *h = v->hot;
    if (!h->ring) /* kept for who has this number next */
        h->ring = need(aligned_alloc(FLOW_CHUNK * sizeof *h->ring, FLOW_RING * sizeof *h->ring));
    take_lock();
    struct flow *f = account_new(v, cpu);
    f->ring = h->at = h->ring;
    v->flow = f;
    account_begin(f, start);
    all.flows[all.count++] = f;
    pthread_mutex_unlock(&all.lock);
}

void flow_begin_again(struct vcpu *v, uint64_t start)
{
    account_begin(v->flow, start);
}

static void end_locked(struct flow *f)
{
    account_finish(f);
    while (account_turn(f, UINT64_MAX, UINT32_MAX))
        ;
    account_free(f);
    for (unsigned i = 0; i < all.count; i++)
        if (all.flows[i] == f)
            all.flows[i] = all.flows[--all.count];
}

void flow_end(struct vcpu *v)
{
    account_finish(v->flow);
    flow_drain(v);
    take_lock();
    struct flow *f = v->flow;
    v->flow = NULL;
    end_locked(f);
    pthread_mutex_unlock(&all.lock);
    free(f);
}

static void end_all_locked(void)
{
    while (all.count) {
        /* In order of time as far as they go; then what is left of each. */
        bool behind;
        while (all.count > 1 && pump(&behind) && !behind)
            ;
        all.flows[0]->vcpu->live = false;
        end_locked(all.flows[0]); /* not freed: its thread may still run */
    }
}

void flow_end_all(void)
{
    take_lock();
    end_all_locked();
    pthread_mutex_unlock(&all.lock);
}

void flow_rescue(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    __atomic_fetch_add(&all.wanted, 1, __ATOMIC_RELAXED);
    if (!pthread_mutex_timedlock(&all.lock, &until))
        end_all_locked();
}

void flow_before_fork(void)
{
    take_lock();
}

void flow_after_fork(void)
{
    pthread_mutex_unlock(&all.lock);
}

/* The model's thread is not in the child. */
void flow_in_child(struct vcpu *v)
{
    pthread_mutex_init(&all.lock, NULL);
    pthread_cond_init(&all.work, NULL);
    pthread_cond_init(&all.space, NULL);
    all.running = all.threaded = false;
    all.sleeping = all.waiting = all.wanted = 0;
    if (!v) /* QEMU's own */
        return;
    for (unsigned i = 0; i < all.count; i++)
        if (all.flows[i] != v->flow)
            account_forget(all.flows[i]);
    all.flows[0] = v->flow;
    all.count = 1;
}
