/* Events of a run, merged by time; counts of the whole population. */
#include "left.h"

#include "account/blame.h"
#include "base/error.h"
#include "base/order.h"
#include "base/vec.h"
#include "elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry *left_add(struct left_run *run, size_t task, enum engine_event_kind kind,
                       uint64_t time)
{
    if (!vec_grow(&run->entries, &run->entry_room, run->entry_count + 1, sizeof *run->entries)) {
        run->no_memory = true;
        return &run->spare;
    }
    const struct run_task *t = &run->tasks[task].task;
    struct entry *entry = &run->entries[run->entry_count];
    *entry = (struct entry){.task = (uint32_t)task,
                            .order = (uint32_t)run->entry_count,
                            .event = {.kind = kind,
                                      .time = time,
                                      .pid = t->pid,
                                      .tid = t->tid,
                                      .ppid = t->ppid,
                                      .ptid = t->ptid,
                                      .cpu = t->cpu,
                                      .text = ""}};
    run->entry_count++;
    return entry;
}

/* ---- files that were mapped ---- */

static struct file_id **slot(struct file_id **table, size_t room, const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *p = path; *p; p++)
        hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    size_t i = (hash ^ hash >> 32) & (room - 1);
    while (table[i] && strcmp(table[i]->path, path))
        i = (i + 1) & (room - 1);
    return &table[i];
}

static bool grow_files(struct left_run *run)
{
    size_t room = run->file_room ? 2 * run->file_room : 64;
    struct file_id **table = calloc(room, sizeof(struct file_id *));
    if (!table)
        return false;
    for (size_t i = 0; i < run->file_room; i++)
        if (run->files[i])
            *slot(table, room, run->files[i]->path) = run->files[i];
    free(run->files);
    run->files = table;
    run->file_room = room;
    return true;
}

static const struct file_id *file_id(struct left_run *run, const char *path)
{
    static const struct file_id none = {0};
    struct elf elf;
    if (2 * run->file_count >= run->file_room && !grow_files(run)) {
        run->no_memory = true;
        return &none;
    }
    struct file_id **at = slot(run->files, run->file_room, path);
    if (*at)
        return *at;
    struct file_id *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        run->no_memory = true;
        return &none;
    }
    if (elf_read(path, &elf) == SPEX_OK) {
        memcpy(f->id, elf.build_id, sizeof f->id);
        f->size = elf.build_id_size;
    }
    run->file_count++;
    return *at = f;
}

/* ---- mappings ---- */

/* The text outlives the entry: it belongs to the record of a file or to a log. */
static struct entry *add_map(struct left_run *run, size_t task, const struct run_event *event,
                             const char *path, bool first)
{
    const char *text = path;
    if (path[0] == '/' && first)
        text = file_id(run, path)->path;
    struct entry *entry = left_add(run, task, SPEX_ENGINE_MAP, event->time);
    entry->event.address = event->a;
    entry->event.length = event->b;
    entry->event.offset = event->c;
    entry->event.prot = event->prot;
    entry->event.flags = event->flags;
    entry->event.text = text ? text : "";
    entry->event.first = first;
    return entry;
}

enum { MAP_PRIVATE_FLAG = 2, MAP_PRIVATE_ANONYMOUS = 0x22, MAP_STACK_FLAG = 0x20000 };

/* QEMU loaded an ELF file so that virtual address v is at v + bias. */
static void add_image(struct left_run *run, size_t task, uint64_t time, const struct elf *elf,
                      uint64_t bias, const char *path)
{
    for (unsigned i = 0; i < elf->segments; i++) {
        const struct elf_segment *s = &elf->segment[i];
        uint64_t start = (s->vaddr + bias) & ~4095ull;
        uint64_t end = (s->vaddr + bias + s->memory_size + 4095) & ~4095ull;
        struct run_event map = {.time = time,
                                .a = start,
                                .b = end - start,
                                .c = s->offset & ~4095ull,
                                .prot = s->prot,
                                .flags = MAP_PRIVATE_FLAG};
        add_map(run, task, &map, path, true);
    }
}

