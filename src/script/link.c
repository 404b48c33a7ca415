#include "link.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct link {
    int in, out;
    pid_t pid;        /* process of the command; 0: none */
    unsigned timeout; /* in milliseconds; 0: none */
    int64_t deadline;
    char name[64]; /* name of the current request */
    char failure[400];
    size_t start, end;
    char buffer[LINK_LINE];
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *link_failure(const struct link *l)
{
    return *l->failure ? l->failure : NULL;
}

void link_fail(struct link *l, const char *format, ...)
{
    va_list args;
    if (*l->failure)
        return;
    va_start(args, format);
    vsnprintf(l->failure, sizeof l->failure, format, args);
    va_end(args);
}

enum spex_status link_open(int in, int out, struct link **link, struct spex_error *error)
{
    struct link *l = calloc(1, sizeof *l);
    if (!l)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    l->in = in;
    l->out = out;
    *link = l;
    return SPEX_OK;
}

/* Runs the command in the child, in its own process group so that all of it can be ended. */
static void run_command(const char *command, int fd)
{
    setpgid(0, 0);
    if (dup2(fd, STDIN_FILENO) >= 0 && dup2(fd, STDOUT_FILENO) >= 0) {
        signal(SIGPIPE, SIG_DFL);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    }
    _exit(127);
}

enum spex_status link_start(const char *command, unsigned timeout, struct link **link,
                            struct spex_error *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return error_set(error, SPEX_IO, 0, "cannot talk to '%s': %s", command, strerror(errno));
    enum spex_status status = link_open(pair[0], pair[0], link, error);
    pid_t pid = status ? -1 : fork();
    if (pid == 0)
        run_command(command, pair[1]);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        if (!status) {
            free(*link);
            status =
                error_set(error, SPEX_IO, 0, "cannot start '%s': %s", command, strerror(errno));
        }
        return status;
    }
    setpgid(pid, pid); /* set by parent and child, whichever is first */
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    (*link)->pid = pid;
    (*link)->timeout = timeout;
    return SPEX_OK;
}

/* Does not collect its status: until then its group's id cannot be reused. */
static bool ended(const struct link *l, siginfo_t *how, int64_t until)
{
    for (;;) {
        how->si_pid = 0;
        if (!waitid(P_PID, (id_t)l->pid, how, WEXITED | WNOHANG | WNOWAIT) && how->si_pid)
            return true;
        if (now() >= until)
            return false;
        poll(NULL, 0, 5);
    }
}

void link_close(struct link *l)
{
    siginfo_t how;
    if (!l)
        return;
    if (l->pid) {
        close(l->in);
        if (!*l->failure)
            ended(l, &how, now() + l->timeout);
        kill(-l->pid, SIGKILL); /* kills its whole process group */
        while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    free(l);
}

void link_begin(struct link *l, const char *name)
{
    snprintf(l->name, sizeof l->name, "%s", name);
    l->deadline = now() + l->timeout;
}

/* Waits until the file is ready or the time is over. */
static bool wait_for(struct link *l, int fd, short what)
{
    struct pollfd p = {fd, what, 0};
    for (;;) {
        int64_t left = l->timeout ? l->deadline - now() : -1;
        /*
         * A writer that is faster than our reads is always ready: then only the time limit ends it.
         */
        bool over = l->timeout && left <= 0;
        int ready = over ? 0 : poll(&p, 1, (int)left);
        if (ready > 0)
            return true;
        if (ready == 0) {
            link_fail(l, "no answer to '%s' within %u.%03u s", l->name, l->timeout / 1000,
                      l->timeout % 1000);
            return false;
        }
        if (errno != EINTR) {
            link_fail(l, "'%s': %s", l->name, strerror(errno));
            return false;
        }
    }
}

/* The other side is gone: finds out how it ended. */
static void tell_gone(struct link *l)
{
    siginfo_t how;
    if (!l->pid)
        return;
    if (!ended(l, &how, now() + l->timeout))
        link_fail(l, "the unit closed the connection instead of answering '%s'", l->name);
    else if (how.si_code == CLD_EXITED && how.si_status == 127)
        link_fail(l, "the command was not found, or could not start");
    else if (how.si_code == CLD_EXITED)
        link_fail(l, "the unit ended with status %d instead of answering '%s'", how.si_status,
                  l->name);
    else
        link_fail(l, "the unit was ended by signal %d instead of answering '%s'", how.si_status,
                  l->name);
}

static bool send_bytes(struct link *l, const char *bytes, size_t size)
{
    while (size) {
        if (!wait_for(l, l->out, POLLOUT))
            return false;
        ssize_t n = l->pid ? send(l->out, bytes, size, MSG_NOSIGNAL) : write(l->out, bytes, size);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0) {
            if (l->pid && errno == EPIPE)
                tell_gone(l);
            link_fail(l, "'%s': %s", l->name, strerror(errno));
            return false;
        }
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

bool link_send(struct link *l, const char *line)
{
    return !*l->failure && send_bytes(l, line, strlen(line)) && send_bytes(l, "\n", 1);
}

char *link_receive(struct link *l)
{
    size_t seen = 0; /* without a newline */
    while (!*l->failure) {
        char *from = l->buffer + l->start, *newline;
        newline = memchr(from + seen, '\n', l->end - l->start - seen);
        if (newline) {
            *newline = '\0';
            l->start = (size_t)(newline + 1 - l->buffer);
            if (newline > from && newline[-1] == '\r')
                newline[-1] = '\0';
            for (const char *p = from; *p || p < newline; p++) {
                if ((unsigned char)*p < ' ' && p < newline && !(*p == '\0' && p + 1 == newline)) {
                    link_fail(l, "the answer to '%s' is not text: byte 0x%02x", l->name,
                              (unsigned char)*p);
                    return NULL;
                }
            }
            return from;
        }
        seen = l->end - l->start;
        if (l->start) {
            memmove(l->buffer, from, seen);
            l->start = 0;
            l->end = seen;
        }
        if (l->end == sizeof l->buffer) {
            link_fail(l, "a line of more than %d bytes after '%s'", LINK_LINE, l->name);
            return NULL;
        }
        if (!wait_for(l, l->in, POLLIN))
            return NULL;
        ssize_t n = read(l->in, l->buffer + l->end, sizeof l->buffer - l->end);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0) {
            tell_gone(l);
            return NULL;
        }
        l->end += (size_t)n;
    }
    return NULL;
}
