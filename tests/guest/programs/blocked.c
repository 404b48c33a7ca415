/*
 * What threads wait for. "lock": four threads hold one lock most of the time. "brief": they take
 * it as often and hold it for a moment. "files": one thread writes a file and reads it back.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, TIMES = 100, INSIDE = 4000, OUTSIDE = 1000 };

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long sink;
static int inside, outside;

static __attribute__((noinline)) void work(int n)
{
    for (int i = 0; i < n; i++)
        sink = sink * 3 + 1;
}

static __attribute__((noinline)) void serve(void)
{
    pthread_mutex_lock(&queue_lock);
    work(inside);
    pthread_mutex_unlock(&queue_lock);
}

static void *run(void *unused)
{
    for (int i = 0; i < TIMES; i++) {
        serve();
        work(outside);
    }
    return unused;
}

static __attribute__((noinline)) void load(int fd)
{
    static char bytes[1 << 16];
    lseek(fd, 0, SEEK_SET);
    if (read(fd, bytes, sizeof bytes) != sizeof bytes)
        exit(1);
}

static int files(void)
{
    static const char bytes[1 << 16];
    char name[] = "/tmp/blockedXXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != sizeof bytes)
        return 1;
    unlink(name);
    for (int i = 0; i < TIMES; i++) {
        load(fd);
        work(100);
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "files"))
        return files();
    inside = !strcmp(what, "lock") ? INSIDE : 10;
    outside = INSIDE + OUTSIDE - inside;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
