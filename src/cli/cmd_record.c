/* spex record: runs an AArch64 program under QEMU with the SPU attached, and writes perf.data. */
#include "cli.h"
#include "locate.h"
#include "run_file.h"
#include "record.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const struct cli_option record_options[] = {
    RUN_OPTIONS,
    NATIVE_OPTIONS(struct record_options, native),
    {"snapshot", 'S', CLI_FLAG, offsetof(struct record_options, native.snapshot), NULL,
     "native: keep only the latest records of each CPU, and write them on SIGUSR2", NULL, NULL},
    {"output", 'o', CLI_STRING, offsetof(struct record_options, output), "FILE",
     "file to write; an older one is kept as FILE.old", "perf.data", NULL},
    {"truth", 0, CLI_FLAG, offsetof(struct record_options, truth), NULL,
     "also count every operation, miss and mispredict per instruction, into FILE.truth", NULL,
     NULL},
    {"stacks", 'g', CLI_FLAG, offsetof(struct record_options, stacks), NULL,
     "also record a call stack with each sample", NULL, NULL},
    {"allocs", 0, CLI_FLAG, offsetof(struct record_options, allocs), NULL,
     "also record where heap memory was allocated, for mem --sort alloc and c2c; with -g, "
     "including callers",
     NULL, NULL},
    {"delay", 'D', CLI_STRING, offsetof(struct record_options, delay), "MS",
     "milliseconds to wait before sampling (modelled time under QEMU); -1: until --control or "
     "--start-at",
     NULL, NULL},
    {"control", 0, CLI_STRING, offsetof(struct record_options, control), "fifo:CTL[,ACK]",
     "read enable, disable, ping, stop from a FIFO, answer ack on another; fd:N[,N] as well", NULL,
     NULL},
    {"start-at", 0, CLI_STRING, offsetof(struct record_options, start_at), "FUNCTION",
     "start sampling at each entry of this function", NULL, NULL},
    {"stop-at", 0, CLI_STRING, offsetof(struct record_options, stop_at), "FUNCTION",
     "stop sampling at each entry of this function", NULL, NULL},
    {"max-size", 0, CLI_NUMBER, offsetof(struct record_options, max_size), "SIZE",
     "stop sampling after SIZE bytes of records", NULL, NULL},
    {"switch-output", 0, CLI_STRING, offsetof(struct record_options, parts), "SIZE|TIME",
     "split into FILE.00001, FILE.00002, ... of this size (10M) or duration (5s; modelled time "
     "under QEMU)",
     NULL, NULL},
    {"setup-qemu", 0, CLI_FLAG, offsetof(struct record_options, setup), NULL,
     "build a newer QEMU with plugins from Debian's source package, for the user, and exit", NULL,
     NULL},
    {"suite", 0, CLI_STRING, offsetof(struct record_options, suite), "NAME",
     "with --setup-qemu: the Debian suite of the source (default trixie: QEMU 10.0)", NULL, NULL},
    {"quiet", 'q', CLI_FLAG, offsetof(struct record_options, quiet), NULL, "omit the closing line",
     NULL, NULL},
    {0},
};

static void say(const struct record_options *o, const struct run *run,
                const struct run_file *result)
{
    char name[OUTPUT_PATH + 64];
    uint64_t size = result->size;
    if (result->parts)
        snprintf(name, sizeof name, "%.4000s.00001 to .%05u", o->output, result->parts);
    else
        snprintf(name, sizeof name, "%.4000s", o->output);
    char samples[32], collided[32], lost[32], model[RUN_FILE_TEXT];
    const uint64_t *pmu = run->totals.pmu;
    double mega = (double)size / 1e6;
    run_file_model(run->options.cpu, uarch_mode(&run->options.model), model);
    cli_note("%s sample%s, %s lost, %s collided; %s; wrote %s (%.1f %s)",
             text_count(samples, pmu[2]), pmu[2] == 1 ? "" : "s",
             text_count(lost, run->totals.lost), text_count(collided, pmu[3]),
             model + strlen(RUN_FILE_MODEL), name, mega >= 0.1 ? mega : mega * 1000,
             mega >= 0.1 ? "MB" : "kB");
}

