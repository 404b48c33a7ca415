/* A recording: data of the opened events goes to the file until it ends. */
#include "session.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WAKE_MS = 200, /* most that a killed recording loses */
    RESTARTS = 5,
};

uint64_t native_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- making it ---- */

static bool add_all(native_ids *to, const native_ids *from)
{
    for (size_t i = 0; i < from->count; i++) {
        int32_t *id = vec_push(to);
        if (!id)
            return false;
        *id = from->items[i];
    }
    return true;
}

/* The threads to open events for. */
static enum spex_status find_targets(struct native_session *s, struct spex_error *error)
{
    const struct native_options *o = &s->o;
    int32_t one = o->all_cpus ? -1 : s->child.pid;
    if (o->argv || o->all_cpus) {
        int32_t *id = vec_push(&s->tids);
        if (id)
            *id = one;
        return id ? SPEX_OK : error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    }
    for (size_t i = 0; i < o->id_count; i++) {
        native_ids threads = {0};
        int32_t pid = o->threads ? native_proc_of(o->machine->root, o->ids[i]) : o->ids[i];
        bool there = pid > 0 && native_proc_threads(o->machine->root, pid, &threads);
        if (o->threads) {
            vec_free(&threads);
            int32_t *id = vec_push(&threads);
            if (id)
                *id = o->ids[i];
        }
        int32_t *process = vec_push(&s->pids);
        bool ok = process && add_all(&s->tids, &threads);
        if (process)
            *process = pid;
        vec_free(&threads);
        if (!there)
            return error_set(error, SPEX_IO, 0, "there is no %s %d",
                             o->threads ? "thread" : "process", o->ids[i]);
        if (!ok)
            return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    }
    return SPEX_OK;
}

enum spex_status native_open(const struct native_options *options, struct native_session **result,
                             struct spex_error *error)
{
    struct native_session *s = calloc(1, sizeof *s);
    enum spex_status status = SPEX_OK;
    if (!s)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    s->o = *options;
    s->child = (struct native_child){.pid = -1, .go = -1, .failure = -1};
    s->uevents = options->all_cpus ? native_hotplug_open() : -1;
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->on = !options->delay;
    pthread_mutex_init(&s->lock, NULL);
    if (s->wake < 0)
        status = error_set(error, SPEX_IO, 0, "eventfd: %s", strerror(errno));
    if (!status && options->argv) {
        struct native_start how = {.argv = options->argv,
                                   .keep_root = options->keep_root,
                                   .aside = !strcmp(options->path, "-")};
        status = native_start(&how, &s->child, error);
    }
    if (!status)
        status = find_targets(s, error);
    if (!status)
        status = native_open_events(&s->o, s->tids.items, s->tids.count, &s->opened, error);
    if (status) {
        native_close(s);
        return status;
    }
    native_kernel_read(options->machine->root, &s->kernel);
    if (options->count)
        native_counters_open(&s->o, s->tids.items, s->tids.count, &s->counters);
    s->totals.user_only = s->opened.user_only;
    s->totals.aux_size = s->opened.aux_size;
    s->totals.user = s->child.user;
    *result = s;
    return SPEX_OK;
}

void native_close(struct native_session *s)
{
    bool waiting = s->child.pid > 0 && !s->reaped;
    native_child_close(&s->child);
    if (waiting) /* never started, and ending now */
        waitpid(s->child.pid, NULL, 0);
    native_counters_close(&s->counters);
    native_unopen(&s->opened);
    native_file_drop(s);
    vec_free(&s->tids);
    vec_free(&s->pids);
    vec_free(&s->polls);
    free(s->kernel.bpf);
    if (s->wake >= 0)
        close(s->wake);
    if (s->uevents >= 0)
        close(s->uevents);
    free(s);
}

void native_tell(struct native_session *s, enum native_word word)
{
    uint64_t one = 1;
    int kept = errno;
    __atomic_fetch_or(&s->words, (unsigned)word, __ATOMIC_SEQ_CST);
    if (write(s->wake, &one, sizeof one) < 0) /* the pipe is full, so it will wake up anyway */
        errno = kept;
}

int native_process(const struct native_session *s)
{
    return s->child.pid;
}

/* ---- on and off ---- */

static void sample(struct native_session *s, bool on)
{
    native_switch(&s->opened, ROLE_SPE, on);
    native_switch(&s->opened, ROLE_STACKS, on);
}

