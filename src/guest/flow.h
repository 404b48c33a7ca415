/*
 * The full model in user mode. A guest thread's callbacks write words to a ring; one thread of the
 * process reads the ring, runs the model and the unit, and writes records. Several threads of a
 * guest take turns (order.h), and each processes its own words.
 *
 * A word is one of
 *   access   virtual address in bits 47:0, its instruction's position in the block in 59:48
 *   block    1 << 60 | member timing of a struct block: it is entered
 *   mark     2 << 60 | enum flow_mark << 48 | a value or a pointer
 *   register 3 << 60 | enum flow_register << 48 | its value at the entry of the block before it:
 *            with --stacks, after blocks that were called, returned or jumped to
 *
 * Accesses follow their block. A block is processed when the next word that is neither an access
 * nor a register arrives: it shows how the block ended. Bit 59 of that word says that the branch at
 * the end of the block was mispredicted: the predictors depend only on the order of blocks, so the
 * guest's thread runs them, which divides the work about equally.
 *
 * With thread=0 the guest's own threads do the work of the model's thread when a ring is full or
 * must be empty: the same words in the same order, so the same bytes.
 */
#ifndef GUEST_FLOW_H
#define GUEST_FLOW_H

#include <stdint.h>

#include "run.h"
#include "uarch/timing.h"

struct vcpu;
struct block;
struct hot;

#define FLOW_BLOCK SPEX_TIMING_BLOCK
#define FLOW_MARK (UINT64_C(2) << 60)
#define FLOW_REGISTER (UINT64_C(3) << 60)
#define FLOW_WRONG SPEX_TIMING_WRONG
#define FLOW_VALUE ((UINT64_C(1) << 48) - 1)

enum {
    FLOW_RING = 1 << 15,       /* words of a ring */
    FLOW_CHUNK = 1 << 9,       /* words that a thread passes on at a time */
    FLOW_HEAP = 2 * FLOW_RING, /* changes to the heap between words of a ring */
};

enum flow_mark {
    FLOW_CALL,       /* struct elapsed_syscall, or 0: the call begins, the thread does not run */
    FLOW_RETURN,     /* a system call is over; value: cycles it took */
    FLOW_LOG,        /* struct flow_log */
    FLOW_WAKE,       /* another thread may be woken; value: ticket */
    FLOW_WOKEN,      /* was woken by the holder of the ticket */
    FLOW_REACH,      /* the time is at least value */
    FLOW_SLEPT,      /* cycles passed in a system call */
    FLOW_REGION,     /* a marker function is entered; value: its address, plus 1 if it starts */
    FLOW_SIGNAL,     /* struct flow_signal: a handler is entered */
    FLOW_SIGNAL_END, /* struct flow_signal: rt_sigreturn continues with these registers */
};

enum flow_register { FLOW_SP, FLOW_X29, FLOW_X30, FLOW_REGISTERS };

/*
 * Stored behind the ring, for the first word of an SVE access: are some of its elements Inactive?
 */
static inline bool *flow_partial(uint64_t *ring)
{
    return (bool *)(ring + FLOW_RING);
}

/* What a system call means for other threads. */
enum flow_call {
    FLOW_PLAIN,      /* nothing */
    FLOW_WAITS,      /* the call may wait for other threads */
    FLOW_WAKES,      /* the call may wake other threads */
    FLOW_SIGNALS,    /* the call may interrupt any thread */
    FLOW_FUTEX_WAIT, /* the call may wait at the futex in the first argument */
    FLOW_FUTEX_WAKE,
    FLOW_FUTEX_MOVE, /* threads that wait at one futex are moved to another */
};

struct flow_log { /* an event of the log; the model fills in its time */
    struct run_event event;
    char text[];
};

struct flow_signal {
    uint64_t pc; /* where the thread was interrupted */
    bool fault;  /* synchronous */
    bool real;   /* a real delivery, not a plain call of the handler: the members below are known */
    uint64_t sp, x29, x30; /* interrupted */
    uint64_t handler_sp, handler_x30;
    /* the block before was executed to its end, and control went there before any handler */
    bool turned;
    uint64_t turned_pc, turned_sp, turned_x29, turned_x30;
};

/* Starts a thread's flow at model time `start`. Its task must already have begun. */
void flow_begin(struct vcpu *v, int cpu, uint64_t start);
/*
 * The thread that made this one has finished its preparations: its first word waits for its turn.
 */
void flow_started(struct vcpu *v);
/* Gives the thread a new task, in the child of a fork. */
void flow_begin_again(struct vcpu *v, uint64_t start);
/* The thread ends: accounts for everything it did, and closes its task. */
void flow_end(struct vcpu *v);
/* Ends a flow that could not begin, on the thread that was to start it. */
void flow_abandon(struct vcpu *v);
/* The whole process ends. */
void flow_end_all(void);
/* The whole process ends, and this thread may hold the lock: unread words are then lost. */
void flow_rescue(void);

/* Makes the words of a ring up to here readable, and waits until all are read. */
void flow_drain(struct vcpu *v);
/* The only thread processes all its words itself. */
void flow_settle(struct vcpu *v);
/*
 * A part of the ring is full: passes it on, then waits until the next part is free or for the turn.
 */
void flow_turn(struct hot *hot);
/* A block with YIELD or WFE was entered: the thread lets others run. */
void flow_yield(struct hot *hot);
void flow_mark(struct vcpu *v, enum flow_mark mark, uint64_t value);
/* A system call begins; has ended. Returns when the thread may continue. */
void flow_call(struct vcpu *v, enum flow_call call);
void flow_return(struct vcpu *v, enum flow_call call, int64_t result);
/* operation: the second argument. */
enum flow_call flow_call_kind(int64_t number, uint64_t operation);
/* Cycles that a system call costs. */
uint64_t flow_call_cycles(int64_t number, int64_t result);

/* Words from here on see the heap as it is at this time (--allocs). */
void flow_heap(struct vcpu *v, uint64_t time);

/* Model time of a thread, as far as it is known: exact after flow_drain(). */
uint64_t flow_clock(const struct vcpu *v);

/*
 * flow_now: model time of the thread whose turn it is, up to its last whole block; others that are
 * behind continue first. in_block: see order.h. flow_busy: cycles for which the thread, or its
 * process, has run until then.
 */
uint64_t flow_now(struct vcpu *v, bool in_block);
uint64_t flow_busy(struct vcpu *v, bool process);

/* Called before and after a fork; in the child only v continues. */
void flow_before_fork(void);
void flow_after_fork(void);
void flow_in_child(struct vcpu *v);

#endif
