/* Derives findings from the counts of a profile (findings.h): conditions and numbers. */
#include "findings.h"

#include "internal.h"
#include "replay.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Operations that wait for each other must take half of their function's time: otherwise something
 * else bounds it. A finding needs at least ten samples, and a hundredth of the time even at the
 * lower end of its interval. At most three functions are named for each kind.
 */
enum { LEAST = 10, MOST = 3 };
#define MODEL "spex model" /* how the cpudesc of a file from the model begins */
static const double least_share = 0.01;
/* Instructions that take a smaller share are not looked at one by one. */
static const double least_looked = 0.001;

/* The samples of one kind in a function. */
struct part {
    uint64_t time, samples, branches;
    const struct spot *most; /* the instruction with most of them */
    const struct spot *first;
    uint64_t most_time;
};

struct finder {
    struct spex_analysis *analysis;
    const struct spots *spots;
    struct found *found;
};

/* "walk (list_walk.c:31)", "walk", "prog+0x401104" */
static char *code_name(struct finder *f, const struct spot *spot)
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
        return finding_words("%s", text);
    const char *slash = strrchr(line.file, '/');
    return finding_words("%s (%s:%u)", text, slash ? slash + 1 : line.file, line.line);
}

/* Does the part take enough time? The interval is that of a count of `samples`. */
static bool is_enough(uint64_t time, uint64_t samples, uint64_t all, struct spex_finding *finding)
{
    const double off = samples ? 1.96 / sqrt((double)samples) : 1;
    finding->share = all ? (double)time / (double)all : 0;
    finding->low = finding->share * (off < 1 ? 1 - off : 0);
    finding->high = fmin(1, finding->share * (1 + off));
    finding->samples = samples;
    return samples >= LEAST && finding->low >= least_share;
}

static uint64_t time_of(const struct spot *spot)
{
    uint64_t time = 0;
    for (unsigned k = 0; k < CLOSER; k++)
        time += spot->time[k];
    return time;
}

static uint64_t samples_of(const struct spot *spot)
{
    uint64_t samples = 0;
    for (unsigned k = 0; k < WALKS; k++)
        samples += spot->samples[k];
    return samples;
}

static struct spex_finding *add(struct finder *f, const struct spex_finding *finding)
{
    struct found *to = f->found;
    to->items = memory_grow(to->items, to->count, &to->capacity, sizeof *to->items);
    to->items[to->count] = *finding;
    return &to->items[to->count++];
}

/* Fills in where a part is, and how much time it takes. */
static void name_part(struct finder *f, struct spex_finding *finding, const struct part *part)
{
    finding->place = code_name(f, part->most);
    if (part->most->symbol && part->most->symbol->name)
        finding->function = finding_words("%s", part->most->symbol->name);
    if (part->time)
        finding_add_number(finding, "of_it_there", (double)part->most_time / (double)part->time);
}

static void add_to_part(struct part *part, const struct spot *spot, uint64_t time, uint64_t samples)
{
    if (!samples)
        return;
    part->time += time;
    part->samples += samples;
    if (!part->most || time > part->most_time) {
        part->most = spot;
        part->most_time = time;
    }
}

static int by_time(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time ? -1 : 1) : x->most < y->most ? -1 : 1;
}

/* Sums the parts by function; keeps the functions with the most time, and calls for each. */
static size_t sum_functions(struct finder *f, enum closer kind, struct part **parts)
{
    size_t count = 0, capacity = 0;
    struct part *list = NULL;
    const struct spots *s = f->spots;
    for (size_t i = 0; i < s->count;) {
        struct part part = {.first = &s->list[i]};
        for (; i < s->count && s->list[i].module == part.first->module &&
               s->list[i].symbol == part.first->symbol;
             i++)
            add_to_part(&part, &s->list[i], s->list[i].time[kind], s->list[i].samples[kind]);
        if (!part.samples)
            continue;
        list = memory_grow(list, count, &capacity, sizeof *list);
        list[count++] = part;
    }
    if (count)
        qsort(list, count, sizeof *list, by_time);
    *parts = list;
    return count;
}

/* ---- data ---- */

static double of_memory(const struct finder *f, uint64_t time)
{
    return f->spots->memory ? (double)time / (double)f->spots->memory : 0;
}

