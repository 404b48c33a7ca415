#include "top.h"

#include "columns.h"
#include "run_file.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const top_by_names[] = {"function", "line", "source", "page", NULL};
const char *const top_order_names[] = {"time", "latency", "samples", NULL};

enum { PARTS = 3, TEXT_MOST = 1 << 20, PATH = 600 };
#define PART_TIME "5s" /* native: the table covers the latest parts */

/* ---- the recording ---- */

/*
 * Reads the functions of the recorded kernel. /proc/kallsyms costs the kernel hundreds of millions
 * of operations, so it is read once, not for each table.
 */
static void copy_symbols(struct top_recording *r)
{
    char line[1024];
    snprintf(r->kallsyms, sizeof r->kallsyms, "%.250s/kallsyms", r->directory);
    FILE *in = fopen("/proc/kallsyms", "re"), *out = in ? fopen(r->kallsyms, "we") : NULL;
    while (out && fgets(line, sizeof line, in)) {
        const char *type = strchr(line, ' ');
        if (type && type[1] && strchr("tTwW", type[1]) && type[2] == ' ' && type[3] != '$')
            fputs(line, out);
    }
    if (in)
        fclose(in);
    if (!out || fclose(out))
        r->kallsyms[0] = '\0';
}

int top_start(struct top_recording *r, const struct record_options *options, bool native,
              bool aside, char **argv)
{
    char output[PATH], log[PATH];
    const char *temporary = getenv("TMPDIR");
    *r = (struct top_recording){.native = native};
    snprintf(r->directory, sizeof r->directory, "%.200s/spex-top-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(r->directory)) {
        cli_error("%s: %s", r->directory, strerror(errno));
        return CLI_DATA;
    }
    snprintf(output, sizeof output, "%s/data", r->directory);
    snprintf(log, sizeof log, "%s/log", r->directory);
    struct record_options o = *options;
    int argc = 0;
    while (argv[argc])
        argc++;
    o.output = output;
    o.quiet = true;
    o.live = true;
    /* a table that is printed only once covers everything */
    o.parts = native && aside ? PART_TIME : NULL;
    r->process = fork();
    if (r->process < 0) {
        cli_error("fork: %s", strerror(errno));
        rmdir(r->directory);
        return CLI_DATA;
    }
    if (r->process && native)
        copy_symbols(r);
    if (r->process)
        return CLI_OK;
    int in = aside ? open("/dev/null", O_RDONLY) : -1;
    int out = aside ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0600) : STDERR_FILENO;
    if (in >= 0)
        dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    _exit(cli_record.run(&o, argc, argv));
}

bool top_runs(struct top_recording *r)
{
    if (r->process && waitpid(r->process, &r->status, WNOHANG) == r->process)
        r->process = 0;
    return r->process != 0;
}

