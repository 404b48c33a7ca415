/*
 * Grouping samples by a few keys.
 *
 * Rows live in chunks and are found through an open-addressed index of
 * (hash tag, row number). When the limit of rows is reached, the rows with the
 * fewest samples are merged into one "rest" row and their places reused, so the
 * large rows stay and each may be short by at most the samples it had when it
 * was merged: the sum of those thresholds is the error bound.
 */
#include "allocs.h"
#include "histogram.h"
#include "internal.h"
#include "module.h"
#include "stacks.h"
#include "types.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/sized.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_BITS = 12,
    CHUNK = 1 << CHUNK_BITS,
    CACHE_LINE = 64, /* of the machine we run on */
    STEP = 64,       /* samples taken together */
    COARSER = 2,     /* groups derived from one */
    SLOTS_MAX = 2 * SPEX_KEYS_MAX,
    RANK_BITS = 12,
    RANKS = 1 << RANK_BITS,
    /* bytes for histograms: the more rows, the less is left for them */
    HISTOGRAMS_MOST = 64 << 20,
    HISTOGRAMS_LEAST = 16 << 20,
};

/* slots: 64-bit words that identify the key; numeric: the first word is its order. */
static const struct {
    const char *name, *help;
    uint8_t slots;
    bool numeric;
} keys[SPEX_KEY_COUNT] = {
    [SPEX_KEY_SYMBOL] = {"symbol", "function", 2},
    [SPEX_KEY_DSO] = {"dso", "file or kernel that holds the code", 1},
    [SPEX_KEY_SRCLINE] = {"srcline", "source file and line", 2},
    [SPEX_KEY_PC] = {"pc", "instruction address", 2},
    [SPEX_KEY_COMM] = {"comm", "thread name", 1},
    [SPEX_KEY_PID] = {"pid", "process", 1, true},
    [SPEX_KEY_TID] = {"tid", "thread", 1, true},
    [SPEX_KEY_CPU] = {"cpu", "CPU", 1, true},
    [SPEX_KEY_OP] = {"op", "kind of operation", 1, true},
    [SPEX_KEY_SOURCE] = {"source", "where data came from", 1, true},
    [SPEX_KEY_DATA_SYMBOL] = {"data-symbol", "variable or mapping of the data address", 2},
    [SPEX_KEY_DATA_DSO] = {"data-dso", "mapping of the data address", 1},
    [SPEX_KEY_PAGE] = {"page", "4 KiB page of the data address", 2, true},
    [SPEX_KEY_CACHE_LINE] = {"line", "64-byte cache line of the data address", 2, true},
    [SPEX_KEY_OFFSET] = {"offset", "offset in the cache line", 1, true},
    [SPEX_KEY_TARGET] = {"target", "branch target", 2, true},
    [SPEX_KEY_PREV_TARGET] = {"prev-target", "target of the previous taken branch", 2, true},
    [SPEX_KEY_LATENCY] = {"latency", "total latency, by powers of two", 1, true},
    [SPEX_KEY_CALLER] = {"caller", "function that called this one; needs call stacks", 2},
    [SPEX_KEY_STACK] = {"stack",
                        "calls around it, the nearest first, by call site; needs call stacks", 1},
    [SPEX_KEY_ALLOC] = {"alloc", "where the data was allocated; needs record --allocs", 2},
    [SPEX_KEY_BLOCK_OFFSET] = {"block-offset", "offset in the block that was allocated", 1, true},
    [SPEX_KEY_TYPE] = {"type", "type of the data, from debug information", 1},
    [SPEX_KEY_MEMBER] = {"member", "member of that type", 1},
    [SPEX_KEY_TYPE_OFFSET] = {"type-offset", "offset of that member in the type", 1, true},
    [SPEX_KEY_TYPE_LINE] = {"type-line", "the same, in cache lines of 64 bytes", 1, true},
    [SPEX_KEY_TIME_BIN] = {"time-bin", "interval of time, by its start in seconds", 1, true},
};

const char *spex_key_name(enum spex_key key)
{
    return keys[key].name;
}

const char *spex_key_help(enum spex_key key)
{
    return keys[key].help;
}

unsigned spex_key_wants(enum spex_key key)
{
    switch (key) {
    case SPEX_KEY_DATA_SYMBOL:
    case SPEX_KEY_DATA_DSO:
    case SPEX_KEY_PAGE:
    case SPEX_KEY_CACHE_LINE:
    case SPEX_KEY_OFFSET:
        return SPEX_WANT_LITTLE | SPEX_WANT_DATA;
    case SPEX_KEY_ALLOC:
    case SPEX_KEY_BLOCK_OFFSET:
        return SPEX_WANT_LITTLE | SPEX_WANT_DATA | SPEX_WANT_ALLOC;
    case SPEX_KEY_TARGET:
    case SPEX_KEY_PREV_TARGET:
        return SPEX_WANT_LITTLE | SPEX_WANT_BRANCH;
    case SPEX_KEY_SYMBOL:
    case SPEX_KEY_DSO:
    case SPEX_KEY_SRCLINE:
    case SPEX_KEY_PC:
        return SPEX_WANT_LITTLE | SPEX_WANT_SYMBOL;
    case SPEX_KEY_TIME_BIN:
        return SPEX_WANT_LITTLE | SPEX_WANT_TIME;
    case SPEX_KEY_CALLER:
    case SPEX_KEY_STACK:
        return SPEX_WANT_LITTLE | SPEX_WANT_SYMBOL | SPEX_WANT_STACK;
    case SPEX_KEY_TYPE:
    case SPEX_KEY_MEMBER:
    case SPEX_KEY_TYPE_OFFSET:
    case SPEX_KEY_TYPE_LINE:
        return SPEX_WANT_LITTLE | SPEX_WANT_SYMBOL | SPEX_WANT_DATA;
    default:
        return SPEX_WANT_LITTLE;
    }
}

bool spex_key_parse(const char *name, size_t length, enum spex_key *key)
{
    static const struct {
        const char *name;
        enum spex_key key;
    } aliases[] = {{"sym", SPEX_KEY_SYMBOL},
                   {"ip", SPEX_KEY_PC},
                   {"symbol_daddr", SPEX_KEY_DATA_SYMBOL},
                   {"dso_daddr", SPEX_KEY_DATA_DSO},
                   {"dcacheline", SPEX_KEY_CACHE_LINE},
                   {"mem", SPEX_KEY_SOURCE}};
    for (unsigned k = 0; k < SPEX_KEY_COUNT; k++)
        if (strlen(keys[k].name) == length && !strncmp(keys[k].name, name, length)) {
            *key = k;
            return true;
        }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strlen(aliases[i].name) == length && !strncmp(aliases[i].name, name, length)) {
            *key = aliases[i].key;
            return true;
        }
    return false;
}

