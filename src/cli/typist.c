#include "typist.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ms without output: after that, a shell has a prompt that we do not know */
enum { PATIENCE = 60 * 1000 };

struct state {
    int keyboard, screen;
    const char *prompt;
    size_t found; /* characters of the prompt matched so far */
    char text[512];
    size_t from, to; /* part of the buffer that is still to be typed */
    char last;       /* last character typed */
    bool ended;      /* at the end of standard input */
    bool deaf;       /* nobody reads standard output */
};

static void look_for_prompt(struct state *s, const char *text, size_t size)
{
    for (size_t i = 0; i < size && s->prompt[s->found]; i++) {
        if (text[i] != s->prompt[s->found])
            s->found = 0;
        s->found += text[i] == s->prompt[s->found];
    }
}

/* False at the end of QEMU's output. */
static bool show(struct state *s)
{
    char text[4096];
    ssize_t n = read(s->screen, text, sizeof text);
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0)
        return false;
    look_for_prompt(s, text, (size_t)n);
    for (ssize_t done = 0, some; done < n && !s->deaf; done += some) {
        some = write(STDOUT_FILENO, text + done, (size_t)(n - done));
        s->deaf = some < 0 && errno != EINTR;
        some = some < 0 ? 0 : some;
    }
    return true;
}

static void hear(struct state *s)
{
    ssize_t n = read(STDIN_FILENO, s->text, sizeof s->text);
    if (n < 0 && errno == EINTR)
        return;
    s->ended = n <= 0;
    s->from = 0;
    s->to = n > 0 ? (size_t)n : 0;
    if (s->ended && s->last != '\n')
        s->text[s->to++] = '\n';
}

/* A pipe with room accepts a page, so this never waits. */
static void type(struct state *s)
{
    ssize_t n = write(s->keyboard, s->text + s->from, s->to - s->from);
    if (n > 0) {
        s->from += (size_t)n;
        s->last = s->text[s->from - 1];
    }
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((noreturn)) static void work(struct state *s)
{
    for (int64_t next = 0;;) {
        bool ready = !s->prompt[s->found];
        if (ready && s->ended && s->from == s->to && now() >= next) {
            s->text[0] = '\4';
            s->from = 0;
            s->to = 1;
            next = now() + 1000;
        }
        bool full = s->from < s->to, idle = s->ended && !full;
        int64_t wait = !ready ? PATIENCE : !idle ? -1 : next > now() ? next - now() : 0;
        struct pollfd fds[] = {
            {.fd = s->screen, .events = POLLIN},
            {.fd = full ? s->keyboard : STDIN_FILENO, .events = full ? POLLOUT : POLLIN},
        };
        if (!ready || idle)
            fds[1].fd = -1;
        int n = poll(fds, 2, (int)wait);
        if (!n && !ready)
            s->found = strlen(s->prompt);
        if (n <= 0)
            continue;
        if (fds[0].revents && !show(s))
            _exit(0);
        if (fds[1].revents && !full)
            hear(s);
        else if (fds[1].revents & POLLERR)
            s->keyboard = -1; /* QEMU reads no more input, but may still write */
        else if (fds[1].revents)
            type(s);
    }
}

bool typist_start(struct typist *t, const char *prompt)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    pid_t parent = getpid();
    *t = (struct typist){-1, -1, -1};
    if (!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC))
        t->process = fork();
    if (!t->process) {
        struct state s = {.keyboard = in[1], .screen = out[0], .prompt = prompt, .last = '\n'};
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        signal(SIGTERM, SIG_DFL);
        signal(SIGPIPE, SIG_IGN);
        close(in[0]);
        close(out[1]);
        if (getppid() == parent)
            work(&s);
        _exit(0);
    }
    int why = errno;
    close(in[1]);
    close(out[0]);
    t->keyboard = in[0];
    t->screen = out[1];
    if (t->process < 0) {
        close(in[0]);
        close(out[1]);
    }
    errno = why;
    return t->process > 0;
}

void typist_end(const struct typist *t, bool at_once)
{
    if (at_once)
        kill(t->process, SIGTERM);
    while (waitpid(t->process, NULL, 0) < 0 && errno == EINTR)
        ;
}
