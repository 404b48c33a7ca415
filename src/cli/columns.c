#include "columns.h"
#include "elapsed.h"

#include "base/memory.h"

#include <spex/data.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* rank: the highest is left out first when the terminal is narrow (table.h). */
static const struct table_column stats_columns[] = {
    {"time", "time", TABLE_PERCENT, 0, "share of the time (docs/time.md)"},
    {"time_error", "+-95%", TABLE_PERCENT, 12, "half of the 95% interval of that share"},
    {"time_low", "time low", TABLE_PERCENT, 255, "lower end of the interval"},
    {"time_high", "time high", TABLE_PERCENT, 255, "upper end of the interval"},
    {"time_ns", "time ns", TABLE_COUNT, 255, "the time itself, nanoseconds"},
    {"runs", "runs", TABLE_TEXT, 255,
     "long: mostly in runs of over two periods; short: taking turns with others"},
    {"share", "share", TABLE_PERCENT, 0, "share of the samples"},
    {"error", "+-95%", TABLE_PERCENT, 40, "half of the 95% interval of the share"},
    {"samples", "samples", TABLE_COUNT, 20, "number of samples"},
    {"ops", "ops", TABLE_SCALED, 32, "estimated operations: samples x period"},
    {"ops_ns", "ops/ns", TABLE_RATE, 45, "operations in a nanosecond of that time"},
    {"ops_low", "ops low", TABLE_SCALED, 255, "lower end of its 95% interval"},
    {"ops_high", "ops high", TABLE_SCALED, 255, "upper end of its 95% interval"},
    {"latency_mean", "lat", TABLE_NUMBER, 255, "total latency, mean, cycles"},
    {"latency_p50", "lat p50", TABLE_NUMBER, 255, "total latency, median"},
    {"latency_p95", "lat p95", TABLE_NUMBER, 255, "total latency, 95th percentile"},
    {"latency_p99", "lat p99", TABLE_NUMBER, 255, "total latency, 99th percentile"},
    {"issue_mean", "wait", TABLE_NUMBER, 26,
     "issue latency, mean: waiting for operands and for a place, cycles"},
    {"issue_p50", "wait p50", TABLE_NUMBER, 255, "issue latency, median"},
    {"issue_p95", "wait p95", TABLE_NUMBER, 255, "issue latency, 95th percentile"},
    {"issue_p99", "wait p99", TABLE_NUMBER, 255, "issue latency, 99th percentile"},
    {"execute_mean", "execute", TABLE_NUMBER, 255, "total minus issue latency, mean"},
    {"execute_p50", "execute p50", TABLE_NUMBER, 22, "total minus issue latency, median"},
    {"execute_p95", "p95", TABLE_NUMBER, 23, "total minus issue latency, 95th percentile"},
    {"execute_p99", "p99", TABLE_NUMBER, 50, "total minus issue latency, 99th percentile"},
    {"translation_mean", "translate", TABLE_NUMBER, 80, "translation latency, mean"},
    {"translation_p50", "translate p50", TABLE_NUMBER, 255, "translation latency, median"},
    {"translation_p95", "translate p95", TABLE_NUMBER, 255, "translation latency, 95th percentile"},
    {"translation_p99", "translate p99", TABLE_NUMBER, 255, "translation latency, 99th percentile"},
    {"loads", "loads", TABLE_COUNT, 255, "samples that read memory"},
    {"stores", "stores", TABLE_COUNT, 255, "samples that write memory"},
    {"branches", "branches", TABLE_COUNT, 255, "samples of branches"},
    {"l1_miss", "L1 miss", TABLE_PERCENT, 15, "L1D misses of L1D accesses"},
    {"l2_miss", "L2 miss", TABLE_PERCENT, 60, "L2 misses of L2 accesses"},
    {"llc_miss", "LLC miss", TABLE_PERCENT, 30, "last-level misses of last-level accesses"},
    {"tlb_walk", "TLB walk", TABLE_PERCENT, 35, "accesses that walked the tables"},
    {"mispredict", "mispred", TABLE_PERCENT, 28, "branches mispredicted"},
    {"remote", "remote", TABLE_PERCENT, 65, "accesses to another socket or chip"},
    {"from", "from", TABLE_TEXT, 18, "where most data came from"},
    {"also", "also from", TABLE_TEXT, 72, "other sources, with 5% or more"},
    {0},
};