static const uint64_t PAGE_MASK = ~UINT64_C(0xfff);

struct index_entry {
    uint32_t tag, row; /* row + 1; 0 free */
};

struct memo { /* the row of a pc; NULL not known */
    const struct spex_module *module;
    const struct spex_symbol *symbol;
    uint64_t address;
    struct spex_row *row;
};

struct spex_group {
    struct spex_analysis *analysis;
    struct memo *memo; /* by place */
    struct place_cache *data_places;
    bool by_place; /* all keys follow from the pc */
    struct spex_group *finer, *coarser[COARSER];
    enum spex_key keys[SPEX_KEYS_MAX];
    uint8_t first_slot[SPEX_KEYS_MAX + 1];
    size_t key_count, slots, stride;
    size_t histograms_at; /* in a row, if there are flags: handles by latency */
    uint64_t seed; /* the hash of a key is that of its words one after the other, from this */
    unsigned flags;
    unsigned time_shift;
    char **chunks;
    size_t count, chunk_count;
    struct index_entry *index;
    size_t mask;
    struct histograms histograms;
    struct spex_row *rest, *total;
    uint8_t *ranks; /* of keys that came, to estimate how many once rows are merged */
    uint64_t error;
    size_t limit;
    struct sorted *order;
    struct {
        const struct spex_row *row; /* NULL: there is none, or it was moved */
        uint32_t queue;
        int32_t tid;
    } last;      /* sample */
    bool failed; /* memory was out: only the end is certain */
};

/* Of intervals of which the file has 64 to 128. */
static unsigned usual_shift(const struct spex_analysis *analysis)
{
    uint64_t first = 0, last = 0;
    if (analysis)
        analysis_extent(analysis, &first, &last);
    uint64_t span = last > first ? last - first : 0;
    return span > 128 ? 57 - (unsigned)__builtin_clzll(span) : 1;
}

enum spex_status spex_group_new(struct spex_analysis *analysis,
                                const struct spex_group_options *options, struct spex_group **group,
                                struct spex_error *error)
{
    struct spex_group_options o;
    enum spex_status status = sized_take("spex_group_options", options, &o, sizeof o, error);
    if (status)
        return status;
    if (!o.key_count || o.key_count > SPEX_KEYS_MAX)
        return error_set(error, SPEX_RANGE, 0, "%zu keys; 1 to %d", o.key_count, SPEX_KEYS_MAX);
    for (size_t i = 0; i < o.key_count; i++)
        if ((unsigned)o.keys[i] >= SPEX_KEY_COUNT)
            return error_set(error, SPEX_UNSUPPORTED, 0, "no key %u", (unsigned)o.keys[i]);
    struct spex_group *g = calloc(1, sizeof *g);
    if (!g)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a table");
    g->analysis = analysis;
    g->seed = hash_seed();
    g->key_count = o.key_count;
    g->by_place = true;
    for (size_t i = 0; i < o.key_count; i++) {
        enum spex_key by = o.keys[i];
        g->by_place &= by == SPEX_KEY_SYMBOL || by == SPEX_KEY_PC || by == SPEX_KEY_DSO ||
                       by == SPEX_KEY_SRCLINE;
        g->keys[i] = by;
        g->first_slot[i] = (uint8_t)g->slots;
        g->slots += keys[by].slots;
    }
    g->flags = o.flags;
    g->time_shift = o.time_shift ? o.time_shift & 63 : usual_shift(analysis);
    g->histograms_at = sizeof(struct spex_row) + g->slots * sizeof(uint64_t);
    g->stride = g->histograms_at + (o.flags ? SPEX_LATENCY_COUNT * sizeof(uint32_t) : 0);
    g->mask = 1023;
    g->index = calloc(g->mask + 1, sizeof *g->index);
    g->limit = SPEX_GROUP_MAX + CHUNK; /* room is made for several at a time */
    g->total = calloc(1, g->stride);
    g->ranks = calloc(RANKS, sizeof *g->ranks);
    bool done = memory_guarded(histograms_init(&g->histograms, HISTOGRAMS_MOST));
    if (!done || !g->index || !g->total || !g->ranks) {
        spex_group_free(g);
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a table");
    }
    *group = g;
    return SPEX_OK;
}

uint64_t spex_row_stat(const struct spex_row *row, enum spex_stat stat)
{
    static const uint16_t at[SPEX_STAT_COUNT] = {
#define STAT(name, field) [SPEX_STAT_##name] = offsetof(struct spex_stats, field)
        STAT(SAMPLES, samples),
        STAT(RETIRED, retired),
        STAT(READS, reads),
        STAT(WRITES, writes),
        STAT(BRANCHES, branches),
        STAT(NOT_TAKEN, not_taken),
        STAT(MISPREDICTED, mispredicted),
        STAT(L1_ACCESS, l1_access),
        STAT(L1_MISS, l1_miss),
        STAT(L2_ACCESS, l2_access),
        STAT(L2_MISS, l2_miss),
        STAT(LLC_ACCESS, llc_access),
        STAT(LLC_MISS, llc_miss),
        STAT(TLB_ACCESS, tlb_access),
        STAT(TLB_WALK, tlb_walk),
        STAT(REMOTE, remote),
        STAT(PEER, peer),
        STAT(MODIFIED, modified),
#undef STAT
    };
    if ((unsigned)stat >= SPEX_STAT_COUNT)
        return 0;
    return *(const uint32_t *)((const char *)&row->stats + at[stat]);
}

uint64_t spex_row_source(const struct spex_row *row, enum spex_source source)
{
    return (unsigned)source < SPEX_SOURCE_COUNT ? row->stats.source[source] : 0;
}

uint64_t spex_row_latencies(const struct spex_row *row, enum spex_latency latency, uint64_t *sum)
{
    assert((unsigned)latency < SPEX_LATENCY_COUNT);
    if (sum)
        *sum = row->stats.latency_sum[latency];
    return latency == SPEX_LATENCY_EXECUTE ? row->stats.executes
                                           : row->stats.latency_count[latency];
}

double spex_row_time(const struct spex_row *row)
{
    return (double)row->stats.time / 1000;
}

void group_set_limit(struct spex_group *g, size_t limit)
{
    g->limit = limit;
}

void spex_group_free(struct spex_group *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->chunk_count; i++)
        free(g->chunks[i]);
    free(g->chunks);
    free(g->index);
    free(g->memo);
    place_cache_free(g->data_places);
    free(g->order);
    free(g->rest);
    free(g->total);
    free(g->ranks);
    histograms_free(&g->histograms);
    free(g);
}

static inline struct spex_row *row_at(const struct spex_group *g, size_t index)
{
    return (struct spex_row *)(g->chunks[index >> CHUNK_BITS] + (index & (CHUNK - 1)) * g->stride);
}

