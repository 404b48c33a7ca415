#include "base/jobs.h"

#include "base/memory.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct taking {
    const struct jobs *jobs;
    struct memory *account;
    atomic_size_t next;
    atomic_uint started;
};

static void take_all(struct taking *t, unsigned thread)
{
    size_t job;
    while ((job = atomic_fetch_add(&t->next, 1)) < t->jobs->count)
        t->jobs->run(t->jobs->user, job, thread);
}

static void *run(void *argument)
{
    struct taking *t = argument;
    memory_enter(t->account);
    take_all(t, atomic_fetch_add(&t->started, 1) + 1);
    return NULL;
}

void jobs_run(const struct jobs *jobs, unsigned threads)
{
    struct taking t = {.jobs = jobs, .account = memory_current()};
    pthread_t others[JOBS_THREADS];
    unsigned count = 0;
    while (count + 1 < threads && count + 1 < jobs->count && count < JOBS_THREADS - 1 &&
           !pthread_create(&others[count], NULL, run, &t))
        count++;
    take_all(&t, 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(others[i], NULL);
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
