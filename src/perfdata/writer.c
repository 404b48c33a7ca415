/*
 * Writing perf.data: what Linux perf 6.1 and newer accept (docs/perf-data.md).
 *
 * The file is readable whenever writing stops. The header and the attributes
 * come first and claim no feature sections; machine and CPUs are told by
 * FEATURE records at the head of the data; the header's data size follows the
 * data. Finishing adds the feature sections, then one write of the header makes
 * them count. When the disk is full, what fits stays: the header then ends the
 * data behind the last whole record. All numbers are little-endian, whatever the
 * host.
 */
#include "writer.h"

#include "auxtrace.h"
#include "allocation.h"
#include "file.h"

#include "base/error.h"
#include "base/sized.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ATTR_SIZE = PERF_WRITER_ATTR,
    NAME_ALIGN = 64, /* of strings in feature sections, as perf pads them */
    BUFFER = 256 << 10,
    DEFAULT_PMU = 12,
};

enum { ID_SPE = 1, ID_DUMMY = 2 }; /* and CALLCHAIN_ID: attribute i has i + 1 */

/* Bytes in the making: a record, or a feature section. */
struct bytes {
    VEC(uint8_t) vec;
    bool failed;
};

static uint8_t *put_room(struct bytes *b, size_t size)
{
    if (!vec_reserve(&b->vec, b->vec.count + size)) {
        b->failed = true;
        return NULL;
    }
    uint8_t *p = b->vec.items + b->vec.count;
    b->vec.count += size;
    return p;
}

static void put_bytes(struct bytes *b, const void *data, size_t size)
{
    uint8_t *p = put_room(b, size);
    if (p && size)
        memcpy(p, data, size);
}

static void put_zeros(struct bytes *b, size_t size)
{
    uint8_t *p = put_room(b, size);
    if (p)
        memset(p, 0, size);
}

static void put16(struct bytes *b, uint16_t value)
{
    uint8_t *p = put_room(b, 2);
    if (p)
        put_le16(p, value);
}

static void put32(struct bytes *b, uint32_t value)
{
    uint8_t *p = put_room(b, 4);
    if (p)
        put_le32(p, value);
}

static void put64(struct bytes *b, uint64_t value)
{
    uint8_t *p = put_room(b, 8);
    if (p)
        put_le64(p, value);
}

static void put_aligned(struct bytes *b, const char *text, size_t align)
{
    size_t length = strlen(text) + 1;
    put_bytes(b, text, length);
    put_zeros(b, -length & (align - 1));
}

/* A string of a feature section: padded length, then the text. */
static void put_string(struct bytes *b, const char *text)
{
    size_t length = strlen(text) + 1;
    put32(b, (uint32_t)((length + NAME_ALIGN - 1) & ~(size_t)(NAME_ALIGN - 1)));
    put_aligned(b, text, NAME_ALIGN);
}

struct writer_queue {
    int32_t cpu, tid;
    uint64_t offset; /* AUX bytes so far */
    bool started;    /* ITRACE_START was written */
};

struct writer_attr {
    uint8_t bytes[ATTR_SIZE];
    const char *name;    /* NULL: made of the terms */
    const uint64_t *ids; /* NULL: one, its own */
    size_t id_count;
    uint64_t own;
};

struct spex_perf_writer {
    int fd;
    bool pipe, per_thread, untimed;
    uint32_t cpus;
    int error; /* errno of the first failure */
    char *path;
    uint64_t position; /* of the next byte, buffered ones included */
    uint64_t written;  /* where the bytes end that the file really has */
    uint64_t data_offset;
    uint64_t reference;
    uint64_t first_time, last_time;
    uint8_t *buffer;
    size_t buffered;
    struct bytes record; /* scratch */
    VEC(struct writer_queue) queues;
    VEC(struct index_entry) index;
    VEC(struct build_id) build_ids;
    struct strings strings;
    struct bytes features[FEATURE_BITS]; /* made at the start, written again at the end */
    bool has_feature[FEATURE_BITS];
    struct writer_attr attrs[PERF_WRITER_EVENTS];
    unsigned attr_count;
    uint64_t id_spe, id_tracking; /* what records of the writer bear */
    bool stacks;                  /* records of spex_perf_writer_stacks() have an event */
};

static uint64_t id_count(const struct spex_perf_writer *w)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < w->attr_count; i++)
        n += w->attrs[i].id_count;
    return n;
}

/* ---- bytes to the file ---- */

static void write_all(struct spex_perf_writer *w, const uint8_t *data, size_t size)
{
    while (size && !w->error) {
        ssize_t n = write(w->fd, data, size);
        if (n >= 0) {
            data += n;
            size -= (size_t)n;
            w->written += (uint64_t)n;
        } else if (errno != EINTR) {
            w->error = errno;
        }
    }
}

static void flush(struct spex_perf_writer *w)
{
    write_all(w, w->buffer, w->buffered);
    w->buffered = 0;
}

static void emit(struct spex_perf_writer *w, const void *data, size_t size)
{
    w->position += size;
    if (size > BUFFER - w->buffered)
        flush(w);
    if (size >= BUFFER) {
        write_all(w, data, size);
    } else if (size) {
        memcpy(w->buffer + w->buffered, data, size);
        w->buffered += size;
    }
}

static void patch(struct spex_perf_writer *w, const void *data, size_t size, off_t at)
{
    const uint8_t *p = data;
    while (size && !w->error) {
        ssize_t n = pwrite(w->fd, p, size, at);
        if (n >= 0) {
            p += n;
            at += n;
            size -= (size_t)n;
        } else if (errno != EINTR) {
            w->error = errno;
        }
    }
}

