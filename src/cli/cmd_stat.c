/* spex stat: the SAMPLE_* events of a run, without keeping records. */
#include "cli.h"
#include "run.h"
#include "table.h"

#include <spex/spu.h>

#include <inttypes.h>
#include <stdio.h>

static const struct cli_option stat_options[] = {RUN_OPTIONS, {0}};

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
    fprintf(stderr, "%20s  %-22s%s%s\n", text_count(number, value), name, *text ? "  " : "", text);
}

/* The same with what it is of the operations. */
static void part_row(uint64_t value, const char *name, uint64_t operations)
{
    char text[48] = "";
    if (operations)
        snprintf(text, sizeof text, "%.2f%% of operations",
                 100 * (double)value / (double)operations);
    row(value, name, text);
}

/* The answer: what the program did, by the model, which sees every operation. */
static void answer_rows(const struct spex_engine_totals *t, bool none)
{
    const struct spex_uarch_counts *c = &t->counts;
    uint64_t operations = t->pmu[0]; /* SAMPLE_POP */
    char time[32], text[80];
    row(operations, "operations", none ? "no model: no misses, no mispredicts" : "");
    snprintf(text, sizeof text, "%s at 1 GHz, to the end of the last thread",
             text_time(time, (double)t->clock));
    row(t->clock, "cycles", text);
    if (none)
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
}

/* The unit's PMU events, those that this CPU has. */
static void event_rows(const struct run *run)
{
    char period[32];
    fprintf(stderr, "\n the SPU, one sample in %s operations:\n\n",
            text_count(period, run->options.period));
    for (size_t i = 0;; i++) {
        bool present;
        unsigned event = spex_engine_pmu_event(run->engine, i, &present);
        if (!event)
            break;
        if (present)
            row(run->totals.pmu[i], spex_pmu_event_name(event), meaning(event));
    }
    row(run->totals.interrupts, "interrupts", "the Profiling Buffer was full");
}

/* Like perf stat, the table goes to stderr: stdout is the program's. */
static int run_stat(void *options, int argc, char **argv)
{
    struct run_options *o = options;
    char prefix[4096];
    struct run run = {.options = {.keep = false, .prefix = prefix}};
    (void)argc;
    run_temporary(prefix, sizeof prefix);
    int status = run_guest(o, argv, &run);
    if (status)
        return status;
    cli_put("\n ", "'%s' on %s", argv[0], o->cpu);
    fputs(":\n\n", stderr);
    answer_rows(&run.totals, run.options.model.none);
    event_rows(&run);
    fputc('\n', stderr);
    run_notes(&run);
    spex_run_remove(run.directory);
    return run_end(&run);
}

const struct cli_command cli_stat = {
    .name = "stat",
    .group = "Profile without Arm hardware",
    .synopsis = "[--] PROGRAM [ARGUMENTS]",
    .summary = "count operations, misses, mispredicts and the SPU's events of a run",
    .details =
        "The same run as spex record, without records: what the program did by the model, which "
        "sees every operation, then the SAMPLE_* events that the CPU has. The table goes to "
        "standard error; the exit status is "
        "the program's.",
    .options = stat_options,
    .size = sizeof(struct run_options),
    .run = run_stat,
};
