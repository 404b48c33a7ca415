/*
 * spex truth: how far the samples are from what really happened. `spex record
 * --truth` counts the whole population by instruction; no hardware can do that.
 */
#include "profile.h"

#include "analysis/internal.h"
#include "base/memory.h"
#include "export/truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct truth_options {
    struct profile_options profile;
    const char *truth;
};

enum by { BY_SYMBOL, BY_LINE };

static const struct table_column columns[] = {
    {"cycles", "cycles", TABLE_SCALED, 0,
     "modelled cycles, from retirement to retirement, counted"},
    {"cycles_share", "time", TABLE_PERCENT, 0, "their share of all of them: where the time went"},
    {"operations", "operations", TABLE_SCALED, 0, "operations executed, counted"},
    {"true_share", "true", TABLE_PERCENT, 0, "their share of all operations"},
    {"share", "sampled", TABLE_PERCENT, 0, "share of the samples"},
    {"error", "error", TABLE_PERCENT, 0, "sampled share minus true share"},
    {"expected", "+-95%", TABLE_PERCENT, 0, "half of the sampled share's 95% interval"},
    {"within", "within", TABLE_TEXT, 0, "the true share lies in that interval"},
    {"l1_miss", "L1 misses", TABLE_SCALED, 10, "level 1 misses, counted"},
    {"l1_miss_estimate", "estimated", TABLE_SCALED, 11, "from the samples"},
    {"mispredict", "mispredicts", TABLE_SCALED, 20, "mispredicted branches, counted"},
    {"mispredict_estimate", "estimated", TABLE_SCALED, 21, "from the samples"},
    {"symbol", "symbol", TABLE_TEXT, 0, "function, or file where it has no name"},
    {"srcline", "source line", TABLE_TEXT, 0, "source line, or function where there is none"},
    {0},
};

/* A function, a source line, or the nameless rest of a file. */
struct place {
    const void *key;
    unsigned line; /* then key is its file's name */
    const struct spex_symbol *symbol;
    struct spex_module *module;
    uint64_t samples, l1, mispredicts;
    uint64_t true_count, true_l1, true_mispredicts, cycles;
};

struct places {
    struct spex_analysis *analysis;
    enum by by;
    struct place *slot;
    size_t size, used; /* size is a power of two */
    uint64_t samples, true_count, cycles;
};

static struct place *find(struct places *p, const void *key, unsigned line)
{
    size_t i = (((uintptr_t)key >> 4) + line) * UINT64_C(0x9e3779b97f4a7c15) & (p->size - 1);
    while (p->slot[i].key && (p->slot[i].key != key || p->slot[i].line != line))
        i = (i + 1) & (p->size - 1);
    return &p->slot[i];
}

static struct place *place(struct places *p, const struct spex_symbol *symbol,
                           struct spex_module *module, uint64_t address)
{
    static const char nowhere;
    struct spex_line line = {0};
    if (p->by == BY_LINE && module)
        analysis_line(p->analysis, module, address, &line);
    const void *key = line.file                ? (const void *)line.file
                      : symbol && symbol->name ? (const void *)symbol
                      : module                 ? (const void *)module
                                               : &nowhere;
    if (2 * p->used >= p->size) {
        struct places more = {.size = p->size ? 2 * p->size : 1024};
        more.slot = memory_get(more.size, sizeof *more.slot);
        for (size_t i = 0; i < p->size; i++)
            if (p->slot[i].key)
                *find(&more, p->slot[i].key, p->slot[i].line) = p->slot[i];
        free(p->slot);
        p->slot = more.slot;
        p->size = more.size;
    }
    struct place *at = find(p, key, line.line);
    if (!at->key) {
        *at = (struct place){.key = key,
                             .line = line.line,
                             .symbol = symbol && symbol->name ? symbol : NULL,
                             .module = module};
        p->used++;
    }
    return at;
}

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct places *p = context;
    for (size_t i = 0; i < count; i++) {
        struct place *at = place(p, samples[i].symbol, samples[i].module, samples[i].address);
        uint64_t events = samples[i].record->events;
        at->samples++;
        at->l1 += events >> SPEX_EV_L1D_MISS & 1;
        at->mispredicts += events >> SPEX_EV_MISPREDICT & 1;
    }
    p->samples += count;
}

