/* spex export: writes a profile in a form that other tools read; src/export has the formats. */
#include "cli/fleet.h"
#include "cli/output.h"

#include "base/memory.h"
#include "export/ddl.h"
#include "export/digest.h"
#include "export/tables.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096 };

struct export_command {
    struct profile_options profile;
    const char *to, *output, *mode, *host, *boot, *truth;
    int weight;
    bool partition;
    uint64_t threads;
    struct fleet_options fleet;
    const char *cluster;
    int dialect;
    uint64_t retention;
    bool print_ddl;
};

/* What to write, into however many files. */
struct asked {
    const struct export_settings *settings;
    const char *mode;
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

/* Prints the format's notes on this profile, a line each. */
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
    const struct spex_sink sink = {
        .call = w->format->sink, .context = &w->job, .slices = w->job.slices};
    w->profile->status = sink.call ? profile_run(w->profile, sink) : 0;
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
            return cli_usage("--fields: '%.*s' is not a column of docs/schema.md", (int)n, p);
        for (size_t i = 0; i < *count && column != EXPORT_COLUMNS; i++)
            if (columns[i] == column)
                column = EXPORT_COLUMNS;
        if (column != EXPORT_COLUMNS)
            columns[(*count)++] = column;
        p += n + (p[n] == ',');
    }
    return *count ? CLI_OK : cli_usage("--fields: name at least one column of docs/schema.md");
}

static int put_one(struct profile *p, const struct export_format *format, const char *path,
                   const struct asked *asked, struct tables *tables)
{
    struct output output;
    struct work w = {
        .profile = p,
        .format = format,
        .job = {.analysis = p->analysis, .settings = asked->settings, .tables = tables}};
    int status = output_open(&output, path, OUTPUT_KEEPS);
    if (!status)
        status = profile_output(p, &output, asked->mode);
    if (!status && asked->settings->truth)
        status = output_from(&output, asked->settings->truth);
    if (!status)
        status = output_make(&output, make, &w);
    output_close(&output);
    return status;
}

/*
 * A directory receives samples.parquet and the tables beside it; id, if any, is part of their
 * names.
 */
static int put_directory(struct profile *p, const struct export_format *format,
                         const char *directory, const char *id, const struct asked *asked)
{
    char path[PATH + 64];
    int status = CLI_OK;
    bool samples = true;
    struct tables *tables = tables_new(p->analysis);
    for (const struct export_format *table = export_tables; !status; format = table++) {
        snprintf(path, sizeof path, "%s/%s%s%s.parquet", directory,
                 samples ? "samples" : format->name, *id ? "-" : "", id);
        samples = false;
        status = put_one(p, format, path, asked, tables);
        if (!table->name)
            break;
    }
    tables_free(tables);
    return status;
}

/* ---- partitions ---- */

/*
 * Names a profile after its size, beginning and end, so that the same profile always has the same
 * name.
 */
static bool name_profile(int fd, uint64_t size, char id[17])
{
    enum { PART = 1 << 16 };
    static uint8_t data[PART];
    struct digest digest;
    uint8_t result[8];
    digest_begin(&digest, sizeof result);
    digest_add(&digest, &size, sizeof size);
    for (unsigned end = 0; end < 2; end++) {
        ssize_t n = pread(fd, data, PART, end && size > PART ? (off_t)(size - PART) : 0);
        if (n < 0)
            return false;
        digest_add(&digest, data, (size_t)n);
    }
    digest_end(&digest, result);
    for (unsigned i = 0; i < sizeof result; i++)
        snprintf(id + 2 * i, 3, "%02x", result[i]);
    return true;
}

/* A directory name that any reader accepts as a value. */
static void put_value(struct out *out, const char *value)
{
    for (const char *c = value ? value : "__HIVE_DEFAULT_PARTITION__"; *c; c++) {
        if (isalnum((unsigned char)*c) || strchr("._-", *c))
            out_char(out, *c);
        else
            out_printf(out, "%%%02X", (unsigned char)*c);
    }
}

