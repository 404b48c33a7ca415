/* Starts other programs in the way that its first argument names; prints what it is. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile long sink;

__attribute__((noinline)) void busy(long n)
{
    for (long i = 0; i < n; i++)
        sink += i;
}

static int wait_for(pid_t pid)
{
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 255;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Arguments, environment, descriptors and signals as they came. */
static int tell(int argc, char **argv)
{
    sigset_t blocked;
    struct sigaction ignored;
    for (int i = 0; i < argc; i++)
        printf("argument %d: %s\n", i, argv[i]);
    for (char **e = environ; *e; e++)
        printf("variable: %s\n", *e);
    for (int i = 3; i < 32; i++)
        if (fcntl(i, F_GETFD) >= 0)
            printf("descriptor %d\n", i);
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigaction(SIGUSR2, NULL, &ignored);
    printf("signals: %d %d\n", sigismember(&blocked, SIGUSR1), ignored.sa_handler == SIG_IGN);
    return 7;
}

static int spawn_with_actions(char **argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t mask;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 9);
    posix_spawnattr_init(&attributes);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    signal(SIGUSR2, SIG_IGN);
    char *words[] = {"other name", "tell", "a b", "", NULL}, *variables[] = {"B=2,3", "A=1", NULL};
    int error = posix_spawn(&pid, argv[2], &actions, &attributes, words, variables);
    return error ? error : wait_for(pid);
}

/* Many at a time, each of which becomes something else. */
static int storm(char **argv)
{
    int sum = 0;
    for (int round = 0; round < 4; round++) {
        pid_t pids[8];
        for (int i = 0; i < 8; i++) {
            pids[i] = i & 1 ? vfork() : fork();
            if (!pids[i]) {
                char *words[] = {argv[0], "exit", i & 2 ? "1" : "2", NULL};
                execv(argv[0], words);
                _exit(99);
            }
        }
        for (int i = 0; i < 8; i++)
            sum += wait_for(pids[i]);
    }
    return sum;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    busy(100000);
    if (!strcmp(what, "exit"))
        return atoi(argv[2]);
    if (!strcmp(what, "tell"))
        return tell(argc, argv);
    if (!strcmp(what, "kill"))
        raise(SIGTERM);
    if (!strcmp(what, "spawn"))
        return spawn_with_actions(argv);
    if (!strcmp(what, "storm"))
        return storm(argv);
    if (!strcmp(what, "system")) {
        int status = system(argv[2]);
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (!strcmp(what, "shells")) { /* one after the other */
        int sum = 0;
        for (int i = 0; i < 8; i++)
            sum += WEXITSTATUS(system(argv[2]));
        return sum;
    }
    if (!strcmp(what, "exec")) {
        execv(argv[2], argv + 2);
        printf("%s\n", strerror(errno));
        return 9;
    }
    if (!strcmp(what, "execveat")) {
        int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
        syscall(SYS_execveat, fd, "", argv + 2, environ, 0x1000);
        return 9;
    }
    if (!strcmp(what, "again")) { /* itself, so many times */
        char number[16];
        int n = atoi(argv[2]);
        if (!n)
            return 5;
        snprintf(number, sizeof number, "%d", n - 1);
        char *words[] = {argv[0], "again", number, NULL};
        execv("/proc/self/exe", words);
        return 9;
    }
    return 3;
}
