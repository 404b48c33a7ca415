#include "findings.h"

#include "internal.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/vec.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPOTS_MOST = 1 << 18 }; /* instructions counted one by one; further ones are not counted */

struct spex_findings {
    struct memory *account;
    struct spex_analysis *analysis;
    struct spot *near;               /* indexed by a sample's `place`: the latest instructions */
    uint64_t used[SPEX_PLACES / 64]; /* which of them there are, as bits */
    VEC(struct spot) spots;          /* all instructions with samples */
    uint32_t *index;                 /* spot + 1, by module and address */
    size_t mask;
    uint64_t seed;
    uint64_t samples, all, memory, accesses, remote, remote_time;
    struct found found;
    struct spex_elapsed *elapsed; /* NULL: nobody asked */
    bool timed;
    bool full;   /* some instructions were left out */
    bool failed; /* memory ran out: there are no findings */
};

enum spex_status spex_findings_new(struct spex_analysis *analysis, struct spex_findings **findings,
                                   struct spex_error *error)
{
    assert(analysis && findings);
    struct memory *account = memory_keep(analysis_account(analysis));
    MEMORY_OF(account);
    struct spex_findings *f = memory_zeroed(1, sizeof *f);
    if (f)
        f->near = memory_zeroed(SPEX_PLACES, sizeof *f->near);
    if (!f || !f->near) {
        memory_free(f);
        memory_end(account, memory_before_);
        return error_set(error, SPEX_NO_MEMORY, 0, "not enough memory for findings");
    }
    f->account = account;
    f->analysis = analysis;
    f->seed = hash_seed();
    *findings = f;
    return SPEX_OK;
}

void spex_findings_free(struct spex_findings *f)
{
    if (!f)
        return;
    struct memory *account = f->account, *before = memory_enter(account);
    memory_free(f->near);
    vec_free(&f->spots);
    memory_free(f->index);
    spex_elapsed_free(f->elapsed);
    for (size_t i = 0; i < f->found.count; i++)
        finding_clear(&f->found.items[i]);
    memory_free(f->found.items);
    memory_free(f);
    memory_end(account, before);
}

/* ---- counting ---- */

static uint32_t *index_of(struct spex_findings *f, const struct spot *spot)
{
    size_t i = hash_word(hash_word(f->seed, (uintptr_t)spot->module), spot->address) & f->mask;
    for (; f->index[i]; i = (i + 1) & f->mask) {
        const struct spot *s = &f->spots.items[f->index[i] - 1];
        if (s->module == spot->module && s->address == spot->address)
            break;
    }
    return &f->index[i];
}

static void grow_index(struct spex_findings *f)
{
    size_t mask = f->index ? f->mask * 2 + 1 : 1023;
    uint32_t *index = memory_get(mask + 1, sizeof *index);
    memory_free(f->index);
    f->index = index;
    f->mask = mask;
    for (size_t n = 0; n < f->spots.count; n++)
        *index_of(f, &f->spots.items[n]) = (uint32_t)n + 1;
}

static void widen(struct spot *to, uint64_t low, uint64_t high, int32_t pid)
{
    if (!to->high || low < to->low)
        to->low = low;
    if (high > to->high)
        to->high = high;
    if (pid > to->pid)
        to->pid = pid;
}

/* Adds one of the recent instructions to the table of all. */
static void keep_spot(struct spex_findings *f, const struct spot *spot)
{
    bool any = false;
    for (unsigned k = 0; k < CLOSER; k++)
        /* of code without a module, only kinds other than REST are kept */
        any |= spot->samples[k] && (k != REST || spot->module);
    if (!any)
        return;
    if (!f->index || f->spots.count * 2 > f->mask)
        grow_index(f);
    uint32_t *at = index_of(f, spot);
    if (!*at) {
        if (f->spots.count == SPOTS_MOST) {
            f->full = true;
            return;
        }
        *(struct spot *)memory_checked(vec_push(&f->spots)) = *spot;
        *at = (uint32_t)f->spots.count;
        return;
    }
    struct spot *sum = &f->spots.items[*at - 1];
    for (unsigned k = 0; k < CLOSER; k++) {
        sum->time[k] += spot->time[k];
        sum->samples[k] += spot->samples[k];
    }
    sum->branches += spot->branches;
    sum->late += spot->late;
    sum->late_time += spot->late_time;
    sum->late_cycles += spot->late_cycles;
    for (unsigned k = 0; k < SPLITS; k++) {
        sum->split[k] += spot->split[k];
        sum->split_cycle[k] += spot->split_cycle[k];
    }
    if (spot->high)
        widen(sum, spot->low, spot->high, spot->pid);
}

/* The execute latency of a sample, in cycles. */
static inline uint64_t execute_of(const struct spex_record *r)
{
    const unsigned both = SPEX_HAS_TOTAL | SPEX_HAS_ISSUE;
    bool known = (r->present & both) == both && r->total >= r->issue;
    return known ? (uint64_t)(r->total - r->issue) : 0;
}

