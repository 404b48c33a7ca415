/* spex diff: compares two profiles, and shows which differences are more than noise. */
#include "columns.h"

#include "base/memory.h"
#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct diff_options {
    struct profile_options profile;
    const char *fail_over;
};

static const struct table_column columns[] = {
    {"time_a", "A", TABLE_PERCENT, 0, "time in A, of all of A's"},
    {"time_b", "B", TABLE_PERCENT, 0, "time in B, of all of A's"},
    {"time_a_ns", "ns A", TABLE_COUNT, 255, "time in A, nanoseconds"},
    {"time_b_ns", "ns B", TABLE_COUNT, 255, "time in B, nanoseconds"},
    {"time_change", "change", TABLE_TEXT, 0, "B minus A, percent of A's whole time"},
    {"time_delta", "delta", TABLE_NUMBER, 255, "B minus A, as a fraction of A's whole time"},
    {"time_low", "low", TABLE_NUMBER, 255, "lower end of its 95% interval"},
    {"time_high", "high", TABLE_NUMBER, 255, "upper end of its 95% interval"},
    {"time_interval", "95% interval", TABLE_TEXT, 5, "of the change"},
    {"time_verdict", "", TABLE_TEXT, 0, "more, less, or empty: within noise"},
    {"share_a", "A", TABLE_PERCENT, 0, "share of the samples of A"},
    {"share_b", "B", TABLE_PERCENT, 0, "share of the samples of B"},
    {"change", "change", TABLE_TEXT, 0, "B minus A, percentage points"},
    {"delta", "delta", TABLE_NUMBER, 255, "B minus A, as a fraction"},
    {"delta_low", "low", TABLE_NUMBER, 255, "lower end of its 95% interval"},
    {"delta_high", "high", TABLE_NUMBER, 255, "upper end of its 95% interval"},
    {"interval", "95% interval", TABLE_TEXT, 5, "of the change"},
    {"verdict", "", TABLE_TEXT, 0, "more, less, or empty: within noise"},
    {"latency", "p95 latency", TABLE_TEXT, 10, "95th percentile of total latency in A, then in B"},
    {"latency_verdict", "", TABLE_TEXT, 10,
     "slower, faster, or empty: the 95% intervals of the median and of the 95th percentile "
     "overlap"},
    {"samples_a", "samples A", TABLE_COUNT, 50, "samples in A"},
    {"samples_b", "samples B", TABLE_COUNT, 50, "samples in B"},
    {"ops_a", "ops A", TABLE_SCALED, 30, "estimated operations in A"},
    {"ops_b", "ops B", TABLE_SCALED, 30, "estimated operations in B"},
    {"p50_a", "p50 A", TABLE_NUMBER, 40, "median latency in A"},
    {"p50_b", "p50 B", TABLE_NUMBER, 40, "median latency in B"},
    {"p95_a", "p95 A", TABLE_NUMBER, 35, "95th percentile of latency in A"},
    {"p95_b", "p95 B", TABLE_NUMBER, 35, "95th percentile of latency in B"},
    {"key", "", TABLE_TEXT, 0, "what is compared", true},
    {0},
};

static const char *const time_columns[] = {"time_a",        "time_b",      "time_a_ns", "time_b_ns",
                                           "time_change",   "time_delta",  "time_low",  "time_high",
                                           "time_interval", "time_verdict"};
static const char *const share_columns[] = {"share_a", "share_b", "change", "interval", "verdict"};

struct pair {
    char *text;
    const struct spex_row *rows[2];
    double delta;
};

/* Two profiles, and what is compared in them. */
struct comparison {
    struct profile profiles[2];
    struct spex_group *groups[2];
    struct advice advice[2];
    struct pair *pairs;
    size_t count;
    bool timed;     /* both have timestamps */
    double time[2]; /* total, in ns */
    uint64_t samples[2];
    /* number of rows whose share changed beyond noise; whose latency changed; too small to show */
    size_t beyond, slower, faster, left;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->text, ((const struct pair *)b)->text);
}

static int by_change(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (fabs(x->delta) != fabs(y->delta))
        return fabs(x->delta) > fabs(y->delta) ? -1 : 1;
    return strcmp(x->text, y->text);
}

