/* Something to record: a thread with a name, page faults, sleeping, fork and exec of itself. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sum;

static void *worker(void *unused)
{
    size_t size = 1 << 21;
    char *memory = malloc(size);
    prctl(PR_SET_NAME, "worker");
    for (int i = 0; i < 20; i++) {
        memset(memory, i, size);
        usleep(100);
    }
    free(memory);
    return unused;
}

static void work(long count)
{
    for (long i = 0; i < count; i++)
        sum += (unsigned long)i;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc > 1) {
        work(4000000);
        return 0;
    }
    if (pthread_create(&thread, NULL, worker, NULL))
        return 1;
    work(12000000);
    pthread_join(thread, NULL);
    if (fork() == 0) {
        work(4000000);
        execl(argv[0], argv[0], "again", NULL);
        _exit(1);
    }
    wait(NULL);
    return 0;
}
