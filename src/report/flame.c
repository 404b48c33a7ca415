/*
 * Call paths as a tree, for the flame graph. A node is a function under its callers. It holds only
 * its own samples; the page adds up those below. Nodes that are small by every weight are folded
 * into one "other" below their nearest large caller, and if there are too many cells, several
 * intervals become one. So the size of the tree is limited, and its sums stay right.
 */
#include "report/internal.h"

#include <spex/stacks.h>
#include "base/ids.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

/* Metrics the user can pick for the flame graph. */
static const enum metric weights[] = {METRIC_samples,     METRIC_cycles,   METRIC_time,
                                      METRIC_l1_miss,     METRIC_llc_miss, METRIC_tlb_walk,
                                      METRIC_mispredicted};
enum { WEIGHTS = sizeof weights / sizeof *weights, NONE = -1 };

struct sums {
    uint64_t of[WEIGHTS];
};

struct node {
    int64_t parent; /* NONE: outermost */
    const struct spex_symbol *symbol;
    const struct spex_module *module; /* for a node without a symbol */
    bool missing;                     /* frames between this node and its caller are missing */
    struct sums all;                  /* sums including calls below it */
    double size;                      /* the largest of its shares */
    int64_t shown; /* number in the page; for a folded node, the number of its "other" */
    bool kept;
};

struct piece { /* a cell that is shown */
    int64_t shown;
    uint32_t bin;
    const struct spex_row *from;
};

struct flame {
    struct report *report;
    struct ids ids; /* ids of nodes */
    struct node *nodes;
    size_t count, capacity;
    int64_t *of_stack; /* node of each call; NONE: not made yet */
    int64_t *others;   /* index: kept node + 1; value: number of its "other" */
    size_t *folded;    /* for each "other", the number of functions in it */
    struct piece *pieces;
    size_t piece_count;
    unsigned coarse; /* 2^coarse intervals are combined into one here */
};

static void take(struct sums *sums, const struct spex_group *group, const struct spex_row *row)
{
    struct vector v = {{0}};
    vector_add(&v, group, row);
    for (unsigned w = 0; w < WEIGHTS; w++)
        sums->of[w] += v.value[weights[w]];
}

/* ---- the tree ---- */

static int64_t child(struct flame *f, int64_t parent, const struct spex_symbol *symbol,
                     const struct spex_module *module, bool missing)
{
    const struct node node = {.parent = parent,
                              .symbol = symbol,
                              .module = symbol ? NULL : module,
                              .missing = missing,
                              .shown = NONE};
    const uint64_t key[IDS_WORDS] = {(uint64_t)(parent + 1), (uintptr_t)node.symbol,
                                     (uintptr_t)node.module, missing};
    bool fresh;
    uint32_t n = ids_find(&f->ids, key, &fresh);
    if (fresh) {
        f->nodes = memory_grow(f->nodes, f->count, &f->capacity, sizeof *f->nodes);
        f->nodes[f->count++] = node;
    }
    return n;
}

/* The node of a call; first makes those of its callers if they are new. */
static int64_t node_of_stack(struct flame *f, uint32_t stack)
{
    uint32_t path[SPEX_STACK_MAX];
    size_t n = 0;
    for (; stack && f->of_stack[stack] == NONE && n < SPEX_STACK_MAX;
         stack = spex_analysis_call(f->report->analysis, stack)->caller)
        path[n++] = stack;
    int64_t at = stack ? f->of_stack[stack] : NONE;
    while (n-- > 0) {
        const struct spex_call *call = spex_analysis_call(f->report->analysis, path[n]);
        at = child(f, at, call->symbol, call->module, false);
        if (call->cut)
            at = child(f, at, NULL, NULL, true);
        f->of_stack[path[n]] = at;
    }
    return at;
}

/* The node that the samples of a row are in. */
static int64_t node_of_row(struct flame *f, const struct spex_group *group,
                           const struct spex_row *row)
{
    const struct spex_symbol *symbol = spex_row_symbol(group, row, 1);
    const struct spex_module *module = spex_row_module(group, row, 1);
    int64_t caller = node_of_stack(f, (uint32_t)spex_row_value(group, row, 0));
    return child(f, caller, symbol, symbol ? NULL : module, false);
}

