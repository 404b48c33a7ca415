/* Programs that the guest starts: execve and execveat, before QEMU makes the call. */
#ifndef GUEST_FOLLOW_H
#define GUEST_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

struct vcpu;

#pragma GCC visibility push(hidden)

/*
 * Starts a guest program and does not return. Returns if it is another kind of program or if the
 * start failed: then QEMU makes the call. Everything the thread did must have been processed. at:
 * execveat.
 */
void follow_exec(struct vcpu *v, bool at, const uint64_t *arguments);
/* follow_exec() returned, so it failed. */
void follow_failed(struct vcpu *v);

#pragma GCC visibility pop
#endif