/* What was added so far becomes part of the file. */
static void commit(struct spex_perf_writer *w)
{
    uint8_t size[8];
    flush(w);
    put_le64(size, w->position - w->data_offset);
    if (!w->pipe)
        patch(w, size, sizeof size, 48);
}

/*
 * From `at` on: where the last whole record before `end` ends. With `adopt` the
 * records are AUX data that others appended: they enter the index and their queues.
 */
static uint64_t walk_records(struct spex_perf_writer *w, uint64_t at, uint64_t end, bool adopt);

/* ---- records ---- */

static struct bytes *start_record(struct spex_perf_writer *w, uint32_t type, uint16_t misc)
{
    w->record.vec.count = 0;
    put32(&w->record, type);
    put16(&w->record, misc);
    put16(&w->record, 0); /* size: known at the end */
    return &w->record;
}

static void end_record(struct spex_perf_writer *w)
{
    struct bytes *b = &w->record;
    if (b->failed || b->vec.count > RECORD_MAX) {
        if (!w->error)
            w->error = b->failed ? ENOMEM : EMSGSIZE;
        return;
    }
    put_le16(b->vec.items + 6, (uint16_t)b->vec.count);
    emit(w, b->vec.items, b->vec.count);
}

static void see_time(struct spex_perf_writer *w, uint64_t time)
{
    if (time && (!w->first_time || time < w->first_time))
        w->first_time = time;
    if (time > w->last_time)
        w->last_time = time;
}

/* The sample_id that closes a record of the kernel's types. */
static void end_event(struct spex_perf_writer *w, int32_t pid, int32_t tid, uint64_t time,
                      int32_t cpu, uint64_t id)
{
    struct bytes *b = &w->record;
    put32(b, (uint32_t)pid);
    put32(b, (uint32_t)tid);
    if (!w->untimed)
        put64(b, time);
    if (!w->per_thread) {
        put32(b, (uint32_t)(cpu < 0 ? 0 : cpu));
        put32(b, 0);
    }
    put64(b, id);
    end_record(w);
    see_time(w, time);
}

void spex_perf_writer_comm(struct spex_perf_writer *w, int32_t pid, int32_t tid, const char *comm,
                           bool exec, uint64_t time)
{
    struct bytes *b = start_record(w, SPEX_PERF_COMM, exec ? SPEX_PERF_MISC_COMM_EXEC : 0);
    char name[16]; /* as the kernel cuts it */
    snprintf(name, sizeof name, "%s", comm);
    put32(b, (uint32_t)pid);
    put32(b, (uint32_t)tid);
    put_aligned(b, name, 8);
    end_event(w, pid, tid, time, -1, w->id_tracking);
}

static void task(struct spex_perf_writer *w, uint32_t type, int32_t pid, int32_t tid, int32_t ppid,
                 int32_t ptid, uint64_t time)
{
    struct bytes *b = start_record(w, type, 0);
    put32(b, (uint32_t)pid);
    put32(b, (uint32_t)ppid);
    put32(b, (uint32_t)tid);
    put32(b, (uint32_t)ptid);
    put64(b, time);
    end_event(w, pid, tid, time, -1, w->id_tracking);
}

void spex_perf_writer_fork(struct spex_perf_writer *w, int32_t pid, int32_t tid, int32_t ppid,
                           int32_t ptid, uint64_t time)
{
    task(w, SPEX_PERF_FORK, pid, tid, ppid, ptid, time);
}

void spex_perf_writer_exit(struct spex_perf_writer *w, int32_t pid, int32_t tid, int32_t ppid,
                           int32_t ptid, uint64_t time)
{
    task(w, SPEX_PERF_EXIT, pid, tid, ppid, ptid, time);
}

static void remember_build_id(struct spex_perf_writer *w, const struct spex_perf_map *map)
{
    for (size_t i = 0; i < w->build_ids.count; i++)
        if (!strcmp(w->build_ids.items[i].filename, map->filename))
            return;
    const char *name = perfdata_strings_add(&w->strings, map->filename, strlen(map->filename));
    struct build_id *id = name ? vec_push(&w->build_ids) : NULL;
    if (!id) {
        w->error = ENOMEM;
        return;
    }
    id->filename = name;
    id->size = map->build_id_size;
    memcpy(id->bytes, map->build_id, sizeof id->bytes);
}

void spex_perf_writer_map(struct spex_perf_writer *w, const struct spex_perf_map *map)
{
    /* The kernel's record has room for an inode or a build-id; ours may lack an inode. */
    bool by_build_id = map->build_id_size && !map->ino;
    bool kernel = map->pid == SPEX_PERF_PID_KERNEL;
    unsigned misc = kernel ? SPEX_PERF_CPUMODE_KERNEL : SPEX_PERF_CPUMODE_USER;
    struct bytes *b;

    if (map->build_id_size)
        remember_build_id(w, map);
    if (map->data)
        misc |= SPEX_PERF_MISC_MMAP_DATA;
    if (by_build_id)
        misc |= SPEX_PERF_MISC_MMAP_BUILD_ID;
    b = start_record(w, SPEX_PERF_MMAP2, (uint16_t)misc);
    put32(b, (uint32_t)map->pid);
    put32(b, (uint32_t)(kernel ? 0 : map->tid));
    put64(b, map->start);
    put64(b, map->end - map->start);
    put64(b, map->pgoff);
    if (by_build_id) {
        put32(b, map->build_id_size);
        put_bytes(b, map->build_id, sizeof map->build_id);
    } else {
        put32(b, map->maj);
        put32(b, map->min);
        put64(b, map->ino);
        put64(b, map->ino_generation);
    }
    put32(b, map->prot);
    put32(b, map->flags);
    put_aligned(b, map->filename, 8);
    end_event(w, map->pid, kernel ? 0 : map->tid, map->time, -1, w->id_tracking);
}

