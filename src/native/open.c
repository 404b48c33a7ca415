#include "open.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DATA_SIZE = 512 << 10, AUX_SIZE = 4 << 20, AUX_LEAST = 16 << 10 };

static int event_open(const union native_attr *attr, int32_t tid, int cpu, int group)
{
    union native_attr copy = *attr; /* the kernel writes its size there when it does not fit */
    return (int)syscall(SYS_perf_event_open, &copy, tid, cpu, group, PERF_FLAG_FD_CLOEXEC);
}

/* ---- what stands in the way ---- */

static enum spex_status refused_access(const struct native_options *o,
                                       const union native_attr *attr, int32_t tid,
                                       struct spex_error *error)
{
    enum { PA_ENABLE = 2, PCT_ENABLE = 4 };
    int paranoid = o->machine->paranoid;
    static const char fix[] = "run as root, give spex CAP_PERFMON (docs/native.md), or "
                              "'sysctl kernel.perf_event_paranoid";
    if (paranoid >= 3)
        return error_set(error, SPEX_IO, 0,
                         "perf_event_paranoid is %d: users may not record at all; %s=2'. Some "
                         "kernels, as Debian 12's, want CAP_SYS_ADMIN at this level",
                         paranoid, fix);
    if (o->all_cpus && paranoid >= 1)
        return error_set(error, SPEX_IO, 0,
                         "perf_event_paranoid is %d: users may not record whole CPUs; %s=0'",
                         paranoid, fix);
    if (attr->a.config & (PA_ENABLE | PCT_ENABLE) && attr->a.type != PERF_TYPE_SOFTWARE)
        return error_set(error, SPEX_IO, 0,
                         "pa_enable and pct_enable need root or CAP_PERFMON; leave them out");
    if (paranoid >= 2 && !attr->a.exclude_kernel)
        return error_set(error, SPEX_IO, 0,
                         "perf_event_paranoid is %d: users may not record the kernel; use "
                         "arm_spe/.../u, %s=1'",
                         paranoid, fix);
    return error_set(error, SPEX_IO, 0,
                     "thread %d may not be recorded: it is another user's, or its program was "
                     "changed by set-user-ID; run as root or with CAP_SYS_PTRACE and CAP_PERFMON",
                     tid);
}

/* Why an event could not be opened, and what to do about it. */
static enum spex_status refused(const struct native_options *o, const union native_attr *attr,
                                int cause, int cpu, int32_t tid, struct spex_error *error)
{
    switch (cause) {
    case EACCES:
    case EPERM:
        return refused_access(o, attr, tid, error);
    case ENOENT:
    case ENODEV:
        return error_set(error, SPEX_IO, 0, "CPU %d has no such event; -C names CPUs with SPE",
                         cpu);
    case EOPNOTSUPP:
        return error_set(error, SPEX_IO, 0,
                         "SPE's driver does not have a filter of this event on CPU %d; "
                         "caps/event_filter in /sys says which bits there are",
                         cpu);
    case EINVAL:
    case E2BIG:
        return error_set(error, SPEX_IO, 0,
                         "SPE's driver refuses this event: a bit of event_filter or "
                         "inv_event_filter that the CPU does not have, or terms that exclude one "
                         "another");
    case EBUSY:
        return error_set(error, SPEX_IO, 0,
                         "SPE is in use on CPU %d by another recording: end that one first", cpu);
    case EMFILE:
        return error_set(error, SPEX_IO, 0,
                         "too many threads: an open file is needed for each on each CPU; raise "
                         "'ulimit -n', or use -a");
    case ENOSYS:
        return error_set(error, SPEX_IO, 0,
                         "this kernel has no perf_event_open, or a container "
                         "forbids it (seccomp)");
    case ESRCH:
        return error_set(error, SPEX_IO, 0, "there is no thread %d", tid);
    }
    return error_set(error, SPEX_IO, 0, "perf_event_open on CPU %d: %s", cpu, strerror(cause));
}

static enum spex_status refused_map(const struct native_options *o, int cause, uint64_t size,
                                    struct spex_error *error)
{
    char line[32] = "516";
    native_line(o->machine->root, "/proc/sys/kernel/perf_event_mlock_kb", line, sizeof line);
    if (cause == EPERM)
        return error_set(error, SPEX_IO, 0,
                         "rings of %llu KB are more than a user may lock (perf_event_mlock_kb is "
                         "%.20s, and 'ulimit -l'); use a smaller -m, or root or CAP_IPC_LOCK",
                         (unsigned long long)(size >> 10), line);
    if (cause == EOPNOTSUPP)
        return error_set(error, SPEX_IO, 0, "the event has no AUX area: it is not SPE's");
    return error_set(error, SPEX_IO, 0, "a ring of %llu KB: %s", (unsigned long long)(size >> 10),
                     strerror(cause));
}