/* Lists a directory, sorted; returns the number of entries. free_names() frees them. */
static size_t list(const char *directory, char ***names)
{
    struct dirent **entries;
    int n = scandir(directory, &entries, NULL, alphasort);
    size_t count = 0;
    *names = calloc(n > 0 ? (size_t)n + 1 : 1, sizeof **names);
    for (int i = 0; i < n; i++) {
        if (*names && entries[i]->d_name[0] != '.')
            (*names)[count++] = strdup(entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return count;
}

static void free_names(char **names)
{
    for (size_t i = 0; names && names[i]; i++)
        free(names[i]);
    free(names);
}

static void remove_tree(const char *directory)
{
    char **names, path[PATH + 300];
    struct stat st;
    list(directory, &names);
    for (size_t i = 0; names && names[i]; i++) {
        snprintf(path, sizeof path, "%.500s/%.255s", directory, names[i]);
        if (!lstat(path, &st) && S_ISDIR(st.st_mode))
            remove_tree(path);
        else
            unlink(path);
    }
    free_names(names);
    rmdir(directory);
}

void top_end(struct top_recording *r)
{
    for (unsigned i = 0; r->process && i < 2; i++) {
        kill(r->process, i ? SIGKILL : SIGTERM);
        for (unsigned k = 0; k < 500 && top_runs(r); k++)
            usleep(10000);
    }
    remove_tree(r->directory);
}

/* ---- what can be read so far ---- */

/* Copies the QEMU run in its current state. */
static bool copy_run(const char *from, const char *to)
{
    char **names, a[PATH + 300], b[PATH + 300];
    struct stat st;
    remove_tree(to);
    bool ok = !mkdir(to, 0700);
    list(from, &names);
    for (size_t i = 0; ok && names && names[i]; i++) {
        snprintf(a, sizeof a, "%.500s/%.255s", from, names[i]);
        snprintf(b, sizeof b, "%.500s/%.255s", to, names[i]);
        if (lstat(a, &st) || !S_ISREG(st.st_mode))
            continue;
        int in = open(a, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        int out = open(b, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        while (in >= 0 && out >= 0 && copy_file_range(in, NULL, out, NULL, 1 << 30, 0) > 0)
            ;
        if (in >= 0)
            close(in);
        if (out >= 0)
            close(out);
    }
    free_names(names);
    return ok;
}

/* Makes a profile from that copy, as for a run that was killed. */
static bool make_view(const char *directory, const char *run)
{
    char from[PATH], copy[PATH], view[PATH];
    struct spex_error error;
    struct left_run *left;
    struct output output;
    struct run_file result;
    snprintf(from, sizeof from, "%s/%.250s", directory, run);
    snprintf(copy, sizeof copy, "%s/copy", directory);
    snprintf(view, sizeof view, "%s/view", directory);
    unlink(view);
    if (!copy_run(from, copy) || left_open(copy, NULL, &left, &error))
        return false;
    if (!output_open(&output, view, OUTPUT_PRIVATE)) {
        run_file_finish(&output, NULL, copy, left, &result);
        output_close(&output);
    }
    left_close(left);
    return !access(view, R_OK);
}

/* Finds the files to read, up to PARTS; returns their number. Older parts are removed. */
static size_t find_files(const struct top_recording *r, char paths[PARTS][PATH])
{
    char **names;
    size_t n = 0, count = list(r->directory, &names), parts = 0;
    for (size_t i = 0; i < count; i++)
        parts += !strncmp(names[i], "data.0", 6);
    for (size_t i = 0, part = 0; r->native && i < count; i++) {
        char path[PATH];
        if (strncmp(names[i], "data.0", 6))
            continue;
        snprintf(path, sizeof path, "%s/%.250s", r->directory, names[i]);
        if (part++ + PARTS < parts)
            unlink(path);
        else
            memcpy(paths[n++], path, sizeof path);
    }
    for (size_t i = 0; !parts && i < count && !n; i++) {
        if (!strcmp(names[i], "data"))
            snprintf(paths[n++], PATH, "%s/data", r->directory);
        else if (!r->native && !strncmp(names[i], "data.run-", 9) &&
                 make_view(r->directory, names[i]))
            snprintf(paths[n++], PATH, "%s/view", r->directory);
    }
    free_names(names);
    return n;
}

/* ---- the table ---- */

static void fill_title(struct profile *p, const struct spex_group *group, struct out *out)
{
    char number[32], time[32];
    const struct spex_totals *t = spex_analysis_totals(p->analysis);
    double ns = (double)(t->last_time - t->first_time);
    out_printf(out, "%s samples, %s", text_count(number, stats_of(spex_group_total(group)).samples),
               t->last_time ? text_time(time, ns) : "no time");
}

static void put_names(const struct spex_group *group, size_t most, struct out *out)
{
    for (size_t i = 0; i < spex_group_count(group) && i < most; i++) {
        char *name = columns_text(group, spex_group_row(group, i), 0);
        out_text(out, name);
        out_char(out, '\n');
        free(name);
    }
}

/* Runs in the child: writes title, table and names, each ended by a zero. */
static int print_table(const struct top_view *v, char paths[PARTS][PATH], size_t count)
{
    static const enum spex_key keys[] = {SPEX_KEY_SYMBOL, SPEX_KEY_SRCLINE, SPEX_KEY_SOURCE,
                                         SPEX_KEY_PAGE};
    static const enum spex_order orders[] = {SPEX_BY_TIME, SPEX_BY_LATENCY, SPEX_BY_SAMPLES};
    const char *inputs[PARTS];
    char filter[80];
    for (size_t i = 0; i < count; i++)
        inputs[i] = paths[i];
    snprintf(filter, sizeof filter, "*%s*", v->filter);
    struct profile_options o = {.inputs = {.items = inputs, .count = count},
                                .symfs = v->symfs,
                                .kallsyms = v->kallsyms,
                                .filter = {.symbol = *v->filter ? filter : NULL}};
    enum spex_key key = keys[v->by];
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want = SPEX_WANT_SPENT | spex_key_wants(key)};
    struct profile p;
    int status = profile_open_all(&p, &o, NULL, &more);
    if (status)
        return status;
    struct spex_group *group = profile_group(&p, &key, 1, columns_percentiles(&o));
    status = profile_run(&p, spex_sink_group(group));
    spex_group_sort(group, orders[v->order]);
    if (!status && stats_of(spex_group_total(group)).samples) {
        struct table_column *columns;
        struct table *table = columns_table(&p, group, &key, 1, v->rows, NULL, &columns);
        struct table_options how = {.width = v->columns, .colour = v->colour};
        fill_title(&p, group, &p.out);
        out_char(&p.out, '\0');
        table_print(table, &p.out, &how);
        out_char(&p.out, '\0');
        put_names(group, v->rows, &p.out);
        table_free(table);
        free(columns);
    }
    spex_group_free(group);
    return profile_close(&p);
}

static bool split(char *all, size_t size, struct top_table *table)
{
    const char *text = all ? memchr(all, 0, size) : NULL;
    const char *names = text ? memchr(text + 1, 0, size - (size_t)(text + 1 - all)) : NULL;
    if (!names || !*all)
        return false;
    snprintf(table->title, sizeof table->title, "%s", all);
    table->text = strdup(text + 1);
    table->names = strdup(names + 1); /* file_read_all() has appended a 0 */
    return table->text && table->names;
}

bool top_look(const struct top_recording *r, const struct top_view *view, struct top_table *table)
{
    char paths[PARTS][PATH];
    int ends[2], status;
    size_t size;
    *table = (struct top_table){.text = NULL};
    if (pipe2(ends, O_CLOEXEC))
        return false;
    pid_t child = fork();
    if (!child) {
        int null = open("/dev/null", O_WRONLY);
        dup2(ends[1], STDOUT_FILENO);
        if (null >= 0)
            dup2(null, STDERR_FILENO); /* hides messages about a profile that is still growing */
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        size_t count = find_files(r, paths);
        _exit(count ? print_table(view, paths, count) : CLI_DATA);
    }
    close(ends[1]);
    char *all = child < 0 ? NULL : file_read_all(ends[0], TEXT_MOST, &size);
    if (child < 0)
        close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    bool ok = all && split(all, size, table);
    free(all);
    if (!ok)
        top_free(table);
    return ok;
}

void top_free(struct top_table *table)
{
    free(table->text);
    free(table->names);
    *table = (struct top_table){.text = NULL};
}

void top_annotate(const struct top_recording *r, const struct top_view *view, const char *function)
{
    char paths[PARTS][PATH], name[4096];
    const char *words[2 * PARTS + 10];
    size_t n = 0, count = find_files(r, paths);
    ssize_t length = readlink("/proc/self/exe", name, sizeof name - 1);
    if (!count || length <= 0)
        return;
    name[length] = '\0';
    words[n++] = "spex";
    words[n++] = "annotate";
    for (size_t i = 0; i < count; i++) {
        words[n++] = "-i";
        words[n++] = paths[i];
    }
    if (view->symfs) {
        words[n++] = "--symfs";
        words[n++] = view->symfs;
    }
    if (view->kallsyms) {
        words[n++] = "--kallsyms";
        words[n++] = view->kallsyms;
    }
    words[n++] = function;
    words[n] = NULL;
    pid_t child = fork();
    if (!child) {
        setenv("LESS", "R", 0); /* stop even after short texts, so that they can be read */
        execv(name, (char *const *)(uintptr_t)words);
        _exit(127);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}