static inline bool beyond_the_core(unsigned source)
{
    const unsigned sources = 1u << SPEX_SOURCE_DRAM | 1u << SPEX_SOURCE_REMOTE_DRAM |
                             1u << SPEX_SOURCE_L3 | 1u << SPEX_SOURCE_SYSTEM_CACHE;
    return sources >> source & 1;
}

static inline struct spot *spot_of(struct spex_findings *f, const struct spex_sample *s)
{
    struct spot *spot = &f->near[s->place];
    /* an empty slot looks like one of address 0 */
    if (__builtin_expect(spot->address != s->address || spot->module != s->module || !s->address,
                         0)) {
        keep_spot(f, spot);
        *spot = (struct spot){.module = s->module, .symbol = s->symbol, .address = s->address};
        f->used[s->place / 64] |= UINT64_C(1) << s->place % 64;
    }
    return spot;
}

/* The data address without its tag. */
static uint64_t data_of(const struct spex_record *r)
{
    return (uint64_t)((int64_t)(r->address[SPEX_ADDRESS_VA] << 8) >> 8);
}

/*
 * How much of a sample's time a table walk took; a walk whose latency saturated is counted apart.
 */
static uint64_t count_walk(struct spex_findings *f, struct spot *spot, const struct spex_record *r,
                           uint64_t time)
{
    const uint64_t execute = execute_of(r), walk = r->translation;
    uint64_t part = time;
    spot->samples[WALKS]++;
    if (spex_analysis_saturated(f->analysis, r) & (SPEX_HAS_TOTAL | SPEX_HAS_ISSUE)) {
        spot->late_time += time;
        spot->late_cycles += (uint32_t)walk;
        spot->late++;
        return 0;
    }
    if (r->present & SPEX_HAS_TRANSLATION && walk < execute)
        part = (uint64_t)((double)time * (double)walk / (double)execute);
    spot->time[WALKS] += part;
    return part;
}

/* May an access of up to 16 bytes extend into the next line? */
static inline bool near_end(const struct spex_record *r)
{
    return ((r->address[SPEX_ADDRESS_VA] & 7) != 0) & ((r->address[SPEX_ADDRESS_VA] & 63) > 48);
}

static void count_split(struct spot *spot, const struct spex_sample *s, uint64_t time)
{
    const uint64_t room = 64 - (s->record->address[SPEX_ADDRESS_VA] & 63); /* 1 to 15 */
    const uint64_t cycles = execute_of(s->record);
    unsigned k = 0;
    while (room >> (k + 1))
        k++;
    if (s->op != SPEX_SAMPLE_LOAD || !cycles)
        return;
    spot->split[k]++;
    spot->split_cycle[k] += time / cycles;
}

static void count(struct spex_findings *f, const struct spex_sample *samples, size_t n)
{
    for (const struct spex_sample *s = samples, *end = samples + n; s < end; s++) {
        const uint64_t events = s->record->events;
        const bool memory = spex_sample_memory(s),
                   peer = memory & (s->flags / SPEX_SAMPLE_PEER & 1);
        const bool far = memory & !peer & beyond_the_core(s->source);
        const bool branch = s->op == SPEX_SAMPLE_BRANCH;
        const bool wrong = branch & (events >> SPEX_EV_MISPREDICT & 1);
        const enum closer kind = far ? FAR : peer ? PEER : wrong ? WRONG : REST;
        uint64_t time = s->spent;
        if (__builtin_expect(!time, 0))
            time = execute_of(s->record); /* without timestamps */
        else
            f->timed = true;
        struct spot *spot = spot_of(f, s);
        f->samples++;
        f->all += time;
        f->memory += memory ? time : 0;
        f->accesses += memory;
        spot->branches += branch;
        spot->samples[kind]++;
        if (__builtin_expect(peer, 0))
            widen(spot, data_of(s->record), data_of(s->record), s->pid);
        if (__builtin_expect(memory & (events >> SPEX_EV_REMOTE & 1), 0)) {
            f->remote++;
            f->remote_time += time;
        }
        if (__builtin_expect(memory & (events >> SPEX_EV_TLB_WALK & 1), 0)) {
            time -= count_walk(f, spot, s->record, time);
        }
        spot->time[kind] += time;
        if (__builtin_expect(near_end(s->record) & memory & (kind == REST), 0))
            count_split(spot, s, time);
    }
}

static void take_samples(void *context, const struct spex_sample *samples, size_t n)
{
    struct spex_findings *f = context;
    f->failed = f->failed || !memory_guarded(f->account, count(f, samples, n));
}

/* ---- by several threads ---- */

static void *split(void *context, unsigned threads)
{
    const struct spex_findings *f = context;
    struct spex_findings *shard;
    (void)threads;
    return spex_findings_new(f->analysis, &shard, NULL) ? NULL : shard;
}

