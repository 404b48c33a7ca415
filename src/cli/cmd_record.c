/* spex record: an AArch64 program under QEMU with the SPU attached, to perf.data. */
#include "cli.h"
#include "run.h"
#include "table.h"

#include <spex/perfdata.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct record_options {
    struct run_options run;
    const char *output;
    bool truth, quiet;
};

static const struct cli_option record_options[] = {
    RUN_OPTIONS,
    {"output", 'o', CLI_STRING, offsetof(struct record_options, output), "FILE",
     "file to write; an older one is kept as FILE.old", "perf.data", NULL},
    {"truth", 0, CLI_FLAG, offsetof(struct record_options, truth), NULL,
     "also count every operation, miss and mispredict by instruction, into FILE.truth", NULL, NULL},
    {"quiet", 'q', CLI_FLAG, offsetof(struct record_options, quiet), NULL, "say nothing at the end",
     NULL, NULL},
    {0},
};

/* ---- perf.data ---- */

enum { GENERIC_MIDR = 0x000f0000 }; /* of no real CPU; as of the presets min and max */

static void write_map(struct spex_perf_writer *writer, const struct spex_engine_event *e)
{
    struct spex_perf_map map = {.start = e->address,
                                .end = e->address + e->length,
                                .pgoff = e->offset,
                                .time = e->time,
                                .pid = e->pid,
                                .tid = e->tid,
                                .prot = e->prot,
                                .flags = e->flags,
                                .data = !(e->prot & 4),
                                .filename = *e->text ? e->text : "//anon"};
    if (e->build_id_size && e->build_id_size <= sizeof map.build_id) {
        memcpy(map.build_id, e->build_id, e->build_id_size);
        map.build_id_size = (uint8_t)e->build_id_size;
    }
    spex_perf_writer_map(writer, &map);
}

static void write_event(struct spex_perf_writer *writer, const struct spex_engine_event *e,
                        uint8_t *started)
{
    switch (e->kind) {
    case SPEX_ENGINE_FORK:
        if (e->ppid != 1) /* the first process is there when recording starts */
            spex_perf_writer_fork(writer, e->pid, e->tid, e->ppid, e->ptid, e->time);
        break;
    case SPEX_ENGINE_EXIT:
        spex_perf_writer_exit(writer, e->pid, e->tid, e->ppid, e->ptid, e->time);
        break;
    case SPEX_ENGINE_COMM:
        spex_perf_writer_comm(writer, e->pid, e->tid, e->text, e->first, e->time);
        break;
    case SPEX_ENGINE_MAP:
        write_map(writer, e);
        break;
    case SPEX_ENGINE_AUX:
        if (!started[e->cpu]) {
            started[e->cpu] = 1;
            spex_perf_writer_itrace_start(writer, e->cpu, e->pid, e->tid, e->time);
        }
        spex_perf_writer_aux(writer, e->cpu, e->pid, e->tid, e->data, e->size, e->aux_flags,
                             e->time);
        break;
    }
}

static enum spex_status write_perf_data(const char *path, struct run *run, char **argv,
                                        uint64_t *size, struct spex_error *error)
{
    struct spex_engine_options *o = &run->options;
    struct spex_engine_event event;
    struct spex_perf_writer *writer;
    struct spex_perf_writer_options options = {
        .size = sizeof options,
        .cpus = run->totals.cpus ? run->totals.cpus : 1,
        /* Readers take a load without Data Source packet on a known CPU for a level 1 hit. */
        .midr = o->model.none ? GENERIC_MIDR : o->features.midr,
        .min_interval = spex_engine_min_interval(run->engine),
        .event_filter = spex_engine_event_filter(run->engine),
        .period = o->period,
        .exclude_kernel = true, /* user mode: perf need not look for a kernel's symbols */
        .time = {.mult = 1, .cap_zero = true}, /* the counter runs at 1 GHz from 0 */
        .version = SPEX_VERSION,
        .cpudesc = "spex model under QEMU",
        .cmdline = (const char *const *)argv,
    };
    memcpy(options.config, o->config, sizeof options.config);
    uint8_t *started = calloc(options.cpus, 1);
    if (!started) {
        snprintf(error->text, sizeof error->text, "out of memory");
        return SPEX_NO_MEMORY;
    }
    enum spex_status status = spex_perf_writer_open(path, &options, &writer, error);
    if (!status) {
        while (spex_engine_next(run->engine, &event, error) == SPEX_OK)
            write_event(writer, &event, started);
        *size = spex_perf_writer_size(writer);
        status = spex_perf_writer_finish(writer, error);
    }
    free(started);
    return status;
}

