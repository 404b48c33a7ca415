/*
 * The pass over a profile: AUX spans -> records -> samples -> filters -> sink.
 *
 * What a file says about threads and mappings changes with time. Asking the
 * file for every record would cost more than decoding it, so the times of all
 * changes are gathered once, per thread, process and CPU; between two changes
 * an answer stays true and is reused. Code addresses go through a cache keyed
 * by address and by the process's state ("version").
 */
#include "internal.h"
#include "module.h"
#include "stacks.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sized.h"
#include "record/counters.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BATCH = 256,
    RECORDS = 1 << 16,    /* of all queues that are merged: with many, each has few at a time */
    PLACES = SPEX_PLACES, /* cache of code and data addresses */
    BLOCKS = 1 << 13,     /* caches of where data lies */
    LINES = 1 << 12,      /* cache of source lines */
    RAW_CHUNK = 1 << 20,
};

/* ---- changes of state ---- */

static void add_change(struct changes *changes, int32_t id, uint64_t time)
{
    changes->items =
        memory_grow(changes->items, changes->count, &changes->capacity, sizeof *changes->items);
    changes->items[changes->count++] = (struct change){id, time};
}

static int compare_changes(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->time < y->time ? -1 : x->time > y->time;
}

static void sort_changes(struct changes *changes)
{
    if (changes->count)
        qsort(changes->items, changes->count, sizeof *changes->items, compare_changes);
}

struct span changes_span(const struct changes *changes, int32_t id, uint64_t time)
{
    size_t low = 0, high = changes->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct change *c = &changes->items[middle];
        if (c->id < id || (c->id == id && c->time < time))
            low = middle + 1;
        else
            high = middle;
    }
    struct span span = {0, UINT64_MAX};
    if (low > 0 && changes->items[low - 1].id == id)
        span.from = changes->items[low - 1].time + 1;
    if (low < changes->count && changes->items[low].id == id)
        span.until = changes->items[low].time;
    return span;
}

/* ---- state ---- */

struct process {
    int32_t pid;
    struct span span;
    uint32_t version; /* unique for (process, span) */
};

struct thread {
    int32_t tid;
    struct span span;
    int32_t pid;
    uint64_t samples;
    const char *comm;
    struct process *process;
};

struct place_slot {
    uint64_t ip;
    uint32_t version;
    struct spex_place place;
};

/* Data: a cache line or a page all of whose addresses have the same answer. */
struct block_slot {
    uint64_t number;         /* of the line or page */
    uint32_t version;        /* 0: none */
    struct spex_place place; /* of its start */
};

struct line_slot {
    const struct spex_module *module;
    uint64_t address;
    struct spex_line line;
};

/* Pointer tables by a 64-bit key, open addressing. */
struct table {
    struct {
        uint64_t key;
        void *value;
    } * slots;
    size_t count, mask;
};

struct queue {
    uint32_t index;
    int32_t cpu, tid;
    const struct spex_cpu_model *model;
    struct spex_aux_cursor *cursor;
    struct spex_aux_span span;
    struct spex_reader *reader; /* shared unless queues are merged */
    uint64_t samples;
    bool reading;
    /*
     * What the last record's thread and maps are, and for which timestamps (raw,
     * not converted: that is the point) of which records that stays so.
     */
    struct thread *thread;
    struct spex_sample same; /* fields from comm to maps, which its samples have in common */
    uint64_t who;            /* CONTEXTIDR, or WHO_NONE; WHO_UNTIMED */
    uint64_t tick_from, tick_span;
    struct spex_record *records;
    uint64_t *spent;  /* of each */
    uint32_t *stacks; /* likewise, or NULL */
    struct stacks_cursor cursor_of_stacks;
    struct clock clock;
    size_t at, count;
    uint64_t time;                  /* timestamp of records[at], for merging */
    uint64_t first_tick, last_tick; /* of kept samples */
    uint8_t *buffer;                /* raw stream */
    size_t kept;
    uint64_t position;
    int16_t *sources; /* of its model */
};

/* Of a kind of core: meaning of Data Source values, -1 not yet known. */
struct model_sources {
    const struct spex_cpu_model *model;
    int16_t sources[256 + 1]; /* the last: no packet, or no memory */
};
enum { NO_PACKET = 256 };

struct spex_analysis {
    struct spex_analysis_options options;
    char *name;
    struct spex_perfdata *file;
    const struct spex_perf_info *info;
    struct spex_symbols *symbols;
    const struct op_table *ops;
    int raw_fd;
    uint64_t raw_size;

    struct changes thread_changes, process_changes, cpu_changes;
    struct changes switches; /* by thread, for queues of one */
    struct table threads, processes, modules, strings;
    uint32_t versions;
    uint32_t *maps; /* numbers of all mappings, by process, address and time */
    struct place_slot *places;
    struct block_slot *near, *far; /* cache lines, pages */
    struct line_slot *lines;

    struct filter *filters[SPEX_FILTER_MAX];
    unsigned filter_want;
    const struct line_set *only; /* lines to look at closer; NULL: all records */
    struct queue *queues;
    size_t queue_count;
    struct spex_shapes *shapes; /* what all readers have learnt */
    struct spex_reader *reader;
    struct spex_record *records; /* of the queue that is read, or of all that are merged */
    uint64_t *spent;             /* as many */
    uint32_t *stack_numbers;     /* likewise, once they are wanted */
    struct stacks *stacks;       /* NULL: there are none */
    struct stacks_table *calls;  /* of the first file: of all */
    size_t batch;                /* how many of a queue at a time */
    struct queue **heap;         /* those that are merged, the earliest first */
    struct model_sources **models;
    size_t model_count, model_capacity;
    struct spex_sample samples[BATCH];
    size_t sample_count;
    spex_sample_sink *sink;
    void *context;
    struct spex_totals totals;
    struct spex_sampling sampling;
    struct counters_end end; /* of its counter_most */
    uint64_t done;           /* bytes, for progress */
    bool stopped, no_memory;

    /* Of several files each is an analysis; what they share, the first has. */
    struct spex_analysis *whole;   /* of the others: the first */
    struct spex_analysis **parts;  /* of the first: all in order of time, itself too */
    size_t part_count;             /* 0: there is one file */
    struct spex_analysis *reading; /* of the first: whose samples come */
    struct spex_totals own;        /* of the first: without the others */
    struct table thread_sums;      /* of all files */
    bool enough;                   /* no further file is wanted */
    bool mixed;                    /* sampled with different periods */
    struct cpu_sum {
        int32_t cpu;
        uint64_t samples;
    } * cpu_sums; /* of the last pass, in order of queues */
    size_t cpu_sum_count;
};

static struct spex_analysis *first_of(struct spex_analysis *a)
{
    return a->whole ? a->whole : a;
}

static struct spex_analysis *reading(struct spex_analysis *a)
{
    return a->reading ? a->reading : a;
}

