/* spex query: SQL over profiles by DuckDB; the engine is in src/query. */
#include "cli/fleet_query.h"
#include "cli/locate.h"
#include "cli/output.h"
#include "cli/profile.h"
#include "cli/rows.h"

#include "base/memory.h"
#include "base/name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH = 4096 };
enum { AS_PARQUET = TABLE_AS_CSV + 1 };
#define SAMPLES "samples"

struct query_command {
    struct profile_options profile;
    const char *output;
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
    struct profile_options options; /* of each profile */
    struct opened *opened;
    struct query *query;
    const char *sql;
    bool told; /* a message says what went wrong */
};

/* ---- ready-made questions ---- */

/* Questions to a fleet have a dialect of their own. */
static bool questions_directory(bool fleet, char *path, size_t size)
{
    return cli_beside(fleet ? "../share/spex/queries/clickhouse" : "../share/spex/queries", path,
                      size) ||
           cli_beside(fleet ? "../share/queries/clickhouse" : "../share/queries", path, size);
}

static int is_question(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 4 && !strcmp(entry->d_name + n - 4, ".sql");
}

/*
 * Calls use for each question by name; returns their number, negative if the directory is missing.
 */
static int each_question(bool fleet, void (*use)(void *user, const char *name, const char *path),
                         void *user)
{
    char directory[PATH], path[2 * PATH];
    struct dirent **entries;
    int n = questions_directory(fleet, directory, sizeof directory)
                ? scandir(directory, &entries, is_question, alphasort)
                : -1;
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        entries[i]->d_name[strlen(entries[i]->d_name) - 4] = '\0';
        use(user, entries[i]->d_name, path);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return n;
}

/* The first line of a question is a comment that says what it answers. */
static void list_question(void *user, const char *name, const char *path)
{
    struct cli_input input;
    if (!cli_load(path, &input))
        return;
    const char *text = (const char *)input.data;
    size_t n = 0;
    while (n < input.size && text[n] != '\n')
        n++;
    size_t skip = n > 3 && !memcmp(text, "-- ", 3) ? 3 : 0;
    out_printf(user, "%-24s %.*s\n", name, (int)(n - skip), text + skip);
    cli_unload(&input);
}

static int list_questions(bool fleet)
{
    struct out out;
    out_init(&out, STDOUT_FILENO);
    if (each_question(fleet, list_question, &out) < 0) {
        out_fini(&out);
        cli_error("cannot find the questions in ../share/spex/queries of the program; is spex "
                  "installed whole?");
        return CLI_DATA;
    }
    return cli_end_output(&out);
}

/* ---- the text ---- */

struct names {
    const char *names[64];
    size_t count;
};

static void add_name(void *user, const char *name, const char *path)
{
    struct names *names = user;
    (void)path;
    if (names->count < 64)
        names->names[names->count++] = memory_copy(name);
}

static char *load_text(const char *path)
{
    struct cli_input input;
    if (!cli_load(path, &input))
        return NULL;
    char *text = memory_get(input.size + 1, 1);
    memcpy(text, input.data, input.size);
    cli_unload(&input);
    return text;
}

/* The text of SQL that was typed, of a file, or of a question by name. NULL after a message. */
static char *find_text(bool fleet, const char *given)
{
    char directory[PATH], path[2 * PATH];
    struct names known = {0};
    size_t n = strlen(given);
    if (n > 4 && !strcmp(given + n - 4, ".sql"))
        return load_text(given);
    if (!*given || strpbrk(given, " \t\n;("))
        return memory_copy(given);
    if (questions_directory(fleet, directory, sizeof directory)) {
        snprintf(path, sizeof path, "%s/%s.sql", directory, given);
        if (!strchr(given, '/') && !access(path, R_OK))
            return load_text(path);
    }
    each_question(fleet, add_name, &known);
    const char *near = cli_nearest(given, known.names, known.count);
    cli_usage("'%s' is no SQL and no question of spex query --list%s%s%s", given,
              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (size_t i = 0; i < known.count; i++)
        free((char *)(uintptr_t)known.names[i]);
    return NULL;
}

/* ---- the input files ---- */

/* For a Parquet file called samples...: the file next to it that holds another table. */
static bool put_beside(struct out *out, const char *path, const char *table)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, SAMPLES, strlen(SAMPLES)) != 0)
        return false;
    out_bytes(out, path, (size_t)(name - path));
    out_text(out, table);
    out_text(out, name + strlen(SAMPLES));
    out_char(out, 0);
    return !access(out->data, R_OK);
}