static void find_far(struct finder *f)
{
    struct part *parts;
    const size_t count = sum_functions(f, FAR, &parts);
    for (size_t i = 0; i < count && i < MOST; i++) {
        struct spex_finding finding = {.kind = SPEX_FINDING_FAR_DATA};
        int64_t stride;
        if (!is_enough(parts[i].time, parts[i].samples, f->spots->all, &finding))
            continue;
        finding.how = code_address_case(f->analysis, parts[i].most->module, parts[i].most->symbol,
                                        parts[i].most->address, &stride);
        name_part(f, &finding, &parts[i]);
        finding_add_number(&finding, "of_memory_time", of_memory(f, parts[i].time));
        if (finding.how == SPEX_CASE_STREAM || finding.how == SPEX_CASE_STRIDE ||
            finding.how == SPEX_CASE_PAGES)
            finding_add_number(&finding, "stride", fabs((double)stride));
        add(f, &finding);
    }
    memory_free(parts);
}

/* The name of the data that an instruction accesses, if all of it has one name. */
static char *data_name(struct finder *f, const struct spot *spot)
{
    struct spex_place low, high;
    if (!spot->high)
        return NULL;
    spex_analysis_locate(f->analysis, spot->pid, spot->low, &low);
    spex_analysis_locate(f->analysis, spot->pid, spot->high, &high);
    if (!low.symbol || !low.symbol->name || low.symbol != high.symbol)
        return NULL;
    return finding_words("%s", low.symbol->name);
}