/* ---- rings ---- */

static void unmap(struct open_ring *r)
{
    if (r->ring.aux)
        munmap((void *)(uintptr_t)r->ring.aux, (size_t)r->ring.aux_size);
    if (r->ring.page)
        munmap(r->ring.page, r->map_size);
    r->ring.aux = NULL;
    r->ring.page = NULL;
}

static int map_ring(const struct native_options *o, struct open_ring *r, uint64_t data,
                    uint64_t aux)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    r->map_size = page + (size_t)data;
    void *base = mmap(NULL, r->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (base == MAP_FAILED)
        return errno;
    r->ring = (struct native_ring){
        .page = base, .data = (uint8_t *)base + page, .data_size = data, .snapshot = o->snapshot};
    if (!aux)
        return 0;
    r->ring.page->aux_offset = r->map_size;
    r->ring.page->aux_size = aux;
    /* A read-only mapping lets the kernel overwrite the oldest data. */
    int prot = o->snapshot ? PROT_READ : PROT_READ | PROT_WRITE;
    void *area = mmap(NULL, (size_t)aux, prot, MAP_SHARED, r->fd, (off_t)r->map_size);
    if (area == MAP_FAILED) {
        int cause = errno;
        unmap(r);
        return cause;
    }
    r->ring.aux = area;
    r->ring.aux_size = aux;
    return 0;
}

/* A size that the user did not ask for is halved until the limits allow it. */
static enum spex_status make_ring(const struct native_options *o, struct opened *opened,
                                  struct open_ring *r, bool spe, struct spex_error *error)
{
    uint64_t data = o->data_size ? o->data_size : DATA_SIZE;
    uint64_t aux = spe && !o->no_aux ? opened->aux_size : 0;
    for (;;) {
        int cause = map_ring(o, r, data, aux);
        if (!cause)
            return SPEX_OK;
        if ((cause != EPERM && cause != ENOMEM) || (o->data_size && (o->aux_size || !aux)) ||
            (aux <= AUX_LEAST && data <= AUX_LEAST))
            return refused_map(o, cause, data + aux, error);
        if (!o->aux_size && aux > AUX_LEAST)
            opened->aux_size = aux /= 2;
        if (!o->data_size && data > AUX_LEAST && data > aux / 8)
            data /= 2;
    }
}

/* ---- events ---- */

static struct open_fd *add_fd(struct opened *opened, unsigned event, int fd)
{
    struct open_event *e = &opened->events[event];
    struct open_fd *entry = NULL;
    uint64_t id, *kept = NULL;
    if (!ioctl(fd, PERF_EVENT_IOC_ID, &id))
        entry = vec_push(&opened->fds);
    if (entry && opened->begun) {
        struct open_alias *alias = vec_push(&opened->aliases);
        if (alias)
            alias->known = e->ids.items[0];
        kept = alias ? &alias->id : NULL;
    } else if (entry) {
        kept = vec_push(&e->ids);
    }
    if (!kept) {
        opened->fds.count -= entry != NULL;
        close(fd);
        return NULL;
    }
    *kept = id;
    *entry = (struct open_fd){.fd = fd, .event = (uint8_t)event};
    return entry;
}

/* An event on a CPU for a thread: -1 and errno if there is none. */
static int open_one(const struct native_options *o, struct opened *opened, unsigned event,
                    int32_t tid, int cpu)
{
    struct open_event *e = &opened->events[event];
    int fd = event_open(&e->attr, tid, cpu, -1);
    if (fd < 0 && (errno == EACCES || errno == EPERM) && !e->attr.a.exclude_kernel &&
        !e->attr.a.exclude_user && !o->all_cpus && e->role != ROLE_TRACKING) {
        /* Without privilege the program alone, as perf does. */
        e->attr.a.exclude_kernel = e->attr.a.exclude_hv = 1;
        fd = event_open(&e->attr, tid, cpu, -1);
        opened->user_only |= fd >= 0;
    }
    for (unsigned level = 1; fd < 0 && e->role == ROLE_TRACKING && level < TRACKING_LEVELS &&
                             (errno == EINVAL || errno == EACCES || errno == EPERM);
         level++) {
        native_attr_tracking(o, level, &e->attr);
        fd = event_open(&e->attr, tid, cpu, -1);
    }
    if (fd < 0 && e->role == ROLE_STACKS && e->attr.a.type == PERF_TYPE_HARDWARE &&
        (errno == ENOENT || errno == EOPNOTSUPP || errno == ENODEV)) {
        native_attr_stacks(o, true, opened->user_only, &e->attr);
        snprintf(e->name, sizeof e->name, "cpu-clock");
        fd = event_open(&e->attr, tid, cpu, -1);
    }
    return fd;
}

