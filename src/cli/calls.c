#include "calls.h"

#include <spex/stacks.h>
#include "base/memory.h"
#include "base/ids.h"
#include "base/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NEIGHBOURS = 8 }; /* callers and callees of a function shown in text */

static const struct table_column columns[] = {
    {"kind", "", TABLE_TEXT, 255, "function, caller or callee"},
    {"total", "total", TABLE_PERCENT, 0,
     "share of the time in it and in what it calls; of a caller "
     "or callee: of the calls between the two"},
    {"self", "self", TABLE_PERCENT, 0, "share of the time in it"},
    {"total_ns", "total ns", TABLE_COUNT, 255, "the time of total, nanoseconds"},
    {"self_ns", "self ns", TABLE_COUNT, 255, "the time of self, nanoseconds"},
    {"total_samples", "samples", TABLE_COUNT, 10, "samples in it and in what it calls"},
    {"self_samples", "own", TABLE_COUNT, 12, "samples in it"},
    {"latency_mean", "latency", TABLE_NUMBER, 15, "total latency of total_samples, mean"},
    {"self_latency_mean", "own latency", TABLE_NUMBER, 20, "total latency of self_samples, mean"},
    {"l1_miss", "L1 miss", TABLE_PERCENT, 25, "level 1 data cache misses of accesses, in total"},
    {"symbol", "function", TABLE_TEXT, 0, "function; < a caller, > a callee", true},
    {"of", "of", TABLE_TEXT, 255, "of a caller or callee: the function that it belongs to"},
    {0},
};

struct sum {
    double time; /* ps */
    uint64_t samples, latency, latencies, accesses, misses;
};

static void add(struct sum *to, const struct sum *from)
{
    to->time += from->time;
    to->samples += from->samples;
    to->latency += from->latency;
    to->latencies += from->latencies;
    to->accesses += from->accesses;
    to->misses += from->misses;
}

struct function {
    const struct spex_symbol *symbol;
    struct spex_module *module;
    struct sum self, total;
    uint32_t seen; /* the last cell that was added */
};

struct edge {
    uint32_t caller, callee;
    struct sum sum;
    uint32_t seen;
};

struct calls {
    struct spex_analysis *analysis;
    struct ids cell_ids, function_ids, edge_ids;
    struct sum *cells; /* cells indexed by function and stack */
    size_t cell_room;
    struct function *functions;
    size_t function_count, function_room;
    struct edge *edges;
    size_t edge_count, edge_room;
    struct sum all;
};

struct calls *calls_new(struct profile *p)
{
    struct calls *c = memory_get(1, sizeof *c);
    c->analysis = p->analysis;
    return c;
}

void calls_free(struct calls *c)
{
    if (!c)
        return;
    ids_free(&c->cell_ids);
    ids_free(&c->function_ids);
    ids_free(&c->edge_ids);
    free(c->cells);
    free(c->functions);
    free(c->edges);
    free(c);
}

/* The code of a file without symbols counts as one function. */
static uint32_t function_of(struct calls *c, const struct spex_symbol *symbol,
                            struct spex_module *module)
{
    const uint64_t key[IDS_WORDS] = {(uintptr_t)symbol, symbol ? 0 : (uintptr_t)module, 1};
    bool fresh;
    uint32_t n = ids_find(&c->function_ids, key, &fresh);
    if (fresh) {
        c->functions =
            memory_grow(c->functions, c->function_count, &c->function_room, sizeof *c->functions);
        c->functions[c->function_count++] = (struct function){.symbol = symbol, .module = module};
    }
    return n;
}

void calls_sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct calls *c = context;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = &samples[i];
        const struct spex_record *r = s->record;
        const uint64_t key[IDS_WORDS] = {function_of(c, s->symbol, s->module),
                                         spex_sample_stack(c->analysis, s), 1};
        bool fresh, has = r->present & SPEX_HAS_TOTAL;
        uint32_t n = ids_find(&c->cell_ids, key, &fresh);
        if (fresh) {
            c->cells = memory_grow(c->cells, n, &c->cell_room, sizeof *c->cells);
            c->cells[n] = (struct sum){0};
        }
        const struct sum one = {.time = (double)s->spent,
                                .samples = 1,
                                .latency = has ? r->total : 0,
                                .latencies = has,
                                .accesses = r->events >> SPEX_EV_L1D_ACCESS & 1,
                                .misses = r->events >> SPEX_EV_L1D_MISS & 1};
        add(&c->cells[n], &one);
    }
}

