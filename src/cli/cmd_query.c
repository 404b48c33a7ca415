/* spex query: runs SQL over profiles in DuckDB; the engine is in src/query. */
#include "cli/fleet_query.h"
#include "cli/locate.h"
#include "cli/output.h"
#include "cli/profile.h"
#include "cli/questions.h"
#include "cli/rows.h"

#include "base/memory.h"
#include "base/name.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH = 4096 };
enum { AS_PARQUET = TABLE_AS_CSV + 1 };

struct query_command {
    struct profile_options profile;
    const char *output, *mode;
    int format;
    uint64_t threads;
    bool list, setup;
    struct fleet_options fleet;
    const char *host, *last;
};

struct opened {
    struct opened *next;
    struct profile profile;
    char *path;
};

struct work {
    const struct query_command *command;
    struct profile_options options; /* options for opening each profile */
    struct opened *opened;
    struct query *query;
    const char *sql;
    struct output output;
    bool reported; /* a message about the failure was printed */
};

/* ---- profiles ---- */

static struct spex_analysis *open_profile(void *user, const char *path, struct spex_error *error)
{
    struct work *w = user;
    struct spex_analysis_options more = {.size = sizeof more};
    struct opened *o = memory_get(1, sizeof *o);
    o->path = memory_copy(path);
    if (profile_open(&o->profile, &w->options, o->path, &more)) {
        w->reported = true;
        snprintf(error->text, sizeof error->text, "%s cannot be read", path);
        free(o->path);
        free(o);
        return NULL;
    }
    o->next = w->opened;
    w->opened = o;
    return o->profile.analysis;
}

/* Reports what was damaged or missing, once for each file. */
static int close_profiles(struct work *w)
{
    int status = CLI_OK;
    while (w->opened) {
        struct opened *o = w->opened;
        bool again = false;
        w->opened = o->next;
        for (const struct opened *other = o->next; other; other = other->next)
            again |= !strcmp(other->path, o->path);
        if (again) {
            out_fini(&o->profile.out);
            spex_analysis_close(o->profile.analysis);
            o->profile.analysis = NULL;
        }
        int closed = profile_close(&o->profile);
        status = closed ? closed : status;
        free(o->path);
        free(o);
    }
    return status;
}

static void end_progress(struct work *w)
{
    for (struct opened *o = w->opened; o; o = o->next) {
        if (o->profile.progress && !o->profile.quiet)
            fputs("\r\033[K", stderr);
        o->profile.quiet = true;
    }
    cli_progress_end();
}

/* ---- the answer ---- */

struct answer {
    struct work *work;
    struct rows rows;
};

static void begin(void *user, const char *const *names, const enum query_kind *kinds, size_t count)
{
    struct answer *a = user;
    rows_begin(&a->rows, names, kinds, count);
}

static void put_row(void *user, const char *const *cells)
{
    struct answer *a = user;
    if (!a->rows.shown)
        end_progress(a->work);
    rows_put(&a->rows, cells);
}

/* DuckDB's messages have several lines: what is wrong, where, and perhaps a suggestion. */
static void tell_error(struct work *w)
{
    char *copy = memory_copy(query_error(w->query)), *text = copy;
    end_progress(w);
    for (char *p = copy; (p = strchr(p, '\t'));)
        *p = ' ';
    if (query_interrupted(w->query) && !w->reported)
        cli_error("interrupted");
    bool tell = !w->reported && !query_interrupted(w->query);
    for (bool first = true; tell && *text; first = false) {
        int n = (int)strcspn(text, "\n");
        if (first)
            cli_error("%.*s", n, text);
        else if (n)
            cli_note("%.*s", n, text);
        text += n + (text[n] == '\n');
    }
    free(copy);
}

