/* spex mem: where data comes from, how long that takes, and which data it is. */
#include "columns.h"
#include "mem_type.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct mem_options {
    struct profile_options profile;
    uint64_t most;
    const char *type;
};

enum section { SOURCES, LATENCIES, DATA, PAGES, LINES, SECTIONS };

static const struct {
    const char *name, *title;
    enum spex_key key;
    enum spex_order order;
    bool percentiles;
    const char *fields; /* default columns of the text output */
} sections[SECTIONS] = {
    [SOURCES] = {"sources", "Where data came from, by time", SPEX_KEY_SOURCE, SPEX_BY_TIME, true,
                 "time,share,samples,loads,stores,issue_mean,execute_mean,execute_p50,"
                 "execute_p95,execute_p99,tlb_walk,source"},
    [LATENCIES] = {"latencies", NULL, SPEX_KEY_LATENCY, SPEX_BY_SAMPLES, false, NULL},
    [DATA] = {"data", "Variables and mappings, by time", SPEX_KEY_DATA_SYMBOL, SPEX_BY_TIME, true,
              "time,share,samples,loads,stores,execute_p50,execute_p95,l1_miss,tlb_walk,from,"
              "data-symbol"},
    [PAGES] = {"pages", "Pages, by time", SPEX_KEY_PAGE, SPEX_BY_TIME, false,
               "time,share,samples,execute_mean,l1_miss,tlb_walk,translation_mean,from,page"},
    [LINES] = {"lines", "Cache lines, by time", SPEX_KEY_CACHE_LINE, SPEX_BY_TIME, false,
               "time,share,samples,loads,stores,execute_mean,l1_miss,from,line"},
};

struct mem {
    struct spex_feed feed;
    struct spex_group *fed[3]; /* groups that take samples; the others are derived from them */
    struct spex_group *groups[SECTIONS], *levels;
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct mem *m = context;
    const struct spex_sample *memory[SPEX_RECORD_BATCH];
    while (count) {
        size_t n = 0, end = count < SPEX_RECORD_BATCH ? count : SPEX_RECORD_BATCH;
        for (size_t i = 0; i < end; i++) {
            memory[n] = &samples[i];
            n += spex_sample_memory(&samples[i]);
        }
        spex_feed_add(&m->feed, memory, n);
        samples += end;
        count -= end;
    }
}

/*
 * Without timestamps, the execute latency: an operation that waits for another's data is not to
 * blame.
 */
static double cost_of(const struct spex_row *row, bool timed)
{
    return timed ? spex_row_time(row) : (double)stats_of(row).latency_sum[SPEX_LATENCY_EXECUTE];
}

static const struct table_column level_columns[] = {
    {"level", "level", TABLE_TEXT, 0, "cache or TLB"},
    {"accesses", "accesses", TABLE_COUNT, 0, "samples that looked there"},
    {"misses", "misses", TABLE_COUNT, 0, "and did not find it"},
    {"ratio", "miss ratio", TABLE_PERCENT, 0, "misses of accesses"},
    {"of_all", "of all", TABLE_PERCENT, 0, "misses of all memory samples"},
    {0},
};

static struct table *levels_table(const struct spex_stats *t)
{
    const struct {
        const char *name;
        uint64_t accesses, misses;
    } levels[] = {
        {"L1 data cache", t->l1_access, t->l1_miss},
        {"L2 cache", t->l2_access, t->l2_miss},
        {"last-level cache", t->llc_access, t->llc_miss},
        {"TLB (walks)", t->tlb_access, t->tlb_walk},
        {"another socket", t->remote, 0},
    };
    struct table *table = table_new(level_columns);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        bool remote = i + 1 == sizeof levels / sizeof *levels;
        if (!levels[i].accesses && !levels[i].misses)
            continue;
        table_row(table);
        table_set_text(table, "level", levels[i].name);
        table_set_u64(table, "accesses", levels[i].accesses);
        if (remote) {
            table_set(table, "of_all", ratio_of(levels[i].accesses, t->samples));
            continue;
        }
        table_set_u64(table, "misses", levels[i].misses);
        if (levels[i].accesses >= levels[i].misses)
            table_set(table, "ratio", ratio_of(levels[i].misses, levels[i].accesses));
        table_set(table, "of_all", ratio_of(levels[i].misses, t->samples));
    }
    return table;
}

