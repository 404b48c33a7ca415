/* spex report: samples by function, or by any other key. */
#include "advice.h"
#include "elapsed.h"
#include "fleet_report.h"
#include "slices.h"
#include "calls.h"

#include <spex/stacks.h>

#include <stdio.h>
#include <stdlib.h>

struct report_options {
    struct profile_options profile;
    uint64_t slices;
    bool calls;
    struct fleet_options fleet;
    const char *host, *last;
};

enum { SPLIT = 8 };

/* Prints "# threads: walk 12 61.2%, ..." if there are several. */
static void print_split(struct profile *p)
{
    uint64_t kept = spex_analysis_totals(p->analysis)->kept;
    struct spex_cpu_total cpu;
    struct spex_thread_total thread;
    char text[800];
    int n = 0;
    size_t i;
    if (spex_analysis_cpu(p->analysis, 1, &cpu) && cpu.cpu >= 0) {
        for (i = 0; i < SPLIT && spex_analysis_cpu(p->analysis, i, &cpu); i++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s %d %.1f%%", i ? "," : "", cpu.cpu,
                          100.0 * (double)cpu.samples / (double)kept);
        profile_comment(p, &p->out, "CPUs:%s%s", text,
                        spex_analysis_cpu(p->analysis, i, &cpu) ? ", ..." : "");
    }
    if (spex_analysis_thread(p->analysis, 1, &thread)) {
        for (i = n = 0; i < SPLIT && spex_analysis_thread(p->analysis, i, &thread); i++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s %.40s %d %.1f%%", i ? "," : "",
                          thread.comm, thread.tid, 100.0 * (double)thread.samples / (double)kept);
        profile_comment(p, &p->out, "threads:%s%s", text,
                        spex_analysis_thread(p->analysis, i, &thread) ? ", ..." : "");
    }
}

static int report_calls(const struct report_options *o, char **argv)
{
    struct profile p;
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want =
                                             SPEX_WANT_SYMBOL | SPEX_WANT_SPENT | SPEX_WANT_STACK,
                                         .threads = cli_threads(o->profile.threads)};
    int status = profile_open_all(&p, &o->profile, argv, &more);
    if (status)
        return status;
    if (spex_analysis_stacks(p.analysis) == SPEX_STACKS_NONE) {
        cli_error("%s has no call stacks; spex record -g keeps them, perf record -e arm_spe// -e "
                  "cycles -g those of another event",
                  p.name);
        p.status = CLI_DATA;
        return profile_close(&p);
    }
    struct calls *calls = calls_new(&p);
    p.status = profile_run(&p, (struct spex_sink){calls_sink, calls});
    if (!p.status && !profile_empty(&p, spex_analysis_totals(p.analysis)->kept, ""))
        p.status = calls_print(calls, &p);
    calls_free(calls);
    return profile_close(&p);
}

