/*
 * spex truth: compares the samples with what really happened. `spex record --truth` counts every
 * operation by instruction, which no hardware can do.
 */
#include "columns.h"

#include "base/memory.h"
#include "base/order.h"
#include "export/truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct truth_options {
    struct profile_options profile;
    const char *truth;
};

static const struct table_column stats_columns[] = {
    {"cycles_share", "true", TABLE_PERCENT, 0, "cycles, counted, as a share of the time"},
    {"time", "time", TABLE_PERCENT, 0, "share of the time, as spex report has it"},
    {"time_difference", "error", TABLE_PERCENT, 0, "estimated share minus true share"},
    {"time_error", "+-95%", TABLE_PERCENT, 0, "half of the estimated share's 95% interval"},
    {"time_within", "within", TABLE_TEXT, 0, "the true share lies in that interval"},
    {"runs", "runs", TABLE_TEXT, 0, "long: the interval is meant to hold the truth; else short"},
    {"cycles", "cycles", TABLE_SCALED, 30, "cycles that it held the core up for, counted"},
    {"operations", "operations", TABLE_SCALED, 15, "operations executed, counted"},
    {"true_share", "true", TABLE_PERCENT, 15, "their share of all operations"},
    {"share", "sampled", TABLE_PERCENT, 15, "share of the samples"},
    {"error", "error", TABLE_PERCENT, 15, "sampled share minus true share"},
    {"expected", "+-95%", TABLE_PERCENT, 15, "half of the sampled share's 95% interval"},
    {"within", "within", TABLE_TEXT, 15, "the true share lies in that interval"},
    {"l1_miss", "L1 misses", TABLE_SCALED, 20, "level 1 misses, counted"},
    {"l1_miss_estimate", "estimated", TABLE_SCALED, 20, "from the samples"},
    {"mispredict", "mispredicts", TABLE_SCALED, 25, "mispredicted branches, counted"},
    {"mispredict_estimate", "estimated", TABLE_SCALED, 25, "from the samples"},
};
enum { STATS = sizeof stats_columns / sizeof *stats_columns };

/* What was counted for one row of the samples' group. */
struct counted {
    const struct spex_row *row;
    uint64_t operations, l1, mispredicts, cycles;
    size_t number; /* rows are numbered as they are first mentioned */
};

struct population {
    struct counted *slot;
    size_t size, used; /* size is a power of two */
    /* kernel: cycles of system calls, which cycles do not include */
    uint64_t operations, cycles, kernel;
    uint64_t unseen; /* time attributed to the kernel */
    double time;     /* cycles that samples share */
};

/* Share of the time that samples divide among them: the counter of these profiles counts cycles. */
static double share_of_time(const struct population *p, const struct counted *at)
{
    return p->time > 0 ? (double)at->cycles / p->time : 0;
}

static struct counted *find(const struct population *p, const struct spex_row *row)
{
    size_t i = ((uintptr_t)row >> 6) * UINT64_C(0x9e3779b97f4a7c15) & (p->size - 1);
    while (p->slot[i].row && p->slot[i].row != row)
        i = (i + 1) & (p->size - 1);
    return &p->slot[i];
}

static struct counted *counted_of(struct population *p, const struct spex_row *row)
{
    if (2 * p->used >= p->size) {
        struct population more = {.size = p->size ? 2 * p->size : 1024};
        more.slot = memory_get(more.size, sizeof *more.slot);
        for (size_t i = 0; i < p->size; i++)
            if (p->slot[i].row)
                *find(&more, p->slot[i].row) = p->slot[i];
        free(p->slot);
        p->slot = more.slot;
        p->size = more.size;
    }
    struct counted *at = find(p, row);
    if (!at->row)
        at->number = p->used++;
    at->row = row;
    return at;
}

/* Where exact counts are added up. */
struct counting {
    struct spex_analysis *analysis;
    struct spex_group *group;
    struct population *population;
};

static void add_truth(void *context, const struct truth_row *row)
{
    static const struct spex_record none;
    const struct counting *c = context;
    struct population *p = c->population;
    struct spex_place where;
    spex_analysis_locate(c->analysis, row->pid, row->pc, &where);
    struct spex_sample like = {.record = &none,
                               .pc = row->pc,
                               .pid = row->pid,
                               .module = where.module,
                               .address = where.address,
                               .symbol = where.symbol};
    const struct spex_row *found = spex_group_find(c->group, &like);
    if (!found)
        memory_checked(NULL);
    struct counted *at = counted_of(p, found);
    at->operations += row->counts[TRUTH_OPERATIONS];
    at->l1 += row->counts[TRUTH_L1_MISS];
    at->mispredicts += row->counts[TRUTH_MISPREDICT];
    at->cycles += row->counts[TRUTH_CYCLES];
    p->operations += row->counts[TRUTH_OPERATIONS];
    p->cycles += row->counts[TRUTH_CYCLES];
}

