/* Threads that sort arrays of their own: threads [COUNT=2 [ROUNDS=4]]. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 300000, MOST = 256 };
static int rounds;

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void *work(void *seed)
{
    uint32_t *v = malloc(N * sizeof *v), x = (uint32_t)(uintptr_t)seed;
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < N; i++)
            v[i] = x = x * 1664525 + 1013904223;
        qsort(v, N, sizeof *v, compare);
    }
    return v;
}

int main(int argc, char **argv)
{
    pthread_t t[MOST];
    int count = argc > 1 ? atoi(argv[1]) : 2;
    rounds = argc > 2 ? atoi(argv[2]) : 4;
    if (count < 1 || count > MOST) {
        fprintf(stderr, "threads: 1 to %d threads, not %s\n", MOST, argv[1]);
        return 2;
    }
    for (int i = 0; i < count; i++)
        if (pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(i + 1)))
            return 1;
    for (int i = 0; i < count; i++)
        pthread_join(t[i], NULL);
    return 0;
}
