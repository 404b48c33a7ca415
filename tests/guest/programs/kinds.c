/*
 * Threads that depend on who comes first, of one kind each: argument 1 says which. What it prints
 * depends on the order in which threads did things.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
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
static int ends[2], event, epoll, door;

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

/* Two that write pieces of different sizes, two that take what there is. */
static void *with_sizes(void *argument)
{
    static char bytes[THREADS][6000];
    static unsigned ended;
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    for (unsigned i = 0; me & 1 || i < ROUNDS; i++) {
        some_work(&state);
        ssize_t done = me & 1 ? read(ends[0], bytes[me], me == 1 ? 700 : 1900)
                              : write(ends[1], bytes[me], me ? 6000 - 47 * i : 3 + i);
        note(me + (uint32_t)done);
        if (done <= 0)
            return NULL;
    }
    if (__atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST) == 2)
        close(ends[1]);
    return NULL;
}

/*
 * One adds to a counter; one takes from it, one asks whether there is something, and one asks in
 * another way; these two not for long.
 */
static void *with_events(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    struct pollfd look = {.fd = event, .events = POLLIN};
    struct epoll_event what;
    uint64_t one = 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        some_work(&state);
        if (me < 2 && (me ? read(event, &one, 8) : write(event, &one, 8)) != 8)
            return NULL;
        if (me >= 2 && i < ROUNDS / 8) {
            const struct timespec soon = {.tv_nsec = 3000};
            int result = me == 2 ? ppoll(&look, 1, &soon, NULL) : epoll_wait(epoll, &what, 1, 1);
            timeouts += !result;
            note(me + 10 * (uint32_t)result);
        }
        note(me);
    }
    return NULL;
}

/* Two wait for whoever calls; two call, and wait for the answer. */
static void *with_calls(void *argument)
{
    uint32_t me = (uint32_t)(uintptr_t)argument, state = me + 1;
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "kinds.socket"};
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        uint32_t word = me;
        some_work(&state);
        int fd = me & 1 ? accept(door, NULL, NULL) : socket(AF_UNIX, SOCK_STREAM, 0);
        if (fd < 0 || (!(me & 1) && connect(fd, (struct sockaddr *)&name, sizeof name)))
            return NULL;
        if ((!(me & 1) && send(fd, &word, 4, 0) != 4) || recv(fd, &word, 4, 0) != 4)
            return NULL;
        note(10 * me + word);
        word = me;
        if (me & 1 && send(fd, &word, 4, 0) != 4)
            return NULL;
        close(fd);
    }
    return NULL;
}

static int open_door(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "kinds.socket"};
    door = socket(AF_UNIX, SOCK_STREAM, 0);
    return door < 0 || bind(door, (struct sockaddr *)&name, sizeof name) || listen(door, 8);
}

static int open_events(void)
{
    struct epoll_event what = {.events = EPOLLIN};
    event = eventfd(0, EFD_SEMAPHORE);
    epoll = epoll_create1(0);
    return event < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, event, &what);
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
        {"mutex", with_mutex},   {"spin", with_spin},           {"barrier", with_barrier},
        {"pipe", with_pipe},     {"condition", with_condition}, {"sizes", with_sizes},
        {"events", with_events}, {"semaphore", with_semaphore}, {"calls", with_calls},
        {"rwlock", with_rwlock}, {"time", with_time},
    };
    pthread_t thread[THREADS];
    if (argc < 2 || pipe(ends) || open_events())
        return 1;
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&start, NULL, THREADS);
    pthread_barrier_init(&barrier, NULL, THREADS);
    sem_init(&semaphore, 0, 2);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(kinds[k].name, argv[1]))
            continue;
        kind = kinds[k].run;
        if (kind == with_calls && open_door())
            return 1;
        for (uintptr_t i = 0; i < THREADS; i++)
            if (pthread_create(&thread[i], NULL, run, (void *)i))
                return 3;
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        unlink("kinds.socket");
        printf("%s: order %08x, %u time-outs\n", argv[1], order, timeouts);
        return 0;
    }
    return 1;
}