void spex_perf_writer_switch(struct spex_perf_writer *w, int32_t cpu, int32_t prev_pid,
                             int32_t prev_tid, int32_t next_pid, int32_t next_tid, uint64_t time)
{
    struct bytes *b;
    if (w->per_thread) /* no record says its CPU there: perf would refuse the file */
        return;
    b = start_record(w, SPEX_PERF_SWITCH_CPU_WIDE, SPEX_PERF_MISC_SWITCH_OUT);
    put32(b, (uint32_t)next_pid);
    put32(b, (uint32_t)next_tid);
    end_event(w, prev_pid, prev_tid, time, cpu, w->id_tracking);
    b = start_record(w, SPEX_PERF_SWITCH_CPU_WIDE, 0);
    put32(b, (uint32_t)prev_pid);
    put32(b, (uint32_t)prev_tid);
    end_event(w, next_pid, next_tid, time, cpu, w->id_tracking);
}

void spex_perf_writer_lost(struct spex_perf_writer *w, int32_t cpu, uint64_t lost, uint64_t time)
{
    struct bytes *b = start_record(w, SPEX_PERF_LOST, 0);
    put64(b, w->id_tracking);
    put64(b, lost);
    end_event(w, -1, -1, time, cpu, w->id_tracking);
}

/* ---- AUX data ---- */

static struct writer_queue *find_writer_queue(struct spex_perf_writer *w, int32_t cpu, int32_t tid)
{
    if (w->per_thread)
        cpu = -1;
    else
        tid = -1;
    for (size_t i = 0; i < w->queues.count; i++)
        if (w->queues.items[i].cpu == cpu && w->queues.items[i].tid == tid)
            return &w->queues.items[i];
    struct writer_queue *queue = vec_push(&w->queues);
    if (!queue) {
        w->error = ENOMEM;
        return NULL;
    }
    *queue = (struct writer_queue){.cpu = cpu, .tid = tid};
    return queue;
}

void spex_perf_writer_itrace_start(struct spex_perf_writer *w, int32_t cpu, int32_t pid,
                                   int32_t tid, uint64_t time)
{
    struct writer_queue *queue = find_writer_queue(w, cpu, tid);
    if (!queue)
        return;
    queue->started = true;
    struct bytes *b = start_record(w, SPEX_PERF_ITRACE_START, 0);
    put32(b, (uint32_t)pid);
    put32(b, (uint32_t)tid);
    end_event(w, pid, tid, time, cpu, w->id_spe);
}

void spex_perf_writer_aux_kept(struct spex_perf_writer *w, int32_t cpu, int32_t pid, int32_t tid,
                               uint64_t offset, uint64_t size, uint32_t flags, uint64_t time)
{
    struct writer_queue *queue = find_writer_queue(w, cpu, tid);
    if (!queue)
        return;
    if (!queue->started && tid >= 0)
        spex_perf_writer_itrace_start(w, cpu, pid, tid, time);
    struct bytes *b = start_record(w, SPEX_PERF_AUX, 0);
    put64(b, offset);
    put64(b, size);
    put64(b, flags);
    end_event(w, pid, tid, time, cpu, w->id_spe);
}

void spex_perf_writer_aux(struct spex_perf_writer *w, int32_t cpu, int32_t pid, int32_t tid,
                          const void *data, size_t size, uint32_t flags, uint64_t time)
{
    static const uint8_t zeros[8];
    struct writer_queue *queue = find_writer_queue(w, cpu, tid);
    if (!queue)
        return;
    spex_perf_writer_aux_kept(w, cpu, pid, tid, queue->offset, size, flags, time);
    if (size) {
        /* perf counts the filling to whole words in the size, not in the next offset. */
        size_t filling = -size & 7;
        struct index_entry *entry = vec_push(&w->index);
        if (!entry) {
            w->error = ENOMEM;
            return;
        }
        *entry = (struct index_entry){.offset = w->position, .size = AUXTRACE_SIZE};
        uint8_t header[AUXTRACE_SIZE];
        auxtrace_header(header, size + filling, queue->offset, ++w->reference,
                        w->per_thread ? (uint32_t)(queue - w->queues.items) : (uint32_t)queue->cpu,
                        queue->tid, queue->cpu);
        emit(w, header, sizeof header);
        emit(w, data, size);
        emit(w, zeros, filling);
        queue->offset += size;
    }
    commit(w);
}

void spex_perf_writer_stacks(struct spex_perf_writer *w, const void *records, size_t size)
{
    const uint8_t *at = records;
    for (size_t n; w->stacks; at += n, size -= n) {
        n = callchain_check(at, size);
        n = n ? n : allocation_check(at, size);
        if (!n)
            break;
        emit(w, at, n);
    }
    commit(w);
}

uint64_t spex_perf_writer_size(const struct spex_perf_writer *w)
{
    return w->position;
}

static bool adopt_chunk(struct spex_perf_writer *w, uint64_t at, const uint8_t *h)
{
    int32_t cpu = (int32_t)le32(h + 40);
    if (le32(h) != AUXTRACE_TYPE || le64(h + 8) & 7 || cpu < 0 || (uint32_t)cpu >= w->cpus)
        return false;
    struct writer_queue *queue = find_writer_queue(w, cpu, -1);
    struct index_entry *entry = vec_push(&w->index);
    if (!queue || !entry) {
        w->error = ENOMEM;
        return false;
    }
    *entry = (struct index_entry){.offset = at, .size = AUXTRACE_SIZE};
    queue->offset = le64(h + 16) + le64(h + 8);
    w->reference++;
    return true;
}

