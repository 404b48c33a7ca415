/* spex report: samples by function, or by any other key. */
#include "columns.h"

#include <stdlib.h>

struct report_options {
    struct profile_options profile;
};

/* Several groups in one pass. */
struct sinks {
    struct spex_group *main, *cpus, *threads;
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct sinks *s = context;
    spex_group_sink(s->main, samples, count);
    spex_group_sink(s->cpus, samples, count);
    spex_group_sink(s->threads, samples, count);
}

/* "# threads: walk 12 61.2%, ..." where there is more than one. */
static void print_split(struct profile *p, const char *title, struct spex_group *group,
                        size_t keys)
{
    size_t rows = spex_group_count(group);
    uint64_t total = spex_group_total(group)->stats.samples;
    if (rows < 2 || p->options->format != TABLE_AS_TEXT)
        return;
    out_printf(&p->out, "# %s:", title);
    for (size_t i = 0; i < rows && i < 8; i++) {
        const struct spex_row *row = spex_group_row(group, i);
        out_text(&p->out, i ? ", " : " ");
        for (size_t k = 0; k < keys; k++) {
            char text[64];
            spex_row_text(group, row, k, text, sizeof text);
            out_printf(&p->out, "%s%s", text, k + 1 < keys ? " " : "");
        }
        out_printf(&p->out, " %.1f%%", 100.0 * (double)row->stats.samples / (double)total);
    }
    if (rows > 8)
        out_printf(&p->out, ", %zu more", rows - 8);
    out_char(&p->out, '\n');
}

static int run_report(void *options, int argc, char **argv)
{
    const struct report_options *o = options;
    enum spex_key keys[SPEX_KEYS_MAX];
    static const enum spex_key by_cpu[] = {SPEX_KEY_CPU}, by_thread[] = {SPEX_KEY_COMM, SPEX_KEY_TID};
    size_t count;
    struct profile p;
    if (argc > 1)
        return cli_usage("too many operands");
    int status = profile_keys(o->profile.sort, keys, &count);
    if (!status)
        status = profile_open(&p, &o->profile, argv[0], NULL);
    if (status)
        return status;
    struct sinks sinks = {
        spex_group_new(p.analysis, keys, count, SPEX_GROUP_PERCENTILES),
        spex_group_new(p.analysis, by_cpu, 1, 0),
        spex_group_new(p.analysis, by_thread, 2, 0),
    };
    p.status = profile_run(&p, feed, &sinks);
    spex_group_sort(sinks.main);
    spex_group_sort(sinks.cpus);
    spex_group_sort(sinks.threads);
    if (!p.status && !profile_empty(&p, spex_group_total(sinks.main)->stats.samples, "")) {
        struct table_column *columns;
        struct table *table = columns_table(&p, sinks.main, keys, count, 0, &columns);
        if (!table) {
            p.status = CLI_USAGE;
        } else {
            struct table_options how = profile_table(&p);
            bool json = how.format == TABLE_AS_JSON;
            if (json)
                out_text(&p.out, "{\"schema\":\"spex.report.1\"");
            profile_header(&p, &p.out);
            print_split(&p, "CPUs", sinks.cpus, 1);
            print_split(&p, "threads", sinks.threads, 2);
            profile_no_estimate(&p, &p.out);
            if (spex_group_error(sinks.main) && !json)
                out_printf(&p.out, "# more keys than fit: a row may be short by up to %llu samples\n",
                           (unsigned long long)spex_group_error(sinks.main));
            if (json)
                out_printf(&p.out, ",\n \"count_error\":%llu,\n \"rows\":",
                           (unsigned long long)spex_group_error(sinks.main));
            table_print(table, &p.out, &how);
            if (json)
                out_text(&p.out, "}\n");
        }
        table_free(table);
        free(columns);
    }
    spex_group_free(sinks.main);
    spex_group_free(sinks.cpus);
    spex_group_free(sinks.threads);
    return profile_close(&p);
}

static const struct cli_option report_options[] = {
    PROFILE_INPUT_OPTIONS(struct report_options),
    {"sort", 's', CLI_STRING, PROFILE_AT(struct report_options, sort), "KEYS",
     "group by up to four of: symbol, dso, srcline, pc, comm, pid, tid, cpu, op, source, "
     "data-symbol, page, line, target", "symbol", NULL},
    PROFILE_TABLE_OPTIONS(struct report_options),
    PROFILE_FILTER_OPTIONS(struct report_options),
    PROFILE_SYMBOL_OPTIONS(struct report_options),
    {0},
};

extern const struct cli_command cli_report;
const struct cli_command cli_report = {
    .name = "report",
    .group = "Reading profiles",
    .synopsis = "[FILE]",
    .summary = "where the samples are: by function, line, thread, ...",
    .details = "One row per key with its share of the samples, the estimated number of "
               "operations, latencies in cycles (mean and percentiles), the ratio of cache and "
               "TLB misses and of mispredicted branches, and where data came from.",
    .options = report_options,
    .size = sizeof(struct report_options),
    .run = run_report,
};