enum { FIRST_ROWS = 5 };

/* In JSON and CSV: samples by source, as "from_l1" and so on. */
static const struct table_column *source_columns(void)
{
    static struct table_column columns[SPEX_SOURCE_COUNT + 1];
    static char names[SPEX_SOURCE_COUNT][32];
    for (unsigned s = 0; s < SPEX_SOURCE_COUNT; s++) {
        snprintf(names[s], sizeof names[s], "from_%s", spex_source_name(s));
        for (char *p = names[s]; *p; p++)
            if (*p == '-')
                *p = '_';
        columns[s] = (struct table_column){names[s], names[s], TABLE_COUNT, 255,
                                           "samples whose data came from there"};
    }
    return columns;
}

unsigned columns_percentiles(const struct profile_options *options)
{
    const char *f = options->fields;
    bool all =
        options->format != TABLE_AS_TEXT ||
        (f && (strstr(f, "issue_p") || strstr(f, "translation_p") || strstr(f, "latency_p")));
    return all ? SPEX_GROUP_ALL_PERCENTILES : SPEX_GROUP_EXECUTE;
}

/* Shown beside an allocation key. */
static const struct table_column alloc_columns[] = {
    {"blocks", "blocks", TABLE_COUNT, 12, "blocks allocated there in which samples lie"},
    {"block_bytes", "bytes", TABLE_TEXT, 11, "their sizes: the smallest and the largest"},
};
enum { ALLOC_COLUMNS = sizeof alloc_columns / sizeof *alloc_columns };

const char *columns_key_help(enum spex_key key)
{
    return key == SPEX_KEY_ALLOC ? "where the data was allocated; needs record --allocs"
                                 : spex_key_help(key);
}

struct table_column *columns_for_keys(const enum spex_key *keys, size_t count)
{
    size_t n = 0, more = 0;
    for (size_t i = 0; i < count; i++)
        more |= keys[i] == SPEX_KEY_ALLOC ? ALLOC_COLUMNS : 0;
    while (stats_columns[n].name)
        n++;
    struct table_column *columns =
        memory_get(n + SPEX_SOURCE_COUNT + more + count + 1, sizeof *columns);
    memcpy(columns, stats_columns, n * sizeof *columns);
    memcpy(columns + n, source_columns(), SPEX_SOURCE_COUNT * sizeof *columns);
    n += SPEX_SOURCE_COUNT;
    memcpy(columns + n, alloc_columns, more * sizeof *columns);
    n += more;
    for (size_t i = 0; i < count; i++) {
        const char *name = spex_key_name(keys[i]);
        columns[n + i] =
            (struct table_column){name, name, TABLE_TEXT, 0, columns_key_help(keys[i]), true};
    }
    return columns;
}

void columns_sources(const struct spex_stats *stats, unsigned skip, unsigned most, char *text,
                     size_t capacity)
{
    uint64_t total = 0;
    bool used[SPEX_SOURCE_COUNT] = {false};
    size_t size = 0;
    text[0] = 0;
    for (unsigned s = 0; s < SPEX_SOURCE_COUNT; s++)
        total += stats->source[s];
    for (unsigned n = 0; n < skip + most; n++) {
        unsigned best = 0;
        uint64_t count = 0;
        for (unsigned s = 0; s < SPEX_SOURCE_COUNT; s++)
            if (!used[s] && stats->source[s] > count) {
                count = stats->source[s];
                best = s;
            }
        /* always the first one; more while they matter */
        if (!count || (n && count * 20 < total))
            break;
        used[best] = true;
        if (n < skip)
            continue;
        int wrote = snprintf(text + size, capacity - size, "%s%s %.0f%%", n > skip ? " " : "",
                             spex_source_name(best), 100.0 * (double)count / (double)total);
        if (wrote < 0 || (size += (size_t)wrote) >= capacity)
            break;
    }
}

