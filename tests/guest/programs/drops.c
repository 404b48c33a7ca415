/*
 * Gives up rights, as daemons do, and works on, in new threads, too: argument 1 says how. Closes
 * all descriptors that it did not open, as some do.
 */
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *unused)
{
    for (volatile unsigned i = 0; i < 20000; i++)
        ;
    return unused;
}

static int drop(const char *how, const char *where)
{
    if (strstr(how, "root") && (chroot(where) || chdir("/")))
        return 1;
    if (strstr(how, "user") && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
        return 1;
    if (strstr(how, "rights")) {
        struct {
            unsigned version;
            int pid;
        } header = {0x20080522, 0};
        unsigned none[6] = {0};
        if (syscall(SYS_capset, &header, none))
            return 1;
    }
    for (int fd = 3; strstr(how, "close") && fd < 1024; fd++)
        close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t early, late[3];
    pid_t child = 0;
    int status = 0;
    if (argc < 3)
        return 2;
    if (strstr(argv[1], "fork") && (child = fork()))
        return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    pthread_create(&early, NULL, work, NULL);
    if (drop(argv[1], argv[2]))
        return 4;
    if (strstr(argv[1], "later")) {
        if (!(child = fork()))
            _exit(work(NULL) != NULL);
        return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&late[i], NULL, work, NULL);
    work(NULL);
    pthread_join(early, NULL);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(late[i], NULL);
    return getuid() == 65534 ? 5 : 0;
}
