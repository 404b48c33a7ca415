/* spex c2c: cache lines that threads share and write, whether they need to, and what to do. */
#include "columns.h"

#include "base/memory.h"
#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct c2c_options {
    struct profile_options profile;
    uint64_t most;
    bool all;
};

enum { SHOWN_USES = 16 };

static const char *const kinds[] = {"false", "true", "mixed"};

static const char *title_of(const struct spex_shared_line *line)
{
    static const char *const titles[] = {"FALSE SHARING", "true sharing", "true and false sharing"};
    return line->lock >= 0 ? "CONTENDED LOCK" : titles[line->kind];
}

static const struct table_column line_columns[] = {
    {"address", "line", TABLE_HEX, 0, "virtual address of the cache line"},
    {"pid", "pid", TABLE_NUMBER, 255, "process"},
    {"data", "data", TABLE_TEXT, 0, "variable or mapping", true},
    {"kind", "sharing", TABLE_TEXT, 0, "false, true or mixed"},
    {"score", "score", TABLE_NUMBER, 0, "0 harmless to 1 every access conflicts"},
    {"contention", "contention", TABLE_NUMBER, 255, "score without the CPU's evidence"},
    {"apart", "apart", TABLE_PERCENT, 255, "share of the conflicts on different words"},
    {"overlap", "overlap", TABLE_PERCENT, 255, "how much the threads run at the same time"},
    {"samples", "samples", TABLE_COUNT, 0, "samples on the line"},
    {"loads", "loads", TABLE_COUNT, 20, "that read it"},
    {"stores", "stores", TABLE_COUNT, 20, "that write it"},
    {"peer", "peer", TABLE_PERCENT, 30, "loads that another core's cache answered"},
    {"threads", "threads", TABLE_NUMBER, 20, "threads that use it"},
    {"writers", "writers", TABLE_NUMBER, 40, "threads that write it"},
    {"lock", "lock", TABLE_TEXT, 255, "offset of a lock that the threads contend for"},
    {0},
};

static const struct table_column use_columns[] = {
    {"offset", "offset", TABLE_TEXT, 0, "in the line"},
    {"comm", "thread", TABLE_TEXT, 40, "name of the thread"},
    {"tid", "tid", TABLE_NUMBER, 0, "thread"},
    {"loads", "loads", TABLE_COUNT, 0, "samples that read"},
    {"stores", "stores", TABLE_COUNT, 0, "samples that write"},
    {"latency_p50", "p50", TABLE_NUMBER, 35, "total latency of loads, median"},
    {"latency_p95", "p95", TABLE_NUMBER, 20, "total latency of loads, 95th percentile"},
    {"peer", "peer", TABLE_PERCENT, 10, "loads that another core's cache answered"},
    {"srcline", "line", TABLE_TEXT, 15, "source line"},
    {"symbol", "code", TABLE_TEXT, 0, "function", true},
    {0},
};

static struct table *uses_table(struct profile *p, const struct spex_sharing *s,
                                const struct spex_shared_line *line)
{
    struct table *table = table_new(use_columns);
    const struct spex_group *group = spex_sharing_group(s);
    bool text = p->options->format == TABLE_AS_TEXT;
    for (size_t i = 0; i < line->uses; i++) {
        const struct spex_shared_use *use = spex_sharing_use(s, line->first_use + i);
        const struct spex_stats t = stats_of(use->row);
        /* uses of at least a hundredth of the line's samples, and no more than a screenful */
        if (text && (table_rows(table) == SHOWN_USES || (uint64_t)t.samples * 100 < line->samples))
            continue;
        table_row(table);
        table_printf(table, "offset", "+0x%02x", use->offset);
        table_set_text(table, "comm", use->comm);
        if (use->tid >= 0)
            table_set_u64(table, "tid", (uint64_t)use->tid);
        table_set_u64(table, "loads", t.reads);
        table_set_u64(table, "stores", t.writes);
        columns_latency(p, table, "latency_p50",
                        spex_row_latency(group, use->row, SPEX_LATENCY_TOTAL, 0.5));
        columns_latency(p, table, "latency_p95",
                        spex_row_latency(group, use->row, SPEX_LATENCY_TOTAL, 0.95));
        if (spex_sharing_totals(s)->sources && t.reads)
            table_set(table, "peer", ratio_of(t.peer, t.reads));
        columns_key(table, "srcline", group, use->row, SPEX_USE_SRCLINE);
        columns_key(table, "symbol", group, use->row, SPEX_USE_SYMBOL);
    }
    if (text && table_rows(table) < line->uses) {
        table_row(table);
        table_note(table);
        table_printf(table, "symbol", "(%zu more)", line->uses - table_rows(table) + 1);
    }
    return table;
}