/* Some bytes of the file at a time: records of stacks are many and small. */
struct window {
    uint8_t bytes[32 << 10];
    uint64_t at;
    size_t size;
};

/* Up to so many bytes at `at`, at least HEADER_SIZE; NULL if the file does not have them. */
static const uint8_t *look(struct spex_perf_writer *w, struct window *window, uint64_t at,
                           size_t *size)
{
    if (at < window->at || at + AUXTRACE_SIZE > window->at + window->size) {
        ssize_t n;
        do
            n = pread(w->fd, window->bytes, sizeof window->bytes, (off_t)at);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            w->error = errno;
        window->at = at;
        window->size = n > 0 ? (size_t)n : 0;
    }
    *size = window->size - (size_t)(at - window->at);
    return *size < HEADER_SIZE ? NULL : window->bytes + (at - window->at);
}

static uint64_t walk_records(struct spex_perf_writer *w, uint64_t at, uint64_t end, bool adopt)
{
    struct window window = {.size = 0};
    while (end - at >= HEADER_SIZE) {
        size_t n;
        const uint8_t *h = look(w, &window, at, &n);
        if (!h)
            break;
        uint64_t size = le16(h + 6);
        bool stack = w->stacks && le32(h) == SPEX_PERF_SAMPLE;
        if (size < HEADER_SIZE || size > end - at || (adopt && size != AUXTRACE_SIZE && !stack))
            break;
        if (le32(h) == AUXTRACE_TYPE) {
            if (n < AUXTRACE_SIZE || size < AUXTRACE_SIZE || le64(h + 8) > end - at - size)
                break;
            size += le64(h + 8);
        }
        if (adopt && !stack && !adopt_chunk(w, at, h))
            break;
        at += size;
    }
    return at;
}

/* ---- the beginning ---- */

static void make_attrs(struct spex_perf_writer *w, const struct spex_perf_writer_options *o)
{
    enum {
        DISABLED = 1 << 0,
        INHERIT = 1 << 1,
        EXCLUDE_USER = 1 << 4,
        EXCLUDE_KERNEL = 1 << 5,
        MMAP = 1 << 8,
        COMM = 1 << 9,
        TASK = 1 << 13,
        SAMPLE_ID_ALL = 1 << 18,
        MMAP2 = 1 << 23,
        COMM_EXEC = 1 << 24,
        CONTEXT_SWITCH = 1 << 26,
        HARDWARE = 0,
        INSTRUCTIONS = 1, /* of hardware events */
        SOFTWARE = 1,
        DUMMY = 9,
        PA_ENABLE = 2, /* of config */
    };
    uint64_t type = SPEX_PERF_SAMPLE_IP | SPEX_PERF_SAMPLE_TID | SPEX_PERF_SAMPLE_IDENTIFIER;
    if (!o->untimed)
        type |= SPEX_PERF_SAMPLE_TIME;
    if (!o->per_thread)
        type |= SPEX_PERF_SAMPLE_CPU;
    uint8_t *a = w->attrs[0].bytes;
    put_le32(a, o->pmu_type ? o->pmu_type : DEFAULT_PMU);
    put_le32(a + 4, ATTR_SIZE);
    put_le64(a + 8, o->config[0]);
    put_le64(a + 16, o->period);
    put_le64(a + 24,
             type | SPEX_PERF_SAMPLE_DATA_SRC |
                 (o->phys_addr || o->config[0] & PA_ENABLE ? SPEX_PERF_SAMPLE_PHYS_ADDR : 0));
    put_le64(a + 40, DISABLED | INHERIT | SAMPLE_ID_ALL | (o->exclude_user ? EXCLUDE_USER : 0) |
                         (o->exclude_kernel ? EXCLUDE_KERNEL : 0));
    put_le64(a + 56, o->config[1]);
    put_le64(a + 64, o->config[2]);
    /* config3 and config4 lie behind ATTR_SIZE: the event's name tells them. */
    a = w->attrs[1].bytes;
    put_le32(a, SOFTWARE);
    put_le32(a + 4, ATTR_SIZE);
    put_le64(a + 8, DUMMY);
    put_le64(a + 16, 1);
    put_le64(a + 24, type);
    put_le64(a + 40, DISABLED | INHERIT | EXCLUDE_KERNEL | MMAP | COMM | TASK | SAMPLE_ID_ALL |
                         MMAP2 | COMM_EXEC | (o->per_thread ? 0 : CONTEXT_SWITCH));
    w->attrs[1].name = "dummy:u";
    w->attr_count = 2;
    w->id_spe = ID_SPE;
    w->id_tracking = ID_DUMMY;
    w->attrs[0].own = ID_SPE;
    w->attrs[1].own = ID_DUMMY;
    static const struct {
        uint64_t id, parts;
        const char *name;
    } beside[] = {
        {CALLCHAIN_ID, SPEX_PERF_SAMPLE_CALLCHAIN, CALLCHAIN_EVENT ":u"},
        {ALLOCATION_ID,
         SPEX_PERF_SAMPLE_CALLCHAIN | SPEX_PERF_SAMPLE_ADDR | SPEX_PERF_SAMPLE_PERIOD |
             SPEX_PERF_SAMPLE_WEIGHT,
         ALLOCATION_EVENT ":u"},
    };
    const bool wanted[] = {o->stacks, o->allocs};
    for (unsigned i = 0; i < 2; i++) {
        if (!wanted[i] || o->per_thread || o->untimed)
            continue;
        w->attrs[w->attr_count].own = beside[i].id;
        w->attrs[w->attr_count].name = beside[i].name;
        w->stacks = true;
        a = w->attrs[w->attr_count++].bytes;
        put_le32(a, HARDWARE); /* one in so many instructions: the same ones as the SPE event */
        put_le32(a + 4, ATTR_SIZE);
        put_le64(a + 8, INSTRUCTIONS);
        put_le64(a + 16, o->period);
        put_le64(a + 24, type | beside[i].parts);
        put_le64(a + 40, DISABLED | INHERIT | EXCLUDE_KERNEL | SAMPLE_ID_ALL);
    }
}

