/* Two processes of 64 threads in all, each with data of its own: for the page's strips. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 32, SIZE = 1 << 12 };

static void *work(void *seed)
{
    volatile unsigned *data = calloc(SIZE, sizeof *data);
    for (unsigned i = 0, at = (unsigned)(size_t)seed; data && i < 20000; i++) {
        at = at * 1103515245 + 12345;
        data[at >> 8 & (SIZE - 1)]++;
    }
    free((void *)data);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    pid_t child = fork();
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i))
            return 1;
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return child && waitpid(child, NULL, 0) != child;
}
