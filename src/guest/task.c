/* A guest thread's unit and files. */
#include "task.h"

#include "base/error.h"
#include "origin.h"
#include "perfdata/allocation.h"
#include "perfdata/auxtrace.h"
#include "plugin.h"

#include <spex/wire.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static char directory[RUN_PATH];

/* Where the unit believes the Profiling Buffer to be: kernel memory. */
#define BUFFER_BASE UINT64_C(0xffff800010000000)

const char *task_directory(void)
{
    return directory;
}

void task_failed(int error)
{
    uint32_t none = 0;
    __atomic_compare_exchange_n(&plugin.run->failed, &none, (uint32_t)error, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* ---- files ---- */

bool task_open_run(const char *path, struct spex_error *error)
{
    char name[RUN_PATH + 16];
    snprintf(directory, sizeof directory, "%s", path);
    snprintf(name, sizeof name, "%s/control", path);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    struct run_control head = {0};
    if (fd < 0 || pread(fd, &head, sizeof head, 0) != sizeof head) {
        error_set(error, SPEX_IO, 0, "%s: %s", name, strerror(errno));
        return false;
    }
    if (head.version != RUN_VERSION || head.size != sizeof head) {
        error_set(error, SPEX_UNSUPPORTED, 0, "plugin and spex are of different builds");
        close(fd);
        return false;
    }
    void *map = mmap(NULL, sizeof head, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        error_set(error, SPEX_IO, 0, "%s: %s", name, strerror(errno));
        return false;
    }
    plugin.run = map;
    return true;
}

/*
 * Opened for each use: the guest shares our file descriptors, and some programs close all that
 * they did not open.
 */
static int open_file(uint32_t id, const char *suffix)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/%u%s", directory, id, suffix);
    int fd = open(name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        task_failed(errno);
    return fd;
}

static void remove_file(uint32_t id, const char *suffix)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/%u%s", directory, id, suffix);
    unlink(name);
}

void *task_map(uint32_t id, const char *suffix, uint64_t offset, size_t size, void *at)
{
    int fd = open_file(id, suffix);
    if (fd < 0)
        return NULL;
    int error = posix_fallocate(fd, (off_t)offset, (off_t)size);
    void *map = error ? MAP_FAILED
                      : mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0),
                             fd, (off_t)offset);
    if (map == MAP_FAILED) {
        task_failed(error ? error : errno);
        map = NULL;
    }
    close(fd);
    return map;
}

void task_log(struct task *task, const struct run_event *event, const char *text)
{
    char bytes[sizeof *event + RUN_PATH];
    struct run_event e = *event;
    size_t n = text ? strnlen(text, RUN_PATH - 1) + 1 : 0;
    int fd = task->quiet ? -1 : open_file(task->id, ".log");
    if (fd < 0)
        return;
    e.text = (uint32_t)n;
    memcpy(bytes, &e, sizeof e);
    if (n) {
        memcpy(bytes + sizeof e, text, n - 1);
        bytes[sizeof e + n - 1] = '\0';
    }
    if (write(fd, bytes, sizeof e + n) != (ssize_t)(sizeof e + n)) {
        task_failed(errno);
        task->quiet = true; /* half a record is the end of the log */
    }
    close(fd);
}

/* ---- the unit's host ---- */

static void on_write(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct task *task = user;
    uint64_t at = store->address - BUFFER_BASE;
    if (!task->buffer || at + store->count > plugin.run->buffer) {
        *stop = (struct spex_spu_stop){.kind = SPEX_STOP_FAULT, .fsc = 0x07};
        return;
    }
    memcpy(task->buffer + at, store->bytes, store->count);
    task->written = at + store->count;
}

static bool on_counter(void *user, uint64_t *count)
{
    struct task *task = user;
    *count = task->stamp = task->now;
    return true;
}

static void on_trigger(void *user)
{
    ((struct task *)user)->made = true;
}

static void on_pmu(void *user, unsigned event, uint64_t count)
{
    struct task *task = user;
    for (unsigned i = 0; i < RUN_EVENTS; i++)
        if (run_events[i] == event)
            task->shared->pmu[i] += count;
}

static void on_irq(void *user, bool level)
{
    ((struct task *)user)->irq = level;
}

/* ---- buffers ---- */

static struct driver_buffer window(void)
{
    return (struct driver_buffer){BUFFER_BASE, BUFFER_BASE + plugin.run->buffer};
}