static void take_attrs(struct spex_perf_writer *w, const struct perf_writer_machine *m)
{
    w->attr_count = (unsigned)m->event_count;
    for (size_t i = 0; i < m->event_count; i++) {
        const struct perf_writer_event *e = &m->events[i];
        w->attrs[i] = (struct writer_attr){.name = e->name, .ids = e->ids, .id_count = e->id_count};
        memcpy(w->attrs[i].bytes, e->attr, ATTR_SIZE);
        put_le32(w->attrs[i].bytes + 4, ATTR_SIZE);
    }
    w->id_spe = m->events[0].ids[0];
    w->id_tracking = m->events[m->tracking].ids[0];
}

static struct bytes *start_feature(struct spex_perf_writer *w, unsigned feature)
{
    w->has_feature[feature] = true;
    return &w->features[feature];
}

static void text_feature(struct spex_perf_writer *w, unsigned feature, const char *text)
{
    if (text)
        put_string(start_feature(w, feature), text);
}

/* perf puts the size of a bitmap before it, twice. */
static void put_bitmap(struct bytes *b, const uint64_t *words, size_t count)
{
    uint64_t bits = 64 * count;
    while (bits && !(words[(bits - 1) / 64] >> (bits - 1) % 64 & 1))
        bits--;
    put64(b, bits);
    put64(b, bits);
    for (size_t i = 0; i < (bits + 63) / 64; i++)
        put64(b, words[i]);
}

/* c2c asks MEM_TOPOLOGY for the node of physical addresses and complains if it is missing. */
static void nodes_features(struct spex_perf_writer *w, const struct perf_writer_machine *m)
{
    struct bytes *b = start_feature(w, FEATURE_NUMA_TOPOLOGY);
    put32(b, (uint32_t)m->node_count);
    for (size_t i = 0; i < m->node_count; i++) {
        put32(b, m->nodes[i].node);
        put64(b, m->nodes[i].total_kb);
        put64(b, m->nodes[i].free_kb);
        put_string(b, m->nodes[i].cpus);
    }
    if (!m->block_size)
        return;
    b = start_feature(w, FEATURE_MEM_TOPOLOGY);
    put64(b, 1); /* version */
    put64(b, m->block_size);
    put64(b, m->node_count);
    for (size_t i = 0; i < m->node_count; i++) {
        put64(b, m->nodes[i].node);
        put_bitmap(b, m->nodes[i].blocks, m->nodes[i].word_count);
    }
}

static void one_node_features(struct spex_perf_writer *w, uint64_t memory, uint32_t cpus)
{
    enum { BLOCK_KB = 128 << 10 };
    char text[32];
    struct bytes *b = start_feature(w, FEATURE_NUMA_TOPOLOGY);
    put32(b, 1);
    put32(b, 0);
    put64(b, memory);
    put64(b, memory);
    snprintf(text, sizeof text, cpus > 1 ? "0-%u" : "0", cpus - 1);
    put_string(b, text);
    uint64_t blocks = (memory + BLOCK_KB - 1) / BLOCK_KB;
    b = start_feature(w, FEATURE_MEM_TOPOLOGY);
    put64(b, 1); /* version */
    put64(b, (uint64_t)BLOCK_KB << 10);
    put64(b, 1); /* nodes */
    put64(b, 0); /* number of the node */
    put64(b, blocks);
    put64(b, blocks); /* once more: it begins the bitmap */
    for (uint64_t i = 0; i < blocks; i += 64)
        put64(b, blocks - i >= 64 ? ~UINT64_C(0) : BIT(blocks - i) - 1);
}

static void make_features(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                          const struct perf_writer_machine *machine)
{
    uint64_t memory = o->memory_kb ? o->memory_kb : 4 << 20;
    uint32_t cpus = o->cpus ? o->cpus : 1;
    uint64_t midr = o->midrs ? o->midrs[0] : o->midr;
    char text[512], event[640];
    struct bytes *b;

    text_feature(w, FEATURE_HOSTNAME, o->hostname);
    text_feature(w, FEATURE_OSRELEASE, o->osrelease);
    text_feature(w, FEATURE_VERSION, o->version);
    text_feature(w, FEATURE_ARCH, o->arch ? o->arch : "aarch64");
    b = start_feature(w, FEATURE_NRCPUS);
    put32(b, cpus);
    put32(b, cpus);
    text_feature(w, FEATURE_CPUDESC, o->cpudesc);
    snprintf(text, sizeof text, "0x%016llx", (unsigned long long)midr);
    text_feature(w, FEATURE_CPUID, text);
    put64(start_feature(w, FEATURE_TOTAL_MEM), memory);
    if (o->cmdline && o->cmdline[0]) {
        uint32_t count = 0;
        while (o->cmdline[count])
            count++;
        b = start_feature(w, FEATURE_CMDLINE);
        put32(b, count);
        for (uint32_t i = 0; i < count; i++)
            put_string(b, o->cmdline[i]);
    }
    spex_perf_terms_text(o->config, text, sizeof text);
    snprintf(event, sizeof event, "arm_spe_0/%s/%s", text,
             o->exclude_kernel ? "u"
             : o->exclude_user ? "k"
                               : "");
    b = start_feature(w, FEATURE_EVENT_DESC);
    put32(b, w->attr_count);
    put32(b, ATTR_SIZE);
    for (unsigned i = 0; i < w->attr_count; i++) {
        const struct writer_attr *a = &w->attrs[i];
        put_bytes(b, a->bytes, ATTR_SIZE);
        put32(b, (uint32_t)a->id_count);
        put_string(b, a->name ? a->name : o->event ? o->event : event);
        for (size_t k = 0; k < a->id_count; k++)
            put64(b, a->ids[k]);
    }
    if (machine && machine->node_count)
        nodes_features(w, machine);
    else
        one_node_features(w, memory, cpus);
}