static bool make(void *context, int fd)
{
    struct work *w = context;
    bool ok;
    int error = 0;
    if (w->command->format == AS_PARQUET) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ok = query_to_parquet(w->query, w->sql, path);
    } else {
        struct answer a = {.work = w};
        struct query_sink sink = {begin, put_row, &a};
        struct out out;
        out_init(&out, fd);
        rows_init(&a.rows, &out, (enum table_format)w->command->format);
        ok = query_ask(w->query, w->sql, &sink);
        end_progress(w);
        rows_end(&a.rows);
        error = out_fini(&out);
    }
    if (!ok)
        tell_error(w);
    else if (error)
        cli_error("cannot write: %s", strerror(error));
    for (const struct opened *o = w->opened; ok && o; o = o->next) /* the SQL may name more files */
        ok = !output_from(&w->output, o->path);
    return ok && !error && !output_mode(&w->output, w->command->mode);
}

/* ---- the library ---- */

void cli_duckdb(char *path, size_t size)
{
    char directory[PATH];
    const char *named = getenv("SPEX_DUCKDB");
    if (named && *named) {
        snprintf(path, size, "%s", named);
        return;
    }
    if (cli_beside("libduckdb.so", path, size) ||
        cli_beside("../lib/spex/libduckdb.so", path, size))
        return;
    cli_data_directory(directory, sizeof directory);
    snprintf(path, size, "%s/libduckdb.so", directory);
    if (access(path, R_OK))
        snprintf(path, size, "libduckdb.so");
}

static int open_query(struct work *w, const char *spill)
{
    char library[PATH + 32];
    struct spex_error error;
    cli_duckdb(library, sizeof library);
    struct query_options options = {.library = library,
                                    .spill = spill,
                                    .threads = cli_threads(w->command->threads),
                                    .memory = memory_limit(),
                                    .open = open_profile,
                                    .user = w};
    if (!query_new(&options, &w->query, &error))
        return CLI_OK;
    cli_error("there is no DuckDB (%s)", error.text);
    cli_note("get it with: spex query --setup");
    return CLI_DATA;
}

/* ---- Ctrl-C ---- */

struct watcher {
    struct query *query;
    pthread_t thread;
    bool started;
    atomic_bool done;
};

/*
 * The first signal ends the statement, the second one the program. end_watch() sends the last one.
 */
static void *watch(void *context)
{
    struct watcher *w = context;
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    while (!sigwait(&set, &signal) && !atomic_load(&w->done)) {
        if (query_interrupted(w->query))
            _exit(128 + SIGINT);
        query_interrupt(w->query);
    }
    return NULL;
}

static void end_watch(struct watcher *w)
{
    atomic_store(&w->done, true);
    if (!w->started)
        return;
    pthread_kill(w->thread, SIGINT);
    pthread_join(w->thread, NULL);
}

static void die_interrupted(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    signal(SIGINT, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(SIGINT);
}

/* ---- the command ---- */

static int ask(struct work *w, char **files)
{
    struct watcher watcher = {0};
    sigset_t set;
    char spill[PATH];
    const char *temporary = getenv("TMPDIR");
    int status = output_open(&w->output, w->command->output, OUTPUT_KEEPS);
    if (status)
        return status;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set,
                    NULL); /* before DuckDB starts threads, which inherit the mask */
    snprintf(spill, sizeof spill, "%s/spex-query-XXXXXX", temporary ? temporary : "/tmp");
    bool spills = mkdtemp(spill);
    bool interrupted = false;
    status = open_query(w, spills ? spill : NULL);
    if (!status) {
        watcher.query = w->query;
        watcher.started = !pthread_create(&watcher.thread, NULL, watch, &watcher);
        if (questions_views(w->query, &w->command->profile.inputs, files, w->sql)) {
            status = output_make(&w->output, make, w);
        } else {
            tell_error(w);
            status = CLI_DATA;
        }
        interrupted = query_interrupted(w->query);
        end_watch(&watcher);
        query_free(w->query);
    }
    if (spills)
        rmdir(spill);
    output_close(&w->output);
    int closed = close_profiles(w);
    if (interrupted)
        die_interrupted();
    return status ? status : closed;
}

