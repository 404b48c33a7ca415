/* Programs that the guest starts: execve and execveat, before QEMU makes the call. */
#ifndef GUEST_FOLLOW_H
#define GUEST_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

#pragma GCC visibility push(hidden)

/*
 * A program of the guest is started here: then this does not return. For the rest, and if that
 * fails, QEMU goes on. Nothing of what the thread did is left to be done. at: execveat.
 */
void follow_exec(struct vcpu *v, bool at, const uint64_t *arguments);
/* It returned, so it failed. */
void follow_failed(struct vcpu *v);

#pragma GCC visibility pop
#endif
