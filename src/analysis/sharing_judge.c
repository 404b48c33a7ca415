/*
 * Decides which of the cache lines that threads share and write are harmful.
 *
 * Contention is modelled by two neighbouring accesses to the line. Thread i makes a fraction f of
 * the line's accesses at word o, a fraction u of them writes. Two accesses, of threads i and j to
 * words o and p, conflict if the threads are active at the same time (c) and at least one access is
 * a write:
 *
 *     conflict = sum over i != j, o, p of  c_ij f_i(o) f_j(p) (1 - (1-u_i(o)) (1-u_j(p)))
 *
 * The sum is divided by its largest value for that many threads, 1 - 1/n. The part with o != p is
 * sharing that padding would remove ("apart"). Where a CPU reports the source of data, a line keeps
 * its score if other cores answer at least a tenth of its loads (between two transfers a core uses
 * a line several times); a smaller share lowers it in proportion.
 */
#include "sharing.h"

#include "base/jobs.h"
#include "base/memory.h"
#include "base/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEVELS = 7,     /* 64, 32, ... 1 buckets */
    CELLS = 192,    /* (thread, word) pairs of a line that are compared */
    LEAST = 10,     /* a line with fewer samples is not judged */
    LEAST_EACH = 3, /* fewest samples of a second thread */
};

struct cell { /* one thread's use of one word */
    int32_t tid;
    unsigned offset;
    double accesses, writes;
    uint32_t samples;        /* all samples of the thread on the line */
    uint64_t active[LEVELS]; /* time buckets with its samples, each level half as many */
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

/*
 * How much two threads run at the same time, in buckets that hold about two samples of each thread.
 */
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
        const struct stats *t = &use->row->stats;
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
            continue; /* the largest cells come first: those left out are small */
        if (c == count) {
            const struct activity *activity = sharing_activity(s, line, use->tid, false);
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

/* Is the function of a use named like one that takes locks? */
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
 * A lock is a word that several threads change with atomic operations and release with a plain
 * store or a swap; a counter is only added to.
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
    return cost_x != cost_y           ? ORDER(cost_y, cost_x)
           : x->address != y->address ? ORDER(x->address, y->address)
                                      : ORDER(x->first_use, y->first_use);
}

struct sorted_use {
    struct spex_shared_use use;
    size_t at;
};

static int by_place(const void *a, const void *b)
{
    const struct sorted_use *x = a, *y = b;
    return x->use.offset != y->use.offset ? ORDER(x->use.offset, y->use.offset)
           : x->use.tid != y->use.tid     ? ORDER(x->use.tid, y->use.tid)
                                          : ORDER(x->at, y->at);
}

/* Orders uses by samples, most first; uses at the same place keep their order. */
static void sort_uses(struct spex_shared_use *uses, size_t count, struct sorted_use *sorted)
{
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct sorted_use){uses[i], i};
    qsort(sorted, count, sizeof *sorted, by_place);
    for (size_t i = 0; i < count; i++)
        uses[i] = sorted[i].use;
}

/* Does a second thread use the line often enough for it to count as shared? */
static bool enough(struct spex_sharing *s, uint32_t number, const struct spex_shared_line *line)
{
    int32_t busy = -1;
    for (size_t i = 0; i < line->uses && line->samples >= LEAST; i++) {
        int32_t tid = s->uses[line->first_use + i].tid;
        const struct activity *a = sharing_activity(s, number, tid, false);
        if (!a || a->samples < LEAST_EACH || tid == busy)
            continue;
        if (busy >= 0)
            return true;
        busy = tid;
    }
    return false;
}

/* Judges one line; a line that is not shared ends up without uses. */
static void judge_line(void *user, size_t i, unsigned thread)
{
    struct spex_sharing *s = user;
    struct spex_shared_line *r = &s->results[i];
    (void)thread;
    judge(s, (uint32_t)i, r);
    if (!enough(s, (uint32_t)i, r)) {
        r->uses = 0;
        return;
    }
    sort_uses(s->uses + r->first_use, r->uses, s->sorted + r->first_use);
    r->lock = find_lock(s, (uint32_t)i, r);
}

void sharing_judge(struct spex_sharing *s)
{
    if (spex_group_sort(s->group, SPEX_BY_SAMPLES))
        memory_get(SIZE_MAX, 1); /* ends here */
    size_t rows = spex_group_count(s->group);
    s->uses = memory_get(rows + 1, sizeof *s->uses);
    s->results = memory_get(s->candidates + 1, sizeof *s->results);
    s->sorted = memory_get(rows + 1, sizeof *s->sorted);
    size_t *start = s->first_uses = memory_get(2 * s->candidates + 3, sizeof *start);
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
        const struct activity *a = sharing_activity(s, line, use->tid, false);
        use->comm = a ? a->comm : "";
    }
    for (size_t i = 0; i < s->candidates; i++)
        s->results[i] =
            (struct spex_shared_line){.address = s->lines[i].va,
                                      .pid = s->lines[i].id.space >= 0 ? s->lines[i].id.space : -1,
                                      .first_use = start[i],
                                      .uses = start[i + 1] - start[i]};
    const unsigned threads = spex_analysis_together(s->analysis, true);
    jobs_run(&(struct jobs){s, s->candidates, judge_line}, threads);
    spex_analysis_together(s->analysis, false);
    for (size_t i = 0; i < s->candidates; i++)
        if (s->results[i].uses)
            s->results[s->result_count++] = s->results[i];
    qsort(s->results, s->result_count, sizeof *s->results, by_cost);
    memory_free(s->first_uses);
    memory_free(s->sorted);
    s->first_uses = NULL;
    s->sorted = NULL;
}
