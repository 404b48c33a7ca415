#include "fleet_report.h"

#include "cli/columns.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUANTILES = 3, FIRST_ROWS = 5, KEYS_MOST = 4 };

/* Cells of an answer, in the order of rollup.def. */
enum sum {
#define SUM(name, type, value) SUM_##name,
#define LEVELS(name, value, where)
#include "export/rollup.def"
    SUMS
};
enum levels {
#define SUM(name, type, value)
#define LEVELS(name, value, where) LEVELS_##name,
#include "export/rollup.def"
    LEVELS_COUNT
};

struct line {
    char *keys[KEYS_MOST];
    double sums[SUMS];
    double levels[LEVELS_COUNT][QUANTILES];
    struct spex_stats stats;
};

struct fleet_table {
    struct profile profile; /* how to print: width, colour, limit; no analysis */
    struct clickhouse *server;
    const char *keys[KEYS_MOST];
    size_t key_count;
    struct out where, query, answer;
    char *partial;
    struct line *lines, total;
    size_t count, capacity;
    char hosts[32], from[32], until[32];
    int status;
};

/* ---- the query ---- */

static int parse_keys(struct fleet_table *t, const char *list)
{
    static const char *const known[KEYS_MOST] = {"symbol", "dso", "comm", "host"};
    while (*list) {
        size_t n = strcspn(list, ","), k = 0;
        while (k < KEYS_MOST && (strlen(known[k]) != n || strncmp(known[k], list, n)))
            k++;
        if (k == KEYS_MOST)
            return cli_usage("--sort: '%.*s': a fleet's roll-ups know symbol, dso, comm and host",
                             (int)n, list);
        if (t->key_count == KEYS_MOST)
            return cli_usage("--sort: at most %d keys", KEYS_MOST);
        t->keys[t->key_count++] = known[k];
        list += n + (list[n] == ',');
    }
    return t->key_count ? CLI_OK : cli_usage("--sort: there is no key");
}

static int ask(struct fleet_table *t)
{
    char *partial;
    out_char(&t->query, 0);
    int status = fleet_ask(t->server, t->query.data, &t->answer, &partial);
    t->query.size = 0;
    if (partial) {
        free(t->partial);
        t->partial = partial;
    }
    return status;
}

/*
 * Over many hosts and hours, two of the sums do not fit into 64 bits, and a server's sum wraps:
 * 2^64 ps are 213 days of one CPU. What a host has in a minute fits, so those values are summed as
 * floating-point numbers.
 */
static void put_sum(struct out *out, const char *name)
{
    bool large = !strcmp(name, "spent") || !strcmp(name, "stands_for");
    out_printf(out, large ? "sum(toFloat64(finalizeAggregation(%s)))" : "sumMerge(%s)", name);
}

