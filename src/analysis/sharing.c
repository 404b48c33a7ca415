/*
 * Cache lines that threads share and write.
 *
 * Contention is a model of two neighbouring accesses to the line. Thread i makes
 * a fraction f of the line's accesses at word o, u of them writes. Two accesses,
 * of threads i and j, words o and p, conflict if the threads are active at the same
 * time (c) and one of the two writes:
 *
 *     conflict = sum over i != j, o, p of  c_ij f_i(o) f_j(p) (1 - (1-u_i(o)) (1-u_j(p)))
 *
 * It is divided by its largest value for so many threads, 1 - 1/n. The part with o != p is
 * sharing that padding would remove ("apart"). Where a CPU reports the source of data, a line
 * keeps its score if other cores answer a tenth of its loads or more (between two transfers a
 * core uses a line several times); fewer lower it in proportion.
 */
#include "allocs.h"
#include "internal.h"

#include "base/bits.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINES_MAX = SPEX_GROUP_MAX,
    CANDIDATES = 4096,
    BUCKETS = 64,   /* of time, for overlap */
    LEVELS = 7,     /* 64, 32, ... 1 buckets */
    CELLS = 192,    /* (thread, word) pairs of a line that are compared */
    LEAST = 10,     /* a line with fewer samples is not judged */
    LEAST_EACH = 3, /* of a second thread */
    STEP = 64,      /* samples taken together */
};

/* What identifies a line. */
struct identity {
    uint64_t key;  /* line number */
    int32_t space; /* of virtual lines the process; KERNEL, PHYSICAL */
};
enum { KERNEL = -1, PHYSICAL = -2 };

struct line {
    struct identity id;
    int32_t tid, pid; /* first user */
    uint32_t samples, writes;
    bool several;
    uint64_t va, cycles;
};

struct activity { /* of a thread on a candidate */
    uint32_t line, samples;
    int32_t tid;
    const char *comm;
    uint64_t buckets;
};

/* How a word of a candidate is used: what tells a lock from a counter. */
struct word {
    uint32_t samples, atomics, swaps, stores; /* atomics: exclusives too; stores: others */
    uint32_t block;                           /* allocs.h */
};
enum { WORDS = 16 };

struct instruction { /* cache: whether the instruction at a pc swaps */
    const struct spex_module *module;
    uint64_t address;
    bool swaps;
};
enum { INSTRUCTIONS = 256 };

struct spex_sharing {
    struct spex_analysis *analysis;
    uint64_t seed; /* of hashes */
    struct line *lines;
    uint32_t *index; /* line + 1 */
    size_t count, capacity, mask;
    struct spex_sharing_totals totals;
    uint64_t with_source;
    /* second pass */
    uint64_t first_time, time_span;
    struct line_set seen; /* candidates */
    size_t candidates;
    struct activity *activities;
    size_t activity_count, activity_capacity;
    uint32_t *activity_index;
    size_t activity_mask;
    struct word *words; /* of each candidate */
    struct instruction instructions[INSTRUCTIONS];
    struct spex_group *group;
    struct spex_shared_line *results;
    struct spex_shared_use *uses;
    size_t result_count;
    bool failed; /* memory ran out: it can only be freed */
};

enum spex_status spex_sharing_new(struct spex_analysis *analysis, struct spex_sharing **sharing,
                                  struct spex_error *error)
{
    struct spex_sharing *s = calloc(1, sizeof *s);
    if (s) {
        s->analysis = analysis;
        s->seed = hash_seed();
        s->mask = 4095;
        s->index = calloc(s->mask + 1, sizeof *s->index);
    }
    if (!s || !s->index) {
        spex_sharing_free(s);
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for cache lines");
    }
    *sharing = s;
    return SPEX_OK;
}

void spex_sharing_free(struct spex_sharing *s)
{
    if (!s)
        return;
    free(s->lines);
    free(s->index);
    free(s->activities);
    free(s->activity_index);
    free(s->words);
    spex_group_free(s->group);
    free(s->results);
    free(s->uses);
    free(s);
}

/* ---- first pass ---- */

