/*
 * Two threads, each with a counter of its own, in one cache line (built with PADDED: in two).
 *
 * A profile shows: loads and stores of count() whose line comes from the other core, modified
 * there; one line, two threads, two different offsets: false sharing. In the padded twin there
 * is none of it.
 */
#include <pthread.h>
#include <stdio.h>

enum { STEPS = 3000000 };

#ifdef PADDED
#define PLACE _Alignas(64)
#else
#define PLACE
#endif

static _Alignas(64) struct {
    PLACE volatile long x;
    PLACE volatile long y;
} shared;

static pthread_barrier_t start;

static __attribute__((noipa)) void count(volatile long *counter)
{
    for (int i = 0; i < STEPS; i++)
        ++*counter;
}

static void *run(void *counter)
{
    pthread_barrier_wait(&start);
    count(counter);
    return NULL;
}

int main(void)
{
    pthread_t other;
    pthread_barrier_init(&start, NULL, 2);
    pthread_create(&other, NULL, run, (void *)&shared.y);
    run((void *)&shared.x);
    pthread_join(other, NULL);
    printf("%ld %ld\n", shared.x, shared.y);
    return 0;
}