static int run_report(void *options, int argc, char **argv)
{
    const struct report_options *o = options;
    enum spex_key keys[SPEX_KEYS_MAX];
    size_t count;
    struct profile p;
    if (o->fleet.url && (argc || o->profile.inputs.count || o->slices))
        return cli_usage("--url asks a server: leave files and --slices out");
    if (o->fleet.url)
        return fleet_report(&o->profile, &o->fleet, o->host, o->last);
    if (o->host || o->last)
        return cli_usage("--%s needs --url", o->host ? "host" : "last");
    if (o->slices > SLICES_MOST)
        return cli_usage("--slices: at most %d", SLICES_MOST);
    if (o->calls)
        return report_calls(o, argv);
    int status = profile_keys(o->profile.sort, keys, &count);
    struct spex_analysis_options more = {
        .size = sizeof more, .want = SPEX_WANT_SPENT, .threads = cli_threads(o->profile.threads)};
    for (size_t i = 0; !status && i < count; i++)
        more.want |= spex_key_wants(keys[i]);
    bool single = false; /* instructions have rows of their own */
    for (size_t i = 0; !status && i < count; i++)
        single |= keys[i] == SPEX_KEY_PC;
    if (o->slices)
        more.want |= SPEX_WANT_TIME;
    if (!status)
        status = profile_open_all(&p, &o->profile, argv, &more);
    if (status)
        return status;
    struct spex_group *group = profile_group(&p, keys, count, columns_percentiles(&o->profile));
    /* findings name code: leave them out if nothing else needs symbols */
    bool advise = more.want & SPEX_WANT_SYMBOL && !o->slices && o->profile.format != TABLE_AS_CSV;
    struct advice advice = advice_new(&p, advise, spex_sink_group(group));
    p.status = advice_run(&advice, &p);
    spex_group_sort(group, SPEX_BY_TIME);
    struct spex_elapsed *elapsed = p.status ? NULL : elapsed_of(&p);
    bool any = !p.status && !profile_empty(&p, stats_of(spex_group_total(group)).samples, "");
    if (any && o->slices) {
        p.status = slices_print(&p, group, keys, count, (unsigned)o->slices);
    } else if (any) {
        struct table_column *columns;
        struct table *table = columns_table(&p, group, keys, count, 0, NULL, &columns);
        if (!table) {
            p.status = CLI_USAGE;
        } else {
            struct table_options how = profile_table(&p);
            profile_header(&p, &p.out);
            print_split(&p);
            p.elapsed = elapsed != NULL;
            profile_time(&p, &p.out, group);
            elapsed_header(elapsed, &p);
            profile_no_estimate(&p, &p.out);
            if (single)
                profile_bias_print(&p, &p.out, 0);
            if (spex_group_error(group))
                profile_comment(&p, &p.out,
                                "more keys than fit: a row may be short by up to %llu "
                                "samples",
                                (unsigned long long)spex_group_error(group));
            table_print(table, &p.out, &how);
            elapsed_print(elapsed, &p);
            advice_print(&advice, &p);
            if (how.format == TABLE_AS_JSON)
                columns_json(&p, table, group, &advice, elapsed);
        }
        table_free(table);
        free(columns);
    }
    spex_elapsed_free(elapsed);
    advice_free(&advice);
    spex_group_free(group);
    return profile_close(&p);
}

static const struct cli_option report_options[] = {
    PROFILE_INPUT_OPTIONS(struct report_options),
    CLI_THREADS(struct report_options, profile.threads),
    {"sort", 's', CLI_STRING, PROFILE_AT(struct report_options, sort), "KEYS",
     "group by up to five of: symbol, dso, srcline, pc, comm, tid, cpu, op, source, ... (spex "
     "help keys)",
     "symbol", NULL},
    {"call-graph", 'g', CLI_FLAG, offsetof(struct report_options, calls), NULL,
     "callers and callees of each function, from the call stacks of spex record -g", NULL, NULL},
    {"slices", 0, CLI_NUMBER, offsetof(struct report_options, slices), "N",
     "each row's share in each of N slices of the run", NULL, NULL},
    PROFILE_TABLE_OPTIONS(struct report_options),
    FLEET_OPTIONS(struct report_options),
    {"host", 0, CLI_STRING, offsetof(struct report_options, host), "LIST",
     "with --url: only these hosts (* and ? match)", NULL, NULL},
    {"last", 0, CLI_STRING, offsetof(struct report_options, last), "TIME",
     "with --url: only the last 30m, 1h, 7d, ...", NULL, NULL},
#define OPTIONS struct report_options
#include "filter_options.def"
    PROFILE_REPLAY(struct report_options),
    PROFILE_SYMBOL_OPTIONS(struct report_options),
    {0},
};

const struct cli_command cli_report = {
    .name = "report",
    .group = CLI_FIRST,
    .pages = true,
    .synopsis = "[FILE... | --url URL]",
    .summary = "where the time goes: by function, line, thread, ...",
    .details = "One row per key with its share of the time and the 95% interval of that, the "
               "samples and the operations they stand for, how long operations waited and "
               "executed in cycles, the ratio of cache and TLB misses and of mispredicted "
               "branches, and where data came from. Time comes from the records' timestamps; "
               "where there are none, rows are by samples. With --url the same for a fleet, from "
               "the roll-ups of its server (docs/fleet.md).",
    .options = report_options,
    .size = sizeof(struct report_options),
    .run = run_report,
};