static inline struct identity identify(const struct spex_sample *sample)
{
    bool physical = sample->record->present & SPEX_HAS_PA;
    int32_t space = sample->va >> 63 ? KERNEL : sample->pid;
    return (struct identity){(physical ? sample->pa : sample->va) >> 6,
                             physical ? PHYSICAL : space};
}

static inline uint64_t line_hash(uint64_t seed, const struct identity *id)
{
    return hash_word(hash_word(seed, id->key), (uint32_t)id->space);
}

static void reindex(struct spex_sharing *s, size_t mask)
{
    uint32_t *index = memory_get(mask + 1, sizeof *index);
    free(s->index);
    s->index = index;
    s->mask = mask;
    for (size_t n = 0; n < s->count; n++) {
        size_t i = line_hash(s->seed, &s->lines[n].id) & mask;
        while (s->index[i])
            i = (i + 1) & mask;
        s->index[i] = (uint32_t)n + 1;
    }
}

/* Full: lines of one thread that were seen rarely go first. */
static void shrink(struct spex_sharing *s)
{
    for (uint32_t least = 2; s->count > LINES_MAX / 2; least = least * 2) {
        size_t kept = 0;
        bool all = least > 1u << 20; /* every line is shared: give up the tail */
        for (size_t i = 0; i < s->count; i++)
            if (all ? i < LINES_MAX / 2 : s->lines[i].several || s->lines[i].samples >= least)
                s->lines[kept++] = s->lines[i];
        s->totals.merged += s->count - kept;
        s->count = kept;
    }
    reindex(s, s->mask);
}

static inline struct line *find_line(const struct spex_sharing *s, const struct identity *id,
                                     uint64_t hash)
{
    for (size_t i = hash & s->mask; s->index[i]; i = (i + 1) & s->mask) {
        struct line *l = &s->lines[s->index[i] - 1];
        if (l->id.key == id->key && l->id.space == id->space)
            return l;
    }
    return NULL;
}

static struct line *add_line(struct spex_sharing *s, const struct identity *id, uint64_t hash)
{
    if (s->count == LINES_MAX)
        shrink(s);
    if (s->count * 2 > s->mask)
        reindex(s, s->mask * 2 + 1);
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 1024;
        s->lines = memory_resize(s->lines, s->capacity, sizeof *s->lines);
    }
    size_t i = hash & s->mask;
    while (s->index[i])
        i = (i + 1) & s->mask;
    s->index[i] = (uint32_t)s->count + 1;
    struct line *l = &s->lines[s->count++];
    *l = (struct line){.id = *id};
    s->totals.lines++;
    return l;
}

/* The samples from *at on that use memory, a few at a time; advances *at past them. */
static size_t choose_memory(const struct spex_sample *samples, size_t *at, size_t count,
                            const struct spex_sample *chosen[STEP])
{
    size_t n = 0, end = count - *at < STEP ? count : *at + STEP;
    for (; *at < end; ++*at) {
        chosen[n] = &samples[*at];
        n += spex_sample_memory(&samples[*at]);
    }
    return n;
}

/* In steps over a few samples, so that index and lines are on their way when needed. */
static void find(void *context, const struct spex_sample *samples, size_t count)
{
    struct spex_sharing *s = context;
    const struct spex_sample *memory[STEP];
    struct identity id[STEP];
    uint64_t hash[STEP];
    for (size_t at = 0; at < count;) {
        size_t n = choose_memory(samples, &at, count, memory);
        for (size_t i = 0; i < n; i++) {
            const struct spex_record *r = memory[i]->record;
            s->with_source +=
                (r->present / SPEX_HAS_DATA_SOURCE | r->events >> SPEX_EV_SNOOPED) & 1;
            id[i] = identify(memory[i]);
            hash[i] = line_hash(s->seed, &id[i]);
            __builtin_prefetch(&s->index[hash[i] & s->mask]);
        }
        s->totals.memory += n;
        for (size_t i = 0; s->count > 4096 && i < n; i++) {
            uint32_t line = s->index[hash[i] & s->mask];
            if (line)
                __builtin_prefetch(&s->lines[line - 1], 1);
        }
        for (size_t i = 0; i < n; i++) {
            const struct spex_sample *sample = memory[i];
            int32_t user = sample->tid >= 0 ? sample->tid : sample->cpu;
            struct line *l = find_line(s, &id[i], hash[i]);
            if (__builtin_expect(!l, 0)) {
                l = add_line(s, &id[i], hash[i]);
                l->tid = user;
                l->pid = sample->va >> 63 ? KERNEL : sample->pid;
                l->va = sample->va & ~UINT64_C(63);
            }
            l->samples++;
            l->cycles += sample->record->total;
            l->writes += sample->flags / SPEX_SAMPLE_WRITES & 1;
            l->several |= l->tid != user;
        }
    }
}

