/*
 * A group from within: what group.c keeps, count.c counts, keys.c names, rows.c sorts and
 * key_text.c prints.
 */
#ifndef ANALYSIS_GROUP_H
#define ANALYSIS_GROUP_H

#include "analysis/histogram.h"
#include "analysis/internal.h"

enum {
    GROUP_CHUNK_BITS = 12,
    GROUP_CHUNK = 1 << GROUP_CHUNK_BITS,
    GROUP_STEP = 64,   /* samples handled together */
    GROUP_COARSER = 2, /* groups derived from one */
    GROUP_RECENT_SLOTS = 4,
    GROUP_RECENT_BITS = 8,
    GROUP_RECENT = 1 << GROUP_RECENT_BITS,
    GROUP_DATA_BITS = 12,
    GROUP_DATA = 1 << GROUP_DATA_BITS,
};

/* ---- keys (keys.c) ---- */

struct key_kind {
    const char *name, *help;
    uint8_t slots; /* 64-bit words that identify the key */
    bool numeric;  /* the first word is its order */
};
extern const struct key_kind key_kinds[SPEX_KEY_COUNT];

/* The first word of a location is a marked pointer to the module, the second an address; or */
#define KEY_NO_SYMBOL 1u
/* the first is the number of an allocation site, marked. */
#define KEY_SITE 2u
#define KEY_PAGE (~UINT64_C(0xfff))

/* ---- rows ---- */

struct group_index {
    uint32_t tag, row; /* row + 1; 0 free */
};

struct group_memo { /* the row of a pc, and of the last interval of time; NULL not known */
    const struct spex_module *module;
    const struct spex_symbol *symbol;
    uint64_t address, interval;
    struct spex_row *row;
};

struct group_who { /* the row of a thread and interval of time; NULL: not known */
    const char *comm;
    uint64_t interval;
    struct spex_row *row;
    int32_t pid, tid, cpu;
};

struct group_recent { /* the row of a recently used key; NULL: none */
    uint64_t key[GROUP_RECENT_SLOTS];
    struct spex_row *row;
};

struct group_data { /* the row of the data in a line of 64 bytes; NULL: not known */
    uint64_t line;
    struct spex_row *row;
    uint32_t maps; /* the mappings in force: sample_maps() */
};

struct group_line { /* the key of a source line, by code address */
    const struct spex_module *module;
    uint64_t address, word[2]; /* word[0] is 0 in a free slot */
};

/* What decides most comparisons of rows, kept outside them. */
struct group_order {
    uint64_t rank, number; /* a first key that is a number, else 0 */
    uint32_t row;
};

struct spex_group {
    struct memory *account; /* account of its analysis */
    struct spex_analysis *analysis;
    struct group_memo *memo; /* indexed by a sample's place */
    struct place_cache *data_places;
    struct group_line *lines; /* recently used lines; NULL: none yet */
    bool by_place; /* all keys follow from the pc, or are the interval of time, which is timed */
    bool by_data;  /* the key follows from the data address */
    bool by_who;   /* all keys follow from the thread and CPU, or are the interval of time */
    struct group_who who; /* thread and interval of the last sample */
    struct group_recent *recent;
    struct group_data *data; /* recently used data */
    struct spex_row **few; /* rows by source and magnitude of latency, if those are the only keys */
    bool timed;
    struct spex_group *finer, *coarser[GROUP_COARSER];
    const struct spex_symbol *only; /* only rows of this symbol in the finer group; NULL: all */
    enum spex_key keys[SPEX_KEYS_MAX];
    uint8_t first_slot[SPEX_KEYS_MAX + 1];
    size_t key_count, slots, stride;
    size_t repeats_at;    /* index of the function in a key whose repeats count; 0: the row's own */
    size_t histograms_at; /* offset of the histogram handles in a row, one per latency */
    uint64_t seed;        /* start value of the hash over the words of a key */
    unsigned flags;
    unsigned time_shift;
    char **chunks;
    size_t count, chunk_count;
    struct group_index *index;
    size_t mask;
    struct histograms histograms;
    struct spex_row *rest, *total;
    uint8_t *ranks; /* estimate the number of keys once rows are merged */
    uint64_t error;
    size_t limit;
    struct group_order *order;
    struct {
        const struct spex_row *row; /* NULL: there is none, or it was moved */
        uint32_t queue, order;      /* see analysis_order */
        int32_t tid;
    } last;           /* sample */
    uint32_t counted; /* samples: what statistics can hold */
    bool failed;      /* memory ran out: only free it */
    /* Threads count in shards of a group (group_shards.c). */
    struct spex_group *shard_of;
    unsigned threads;            /* shards: threads that share its limits; else 0 */
    _Atomic size_t shard_chunks; /* chunks of rows in all shards of this group */
};

