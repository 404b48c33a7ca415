/*
 * Processes, threads, mappings and CPUs as of a time.
 *
 * The scan collects events; building sorts them by time (records of several CPUs are not sorted
 * in the file) and replays them once. The result: threads, a history of (process, name) per
 * tid; epochs, the mappings of a process from one exec or fork to the next; switches, who ran
 * on each CPU.
 */
#include "file.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/search.h"
#include "jit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- collecting ---- */

static void add_task(struct spex_perfdata *file, const struct task_event *event)
{
    struct task_event *slot = vec_push(&file->state.tasks);
    if (!slot) {
        file->failed = true;
        return;
    }
    *slot = *event;
    slot->seq = (uint32_t)file->state.tasks.count;
}

static void add_switch(struct spex_perfdata *file, const struct spex_perf_event *event, int32_t pid,
                       int32_t tid)
{
    if (event->cpu < 0)
        return;
    struct switch_event *slot = vec_push(&file->state.switches);
    if (!slot) {
        file->failed = true;
        return;
    }
    *slot = (struct switch_event){
        .time = event->time,
        .seq = (uint32_t)file->state.switches.count,
        .cpu = event->cpu,
        .pid = pid,
        .tid = tid,
    };
}

static bool add_map(struct spex_perfdata *file, const struct spex_perf_map *map)
{
    const char *name = perfdata_strings_add(&file->strings, map->filename, strlen(map->filename));
    struct spex_perf_map *slot = name ? vec_push(&file->maps) : NULL;
    if (!slot) {
        file->failed = true;
        return false;
    }
    *slot = *map;
    slot->filename = name;
    add_task(file, &(struct task_event){.time = map->time,
                                        .pid = map->pid,
                                        .map = (uint32_t)file->maps.count - 1,
                                        .kind = TASK_MAP});
    return true;
}

struct jit_maps {
    struct spex_perfdata *file;
    const struct spex_perf_map *dump; /* the mapping of the jitdump file itself */
    bool same_clock;
};

static void add_jit(void *context, const struct jit_code *code)
{
    const struct jit_maps *maps = context;
    char name[sizeof JIT_PREFIX + JIT_NAME_MOST];
    size_t n = code->name_length < JIT_NAME_MOST ? code->name_length : JIT_NAME_MOST;
    snprintf(name, sizeof name, "%s%.*s", JIT_PREFIX, (int)n, code->name);
    if (code->length && !maps->file->failed)
        add_map(maps->file,
                &(struct spex_perf_map){.start = code->start,
                                        .end = code->start + code->length < code->start
                                                   ? UINT64_MAX
                                                   : code->start + code->length,
                                        .pid = maps->dump->pid,
                                        .tid = maps->dump->tid,
                                        .time = maps->same_clock ? code->time : maps->dump->time,
                                        .prot = 5,
                                        .file_offset = maps->dump->file_offset,
                                        .filename = name});
}

/* A compiler maps its jitdump file so that a record says where it is. */
static void read_dump(struct spex_perfdata *file, const struct spex_perf_event *event)
{
    enum { USE_CLOCKID = 1 << 25, CLOCK_MONOTONIC_ID = 1 };
    const struct spex_perf_map *map = &event->u.map;
    const struct spex_perf_attr *attr = event->attr;
    char path[BELOW_PATH];
    size_t size;
    char *data = below_dump(file->below, map, path, &size);
    if (data) {
        struct jit_maps maps = {
            file, map, attr && attr->flags & USE_CLOCKID && attr->clockid == CLOCK_MONOTONIC_ID};
        jit_read(data, size, add_jit, &maps);
    }
    memory_free(data);
}