static int by_samples(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    return x->va < y->va ? -1 : x->va > y->va;
}

static int by_cycles(const void *a, const void *b)
{
    const struct sharing_hot *x = a, *y = b;
    if (x->cycles != y->cycles)
        return x->cycles > y->cycles ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

struct sharing_hot *sharing_hottest(const struct spex_sharing *s, size_t most, size_t *count)
{
    struct sharing_hot *list = memory_get(s->count + 1, sizeof *list);
    for (size_t i = 0; i < s->count; i++) {
        const struct line *l = &s->lines[i];
        list[i] = (struct sharing_hot){.address = l->va,
                                       .cycles = l->cycles,
                                       .physical = l->id.space == PHYSICAL ? l->id.key << 6 : 0,
                                       .samples = l->samples,
                                       .pid = l->pid};
    }
    qsort(list, s->count, sizeof *list, by_cycles);
    *count = s->count < most ? s->count : most;
    return list;
}

static size_t choose(struct spex_sharing *s)
{
    size_t kept = 0;
    const struct spex_totals *totals = spex_analysis_totals(s->analysis);
    s->totals.sources = s->with_source > 0;
    s->totals.timed = totals->timed > 0 && totals->last_time > totals->first_time;
    s->first_time = totals->first_time;
    s->time_span = totals->last_time - totals->first_time + 1;
    for (size_t i = 0; i < s->count; i++)
        if (s->lines[i].several && s->lines[i].writes)
            s->lines[kept++] = s->lines[i];
    s->totals.shared = kept;
    if (kept)
        qsort(s->lines, kept, sizeof *s->lines, by_samples);
    s->count = s->candidates = kept < CANDIDATES ? kept : CANDIDATES;
    reindex(s, 4 * CANDIDATES - 1);
    for (size_t i = 0; i < s->count; i++)
        line_set_add(&s->seen, s->lines[i].id.key << 6);
    analysis_narrow(s->analysis,
                    SPEX_WANT_DATA | SPEX_WANT_TIME | SPEX_WANT_SYMBOL | SPEX_WANT_ALLOC, &s->seen);
    static const enum spex_key keys[] = {SPEX_KEY_CACHE_LINE, SPEX_KEY_OFFSET, SPEX_KEY_TID,
                                         SPEX_KEY_SYMBOL, SPEX_KEY_SRCLINE};
    struct spex_group_options options = {
        .size = sizeof options, .keys = keys, .key_count = 5, .flags = SPEX_GROUP_PERCENTILES};
    if (spex_group_new(s->analysis, &options, &s->group, NULL))
        memory_get(SIZE_MAX, 1); /* ends here */
    s->words = memory_get(s->candidates * WORDS + 1, sizeof *s->words);
    s->activity_mask = 1023;
    s->activity_index = memory_get(s->activity_mask + 1, sizeof *s->activity_index);
    return s->candidates;
}

/* ---- second pass ---- */

static struct activity *find_activity(struct spex_sharing *s, uint32_t line, int32_t tid, bool add)
{
    uint64_t hash = hash_word(s->seed, (uint64_t)line << 32 | (uint32_t)tid);
    size_t i = hash & s->activity_mask;
    for (; s->activity_index[i]; i = (i + 1) & s->activity_mask) {
        struct activity *a = &s->activities[s->activity_index[i] - 1];
        if (a->line == line && a->tid == tid)
            return a;
    }
    if (!add)
        return NULL;
    if (s->activity_count * 2 > s->activity_mask) {
        size_t mask = s->activity_mask * 2 + 1;
        uint32_t *index = memory_get(mask + 1, sizeof *index);
        free(s->activity_index);
        s->activity_index = index;
        s->activity_mask = mask;
        for (size_t n = 0; n < s->activity_count; n++) {
            i = hash_word(s->seed,
                          (uint64_t)s->activities[n].line << 32 | (uint32_t)s->activities[n].tid) &
                mask;
            while (s->activity_index[i])
                i = (i + 1) & mask;
            s->activity_index[i] = (uint32_t)n + 1;
        }
        i = hash & mask;
        while (s->activity_index[i])
            i = (i + 1) & mask;
    }
    if (s->activity_count == s->activity_capacity) {
        s->activity_capacity = s->activity_capacity ? s->activity_capacity * 2 : 256;
        s->activities = memory_resize(s->activities, s->activity_capacity, sizeof *s->activities);
    }
    s->activity_index[i] = (uint32_t)s->activity_count + 1;
    struct activity *a = &s->activities[s->activity_count++];
    *a = (struct activity){.line = line, .tid = tid};
    return a;
}

/* CAS, CASP and SWP (DDI 0487 C4.1): what a lock is taken with, and a counter is not. */
static bool is_swap(uint32_t word)
{
    return (word & 0x3fa07c00) == 0x08a07c00 || (word & 0xbfa07c00) == 0x08207c00 ||
           (word & 0x3b20fc00) == 0x38208000;
}

static bool swaps(struct spex_sharing *s, const struct spex_sample *sample)
{
    struct instruction *i = &s->instructions[sample->address / 4 % INSTRUCTIONS];
    uint8_t code[4];
    if (!sample->module)
        return false;
    if (i->module != sample->module || i->address != sample->address)
        *i = (struct instruction){sample->module, sample->address,
                                  analysis_read(s->analysis, sample->module, sample->address, code,
                                                sizeof code) == sizeof code &&
                                      is_swap(le32(code))};
    return i->swaps;
}

static void note_word(struct spex_sharing *s, uint32_t line, const struct spex_sample *sample)
{
    struct word *w = &s->words[(size_t)line * WORDS + sample->va % 64 / 4];
    struct spex_op_type type;
    spex_op_type_decode(sample->record->op_class, sample->record->op_payload, &type);
    uint32_t block = analysis_alloc(s->analysis, sample);
    w->samples++;
    w->block = block ? block : w->block;
    if (type.at || type.excl) {
        w->atomics++;
        w->swaps += swaps(s, sample);
    } else {
        w->stores += sample->flags / SPEX_SAMPLE_WRITES & 1;
    }
}

static void look(void *context, const struct spex_sample *samples, size_t count)
{
    struct spex_sharing *s = context;
    const struct spex_sample *memory[STEP], *chosen[STEP];
    struct spex_sample uses[STEP];
    struct spex_record stores[STEP];
    for (size_t at = 0; at < count;) {
        size_t n = choose_memory(samples, &at, count, memory), used = 0;
        for (size_t i = 0; i < n; i++) {
            const struct spex_sample *sample = memory[i];
            struct identity id = identify(sample);
            const struct line *l = find_line(s, &id, line_hash(s->seed, &id));
            if (!l)
                continue;
            /*
             * the group's key is our number of the line: processes may map it at several addresses
             */
            uint32_t line = (uint32_t)(l - s->lines);
            note_word(s, line, sample);
            struct spex_sample *use = &uses[used];
            *use = *sample;
            use->va = (uint64_t)line << 6 | (sample->va & 63);
            use->pid = 0;
            if (use->tid < 0)
                use->tid = use->cpu;
            if (!(sample->flags & SPEX_SAMPLE_READS)) {
                /* a store waits for nothing: its latency would hide that of the loads */
                stores[used] = *sample->record;
                stores[used].present &=
                    (uint16_t) ~(SPEX_HAS_TOTAL | SPEX_HAS_ISSUE | SPEX_HAS_TRANSLATION);
                use->record = &stores[used];
            }
            chosen[used++] = use;
            struct activity *a = find_activity(s, line, use->tid, true);
            a->samples++;
            a->comm = sample->comm;
            if (s->totals.timed && sample->flags & SPEX_SAMPLE_TIMED)
                a->buckets |= UINT64_C(1)
                              << (sample->time - s->first_time) * BUCKETS / s->time_span % BUCKETS;
        }
        spex_group_add(s->group, chosen, used);
    }
}

/* ---- judging ---- */

struct cell { /* one thread's use of one word */
    int32_t tid;
    unsigned offset;
    double accesses, writes;
    uint32_t samples;        /* of the thread on the line */
    uint64_t active[LEVELS]; /* its buckets of time, each level half as many */
};

static void fold(uint64_t buckets, uint64_t active[LEVELS])
{
    active[0] = buckets;
    for (unsigned level = 1; level < LEVELS; level++) {
        active[level] = 0;
        for (unsigned i = 0; i < (unsigned)BUCKETS >> level; i++)
            if (active[level - 1] >> 2 * i & 3)
                active[level] |= UINT64_C(1) << i;
    }
}

/* How much two threads run at the same time, in buckets that hold about two samples of each. */
static double overlap(const struct spex_sharing *s, const struct cell *a, const struct cell *b)
{
    if (!s->totals.timed)
        return 1;
    uint32_t fewer = a->samples < b->samples ? a->samples : b->samples;
    unsigned level = 0;
    while (level + 1 < LEVELS && (uint64_t)fewer << level < 2 * BUCKETS)
        level++;
    uint64_t x = a->active[level], y = b->active[level];
    int in_x = __builtin_popcountll(x), in_y = __builtin_popcountll(y);
    int least = in_x < in_y ? in_x : in_y;
    return least ? (double)__builtin_popcountll(x & y) / least : 0;
}

static void judge(struct spex_sharing *s, uint32_t line, struct spex_shared_line *result)
{
    struct cell cells[CELLS];
    size_t count = 0;
    int32_t tids[CELLS];
    bool writes[CELLS];
    for (size_t i = 0; i < result->uses; i++) {
        const struct spex_shared_use *use = &s->uses[result->first_use + i];
        const struct spex_stats *t = &use->row->stats;
        result->samples += t->samples;
        result->loads += t->reads;
        result->stores += t->writes;
        if (t->reads) {
            result->peer += t->peer;
            result->with_source += t->reads - (t->reads < t->source[0] ? t->reads : t->source[0]);
        }
        size_t c = 0;
        while (c < count && (cells[c].tid != use->tid || cells[c].offset != use->offset))
            c++;
        if (c == CELLS)
            continue; /* the largest rows come first: those left out are small */
        if (c == count) {
            const struct activity *activity = find_activity(s, line, use->tid, false);
            cells[count++] = (struct cell){.tid = use->tid,
                                           .offset = use->offset,
                                           .samples = activity ? activity->samples : 0};
            fold(activity ? activity->buckets : 0, cells[c].active);
        }
        cells[c].accesses += t->samples;
        cells[c].writes += t->writes;
        unsigned n = 0;
        while (n < result->threads && tids[n] != use->tid)
            n++;
        if (n == result->threads && n < CELLS) {
            tids[n] = use->tid;
            writes[n] = false;
            result->threads++;
        }
        if (t->writes && !writes[n]) {
            writes[n] = true;
            result->writers++;
        }
    }
    double all = 0, conflict = 0, together = 0, weight = 0, time = 0;
    for (size_t i = 0; i < count; i++)
        all += cells[i].accesses;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            const struct cell *a = &cells[i], *b = &cells[j];
            if (a->tid == b->tid)
                continue;
            double c = overlap(s, a, b);
            double both = a->accesses / all * (b->accesses / all);
            double reads = (1 - a->writes / a->accesses) * (1 - b->writes / b->accesses);
            conflict += c * both * (1 - reads);
            together += a->offset == b->offset ? c * both * (1 - reads) : 0;
            weight += both;
            time += both * c;
        }
    result->overlap = s->totals.timed && weight > 0 ? time / weight : NAN;
    result->contention = result->threads > 1 ? conflict / (1 - 1.0 / (double)result->threads) : 0;
    result->apart = conflict > 0 ? 1 - together / conflict : 0;
    result->kind = result->apart >= 0.9  ? SPEX_SHARING_FALSE
                   : result->apart < 0.5 ? SPEX_SHARING_TRUE
                                         : SPEX_SHARING_MIXED;
    result->score = result->contention;
    if (s->totals.sources && result->with_source >= LEAST) {
        double peer = 10 * (double)result->peer / (double)result->with_source;
        result->score *= peer < 1 ? peer : 1;
    }
    if (result->score > 1)
        result->score = 1;
}

