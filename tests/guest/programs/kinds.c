/*
 * Threads that depend on who comes first, of one kind each: argument 1 says which. What it prints
 * depends on the order in which threads did things.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 120 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, empty = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier, start;
static pthread_spinlock_t spin;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static uint32_t order = 2166136261u;
static unsigned items, timeouts;
static int ends[2];

static void note(uint32_t value)
{
    order = (order ^ value) * 16777619u;
}

static void work(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

/* A different amount each time, and for each thread. */
static void some_work(uint32_t *state)
{
    *state = *state * 1103515245u + 12345u;
    work(*state >> 20 & 127);
}

static struct timespec soon(long ns)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ns;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static void *with_mutex(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        some_work(&state);
        pthread_mutex_lock(&mutex);
        note(me);
        work(20);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *with_spin(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        some_work(&state);
        pthread_spin_lock(&spin);
        note(me);
        pthread_spin_unlock(&spin);
    }
    return NULL;
}

static void *with_barrier(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        some_work(&state);
        if (pthread_barrier_wait(&barrier))
            note(me);
    }
    return NULL;
}

/* Even threads fill, odd ones take. */
static void *with_condition(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        some_work(&state);
        pthread_mutex_lock(&mutex);
        while (me & 1 ? !items : items == 2)
            pthread_cond_wait(me & 1 ? &filled : &empty, &mutex);
        items += me & 1 ? -1u : 1u;
        note(me);
        pthread_cond_signal(me & 1 ? &empty : &filled);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

/* The same with a pipe that is soon full. */
static void *with_pipe(void *argument)
{
    static char bytes[5000];
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        some_work(&state);
        if (me & 1) {
            struct pollfd look = {.fd = ends[0], .events = POLLIN};
            poll(&look, 1, -1);
            for (size_t n = 0; n < sizeof bytes;) {
                ssize_t got = read(ends[0], bytes, sizeof bytes - n);
                n += got > 0 ? (size_t)got : 0;
                note(me + (uint32_t)got);
            }
            continue;
        }
        if (write(ends[1], bytes, sizeof bytes) != sizeof bytes)
            return NULL;
        note(me);
    }
    return NULL;
}

static void *with_semaphore(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        sem_wait(&semaphore);
        note(me);
        some_work(&state);
        sem_post(&semaphore);
    }
    return NULL;
}

static void *with_rwlock(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        some_work(&state);
        if (i % 4 == me) {
            pthread_rwlock_wrlock(&rwlock);
            note(me);
        } else {
            pthread_rwlock_rdlock(&rwlock);
        }
        work(10);
        pthread_rwlock_unlock(&rwlock);
    }
    return NULL;
}

/* Some of these waits end because somebody signals, others because time is up. */
static void *with_time(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        some_work(&state);
        if (me == 0) {
            const struct timespec nap = {.tv_nsec = 20000};
            nanosleep(&nap, NULL);
            pthread_mutex_lock(&mutex);
            pthread_cond_signal(&filled);
            pthread_mutex_unlock(&mutex);
            sem_post(&semaphore);
            continue;
        }
        struct timespec until = soon(me == 1 ? 5000 : 50000);
        pthread_mutex_lock(&mutex);
        int result = me == 3 ? 0 : pthread_cond_timedwait(&filled, &mutex, &until);
        pthread_mutex_unlock(&mutex);
        if (me == 3)
            result = sem_timedwait(&semaphore, &until) ? errno : 0;
        timeouts += result == ETIMEDOUT;
        note(me + (result ? 4 : 0));
    }
    return NULL;
}

static void *(*kind)(void *);

static void *run(void *argument)
{
    pthread_barrier_wait(&start);
    return kind(argument);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void *(*run)(void *);
    } kinds[] = {
        {"mutex", with_mutex},         {"spin", with_spin}, {"barrier", with_barrier},
        {"condition", with_condition}, {"pipe", with_pipe}, {"semaphore", with_semaphore},
        {"rwlock", with_rwlock},       {"time", with_time},
    };
    pthread_t thread[THREADS];
    if (argc < 2 || pipe(ends))
        return 1;
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&start, NULL, THREADS);
    pthread_barrier_init(&barrier, NULL, THREADS);
    sem_init(&semaphore, 0, 2);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(kinds[k].name, argv[1]))
            continue;
        kind = kinds[k].run;
        for (uintptr_t i = 0; i < THREADS; i++)
            if (pthread_create(&thread[i], NULL, run, (void *)i))
                return 3;
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        printf("%s: order %08x, %u time-outs\n", argv[1], order, timeouts);
        return 0;
    }
    return 1;
}