void perfdata_state_event(struct spex_perfdata *file, const struct spex_perf_event *event)
{
    bool out = event->misc & SPEX_PERF_MISC_SWITCH_OUT;
    switch (event->type) {
    case SPEX_PERF_MMAP:
    case SPEX_PERF_MMAP2: {
        if ((event->misc & SPEX_PERF_CPUMODE_MASK) == SPEX_PERF_CPUMODE_GUEST_USER)
            return; /* a guest's process, not the host's */
        if (add_map(file, &event->u.map))
            read_dump(file, event);
        break;
    }
    case SPEX_PERF_KSYMBOL: {
        char name[300];
        snprintf(name, sizeof name, "[bpf] %s", event->u.ksymbol.name);
        if (!(event->u.ksymbol.flags & 1) && event->u.ksymbol.length)
            add_map(file, &(struct spex_perf_map){.start = event->u.ksymbol.address,
                                                  .end = event->u.ksymbol.address +
                                                         event->u.ksymbol.length,
                                                  .pid = SPEX_PERF_PID_KERNEL,
                                                  .time = event->time,
                                                  .prot = 5,
                                                  .file_offset = event->offset,
                                                  .filename = name});
        break;
    }
    case SPEX_PERF_COMM: {
        const char *comm = event->u.comm.comm;
        comm = perfdata_strings_add(&file->strings, comm, strlen(comm));
        if (!comm)
            file->failed = true;
        bool exec = event->misc & SPEX_PERF_MISC_COMM_EXEC;
        add_task(file, &(struct task_event){.time = event->time,
                                            .pid = event->u.comm.pid,
                                            .tid = event->u.comm.tid,
                                            .comm = comm,
                                            .kind = exec ? TASK_EXEC : TASK_COMM});
        break;
    }
    case SPEX_PERF_FORK:
        /* Its own time cannot be compared with records without one. */
        add_task(file, &(struct task_event){.time = event->time,
                                            .pid = event->u.task.pid,
                                            .tid = event->u.task.tid,
                                            .ppid = event->u.task.ppid,
                                            .ptid = event->u.task.ptid,
                                            .kind = TASK_FORK});
        break;
    case SPEX_PERF_SWITCH_CPU_WIDE:
        if (out)
            add_switch(file, event, event->u.thread.pid, event->u.thread.tid);
        else if (event->present & SPEX_PERF_SAMPLE_TID)
            add_switch(file, event, event->pid, event->tid);
        break;
    case SPEX_PERF_SWITCH:
        if (event->present & SPEX_PERF_SAMPLE_TID)
            add_switch(file, event, out ? -1 : event->pid, out ? -1 : event->tid);
        break;
    case SPEX_PERF_ITRACE_START:
        add_switch(file, event, event->u.thread.pid, event->u.thread.tid);
        break;
    default:
        break;
    }
}

/* ---- building ---- */

static int compare_task(const void *a, const void *b)
{
    const struct task_event *x = a, *y = b;
    return x->time != y->time ? ORDER(x->time, y->time) : ORDER(x->seq, y->seq);
}

static int compare_switch(const void *a, const void *b)
{
    const struct switch_event *x = a, *y = b;
    return x->cpu != y->cpu     ? ORDER(x->cpu, y->cpu)
           : x->time != y->time ? ORDER(x->time, y->time)
                                : ORDER(x->seq, y->seq);
}

/* By tid; within a tid, seq keeps the order of time. */
static int compare_thread(const void *a, const void *b)
{
    const struct thread_entry *x = a, *y = b;
    return x->tid != y->tid ? ORDER(x->tid, y->tid) : ORDER(x->seq, y->seq);
}

static int compare_epoch(const void *a, const void *b)
{
    const struct epoch *x = a, *y = b;
    return x->pid != y->pid ? ORDER(x->pid, y->pid) : ORDER(x->seq, y->seq);
}

/* pid or tid -> the newest entry about it, during the replay. */
struct newest {
    struct {
        int32_t key;
        uint32_t value; /* plus one; 0: free */
    } * slots;
    size_t count, capacity;
};

static uint32_t *newest_find(struct newest *newest, int32_t key)
{
    if (2 * newest->count >= newest->capacity) {
        struct newest bigger = {.capacity = newest->capacity ? 2 * newest->capacity : 256};
        bigger.slots = memory_zeroed(bigger.capacity, sizeof *bigger.slots);
        if (!bigger.slots)
            return NULL;
        for (size_t i = 0; i < newest->capacity; i++)
            if (newest->slots[i].value)
                *newest_find(&bigger, newest->slots[i].key) = newest->slots[i].value;
        memory_free(newest->slots);
        *newest = bigger;
    }
    size_t mask = newest->capacity - 1;
    size_t slot = hash_word(hash_seed(), (uint32_t)key) & mask;
    while (newest->slots[slot].value && newest->slots[slot].key != key)
        slot = (slot + 1) & mask;
    if (!newest->slots[slot].value) {
        newest->slots[slot].key = key;
        newest->count++; /* the caller now stores a value */
    }
    return &newest->slots[slot].value;
}

static uint32_t newest_get(const struct newest *newest, int32_t key)
{
    size_t mask = newest->capacity - 1;
    if (!newest->capacity)
        return 0;
    size_t slot = hash_word(hash_seed(), (uint32_t)key) & mask;
    while (newest->slots[slot].value && newest->slots[slot].key != key)
        slot = (slot + 1) & mask;
    return newest->slots[slot].value;
}

