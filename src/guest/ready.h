/*
 * Which descriptors a system call waits for, and whether it would wait now (--deterministic). The
 * guest's descriptors are QEMU's own.
 */
#ifndef GUEST_READY_H
#define GUEST_READY_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct vcpu;

struct ready {
    struct pollfd *files;
    unsigned count, room; /* count 0: not known, or the call does not wait */
    bool writes;          /* it writes: it may wait even if there is room */
    bool much;            /* because it writes more than a pipe accepts at once */
};

/* A system call begins: finds its descriptors, from v->argument. */
void ready_find(struct vcpu *v, int64_t number);
/* Is one of the descriptors ready? Waits up to this many milliseconds. */
bool ready_look(const struct ready *ready, int wait);

#endif