static void write_file_header(struct spex_perf_writer *w, uint64_t data_size, bool finished)
{
    uint8_t h[FILE_HEADER_SIZE] = {0};
    uint64_t attrs = FILE_HEADER_SIZE + 8 * id_count(w);
    memcpy(h, "PERFILE2", 8);
    put_le64(h + 8, FILE_HEADER_SIZE);
    put_le64(h + 16, ATTR_SIZE + 16);
    put_le64(h + 24, attrs);
    put_le64(h + 32, w->attr_count * (ATTR_SIZE + 16));
    put_le64(h + 40, w->data_offset);
    put_le64(h + 48, data_size);
    for (unsigned i = 0; finished && i < FEATURE_BITS; i++)
        if (w->has_feature[i])
            h[72 + i / 8] |= (uint8_t)(1 << i % 8);
    patch(w, h, sizeof h, 0);
}

static void write_auxtrace_info(struct spex_perf_writer *w,
                                const struct spex_perf_writer_options *o,
                                const struct spex_perf_cpu *cpus)
{
    struct bytes *b = start_record(w, SPEX_PERF_AUXTRACE_INFO, 0);
    put32(b, SPEX_PERF_AUXTRACE_ARM_SPE);
    put32(b, 0);
    uint32_t pmu = o->pmu_type ? o->pmu_type : DEFAULT_PMU;
    if (o->metadata == 2) {
        uint32_t count = o->cpus ? o->cpus : 1;
        put64(b, 2);
        put64(b, 4);
        put64(b, pmu);
        put64(b, count);
        for (uint32_t i = 0; i < count; i++) {
            put64(b, UINT64_C(0x1010101010101010));
            put64(b, cpus ? cpus[i].cpu : i);
            put64(b, 4);
            put64(b, cpus ? cpus[i].midr : o->midrs ? o->midrs[i] : o->midr);
            put64(b, cpus ? cpus[i].pmu_type : pmu);
            put64(b, cpus ? cpus[i].min_interval : o->min_interval);
            put64(b, cpus ? cpus[i].event_filter : o->event_filter);
        }
    } else {
        put64(b, pmu);
        put64(b, !o->per_thread);
    }
    end_record(w);
}

static void write_start(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                        const struct spex_perf_cpu *cpus)
{
    struct bytes *b = &w->record;
    uint8_t word[8];
    if (w->pipe) {
        emit(w, "PERFILE2", 8);
        put_le64(word, PIPE_HEADER_SIZE);
        emit(w, word, 8);
        w->data_offset = w->position;
        for (unsigned i = 0; i < w->attr_count; i++) {
            b = start_record(w, SPEX_PERF_HEADER_ATTR, 0);
            put_bytes(b, w->attrs[i].bytes, ATTR_SIZE);
            for (size_t k = 0; k < w->attrs[i].id_count; k++)
                put64(b, w->attrs[i].ids[k]);
            end_record(w);
        }
    } else {
        static const uint8_t header[FILE_HEADER_SIZE];
        emit(w, header, sizeof header);
        for (unsigned i = 0; i < w->attr_count; i++)
            for (size_t k = 0; k < w->attrs[i].id_count; k++) {
                put_le64(word, w->attrs[i].ids[k]);
                emit(w, word, 8);
            }
        uint64_t ids = FILE_HEADER_SIZE;
        for (unsigned i = 0; i < w->attr_count; i++) {
            uint8_t section[16];
            put_le64(section, ids);
            put_le64(section + 8, 8 * w->attrs[i].id_count);
            ids += 8 * w->attrs[i].id_count;
            emit(w, w->attrs[i].bytes, ATTR_SIZE);
            emit(w, section, sizeof section);
        }
        w->data_offset = w->position;
    }
    for (unsigned i = 0; i < FEATURE_BITS; i++) {
        /* perf takes a second MEM_TOPOLOGY for an error; the others it reads twice. */
        if (!w->has_feature[i] || (i == FEATURE_MEM_TOPOLOGY && !w->pipe))
            continue;
        if (w->features[i].vec.count > RECORD_MAX - 24) /* a long command line: at the end only */
            continue;
        b = start_record(w, SPEX_PERF_FEATURE, 0);
        put64(b, i);
        put_bytes(b, w->features[i].vec.items, w->features[i].vec.count);
        put_zeros(b, -b->vec.count & 7);
        end_record(w);
    }
    /* perf works out times with zeros, and dies, if TIME_CONV comes later than this. */
    b = start_record(w, SPEX_PERF_TIME_CONV, 0);
    put64(b, o->time.shift);
    put64(b, o->time.mult);
    put64(b, o->time.zero);
    put64(b, o->time.cycles);
    put64(b, o->time.mask);
    put_bytes(b, (uint8_t[8]){o->time.cap_zero, o->time.cap_short}, 8);
    end_record(w);
    write_auxtrace_info(w, o, cpus);
}