static void add_program(struct left_run *run, size_t task, const struct run_event *event,
                        const char *program)
{
    struct elf elf;
    char path[RUN_PATH], interpreter[2 * RUN_PATH];
    if (!realpath(program, path) || elf_read(path, &elf))
        return;
    uint64_t lowest = UINT64_MAX;
    for (unsigned i = 0; i < elf.segments; i++)
        if (elf.segment[i].prot & 4 && elf.segment[i].vaddr < lowest)
            lowest = elf.segment[i].vaddr;
    if (lowest != UINT64_MAX)
        add_image(run, task, event->time, &elf, event->a - lowest, path);
    if (!elf.interpreter[0])
        return;
    snprintf(interpreter, sizeof interpreter, "%s%s", run->sysroot, elf.interpreter);
    if (!realpath(access(interpreter, R_OK) ? elf.interpreter : interpreter, path) ||
        elf_read(path, &elf))
        return;
    add_image(run, task, event->time, &elf, event->c - elf.entry, path);
}

static const struct engine_event *older_map(const struct left_run *run, size_t before, int32_t pid,
                                            uint64_t address)
{
    for (size_t i = before; i-- > 0;) {
        const struct engine_event *old = &run->entries[i].event;
        if (old->kind == SPEX_ENGINE_MAP && old->pid == pid && address - old->address < old->length)
            return old;
        if (old->kind == SPEX_ENGINE_COMM && old->pid == pid && old->first)
            return NULL; /* it belongs to another program */
    }
    return NULL;
}

/* False if the entry says nothing. */
static bool complete(struct left_run *run, size_t i)
{
    struct entry *entry = &run->entries[i];
    struct engine_event *m = &entry->event;
    if (entry->how == ENTRY_WHOLE)
        return true;
    const struct engine_event *old = older_map(run, i, m->pid, entry->from);
    switch (entry->how) {
    case ENTRY_PROTECTED: /* if the pages belong to a file, the mapping keeps its name */
        if (old && *old->text == '/') {
            m->text = old->text;
            m->offset = old->offset + (m->address - old->address);
            m->flags = old->flags;
        }
        /* compilers make their code writable and back: nothing new */
        return !old || *old->text || !(old->prot & 4) ||
               m->address + m->length > old->address + old->length;
    case ENTRY_MOVED:
        m->prot = old ? old->prot : 3;
        m->flags = old ? old->flags : MAP_PRIVATE_ANONYMOUS;
        m->text = old ? old->text : "";
        m->offset = old && *old->text == '/' ? old->offset + (entry->from - old->address) : 0;
        return true;
    default: /* memory not mapped as a stack may be much larger than a stack */
        if (!old || !(old->flags & MAP_STACK_FLAG))
            return false;
        m->address = old->address;
        m->length = old->length;
        m->prot = old->prot | 3; /* glibc maps it without access first because of the guard page */
        m->flags = old->flags;
        return true;
    }
}

/* Entries are in order of time, so older mappings are complete. */
static void complete_maps(struct left_run *run)
{
    size_t kept = 0;
    for (size_t i = 0; i < run->entry_count; i++) {
        if (i != kept)
            run->entries[kept] = run->entries[i];
        run->entries[kept].order = (uint32_t)kept;
        kept += complete(run, kept);
    }
    run->entry_count = kept;
}

/* ---- logs ---- */

static void add_aux(struct left_run *run, size_t task, const struct run_event *event)
{
    uint64_t all = run->control.end - run->control.output.start;
    if (event->b > all || event->a > all) {
        run->damaged++;
        return;
    }
    struct entry *entry = left_add(run, task, SPEX_ENGINE_AUX, event->time);
    entry->event.offset = event->a;
    entry->event.size = event->b;
    entry->event.aux_flags = event->flags & 0xff;
}

static const char *suffix_of(enum engine_event_kind kind)
{
    return kind == SPEX_ENGINE_STACKS ? "stacks" : "aux";
}

