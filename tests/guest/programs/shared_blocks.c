/* Two blocks of 16 bytes in one cache line, each of them a thread's own. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static void *work(void *p)
{
    volatile long *count = p;
    for (int i = 0; i < 300000; i++)
        ++*count;
    return NULL;
}
#define COUNTERS 4
int main(void)
{
    long *c[COUNTERS];
    pthread_t thread[2];
    for (int i = 0; i < COUNTERS; i++)
        c[i] = calloc(1, 16);
    int first =
        (uintptr_t)c[0] / 64 == (uintptr_t)c[1] / 64 ? 0 : 1; /* 32 bytes from one to the next */
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, work, c[first + i]);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
