/*
 * Calls that wait for a descriptor while another thread waits, too, and calls that look as if they
 * did: one line each, the same with and without spex. Standard input is a pipe.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2], never[2], pair[2];

static void say(const char *what, long result)
{
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void *take(void *unused)
{
    char byte;
    say("byte", read(ends[0], &byte, 1));
    return unused;
}

static void *take_never(void *unused)
{
    char byte;
    say("never", read(never[0], &byte, 1));
    return unused;
}

static void *ask(void *time)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    say("select", select(ends[0] + 1, &set, NULL, NULL, time));
    return NULL;
}

static void *take_input(void *unused)
{
    char bytes[16];
    long all = 0, n;
    while ((n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0)
        all += n;
    say("input", all);
    return unused;
}

static void on_alarm(int signal)
{
    (void)signal;
}

/* A FIFO that nobody has ever opened to write: its end, at once. */
static void read_unopened(void)
{
    char byte;
    int fifo = mkfifo("waits.fifo", 0600) ? -1 : open("waits.fifo", O_RDONLY | O_NONBLOCK);
    unlink("waits.fifo");
    fcntl(fifo, F_SETFL, 0);
    say("no writer", read(fifo, &byte, 1));
}

static void read_signals(void)
{
    char bytes[16];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    say("too small", read(signalfd(-1, &set, 0), bytes, sizeof bytes));
}

int main(void)
{
    const struct timespec moment = {.tv_nsec = 100000};
    const struct itimerspec timer = {.it_value = {.tv_nsec = 20000000}};
    const struct itimerval alarms = {.it_interval = {.tv_usec = 100000}, .it_value = {.tv_sec = 1}};
    struct timeval limit = {.tv_usec = 3000};
    struct sigaction action = {.sa_handler = on_alarm};
    char bytes[16];
    pthread_t thread, other;
    int end, clock = timerfd_create(CLOCK_MONOTONIC, 0);
    if (pipe(ends) || pipe(never) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 1;
    pthread_create(&other, NULL, take_never, NULL);
    pthread_create(&thread, NULL, ask, &limit);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, ask, NULL);
    nanosleep(&moment, NULL);
    long written = write(ends[1], "x", 1);
    pthread_join(thread, NULL);
    say("written", written);
    take(NULL);
    pthread_create(&thread, NULL, take, NULL);
    nanosleep(&moment, NULL);
    pthread_cancel(thread);
    say("cancelled", pthread_join(thread, NULL));
    pthread_create(&thread, NULL, take_input, NULL);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, take, NULL);
    nanosleep(&moment, NULL);
    fflush(stdout);
    if (!fork())
        _exit(write(ends[1], "x", 1) != 1);
    pthread_join(thread, NULL);
    wait(&end);
    say("child", end);
    timerfd_settime(clock, 0, &timer, NULL);
    say("timer", read(clock, bytes, 8));
    say("nothing", read(ends[0], bytes, 0));
    say("wrong end", read(ends[1], bytes, 1));
    read_unopened();
    read_signals();
    say("at once", recv(pair[0], bytes, 1, MSG_DONTWAIT));
    limit.tv_usec = 3000; /* what was left */
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    say("for some time", recv(pair[0], bytes, 1, 0));
    say("not a door", accept(pair[1], NULL, NULL));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    say("not waiting", read(ends[0], bytes, 1));
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &alarms, NULL);
    say("alarm", read(pair[1], bytes, 1));
    return 0;
}
