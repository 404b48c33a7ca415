/*
 * The full model in user mode with several threads. Their work is accounted for in the order of
 * modelled time, `turn` cycles at a time. Threads run one at a time, each for a few words of its
 * ring: whenever all words are used up, the thread furthest behind runs. So modelled time, and not
 * the host, decides who gets a lock first and what a thread reads when others write.
 *
 * A thread in a system call that may wait (syscalls.def) lets the others go on. Before the next one
 * is chosen, every thread in such a call must be back or asleep in it, however long the host takes:
 * a thread that a call has woken is back before anything else happens. With --deterministic a
 * thread that waits with a timeout (pause.h) gets its turn when modelled time has passed. If it
 * sleeps, the others then wait for it. If it waits at a futex, it enters the kernel only then, or
 * just before another thread's call wakes it. A thread that waits for a descriptor (ready.h) enters
 * the kernel when the descriptor is ready and it is its turn. Events from outside the process come
 * at any time and end such waits.
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
    /* threads that are about to take it, for other reasons than asking for a turn */
    uint32_t wanted;
    struct flow *flows[MAX_VCPUS];
    unsigned count;
    struct flow *holder; /* the thread whose turn it is; NULL if there is only one thread */
    uint64_t moves;      /* how often holders have done something */
    /* a thread in a call may be coming back: */
    bool unsettled;
    struct flow *left; /* the last thread that began to wait */
    uint64_t word;     /* threads waiting at this futex; ORDER_ANY: at any */
    bool calls;        /* threads waiting for something else */
    bool settling;     /* a thread is checking whether others come back */
    bool called;       /* a call may have made a descriptor ready */
    int gone[64];      /* threads that are about to end, by host thread id */
    unsigned gone_count;
    uint64_t holds; /* how often threads were held (struct flow) */
    uint64_t busy;  /* cycles used by threads that have ended */
};

/* Call all of these with the lock held, on the flow's own thread. */

/* A flow begins or ends; the holder makes or ends it. */
void order_begin(struct flow *f);
void order_end(struct flow *f);
/*
 * Called when the thread has done a little work. If its turn is over, waits for the next one.
 * in_block: the thread is inside guest code, which QEMU may want to stop: then this may return
 * early.
 */
void order_check(struct flow *f, bool in_block);
/* The thread makes a system call; is back. over: it waited for its full time. */
void order_call(struct flow *f, enum flow_call call);
void order_return(struct flow *f, enum flow_call call, bool over);
/* In the child of a fork: only f is left, or no guest thread (NULL). */
void order_in_child(struct flow *f);

#pragma GCC visibility pop
#endif