/* Adds up the sums of all nodes; a caller comes before what it calls. */
static void grow(struct flame *f)
{
    const struct spex_group *total = f->report->cubes[STACKS].total;
    struct sums all = {{0}};
    for (size_t i = 0; i < spex_group_count(total); i++) {
        const struct spex_row *row = spex_group_row(total, i);
        int64_t n = node_of_row(f, total, row);
        take(&f->nodes[n].all, total, row);
        take(&all, total, row);
    }
    for (size_t i = f->count; i-- > 0;) {
        struct node *n = &f->nodes[i];
        for (unsigned w = 0; w < WEIGHTS; w++) {
            double share = all.of[w] ? (double)n->all.of[w] / (double)all.of[w] : 0;
            n->size = share > n->size ? share : n->size;
            if (n->parent >= 0)
                f->nodes[n->parent].all.of[w] += n->all.of[w];
        }
    }
}

/* ---- what to show ---- */

static int larger_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

/* Keeps at most `most` nodes: the largest and their callers, which are at least as large. */
static size_t choose(struct flame *f, size_t most)
{
    double *sizes = memory_get(f->count + 1, sizeof *sizes), least = 0;
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++)
        sizes[i] = f->nodes[i].size;
    if (f->count > most) {
        qsort(sizes, f->count, sizeof *sizes, larger_first);
        least = sizes[most];
    }
    free(sizes);
    for (size_t i = 0; i < f->count; i++) {
        struct node *n = &f->nodes[i];
        n->kept =
            (f->count <= most || n->size > least) && (n->parent < 0 || f->nodes[n->parent].kept);
        if (n->kept)
            n->shown = (int64_t)kept++;
    }
    return kept;
}

/*
 * Numbers the "other" nodes after the kept ones: there is one below each node that has folded
 * nodes.
 */
static size_t fold(struct flame *f, size_t shown)
{
    f->others = memory_get(f->count + 1, sizeof *f->others);
    f->folded = memory_get(f->count + 1, sizeof *f->folded);
    for (size_t i = 0; i < f->count; i++) {
        struct node *n = &f->nodes[i];
        if (n->kept)
            continue;
        int64_t above = n->parent;
        while (above >= 0 && !f->nodes[above].kept)
            above = f->nodes[above].parent;
        if (!f->folded[above + 1]++)
            f->others[above + 1] = (int64_t)shown++;
        n->shown = f->others[above + 1];
    }
    return shown;
}

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->shown != y->shown)
        return x->shown < y->shown ? -1 : 1;
    return x->bin < y->bin ? -1 : x->bin > y->bin;
}

/* The interval of a piece at this coarseness; pieces without a time come last. */
static uint32_t coarse_bin(const struct flame *f, const struct piece *p)
{
    uint32_t count = f->report->bins.count;
    return p->bin < count ? p->bin >> f->coarse : count ? ((count - 1) >> f->coarse) + 1 : 0;
}

/* Sorts the cells, and finds how coarse intervals must be so that at most `most` cells remain. */
static void slice(struct flame *f, size_t most)
{
    const struct cube *cube = &f->report->cubes[STACKS];
    f->pieces = memory_get(cube->count + 1, sizeof *f->pieces);
    f->piece_count = cube->count;
    for (size_t i = 0; i < cube->count; i++) {
        const struct cell *c = &cube->cells[i];
        f->pieces[i] =
            (struct piece){f->nodes[node_of_row(f, cube->fine, c->from)].shown, c->bin, c->from};
    }
    qsort(f->pieces, f->piece_count, sizeof *f->pieces, by_place);
    for (; f->report->bins.count >> f->coarse > 1; f->coarse++) {
        size_t cells = 0;
        for (size_t i = 0; i < f->piece_count; i++)
            cells += !i || f->pieces[i].shown != f->pieces[i - 1].shown ||
                     coarse_bin(f, &f->pieces[i]) != coarse_bin(f, &f->pieces[i - 1]);
        if (cells <= most)
            break;
    }
}

/* ---- writing ---- */

static void write_sums(const struct sums *s, struct json *json)
{
    for (unsigned w = 0; w < WEIGHTS; w++)
        if (s->of[w]) {
            json_u64(json, weights[w]);
            json_u64(json, s->of[w]);
        }
}