void columns_latency(const struct profile *profile, struct table *table, const char *column,
                     int value)
{
    if (value < 0)
        return;
    table_set_u64(table, column, (uint64_t)value);
    if (value == spex_analysis_sampling(profile->analysis)->counter_most)
        table_least(table, column);
}

static void fill_latency(struct profile *profile, struct table *table,
                         const struct spex_group *group, const struct spex_row *row,
                         enum spex_latency l, const char *prefix)
{
    static const struct {
        const char *suffix;
        double q;
    } quantiles[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}};
    char name[40];
    uint64_t sum, count = spex_row_latencies(row, l, &sum);
    if (!count)
        return;
    snprintf(name, sizeof name, "%s_mean", prefix);
    table_set(table, name, (double)sum / (double)count);
    static const unsigned least[SPEX_LATENCY_COUNT] = {
        [SPEX_LATENCY_ISSUE] = SPEX_SAMPLE_LEAST_ISSUE,
        [SPEX_LATENCY_TRANSLATION] = SPEX_SAMPLE_LEAST_TRANSLATION};
    int most = spex_analysis_sampling(profile->analysis)->counter_most;
    const struct spex_stats s = stats_of(row);
    if (s.flags & least[l] || spex_row_latency(group, row, l, 1) == most)
        table_least(table, name); /* shown as "at least": one of the values is a bound */
    uint64_t all = s.latency_count[SPEX_LATENCY_TOTAL];
    for (size_t i = 0; i < 3; i++) {
        int value = spex_row_latency(group, row, l, quantiles[i].q);
        if (l == SPEX_LATENCY_EXECUTE && (double)(all - count) > (1 - quantiles[i].q) * (double)all)
            continue; /* the quantile lies among values that are not known */
        snprintf(name, sizeof name, "%s_%s", prefix, quantiles[i].suffix);
        columns_latency(profile, table, name, value);
    }
}

/* Text leaves out a ratio of so few samples that its 95% interval is wider than 30 points. */
static bool too_few(const struct profile *profile, uint64_t count, uint64_t total)
{
    struct spex_interval i = spex_share_interval(count, total);
    return profile->options->format == TABLE_AS_TEXT && i.high - i.low > 0.3;
}

static void set_ratio(struct table *table, const char *column, double value, double warm,
                      double hot)
{
    table_set(table, column, value);
    if (value >= hot)
        table_style(table, column, TABLE_HOT);
    else if (value >= warm)
        table_style(table, column, TABLE_WARM);
}

void columns_ratios(const struct profile *profile, struct table *table, const struct spex_stats *s,
                    bool all_rows)
{
    char sources[120];
    table_set_u64(table, "loads", s->reads);
    table_set_u64(table, "stores", s->writes);
    table_set_u64(table, "branches", s->branches);
    uint64_t memory = 0;
    for (unsigned i = 0; i < SPEX_SOURCE_COUNT; i++)
        memory += s->source[i];
    const struct {
        const char *column;
        uint64_t count, accesses;
        double warm, hot;
    } ratios[] = {{"l1_miss", s->l1_miss, s->l1_access, 0.05, 0.2},
                  {"l2_miss", s->l2_miss, s->l2_access, 0.2, 0.5},
                  {"llc_miss", s->llc_miss, s->llc_access, 0.2, 0.5},
                  {"tlb_walk", s->tlb_walk, s->tlb_access, 0.01, 0.1},
                  {"mispredict", s->mispredicted, s->branches, 0.02, 0.1},
                  {"remote", s->remote, memory, 0.05, 0.2}};
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
        uint64_t count = ratios[i].count, all = ratios[i].accesses;
        /* CPUs need not report accesses: then every operation that could access counts */
        if (all < count)
            all = memory;
        if (all < count) /* records that contradict themselves give no ratio */
            continue;
        if (all_rows || !too_few(profile, count, all))
            set_ratio(table, ratios[i].column, ratio_of(count, all), ratios[i].warm, ratios[i].hot);
    }
    columns_sources(s, 0, 1, sources, sizeof sources);
    if (sources[0])
        table_set_text(table, "from", sources);
    columns_sources(s, 1, 2, sources, sizeof sources);
    if (sources[0])
        table_set_text(table, "also", sources);
    for (unsigned i = 0; i < SPEX_SOURCE_COUNT; i++)
        table_set_u64(table, source_columns()[i].name, s->source[i]);
}

