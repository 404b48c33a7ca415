/*
 * The full model in user mode, several threads. What they did is accounted for in the order
 * of modelled time, `turn` cycles at a time; and they run one at a time, each for a few words
 * of its ring: the one that is furthest behind once all words are used up. So who gets a lock
 * first, and what a thread reads that others write, is decided in modelled time, too, and not
 * by the host.
 *
 * A thread in a system call that may wait (syscalls.def) lets the others go on. Before the
 * next one is chosen, every thread in such a call must be asleep in it or back, however long the
 * host takes for that: a thread that a call has woken is back before anything else happens.
 * With --deterministic a thread that waits for some time (pause.h) has its turn when modelled
 * time has passed: one that sleeps is waited for then, and one that waits at a futex enters the
 * kernel only then, or before another thread's call wakes it. One that waits for a descriptor
 * (ready.h) enters the kernel when that is ready and it is its turn. Events from outside the
 * process come at any time; a thread that waits for its time lets go on what they bring.
 */
#ifndef GUEST_ORDER_H
#define GUEST_ORDER_H

#include "flow.h"
#include "vcpu.h"

#include <pthread.h>

#pragma GCC visibility push(hidden)

#define ORDER_ANY UINT64_MAX

struct order {
    pthread_mutex_t lock; /* lock over all flows and the model */
    uint32_t wanted;      /* threads that are about to take it, but not to look whose turn it is */
    struct flow *flows[MAX_VCPUS];
    unsigned count;
    struct flow *holder; /* the thread whose turn it is; one thread alone needs none */
    uint64_t moves;      /* counts what holders do */
    /* somebody in a call may be coming back: */
    bool unsettled;
    struct flow *left; /* who began to wait last */
    uint64_t word;     /* who waits at this futex; ORDER_ANY: at any */
    bool calls;        /* who waits for something else */
    bool settling;     /* a thread looks whether that is so */
    bool called;       /* a call may have made a descriptor ready */
    int gone[64];      /* threads that are about to end, host's numbers */
    unsigned gone_count;
    uint64_t holds; /* counts threads that were held (struct flow) */
    uint64_t busy;  /* cycles of threads that have ended */
};

/* All under the lock, for the thread of the flow. */

/* A flow begins or ends; the thread whose turn it is makes or ends it. */
void order_begin(struct flow *f);
void order_end(struct flow *f);
/*
 * It has done a little: is it still its turn? Returns when it is. in_block: it is in the middle of
 * guest code, which QEMU may want to stop: then it may return before.
 */
void order_check(struct flow *f, bool in_block);
/* It makes a system call, and is back; over: the time that it was to wait has passed. */
void order_call(struct flow *f, enum flow_call call);
void order_return(struct flow *f, enum flow_call call, bool over);
/* In the child of a fork: f is alone, or there is no thread of the guest (NULL). */
void order_in_child(struct flow *f);

#pragma GCC visibility pop
#endif