/* Data left in a separate file by a thread that was killed or found the disk full. */
static void add_left(struct left_run *run, size_t task, enum engine_event_kind kind, uint64_t head,
                     uint64_t at)
{
    const struct run_task *t = &run->tasks[task].task;
    char name[32];
    struct stat st;
    if (!run->control.output.keep || !head || (at && at < run->control.end))
        return;
    snprintf(name, sizeof name, "%u.%s", run->tasks[task].id, suffix_of(kind));
    int fd = left_open_file(run, name, O_RDONLY, &st);
    if (fd >= 0)
        close(fd);
    if (fd < 0 || head > (uint64_t)st.st_size) {
        run->damaged++;
        return;
    }
    left_add(run, task, kind, t->clock)->event.size = head;
}

/* A host program was executed; an event without text says that the previous one was not. */
static void add_host(struct left_run *run, size_t task, const char *path)
{
    if (!*path) {
        if (run->host_count && run->hosts[run->host_count - 1].task == task)
            run->host_count--;
        return;
    }
    if (!vec_grow(&run->hosts, &run->host_room, run->host_count + 1, sizeof *run->hosts)) {
        run->no_memory = true;
        return;
    }
    const char *slash = strrchr(path, '/');
    run->hosts[run->host_count++] = (struct left_host){task, slash ? slash + 1 : path};
}

/* False if there is no such event. */
static bool read_event(struct left_run *run, size_t task, const struct run_event *event,
                       const char *text, bool *ended)
{
    struct entry *entry;
    switch (event->type) {
    case RUN_FORK:
        left_add(run, task, SPEX_ENGINE_FORK, event->time);
        break;
    case RUN_EXIT:
        left_add(run, task, SPEX_ENGINE_EXIT, event->time);
        *ended = true;
        break;
    case RUN_COMM:
        if (!event->text)
            return false;
        entry = left_add(run, task, SPEX_ENGINE_COMM, event->time);
        entry->event.text = text;
        entry->event.first = event->flags & 1;
        break;
    case RUN_IMAGE:
        add_program(run, task, event, text);
        break;
    case RUN_MAP:
        add_map(run, task, event, text, false);
        break;
    case RUN_PROTECT: { /* memory becomes code: a just-in-time compiler */
        struct run_event map = *event;
        map.c = 0;
        map.flags = MAP_PRIVATE_ANONYMOUS;
        entry = add_map(run, task, &map, "", false);
        entry->how = ENTRY_PROTECTED;
        entry->from = event->a;
        break;
    }
    case RUN_MOVE:
    case RUN_STACK: {
        struct run_event map = *event;
        map.c = 0;
        entry = add_map(run, task, &map, event->type == RUN_STACK ? text : "", false);
        entry->how = event->type == RUN_STACK ? ENTRY_STACK : ENTRY_MOVED;
        entry->from = event->type == RUN_STACK ? event->a - 1 : event->c;
        break;
    }
    case RUN_AUX:
        add_aux(run, task, event);
        break;
    case RUN_JIT:
        left_jit_event(run, task, event, text);
        break;
    case RUN_HOST:
        add_host(run, task, text);
        break;
    default:
        return false;
    }
    return true;
}

static void read_log(struct left_run *run, size_t task)
{
    const struct left_task *t = &run->tasks[task];
    bool ended = false;
    size_t at = 0;
    while (t->log_size - at >= sizeof(struct run_event)) {
        struct run_event event;
        memcpy(&event, t->log + at, sizeof event);
        size_t text = at + sizeof event;
        if (event.text > RUN_PATH || event.text > t->log_size - text ||
            (event.text &&
             memchr(t->log + text, '\0', event.text) != t->log + text + event.text - 1))
            break;
        if (!read_event(run, task, &event, event.text ? t->log + text : "", &ended))
            break;
        at = text + event.text;
    }
    run->damaged += at < t->log_size && run->control.failed != ENOSPC; /* half of an event */
    add_left(run, task, SPEX_ENGINE_LEFT, t->task.head, t->task.at);
    if (run->control.output.stacks || run->control.output.allocs)
        add_left(run, task, SPEX_ENGINE_STACKS, t->task.stacks_head, t->task.stacks_at);
    if (!ended)
        left_add(run, task, SPEX_ENGINE_EXIT, t->task.clock);
}