/* The file was begun before, and others appended AUX data: it stays, and the file goes on there. */
static enum spex_status adopt(struct spex_perf_writer *w, const struct spex_perf_writer_options *o,
                              struct spex_error *error)
{
    if (w->pipe || w->position != o->kept_start || o->kept_end < o->kept_start)
        return error_set(error, SPEX_INVALID, o->kept_start,
                         "%s was not begun by this version of spex", w->path);
    flush(w);
    uint64_t end = walk_records(w, o->kept_start, o->kept_end, true);
    if (!w->error && (lseek(w->fd, (off_t)end, SEEK_SET) < 0 || ftruncate(w->fd, (off_t)end)))
        w->error = errno;
    if (w->error) /* nothing was cut: another time it may go */
        return error_set(error, w->error == ENOMEM ? SPEX_NO_MEMORY : SPEX_IO, end, "%s: %s",
                         w->path, strerror(w->error));
    w->position = w->written = end;
    return SPEX_OK;
}

static int open_file(const char *path, const struct spex_perf_writer_options *o)
{
    if (!strcmp(path, "-"))
        return STDOUT_FILENO;
    if (o->fd > 0)
        return o->fd;
    int how = o->kept_start ? O_NOFOLLOW | O_NONBLOCK : O_CREAT | O_TRUNC;
    return open(path, O_RDWR | O_CLOEXEC | how, 0600);
}

static void free_writer(struct spex_perf_writer *w)
{
    if (w->fd > STDOUT_FILENO)
        close(w->fd);
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        vec_free(&w->features[i].vec);
    vec_free(&w->record.vec);
    vec_free(&w->queues);
    vec_free(&w->index);
    vec_free(&w->build_ids);
    perfdata_strings_fini(&w->strings);
    free(w->buffer);
    free(w->path);
    free(w);
}

enum spex_status perf_writer_open_machine(const char *path,
                                          const struct spex_perf_writer_options *options,
                                          const struct perf_writer_machine *machine,
                                          struct spex_perf_writer **result,
                                          struct spex_error *error)
{
    struct spex_perf_writer_options known, *o = &known;
    enum spex_status status =
        sized_take("spex_perf_writer_options", options, &known, sizeof known, error);
    if (status)
        return status;
    struct spex_perf_writer *w = calloc(1, sizeof *w);
    struct stat st;
    if (!w)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    bool standard = !strcmp(path, "-");
    w->fd = open_file(path, o);
    w->path = strdup(standard ? "standard output" : path);
    w->buffer = malloc(BUFFER);
    if (!w->path || !w->buffer)
        status = error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    else if (w->fd < 0 || fstat(w->fd, &st))
        status = error_set(error, SPEX_IO, 0, "cannot write %s: %s", path, strerror(errno));
    else if (o->time.mult == 0 && !o->untimed)
        status = error_set(error, SPEX_INVALID, 0, "no time conversion was given for %s", path);
    else if (o->metadata > 2)
        status = error_set(error, SPEX_UNSUPPORTED, 0, "SPE metadata version %u", o->metadata);
    if (status != SPEX_OK) {
        free_writer(w);
        return status;
    }
    w->pipe = standard || !S_ISREG(st.st_mode);
    w->per_thread = o->per_thread;
    w->untimed = o->untimed;
    w->cpus = o->cpus ? o->cpus : 1;
    if (machine)
        take_attrs(w, machine);
    else
        make_attrs(w, o);
    for (unsigned i = 0; i < w->attr_count && !machine; i++) {
        w->attrs[i].ids = &w->attrs[i].own;
        w->attrs[i].id_count = 1;
    }
    make_features(w, o, machine);
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        if (w->features[i].failed)
            w->error = ENOMEM;
    write_start(w, o, machine ? machine->cpus : NULL);
    if (o->kept_start)
        status = adopt(w, o, error);
    if (status != SPEX_OK) {
        free_writer(w);
        return status;
    }
    if (!w->pipe) {
        flush(w);
        write_file_header(w, w->position - w->data_offset, false);
    }
    *result = w;
    return SPEX_OK;
}

enum spex_status spex_perf_writer_open(const char *path,
                                       const struct spex_perf_writer_options *options,
                                       struct spex_perf_writer **result, struct spex_error *error)
{
    return perf_writer_open_machine(path, options, NULL, result, error);
}

/* ---- records of a kernel ---- */

void perf_writer_build_id(struct spex_perf_writer *w, const char *filename, const uint8_t *id,
                          uint8_t size)
{
    struct spex_perf_map map = {.filename = filename, .build_id_size = size};
    if (!size || size > sizeof map.build_id)
        return;
    memcpy(map.build_id, id, size);
    remember_build_id(w, &map);
}

/* The time, and a build-id: records begin or end with them in fixed places. */
static void see_record(struct spex_perf_writer *w, const uint8_t *r, size_t size)
{
    uint32_t type = le32(r);
    size_t behind = w->per_thread ? 16 : 24; /* of the time, to the end */
    if (w->untimed)
        ;
    else if (type == SPEX_PERF_SAMPLE && size >= 40)
        see_time(w, le64(r + 32));
    else if (type < SPEX_PERF_HEADER_ATTR && size >= HEADER_SIZE + behind + 8)
        see_time(w, le64(r + size - behind));
    if (type == SPEX_PERF_MMAP2 && le16(r + 4) & SPEX_PERF_MISC_MMAP_BUILD_ID && size > 72 &&
        memchr(r + 72, 0, size - 72))
        perf_writer_build_id(w, (const char *)r + 72, r + 44, r[40]);
}