/* Of places in caches, where a bad guess costs a look-up and no more. */
static uint64_t mix(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

static void **table_slot(struct table *table, uint64_t key)
{
    if (!table->slots || table->count * 2 >= table->mask) {
        struct table old = *table;
        size_t mask = old.mask ? old.mask * 2 + 1 : 63;
        table->slots = memory_get(mask + 1, sizeof *table->slots);
        table->mask = mask;
        table->count = 0;
        for (size_t i = 0; old.slots && i <= old.mask; i++)
            if (old.slots[i].value)
                *table_slot(table, old.slots[i].key) = old.slots[i].value;
        free(old.slots);
    }
    size_t i = hash_word(hash_seed(), key) & table->mask;
    while (table->slots[i].value && table->slots[i].key != key)
        i = (i + 1) & table->mask;
    if (!table->slots[i].value) {
        table->slots[i].key = key;
        table->count++;
    }
    return &table->slots[i].value;
}

const char *analysis_intern(struct spex_analysis *a, const char *text)
{
    uint64_t hash = hash_bytes(hash_seed(), text, strlen(text));
    a = first_of(a);
    for (;; hash++) { /* equal hashes of different texts: take the next key */
        void **slot = table_slot(&a->strings, hash);
        if (!*slot)
            *slot = memory_copy(text);
        if (!strcmp(*slot, text))
            return *slot;
    }
}

static struct process *get_process(struct spex_analysis *a, int32_t pid, uint64_t time)
{
    void **slot = table_slot(&a->processes, (uint32_t)pid);
    struct process *p = *slot;
    if (!p) {
        *slot = p = memory_get(1, sizeof *p);
        p->pid = pid;
        p->span.from = 1; /* empty */
    }
    if (time < p->span.from || time > p->span.until) {
        p->span = changes_span(&a->process_changes, pid, time);
        p->version = ++first_of(a)->versions;
    }
    return p;
}

static struct thread *get_thread(struct spex_analysis *a, int32_t tid, int32_t pid, uint64_t time)
{
    void **slot = table_slot(&a->threads, (uint32_t)tid);
    struct thread *t = *slot;
    if (!t) {
        *slot = t = memory_get(1, sizeof *t);
        t->tid = tid;
        t->span.from = 1;
    }
    if (time < t->span.from || time > t->span.until) {
        char unknown[16];
        const char *comm = NULL;
        t->span = changes_span(&a->thread_changes, tid, time);
        t->pid = pid;
        if (a->file) {
            int32_t known = spex_perfdata_pid(a->file, tid, time);
            if (known >= 0)
                t->pid = known;
            comm = spex_perfdata_comm(a->file, tid, time);
        }
        snprintf(unknown, sizeof unknown, ":%d", tid);
        t->comm = analysis_intern(a, comm ? comm : tid < 0 ? "[unknown]" : unknown);
    }
    if (!t->process || t->process->pid != t->pid || time < t->process->span.from ||
        time > t->process->span.until)
        t->process = get_process(a, t->pid, time);
    return t;
}

/* ---- places ---- */

static uint64_t tick_time(const struct spex_analysis *a, uint64_t tick)
{
    return a->info && a->info->has_time ? spex_perf_time_to_ns(&a->info->time, tick) : tick;
}

static struct spex_module *map_module(struct spex_analysis *a, const struct spex_perf_map *map)
{
    void **slot = table_slot(&a->modules, (uintptr_t)map);
    if (!*slot) {
        size_t size = map->build_id_size;
        const uint8_t *id = map->build_id;
        if (!size)
            id = spex_perfdata_build_id(a->file, map->filename, &size);
        *slot = symbols_module(a->symbols, map->filename, id, id ? size : 0, map->pid);
    }
    return *slot;
}

/* By process, address and time. */
static int compare_maps(const void *a, const void *b, void *context)
{
    const struct spex_perfdata *file = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct spex_perf_map *x = spex_perfdata_map_at(file, i);
    const struct spex_perf_map *y = spex_perfdata_map_at(file, j);
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void sort_maps(struct spex_analysis *a)
{
    size_t count = spex_perfdata_map_count(a->file);
    a->maps = memory_get(count + 1, sizeof *a->maps);
    for (size_t i = 0; i < count; i++)
        a->maps[i] = (uint32_t)i;
    qsort_r(a->maps, count, sizeof *a->maps, compare_maps, a->file);
}

/* How many of a->maps come before or are this, of (process, address, time). */
static size_t maps_up_to(struct spex_analysis *a, int32_t pid, uint64_t start, uint64_t time)
{
    size_t low = 0, high = spex_perfdata_map_count(a->file);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct spex_perf_map *map = spex_perfdata_map_at(a->file, a->maps[middle]);
        if (map->pid != pid ? map->pid < pid
                            : map->start < start || (map->start == start && map->time <= time))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last of the first n of a->maps. */
static const struct spex_perf_map *map_before(const struct spex_analysis *a, size_t n)
{
    return n ? spex_perfdata_map_at(a->file, a->maps[n - 1]) : NULL;
}

/* .bss has no file behind it: find the file mapped below whose image reaches this far. */
static void locate_image(struct spex_analysis *a, int32_t pid, uint64_t time, uint64_t ip,
                         struct spex_place *place)
{
    enum { NEAR = 64 }; /* an image is mapped in a few pieces, with little in between */
    if (!a->maps)
        sort_maps(a);
    size_t n = maps_up_to(a, pid, ip, UINT64_MAX);
    for (unsigned i = 0; i < NEAR; i++) {
        const struct spex_perf_map *map = map_before(a, n);
        if (!map || map->pid != pid)
            return;
        uint64_t start = map->start;
        if (map->time > time) { /* what was there then */
            n = maps_up_to(a, pid, start, time);
            map = map_before(a, n);
        }
        if (map && map->pid == pid && map->start == start) {
            struct spex_module *module = map_module(a, map);
            uint64_t address = ip - (start - spex_module_address(module, start, start, map->pgoff));
            if (module_is_file(module) && module_covers(module, address) &&
                spex_perfdata_map(a->file, pid, start, time) == map) {
                place->module = module;
                place->address = address;
                place->symbol = spex_module_symbol(module, address);
                return;
            }
        }
        /* On below start: by one, unless there are others at the same address. */
        const struct spex_perf_map *next = n ? map_before(a, n - 1) : NULL;
        if (next && next->pid == pid && next->start == start)
            n = start ? maps_up_to(a, pid, start - 1, UINT64_MAX) : 0;
        else if (map && map->pid == pid && map->start == start)
            n--;
    }
}

static void find_place(struct spex_analysis *a, int32_t pid, uint64_t time, uint64_t ip, bool data,
                       struct spex_place *place)
{
    *place = (struct spex_place){.address = ip};
    if (!a->file)
        return;
    const struct spex_perf_map *map = spex_perfdata_map(a->file, pid, ip, time);
    if (map && !data && map->filename[0] == '/' && map->filename[1] == '/') {
        /* a compiler that tells its functions late: what is there in the end */
        const struct spex_perf_map *last = spex_perfdata_map(a->file, pid, ip, UINT64_MAX);
        if (last && module_is_code(map_module(a, last)))
            map = last;
    }
    if (map) {
        place->module = map_module(a, map);
        place->address = spex_module_address(place->module, ip, map->start, map->pgoff);
        place->symbol = spex_module_symbol(place->module, place->address);
    }
    if (data && !place->symbol && !(ip >> 63) && (!map || !module_is_file(place->module)))
        locate_image(a, pid, time, ip, place);
}

static inline size_t place_index(uint64_t ip, uint32_t version)
{
    return (size_t)(mix(ip ^ (uint64_t)version << 48) & (PLACES - 1));
}

/* version is of the process that holds ip, times two; odd for data. */
static const struct place_slot *fill_place(struct spex_analysis *a, struct place_slot *s,
                                           uint32_t version, int32_t pid, uint64_t time,
                                           uint64_t ip)
{
    find_place(a, ip >> 63 ? SPEX_PERF_PID_KERNEL : pid, time, ip, version & 1, &s->place);
    s->ip = ip;
    s->version = version;
    return s;
}

enum { LINE_BITS = 6, PAGE_BITS = 12 };

static inline struct block_slot *block_of(struct block_slot **slots, uint64_t number,
                                          uint32_t version)
{
    if (__builtin_expect(!*slots, 0))
        *slots = memory_get(BLOCKS, sizeof **slots);
    return &(*slots)[mix(number ^ (uint64_t)version << 48) & (BLOCKS - 1)];
}

/* place, of ip, is true of the whole block but for the address. */
static void fill_block(struct block_slot *block, unsigned bits, uint32_t version, uint64_t ip,
                       const struct spex_place *place)
{
    *block = (struct block_slot){ip >> bits, version, *place};
    block->place.address -= ip & ((UINT64_C(1) << bits) - 1);
}

/* A file is mapped by pages; in one that has symbols a line may still be of one symbol. */
static void fill_blocks(struct spex_analysis *a, uint32_t version, uint64_t ip,
                        const struct spex_place *place)
{
    const unsigned line = (1u << LINE_BITS) - 1;
    uint64_t first, last, at = ip & line;
    if (place->module ? !module_has_symbols(place->module) : ip >> 63) {
        fill_block(block_of(&a->far, ip >> PAGE_BITS, version), PAGE_BITS, version, ip, place);
        return;
    }
    if (!place->symbol) /* the next address may be of the image of another file */
        return;
    module_symbol_around(place->module, place->address, &first, &last);
    if (place->address - first >= at && last - place->address >= line - at)
        fill_block(block_of(&a->near, ip >> LINE_BITS, version), LINE_BITS, version, ip, place);
}

/*
 * Where ip lies, in a cache; bits says of how large a block the address is that of the start
 * (0: of ip itself). version is of the mappings that hold ip.
 */
static inline const struct spex_place *locate(struct spex_analysis *a, uint32_t version,
                                              int32_t pid, const struct spex_sample *sample,
                                              uint64_t ip, unsigned *bits)
{
    struct block_slot *near = block_of(&a->near, ip >> LINE_BITS, version);
    *bits = LINE_BITS;
    if (near->number == ip >> LINE_BITS && near->version == version)
        return &near->place;
    const struct block_slot *far = block_of(&a->far, ip >> PAGE_BITS, version);
    if (far->number == ip >> PAGE_BITS && far->version == version) {
        struct spex_place place = far->place;
        place.address += ip & ((1u << PAGE_BITS) - 1);
        fill_block(near, LINE_BITS, version, ip, &place);
        return &near->place;
    }
    uint32_t key = version << 1 | 1;
    struct place_slot *slot = &a->places[place_index(ip, key)];
    *bits = 0;
    if (slot->ip != ip || slot->version != key) {
        bool timed = sample && sample->flags & SPEX_SAMPLE_TIMED;
        fill_place(a, slot, key, pid, timed ? tick_time(a, sample->record->timestamp) : UINT64_MAX,
                   ip);
        fill_blocks(a, version, ip, &slot->place);
    }
    return &slot->place;
}

/* At the end for a process, or at the time of a sample. */
static void place_of(struct spex_analysis *a, int pid, const struct spex_sample *sample,
                     uint64_t ip, struct spex_place *place)
{
    unsigned bits;
    uint32_t version =
        sample ? sample->maps[ip >> 63]
               : get_process(a, ip >> 63 ? SPEX_PERF_PID_KERNEL : pid, UINT64_MAX)->version;
    *place = *locate(a, version, pid, sample, ip, &bits);
    place->address += ip & ((UINT64_C(1) << bits) - 1);
}

/* Of several files, where the first that knows the place says. */
static void locate_in_any(struct spex_analysis *a, int pid, uint64_t ip, struct spex_place *place)
{
    place_of(a, pid, NULL, ip, place);
    for (size_t i = 0; !place->module && i < a->part_count; i++)
        if (a->parts[i] != a)
            place_of(a->parts[i], pid, NULL, ip, place);
}

void spex_analysis_locate(struct spex_analysis *a, int pid, uint64_t ip, struct spex_place *place)
{
    if (!memory_guarded(locate_in_any(a, pid, ip, place)))
        *place = (struct spex_place){0};
}

void spex_sample_locate(struct spex_analysis *a, const struct spex_sample *sample, uint64_t ip,
                        struct spex_place *place)
{
    if (!memory_guarded(place_of(reading(a), sample->pid, sample, ip, place)))
        *place = (struct spex_place){0};
}

const struct spex_place *analysis_data_place(struct spex_analysis *a,
                                             const struct spex_sample *sample)
{
    static const struct spex_place none;
    unsigned bits;
    uint64_t va = sample->va;
    if (!(sample->record->present & SPEX_HAS_VA))
        return &none;
    return locate(reading(a), sample->maps[va >> 63], sample->pid, sample, va, &bits);
}

void analysis_maps(struct spex_analysis *a, int32_t pid, uint64_t time, uint32_t maps[2])
{
    maps[0] = get_process(a, pid, time)->version;
    maps[1] = get_process(a, SPEX_PERF_PID_KERNEL, time)->version;
}

const struct spex_place *analysis_code_place(struct spex_analysis *a, uint32_t maps, int32_t pid,
                                             uint64_t time, uint64_t ip)
{
    struct place_slot *slot = &a->places[place_index(ip, maps << 1)];
    if (slot->ip != ip || slot->version != maps << 1)
        fill_place(a, slot, maps << 1, pid, time, ip);
    return &slot->place;
}

void analysis_line(struct spex_analysis *a, struct spex_module *module, uint64_t address,
                   struct spex_line *line)
{
    if (!a->lines)
        a->lines = memory_get(LINES, sizeof *a->lines);
    size_t slot = (size_t)(mix(address ^ (uintptr_t)module) & (LINES - 1));
    struct line_slot *s = &a->lines[slot];
    if (s->module != module || s->address != address) {
        s->module = module;
        s->address = address;
        if (spex_module_line(module, address, &s->line))
            s->line.file = analysis_intern(a, s->line.file);
        else
            s->line = (struct spex_line){0};
    }
    *line = s->line;
}

/* ---- joining ---- */

/*
 * Bits 63:56 of an address are a tag or, for instruction addresses, the
 * security state and Exception level. Bit 55 selects the upper or lower half
 * of the address space (D8.1), so it is the sign; perf guesses from EL and
 * from bits 55:52 and agrees wherever a kernel really runs.
 */
static inline uint64_t canonical(uint64_t payload)
{
    return (uint64_t)((int64_t)(payload << 8) >> 8);
}

static const uint64_t WHO_NONE = UINT64_C(1) << 32, WHO_UNTIMED = UINT64_C(1) << 33;

static void intersect(struct span *span, const struct span *with)
{
    span->from = span->from > with->from ? span->from : with->from;
    span->until = span->until < with->until ? span->until : with->until;
}

/*
 * Timestamps that surely convert to times in span. Conversion rounds, so a
 * little is left off at both ends; a timestamp there stands for itself alone.
 */
static void tick_range(struct spex_analysis *a, struct queue *q, const struct span *span,
                       uint64_t tick)
{
    uint64_t low = span->from, high = span->until;
    const struct spex_perf_time *t = a->info && a->info->has_time ? &a->info->time : NULL;
    if (t) {
        uint64_t end = high == UINT64_MAX ? high : spex_perf_time_from_ns(t, high);
        low = low ? spex_perf_time_from_ns(t, low) + 2 : 0;
        high = end > 2 && end != UINT64_MAX ? end - 2 : end;
        if (t->cap_short) { /* the counter wraps at mask: order holds between wraps only */
            uint64_t wrap = t->cycles + t->mask;
            low = low > t->cycles ? low : t->cycles;
            high = high < wrap || wrap < t->cycles ? high : wrap;
        }
    }
    if (low > high || tick < low || tick > high)
        low = high = tick;
    q->tick_from = low;
    q->tick_span = high - low;
}

/*
 * The thread of a record that may not be the last one's. A context packet names
 * it (CONFIG_PID_IN_CONTEXTIDR), else switch events do.
 */
static void change_thread(struct spex_analysis *a, struct queue *q, uint64_t who, uint64_t tick)
{
    bool timed = !(who & WHO_UNTIMED);
    /* Without a timestamp, what the end of the file says is the best guess. */
    uint64_t time = timed ? tick_time(a, tick) : UINT64_MAX;
    int32_t tid = q->tid, pid = -1;
    struct span valid = {0, UINT64_MAX};
    if (!(who & WHO_NONE)) {
        tid = (int32_t)who;
    } else if (a->file && q->cpu >= 0) {
        valid = changes_span(&a->cpu_changes, q->cpu, time);
        if (!spex_perfdata_running(a->file, q->cpu, time, &pid, &tid)) {
            tid = q->tid;
            pid = -1;
        }
    }
    struct thread *t = get_thread(a, tid, pid, time);
    struct process *kernel = get_process(a, SPEX_PERF_PID_KERNEL, time);
    intersect(&valid, &t->span);
    intersect(&valid, &t->process->span);
    intersect(&valid, &kernel->span);
    q->thread = t;
    q->same = (struct spex_sample){.comm = t->comm,
                                   .pid = t->pid,
                                   .tid = t->tid,
                                   .cpu = q->cpu,
                                   .queue = q->index,
                                   .maps = {t->process->version, kernel->version}};
    q->who = who;
    if (timed) {
        tick_range(a, q, &valid, tick);
    } else {
        q->tick_from = 0;
        q->tick_span = UINT64_MAX;
    }
}

enum { SOURCE_PEER = 0x100 };

/* The source of a value not met before, or of a memory operation without the packet. */
static unsigned find_source(struct queue *q, const struct spex_record *r)
{
    struct spex_source_info info;
    bool packet = r->present & SPEX_HAS_DATA_SOURCE && r->data_source < 256;
    unsigned snooped = r->events >> SPEX_EV_SNOOPED & 1 ? SOURCE_PEER : 0;
    spex_source_of(q->model, r, &info);
    if (packet && info.by_packet) {
        const struct spex_record bare = {.present = SPEX_HAS_DATA_SOURCE | SPEX_HAS_OP,
                                         .op_class = SPEX_CLASS_LDST,
                                         .data_source = r->data_source};
        spex_source_of(q->model, &bare, &info); /* without this record's events */
        unsigned peer = info.peer || info.modified ? SOURCE_PEER : 0;
        q->sources[r->data_source] = (int16_t)(info.source | peer);
        return info.source | peer | snooped;
    }
    if (info.miss) /* past the last cache is memory; past another, unknown */
        info.source = info.source != SPEX_SOURCE_L3 ? SPEX_SOURCE_UNKNOWN
                      : info.remote                 ? SPEX_SOURCE_REMOTE
                                                    : SPEX_SOURCE_DRAM;
    return info.source | snooped;
}

static void flush(struct spex_analysis *a)
{
    struct memory_guard *guard = memory_guard_pause();
    if (a->sample_count && a->sink)
        a->sink(a->context, a->samples, a->sample_count);
    memory_guard_resume(guard);
    a->sample_count = 0;
}

static bool filters_keep(struct spex_analysis *a, const struct spex_sample *s)
{
    for (size_t f = 0; f < a->options.filter_count; f++)
        if (!filter_keeps(a->filters[f], s)) {
            a->totals.rejected[f]++;
            return false;
        }
    return true;
}

/* How often packets are absent: timestamp, context, data source, VA, PA. */
typedef uint16_t eight __attribute__((vector_size(16)));

static inline void count_absent(eight *absent, unsigned present)
{
    static const eight kinds = {SPEX_HAS_TIMESTAMP, SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2,
                                SPEX_HAS_DATA_SOURCE, SPEX_HAS_VA, SPEX_HAS_PA};
    *absent -= (eight)((kinds & (uint16_t)present) == 0); /* true is all ones: minus one */
}

static inline void copy_same(struct spex_sample *to, const struct spex_sample *from)
{
    enum { AT = offsetof(struct spex_sample, comm), END = offsetof(struct spex_sample, op) };
    memcpy((char *)to + AT, (const char *)from + AT, END - AT);
}

static inline bool uses_line(const struct line_set *lines, const struct spex_record *r)
{
    unsigned bit =
        line_bit(r->address[r->present & SPEX_HAS_PA ? SPEX_ADDRESS_PA : SPEX_ADDRESS_VA]);
    return (lines->bits[bit / 64] >> bit % 64 & r->present / SPEX_HAS_VA & 1) != 0;
}

static void note_saturated(struct spex_analysis *a, struct spex_sample *s)
{
    unsigned full = spex_analysis_saturated(a, s->record);
    _Static_assert(SPEX_SAMPLE_LEAST_ISSUE == (unsigned)SPEX_HAS_ISSUE &&
                       SPEX_SAMPLE_LEAST_TRANSLATION == (unsigned)SPEX_HAS_TRANSLATION,
                   "both are the same bits");
    s->flags |= full & (SPEX_HAS_ISSUE | SPEX_HAS_TRANSLATION);
    a->totals.saturated += full != 0;
}

/* Samples of count records, at most BATCH. Fields of absent packets are 0 in a record. */
static void join(struct spex_analysis *a, struct queue *q, size_t at, size_t count)
{
    const struct spex_record *records = q->records + at;
    const uint64_t *spent = q->spent + at;
    const struct op_table *ops = a->ops;
    const struct spex_perf_time *clock = a->info && a->info->has_time ? &a->info->time : NULL;
    const bool filtered = a->options.filter_count > 0;
    const unsigned want = a->options.want | a->filter_want;
    const struct line_set *const only = a->only;
    uint64_t first = q->first_tick, last = q->last_tick, kept = 0;
    eight absent = {0};
    struct spex_sample *s = &a->samples[a->sample_count];
    for (size_t i = 0; i < count; i++) {
        const struct spex_record *r = &records[i];
        unsigned present = r->present;
        if (only && !uses_line(only, r))
            continue;
        uint64_t pc = canonical(r->address[SPEX_ADDRESS_PC]), tick = r->timestamp;
        uint64_t who = WHO_NONE;
        count_absent(&absent, present);
        unsigned op = OP_INDEX(r->op_class, r->op_payload), flags = ops->info[op].flags;
        s->op = ops->info[op].op;
        s->record = r;
        s->spent = spent[i];
        s->pc = pc;
        s->el = (uint8_t)spex_address_el(r->address[SPEX_ADDRESS_PC]);
        flags |= s->el ? SPEX_SAMPLE_KERNEL : 0;
        if (want & SPEX_WANT_BRANCH) {
            s->target = canonical(r->address[SPEX_ADDRESS_TARGET]);
            s->prev_target = canonical(r->address[SPEX_ADDRESS_PREV_TARGET]);
        }
        if (want & SPEX_WANT_DATA) {
            s->va = canonical(r->address[SPEX_ADDRESS_VA]);
            s->pa = spex_address_bits(r->address[SPEX_ADDRESS_PA]);
        }
        if (present & (SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2))
            who = r->context[!(present & SPEX_HAS_CONTEXT_EL1)];
        s->time = 0;
        if (__builtin_expect(present & SPEX_HAS_TIMESTAMP, 1)) {
            flags |= SPEX_SAMPLE_TIMED;
            if (want & SPEX_WANT_TIME)
                s->time = clock ? spex_perf_time_to_ns(clock, tick) : tick;
        } else {
            who |= WHO_UNTIMED;
        }
        if (__builtin_expect(who != q->who || tick - q->tick_from > q->tick_span, 0))
            change_thread(a, q, who, tick);
        copy_same(s, &q->same);
        struct spex_module *module = NULL;
        if (__builtin_expect(want & SPEX_WANT_SYMBOL && present & SPEX_HAS_PC, 1)) {
            uint32_t version = q->same.maps[pc >> 63] << 1;
            size_t index = place_index(pc, version);
            struct place_slot *slot = &a->places[index];
            if (__builtin_expect(slot->ip != pc || slot->version != version, 0))
                fill_place(a, slot, version, s->pid,
                           present & SPEX_HAS_TIMESTAMP ? tick_time(a, tick) : UINT64_MAX, pc);
            s->place = (uint32_t)index;
            module = slot->place.module;
            s->address = slot->place.address;
            s->symbol = slot->place.symbol;
        } else {
            s->place = 0;
            s->address = pc;
            s->symbol = NULL;
        }
        s->module = module;
        /*
         * Mostly a table look-up, without branches on whether there is a packet: loads have
         * one, stores do not. An absent one is 0.
         */
        bool packet = present & SPEX_HAS_DATA_SOURCE;
        bool memory = flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES);
        int from = q->sources[(uint8_t)r->data_source | (unsigned)!packet << 8];
        if (__builtin_expect((from < 0) | (!packet & memory) | (r->data_source > 255), 0))
            from = (int)find_source(q, r);
        s->source = (uint8_t)from;
        flags |= ((unsigned)from / SOURCE_PEER | (unsigned)(r->events >> SPEX_EV_SNOOPED)) % 2 *
                 SPEX_SAMPLE_PEER;
        s->flags = (uint8_t)flags;
        if (filtered && !filters_keep(a, s)) {
            if (module)
                module->left_out++;
            continue;
        }
        if (counters_may_end(r, &a->end))
            note_saturated(a, s);
        kept++;
        q->thread->samples++;
        if (module) {
            module->samples++;
            if (module->stripped && !(s->symbol && s->symbol->name))
                module->unnamed++;
        }
        if (flags & SPEX_SAMPLE_TIMED) {
            first = tick < first ? tick : first;
            last = tick > last ? tick : last;
        }
        if (++s == a->samples + BATCH) {
            a->sample_count = BATCH;
            flush(a);
            s = a->samples;
        }
    }
    a->sample_count = (size_t)(s - a->samples);
    struct spex_totals *t = &a->totals;
    t->records += count;
    t->kept += kept;
    q->samples += kept;
    /* of a closer look at a part these say nothing and are not kept */
    t->timed += count - absent[0];
    t->with_context += count - absent[1];
    t->with_source += count - absent[2];
    t->with_va += count - absent[3];
    t->with_pa += count - absent[4];
    q->first_tick = first;
    q->last_tick = last;
}

/* ---- reading ---- */

static void note_damage(struct spex_analysis *a, const struct spex_damage *damage)
{
    if (!a->totals.damaged++) {
        a->totals.first_damage = damage->offset;
        a->totals.damage_reason = damage->reason;
    }
    a->totals.damaged_bytes += damage->size;
}

/* A raw stream in chunks; the cut record at the end of one is read again with the next. */
static bool next_raw(struct spex_analysis *a, struct queue *q)
{
    ssize_t n;
    do
        n = pread(a->raw_fd, q->buffer + q->kept, RAW_CHUNK, (off_t)(q->position + q->kept));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        n = 0;
    q->span = (struct spex_aux_span){
        .data = q->buffer, .size = q->kept + (size_t)n, .file_offset = q->position, .last = n == 0};
    return n > 0;
}

static void need_reader(struct spex_analysis *a, struct spex_reader **reader)
{
    if (!a->shapes)
        a->shapes = spex_shapes_init(memory_get(1, spex_shapes_size()));
    if (!*reader) {
        const struct spex_reader_options options = {.size = sizeof options, .shapes = a->shapes};
        spex_reader_init(memory_get(1, spex_reader_size()), &options, reader, NULL);
    }
}

static bool next_span(struct spex_analysis *a, struct queue *q)
{
    bool more = a->file ? spex_aux_next(q->cursor, &q->span) == SPEX_OK : next_raw(a, q);
    if (!more)
        return false;
    a->done += q->span.size;
    struct memory_guard *guard = memory_guard_pause();
    if (a->options.progress)
        a->options.progress(a->options.context, a->done,
                            a->file ? a->info->aux_bytes : a->raw_size);
    memory_guard_resume(guard);
    bool merged = a->options.ordered && a->queue_count > 1;
    struct spex_reader **reader = merged ? &q->reader : &a->reader;
    need_reader(a, reader);
    bool last = a->file ? q->span.last : q->position + q->span.size >= a->raw_size;
    spex_reader_feed(*reader, q->span.data, q->span.size, q->span.file_offset, last);
    q->reader = *reader;
    return true;
}

/* What the reader left, as the span cuts it, comes again with the next one. */
static void keep_rest(struct spex_analysis *a, struct queue *q)
{
    size_t read = (size_t)(spex_reader_position(q->reader) - q->span.file_offset);
    size_t rest = q->span.size - read;
    if (a->file) {
        if (rest)
            spex_aux_keep(q->cursor, rest);
        return;
    }
    memmove(q->buffer, q->buffer + read, rest);
    a->done -= rest;
    q->kept = rest;
    q->position += read;
}

static void share_time(struct spex_analysis *a, struct queue *q)
{
    enum { SLOWEST = 1000 }; /* ns an operation: slower than any, so the thread did not run */
    if (!(a->options.want & SPEX_WANT_SPENT))
        return;
    struct clock_rules rules = {
        .counter = a->info && a->info->has_time ? &a->info->time : NULL,
        .switches = q->cpu >= 0 ? &a->cpu_changes : &a->switches,
        .most = a->sampling.filters[0] ? 0 : a->sampling.period * SLOWEST,
    };
    if (rules.counter)
        rules.most = spex_perf_time_from_ns(rules.counter, rules.counter->zero + rules.most) -
                     spex_perf_time_from_ns(rules.counter, rules.counter->zero);
    q->clock.id = q->cpu >= 0 ? q->cpu : q->tid;
    clock_share(&q->clock, &rules, q->records, q->count, q->spent);
}

/* The stacks of a batch. */
static void join_stacks(struct spex_analysis *a, struct queue *q)
{
    uint64_t times[BATCH];
    if (!q->stacks)
        return;
    for (size_t i = 0; i < q->count; i++)
        times[i] = tick_time(a, q->records[i].timestamp);
    stacks_join(a->stacks, &q->cursor_of_stacks, q->records, times, q->count, q->stacks);
}

/* Fills q->records; false at the end of the queue, or if no more is wanted. */
static bool refill(struct spex_analysis *a, struct queue *q)
{
    q->at = q->count = 0;
    while (q->count == 0 && !a->stopped) {
        struct spex_damage damage = {0};
        enum spex_status status;
        if (!q->reading) {
            if (!next_span(a, q))
                return false;
            q->reading = true;
            q->clock.cut |= a->file && !q->span.contiguous;
        }
        q->count = spex_reader_batch(q->reader, q->records, a->batch, &status, &damage);
        if (status == SPEX_END) {
            keep_rest(a, q);
            q->reading = false;
        } else if (status != SPEX_OK) {
            note_damage(a, &damage);
        }
        share_time(a, q);
        join_stacks(a, q);
        q->clock.cut |= status != SPEX_OK && status != SPEX_END;
    }
    a->totals.bytes = a->done;
    return q->count > 0;
}

/* A record without a timestamp comes right after the one before it. */
static inline void queue_time(struct queue *q)
{
    const struct spex_record *r = &q->records[q->at];
    if (r->present & SPEX_HAS_TIMESTAMP)
        q->time = r->timestamp;
}

/* Earliest first; of equal times the first queue of the file. */
static bool earlier(const struct queue *x, const struct queue *y)
{
    return x->time != y->time ? x->time < y->time : x->index < y->index;
}

static void sift_down(struct queue **heap, size_t count, size_t at)
{
    for (;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (earlier(heap[child], heap[least]))
                least = child;
        if (least == at)
            return;
        struct queue *swap = heap[at];
        heap[at] = heap[least];
        heap[least] = swap;
        at = least;
    }
}

/* Opens what a queue is read with; false, and *status says why, if it cannot be. */
static bool open_queue(struct spex_analysis *a, struct queue *q, enum spex_status *status)
{
    *status = a->file ? spex_aux_open(a->file, q->index, &q->cursor) : SPEX_OK;
    return *status == SPEX_OK;
}

static void close_queue(struct queue *q)
{
    if (q->cursor)
        spex_aux_close(q->cursor);
    q->cursor = NULL;
}

/* Runs of the earliest queue, each as long as it stays the earliest. */
static enum spex_status run_ordered(struct spex_analysis *a)
{
    struct queue **heap = a->heap;
    size_t live = 0;
    enum spex_status status = SPEX_OK;
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        if (!open_queue(a, q, &status))
            break;
        q->records = a->records + i * a->batch;
        q->spent = a->spent + i * a->batch;
        q->stacks = a->stack_numbers ? a->stack_numbers + i * a->batch : NULL;
        if (refill(a, q)) {
            queue_time(q);
            heap[live++] = q;
        } else {
            close_queue(q);
        }
    }
    if (status)
        live = 0;
    for (size_t i = live; i-- > 0;)
        sift_down(heap, live, i);
    while (live) {
        struct queue *q = heap[0];
        uint64_t limit = UINT64_MAX;
        for (size_t child = 1; child <= 2 && child < live; child++)
            limit = heap[child]->time < limit ? heap[child]->time : limit;
        size_t from = q->at;
        bool more = true;
        do {
            if (++q->at == q->count) {
                join(a, q, from, q->count - from);
                flush(a); /* the samples point at the records */
                more = refill(a, q);
                from = 0;
            }
            if (more)
                queue_time(q);
        } while (more && q->time <= limit);
        if (more) {
            join(a, q, from, q->at - from);
        } else {
            close_queue(q);
            heap[0] = heap[--live];
        }
        sift_down(heap, live, 0);
    }
    flush(a);
    return status;
}

/* One queue after the other. */
static enum spex_status run_in_turn(struct spex_analysis *a)
{
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        enum spex_status status;
        if (!open_queue(a, q, &status))
            return status;
        q->records = a->records;
        q->spent = a->spent;
        q->stacks = a->stack_numbers;
        while (refill(a, q)) {
            join(a, q, 0, q->count);
            flush(a);
        }
        close_queue(q);
    }
    return SPEX_OK;
}

