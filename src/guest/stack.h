/*
 * The call stack of one guest thread, kept beside the guest's own: a frame for each call that has
 * not returned, with the address it returns to and the stack pointer at the call, which a function
 * leaves as it found it (AAPCS64). So a frame ends when control arrives at its address with its
 * stack pointer, however it got there, and not by counting: a tail call ends none, a return through
 * several ends them all.
 *
 * Control arrives at the entry of a block. There is something to do only after a block that calls,
 * returns or jumps through a register; stack_quick() handles the common case. The rest (stack.c):
 * longjmp and exceptions end the frames that lie below the new stack pointer; code that moves the
 * stack pointer to a register's value may switch to another stack, then this one is parked until
 * control comes back to it; a signal begins a part of its own.
 *
 * Memory is bounded: when there is no more room, frames in the middle are dropped.
 */
#ifndef GUEST_STACK_H
#define GUEST_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STACK_ROOM = 1 << 16, /* frames */
    STACK_KEPT = 1 << 14, /* frames kept at each end when it is full */
    /* most frames in a sample; a deeper stack keeps half of them from each end */
    STACK_CHAIN = 512,
    STACK_SIGNALS = 32,    /* nesting of handlers */
    STACK_PARKED = 4096,   /* most stacks that no thread is running on */
    STACK_BYTES = 64 << 20 /* and the most memory they take */
};

/* What the last instruction of a block does, and whether the block may have moved to another stack.
 */
enum stack_turn {
    STACK_GOES_ON,
    STACK_CALL,
    STACK_JUMP, /* through a register */
    STACK_RETURN,
    STACK_START, /* not a block: the thread begins */
    STACK_MOVES = 8
};

struct stack_frame {
    uint64_t back; /* return address, and in the two low bits: */
    uint64_t sp;
};
enum {
    STACK_DOUBT = 1, /* frames above it may be wrong or missing */
    /* a handler interrupted it: the address plus 4 of the instruction where it continues */
    STACK_SIGNAL = 2,
};

struct stack_room {
    struct stack_frame frames[STACK_ROOM + 1]; /* number 0 means none */
    uint32_t signals[STACK_SIGNALS];           /* first frame of each handler */
    uint32_t signal_count;
    uint32_t moved; /* a bit for each: s->moved when the signal came */
};

struct stack {
    struct stack_frame *top, *end;
    const void *last;   /* for the caller: the block entered last */
    const uint64_t *sp; /* for the caller: the guest's stack pointer; before it X30, X29, ... */
    struct stack_room *room;
    uint32_t gap; /* not 0: frames between this and the next are missing */
    bool moved;   /* the stack pointer was set from a register since the last arrival */
};

/* Control arrived at pc, after a block that ended with turn and before the address `next`. */
struct stack_arrival {
    enum stack_turn turn;
    uint64_t next, pc, sp, x29, x30;
};

void stack_begin(struct stack *stack);
void stack_end(struct stack *stack);

/* Handles the common case; true if that was all. */
static inline __attribute__((always_inline)) bool
stack_quick(struct stack *s, unsigned turn, uint64_t next, uint64_t pc, uint64_t sp)
{
    struct stack_frame *top = s->top;
    if (__builtin_expect(s->moved, 0))
        return false;
    if (turn == STACK_CALL) {
        if (__builtin_expect(top == s->end, 0))
            return false;
        top[1] = (struct stack_frame){next, sp};
        s->top = top + 1;
        return true;
    }
    if (__builtin_expect(top->back == pc && top->sp == sp, 1)) {
        s->top = top - 1;
        return true;
    }
    return turn == STACK_JUMP && top->sp >= sp;
}

/* Handles the other cases, when stack_quick() was false. */
void stack_arrive(struct stack *stack, const struct stack_arrival *arrival);

/*
 * A signal handler is entered, with the stack pointer sp and, in X30, the address of the code that
 * ends it; the thread was at pc with its stack pointer at was.
 */
void stack_signal(struct stack *stack, uint64_t pc, uint64_t was, uint64_t sp, uint64_t x30);
/* rt_sigreturn ends the handler: the thread continues with these registers. */
void stack_signal_end(struct stack *stack, uint64_t pc, uint64_t sp, uint64_t x30);

enum stack_note { STACK_CUT = 1, STACK_DOUBTED = 2 };
/*
 * Writes the frames, innermost first: return addresses, and `mark` where some are missing or where
 * the preceding ones may be wrong. Returns the number of words, at most 2 * STACK_CHAIN.
 */
size_t stack_chain(const struct stack *stack, uint64_t mark, uint64_t *chain, unsigned *notes);

/* Does this instruction set the stack pointer from a register that is not the frame pointer? */
bool stack_moves(uint32_t word);

/* In the child of a fork there are no other threads. */
void stack_forked(void);

#endif
