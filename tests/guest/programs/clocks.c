/*
 * What clocks say: one line each, of times that a program of one thread sees, and of two threads
 * that wait for each other with time-outs.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

static uint64_t ns(struct timespec t)
{
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t says(clockid_t id)
{
    struct timespec t;
    return clock_gettime(id, &t) ? 0 : ns(t);
}

static uint64_t counter(void)
{
    uint64_t n;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(n));
    return n;
}

static void show(const char *name, uint64_t value)
{
    printf("%s %llu\n", name, (unsigned long long)value);
}

static void work(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

static void until(clockid_t id, uint64_t more)
{
    uint64_t end = says(id) + more;
    const struct timespec t = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
    clock_nanosleep(id, TIMER_ABSTIME, &t, NULL);
}

/* How much each clock moves while the program works, sleeps, and sleeps until some time. */
static void moves(void)
{
    static const clockid_t ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
                                    CLOCK_THREAD_CPUTIME_ID};
    static const char *const names[] = {"wall", "monotonic", "process", "thread"};
    const struct timespec nap = {.tv_nsec = 20000000};
    for (unsigned i = 0; i < 4; i++) {
        char text[64];
        uint64_t t[4] = {says(ids[i])};
        work(50000);
        t[1] = says(ids[i]);
        nanosleep(&nap, NULL);
        t[2] = says(ids[i]);
        until(i ? CLOCK_MONOTONIC : CLOCK_REALTIME, 20000000);
        t[3] = says(ids[i]);
        for (unsigned k = 0; k < 3; k++) {
            snprintf(text, sizeof text, "%s-%s", names[i], &"work\0\0nap\0\0\0until"[6 * k]);
            show(text, t[k + 1] - t[k]);
        }
    }
}

static void others(void)
{
    struct timeval day;
    struct timespec tick;
    struct rusage usage;
    uint8_t rest = 0;
    struct tms ticks;
    struct sysinfo info;
    uint64_t before = counter(), frequency, wall = says(CLOCK_REALTIME);
    __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
    gettimeofday(&day, NULL);
    show("day", ((uint64_t)day.tv_sec * 1000000 + (uint64_t)day.tv_usec) * 1000 + 999 - wall);
    show("date", wall);
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    show("resolution", ns(tick));
    memset(&usage, 0xff, sizeof usage);
    getrusage(RUSAGE_SELF, &usage);
    for (size_t i = offsetof(struct rusage, ru_stime); i < sizeof usage; i++)
        rest |= ((const uint8_t *)&usage)[i];
    show("usage", (uint64_t)usage.ru_utime.tv_sec * 1000000 + (uint64_t)usage.ru_utime.tv_usec);
    show("usage-rest", rest);
    show("ticks", (uint64_t)times(&ticks));
    show("ticks-used", (uint64_t)ticks.tms_utime);
    sysinfo(&info);
    show("up", (uint64_t)info.uptime);
    show("load", info.loads[0] + info.sharedram + info.bufferram);
    work(100000);
    show("counter-ns", (counter() - before) * 1000000 / (frequency / 1000));
}

/* A timer that is set to go off in ten minutes has not yet gone off. */
static void timer(clockid_t id)
{
    uint64_t end = says(id) + 600000000000;
    struct itimerspec when = {.it_value = {(time_t)(end / 1000000000), (long)(end % 1000000000)}};
    const struct itimerspec same = when;
    struct pollfd ready = {timerfd_create(id, 0), POLLIN, 0};
    timerfd_settime(ready.fd, TFD_TIMER_ABSTIME, &when, NULL);
    show("timer", (uint64_t)poll(&ready, 1, 0) + (memcmp(&when, &same, sizeof same) != 0));
    timerfd_gettime(ready.fd, &when);
    show("far", when.it_value.tv_sec > 300 && when.it_value.tv_sec <= 600);
    close(ready.fd);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static uint64_t latest, back;

/* Each takes the time under a lock; it must not go back. */
static void *take(void *rounds)
{
    for (uintptr_t i = 0; i < (uintptr_t)rounds; i++) {
        struct timespec t;
        pthread_mutex_lock(&mutex);
        clock_gettime(CLOCK_REALTIME, &t);
        back += ns(t) < latest;
        latest = ns(t);
        t.tv_nsec += 1000 * (long)(i % 7 + 1);
        t.tv_sec += t.tv_nsec / 1000000000;
        t.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&condition, &mutex, &t);
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
        work((unsigned)(i * 37 % 500));
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    uint64_t start = says(CLOCK_MONOTONIC);
    show("start", start);
    moves();
    others();
    timer(CLOCK_REALTIME);
    timer(CLOCK_MONOTONIC);
    pthread_create(&thread, NULL, take, (void *)300);
    take((void *)200);
    pthread_join(thread, NULL);
    show("back", back);
    show("process", says(CLOCK_PROCESS_CPUTIME_ID));
    show("all", says(CLOCK_MONOTONIC) - start);
    return 0;
}
