#include "findings.h"

#include "internal.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/vec.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of samples whose code is counted. */
enum closer { FAR, PEER, WALKS, BRANCHES, CLOSER };

struct cost {
    uint64_t time, execute; /* ps; cycles: where there are no timestamps */
};

/* An instruction and the sums of its samples of each kind. */
struct spot {
    struct spex_module *module;
    const struct spex_symbol *symbol;
    uint64_t address, time[CLOSER];
    uint32_t samples[CLOSER], mispredicts;
};

enum { STEP = 256 };           /* samples taken together */
enum { SPOTS_MOST = 1 << 20 }; /* instructions that are counted apart; more are not counted */

struct findings {
    struct spex_analysis *analysis;
    struct spot *near;      /* by a sample's `place`: the instructions met last */
    VEC(struct spot) spots; /* of all */
    uint32_t *index;        /* spot + 1, by module and address */
    size_t mask;
    uint64_t seed;
    struct cost all, memory, far, peer;
    uint64_t accesses, walks, remote; /* memory samples; of these, by event */
    VEC(struct finding) list;
    bool full;   /* some instructions were left out */
    bool failed; /* memory ran out: there are no findings */
};

static const char *const names[FINDING_KINDS] = {
    [FINDING_FAR_DATA] = "far-data",
    [FINDING_PEER_DATA] = "peer-data",
    [FINDING_TABLE_WALKS] = "table-walks",
    [FINDING_REMOTE_DATA] = "remote-data",
    [FINDING_MISPREDICTED] = "mispredicted",
    [FINDING_FALSE_SHARING] = "false-sharing",
    [FINDING_TRUE_SHARING] = "true-sharing",
    [FINDING_MIXED_SHARING] = "mixed-sharing",
    [FINDING_LOCK] = "lock",
};

enum spex_status findings_new(struct spex_analysis *analysis, struct findings **findings,
                              struct spex_error *error)
{
    struct findings *f = calloc(1, sizeof *f);
    if (f)
        f->near = calloc(SPEX_PLACES, sizeof *f->near);
    if (!f || !f->near) {
        free(f);
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory");
    }
    f->analysis = analysis;
    f->seed = hash_seed();
    *findings = f;
    return SPEX_OK;
}

void findings_free(struct findings *f)
{
    if (!f)
        return;
    free(f->near);
    vec_free(&f->spots);
    free(f->index);
    for (size_t i = 0; i < f->list.count; i++)
        finding_clear(&f->list.items[i]);
    vec_free(&f->list);
    free(f);
}

/* ---- counting ---- */

static uint32_t *index_of(struct findings *f, const struct spot *spot)
{
    size_t i = hash_word(hash_word(f->seed, (uintptr_t)spot->module), spot->address) & f->mask;
    for (; f->index[i]; i = (i + 1) & f->mask) {
        const struct spot *s = &f->spots.items[f->index[i] - 1];
        if (s->module == spot->module && s->address == spot->address)
            break;
    }
    return &f->index[i];
}

static void grow_index(struct findings *f)
{
    size_t mask = f->index ? f->mask * 2 + 1 : 1023;
    uint32_t *index = memory_get(mask + 1, sizeof *index);
    free(f->index);
    f->index = index;
    f->mask = mask;
    for (size_t n = 0; n < f->spots.count; n++)
        *index_of(f, &f->spots.items[n]) = (uint32_t)n + 1;
}

/* Adds one of the recent instructions to the table of all. */
static void keep_spot(struct findings *f, const struct spot *spot)
{
    bool any = false;
    for (unsigned k = 0; k < CLOSER; k++)
        any |= spot->samples[k];
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
    sum->mispredicts += spot->mispredicts;
}

/* The time of a sample, or what it executed for, in cycles. */
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

