/* Writes records: those that spex makes, those of a kernel unchanged, AUX data. */
#include "writing.h"

#include "allocation.h"
#include "auxtrace.h"
#include "callchain.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

/* ---- records ---- */

struct bytes *writing_begin(struct spex_perf_writer *w, uint32_t type, uint16_t misc)
{
    w->record.vec.count = 0;
    put32(&w->record, type);
    put16(&w->record, misc);
    put16(&w->record, 0); /* size: filled in at the end */
    return &w->record;
}

void writing_end(struct spex_perf_writer *w)
{
    struct bytes *b = &w->record;
    if (b->failed || b->vec.count > RECORD_MAX) {
        if (!w->error)
            w->error = b->failed ? ENOMEM : EMSGSIZE;
        return;
    }
    assert(b->vec.count >= HEADER_SIZE && b->vec.count % 8 == 0); /* as perf reads them */
    put_le16(b->vec.items + 6, (uint16_t)b->vec.count);
    writing_emit(w, b->vec.items, b->vec.count);
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
    writing_end(w);
    see_time(w, time);
}

void spex_perf_writer_comm(struct spex_perf_writer *w, int32_t pid, int32_t tid, const char *comm,
                           bool exec, uint64_t time)
{
    assert(w && comm);
    MEMORY_OF(w->account);
    struct bytes *b = writing_begin(w, SPEX_PERF_COMM, exec ? SPEX_PERF_MISC_COMM_EXEC : 0);
    char name[16]; /* truncated as by the kernel */
    snprintf(name, sizeof name, "%s", comm);
    put32(b, (uint32_t)pid);
    put32(b, (uint32_t)tid);
    put_aligned(b, name, 8);
    end_event(w, pid, tid, time, -1, w->id_tracking);
}

static void task(struct spex_perf_writer *w, uint32_t type, int32_t pid, int32_t tid, int32_t ppid,
                 int32_t ptid, uint64_t time)
{
    MEMORY_OF(w->account);
    struct bytes *b = writing_begin(w, type, 0);
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
    assert(w);
    task(w, SPEX_PERF_FORK, pid, tid, ppid, ptid, time);
}

void spex_perf_writer_exit(struct spex_perf_writer *w, int32_t pid, int32_t tid, int32_t ppid,
                           int32_t ptid, uint64_t time)
{
    assert(w);
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
    assert(w && map && map->filename);
    MEMORY_OF(w->account);
    /*
     * The kernel's record has room for an inode or a build-id, not both; ours may lack an
     * inode.
     */
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
    b = writing_begin(w, SPEX_PERF_MMAP2, (uint16_t)misc);
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
    assert(w);
    MEMORY_OF(w->account);
    struct bytes *b;
    if (w->per_thread) /* records have no CPU then: perf would refuse the file */
        return;
    b = writing_begin(w, SPEX_PERF_SWITCH_CPU_WIDE, SPEX_PERF_MISC_SWITCH_OUT);
    put32(b, (uint32_t)next_pid);
    put32(b, (uint32_t)next_tid);
    end_event(w, prev_pid, prev_tid, time, cpu, w->id_tracking);
    b = writing_begin(w, SPEX_PERF_SWITCH_CPU_WIDE, 0);
    put32(b, (uint32_t)prev_pid);
    put32(b, (uint32_t)prev_tid);
    end_event(w, next_pid, next_tid, time, cpu, w->id_tracking);
}

void spex_perf_writer_lost(struct spex_perf_writer *w, int32_t cpu, uint64_t lost, uint64_t time)
{
    assert(w);
    MEMORY_OF(w->account);
    struct bytes *b = writing_begin(w, SPEX_PERF_LOST, 0);
    put64(b, w->id_tracking);
    put64(b, lost);
    end_event(w, -1, -1, time, cpu, w->id_tracking);
}

/* ---- AUX data ---- */

