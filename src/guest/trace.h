/*
 * Host programs that start guest programs: a shell, make. The kernel refuses AArch64 files, so a
 * process that is about to become such a program gets a supervisor first: spex itself in a separate
 * process, which sees each execve of the process and of its descendants (ptrace, and a seccomp
 * filter that stops nothing else) and turns those of AArch64 files into the start of QEMU. Neither
 * root nor settings of the host are needed.
 *
 * The arguments and the environment are left to the kernel: only the path is changed, to a link to
 * spex in the run's directory. spex finds the original path in a file there, named after the
 * process.
 */
#ifndef GUEST_TRACE_H
#define GUEST_TRACE_H

#include <stdbool.h>

/*
 * Gives the calling thread a supervisor, if it has none. spex: its path. False if that is not
 * allowed here: then guest programs that it starts fail with ENOEXEC.
 */
bool trace_enter(const char *spex, const char *directory);

/*
 * For main(): if this process was not started for a command, does what it was started for and
 * returns true; *status is for exit, *message (static) for stderr if not NULL.
 */
bool trace_main(int argc, char **argv, char **environment, int *status, const char **message);

/*
 * Names in the run's directory: the link to spex; the file with the path that process N was to
 * execute.
 */
#define TRACE_LINK "start"
#define TRACE_PATH "exec.%d"

#endif
