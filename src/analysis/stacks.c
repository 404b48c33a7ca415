#include "stacks.h"

#include "allocs.h"
#include "internal.h"
#include "module.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/search.h"
#include "perfdata/elapsed.h"

#include <stdlib.h>
#include <string.h>

#define CONTEXT (-UINT64_C(4095)) /* words from here on mark a change of context */

/* Samples of one CPU that follow each other in the file. */
struct run {
    int32_t cpu;
    uint32_t count;
    uint64_t offset;
};

struct seen_call { /* how many companion samples had this call */
    uintptr_t function;
    uint32_t call;
    uint64_t count; /* later the running total within a function */
};

/* Calls of all files of a profile; number 0 means no call. */
struct stacks_table {
    struct spex_call *calls;
    size_t count, room;
    uint32_t *index; /* hash table of call numbers */
    size_t mask;
};

struct stacks {
    struct spex_analysis *analysis;
    struct spex_perfdata *file;
    const struct spex_perf_attr *attr;
    bool exact;
    struct run *runs;
    size_t run_count, run_room;
    struct stacks_table *table;
    struct allocs_table **blocks; /* tables of allocations; NULL: this holds stacks */
    bool read;
    /* The last chain, outermost first: most chains begin like it. */
    uint64_t *last;
    uint32_t *numbers;
    size_t depth, depth_room, numbers_room;
    uint32_t maps[2];
    struct seen_call *seen;
    size_t seen_count, seen_room;
};

/* ---- calls ---- */

static uint64_t hash_call(const struct spex_call *c)
{
    uint64_t hash = hash_word(hash_seed(), c->caller | (uint64_t)c->cut << 32);
    return hash_word(hash_word(hash, (uintptr_t)c->module), c->address);
}

static bool same_call(const struct spex_call *a, const struct spex_call *b)
{
    return a->caller == b->caller && a->cut == b->cut && a->module == b->module &&
           a->address == b->address;
}

static void reindex(struct stacks_table *s, size_t mask)
{
    uint32_t *index = memory_get(mask + 1, sizeof *index);
    for (size_t n = 1; n < s->count; n++) {
        size_t i = hash_call(&s->calls[n]) & mask;
        while (index[i])
            i = (i + 1) & mask;
        index[i] = (uint32_t)n;
    }
    memory_free(s->index);
    s->index = index;
    s->mask = mask;
}

static uint32_t number_of(struct stacks_table *s, const struct spex_call *call)
{
    size_t i = hash_call(call) & s->mask;
    for (; s->index[i]; i = (i + 1) & s->mask)
        if (same_call(&s->calls[s->index[i]], call))
            return s->index[i];
    s->calls = memory_grow(s->calls, s->count, &s->room, sizeof *s->calls);
    s->calls[s->count] = *call;
    s->index[i] = (uint32_t)s->count++;
    if (2 * s->count > s->mask)
        reindex(s, 2 * s->mask + 1);
    return (uint32_t)s->count - 1;
}

/*
 * Copies the words first..last (innermost first) of the chain that are code; returns their number.
 */
static size_t outermost_first(struct stacks *s, const uint64_t *chain, size_t first, size_t count,
                              uint64_t *out)
{
    size_t n = 0;
    bool cut = false;
    for (size_t i = first; i < count; i++) {
        if (chain[i] >= CONTEXT) {
            cut = s->exact; /* elsewhere the kernel's frames end and the process's begin */
            continue;
        }
        /* A return address stands for the call before it. After a change of context in a
         * companion's chain the address is that of the instruction itself. */
        bool itself = !s->exact && i && chain[i - 1] >= CONTEXT;
        out[n++] = (itself ? chain[i] : chain[i] - 4) | cut;
        cut = false;
    }
    for (size_t i = 0; i < n / 2; i++) {
        uint64_t word = out[i];
        out[i] = out[n - 1 - i];
        out[n - 1 - i] = word;
    }
    return n;
}

