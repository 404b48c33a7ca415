#include "run_file.h"

#include "table.h"

#include "base/file.h"
#include "base/out.h"

#include <spex/perfdata.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- perf.data ---- */

void run_file_model(const char *cpu, const char *model, char text[RUN_FILE_TEXT])
{
    snprintf(text, RUN_FILE_TEXT, RUN_FILE_MODEL "%s, %s, spex " SPEX_VERSION, cpu, model);
}

static struct spex_perf_writer_options writer_options(const struct left_about *about,
                                                      const char *model)
{
    struct spex_perf_writer_options options = {
        .size = sizeof options,
        .cpus = about->cpus,
        .midr = about->midr,
        .min_interval = about->min_interval,
        .event_filter = about->event_filter,
        .period = about->period,
        .exclude_kernel = true, /* user mode: perf need not look for kernel symbols */
        .time = {.mult = 1, .cap_zero = true}, /* the counter runs at 1 GHz from 0 */
        /*
         * The names are not the host's. Without a release, perf uses that of the machine it runs
         * on.
         */
        .hostname = "spex",
        .osrelease = "0.0.0-qemu",
        .version = SPEX_VERSION,
        .cpudesc = model,
        .cmdline = about->argv,
        .kept_start = about->start,
        .kept_end = about->end,
        .stacks = about->stacks,
        .allocs = about->allocs,
        .elapsed = about->elapsed,
        .node_cpus = about->socket_cpus,
    };
    memcpy(options.config, about->config, sizeof options.config);
    return options;
}

bool run_file_begin(const struct engine *engine)
{
    char path[OUTPUT_PATH + 16];
    struct spex_error error;
    struct spex_perf_writer *writer;
    struct left_about about;
    char model[RUN_FILE_TEXT];
    engine_about(engine, &about);
    run_file_model(about.cpu, about.model, model);
    struct spex_perf_writer_options options = writer_options(&about, model);
    snprintf(path, sizeof path, "%s/data", engine_directory(engine));
    if (!spex_perf_writer_open(path, &options, &writer, &error) &&
        !spex_perf_writer_leave(writer, &error))
        return true;
    cli_error("%s", error.text);
    return false;
}

static void write_map(struct spex_perf_writer *writer, const struct engine_event *e)
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

void run_file_event(struct spex_perf_writer *writer, const struct engine_event *e)
{
    switch (e->kind) {
    case SPEX_ENGINE_FORK:
        if (e->ppid != 1) /* the first process exists when recording starts */
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
        spex_perf_writer_aux_kept(writer, e->cpu, e->pid, e->tid, e->offset, e->size, e->aux_flags,
                                  e->time);
        break;
    case SPEX_ENGINE_LEFT:
        spex_perf_writer_aux(writer, e->cpu, e->pid, e->tid, e->data, e->size, e->aux_flags,
                             e->time);
        break;
    case SPEX_ENGINE_STACKS:
        spex_perf_writer_stacks(writer, e->data, e->size);
        break;
    }
}

/*
 * Writes the events of a run after its AUX data. False after a message if there is no file to keep.
 */
static bool write_data(const char *path, struct left_run *run, struct run_file *result)
{
    struct engine_event event;
    struct spex_perf_writer *writer;
    struct left_about about;
    struct spex_error error = {0};
    char model[RUN_FILE_TEXT];
    left_about(run, &about);
    run_file_model(about.cpu, about.model, model);
    struct spex_perf_writer_options options = writer_options(&about, model);
    if (spex_perf_writer_open(path, &options, &writer, &error)) {
        cli_error("%s", error.text);
        return false;
    }
    enum spex_status more;
    while ((more = left_next(run, &event, &error)) != SPEX_END) {
        if (!more) {
            run_file_event(writer, &event);
            continue;
        }
        cli_error("%s", error.text);
        result->whole = false;
    }
    enum spex_status status = spex_perf_writer_finish(writer, &error);
    if (status) {
        cli_error("%s", error.text);
        result->whole = false;
    }
    struct stat st;
    result->size = stat(path, &st) ? 0 : (uint64_t)st.st_size;
    return !status || status == SPEX_TRUNCATED;
}

/* ---- truth: docs/record.md has the columns ---- */

static bool print_truth(void *context, int fd)
{
    struct left_run *run = context;
    const struct engine_truth *rows;
    struct engine_totals totals;
    struct spex_error error;
    struct out out;
    size_t count;
    if (left_truth(run, &rows, &count, &error)) {
        cli_error("%s: the exact counts are lost", error.text);
        return false;
    }
    left_totals(run, &totals);
    out_init(&out, fd);
    out_printf(&out,
               "# spex truth 1\n"
               "#kernel\t%" PRIu64 "\n"
               "# pid\tpc\tcount\tl1_miss\tllc_miss\twalk\tmispredict\ttaken\tcycles\tl2_miss\n",
               totals.counts.kernel);
    for (size_t i = 0; i < count; i++) {
        const struct engine_truth *r = &rows[i];
        out_printf(&out, "%s%d\t0x%" PRIx64 "\t", r->target ? "#call\t" : "", r->pid, r->pc);
        if (r->target)
            out_printf(&out, "0x%" PRIx64 "\t%" PRIu64 "\t", r->target, r->calls);
        out_printf(&out,
                   "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                   "\t%" PRIu64 "\t%" PRIu64 "\n",
                   r->count, r->l1_miss, r->llc_miss, r->walk, r->mispredict, r->taken, r->cycles,
                   r->l2_miss);
    }
    int problem = out_fini(&out);
    if (problem)
        cli_error("%s: the exact counts are lost", strerror(problem));
    return !problem;
}

