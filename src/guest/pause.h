/*
 * How long system calls wait, as they say themselves (--deterministic): such waits end in modelled
 * time. One until a point of time counts from when the thread last read that clock, whatever the
 * host's clock said.
 */
#ifndef GUEST_PAUSE_H
#define GUEST_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

enum { PAUSE_CLOCKS = 8 }; /* numbers of clocks that count */

enum pause_kind {
    PAUSE_NONE,
    PAUSE_SLEEP, /* only time ends it */
    PAUSE_FUTEX, /* or another thread of the process */
    PAUSE_OTHER, /* or whatever; the host's clock decides which */
};

struct pause {
    enum pause_kind kind;
    unsigned clock;  /* it counts from when this was read, or PAUSE_CLOCKS: from the call */
    uint64_t cycles; /* at 1 GHz */
    int64_t result;  /* of a call whose time has passed */
};

/* A system call begins: what v->argument says. */
void pause_find(struct vcpu *v, int64_t number);
static inline bool pause_over(const struct pause *pause, int64_t result)
{
    return pause->kind != PAUSE_NONE && pause->result == result;
}

/* It is over, and it is the thread's turn: time that passed, and clocks that were read. */
void pause_account(struct vcpu *v, int64_t number, int64_t result);

#endif
