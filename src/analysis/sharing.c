/*
 * Cache lines that several threads use and write: a pass that counts all lines, one that looks at
 * how candidates are used, and the answers. sharing_judge.c judges in between.
 */
#include "sharing.h"

#include "allocs.h"

#include "base/bits.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    CANDIDATES = 4096,
    STEP = 64, /* samples handled together */
};

enum spex_status spex_sharing_new(struct spex_analysis *analysis, struct spex_sharing **sharing,
                                  struct spex_error *error)
{
    assert(analysis);
    struct memory *account = memory_keep(analysis_account(analysis));
    MEMORY_OF(account);
    struct spex_sharing *s = memory_zeroed(1, sizeof *s);
    if (s) {
        s->account = account;
        s->analysis = analysis;
        s->seed = hash_seed();
        s->mask = 4095;
        s->index = memory_zeroed(s->mask + 1, sizeof *s->index);
    }
    if (!s || !s->index) {
        if (s)
            spex_sharing_free(s);
        else
            memory_end(account, memory_before_);
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for cache lines");
    }
    *sharing = s;
    return SPEX_OK;
}

void spex_sharing_free(struct spex_sharing *s)
{
    if (!s)
        return;
    struct memory *account = s->account, *before = memory_enter(account);
    if (!s->shard_of || s->index != s->shard_of->index) { /* otherwise they belong to shard_of */
        memory_free(s->lines);
        memory_free(s->index);
    }
    memory_free(s->activities);
    memory_free(s->activity_index);
    memory_free(s->words);
    spex_group_free(s->group);
    memory_free(s->results);
    memory_free(s->uses);
    memory_free(s->first_uses);
    memory_free(s->sorted);
    memory_free(s);
    memory_end(account, before);
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

uint64_t sharing_hash(const struct spex_sharing *s, const struct identity *id)
{
    return line_hash(s->seed, id);
}

static void reindex(struct spex_sharing *s, size_t mask)
{
    uint32_t *index = memory_get(mask + 1, sizeof *index);
    memory_free(s->index);
    s->index = index;
    s->mask = mask;
    for (size_t n = 0; n < s->count; n++) {
        size_t i = line_hash(s->seed, &s->lines[n].id) & mask;
        while (s->index[i])
            i = (i + 1) & mask;
        s->index[i] = (uint32_t)n + 1;
    }
}

/* The table is full: drop lines that one thread used rarely. */
static void shrink(struct spex_sharing *s)
{
    for (uint32_t least = 2; s->count > SHARING_LINES / 2; least = least * 2) {
        size_t kept = 0;
        bool all = least > 1u << 20; /* every line is shared: drop those with the fewest samples */
        for (size_t i = 0; i < s->count; i++)
            if (all ? i < SHARING_LINES / 2 : s->lines[i].several || s->lines[i].samples >= least)
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
    if (s->count == SHARING_LINES && !s->shard_of)
        shrink(s);
    if (s->count * 4 > s->mask) /* keep collisions rare: each is a mispredicted branch */
        reindex(s, s->mask * 2 + 1);
    if (s->count == s->capacity) {
        const size_t more = s->capacity ? s->capacity : 1024;
        if (s->shard_of &&
            atomic_fetch_add(&s->shard_of->shard_lines, more) + more > 4 * (size_t)SHARING_LINES)
            analysis_crowded(s->analysis);
        s->lines = memory_resize(s->lines, s->capacity + more, sizeof *s->lines);
        s->capacity += more;
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

struct line *sharing_line(struct spex_sharing *s, const struct identity *id)
{
    const uint64_t hash = line_hash(s->seed, id);
    struct line *l = find_line(s, id, hash);
    return l ? l : add_line(s, id, hash);
}

/* Picks the next few samples, from *at on, that use memory; advances *at past them. */
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

/* Works in steps over a few samples, so that index and lines are prefetched when needed. */
static void find(void *context, const struct spex_sample *samples, size_t count)
{
    struct spex_sharing *s = context;
    const uint32_t order = analysis_order;
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
        if (s->totals.memory > UINT32_MAX)
            analysis_too_many(s->analysis);
        for (size_t i = 0; s->count > 512 && i < n; i++) {
            uint32_t line = s->index[hash[i] & s->mask];
            if (line)
                __builtin_prefetch(&s->lines[line - 1], 1);
        }
        for (size_t i = 0; i < n; i++) {
            const struct spex_sample *sample = memory[i];
            const uint32_t queue = order ? order : analysis_order_of(s->analysis, sample);
            int32_t user = sample->tid >= 0 ? sample->tid : sample->cpu;
            struct line *l = find_line(s, &id[i], hash[i]);
            if (__builtin_expect(!l, 0))
                l = add_line(s, &id[i], hash[i]);
            l->several |= (l->tid != user) & (l->samples != 0);
            if (__builtin_expect(!l->samples | (queue < l->queue), 0)) {
                l->tid = user;
                l->pid = sample->va >> 63 ? KERNEL : sample->pid;
                l->va = sample->va & ~UINT64_C(63);
                l->queue = queue;
            }
            l->samples++;
            l->cycles += sample->record->total;
            l->writes += sample->flags / SPEX_SAMPLE_WRITES & 1;
        }
    }
}

static int by_samples(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    if (x->va != y->va)
        return x->va < y->va ? -1 : 1;
    if (x->id.space != y->id.space)
        return x->id.space < y->id.space ? -1 : 1;
    return x->id.key < y->id.key ? -1 : x->id.key > y->id.key;
}

static int by_cycles(const void *a, const void *b)
{
    const struct spex_hot_line *x = a, *y = b;
    if (x->cycles != y->cycles)
        return x->cycles > y->cycles ? -1 : 1;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->physical < y->physical ? -1 : x->physical > y->physical;
}

enum spex_status spex_sharing_hottest(const struct spex_sharing *s, size_t most,
                                      struct spex_hot_line *lines, size_t *count)
{
    assert(s && (lines || !most) && count);
    MEMORY_OF(s->account);
    struct spex_hot_line *list = memory_zeroed(s->count + 1, sizeof *list);
    if (!list)
        return SPEX_NO_MEMORY;
    for (size_t i = 0; i < s->count; i++) {
        const struct line *l = &s->lines[i];
        list[i] = (struct spex_hot_line){.address = l->va,
                                         .cycles = l->cycles,
                                         .physical = l->id.space == PHYSICAL ? l->id.key << 6 : 0,
                                         .samples = l->samples,
                                         .pid = l->pid};
    }
    qsort(list, s->count, sizeof *list, by_cycles);
    *count = s->count < most ? s->count : most;
    memcpy(lines, list, *count * sizeof *list);
    memory_free(list);
    return SPEX_OK;
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
    sharing_start_uses(s);
    return s->candidates;
}

void sharing_start_uses(struct spex_sharing *s)
{
    s->words = memory_get(s->candidates * WORDS + 1, sizeof *s->words);
    s->activity_mask = 1023;
    s->activity_index = memory_get(s->activity_mask + 1, sizeof *s->activity_index);
}

/* ---- second pass ---- */

struct activity *sharing_activity(struct spex_sharing *s, uint32_t line, int32_t tid, bool add)
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
        memory_free(s->activity_index);
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

/* CAS, CASP and SWP (DDI 0487 C4.1): locks are taken with these, counters are not. */
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
    uint32_t block = spex_sample_block(s->analysis, sample);
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
    const uint32_t order = analysis_order;
    for (size_t at = 0; at < count;) {
        size_t n = choose_memory(samples, &at, count, memory), used = 0;
        for (size_t i = 0; i < n; i++) {
            const struct spex_sample *sample = memory[i];
            struct identity id = identify(sample);
            const struct line *l = find_line(s, &id, line_hash(s->seed, &id));
            if (!l)
                continue;
            /*
             * the group's key is our number of the line: processes may map it at different
             * addresses
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
                /* leave out the latency of stores: nothing waits for it */
                stores[used] = *sample->record;
                stores[used].present &=
                    (uint16_t) ~(SPEX_HAS_TOTAL | SPEX_HAS_ISSUE | SPEX_HAS_TRANSLATION);
                use->record = &stores[used];
            }
            chosen[used++] = use;
            struct activity *a = sharing_activity(s, line, use->tid, true);
            a->samples++;
            sharing_name_activity(a, sample->comm,
                                  order ? order : analysis_order_of(s->analysis, sample));
            if (s->totals.timed && sample->flags & SPEX_SAMPLE_TIMED)
                a->buckets |= UINT64_C(1)
                              << (sample->time - s->first_time) * BUCKETS / s->time_span % BUCKETS;
        }
        spex_group_add(s->group, chosen, used);
    }
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
    assert(samples);
    struct spex_sharing *s = context;
    if (s->failed || !memory_guarded(s->account, find(s, samples, count)))
        give_up(s);
}

size_t spex_sharing_choose(struct spex_sharing *s)
{
    assert(s);
    volatile size_t kept = 0;
    if (s->failed || !memory_guarded(s->account, kept = choose(s)))
        give_up(s);
    return s->failed ? 0 : kept;
}

void spex_sharing_look(void *context, const struct spex_sample *samples, size_t count)
{
    assert(samples);
    struct spex_sharing *s = context;
    if (s->failed || !memory_guarded(s->account, look(s, samples, count)))
        give_up(s);
}

enum spex_status spex_sharing_finish(struct spex_sharing *s)
{
    assert(s);
    if (s->failed || !memory_guarded(s->account, sharing_judge(s)))
        give_up(s);
    return s->failed ? SPEX_NO_MEMORY : SPEX_OK;
}

const struct spex_shared_line *spex_sharing_line(const struct spex_sharing *s, size_t index)
{
    assert(s);
    return index < s->result_count ? &s->results[index] : NULL;
}

const struct spex_shared_use *spex_sharing_use(const struct spex_sharing *s, size_t index)
{
    assert(s);
    return &s->uses[index];
}

void spex_sharing_widen(struct spex_sharing *s, unsigned want, const uint64_t *addresses,
                        size_t count)
{
    assert(s && (addresses || !count));
    s->wider = s->seen;
    for (size_t i = 0; i < count; i++)
        line_set_add(&s->wider, addresses[i]);
    analysis_narrow(s->analysis, want, &s->wider);
}

uint32_t spex_sharing_block(const struct spex_sharing *s, const struct spex_shared_line *line,
                            unsigned offset)
{
    assert(s && line && offset < 64);
    uint64_t number = group_key(s->group, s->uses[line->first_use].row, 0)[0] >> 6;
    uint64_t address = line->address + offset;
    for (unsigned i = 0; i < WORDS; i++) {
        uint32_t n = s->words[number * WORDS + (offset / 4 + i) % WORDS].block;
        const struct spex_block *b = spex_analysis_block(s->analysis, n);
        if (n && address - b->start < b->size)
            return n;
    }
    return 0;
}

const struct spex_group *spex_sharing_group(const struct spex_sharing *s)
{
    assert(s);
    return s->group;
}

const struct spex_sharing_totals *spex_sharing_totals(const struct spex_sharing *s)
{
    assert(s);
    return &s->totals;
}
