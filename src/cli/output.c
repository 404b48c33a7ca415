#include "output.h"

#include "table.h"

#include <spex/perfdata.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- before the run ---- */

static int refuse(const char *name, const char *why)
{
    cli_error("%s: %s", name, why);
    return CLI_DATA;
}

/* The name of what a descriptor is open on. */
static bool real_name(int fd, char path[OUTPUT_PATH])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, OUTPUT_PATH - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0 && n < OUTPUT_PATH - 32 && path[0] == '/';
}

/*
 * Follows a link the way the kernel lets us (fs.protected_symlinks), also one to a file that
 * is not there yet. What is not a file is opened.
 */
static int open_place(struct output *o, const char *name)
{
    struct stat st;
    int fd = open(name, O_PATH | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !lstat(name, &st)) { /* a link to nothing */
        fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
        bool ok = fd >= 0 && real_name(fd, o->path);
        if (ok)
            unlink(o->path);
        else
            cli_error("%s: %s", name, strerror(errno));
        if (fd >= 0)
            close(fd);
        return ok ? CLI_OK : CLI_DATA;
    }
    if (fd < 0 && errno == ENOENT) {
        snprintf(o->path, sizeof o->path, "%s", name);
        return CLI_OK;
    }
    if (fd < 0 || fstat(fd, &st))
        return refuse(name, strerror(errno));
    bool named = real_name(fd, o->path);
    close(fd);
    if (S_ISDIR(st.st_mode))
        return refuse(name, "is a directory; name a file");
    if (S_ISREG(st.st_mode))
        return named ? CLI_OK : refuse(name, "cannot find out what it is called");
    o->stream = open(name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return o->stream < 0 ? refuse(name, strerror(errno)) : CLI_OK;
}

static void directory_of(const char *path, char directory[OUTPUT_PATH])
{
    snprintf(directory, OUTPUT_PATH, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = '\0';
    else
        strcpy(directory, ".");
}

/* In a directory like /tmp, renaming over somebody else's file will be refused: say so now. */
static bool may_replace(const char *path)
{
    char directory[OUTPUT_PATH];
    struct stat file, in;
    directory_of(path, directory);
    uid_t me = geteuid();
    return !me || lstat(path, &file) || stat(directory, &in) || !(in.st_mode & S_ISVTX) ||
           file.st_uid == me || in.st_uid == me;
}

/* The directory is there and can be written; otherwise errno says why not. */
static bool may_create(const char *path)
{
    char directory[OUTPUT_PATH];
    directory_of(path, directory);
    return !faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS);
}

static bool is_directory(const char *path, const char *suffix)
{
    char name[OUTPUT_PATH + 16];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    if (lstat(name, &st) || !S_ISDIR(st.st_mode))
        return false;
    cli_error("%s: is a directory; remove it, or name another file with -o", name);
    return true;
}

int output_open(struct output *o, const char *name, bool truth)
{
    *o = (struct output){.name = name, .stream = -1};
    if (!*name)
        return cli_usage("-o: the name is empty");
    if (strlen(name) >= OUTPUT_PATH - 32)
        return cli_usage("-o: the name is too long");
    if (!strcmp(name, "-")) {
        o->name = "standard output";
        o->stream = STDOUT_FILENO;
    }
    int status = o->stream < 0 ? open_place(o, name) : CLI_OK;
    if (!status && o->stream >= 0 && truth)
        status = cli_usage("--truth writes a second file beside the first: -o must name a file");
    if (!status && o->stream < 0) {
        size_t n = strlen(o->path);
        if (n && o->path[n - 1] == '/')
            status = refuse(name, "is no name of a file");
        else if (!may_replace(o->path))
            status = refuse(name, "belongs to somebody else");
        else if (!may_create(o->path))
            status = refuse(name, strerror(errno));
        else if ((!access(o->path, F_OK) && is_directory(o->path, ".old")) ||
                 (truth && is_directory(o->path, ".truth")))
            status = CLI_DATA;
    }
    if (status)
        output_close(o);
    return status;
}

void output_close(struct output *o)
{
    if (o->stream > STDOUT_FILENO)
        close(o->stream);
    o->stream = -1;
}

/* ---- perf.data ---- */

static struct spex_perf_writer_options writer_options(const struct spex_run_about *about)
{
    struct spex_perf_writer_options options = {
        .size = sizeof options,
        .cpus = about->cpus,
        .midr = about->midr,
        .min_interval = about->min_interval,
        .event_filter = about->event_filter,
        .period = about->period,
        .exclude_kernel = true, /* user mode: perf need not look for a kernel's symbols */
        .time = {.mult = 1, .cap_zero = true}, /* the counter runs at 1 GHz from 0 */
        .version = SPEX_VERSION,
        .cpudesc = "spex model under QEMU",
        .cmdline = about->argv,
        .kept_start = about->start,
        .kept_end = about->end,
        .stacks = about->stacks,
        .allocs = about->allocs,
        .node_cpus = about->socket_cpus,
    };
    memcpy(options.config, about->config, sizeof options.config);
    return options;
}

bool output_begin(const struct spex_engine *engine)
{
    char path[OUTPUT_PATH + 16];
    struct spex_error error;
    struct spex_perf_writer *writer;
    struct spex_run_about about;
    spex_engine_about(engine, &about);
    struct spex_perf_writer_options options = writer_options(&about);
    snprintf(path, sizeof path, "%s/data", spex_engine_directory(engine));
    if (!spex_perf_writer_open(path, &options, &writer, &error) &&
        !spex_perf_writer_leave(writer, &error))
        return true;
    cli_error("%s", error.text);
    return false;
}

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

void output_event(struct spex_perf_writer *writer, const struct spex_engine_event *e)
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

/* The events of a run after its AUX data. False after a message, if there is no file to keep. */
static bool write_data(const char *path, struct spex_run *run, struct output_result *result)
{
    struct spex_engine_event event;
    struct spex_perf_writer *writer;
    struct spex_run_about about;
    struct spex_error error = {0};
    spex_run_about(run, &about);
    struct spex_perf_writer_options options = writer_options(&about);
    if (spex_perf_writer_open(path, &options, &writer, &error)) {
        cli_error("%s", error.text);
        return false;
    }
    enum spex_status more;
    while ((more = spex_run_next(run, &event, &error)) != SPEX_END) {
        if (!more) {
            output_event(writer, &event);
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

static bool write_truth(const char *path, struct spex_run *run)
{
    const struct spex_engine_truth *rows;
    struct spex_engine_totals totals;
    size_t count;
    struct spex_error error;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file || spex_run_truth(run, &rows, &count, &error)) {
        cli_error("%s: %s", path, file ? error.text : strerror(errno));
        if (file)
            fclose(file);
        else if (fd >= 0)
            close(fd);
        return false;
    }
    spex_run_totals(run, &totals);
    fprintf(file,
            "# spex truth 1\n"
            "#kernel\t%" PRIu64 "\n"
            "# pid\tpc\tcount\tl1_miss\tllc_miss\twalk\tmispredict\ttaken\tcycles\tl2_miss\n",
            totals.counts.kernel);
    for (size_t i = 0; i < count; i++) {
        const struct spex_engine_truth *r = &rows[i];
        fputs(r->target ? "#call\t" : "", file);
        fprintf(file, "%d\t0x%" PRIx64 "\t", r->pid, r->pc);
        if (r->target)
            fprintf(file, "0x%" PRIx64 "\t%" PRIu64 "\t", r->target, r->calls);
        fprintf(file,
                "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
                "\t%" PRIu64 "\t%" PRIu64 "\n",
                r->count, r->l1_miss, r->llc_miss, r->walk, r->mispredict, r->taken, r->cycles,
                r->l2_miss);
    }
    bool failed = ferror(file);
    if (fclose(file) || failed) {
        cli_error("%s: %s: the exact counts are lost", path, strerror(errno));
        return false;
    }
    return true;
}

/* ---- into place ---- */

static bool put_in_place(const struct output *o, const char *data)
{
    char old[OUTPUT_PATH + 16];
    struct stat st;
    snprintf(old, sizeof old, "%s.old", o->path);
    bool older = lstat(o->path, &st) ? errno != ENOENT : st.st_size > 0;
    if (older && rename(o->path, old)) {
        cli_error("cannot keep %s as %s: %s", o->path, old, strerror(errno));
        return false;
    }
    if (rename(data, o->path)) {
        cli_error("%s: %s", o->path, strerror(errno));
        return false;
    }
    return true;
}

/* A reader that closed the pipe wants nothing more: then there is nothing to keep. */
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

static void tell_losses(const struct output *o, struct spex_run *run, struct output_result *result)
{
    struct spex_engine_totals t;
    char records[32], bytes[32];
    spex_run_totals(run, &t);
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

int output_finish(const struct output *o, const char *directory, struct spex_run *run,
                  struct output_result *result)
{
    char data[OUTPUT_PATH + 16], truth[OUTPUT_PATH + 16], reserve[OUTPUT_PATH + 16];
    bool unwanted = false, ok;
    struct spex_run_about about;
    spex_run_about(run, &about);
    *result = (struct output_result){.whole = true};
    snprintf(data, sizeof data, "%s/data", directory);
    snprintf(truth, sizeof truth, "%s/truth", directory);
    snprintf(reserve, sizeof reserve, "%s/reserve", directory);
    unlink(reserve);
    if (o->limit.bytes || o->limit.time) {
        struct spex_perf_writer_options options = writer_options(&about);
        result->parts = parts_write(o->path, directory, run, &options, &o->limit, &result->size);
        ok = result->parts > 0;
    } else {
        ok = write_data(data, run, result);
    }
    bool counts = ok && about.truth && o->stream < 0;
    if (counts && !write_truth(truth, run))
        counts = result->whole = false;
    tell_losses(o, run, result);
    if (ok && !result->parts)
        ok = o->stream < 0 ? put_in_place(o, data) : stream_out(o, data, &unwanted);
    if (ok && counts) {
        char name[OUTPUT_PATH + 16];
        snprintf(name, sizeof name, "%s.truth", o->path);
        if (rename(truth, name)) {
            cli_error("%s: %s", name, strerror(errno));
            result->whole = false;
        }
    }
    if (!ok && !unwanted) {
        cli_error("the run is kept in %s; 'spex recover %s -o FILE' makes a profile of it",
                  directory, directory);
        return CLI_DATA;
    }
    if (!spex_run_remove(directory))
        cli_error("%s: %s", directory, strerror(errno));
    return ok && result->whole ? CLI_OK : CLI_DATA;
}

/* ---- a file that was cut ---- */

static bool repair_into(void *context, const char *data)
{
    const char *from = *(const char **)context;
    struct spex_error error;
    uint64_t kept, lost;
    char a[32], b[32];
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int out = in < 0 ? -1 : open(data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = out >= 0;
    if (!ok)
        cli_error("%s: %s", in < 0 ? from : data, strerror(errno));
    else if (spex_perf_repair(in, out, &kept, &lost, &error)) {
        cli_error("%s: %s", from, error.text);
        ok = false;
    }
    if (out >= 0 && close(out) && ok) {
        cli_error("%s: %s", data, strerror(errno));
        ok = false;
    }
    if (in >= 0)
        close(in);
    if (ok)
        cli_note("%s: kept %s bytes; %s after the last whole record are lost", from,
                 text_count(a, kept), text_count(b, lost));
    return ok;
}

/* Makes a file in a directory of its own beside the output, and puts it in place. */
static int make_beside(const struct output *o, bool (*make)(void *context, const char *data),
                       void *context)
{
    char directory[OUTPUT_PATH + 32], data[OUTPUT_PATH + 48];
    bool unwanted = false;
    const char *temporary = getenv("TMPDIR");
    if (o->stream < 0)
        snprintf(directory, sizeof directory, "%s.run-XXXXXX", o->path);
    else
        snprintf(directory, sizeof directory, "%s/spex.run-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(directory)) {
        cli_error("%s: %s", directory, strerror(errno));
        return CLI_DATA;
    }
    snprintf(data, sizeof data, "%s/data", directory);
    bool ok = make(context, data) &&
              (o->stream < 0 ? put_in_place(o, data) : stream_out(o, data, &unwanted));
    spex_run_remove(directory);
    return ok ? CLI_OK : CLI_DATA;
}

int output_repair(const struct output *o, const char *from)
{
    return make_beside(o, repair_into, &from);
}

/* ---- output of other commands ---- */

struct made {
    output_maker *make;
    void *context;
};

static bool make_file(void *context, const char *data)
{
    struct made *made = context;
    int fd = open(data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        cli_error("%s: %s", data, strerror(errno));
        return false;
    }
    bool ok = made->make(made->context, fd);
    if (close(fd) && ok) {
        cli_error("%s: %s", data, strerror(errno));
        ok = false;
    }
    return ok;
}

int output_make(const struct output *o, output_maker *make, void *context)
{
    struct made made = {make, context};
    if (o->stream >= 0)
        return make(context, o->stream) ? CLI_OK : CLI_DATA;
    return make_beside(o, make_file, &made);
}