/* Fills in the row that was begun. */
static void columns_fill(struct profile *profile, struct table *table,
                         const struct spex_group *group, const struct spex_row *row)
{
    const struct spex_stats s = stats_of(row), t = stats_of(spex_group_total(group));
    const struct spex_sampling *sampling = spex_analysis_sampling(profile->analysis);
    struct spex_interval interval = spex_share_interval(s.samples, t.samples);
    if (t.time) {
        struct spex_interval time = spex_row_time_interval(group, row);
        bool runs = spex_row_long_runs(group, row);
        set_ratio(table, "time", (double)s.time / (double)t.time, 0.005, 0.05);
        table_set(table, "time_low", time.low);
        table_set(table, "time_high", time.high);
        table_set(table, "time_ns", round(spex_row_time(row)));
        table_set_text(table, "runs", runs ? "long" : "short");
        if (row != spex_group_total(group))
            table_set(table, "time_error", (time.high - time.low) / 2);
    }
    set_ratio(table, "share", ratio_of(s.samples, t.samples), 0.005, 0.05);
    if (row != spex_group_total(group))
        table_set(table, "error", (interval.high - interval.low) / 2);
    table_set_u64(table, "samples", s.samples);
    if (!spex_analysis_no_estimate(profile->analysis)) {
        double period = (double)sampling->period, all = (double)t.samples * period;
        table_set(table, "ops", (double)s.samples * period);
        table_set(table, "ops_low", interval.low * all);
        table_set(table, "ops_high", interval.high * all);
        if (s.time)
            table_set(table, "ops_ns", (double)s.samples * period / spex_row_time(row));
    }
    fill_latency(profile, table, group, row, SPEX_LATENCY_TOTAL, "latency");
    fill_latency(profile, table, group, row, SPEX_LATENCY_ISSUE, "issue");
    fill_latency(profile, table, group, row, SPEX_LATENCY_EXECUTE, "execute");
    fill_latency(profile, table, group, row, SPEX_LATENCY_TRANSLATION, "translation");
    columns_ratios(profile, table, &s, row == spex_group_total(group));
}

char *columns_text(const struct spex_group *group, const struct spex_row *row, size_t key)
{
    char text[1024];
    size_t size = spex_row_text(group, row, key, text, sizeof text) + 1;
    char *copy = memory_get(1, size);
    if (size <= sizeof text)
        memcpy(copy, text, size);
    else
        spex_row_text(group, row, key, copy, size);
    return copy;
}

void columns_key(struct table *table, const char *column, const struct spex_group *group,
                 const struct spex_row *row, size_t key)
{
    char *text = columns_text(group, row, key);
    table_set_text(table, column, text);
    free(text);
}

void columns_json(struct profile *profile, const struct table *table,
                  const struct spex_group *group, const struct advice *advice,
                  const struct spex_elapsed *elapsed)
{
    struct json json = profile_json(profile, "spex.report.1");
    JSON_MEMBER(&json, "count_error", u64, spex_group_error(group));
    advice_json(advice, &json);
    elapsed_json(elapsed, 0, &json);
    json_name(&json, "rows");
    table_json(table, &json);
    json_end(&json);
}

void columns_fill_keys(struct table *table, const struct spex_group *group,
                       const struct spex_row *row, const enum spex_key *keys, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        columns_key(table, spex_key_name(keys[k]), group, row, k);
        const struct spex_site *s = spex_row_site(group, row, k);
        if (!s)
            continue;
        char least[32], most[32];
        table_set_u64(table, "blocks", s->blocks);
        table_printf(table, "block_bytes", s->least == s->most ? "%s" : "%s to %s",
                     text_count(least, s->least), text_count(most, s->most));
    }
}

/* Samples and time of a set of rows. */
struct part {
    uint64_t samples, time;
};

