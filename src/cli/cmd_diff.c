/* spex diff: two profiles side by side; which differences are more than noise. */
#include "columns.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct diff_options {
    struct profile_options profile;
};

static const struct table_column columns[] = {
    {"share_a", "A", TABLE_PERCENT, 0, "share of the samples of A"},
    {"share_b", "B", TABLE_PERCENT, 0, "share of the samples of B"},
    {"change", "change", TABLE_TEXT, 0, "B minus A, percentage points"},
    {"delta", "delta", TABLE_NUMBER, 255, "B minus A, as a fraction"},
    {"delta_low", "low", TABLE_NUMBER, 255, "lower end of its 95% interval"},
    {"delta_high", "high", TABLE_NUMBER, 255, "upper end of its 95% interval"},
    {"interval", "95% interval", TABLE_TEXT, 20, "of the change"},
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
    {"key", "", TABLE_TEXT, 0, "what is compared"},
    {0},
};

struct pair {
    char *text;
    const struct spex_row *rows[2];
    double delta;
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

/* Rows of both profiles by the text of their keys: addresses differ between builds. */
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
    double n = row->stats.latency_count[SPEX_LATENCY_TOTAL];
    double half = n > 0 ? 1.96 * sqrt(q * (1 - q) / n) : 1;
    *low = spex_row_latency(group, row, SPEX_LATENCY_TOTAL, fmax(q - half, 0));
    *high = spex_row_latency(group, row, SPEX_LATENCY_TOTAL, fmin(q + half, 1));
    return n >= FEW && *low >= 0 && *high >= 0;
}

/* 1 slower, -1 faster, 0 within noise; the 95th percentile speaks first. */
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

static void fill(struct table *table, struct profile *p, struct spex_group *const groups[2],
                 const struct pair *pair, bool *beyond, int *latency)
{
    static const char *const sides[2][5] = {{"share_a", "samples_a", "ops_a", "p50_a", "p95_a"},
                                            {"share_b", "samples_b", "ops_b", "p50_b", "p95_b"}};
    uint64_t n[2], total[2];
    int p95[2] = {-1, -1};
    for (unsigned s = 0; s < 2; s++) {
        const struct spex_row *row = pair->rows[s];
        n[s] = row ? row->stats.samples : 0;
        total[s] = spex_group_total(groups[s])->stats.samples;
        table_set(table, sides[s][0], ratio_of(n[s], total[s]));
        table_set_u64(table, sides[s][1], n[s]);
        if (!spex_analysis_no_estimate(p[s].analysis))
            table_set(table, sides[s][2],
                      (double)n[s] * (double)spex_analysis_sampling(p[s].analysis)->period);
        for (unsigned q = 0; row && q < 2; q++) {
            int value = spex_row_latency(groups[s], row, SPEX_LATENCY_TOTAL, q ? 0.95 : 0.5);
            columns_latency(&p[s], table, sides[s][3 + q], value);
            if (q)
                p95[s] = value;
        }
    }
    *latency = latency_change(groups, pair);
    if (p95[0] >= 0 && p95[1] >= 0)
        table_printf(table, "latency", "%s%d -> %s%d", least(&p[0], p95[0]), p95[0],
                     least(&p[1], p95[1]), p95[1]);
    table_set_text(table, "latency_verdict", *latency > 0 ? "slower" : *latency ? "faster" : "");
    if (*latency)
        table_style(table, "latency_verdict", *latency > 0 ? TABLE_HOT : TABLE_BOLD);
    struct spex_interval w = spex_difference_interval(n[0], total[0], n[1], total[1]);
    *beyond = w.low > 0 || w.high < 0;
    table_printf(table, "change", "%+.1f", 100 * pair->delta);
    table_set(table, "delta", pair->delta);
    table_set(table, "delta_low", w.low);
    table_set(table, "delta_high", w.high);
    table_printf(table, "interval", "%+.1f to %+.1f", 100 * w.low, 100 * w.high);
    table_set_text(table, "verdict", !*beyond ? "" : pair->delta > 0 ? "more" : "less");
    if (*beyond)
        table_style(table, "verdict", pair->delta > 0 ? TABLE_HOT : TABLE_BOLD);
    table_set_text(table, "key", pair->text);
}