/* All events of one CPU and one thread; the ring of the CPU, or of the thread, takes them all. */
static enum spex_status open_on(const struct native_options *o, struct opened *opened, int cpu,
                                int32_t tid, struct open_ring *ring, struct spex_error *error)
{
    for (unsigned i = 0; i < opened->event_count; i++) {
        struct open_event *e = &opened->events[i];
        if (e->role == ROLE_SPE && cpu >= 0 && !native_cpus_has(&e->pmu->cpus, (unsigned)cpu))
            continue;
        if (opened->begun && !e->ids.count)
            continue; /* the file has no such PMU */
        int fd = open_one(o, opened, i, tid, cpu);
        if (fd < 0 && errno == ESRCH && !o->argv)
            return SPEX_END; /* a thread that has ended meanwhile */
        if (fd < 0)
            return refused(o, &e->attr, errno, cpu, tid, error);
        struct open_fd *added = add_fd(opened, i, fd);
        if (!added)
            return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
        added->ring = ring->fd < 0 ? fd : ring->fd;
        if (ring->fd < 0) {
            ring->fd = fd;
            enum spex_status status = make_ring(o, opened, ring, e->role == ROLE_SPE, error);
            if (status)
                return status;
        } else if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd)) {
            return error_set(error, SPEX_IO, 0, "events of CPU %d cannot share a ring: %s", cpu,
                             strerror(errno));
        }
    }
    return SPEX_OK;
}

static void name_event(const struct native_options *o, struct open_event *e,
                       const struct native_event *n)
{
    char terms[256];
    uint64_t config[5];
    memcpy(config, n->terms.config, sizeof config);
    config[0] = e->attr.a.config;
    spex_perf_terms_text(config, terms, sizeof terms);
    snprintf(e->name, sizeof e->name, "%s/%s/%s", o->machine->pmus[n->pmu].name, terms,
             e->attr.a.exclude_kernel ? "u"
             : e->attr.a.exclude_user ? "k"
                                      : "");
}

static void make_events(const struct native_options *o, struct opened *opened)
{
    unsigned n = 0;
    for (unsigned i = 0; i < o->event_count; i++) {
        struct open_event *e = &opened->events[n++];
        e->role = ROLE_SPE;
        e->pmu = &o->machine->pmus[o->events[i].pmu];
        native_attr_spe(o, &o->events[i], false, &e->attr);
    }
    struct open_event *e = &opened->events[n];
    opened->tracking = n++;
    e->role = ROLE_TRACKING;
    native_attr_tracking(o, 0, &e->attr);
    snprintf(e->name, sizeof e->name, "dummy:u");
    if (o->stacks) {
        e = &opened->events[n++];
        e->role = ROLE_STACKS;
        native_attr_stacks(o, false, false, &e->attr);
        snprintf(e->name, sizeof e->name, "cycles");
    }
    opened->event_count = n;
}

/* Each thread needs an open file on each CPU. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static enum spex_status open_rings(const struct native_options *o, const int32_t *tids,
                                   size_t count, struct opened *opened, struct spex_error *error)
{
    const struct native_machine *m = o->machine;
    unsigned last = o->per_thread ? 1 : m->cpu_count;
    for (unsigned cpu = 0; cpu < last; cpu++) {
        if (!o->per_thread &&
            (!native_cpus_has(&m->online, cpu) || (o->cpus && !native_cpus_has(o->cpus, cpu))))
            continue;
        struct open_ring ring = {.fd = -1, .cpu = o->per_thread ? -1 : (int)cpu, .tid = -1};
        for (size_t i = 0; i < count; i++) {
            if (o->per_thread)
                ring = (struct open_ring){.fd = -1, .cpu = -1, .tid = tids[i]};
            enum spex_status status = open_on(o, opened, ring.cpu, tids[i], &ring, error);
            bool whole = o->per_thread || i + 1 == count;
            struct open_ring *kept = ring.ring.page && (whole || (status && status != SPEX_END))
                                         ? vec_push(&opened->rings)
                                         : NULL;
            if (kept)
                *kept = ring;
            if (status && status != SPEX_END)
                return status;
        }
    }
    if (!opened->rings.count)
        return error_set(error, SPEX_IO, 0,
                         "nothing to record: the threads have ended, or none of "
                         "the CPUs is online");
    return SPEX_OK;
}

enum spex_status native_open_events(const struct native_options *o, const int32_t *tids,
                                    size_t count, struct opened *opened, struct spex_error *error)
{
    *opened = (struct opened){.aux_size = o->aux_size ? o->aux_size : AUX_SIZE};
    raise_limit();
    make_events(o, opened);
    enum spex_status status = open_rings(o, tids, count, opened, error);
    for (unsigned i = 0; i < o->event_count; i++)
        name_event(o, &opened->events[i], &o->events[i]);
    opened->begun = true;
    return status;
}

/* ---- a CPU that comes back ---- */

