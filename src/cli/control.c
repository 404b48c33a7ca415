#include "control.h"

#include "cli.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct control {
    int words, answers; /* answers: -1 if there is no FIFO for them */
    int stop[2];
    bool own, running;
    pthread_t thread;
    struct control_target target;
};

/* ---- opening ---- */

/*
 * Opens a FIFO for reading and writing, so that opening does not wait and a partner may leave and
 * come back.
 */
static int open_fifo(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || !S_ISFIFO(st.st_mode)) {
        cli_error("--control: %s: %s", path,
                  fd < 0 ? strerror(errno) : "is no FIFO; mkfifo makes one");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

static int open_number(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end != text && !*end && n >= 0 && n < 1 << 20 && fcntl((int)n, F_GETFD) >= 0)
        return (int)n;
    cli_error("--control: descriptor '%s' is not open", text);
    return -1;
}

int control_open(struct control **out, const char *text)
{
    bool fifo = !strncmp(text, "fifo:", 5);
    if (!fifo && strncmp(text, "fd:", 3))
        return cli_usage("--control: '%s' is not fifo:CTL[,ACK] or fd:N[,N]", text);
    char *names = memory_copy(text + (fifo ? 5 : 3)), *second = strchr(names, ',');
    struct control *c = memory_get(1, sizeof *c);
    *c = (struct control){.answers = -1, .own = fifo, .stop = {-1, -1}};
    if (second)
        *second++ = '\0';
    c->words = fifo ? open_fifo(names) : open_number(names);
    if (c->words >= 0 && second)
        c->answers = fifo ? open_fifo(second) : open_number(second);
    bool ok = c->words >= 0 && (!second || c->answers >= 0);
    free(names);
    if (!ok) {
        control_close(c);
        return CLI_USAGE;
    }
    *out = c;
    return CLI_OK;
}

void control_close(struct control *c)
{
    if (!c)
        return;
    if (c->own && c->words >= 0)
        close(c->words);
    if (c->own && c->answers >= 0)
        close(c->answers);
    free(c);
}

/* ---- while the program runs ---- */

static void answer(const struct control *c)
{
    static const char ack[] = "ack\n";
    if (c->answers >= 0 && write(c->answers, ack, sizeof ack - 1) < 0)
        return; /* nobody reads the answers; the commands were executed all the same */
}

static void obey(const struct control *c, const char *word)
{
    if (!strcmp(word, "enable") || !strcmp(word, "disable"))
        c->target.enable(c->target.user, word[0] == 'e');
    else if (!strcmp(word, "stop"))
        c->target.stop(c->target.user);
    else if (!strcmp(word, "snapshot") && c->target.snapshot)
        c->target.snapshot(c->target.user);
    else if (strcmp(word, "ping")) {
        cli_note("--control: '%.40s' is none of enable, disable, %sping, stop", word,
                 c->target.snapshot ? "snapshot, " : "");
        return;
    }
    answer(c);
}

static void *read_words(void *context)
{
    const struct control *c = context;
    char line[256];
    size_t n = 0;
    struct pollfd wait[2] = {{.fd = c->words, .events = POLLIN},
                             {.fd = c->stop[0], .events = POLLIN}};
    while (poll(wait, 2, -1) >= 0 || errno == EINTR) {
        if (wait[1].revents)
            break;
        ssize_t got = wait[0].revents ? read(c->words, line + n, sizeof line - 1 - n) : 0;
        if (wait[0].revents && !(wait[0].revents & POLLIN))
            wait[0].fd = -1; /* the writer is gone */
        if (got <= 0)
            continue;
        n += (size_t)got;
        line[n] = '\0';
        for (char *end; (end = strchr(line, '\n'));) {
            *end = '\0';
            obey(c, line);
            n -= (size_t)(end + 1 - line);
            memmove(line, end + 1, n + 1);
        }
        if (n == sizeof line - 1)
            n = 0; /* no word is that long */
    }
    return NULL;
}

void control_start(struct control *c, const struct control_target *target)
{
    sigset_t every, old;
    if (!c || pipe2(c->stop, O_CLOEXEC))
        return;
    c->target = *target;
    sigfillset(&every); /* signals are for the thread that waits */
    pthread_sigmask(SIG_SETMASK, &every, &old);
    c->running = !pthread_create(&c->thread, NULL, read_words, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!c->running)
        cli_error("--control: no thread for it: %s", strerror(errno));
}

void control_stop(struct control *c)
{
    if (!c)
        return;
    if (c->running && write(c->stop[1], "", 1) == 1)
        pthread_join(c->thread, NULL);
    c->running = false;
    for (unsigned i = 0; i < 2; i++)
        if (c->stop[i] >= 0)
            close(c->stop[i]);
    c->stop[0] = c->stop[1] = -1;
}
