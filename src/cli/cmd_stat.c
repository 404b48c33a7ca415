/*
 * spex stat: counts what a run did and its SAMPLE_* events, without records; or estimates it from a
 * profile.
 */
#include "native_stat.h"
#include "output.h"
#include "profile.h"
#include "run_file.h"
#include "stat_data.h"

#include <spex/spu.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stat_options {
    struct run_options run;
    struct native_choice native;
    struct profile_options profile; /* used with -i */
    int format;
    const char *separator;
};

static const struct cli_option stat_options[] = {
    RUN_OPTIONS,
    NATIVE_OPTIONS(struct stat_options, native),
    {"format", 0, CLI_CHOICE, offsetof(struct stat_options, format), "FORMAT", "text, json or csv",
     "text", stat_formats},
    {"field-separator", 'x', CLI_STRING, offsetof(struct stat_options, separator), "SEP",
     "print the fields of perf stat -x, separated by SEP", NULL, NULL},
    {"input", 'i', CLI_LIST, offsetof(struct stat_options, profile.inputs), "FILE",
     "read FILE instead of running a program; counts are estimated from its samples", NULL, NULL},
    {"time", 0, CLI_STRING, offsetof(struct stat_options, profile.filter.time), "RANGE",
     "with -i, only this time: START,STOP in seconds, 10%-20% of the profile, 10%/2", NULL, NULL},
    {0},
};

static const char *meaning(unsigned event)
{
    switch (event) {
    case SPEX_PMU_SAMPLE_POP:
        return "operations of the sample population";
    case SPEX_PMU_SAMPLE_FEED:
        return "sampled operations";
    case SPEX_PMU_SAMPLE_FILTRATE:
        return "of those not filtered: records";
    case SPEX_PMU_SAMPLE_COLLISION:
        return "not sampled: another sample was in flight";
    case SPEX_PMU_SAMPLE_FEED_DS:
        return "loads from a selected data source";
    case SPEX_PMU_SAMPLE_BUFFER_FULL:
        return "buffer full events";
    case SPEX_PMU_SAMPLE_FEED_BR:
        return "branches";
    case SPEX_PMU_SAMPLE_FEED_LD:
        return "loads";
    case SPEX_PMU_SAMPLE_FEED_ST:
        return "stores";
    case SPEX_PMU_SAMPLE_FEED_OP:
        return "match the type filter";
    case SPEX_PMU_SAMPLE_FEED_EVENT:
        return "match the event filters";
    case SPEX_PMU_SAMPLE_FEED_LAT:
        return "match the latency filter";
    case SPEX_PMU_SAMPLE_FEED_FP:
        return "floating-point operations";
    case SPEX_PMU_SAMPLE_FEED_SIMD:
        return "SIMD operations";
    }
    return "";
}

static void row(uint64_t value, const char *name, const char *text)
{
    char number[32];
    if (stat_data_row(value, name, text))
        return;
    fprintf(stderr, *text ? "%20s  %-22s  %s\n" : "%20s  %s%s\n", text_count(number, value), name,
            text);
}

/* The same, with its share of the operations. */
static void part_row(uint64_t value, const char *name, uint64_t operations)
{
    char text[48] = "";
    if (operations)
        snprintf(text, sizeof text, "%.2f%% of operations",
                 100 * (double)value / (double)operations);
    row(value, name, text);
}

/* Rows that answer what the program did, according to the model, which sees every operation. */
static void answer_rows(const struct engine_totals *t, const struct uarch_config *model)
{
    const struct uarch_counts *c = &t->counts;
    uint64_t operations = t->pmu[0]; /* SAMPLE_POP */
    char time[32], text[80];
    row(operations, "operations", model->none ? "no model: no misses, no mispredicts" : "");
    snprintf(text, sizeof text, "%s at 1 GHz, to the end of the last thread%s",
             text_time(time, (double)t->clock), model->sampled || model->none ? ", estimated" : "");
    stat_data_estimates(model->sampled || model->none);
    row(t->clock, "cycles", text);
    if (model->none)
        return;
    part_row(c->l1_miss, "l1d-misses", operations);
    part_row(c->l2_miss, "l2-misses", operations);
    part_row(c->llc_miss, "llc-misses", operations);
    part_row(c->walk, "tlb-walks", operations);
    part_row(c->mispredict, "mispredicts", operations);
    if (c->kernel)
        row(c->kernel, "kernel-cycles", "of system calls, not sampled");
    if (c->idle)
        row(c->idle, "idle-cycles", "waiting for other threads");
    if (c->snoop)
        row(c->snoop, "snoops", "lines that came from another core");
    if (c->prefetch) {
        row(c->prefetch, "prefetches", "lines fetched ahead");
        row(c->prefetch_used, "prefetches-used", "");
        row(c->prefetch_late, "prefetches-late", "of those: used before they were there");
    }
    if (c->code_miss)
        row(c->code_miss, "l1i-misses", "");
    if (c->btb_miss)
        row(c->btb_miss, "btb-misses", "taken branches that the front end did not know");
    if (model->sampled && !stat_data())
        fputs("\n operations and what the SPU counts are exact; with one thread the cycles are "
              "estimated\n and the rest is counted at estimated times: use --model full for exact "
              "counts\n",
              stderr);
}