/* Where there are no timestamps: what operations executed for. */
static void count_untimed(struct findings *f, const struct spex_sample *s, bool memory, bool far,
                          bool peer)
{
    uint64_t execute = execute_of(s->record);
    f->all.execute += execute;
    f->memory.execute += memory ? execute : 0;
    f->far.execute += far ? execute : 0;
    f->peer.execute += peer ? execute : 0;
}

static inline struct spot *spot_of(struct findings *f, const struct spex_sample *s)
{
    struct spot *spot = &f->near[s->place];
    if (__builtin_expect(spot->address != s->address || spot->module != s->module, 0)) {
        keep_spot(f, spot);
        *spot = (struct spot){.module = s->module, .symbol = s->symbol, .address = s->address};
    }
    return spot;
}

/*
 * In steps over a few samples: those of a kind are picked out first, without branches, since
 * the kind of the next sample is unpredictable.
 */
static void count(struct findings *f, const struct spex_sample *samples, size_t n)
{
    uint64_t all = 0, in_memory = 0, accesses = 0, remote = 0;
    const struct spex_sample *some[STEP], *walks[STEP];
    for (size_t end; n; samples += end, n -= end) {
        size_t chosen = 0, walked = 0;
        uint8_t kinds[STEP];
        end = n < STEP ? n : STEP;
        for (size_t i = 0; i < end; i++) {
            const struct spex_sample *s = &samples[i];
            uint64_t events = s->record->events, time = s->spent;
            bool memory = spex_sample_memory(s), peer = memory & (s->flags / SPEX_SAMPLE_PEER & 1);
            bool far = memory & !peer & beyond_the_core(s->source);
            bool branch = s->op == SPEX_SAMPLE_BRANCH;
            all += time;
            in_memory += memory ? time : 0;
            accesses += memory;
            remote += memory & (events >> SPEX_EV_REMOTE & 1);
            if (__builtin_expect(!time, 0))
                count_untimed(f, s, memory, far, peer);
            some[chosen] = s;
            kinds[chosen] = branch ? BRANCHES : peer ? PEER : FAR;
            chosen += far | peer | branch; /* one of them */
            walks[walked] = s;
            walked += memory & (events >> SPEX_EV_TLB_WALK & 1);
        }
        for (size_t i = 0; i < chosen; i++) {
            struct spot *spot = spot_of(f, some[i]);
            spot->samples[kinds[i]]++;
            spot->time[kinds[i]] += some[i]->spent;
            spot->mispredicts +=
                (kinds[i] == BRANCHES) & (some[i]->record->events >> SPEX_EV_MISPREDICT & 1);
        }
        for (size_t i = 0; i < walked; i++) {
            struct spot *spot = spot_of(f, walks[i]);
            spot->samples[WALKS]++;
            spot->time[WALKS] += walks[i]->spent;
        }
    }
    f->all.time += all;
    f->memory.time += in_memory;
    f->accesses += accesses;
    f->remote += remote;
}

void findings_sink(void *context, const struct spex_sample *samples, size_t n)
{
    struct findings *f = context;
    f->failed = f->failed || !memory_guarded(count(f, samples, n));
}

/* ---- by several threads ---- */

static void *split(void *context, unsigned threads)
{
    const struct findings *f = context;
    struct findings *shard;
    (void)threads;
    return findings_new(f->analysis, &shard, NULL) ? NULL : shard;
}

/* The recent instructions go to the others first. */
static void settle(struct findings *f)
{
    for (size_t i = 0; i < SPEX_PLACES; i++) {
        keep_spot(f, &f->near[i]);
        f->near[i] = (struct spot){0};
    }
}

static void add_cost(struct cost *to, const struct cost *from)
{
    to->time += from->time;
    to->execute += from->execute;
}

