/*
 * Types standard input on the console of a prepared guest, from a separate process: QEMU's console
 * does not tell a guest that its input has ended, and what arrives before a shell reads it is lost,
 * or silences the UART for good (Linux drains it when it starts).
 */
#ifndef CLI_TYPIST_H
#define CLI_TYPIST_H

#include <stdbool.h>
#include <sys/types.h>

struct typist {
    pid_t process;
    int keyboard, screen; /* QEMU's input and output; close both after it has started */
};

/*
 * Copies QEMU's output to standard output. After the shell's prompt it types standard input, and at
 * its end Ctrl-D once a second: a program that reads may take the first. False with errno if it
 * cannot start.
 */
bool typist_start(struct typist *typist, const char *prompt);
/*
 * Call it after QEMU has ended: waits until all output is written, or with at_once does not wait.
 */
void typist_end(const struct typist *typist, bool at_once);

#endif