static char *row_name(const struct spex_group *group, const struct spex_row *row, size_t keys)
{
    char *name = columns_text(group, row, 0);
    for (size_t k = 1; k < keys; k++) {
        char *key = columns_text(group, row, k), *longer = NULL;
        if (asprintf(&longer, "%s  %s", name, key) < 0)
            longer = NULL;
        free(name);
        free(key);
        name = memory_checked(longer);
    }
    return name;
}

/* Pairs rows of both profiles by the text of their keys: addresses differ between builds. */
static struct pair *match(struct spex_group *const groups[2], size_t keys, size_t *count)
{
    size_t most = spex_group_count(groups[0]) + spex_group_count(groups[1]), n = 0;
    struct pair *pairs = memory_get(most + 1, sizeof *pairs);
    for (unsigned side = 0; side < 2; side++)
        for (size_t i = 0; i < spex_group_count(groups[side]); i++) {
            const struct spex_row *row = spex_group_row(groups[side], i);
            pairs[n].text = row_name(groups[side], row, keys);
            pairs[n++].rows[side] = row;
        }
    qsort(pairs, n, sizeof *pairs, by_text);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept && !strcmp(pairs[kept - 1].text, pairs[i].text)) {
            for (unsigned side = 0; side < 2; side++)
                if (pairs[i].rows[side] && !pairs[kept - 1].rows[side])
                    pairs[kept - 1].rows[side] = pairs[i].rows[side];
            free(pairs[i].text);
        } else {
            pairs[kept++] = pairs[i];
        }
    }
    *count = kept;
    return pairs;
}

/*
 * The 95% interval of a quantile by ranks: the order statistics around it that the binomial
 * distribution allows. Exact for any distribution of latencies.
 */
static bool quantile_interval(const struct spex_group *group, const struct spex_row *row, double q,
                              int *low, int *high)
{
    enum { FEW = 20 };
    double n = stats_of(row).latency_count[SPEX_LATENCY_TOTAL];
    double half = n > 0 ? 1.96 * sqrt(q * (1 - q) / n) : 1;
    *low = spex_row_latency(group, row, SPEX_LATENCY_TOTAL, fmax(q - half, 0));
    *high = spex_row_latency(group, row, SPEX_LATENCY_TOTAL, fmin(q + half, 1));
    return n >= FEW && *low >= 0 && *high >= 0;
}

/* 1 slower, -1 faster, 0 within noise; the 95th percentile decides first. */
static int latency_change(struct spex_group *const groups[2], const struct pair *pair)
{
    static const double quantiles[] = {0.95, 0.5};
    for (unsigned i = 0; i < 2 && pair->rows[0] && pair->rows[1]; i++) {
        int low[2], high[2];
        if (!quantile_interval(groups[0], pair->rows[0], quantiles[i], &low[0], &high[0]) ||
            !quantile_interval(groups[1], pair->rows[1], quantiles[i], &low[1], &high[1]))
            return 0;
        if (low[1] > high[0])
            return 1;
        if (high[1] < low[0])
            return -1;
    }
    return 0;
}

static const char *least(const struct profile *p, int value)
{
    return value == spex_analysis_sampling(p->analysis)->counter_most ? ">=" : "";
}

/* ---- time ---- */

static const struct spex_row *total_of(const struct comparison *c, unsigned side)
{
    return spex_group_total(c->groups[side]);
}

/* How much more the next run would differ cannot be seen from one run. */
static double variance_of(const struct comparison *c, const struct spex_row *row, unsigned side)
{
    return row ? spex_row_time_variance(c->groups[side], row) : 0;
}

/* B's time as a multiple of A's, and its 95% interval. */
static double time_ratio(const struct comparison *c, struct spex_interval *interval)
{
    double ratio = c->time[1] / c->time[0], relative = 0;
    for (unsigned s = 0; s < 2; s++)
        relative += variance_of(c, total_of(c, s), s) / (c->time[s] * c->time[s]);
    double factor = exp(1.96 * sqrt(relative));
    *interval = (struct spex_interval){ratio / factor, ratio * factor};
    return ratio;
}

/* In percent with one decimal, never -0.0. */
static double tenths(double share)
{
    return round(1000 * share) / 10 + 0.0;
}

