/*
 * Reads the words of a ring (flow.h): runs the model, asks the unit, counts truth. Needs the lock
 * of flow.c.
 */
#ifndef GUEST_ACCOUNT_H
#define GUEST_ACCOUNT_H

#include "calls.h"
#include "account/blame.h"
#include "detail.h"
#include "elapsed.h"
#include "flow.h"
#include "pause.h"
#include "ready.h"
#include "stack.h"

#include "uarch/timing.h"

#include <pthread.h>

#pragma GCC visibility push(hidden)

struct flow {
    /* the ring: written by the guest's thread, read by the model's */
    uint64_t *ring;
    uint64_t lap;               /* words written when the ring last started over */
    _Alignas(64) uint64_t head; /* words that may be read */
    _Alignas(64) uint64_t tail; /* words that were read */
    bool waits, drains;         /* the guest's thread waits for */
    uint64_t wants;             /* the tail to be here */
    /* the model's side */
    _Alignas(64) uint64_t at; /* next word to read */
    uint64_t seen;            /* head when it was last looked at */
    uint64_t scan;            /* words up to here belong to the block at `at` */
    bool finish;              /* no words follow those in the ring */
    bool idle;                /* the guest's thread is in a system call */
    uint64_t clock;           /* modelled time, as other threads see it */
    struct vcpu *vcpu;
    struct timing_core *core;
    uint64_t left;                /* operations before the next one that the unit may take */
    const struct spex_op *branch; /* the last taken branch, and where it went */
    uint64_t branch_target;
    struct stack stack; /* --stacks */
    /* --allocs: words from here on were written when the heap had this time (heap.h) */
    struct {
        uint64_t at, time;
    } * heap;
    uint64_t heap_count, heap_read; /* written by the guest's thread; read by the model's */
    uint64_t heap_time;
    struct calls made; /* exact counts of calls, with --truth */
    struct elapsed elapsed;
    struct blame *cycles;
    uint64_t uncounted;   /* uncounted: parts of a cycle outside the sampled regions */
    uint64_t end;         /* the word that ends the last block, if it is not in the ring; else 0 */
    struct detail detail; /* sampled detail */
    /* whose turn it is (order.h) */
    pthread_cond_t turn;
    int tid;     /* the thread's id on the host; 0 until it has begun */
    bool inside; /* the thread is finding out whose turn it is */
    bool calls;  /* it is making a system call */
    bool away;   /* it is in a call that may wait: others continue */
    /* how often the thread had run when it was last seen in that call; 0: not seen */
    uint64_t runs;
    struct pause pause; /* how long the call waits, according to its arguments */
    bool pausing;       /* it waits that long in modelled time */
    struct ready ready; /* descriptors that it waits for */
    bool found_ready;   /* one of them is ready, so the thread may go on if it was held */
    uint64_t held;  /* position among the threads held before they enter the kernel; 0: not held */
    bool woken;     /* another thread's call ended the hold */
    uint64_t word;  /* futex that the call waits on, or 0 */
    unsigned words; /* words left until it checks on the other threads */
    /* number of YIELDs in this turn, and number after which the turn ends */
    unsigned yields, patience;
    uint64_t taken;  /* number of lines taken from other cores */
    uint64_t since;  /* its clock when its turn began */
    uint64_t waited; /* cycles, and those before it was in this process */
};

struct flow *account_new(struct vcpu *v, int cpu);
/* Begins to count a task, at a model time. */
void account_begin(struct flow *f, uint64_t start);
/* Reports all operations that have run to the unit. */
void account_tell(struct flow *f);
/* Writes what its time was spent on so far. */
void account_save(struct flow *f);
/* Closes the task. end: when its process ends, if it is later and the thread is in a call. */
void account_free(struct flow *f, uint64_t end);
/* In the child of a fork: the thread does not exist here. */
void account_forget(struct flow *f);

/*
 * Called by the guest's thread: was the branch mispredicted at the end of the block that this mark
 * ends?
 */
bool account_judge(struct flow *f, const struct block *block, uint64_t mark);

/* Does the thread read the same addresses again and again and write nothing? */
bool account_spins(const struct flow *f);
/* How the block ended, according to the word after its own words; 0 if there is none. */
struct timing_run account_ended(const struct block *block, uint64_t end);
/* The block was executed to its end, and control went to next. */
void account_branch(struct flow *f, const struct timing_block *timing, uint64_t next);
/* Is there a word that can be processed? */
bool account_ready(struct flow *f);
/* Processes up to `most` words, or until the clock is past the limit. False if there was none. */
bool account_turn(struct flow *f, uint64_t limit, uint64_t most);
/*
 * account_waits: does the next word wait for another flow? account_wait_no_more: it need not wait
 * any more.
 */
bool account_waits(const struct flow *f);
void account_wait_no_more(struct flow *f);
/* No more words follow: the last block in the ring is complete. */
void account_finish(struct flow *f);
uint64_t account_clock(const struct flow *f);
/* Cycles in which it was running. */
uint64_t account_busy(const struct flow *f);

#pragma GCC visibility pop
#endif
