#include "count.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEVICES "/sys/bus/event_source/devices"

const char *const native_count_names[NATIVE_COUNTS] = {"sample_pop", "sample_feed",
                                                       "sample_filtrate", "sample_collision"};

/* A PMU of the CPUs that counts it: its type, and the event's number. */
static bool find(const struct native_machine *m, const char *pmu, const char *name, uint32_t *type,
                 uint64_t *config)
{
    char path[400], line[64];
    snprintf(path, sizeof path, DEVICES "/%.100s/events/%s", pmu, name);
    if (!native_line(m->root, path, line, sizeof line) || strncmp(line, "event=", 6))
        return false;
    *config = strtoull(line + 6, NULL, 0);
    snprintf(path, sizeof path, DEVICES "/%.100s/type", pmu);
    if (!native_line(m->root, path, line, sizeof line))
        return false;
    *type = (uint32_t)strtoul(line, NULL, 10);
    return true;
}

static void open_counter(const struct native_options *o, struct perf_event_attr *attr, int32_t tid,
                         int cpu, enum native_count kind, struct native_counters *c)
{
    int fd = (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && !attr->exclude_kernel && !o->all_cpus) {
        attr->exclude_kernel = attr->exclude_hv = 1;
        fd = (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    }
    struct open_fd *entry = fd < 0 ? NULL : vec_push(&c->fds);
    if (entry)
        *entry = (struct open_fd){.fd = fd, .event = (uint8_t)kind};
    else if (fd >= 0)
        close(fd);
    c->there[kind] |= entry != NULL;
}

/* One on each CPU if whole CPUs are recorded, else one for each thread, wherever it runs. */
static void open_kind(const struct native_options *o, const int32_t *tids, size_t count,
                      enum native_count kind, uint32_t type, uint64_t config,
                      struct native_counters *c)
{
    struct perf_event_attr attr = {.size = PERF_ATTR_SIZE_VER7,
                                   .type = type,
                                   .config = config,
                                   .disabled = 1,
                                   .inherit = !o->all_cpus,
                                   .enable_on_exec = o->argv && !o->all_cpus};
    for (size_t i = 0; i < count && !o->all_cpus; i++)
        open_counter(o, &attr, tids[i], -1, kind, c);
    for (unsigned cpu = 0; cpu < o->machine->cpu_count && o->all_cpus; cpu++)
        if (!o->cpus || native_cpus_has(o->cpus, cpu)) /* fails for CPUs that are offline */
            open_counter(o, &attr, -1, (int)cpu, kind, c);
}

void native_counters_open(const struct native_options *o, const int32_t *tids, size_t count,
                          struct native_counters *c)
{
    char path[400];
    snprintf(path, sizeof path, "%s" DEVICES, o->machine->root);
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        for (unsigned kind = 0; kind < NATIVE_COUNTS; kind++) {
            uint32_t type;
            uint64_t config;
            if (find(o->machine, e->d_name, native_count_names[kind], &type, &config))
                open_kind(o, tids, count, (enum native_count)kind, type, config, c);
        }
    if (dir)
        closedir(dir);
}

void native_counters_enable(const struct native_counters *c)
{
    for (size_t i = 0; i < c->fds.count; i++)
        ioctl(c->fds.items[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

void native_counters_read(const struct native_counters *c, uint64_t value[NATIVE_COUNTS])
{
    for (size_t i = 0; i < c->fds.count; i++) {
        uint64_t n;
        if (read(c->fds.items[i].fd, &n, sizeof n) == (ssize_t)sizeof n)
            value[c->fds.items[i].event] += n;
    }
}

void native_counters_close(struct native_counters *c)
{
    for (size_t i = 0; i < c->fds.count; i++)
        close(c->fds.items[i].fd);
    vec_free(&c->fds);
}

/* ---- the period ---- */

/* The next of 256, 512, 1024 ... that is not below it. */
static uint64_t round_up(double period, uint64_t least)
{
    uint64_t p = 256;
    while ((p < least || (double)p < period) && p < UINT64_C(1) << 31)
        p <<= 1;
    return p;
}

uint64_t native_recommend(const struct native_run_figures *f, const char **why)
{
    enum { ENOUGH = 10000 };
    const double tolerated = 0.01;
    double period = (double)f->period;
    double collided = f->samples ? (double)f->collisions / (double)(f->collisions + f->samples) : 0;
    if (!f->samples) {
        *why = "no sample was taken";
        return round_up(period / 16, f->least);
    }
    if (f->truncated) {
        *why = "buffers were full before they were read";
        return round_up(2 * period, f->least);
    }
    if (collided > tolerated) {
        *why = "more than 1% of the samples collided";
        return round_up(period * collided / tolerated, f->least);
    }
    if (f->samples && f->samples < ENOUGH && collided < tolerated / 10 &&
        f->period > (f->least ? f->least : 256)) {
        uint64_t shorter = round_up(period * (double)f->samples / ENOUGH, f->least);
        *why = "few samples, and hardly any collided";
        return shorter < f->period ? shorter : f->period;
    }
    *why = "enough samples, and hardly any collided";
    return f->period;
}