/* Of a row of a group with flags. */
static inline uint32_t *handles(const struct spex_group *g, const struct spex_row *row)
{
    return (uint32_t *)((uintptr_t)row + g->histograms_at);
}

static void index_row(struct spex_group *g, uint64_t hash, size_t row)
{
    size_t i = hash & g->mask;
    while (g->index[i].row)
        i = (i + 1) & g->mask;
    g->index[i] = (struct index_entry){(uint32_t)(hash >> 32), (uint32_t)row + 1};
}

static void reindex(struct spex_group *g, size_t mask)
{
    if (mask != g->mask) {
        struct index_entry *index = memory_get(mask + 1, sizeof *index);
        free(g->index);
        g->index = index;
        g->mask = mask;
    } else {
        memset(g->index, 0, (mask + 1) * sizeof *g->index);
    }
    for (size_t i = 0; i < g->count; i++) {
        uint64_t hash = g->seed;
        for (size_t k = 0; k < g->slots; k++)
            hash = hash_word(hash, row_at(g, i)->key[k]);
        index_row(g, hash, i);
    }
}

static void add_stats(struct spex_group *g, struct spex_row *to, const struct spex_group *of,
                      const struct spex_row *from)
{
    /* everything before the sums is an array of 32-bit counts */
    const uint32_t *n = (const uint32_t *)&from->stats;
    uint32_t *m = (uint32_t *)&to->stats;
    for (size_t i = 0; i < offsetof(struct spex_stats, latency_sum) / sizeof *m; i++)
        m[i] += n[i];
    to->flags |= from->flags;
    to->stats.time += from->stats.time;
    to->stats.time_square += from->stats.time_square;
    for (unsigned l = 0; l < SPEX_LATENCY_COUNT; l++) {
        to->stats.latency_sum[l] += from->stats.latency_sum[l];
        if (g->flags && of->flags)
            histogram_merge(&g->histograms, &handles(g, to)[l], &of->histograms,
                            handles(of, from)[l]);
    }
}

static void roll_up(struct spex_group *g, const struct spex_group *finer,
                    const struct spex_row *from);