/* The innermost call of a chain whose words are calls from `first` on. */
static uint32_t find_stack(struct stacks *s, const struct spex_perf_event *e, size_t first)
{
    const struct spex_perf_sample *sample = &e->u.sample;
    size_t most = sample->callchain_count;
    uint64_t words[CALLCHAIN_MOST];
    if (most > CALLCHAIN_MOST) {
        most = CALLCHAIN_MOST;
    }
    size_t n = outermost_first(s, sample->callchain, first, most, words);
    uint32_t maps[2];
    analysis_maps(s->analysis, e->pid, e->time, maps);
    size_t same = 0;
    if (maps[0] == s->maps[0] && maps[1] == s->maps[1])
        while (same < n && same < s->depth && words[same] == s->last[same])
            same++;
    memcpy(s->maps, maps, sizeof maps);
    while (s->depth_room < n)
        s->last = memory_grow(s->last, s->depth_room, &s->depth_room, sizeof *s->last);
    while (s->numbers_room < n)
        s->numbers = memory_grow(s->numbers, s->numbers_room, &s->numbers_room, sizeof *s->numbers);
    uint32_t call = same ? s->numbers[same - 1] : 0;
    s->depth = same;
    for (size_t i = same; i < n; i++) {
        uint64_t ip = words[i] & ~UINT64_C(3);
        const struct spex_place *place =
            analysis_code_place(s->analysis, maps[ip >> 63], e->pid, e->time, ip);
        const struct spex_call at = {.caller = call,
                                     .cut = words[i] & 1,
                                     .module = place->module,
                                     .symbol = place->symbol,
                                     .address = place->module ? place->address : ip};
        call = number_of(s->table, &at);
        s->last[i] = words[i];
        s->numbers[i] = call;
        s->depth = i + 1;
    }
    return call;
}

/* ---- exact stacks ---- */

static int by_cpu(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    if (x->cpu != y->cpu)
        return x->cpu < y->cpu ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void find_runs(struct stacks *s)
{
    struct spex_perf_event e;
    uint64_t behind = 0;
    spex_perfdata_rewind(s->file);
    while (spex_perfdata_next(s->file, &e) == SPEX_OK) {
        if (e.type != SPEX_PERF_SAMPLE || e.attr != s->attr)
            continue;
        struct run *last = s->run_count ? &s->runs[s->run_count - 1] : NULL;
        if (last && last->cpu == e.cpu && e.offset == behind) {
            last->count++;
        } else {
            s->runs = memory_grow(s->runs, s->run_count, &s->run_room, sizeof *s->runs);
            s->runs[s->run_count++] = (struct run){e.cpu, 1, e.offset};
        }
        behind = e.offset + e.size;
    }
    if (s->run_count)
        qsort(s->runs, s->run_count, sizeof *s->runs, by_cpu);
}

void stacks_start(struct stacks *s, struct stacks_cursor *c, int32_t cpu)
{
    size_t i = 0, n;
    while (i < s->run_count && s->runs[i].cpu < cpu)
        i++;
    for (n = i; n < s->run_count && s->runs[n].cpu == cpu; n++)
        ;
    *c = (struct stacks_cursor){.run = i, .end = n};
}

/* Reads the next stack of the queue, if there is one, into c->time, ip and stack. */
static bool next_stack(struct stacks *s, struct stacks_cursor *c)
{
    struct spex_perf_event e;
    while (c->run < c->end && c->done == s->runs[c->run].count) {
        c->run++;
        c->done = 0;
    }
    if (c->run >= c->end)
        return false;
    spex_perfdata_seek(s->file, c->done ? c->offset : s->runs[c->run].offset);
    if (spex_perfdata_next(s->file, &e) != SPEX_OK || e.type != SPEX_PERF_SAMPLE)
        return false;
    c->done++;
    c->offset = e.offset + e.size;
    c->time = e.time;
    c->ip = e.u.sample.ip;
    c->stack = find_stack(s, &e, s->blocks ? 1 : 2);
    if (s->blocks)
        c->stack = allocs_number(s->blocks, s->table, &e, c->stack);
    c->ahead = true;
    return true;
}

void stacks_join(struct stacks *s, struct stacks_cursor *c, const struct spex_record *records,
                 const uint64_t *times, size_t count, uint32_t *out)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t pc = spex_address_bits(records[i].address[SPEX_ADDRESS_PC]);
        out[i] = 0;
        if (!s->exact || !(records[i].present & SPEX_HAS_TIMESTAMP))
            continue;
        /* Both are ordered by time. Where one has no partner, the other was lost. */
        while ((c->ahead || next_stack(s, c)) &&
               (c->time < times[i] || (c->time == times[i] && spex_address_bits(c->ip) != pc)))
            c->ahead = false;
        if (c->ahead && c->time == times[i]) {
            out[i] = c->stack;
            c->ahead = false;
        }
    }
}