/* ---- truth: docs/record.md has the columns ---- */

static bool write_truth(const char *path, struct run *run)
{
    const struct spex_engine_truth *rows;
    size_t count;
    struct spex_error error;
    FILE *file = fopen(path, "we");
    if (!file || spex_engine_truth(run->engine, &rows, &count, &error)) {
        cli_error("%s: %s", path, file ? error.text : strerror(errno));
        if (file)
            fclose(file);
        return false;
    }
    fprintf(file, "# spex truth 1\n# pid\tpc\tcount\tl1_miss\tllc_miss\twalk\tmispredict\ttaken\n");
    for (size_t i = 0; i < count; i++) {
        const struct spex_engine_truth *r = &rows[i];
        fprintf(file,
                "%d\t0x%" PRIx64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                "\t%" PRIu64 "\n",
                r->pid, r->pc, r->count, r->l1_miss, r->llc_miss, r->walk, r->mispredict, r->taken);
    }
    bool failed = ferror(file);
    if (fclose(file) || failed) {
        cli_error("%s: %s", path, strerror(errno));
        unlink(path);
        return false;
    }
    return true;
}

/* ---- the command ---- */

/* Written beside the output and renamed, so that what has its name is whole. */
static bool write_output(const char *output, struct run *run, char **argv, uint64_t *size)
{
    char temporary[4096], old[4096];
    struct spex_error error = {0};
    struct stat st;
    if (!strcmp(output, "-")) {
        if (!write_perf_data(output, run, argv, size, &error))
            return true;
        cli_error("%s", error.text);
        return false;
    }
    snprintf(temporary, sizeof temporary, "%s.new-%d", output, (int)getpid());
    if (write_perf_data(temporary, run, argv, size, &error)) {
        cli_error("%s", error.text);
        unlink(temporary);
        return false;
    }
    snprintf(old, sizeof old, "%s.old", output);
    if (!stat(output, &st) && S_ISREG(st.st_mode) && st.st_size)
        rename(output, old);
    if (rename(temporary, output)) {
        cli_error("%s: %s", output, strerror(errno));
        unlink(temporary);
        return false;
    }
    return true;
}

static void say(const struct record_options *o, const struct run *run, uint64_t size)
{
    char samples[32], collided[32], lost[32];
    const uint64_t *pmu = run->totals.pmu;
    double mega = (double)size / 1e6;
    cli_note("%s sample%s, %s lost, %s collided; %s model; wrote %s (%.1f %s)",
             text_count(samples, pmu[2]), pmu[2] == 1 ? "" : "s",
             text_count(lost, run->totals.lost), text_count(collided, pmu[3]),
             run->options.model.none ? "no" : o->run.cpu, o->output,
             mega >= 0.1 ? mega : mega * 1000, mega >= 0.1 ? "MB" : "kB");
}

static int run_record(void *options, int argc, char **argv)
{
    struct record_options *o = options;
    char prefix[4096];
    (void)argc;
    if (strcmp(o->output, "-"))
        snprintf(prefix, sizeof prefix, "%s", o->output);
    else
        run_temporary(prefix, sizeof prefix);
    struct run run = {.options = {.keep = true, .truth = o->truth, .prefix = prefix}};
    int status = run_guest(&o->run, argv, &run);
    if (status)
        return status;
    uint64_t size = 0;
    bool ok = write_output(o->output, &run, argv, &size);
    if (ok && o->truth) {
        char path[4096];
        snprintf(path, sizeof path, "%s.truth", o->output);
        ok = write_truth(path, &run);
    }
    if (run.totals.failed) {
        cli_error("records were lost while the program ran: %s", strerror(run.totals.failed));
        ok = false;
    }
    if (ok && !o->quiet) {
        run_notes(&run);
        say(o, &run, size);
    }
    int guest_status = run_end(&run);
    return ok ? guest_status : CLI_DATA;
}

const struct cli_command cli_record = {
    .name = "record",
    .group = "Profile without Arm hardware",
    .synopsis = "[--] PROGRAM [ARGUMENTS]",
    .summary = "profile an AArch64 program under QEMU with the SPU attached",
    .details =
        "Runs the program and writes a perf.data file that spex and perf read. The exit status "
        "is "
        "the program's. EVENT takes the terms of Linux's driver: ts_enable, jitter, "
        "load_filter, "
        "store_filter, branch_filter, event_filter=MASK, inv_event_filter=MASK, min_latency=N, "
        "discard and others; pa_enable is refused, because there are no physical addresses. "
        "The "
        "same program, seed and environment give the same bytes.",
    .options = record_options,
    .size = sizeof(struct record_options),
    .run = run_record,
};