static bool join(void *to, void *from)
{
    struct findings *f = to, *other = from;
    if (f->failed || other->failed)
        return false;
    settle(f);
    settle(other);
    for (size_t i = 0; i < other->spots.count; i++)
        keep_spot(f, &other->spots.items[i]);
    add_cost(&f->all, &other->all);
    add_cost(&f->memory, &other->memory);
    add_cost(&f->far, &other->far);
    add_cost(&f->peer, &other->peer);
    f->accesses += other->accesses;
    f->walks += other->walks;
    f->remote += other->remote;
    return !f->full && !other->full;
}

static void take(void *context, void *sum)
{
    struct findings *f = context, *from = sum, empty = *f;
    *f = *from;
    *from = empty;
}

static void drop(void *shard)
{
    findings_free(shard);
}

const struct sink_shards findings_shards = {split, join, take, drop};

/* ---- words ---- */

static char *words(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *words(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    return memory_checked(text);
}

void finding_clear(struct finding *finding)
{
    free(finding->place);
    free(finding->text);
    free(finding->advice);
    free(finding->see);
    *finding = (struct finding){0};
}

static void number(struct finding *finding, const char *name, double value)
{
    unsigned n = 0;
    while (n < FINDING_NUMBERS - 1 && finding->numbers[n].name)
        n++;
    finding->numbers[n].name = name;
    finding->numbers[n].value = value;
}

static struct finding *add(struct findings *f, enum finding_kind kind, double share)
{
    struct finding *finding = memory_checked(vec_push(&f->list));
    *finding = (struct finding){.kind = kind, .share = share};
    return finding;
}

/* "walk (list_walk.c:31)", "walk", "prog+0x401104" */
static char *code_name(struct findings *f, const struct spot *spot)
{
    struct spex_line line = {0};
    char text[512];
    if (spot->symbol && spot->symbol->name)
        snprintf(text, sizeof text, "%s", spot->symbol->name);
    else
        snprintf(text, sizeof text, "%s%s0x%llx",
                 spot->module ? spex_module_name(spot->module) : "", spot->module ? "+" : "",
                 (unsigned long long)spot->address);
    if (spot->module)
        analysis_line(f->analysis, spot->module, spot->address, &line);
    if (!line.file)
        return words("%s", text);
    const char *slash = strrchr(line.file, '/');
    return words("%s (%s:%u)", text, slash ? slash + 1 : line.file, line.line);
}

/*
 * Orders spots by their sum of a kind, so that the result does not depend on the order of samples.
 */
static bool more_of(const struct findings *f, enum closer kind, const struct spot *a,
                    const struct spot *b)
{
    uint64_t x = f->all.time ? a->time[kind] : a->samples[kind];
    uint64_t y = f->all.time ? b->time[kind] : b->samples[kind];
    if (kind == BRANCHES) {
        x = a->mispredicts;
        y = b->mispredicts;
    }
    if (x != y)
        return x > y;
    if (a->samples[kind] != b->samples[kind])
        return a->samples[kind] > b->samples[kind];
    if (a->address != b->address || !a->module || !b->module)
        return a->address < b->address;
    return strcmp(spex_module_path(a->module), spex_module_path(b->module)) < 0;
}

static const struct spot *most_of(const struct findings *f, enum closer kind)
{
    const struct spot *best = NULL;
    for (size_t i = 0; i < f->spots.count; i++) {
        const struct spot *s = &f->spots.items[i];
        if (s->samples[kind] && (!best || more_of(f, kind, s, best)))
            best = s;
    }
    return best;
}

/* All of a kind together. */
static struct spot sum_of(const struct findings *f, enum closer kind)
{
    struct spot sum = {0};
    for (size_t i = 0; i < f->spots.count; i++) {
        sum.samples[kind] += f->spots.items[i].samples[kind];
        sum.time[kind] += f->spots.items[i].time[kind];
        sum.mispredicts += f->spots.items[i].mispredicts;
    }
    return sum;
}

/* The instruction with the most samples of a kind, and its share of them. */
static char *busiest(struct findings *f, enum closer kind, double *part)
{
    const struct spot *spot = most_of(f, kind), all = sum_of(f, kind);
    *part = 0;
    if (!spot)
        return NULL;
    *part = all.time[kind] ? (double)spot->time[kind] / (double)all.time[kind]
                           : (double)spot->samples[kind] / all.samples[kind];
    return code_name(f, spot);
}

/* ", most of it at walk (list_walk.c:31)", or nothing where no place stands out. */
static char *at_place(struct finding *finding, double part)
{
    if (!finding->place || part < 0.25)
        return words("%s", "");
    if (part > 0.995)
        return words(", all of that at %s", finding->place);
    return words(", %.0f%% of that at %s", 100 * part, finding->place);
}

/* ---- what is found ---- */

enum { LEAST = 10 }; /* samples of a kind: fewer may be chance */

static double share_of(const struct cost *part, const struct cost *all)
{
    bool timed = all->time;
    uint64_t whole = timed ? all->time : all->execute;
    return whole ? (double)(timed ? part->time : part->execute) / (double)whole : 0;
}

/* where: of data that takes a share of the time of memory operations. */
static void add_data(struct findings *f, enum finding_kind kind, enum closer class,
                     double of_memory, double share, const char *where)
{
    double part;
    struct finding *finding = add(f, kind, share);
    finding->place = busiest(f, class, &part);
    char *at = at_place(finding, part);
    finding->text = words("%.0f%% of the time of memory operations is for data %s%s",
                          100 * of_memory, where, at);
    free(at);
    bool far = kind == FINDING_FAR_DATA;
    finding->advice =
        words(far ? "use that data in the order it lies in, pack it, or fetch it early"
                  : "find out which lines threads share, and whether they need to");
    finding->see =
        words(far ? "spex report --source dram,system-cache,l3 --sort symbol,srcline" : "spex c2c");
    number(finding, "of_memory_time", of_memory);
    number(finding, "samples", sum_of(f, class).samples[class]);
}

static void find_far(struct findings *f)
{
    double of_memory = share_of(&f->far, &f->memory), share = share_of(&f->far, &f->all);
    if (of_memory >= 0.3 && share >= 0.03 && sum_of(f, FAR).samples[FAR] >= LEAST)
        add_data(f, FINDING_FAR_DATA, FAR, of_memory, share, "beyond the core's own caches");
}

static void find_peer(struct findings *f)
{
    double of_memory = share_of(&f->peer, &f->memory), share = share_of(&f->peer, &f->all);
    if (of_memory >= 0.05 && share >= 0.01 && sum_of(f, PEER).samples[PEER] >= LEAST)
        add_data(f, FINDING_PEER_DATA, PEER, of_memory, share, "in other cores' caches");
}

static void find_walks(struct findings *f)
{
    double ratio = f->accesses ? (double)f->walks / (double)f->accesses : 0, part;
    if (ratio < 0.05 || f->walks < LEAST)
        return;
    uint64_t time = sum_of(f, WALKS).time[WALKS];
    struct finding *finding =
        add(f, FINDING_TABLE_WALKS, f->all.time ? (double)time / (double)f->all.time : 0);
    finding->place = busiest(f, WALKS, &part);
    char *at = at_place(finding, part);
    finding->text = words("%.0f%% of accesses walk the page tables%s", 100 * ratio, at);
    free(at);
    finding->advice = words("use larger pages (MADV_HUGEPAGE), or touch fewer of them");
    finding->see = words("spex report --event tlb-walk --sort symbol,srcline");
    number(finding, "walks", (double)f->walks);
    number(finding, "accesses", (double)f->accesses);
}

static void find_remote(struct findings *f)
{
    double ratio = f->accesses ? (double)f->remote / (double)f->accesses : 0;
    if (ratio < 0.05 || f->remote < LEAST)
        return;
    struct finding *finding = add(f, FINDING_REMOTE_DATA, 0);
    finding->text = words("%.0f%% of accesses go to another socket", 100 * ratio);
    finding->advice = words("place threads and memory together (numactl)");
    finding->see = words("spex report --event remote --sort symbol,srcline");
    number(finding, "remote", (double)f->remote);
    number(finding, "accesses", (double)f->accesses);
}

static void find_mispredicted(struct findings *f)
{
    const struct spot *worst = most_of(f, BRANCHES);
    double all = sum_of(f, BRANCHES).mispredicts;
    if (!worst || worst->mispredicts < LEAST || worst->mispredicts < 0.1 * all ||
        worst->mispredicts < 0.1 * worst->samples[BRANCHES])
        return;
    double ratio = (double)worst->mispredicts / worst->samples[BRANCHES];
    double of_all = worst->mispredicts / all;
    struct finding *finding =
        add(f, FINDING_MISPREDICTED,
            f->all.time ? (double)worst->time[BRANCHES] / (double)f->all.time : 0);
    finding->place = code_name(f, worst);
    finding->text = words("the branch at %s is mispredicted %.0f%% of the time and makes %.0f%% "
                          "of all mispredicts",
                          finding->place, 100 * ratio, 100 * of_all);
    finding->advice = words("compute without the branch (a conditional select), or order the data "
                            "so that it goes one way for long");
    finding->see = words("spex branch");
    number(finding, "mispredicts", worst->mispredicts);
    number(finding, "samples", worst->samples[BRANCHES]);
    number(finding, "of_all_mispredicts", of_all);
}

static int by_share(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

static void finish(struct findings *f, const struct spex_sharing *sharing)
{
    enum { LINES_MOST = 10 };
    settle(f);
    f->far.time = sum_of(f, FAR).time[FAR];
    f->peer.time = sum_of(f, PEER).time[PEER];
    f->walks = sum_of(f, WALKS).samples[WALKS];
    find_far(f);
    find_peer(f);
    find_walks(f);
    find_remote(f);
    find_mispredicted(f);
    const struct spex_shared_line *line;
    for (size_t i = 0, n = 0; sharing && n < LINES_MOST && (line = spex_sharing_line(sharing, i));
         i++)
        if (line->score >= FINDINGS_SCORE &&
            line->score * (double)line->samples >=
                0.005 * (double)spex_sharing_totals(sharing)->memory) {
            finding_of_line(f->analysis, sharing, line, add(f, FINDING_TRUE_SHARING, 0));
            n++;
        }
    if (f->list.count)
        qsort(f->list.items, f->list.count, sizeof *f->list.items, by_share);
}

void findings_finish(struct findings *f, const struct spex_sharing *sharing)
{
    f->failed = f->failed || !memory_guarded(finish(f, sharing));
}

const struct finding *findings_at(const struct findings *f, size_t index)
{
    return f && !f->failed && index < f->list.count ? &f->list.items[index] : NULL;
}

/* ---- writing ---- */

static void finding_write(const struct finding *finding, struct json *json)
{
    json_object(json);
    JSON_MEMBER(json, "kind", string, names[finding->kind]);
    JSON_MEMBER(json, "place", string, finding->place);
    JSON_MEMBER(json, "text", string, finding->text);
    JSON_MEMBER(json, "do", string, finding->advice);
    JSON_MEMBER(json, "see", string, finding->see);
    JSON_MEMBER(json, "share", real, finding->share);
    json_name(json, "evidence");
    json_object(json);
    for (unsigned i = 0; i < FINDING_NUMBERS && finding->numbers[i].name; i++) {
        json_name(json, finding->numbers[i].name);
        json_real(json, finding->numbers[i].value);
    }
    json_end(json);
    json_end(json);
}

void findings_write(const struct findings *f, struct json *json)
{
    const struct finding *finding;
    json_array_lines(json);
    for (size_t i = 0; f && (finding = findings_at(f, i)); i++)
        finding_write(finding, json);
    json_end(json);
}