static int by_time(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->event.time != y->event.time)
        return x->event.time < y->event.time ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Losses that no log could record are reported at the end of the profile. */
static void add_loss(struct left_run *run)
{
    uint64_t end = 0;
    if (!run->task_count || !(run->control.failed || run->control.unprofiled) ||
        left_truncated(run))
        return;
    for (size_t i = 0; i < run->task_count; i++)
        end = run->tasks[i].task.clock > end ? run->tasks[i].task.clock : end;
    struct entry *entry = left_add(run, 0, SPEX_ENGINE_AUX, end);
    entry->event.offset = run->control.aux[entry->event.cpu];
    entry->event.aux_flags = DRIVER_AUX_TRUNCATED;
}

void left_read_events(struct left_run *run)
{
    for (size_t i = 0; i < run->task_count; i++)
        read_log(run, i);
    add_loss(run);
    if (run->entry_count)
        qsort(run->entries, run->entry_count, sizeof *run->entries, by_time);
    complete_maps(run);
    if (run->jit_count) {
        left_read_jits(run);
        qsort(run->entries, run->entry_count, sizeof *run->entries, by_time);
    }
    for (size_t i = 0; i < run->entry_count; i++) {
        struct engine_event *m = &run->entries[i].event;
        if (m->kind == SPEX_ENGINE_MAP && *m->text == '/') {
            const struct file_id *f = file_id(run, m->text);
            m->build_id = f->id;
            m->build_id_size = f->size;
        }
    }
}

void left_free_events(struct left_run *run)
{
    left_free_jits(run);
    for (size_t i = 0; i < run->file_room; i++)
        if (run->files[i]) {
            free(run->files[i]->path);
            free(run->files[i]);
        }
    free(run->files);
    free(run->entries);
    free(run->hosts);
    free(run->bytes);
}

uint64_t left_truncated(const struct left_run *run)
{
    uint64_t n = 0;
    for (size_t i = 0; i < run->entry_count; i++)
        n += run->entries[i].event.kind == SPEX_ENGINE_AUX &&
             run->entries[i].event.aux_flags & DRIVER_AUX_TRUNCATED;
    return n;
}

enum spex_status left_next(struct left_run *run, struct engine_event *event,
                           struct spex_error *error)
{
    if (run->position == run->entry_count)
        return SPEX_END;
    const struct entry *entry = &run->entries[run->position++];
    *event = entry->event;
    if (event->kind != SPEX_ENGINE_LEFT && event->kind != SPEX_ENGINE_STACKS)
        return SPEX_OK;
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%u.%s", run->tasks[entry->task].id, suffix_of(event->kind));
    free(run->bytes);
    run->bytes = malloc(event->size);
    if (!run->bytes)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    int fd = left_open_file(run, name, O_RDONLY, &st);
    bool ok = fd >= 0 && left_read(fd, run->bytes, event->size, 0);
    if (fd >= 0)
        close(fd);
    if (!ok)
        return error_set(error, SPEX_IO, 0, "%s/%s cannot be read", run->name, name);
    event->data = run->bytes;
    return SPEX_OK;
}

/* ---- truth ---- */

static int by_pc(const void *a, const void *b)
{
    const struct engine_truth *x = a, *y = b;
    return x->pid != y->pid ? ORDER(x->pid, y->pid)
           : x->pc != y->pc ? ORDER(x->pc, y->pc)
                            : ORDER(x->target, y->target);
}

static struct engine_truth read_call(const struct run_call *r, int32_t pid)
{
    return (struct engine_truth){.pid = pid,
                                 .pc = r->site,
                                 .target = r->target,
                                 .calls = r->calls,
                                 .count = r->counts[RUN_OPERATIONS],
                                 .l1_miss = r->counts[RUN_L1_MISS],
                                 .llc_miss = r->counts[RUN_LLC_MISS],
                                 .walk = r->counts[RUN_WALK],
                                 .mispredict = r->counts[RUN_MISPREDICT],
                                 .taken = r->counts[RUN_TAKEN],
                                 .cycles = r->counts[RUN_CYCLES],
                                 .l2_miss = r->counts[RUN_L2_MISS]};
}