/* Writes "total" and "cells" for a shown number; at is the first of its pieces. */
static size_t write_pieces(const struct flame *f, int64_t shown, size_t at, struct json *json)
{
    const struct spex_group *fine = f->report->cubes[STACKS].fine;
    struct sums total = {{0}};
    size_t end = at;
    for (; end < f->piece_count && f->pieces[end].shown == shown; end++)
        take(&total, fine, f->pieces[end].from);
    json_name(json, "total");
    json_array(json);
    write_sums(&total, json);
    json_end(json);
    json_name(json, "cells");
    json_array(json);
    while (at < end) {
        uint32_t bin = coarse_bin(f, &f->pieces[at]);
        struct sums sums = {{0}};
        unsigned n = 0;
        for (; at < end && coarse_bin(f, &f->pieces[at]) == bin; at++)
            take(&sums, fine, f->pieces[at].from);
        for (unsigned w = 0; w < WEIGHTS; w++)
            n += sums.of[w] != 0;
        json_u64(json, bin);
        json_u64(json, 2 * n);
        write_sums(&sums, json);
    }
    json_end(json);
    return end;
}

static void write_frame(const struct node *n, struct json *json)
{
    const struct spex_module *module = n->symbol ? n->symbol->module : n->module;
    char text[64];
    if (n->missing) {
        JSON_MEMBER(json, "name", string, "[...]");
        return;
    }
    if (n->symbol && n->symbol->name) {
        JSON_MEMBER(json, "name", string, n->symbol->name);
    } else {
        snprintf(text, sizeof text, "[%.40s]", module ? spex_module_name(module) : "unknown");
        JSON_MEMBER(json, "name", string, text);
    }
    if (module)
        JSON_MEMBER(json, "dso", string, spex_module_name(module));
}

/* Writes nodes in the order of their numbers, which is also that of the pieces. */
static void write_nodes(const struct flame *f, size_t shown, struct json *json)
{
    const struct node **kept = memory_get(shown + 1, sizeof *kept);
    int64_t *above = memory_get(shown + 1, sizeof *above);
    size_t *folded = memory_get(shown + 1, sizeof *folded), at = 0;
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].kept)
            kept[f->nodes[i].shown] = &f->nodes[i];
    for (size_t i = 0; i <= f->count; i++)
        if (f->folded[i]) {
            above[f->others[i]] = i ? f->nodes[i - 1].shown : NONE;
            folded[f->others[i]] = f->folded[i];
        }
    json_name(json, "nodes");
    json_array_lines(json);
    for (size_t i = 0; i < shown; i++) {
        int64_t parent = above[i];
        if (kept[i])
            parent = kept[i]->parent >= 0 ? f->nodes[kept[i]->parent].shown : NONE;
        json_object(json);
        if (kept[i])
            write_frame(kept[i], json);
        else
            JSON_MEMBER(json, "folded", u64, folded[i]);
        JSON_MEMBER(json, "parent", i64, parent);
        at = write_pieces(f, (int64_t)i, at, json);
        json_end(json);
    }
    json_end(json);
    free(kept);
    free(above);
    free(folded);
}

void flame_write(struct report *r, const struct limits *limits, struct json *json)
{
    struct flame f = {.report = r};
    if (!r->cubes[STACKS].fine)
        return;
    size_t calls = spex_analysis_calls(r->analysis);
    f.of_stack = memory_get(calls + 1, sizeof *f.of_stack);
    for (size_t i = 0; i <= calls; i++)
        f.of_stack[i] = NONE;
    grow(&f);
    size_t shown = fold(&f, choose(&f, limits->nodes));
    slice(&f, limits->nodes * 12);
    json_name(json, "stacks");
    json_object(json);
    JSON_MEMBER(json, "exact", bool, spex_analysis_stacks(r->analysis) == SPEX_STACKS_EXACT);
    JSON_MEMBER(json, "event", string, spex_analysis_stacks_event(r->analysis));
    JSON_MEMBER(json, "coarse", u64, f.coarse);
    write_nodes(&f, shown, json);
    json_end(json);
    ids_free(&f.ids);
    free(f.nodes);
    free(f.of_stack);
    free(f.others);
    free(f.folded);
    free(f.pieces);
}