static int run_diff(void *options, int argc, char **argv)
{
    const struct diff_options *o = options;
    enum spex_key keys[SPEX_KEYS_MAX];
    struct profile p[2];
    struct spex_group *groups[2];
    size_t key_count, count;
    if (argc != 2 || o->profile.input)
        return cli_usage("two profiles are needed: spex diff BEFORE AFTER");
    int status = profile_keys(o->profile.sort, keys, &key_count);
    if (status)
        return status;
    struct spex_analysis_options more = {.size = sizeof more, .want = SPEX_WANT_LITTLE};
    for (size_t i = 0; i < key_count; i++)
        more.want |= spex_key_wants(keys[i]);
    if ((status = profile_open(&p[0], &o->profile, argv[0], &more)))
        return status;
    if ((status = profile_open(&p[1], &o->profile, argv[1], &more))) {
        profile_close(&p[0]);
        return status;
    }
    for (unsigned s = 0; s < 2; s++) {
        groups[s] = profile_group(&p[s], keys, key_count, SPEX_GROUP_PERCENTILES);
        p[s].status = profile_run(&p[s], spex_group_sink, groups[s]);
        spex_group_sort(groups[s], SPEX_BY_SAMPLES);
    }
    uint64_t totals[2] = {spex_group_total(groups[0])->stats.samples,
                          spex_group_total(groups[1])->stats.samples};
    bool json = o->profile.format == TABLE_AS_JSON;
    if (!p[0].status && !p[1].status && !profile_empty(&p[0], totals[0], "") &&
        !profile_empty(&p[1], totals[1], "")) {
        struct pair *pairs = match(groups, key_count, &count);
        struct table *table = table_new(columns);
        struct table_options how = profile_table(&p[0]);
        double limit = p[0].limit;
        size_t beyond = 0, left = 0, slower = 0, faster = 0;
        for (size_t i = 0; i < count; i++) {
            double a = pairs[i].rows[0] ? ratio_of(pairs[i].rows[0]->stats.samples, totals[0]) : 0;
            double b = pairs[i].rows[1] ? ratio_of(pairs[i].rows[1]->stats.samples, totals[1]) : 0;
            pairs[i].delta = b - a;
        }
        qsort(pairs, count, sizeof *pairs, by_change);
        for (size_t i = 0; i < count; i++) {
            bool real = false;
            int latency = 0;
            double a = pairs[i].rows[0] ? ratio_of(pairs[i].rows[0]->stats.samples, totals[0]) : 0;
            if (a < limit && a + pairs[i].delta < limit) {
                left++;
            } else {
                table_row(table);
                fill(table, p, groups, &pairs[i], &real, &latency);
            }
            beyond += real;
            slower += latency > 0;
            faster += latency < 0;
        }
        if (left && how.format == TABLE_AS_TEXT) {
            table_row(table);
            table_note(table);
            table_printf(table, "key", "(%zu more row%s below %.1f%%)", left, left == 1 ? "" : "s",
                         100 * limit);
            table_style(table, "key", TABLE_DIM);
        }
        const char *wrong = o->profile.fields ? table_select(table, o->profile.fields) : NULL;
        if (wrong) {
            p[0].status =
                cli_usage("--fields: '%.*s' is no column here", (int)strcspn(wrong, ","), wrong);
        } else if (json) {
            struct json to = json_to(&p[0].out);
            json_object_lines(&to);
            JSON_MEMBER(&to, "schema", string, "spex.diff.1");
            for (unsigned s = 0; s < 2; s++) {
                json_name(&to, s ? "b" : "a");
                json_object_lines(&to);
                JSON_MEMBER(&to, "role", string, s ? "after" : "before");
                profile_members(&p[s], &to);
                json_end(&to);
            }
            JSON_MEMBER(&to, "beyond_noise", u64, beyond);
            JSON_MEMBER(&to, "slower", u64, slower);
            JSON_MEMBER(&to, "faster", u64, faster);
            json_name(&to, "rows");
            table_json(table, &to);
            json_end(&to);
        } else {
            if (how.format == TABLE_AS_TEXT) {
                char text[300];
                snprintf(text, sizeof text,
                         "%zu of %zu shares changed beyond noise; %zu slower, %zu faster", beyond,
                         table_rows(table) - (left > 0), slower, faster);
                const char *none_a = spex_analysis_no_estimate(p[0].analysis);
                const char *none_b = spex_analysis_no_estimate(p[1].analysis);
                if (!none_a && !none_b) {
                    double a =
                        (double)totals[0] * (double)spex_analysis_sampling(p[0].analysis)->period;
                    double b =
                        (double)totals[1] * (double)spex_analysis_sampling(p[1].analysis)->period;
                    char x[32], y[32];
                    size_t n = strlen(text);
                    snprintf(text + n, sizeof text - n, "; operations in all %s, then %s (%+.1f%%)",
                             text_scaled(x, a), text_scaled(y, b), 100 * (b / a - 1));
                }
                cli_wrap(&p[0].out, text, 0);
            }
            p[0].label = "A ";
            p[1].label = "B ";
            profile_header(&p[0], &p[0].out);
            profile_header(&p[1], &p[0].out);
            table_print(table, &p[0].out, &how);
        }
        table_free(table);
        for (size_t i = 0; i < count; i++)
            free(pairs[i].text);
        free(pairs);
    }
    spex_group_free(groups[0]);
    spex_group_free(groups[1]);
    /* what each had to say about its input; an empty B may have text of its own */
    int first = profile_close(&p[0]), second = profile_close(&p[1]);
    return first ? first : second;
}

static const struct cli_option diff_options[] = {
    PROFILE_INPUT_OPTIONS(struct diff_options),
    {"sort", 's', CLI_STRING, PROFILE_AT(struct diff_options, sort), "KEYS",
     "compare by: symbol, srcline, dso, comm, op, source, ...", "symbol", NULL},
    PROFILE_TABLE_OPTIONS(struct diff_options),
#define FILTER(option, member, kind, value, help)                                                  \
    {option, 0,    CLI_STRING, PROFILE_AT(struct diff_options, filter.member),                     \
     value,  help, NULL,       NULL},
#include "analysis/filters.def"
    PROFILE_SYMBOL_OPTIONS(struct diff_options),
    {0},
};

extern const struct cli_command cli_diff;
const struct cli_command cli_diff = {
    .name = "diff",
    .group = CLI_READING,
    .synopsis = "BEFORE AFTER",
    .summary = "compare two profiles; which changes are beyond noise",
    .details = "Shares of the samples side by side with the 95% interval of their difference "
               "(Newcombe): 'more' and 'less' mark changes whose interval does not hold zero. "
               "'slower' and 'faster' mark operations whose median or 95th percentile of latency "
               "changed beyond the 95% intervals of both.",
    .options = diff_options,
    .size = sizeof(struct diff_options),
    .run = run_diff,
};