static inline struct spex_row *group_row_at(const struct spex_group *g, size_t index)
{
    return (struct spex_row *)(g->chunks[index >> GROUP_CHUNK_BITS] +
                               (index & (GROUP_CHUNK - 1)) * g->stride);
}

/* The histograms of a row, in a group with flags. */
static inline uint32_t *group_handles(const struct spex_group *g, const struct spex_row *row)
{
    return (uint32_t *)((uintptr_t)row + g->histograms_at);
}

static inline uint64_t group_interval(const struct spex_group *g, const struct spex_sample *s)
{
    return s->flags & SPEX_SAMPLE_TIMED ? s->time >> g->time_shift : UINT64_MAX;
}

static inline unsigned group_source(const struct spex_sample *s)
{
    bool memory = s->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES);
    return memory ? s->source : SPEX_SOURCE_COUNT;
}

/* The magnitude of the total latency: 0 to 16. */
static inline unsigned group_magnitude(const struct spex_sample *s)
{
    return s->record->total ? 32 - (unsigned)__builtin_clz(s->record->total) : 0;
}

static inline size_t group_key_of(const struct spex_group *g, enum spex_key key)
{
    size_t n = 0;
    while (n < g->key_count && g->keys[n] != key)
        n++;
    return n;
}

/* Most words for histograms beside this many chunks of rows: the more rows, the fewer words. */
size_t group_histogram_room(const struct spex_group *g, size_t chunks);
void group_limit_histograms(struct spex_group *g);
uint64_t group_hash(const struct spex_group *g, const struct spex_row *row);
/* Frees its rows; nothing more is counted. */
void group_empty(struct spex_group *g);

/* ---- counting (count.c) ---- */

typedef uint32_t group_latencies __attribute__((vector_size(16))); /* see enum spex_latency */

/* What is counted for a sample, whichever row it is in. */
struct group_counted {
    group_latencies each;
    uint64_t time;   /* ps */
    uint64_t square; /* see struct stats */
    uint32_t facts;
    uint8_t flags, source, memory; /* memory: source counts */
};
/* Prepares consecutive samples that several groups count. */
void group_prepare(const struct spex_sample *const *samples, size_t count,
                   struct group_counted *prepared);
/* Counts samples in their rows; prepared: what group_prepare returned for them, or NULL. */
void group_count_samples(struct spex_group *g, struct spex_row *const *rows,
                         const struct spex_sample *const *samples,
                         const struct group_counted *prepared, size_t count);

/* Makes the words of one key for count samples: all first words, then all second words. */
void group_make_keys(struct spex_group *g, enum spex_key kind,
                     const struct spex_sample *const *samples, size_t count,
                     uint64_t (*word)[GROUP_STEP]);
/* Adds the counts of a row to another of the same or another group. */
void group_add_stats(struct spex_group *g, struct spex_row *to, const struct spex_group *of,
                     const struct spex_row *from);
/* Makes the words of the source line for the code at an address. */
void group_line_key(struct spex_analysis *analysis, struct spex_module *module, uint64_t address,
                    uint64_t *word0, uint64_t *word1);
/* Adds a row of the finer group to the one it belongs to. */
void group_roll_up(struct spex_group *g, const struct spex_group *finer,
                   const struct spex_row *from);

#endif