/* The Profiling Buffer is in the file, so that it survives us. */
static bool make_buffer(struct task *task)
{
    if (plugin.run->keep) {
        task->buffer = task_map(task->id, ".aux", 0, plugin.run->buffer, NULL);
    } else {
        void *map = mmap(NULL, plugin.run->buffer, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        task->buffer = map == MAP_FAILED ? NULL : map;
    }
    return task->buffer != NULL;
}

/* Bytes of whole records in the first `size` bytes, and their number. */
static uint64_t whole_records(const uint8_t *bytes, uint64_t size, uint64_t *records)
{
    uint64_t at = 0, whole = 0;
    struct spex_packet packet;
    *records = 0;
    while (at < size && spex_packet_decode(bytes + at, size - at, &packet) == SPEX_OK) {
        at += spex_packet_length(&packet);
        if (packet.type == SPEX_PACKET_END || packet.type == SPEX_PACKET_TIMESTAMP) {
            whole = at;
            ++*records;
        }
    }
    return whole;
}

static bool write_at(int fd, const void *data, size_t size, uint64_t at, uint64_t *written)
{
    while (size) {
        ssize_t n = pwrite(fd, data, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data = (const char *)data + n;
        at += (uint64_t)n;
        size -= (size_t)n;
        *written += (uint64_t)n;
    }
    return true;
}

/*
 * With the lock held: appends the buffer, or what fits, to the data; it counts once the end of
 * the data is moved. Returns the bytes kept.
 */
static uint64_t append_locked(struct task *task, int fd, uint64_t bytes, uint64_t *offset)
{
    static const uint8_t zeros[8];
    struct run_task *s = task->shared;
    uint8_t header[AUXTRACE_SIZE] = {0};
    uint64_t at = plugin.run->end, written = 0, records;
    *offset = plugin.run->aux[s->cpu];
    __atomic_store_n(&s->at, at, __ATOMIC_RELEASE);
    if (!write_at(fd, header, sizeof header, at, &written) ||
        !write_at(fd, task->buffer, bytes, at + sizeof header, &written) ||
        !write_at(fd, zeros, -bytes & 7, at + sizeof header + bytes, &written)) {
        task_failed(errno);
        uint64_t room = written < sizeof header ? 0 : (written - sizeof header) & ~UINT64_C(7);
        bytes = whole_records(task->buffer, room < bytes ? room : bytes, &records);
        bytes = bytes + (-bytes & 7) > room ? 0 : bytes;
    }
    uint64_t size = (bytes + 7) & ~UINT64_C(7);
    if (!bytes)
        return 0;
    auxtrace_header(header, size, *offset, ++plugin.run->chunks, (uint32_t)s->cpu, -1, s->cpu);
    written = 0;
    if (!write_at(fd, zeros, -bytes & 7, at + sizeof header + bytes, &written) ||
        !write_at(fd, header, sizeof header, at, &written))
        return 0;
    plugin.run->aux[s->cpu] += bytes;
    __atomic_store_n(&plugin.run->end, at + sizeof header + size, __ATOMIC_RELEASE);
    return bytes;
}

/* The data, locked; -1 if nothing can or may be added. */
static int lock_data(void)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/data", directory);
    int fd = open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), locked = -1;
    while (fd >= 0 && (locked = flock(fd, LOCK_EX)) && errno == EINTR)
        ;
    if (locked)
        task_failed(errno);
    if (!locked && !plugin.run->closed)
        return fd;
    if (!locked)
        flock(fd, LOCK_UN);
    if (fd >= 0)
        close(fd);
    return -1;
}

static void unlock_data(int fd)
{
    flock(fd, LOCK_UN); /* a child that was forked meanwhile has the descriptor, too */
    close(fd);
}

static uint64_t append(struct task *task, uint64_t bytes, uint64_t *offset)
{
    int fd = lock_data();
    if (fd < 0)
        return 0;
    uint64_t kept = append_locked(task, fd, bytes, offset);
    unlock_data(fd);
    return kept;
}

/* How much of it may be added: nothing is kept beyond the largest size of the file. */
static uint64_t within_limit(const struct task *task, uint64_t bytes)
{
    uint64_t end = plugin.run->end + AUXTRACE_SIZE, most = plugin.run->max_size, records;
    if (!most || end + bytes <= most)
        return bytes;
    __atomic_store_n(&plugin.run->full, 1, __ATOMIC_RELAXED);
    return most > end ? whole_records(task->buffer, most - end, &records) : 0;
}

