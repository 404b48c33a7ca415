/*
 * Opens the run's files even if the guest has lost the right to: a program that changes its user or
 * root directory takes QEMU with it. Credentials belong to a thread, so one thread of the plugin
 * keeps those that the process had before the first call that may change them. A process that is
 * forked or executed later has no such thread; spex opens the files for it (door.h).
 */
#ifndef GUEST_OWNER_H
#define GUEST_OWNER_H

#include <stdint.h>

/*
 * A system call of the guest begins: if it may change the rights, a thread opens files from here
 * on.
 */
void owner_call(int64_t number);
/* Like open with mode 0600, and like unlink. */
int owner_open(const char *path, int flags);
int owner_unlink(const char *path);
/* Called before and after a fork. The child starts with the forking thread's rights. */
void owner_before_fork(void);
void owner_after_fork(void);
void owner_in_child(void);

#endif