static void add_edge(struct calls *c, uint32_t caller, uint32_t callee, const struct sum *sum,
                     uint32_t cell)
{
    const uint64_t key[IDS_WORDS] = {caller, callee, 1};
    bool fresh;
    uint32_t n = ids_find(&c->edge_ids, key, &fresh);
    if (fresh) {
        c->edges = memory_grow(c->edges, c->edge_count, &c->edge_room, sizeof *c->edges);
        c->edges[c->edge_count++] = (struct edge){.caller = caller, .callee = callee};
    }
    if (c->edges[n].seen == cell + 1)
        return;
    c->edges[n].seen = cell + 1;
    add(&c->edges[n].sum, sum);
}

/* Adds a cell to the functions on its stack; one that occurs several times counts once. */
static void add_cell(struct calls *c, uint32_t cell)
{
    const uint64_t *key = c->cell_ids.keys[cell];
    const struct sum *sum = &c->cells[cell];
    uint32_t function = (uint32_t)key[0], stack = (uint32_t)key[1];
    add(&c->functions[function].self, sum);
    add(&c->all, sum);
    for (;;) {
        if (c->functions[function].seen != cell + 1) {
            c->functions[function].seen = cell + 1;
            add(&c->functions[function].total, sum);
        }
        if (!stack)
            return;
        const struct spex_call *call = spex_analysis_call(c->analysis, stack);
        uint32_t caller = function_of(c, call->symbol, call->module);
        if (!call->cut)
            add_edge(c, caller, function, sum, cell);
        function = caller;
        stack = call->caller;
    }
}

static const char *name_of(const struct function *f, char text[64])
{
    if (f->symbol && f->symbol->name)
        return f->symbol->name;
    if (f->symbol)
        snprintf(text, 64, "%.40s+0x%llx", spex_module_name(f->symbol->module),
                 (unsigned long long)f->symbol->start);
    else
        snprintf(text, 64, "[%.60s]", f->module ? spex_module_name(f->module) : "unknown");
    return text;
}

/* ---- the table ---- */

static double size_of(const struct calls *c, const struct sum *sum)
{
    return c->all.time > 0 ? sum->time / c->all.time
                           : (double)sum->samples / (double)c->all.samples;
}

static void set_sum(const struct calls *c, struct table *t, const struct sum *total,
                    const struct sum *self)
{
    table_set(t, "total", size_of(c, total));
    table_set(t, "total_ns", round(total->time / 1000));
    table_set_u64(t, "total_samples", total->samples);
    table_set(t, "latency_mean", ratio_of(total->latency, total->latencies));
    table_set(t, "l1_miss", ratio_of(total->misses, total->accesses));
    if (!self)
        return;
    table_set(t, "self", size_of(c, self));
    table_set(t, "self_ns", round(self->time / 1000));
    table_set_u64(t, "self_samples", self->samples);
    table_set(t, "self_latency_mean", ratio_of(self->latency, self->latencies));
}

static int more_first(const struct sum *x, const struct sum *y)
{
    return x->time != y->time ? ORDER(y->time, x->time) : ORDER(y->samples, x->samples);
}

static int by_total(const void *a, const void *b)
{
    const struct function *x = *(const struct function *const *)a;
    const struct function *y = *(const struct function *const *)b;
    int order = more_first(&x->total, &y->total);
    return order ? order : x < y ? -1 : x > y; /* equal ones keep the order in which they came */
}

static int by_sum(const void *a, const void *b)
{
    const struct edge *x = *(const struct edge *const *)a, *y = *(const struct edge *const *)b;
    int order = more_first(&x->sum, &y->sum);
    return order ? order : x < y ? -1 : x > y;
}

