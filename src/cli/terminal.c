/* The terminal: its width, whether it supports colour, and a pager for long output. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* One process, one terminal. */
static struct {
    bool off;
    pid_t pager;      /* or 0 */
    unsigned columns; /* width of the terminal behind the pager */
} terminal;

unsigned cli_columns(void)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    if (columns && atoi(columns) > 0)
        return (unsigned)atoi(columns);
    if (terminal.pager)
        return terminal.columns;
    if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
        return size.ws_col;
    return isatty(STDOUT_FILENO) ? 80 : 0;
}

bool cli_colour(int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if ((no && *no) || (term && !strcmp(term, "dumb")))
        return false;
    return isatty(fd) || (fd == STDOUT_FILENO && terminal.pager);
}

void cli_pager_off(void)
{
    terminal.off = true;
}

void cli_pager_start(void)
{
    const char *command = getenv("SPEX_PAGER"), *term = getenv("TERM");
    int ends[2];
    if (!command)
        command = getenv("PAGER");
    if (!command && (!term || !strcmp(term, "dumb"))) /* less asks before each text there */
        return;
    if (!command) /* a small system may have none */
        command = "if command -v less >/dev/null; then exec less; else exec cat; fi";
    if (terminal.off || !isatty(STDOUT_FILENO) || !*command || !strcmp(command, "cat"))
        return;
    terminal.columns = cli_columns();
    if (pipe(ends))
        return; /* a pager is only a convenience: without it, the text goes to the terminal */
    pid_t pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return;
    }
    if (pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        /* Leaves at the end of a short text, keeps colours, and leaves the text on the screen. */
        setenv("LESS", "FRX", 0);
        /* If the pager is missing, the shell complains; the text must still be printed. */
        char *script = NULL;
        if (asprintf(&script, "%s\ncase $? in 126|127) exec cat;; esac", command) >= 0)
            execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    terminal.pager = pid;
    signal(SIGPIPE, SIG_DFL); /* a user who leaves the pager has seen enough */
}

void cli_pager_end(void)
{
    if (!terminal.pager)
        return;
    fflush(stdout);
    close(STDOUT_FILENO);
    while (waitpid(terminal.pager, NULL, 0) < 0 && errno == EINTR)
        ;
    terminal.pager = 0;
}