static void put_question(struct fleet_table *t)
{
    for (size_t i = 0; i < t->key_count; i++)
        out_printf(&t->query, i ? ", %s" : "SELECT %s", t->keys[i]);
#define SUM(name, type, value)                                                                     \
    out_text(&t->query, ", ");                                                                     \
    put_sum(&t->query, #name);
#define LEVELS(name, value, where)                                                                 \
    out_text(&t->query, ", quantilesExactWeightedMerge(0.5, 0.95, 0.99)(" #name ")");
#include "export/rollup.def"
    out_text(&t->query, t->where.data);
    for (size_t i = 0; i < t->key_count; i++)
        out_printf(&t->query, i ? ", %s" : " GROUP BY %s", t->keys[i]);
    out_text(&t->query, " WITH TOTALS ORDER BY ");
    put_sum(&t->query, "spent");
    out_text(&t->query, " DESC, sumMerge(samples) DESC");
    for (size_t i = 0; i < t->key_count; i++)
        out_printf(&t->query, ", %s", t->keys[i]);
}

/* ---- the answer ---- */

/* A count, whatever the server says. */
static uint32_t count_of(double sum)
{
    return (uint32_t)fmin(sum, UINT32_MAX);
}

/* 32-bit counts are enough for ratios: larger counts are all scaled down by the same factor. */
static void make_stats(struct line *l)
{
    double scale = l->sums[SUM_samples] > UINT32_MAX ? UINT32_MAX / l->sums[SUM_samples] : 1;
#define COUNT(member, name) .member = count_of(l->sums[SUM_##name] * scale)
    l->stats = (struct spex_stats){
        COUNT(l1_access, l1_accesses),
        COUNT(l1_miss, l1_misses),
        COUNT(l2_access, l2_accesses),
        COUNT(l2_miss, l2_misses),
        COUNT(llc_access, llc_accesses),
        COUNT(llc_miss, llc_misses),
        COUNT(tlb_access, tlb_accesses),
        COUNT(tlb_walk, tlb_walks),
        COUNT(mispredicted, mispredicts),
        COUNT(branches, branches),
        COUNT(remote, remotes),
        COUNT(reads, loads),
        COUNT(writes, stores),
        COUNT(samples, samples),
    };
#undef COUNT
    _Static_assert(SUM_from_io - SUM_from_unknown == SPEX_SOURCE_COUNT - 1,
                   "rollup.def has all sources");
    for (unsigned i = 0; i < SPEX_SOURCE_COUNT; i++)
        l->stats.source[i] = count_of(l->sums[SUM_from_unknown + i] * scale);
}

/* Reads a row of the answer; false after the last one. */
static bool read_line(struct fleet_table *t, char **at, struct line *l)
{
    char end = '\t', *cell;
    *l = (struct line){0};
    for (size_t i = 0; i < t->key_count; i++) {
        bool none = !strncmp(*at, "\\N", 2);
        if (!(cell = clickhouse_cell(at, &end)))
            return false;
        l->keys[i] = none ? NULL : cell;
    }
    for (unsigned i = 0; i < SUMS; i++)
        l->sums[i] = (cell = clickhouse_cell(at, &end)) ? fmax(strtod(cell, NULL), 0) : 0;
    for (unsigned i = 0; i < LEVELS_COUNT; i++) {
        cell = clickhouse_cell(at, &end);
        for (unsigned q = 0; q < QUANTILES && cell && *cell; q++)
            l->levels[i][q] = strtod(cell + 1, &cell); /* after "[" or "," */
    }
    make_stats(l);
    return true;
}

static void read_answer(struct fleet_table *t)
{
    char *at = t->answer.data;
    struct line line;
    while (*at && *at != '\n' && read_line(t, &at, &line)) {
        t->lines = memory_grow(t->lines, t->count, &t->capacity, sizeof *t->lines);
        t->lines[t->count++] = line;
    }
    if (*at == '\n') {
        at++;
        read_line(t, &at, &t->total);
    }
}

/* ---- the table ---- */

static void set_latency(struct table *table, const struct line *l, const char *prefix,
                        const double *levels, double count, double all, double sum)
{
    static const char *const suffixes[QUANTILES] = {"p50", "p95", "p99"};
    static const double quantiles[QUANTILES] = {0.5, 0.95, 0.99};
    char name[40];
    if (!count)
        return;
    snprintf(name, sizeof name, "%s_mean", prefix);
    table_set(table, name, sum / count);
    for (unsigned q = 0; levels && q < QUANTILES; q++) {
        if (all - count > (1 - quantiles[q]) * all)
            continue; /* the quantile lies among values that are not known */
        snprintf(name, sizeof name, "%s_%s", prefix, suffixes[q]);
        table_set(table, name, levels[q]);
        if (l->sums[SUM_bounded] && (levels[q] == 0xfff || levels[q] == 0xffff))
            table_least(table, name);
    }
}

static void fill(const struct fleet_table *t, struct table *table, const struct line *l)
{
    const double *s = l->sums, *all = t->total.sums;
    struct spex_interval share = spex_share_interval((uint64_t)fmin(s[SUM_samples], 1e18),
                                                     (uint64_t)fmin(all[SUM_samples], 1e18));
    columns_ratios(&t->profile, table, &l->stats, l == &t->total);
    if (all[SUM_spent] > 0) {
        const double variance = spex_time_variance(s[SUM_spent] / 1000, s[SUM_spent_square],
                                                   all[SUM_spent] / 1000, all[SUM_spent_square]);
        struct spex_interval time =
            spex_time_interval(s[SUM_spent] / 1000, variance, all[SUM_spent] / 1000);
        table_set(table, "time", s[SUM_spent] / all[SUM_spent]);
        table_set(table, "time_low", time.low);
        table_set(table, "time_high", time.high);
        table_set(table, "time_ns", round(s[SUM_spent] / 1000));
        if (l != &t->total)
            table_set(table, "time_error", (time.high - time.low) / 2);
    }
    table_set(table, "share", s[SUM_samples] / all[SUM_samples]);
    if (l != &t->total)
        table_set(table, "error", (share.high - share.low) / 2);
    table_set(table, "samples", s[SUM_samples]);
    if (all[SUM_estimated] == all[SUM_samples]) {
        table_set(table, "ops", s[SUM_stands_for]);
        if (s[SUM_spent] > 0)
            table_set(table, "ops_ns", s[SUM_stands_for] * 1000 / s[SUM_spent]);
    }
    set_latency(table, l, "latency", l->levels[LEVELS_total_levels], s[SUM_totals], s[SUM_totals],
                s[SUM_total_cycles]);
    set_latency(table, l, "issue", l->levels[LEVELS_wait_levels], s[SUM_waits], s[SUM_waits],
                s[SUM_wait_cycles]);
    set_latency(table, l, "execute", l->levels[LEVELS_execute_levels], s[SUM_executes],
                s[SUM_totals], s[SUM_execute_cycles]);
    set_latency(table, l, "translation", NULL, s[SUM_translations], 0, s[SUM_translation_cycles]);
    table_set(table, "loads", s[SUM_loads]);
    table_set(table, "stores", s[SUM_stores]);
    table_set(table, "branches", s[SUM_branches]);
}

static struct table_column *columns_of(const struct fleet_table *t)
{
    struct table_column *columns = columns_for_keys(NULL, 0);
    size_t n = 0;
    while (columns[n].name)
        n++;
    columns = memory_resize(columns, n + t->key_count + 1, sizeof *columns);
    for (size_t i = 0; i < t->key_count; i++)
        columns[n + i] =
            (struct table_column){t->keys[i], t->keys[i], TABLE_TEXT, 0, "what rows are by"};
    columns[n + t->key_count] = (struct table_column){0};
    return columns;
}

static void put_rows(const struct fleet_table *t, struct table *table)
{
    const char *last = t->keys[t->key_count - 1];
    bool text = t->profile.options->format == TABLE_AS_TEXT;
    size_t first = t->profile.options->percent_limit || !text ? 0 : FIRST_ROWS, shown = 0;
    unsigned by = t->total.sums[SUM_spent] > 0 ? SUM_spent : SUM_samples;
    double spent = t->total.sums[SUM_spent], samples = t->total.sums[SUM_samples];
    for (; shown < t->count; shown++) {
        const struct line *l = &t->lines[shown];
        if (l->sums[by] < t->profile.limit * t->total.sums[by] && shown >= first)
            break;
        table_row(table);
        fill(t, table, l);
        for (size_t i = 0; i < t->key_count; i++)
            table_set_text(table, t->keys[i], l->keys[i] ? l->keys[i] : "[unknown]");
        spent -= l->sums[SUM_spent];
        samples -= l->sums[SUM_samples];
    }
    if (shown < t->count) {
        char count[32];
        table_row(table);
        table_note(table);
        if (t->total.sums[SUM_spent] > 0)
            table_set(table, "time", spent / t->total.sums[SUM_spent]);
        table_set(table, "share", samples / t->total.sums[SUM_samples]);
        table_set(table, "samples", samples);
        table_printf(table, last, "(%s more row%s)", text_count(count, t->count - shown),
                     t->count - shown == 1 ? "" : "s");
    }
    if (t->count > 1) {
        table_row(table);
        table_note(table);
        fill(t, table, &t->total);
        table_set_text(table, last, "total");
    }
}

static struct table *make_table(const struct fleet_table *t, const struct table_column *columns)
{
    static const char *const timed[] = {"time",      "time_error", "time_low",
                                        "time_high", "time_ns",    "ops_ns"};
    const char *fields = t->profile.options->fields, *wrong;
    struct table *table = table_new(columns);
    if (fields && (wrong = table_select(table, fields))) {
        cli_usage("--fields: '%s' is not a column of this table", wrong);
        table_free(table);
        return NULL;
    }
    table_hide(table, "runs"); /* roll-ups do not keep the order of samples */
    for (size_t i = 0; !t->total.sums[SUM_spent] && i < sizeof timed / sizeof *timed; i++)
        table_hide(table, timed[i]);
    if (t->total.sums[SUM_spent] > 0 && t->profile.options->format == TABLE_AS_TEXT && !fields) {
        table_hide(table, "share");
        table_hide(table, "error");
    }
    put_rows(t, table);
    return table;
}

/* ---- what the table covers ---- */

static int ask_about(struct fleet_table *t)
{
    char *at, end, *cells[3];
    out_text(&t->query, "SELECT uniqExact(host), min(minute), max(minute)");
    out_text(&t->query, t->where.data);
    int status = ask(t);
    at = t->answer.data;
    for (unsigned i = 0; i < 3; i++)
        cells[i] = status ? NULL : clickhouse_cell(&at, &end);
    snprintf(t->hosts, sizeof t->hosts, "%s", cells[0] ? cells[0] : "0");
    snprintf(t->from, sizeof t->from, "%.16s", cells[1] ? cells[1] : "");
    snprintf(t->until, sizeof t->until, "%.16s", cells[2] ? cells[2] : "");
    return status;
}

/* Lists names that two hosts use at once: their times of running overlap. */
static int ask_doubles(struct fleet_table *t, struct out *doubles)
{
    char *at, end, *host;
    out_text(&t->query,
             "SELECT host FROM (SELECT host, boot, toUInt32(min(first)) AS a, toUInt32(max(until)) "
             "AS b FROM batches "
             "WHERE boot != '' GROUP BY host, boot) GROUP BY host HAVING uniqExact(boot) > 1 AND "
             "sum(b - a) > max(b) - min(a) ORDER BY host LIMIT 10");
    int status = ask(t);
    for (at = t->answer.data; !status && (host = clickhouse_cell(&at, &end));)
        out_printf(doubles, "%s%s", doubles->size ? ", " : "", host);
    out_char(doubles, 0);
    return status;
}

static void print_text(struct fleet_table *t, const char *url, const char *doubles)
{
    struct profile *p = &t->profile;
    char samples[32];
    profile_comment(p, &p->out, "%s: %s samples of %s host%s, %s to %s, from roll-ups by minute",
                    url, text_count(samples, (uint64_t)t->total.sums[SUM_samples]), t->hosts,
                    strcmp(t->hosts, "1") ? "s" : "", t->from, t->until);
    if (t->partial)
        profile_comment(p, &p->out, "%s", t->partial);
    if (*doubles)
        profile_comment(p, &p->out, "two machines of one name were up at the same time: %s",
                        doubles);
}

static void print_json(struct fleet_table *t, const struct table *table, const char *url)
{
    struct json json = json_to(&t->profile.out);
    json_object_lines(&json);
    JSON_MEMBER(&json, "schema", string, "spex.fleet-report.1");
    JSON_MEMBER(&json, "url", string, url);
    JSON_MEMBER(&json, "hosts", u64, strtoull(t->hosts, NULL, 10));
    JSON_MEMBER(&json, "samples", u64, (uint64_t)t->total.sums[SUM_samples]);
    JSON_MEMBER(&json, "from", string, t->from);
    JSON_MEMBER(&json, "until", string, t->until);
    JSON_MEMBER(&json, "partial", string, t->partial);
    json_name(&json, "rows");
    table_json(table, &json);
    json_end(&json);
}

static int print(struct fleet_table *t, const char *url)
{
    struct table_options how = profile_table(&t->profile);
    struct out doubles;
    out_init(&doubles, -1);
    int status = ask_about(t);
    if (!status)
        status = ask_doubles(t, &doubles);
    if (!status)
        put_question(t);
    if (!status && !(status = ask(t)))
        read_answer(t);
    if (!status && !t->count && how.format != TABLE_AS_JSON) {
        cli_note("%s has no samples of these hosts and this time%s%s", url, t->partial ? "; " : "",
                 t->partial ? t->partial : "");
    } else if (!status) {
        struct table_column *columns = columns_of(t);
        struct table *table = make_table(t, columns);
        if (table && how.format == TABLE_AS_TEXT)
            print_text(t, url, doubles.data);
        if (table && how.format == TABLE_AS_JSON)
            print_json(t, table, url);
        else if (table)
            table_print(table, &t->profile.out, &how);
        status = table ? CLI_OK : CLI_USAGE;
        table_free(table);
        free(columns);
    }
    if (!status && t->partial) {
        cli_error("%s", t->partial);
        status = CLI_DATA;
    }
    out_fini(&doubles);
    return status;
}

static bool has_filters(const struct profile_options *o)
{
#define SPEX_FILTER(option, member, kind, argument, help)                                          \
    if (o->filter.member)                                                                          \
        return true;
#include <spex/filters.def>
    return false;
}

int fleet_report(const struct profile_options *options, const struct fleet_options *fleet,
                 const char *hosts, const char *last)
{
    struct fleet_table t = {0};
    if (has_filters(options))
        return cli_usage("roll-ups can be chosen by --host and --last alone; for other filters ask "
                         "table samples with spex query --url");
    int status = parse_keys(&t, options->sort);
    if (!status)
        status = profile_printing(&t.profile, options);
    if (status)
        return status;
    out_init(&t.where, -1);
    out_init(&t.query, -1);
    out_init(&t.answer, -1);
    out_text(&t.where, " FROM minutes WHERE 1");
    status = fleet_where(&t.where, "minute", hosts, last);
    out_char(&t.where, 0);
    if (!status)
        status = fleet_connect(fleet, true, &t.server);
    if (!status) {
        status = print(&t, fleet->url);
        clickhouse_free(t.server);
    }
    int ended = cli_end_output(&t.profile.out);
    free(t.lines);
    free(t.partial);
    out_fini(&t.where);
    out_fini(&t.query);
    out_fini(&t.answer);
    return status ? status : ended;
}