static int compare_counts(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Merges at least half of the rows, the smallest, into the rest row. */
static void shrink(struct spex_group *g)
{
    if (!g->rest)
        g->rest = memory_get(1, g->stride);
    uint32_t *counts = memory_get(g->count, sizeof *counts);
    for (size_t i = 0; i < g->count; i++)
        counts[i] = row_at(g, i)->stats.samples;
    qsort(counts, g->count, sizeof *counts, compare_counts);
    uint32_t threshold = counts[g->count / 2];
    free(counts);
    size_t kept = 0;
    for (size_t i = 0; i < g->count; i++) {
        struct spex_row *row = row_at(g, i);
        if (row->stats.samples <= threshold) {
            add_stats(g, g->rest, g, row);
            for (unsigned c = 0; c < COARSER && g->coarser[c]; c++)
                roll_up(g->coarser[c], g, row);
            /* the histogram's words are not reused: the arena has its own limit */
        } else {
            if (kept != i)
                memcpy(row_at(g, kept), row, g->stride);
            kept++;
        }
    }
    g->count = kept;
    g->last.row = NULL;
    g->error += threshold;
    reindex(g, g->mask);
    if (g->memo) /* rows have moved */
        memset(g->memo, 0, SPEX_PLACES * sizeof *g->memo);
}

/*
 * How many keys there were is estimated with HyperLogLog: of those whose hash begins alike, the
 * longest run of zeros at its end. The hash has no seed, so that the number is always the same.
 */
static void rank_key(struct spex_group *g, const struct spex_row *row)
{
    uint64_t hash = UINT64_C(0x243f6a8885a308d3);
    for (size_t k = 0; k < g->slots; k++)
        hash = hash_word(hash, row->key[k]);
    hash = hash_word(hash, UINT64_C(0x13198a2e03707344));
    uint8_t rank = (uint8_t)(1 + __builtin_ctzll(hash | UINT64_C(1) << 51)), *most;
    most = &g->ranks[hash >> (64 - RANK_BITS)];
    *most = rank > *most ? rank : *most;
}

uint64_t spex_group_keys(const struct spex_group *g)
{
    double sum = 0;
    if (!g->rest)
        return g->count;
    for (size_t i = 0; i < RANKS; i++)
        sum += ldexp(1, -g->ranks[i]);
    double all = 0.7213 / (1 + 1.079 / RANKS) * RANKS * RANKS / sum;
    return all > (double)g->count ? (uint64_t)all : g->count;
}

/* Room for more rows, so that pointers to rows stay good while that many are added. */
static void make_room(struct spex_group *g, size_t more)
{
    size_t chunk = CHUNK * g->stride;
    bool grows = g->count + more > g->chunk_count << CHUNK_BITS;
    if (grows && g->chunk_count > 4 && !memory_allows(4 * chunk + 2 * g->mask * sizeof *g->index))
        g->limit = g->count; /* merge here, not where there is no memory */
    if (g->count + more > g->limit)
        shrink(g);
    while ((g->count + more) * 4 > (g->mask + 1) * 3)
        reindex(g, g->mask * 2 + 1);
    while (g->count + more > g->chunk_count << CHUNK_BITS) {
        g->chunks = memory_resize(g->chunks, g->chunk_count + 1, sizeof *g->chunks);
        g->chunks[g->chunk_count] = memory_aligned(CACHE_LINE, chunk);
        g->chunk_count++;
        size_t rows = g->chunk_count * CHUNK * g->stride / 4;
        histograms_limit(&g->histograms, rows < HISTOGRAMS_MOST - HISTOGRAMS_LEAST
                                             ? HISTOGRAMS_MOST - rows
                                             : HISTOGRAMS_LEAST);
    }
}

/*
 * After make_room. The words of the key are step apart: keys of several samples stand side by
 * side, the first words of all, then the second ones.
 */
static inline struct spex_row *find_row(struct spex_group *g, size_t slots, const uint64_t *key,
                                        size_t step, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    size_t i = hash & g->mask;
    for (; g->index[i].row; i = (i + 1) & g->mask) {
        if (g->index[i].tag != tag)
            continue;
        struct spex_row *row = row_at(g, g->index[i].row - 1);
        uint64_t differ = 0;
        for (size_t k = 0; k < slots; k++)
            differ |= row->key[k] ^ key[k * step];
        if (!differ)
            return row;
    }
    g->index[i] = (struct index_entry){tag, (uint32_t)++g->count};
    struct spex_row *row = row_at(g, g->count - 1);
    memset(row, 0, g->stride);
    for (size_t k = 0; k < slots; k++)
        row->key[k] = key[k * step];
    rank_key(g, row);
    return row;
}

/* A key of an address without symbol: the module's pointer, marked, and the address. */
#define MARK 1u

static inline void place_key(const struct spex_symbol *symbol, const struct spex_module *module,
                             uint64_t address, uint64_t *word0, uint64_t *word1)
{
    uint64_t none = -(uint64_t)!symbol; /* a branch would often not be foreseen */
    *word0 = (uintptr_t)symbol | (((uintptr_t)module | MARK) & none);
    *word1 = address & none;
}

static void srcline_key(struct spex_group *g, const struct spex_sample *s, uint64_t *word0,
                        uint64_t *word1)
{
    struct spex_line line = {0};
    if (s->module)
        analysis_line(g->analysis, s->module, s->address, &line);
    *word0 = line.file ? (uintptr_t)line.file : (uintptr_t)s->module | MARK;
    *word1 = line.file ? line.line | (uint64_t)1 << 63 : s->address;
}

static void caller_key(struct spex_group *g, const struct spex_sample *s, uint64_t *word0,
                       uint64_t *word1)
{
    uint32_t n = analysis_stack(g->analysis, s);
    const struct stacks_call *call = analysis_call(g->analysis, n);
    *word0 = *word1 = MARK; /* nobody */
    if (n)
        place_key(call->symbol, call->module, call->address, word0, word1);
}

/* A key of a site: its number, marked. */
#define SITE 2u

static void alloc_key(struct spex_group *g, const struct spex_sample *s, uint64_t *word0,
                      uint64_t *word1)
{
    uint32_t n = analysis_alloc(g->analysis, s);
    const struct spex_place *place =
        n ? NULL : analysis_data_place(g->analysis, &g->data_places, s);
    *word0 = (uint64_t)analysis_block(g->analysis, n)->site << 2 | SITE;
    *word1 = 0;
    if (!n)
        place_key(place->symbol, place->module, s->va >> 63, word0, word1);
}

static uint64_t block_offset(const struct spex_group *g, const struct spex_sample *s)
{
    uint32_t n = analysis_alloc(g->analysis, s);
    return n ? s->va - analysis_block(g->analysis, n)->start : UINT64_MAX;
}

/* Data addresses of the kernel are the same in every process. */
static inline uint64_t space_of(const struct spex_sample *s)
{
    return s->va >> 63 ? UINT64_MAX : (uint64_t)(int64_t)s->pid;
}

/* The words of one key of count samples. */
static void make_keys(struct spex_group *g, enum spex_key kind,
                      const struct spex_sample *const *samples, size_t count,
                      uint64_t (*word)[STEP])
{
#define EACH(statement)                                                                            \
    for (size_t i = 0; i < count; i++) {                                                           \
        const struct spex_sample *s = samples[i];                                                  \
        statement;                                                                                 \
    }                                                                                              \
    break
    switch (kind) {
    case SPEX_KEY_SYMBOL:
        EACH(place_key(s->symbol, s->module, s->address, &word[0][i], &word[1][i]));
    case SPEX_KEY_CALLER:
        EACH(caller_key(g, s, &word[0][i], &word[1][i]));
    case SPEX_KEY_STACK:
        EACH(word[0][i] = analysis_stack(g->analysis, s));
    case SPEX_KEY_ALLOC:
        EACH(alloc_key(g, s, &word[0][i], &word[1][i]));
    case SPEX_KEY_BLOCK_OFFSET:
        EACH(word[0][i] = block_offset(g, s));
    case SPEX_KEY_DSO:
        EACH(word[0][i] = (uintptr_t)(s->module ? s->module->whole : NULL));
    case SPEX_KEY_SRCLINE:
        EACH(srcline_key(g, s, &word[0][i], &word[1][i]));
    case SPEX_KEY_PC:
        EACH(word[0][i] = (uintptr_t)s->module; word[1][i] = s->address);
    case SPEX_KEY_COMM:
        EACH(word[0][i] = (uintptr_t)s->comm);
    case SPEX_KEY_PID:
        EACH(word[0][i] = (uint64_t)(int64_t)s->pid);
    case SPEX_KEY_TID:
        EACH(word[0][i] = (uint64_t)(int64_t)s->tid);
    case SPEX_KEY_CPU:
        EACH(word[0][i] = (uint64_t)(int64_t)s->cpu);
    case SPEX_KEY_OP:
        EACH(word[0][i] = s->record->present & SPEX_HAS_OP
                              ? OP_INDEX(s->record->op_class, s->record->op_payload)
                              : UINT32_MAX);
    case SPEX_KEY_SOURCE:
        EACH(word[0][i] = s->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES) ? s->source
                                                                              : SPEX_SOURCE_COUNT);
    case SPEX_KEY_DATA_SYMBOL:
        EACH(const struct spex_place *place = analysis_data_place(g->analysis, &g->data_places, s);
             place_key(place->symbol, place->module, s->va >> 63, &word[0][i], &word[1][i]));
    case SPEX_KEY_DATA_DSO:
        EACH(word[0][i] = (uintptr_t)analysis_data_place(g->analysis, &g->data_places, s)->module);
    case SPEX_KEY_TYPE:
        EACH(word[0][i] = (uintptr_t)analysis_member(g->analysis, &g->data_places, s)->type);
    case SPEX_KEY_MEMBER:
        EACH(word[0][i] = (uintptr_t)analysis_member(g->analysis, &g->data_places, s));
    case SPEX_KEY_TYPE_OFFSET:
        EACH(word[0][i] = analysis_member(g->analysis, &g->data_places, s)->offset);
    case SPEX_KEY_TYPE_LINE:
        EACH(word[0][i] = analysis_member(g->analysis, &g->data_places, s)->offset / 64);
    case SPEX_KEY_PAGE:
        EACH(word[0][i] = s->va & PAGE_MASK; word[1][i] = space_of(s));
    case SPEX_KEY_CACHE_LINE:
        EACH(word[0][i] = s->va & ~UINT64_C(63); word[1][i] = space_of(s));
    case SPEX_KEY_OFFSET:
        EACH(word[0][i] = s->va & 63);
    case SPEX_KEY_TARGET:
        EACH(word[0][i] = s->target; word[1][i] = (uint64_t)(int64_t)s->pid);
    case SPEX_KEY_PREV_TARGET:
        EACH(word[0][i] = s->prev_target; word[1][i] = (uint64_t)(int64_t)s->pid);
    case SPEX_KEY_LATENCY:
        EACH(word[0][i] = s->record->total ? 32 - (unsigned)__builtin_clz(s->record->total) : 0);
    case SPEX_KEY_TIME_BIN:
        EACH(word[0][i] = s->flags & SPEX_SAMPLE_TIMED ? s->time >> g->time_shift : UINT64_MAX);
    case SPEX_KEY_COUNT:
        break;
    }
#undef EACH
}