/* How well the shown rows agree. */
struct score {
    unsigned rows, within;        /* operations */
    unsigned longs, longs_within; /* by time, for rows with long runs */
    struct errors {
        unsigned count;
        double *each, median; /* relative */
    } shorts, larges;         /* other rows; and the large ones among them */
};

static int by_error(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return ORDER(x, y);
}

static void errors_median(struct errors *errors)
{
    qsort(errors->each, errors->count, sizeof *errors->each, by_error);
    errors->median = errors->count ? errors->each[errors->count / 2] : NAN;
}

static void score_time(struct score *score, const struct spex_group *group,
                       const struct spex_row *row, double exact, double time, bool inside)
{
    static const double large = 0.01;
    enum { LARGE_SAMPLES = 30 }; /* with fewer, chance alone makes a fifth or more */
    if (spex_row_long_runs(group, row)) {
        score->longs++;
        score->longs_within += inside;
        return;
    }
    double error = exact > 0 ? fabs(time - exact) / exact : 1;
    score->shorts.each[score->shorts.count++] = error;
    if ((exact >= large || time >= large) && stats_of(row).samples >= LARGE_SAMPLES)
        score->larges.each[score->larges.count++] = error;
}

static void fill(struct table *table, const struct spex_group *group, const struct population *p,
                 const struct counted *at, struct score *score)
{
    const struct spex_stats s = stats_of(at->row), all = stats_of(spex_group_total(group));
    double scale = (double)p->operations / (double)all.samples;
    double share = ratio_of(s.samples, all.samples), exact = share_of_time(p, at);
    double true_share = ratio_of(at->operations, p->operations);
    struct spex_interval interval = spex_share_interval(s.samples, all.samples);
    bool inside = true_share >= interval.low && true_share <= interval.high;
    score->rows++;
    score->within += inside;
    table_row(table);
    table_set(table, "operations", (double)at->operations);
    table_set(table, "true_share", true_share);
    table_set(table, "share", share);
    table_set(table, "error", share - true_share);
    table_set(table, "expected", (interval.high - interval.low) / 2);
    table_set_text(table, "within", inside ? "yes" : "no");
    table_set(table, "l1_miss", (double)at->l1);
    table_set(table, "l1_miss_estimate", (double)s.l1_miss * scale);
    table_set(table, "mispredict", (double)at->mispredicts);
    table_set(table, "mispredict_estimate", (double)s.mispredicted * scale);
    if (p->cycles && all.time) {
        double time = ratio_of(s.time, all.time);
        struct spex_interval wide = spex_row_time_interval(group, at->row);
        bool held = exact >= wide.low && exact <= wide.high;
        score_time(score, group, at->row, exact, time, held);
        table_set(table, "cycles_share", exact);
        table_set(table, "time", time);
        table_set(table, "time_difference", time - exact);
        table_set(table, "time_error", (wide.high - wide.low) / 2);
        table_set_text(table, "time_within", held ? "yes" : "no");
        table_set_text(table, "runs", spex_row_long_runs(group, at->row) ? "long" : "short");
        table_set(table, "cycles", (double)at->cycles);
    }
}

static int most_first(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    if (x->cycles != y->cycles)
        return x->cycles > y->cycles ? -1 : 1;
    if (x->operations != y->operations)
        return x->operations > y->operations ? -1 : 1;
    uint32_t n = stats_of(x->row).samples, m = stats_of(y->row).samples;
    return m != n ? ORDER(m, n) : ORDER(x->number, y->number);
}

static void print_errors(struct json *to, const struct errors *errors, const char *count,
                         const char *median)
{
    json_name(to, count);
    json_u64(to, errors->count);
    json_name(to, median);
    if (!errors->count) {
        json_null(to);
        return;
    }
    json_begin(to);
    out_printf(to->out, "%.10g", errors->median);
}