/* The distribution of total latencies, a bar per power of two, of rows in order of their keys. */
static void draw_latencies(struct profile *p, const struct spex_group *group)
{
    struct out *out = &p->out;
    size_t count = spex_group_count(group);
    uint64_t total = stats_of(spex_group_total(group)).samples, largest = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t of_row = spex_row_stat(spex_group_row(group, i), SPEX_STAT_SAMPLES);
        largest = of_row > largest ? of_row : largest;
    }
    unsigned width = (p->width ? p->width : 80) - 34;
    if (width > 80)
        width = 80;
    out_text(out, "\nLatency of memory operations, cycles\n");
    for (size_t i = 0; i < count; i++) {
        char range[40], samples[32];
        const struct spex_row *row = spex_group_row(group, i);
        const double of_row = (double)spex_row_stat(row, SPEX_STAT_SAMPLES);
        spex_row_text(group, row, 0, range, sizeof range);
        unsigned bar = (unsigned)(of_row * width / (double)largest + 0.5);
        out_printf(out, "%12s %10s %5.1f%% ", range, text_count(samples, (uint64_t)of_row),
                   100.0 * of_row / (double)total);
        if (p->colour)
            out_text(out, "\033[36m");
        for (unsigned n = 0; n < (bar ? bar : 1); n++)
            out_char(out, '#');
        out_text(out, p->colour ? "\033[0m\n" : "\n");
    }
}

static void print_translation(struct profile *p, const struct spex_group *group)
{
    const struct spex_row *total = spex_group_total(group);
    const struct spex_stats t = stats_of(total);
    uint64_t n = t.latency_count[SPEX_LATENCY_TRANSLATION];
    if (!n)
        return;
    char text[200];
    snprintf(text, sizeof text,
             "Translation: mean %.1f cycles, p50 %d, p95 %d, p99 %d; %.1f%% of "
             "accesses walk the tables",
             (double)t.latency_sum[SPEX_LATENCY_TRANSLATION] / (double)n,
             spex_row_latency(group, total, SPEX_LATENCY_TRANSLATION, 0.5),
             spex_row_latency(group, total, SPEX_LATENCY_TRANSLATION, 0.95),
             spex_row_latency(group, total, SPEX_LATENCY_TRANSLATION, 0.99),
             100 * (double)t.tlb_walk / (double)(t.tlb_access ? t.tlb_access : t.samples));
    out_char(&p->out, '\n');
    cli_wrap(&p->out, text, 2);
}

enum { LEAST = 5 }; /* samples of a page or line that are unlikely to be chance */

/* Thousands of rows that wait equally long are not worth listing. */
static bool nothing_stands_out(struct profile *p, const struct spex_group *group, enum section s)
{
    const struct spex_row *all = spex_group_total(group), *first = NULL;
    bool timed = stats_of(all).time;
    if ((s != PAGES && s != LINES) || p->options->fields)
        return false;
    for (size_t i = 0; i < spex_group_count(group) && !first; i++)
        if (stats_of(spex_group_row(group, i)).samples >= LEAST)
            first = spex_group_row(group, i);
    if (first && cost_of(first, timed) >= 0.01 * cost_of(all, timed))
        return false;
    char count[32];
    bool merged = spex_group_rest(group);
    out_printf(&p->out, "\n%s: none of %s%s stands out, the largest has %.1f%%\n",
               sections[s].title, merged ? "about " : "", text_count(count, spex_group_keys(group)),
               100 * cost_of(spex_group_row(group, 0), timed) / cost_of(all, timed));
    return true;
}

static int print_section(struct profile *p, struct json *json, struct spex_group *group,
                         enum section s, size_t most)
{
    struct table_column *columns;
    bool text = p->options->format == TABLE_AS_TEXT;
    double limit = p->limit;
    if (text && spex_group_count(group) && nothing_stands_out(p, group, s))
        return CLI_OK;
    if (s != SOURCES && s != DATA && !p->options->percent_limit)
        p->limit = 0; /* the number of rows is limited */
    if ((s == PAGES || s == LINES) && !p->options->fields)
        p->least = LEAST;
    struct table *table =
        columns_table(p, group, &sections[s].key, 1, text ? most : 0, sections[s].fields, &columns);
    p->limit = limit;
    p->least = 0;
    if (!table)
        return CLI_USAGE;
    struct table_options how = profile_table(p);
    if (how.format == TABLE_AS_JSON) {
        json_name(json, sections[s].name);
        table_json(table, json);
    } else if (text) {
        out_printf(&p->out, "\n%s\n", sections[s].title);
    } else if (s) {
        out_char(&p->out, '\n');
    }
    table_print(table, &p->out, &how);
    table_free(table);
    free(columns);
    return CLI_OK;
}