void perf_writer_raw(struct spex_perf_writer *w, const void *records, size_t size)
{
    const uint8_t *r = records;
    for (size_t n; size >= HEADER_SIZE && (n = le16(r + 6)) >= HEADER_SIZE && n <= size;
         r += n, size -= n) {
        see_record(w, r, n);
        emit(w, r, n);
    }
}

void perf_writer_sync(struct spex_perf_writer *w)
{
    commit(w);
}

void perf_writer_auxtrace(struct spex_perf_writer *w, const struct perf_writer_aux *aux)
{
    static const uint8_t zeros[8];
    uint8_t header[AUXTRACE_SIZE];
    size_t size = aux->size[0] + aux->size[1], filling = -size & 7;
    struct index_entry *entry = vec_push(&w->index);
    if (!entry) {
        w->error = ENOMEM;
        return;
    }
    *entry = (struct index_entry){.offset = w->position, .size = AUXTRACE_SIZE};
    auxtrace_header(header, size + filling, aux->offset, ++w->reference, aux->queue, aux->tid,
                    aux->cpu);
    emit(w, header, sizeof header);
    flush(w);
    for (unsigned i = 0; i < 2; i++) {
        write_all(w, aux->part[i], aux->size[i]);
        w->position += aux->size[i];
    }
    emit(w, zeros, filling);
    commit(w);
}

/* ---- the end ---- */

static void finish_features(struct spex_perf_writer *w)
{
    enum { MISC_SIZE = 1 << 15 };
    struct bytes *b = start_feature(w, FEATURE_AUXTRACE);
    put64(b, w->index.count);
    for (size_t i = 0; i < w->index.count; i++) {
        put64(b, w->index.items[i].offset);
        put64(b, w->index.items[i].size);
    }
    if (w->first_time) {
        b = start_feature(w, FEATURE_SAMPLE_TIME);
        put64(b, w->first_time);
        put64(b, w->last_time);
    }
    for (size_t i = 0; i < w->build_ids.count; i++) {
        const struct build_id *id = &w->build_ids.items[i];
        bool kernel = id->filename[0] == '[' && !strncmp(id->filename, "[kernel", 7);
        unsigned misc = kernel ? SPEX_PERF_CPUMODE_KERNEL : SPEX_PERF_CPUMODE_USER;
        size_t name = (strlen(id->filename) + NAME_ALIGN) & ~(size_t)(NAME_ALIGN - 1);
        if (name > RECORD_MAX - 36)
            continue;
        b = start_feature(w, FEATURE_BUILD_ID);
        put32(b, 0); /* a type is not used here */
        put16(b, (uint16_t)(misc | MISC_SIZE));
        put16(b, (uint16_t)(36 + name));
        put32(b, UINT32_MAX); /* pid: of the host */
        put_bytes(b, id->bytes, 20);
        put32(b, id->size);
        put_aligned(b, id->filename, NAME_ALIGN);
    }
}

static void write_sections(struct spex_perf_writer *w)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        count += w->has_feature[i];
    uint64_t offset = w->position + 16 * count;
    for (unsigned i = 0; i < FEATURE_BITS; i++) {
        uint8_t section[16];
        if (!w->has_feature[i])
            continue;
        if (w->features[i].failed)
            w->error = ENOMEM;
        put_le64(section, offset);
        put_le64(section + 8, w->features[i].vec.count);
        emit(w, section, sizeof section);
        offset += w->features[i].vec.count;
    }
    for (unsigned i = 0; i < FEATURE_BITS; i++)
        if (w->has_feature[i])
            emit(w, w->features[i].vec.items, w->features[i].vec.count);
    flush(w);
}

enum spex_status spex_perf_writer_leave(struct spex_perf_writer *w, struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    flush(w);
    if (w->error)
        status = error_set(error, w->error == ENOMEM ? SPEX_NO_MEMORY : SPEX_IO, w->position,
                           "cannot write %s: %s", w->path, strerror(w->error));
    free_writer(w);
    return status;
}

enum spex_status spex_perf_writer_finish(struct spex_perf_writer *w, struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    uint64_t missing = 0;
    flush(w);
    if (!w->pipe) {
        uint64_t end = w->position;
        finish_features(w);
        write_sections(w);
        int problem = w->error;
        if (problem) { /* what fits: up to the last whole record */
            w->error = 0;
            end = walk_records(w, w->data_offset, end < w->written ? end : w->written, false);
            missing = w->position - end;
        }
        write_file_header(w, end - w->data_offset, !problem);
        if (problem && !w->error && ftruncate(w->fd, (off_t)end))
            w->error = errno;
        w->error = problem ? problem : w->error;
    }
    if (w->fd > STDOUT_FILENO) {
        if (close(w->fd) && !w->error)
            w->error = errno;
        w->fd = -1;
    }
    if (w->error)
        status = missing
                     ? error_set(error, SPEX_TRUNCATED, w->position - missing,
                                 "%s: %s: the last %llu bytes are missing", w->path,
                                 strerror(w->error), (unsigned long long)missing)
                     : error_set(error, w->error == ENOMEM ? SPEX_NO_MEMORY : SPEX_IO, w->position,
                                 "cannot write %s: %s", w->path, strerror(w->error));
    free_writer(w);
    return status;
}