/* A table of a file; false if it is a Parquet file without one. */
static bool put_file(struct out *sql, const char *path, const char *table)
{
    char magic[4] = "";
    bool samples = !strcmp(table, SAMPLES), there = true;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool directory = fd >= 0 && !fstat(fd, &st) && S_ISDIR(st.st_mode);
    bool parquet =
        fd >= 0 && !directory && pread(fd, magic, 4, 0) == 4 && !memcmp(magic, "PAR1", 4);
    struct out name;
    if (fd >= 0)
        close(fd);
    out_init(&name, -1);
    if (directory)
        out_printf(&name, "%s/**/%s*.parquet%c", path, table, 0);
    else if (parquet && !samples)
        there = put_beside(&name, path, table);
    else
        out_bytes(&name, path, strlen(path) + 1);
    if (directory || parquet)
        out_text(sql, "SELECT * FROM read_parquet(");
    else
        out_printf(sql, "SELECT * FROM spe%s%s(", samples ? "" : "_", samples ? "" : table);
    if (there)
        query_quote(sql, name.data);
    out_text(sql, directory ? ", union_by_name = true)" : ")");
    out_fini(&name);
    return there;
}

static bool put_files(struct out *sql, const struct query_command *o, char **files,
                      const char *table)
{
    const struct cli_list *inputs = &o->profile.inputs;
    bool there = true;
    out_printf(sql, "CREATE OR REPLACE TEMP VIEW %s AS ", table);
    if (!*files && !inputs->count)
        there = put_file(sql, "perf.data", table);
    for (size_t i = 0; i < inputs->count; i++) {
        out_text(sql, i ? " UNION ALL BY NAME " : "");
        there &= put_file(sql, inputs->items[i], table);
    }
    for (size_t i = 0; files[i]; i++) {
        out_text(sql, i || inputs->count ? " UNION ALL BY NAME " : "");
        there &= put_file(sql, files[i], table);
    }
    out_char(sql, 0);
    return there;
}

struct mention {
    struct work *work;
    char **files;
    bool any, ok;
};

/* Whether a character may be in a name, or in the name of a file. */
static bool is_part(char c)
{
    return (c && strchr("_./'-", c)) || (c >= '0' && c <= '9') ||
           ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Does SQL have this word? */
static bool mentions(const char *sql, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = sql; (p = strcasestr(p, word)); p++)
        if ((p == sql || !is_part(p[-1])) && !is_part(p[n]))
            return true;
    return false;
}

/* The name of a question as the name of a view. */
static bool is_mentioned(const struct work *w, const char *name, char view[64])
{
    size_t n = strlen(name);
    for (size_t i = 0; i <= n && n < 64; i++)
        view[i] = name[i] == '-' ? '_' : name[i];
    return n < 64 && mentions(w->sql, view);
}

static void look_for(void *user, const char *name, const char *path)
{
    struct mention *m = user;
    char view[64];
    (void)path;
    m->any |= is_mentioned(m->work, name, view);
}

/*
 * Makes the tables beside samples that a text mentions, if all files have them; DuckDB reports
 * those that are missing. symbols is a question; its table is spe_symbols('FILE').
 */
static void add_tables(struct mention *m, const char *text)
{
    static const char *const names[] = {"stacks", "files", "losses"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        struct out sql;
        if (!mentions(text, names[i]))
            continue;
        out_init(&sql, -1);
        if (put_files(&sql, m->work->command, m->files, names[i]))
            query_ask(m->work->query, sql.data, NULL);
        out_fini(&sql);
    }
}

static void add_view(void *user, const char *name, const char *path)
{
    struct mention *m = user;
    char view[64];
    char *text = m->ok && is_mentioned(m->work, name, view) ? load_text(path) : NULL;
    if (!text)
        return;
    struct out sql;
    out_init(&sql, -1);
    out_printf(&sql, "CREATE OR REPLACE TEMP VIEW %s AS\n", view);
    out_bytes(&sql, text, strlen(text) + 1);
    add_tables(m, text);
    m->ok = query_ask(m->work->query, sql.data, NULL);
    out_fini(&sql);
    free(text);
}

/*
 * Files are opened, and questions become views of their names, only if the statement mentions
 * them.
 */