/*
 * Twenty yes/no facts as bits in the order of struct spex_stats: events 1 to 10 and 19 to 21,
 * answered by a peer, reads, writes, the three latencies, branch; counted four at a time.
 */
typedef uint32_t four __attribute__((vector_size(16), aligned(8)));

static inline void count_facts(struct spex_stats *t, const struct spex_sample *s)
{
#define BITS(n)                                                                                    \
    {                                                                                              \
        1u << (n), 2u << (n), 4u << (n), 8u << (n)                                                 \
    }
    static const four masks[5] = {BITS(0), BITS(4), BITS(8), BITS(12), BITS(16)};
#undef BITS
    uint64_t e = s->record->events;
    uint32_t facts = (uint32_t)((e >> 1 & 0x3ff) | (e >> 19 & 7) << 10) |
                     (s->flags >> 1 & 7u) << 13 | (s->record->present >> 5 & 7u) << 16 |
                     (uint32_t)(s->op == SPEX_SAMPLE_BRANCH) << 19;
    four all = {facts, facts, facts, facts};
    four *counts = (four *)t;
    counts[0] -= (four)((all & masks[0]) == masks[0]); /* true is all ones: minus one */
    counts[1] -= (four)((all & masks[1]) == masks[1]);
    counts[2] -= (four)((all & masks[2]) == masks[2]);
    counts[3] -= (four)((all & masks[3]) == masks[3]);
    counts[4] -= (four)((all & masks[4]) == masks[4]);
}

_Static_assert(SPEX_EV_RETIRED == 1 && SPEX_EV_REMOTE == 10 && SPEX_EV_L2D_ACCESS == 19 &&
                   SPEX_EV_MODIFIED == 21 && SPEX_SAMPLE_PEER == 2 && SPEX_SAMPLE_READS == 4 &&
                   SPEX_SAMPLE_WRITES == 8 && SPEX_HAS_TOTAL == 1 << 5 &&
                   SPEX_HAS_ISSUE == 1 << 6 && SPEX_HAS_TRANSLATION == 1 << 7 &&
                   offsetof(struct spex_stats, latency_count) == 64 &&
                   offsetof(struct spex_stats, samples) == 80,
               "the order of struct spex_stats");

/*
 * Counts without branches on what varies from record to record: absent fields
 * are 0 and add nothing. histograms: which of the latencies have one, as bits.
 */
static inline __attribute__((always_inline)) void count_sample(struct spex_group *g,
                                                               struct spex_row *row,
                                                               const struct spex_sample *s,
                                                               unsigned histograms)
{
    const struct spex_record *r = s->record;
    struct spex_stats *t = &row->stats;
    unsigned present = r->present;
    count_facts(t, s);
    t->samples++;
    row->flags |= s->flags;
    t->source[s->source] += (s->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES)) != 0;
    t->latency_sum[SPEX_LATENCY_TOTAL] += r->total;
    t->latency_sum[SPEX_LATENCY_ISSUE] += r->issue;
    t->latency_sum[SPEX_LATENCY_TRANSLATION] += r->translation;
    unsigned execute = r->total > r->issue ? r->total - r->issue : 0;
    bool known = present & SPEX_HAS_TOTAL && !(s->flags & SPEX_SAMPLE_LEAST_ISSUE);
    t->executes += known;
    double ns = (double)s->spent * 1e-3;
    t->latency_sum[SPEX_LATENCY_EXECUTE] += execute;
    t->time += s->spent;
    t->time_square += ns * ns;
    if (histograms & 1u << SPEX_LATENCY_TOTAL && present & SPEX_HAS_TOTAL)
        histogram_count(&g->histograms, &handles(g, row)[SPEX_LATENCY_TOTAL], r->total);
    if (histograms & 1u << SPEX_LATENCY_EXECUTE && known)
        histogram_count(&g->histograms, &handles(g, row)[SPEX_LATENCY_EXECUTE], execute);
    if (histograms & 1u << SPEX_LATENCY_ISSUE && present & SPEX_HAS_ISSUE)
        histogram_count(&g->histograms, &handles(g, row)[SPEX_LATENCY_ISSUE], r->issue);
    if (histograms & 1u << SPEX_LATENCY_TRANSLATION && present & SPEX_HAS_TRANSLATION)
        histogram_count(&g->histograms, &handles(g, row)[SPEX_LATENCY_TRANSLATION], r->translation);
}

/* The choice is made outside the loops. */
static void count_samples(struct spex_group *g, struct spex_row *const *rows,
                          const struct spex_sample *const *samples, size_t count)
{
    if (g->flags & SPEX_GROUP_ALL_PERCENTILES)
        for (size_t i = 0; i < count; i++)
            count_sample(g, rows[i], samples[i], (1u << SPEX_LATENCY_COUNT) - 1);
    else if (g->flags & SPEX_GROUP_PERCENTILES)
        for (size_t i = 0; i < count; i++)
            count_sample(g, rows[i], samples[i], 1u << SPEX_LATENCY_TOTAL);
    else if (g->flags & SPEX_GROUP_EXECUTE)
        for (size_t i = 0; i < count; i++)
            count_sample(g, rows[i], samples[i], 1u << SPEX_LATENCY_EXECUTE);
    else
        for (size_t i = 0; i < count; i++)
            count_sample(g, rows[i], samples[i], 0);
}

/* The row is remembered with the pc's place. */
static void rows_by_place(struct spex_group *g, const struct spex_sample *const *samples,
                          size_t count, struct spex_row **rows)
{
    uint64_t key[SLOTS_MAX][STEP];
    if (!g->memo)
        g->memo = memory_get(SPEX_PLACES, sizeof *g->memo);
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = samples[i];
        struct memo *m = &g->memo[s->place];
        if (__builtin_expect(!m->row || m->module != s->module || m->address != s->address ||
                                 m->symbol != s->symbol,
                             0)) {
            uint64_t hash = g->seed;
            for (size_t k = 0; k < g->key_count; k++)
                make_keys(g, g->keys[k], &s, 1, key + g->first_slot[k]);
            for (size_t k = 0; k < g->slots; k++)
                hash = hash_word(hash, key[k][0]);
            *m = (struct memo){s->module, s->symbol, s->address,
                               find_row(g, g->slots, key[0], STEP, hash)};
        }
        rows[i] = m->row;
    }
}

/*
 * Each step asks for the memory that the next one needs, since with many keys nearly every
 * access to the index and to the rows would wait for DRAM. Inlined for a number of slots that
 * is known, so that the loops over them disappear.
 */