static const char nothing[] = "has a data address: sample loads and stores (load_filter=1,"
                              "store_filter=1, or no filter)";

/* Prints one table, grouped by the keys asked for. */
static int run_by_keys(struct profile *p, const enum spex_key *keys, size_t count)
{
    struct mem m = {.feed = {sizeof m, m.fed, 0}};
    bool json = p->options->format == TABLE_AS_JSON;
    struct spex_group *group = profile_group(p, keys, count, columns_percentiles(p->options));
    m.fed[m.feed.count++] = group;
    struct advice advice =
        advice_new(p, p->options->format != TABLE_AS_CSV, spex_sink_groups(&m.feed, feed));
    p->status = advice_run(&advice, p);
    spex_group_sort(group, SPEX_BY_TIME);
    if (!p->status && !profile_empty(p, stats_of(spex_group_total(group)).samples, nothing)) {
        struct table_column *columns;
        struct table *table = columns_table(p, group, keys, count, 0, NULL, &columns);
        struct table_options how = profile_table(p);
        p->status = table ? CLI_OK : CLI_USAGE;
        if (table) {
            profile_header(p, &p->out);
            table_print(table, &p->out, &how);
            advice_print(&advice, p);
            if (json)
                columns_json(p, table, group, &advice, NULL);
        }
        table_free(table);
        free(columns);
    }
    advice_free(&advice);
    spex_group_free(group);
    return profile_close(p);
}

static int print_all(struct profile *p, struct mem *m, struct advice *advice, uint64_t most)
{
    const struct spex_stats t = stats_of(spex_group_total(m->groups[SOURCES]));
    bool json = p->options->format == TABLE_AS_JSON;
    struct table_options how = profile_table(p);
    char a[32];
    struct table *levels = levels_table(&t);
    struct json to = {0};
    if (json)
        to = profile_json(p, "spex.mem.1");
    profile_header(p, &p->out);
    profile_comment(p, &p->out, "%s memory sample%s: %.1f%% read, %.1f%% write",
                    text_count(a, t.samples), t.samples == 1 ? "" : "s",
                    100 * ratio_of(t.reads, t.samples), 100 * ratio_of(t.writes, t.samples));
    if (spex_row_time(spex_group_total(m->groups[SOURCES])) > 0)
        profile_trust(p, &p->out);
    int status = print_section(p, &to, m->groups[SOURCES], SOURCES, 0);
    if (!status && (table_rows(levels) || json)) {
        if (json) {
            json_name(&to, "levels");
            table_json(levels, &to);
        } else {
            out_text(&p->out, how.format == TABLE_AS_TEXT ? "\nCaches and TLB\n" : "\n");
        }
        table_print(levels, &p->out, &how);
    }
    if (!status && how.format == TABLE_AS_TEXT) {
        draw_latencies(p, m->groups[LATENCIES]);
        print_translation(p, m->groups[SOURCES]);
    } else if (!status) {
        status = print_section(p, &to, m->groups[LATENCIES], LATENCIES, 0);
    }
    for (unsigned s = DATA; s < SECTIONS && !status; s++)
        status = print_section(p, &to, m->groups[s], s, most);
    if (json) {
        advice_json(advice, &to);
        json_end(&to);
    } else if (!status) {
        advice_print(advice, p);
    }
    table_free(levels);
    return status;
}

static enum spex_order order_of(enum section s, int format, bool spent)
{
    if (s == LATENCIES && format == TABLE_AS_TEXT)
        return SPEX_BY_KEYS; /* a drawing */
    return sections[s].order == SPEX_BY_TIME && !spent ? SPEX_BY_EXECUTE : sections[s].order;
}