/* The unit's PMU events, if this CPU has them. */
static void event_rows(const struct run *run)
{
    char period[32];
    stat_data_estimates(false);
    if (!stat_data())
        fprintf(stderr, "\n the SPU, one sample in %s operations:\n\n",
                text_count(period, run->options.period));
    for (size_t i = 0;; i++) {
        bool present;
        unsigned event = engine_pmu_event(run->engine, i, &present);
        if (!event)
            break;
        if (present)
            row(run->totals.pmu[i], spex_pmu_event_name(event), meaning(event));
    }
    row(run->totals.interrupts, "interrupts", "the Profiling Buffer was full");
}

/* ---- from a profile ---- */

/* A number of samples scaled to operations, with half of its 95% interval. */
static void estimate(struct profile *p, uint64_t samples, uint64_t all, const char *name)
{
    uint64_t period = spex_analysis_sampling(p->analysis)->period;
    struct spex_interval i = spex_share_interval(samples, all);
    double half = (i.high - i.low) / 2 * (double)all;
    char number[32], text[80] = "";
    if (stat_data_estimate(samples * period, name, half * (double)period))
        return;
    if (samples && samples < all)
        snprintf(text, sizeof text, "  +- %.1f%%, %.2f%% of operations",
                 100 * half / (double)samples, 100 * ratio_of(samples, all));
    out_printf(&p->out, "%20s  %s%*s%s\n", text_count(number, samples * period), name,
               *text ? 22 - (int)strlen(name) : 0, "", text);
}

static void profile_rows(struct profile *p, const struct spex_row *total)
{
    const struct spex_stats s = stats_of(total);
    char time[32];
    double ns = spex_row_time(total);
    const char *none = spex_analysis_no_estimate(p->analysis);
    const struct {
        const char *name;
        uint64_t samples;
    } rows[] = {
        {"loads", s.reads},        {"stores", s.writes},     {"branches", s.branches},
        {"l1d-misses", s.l1_miss}, {"l2-misses", s.l2_miss}, {"llc-misses", s.llc_miss},
        {"tlb-walks", s.tlb_walk}, {"remote", s.remote},     {"mispredicts", s.mispredicted}};
    if (!stat_data())
        out_char(&p->out, '\n');
    if (!none) {
        estimate(p, s.samples, s.samples, "operations");
    } else if (!stat_data_row(s.samples, "samples", none)) {
        profile_no_estimate(p, &p->out);
        out_printf(&p->out, "%20s  samples\n", text_count(time, s.samples));
    }
    if (!stat_data_row((uint64_t)(ns > 0 ? ns : 0), "time", "ns on all CPUs"))
        out_printf(&p->out, "%20s  time%18s  %s\n", ns > 0 ? text_time(time, ns) : "-", "",
                   ns > 0 ? "on all CPUs" : "not known: the records have no timestamps");
    for (size_t i = 0; !none && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].samples || i < 4)
            estimate(p, rows[i].samples, s.samples, rows[i].name);
}

static int stat_profile(const struct profile_options *o, uint64_t *samples)
{
    static const enum spex_key keys[] = {SPEX_KEY_OP};
    struct profile p;
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want = SPEX_WANT_BASE | SPEX_WANT_SPENT};
    int status = profile_open_all(&p, o, NULL, &more);
    if (status)
        return status;
    struct spex_group *group = profile_group(&p, keys, 1, 0);
    p.status = profile_run(&p, spex_sink_group(group));
    spex_group_sort(group, SPEX_BY_SAMPLES);
    if (!p.status && !profile_empty(&p, stats_of(spex_group_total(group)).samples, "")) {
        if (!stat_data())
            profile_header(&p, &p.out);
        profile_rows(&p, spex_group_total(group));
    }
    if (samples)
        *samples = stats_of(spex_group_total(group)).samples;
    spex_group_free(group);
    return profile_close(&p);
}