/* "B takes 30% less time than A (95% interval of sampling 29.9% to 30.1%): 564 ms, then 394 ms" */
static void time_words(const struct comparison *c, char text[400])
{
    struct spex_interval i;
    double ratio = time_ratio(c, &i);
    char a[32], b[32], times[40] = "";
    text_time(a, c->time[0]);
    text_time(b, c->time[1]);
    double low = 100 * (1 - i.high), high = 100 * (1 - i.low); /* less */
    if (ratio > 1) {
        low = 100 * (i.low - 1);
        high = 100 * (i.high - 1);
    }
    if (ratio >= 2 || ratio <= 0.5)
        snprintf(times, sizeof times, ", %.1f times as %s", ratio > 1 ? ratio : 1 / ratio,
                 ratio > 1 ? "slow" : "fast");
    if (i.low > 1 || i.high < 1)
        snprintf(text, 400,
                 "B takes %.1f%% %s time than A%s (95%% interval of sampling %.1f%% to %.1f%%): "
                 "%s, then %s on all CPUs",
                 100 * fabs(ratio - 1), ratio > 1 ? "more" : "less", times, low, high, a, b);
    else
        snprintf(
            text, 400,
            "B takes as much time as A within noise (%+.1f%%, 95%% interval of sampling %+.1f%% to "
            "%+.1f%%): %s, then %s on all CPUs",
            tenths(ratio - 1), tenths(i.low - 1), tenths(i.high - 1), a, b);
}

/* ---- rows ---- */

static double time_in(const struct pair *pair, unsigned side)
{
    return pair->rows[side] ? spex_row_time(pair->rows[side]) : 0;
}

static double share_in(const struct comparison *c, const struct pair *pair, unsigned side)
{
    return pair->rows[side] ? ratio_of(stats_of(pair->rows[side]).samples, c->samples[side]) : 0;
}

/* The size of a pair in A and in B: time relative to A's, or share of samples in each. */
static double part_in(const struct comparison *c, const struct pair *pair, unsigned side)
{
    return c->timed ? time_in(pair, side) / c->time[0] : share_in(c, pair, side);
}

static void fill_time(struct table *table, const struct comparison *c, const struct pair *pair)
{
    double a = part_in(c, pair, 0), b = part_in(c, pair, 1);
    double half = 1.96 * sqrt(variance_of(c, pair->rows[0], 0) + variance_of(c, pair->rows[1], 1)) /
                  c->time[0];
    double low = b - a - half, high = b - a + half;
    bool beyond = low > 0 || high < 0;
    table_set(table, "time_a", a);
    table_set(table, "time_b", b);
    table_set(table, "time_a_ns", round(time_in(pair, 0)));
    table_set(table, "time_b_ns", round(time_in(pair, 1)));
    table_printf(table, "time_change", "%+.1f", tenths(b - a));
    table_set(table, "time_delta", b - a);
    table_set(table, "time_low", low);
    table_set(table, "time_high", high);
    table_printf(table, "time_interval", "%+.1f to %+.1f", tenths(low), tenths(high));
    table_set_text(table, "time_verdict", !beyond ? "" : b > a ? "more" : "less");
    if (beyond)
        table_style(table, "time_verdict", b > a ? TABLE_HOT : TABLE_BOLD);
}

/* Fills in the share of samples; returns whether it changed beyond noise. */
static bool fill_share(struct table *table, const struct comparison *c, const struct pair *pair)
{
    uint64_t n[2];
    for (unsigned s = 0; s < 2; s++)
        n[s] = pair->rows[s] ? stats_of(pair->rows[s]).samples : 0;
    double delta = share_in(c, pair, 1) - share_in(c, pair, 0);
    struct spex_interval w = spex_difference_interval(n[0], c->samples[0], n[1], c->samples[1]);
    bool beyond = w.low > 0 || w.high < 0;
    table_printf(table, "change", "%+.1f", tenths(delta));
    table_set(table, "delta", delta);
    table_set(table, "delta_low", w.low);
    table_set(table, "delta_high", w.high);
    table_printf(table, "interval", "%+.1f to %+.1f", tenths(w.low), tenths(w.high));
    table_set_text(table, "verdict", !beyond ? "" : delta > 0 ? "more" : "less");
    if (beyond)
        table_style(table, "verdict", delta > 0 ? TABLE_HOT : TABLE_BOLD);
    return beyond;
}