/*
 * Moves the buffer's bytes to the data and logs it. At the end of a thread, bytes that find no
 * room stay where they are: there may be room later.
 */
static void save_buffer(struct task *task, uint64_t bytes, uint32_t flags, bool last)
{
    struct run_task *s = task->shared;
    if (!plugin.run->keep || !task->buffer || (!bytes && !flags))
        return;
    struct run_event event = {.type = RUN_AUX, .time = task->now, .a = plugin.run->aux[s->cpu]};
    bytes = within_limit(task, bytes);
    __atomic_store_n(&s->head, bytes, __ATOMIC_RELEASE);
    event.b = bytes ? append(task, bytes, &event.a) : 0;
    if (event.b < bytes && last && !event.b) {
        __atomic_store_n(&s->at, 0, __ATOMIC_RELEASE);
        return;
    }
    if (event.b < bytes) {
        uint64_t all, kept;
        whole_records(task->buffer, bytes, &all);
        whole_records(task->buffer, event.b, &kept);
        __atomic_fetch_add(&plugin.run->lost_bytes, bytes - event.b, __ATOMIC_RELAXED);
        __atomic_fetch_add(&plugin.run->lost_records, all - kept, __ATOMIC_RELAXED);
        flags |= DRIVER_AUX_TRUNCATED;
    }
    __atomic_store_n(&s->head, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&s->at, 0, __ATOMIC_RELEASE);
    event.flags = flags;
    task_log(task, &event, NULL);
}

static void serve_interrupt(struct task *task)
{
    uint32_t flags;
    uint64_t end;
    task->irq = false;
    task->shared->interrupts++;
    enum driver_irq what = driver_interrupt(task->unit, &flags, &end);
    if (what == DRIVER_SPURIOUS)
        return;
    save_buffer(task, end - BUFFER_BASE, flags, false);
    task->written = 0;
    if (what == DRIVER_FULL) {
        struct driver_buffer buffer = window();
        driver_resume(task->unit, &plugin.run->event, &buffer);
    }
}

/* ---- call stacks ---- */