/* Puts the file below date=DAY/host=NAME; DAY is the day when the profile ended, in UTC. */
static int put_partition(struct profile *p, const struct export_format *format,
                         const char *directory, const struct asked *asked)
{
    const struct spex_perfdata *file = spex_analysis_file(p->analysis);
    const char *host = asked->settings->host ? asked->settings->host
                       : file                ? spex_perfdata_info(file)->hostname
                                             : "";
    char id[17], day[16];
    struct stat st;
    struct tm tm;
    struct out path;
    int status = CLI_DATA, fd = open(p->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || !name_profile(fd, (uint64_t)st.st_size, id)) {
        cli_error("%s: %s", p->name, strerror(errno));
    } else {
        strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&st.st_mtime, &tm));
        out_init(&path, -1);
        out_printf(&path, "%s/date=%s%c", directory, day, 0);
        bool made = !mkdir(path.data, 0777) || errno == EEXIST;
        path.size--;
        out_text(&path, "/host=");
        put_value(&path, *host ? host : NULL);
        out_char(&path, 0);
        made = made && (!mkdir(path.data, 0777) || errno == EEXIST);
        if (!made)
            cli_error("%s: %s", path.data, strerror(errno));
        else
            status = put_directory(p, format, path.data, id, asked);
        out_fini(&path);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static int run_format(const struct export_command *o, const struct export_format *format,
                      char *const *operands, struct export_settings *settings)
{
    struct profile p;
    char truth[4096];
    struct out filters;
    bool directory = is_directory(o->output);
    struct spex_analysis_options more = {.size = sizeof more,
                                         .ordered = format->ordered,
                                         .threads = settings->threads,
                                         .want = export_format_wants(format, settings)};
    if (directory && strcmp(format->name, "parquet"))
        return cli_usage("-o: '%s' is a directory; only parquet writes into one", o->output);
    if (o->partition && !directory)
        return cli_usage("--partition: '%s' is no directory; name one with -o", o->output);
    for (size_t i = 0; settings->columns && i < settings->column_count; i++)
        more.want |= export_wants(settings->columns[i]); /* only what these columns need */
    if (more.want && directory)
        more.want |= TABLES_WANT;
    int status = profile_open_all(&p, &o->profile, operands, &more);
    if (status)
        return status;
    out_init(&filters, -1);
    profile_filters(&p, &filters);
    snprintf(truth, sizeof truth, "%s.truth", p.name);
    settings->filters = p.filter_count ? filters.data : NULL;
    settings->input = p.name;
    settings->truth = o->truth ? o->truth : truth;
    const struct asked asked = {settings, o->mode};
    status = o->partition ? put_partition(&p, format, o->output, &asked)
             : directory  ? put_directory(&p, format, o->output, "", &asked)
                          : put_one(&p, format, o->output, &asked, NULL);
    if (!status && format->sink && !spex_analysis_totals(p.analysis)->kept)
        cli_note("there are no samples: the %s output is empty", format->name);
    p.status = p.status ? p.status : status;
    out_fini(&filters);
    return profile_close(&p);
}

/* Uses the server's own version if there is a server to ask. */
static int print_ddl(const struct export_command *o)
{
    struct ddl ddl = {.database = o->fleet.database,
                      .cluster = o->cluster,
                      .dialect = (enum ddl_dialect)o->dialect,
                      .days = o->retention > 36500 ? 36500 : (unsigned)o->retention};
    struct out out;
    if (o->fleet.url) {
        struct clickhouse *server;
        struct fleet_options asked = o->fleet;
        struct clickhouse_request request = {.query = "SELECT version()", .answer = &out};
        struct spex_error error;
        asked.database = "system"; /* the spex database may not exist yet */
        int status = fleet_connect(&asked, true, &server);
        if (status)
            return status;
        out_init(&out, -1);
        if (clickhouse_ask(server, &request, &error)) {
            cli_error("%s", error.text);
            status = CLI_DATA;
        }
        ddl.dialect = atoi(out.data) < 20 ? DDL_18 : DDL_TODAY;
        out_fini(&out);
        clickhouse_free(server);
        if (status)
            return status;
    }
    out_init(&out, STDOUT_FILENO);
    ddl_print(&out, &ddl);
    return cli_end_output(&out);
}

static int run_clickhouse(const struct export_command *o, const char *operand,
                          struct export_settings *settings)
{
    struct export_fleet fleet = {0};
    int exit_status;
    if (settings->columns)
        return cli_usage("--fields: the table of a server has all columns");
    if (strcmp(o->output, "-"))
        return cli_usage("-o: clickhouse writes to the server of --url");
    int status = fleet_connect(&o->fleet, true, &fleet.server);
    if (status)
        return status;
    if (fleet_send(&fleet, &o->profile, operand, settings, &exit_status) == FLEET_SENT)
        fleet_tell(&fleet);
    clickhouse_free(fleet.server);
    return exit_status;
}