/* What the file tells of them is known before a pass: rows say then that nothing is estimated. */
static void take_losses(struct spex_analysis *a)
{
    if (!a->info)
        return;
    a->totals.lost = a->info->lost;
    a->totals.truncated = a->info->truncated;
    a->totals.collided = a->info->collisions;
}

static enum spex_status run_file(struct spex_analysis *a, spex_sample_sink *sink, void *context,
                                 struct spex_error *error)
{
    const struct spex_totals whole = a->totals;
    memset(&a->totals, 0, sizeof a->totals);
    a->totals.first_time = UINT64_MAX;
    a->sink = sink;
    a->context = context;
    a->done = 0;
    a->stopped = false;
    a->sample_count = 0;
    take_losses(a);
    for (size_t i = 0; a->threads.slots && i <= a->threads.mask; i++)
        if (a->threads.slots[i].value)
            ((struct thread *)a->threads.slots[i].value)->samples = 0;
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        close_queue(q); /* of a pass that ended for want of memory */
        q->samples = 0;
        q->reading = false;
        q->clock = (struct clock){0};
        q->at = q->count = q->kept = 0;
        q->position = q->time = 0;
        q->thread = NULL;
        q->who = UINT64_MAX; /* nobody */
        q->first_tick = UINT64_MAX;
        q->last_tick = 0;
    }
    bool merge = a->options.ordered && a->queue_count > 1;
    if (a->stacks && a->options.want & SPEX_WANT_STACK) {
        stacks_read(a->stacks);
        if (!a->stack_numbers)
            a->stack_numbers =
                memory_get(merge ? a->queue_count * a->batch : a->batch, sizeof *a->stack_numbers);
        for (size_t i = 0; i < a->queue_count; i++)
            stacks_start(a->stacks, &a->queues[i].cursor_of_stacks, a->queues[i].cpu);
    }
    enum spex_status status = merge ? run_ordered(a) : run_in_turn(a);
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        close_queue(q);
        a->totals.spent += q->clock.spent;
        a->totals.away += q->clock.away;
        a->totals.beside_loss += q->clock.lost;
        if (q->first_tick > q->last_tick)
            continue;
        uint64_t first = tick_time(a, q->first_tick), last = tick_time(a, q->last_tick);
        a->totals.first_time = first < a->totals.first_time ? first : a->totals.first_time;
        a->totals.last_time = last > a->totals.last_time ? last : a->totals.last_time;
    }
    if (a->totals.first_time > a->totals.last_time)
        a->totals.first_time = a->totals.last_time = 0;
    if (a->only) /* a closer look at a part: the totals are those of the whole */
        a->totals = whole;
    if (status)
        return error_set(error, status, 0, "%s: cannot read its AUX data: %s", a->name,
                         spex_status_name(status));
    return SPEX_OK;
}

