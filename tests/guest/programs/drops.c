/*
 * Gives up rights, as daemons do, and works on, in new threads, too, or ("later") in processes that
 * it starts afterwards, by fork or by executing itself: argument 1 says how. Closes all descriptors
 * that it did not open, as some do.
 */
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    if (strstr(how, "small") && setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}))
        return 1;
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
    if (!strcmp(argv[1], "work"))
        return work(NULL) != NULL;
    if (strstr(argv[1], "fork") && (child = fork()))
        return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    pthread_create(&early, NULL, work, NULL);
    if (drop(argv[1], argv[2]))
        return 4;
    char word;
    if (strstr(argv[1], "wait") && (write(1, "?", 1) != 1 || read(0, &word, 1) != 1))
        return 6;
    if (strstr(argv[1], "later")) {
        for (unsigned i = 0; i < 3; i++) {
            if (!(child = fork())) {
                if (strstr(argv[1], "exec"))
                    execl(argv[0], argv[0], "work", argv[2], NULL);
                _exit(strstr(argv[1], "exec") || work(NULL));
            }
            if (waitpid(child, &status, 0) != child || status)
                return 3;
        }
        work(NULL);
        pthread_join(early, NULL);
        return getuid() == 65534 ? 5 : 0;
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&late[i], NULL, work, NULL);
    work(NULL);
    pthread_join(early, NULL);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(late[i], NULL);
    return getuid() == 65534 ? 5 : 0;
}