static inline __attribute__((always_inline)) void
rows_by_key(struct spex_group *g, size_t slots, const struct spex_sample *const *samples,
            size_t count, struct spex_row **rows)
{
    uint64_t key[SLOTS_MAX][STEP], hash[STEP];
    for (size_t k = 0; k < g->key_count; k++)
        make_keys(g, g->keys[k], samples, count, key + g->first_slot[k]);
    for (size_t i = 0; i < count; i++) {
        hash[i] = g->seed;
        for (size_t k = 0; k < slots; k++)
            hash[i] = hash_word(hash[i], key[k][i]);
    }
    if (g->count > 4096) { /* small groups stay in the cache by themselves */
        for (size_t i = 0; i < count; i++)
            __builtin_prefetch(&g->index[hash[i] & g->mask]);
        for (size_t i = 0; i < count; i++) {
            const struct index_entry *e = &g->index[hash[i] & g->mask];
            const char *row = e->row ? (const char *)row_at(g, e->row - 1) : NULL;
            for (size_t line = 0; row && line < g->stride; line += CACHE_LINE)
                __builtin_prefetch(row + line, 1);
        }
    }
    for (size_t i = 0; i < count; i++)
        rows[i] = find_row(g, slots, &key[0][i], STEP, hash[i]);
}

#define ROWS_BY(name, slots)                                                                       \
    static void rows_by_##name(struct spex_group *g, const struct spex_sample *const *samples,     \
                               size_t count, struct spex_row **rows)                               \
    {                                                                                              \
        rows_by_key(g, slots, samples, count, rows);                                               \
    }
ROWS_BY(any, g->slots)
ROWS_BY(one, 1)
ROWS_BY(two, 2)
ROWS_BY(three, 3)
ROWS_BY(four, 4)
ROWS_BY(five, 5)
#undef ROWS_BY
static void (*const rows_by_slots[])(struct spex_group *, const struct spex_sample *const *, size_t,
                                     struct spex_row **) = {
    rows_by_any, rows_by_one, rows_by_two, rows_by_three, rows_by_four, rows_by_five};

struct spex_row *group_row_of(struct spex_group *g, const struct spex_sample *sample)
{
    struct spex_row *row;
    make_room(g, 1);
    rows_by_key(g, g->slots, &sample, 1, &row);
    return row;
}

struct spex_row *group_row_like(struct spex_group *g, const struct spex_row *row)
{
    uint64_t hash = g->seed;
    for (size_t k = 0; k < g->slots; k++)
        hash = hash_word(hash, row->key[k]);
    make_room(g, 1);
    return find_row(g, g->slots, row->key, 1, hash);
}

/* How often a row follows itself, which tells how long it stays. */
static void count_repeats(struct spex_group *g, struct spex_row *const *rows,
                          const struct spex_sample *const *samples, size_t count)
{
    const struct spex_row *last = g->last.row;
    uint32_t queue = g->last.queue;
    int32_t tid = g->last.tid;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = samples[i];
        rows[i]->stats.repeats += rows[i] == last && s->queue == queue && s->tid == tid;
        last = rows[i];
        queue = s->queue;
        tid = s->tid;
    }
    g->last.row = last;
    g->last.queue = queue;
    g->last.tid = tid;
}

static void add_samples(struct spex_group *g, const struct spex_sample *const *samples,
                        size_t count)
{
    struct spex_row *rows[STEP];
    for (size_t n; count; samples += n, count -= n) {
        n = count < STEP ? count : STEP;
        make_room(g, n);
        if (g->by_place)
            rows_by_place(g, samples, n, rows);
        else
            rows_by_slots[g->slots < 6 ? g->slots : 0](g, samples, n, rows);
        count_samples(g, rows, samples, n);
        count_repeats(g, rows, samples, n);
    }
}

static void add_all(struct spex_group *g, const struct spex_sample *samples, size_t count)
{
    const struct spex_sample *all[STEP];
    for (size_t n; count; samples += n, count -= n) {
        n = count < STEP ? count : STEP;
        for (size_t i = 0; i < n; i++)
            all[i] = &samples[i];
        add_samples(g, all, n);
    }
}

static void give_up(struct spex_group *g)
{
    g->failed = true;
    analysis_no_memory(g->analysis);
}

void spex_group_add(struct spex_group *g, const struct spex_sample *const *samples, size_t count)
{
    if (g->failed || !memory_guarded(add_samples(g, samples, count)))
        give_up(g);
}

void spex_group_sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct spex_group *g = context;
    if (g->failed || !memory_guarded(add_all(g, samples, count)))
        give_up(g);
}

/* ---- coarser groups ---- */

void spex_group_derive(struct spex_group *g, struct spex_group *finer)
{
    unsigned n = 0;
    while (finer->coarser[n])
        n++;
    assert(n < COARSER);
    finer->coarser[n] = g;
    g->finer = finer;
}

static size_t key_of(const struct spex_group *g, enum spex_key key)
{
    size_t n = 0;
    while (n < g->key_count && g->keys[n] != key)
        n++;
    return n;
}

/* Adds a row of the finer group. */
static void roll_up(struct spex_group *g, const struct spex_group *finer,
                    const struct spex_row *from)
{
    uint64_t key[SLOTS_MAX], hash = g->seed;
    for (size_t k = 0; k < g->key_count; k++) {
        enum spex_key wanted = g->keys[k];
        size_t n = key_of(finer, wanted);
        bool page = wanted == SPEX_KEY_PAGE && n == finer->key_count;
        if (page)
            n = key_of(finer, SPEX_KEY_CACHE_LINE);
        assert(n < finer->key_count);
        memcpy(key + g->first_slot[k], group_key(finer, from, n), keys[wanted].slots * sizeof *key);
        if (page)
            key[g->first_slot[k]] &= PAGE_MASK;
    }
    for (size_t k = 0; k < g->slots; k++)
        hash = hash_word(hash, key[k]);
    make_room(g, 1);
    add_stats(g, find_row(g, g->slots, key, 1, hash), finer, from);
}

/* ---- results ---- */

const uint64_t *group_key(const struct spex_group *g, const struct spex_row *row, size_t n)
{
    return row->key + g->first_slot[n];
}

static uint64_t rank_of(const struct spex_row *row, enum spex_order order)
{
    switch (order) {
    case SPEX_BY_LATENCY:
        return row->stats.latency_sum[SPEX_LATENCY_TOTAL];
    case SPEX_BY_EXECUTE:
        return row->stats.latency_sum[SPEX_LATENCY_EXECUTE];
    case SPEX_BY_TIME: /* of untimed rows those with more samples */
        return row->stats.time ? row->stats.time : row->stats.samples;
    case SPEX_BY_KEYS:
        return 0;
    case SPEX_BY_MISPREDICTS:
        return (uint64_t)row->stats.mispredicted << 32 | row->stats.samples;
    default:
        return row->stats.samples;
    }
}