/* ---- stacks of a companion event ---- */

static uintptr_t function_of(const struct spex_symbol *symbol, const struct spex_module *module)
{
    return symbol ? (uintptr_t)symbol : (uintptr_t)module | 1;
}

static int by_function(const void *a, const void *b)
{
    const struct seen_call *x = a, *y = b;
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    return x->call < y->call ? -1 : x->call > y->call;
}

/* Merges equal entries. */
static void merge_seen(struct stacks *s)
{
    size_t n = 0;
    if (s->seen_count)
        qsort(s->seen, s->seen_count, sizeof *s->seen, by_function);
    for (size_t i = 0; i < s->seen_count; i++)
        if (n && !by_function(&s->seen[n - 1], &s->seen[i]))
            s->seen[n - 1].count += s->seen[i].count;
        else
            s->seen[n++] = s->seen[i];
    s->seen_count = n;
}

static void read_companion(struct stacks *s)
{
    enum { MANY = 1 << 16 };
    struct spex_perf_event e;
    size_t merged = 0;
    spex_perfdata_rewind(s->file);
    while (spex_perfdata_next(s->file, &e) == SPEX_OK) {
        if (e.type != SPEX_PERF_SAMPLE || e.attr != s->attr)
            continue;
        const uint64_t *chain = e.u.sample.callchain;
        size_t i = 0;
        while (i < e.u.sample.callchain_count && chain[i] >= CONTEXT)
            i++;
        if (i == e.u.sample.callchain_count)
            continue;
        uint32_t maps[2];
        uint64_t ip = e.attr->sample_type & SPEX_PERF_SAMPLE_IP ? e.u.sample.ip : chain[i];
        analysis_maps(s->analysis, e.pid, e.time, maps);
        const struct spex_place leaf =
            *analysis_code_place(s->analysis, maps[ip >> 63], e.pid, e.time, ip);
        s->seen = memory_grow(s->seen, s->seen_count, &s->seen_room, sizeof *s->seen);
        s->seen[s->seen_count++] =
            (struct seen_call){function_of(leaf.symbol, leaf.module), find_stack(s, &e, i + 1), 1};
        if (s->seen_count >= 2 * merged + MANY) {
            merge_seen(s);
            merged = s->seen_count;
        }
    }
    merge_seen(s);
    for (size_t i = 1; i < s->seen_count; i++)
        if (s->seen[i].function == s->seen[i - 1].function)
            s->seen[i].count += s->seen[i - 1].count;
}

/* How many entries are not after this function. */
static size_t seen_up_to(const struct stacks *s, uintptr_t function, bool with)
{
    return SEARCH(i, 0, s->seen_count,
                  s->seen[i].function < function || (with && s->seen[i].function == function));
}

uint32_t stacks_guess(const struct stacks *s, const struct spex_sample *sample)
{
    uintptr_t function = function_of(sample->symbol, sample->module);
    size_t first = seen_up_to(s, function, false), end = seen_up_to(s, function, true);
    if (first == end)
        return 0;
    uint64_t all = s->seen[end - 1].count;
    /* chosen by a hash of the record, so that asking twice gives the same answer */
    uint64_t at = hash_word(UINT64_C(0x243f6a8885a308d3), sample->record->offset) % all;
    while (s->seen[first].count <= at)
        first++;
    return s->seen[first].call;
}

/* ---- making and freeing ---- */

