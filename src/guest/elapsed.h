/*
 * What a thread's time is spent on while it does not run: system calls by number, futex and
 * callers, their time in the kernel and the time that they waited (perfdata/elapsed.h). In modelled
 * time, so only with a model.
 */
#ifndef GUEST_ELAPSED_H
#define GUEST_ELAPSED_H

#include <stddef.h>
#include <stdint.h>

struct vcpu;
struct task;

enum { ELAPSED_CHAIN = 12 }; /* the PC and callers that are kept */

/* A system call as the guest's thread sees it begin. */
struct elapsed_syscall {
    uint64_t object; /* futex that it waits at, or 0 */
    uint64_t chain[ELAPSED_CHAIN];
    uint32_t depth;
    uint16_t number;
};
/* To be freed; NULL if nobody asks. */
struct elapsed_syscall *elapsed_note(struct vcpu *v, int64_t number);

/* Of one thread; zero before it begins. */
struct elapsed {
    struct elapsed_row *rows;
    uint32_t *index;
    size_t count, room, mask;
    struct elapsed_syscall *call; /* under way; owned */
    uint64_t began, since;        /* when counting began; when the call did */
    uint64_t called;              /* cycles in calls */
};

/* Counts from now on, and forgets what was before. */
void elapsed_begin(struct elapsed *e, uint64_t clock);
void elapsed_enter(struct elapsed *e, struct elapsed_syscall *call, uint64_t clock);
/* kernel: cycles of the call itself; it waited for the rest. */
void elapsed_leave(struct elapsed *e, uint64_t clock, uint64_t kernel);
/*
 * Writes all to the data and begins again. end: if the thread is in a call, it waits there until
 * then.
 */
void elapsed_save(struct elapsed *e, struct task *task, uint64_t clock, uint64_t end);
void elapsed_fini(struct elapsed *e);

#endif