static void add_totals(struct spex_totals *sum, const struct spex_totals *t)
{
    uint64_t *const counts[] = {&sum->records,      &sum->kept,          &sum->timed,
                                &sum->with_context, &sum->with_source,   &sum->with_va,
                                &sum->with_pa,      &sum->saturated,     &sum->bytes,
                                &sum->damaged,      &sum->damaged_bytes, &sum->lost,
                                &sum->truncated,    &sum->collided,      &sum->spent,
                                &sum->away,         &sum->beside_loss};
    const uint64_t more[] = {
        t->records,   t->kept,      t->timed, t->with_context, t->with_source,   t->with_va,
        t->with_pa,   t->saturated, t->bytes, t->damaged,      t->damaged_bytes, t->lost,
        t->truncated, t->collided,  t->spent, t->away,         t->beside_loss};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        *counts[i] += more[i];
    for (size_t i = 0; i < SPEX_FILTER_MAX; i++)
        sum->rejected[i] += t->rejected[i];
    if (t->damaged && !sum->damage_reason) {
        sum->first_damage = t->first_damage;
        sum->damage_reason = t->damage_reason;
    }
    if (!t->last_time)
        return;
    if (!sum->last_time || t->first_time < sum->first_time)
        sum->first_time = t->first_time;
    if (t->last_time > sum->last_time)
        sum->last_time = t->last_time;
}