struct play {
    struct spex_perfdata *file;
    struct newest threads, epochs;
};

static bool add_thread(struct play *play, const struct task_event *task, const char *comm)
{
    struct state *state = &play->file->state;
    struct thread_entry *entry = vec_push(&state->threads);
    uint32_t *newest = entry ? newest_find(&play->threads, task->tid) : NULL;
    if (!newest)
        return false;
    *newest = (uint32_t)state->threads.count;
    *entry = (struct thread_entry){
        .time = task->time,
        .seq = (uint32_t)state->threads.count,
        .tid = task->tid,
        .pid = task->pid,
        .comm = comm,
    };
    return true;
}

static struct epoch *add_epoch(struct play *play, uint64_t time, int32_t pid)
{
    struct state *state = &play->file->state;
    struct epoch *epoch = vec_push(&state->epochs);
    if (epoch)
        *epoch = (struct epoch){0}; /* so that it is freed with the others in any case */
    uint32_t *newest = epoch ? newest_find(&play->epochs, pid) : NULL;
    if (!newest)
        return NULL;
    *newest = (uint32_t)state->epochs.count;
    *epoch = (struct epoch){
        .time = time,
        .seq = (uint32_t)state->epochs.count,
        .pid = pid,
        .parent = NO_EPOCH,
    };
    return epoch;
}

/*
 * A child has its parent's mappings until it execs. A parent without mappings of its own is
 * skipped, so that chains are no longer than the number of mappings.
 */
static bool play_fork(struct play *play, const struct task_event *task)
{
    struct state *state = &play->file->state;
    uint32_t parent_thread = newest_get(&play->threads, task->ptid);
    const char *comm = parent_thread ? state->threads.items[parent_thread - 1].comm : NULL;
    if (!add_thread(play, task, comm))
        return false;
    if (task->pid == task->ppid)
        return true;
    uint32_t parent = newest_get(&play->epochs, task->ppid);
    uint64_t parent_time = task->time;
    if (parent) {
        const struct epoch *p = &state->epochs.items[parent - 1];
        if (!p->count) {
            parent = p->parent == NO_EPOCH ? 0 : p->parent + 1;
            parent_time = p->parent_time;
        }
    }
    struct epoch *epoch = add_epoch(play, task->time, task->pid);
    if (epoch && parent) {
        epoch->parent = parent - 1;
        epoch->parent_time = parent_time;
    }
    return epoch;
}

static bool play_map(struct play *play, const struct task_event *task)
{
    struct state *state = &play->file->state;
    uint32_t index = newest_get(&play->epochs, task->pid);
    struct epoch *epoch = index ? &state->epochs.items[index - 1] : NULL;
    if (!epoch) /* a process that existed before: its mappings hold from the start */
        epoch = add_epoch(play, 0, task->pid);
    if (!epoch || !vec_grow(&epoch->maps, &epoch->capacity, epoch->count + 1, sizeof *epoch->maps))
        return false;
    epoch->maps[epoch->count++] = task->map;
    return true;
}

static bool play_task(struct play *play, const struct task_event *task)
{
    switch (task->kind) {
    case TASK_MAP:
        return play_map(play, task);
    case TASK_FORK:
        return play_fork(play, task);
    case TASK_EXEC:
        if (!add_epoch(play, task->time, task->pid))
            return false;
        /* fall through */
    default:
        return add_thread(play, task, task->comm);
    }
}

/* ---- all together ---- */

static bool link_parents(struct state *state)
{
    /* Sorting by pid moves epochs, but parents refer to the old order, which seq keeps. */
    size_t count = state->epochs.count;
    uint32_t *moved = memory_new((count ? count : 1) * sizeof *moved);
    if (!moved)
        return false;
    if (count)
        qsort(state->epochs.items, count, sizeof *state->epochs.items, compare_epoch);
    for (size_t i = 0; i < count; i++)
        moved[state->epochs.items[i].seq - 1] = (uint32_t)i;
    for (size_t i = 0; i < count; i++)
        if (state->epochs.items[i].parent != NO_EPOCH)
            state->epochs.items[i].parent = moved[state->epochs.items[i].parent];
    memory_free(moved);
    return true;
}

/* One thread's switch-out and the next one's switch-in report the same switch twice. */
static void merge_switches(struct state *state)
{
    size_t kept = 0;
    if (state->switches.count)
        qsort(state->switches.items, state->switches.count, sizeof *state->switches.items,
              compare_switch);
    for (size_t i = 0; i < state->switches.count; i++) {
        const struct switch_event *event = &state->switches.items[i];
        const struct switch_event *last = kept ? &state->switches.items[kept - 1] : NULL;
        if (!last || last->cpu != event->cpu || last->tid != event->tid || last->pid != event->pid)
            state->switches.items[kept++] = *event;
    }
    state->switches.count = kept;
}