/* What decides most comparisons, at hand without looking at the rows. */
struct sorted {
    uint64_t rank, number; /* a first key that is a number, else 0 */
    uint32_t row;
};

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct sorted *left = a, *right = b;
    const struct spex_group *g = context;
    if (left->rank != right->rank)
        return left->rank > right->rank ? -1 : 1;
    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    const struct spex_row *x = row_at(g, left->row), *y = row_at(g, right->row);
    for (size_t k = 0; k < g->key_count; k++) {
        const uint64_t *a_key = group_key(g, x, k), *b_key = group_key(g, y, k);
        char s[256], t[256];
        if (keys[g->keys[k]].numeric) {
            if (a_key[0] != b_key[0])
                return a_key[0] < b_key[0] ? -1 : 1;
            continue;
        }
        if (a_key[0] == b_key[0]) {
            if (keys[g->keys[k]].slots == 1 || a_key[1] == b_key[1])
                continue;
            return a_key[1] < b_key[1] ? -1 : 1; /* places in one module */
        }
        spex_row_text(g, x, k, s, sizeof s);
        spex_row_text(g, y, k, t, sizeof t);
        int order = strcmp(s, t);
        if (order)
            return order;
    }
    return memcmp(x->key, y->key, g->slots * sizeof *x->key);
}

enum { BY_NOTHING = -1 };

static void sort_rows(struct spex_group *g, int order)
{
    for (size_t i = 0; g->finer && i < g->finer->count; i++)
        roll_up(g, g->finer, row_at(g->finer, i));
    free(g->index); /* no more samples come: its memory is better used here */
    g->index = NULL;
    free(g->order);
    g->order = NULL;
    g->order = memory_get(g->count + 1, sizeof *g->order);
    bool numeric = g->key_count && keys[g->keys[0]].numeric;
    memset(g->total, 0, g->stride);
    for (size_t i = 0; i < g->count; i++) {
        const struct spex_row *row = row_at(g, i);
        g->order[i] = (struct sorted){rank_of(row, (enum spex_order)order),
                                      numeric ? row->key[0] : 0, (uint32_t)i};
        add_stats(g, g->total, g, row);
    }
    if (g->rest)
        add_stats(g, g->total, g, g->rest);
    if (order != BY_NOTHING)
        qsort_r(g->order, g->count, sizeof *g->order, compare_rows, g);
}

static enum spex_status finish_rows(struct spex_group *g, int order)
{
    if (g->failed || !memory_guarded(sort_rows(g, order))) {
        g->failed = true;
        g->count = 0;
        return SPEX_NO_MEMORY;
    }
    return SPEX_OK;
}

enum spex_status spex_group_sort(struct spex_group *g, enum spex_order order)
{
    return finish_rows(g, (int)order);
}

enum spex_status group_settle(struct spex_group *g)
{
    return finish_rows(g, BY_NOTHING);
}

size_t spex_group_count(const struct spex_group *g)
{
    return g->count;
}

const struct spex_row *spex_group_row(const struct spex_group *g, size_t index)
{
    return index < g->count ? row_at(g, g->order[index].row) : NULL;
}

const struct spex_row *spex_group_total(const struct spex_group *g)
{
    return g->total;
}

const struct spex_row *spex_group_rest(const struct spex_group *g)
{
    return g->rest;
}

uint64_t spex_group_error(const struct spex_group *g)
{
    return g->error;
}

/*
 * A row's time is a sum of estimates t of its samples, each of which might as well have been of
 * another row: the variance of its share f is (1 - 2f) sum(t^2) of the row + f^2 sum(t^2) of all.
 * Long phases vary less.
 */
struct spex_interval stats_time_interval(const struct spex_stats *s, const struct spex_stats *t)
{
    double all = (double)t->time / 1000, f = (double)s->time / (double)t->time;
    double variance = (1 - 2 * f) * s->time_square + f * f * t->time_square;
    return share_interval(f, variance > 0 ? variance / (all * all) : 0);
}

struct spex_interval spex_row_time_interval(const struct spex_group *g, const struct spex_row *row)
{
    const struct spex_stats *s = &row->stats, *t = &g->total->stats;
    return t->time ? stats_time_interval(s, t) : spex_share_interval(s->samples, t->samples);
}

bool spex_row_long_runs(const struct spex_group *g, const struct spex_row *row)
{
    const struct spex_stats *s = &row->stats, *t = &g->total->stats;
    if (!s->samples || s->samples == t->samples)
        return true;
    /* Of exponential runs of four periods so many go on past the next sample, beyond chance. */
    static const double stay = 0.78;
    double chance = (double)s->samples / (double)t->samples;
    return (double)s->repeats / (double)s->samples - chance >= stay * (1 - chance);
}

int spex_row_latency(const struct spex_group *g, const struct spex_row *row,
                     enum spex_latency latency, double q)
{
    return g->flags ? histogram_quantile(&g->histograms, handles(g, row)[latency], q) : -1;
}

bool group_buckets(const struct spex_group *g, const struct spex_row *row,
                   enum spex_latency latency, uint64_t counts[HISTOGRAM_BUCKETS])
{
    return g->flags && histogram_buckets(&g->histograms, handles(g, row)[latency], counts);
}

uint64_t spex_row_value(const struct spex_group *g, const struct spex_row *row, size_t n)
{
    return row->key[g->first_slot[n]];
}

const struct spex_symbol *spex_row_symbol(const struct spex_group *g, const struct spex_row *row,
                                          size_t n)
{
    uint64_t key = group_key(g, row, n)[0];
    return key & MARK ? NULL : (const struct spex_symbol *)(uintptr_t)key;
}

const struct allocs_site *group_site(const struct spex_group *g, const struct spex_row *row,
                                     size_t n)
{
    uint64_t key = group_key(g, row, n)[0];
    bool site = g->keys[n] == SPEX_KEY_ALLOC && key & SITE;
    return site ? analysis_site(g->analysis, (uint32_t)(key >> 2)) : NULL;
}

uint64_t spex_row_address(const struct spex_group *g, const struct spex_row *row, size_t n)
{
    return group_key(g, row, n)[1];
}

/* "libc.so.6+0x1234"; "0x1234" in the kernel, in JIT code and where nothing is mapped. */
static size_t place_text(const struct spex_module *module, uint64_t address, char *text,
                         size_t capacity)
{
    int n = !module && !address ? snprintf(text, capacity, "[no address]")
            : module && module_is_file(module)
                ? snprintf(text, capacity, "%s+0x%llx", spex_module_name(module),
                           (unsigned long long)address)
                : snprintf(text, capacity, "0x%llx", (unsigned long long)address);
    return (size_t)n;
}

static size_t symbol_text(const struct spex_symbol *symbol, char *text, size_t capacity)
{
    if (!symbol->name)
        return place_text(symbol->module, symbol->start, text, capacity);
    return (size_t)snprintf(text, capacity, "%s", symbol->name);
}