static void free_table(struct table *table, bool values);

/* The threads of all files by number: one that goes on in the next file is one. */
static void sum_threads(struct spex_analysis *a)
{
    free_table(&a->thread_sums, true);
    a->thread_sums = (struct table){0};
    for (size_t p = 0; p < a->part_count; p++) {
        const struct table *threads = &a->parts[p]->threads;
        for (size_t i = 0; threads->slots && i <= threads->mask; i++) {
            const struct thread *t = threads->slots[i].value;
            if (!t || !t->samples)
                continue;
            void **slot = table_slot(&a->thread_sums, (uint32_t)t->tid);
            struct thread *sum = *slot;
            if (!sum)
                *slot = sum = memory_get(1, sizeof *sum);
            uint64_t samples = sum->samples + t->samples;
            *sum = *t; /* its name is the last one */
            sum->samples = samples;
        }
    }
}

/* The CPUs of all files; queues of threads stay apart. */
static void sum_cpus(struct spex_analysis *a)
{
    size_t count = 0;
    for (size_t p = 0; p < (a->part_count ? a->part_count : 1); p++)
        count += (a->part_count ? a->parts[p] : a)->queue_count;
    free(a->cpu_sums);
    a->cpu_sums = NULL;
    a->cpu_sum_count = 0;
    a->cpu_sums = memory_get(count + 1, sizeof *a->cpu_sums);
    for (size_t p = 0; p < (a->part_count ? a->part_count : 1); p++) {
        const struct spex_analysis *part = a->part_count ? a->parts[p] : a;
        for (size_t i = 0; i < part->queue_count; i++) {
            const struct queue *q = &part->queues[i];
            size_t n = p && q->cpu >= 0 ? 0 : a->cpu_sum_count;
            while (n < a->cpu_sum_count && a->cpu_sums[n].cpu != q->cpu)
                n++;
            if (n == a->cpu_sum_count)
                a->cpu_sums[a->cpu_sum_count++] = (struct cpu_sum){q->cpu, 0};
            a->cpu_sums[n].samples += q->samples;
        }
    }
}

