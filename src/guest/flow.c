/* Rings and the model's thread: who runs when. account.c defines what words mean. */
#include "flow.h"

#include "account.h"
#include "need.h"
#include "plugin.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * The lock of order.h protects the model, and making and ending flows. The guest's threads touch
 * only their own ring; the only shared members are head and tail. A guest with one thread has a
 * thread for the model; several guest threads take turns and run the model themselves.
 */
static struct {
    pthread_cond_t work, space; /* the model's thread waits for work, the guest's for space */
    pthread_t thread;
    bool threaded, running, stop;
    uint32_t model_asleep;
    uint32_t guest_waiting;
} all = {.work = PTHREAD_COND_INITIALIZER, .space = PTHREAD_COND_INITIALIZER};

static uint64_t head_of(const struct flow *f)
{
    return __atomic_load_n(&f->head, __ATOMIC_ACQUIRE);
}

static void take_lock(void)
{
    __atomic_fetch_add(&plugin.order.wanted, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&plugin.order.lock);
    __atomic_fetch_sub(&plugin.order.wanted, 1, __ATOMIC_RELAXED);
}

/* ---- the model's side, under the lock ---- */

static bool pump(void)
{
    return plugin.order.count == 1 &&
           account_turn(plugin.order.flows[0], UINT64_MAX, FLOW_RING / 16);
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

static void wake_guest(void)
{
    if (!__atomic_load_n(&all.guest_waiting, __ATOMIC_SEQ_CST) || plugin.order.count != 1)
        return;
    struct flow *f = plugin.order.flows[0];
    if (f->waits && (f->tail >= f->wants || (!f->drains && head_of(f) - f->tail < FLOW_RING / 2)))
        pthread_cond_broadcast(&all.space);
}

static void *run_model(void *unused)
{
    pthread_mutex_lock(&plugin.order.lock);
    while (!all.stop) {
        if (pump()) {
            wake_guest();
            if (__atomic_load_n(&plugin.order.wanted, __ATOMIC_RELAXED)) {
                pthread_mutex_unlock(&plugin.order.lock);
                sched_yield();
                pthread_mutex_lock(&plugin.order.lock);
            }
            continue;
        }
        __atomic_store_n(&all.model_asleep, 1, __ATOMIC_SEQ_CST);
        if (!pump()) { /* a thread that publishes words from now on will wake us */
            struct timespec until = in_a_millisecond();
            pthread_cond_timedwait(&all.work, &plugin.order.lock, &until);
        }
        __atomic_store_n(&all.model_asleep, 0, __ATOMIC_SEQ_CST);
        wake_guest();
    }
    pthread_mutex_unlock(&plugin.order.lock);
    return unused;
}

static void start_thread(void)
{
    sigset_t every, old;
    all.threaded = plugin.run->model.thread && !plugin.user.sampled;
    all.stop = false;
    if (!all.threaded)
        return;
    sigfillset(&every); /* the guest's signals are for the guest's threads */
    pthread_sigmask(SIG_SETMASK, &every, &old);
    if (pthread_create(&all.thread, NULL, run_model, NULL))
        all.threaded = false; /* the guest's threads run the model themselves */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    all.running = true;
}

/* ---- the guest's side ---- */

static uint64_t total(const struct vcpu *v)
{
    return v->flow->lap + (uint64_t)(v->hot->at - v->flow->ring);
}

/* Makes the words of a ring up to here readable. */
static void publish(struct vcpu *v)
{
    __atomic_store_n(&v->flow->head, total(v), __ATOMIC_SEQ_CST);
    if (all.threaded && __atomic_load_n(&all.model_asleep, __ATOMIC_SEQ_CST)) {
        take_lock();
        pthread_cond_signal(&all.work);
        pthread_mutex_unlock(&plugin.order.lock);
    }
}

/* Waits until the model has read this far. */
static void wait_for(struct flow *f, uint64_t tail, bool drains)
{
    if (!all.running)
        start_thread(); /* started only when there is work: QEMU forks early */
    while (__atomic_load_n(&f->tail, __ATOMIC_ACQUIRE) < tail) {
        take_lock();
        if (all.threaded) {
            f->waits = true;
            f->drains = drains;
            f->wants = tail;
            __atomic_fetch_add(&all.guest_waiting, 1, __ATOMIC_SEQ_CST);
            pthread_cond_signal(&all.work);
            struct timespec until = in_a_millisecond();
            if (f->tail < tail)
                pthread_cond_timedwait(&all.space, &plugin.order.lock, &until);
            __atomic_fetch_sub(&all.guest_waiting, 1, __ATOMIC_SEQ_CST);
            f->waits = false;
            pthread_mutex_unlock(&plugin.order.lock);
            continue;
        }
        pump();
        pthread_mutex_unlock(&plugin.order.lock);
    }
}

void flow_heap(struct vcpu *v, uint64_t time)
{
    struct flow *f = v->flow;
    uint64_t n = f->heap_count, now = total(v);
    if (n && f->heap[(n - 1) % FLOW_HEAP].at == now) { /* not read yet, since no word follows it */
        f->heap[(n - 1) % FLOW_HEAP].time = time;
        return;
    }
    f->heap[n % FLOW_HEAP].at = now;
    f->heap[n % FLOW_HEAP].time = time;
    __atomic_store_n(&f->heap_count, n + 1, __ATOMIC_RELEASE);
}

/* Notices what others did to the heap before this thread's turn. */
static void see_heap(struct vcpu *v)
{
    if (plugin.user.allocs)
        flow_heap(v, allocs_time());
}

/* A thread asks for its turn. It counts as awake, though it may wait for the lock. */
static void enter(struct flow *f)
{
    __atomic_store_n(&f->inside, true, __ATOMIC_SEQ_CST);
    take_lock();
}

static void leave(struct flow *f)
{
    __atomic_store_n(&f->inside, false, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&plugin.order.lock);
}

static bool several(void)
{
    return __atomic_load_n(&plugin.order.count, __ATOMIC_RELAXED) > 1;
}

/* Sets the next word at which flow_turn() is called. */
static void set_stop(struct hot *h)
{
    size_t step = several() ? h->vcpu->flow->words : FLOW_CHUNK, at = (size_t)(h->at - h->ring);
    h->stop = h->ring + (at / step + 1) * step;
}

void flow_turn(struct hot *h)
{
    struct vcpu *v = h->vcpu;
    struct flow *f = v->flow;
    if (!v->live) { /* the process is ending on another thread */
        h->at = h->ring;
        h->stop = h->at + FLOW_CHUNK;
        return;
    }
    if (h->at == f->ring + FLOW_RING) {
        f->lap += FLOW_RING;
        h->at = f->ring;
    }
    uint64_t now = total(v);
    publish(v);
    if (several()) {
        enter(f);
        order_check(f, true);
        leave(f);
        see_heap(v);
    } else if (plugin.user.sampled && !f->detail.learns) {
        f->detail.near = 0; /* single-threaded again */
    } else if (now + FLOW_CHUNK > FLOW_RING) {
        wait_for(f, now + FLOW_CHUNK - FLOW_RING, false);
    }
    set_stop(h);
}

void flow_yield(struct hot *h)
{
    struct flow *f = h->vcpu->flow;
    if (h->vcpu->live && several() && ++f->yields >= f->patience)
        flow_turn(h);
}

void flow_settle(struct vcpu *v)
{
    publish(v);
    take_lock();
    while (account_turn(v->flow, UINT64_MAX, UINT32_MAX))
        ;
    pthread_mutex_unlock(&plugin.order.lock);
}

void flow_drain(struct vcpu *v)
{
    struct flow *f = v->flow;
    if (several()) {
        flow_settle(v);
    } else {
        publish(v);
        wait_for(f, f->head, true);
    }
}

void flow_call(struct vcpu *v, enum flow_call call)
{
    publish(v);
    if (!several())
        return;
    enter(v->flow);
    order_call(v->flow, call);
    leave(v->flow);
}

void flow_return(struct vcpu *v, enum flow_call call, int64_t result)
{
    /* even if there are no others any more */
    __atomic_store_n(&v->flow->away, false, __ATOMIC_RELEASE);
    if (!several())
        return;
    enter(v->flow);
    order_return(v->flow, call, pause_over(&v->flow->pause, result));
    leave(v->flow);
    see_heap(v);
    set_stop(v->hot); /* the call may have made the second thread */
}

void flow_mark(struct vcpu *v, enum flow_mark mark, uint64_t value)
{
    uint64_t word = FLOW_MARK | (uint64_t)mark << 48 | (value & FLOW_VALUE);
    const struct block *last = v->hot->open;
    v->hot->open = NULL;
    if (v->hot->far)
        detail_mark(v, last, word);
    else if (last && account_judge(v->flow, last, word))
        word |= FLOW_WRONG;
    hot_push(v->hot, word);
    if (!plugin.user.sampled)
        return;
    if (!several())
        flow_settle(v);
    detail_resume(v->flow);
}

uint64_t flow_clock(const struct vcpu *v)
{
    return account_clock(v->flow);
}

uint64_t flow_now(struct vcpu *v, bool in_block)
{
    struct flow *f = v->flow;
    if (v->hot->far)
        return v->hot->far_clock >> SPEX_FAR_FRACTION;
    if (!several()) {
        flow_settle(v);
        return account_clock(f);
    }
    publish(v);
    enter(f);
    order_check(f, in_block);
    leave(f);
    see_heap(v);
    set_stop(v->hot);
    return account_clock(f);
}

uint64_t flow_busy(struct vcpu *v, bool process)
{
    take_lock();
    uint64_t cycles = process ? plugin.order.busy : account_busy(v->flow);
    for (unsigned i = 0; process && i < plugin.order.count; i++)
        cycles += account_busy(plugin.order.flows[i]);
    pthread_mutex_unlock(&plugin.order.lock);
    return cycles;
}

enum flow_call flow_call_kind(int64_t number, uint64_t operation)
{
    enum { FUTEX = 98, OPERATION = 127 };
    static const uint8_t futex[] = {
        FLOW_FUTEX_WAIT, FLOW_FUTEX_WAKE, FLOW_PLAIN,      FLOW_FUTEX_MOVE, FLOW_FUTEX_MOVE,
        FLOW_FUTEX_MOVE, FLOW_FUTEX_WAIT, FLOW_FUTEX_WAKE, FLOW_PLAIN,      FLOW_FUTEX_WAIT,
        FLOW_FUTEX_WAKE, FLOW_FUTEX_WAIT, FLOW_FUTEX_MOVE, /* _OP and REQUEUE: two words */
        FLOW_FUTEX_WAIT};
    operation &= OPERATION;
    if (number == FUTEX && operation < sizeof futex)
        return futex[operation];
    switch (number) {
#define SYSCALL(n, name, cycles, moves, kind)                                                      \
    case n:                                                                                        \
        return FLOW_##kind;
#include "account/syscalls.def"
    }
    return FLOW_WAKES; /* unknown calls might wake a thread */
}

uint64_t flow_call_cycles(int64_t number, int64_t result)
{
    enum { SYSCALL_OTHER = 800 };
    uint64_t bytes = result > 0 ? (uint64_t)result : 0;
    switch (number) {
#define SYSCALL(n, name, cycles, moves, kind)                                                      \
    case n:                                                                                        \
        return cycles + ((moves) ? bytes / 16 : 0);
#include "account/syscalls.def"
    }
    return SYSCALL_OTHER;
}

/* ---- life ---- */

void flow_begin(struct vcpu *v, int cpu, uint64_t start)
{
    struct hot *h = v->hot;
    if (!h->ring) /* kept for the next thread with this number */
        h->ring = need(aligned_alloc(FLOW_CHUNK * sizeof *h->ring,
                                     FLOW_RING * (sizeof *h->ring + sizeof *flow_partial(NULL))));
    take_lock();
    struct flow *f = account_new(v, cpu);
    f->ring = h->at = h->ring;
    h->timing = f->core;
    h->open = NULL;
    v->flow = f;
    account_begin(f, start);
    order_begin(f);
    pthread_mutex_unlock(&plugin.order.lock);
    see_heap(v);
    set_stop(h);
}

void flow_started(struct vcpu *v)
{
    v->hot->stop = v->hot->at + 1;
}

void flow_begin_again(struct vcpu *v, uint64_t start)
{
    if (v->flow->cycles) {
        blame_forget(v->flow->cycles);
        calls_forked(&v->flow->made, v->flow->cycles->number);
    }
    account_begin(v->flow, start);
}

static void end_locked(struct flow *f, uint64_t end)
{
    account_finish(f);
    while (account_turn(f, UINT64_MAX, UINT32_MAX))
        ;
    plugin.order.busy += account_busy(f);
    account_free(f, end);
    order_end(f);
}

void flow_end(struct vcpu *v)
{
    flow_call(v, FLOW_PLAIN); /* a thread ends when it is its turn */
    account_finish(v->flow);
    flow_drain(v);
    flow_abandon(v);
}

void flow_abandon(struct vcpu *v)
{
    struct flow *f = v->flow;
    take_lock();
    v->flow = NULL;
    v->hot->open = NULL;
    end_locked(f, 0);
    pthread_mutex_unlock(&plugin.order.lock);
    free(f->heap);
    free(f->ready.files);
    free(f->cycles);
    free(f);
}

static void end_all_locked(void)
{
    uint64_t end = 0;
    for (unsigned i = 0; i < plugin.order.count; i++) {
        const uint64_t clock = account_clock(plugin.order.flows[i]);
        end = clock > end ? clock : end;
    }
    while (plugin.order.count) {
        plugin.order.flows[0]->vcpu->live = false;
        end_locked(plugin.order.flows[0], end); /* not freed, since its thread may still run */
    }
}

void flow_end_all(void)
{
    take_lock();
    end_all_locked();
    pthread_mutex_unlock(&plugin.order.lock);
}

void flow_rescue(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    __atomic_fetch_add(&plugin.order.wanted, 1, __ATOMIC_RELAXED);
    if (!pthread_mutex_timedlock(&plugin.order.lock, &until))
        end_all_locked();
}

void flow_before_fork(void)
{
    take_lock();
}

void flow_after_fork(void)
{
    pthread_mutex_unlock(&plugin.order.lock);
}

/* The model's thread is not in the child. */
void flow_in_child(struct vcpu *v)
{
    pthread_cond_init(&all.work, NULL);
    pthread_cond_init(&all.space, NULL);
    all.running = all.threaded = false;
    all.model_asleep = all.guest_waiting = plugin.order.wanted = 0;
    order_in_child(v ? v->flow : NULL);
}