/* The recent instructions go to the others first; pages that nothing used stay untouched. */
static void settle(struct spex_findings *f)
{
    for (size_t n = 0; n < SPEX_PLACES / 64; n++)
        for (; f->used[n]; f->used[n] &= f->used[n] - 1) {
            struct spot *spot = &f->near[n * 64 + (size_t)__builtin_ctzll(f->used[n])];
            keep_spot(f, spot);
            *spot = (struct spot){0};
        }
}

static bool join(void *to, void *from)
{
    struct spex_findings *f = to, *other = from;
    if (f->failed || other->failed)
        return false;
    settle(f);
    settle(other);
    for (size_t i = 0; i < other->spots.count; i++)
        keep_spot(f, &other->spots.items[i]);
    f->samples += other->samples;
    f->all += other->all;
    f->memory += other->memory;
    f->accesses += other->accesses;
    f->remote += other->remote;
    f->remote_time += other->remote_time;
    f->timed |= other->timed;
    return !f->full && !other->full;
}

static void take(void *context, void *sum)
{
    struct spex_findings *f = context, *from = sum, empty = *f;
    *f = *from;
    *from = empty;
}

static void drop(void *shard)
{
    spex_findings_free(shard);
}

struct spex_sink spex_sink_findings(struct spex_findings *f)
{
    static const struct spex_sink_shards shards = {split, join, take, drop};
    assert(f);
    return (struct spex_sink){take_samples, f, &shards, NULL};
}

/* ---- results ---- */

void finding_clear(struct spex_finding *finding)
{
    memory_free(finding->place);
    memory_free(finding->function);
    memory_free(finding->data);
    memory_free(finding->users);
    *finding = (struct spex_finding){0};
}

char *finding_words(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    char *text = memory_get((size_t)n + 1, 1);
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(args);
    va_end(again);
    return text;
}

void finding_add_number(struct spex_finding *finding, const char *name, double value)
{
    unsigned n = 0;
    while (n < SPEX_FINDING_NUMBERS - 1 && finding->numbers[n].name)
        n++;
    finding->numbers[n].name = name;
    finding->numbers[n].value = value;
}

double spex_finding_number(const struct spex_finding *finding, const char *name)
{
    assert(finding && name);
    for (unsigned i = 0; i < SPEX_FINDING_NUMBERS && finding->numbers[i].name; i++)
        if (!strcmp(finding->numbers[i].name, name))
            return finding->numbers[i].value;
    return NAN;
}

static int by_share(const void *a, const void *b)
{
    const struct spex_finding *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return strcmp(x->place ? x->place : "", y->place ? y->place : "");
}

static int by_module_and_address(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;
    if (x->module != y->module) {
        if (!x->module || !y->module)
            return x->module ? 1 : -1;
        const int by_path = strcmp(spex_module_path(x->module), spex_module_path(y->module));
        if (by_path)
            return by_path;
    }
    return x->address < y->address ? -1 : x->address > y->address;
}

static void finish(struct spex_findings *f, const struct spex_sharing *sharing)
{
    enum { LINES_MOST = 10 };
    settle(f);
    if (f->spots.count)
        qsort(f->spots.items, f->spots.count, sizeof *f->spots.items, by_module_and_address);
    const struct spots spots = {.list = f->spots.items,
                                .count = f->spots.count,
                                .samples = f->samples,
                                .all = f->all,
                                .memory = f->memory,
                                .accesses = f->accesses,
                                .remote = f->remote,
                                .remote_time = f->remote_time,
                                .timed = f->timed};
    findings_find(f->analysis, &spots, &f->found);
    findings_find_locks(f->analysis, &f->elapsed, &f->found);
    const struct spex_shared_line *line;
    for (size_t i = 0, n = 0; sharing && n < LINES_MOST && (line = spex_sharing_line(sharing, i));
         i++)
        if (line->score >= SPEX_FINDING_SCORE &&
            line->score * (double)line->samples >=
                0.01 * (double)spex_sharing_totals(sharing)->memory) {
            f->found.items = memory_grow(f->found.items, f->found.count, &f->found.capacity,
                                         sizeof *f->found.items);
            f->found.items[f->found.count] = (struct spex_finding){0};
            finding_fill_line(f->analysis, sharing, line, &f->found.items[f->found.count++]);
            n++;
        }
    if (f->found.count)
        qsort(f->found.items, f->found.count, sizeof *f->found.items, by_share);
}

enum spex_status spex_findings_finish(struct spex_findings *f, const struct spex_sharing *sharing)
{
    assert(f);
    f->failed = f->failed || !memory_guarded(f->account, finish(f, sharing));
    return f->failed ? SPEX_NO_MEMORY : SPEX_OK;
}

const struct spex_finding *spex_findings_at(const struct spex_findings *f, size_t index)
{
    return f && !f->failed && index < f->found.count ? &f->found.items[index] : NULL;
}

bool spex_findings_timed(const struct spex_findings *f)
{
    return f && f->timed;
}
