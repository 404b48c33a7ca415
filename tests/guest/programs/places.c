/*
 * Loads from every place: memory, the last level, level 2, level 1, and lines that another thread
 * has written; the other thread reads memory that this one touched first.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    LINE = 64,
    LARGE = 8 << 20,
    LAST = 3 << 20,
    MIDDLE = 256 << 10,
    SMALL = 4096,
    SHARED = 128,
    TURNS = 200
};

static char *memory;
static _Alignas(64) volatile uint64_t shared[SHARED][LINE / 8];
static sem_t turn[2];
static volatile uint64_t sink;

static void walk(const char *p, size_t size, unsigned times)
{
    uint64_t sum = 0;
    while (times--)
        for (size_t i = 0, at = 0; i < size / LINE; i++) {
            sum += (uint8_t)p[at * LINE];
            at = (at + 97) % (size / LINE); /* no stream */
        }
    sink = sum;
}

/* Two threads hand lines to each other. */
static void turns(unsigned me)
{
    for (unsigned i = 0; i < TURNS; i++) {
        sem_wait(&turn[me]);
        for (unsigned k = 0; k < SHARED; k++)
            shared[k][0]++;
        sem_post(&turn[!me]);
    }
}

static void *other(void *unused)
{
    walk(memory + LARGE, LARGE, 1);
    turns(1);
    return unused;
}

int main(void)
{
    pthread_t thread;
    memory = aligned_alloc(LINE, 2 * LARGE);
    for (size_t i = 0; i < 2 * LARGE; i += LINE)
        memory[i] = 1;
    walk(memory, LARGE, 1);
    walk(memory, LAST, 3);
    walk(memory, MIDDLE, 8);
    walk(memory, SMALL, 100);
    sem_init(&turn[0], 0, 1);
    sem_init(&turn[1], 0, 0);
    if (pthread_create(&thread, NULL, other, NULL))
        return 1;
    turns(0);
    return pthread_join(thread, NULL);
}
