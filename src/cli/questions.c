/* The questions of share/queries, and the views through which SQL sees the input files. */
#include "questions.h"

#include "cli/locate.h"

#include "base/memory.h"
#include "base/name.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096 };
#define SAMPLES "samples"

/* ---- ready-made questions ---- */

/* Queries for a fleet use another dialect of SQL. */
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

/* Calls use for each query by name; returns their number, negative if the directory is missing. */
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

/* The first line of a query is a comment that says what it answers. */
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

int questions_list(bool fleet)
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

char *questions_text(bool fleet, const char *given)
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

/* For a Parquet file called samples...: the file beside it that holds another table. */
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

/* Appends a table of a file; false if it is a Parquet file without that table. */
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

static bool put_files(struct out *sql, const struct cli_list *inputs, char **files,
                      const char *table)
{
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
    struct query *query;
    const struct cli_list *inputs;
    char **files;
    const char *sql;
    bool any, ok;
};

/* May this character be part of a name, or of a file's name? */
static bool is_part(char c)
{
    return (c && strchr("_./'-", c)) || (c >= '0' && c <= '9') ||
           ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Does the SQL text contain this word? */
static bool mentions(const char *sql, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = sql; (p = strcasestr(p, word)); p++)
        if ((p == sql || !is_part(p[-1])) && !is_part(p[n]))
            return true;
    return false;
}

/* Does the SQL mention this query by the name of its view, which is written to view? */
static bool is_mentioned(const struct mention *m, const char *name, char view[64])
{
    size_t n = strlen(name);
    for (size_t i = 0; i <= n && n < 64; i++)
        view[i] = name[i] == '-' ? '_' : name[i];
    return n < 64 && mentions(m->sql, view);
}

static void look_for(void *user, const char *name, const char *path)
{
    struct mention *m = user;
    char view[64];
    (void)path;
    m->any |= is_mentioned(m, name, view);
}

/*
 * Makes the tables beside samples that a text mentions, if all files have them; DuckDB reports
 * missing ones. symbols is a query; its table is spe_symbols('FILE').
 */
static void add_tables(struct mention *m, const char *text)
{
    static const char *const names[] = {"stacks", "files", "losses", "elapsed"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        struct out sql;
        if (!mentions(text, names[i]))
            continue;
        out_init(&sql, -1);
        if (put_files(&sql, m->inputs, m->files, names[i]))
            query_ask(m->query, sql.data, NULL);
        out_fini(&sql);
    }
}

static void add_view(void *user, const char *name, const char *path)
{
    struct mention *m = user;
    char view[64];
    char *text = m->ok && is_mentioned(m, name, view) ? load_text(path) : NULL;
    if (!text)
        return;
    struct out sql;
    out_init(&sql, -1);
    out_printf(&sql, "CREATE OR REPLACE TEMP VIEW %s AS\n", view);
    out_bytes(&sql, text, strlen(text) + 1);
    add_tables(m, text);
    m->ok = query_ask(m->query, sql.data, NULL);
    out_fini(&sql);
    free(text);
}

bool questions_views(struct query *query, const struct cli_list *inputs, char **files,
                     const char *asked)
{
    struct mention mention = {query, inputs, files, asked, strcasestr(asked, SAMPLES), true};
    struct out sql;
    each_question(false, look_for, &mention);
    add_tables(&mention, asked);
    if (!mention.any)
        return true;
    out_init(&sql, -1);
    put_files(&sql, inputs, files, SAMPLES);
    mention.ok = query_ask(query, sql.data, NULL);
    out_fini(&sql);
    each_question(false, add_view, &mention);
    return mention.ok;
}