static void fill_latency(struct table *table, struct comparison *c, const struct pair *pair)
{
    static const char *const names[2][2] = {{"p50_a", "p95_a"}, {"p50_b", "p95_b"}};
    int p95[2] = {-1, -1};
    for (unsigned s = 0; s < 2; s++)
        for (unsigned q = 0; pair->rows[s] && q < 2; q++) {
            int value =
                spex_row_latency(c->groups[s], pair->rows[s], SPEX_LATENCY_TOTAL, q ? 0.95 : 0.5);
            columns_latency(&c->profiles[s], table, names[s][q], value);
            p95[s] = value;
        }
    int change = latency_change(c->groups, pair);
    if (p95[0] >= 0 && p95[1] >= 0)
        table_printf(table, "latency", "%s%d -> %s%d", least(&c->profiles[0], p95[0]), p95[0],
                     least(&c->profiles[1], p95[1]), p95[1]);
    table_set_text(table, "latency_verdict", change > 0 ? "slower" : change ? "faster" : "");
    if (change)
        table_style(table, "latency_verdict", change > 0 ? TABLE_HOT : TABLE_BOLD);
    c->slower += change > 0;
    c->faster += change < 0;
}

static void fill(struct table *table, struct comparison *c, const struct pair *pair)
{
    static const char *const sides[2][3] = {{"share_a", "samples_a", "ops_a"},
                                            {"share_b", "samples_b", "ops_b"}};
    table_row(table);
    for (unsigned s = 0; s < 2; s++) {
        uint64_t n = pair->rows[s] ? stats_of(pair->rows[s]).samples : 0;
        struct spex_analysis *analysis = c->profiles[s].analysis;
        table_set(table, sides[s][0], ratio_of(n, c->samples[s]));
        table_set_u64(table, sides[s][1], n);
        if (!spex_analysis_no_estimate(analysis))
            table_set(table, sides[s][2],
                      (double)n * (double)spex_analysis_sampling(analysis)->period);
    }
    c->beyond += fill_share(table, c, pair);
    if (c->timed)
        fill_time(table, c, pair);
    fill_latency(table, c, pair);
    table_set_text(table, "key", pair->text);
}

static struct table *make_table(struct comparison *c)
{
    struct table *table = table_new(columns);
    const struct profile *p = &c->profiles[0];
    bool text = p->options->format == TABLE_AS_TEXT;
    for (size_t i = 0; i < c->count; i++)
        c->pairs[i].delta = part_in(c, &c->pairs[i], 1) - part_in(c, &c->pairs[i], 0);
    qsort(c->pairs, c->count, sizeof *c->pairs, by_change);
    for (size_t i = 0; i < c->count; i++) {
        const struct pair *pair = &c->pairs[i];
        if (part_in(c, pair, 0) < p->limit && part_in(c, pair, 1) < p->limit)
            c->left++;
        else
            fill(table, c, pair);
    }
    if (c->left && text) {
        table_row(table);
        table_note(table);
        table_printf(table, "key", "(%zu more row%s below %.1f%%)", c->left,
                     c->left == 1 ? "" : "s", 100 * p->limit);
        table_style(table, "key", TABLE_DIM);
    }
    for (size_t i = 0; !c->timed && i < sizeof time_columns / sizeof *time_columns; i++)
        table_hide(table, time_columns[i]);
    for (size_t i = 0; c->timed && text && !p->options->fields &&
                       i < sizeof share_columns / sizeof *share_columns;
         i++)
        table_hide(table, share_columns[i]);
    return table;
}

/* CLI_DATA if B takes longer than A by more than `most`, and not because of noise. */
static int judge(const struct comparison *c, double most, const char *text)
{
    struct spex_interval i;
    if (!c->timed) {
        cli_error("--fail-over: not both profiles have timestamps (ts_enable=1)");
        return CLI_DATA;
    }
    double more = time_ratio(c, &i) - 1;
    if (more > most && i.low > 1)
        cli_error("%.1f%% more time, beyond noise and --fail-over %s", 100 * more, text);
    return more > most && i.low > 1 ? CLI_DATA : CLI_OK;
}

/* ---- printing ---- */

static void print_json(struct comparison *c, const struct table *table)
{
    struct json to = json_to(&c->profiles[0].out);
    struct spex_interval i;
    json_object_lines(&to);
    JSON_MEMBER(&to, "schema", string, "spex.diff.1");
    for (unsigned s = 0; s < 2; s++) {
        json_name(&to, s ? "b" : "a");
        json_object_lines(&to);
        JSON_MEMBER(&to, "role", string, s ? "after" : "before");
        profile_members(&c->profiles[s], &to);
        advice_json(&c->advice[s], &to);
        json_end(&to);
    }
    if (c->timed) {
        JSON_MEMBER(&to, "time_ratio", real, time_ratio(c, &i));
        JSON_MEMBER(&to, "time_ratio_low", real, i.low);
        JSON_MEMBER(&to, "time_ratio_high", real, i.high);
    }
    JSON_MEMBER(&to, "beyond_noise", u64, c->beyond);
    JSON_MEMBER(&to, "slower", u64, c->slower);
    JSON_MEMBER(&to, "faster", u64, c->faster);
    json_name(&to, "rows");
    table_json(table, &to);
    json_end(&to);
}