/* Is the function of a use named like one that takes a lock? */
static bool called_lock(const struct spex_sharing *s, const struct spex_shared_use *use)
{
    static const char *const words[] = {"lock", "mutex", "futex", "semaphore", "sem_wait"};
    char name[256];
    spex_row_text(s->group, use->row, SPEX_USE_SYMBOL, name, sizeof name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

/*
 * A lock is a word that several threads change with atomic operations and give back with a plain
 * store or a swap; a counter is only ever added to.
 */
static int32_t find_lock(const struct spex_sharing *s, uint32_t number,
                         const struct spex_shared_line *line)
{
    int32_t best = -1;
    uint32_t most = 0;
    for (unsigned w = 0; w < WORDS; w++) {
        const struct word *word = &s->words[(size_t)number * WORDS + w];
        int32_t first = -1;
        bool several = false, called = false;
        if (word->atomics < LEAST || word->atomics * UINT64_C(10) < line->samples ||
            word->atomics <= most)
            continue;
        for (size_t i = 0; i < line->uses; i++) {
            const struct spex_shared_use *use = &s->uses[line->first_use + i];
            if (use->offset / 4 != w || !use->row->stats.writes)
                continue;
            several |= first >= 0 && use->tid != first;
            first = use->tid;
            called |= called_lock(s, use);
        }
        bool given_back = word->stores * UINT64_C(20) >= word->atomics;
        if (several && (called || given_back || word->swaps * UINT64_C(10) >= word->atomics)) {
            best = (int32_t)(w * 4);
            most = word->atomics;
        }
    }
    return best;
}

static int by_cost(const void *a, const void *b)
{
    const struct spex_shared_line *x = a, *y = b;
    double cost_x = x->score * (double)x->samples, cost_y = y->score * (double)y->samples;
    if (cost_x != cost_y)
        return cost_x > cost_y ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int by_place(const void *a, const void *b)
{
    const struct spex_shared_use *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->row->stats.samples != y->row->stats.samples)
        return x->row->stats.samples > y->row->stats.samples ? -1 : 1;
    return x->row < y->row ? -1 : 1;
}

/* Does a second thread use the line often enough to call it shared? */
static bool enough(struct spex_sharing *s, uint32_t number, const struct spex_shared_line *line)
{
    int32_t busy = -1;
    for (size_t i = 0; i < line->uses && line->samples >= LEAST; i++) {
        int32_t tid = s->uses[line->first_use + i].tid;
        const struct activity *a = find_activity(s, number, tid, false);
        if (!a || a->samples < LEAST_EACH || tid == busy)
            continue;
        if (busy >= 0)
            return true;
        busy = tid;
    }
    return false;
}

static void finish(struct spex_sharing *s)
{
    if (spex_group_sort(s->group, SPEX_BY_SAMPLES))
        memory_get(SIZE_MAX, 1); /* ends here */
    size_t rows = spex_group_count(s->group);
    s->uses = memory_get(rows + 1, sizeof *s->uses);
    s->results = memory_get(s->candidates + 1, sizeof *s->results);
    /* Allocated last: if it fails, memory without an owner would be lost. */
    size_t *start = memory_get(2 * s->candidates + 3, sizeof *start);
    size_t *fill = start + s->candidates + 2;
    for (size_t i = 0; i < rows; i++)
        start[(group_key(s->group, spex_group_row(s->group, i), 0)[0] >> 6) + 1]++;
    for (size_t i = 0; i < s->candidates; i++)
        start[i + 1] += start[i];
    memcpy(fill, start, (s->candidates + 1) * sizeof *fill);
    for (size_t i = 0; i < rows; i++) {
        const struct spex_row *row = spex_group_row(s->group, i);
        uint32_t line = (uint32_t)(group_key(s->group, row, 0)[0] >> 6);
        struct spex_shared_use *use = &s->uses[fill[line]++];
        use->row = row;
        use->offset = (unsigned)group_key(s->group, row, 1)[0];
        use->tid = (int32_t)group_key(s->group, row, 2)[0];
        const struct activity *a = find_activity(s, line, use->tid, false);
        use->comm = a ? a->comm : "";
    }
    for (size_t i = 0; i < s->candidates; i++) {
        struct spex_shared_line *r = &s->results[s->result_count];
        *r = (struct spex_shared_line){.address = s->lines[i].va,
                                       .pid = s->lines[i].id.space >= 0 ? s->lines[i].id.space : -1,
                                       .first_use = start[i],
                                       .uses = start[i + 1] - start[i]};
        judge(s, (uint32_t)i, r);
        if (enough(s, (uint32_t)i, r)) {
            qsort(s->uses + r->first_use, r->uses, sizeof *s->uses, by_place);
            r->lock = find_lock(s, (uint32_t)i, r);
            s->result_count++;
        }
    }
    qsort(s->results, s->result_count, sizeof *s->results, by_cost);
    free(start);
}

/* ---- guarded ---- */

static void give_up(struct spex_sharing *s)
{
    s->failed = true;
    s->result_count = 0;
    analysis_no_memory(s->analysis);
}

void spex_sharing_find(void *context, const struct spex_sample *samples, size_t count)
{
    struct spex_sharing *s = context;
    if (s->failed || !memory_guarded(find(s, samples, count)))
        give_up(s);
}

size_t spex_sharing_choose(struct spex_sharing *s)
{
    volatile size_t kept = 0;
    if (s->failed || !memory_guarded(kept = choose(s)))
        give_up(s);
    return s->failed ? 0 : kept;
}

void spex_sharing_look(void *context, const struct spex_sample *samples, size_t count)
{
    struct spex_sharing *s = context;
    if (s->failed || !memory_guarded(look(s, samples, count)))
        give_up(s);
}

enum spex_status spex_sharing_finish(struct spex_sharing *s)
{
    if (s->failed || !memory_guarded(finish(s)))
        give_up(s);
    return s->failed ? SPEX_NO_MEMORY : SPEX_OK;
}

const struct spex_shared_line *spex_sharing_line(const struct spex_sharing *s, size_t index)
{
    return index < s->result_count ? &s->results[index] : NULL;
}

const struct spex_shared_use *spex_sharing_use(const struct spex_sharing *s, size_t index)
{
    return &s->uses[index];
}

const struct line_set *sharing_lines(const struct spex_sharing *s)
{
    return &s->seen;
}

uint32_t sharing_block(const struct spex_sharing *s, const struct spex_shared_line *line,
                       unsigned offset)
{
    uint64_t number = group_key(s->group, s->uses[line->first_use].row, 0)[0] >> 6;
    uint64_t address = line->address + offset;
    for (unsigned i = 0; i < WORDS; i++) {
        uint32_t n = s->words[number * WORDS + (offset / 4 + i) % WORDS].block;
        const struct allocs_block *b = analysis_block(s->analysis, n);
        if (n && address - b->start < b->size)
            return n;
    }
    return 0;
}

const struct spex_group *spex_sharing_group(const struct spex_sharing *s)
{
    return s->group;
}

const struct spex_sharing_totals *spex_sharing_totals(const struct spex_sharing *s)
{
    return &s->totals;
}