bool perfdata_state_build(struct spex_perfdata *file)
{
    struct state *state = &file->state;
    struct play play = {.file = file};
    bool good = true;
    if (state->tasks.count)
        qsort(state->tasks.items, state->tasks.count, sizeof *state->tasks.items, compare_task);
    for (size_t i = 0; i < state->tasks.count && good; i++)
        good = play_task(&play, &state->tasks.items[i]);
    memory_free(play.threads.slots);
    memory_free(play.epochs.slots);
    vec_free(&state->tasks);
    state->tasks.items = NULL;
    state->tasks.count = state->tasks.capacity = 0;
    if (!good || !link_parents(state))
        return false;
    if (state->threads.count)
        qsort(state->threads.items, state->threads.count, sizeof *state->threads.items,
              compare_thread);
    for (size_t i = 0; i < state->epochs.count; i++)
        if (!perfdata_epoch_build(file, &state->epochs.items[i]))
            return false;
    merge_switches(state);
    return true;
}

void perfdata_state_fini(struct spex_perfdata *file)
{
    struct state *state = &file->state;
    for (size_t i = 0; i < state->epochs.count; i++)
        perfdata_epoch_fini(&state->epochs.items[i]);
    vec_free(&state->tasks);
    vec_free(&state->switches);
    vec_free(&state->threads);
    vec_free(&state->epochs);
    vec_free(&file->maps);
}

/* ---- asking ---- */

/* The last of the sorted items with this key that is no later than time. */
#define LAST_BEFORE(result, vec, member, wanted, when)                                             \
    do {                                                                                           \
        size_t end_ =                                                                              \
            SEARCH(i, 0, (vec)->count,                                                             \
                   (vec)->items[i].member < (wanted) ||                                            \
                       ((vec)->items[i].member == (wanted) && (vec)->items[i].time <= (when)));    \
        (result) =                                                                                 \
            end_ && (vec)->items[end_ - 1].member == (wanted) ? &(vec)->items[end_ - 1] : NULL;    \
    } while (0)

const struct spex_perf_map *spex_perfdata_map(const struct spex_perfdata *file, int32_t pid,
                                              uint64_t address, uint64_t time)
{
    assert(file);
    enum { CHAIN_MAX = 10000 };
    const struct epoch *epoch;
    if (address >> 63 && pid != SPEX_PERF_PID_GUEST_KERNEL)
        pid = SPEX_PERF_PID_KERNEL;
    LAST_BEFORE(epoch, &file->state.epochs, pid, pid, time);
    for (unsigned i = 0; epoch && i < CHAIN_MAX; i++) {
        const struct spex_perf_map *map = perfdata_epoch_find(file, epoch, address, time);
        if (map || epoch->parent == NO_EPOCH)
            return map;
        if (epoch->parent_time < time)
            time = epoch->parent_time;
        epoch = &file->state.epochs.items[epoch->parent];
    }
    return NULL;
}

size_t spex_perfdata_map_count(const struct spex_perfdata *file)
{
    assert(file);
    return file->maps.count;
}

const struct spex_perf_map *spex_perfdata_map_at(const struct spex_perfdata *file, size_t index)
{
    assert(file);
    return index < file->maps.count ? &file->maps.items[index] : NULL;
}

const char *spex_perfdata_comm(const struct spex_perfdata *file, int32_t tid, uint64_t time)
{
    assert(file);
    const struct thread_entry *entry;
    LAST_BEFORE(entry, &file->state.threads, tid, tid, time);
    if (entry && entry->comm)
        return entry->comm;
    return tid == 0 ? "swapper" : NULL;
}

int32_t spex_perfdata_pid(const struct spex_perfdata *file, int32_t tid, uint64_t time)
{
    assert(file);
    const struct thread_entry *entry;
    LAST_BEFORE(entry, &file->state.threads, tid, tid, time);
    return entry ? entry->pid : tid == 0 ? 0 : -1;
}

bool spex_perfdata_running(const struct spex_perfdata *file, int32_t cpu, uint64_t time,
                           int32_t *pid, int32_t *tid)
{
    assert(file && pid && tid);
    const struct switch_event *entry;
    LAST_BEFORE(entry, &file->state.switches, cpu, cpu, time);
    if (!entry || entry->tid < 0)
        return false;
    *pid = entry->pid;
    *tid = entry->tid;
    return true;
}