/* The name of a line, however long; the caller frees it. */
static char *line_name(struct profile *p, const struct spex_sharing *s,
                       const struct spex_shared_line *line)
{
    const size_t size = spex_finding_line_text(p->analysis, s, line, NULL, 0) + 1;
    char *name = memory_get(1, size);
    spex_finding_line_text(p->analysis, s, line, name, size);
    return name;
}

static void line_row(struct profile *p, struct table *table, const struct spex_sharing *s,
                     const struct spex_shared_line *line)
{
    char *name = line_name(p, s, line);
    table_row(table);
    table_set_u64(table, "address", line->address);
    if (line->pid >= 0)
        table_set_u64(table, "pid", (uint64_t)line->pid);
    table_set_text(table, "data", name);
    free(name);
    table_set_text(table, "kind", kinds[line->kind]);
    table_set(table, "score", round(line->score * 100) / 100);
    table_set(table, "contention", round(line->contention * 100) / 100);
    table_set(table, "apart", line->apart);
    table_set(table, "overlap", line->overlap);
    table_set_u64(table, "samples", line->samples);
    table_set_u64(table, "loads", line->loads);
    table_set_u64(table, "stores", line->stores);
    if (spex_sharing_totals(s)->sources)
        table_set(table, "peer", ratio_of(line->peer, line->with_source));
    table_set_u64(table, "threads", line->threads);
    table_set_u64(table, "writers", line->writers);
    if (line->lock >= 0)
        table_printf(table, "lock", "+0x%02x", (unsigned)line->lock);
}

static void print_line(struct profile *p, const struct spex_sharing *s,
                       const struct spex_shared_line *line, unsigned rank)
{
    struct out *out = &p->out;
    char *name = line_name(p, s, line);
    struct spex_finding *finding = NULL;
    if (spex_finding_of_line(p->analysis, s, line, &finding))
        memory_checked(NULL);
    out_printf(out, "\n%u. %s0x%llx ", rank, p->colour ? "\033[1m" : "",
               (unsigned long long)line->address);
    out_name(out, name);
    free(name);
    out_printf(out, ": %s, score %.2f%s\n", title_of(line), line->score,
               p->colour ? "\033[0m" : "");
    out_text(out, "   ");
    char *found = words_of(finding, WORDS_FOUND, true);
    cli_wrap(out, found, 3);
    free(found);
    struct table *table = uses_table(p, s, line);
    struct table_options how = profile_table(p);
    how.indent = "   ";
    table_print(table, out, &how);
    table_free(table);
    advice_do(p, finding, 3);
    spex_finding_free(finding);
}

static void print_json(struct profile *p, const struct spex_sharing *s)
{
    const struct spex_sharing_totals *t = spex_sharing_totals(s);
    const struct spex_shared_line *line;
    struct json json = profile_json(p, "spex.c2c.1");
    JSON_MEMBER(&json, "memory_samples", u64, t->memory);
    JSON_MEMBER(&json, "lines_seen", u64, t->lines);
    JSON_MEMBER(&json, "lines_shared", u64, t->shared);
    JSON_MEMBER(&json, "lines_merged", u64, t->merged);
    JSON_MEMBER(&json, "by_source", bool, t->sources);
    JSON_MEMBER(&json, "by_time", bool, t->timed);
    struct table *table = table_new(line_columns);
    for (size_t i = 0; (line = spex_sharing_line(s, i)); i++)
        line_row(p, table, s, line);
    json_name(&json, "lines");
    table_json(table, &json);
    table_free(table);
    json_name(&json, "uses");
    json_array(&json);
    for (size_t i = 0; (line = spex_sharing_line(s, i)); i++) {
        struct table *uses = uses_table(p, s, line);
        table_json(uses, &json);
        table_free(uses);
    }
    json_end(&json);
    struct advice advice = advice_new(p, true, (struct spex_sink){0});
    spex_findings_finish(advice.findings, s);
    advice_json(&advice, &json);
    advice_free(&advice);
    json_end(&json);
}