/* Prints the answer, then how many operations there were. */
static void print_answer(struct comparison *c, size_t rows)
{
    struct profile *p = c->profiles;
    struct out *out = &p[0].out;
    char text[400], x[32], y[32];
    if (c->timed) {
        time_words(c, text);
        cli_wrap(out, text, 0);
    } else {
        cli_wrap(out,
                 "how much faster or slower is not known: not both profiles have timestamps "
                 "(ts_enable=1); shares are of operations",
                 0);
    }
    int n = snprintf(text, sizeof text,
                     "%zu of %zu shares of operations changed beyond noise; %zu slower, %zu faster "
                     "by latency",
                     c->beyond, rows, c->slower, c->faster);
    if (!spex_analysis_no_estimate(p[0].analysis) && !spex_analysis_no_estimate(p[1].analysis)) {
        double ops[2];
        for (unsigned s = 0; s < 2; s++)
            ops[s] = (double)c->samples[s] * (double)spex_analysis_sampling(p[s].analysis)->period;
        snprintf(text + n, sizeof text - (size_t)n, "; operations in all %s, then %s (%+.1f%%)",
                 text_scaled(x, ops[0]), text_scaled(y, ops[1]), 100 * (ops[1] / ops[0] - 1));
    }
    cli_wrap(out, text, 0);
}

static bool has(const struct spex_findings *findings, enum spex_finding_kind kind)
{
    const struct spex_finding *finding;
    for (size_t i = 0; (finding = spex_findings_at(findings, i)); i++)
        if (finding->kind == kind)
            return true;
    return false;
}

/* A finding that B no longer has is solved; the others remain to be done. */
static void print_findings(struct comparison *c)
{
    struct profile *p = &c->profiles[0];
    const struct spex_finding *finding;
    bool any = false;
    char text[800];
    for (unsigned s = 0; s < 2; s++)
        for (size_t i = 0; (finding = spex_findings_at(c->advice[s].findings, i)); i++) {
            bool both = has(c->advice[!s].findings, finding->kind);
            if (!s && both)
                continue; /* B's finding of the same kind is shown instead */
            if (!any)
                out_char(&p->out, '\n');
            any = true;
            const bool timed = spex_findings_timed(c->advice[s].findings);
            char *found = words_of(finding, WORDS_FOUND, timed);
            char *advice = words_of(finding, WORDS_DO, timed);
            snprintf(text, sizeof text, "%s: %s", !s ? "gone" : both ? "still" : "new", found);
            cli_wrap(&p->out, text, 2);
            if (s) {
                snprintf(text, sizeof text, "do: %s", advice);
                out_text(&p->out, "  ");
                cli_wrap(&p->out, text, 6);
            }
            free(found);
            free(advice);
        }
}

static int print(struct comparison *c)
{
    struct profile *p = c->profiles;
    const char *fields = p[0].options->fields;
    struct table_options how = profile_table(&p[0]);
    struct table *table = make_table(c);
    const char *wrong = fields ? table_select(table, fields) : NULL;
    int status = CLI_OK;
    if (wrong) {
        status = profile_wrong_field(wrong);
    } else if (how.format == TABLE_AS_JSON) {
        print_json(c, table);
    } else {
        if (how.format == TABLE_AS_TEXT)
            print_answer(c, table_rows(table) - (c->left > 0));
        p[0].label = "A ";
        p[1].label = "B ";
        profile_header(&p[0], &p[0].out);
        profile_header(&p[1], &p[0].out);
        if (c->timed)
            profile_comment(&p[0], &p[0].out, "percent of the whole time of A");
        table_print(table, &p[0].out, &how);
        if (how.format == TABLE_AS_TEXT)
            print_findings(c);
    }
    table_free(table);
    return status;
}