static int run_export(void *options, int argc, char **argv)
{
    const struct export_command *o = options;
    enum export_column columns[EXPORT_COLUMNS];
    size_t column_count = 0;
    const struct export_format *format = o->to ? find_format(o->to) : NULL;
    if (!format)
        return no_format(o->to);
    bool clickhouse = !strcmp(format->name, "clickhouse");
    if (clickhouse && (size_t)argc + o->profile.inputs.count > 1)
        return cli_usage("clickhouse: one file at a time; spex ship sends many");
    if (!clickhouse && (o->fleet.url || o->print_ddl))
        return cli_usage("--%s needs --to clickhouse", o->fleet.url ? "url" : "print-ddl");
    if (o->print_ddl)
        return print_ddl(o);
    int status = o->profile.fields ? parse_columns(o->profile.fields, columns, &column_count) : 0;
    if (status)
        return status;
    if (o->weight && !format->weights)
        return cli_usage("--weight: %s counts %s", format->name, format->weight);
    if (format->binary && !clickhouse && !strcmp(o->output, "-") && isatty(STDOUT_FILENO))
        return cli_usage("%s is not for a terminal: name a file with -o", format->name);
    struct export_settings settings = {.weight = (enum export_weight)o->weight,
                                       .columns = column_count ? columns : NULL,
                                       .column_count = column_count,
                                       .host = o->host,
                                       .boot = o->boot,
                                       .version = spex_version(),
                                       .threads = cli_threads(o->threads)};
    return clickhouse ? run_clickhouse(o, argv[0], &settings)
                      : run_format(o, format, argv, &settings);
}

static const char *const dialects[] = {"today", "18.16", NULL};

static const struct cli_option export_options[] = {
    {"to", 0, CLI_STRING, offsetof(struct export_command, to), "FORMAT",
     "what to write (spex help formats)", NULL, NULL},
    {"output", 'o', CLI_STRING, offsetof(struct export_command, output), "FILE",
     "file to write, - for standard output; an older one is kept as FILE.old; for parquet also a "
     "directory",
     "-", NULL},
    OUTPUT_MODE(offsetof(struct export_command, mode)),
    PROFILE_SOURCE_OPTIONS(struct export_command),
    {"fields", 'F', CLI_STRING, PROFILE_AT(struct export_command, fields), "LIST",
     "columns of tables, in order; +LIST adds to the default ones (docs/schema.md)", NULL, NULL},
    {"weight", 0, CLI_CHOICE, offsetof(struct export_command, weight), "WEIGHT",
     "what to count in formats with a single number: samples, time, latency or misses", "samples",
     export_weight_names},
    {"host", 0, CLI_STRING, offsetof(struct export_command, host), "NAME",
     "host name for column host, instead of the file's", NULL, NULL},
    {"boot", 0, CLI_STRING, offsetof(struct export_command, boot), "ID",
     "the machine's boot id, for column boot", NULL, NULL},
    {"truth", 0, CLI_STRING, offsetof(struct export_command, truth), "FILE",
     "counts of spex record --truth, for formats of exact counts (default FILE.truth)", NULL, NULL},
    FLEET_OPTIONS(struct export_command),
    {"print-ddl", 0, CLI_FLAG, offsetof(struct export_command, print_ddl), NULL,
     "print the statements that make the tables, for the version of --url if it is given", NULL,
     NULL},
    {"cluster", 0, CLI_STRING, offsetof(struct export_command, cluster), "NAME",
     "with --print-ddl: tables for each server of this cluster, and the whole over them", NULL,
     NULL},
    {"dialect", 0, CLI_CHOICE, offsetof(struct export_command, dialect), "VERSION",
     "with --print-ddl and without --url: today, or 18.16 as in Debian 12", "today", dialects},
    {"retention", 0, CLI_NUMBER, offsetof(struct export_command, retention), "DAYS",
     "with --print-ddl: days to keep samples; roll-ups are kept ten times as long", "30", NULL},
    {"partition", 0, CLI_FLAG, offsetof(struct export_command, partition), NULL,
     "parquet: write below date=DAY/host=NAME in a directory, under a name unique to the profile",
     NULL, NULL},
    CLI_THREADS(struct export_command, threads),
#define OPTIONS struct export_command
#include "filter_options.def"
    PROFILE_REPLAY(struct export_command),
    PROFILE_SYMBOL_OPTIONS(struct export_command),
    {0},
};

const struct cli_command cli_export = {
    .name = "export",
    .group = CLI_OTHERS,
    .pages = true,
    .synopsis = "--to FORMAT [-o FILE] [--url URL] [FILE...]",
    .summary = "a profile for other tools: Parquet, ClickHouse, pprof, BOLT, ...",
    .details = "Writes the samples that the filters keep in a format that other tools read. "
               "'spex help formats' lists them, docs/export.md says more. The output gets its name "
               "only once it is complete.",
    .options = export_options,
    .size = sizeof(struct export_command),
    .run = run_export,
};
