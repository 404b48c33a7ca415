/* Four threads that do the same, each with data of its own. */
#include <pthread.h>
#include <stdint.h>

enum { THREADS = 4, SIZE = 4096, ROUNDS = 40 };

static uint64_t data[THREADS][SIZE];

static void *work(void *argument)
{
    uint64_t *mine = argument;
    for (unsigned r = 0; r < ROUNDS; r++)
        for (unsigned i = 0; i < SIZE; i++)
            mine[i] = mine[i] * 3 + r;
    for (unsigned r = 0; r < ROUNDS / 4; r++)
        for (unsigned i = 0; i < SIZE; i++)
            mine[i] ^= mine[i * 77 % SIZE] / (i + 3);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, data[i]);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
