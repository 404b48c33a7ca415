/* The files of a recording: who recorded what on which machine, and what was running. */
#include "session.h"

#include "nodes.h"

#include "base/bits.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

static void take_time(const struct native_session *s, struct spex_perf_time *time)
{
    const struct perf_event_mmap_page *p = NULL;
    uint32_t before;
    for (size_t i = 0; i < s->opened.rings.count && !p; i++)
        p = s->opened.rings.items[i].ring.page;
    *time = (struct spex_perf_time){.mult = 1};
    if (!p)
        return; /* no CPU of those asked for is online */
    do {
        before = __atomic_load_n(&p->lock, __ATOMIC_ACQUIRE);
        *time = (struct spex_perf_time){.shift = p->time_shift,
                                        .mult = p->time_mult,
                                        .zero = p->time_zero,
                                        .cycles = p->time_cycles,
                                        .mask = p->time_mask,
                                        .cap_zero = p->cap_user_time_zero,
                                        .cap_short = p->cap_user_time_short};
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (before != p->lock || before & 1);
    if (!time->mult) /* this kernel does not say; the times of the records are right anyway */
        time->mult = 1;
}

/*
 * What the file says about each CPU. Returns whether all are alike, so that older perfs can read
 * it.
 */
static struct spex_perf_cpu *describe_cpus(const struct native_machine *m, bool *alike)
{
    struct spex_perf_cpu *cpus = calloc(m->cpu_count, sizeof *cpus);
    const struct spex_perf_cpu *first = NULL;
    *alike = true;
    for (unsigned i = 0; cpus && i < m->cpu_count; i++) {
        const struct native_pmu *pmu = native_machine_pmu(m, i);
        cpus[i] = (struct spex_perf_cpu){.cpu = i,
                                         .midr = native_machine_midr(m, i),
                                         .pmu_type = pmu ? pmu->type : UINT64_MAX,
                                         .min_interval = pmu ? pmu->min_interval : 0,
                                         .event_filter = pmu ? pmu->event_filter : 0};
        if (!native_cpus_has(&m->online, i))
            continue;
        if (first && (first->midr != cpus[i].midr || first->pmu_type != cpus[i].pmu_type))
            *alike = false;
        first = first ? first : &cpus[i];
    }
    return cpus;
}

static const char *part_name(const struct native_session *s, char *name, size_t size)
{
    if (!s->o.part_bytes && !s->o.part_time)
        return s->o.path;
    snprintf(name, size, "%s.%05u", s->o.path, s->totals.parts);
    return name;
}

static enum spex_status open_writer(struct native_session *s, struct spex_error *error)
{
    const struct native_machine *m = s->o.machine;
    const struct opened *opened = &s->opened;
    struct perf_writer_event events[PERF_WRITER_EVENTS];
    char name[4200];
    struct utsname host;
    struct sysinfo info;
    bool alike;
    struct spex_perf_cpu *cpus = describe_cpus(m, &alike);
    if (!cpus)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    struct native_nodes nodes;
    native_nodes_read(m, &nodes);
    struct perf_writer_machine machine = {.events = events,
                                          .cpus = cpus,
                                          .nodes = nodes.node,
                                          .node_count = nodes.count,
                                          .block_size = nodes.block};
    for (unsigned i = 0; i < opened->event_count; i++) {
        const struct open_event *e = &opened->events[i];
        if (!e->ids.count)
            continue; /* a PMU with no recorded CPU */
        if (i == opened->tracking)
            machine.tracking = machine.event_count;
        events[machine.event_count++] =
            (struct perf_writer_event){e->attr.bytes, e->name, e->ids.items, e->ids.count};
    }
    uname(&host);
    unsigned first = opened->rings.items[0].cpu > 0 ? (unsigned)opened->rings.items[0].cpu : 0;
    struct spex_perf_writer_options options = {
        .size = sizeof options,
        .metadata = alike ? 1 : 2,
        .cpus = m->cpu_count,
        .per_thread = s->o.per_thread,
        .untimed = s->o.per_thread,
        .midr = cpus[first].midr,
        .pmu_type = opened->events[0].attr.a.type,
        .arch = host.machine,
        .hostname = host.nodename,
        .osrelease = host.release,
        .version = SPEX_VERSION,
        .cmdline = s->o.cmdline,
        .memory_kb = sysinfo(&info) ? 0 : (uint64_t)info.totalram * info.mem_unit / 1024,
    };
    take_time(s, &options.time);
    s->totals.parts += s->o.part_bytes || s->o.part_time;
    enum spex_status status = perf_writer_open_machine(part_name(s, name, sizeof name), &options,
                                                       &machine, &s->writer, error);
    free(cpus);
    native_nodes_free(&nodes);
    return status;
}

void native_file_state(struct native_session *s)
{
    const char *root = s->o.machine->root;
    struct native_trailer trailer = {s->o.per_thread,
                                     s->opened.events[s->opened.tracking].ids.items[0]};
    native_ids pids = {0};
    native_proc_kernel(root, &s->kernel, &trailer, s->writer);
    native_drain(s);
    if (s->o.all_cpus)
        native_proc_all(root, &pids);
    else if (s->child.pid > 0 && s->totals.parts > 1)
        native_proc_family(root, s->child.pid, &pids);
    for (size_t i = 0; i < s->pids.count; i++)
        native_proc_family(root, s->pids.items[i], &pids);
    for (size_t i = 0; i < pids.count; i++) {
        native_proc_process(root, pids.items[i], &trailer, s->writer);
        native_drain(s); /* the recording continues meanwhile */
    }
    vec_free(&pids);
    native_drain(s);
}

/* An older file is kept beside, as perf does. */
static enum spex_status keep_older(const char *path, struct spex_error *error)
{
    char old[4200];
    struct stat st;
    snprintf(old, sizeof old, "%s.old", path);
    if (!strcmp(path, "-") || lstat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size ||
        !rename(path, old))
        return SPEX_OK;
    return error_set(error, SPEX_IO, 0, "cannot keep %.80s as %.80s: %s", path, old,
                     strerror(errno));
}

enum spex_status native_file_begin(struct native_session *s, struct spex_error *error)
{
    enum spex_status status =
        s->o.part_bytes || s->o.part_time ? SPEX_OK : keep_older(s->o.path, error);
    return status ? status : open_writer(s, error);
}

static enum spex_status end_writer(struct native_session *s, struct spex_error *error)
{
    struct spex_perf_writer *writer = s->writer;
    struct stat st;
    char name[4200];
    uint64_t size = spex_perf_writer_size(writer);
    s->writer = NULL;
    enum spex_status status = spex_perf_writer_finish(writer, error);
    s->totals.size += strcmp(s->o.path, "-") && !stat(part_name(s, name, sizeof name), &st)
                          ? (uint64_t)st.st_size
                          : size;
    return status;
}

enum spex_status native_file_next(struct native_session *s, struct spex_error *error)
{
    enum spex_status status = end_writer(s, error);
    s->part_bytes = 0;
    s->part_start = native_now();
    if (!status)
        status = open_writer(s, error);
    if (!status)
        native_file_state(s);
    return status;
}

enum spex_status native_file_end(struct native_session *s, struct spex_error *error)
{
    return end_writer(s, error);
}

void native_file_drop(struct native_session *s)
{
    struct spex_error error;
    if (s->writer)
        spex_perf_writer_finish(s->writer, &error);
    s->writer = NULL;
}