/* Appends N.stacks to the data. At the end of a thread, records that find no room stay. */
static void save_stacks(struct task *task, bool last)
{
    struct run_task *s = task->shared;
    uint64_t bytes = s->stacks_head, written = 0;
    int fd = bytes ? lock_data() : -1;
    bool ok = false;
    if (fd >= 0) {
        uint64_t at = plugin.run->end;
        __atomic_store_n(&s->stacks_at, at, __ATOMIC_RELEASE);
        ok = write_at(fd, task->stacks, bytes, at, &written);
        if (ok)
            __atomic_store_n(&plugin.run->end, at + bytes, __ATOMIC_RELEASE);
        else
            task_failed(errno);
        unlock_data(fd);
    }
    if (ok || !last) {
        for (uint64_t at = 0; !ok && at < bytes; at += le16(task->stacks + at + 6))
            if (le64(task->stacks + at + 8) == CALLCHAIN_ID)
                __atomic_fetch_add(&plugin.run->lost_stacks, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&s->stacks_head, 0, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&s->stacks_at, 0, __ATOMIC_RELEASE);
}

/* Room for so many bytes of N.stacks. */
static uint8_t *beside(struct task *task, size_t size)
{
    if (task->shared->stacks_head + size > RUN_STACKS)
        save_stacks(task, false);
    return task->stacks + task->shared->stacks_head;
}

/* The unit made a record of the operation whose stack was remembered. */
static void add_stack(struct task *task)
{
    struct run_task *s = task->shared;
    const struct callchain chain = {.pc = task->chain_pc,
                                    .time = task->stamp,
                                    .pid = s->pid,
                                    .tid = s->tid,
                                    .cpu = s->cpu,
                                    .count = task->chain_count};
    size_t size = callchain_size(chain.count);
    callchain_write(beside(task, size), &chain, task->chain);
    __atomic_store_n(&s->stacks_head, s->stacks_head + size, __ATOMIC_RELEASE);
    s->stacks++;
    s->stacks_cut += (task->chain_notes & STACK_CUT) != 0;
    s->stacks_doubted += (task->chain_notes & STACK_DOUBTED) != 0;
}

/* The same for a record whose data was in a block. */
static void add_alloc(struct task *task)
{
    struct run_task *s = task->shared;
    const struct task_alloc *a = &task->alloc;
    const struct allocation allocation = {.pc = task->chain_pc,
                                          .time = task->stamp,
                                          .start = a->start,
                                          .size = a->size,
                                          .number = a->number,
                                          .pid = s->pid,
                                          .tid = s->tid,
                                          .cpu = s->cpu,
                                          .count = a->site_count};
    size_t size = allocation_size(allocation.count);
    allocation_write(beside(task, size), &allocation, a->site);
    __atomic_store_n(&s->stacks_head, s->stacks_head + size, __ATOMIC_RELEASE);
    s->allocs++;
}

void task_complete(struct task *task, int slot, const struct spex_op *op,
                   const struct spex_outcome *outcome)
{
    task->made = false;
    spex_spu_complete(task->unit, slot, op, outcome);
    if (task->made && task->stacks && plugin.run->stacks)
        add_stack(task);
    if (task->made && task->stacks && task->alloc.site_count)
        add_alloc(task);
    if (__builtin_expect(task->irq, 0))
        serve_interrupt(task);
    else
        __atomic_store_n(&task->shared->head, task->written, __ATOMIC_RELEASE);
    task->shared->clock = task->now;
}

/* ---- life ---- */

uint32_t task_reserve(int32_t *cpu)
{
    uint32_t id = __atomic_fetch_add(&plugin.run->tasks, 1, __ATOMIC_RELAXED);
    *cpu = (int32_t)(id % RUN_CPUS); /* if all are taken */
    for (unsigned i = 0; i < RUN_CPUS; i++) {
        uint64_t bit = UINT64_C(1) << i % 64;
        if (!(__atomic_fetch_or(&plugin.run->busy[i / 64], bit, __ATOMIC_RELAXED) & bit)) {
            *cpu = (int32_t)i;
            break;
        }
    }
    uint32_t seen = __atomic_load_n(&plugin.run->cpus, __ATOMIC_RELAXED);
    while (seen < (uint32_t)*cpu + 1 &&
           !__atomic_compare_exchange_n(&plugin.run->cpus, &seen, (uint32_t)*cpu + 1, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return id;
}

static struct run_task nowhere; /* when even a page cannot be had */

static void start_unit(struct task *task)
{
    struct spu_config config;
    struct spex_error error;
    spu_config_default(&config);
    config.features = plugin.run->features;
    config.choices = plugin.run->choices;
    config.seed = plugin.run->seed + task->id * UINT64_C(0x9e3779b97f4a7c15);
    config.host = (struct spex_spu_host){
        .user = task, .write = on_write, .counter = on_counter, .pmu = on_pmu, .irq = on_irq};
    if (plugin.run->keep && ((plugin.run->stacks && !plugin.run->no_stacks) || plugin.run->allocs))
        task->stacks = task_map(task->id, ".stacks", 0, RUN_STACKS, NULL);
    if (task->stacks)
        config.host.trigger = on_trigger;
    if (spu_new(&config, &task->unit, &error)) {
        task_failed(ENOMEM);
        __atomic_fetch_add(&plugin.run->unprofiled, 1, __ATOMIC_RELAXED);
        return;
    }
    spex_spu_boot(task->unit);
    struct driver_buffer buffer = window();
    if (make_buffer(task))
        driver_start(task->unit, &plugin.run->event, &buffer, (uint32_t)task->shared->tid);
    else
        __atomic_fetch_add(&plugin.run->unprofiled, 1, __ATOMIC_RELAXED);
}

void task_begin(struct task *task, uint32_t id, int32_t cpu, const struct run_task *creator,
                bool new_process, uint64_t start)
{
    *task = (struct task){.id = id, .now = start};
    task->shared = task_map(id, "", 0, RUN_PAGE, NULL);
    if (!task->shared)
        task->shared = &nowhere;
    struct run_task *s = task->shared;
    s->tid = RUN_FIRST_PID + (int32_t)id;
    s->pid = new_process ? s->tid : creator->pid;
    s->ppid = creator ? creator->pid : 1;
    s->ptid = creator ? creator->tid : 1;
    s->cpu = cpu;
    s->host_pid = getpid();
    s->start = s->clock = start;
    struct run_event fork = {.type = RUN_FORK, .time = start};
    task_log(task, &fork, NULL);
    start_unit(task);
}

bool task_look(uint32_t id, struct run_task *copy)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/%u", directory, id);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool ok = fd >= 0 && pread(fd, copy, sizeof *copy, 0) == sizeof *copy;
    if (fd >= 0)
        close(fd);
    return ok && copy->tid == RUN_FIRST_PID + (int32_t)id && copy->cpu >= 0 && copy->cpu < RUN_CPUS;
}

void task_resume(struct task *task, uint32_t id)
{
    *task = (struct task){.id = id};
    task->shared = task_map(id, "", 0, RUN_PAGE, NULL);
    if (!task->shared)
        task->shared = &nowhere;
    struct run_task *s = task->shared;
    task->now = s->clock;
    task->before = s->counts;
    s->host_pid = getpid();
    if (s->at && s->at < plugin.run->end)
        s->head = 0; /* is there already */
    if (s->stacks_at && s->stacks_at < plugin.run->end)
        s->stacks_head = 0;
    if (plugin.run->keep && s->head && make_buffer(task)) {
        save_buffer(task, s->head, 0, false);
        munmap(task->buffer, plugin.run->buffer);
        task->buffer = NULL;
    }
    start_unit(task);
}

void task_pause(struct task *task)
{
    uint32_t flags;
    uint64_t end;
    spex_spu_flush(task->unit);
    driver_stop(task->unit, &flags, &end);
    save_buffer(task, task->written, flags, false);
    task->written = 0;
    __atomic_store_n(&task->shared->head, 0, __ATOMIC_RELEASE);
}

void task_go_on(struct task *task)
{
    struct driver_buffer buffer = window();
    if (task->buffer)
        driver_start(task->unit, &plugin.run->event, &buffer, (uint32_t)task->shared->tid);
}

void task_give_cpu(struct task *task, uint64_t clock)
{
    int32_t cpu = task->shared->cpu;
    __atomic_store_n(&plugin.run->clock[cpu], clock, __ATOMIC_RELEASE);
    __atomic_fetch_and(&plugin.run->busy[cpu / 64], ~(UINT64_C(1) << cpu % 64), __ATOMIC_RELEASE);
}

void task_take_cpu(const struct task *task)
{
    int32_t cpu = task->shared->cpu;
    __atomic_fetch_or(&plugin.run->busy[cpu / 64], UINT64_C(1) << cpu % 64, __ATOMIC_RELAXED);
}

void task_leave(struct task *task, uint64_t clock)
{
    task->now = clock;
    if (task->unit)
        spex_spu_flush(task->unit);
    __atomic_store_n(&task->shared->head, task->written, __ATOMIC_RELEASE);
    task->shared->clock = clock;
}

void task_count(struct task *task, const struct spex_uarch_counts *counts)
{
    const uint64_t *before = (const uint64_t *)&task->before, *now = (const uint64_t *)counts;
    uint64_t *sum = (uint64_t *)&task->shared->counts;
    for (size_t i = 0; i < sizeof *counts / sizeof *sum; i++)
        sum[i] = before[i] + now[i];
}

void task_forget(struct task *task)
{
    if (task->buffer)
        munmap(task->buffer, plugin.run->buffer);
    if (task->stacks)
        munmap(task->stacks, RUN_STACKS);
    if (task->shared && task->shared != &nowhere)
        munmap(task->shared, RUN_PAGE);
    task->shared = &nowhere; /* the unit may still have operations to count, which are another's */
    spex_spu_free(task->unit);
    *task = (struct task){0};
}

void task_end(struct task *task, uint64_t clock)
{
    uint32_t flags;
    uint64_t end;
    struct run_task *s = task->shared;
    if (!s || s->ended)
        return;
    task->now = clock;
    if (task->unit) {
        spex_spu_flush(task->unit);
        driver_stop(task->unit, &flags, &end);
        save_buffer(task, task->written, flags, true);
    }
    if (task->stacks)
        save_stacks(task, true);
    struct run_event event = {.type = RUN_EXIT, .time = clock};
    task_log(task, &event, NULL);
    s->clock = clock;
    s->ended = true;
    if (plugin.run->keep && !s->head)
        remove_file(task->id, ".aux");
    if (task->stacks && !s->stacks_head)
        remove_file(task->id, ".stacks");
    task_give_cpu(task, clock);
    if (s->pid == s->tid) {
        if (plugin.waits)
            origin_reach(plugin.waits, clock);
        unsigned slot = (unsigned)s->host_pid % RUN_ENDED;
        plugin.run->ended[slot].clock = clock;
        __atomic_store_n(&plugin.run->ended[slot].host_pid, s->host_pid, __ATOMIC_RELEASE);
    }
    task_forget(task);
}