/* Sets when samples are taken. */
static int set_regions(const struct record_options *o, struct run *run)
{
    struct engine_options *e = &run->options;
    char *end = NULL;
    double ms = o->delay ? strtod(o->delay, &end) : 0;
    if (o->delay && (*end || end == o->delay || (ms < 0 && ms != -1) || ms > 1e12))
        return cli_usage("-D: '%s' is not a number of milliseconds, or -1", o->delay);
    if (ms == -1 && !o->control && !o->start_at)
        return cli_usage("-D -1: nothing would start the samples; --control or --start-at does");
    e->start_at = o->start_at;
    e->stop_at = o->stop_at;
    e->disabled = ms == -1 || o->start_at;
    e->delay = ms > 0 ? (uint64_t)(ms * 1e6) : 0;
    e->max_size = o->max_size;
    e->regions = o->delay || o->control || o->start_at || o->stop_at || o->max_size;
    return o->control ? control_open(&run->control, o->control) : CLI_OK;
}

static int set_parts(const struct record_options *o, const struct output *output,
                     struct parts_limit *limit)
{
    if (!parts_parse(o->parts, limit))
        return cli_usage("--switch-output: '%s' is neither a size (10M) nor a time (5ms)",
                         o->parts);
    if (output->stream >= 0 || o->truth || o->stacks || o->allocs)
        return cli_usage("--switch-output writes several files: -o must name one, and --truth, "
                         "--stacks and --allocs do not go with it");
    return CLI_OK;
}

int record_program(struct record_options *o, char **argv)
{
    struct native_machine machine;
    struct output output;
    struct parts_limit limit = {0};
    char prefix[OUTPUT_PATH];
    bool native;
    if (o->setup) {
        run_own_qemu(prefix, sizeof prefix);
        return cli_set_up("qemu-user-setup", prefix, o->suite);
    }
    if (o->suite)
        return cli_usage("--suite goes with --setup-qemu");
    int status = record_choose(&o->native, &machine, &native);
    if (status || native)
        return status ? status : record_native(o, &machine, argv, NULL);
    status = output_open(&output, o->output,
                         OUTPUT_KEEPS | OUTPUT_PRIVATE | (o->truth ? OUTPUT_TRUTH : 0));
    if (!status && o->parts)
        status = set_parts(o, &output, &limit);
    if (status) {
        output_close(&output);
        return status;
    }
    if (output.stream < 0)
        snprintf(prefix, sizeof prefix, "%s", output.path);
    else
        run_temporary(prefix, sizeof prefix);
    struct run run = {.quiet = o->quiet,
                      .options = {.keep = true,
                                  .truth = o->truth,
                                  .stacks = o->stacks,
                                  .allocs = o->allocs,
                                  .aside = output.stream == STDOUT_FILENO,
                                  .prefix = prefix}};
    if ((status = set_regions(o, &run))) {
        output_close(&output);
        return status;
    }
    status = run_guest(&o->run, argv, &run);
    if (!status) {
        struct run_file result;
        status = run_file_finish(&output, &limit, run.directory, run.left, &result);
        if (!status && !o->quiet) {
            run_notes(&run);
            say(o, &run, &result);
        }
        int guest_status = run_end(&run);
        status = status ? status : guest_status;
    }
    control_close(run.control);
    output_close(&output);
    return status;
}

static int run_record(void *options, int argc, char **argv)
{
    (void)argc;
    return record_program(options, argv);
}

const struct cli_command cli_record = {
    .name = "record",
    .records = true,
    .group = CLI_FIRST,
    .synopsis = "[--] PROGRAM [ARGUMENTS]",
    .summary = "profile a program: this machine's SPE, or the model under QEMU",
    .details =
        "Runs the program and writes a perf.data file that spex and perf read. Where Linux has an "
        "arm_spe PMU it records with that (docs/native.md); elsewhere an AArch64 program runs "
        "under QEMU with the SPU attached. The exit status is "
        "the program's. EVENT takes the terms of Linux's driver: ts_enable, jitter, "
        "load_filter, "
        "store_filter, branch_filter, event_filter=MASK, inv_event_filter=MASK, min_latency=N, "
        "discard and others; under QEMU pa_enable is refused, because there are no physical "
        "addresses. Under QEMU the same program, seed and environment give the same bytes. "
        "Programs that PROGRAM starts are profiled, too; PROGRAM may also be a shell script or a "
        "program of this machine, such as make, which runs natively.",
    .options = record_options,
    .size = sizeof(struct record_options),
    .run = run_record,
};
