/* spex export: a profile in the form that another tool reads; src/export has the formats. */
#include "cli/output.h"
#include "cli/profile.h"

#include "base/memory.h"
#include "base/name.h"
#include "export/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct export_command {
    struct profile_options profile;
    const char *to, *output, *host, *boot, *truth;
    int weight;
};

struct work {
    struct profile *profile;
    const struct export_format *format;
    struct export_job job;
};

static const struct export_format *find_format(const char *name)
{
    for (size_t i = 0; export_formats[i]; i++)
        if (!strcmp(export_formats[i]->name, name))
            return export_formats[i];
    return NULL;
}

static int no_format(const char *name)
{
    char names[400] = "";
    for (size_t i = 0; export_formats[i]; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 export_formats[i]->name);
    if (!name)
        return cli_usage("--to FORMAT is missing: %s", names);
    return cli_usage("--to: '%s' is not one of %s", name, names);
}

/* What the format says about this profile, a line each. */
static void tell_notes(struct out *notes)
{
    out_char(notes, 0);
    for (char *line = notes->data; *line;) {
        size_t n = strcspn(line, "\n");
        cli_note("%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
    out_fini(notes);
}

static bool make(void *context, int fd)
{
    struct work *w = context;
    struct out out;
    out_init(&out, fd);
    w->job.out = &out;
    export_begin(w->format, &w->job);
    w->profile->status = w->format->sink ? profile_run(w->profile, w->format->sink, &w->job) : 0;
    enum spex_status status = export_end(w->format, &w->job);
    bool ok = !status && !w->profile->status;
    int error = out_fini(&out);
    if (status)
        cli_error("%s", w->job.error.text);
    else if (ok && error)
        cli_error("cannot write: %s", strerror(error));
    tell_notes(&w->job.notes);
    return ok && !error;
}

static int parse_columns(const char *list, enum export_column *columns, size_t *count)
{
    bool add = *list == '+';
    for (unsigned i = 0; add && i < EXPORT_COLUMNS; i++)
        if (export_fields[i].columnar)
            columns[(*count)++] = i;
    for (const char *p = list + add; *p;) {
        size_t n = strcspn(p, ",");
        enum export_column column = export_column_find(p, n);
        if (column == EXPORT_COLUMNS)
            return cli_usage("--fields: '%.*s' is no column of docs/schema.md", (int)n, p);
        for (size_t i = 0; i < *count && column != EXPORT_COLUMNS; i++)
            if (columns[i] == column)
                column = EXPORT_COLUMNS;
        if (column != EXPORT_COLUMNS)
            columns[(*count)++] = column;
        p += n + (p[n] == ',');
    }
    return *count ? CLI_OK : cli_usage("--fields: there is no column");
}

static void filters_text(const struct profile *p, struct out *out)
{
    for (size_t i = 0; i < p->filter_count; i++) {
        out_printf(out, "%s--%s ", i ? " " : "", p->filters[i].name);
        out_name(out, p->filters[i].value);
    }
    out_char(out, 0);
}

static int put_one(struct profile *p, const struct export_format *format, const char *path,
                   const struct export_settings *settings)
{
    struct output output;
    struct work w = {
        .profile = p, .format = format, .job = {.analysis = p->analysis, .settings = settings}};
    int status = output_open(&output, path, false);
    if (status)
        return status;
    status = output_make(&output, make, &w);
    output_close(&output);
    return status;
}

/* A directory gets samples.parquet and the tables beside it. */
static int put_directory(struct profile *p, const struct export_format *format,
                         const char *directory, const struct export_settings *settings)
{
    char path[4096];
    int status = CLI_OK;
    for (const struct export_format *table = export_tables; !status; format = table++) {
        snprintf(path, sizeof path, "%s/%s.parquet", directory,
                 format->sink ? "samples" : format->name);
        status = put_one(p, format, path, settings);
        if (!table->name)
            break;
    }
    return status;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static int run_format(const struct export_command *o, const struct export_format *format,
                      const char *operand, struct export_settings *settings)
{
    struct profile p;
    char truth[4096];
    struct out filters;
    bool directory = is_directory(o->output);
    struct spex_analysis_options more = {
        .size = sizeof more, .ordered = format->ordered, .want = format->want};
    if (directory && strcmp(format->name, "parquet"))
        return cli_usage("-o: '%s' is a directory; only parquet writes into one", o->output);
    int status = profile_open(&p, &o->profile, operand, &more);
    if (status)
        return status;
    out_init(&filters, -1);
    filters_text(&p, &filters);
    snprintf(truth, sizeof truth, "%s.truth", p.name);
    settings->filters = p.filter_count ? filters.data : NULL;
    settings->input = p.name;
    settings->truth = o->truth ? o->truth : truth;
    status = directory ? put_directory(&p, format, o->output, settings)
                       : put_one(&p, format, o->output, settings);
    if (!status && format->sink && !spex_analysis_totals(p.analysis)->kept)
        cli_note("there are no samples: the %s output is empty", format->name);
    p.status = p.status ? p.status : status;
    out_fini(&filters);
    return profile_close(&p);
}

static int run_export(void *options, int argc, char **argv)
{
    const struct export_command *o = options;
    enum export_column columns[EXPORT_COLUMNS];
    size_t column_count = 0;
    if (argc > 1)
        return cli_usage("too many operands");
    const struct export_format *format = o->to ? find_format(o->to) : NULL;
    if (!format)
        return no_format(o->to);
    int status = o->profile.fields ? parse_columns(o->profile.fields, columns, &column_count) : 0;
    if (status)
        return status;
    if (o->weight && !format->weights)
        return cli_usage("--weight: %s counts %s", format->name, format->weight);
    if (format->binary && !strcmp(o->output, "-") && isatty(STDOUT_FILENO))
        return cli_usage("%s is not for a terminal: name a file with -o", format->name);
    struct export_settings settings = {.weight = (enum export_weight)o->weight,
                                       .columns = column_count ? columns : NULL,
                                       .column_count = column_count,
                                       .host = o->host,
                                       .boot = o->boot,
                                       .version = spex_version()};
    return run_format(o, format, argv[0], &settings);
}

static const char *const weights[] = {"samples", "latency", "misses", NULL};

static const struct cli_option export_options[] = {
    {"to", 0, CLI_STRING, offsetof(struct export_command, to), "FORMAT",
     "what to write (spex help formats)", NULL, NULL},
    {"output", 'o', CLI_STRING, offsetof(struct export_command, output), "FILE",
     "file to write, - for standard output; an older one is kept as FILE.old; for parquet also a "
     "directory",
     "-", NULL},
    PROFILE_SOURCE_OPTIONS(struct export_command),
    {"fields", 'F', CLI_STRING, PROFILE_AT(struct export_command, fields), "LIST",
     "columns of tables, in order; +LIST adds to the usual ones (docs/schema.md)", NULL, NULL},
    {"weight", 0, CLI_CHOICE, offsetof(struct export_command, weight), "WEIGHT",
     "what numbers count where a format has one only: samples, latency or misses", "samples",
     weights},
    {"host", 0, CLI_STRING, offsetof(struct export_command, host), "NAME",
     "the machine, for column host, where the file does not say or is wrong", NULL, NULL},
    {"boot", 0, CLI_STRING, offsetof(struct export_command, boot), "ID",
     "the machine's boot id, for column boot", NULL, NULL},
    {"truth", 0, CLI_STRING, offsetof(struct export_command, truth), "FILE",
     "counts of spex record --truth, for formats of exact counts (default FILE.truth)", NULL, NULL},
#define FILTER(option, member, kind, value, help)                                                  \
    {option, 0,    CLI_STRING, PROFILE_AT(struct export_command, filter.member),                   \
     value,  help, NULL,       NULL},
#include "analysis/filters.def"
    PROFILE_SYMBOL_OPTIONS(struct export_command),
    {0},
};

extern const struct cli_command cli_export;
const struct cli_command cli_export = {
    .name = "export",
    .group = CLI_READING,
    .synopsis = "--to FORMAT [-o FILE] [FILE]",
    .summary = "a profile for other tools: Parquet, pprof, flame graphs, BOLT, ...",
    .details = "Writes the samples that the filters keep in a format that other tools read. "
               "'spex help formats' lists them, docs/export.md says more. A file gets its name "
               "when it is whole.",
    .options = export_options,
    .size = sizeof(struct export_command),
    .run = run_export,
};
