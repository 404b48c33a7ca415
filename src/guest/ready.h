/*
 * Which descriptors a system call waits for, and whether it would wait now (--deterministic). Guest
 * descriptors are QEMU's own.
 */
#ifndef GUEST_READY_H
#define GUEST_READY_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct vcpu;

struct ready {
    struct pollfd *files;
    unsigned count, room; /* count 0: not known, or it does not wait */
    bool writes;          /* it may wait for room also where there is some, */
    bool much;            /* for it writes more than a pipe that has room must take */
};

/* A system call begins: what v->argument says. */
void ready_find(struct vcpu *v, int64_t number);
/* Is one of them ready? Waits so many milliseconds for that. */
bool ready_look(const struct ready *ready, int wait);

#endif