static void add_truth(void *context, const struct truth_row *row)
{
    struct places *p = context;
    struct spex_place where;
    spex_analysis_locate(p->analysis, row->pid, row->pc, &where);
    struct place *at = place(p, where.symbol, where.module, where.address);
    at->true_count += row->counts[TRUTH_OPERATIONS];
    at->cycles += row->counts[TRUTH_CYCLES];
    at->true_l1 += row->counts[TRUTH_L1_MISS];
    at->true_mispredicts += row->counts[TRUTH_MISPREDICT];
    p->cycles += row->counts[TRUTH_CYCLES];
    p->true_count += row->counts[TRUTH_OPERATIONS];
}

static int most_first(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->cycles != y->cycles)
        return x->cycles > y->cycles ? -1 : 1;
    if (x->true_count != y->true_count)
        return x->true_count > y->true_count ? -1 : 1;
    return x->samples > y->samples ? -1 : x->samples < y->samples;
}

static void print_head(struct profile *profile, const struct places *p, unsigned within,
                       unsigned shown)
{
    char samples[32], operations[32], cycles[32];
    text_count(cycles, p->cycles);
    profile_comment(profile, &profile->out,
                    "%s samples of %s operations%s%s; %u of %u rows within their 95%% interval",
                    text_count(samples, p->samples), text_count(operations, p->true_count),
                    p->cycles ? ", modelled cycles: " : "", p->cycles ? cycles : "", within, shown);
    if (!p->cycles)
        profile_comment(profile, &profile->out,
                        "no exact cycles: they need spex record --model full");
}

/* The names of a row's place. */
static void set_names(struct table *table, const struct places *p, const struct place *at)
{
    const char *name = at->symbol   ? at->symbol->name
                       : at->module ? spex_module_name(at->module)
                                    : "[unknown]";
    if (p->by == BY_SYMBOL)
        table_set_text(table, "symbol", name);
    else if (at->line)
        table_printf(table, "srcline", "%s:%u", (const char *)at->key, at->line);
    else
        table_set_text(table, "srcline", name);
}

static void print(struct profile *profile, struct places *p)
{
    struct table *table = table_new(columns);
    table_hide(table, p->by == BY_LINE ? "symbol" : "srcline");
    if (!p->cycles) {
        table_hide(table, "cycles");
        table_hide(table, "cycles_share");
    }
    double limit = profile->limit, scale = (double)p->true_count / (double)p->samples;
    unsigned shown = 0, within = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->size; i++)
        if (p->slot[i].key)
            p->slot[n++] = p->slot[i];
    qsort(p->slot, n, sizeof *p->slot, most_first);
    for (size_t i = 0; i < n; i++) {
        const struct place *at = &p->slot[i];
        double true_share = ratio_of(at->true_count, p->true_count);
        double share = ratio_of(at->samples, p->samples);
        double time = p->cycles ? ratio_of(at->cycles, p->cycles) : 0;
        if (true_share < limit && share < limit && time < limit)
            continue;
        struct spex_interval interval = spex_share_interval(at->samples, p->samples);
        bool inside = true_share >= interval.low && true_share <= interval.high;
        shown++;
        within += inside;
        table_row(table);
        table_set(table, "cycles", (double)at->cycles);
        table_set(table, "cycles_share", time);
        table_set(table, "operations", (double)at->true_count);
        table_set(table, "true_share", true_share);
        table_set(table, "share", share);
        table_set(table, "error", share - true_share);
        table_set(table, "expected", (interval.high - interval.low) / 2);
        table_set_text(table, "within", inside ? "yes" : "no");
        table_set(table, "l1_miss", (double)at->true_l1);
        table_set(table, "l1_miss_estimate", (double)at->l1 * scale);
        table_set(table, "mispredict", (double)at->true_mispredicts);
        table_set(table, "mispredict_estimate", (double)at->mispredicts * scale);
        set_names(table, p, at);
    }
    struct table_options how = profile_table(profile);
    bool json = how.format == TABLE_AS_JSON;
    struct json to = json_to(&profile->out);
    if (json) {
        json_object_lines(&to);
        JSON_MEMBER(&to, "schema", string, "spex.truth.1");
        JSON_MEMBER(&to, "samples", u64, p->samples);
        JSON_MEMBER(&to, "operations", u64, p->true_count);
        JSON_MEMBER(&to, "cycles", u64, p->cycles);
        json_name(&to, "rows");
        table_json(table, &to);
        json_end(&to);
    } else if (how.format == TABLE_AS_TEXT) {
        print_head(profile, p, within, shown);
    }
    table_print(table, &profile->out, &how);
    table_free(table);
}