static void print_text(struct profile *p, const struct c2c_options *o, const struct spex_sharing *s)
{
    const struct spex_sharing_totals *t = spex_sharing_totals(s);
    const struct spex_shared_line *line;
    struct out *out = &p->out;
    size_t counts[4] = {0},
           quiet = 0; /* number of harmful lines by kind, locks last; number of harmless lines */
    char a[32], b[32];
    for (size_t i = 0; (line = spex_sharing_line(s, i)); i++)
        if (line->score >= SPEX_FINDING_SCORE)
            counts[line->lock >= 0 ? 3 : line->kind]++;
        else
            quiet++;
    size_t bad = counts[0] + counts[1] + counts[2] + counts[3];
    static const char *const called[] = {"falsely shared", "truly shared",
                                         "both truly and falsely shared", "contended"};
    static const unsigned order[] = {3, 0, 1, 2};
    char answer[300] = "";
    int n = 0;
    for (unsigned k = 0; k < 4; k++) {
        size_t count = counts[order[k]];
        if (count)
            n += snprintf(answer + n, sizeof answer - (size_t)n, "%s%zu %s%s %s", n ? ", " : "",
                          count, order[k] == 3 ? "lock" : "line", count == 1 ? " is" : "s are",
                          called[order[k]]);
    }
    if (!bad)
        n = snprintf(answer, sizeof answer, "no harmful sharing");
    snprintf(answer + n, sizeof answer - (size_t)n,
             " (of %s lines, %s used by several threads and written)", text_count(a, t->lines),
             text_count(b, t->shared));
    cli_wrap(out, answer, 0);
    if (!t->sources)
        profile_comment(p, out,
                        "this CPU does not tell where data came from: judged by addresses, "
                        "threads and times");
    if (!t->timed)
        profile_comment(p, out, "no timestamps: threads are taken to run at the same time");
    if (t->merged)
        profile_comment(p, out, "more lines than fit: %s rarely used ones were left out",
                        text_count(a, t->merged));
    unsigned rank = 0;
    for (size_t i = 0; (line = spex_sharing_line(s, i)); i++) {
        if ((line->score < SPEX_FINDING_SCORE && !o->all) || rank == o->most)
            continue;
        print_line(p, s, line, ++rank);
    }
    if (bad > o->most)
        out_printf(out, "\n%zu more; --lines shows them\n", bad - (size_t)o->most);
    if (quiet && !o->all)
        out_printf(out, "%s%zu shared line%s harmless: score below %.1f (--all shows %s)\n",
                   rank ? "\n" : "", quiet, quiet == 1 ? " is" : "s are", SPEX_FINDING_SCORE,
                   quiet == 1 ? "it" : "them");
}

static int run_c2c(void *options, int argc, char **argv)
{
    const struct c2c_options *o = options;
    struct profile p;
    (void)argc;
    struct spex_analysis_options more = {
        .size = sizeof more, .want = SPEX_WANT_DATA, .threads = cli_threads(o->profile.threads)};
    int status = profile_open_all(&p, &o->profile, argv, &more);
    if (status)
        return status;
    struct spex_sharing *s;
    struct spex_error error;
    if (spex_sharing_new(p.analysis, &s, &error)) {
        cli_error("%s", error.text);
        p.status = CLI_DATA;
        return profile_close(&p);
    }
    p.status = profile_run(&p, spex_sink_find(s));
    if (!p.status) {
        size_t found = spex_sharing_choose(s);
        if (found)
            p.status = profile_run(&p, spex_sink_look(s));
        spex_sharing_finish(s);
    }
    if (!p.status && o->profile.format == TABLE_AS_JSON) {
        print_json(&p, s);
    } else if (!p.status && o->profile.format == TABLE_AS_CSV) {
        const struct spex_shared_line *line;
        struct table *table = table_new(line_columns);
        struct table_options how = profile_table(&p);
        for (size_t i = 0; (line = spex_sharing_line(s, i)); i++)
            line_row(&p, table, s, line);
        table_print(table, &p.out, &how);
        table_free(table);
    } else if (!p.status &&
               !profile_empty(&p, spex_sharing_totals(s)->memory,
                              "has a data address: sample "
                              "loads and stores (load_filter=1,store_filter=1, or no filter)")) {
        profile_header(&p, &p.out);
        print_text(&p, o, s);
    }
    spex_sharing_free(s);
    return profile_close(&p);
}

static const struct cli_option c2c_options[] = {
    PROFILE_INPUT_OPTIONS(struct c2c_options),
    CLI_THREADS(struct c2c_options, profile.threads),
    {"lines", 'n', CLI_NUMBER, offsetof(struct c2c_options, most), "N", "cache lines to show", "10",
     NULL},
    {"all", 0, CLI_FLAG, offsetof(struct c2c_options, all), NULL,
     "also show shared lines that do no harm", NULL, NULL},
#define OPTIONS struct c2c_options
#include "filter_options.def"
    PROFILE_SYMBOL_OPTIONS(struct c2c_options),
    {0},
};

const struct cli_command cli_c2c = {
    .name = "c2c",
    .group = CLI_WHY,
    .pages = true,
    .synopsis = "[FILE...]",
    .summary = "cache lines that threads fight over; false and true sharing",
    .details =
        "Finds lines that several threads use and at least one writes. The score says how "
        "likely neighbouring accesses conflict (0 to 1), from threads, words, writes and times "
        "and, if the CPU says it, from where loads got their data. Different words: false "
        "sharing, padding helps. The same word: true sharing.",
    .options = c2c_options,
    .size = sizeof(struct c2c_options),
    .run = run_c2c,
};