static size_t read_rows(const struct run_truth *rows, size_t count, int32_t pid,
                        struct engine_truth *out)
{
    size_t n = 0;
    uint64_t entered = 0;
    for (size_t i = 0; i < count; i++) {
        const struct run_truth *r = &rows[i];
        if (r->block) {
            entered = r->count;
        } else if (r->call) {
            const struct run_call *call = (const struct run_call *)(const void *)r;
            if (call->target && call->calls)
                out[n++] = read_call(call, pid);
        } else if (r->pc && entered >= r->cut) {
            out[n++] = (struct engine_truth){.pid = pid,
                                             .pc = r->pc,
                                             .count = entered - r->cut,
                                             .l1_miss = r->l1_miss,
                                             .llc_miss = r->llc_miss,
                                             .walk = r->walk,
                                             .mispredict = r->mispredict,
                                             .taken = r->taken,
                                             .cycles = r->cycles,
                                             .l2_miss = r->l2_miss};
        }
    }
    return n;
}

/* Blocks overlap: merges rows into one per instruction. */
static size_t merge_rows(struct engine_truth *rows, size_t count)
{
    size_t last = 0;
    if (!count)
        return 0;
    qsort(rows, count, sizeof *rows, by_pc);
    for (size_t i = 1; i < count; i++) {
        struct engine_truth *a = &rows[last], *b = &rows[i];
        if (a->pid != b->pid || a->pc != b->pc || a->target != b->target) {
            rows[++last] = *b;
            continue;
        }
        a->calls += b->calls;
        a->count += b->count;
        a->l1_miss += b->l1_miss;
        a->llc_miss += b->llc_miss;
        a->walk += b->walk;
        a->mispredict += b->mispredict;
        a->taken += b->taken;
        a->cycles += b->cycles;
        a->l2_miss += b->l2_miss;
    }
    return last + 1;
}

/* Turns parts of a cycle into cycles. The sum over all instructions stays the same. */
static void count_whole_cycles(struct engine_truth *rows, size_t count)
{
    uint64_t rest = BLAME_CYCLE / 2;
    for (size_t i = 0; i < count; i++) {
        uint64_t parts = rows[i].cycles + (rows[i].calls ? BLAME_CYCLE / 2 : rest);
        rows[i].cycles = parts / BLAME_CYCLE;
        rest = rows[i].calls ? rest : parts % BLAME_CYCLE;
    }
}

/* Reads one file of rows and appends them. */
static bool read_truth_file(struct left_run *run, const struct left_task *t,
                            struct run_truth *chunk, size_t *n)
{
    enum { ROWS = RUN_TRUTH / sizeof(struct run_truth) };
    char name[32];
    struct stat st;
    snprintf(name, sizeof name, "%u.truth", t->id);
    int fd = left_open_file(run, name, O_RDONLY, &st);
    bool ok = true;
    for (uint64_t at = 0; fd >= 0 && ok && at + RUN_TRUTH <= (uint64_t)st.st_size;
         at += RUN_TRUTH) {
        ok = vec_grow(&run->truth, &run->truth_room, *n + ROWS, sizeof *run->truth);
        if (!ok)
            break;
        if (!left_read(fd, chunk, RUN_TRUTH, at) ||
            !(chunk->block | chunk->call)) { /* every chunk begins with a block or a call */
            run->damaged++;
            break;
        }
        *n += read_rows(chunk, ROWS, t->task.pid, run->truth + *n);
    }
    if (fd >= 0)
        close(fd);
    return ok;
}

enum spex_status left_truth(struct left_run *run, const struct engine_truth **rows, size_t *count,
                            struct spex_error *error)
{
    struct run_truth *chunk = malloc(RUN_TRUTH);
    size_t n = 0;
    bool ok = chunk != NULL;
    for (size_t i = 0; i < run->task_count && ok; i++)
        ok = read_truth_file(run, &run->tasks[i], chunk, &n);
    free(chunk);
    if (!ok)
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    *count = run->truth_count = merge_rows(run->truth, n);
    count_whole_cycles(run->truth, run->truth_count);
    *rows = run->truth;
    return SPEX_OK;
}
