/*
 * Opens the files of the run though the guest may have lost the right to: a program that becomes
 * another user, or lives in another root, takes QEMU with it. Credentials are a thread's own, so a
 * thread of the plugin keeps those that the process had before the first call that may change them.
 * A process that is forked or executed later has no such thread: spex opens the files for it
 * (door.h).
 */
#ifndef GUEST_OWNER_H
#define GUEST_OWNER_H

#include <stdint.h>

/* A system call of the guest begins: from here on a thread opens files if it may change them. */
void owner_call(int64_t number);
/* Like open with mode 0600, and unlink. */
int owner_open(const char *path, int flags);
int owner_unlink(const char *path);
/* Around a fork. The child starts with what the forking thread may do. */
void owner_before_fork(void);
void owner_after_fork(void);
void owner_in_child(void);

#endif
