/*
 * The program of docs/tutorial.md: readings of sensors are counted by two threads, summed by
 * sensor, and those above a limit are collected. Built with FIX=0 it has three problems; FIX=1,
 * 2 and 3 each take one away.
 *
 * A profile shows, with FIX=0: the two counters of tally() share a cache line; the load of
 * sum_by_sensor() misses, since the inner loop steps over whole rows; the branch of
 * collect_above() is mispredicted about every second time. With FIX=3 none of it.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#ifndef FIX
#define FIX 0
#endif

enum { ROWS = 2048, SENSORS = 1024, ROUNDS = 2000000, LIMIT = 128 };

static uint32_t readings[ROWS][SENSORS];
static uint64_t sums[SENSORS];
static uint32_t above[ROWS * SENSORS + 1];

/* ---- 1: each thread counts what it has seen ---- */

#if FIX >= 1
#define LINE 64 /* each counter in a cache line of its own */
#else
#define LINE 8
#endif

static _Alignas(64) struct {
    _Alignas(LINE) volatile long count;
} seen[2];

static __attribute__((noipa)) void tally(int thread)
{
    for (int i = 0; i < ROUNDS; i++)
        seen[thread].count++;
}

static void *run(void *thread)
{
    tally((int)(intptr_t)thread);
    return NULL;
}

/* ---- 2: a sum per sensor ---- */

static __attribute__((noipa)) void sum_by_sensor(void)
{
#if FIX >= 2
    for (int row = 0; row < ROWS; row++)
        for (int sensor = 0; sensor < SENSORS; sensor++)
            sums[sensor] += readings[row][sensor];
#else
    for (int sensor = 0; sensor < SENSORS; sensor++)
        for (int row = 0; row < ROWS; row++)
            sums[sensor] += readings[row][sensor];
#endif
}

/* ---- 3: the readings above the limit ---- */

static __attribute__((noipa)) int collect_above(const uint32_t *reading, uint32_t *to)
{
    int n = 0;
    for (int i = 0; i < ROWS * SENSORS; i++) {
#if FIX >= 3
        to[n] = reading[i];
        n += reading[i] > LIMIT;
#else
        if (reading[i] > LIMIT)
            to[n++] = reading[i];
#endif
    }
    return n;
}

int main(void)
{
    uint32_t seed = 1;
    for (int row = 0; row < ROWS; row++)
        for (int sensor = 0; sensor < SENSORS; sensor++) {
            seed = seed * 1664525 + 1013904223;
            readings[row][sensor] = seed >> 24;
        }
    pthread_t other;
    pthread_create(&other, NULL, run, (void *)1);
    tally(0);
    pthread_join(other, NULL);
    sum_by_sensor();
    int n = collect_above(&readings[0][0], above);
    printf("%ld seen, first sum %lu, %d above\n", seen[0].count + seen[1].count,
           (unsigned long)sums[0], n);
    return 0;
}