/* One file after the other. */
static enum spex_status run_parts(struct spex_analysis *a, spex_sample_sink *sink, void *context,
                                  struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    struct spex_totals sum = {0};
    for (size_t i = 0; i < a->part_count && !status && !a->enough; i++) {
        struct spex_analysis *part = a->parts[i];
        if (part == a)
            a->totals = a->own;
        a->reading = part;
        status = run_file(part, sink, context, error);
        if (part == a)
            a->own = a->totals;
        add_totals(&sum, &part->totals);
    }
    a->reading = NULL;
    a->totals = sum;
    sum_threads(a);
    return status;
}

static enum spex_status run_pass(struct spex_analysis *a, spex_sample_sink *sink, void *context,
                                 struct spex_error *error)
{
    struct spex_module *module;
    for (size_t i = 0; (module = spex_symbols_nth(a->symbols, i)); i++)
        module->samples = module->left_out = module->unnamed = 0;
    a->enough = false;
    enum spex_status status =
        a->part_count ? run_parts(a, sink, context, error) : run_file(a, sink, context, error);
    sum_cpus(a);
    return status;
}

enum spex_status spex_analysis_run(struct spex_analysis *a, spex_sample_sink *sink, void *context,
                                   struct spex_error *error)
{
    volatile enum spex_status status = SPEX_NO_MEMORY;
    a->no_memory = false;
    if (!memory_guarded(status = run_pass(a, sink, context, error)) || a->no_memory)
        return error_set(error, SPEX_NO_MEMORY, 0, "%s: not enough memory to read it", a->name);
    return status;
}

void analysis_no_memory(struct spex_analysis *a)
{
    if (a) {
        a->no_memory = true;
        spex_analysis_stop(a);
    }
}

void spex_analysis_stop(struct spex_analysis *analysis)
{
    analysis->enough = true;
    reading(analysis)->stopped = true;
}

void analysis_narrow(struct spex_analysis *a, unsigned want, const struct line_set *lines)
{
    a->options.want = want;
    a->only = lines;
    for (size_t i = 0; i < a->part_count; i++) {
        a->parts[i]->options.want = want;
        a->parts[i]->only = lines;
    }
}

/* ---- opening ---- */

/* The times at which what the file says about threads, processes and CPUs changes. */
static void gather_changes(struct spex_analysis *a)
{
    struct spex_perf_event e;
    spex_perfdata_rewind(a->file);
    while (spex_perfdata_next(a->file, &e) == SPEX_OK) {
        switch (e.type) {
        case SPEX_PERF_COMM:
            add_change(&a->thread_changes, e.u.comm.tid, e.time);
            if (e.misc & SPEX_PERF_MISC_COMM_EXEC)
                add_change(&a->process_changes, e.u.comm.pid, e.time);
            break;
        case SPEX_PERF_FORK:
        case SPEX_PERF_EXIT:
            add_change(&a->thread_changes, e.u.task.tid, e.time);
            if (e.u.task.pid == e.u.task.tid)
                add_change(&a->process_changes, e.u.task.pid, e.time);
            break;
        case SPEX_PERF_SWITCH:
        case SPEX_PERF_SWITCH_CPU_WIDE:
        case SPEX_PERF_ITRACE_START:
            add_change(&a->cpu_changes, e.cpu, e.time);
            if (e.type != SPEX_PERF_ITRACE_START)
                add_change(&a->switches, e.tid, e.time);
            break;
        default:
            break;
        }
    }
    size_t count = spex_perfdata_map_count(a->file);
    for (size_t i = 0; i < count; i++) {
        const struct spex_perf_map *map = spex_perfdata_map_at(a->file, i);
        add_change(&a->process_changes, map->pid, map->time);
    }
    sort_changes(&a->thread_changes);
    sort_changes(&a->process_changes);
    sort_changes(&a->cpu_changes);
    sort_changes(&a->switches);
}

static bool has_wide_counter(struct spex_analysis *a, const uint8_t *data, size_t size)
{
    enum spex_status status = SPEX_OK;
    need_reader(a, &a->reader);
    spex_reader_feed(a->reader, data, size, 0, true);
    while (status == SPEX_OK) {
        size_t n = spex_reader_batch(a->reader, a->records, a->batch, &status, NULL);
        for (size_t i = 0; i < n; i++)
            if (counters_of(&a->records[i]) & 0xf * EACH_COUNTER << 12)
                return true;
    }
    return false;
}

/*
 * No file tells PMSIDR_EL1.CountSize: 12 bits, unless the first quarter of a megabyte, of all
 * queues in equal parts, shows more.
 */
