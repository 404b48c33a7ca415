/*
 * How long system calls wait, according to their arguments (--deterministic). Such waits end in
 * modelled time, which is the time that clocks show (clock.h).
 */
#ifndef GUEST_PAUSE_H
#define GUEST_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

enum pause_kind {
    PAUSE_NONE,
    PAUSE_SLEEP, /* only time ends it */
    PAUSE_FUTEX, /* time or another thread of the process ends it */
    PAUSE_OTHER, /* anything may end it; the host's clock decides when */
};

struct pause {
    enum pause_kind kind;
    bool until;     /* time is absolute, not a duration */
    uint64_t time;  /* cycles at 1 GHz */
    int64_t result; /* result of a call that timed out */
    void *lent;     /* guest memory that holds another time during the call, or NULL */
    uint64_t own[2];
};

/* A system call begins: finds out how long it waits, from v->argument. */
void pause_find(struct vcpu *v, int64_t number);
static inline bool pause_over(const struct pause *pause, int64_t result)
{
    return pause->kind != PAUSE_NONE && pause->result == result;
}

/* The wait is over, and it is the thread's turn: lets time pass. */
void pause_account(struct vcpu *v, int64_t result);

#endif