static int run_mem(void *options, int argc, char **argv)
{
    const struct mem_options *o = options;
    struct profile p;
    struct mem m = {.feed = {sizeof m, m.fed, 0}};
    enum spex_key keys[SPEX_KEYS_MAX];
    size_t count = 0;
    (void)argc;
    if (o->type && o->profile.sort)
        return cli_usage("--type shows a type by its members: leave --sort out");
    int status = o->profile.sort ? profile_keys(o->profile.sort, keys, &count) : CLI_OK;
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want =
                                             SPEX_WANT_DATA | SPEX_WANT_SYMBOL | SPEX_WANT_SPENT,
                                         .threads = cli_threads(o->profile.threads)};
    for (size_t i = 0; i < count; i++)
        more.want |= spex_key_wants(keys[i]);
    if (!status)
        status = profile_open_all(&p, &o->profile, argv, &more);
    if (status)
        return status;
    if (o->type)
        return mem_by_type(&p, o->type);
    if (count)
        return run_by_keys(&p, keys, count);
    const unsigned usual = columns_percentiles(&o->profile);
    const unsigned of_sources = usual == SPEX_GROUP_EXECUTE ? SPEX_GROUP_TRANSLATION : usual;
    for (unsigned s = 0; s < SECTIONS; s++)
        m.groups[s] = profile_group(&p, &sections[s].key, 1,
                                    s == SOURCES              ? of_sources
                                    : sections[s].percentiles ? usual
                                                              : 0);
    static const enum spex_key level_keys[] = {SPEX_KEY_SOURCE, SPEX_KEY_LATENCY};
    m.levels = profile_group(&p, level_keys, 2, of_sources);
    spex_group_derive(m.groups[SOURCES], m.levels);
    spex_group_derive(m.groups[LATENCIES], m.levels);
    spex_group_derive(m.groups[PAGES], m.groups[LINES]);
    m.fed[m.feed.count++] = m.levels;
    m.fed[m.feed.count++] = m.groups[DATA];
    m.fed[m.feed.count++] = m.groups[LINES];
    struct advice advice =
        advice_new(&p, o->profile.format != TABLE_AS_CSV, spex_sink_groups(&m.feed, feed));
    p.status = advice_run(&advice, &p);
    bool spent = spex_analysis_totals(p.analysis)->spent;
    for (unsigned s = 0; s < SECTIONS; s++)
        spex_group_sort(m.groups[s], order_of((enum section)s, o->profile.format, spent));
    const struct spex_stats t = stats_of(spex_group_total(m.groups[SOURCES]));
    if (!p.status && !profile_empty(&p, t.samples, nothing))
        p.status = print_all(&p, &m, &advice, o->most);
    for (unsigned s = 0; s < SECTIONS; s++)
        spex_group_free(m.groups[s]);
    spex_group_free(m.levels);
    advice_free(&advice);
    return profile_close(&p);
}

static const struct cli_option mem_options[] = {
    PROFILE_INPUT_OPTIONS(struct mem_options),
    CLI_THREADS(struct mem_options, profile.threads),
    {"sort", 's', CLI_STRING, PROFILE_AT(struct mem_options, sort), "KEYS",
     "a single table grouped by these keys (source, data-symbol, type, member, page, line, symbol, "
     "...)",
     NULL, NULL},
    {"rows", 'n', CLI_NUMBER, offsetof(struct mem_options, most), "N", "rows of each table of data",
     "8", NULL},
    {"type", 0, CLI_STRING, offsetof(struct mem_options, type), "NAME",
     "only the members of this type, by cache line (* and ? match)", NULL, NULL},
    PROFILE_TABLE_OPTIONS(struct mem_options),
#define OPTIONS struct mem_options
#include "filter_options.def"
    PROFILE_REPLAY(struct mem_options),
    PROFILE_SYMBOL_OPTIONS(struct mem_options),
    {0},
};

const struct cli_command cli_mem = {
    .name = "mem",
    .group = CLI_WHY,
    .pages = true,
    .synopsis = "[FILE...]",
    .summary = "where data comes from, how long it takes, and which data",
    .details =
        "Loads, stores and atomics by data source and cache level, their latencies, and "
        "the variables, pages and cache lines that programs wait for most. --sort type,member "
        "names structs and their members, --type 'struct node' shows which of its members "
        "are used (docs/names.md).",
    .options = mem_options,
    .size = sizeof(struct mem_options),
    .run = run_mem,
};
