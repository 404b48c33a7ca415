/*
 * Exact calls between functions (--truth and --stacks with the full model): how often each call was
 * made, and what was counted until it returned. Calls follow the frames of stack.h: a call ends
 * when its frame is gone, for whatever reason. When control switches to another stack, the calls of
 * the old one end; when it comes back, they begin again without a caller.
 */
#ifndef GUEST_CALLS_H
#define GUEST_CALLS_H

#include "account/blame.h"
#include "run.h"
#include "stack.h"

struct calls_open {
    struct stack_frame frame;
    uint64_t target; /* 0: not known */
    bool fresh;      /* only its first block has run */
    uint64_t before[RUN_COUNTS];
    uint64_t first; /* number of its first operation */
    bool settled;   /* before[RUN_CYCLES] is final: no earlier operation gets more */
};

/* A call that has returned, but whose last operations may still receive cycles. */
struct calls_ended {
    struct run_call *row;
    uint64_t before;      /* RUN_CYCLES, if settled */
    uint64_t first, last; /* its operations; the first one after it */
    bool settled;
};

struct calls {
    struct calls_open *open;
    size_t count, room;
    struct calls_ended *ended; /* oldest first */
    size_t ended_count, ended_room;
    uint64_t sum[RUN_COUNTS]; /* counts of the thread since it began, except RUN_CYCLES */
};

/*
 * Control has arrived at pc with operation `number`, and the stack is up to date. turn: how the
 * previous block ended.
 */
void calls_follow(struct calls *calls, const struct stack *stack, unsigned turn, uint64_t pc,
                  uint64_t number);
/* Call it after each block: more operations have received all their cycles. */
void calls_settle(struct calls *calls, const struct blame *cycles);
/* The thread ends; all cycles are settled. */
void calls_end(struct calls *calls, const struct blame *cycles);
/* In the child of a fork: what was counted before this operation belongs to the parent. */
void calls_forked(struct calls *calls, uint64_t number);

#endif
