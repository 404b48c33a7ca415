/*
 * Calls between functions, exactly (--truth and --stacks with the full model): how often each was
 * made, and what was counted until it returned. Calls are followed by the frames of stack.h: a call
 * is over when its frame is gone, for whatever reason. When control switches to another stack, the
 * calls of the old one are over; they begin again, as calls of nobody, when it comes back.
 */
#ifndef GUEST_CALLS_H
#define GUEST_CALLS_H

#include "run.h"
#include "stack.h"

struct calls_open {
    struct stack_frame frame;
    uint64_t target; /* 0: not known */
    bool fresh;      /* nothing but its first block has run */
    uint64_t before[RUN_COUNTS];
};

struct calls {
    struct calls_open *open;
    size_t count, room;
    uint64_t sum[RUN_COUNTS]; /* of the thread, since it began */
};

/* Control has arrived at pc, and the stack is up to date. turn: how the block before ended. */
void calls_follow(struct calls *calls, const struct stack *stack, unsigned turn, uint64_t pc);
/* The thread ends. */
void calls_end(struct calls *calls);
/* In the child of a fork: what was counted before is its parent's. */
void calls_forked(struct calls *calls);

#endif
