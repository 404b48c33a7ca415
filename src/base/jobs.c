#include "base/jobs.h"

#include "base/memory.h"
#include "base/spin.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/*
 * glibc keeps 40 MB of stacks for later threads. It unmaps others, which interrupts all CPUs.
 */
enum { STACK = 2 << 20 };

struct jobs_pool {
    struct memory *account;
    const struct jobs *jobs; /* NULL: the threads end */
    atomic_size_t next;
    atomic_uint runs, started, left; /* runs so far; threads: started, yet to end this run */
    unsigned count;                  /* threads beside the caller's */
    pthread_mutex_t lock;
    pthread_cond_t begun, ended;
    pthread_t others[JOBS_THREADS];
};

static void take_all(struct jobs_pool *p, unsigned thread)
{
    size_t job;
    while ((job = atomic_fetch_add(&p->next, 1)) < p->jobs->count)
        p->jobs->run(p->jobs->user, job, thread);
}

/* Until there is a further run. Spins first: runs often follow each other closely. */
static void wait_for_run(struct jobs_pool *p, unsigned seen)
{
    for (unsigned i = 0; i < SPIN_TURNS && atomic_load(&p->runs) == seen; i++)
        spin_relax();
    if (atomic_load(&p->runs) != seen)
        return;
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->runs) == seen)
        pthread_cond_wait(&p->begun, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void wait_for_others(struct jobs_pool *p)
{
    for (unsigned i = 0; i < SPIN_TURNS && atomic_load(&p->left); i++)
        spin_relax();
    if (!atomic_load(&p->left))
        return;
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->left))
        pthread_cond_wait(&p->ended, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void *run(void *argument)
{
    struct jobs_pool *p = argument;
    memory_enter(p->account);
    const unsigned thread = atomic_fetch_add(&p->started, 1) + 1;
    for (unsigned seen = 0;; seen++) { /* no run is over before all threads have ended it */
        wait_for_run(p, seen);
        if (!p->jobs)
            return NULL;
        take_all(p, thread);
        if (atomic_fetch_sub(&p->left, 1) == 1) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->ended);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void begin_run(struct jobs_pool *p, const struct jobs *jobs)
{
    p->jobs = jobs;
    atomic_store(&p->next, 0);
    atomic_store(&p->left, p->count);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->runs, 1);
    pthread_cond_broadcast(&p->begun);
    pthread_mutex_unlock(&p->lock);
}

static void pool_start(struct jobs_pool *p, unsigned threads)
{
    pthread_attr_t attributes;
    p->account = memory_current();
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->begun, NULL);
    pthread_cond_init(&p->ended, NULL);
    while (p->count + 1 < threads && p->count < JOBS_THREADS - 1 &&
           !pthread_create(&p->others[p->count], &attributes, run, p))
        p->count++;
    pthread_attr_destroy(&attributes);
}

static void pool_end(struct jobs_pool *p)
{
    begin_run(p, NULL);
    for (unsigned i = 0; i < p->count; i++)
        pthread_join(p->others[i], NULL);
    pthread_cond_destroy(&p->ended);
    pthread_cond_destroy(&p->begun);
    pthread_mutex_destroy(&p->lock);
}

struct jobs_pool *jobs_pool_new(unsigned threads)
{
    struct jobs_pool *p = memory_get(1, sizeof *p);
    pool_start(p, threads);
    return p;
}

void jobs_pool_run(struct jobs_pool *p, const struct jobs *jobs)
{
    begin_run(p, jobs);
    take_all(p, 0);
    wait_for_others(p);
}

void jobs_pool_free(struct jobs_pool *p)
{
    if (!p)
        return;
    pool_end(p);
    memory_free(p);
}

void jobs_run(const struct jobs *jobs, unsigned threads)
{
    struct jobs_pool pool = {0};
    pool_start(&pool, jobs->count < threads ? (unsigned)jobs->count : threads);
    jobs_pool_run(&pool, jobs);
    pool_end(&pool);
}

/* The limit that cpu.max of a control group sets, rounded up; 0: no limit, or no such file. */
static unsigned quota_in(const char *path)
{
    unsigned long long quota, period;
    FILE *f = fopen(path, "re");
    bool limited = f && fscanf(f, "%llu %llu", &quota, &period) == 2 && period;
    if (f)
        fclose(f);
    return limited ? (unsigned)((quota + period - 1) / period) : 0;
}

/* The tightest quota of the process's control group and its ancestors. */
static unsigned quota(void)
{
    static const char root[] = "/sys/fs/cgroup";
    char line[PATH_MAX], path[PATH_MAX + 64] = "";
    unsigned least = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && !*path && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "0::/", 4)) /* version 2 */
            snprintf(path, sizeof path, "%s%s", root, line + 3);
    }
    if (f)
        fclose(f);
    while (strlen(path) >= strlen(root)) {
        const size_t size = strlen(path);
        snprintf(path + size, sizeof path - size, "/cpu.max");
        const unsigned cpus = quota_in(path);
        least = cpus && (!least || cpus < least) ? cpus : least;
        path[size] = 0;
        *strrchr(path, '/') = 0;
    }
    return least;
}

unsigned jobs_cpus(void)
{
    cpu_set_t set;
    unsigned cpus = sched_getaffinity(0, sizeof set, &set) ? 1 : (unsigned)CPU_COUNT(&set);
    const unsigned most = quota();
    cpus = most && most < cpus ? most : cpus;
    return cpus < 1 ? 1 : cpus > JOBS_THREADS ? JOBS_THREADS : cpus;
}