static void note_rest(struct table *table, const char *last_key, struct part part,
                      const struct spex_stats *total, const char *format, size_t rows)
{
    char count[32];
    table_row(table);
    table_note(table);
    if (total->time)
        table_set(table, "time", ratio_of(part.time, total->time));
    table_set(table, "share", ratio_of(part.samples, total->samples));
    table_set_u64(table, "samples", part.samples);
    table_printf(table, last_key, format, text_count(count, rows), rows == 1 ? "" : "s");
    table_style(table, last_key, TABLE_DIM);
}

/* Text shows shares of time if it is known, else of samples; -F can show both. */
static void show_time(const struct profile *profile, struct table *table, bool timed)
{
    static const char *const time[] = {"time",    "time_error", "time_low", "time_high",
                                       "time_ns", "runs",       "ops_ns"};
    for (size_t i = 0; !timed && i < sizeof time / sizeof *time; i++)
        table_hide(table, time[i]);
    const char *f = profile->options->fields;
    bool asked = f && (f[0] != '+' || strstr(f, "share") || strstr(f, "error"));
    if (timed && profile->options->format == TABLE_AS_TEXT && !asked) {
        table_hide(table, "share");
        table_hide(table, "error");
    }
}

struct table *columns_table(struct profile *profile, struct spex_group *group,
                            const enum spex_key *keys, size_t count, size_t most, const char *usual,
                            struct table_column **columns)
{
    *columns = columns_for_keys(keys, count);
    struct table *table = table_new(*columns);
    const struct spex_stats total = stats_of(spex_group_total(group));
    const char *last = spex_key_name(keys[count - 1]), *wrong;
    if (usual && profile->options->format == TABLE_AS_TEXT)
        table_prefer(table, usual);
    if (profile->options->fields && (wrong = table_select(table, profile->options->fields))) {
        profile_wrong_field(wrong);
        table_free(table);
        free(*columns);
        *columns = NULL;
        return NULL;
    }
    show_time(profile, table, total.time);
    if (spex_analysis_no_estimate(profile->analysis)) {
        table_hide(table, "ops_ns");
        table_hide(table, "ops");
        table_hide(table, "ops_low");
        table_hide(table, "ops_high");
    }
    /* always show the first rows: many small ones are an answer, too */
    double limit = profile->limit;
    size_t rows = spex_group_count(group), shown = 0;
    uint64_t least = profile->options->format == TABLE_AS_TEXT ? profile->least : 0;
    size_t first = profile->options->percent_limit || profile->options->format != TABLE_AS_TEXT
                       ? 0
                       : FIRST_ROWS;
    struct part left = {total.samples, total.time};
    for (size_t i = 0; i < rows && (!most || shown < most); i++) {
        const struct spex_row *row = spex_group_row(group, i);
        const struct spex_stats own = stats_of(row);
        if (own.samples < least)
            continue;
        bool below = total.time ? (double)own.time < limit * (double)total.time
                                : (double)own.samples < limit * (double)total.samples;
        if (below && shown >= first)
            break;
        left.samples -= own.samples;
        left.time -= own.time;
        table_row(table);
        columns_fill(profile, table, group, row);
        columns_fill_keys(table, group, row, keys, count);
        shown++;
    }
    const struct spex_row *rest = spex_group_rest(group);
    struct part dropped = {0};
    if (rest)
        dropped = (struct part){stats_of(rest).samples, stats_of(rest).time};
    left.samples -= dropped.samples;
    left.time -= dropped.time;
    if (shown < rows)
        note_rest(table, last, left, &total, "(%s more row%s)", rows - shown);
    if (rest)
        note_rest(table, last, dropped, &total, "(small rows merged: there are about %s in all)",
                  (size_t)spex_group_keys(group));
    if (rest &&
        profile->options->format != TABLE_AS_TEXT) { /* JSON and CSV have no row for the rest */
        char keys_text[32], samples_text[32];
        cli_error(
            "by %s: there are about %s; small ones, with %s samples, are merged and not listed",
            last, text_count(keys_text, spex_group_keys(group)),
            text_count(samples_text, dropped.samples));
    }
    if (shown + (shown < rows) + !!rest > 1) {
        table_row(table);
        table_note(table);
        columns_fill(profile, table, group, spex_group_total(group));
        table_set_text(table, last, "total");
        table_style(table, last, TABLE_DIM);
    }
    return table;
}