static uint16_t counter_most(struct spex_analysis *a)
{
    enum { LOOK = 1 << 18, LEAST = 1 << 12 };
    size_t part = a->queue_count ? LOOK / a->queue_count : 0;
    part = part > LEAST ? part : LEAST;
    bool wide = false;
    if (a->file) {
        struct spex_aux_span span;
        for (size_t i = 0; i < a->queue_count && !wide; i++) {
            struct queue *q = &a->queues[i];
            enum spex_status status;
            if (!open_queue(a, q, &status))
                break;
            if (spex_aux_next(q->cursor, &span) == SPEX_OK)
                wide = has_wide_counter(a, span.data, span.size < part ? span.size : part);
            close_queue(q);
        }
    } else {
        uint8_t *data = a->queues[0].buffer;
        ssize_t n = pread(a->raw_fd, data, LOOK, 0);
        wide = n > 0 && has_wide_counter(a, data, (size_t)n);
    }
    return wide ? 0xffff : 0xfff;
}

static void describe_sampling(struct spex_analysis *a)
{
    struct spex_sampling *s = &a->sampling;
    s->counter_most = counter_most(a);
    a->end = counters_end(s->counter_most);
    const struct spex_perf_attr *attr = a->file ? spex_perfdata_spe_attr(a->file) : NULL;
    s->midr = a->options.midr;
    if (a->file && !s->midr)
        s->midr = spex_perfdata_midr(a->file, -1);
    const struct spex_cpu_model *cpu = spex_cpu_find(s->midr);
    s->cpu_name = cpu ? spex_cpu_name(cpu) : NULL;
    if (!attr)
        return;
    /* ts_enable 0, pa_enable 1, jitter 16; filters from 32 on (the PMU's format) */
    enum { TS = 0, PA = 1, JITTER = 16, DISCARD = 35 };
    uint64_t filters[5] = {attr->config[0] >> 32 << 32, attr->config[1], attr->config[2],
                           attr->config[3], attr->config[4]};
    filters[0] &= ~(UINT64_C(1) << DISCARD);
    s->known = true;
    s->period = attr->freq ? 0 : attr->period;
    s->timestamps = attr->config[0] >> TS & 1;
    s->physical = attr->config[0] >> PA & 1;
    s->jitter = attr->config[0] >> JITTER & 1;
    spex_perf_terms_text(attr->config, s->terms, sizeof s->terms);
    spex_perf_terms_text(filters, s->filters, sizeof s->filters);
}