static int run_diff(void *options, int argc, char **argv)
{
    const struct diff_options *o = options;
    enum spex_key keys[SPEX_KEYS_MAX];
    struct comparison c = {0};
    struct profile *p = c.profiles;
    size_t key_count;
    const bool several = o->profile.inputs.count;
    if (several ? !argc : argc != 2)
        return cli_usage("two profiles are needed: spex diff BEFORE AFTER, or the files of BEFORE "
                         "with -i and those of AFTER after them");
    double most = 0;
    if (o->fail_over && !cli_percent(o->fail_over, &most))
        return cli_usage("--fail-over: '%s' is not a percentage such as 1%%", o->fail_over);
    struct profile_options alone = o->profile;
    alone.inputs = (struct cli_list){0};
    int status = profile_keys(o->profile.sort, keys, &key_count);
    if (status)
        return status;
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want = SPEX_WANT_BASE | SPEX_WANT_SPENT,
                                         .threads = cli_threads(o->profile.threads)};
    for (size_t i = 0; i < key_count; i++)
        more.want |= spex_key_wants(keys[i]);
    status = several ? profile_open_all(&p[0], &o->profile, NULL, &more)
                     : profile_open(&p[0], &alone, argv[0], &more);
    if (status)
        return status;
    if ((status = profile_open_all(&p[1], &alone, argv + !several, &more))) {
        profile_close(&p[0]);
        return status;
    }
    bool advise = more.want & SPEX_WANT_SYMBOL && o->profile.format != TABLE_AS_CSV;
    for (unsigned s = 0; s < 2; s++) {
        c.groups[s] = profile_group(&p[s], keys, key_count, SPEX_GROUP_PERCENTILES);
        c.advice[s] = advice_new(&p[s], advise, spex_sink_group(c.groups[s]));
        p[s].status = advice_run(&c.advice[s], &p[s]);
        spex_group_sort(c.groups[s], SPEX_BY_TIME);
        c.time[s] = spex_row_time(total_of(&c, s));
        c.samples[s] = stats_of(total_of(&c, s)).samples;
    }
    c.timed = c.time[0] > 0 && c.time[1] > 0;
    if (!p[0].status && !p[1].status && !profile_empty(&p[0], c.samples[0], "") &&
        !profile_empty(&p[1], c.samples[1], "")) {
        c.pairs = match(c.groups, key_count, &c.count);
        p[0].status = print(&c);
        if (!p[0].status && o->fail_over)
            p[0].status = judge(&c, most, o->fail_over);
        for (size_t i = 0; i < c.count; i++)
            free(c.pairs[i].text);
        free(c.pairs);
    }
    for (unsigned s = 0; s < 2; s++) {
        advice_free(&c.advice[s]);
        spex_group_free(c.groups[s]);
    }
    /* closing prints each profile's notes; an empty B may have text of its own */
    int first = profile_close(&p[0]), second = profile_close(&p[1]);
    return first ? first : second;
}

static const struct cli_option diff_options[] = {
    PROFILE_INPUT_OPTIONS(struct diff_options),
    CLI_THREADS(struct diff_options, profile.threads),
    {"sort", 's', CLI_STRING, PROFILE_AT(struct diff_options, sort), "KEYS",
     "compare by: symbol, srcline, dso, comm, op, source, ...", "symbol", NULL},
    PROFILE_TABLE_OPTIONS(struct diff_options),
    {"fail-over", 0, CLI_STRING, offsetof(struct diff_options, fail_over), "PERCENT",
     "exit with status 1 if the second takes more than PERCENT longer, beyond noise", NULL, NULL},
#define OPTIONS struct diff_options
#include "filter_options.def"
    PROFILE_REPLAY(struct diff_options),
    PROFILE_SYMBOL_OPTIONS(struct diff_options),
    {0},
};

const struct cli_command cli_diff = {
    .name = "diff",
    .group = CLI_WHY,
    .pages = true,
    .synopsis = "BEFORE AFTER | -i BEFORE... AFTER...",
    .summary = "compare two profiles and mark changes beyond noise",
    .details =
        "How much more or less time the second takes, with its 95% interval, then where: the "
        "time of each row as part of the whole time of the first, so that the changes add up. "
        "'more' and 'less' mark changes whose interval excludes zero; intervals cover sampling, "
        "not how much two runs of the same program differ. "
        "'slower' and 'faster' mark operations whose median or 95th percentile of latency "
        "changed beyond the 95% intervals of both. Without timestamps shares of the samples "
        "are compared (Newcombe's intervals).",
    .options = diff_options,
    .size = sizeof(struct diff_options),
    .run = run_diff,
};