static const struct spex_perf_attr *find_attr(const struct spex_perfdata *file, bool *exact)
{
    const struct spex_perf_attr *companion = NULL;
    size_t length = strlen(CALLCHAIN_EVENT);
    *exact = false;
    for (size_t i = 0; i < spex_perfdata_attr_count(file); i++) {
        const struct spex_perf_attr *attr = spex_perfdata_attr(file, i);
        if (attr->spe || !(attr->sample_type & SPEX_PERF_SAMPLE_CALLCHAIN))
            continue;
        if (!strncmp(attr->name, ALLOCATION_EVENT, strlen(ALLOCATION_EVENT)) ||
            !strncmp(attr->name, ELAPSED_EVENT, strlen(ELAPSED_EVENT)))
            continue;
        if (!strncmp(attr->name, CALLCHAIN_EVENT, length)) {
            *exact = true;
            return attr;
        }
        companion = companion ? companion : attr;
    }
    return companion;
}

static struct stacks *new_stacks(struct spex_analysis *analysis, struct spex_perfdata *file,
                                 const struct spex_perf_attr *attr, bool exact,
                                 struct stacks_table **table)
{
    struct stacks *s = memory_get(1, sizeof *s);
    if (!*table)
        *table = memory_get(1, sizeof **table);
    s->table = *table;
    s->analysis = analysis;
    s->file = file;
    s->attr = attr;
    s->exact = exact;
    return s;
}

struct stacks *stacks_new(struct spex_analysis *analysis, struct spex_perfdata *file,
                          struct stacks_table **table)
{
    bool exact;
    const struct spex_perf_attr *attr = file ? find_attr(file, &exact) : NULL;
    return attr ? new_stacks(analysis, file, attr, exact, table) : NULL;
}

struct stacks *stacks_new_allocs(struct spex_analysis *analysis, struct spex_perfdata *file,
                                 struct stacks_table **table, struct allocs_table **blocks)
{
    const uint64_t parts = SPEX_PERF_SAMPLE_IP | SPEX_PERF_SAMPLE_TIME | SPEX_PERF_SAMPLE_ADDR |
                           SPEX_PERF_SAMPLE_PERIOD | SPEX_PERF_SAMPLE_CALLCHAIN;
    for (size_t i = 0; file && i < spex_perfdata_attr_count(file); i++) {
        const struct spex_perf_attr *attr = spex_perfdata_attr(file, i);
        if (strncmp(attr->name, ALLOCATION_EVENT, strlen(ALLOCATION_EVENT)) != 0 ||
            (attr->sample_type & parts) != parts)
            continue;
        struct stacks *s = new_stacks(analysis, file, attr, true, table);
        s->blocks = blocks;
        return s;
    }
    return NULL;
}

void stacks_read(struct stacks *s)
{
    struct stacks_table *table = s->table;
    if (!table->calls) {
        reindex(table, 1023);
        table->calls = memory_grow(NULL, 0, &table->room, sizeof *table->calls);
        table->calls[0] = (struct spex_call){0};
        table->count = 1;
    }
    if (s->read)
        return;
    s->read = true;
    if (s->exact)
        find_runs(s);
    else
        read_companion(s);
}

void stacks_table_free(struct stacks_table *table)
{
    if (!table)
        return;
    memory_free(table->calls);
    memory_free(table->index);
    memory_free(table);
}

void stacks_free(struct stacks *s)
{
    if (!s)
        return;
    memory_free(s->runs);
    memory_free(s->last);
    memory_free(s->numbers);
    memory_free(s->seen);
    memory_free(s);
}

enum spex_stacks stacks_kind(const struct stacks *s)
{
    return !s ? SPEX_STACKS_NONE : s->exact ? SPEX_STACKS_EXACT : SPEX_STACKS_COMPANION;
}

const char *stacks_event(const struct stacks *s)
{
    return !s ? "" : *s->attr->name ? s->attr->name : "another event";
}

const struct spex_call *stacks_call(const struct stacks_table *table, uint32_t n)
{
    static const struct spex_call none;
    return table && n < table->count ? &table->calls[n] : &none;
}

size_t stacks_count(const struct stacks_table *table)
{
    return table && table->count ? table->count : 1;
}
