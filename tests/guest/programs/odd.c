/*
 * What programs do that have a reason to: argument 1 says what. Each works the same number of times
 * in main's process, and in what it starts, whatever the system says to what it asks for.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *unused)
{
    for (volatile unsigned i = 0; i < 100000; i++)
        ;
    return unused;
}

/* A thread and a process of its own. */
static int both(void)
{
    pthread_t thread;
    int status = 1;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (!child)
        _exit(work(NULL) != NULL);
    return waitpid(child, &status, 0) != child || status;
}

static void for_descriptors(void (*does)(int))
{
    DIR *all = opendir("/proc/self/fd");
    for (struct dirent *e; all && (e = readdir(all));)
        if (atoi(e->d_name) > 2 && atoi(e->d_name) != dirfd(all))
            does(atoi(e->d_name));
    closedir(all);
}

static void spoil(int fd)
{
    if (!ftruncate(fd, 0) && write(fd, "JUNKJUNK", 8) != 8)
        return;
    lseek(fd, 1 << 20, SEEK_SET);
}

static void replace(int fd)
{
    dup2(1, fd);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "seccomp")) { /* QEMU refuses filters: they would be of its calls */
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, 1, 0, 0, 0);
        syscall(SYS_seccomp, 0, 0, NULL);
    } else if (!strcmp(how, "ptrace")) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
        ptrace(PTRACE_SEIZE, getppid(), NULL, NULL);
    } else if (!strcmp(how, "close")) {
        for (int fd = 3; fd < 70000; fd++)
            close(fd);
    } else if (!strcmp(how, "close-range")) {
        syscall(SYS_close_range, 3, ~0u, 0);
    } else if (!strcmp(how, "replace")) {
        for (int fd = 3; fd < 300; fd++)
            dup2(1, fd);
        for_descriptors(replace);
    } else if (!strcmp(how, "spoil")) {
        for_descriptors(spoil);
    } else if (!strcmp(how, "bomb")) { /* 32 processes */
        for (int i = 0; i < 5; i++)
            fork();
        work(NULL);
        while (wait(NULL) > 0)
            ;
        return 0;
    } else if (!strcmp(how, "undumpable")) {
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    } else if (!strcmp(how, "few")) { /* descriptors, but those that are open and a few */
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){16, 16});
    }
    work(NULL);
    return both();
}