static bool takes_locks(const struct spot *spot)
{
    static const char *const words[] = {"mutex_lock", "mutex_unlock", "lll_lock", "futex",
                                        "spin_lock",  "sem_wait",     "rwlock",   "mutex_cond",
                                        "spinlock",   "lll_trylock"};
    static const char *const outlined[] = {"__aarch64_swp", "__aarch64_cas"}; /* 4_acq */
    const char *name = spot->symbol ? spot->symbol->name : NULL;
    const size_t size = name ? strlen(name) : 0;
    for (size_t i = 0; i < sizeof outlined / sizeof *outlined; i++)
        if (size > 4 && !strncmp(name, outlined[i], strlen(outlined[i])) &&
            !strcmp(name + size - 4, "_acq"))
            return true;
    for (size_t i = 0; name && i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

/* An instruction that takes a lock, and the loop around it. */
struct taker {
    struct spot spot;
    uint64_t start, end;
};

static bool is_of_lock(const struct spot *spot, const struct taker *t)
{
    if (takes_locks(spot))
        return false;
    const bool word = spot->samples[PEER] && spot->pid == t->spot.pid && spot->low >= t->spot.low &&
                      spot->high <= t->spot.high;
    return word ||
           (spot->module == t->spot.module && spot->address >= t->start && spot->address < t->end);
}

/*
 * A spin lock written in the program itself: how long the loop that takes it runs, and where else
 * the lock word is read or changed.
 */
static void find_spinning(struct finder *f)
{
    for (size_t i = 0; i < f->spots->count; i++) {
        struct taker taker = {.spot = f->spots->list[i]};
        struct spex_finding finding = {.kind = SPEX_FINDING_LOCK, .how = SPEX_CASE_SPIN};
        struct part part = {0};
        uint64_t peer = 0;
        if (!taker.spot.samples[PEER] || takes_locks(&taker.spot) ||
            taker.spot.high - taker.spot.low >= sizeof(uint64_t) ||
            !code_takes_lock(f->analysis, taker.spot.module, taker.spot.address))
            continue;
        code_loop(f->analysis, taker.spot.module, taker.spot.symbol, taker.spot.address,
                  &taker.start, &taker.end);
        for (size_t k = 0; k < f->spots->count; k++) {
            const struct spot *spot = &f->spots->list[k];
            if (!is_of_lock(spot, &taker))
                continue;
            add_to_part(&part, spot, time_of(spot), samples_of(spot));
            peer += spot->samples[PEER];
        }
        if (peer < LEAST || !is_enough(part.time, part.samples, f->spots->all, &finding))
            continue;
        name_part(f, &finding, &part);
        finding.data = data_name(f, &taker.spot);
        finding_add_number(&finding, "from_other_cores", (double)peer);
        add(f, &finding);
        for (size_t k = 0; k < f->spots->count; k++) /* these belong to this lock */
            if (is_of_lock(&f->spots->list[k], &taker)) {
                memset(f->spots->list[k].time, 0, sizeof f->spots->list[k].time);
                memset(f->spots->list[k].samples, 0, sizeof f->spots->list[k].samples);
            }
    }
}

/* The time of functions that take and release locks, if other cores had the data. */
static void find_lock(struct finder *f)
{
    struct spex_finding finding = {.kind = SPEX_FINDING_LOCK};
    struct part peer = {0};
    uint64_t time = 0, samples = 0;
    for (size_t i = 0; i < f->spots->count; i++) {
        const struct spot *spot = &f->spots->list[i];
        if (!takes_locks(spot))
            continue;
        time += time_of(spot);
        samples += samples_of(spot);
        add_to_part(&peer, spot, spot->time[PEER], spot->samples[PEER]);
    }
    if (!peer.samples || !is_enough(time, samples, f->spots->all, &finding))
        return;
    name_part(f, &finding, &peer);
    finding.data = data_name(f, peer.most);
    finding_add_number(&finding, "from_other_cores", (double)peer.samples);
    add(f, &finding);
}

static void find_peer(struct finder *f)
{
    struct part *parts;
    const size_t count = sum_functions(f, PEER, &parts);
    for (size_t i = 0; i < count && i < MOST; i++) {
        struct spex_finding finding = {.kind = SPEX_FINDING_PEER_DATA};
        if (takes_locks(parts[i].first) ||
            !is_enough(parts[i].time, parts[i].samples, f->spots->all, &finding))
            continue;
        name_part(f, &finding, &parts[i]);
        finding.data = data_name(f, parts[i].most);
        finding_add_number(&finding, "of_memory_time", of_memory(f, parts[i].time));
        add(f, &finding);
    }
    memory_free(parts);
}

static void find_walks(struct finder *f)
{
    struct spex_finding finding = {.kind = SPEX_FINDING_TABLE_WALKS};
    struct part part = {0};
    const struct spex_perfdata *file = spex_analysis_file(f->analysis);
    int64_t stride;
    for (size_t i = 0; i < f->spots->count; i++) {
        const struct spot *spot = &f->spots->list[i];
        add_to_part(&part, spot, spot->time[WALKS], spot->samples[WALKS]);
    }
    if (!part.samples || !is_enough(part.time, part.samples, f->spots->all, &finding))
        return;
    if (file && !strncmp(spex_perfdata_info(file)->cpudesc, MODEL, strlen(MODEL)))
        finding.how = SPEX_CASE_MODEL;
    if (2 * part.most_time >= part.time &&
        code_address_case(f->analysis, part.most->module, part.most->symbol, part.most->address,
                          &stride) == SPEX_CASE_PAGES)
        finding.how = SPEX_CASE_PAGES;
    name_part(f, &finding, &part);
    finding_add_number(&finding, "walks", (double)part.samples);
    finding_add_number(&finding, "accesses", (double)f->spots->accesses);
    finding_add_number(&finding, "of_accesses", (double)part.samples / (double)f->spots->accesses);
    add(f, &finding);
}

static void find_remote(struct finder *f)
{
    struct spex_finding finding = {.kind = SPEX_FINDING_REMOTE_DATA};
    if (!is_enough(f->spots->remote_time, f->spots->remote, f->spots->all, &finding))
        return;
    finding_add_number(&finding, "remote", (double)f->spots->remote);
    finding_add_number(&finding, "accesses", (double)f->spots->accesses);
    finding_add_number(&finding, "of_accesses",
                       (double)f->spots->remote / (double)f->spots->accesses);
    add(f, &finding);
}

/*
 * Loads that cross a cache line, where the next iteration waits for them: elsewhere the extra cycle
 * does not show.
 */
static void find_split(struct finder *f)
{
    const struct replay *replay = analysis_any_replay(f->analysis);
    const struct spots *s = f->spots;
    if (!replay)
        return;
    for (size_t i = 0; i < s->count;) {
        const struct spot *first = &s->list[i];
        struct spex_finding finding = {.kind = SPEX_FINDING_SPLIT_ACCESSES};
        struct part part = {0};
        for (; i < s->count && s->list[i].module == first->module &&
               s->list[i].symbol == first->symbol;
             i++) {
            struct spot *spot = &s->list[i];
            const unsigned bytes = code_access_bytes(f->analysis, spot->module, spot->address);
            uint64_t at, time = 0, samples = 0;
            bool inside = false;
            for (unsigned k = 0; k < SPLITS && 2u << k <= bytes; k++) {
                time += spot->split_cycle[k] * replay->split;
                samples += spot->split[k];
            }
            if (!samples ||
                code_circle(f->analysis, spot->module, spot->address, &at, &inside) ==
                    SPEX_FINDING_COUNT ||
                !inside)
                continue;
            time = time < spot->time[REST] ? time : spot->time[REST];
            spot->time[REST] -= time;
            add_to_part(&part, spot, time, samples);
        }
        if (!part.samples || !is_enough(part.time, part.samples, s->all, &finding))
            continue;
        name_part(f, &finding, &part);
        add(f, &finding);
    }
}

/* ---- code ---- */

static int most_first(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x != y ? (x > y ? -1 : 1) : 0;
}

/*
 * Code that does not fit in the instruction cache. Records do not show fetches. What is known: how
 * long an operation takes, if the length of a cycle is known; how long it takes with code at hand,
 * from the replay; that few operations wait at the same time, where a full window would hold more;
 * and the sampled lines of code, of which the cache holds at best those used most.
 */
static void find_cold(struct finder *f)
{
    enum { LINE = 64, FEW_WAIT = 16 };
    const struct replay *replay = analysis_any_replay(f->analysis);
    const struct spex_perfdata *file = spex_analysis_file(f->analysis);
    const struct spots *s = f->spots;
    const uint64_t period = spex_analysis_sampling(f->analysis)->period;
    struct spex_finding finding = {.kind = SPEX_FINDING_COLD_CODE};
    if (!replay || !file || !s->timed || !s->all || !period ||
        2 * replay->replayed < replay->samples ||
        strncmp(spex_perfdata_info(file)->cpudesc, MODEL, strlen(MODEL)) || replay->cycles <= 0)
        return;
    uint64_t *lines = memory_get(s->count + 1, sizeof *lines), outside = 0, all = 0;
    size_t count = 0;
    struct part part = {0};
    for (size_t i = 0; i < s->count;) {
        const struct spot *first = &s->list[i];
        struct part function = {.first = first};
        for (; i < s->count && s->list[i].module == first->module &&
               s->list[i].symbol == first->symbol;
             i++) {
            const struct spot *spot = &s->list[i];
            const uint64_t samples = samples_of(spot);
            if (spot == first || spot->address / LINE != spot[-1].address / LINE)
                lines[count++] = 0;
            lines[count - 1] += samples;
            all += samples;
            add_to_part(&function, spot, time_of(spot), samples);
        }
        if (!part.most || function.time > part.time)
            part = function;
    }
    if (count)
        qsort(lines, count, sizeof *lines, most_first);
    for (size_t i = replay->code / LINE; i < count; i++)
        outside += lines[i];
    memory_free(lines);
    const double cycles =
        (double)s->all / 1000 / ((double)s->samples * (double)period); /* in units of 1 ns */
    const double lost = cycles > replay->cycles ? 1 - replay->cycles / cycles : 0;
    if (replay->wait > FEW_WAIT * cycles ||
        !is_enough((uint64_t)(lost * (double)s->all), outside, s->all, &finding))
        return;
    if (2 * part.time >= s->all) { /* else it is spread over the program */
        part.most_time = 0;
        name_part(f, &finding, &part);
    }
    finding_add_number(&finding, "lines", (double)count);
    finding_add_number(&finding, "code_kb", (double)(count * LINE / 1024));
    finding_add_number(&finding, "cache_kb", (double)(replay->code / 1024));
    finding_add_number(&finding, "outside", (double)outside / (double)all);
    finding_add_number(&finding, "cycles_per_operation", cycles);
    finding_add_number(&finding, "cycles_with_code_at_hand", replay->cycles);
    add(f, &finding);
}

static int by_wrong_time(const void *a, const void *b)
{
    const struct spot *x = *(const struct spot *const *)a, *y = *(const struct spot *const *)b;
    if (x->time[WRONG] != y->time[WRONG])
        return x->time[WRONG] > y->time[WRONG] ? -1 : 1;
    return x < y ? -1 : 1;
}

static void find_mispredicted(struct finder *f)
{
    const struct spot **list = memory_get(f->spots->count + 1, sizeof *list);
    size_t count = 0;
    uint64_t all = 0;
    for (size_t i = 0; i < f->spots->count; i++)
        if (f->spots->list[i].samples[WRONG]) {
            list[count++] = &f->spots->list[i];
            all += f->spots->list[i].samples[WRONG];
        }
    if (count)
        qsort(list, count, sizeof *list, by_wrong_time);
    for (size_t i = 0; i < count && i < MOST; i++) {
        struct spex_finding finding = {.kind = SPEX_FINDING_MISPREDICTED};
        const struct part part = {.most = list[i]};
        if (!is_enough(list[i]->time[WRONG], list[i]->samples[WRONG], f->spots->all, &finding))
            continue;
        finding.how = code_branch_case(f->analysis, list[i]->module, list[i]->address);
        name_part(f, &finding, &part);
        finding_add_number(&finding, "mispredicts", (double)list[i]->samples[WRONG]);
        finding_add_number(&finding, "samples", (double)list[i]->branches);
        finding_add_number(&finding, "of_its_branches",
                           (double)list[i]->samples[WRONG] / (double)list[i]->branches);
        finding_add_number(&finding, "of_all_mispredicts",
                           (double)list[i]->samples[WRONG] / (double)all);
        add(f, &finding);
    }
    memory_free(list);
}

/* Operations that wait for each other, and those that wait for them. */
static void find_circles(struct finder *f)
{
    struct circle {
        enum spex_finding_kind kind;
        uint64_t first;
        struct part part;
        uint64_t function; /* time of the whole function */
    } *list = NULL;
    size_t count = 0, capacity = 0;
    const struct spots *s = f->spots;
    uint64_t function = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct spot *spot = &s->list[i];
        if (!i || spot->module != spot[-1].module || spot->symbol != spot[-1].symbol) {
            function = 0;
            for (size_t k = i; k < s->count && s->list[k].module == spot->module &&
                               s->list[k].symbol == spot->symbol;
                 k++)
                function += time_of(&s->list[k]);
        }
        uint64_t first = 0;
        size_t n = 0;
        if ((double)spot->time[REST] < least_looked * (double)s->all)
            continue;
        bool inside;
        enum spex_finding_kind kind =
            code_circle(f->analysis, spot->module, spot->address, &first, &inside);
        if (code_divides(f->analysis, spot->module, spot->address)) {
            kind = SPEX_FINDING_DIVISION;
            first = spot->address;
        } else if (kind == SPEX_FINDING_DIVISION) {
            continue; /* the time of a division counts for itself */
        }
        if (kind == SPEX_FINDING_COUNT)
            continue;
        while (n < count && (list[n].kind != kind || list[n].part.most->module != spot->module ||
                             list[n].part.most->symbol != spot->symbol))
            n++;
        if (n == count) {
            list = memory_grow(list, count, &capacity, sizeof *list);
            list[count++] = (struct circle){.kind = kind, .first = first, .function = function};
        }
        add_to_part(&list[n].part, spot, spot->time[REST], spot->samples[REST]);
        if (spot->address == list[n].first)
            list[n].part.first = spot;
    }
    for (size_t i = 0; i < count; i++) {
        struct spex_finding finding = {.kind = list[i].kind};
        struct part part = list[i].part;
        if (!is_enough(part.time, part.samples, s->all, &finding) ||
            (list[i].kind != SPEX_FINDING_DIVISION && 2 * part.time < list[i].function))
            continue;
        /* the operation that all wait for names the finding */
        if (part.first && part.first != part.most) {
            part.most = part.first;
            part.most_time = part.first->time[REST];
        }
        name_part(f, &finding, &part);
        add(f, &finding);
    }
    memory_free(list);
}

/*
 * Walks whose records do not tell how long the access took: the walk's share is its cycles,
 * relative to the cycles that one execution of the instruction costs in the replay.
 */
static void divide_late_walks(struct finder *f)
{
    struct spex_replay replay = {.size = sizeof replay};
    const struct spots *s = f->spots;
    spex_analysis_replay(f->analysis, &replay);
    const double cycle = replay.cycles > 0 && s->samples
                             ? (double)s->all / (double)s->samples / replay.cycles
                             : 0; /* time of a sample per cycle */
    for (size_t i = 0; i < s->count && cycle > 0; i++) {
        struct spot *spot = &s->list[i];
        uint64_t part = (uint64_t)(spot->late_cycles * cycle);
        enum closer kind = spot->time[FAR] >= spot->time[PEER] ? FAR : PEER;
        if (!spot->late)
            continue;
        kind = spot->time[REST] > spot->time[kind] ? REST : kind;
        part = part < spot->late_time ? part : spot->late_time;
        part = part < spot->time[kind] ? part : spot->time[kind];
        spot->time[kind] -= part;
        spot->time[WALKS] += part;
    }
}

void findings_find(struct spex_analysis *analysis, const struct spots *spots, struct found *found)
{
    struct finder f = {analysis, spots, found};
    divide_late_walks(&f);
    find_far(&f);
    find_spinning(&f);
    find_lock(&f);
    find_peer(&f);
    find_walks(&f);
    find_remote(&f);
    find_mispredicted(&f);
    find_split(&f);
    find_cold(&f);
    find_circles(&f);
}