static int run_query(void *options, int argc, char **argv)
{
    const struct query_command *o = options;
    struct work w = {.command = o, .options = o->profile};
    w.options.inputs = (struct cli_list){0};
    if (o->list)
        return questions_list(o->fleet.url);
    if (o->setup) {
        char directory[PATH];
        cli_data_directory(directory, sizeof directory);
        return cli_set_up("query-setup", directory, NULL);
    }
    if (!argc)
        return cli_usage("say what to ask: SQL, or a name that spex query --list shows");
    if (o->fleet.url && (argc > 1 || o->profile.inputs.count))
        return cli_usage("--url asks a server: leave files out");
    if (o->fleet.url && o->profile.filter.time)
        return cli_usage("--time is for files; with --url there is --last");
    if (!o->fleet.url && (o->host || o->last))
        return cli_usage("--%s needs --url", o->host ? "host" : "last");
    if (o->format == AS_PARQUET && !strcmp(o->output, "-") && isatty(STDOUT_FILENO))
        return cli_usage("parquet is not for a terminal: name a file with -o");
    char *text = questions_text(o->fleet.url, argv[0]);
    if (!text)
        return CLI_USAGE;
    w.sql = text;
    int status = o->fleet.url ? fleet_query(&o->fleet, text, o->host, o->last, o->format, o->output)
                              : ask(&w, argv + 1);
    free(text);
    return status;
}

static const char *const formats[] = {"text", "json", "csv", "parquet", NULL};

static const struct cli_option query_options[] = {
    PROFILE_SOURCE_OPTIONS(struct query_command),
    {"format", 0, CLI_CHOICE, offsetof(struct query_command, format), "FORMAT",
     "text, csv, json (an object a line) or parquet", "text", formats},
    {"output", 'o', CLI_STRING, offsetof(struct query_command, output), "FILE",
     "file to write, - for standard output; an older one is kept as FILE.old", "-", NULL},
    OUTPUT_MODE(offsetof(struct query_command, mode)),
    {"list", 0, CLI_FLAG, offsetof(struct query_command, list), NULL,
     "list the ready-made questions", NULL, NULL},
    {"setup", 0, CLI_FLAG, offsetof(struct query_command, setup), NULL,
     "fetch DuckDB from npm, once", NULL, NULL},
    CLI_THREADS(struct query_command, threads),
    FLEET_OPTIONS(struct query_command),
    {"host", 0, CLI_STRING, offsetof(struct query_command, host), "LIST",
     "with --url and a question: only these hosts (* and ? match)", NULL, NULL},
    {"last", 0, CLI_STRING, offsetof(struct query_command, last), "TIME",
     "with --url and a question: only the last 30m, 1h, 7d, ...", NULL, NULL},
    {"time", 0, CLI_STRING, PROFILE_AT(struct query_command, filter.time), "RANGE",
     "only this time of each file: START,STOP in seconds, 10%-20% of the profile, 10%/2", NULL,
     NULL},
    PROFILE_REPLAY(struct query_command),
    PROFILE_SYMBOL_OPTIONS(struct query_command),
    {0},
};

const struct cli_command cli_query = {
    .name = "query",
    .group = CLI_OTHERS,
    .pages = true,
    .synopsis = "SQL|QUESTION [FILE...]",
    .summary = "SQL over profiles (DuckDB)",
    .details = "Table samples holds the samples of the files: perf.data, Parquet files that export "
               "wrote, or directories of them (-i, else perf.data); stacks, files, losses and "
               "elapsed stand beside it. 'name.data' and spe('name') are tables, too. Columns are "
               "described in "
               "docs/schema.md, more in docs/query.md. A "
               "QUESTION is a ready-made statement: --list names them. With --url the tables are "
               "those of a fleet, and the dialect is ClickHouse's (docs/fleet.md).",
    .options = query_options,
    .size = sizeof(struct query_command),
    .run = run_query,
};
