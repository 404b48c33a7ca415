/*
 * Two threads that add to one counter with atomic instructions, then each to its own.
 *
 * A profile shows: the atomic of add_shared() takes its line from the other core again and
 * again (true sharing: one address, two threads), that of add_own() always hits level 1.
 */
#include <pthread.h>
#include <stdio.h>

enum { STEPS = 1500000 };

static _Alignas(64) long shared;
static struct {
    _Alignas(64) long value;
} own[2];
static pthread_barrier_t start;

static __attribute__((noipa)) void add_shared(void)
{
    for (int i = 0; i < STEPS; i++)
        __atomic_fetch_add(&shared, 1, __ATOMIC_RELAXED);
}

static __attribute__((noipa)) void add_own(long *counter)
{
    for (int i = 0; i < STEPS; i++)
        __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void *run(void *counter)
{
    pthread_barrier_wait(&start);
    add_shared();
    pthread_barrier_wait(&start);
    add_own(counter);
    return NULL;
}

int main(void)
{
    pthread_t other;
    pthread_barrier_init(&start, NULL, 2);
    pthread_create(&other, NULL, run, &own[1].value);
    run(&own[0].value);
    pthread_join(other, NULL);
    printf("%ld %ld\n", shared, own[0].value + own[1].value);
    return 0;
}