static size_t located_text(const struct spex_group *g, uint64_t address, uint64_t pid, char *text,
                           size_t capacity)
{
    struct spex_place place;
    if (!address)
        return (size_t)snprintf(text, capacity, "-");
    spex_analysis_locate(g->analysis, (int)pid, address, &place);
    if (!place.symbol)
        return place_text(place.module, place.address, text, capacity);
    size_t n = symbol_text(place.symbol, text, capacity);
    uint64_t offset = place.address - place.symbol->start;
    if (offset && n < capacity)
        n += (size_t)snprintf(text + n, capacity - n, "+0x%llx", (unsigned long long)offset);
    return n;
}

/* As far as there is room. */
static size_t stack_text(const struct spex_group *g, uint64_t stack, char *text, size_t capacity)
{
    size_t n = 0;
    if (!stack)
        return (size_t)snprintf(text, capacity, "[no caller]");
    for (const struct stacks_call *call; stack && n < capacity; stack = call->caller) {
        call = analysis_call(g->analysis, (uint32_t)stack);
        n += (size_t)snprintf(text + n, capacity - n, "%s%s", n ? " < " : "",
                              call->cut ? "[...] < " : "");
        if (n < capacity)
            n += call->symbol ? symbol_text(call->symbol, text + n, capacity - n)
                              : place_text(call->module, call->address, text + n, capacity - n);
    }
    return n;
}

/* With its type, unless that is a key of its own: "struct node.next", "next". */
static size_t member_text(const struct spex_group *g, const struct data_member *m, char *text,
                          size_t capacity)
{
    bool alone = key_of(g, SPEX_KEY_TYPE) < g->key_count;
    if (!m->member[0])
        return (size_t)snprintf(text, capacity, "%s", alone ? "-" : m->type);
    return (size_t)snprintf(text, capacity, "%s%s%s", alone ? "" : m->type,
                            alone       ? ""
                            : m->scalar ? " "
                                        : ".",
                            m->member);
}

size_t spex_row_text(const struct spex_group *g, const struct spex_row *row, size_t n, char *text,
                     size_t capacity)
{
    const uint64_t *key = row->key + g->first_slot[n];
    const struct spex_module *module;
    switch (g->keys[n]) {
    case SPEX_KEY_CALLER:
    case SPEX_KEY_ALLOC:
        if (key[0] & SITE)
            return analysis_site_text(g->analysis, (uint32_t)(key[0] >> 2), text, capacity);
        if (key[0] == MARK && key[1] == MARK && g->keys[n] == SPEX_KEY_CALLER)
            return (size_t)snprintf(text, capacity, "[no caller]");
        /* fall through */
    case SPEX_KEY_SYMBOL:
    case SPEX_KEY_DATA_SYMBOL:
        if (!(key[0] & MARK))
            return symbol_text((const struct spex_symbol *)(uintptr_t)key[0], text, capacity);
        module = (const struct spex_module *)(uintptr_t)(key[0] & ~(uint64_t)MARK);
        if (g->keys[n] != SPEX_KEY_DATA_SYMBOL && g->keys[n] != SPEX_KEY_ALLOC)
            return place_text(module, key[1], text, capacity);
        return (size_t)snprintf(text, capacity, "%s",
                                module   ? spex_module_name(module)
                                : key[1] ? "[kernel]"
                                         : "[unmapped]");
    case SPEX_KEY_DSO:
    case SPEX_KEY_DATA_DSO:
        module = (const struct spex_module *)(uintptr_t)key[0];
        return (size_t)snprintf(text, capacity, "%s",
                                module ? spex_module_name(module) : "[unknown]");
    case SPEX_KEY_SRCLINE:
        if (key[1] >> 63 && !(key[0] & MARK)) {
            const char *file = (const char *)(uintptr_t)key[0], *slash = strrchr(file, '/');
            return (size_t)snprintf(text, capacity, "%s:%u", slash ? slash + 1 : file,
                                    (unsigned)key[1]);
        }
        return place_text((const struct spex_module *)(uintptr_t)(key[0] & ~(uint64_t)MARK), key[1],
                          text, capacity);
    case SPEX_KEY_PC:
        return place_text((const struct spex_module *)(uintptr_t)key[0], key[1], text, capacity);
    case SPEX_KEY_COMM:
    case SPEX_KEY_TYPE:
        return (size_t)snprintf(text, capacity, "%s", (const char *)(uintptr_t)key[0]);
    case SPEX_KEY_MEMBER:
        return member_text(g, (const struct data_member *)(uintptr_t)key[0], text, capacity);
    case SPEX_KEY_PID:
    case SPEX_KEY_TID:
    case SPEX_KEY_CPU:
        return (size_t)snprintf(text, capacity, "%d", (int)key[0]);
    case SPEX_KEY_OP:
        return (size_t)snprintf(text, capacity, "%s",
                                key[0] == UINT32_MAX ? "no operation type"
                                                     : op_table()->text[key[0] & 1023]);
    case SPEX_KEY_SOURCE:
        return (size_t)snprintf(text, capacity, "%s",
                                key[0] < SPEX_SOURCE_COUNT ? spex_source_name(key[0])
                                                           : "(no memory access)");
    case SPEX_KEY_PAGE:
    case SPEX_KEY_CACHE_LINE:
        return (size_t)snprintf(text, capacity, "0x%llx", (unsigned long long)key[0]);
    case SPEX_KEY_TYPE_LINE:
        return (size_t)snprintf(text, capacity, "%llu", (unsigned long long)key[0]);
    case SPEX_KEY_TYPE_OFFSET:
    case SPEX_KEY_OFFSET:
        return (size_t)snprintf(text, capacity, "+0x%02x", (unsigned)key[0]);
    case SPEX_KEY_STACK:
        return stack_text(g, key[0], text, capacity);
    case SPEX_KEY_BLOCK_OFFSET:
        if (key[0] == UINT64_MAX)
            return (size_t)snprintf(text, capacity, "-");
        return (size_t)snprintf(text, capacity, "+%llu", (unsigned long long)key[0]);
    case SPEX_KEY_TARGET:
    case SPEX_KEY_PREV_TARGET:
        return located_text(g, key[0], key[1], text, capacity);
    case SPEX_KEY_LATENCY:
        if (!key[0])
            return (size_t)snprintf(text, capacity, "0");
        return (size_t)snprintf(text, capacity, "%u-%u", 1u << (key[0] - 1), (1u << key[0]) - 1);
    case SPEX_KEY_TIME_BIN:
        if (key[0] == UINT64_MAX)
            return (size_t)snprintf(text, capacity, "(no time)");
        return (size_t)snprintf(text, capacity, "%llu.%09llu",
                                (unsigned long long)((key[0] << g->time_shift) / 1000000000),
                                (unsigned long long)((key[0] << g->time_shift) % 1000000000));
    case SPEX_KEY_COUNT:
        break;
    }
    return 0;
}