static bool write_truth(const struct output *o, struct left_run *run)
{
    struct output truth = *o;
    truth.how = OUTPUT_PRIVATE;
    snprintf(truth.path, sizeof truth.path, "%.*s.truth", OUTPUT_PATH - 32, o->path);
    truth.name = truth.path;
    return !output_make(&truth, print_truth, run);
}

/* ---- into place ---- */

/* If a reader closed the pipe, there is nothing to keep. */
static bool stream_out(const struct output *o, const char *data, bool *unwanted)
{
    struct spex_error error;
    int fd = open(data, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        cli_error("%s: %s", data, strerror(errno));
        return false;
    }
    enum spex_status status = spex_perf_stream(fd, o->stream, &error);
    *unwanted = status == SPEX_IO && errno == EPIPE;
    close(fd);
    if (status)
        cli_error("%s: %s", o->name, error.text);
    return !status;
}

static void tell_losses(const struct output *o, struct left_run *run, struct run_file *result)
{
    struct engine_totals t;
    char records[32], bytes[32];
    left_totals(run, &t);
    if (t.failed) {
        char threads[64] = "";
        if (t.unprofiled)
            snprintf(threads, sizeof threads, "; %u thread%s could not be profiled", t.unprofiled,
                     t.unprofiled == 1 ? "" : "s");
        if (t.lost_stacks)
            cli_error("%s call stacks are missing", text_count(records, t.lost_stacks));
        cli_error(
            "while the program ran: %s; %s records (%s bytes) are missing%s; the rest is in %s",
            strerror(t.failed), text_count(records, t.lost_records),
            text_count(bytes, t.lost_bytes), threads, o->name);
        result->whole = false;
    }
    if (t.damaged) {
        cli_error("the run's files were damaged: %s parts of them were left out",
                  text_count(records, t.damaged));
        result->whole = false;
    }
}

int run_file_finish(const struct output *o, const struct parts_limit *limit, const char *directory,
                    struct left_run *run, struct run_file *result)
{
    char data[OUTPUT_PATH + 16], reserve[OUTPUT_PATH + 16];
    bool unwanted = false, ok;
    struct left_about about;
    char model[RUN_FILE_TEXT];
    left_about(run, &about);
    run_file_model(about.cpu, about.model, model);
    *result = (struct run_file){.whole = true};
    snprintf(data, sizeof data, "%s/data", directory);
    snprintf(reserve, sizeof reserve, "%s/reserve", directory);
    unlink(reserve);
    if (limit && (limit->bytes || limit->time)) {
        struct spex_perf_writer_options options = writer_options(&about, model);
        result->parts = parts_write(o, directory, run, &options, limit, &result->size);
        ok = result->parts > 0;
    } else {
        ok = write_data(data, run, result);
    }
    tell_losses(o, run, result);
    if (ok && !result->parts)
        ok = o->stream < 0 ? output_put(o, data) : stream_out(o, data, &unwanted);
    if (ok && about.truth && o->stream < 0 && !write_truth(o, run))
        result->whole = false;
    if (!ok && !unwanted) {
        cli_error("the run is kept in %s; 'spex recover %s -o FILE' makes a profile of it",
                  directory, directory);
        return CLI_DATA;
    }
    if (!left_remove(directory))
        cli_error("%s: %s", directory, strerror(errno));
    return ok && result->whole ? CLI_OK : CLI_DATA;
}

/* ---- a truncated file ---- */

struct repair {
    const char *from;
    int in;
};

static bool repair_into(void *context, int fd)
{
    const struct repair *r = context;
    struct spex_error error;
    uint64_t kept, lost;
    char a[32], b[32];
    if (spex_perf_repair(r->in, fd, &kept, &lost, &error)) {
        cli_error("%s: %s", r->from, error.text);
        return false;
    }
    if (lost)
        cli_note("%s: kept %s bytes; %s after the last whole record are lost", r->from,
                 text_count(a, kept), text_count(b, lost));
    else
        cli_note("%s: kept all %s bytes", r->from, text_count(a, kept));
    return true;
}

/* A pipe needs another format, which is made from a whole file. */
static bool repair_stream(void *context, int fd)
{
    struct spex_error error;
    int file = file_temporary();
    bool ok = file >= 0 && repair_into(context, file);
    if (file < 0)
        cli_error("no temporary file: %s; set TMPDIR to a place that can be written",
                  strerror(errno));
    if (ok && spex_perf_stream(file, fd, &error)) {
        cli_error("%s", error.text);
        ok = false;
    }
    if (file >= 0)
        close(file);
    return ok;
}

int run_file_repair(const struct output *o, const char *from)
{
    struct repair r = {from, open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (r.in < 0) {
        cli_error("%s: %s", from, strerror(errno));
        return CLI_DATA;
    }
    int status = output_make(o, o->stream < 0 ? repair_into : repair_stream, &r);
    close(r.in);
    return status;
}
