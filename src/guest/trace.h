/*
 * Programs of this machine that start programs of the guest: a shell, make. The kernel refuses
 * AArch64 files, so a process that is about to become such a program gets a supervisor first: spex
 * itself in a process of its own, which sees each execve of the process and of its descendants
 * (ptrace, and a seccomp filter that stops nothing else) and turns those of AArch64 files into the
 * start of QEMU. Neither root nor settings of the host are needed.
 *
 * The kernel is left the arguments and the environment: only the path is changed, to a link to spex
 * in the run's directory. spex finds what was meant in a file there, named by the process.
 */
#ifndef GUEST_TRACE_H
#define GUEST_TRACE_H

#include <stdbool.h>

/*
 * The calling thread gets a supervisor, if it has none. spex: its path. False if that is not
 * allowed here: then programs of the guest that it starts fail with ENOEXEC.
 */
bool trace_enter(const char *spex, const char *directory);

/*
 * For main(): does what this process was started for if that is not a command, and is then true;
 * *status is for exit, *message (static) for stderr if not NULL.
 */
bool trace_main(int argc, char **argv, char **environment, int *status, const char **message);

/* Names in the run's directory: the link to spex; the path that process N was to execute. */
#define TRACE_LINK "start"
#define TRACE_PATH "exec.%d"

#endif