static int run_truth(void *options, int argc, char **argv)
{
    const struct truth_options *o = options;
    struct profile p;
    struct places places = {.by = BY_SYMBOL};
    char path[4096];
    if (argc > 1)
        return cli_usage("too many operands");
    if (!strcmp(o->profile.sort, "srcline"))
        places.by = BY_LINE;
    else if (strcmp(o->profile.sort, "symbol"))
        return cli_usage("--sort %s: allowed: symbol, srcline", o->profile.sort);
    const char *input = argc ? argv[0] : o->profile.input ? o->profile.input : "perf.data";
    snprintf(path, sizeof path, "%s.truth", input);
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want = SPEX_WANT_LITTLE | SPEX_WANT_SYMBOL};
    int status = profile_open(&p, &o->profile, argv[0], &more);
    if (status)
        return status;
    places.analysis = p.analysis;
    p.status = profile_run(&p, feed, &places);
    if (!p.status && !profile_empty(&p, places.samples, "")) {
        if (spex_analysis_sampling(p.analysis)->filters[0])
            profile_comment(&p, &p.out,
                            "recorded with filters: the samples stand for a part of "
                            "the operations only");
        struct spex_error error;
        if (truth_read(o->truth ? o->truth : path, add_truth, &places, &error)) {
            cli_error("%s", error.text);
            p.status = CLI_DATA;
        } else {
            print(&p, &places);
        }
    }
    free(places.slot);
    return profile_close(&p);
}

static const struct cli_option truth_options[] = {
    PROFILE_INPUT_OPTIONS(struct truth_options),
    {"truth", 0, CLI_STRING, offsetof(struct truth_options, truth), "FILE",
     "counts that spex record --truth wrote (default FILE.truth)", NULL, NULL},
    {"sort", 's', CLI_STRING, PROFILE_AT(struct truth_options, sort), "KEY",
     "rows by function (symbol) or by source line (srcline)", "symbol", NULL},
    {"percent-limit", 0, CLI_STRING, PROFILE_AT(struct truth_options, percent_limit), "PERCENT",
     "leave out rows below this share; text leaves out what is below 0.5", NULL, NULL},
    PROFILE_SYMBOL_OPTIONS(struct truth_options),
    {0},
};

const struct cli_command cli_truth = {
    .name = "truth",
    .group = CLI_READING,
    .synopsis = "[FILE]",
    .summary = "exact cycles and counts beside what the samples say",
    .details = "For a profile of spex record --truth. Each row has the exact number of cycles, "
               "operations, level 1 misses and mispredicted branches of a function (or, with -s "
               "srcline, of a line) beside what the samples "
               "say, and whether the error is what sampling alone explains.",
    .options = truth_options,
    .size = sizeof(struct truth_options),
    .run = run_truth,
};