static enum spex_status open_raw(struct spex_analysis *a, const char *path,
                                 struct spex_error *error)
{
    bool standard = !path || !strcmp(path, "-");
    a->raw_fd = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    off_t size = a->raw_fd < 0 ? -1 : lseek(a->raw_fd, 0, SEEK_END);
    if (a->raw_fd >= 0 && size < 0) {
        /* a pipe: to a temporary file, since a pass may be repeated */
        FILE *spool = tmpfile();
        char block[65536];
        ssize_t n;
        size = 0;
        bool ok = spool != NULL;
        while (ok && ((n = read(a->raw_fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR)))
            if (n > 0) {
                ok = write(fileno(spool), block, (size_t)n) == n;
                size += n;
            }
        close(a->raw_fd);
        a->raw_fd = ok ? dup(fileno(spool)) : -1;
        if (spool)
            fclose(spool);
    }
    if (a->raw_fd < 0)
        return error_set(error, SPEX_IO, 0, "%s: %s", a->name, strerror(errno));
    a->raw_size = (uint64_t)size;
    a->queue_count = 1;
    return SPEX_OK;
}

static int16_t *sources_of(struct spex_analysis *a, const struct spex_cpu_model *model)
{
    for (size_t i = 0; i < a->model_count; i++) /* as many as there are kinds of core */
        if (a->models[i]->model == model)
            return a->models[i]->sources;
    a->models = memory_grow(a->models, a->model_count, &a->model_capacity, sizeof *a->models);
    struct model_sources *m = memory_get(1, sizeof *m);
    a->models[a->model_count++] = m;
    m->model = model;
    memset(m->sources, 0xff, sizeof m->sources);
    m->sources[NO_PACKET] = SPEX_SOURCE_UNKNOWN;
    return m->sources;
}

static enum spex_status open_input(struct spex_analysis *a, const char *path,
                                   const struct spex_analysis_options *options,
                                   struct spex_error *error)
{
    bool standard = !path || !strcmp(path, "-");
    enum spex_status status;
    a->options = *options;
    if (!a->options.want)
        a->options.want = ~0u;
    for (size_t i = 0; i < options->filter_count; i++) {
        const char *name = options->filters[i].name;
        if (!strcmp(name, "time"))
            a->filter_want |= SPEX_WANT_TIME;
        if (!strcmp(name, "dso") || !strcmp(name, "symbol"))
            a->filter_want |= SPEX_WANT_SYMBOL;
    }
    a->name = memory_copy(standard ? "standard input" : path);
    a->ops = op_table();
    if (a->whole)
        a->symbols = a->whole->symbols;
    status = a->whole ? SPEX_OK : spex_symbols_new(options->symbols, &a->symbols, error);
    a->places = memory_get(PLACES, sizeof *a->places);
    if (status)
        return status;
    if (options->raw) {
        status = open_raw(a, path, error);
    } else {
        status = spex_perfdata_open(standard ? "-" : path, &a->file, error);
        if (!status) {
            a->info = spex_perfdata_info(a->file);
            a->queue_count = spex_perfdata_queue_count(a->file);
            take_losses(a);
            gather_changes(a);
            a->stacks = stacks_new(a, a->file, &first_of(a)->calls);
        }
    }
    return status;
}

/* What is read of an input that is open; first and last are the times of all of them. */
static enum spex_status open_queues(struct spex_analysis *a,
                                    const struct spex_analysis_options *options, uint64_t first,
                                    uint64_t last, struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    for (size_t i = 0; i < options->filter_count && !status; i++)
        status = filter_new(&options->filters[i], first, last, &a->filters[i], error);
    if (status)
        return status;
    a->queues = memory_get(a->queue_count + 1, sizeof *a->queues);
    a->heap = memory_get(a->queue_count + 1, sizeof *a->heap);
    bool merge = options->ordered && a->queue_count > 1;
    a->batch = merge && a->queue_count > RECORDS / BATCH ? RECORDS / a->queue_count + 1 : BATCH;
    size_t records = merge ? a->queue_count * a->batch : a->batch;
    a->records = memory_get(records, sizeof *a->records);
    a->spent = memory_get(records, sizeof *a->spent);
    for (size_t i = 0; i < a->queue_count; i++) {
        struct queue *q = &a->queues[i];
        q->index = (uint32_t)i;
        q->cpu = q->tid = -1;
        if (a->file) {
            const struct spex_perf_queue *from = spex_perfdata_queue(a->file, i);
            q->cpu = from->cpu;
            q->tid = from->tid;
            uint64_t midr = options->midr ? options->midr : spex_perfdata_midr(a->file, q->cpu);
            q->model = spex_cpu_find(midr);
        } else {
            q->model = spex_cpu_find(options->midr);
            q->buffer = memory_get(1, RAW_CHUNK + SPEX_READER_REST);
        }
        q->sources = sources_of(a, q->model);
    }
    describe_sampling(a);
    return SPEX_OK;
}

static int by_first_time(const void *x, const void *y)
{
    const struct spex_analysis *a = *(struct spex_analysis *const *)x;
    const struct spex_analysis *b = *(struct spex_analysis *const *)y;
    uint64_t first_a = a->info ? a->info->first_time : 0,
             first_b = b->info ? b->info->first_time : 0;
    if (first_a != first_b)
        return first_a < first_b ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The first of several files speaks for all where they agree. */
static void agree(struct spex_analysis *a)
{
    uint16_t most = 0;
    for (size_t i = 0; i < a->part_count; i++) {
        const struct spex_sampling *s = &a->parts[i]->sampling;
        most = s->counter_most > most ? s->counter_most : most;
        a->mixed |= s->period != a->parts[0]->sampling.period;
        if (s->midr != a->sampling.midr)
            a->sampling.cpu_name = NULL;
    }
    for (size_t i = 0; i < a->part_count; i++) {
        a->parts[i]->sampling.counter_most = most;
        a->parts[i]->end = counters_end(most);
    }
}

static enum spex_status open_profile(struct spex_analysis *a, const char *path,
                                     const struct spex_analysis_options *options,
                                     struct spex_error *error)
{
    enum spex_status status = open_input(a, path, options, error);
    size_t files = 1 + options->more_count;
    uint64_t first, last;
    if (!status && files > 1) {
        a->parts = memory_get(files, sizeof *a->parts);
        a->parts[a->part_count++] = a;
    }
    for (size_t i = 0; i < options->more_count && !status; i++) {
        struct spex_analysis *part = a->parts[a->part_count++] = memory_get(1, sizeof *part);
        part->raw_fd = -1;
        part->whole = a;
        status = open_input(part, options->more[i], options, error);
    }
    if (!status && a->part_count)
        qsort(a->parts, a->part_count, sizeof *a->parts, by_first_time);
    analysis_extent(a, &first, &last);
    if (!status)
        status = open_queues(a, options, first, last, error);
    for (size_t i = 0; i < a->part_count && !status; i++)
        if (a->parts[i] != a)
            status = open_queues(a->parts[i], options, first, last, error);
    if (!status)
        agree(a);
    return status;
}

enum spex_status spex_analysis_open(const char *path, const struct spex_analysis_options *given,
                                    struct spex_analysis **analysis, struct spex_error *error)
{
    struct spex_analysis_options known = {0};
    const struct spex_analysis_options *options = &known;
    volatile enum spex_status status = SPEX_OK;
    if (given)
        status = sized_take("spex_analysis_options", given, &known, sizeof known, error);
    if (status)
        return status;
    if (options->filter_count > SPEX_FILTER_MAX)
        return error_set(error, SPEX_RANGE, 0, "%zu filters; at most %d", options->filter_count,
                         SPEX_FILTER_MAX);
    struct spex_analysis *a = calloc(1, sizeof *a);
    if (!a)
        return error_set(error, SPEX_NO_MEMORY, 0, "not enough memory for a profile");
    a->raw_fd = -1;
    if (!memory_guarded(status = open_profile(a, path, options, error)))
        status = error_set(error, SPEX_NO_MEMORY, 0, "not enough memory for a profile");
    if (status)
        spex_analysis_close(a);
    else
        *analysis = a;
    return status;
}

static void free_table(struct table *table, bool values)
{
    for (size_t i = 0; values && table->slots && i <= table->mask; i++)
        free(table->slots[i].value);
    free(table->slots);
}

void spex_analysis_close(struct spex_analysis *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->part_count; i++)
        if (a->parts[i] != a)
            spex_analysis_close(a->parts[i]);
    free(a->parts);
    free_table(&a->thread_sums, true);
    free(a->cpu_sums);
    for (size_t i = 0; a->queues && i < a->queue_count; i++) {
        close_queue(&a->queues[i]);
        if (a->queues[i].reader != a->reader)
            free(a->queues[i].reader);
        free(a->queues[i].buffer);
    }
    free(a->reader);
    free(a->shapes);
    free(a->records);
    free(a->spent);
    free(a->stack_numbers);
    stacks_free(a->stacks);
    stacks_table_free(a->calls);
    free(a->queues);
    free(a->heap);
    for (size_t i = 0; i < a->model_count; i++)
        free(a->models[i]);
    free(a->models);
    for (size_t i = 0; i < SPEX_FILTER_MAX; i++)
        filter_free(a->filters[i]);
    free_table(&a->threads, true);
    free_table(&a->processes, true);
    free_table(&a->strings, true);
    free_table(&a->modules, false);
    free(a->thread_changes.items);
    free(a->process_changes.items);
    free(a->cpu_changes.items);
    free(a->switches.items);
    free(a->maps);
    free(a->places);
    free(a->near);
    free(a->far);
    free(a->lines);
    if (!a->whole)
        spex_symbols_free(a->symbols);
    if (a->file)
        spex_perfdata_close(a->file);
    if (a->raw_fd >= 0)
        close(a->raw_fd);
    free(a->name);
    free(a);
}

/* ---- asking ---- */

/* The index-th largest by selection: a few are asked for, of few. */
bool spex_analysis_thread(const struct spex_analysis *a, size_t index,
                          struct spex_thread_total *total)
{
    const struct table *threads = a->part_count ? &a->thread_sums : &a->threads;
    const struct thread *last = NULL;
    for (size_t n = 0; n <= index; n++) {
        const struct thread *best = NULL;
        for (size_t i = 0; threads->slots && i <= threads->mask; i++) {
            const struct thread *t = threads->slots[i].value;
            if (!t || !t->samples ||
                (last && (t->samples > last->samples ||
                          (t->samples == last->samples && t->tid <= last->tid))))
                continue;
            if (!best || t->samples > best->samples ||
                (t->samples == best->samples && t->tid < best->tid))
                best = t;
        }
        if (!best)
            return false;
        last = best;
    }
    *total = (struct spex_thread_total){last->comm, last->pid, last->tid, last->samples, 0};
    return true;
}

bool spex_analysis_cpu(const struct spex_analysis *a, size_t index, struct spex_cpu_total *total)
{
    const struct cpu_sum *last = NULL;
    for (size_t n = 0; n <= index; n++) {
        const struct cpu_sum *best = NULL;
        for (size_t i = 0; i < a->cpu_sum_count; i++) {
            const struct cpu_sum *c = &a->cpu_sums[i];
            if (!c->samples || (last && (c->samples > last->samples ||
                                         (c->samples == last->samples && c <= last))))
                continue;
            if (!best || c->samples > best->samples)
                best = c;
        }
        if (!best)
            return false;
        last = best;
    }
    *total = (struct spex_cpu_total){last->cpu, last->samples, 0};
    return true;
}

bool analysis_part(const struct spex_analysis *a, size_t index, struct analysis_part *part)
{
    if (index >= (a->part_count ? a->part_count : 1))
        return false;
    const struct spex_analysis *p = a->part_count ? a->parts[index] : a;
    *part =
        (struct analysis_part){p->name, a->part_count && p == a ? &a->own : &p->totals, p->file};
    return true;
}

void analysis_extent(const struct spex_analysis *a, uint64_t *first, uint64_t *last)
{
    *first = *last = 0;
    for (size_t i = 0; i < (a->part_count ? a->part_count : 1); i++) {
        const struct spex_perf_info *info = (a->part_count ? a->parts[i] : a)->info;
        if (!info || !info->last_time)
            continue;
        if (!*last || info->first_time < *first)
            *first = info->first_time;
        if (info->last_time > *last)
            *last = info->last_time;
    }
}

const struct spex_totals *spex_analysis_totals(const struct spex_analysis *a)
{
    return &a->totals;
}

unsigned spex_analysis_saturated(const struct spex_analysis *a, const struct spex_record *r)
{
    unsigned most = a->sampling.counter_most;
    return r->present &
           ((r->total == most ? SPEX_HAS_TOTAL : 0u) | (r->issue == most ? SPEX_HAS_ISSUE : 0u) |
            (r->translation == most ? SPEX_HAS_TRANSLATION : 0u) |
            (r->alt_issue == most ? SPEX_HAS_ALT_ISSUE : 0u));
}

const struct spex_sampling *spex_analysis_sampling(const struct spex_analysis *a)
{
    return &a->sampling;
}

struct spex_symbols *spex_analysis_symbols(struct spex_analysis *a)
{
    return a->symbols;
}

/* The stacks of the first file that has some. */
static const struct stacks *any_stacks(const struct spex_analysis *a)
{
    const struct stacks *s = a->stacks;
    for (size_t i = 0; !s && i < a->part_count; i++)
        s = a->parts[i]->stacks;
    return s;
}

enum stacks_kind analysis_stacks(const struct spex_analysis *a)
{
    return stacks_kind(any_stacks(a));
}

const char *analysis_stacks_event(const struct spex_analysis *a)
{
    return stacks_event(any_stacks(a));
}

uint32_t analysis_stack(struct spex_analysis *whole, const struct spex_sample *s)
{
    const struct spex_analysis *a = reading(whole);
    const struct queue *q = &a->queues[s->queue];
    if (!q->stacks)
        return 0;
    if (stacks_kind(a->stacks) == STACKS_COMPANION)
        return stacks_guess(a->stacks, s);
    return q->stacks[s->record - q->records];
}

const struct stacks_call *analysis_call(const struct spex_analysis *a, uint32_t n)
{
    return stacks_call(a->calls, n);
}

size_t analysis_call_count(const struct spex_analysis *a)
{
    return stacks_count(a->calls);
}

const struct spex_perfdata *spex_analysis_file(const struct spex_analysis *a)
{
    return a->file;
}

const char *spex_analysis_no_estimate(const struct spex_analysis *a)
{
    if (a->mixed)
        return "the files were sampled with different periods";
    if (!a->sampling.period)
        return "the sampling period is not known";
    if (a->totals.truncated || a->totals.lost)
        return "samples were lost: buffers were truncated";
    if (a->totals.collided)
        return "samples collided: an unknown number is missing";
    if (a->totals.damaged)
        return "parts of the data are damaged";
    return NULL;
}
