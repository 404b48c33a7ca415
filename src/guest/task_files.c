/* The files of a run, as the plugin writes them: those of a task, and the data shared by all. */
#include "task.h"

#include "base/error.h"
#include "perfdata/auxtrace.h"
#include "perfdata/callchain.h"
#include "owner.h"
#include "plugin.h"

#include <spex/wire.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static char directory[RUN_PATH];

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

bool task_open_run(const char *path, int fd, struct spex_error *error)
{
    char name[RUN_PATH + 16];
    snprintf(directory, sizeof directory, "%s", path);
    snprintf(name, sizeof name, "%s/control", path);
    if (fd < 0)
        fd = open(name, O_RDWR | O_CLOEXEC);
    struct run_control head = {0};
    if (fd < 0 || pread(fd, &head, sizeof head, 0) != sizeof head) {
        error_set(error, SPEX_IO, 0, "%s: %s", name, strerror(errno));
        return false;
    }
    if (head.version != RUN_VERSION || head.size != sizeof head) {
        error_set(error, SPEX_UNSUPPORTED, 0,
                  "libspex-qemu.so and spex are of different builds: install both together");
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
 * The guest may limit the size of its files (RLIMIT_FSIZE). Exceeding the limit must be an error
 * for our files, not a signal that ends the guest: the signal is held back while we write.
 */
struct held {
    sigset_t mask;
    bool pending; /* the signal was already pending for the guest */
};

static struct held hold_signal(void)
{
    struct held held;
    sigset_t pending, limit;
    held.pending = !sigpending(&pending) && sigismember(&pending, SIGXFSZ) == 1;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &held.mask);
    return held;
}

/* Keeps errno. */
static void release_signal(const struct held *held)
{
    int error = errno;
    sigset_t limit;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    while (!held->pending && sigtimedwait(&limit, NULL, &(struct timespec){0}) < 0 &&
           errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
    errno = error;
}

/*
 * Opened for each use: the guest shares our file descriptors, and some programs close all that
 * they did not open.
 */
static int open_file(uint32_t id, const char *suffix)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/%u%s", directory, id, suffix);
    int fd = owner_open(name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        task_failed(errno);
    return fd;
}

int task_open(const char *file, int flags)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/%s", directory, file);
    return owner_open(name, flags | O_CLOEXEC);
}

int task_pass_on(void)
{
    enum { HIGH = 100 };
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/control", directory);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    bool needed = fd < 0;
    if (needed)
        fd = owner_open(name, O_RDWR | O_CLOEXEC);
    int given = needed && fd >= 0 ? fcntl(fd, F_DUPFD, HIGH) : -1;
    if (fd >= 0)
        close(fd);
    return given;
}

void task_remove(uint32_t id, const char *suffix)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/%u%s", directory, id, suffix);
    owner_unlink(name);
}

void *task_map(uint32_t id, const char *suffix, uint64_t offset, size_t size, void *at)
{
    int fd = open_file(id, suffix);
    if (fd < 0)
        return NULL;
    struct held held = hold_signal();
    int error = posix_fallocate(fd, (off_t)offset, (off_t)size);
    release_signal(&held);
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

bool task_look(uint32_t id, struct run_task *copy)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/%u", directory, id);
    int fd = owner_open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool ok = fd >= 0 && pread(fd, copy, sizeof *copy, 0) == sizeof *copy;
    if (fd >= 0)
        close(fd);
    return ok && copy->tid == RUN_FIRST_PID + (int32_t)id && copy->cpu >= 0 && copy->cpu < RUN_CPUS;
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
    struct held held = hold_signal();
    errno = ENOSPC; /* only a part of it was written */
    ssize_t written = write(fd, bytes, sizeof e + n);
    release_signal(&held);
    if (written != (ssize_t)(sizeof e + n)) {
        task_failed(errno);
        task->quiet = true; /* half of an event ends the log */
    }
    close(fd);
}

/* ---- the data ---- */

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
 * With the lock held: appends the buffer, or what fits, to the data; it counts once the end of the
 * data is moved. Returns the number of bytes kept.
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

/* Locks the data; -1 if nothing can or may be added. */
static int lock_data(void)
{
    char name[RUN_PATH + 32];
    snprintf(name, sizeof name, "%s/data", directory);
    int fd = owner_open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), locked = -1;
    if (fd < 0)
        task_failed(errno);
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
    struct held held = hold_signal();
    uint64_t kept = append_locked(task, fd, bytes, offset);
    release_signal(&held);
    unlock_data(fd);
    return kept;
}

/* How many bytes may be added: nothing is kept beyond the size limit of the file. */
static uint64_t within_limit(const struct task *task, uint64_t bytes)
{
    uint64_t end = plugin.run->end + AUXTRACE_SIZE, most = plugin.run->max_size, records;
    if (!most || end + bytes <= most)
        return bytes;
    __atomic_store_n(&plugin.run->full, 1, __ATOMIC_RELAXED);
    return most > end ? whole_records(task->buffer, most - end, &records) : 0;
}

void task_save(struct task *task, uint64_t bytes, uint32_t flags, bool last)
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

/* Appends records; `place` says before where they go. False if there was no room for all. */
static bool add_records(const void *records, uint64_t size, uint64_t *place)
{
    int fd = size ? lock_data() : -1;
    uint64_t written = 0;
    if (fd < 0)
        return false;
    uint64_t at = plugin.run->end;
    __atomic_store_n(place, at, __ATOMIC_RELEASE);
    struct held held = hold_signal();
    bool ok = write_at(fd, records, size, at, &written);
    release_signal(&held);
    if (ok)
        __atomic_store_n(&plugin.run->end, at + size, __ATOMIC_RELEASE);
    else
        task_failed(errno);
    unlock_data(fd);
    return ok;
}

void task_add_records(const void *records, uint64_t size)
{
    uint64_t place;
    add_records(records, size, &place);
}

void task_save_stacks(struct task *task, bool last)
{
    struct run_task *s = task->shared;
    uint64_t bytes = s->stacks_head;
    bool ok = add_records(task->stacks, bytes, &s->stacks_at);
    if (ok || !last) {
        for (uint64_t at = 0; !ok && at < bytes; at += le16(task->stacks + at + 6))
            if (le64(task->stacks + at + 8) == CALLCHAIN_ID)
                __atomic_fetch_add(&plugin.run->lost_stacks, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&s->stacks_head, 0, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&s->stacks_at, 0, __ATOMIC_RELEASE);
}