/* With -i. */
static int stat_input(const struct stat_options *o)
{
    stat_data_begin((enum stat_format)o->format, o->separator, STDOUT_FILENO,
                    o->profile.inputs.items[0], NULL, NULL);
    int status = stat_profile(&o->profile, NULL), end = stat_data_end();
    return status ? status : end;
}

/* ---- from a run on a machine with SPE ---- */

/* The records are kept until the estimates are made. */
static int stat_native(const struct stat_options *given, const struct native_machine *machine,
                       char **argv)
{
    char path[OUTPUT_PATH], prefix[OUTPUT_PATH - 16];
    struct native_totals totals = {0};
    uint64_t samples = 0;
    run_temporary(prefix, sizeof prefix);
    snprintf(path, sizeof path, "%s-stat-XXXXXX", prefix);
    int fd = mkstemp(path);
    if (fd < 0) {
        cli_error("%s: %s", path, strerror(errno));
        return CLI_DATA;
    }
    close(fd);
    struct record_options o = {
        .run = given->run, .native = given->native, .output = path, .quiet = true};
    int status = record_native(&o, machine, argv, &totals);
    if (!status) {
        stat_data_begin((enum stat_format)given->format, given->separator, STDERR_FILENO, argv[0],
                        machine->pmus[0].name, NULL);
        const char *inputs[] = {path};
        struct profile_options profile = {.inputs = {.items = inputs, .count = 1}};
        dup2(STDERR_FILENO, STDOUT_FILENO); /* as in perf stat, stdout belongs to the program */
        stat_profile(&profile, &samples);
        native_stat_print(&totals, samples, given->run.period, machine->pmus[0].min_interval);
        status = stat_data_end();
    }
    unlink(path);
    return status ? status : record_end(&totals, argv[0]);
}

/* ---- from a run ---- */

/* Like perf stat, prints the table on stderr: stdout belongs to the program. */
static int run_stat(void *options, int argc, char **argv)
{
    const struct stat_options *given = options;
    const struct run_options *o = &given->run;
    char prefix[4096], model[RUN_FILE_TEXT];
    struct run run = {.options = {.keep = false, .prefix = prefix}};
    if (given->profile.inputs.count)
        return argc ? cli_usage("-i reads a profile: leave the program out") : stat_input(given);
    if (given->profile.filter.time)
        return cli_usage("--time is for a profile: add -i FILE");
    struct native_machine machine;
    bool native;
    int status = record_choose(&given->native, &machine, &native);
    if (status || native)
        return status ? status : stat_native(given, &machine, argv);
    run_temporary(prefix, sizeof prefix);
    status = run_guest(o, argv, &run);
    if (status)
        return status;
    run_file_model(run.options.cpu, uarch_mode(&run.options.model), model);
    stat_data_begin((enum stat_format)given->format, given->separator, STDERR_FILENO, argv[0],
                    o->cpu, model + strlen(RUN_FILE_MODEL));
    if (!stat_data()) {
        cli_put("\n ", "'%s' on %s", argv[0], model + strlen(RUN_FILE_MODEL));
        fputs(":\n\n", stderr);
    }
    answer_rows(&run.totals, &run.options.model);
    event_rows(&run);
    if (!stat_data())
        fputc('\n', stderr);
    status = stat_data_end();
    run_notes(&run);
    left_remove(run.directory);
    int guest = run_end(&run);
    return status ? status : guest;
}

const struct cli_command cli_stat = {
    .name = "stat",
    .records = true,
    .group = CLI_RUNS,
    .synopsis = "[--] PROGRAM [ARGUMENTS]",
    .summary = "count operations, misses, mispredicts and the SPU's events of a run",
    .details =
        "The same run as spex record, without records: what the program did by the model, which "
        "sees every operation, then the SAMPLE_* events that the CPU has. The table goes to "
        "standard error; the exit status is "
        "the program's. With -i nothing is run: the same numbers, estimated from the samples of a "
        "profile, on standard output. On a machine with SPE: those estimates of the run, the "
        "SAMPLE_* events where the CPU counts them, collisions, overhead, and the period that "
        "would "
        "suit.",
    .options = stat_options,
    .size = sizeof(struct stat_options),
    .run = run_stat,
};
