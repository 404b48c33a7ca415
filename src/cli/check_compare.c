/* spex check: what changed, and which functions and lines are to blame. */
#include "check.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const check_verdicts[] = {"same", "slower",      "faster", "within layouts",
                                      "new",  "other model", NULL};

/* ---- the verdict ---- */

static bool within(uint64_t n, const struct check_result *r)
{
    return n >= r->low && n <= r->high;
}

void check_compare(const struct check_case *c, const struct check_result *before,
                   const struct check_result *after, struct check_change *change)
{
    *change = (struct check_change){.before = before, .after = after, .threshold = c->threshold};
    if (!before) {
        change->verdict = CHECK_NEW;
        return;
    }
    if (strcmp(before->model, after->model)) {
        change->verdict = CHECK_OTHER;
        return;
    }
    uint64_t was = before->counts[CHECK_CYCLES], is = after->counts[CHECK_CYCLES];
    change->change = was ? (double)is / (double)was - 1 : is ? INFINITY : 0;
    if (fabs(change->change) <= c->threshold)
        change->verdict = CHECK_SAME;
    else if (after->layouts > 1 && before->layouts > 1 &&
             (within(is, before) || within(was, after)))
        change->verdict = CHECK_SPREAD;
    else
        change->verdict = change->change > 0 ? CHECK_SLOWER : CHECK_FASTER;
}

/* ---- lines ---- */

/*
 * Lines move when code before them changes. Both lists are in order; they are aligned so that the
 * cycles of pairs differ as little as possible in total. Lines without a partner are new, or gone.
 */
struct alignment {
    const struct check_function *a, *b;
    uint64_t *cost; /* cost of matching the first i lines of a with j of b */
    size_t width;
};

static uint64_t difference(uint64_t x, uint64_t y)
{
    return x > y ? x - y : y - x;
}

static uint64_t *cost_at(const struct alignment *all, size_t i, size_t j)
{
    return &all->cost[i * all->width + j];
}

/* Can line i of a and line j of b be the same? If so, sets the cost of pairing them. */
static bool pair_cost(const struct alignment *all, size_t i, size_t j, uint64_t *cost)
{
    const struct check_line *x = &all->a->lines[i], *y = &all->b->lines[j];
    *cost = difference(x->cycles, y->cycles);
    return !strcmp(x->file, y->file);
}

static void fill_costs(struct alignment *all)
{
    for (size_t i = 0; i <= all->a->line_count; i++)
        for (size_t j = 0; j <= all->b->line_count; j++) {
            uint64_t best = i || j ? UINT64_MAX : 0, pair;
            if (i)
                best = *cost_at(all, i - 1, j) + all->a->lines[i - 1].cycles;
            if (j && *cost_at(all, i, j - 1) + all->b->lines[j - 1].cycles < best)
                best = *cost_at(all, i, j - 1) + all->b->lines[j - 1].cycles;
            if (i && j && pair_cost(all, i - 1, j - 1, &pair) &&
                *cost_at(all, i - 1, j - 1) + pair <= best)
                best = *cost_at(all, i - 1, j - 1) + pair;
            *cost_at(all, i, j) = best;
        }
}

static void keep_line(struct check_blame *blame, const struct check_line *before,
                      const struct check_line *after)
{
    enum { MOST = sizeof blame->lines / sizeof *blame->lines };
    struct check_blamed_line line = {
        before, after, (int64_t)((after ? after->cycles : 0) - (before ? before->cycles : 0))};
    size_t at = blame->line_count;
    if (llabs(line.cycles) * 10 < llabs(blame->cycles) || !line.cycles)
        return;
    while (at && llabs(blame->lines[at - 1].cycles) < llabs(line.cycles))
        at--;
    if (at == MOST)
        return;
    size_t last = blame->line_count < MOST ? blame->line_count++ : MOST - 1;
    memmove(&blame->lines[at + 1], &blame->lines[at], (last - at) * sizeof *blame->lines);
    blame->lines[at] = line;
}