static void print_score(struct profile *profile, const struct spex_stats *all,
                        const struct population *p, const struct score *score,
                        const struct table *table)
{
    bool timed = p->cycles && all->time;
    struct table_options how = profile_table(profile);
    char samples[32], operations[32], large[32] = "";
    if (score->larges.count)
        snprintf(large, sizeof large, ", by %.0f%%", 100 * score->larges.median);
    struct json to = json_to(&profile->out);
    if (how.format == TABLE_AS_JSON) {
        json_object_lines(&to);
        JSON_MEMBER(&to, "schema", string, "spex.truth.1");
        JSON_MEMBER(&to, "samples", u64, all->samples);
        JSON_MEMBER(&to, "operations", u64, p->operations);
        JSON_MEMBER(&to, "cycles", u64, p->cycles);
        JSON_MEMBER(&to, "kernel_cycles", u64, p->kernel);
        JSON_MEMBER(&to, "unseen_cycles", u64, p->unseen);
        JSON_MEMBER(&to, "long_runs", u64, score->longs);
        JSON_MEMBER(&to, "long_runs_within", u64, score->longs_within);
        print_errors(&to, &score->shorts, "short_runs", "short_runs_median_error");
        print_errors(&to, &score->larges, "large_short_runs", "large_short_runs_median_error");
        json_name(&to, "rows");
        table_json(table, &to);
        json_end(&to);
    } else if (how.format == TABLE_AS_TEXT) {
        profile_comment(profile, &profile->out,
                        "%s samples of %s operations; operations: %u of %u rows within their 95%% "
                        "interval",
                        text_count(samples, all->samples), text_count(operations, p->operations),
                        score->within, score->rows);
        if (!timed)
            profile_comment(profile, &profile->out, "no time: %s",
                            p->cycles ? "the records have no timestamps"
                                      : "the truth file has no cycles (spex record --model full)");
        if (timed && p->kernel)
            profile_comment(profile, &profile->out,
                            "time: %.1f%% of the cycles are the kernel's and in no row; %.1f%% are "
                            "recognized as such, the rest is in the time of neighbouring rows",
                            100 * ratio_of(p->kernel, p->cycles + p->kernel),
                            100 * ratio_of(p->unseen, p->cycles + p->kernel));
        if (timed && score->longs)
            profile_comment(
                profile, &profile->out,
                "time: %u of %u rows with runs of over two periods within their 95%% interval",
                score->longs_within, score->longs);
        if (timed && score->shorts.count)
            profile_comment(profile, &profile->out,
                            "time: %u with shorter runs, off by %.0f%% in the median; %u of them "
                            "with 1%% of the time and 30 samples%s",
                            score->shorts.count, 100 * score->shorts.median, score->larges.count,
                            large);
    }
    table_print(table, &profile->out, &how);
}

static void print(struct profile *profile, const struct spex_group *group, struct population *p,
                  const enum spex_key *keys, size_t key_count)
{
    struct table_column columns[STATS + SPEX_KEYS_MAX + 1] = {0};
    memcpy(columns, stats_columns, sizeof stats_columns);
    for (size_t k = 0; k < key_count; k++)
        columns[STATS + k] = (struct table_column){spex_key_name(keys[k]),
                                                   spex_key_name(keys[k]),
                                                   TABLE_TEXT,
                                                   0,
                                                   columns_key_help(keys[k]),
                                                   true};
    struct table *table = table_new(columns);
    const struct spex_stats all = stats_of(spex_group_total(group));
    bool timed = p->cycles && all.time;
    for (size_t i = 0; i < STATS && !timed; i++)
        if (!strncmp(columns[i].name, "time", 4) || !strcmp(columns[i].name, "cycles_share") ||
            !strcmp(columns[i].name, "runs") || !strcmp(columns[i].name, "cycles"))
            table_hide(table, columns[i].name);
    for (size_t i = 0; i < spex_group_count(group); i++) /* sampled and not counted */
        counted_of(p, spex_group_row(group, i));
    size_t n = 0;
    for (size_t i = 0; i < p->size; i++)
        if (p->slot[i].row)
            p->slot[n++] = p->slot[i];
    qsort(p->slot, n, sizeof *p->slot, most_first);
    struct score score = {.shorts.each = memory_get(n + 1, sizeof(double)),
                          .larges.each = memory_get(n + 1, sizeof(double))};
    for (size_t i = 0; i < n; i++) {
        const struct counted *at = &p->slot[i];
        double exact = timed ? share_of_time(p, at) : ratio_of(at->operations, p->operations);
        double guess = timed ? ratio_of(stats_of(at->row).time, all.time)
                             : ratio_of(stats_of(at->row).samples, all.samples);
        if (exact < profile->limit && guess < profile->limit)
            continue;
        fill(table, group, p, at, &score);
        columns_fill_keys(table, group, at->row, keys, key_count);
    }
    errors_median(&score.shorts);
    errors_median(&score.larges);
    print_score(profile, &all, p, &score, table);
    table_free(table);
    free(score.shorts.each);
    free(score.larges.each);
}