void native_enable(struct native_session *s, bool on)
{
    pthread_mutex_lock(&s->lock);
    if (!s->totals.full) {
        s->on = on;
        sample(s, on);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- from the rings to the file ---- */

static void see_aux(struct native_totals *t, uint64_t flags)
{
    t->aux_buffers++;
    t->truncated += (flags & PERF_AUX_FLAG_TRUNCATED) != 0;
    t->collided += (flags & PERF_AUX_FLAG_COLLISION) != 0;
    t->partial += (flags & PERF_AUX_FLAG_PARTIAL) != 0;
}

struct source {
    struct native_session *session;
    const struct open_ring *ring;
};

/* Of events that were opened again: a copy, since the ring can only be read. */
static void write_renamed(struct native_session *s, const struct open_ring *ring,
                          const uint8_t *record, size_t size)
{
    uint8_t copy[UINT16_MAX];
    memcpy(copy, record, size);
    native_rename(&s->opened, ring, copy, size);
    perf_writer_raw(s->writer, copy, size);
}

static void take_records(void *context, const uint8_t *records, size_t size)
{
    const struct source *source = context;
    struct native_session *s = source->session;
    const uint8_t *r = records;
    for (size_t left = size, n; left >= 8; r += n, left -= n) {
        struct perf_event_header h;
        uint64_t word[3] = {0};
        memcpy(&h, r, sizeof h);
        n = h.size;
        if (n < 8 || n > left)
            break;
        memcpy(word, r + 8, n - 8 < sizeof word ? n - 8 : sizeof word);
        if (h.type == PERF_RECORD_AUX)
            see_aux(&s->totals, word[2]);
        else if (h.type == PERF_RECORD_LOST)
            s->totals.lost += word[1];
        else if (h.type == PERF_RECORD_LOST_SAMPLES)
            s->totals.lost += word[0];
        else if (h.type == PERF_RECORD_THROTTLE)
            s->totals.throttled++;
        if (source->ring->again)
            write_renamed(s, source->ring, r, n);
    }
    if (!source->ring->again)
        perf_writer_raw(s->writer, records, size);
}

static void write_piece(struct native_session *s, size_t i, const struct native_piece *piece)
{
    const struct open_ring *r = &s->opened.rings.items[i];
    struct perf_writer_aux aux = {.cpu = r->cpu,
                                  .tid = r->tid,
                                  .queue = (uint32_t)i,
                                  .offset = r->aux_base + piece->offset,
                                  .part = {piece->part[0], piece->part[1]},
                                  .size = {piece->size[0], piece->size[1]}};
    uint64_t size = piece->size[0] + piece->size[1];
    perf_writer_auxtrace(s->writer, &aux);
    s->totals.aux_bytes += size;
    s->part_bytes += size;
}

void native_drain(struct native_session *s)
{
    for (size_t i = 0; i < s->opened.rings.count; i++) {
        struct native_ring *ring = &s->opened.rings.items[i].ring;
        struct native_piece piece;
        uint64_t truncated = s->totals.truncated;
        if (!ring->page)
            continue; /* its CPU is away */
        native_ring_records(ring, take_records, &(struct source){s, &s->opened.rings.items[i]});
        if (native_ring_aux(ring, &piece)) {
            write_piece(s, i, &piece);
            native_ring_aux_done(ring, &piece);
        }
        /* The kernel switches an event off a moment after it has reported that there is no room. */
        if (s->totals.truncated != truncated)
            s->opened.rings.items[i].restart = RESTARTS;
        if (s->on && s->opened.rings.items[i].restart) {
            s->opened.rings.items[i].restart--;
            native_switch_ring(&s->opened, &s->opened.rings.items[i], ROLE_SPE, true);
        }
    }
    perf_writer_sync(s->writer);
}

static void take_snapshot(struct native_session *s)
{
    native_switch(&s->opened, ROLE_SPE, false); /* the unit writes what it has */
    native_drain(s);
    for (size_t i = 0; i < s->opened.rings.count; i++) {
        struct native_piece piece;
        if (s->opened.rings.items[i].ring.aux &&
            native_ring_snapshot(&s->opened.rings.items[i].ring, &piece))
            write_piece(s, i, &piece);
    }
    s->totals.snapshots++;
    if (s->on)
        native_switch(&s->opened, ROLE_SPE, true);
}

/* ---- while it runs ---- */

static bool add_poll(struct native_session *s, int fd)
{
    struct pollfd *p = vec_push(&s->polls);
    if (p)
        *p = (struct pollfd){.fd = fd, .events = POLLIN};
    return p;
}

/* False when no process is left. */
static bool wait_for_work(struct native_session *s)
{
    size_t count = s->opened.rings.count, left = 0;
    uint64_t woken;
    int wait = WAKE_MS;
    if (s->start_at) {
        uint64_t now = native_now();
        wait = now >= s->start_at ? 0 : (int)((s->start_at - now) / 1000000 + 1);
        wait = wait < WAKE_MS ? wait : WAKE_MS;
    }
    s->polls.count = 0;
    bool ok = add_poll(s, s->wake) && add_poll(s, s->uevents);
    for (size_t i = 0; i < count && ok; i++) /* drop ended ones, which would always be ready */
        ok = add_poll(s, s->opened.rings.items[i].ended ? -1 : s->opened.rings.items[i].fd);
    const struct pollfd *p = s->polls.items;
    poll(s->polls.items, (nfds_t)s->polls.count, wait);
    if (ok && p[0].revents && read(s->wake, &woken, sizeof woken) < 0)
        woken = 0;
    for (size_t i = 0; i < count && ok; i++) {
        struct open_ring *r = &s->opened.rings.items[i];
        r->ended |= (p[i + 2].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
        left += !r->ended;
    }
    return left || !ok || s->o.argv || s->o.all_cpus;
}

static uint64_t microseconds(const struct rusage *usage)
{
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000u +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

static bool program_ended(struct native_session *s)
{
    int status;
    if (s->child.pid <= 0 || s->reaped)
        return s->reaped;
    struct rusage usage;
    if (wait4(s->child.pid, &status, WNOHANG, &usage) == s->child.pid) {
        s->reaped = true;
        s->totals.program = status;
        s->totals.program_us = microseconds(&usage);
    }
    return s->reaped;
}

/* The driver hands out what it has when a buffer is half full, or when it is switched off. */
static void flush(struct native_session *s, uint64_t now)
{
    pthread_mutex_lock(&s->lock);
    if (s->on) {
        native_switch(&s->opened, ROLE_SPE, false);
        native_switch(&s->opened, ROLE_SPE, true);
    }
    pthread_mutex_unlock(&s->lock);
    s->flushed = now;
}

static enum spex_status obey_limits(struct native_session *s, struct spex_error *error)
{
    const struct native_options *o = &s->o;
    uint64_t now = native_now();
    if (s->start_at && now >= s->start_at) {
        s->start_at = 0;
        native_enable(s, true);
    }
    if (o->max_size && !s->totals.full &&
        s->totals.size + spex_perf_writer_size(s->writer) >= o->max_size) {
        native_enable(s, false);
        s->totals.full = true;
    }
    if (o->live && now - s->flushed >= 1000000000u)
        flush(s, now);
    if (s->o.all_cpus)
        native_hotplug_look(s);
    if ((o->part_bytes && s->part_bytes >= o->part_bytes) ||
        (o->part_time && now - s->part_start >= o->part_time)) {
        flush(s, now); /* the next file may not know which thread these records belong to */
        native_drain(s);
        return native_file_next(s, error);
    }
    return SPEX_OK;
}

static enum spex_status loop(struct native_session *s, struct spex_error *error)
{
    for (bool more = true; more;) {
        more = wait_for_work(s);
        unsigned words = __atomic_exchange_n(&s->words, 0, __ATOMIC_SEQ_CST);
        if (words & NATIVE_SNAPSHOT && s->o.snapshot)
            take_snapshot(s);
        if (words & NATIVE_STOP || program_ended(s))
            more = false;
        native_drain(s);
        enum spex_status status = obey_limits(s, error);
        if (status)
            return status;
    }
    return SPEX_OK;
}

static enum spex_status begin(struct native_session *s, struct spex_error *error)
{
    enum spex_status status = native_file_begin(s, error);
    if (status)
        return status;
    bool by_exec = s->o.argv && !s->o.all_cpus; /* the exec switches them on */
    if (!by_exec) /* enabled before /proc is read, so that no process starts unseen */
        native_switch(&s->opened, ROLE_TRACKING, true);
    native_file_state(s);
    if (!by_exec && !s->o.delay)
        sample(s, true);
    if (!by_exec)
        native_counters_enable(&s->counters);
    if (s->o.delay > 0)
        s->start_at = native_now() + (uint64_t)s->o.delay;
    s->part_start = native_now();
    return s->o.argv ? native_go(&s->child, s->o.argv[0], error) : SPEX_OK;
}

enum spex_status native_run(struct native_session *s, struct native_totals *totals,
                            struct spex_error *error)
{
    struct rusage before, after;
    enum spex_status status = begin(s, error);
    getrusage(RUSAGE_SELF, &before);
    if (!status)
        status = loop(s, error);
    if (s->writer) {
        sample(s, false);
        native_switch(&s->opened, ROLE_TRACKING, false);
        native_drain(s);
        struct spex_error later;
        enum spex_status end = native_file_end(s, status ? &later : error);
        status = status ? status : end;
    }
    getrusage(RUSAGE_SELF, &after);
    s->totals.own_us = microseconds(&after) - microseconds(&before);
    native_counters_read(&s->counters, s->totals.count);
    memcpy(s->totals.counted, s->counters.there, sizeof s->totals.counted);
    *totals = s->totals;
    return status;
}