static bool add_views(struct work *w, char **files)
{
    struct mention mention = {w, files, strcasestr(w->sql, SAMPLES), true};
    struct out sql;
    each_question(false, look_for, &mention);
    add_tables(&mention, w->sql);
    if (!mention.any)
        return true;
    out_init(&sql, -1);
    put_files(&sql, w->command, files, SAMPLES);
    mention.ok = query_ask(w->query, sql.data, NULL);
    out_fini(&sql);
    each_question(false, add_view, &mention);
    return mention.ok;
}

/* ---- profiles ---- */

static struct spex_analysis *open_profile(void *user, const char *path, struct spex_error *error)
{
    struct work *w = user;
    struct spex_analysis_options more = {.size = sizeof more};
    struct opened *o = memory_get(1, sizeof *o);
    o->path = memory_copy(path);
    if (profile_open(&o->profile, &w->options, o->path, &more)) {
        w->told = true;
        snprintf(error->text, sizeof error->text, "%s cannot be read", path);
        free(o->path);
        free(o);
        return NULL;
    }
    o->next = w->opened;
    w->opened = o;
    return o->profile.analysis;
}

/* What was damaged or missing, once for each file. */
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

/* DuckDB's messages have several lines: what, where, and perhaps what else it could be. */
static void tell_error(struct work *w)
{
    char *copy = memory_copy(query_error(w->query)), *text = copy;
    end_progress(w);
    for (char *p = copy; (p = strchr(p, '\t'));)
        *p = ' ';
    if (query_interrupted(w->query) && !w->told)
        cli_error("interrupted");
    bool tell = !w->told && !query_interrupted(w->query);
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
    return ok && !error;
}

/* ---- the library ---- */

/*
 * Where DuckDB's library is: named by the user, next to the program, set up, or left to the
 * system's loader.
 */
static void find_library(char *path, size_t size)
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
    find_library(library, sizeof library);
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

/* The first signal ends the statement, the second the program; the last one is end_watch's. */
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
    struct output output;
    struct watcher watcher = {0};
    sigset_t set;
    char spill[PATH];
    const char *temporary = getenv("TMPDIR");
    int status = output_open(&output, w->command->output, false);
    if (status)
        return status;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* for the threads of DuckDB, too */
    snprintf(spill, sizeof spill, "%s/spex-query-XXXXXX", temporary ? temporary : "/tmp");
    bool spills = mkdtemp(spill);
    bool interrupted = false;
    status = open_query(w, spills ? spill : NULL);
    if (!status) {
        watcher.query = w->query;
        watcher.started = !pthread_create(&watcher.thread, NULL, watch, &watcher);
        if (add_views(w, files)) {
            status = output_make(&output, make, w);
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
    output_close(&output);
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
        return list_questions(o->fleet.url);
    if (o->setup) {
        char directory[PATH];
        cli_data_directory(directory, sizeof directory);
        return cli_set_up("query-setup", directory, NULL);
    }
    if (!argc)
        return cli_usage("what is to be asked? SQL, or a name that spex query --list shows");
    if (o->fleet.url && (argc > 1 || o->profile.inputs.count))
        return cli_usage("--url asks a server: no file");
    if (o->fleet.url && o->profile.filter.time)
        return cli_usage("--time is for files; with --url there is --last");
    if (!o->fleet.url && (o->host || o->last))
        return cli_usage("--%s is for --url", o->host ? "host" : "last");
    if (o->format == AS_PARQUET && !strcmp(o->output, "-") && isatty(STDOUT_FILENO))
        return cli_usage("parquet is not for a terminal: name a file with -o");
    char *text = find_text(o->fleet.url, argv[0]);
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
    PROFILE_SYMBOL_OPTIONS(struct query_command),
    {0},
};

const struct cli_command cli_query = {
    .name = "query",
    .group = CLI_READING,
    .synopsis = "SQL|QUESTION [FILE...]",
    .summary = "SQL over profiles (DuckDB)",
    .details = "Table samples holds the samples of the files: perf.data, Parquet files that export "
               "wrote, or directories of them (-i, else perf.data); stacks, files and losses stand "
               "beside it. 'name.data' and spe('name') are tables, too. Columns are described in "
               "docs/schema.md, more in docs/query.md. A "
               "QUESTION is a ready-made statement: --list names them. With --url the tables are "
               "those of a fleet, and the dialect is ClickHouse's (docs/fleet.md).",
    .options = query_options,
    .size = sizeof(struct query_command),
    .run = run_query,
};