static void blame_lines(struct check_blame *blame)
{
    static const struct check_function nothing;
    enum { MOST = 2000 };
    struct alignment all = {blame->before ? blame->before : &nothing,
                            blame->after ? blame->after : &nothing, NULL, 0};
    size_t i = all.a->line_count, j = all.b->line_count;
    if (i > MOST || j > MOST)
        return;
    all.width = j + 1;
    all.cost = memory_get((i + 1) * (j + 1), sizeof *all.cost);
    fill_costs(&all);
    while (i || j) {
        uint64_t here = *cost_at(&all, i, j), pair;
        if (i && j && pair_cost(&all, i - 1, j - 1, &pair) &&
            *cost_at(&all, i - 1, j - 1) + pair == here) {
            keep_line(blame, &all.a->lines[--i], &all.b->lines[--j]);
        } else if (i && *cost_at(&all, i - 1, j) + all.a->lines[i - 1].cycles == here) {
            keep_line(blame, &all.a->lines[--i], NULL);
        } else {
            keep_line(blame, NULL, &all.b->lines[--j]);
        }
    }
    free(all.cost);
}

/* ---- functions ---- */

static const struct check_function *find(const struct check_result *r, const char *name)
{
    for (size_t i = 0; i < r->function_count; i++)
        if (!strcmp(r->functions[i].name, name))
            return &r->functions[i];
    return NULL;
}

static int by_cycles(const void *a, const void *b)
{
    const struct check_blame *x = a, *y = b;
    if (llabs(x->cycles) != llabs(y->cycles))
        return llabs(x->cycles) > llabs(y->cycles) ? -1 : 1;
    return strcmp((x->after ? x->after : x->before)->name, (y->after ? y->after : y->before)->name);
}

static struct check_blame blame_of(const struct check_function *before,
                                   const struct check_function *after)
{
    return (struct check_blame){.before = before,
                                .after = after,
                                .cycles = (int64_t)((after ? after->counts[CHECK_CYCLES] : 0) -
                                                    (before ? before->counts[CHECK_CYCLES] : 0))};
}

static bool is_small(const struct check_blame *b, uint64_t whole)
{
    return (!b->before || !b->after) && (uint64_t)llabs(b->cycles) < whole / 500;
}

/*
 * A function that is listed on one side only, because it is just too small on the other, is counted
 * with the others on both.
 */
static size_t fold_small(struct check_blame *all, size_t count, uint64_t whole)
{
    size_t others = 0, kept = 0;
    int64_t folded = 0;
    while (others < count &&
           strcmp((all[others].after ? all[others].after : all[others].before)->name, CHECK_OTHERS))
        others++;
    if (others == count)
        return count;
    for (size_t i = 0; i < count; i++)
        if (i != others && is_small(&all[i], whole))
            folded += all[i].cycles;
    all[others].cycles += folded;
    for (size_t i = 0; i < count; i++)
        if (i == others || !is_small(&all[i], whole))
            all[kept++] = all[i];
    return kept;
}

size_t check_blame(const struct check_change *change, struct check_blame blames[CHECK_BLAMED])
{
    const struct check_result *a = change->before, *b = change->after;
    size_t count = 0, shown = 0;
    if (!a || change->verdict == CHECK_OTHER)
        return 0;
    struct check_blame *all = memory_get(a->function_count + b->function_count + 1, sizeof *all);
    for (size_t i = 0; i < b->function_count; i++)
        all[count++] = blame_of(find(a, b->functions[i].name), &b->functions[i]);
    for (size_t i = 0; i < a->function_count; i++)
        if (!find(b, a->functions[i].name))
            all[count++] = blame_of(&a->functions[i], NULL);
    count = fold_small(all, count, a->counts[CHECK_CYCLES]);
    if (count)
        qsort(all, count, sizeof *all, by_cycles);
    for (; shown < count && shown < CHECK_BLAMED; shown++) {
        if (!all[shown].cycles || llabs(all[shown].cycles) * 20 < llabs(all[0].cycles))
            break;
        blames[shown] = all[shown];
        blame_lines(&blames[shown]);
    }
    free(all);
    return shown;
}
