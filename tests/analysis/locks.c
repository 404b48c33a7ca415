/* Two threads that contend for a spin lock (0), a mutex (1) or a counter (2). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 100000 };

static _Alignas(64) atomic_int spin;
static _Alignas(64) long guarded;
static _Alignas(64) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(64) atomic_long counter;
static _Alignas(64) char behind;

static void take(void)
{
    while (atomic_exchange_explicit(&spin, 1, memory_order_acquire))
        while (atomic_load_explicit(&spin, memory_order_relaxed))
            ;
}

static void *work(void *which)
{
    for (int i = 0; i < ROUNDS; i++) {
        switch (*(int *)which) {
        case 0:
            take();
            guarded++;
            atomic_store_explicit(&spin, 0, memory_order_release);
            break;
        case 1:
            pthread_mutex_lock(&mutex);
            guarded++;
            pthread_mutex_unlock(&mutex);
            break;
        default:
            atomic_fetch_add(&counter, 1);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int which = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &which);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld %ld%s\n", guarded, (long)counter, behind ? "!" : "");
    return 0;
}