/* Reads the exact counts of each profile from the file beside it. */
static enum spex_status read_counts(const struct truth_options *o, const struct profile *p,
                                    struct counting *counting, struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    for (size_t i = 0; p->paths[i] && !status; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s.truth", p->paths[i]);
        const char *counts = o->truth ? o->truth : path;
        status = truth_read(counts, add_truth, counting, error);
        if (!status)
            status = truth_read_kernel(counts, &counting->population->kernel, error);
    }
    return status;
}

static int run_truth(void *options, int argc, char **argv)
{
    const struct truth_options *o = options;
    struct profile p;
    struct population population = {0};
    enum spex_key keys[SPEX_KEYS_MAX];
    size_t key_count;
    if (o->truth && (size_t)argc + o->profile.inputs.count > 1)
        return cli_usage("--truth: of several files each has counts of its own, in FILE.truth");
    int status = profile_keys(o->profile.sort, keys, &key_count);
    for (size_t i = 0; !status && i < key_count; i++)
        if (keys[i] != SPEX_KEY_SYMBOL && keys[i] != SPEX_KEY_SRCLINE && keys[i] != SPEX_KEY_PC &&
            keys[i] != SPEX_KEY_DSO && keys[i] != SPEX_KEY_PID)
            return cli_usage("--sort: exact counts are by symbol, srcline, pc, dso and pid, not %s",
                             spex_key_name(keys[i]));
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want = SPEX_WANT_SYMBOL | SPEX_WANT_SPENT,
                                         .threads = cli_threads(o->profile.threads)};
    if (!status)
        status = profile_open_all(&p, &o->profile, argv, &more);
    if (status)
        return status;
    struct spex_group *group = profile_group(&p, keys, key_count, 0);
    struct counting counting = {p.analysis, group, &population};
    struct spex_error error;
    p.status = profile_run(&p, spex_sink_group(group));
    const struct spex_totals *t = spex_analysis_totals(p.analysis);
    population.unseen = t->unseen;
    population.time = (double)(t->spent + t->beside_loss); /* a cycle is 1 ns */
    if (!p.status && read_counts(o, &p, &counting, &error)) {
        cli_error("%s", error.text);
        p.status = CLI_DATA;
    } else if (!p.status) {
        spex_group_sort(group, SPEX_BY_TIME);
        if (!profile_empty(&p, stats_of(spex_group_total(group)).samples, "")) {
            if (p.filter_count)
                profile_comment(&p, &p.out,
                                "the filters leave out samples but not counts: sampled shares are "
                                "of the remaining samples, counted shares of all operations");
            if (spex_analysis_sampling(p.analysis)->filters[0])
                profile_comment(&p, &p.out,
                                "recorded with filters: the samples stand for a part of "
                                "the operations only");
            print(&p, group, &population, keys, key_count);
        }
    }
    free(population.slot);
    spex_group_free(group);
    return profile_close(&p);
}

static const struct cli_option truth_options[] = {
    PROFILE_INPUT_OPTIONS(struct truth_options),
    CLI_THREADS(struct truth_options, profile.threads),
    {"sort", 's', CLI_STRING, PROFILE_AT(struct truth_options, sort), "KEYS",
     "compare by: symbol, srcline, pc, dso, pid", "symbol", NULL},
    {"truth", 0, CLI_STRING, offsetof(struct truth_options, truth), "FILE",
     "counts that spex record --truth wrote (default FILE.truth)", NULL, NULL},
    {"percent-limit", 0, CLI_STRING, PROFILE_AT(struct truth_options, percent_limit), "PERCENT",
     "leave out rows below this share; text leaves out what is below 0.5", NULL, NULL},
#define OPTIONS struct truth_options
#include "filter_options.def"
    PROFILE_REPLAY(struct truth_options),
    PROFILE_SYMBOL_OPTIONS(struct truth_options),
    {0},
};

const struct cli_command cli_truth = {
    .name = "truth",
    .group = CLI_RUNS,
    .pages = true,
    .synopsis = "[FILE...]",
    .summary = "exact cycles and counts beside the samples' estimates",
    .details = "For a profile of spex record --truth. Each row has the exact cycles, operations, "
               "level 1 misses and mispredicted branches of a function or line beside what the "
               "samples say, and whether the error is what sampling alone explains.",
    .options = truth_options,
    .size = sizeof(struct truth_options),
    .run = run_truth,
};