static void drop_ring(struct opened *opened, struct open_ring *ring)
{
    size_t kept = 0;
    unmap(ring);
    for (size_t i = 0; i < opened->fds.count; i++) {
        struct open_fd f = opened->fds.items[i];
        if (f.ring == ring->fd)
            close(f.fd);
        else
            opened->fds.items[kept++] = f;
    }
    opened->fds.count = kept;
    ring->fd = -1;
}

struct open_ring *native_ring_of(const struct opened *opened, unsigned cpu)
{
    for (size_t i = 0; i < opened->rings.count; i++)
        if (opened->rings.items[i].cpu == (int)cpu)
            return &opened->rings.items[i];
    return NULL;
}

enum spex_status native_open_cpu(const struct native_options *o, struct opened *opened,
                                 unsigned cpu, struct spex_error *error)
{
    struct open_ring *ring = native_ring_of(opened, cpu);
    struct open_ring next = {.fd = -1, .cpu = (int)cpu, .tid = -1, .again = true};
    if (ring) {
        next.gone_at = ring->gone_at;
        uint64_t given = !ring->ring.page ? 0
                         : o->snapshot    ? ring->ring.aux_given
                                          : ring->ring.page->aux_head;
        /* Leaves a gap to the old data, so that nobody reads a record across both. */
        next.aux_base = ring->aux_base + (given ? given + ring->ring.aux_size : 0);
        drop_ring(opened, ring);
    }
    enum spex_status status = open_on(o, opened, (int)cpu, -1, &next, error);
    if (!status && !ring && !(ring = vec_push(&opened->rings)))
        status = error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    if (status)
        drop_ring(opened, &next);
    next.gone = status != SPEX_OK;
    if (ring)
        *ring = next;
    return status;
}

static uint64_t known_id(const struct opened *opened, uint64_t id)
{
    for (size_t i = 0; i < opened->aliases.count; i++)
        if (opened->aliases.items[i].id == id)
            return opened->aliases.items[i].known;
    return id;
}

void native_rename(const struct opened *opened, const struct open_ring *ring, uint8_t *record,
                   size_t size)
{
    struct perf_event_header h;
    uint64_t id, offset;
    if (size < 16)
        return;
    memcpy(&h, record, sizeof h);
    /* PERF_SAMPLE_IDENTIFIER: first in samples, last in others. */
    uint8_t *at = h.type == PERF_RECORD_SAMPLE ? record + 8 : record + size - 8;
    memcpy(&id, at, sizeof id);
    id = known_id(opened, id);
    memcpy(at, &id, sizeof id);
    if (h.type == PERF_RECORD_AUX) {
        memcpy(&offset, record + 8, sizeof offset);
        offset += ring->aux_base;
        memcpy(record + 8, &offset, sizeof offset);
    }
}

void native_unopen(struct opened *opened)
{
    for (size_t i = 0; i < opened->rings.count; i++)
        unmap(&opened->rings.items[i]);
    for (size_t i = 0; i < opened->fds.count; i++)
        close(opened->fds.items[i].fd);
    for (unsigned i = 0; i < opened->event_count; i++)
        vec_free(&opened->events[i].ids);
    vec_free(&opened->rings);
    vec_free(&opened->aliases);
    vec_free(&opened->fds);
    opened->event_count = 0;
}

void native_switch(const struct opened *opened, enum native_role role, bool on)
{
    native_switch_ring(opened, NULL, role, on);
}

void native_switch_ring(const struct opened *opened, const struct open_ring *ring,
                        enum native_role role, bool on)
{
    for (size_t i = 0; i < opened->fds.count; i++) {
        const struct open_fd *f = &opened->fds.items[i];
        if (opened->events[f->event].role == role && (!ring || f->ring == ring->fd))
            ioctl(f->fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
    }
}