struct writer_queue *writing_queue(struct spex_perf_writer *w, int32_t cpu, int32_t tid)
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
    assert(w);
    MEMORY_OF(w->account);
    struct writer_queue *queue = writing_queue(w, cpu, tid);
    if (!queue)
        return;
    queue->started = true;
    struct bytes *b = writing_begin(w, SPEX_PERF_ITRACE_START, 0);
    put32(b, (uint32_t)pid);
    put32(b, (uint32_t)tid);
    end_event(w, pid, tid, time, cpu, w->id_spe);
}

void spex_perf_writer_aux_kept(struct spex_perf_writer *w, int32_t cpu, int32_t pid, int32_t tid,
                               uint64_t offset, uint64_t size, uint32_t flags, uint64_t time)
{
    assert(w);
    MEMORY_OF(w->account);
    struct writer_queue *queue = writing_queue(w, cpu, tid);
    if (!queue)
        return;
    if (!queue->started && tid >= 0)
        spex_perf_writer_itrace_start(w, cpu, pid, tid, time);
    struct bytes *b = writing_begin(w, SPEX_PERF_AUX, 0);
    put64(b, offset);
    put64(b, size);
    put64(b, flags);
    end_event(w, pid, tid, time, cpu, w->id_spe);
}

void spex_perf_writer_aux(struct spex_perf_writer *w, int32_t cpu, int32_t pid, int32_t tid,
                          const void *data, size_t size, uint32_t flags, uint64_t time)
{
    assert(w && (data || !size));
    MEMORY_OF(w->account);
    static const uint8_t zeros[8];
    struct writer_queue *queue = writing_queue(w, cpu, tid);
    if (!queue)
        return;
    spex_perf_writer_aux_kept(w, cpu, pid, tid, queue->offset, size, flags, time);
    if (size) {
        /* perf counts the padding to whole words in the size, not in the next offset. */
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
        writing_emit(w, header, sizeof header);
        writing_emit(w, data, size);
        writing_emit(w, zeros, filling);
        queue->offset += size;
    }
    writing_commit(w);
}

void spex_perf_writer_stacks(struct spex_perf_writer *w, const void *records, size_t size)
{
    assert(w && (records || !size));
    MEMORY_OF(w->account);
    const uint8_t *at = records;
    for (size_t n; w->stacks; at += n, size -= n) {
        n = callchain_check(at, size);
        n = n ? n : allocation_check(at, size);
        if (!n)
            break;
        writing_emit(w, at, n);
    }
    writing_commit(w);
}

uint64_t spex_perf_writer_size(const struct spex_perf_writer *w)
{
    assert(w);
    return w->position;
}

/* ---- records of a kernel ---- */

void perf_writer_build_id(struct spex_perf_writer *w, const char *filename, const uint8_t *id,
                          uint8_t size)
{
    MEMORY_OF(w->account);
    struct spex_perf_map map = {.filename = filename, .build_id_size = size};
    if (!size || size > sizeof map.build_id)
        return;
    memcpy(map.build_id, id, size);
    remember_build_id(w, &map);
}

/*
 * Notes the time and the build-id, which are at fixed offsets from a record's beginning or
 * end.
 */
static void see_record(struct spex_perf_writer *w, const uint8_t *r, size_t size)
{
    uint32_t type = le32(r);
    size_t behind = w->per_thread ? 16 : 24; /* distance of the time from the end */
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
    MEMORY_OF(w->account);
    const uint8_t *r = records;
    for (size_t n; size >= HEADER_SIZE && (n = le16(r + 6)) >= HEADER_SIZE && n <= size;
         r += n, size -= n) {
        see_record(w, r, n);
        writing_emit(w, r, n);
    }
}

void perf_writer_sync(struct spex_perf_writer *w)
{
    MEMORY_OF(w->account);
    writing_commit(w);
}

void perf_writer_auxtrace(struct spex_perf_writer *w, const struct perf_writer_aux *aux)
{
    MEMORY_OF(w->account);
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
    writing_emit(w, header, sizeof header);
    writing_flush(w);
    for (unsigned i = 0; i < 2; i++) {
        writing_write(w, aux->part[i], aux->size[i]);
        w->position += aux->size[i];
    }
    writing_emit(w, zeros, filling);
    writing_commit(w);
}