static void put_edges(const struct calls *c, struct profile *p, struct table *t, uint32_t function,
                      bool callers, const struct edge *const *edges)
{
    char text[64], name[64];
    size_t shown = 0;
    for (size_t i = 0; i < c->edge_count; i++) {
        const struct edge *e = edges[i];
        if ((callers ? e->callee : e->caller) != function)
            continue;
        if (size_of(c, &e->sum) < p->limit ||
            (p->options->format == TABLE_AS_TEXT && shown == NEIGHBOURS))
            return;
        shown++;
        table_row(t);
        set_sum(c, t, &e->sum, NULL);
        table_set_text(t, "kind", callers ? "caller" : "callee");
        const char *other = name_of(&c->functions[callers ? e->caller : e->callee], text);
        if (p->options->format == TABLE_AS_TEXT)
            table_printf(t, "symbol", "    %s %s", callers ? "<" : ">", other);
        else
            table_set_text(t, "symbol", other);
        table_set_text(t, "of", name_of(&c->functions[function], name));
    }
}

bool calls_say(struct profile *p, struct out *out)
{
    enum spex_stacks kind = spex_analysis_stacks(p->analysis);
    if (kind == SPEX_STACKS_COMPANION)
        profile_comment(p, out,
                        "call stacks come from a second event, %s: a function's samples are "
                        "divided among its callers in that event's proportions",
                        spex_analysis_stacks_event(p->analysis));
    return kind != SPEX_STACKS_NONE;
}

static struct table *make_table(struct calls *c, struct profile *p)
{
    struct table *t = table_new(columns);
    char name[64];
    for (uint32_t i = 0; i < c->cell_ids.count; i++)
        add_cell(c, i);
    const struct function **functions = memory_get(c->function_count + 1, sizeof *functions);
    const struct edge **edges = memory_get(c->edge_count + 1, sizeof *edges);
    for (size_t i = 0; i < c->function_count; i++)
        functions[i] = &c->functions[i];
    for (size_t i = 0; i < c->edge_count; i++)
        edges[i] = &c->edges[i];
    qsort(functions, c->function_count, sizeof *functions, by_total);
    qsort(edges, c->edge_count, sizeof *edges, by_sum);
    for (size_t i = 0; i < c->function_count; i++) {
        const struct function *f = functions[i];
        if (size_of(c, &f->total) < p->limit)
            break;
        uint32_t number = (uint32_t)(f - c->functions);
        put_edges(c, p, t, number, true, edges);
        table_row(t);
        set_sum(c, t, &f->total, &f->self);
        table_set_text(t, "kind", "function");
        table_set_text(t, "symbol", name_of(f, name));
        table_style(t, "symbol", TABLE_BOLD);
        put_edges(c, p, t, number, false, edges);
        if (p->options->format == TABLE_AS_TEXT)
            table_span(t, "");
    }
    free(functions);
    free(edges);
    return t;
}

int calls_print(struct calls *c, struct profile *p)
{
    struct table *t = make_table(c, p);
    struct table_options how = profile_table(p);
    const char *wrong = p->options->fields ? table_select(t, p->options->fields) : NULL;
    int status = CLI_OK;
    if (wrong) {
        status = profile_wrong_field(wrong);
    } else if (how.format == TABLE_AS_JSON) {
        struct json json = profile_json(p, "spex.calls.1");
        JSON_MEMBER(&json, "stacks", string,
                    spex_analysis_stacks(p->analysis) == SPEX_STACKS_EXACT ? "exact" : "companion");
        json_name(&json, "functions");
        table_json(t, &json);
        json_end(&json);
    } else {
        profile_header(p, &p->out);
        if (how.format == TABLE_AS_TEXT) {
            calls_say(p, &p->out);
            profile_comment(p, &p->out,
                            "total: in the function and what it calls; above it who calls it (<), "
                            "below it what it calls (>)");
        }
        table_print(t, &p->out, &how);
    }
    table_free(t);
    return status;
}
