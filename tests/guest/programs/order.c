/*
 * Threads that depend on who comes first: they fight for a lock and for a spinning lock, wait
 * for each other at a barrier and at a condition, and hand bytes through a pipe. Who got the
 * lock when is what it prints.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 100 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static uint32_t won = 2166136261u, spun = 2166136261u;
static unsigned items, taken;
static int ends[2];

static uint32_t mix(uint32_t hash, uint32_t value)
{
    return (hash ^ value) * 16777619u;
}

static void work(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

static void *fight(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        state = state * 1103515245u + 12345u;
        work(state >> 20 & 63);
        pthread_mutex_lock(&mutex);
        won = mix(won, me);
        work(20);
        pthread_mutex_unlock(&mutex);
        pthread_spin_lock(&spin);
        spun = mix(spun, me);
        pthread_spin_unlock(&spin);
        if (i % 50 == 0)
            pthread_barrier_wait(&barrier);
        if (me == 0 && i % 10 == 0) {
            pthread_mutex_lock(&queue);
            items++;
            pthread_cond_signal(&filled);
            pthread_mutex_unlock(&queue);
        }
    }
    return NULL;
}

static void *take(void *unused)
{
    char byte = 0;
    (void)unused;
    while (taken < ROUNDS / 10) {
        pthread_mutex_lock(&queue);
        while (!items)
            pthread_cond_wait(&filled, &queue);
        taken += items;
        items = 0;
        pthread_mutex_unlock(&queue);
        if (write(ends[1], &byte, 1) != 1)
            return NULL;
    }
    close(ends[1]);
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS], taker;
    unsigned bytes = 0;
    char byte;
    if (pipe(ends))
        return 1;
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_create(&taker, NULL, take, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, fight, (void *)i);
    while (read(ends[0], &byte, 1) == 1)
        bytes++;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    pthread_join(taker, NULL);
    printf("lock %08x spin %08x bytes %u taken %u\n", won, spun, bytes, taken);
    return 0;
}
