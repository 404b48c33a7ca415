/* The profile in a command that reads: opening it, reading it, and the notes on it at the end. */
#include "profile.h"

#include "base/memory.h"
#include "cli/output.h"
#include "cli/perf_words.h"
#include "export/remedies.h"

#include <spex/wire.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void show_progress(void *context, uint64_t done, uint64_t size)
{
    struct profile *p = context;
    if (!p->quiet)
        cli_progress(p->name, done, size);
}

static bool show_fetching(void *context, const char *file, uint64_t done, uint64_t size)
{
    static _Atomic time_t last;
    struct profile *p = context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!isatty(STDERR_FILENO) || now.tv_sec == last)
        return true;
    last = now.tv_sec;
    p->progress = true;
    cli_put("\r", "%3d%% of the debug file of %s", size ? (int)(100 * done / size) : 0, file);
    return true;
}

/*
 * Does the file begin with sample records? Three records without a reserved packet are no
 * coincidence.
 */
static bool looks_raw(const char *path)
{
    uint8_t data[4096];
    struct spex_packet packet;
    unsigned records = 0;
    ssize_t at = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t size = fd < 0 ? 0 : read(fd, data, sizeof data);
    if (fd >= 0)
        close(fd);
    for (; at < size; at += (ssize_t)spex_packet_length(&packet)) {
        if (spex_packet_decode(data + at, (size_t)(size - at), &packet) ||
            packet.type == SPEX_PACKET_RESERVED)
            break;
        records += packet.type == SPEX_PACKET_END || packet.type == SPEX_PACKET_TIMESTAMP;
    }
    return records >= 3 || (records && at == size);
}

static int parse_limit(struct profile *p, const struct profile_options *options)
{
    char *end;
    p->options = options;
    p->limit = options->format == TABLE_AS_TEXT ? 0.005 : 0;
    if (!options->percent_limit)
        return CLI_OK;
    p->limit = strtod(options->percent_limit, &end) / 100;
    if (end == options->percent_limit || *end || !(p->limit >= 0 && p->limit <= 1))
        return cli_usage("--percent-limit: '%s' is not a percentage such as 0.5",
                         options->percent_limit);
    return CLI_OK;
}

static void open_output(struct profile *p)
{
    enum { READABLE = 120 }; /* width of output to a file that a person will read */
    p->width = cli_columns();
    p->whole_names = !p->width; /* keep long lines, for those who search in them; but see NAME */
    if (!p->width)
        p->width = READABLE;
    p->colour = p->options->format == TABLE_AS_TEXT && cli_colour(STDOUT_FILENO);
    out_init(&p->out, STDOUT_FILENO);
}

int profile_printing(struct profile *p, const struct profile_options *options)
{
    memset(p, 0, sizeof *p);
    int status = parse_limit(p, options);
    if (!status)
        open_output(p);
    return status;
}

/* Lists the files of a profile, and makes the name for all of them. */
static void name_files(struct profile *p, const struct profile_options *options,
                       char *const *operands)
{
    size_t count = 0, most = options->inputs.count + 2;
    while (operands && operands[count])
        count++;
    p->paths = memory_get(count + most, sizeof *p->paths);
    count = 0;
    for (size_t i = 0; i < options->inputs.count; i++)
        p->paths[count++] = options->inputs.items[i];
    for (size_t i = 0; operands && operands[i]; i++)
        p->paths[count++] = operands[i];
    if (!count)
        p->paths[count++] = "perf.data";
    const char *first = p->paths[0], *slash = strrchr(first, '/');
    bool file = strcmp(first, "-");
    p->name = file ? first : "standard input";
    if (count > 1 && asprintf(&p->names, "%s and %zu more", p->name, count - 1) >= 0)
        p->name = p->names;
    if (file)
        p->directory = memory_checked(
            slash ? strndup(first, slash == first ? 1 : (size_t)(slash - first)) : strdup("."));
}

static void forget_files(struct profile *p)
{
    free(p->directory);
    free(p->paths);
    free(p->names);
    p->directory = p->names = NULL;
    p->paths = NULL;
}

int profile_open(struct profile *p, const struct profile_options *options, const char *operand,
                 const struct spex_analysis_options *more)
{
    char *const operands[] = {(char *)(uintptr_t)operand, NULL};
    return profile_open_all(p, options, operands, more);
}

void profile_unopened(const struct spex_error *error)
{
    cli_error("%s%s", error->text, error->status == SPEX_NO_MEMORY ? PROFILE_MORE_MEMORY : "");
}

/* Is it about a filter? Then it begins with the name. */
static bool of_filter(const struct profile *p, const struct spex_error *error)
{
    for (size_t i = 0; i < p->filter_count && error->status == SPEX_INVALID; i++) {
        const size_t n = strlen(p->filters[i].name);
        if (!strncmp(error->text, p->filters[i].name, n) && error->text[n] == ':')
            return true;
    }
    return false;
}

int profile_open_all(struct profile *p, const struct profile_options *options,
                     char *const *operands, const struct spex_analysis_options *more)
{
    memset(p, 0, sizeof *p);
    int wrong = parse_limit(p, options);
    if (wrong)
        return wrong;
    name_files(p, options, operands);
#define SPEX_FILTER(option, member, kind, argument, help)                                          \
    if (options->filter.member)                                                                    \
        p->filters[p->filter_count++] = (struct spex_filter){option, options->filter.member};
#include <spex/filters.def>
    struct spex_symbols_options symbols = {.size = sizeof symbols,
                                           .symfs = options->symfs,
                                           .vmlinux = options->vmlinux,
                                           .kallsyms = options->kallsyms,
                                           .raw_names = options->no_demangle,
                                           .fetching = show_fetching,
                                           .context = p,
                                           .beside = p->directory};
    struct spex_analysis_options o =
        more ? *more : (struct spex_analysis_options){.size = sizeof o};
    struct spex_error error;
    o.raw = options->raw;
    o.no_replay = options->no_replay;
    o.more = p->paths + 1;
    while (o.more[o.more_count])
        o.more_count++;
    o.midr = options->midr;
    o.symbols = &symbols;
    o.filters = p->filters;
    o.filter_count = p->filter_count;
    o.progress = show_progress;
    o.context = p;
    struct rlimit files; /* every file that ran stays open */
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    enum spex_status status = spex_analysis_open(p->paths[0], &o, &p->analysis, &error);
    if (status) {
        bool usage = of_filter(p, &error), raw = false;
        bool named = options->inputs.count || (operands && operands[0]);
        for (size_t i = 0; !usage && !options->raw && p->paths[i]; i++)
            raw |= looks_raw(p->paths[i]);
        forget_files(p);
        if (usage)
            return cli_usage("--%s", error.text);
        profile_unopened(&error);
        if (raw)
            cli_note("it looks like a bare SPE stream: read it with --raw");
        if (!named && access("perf.data", F_OK))
            cli_note("record a profile first ('spex record -- PROGRAM'), or name one with -i");
        return CLI_DATA;
    }
    open_output(p);
    return CLI_OK;
}

struct source_places profile_sources(const struct profile_options *options)
{
    return (struct source_places){.symfs = options->symfs,
                                  .dirs = options->source_dirs.items,
                                  .dir_count = options->source_dirs.count,
                                  .none = options->no_source};
}

int profile_output(const struct profile *p, struct output *output, const char *mode)
{
    const char *const named[] = {p->options->kallsyms, p->options->vmlinux};
    int status = CLI_OK;
    for (size_t i = 0; p->paths[i] && !status; i++)
        status = output_from(output, p->paths[i]);
    for (size_t i = 0; i < 2 && !status; i++)
        status = named[i] ? output_from(output, named[i]) : CLI_OK;
    return status ? status : output_mode(output, mode);
}

struct spex_group *profile_group(struct profile *p, const enum spex_key *keys, size_t key_count,
                                 unsigned flags)
{
    struct spex_group_options options = {
        .size = sizeof options, .keys = keys, .key_count = key_count, .flags = flags};
    struct spex_group *group;
    struct spex_error error;
    if (spex_group_new(p->analysis, &options, &group, &error)) {
        cli_error("%s", error.text);
        exit(CLI_DATA);
    }
    return group;
}

int profile_run(struct profile *p, struct spex_sink sink)
{
    return profile_run_all(p, &sink, 1);
}

int profile_run_all(struct profile *p, const struct spex_sink *sinks, size_t count)
{
    struct spex_error error;
    enum spex_status status = spex_analysis_pass(p->analysis, sinks, count, &error);
    cli_progress_end();
    if (p->progress) /* end the progress line of downloads */
        fputs("\r\033[K", stderr);
    p->progress = false;
    if (status)
        cli_error("%s", error.text);
    return status ? CLI_DATA : CLI_OK;
}

struct nameless {
    uint64_t samples;
    const char *path, *problem;
    char *own; /* set if problem must be freed */
    struct spex_module *module;
};

static int by_samples(const void *a, const void *b)
{
    const struct nameless *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    return strcmp(x->path, y->path);
}

enum { NOTES_MOST = 3 }; /* lines about missing names, without -v */

/* How to make a runtime name its code, by the name of the process. */
static const char *how_to_name(const char *comm)
{
    static const struct {
        const char *comm, *how;
    } list[] = {
        {"java", "-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, or -agentpath: with "
                 "perf's libperf-jvmti.so, make Java write it"},
        {"node", "node --perf-basic-prof writes it"},
        {"python", "PYTHONPERFSUPPORT=1 makes Python 3.12 write it"},
        {"dotnet", "DOTNET_PerfMapEnabled=1 makes .NET write it"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strncmp(comm, list[i].comm, strlen(list[i].comm)))
            return list[i].how;
    return "many runtimes can write one (Java, node, Python, .NET)";
}

/* Explains why JIT code has no names; "" if it has some. */
static void anonymous_problem(struct profile *p, struct spex_module *m, char text[400])
{
    text[0] = '\0';
    if (spex_module_kind(m) != SPEX_MODULE_JIT || spex_module_problem(m) || spex_module_nth(m, 0))
        return;
    const int pid = spex_module_pid(m);
    const char *comm = spex_analysis_comm(p->analysis, pid);
    snprintf(text, 400,
             "[anonymous code of %s]: made at run time, and /tmp/perf-%d.map does not "
             "name it: %s",
             comm, pid, how_to_name(comm));
}

/* Reports modules without symbols, once each, most samples first; only those that matter. */
static void report_modules(struct profile *p)
{
    struct nameless *list = NULL;
    size_t count = 0, capacity = 0;
    const struct spex_totals *totals = spex_analysis_totals(p->analysis);
    struct spex_symbols *symbols = spex_analysis_symbols(p->analysis);
    struct spex_module *m;
    size_t quiet = 0;
    /* a filter by name may have matched nothing because names are missing */
    bool filtered = totals->kept > 0;
    uint64_t all = filtered ? totals->kept : totals->records;
    for (size_t i = 0; (m = spex_symbols_nth(symbols, i)); i++) {
        uint64_t samples = spex_module_unnamed(m, filtered);
        const char *problem = samples ? spex_module_problem(m) : NULL;
        char *anonymous = NULL, text[400];
        if (samples)
            anonymous_problem(p, m, text);
        if (samples && *text)
            problem = anonymous = memory_copy(text);
        if (!problem)
            continue;
        if (samples * 200 < all) {
            quiet++;
            free(anonymous);
            continue;
        }
        list = memory_grow(list, count, &capacity, sizeof *list);
        list[count++] = (struct nameless){samples, spex_module_path(m), problem, anonymous, m};
    }
    if (count)
        qsort(list, count, sizeof *list, by_samples);
    const size_t most = p->options->verbose ? count : NOTES_MOST - 1;
    for (size_t i = 0; i < count && i < most; i++) {
        char *package = list[i].own ? NULL : spex_module_package(list[i].module);
        const char *remedy = list[i].own ? "" : remedy_words(spex_module_remedy(list[i].module));
        cli_note("%.1f%% of samples: %s%s%s%s", 100.0 * (double)list[i].samples / (double)all,
                 list[i].problem, remedy, package ? "; or run " : "", package ? package : "");
        free(package);
    }
    for (size_t i = 0; i < count; i++)
        free(list[i].own);
    free(list);
    if (count > most)
        cli_note("%zu more file%s without full symbols (-v)", count - most + quiet,
                 count - most + quiet == 1 ? "" : "s");
    else if (quiet)
        cli_note("%zu more file%s without full symbols, each below 0.5%% of samples", quiet,
                 quiet == 1 ? "" : "s");
}

/* Reports Data Source packets that no table explains: once, since levels are guessed then. */
static void report_sources(struct profile *p)
{
    const struct spex_perfdata *file = spex_analysis_file(p->analysis);
    uint64_t midr = spex_analysis_sampling(p->analysis)->midr;
    if (!spex_analysis_totals(p->analysis)->with_source)
        return;
    if (!midr && file) { /* with several kinds of core, the first one without a table */
        const struct spex_perf_info *info = spex_perfdata_info(file);
        for (size_t i = 0; i < info->cpu_count; i++) {
            midr = info->cpus[i].midr;
            if (!spex_cpu_has_sources(spex_cpu_find(midr)))
                break;
        }
    }
    const struct spex_cpu_model *cpu = spex_cpu_find(midr);
    if (spex_cpu_has_sources(cpu))
        return;
    if (midr)
        cli_note("no table of data sources for %s (MIDR 0x%08llx): cache levels are "
                 "taken from the events",
                 spex_cpu_name(cpu), (unsigned long long)midr);
    else
        cli_note("the CPU is not known, so cache levels are taken from the events; "
                 "--midr VALUE names it");
}

/* A profile of something other than SPE is a mistake; says what it contains. */
static bool report_no_spe(const struct spex_part *part)
{
    const struct spex_perfdata *file = part->file;
    const struct spex_perf_info *info = file ? spex_perfdata_info(file) : NULL;
    struct out events;
    char a[32];
    if (!info || info->aux_bytes || part->totals->records)
        return false;
    if (!info->samples && spex_perfdata_problem_count(file)) {
        cli_error("%s: no SPE data is left to read in it; copy it again, or record again",
                  part->name);
        return true;
    }
    out_init(&events, -1);
    for (size_t i = 0; i < spex_perfdata_attr_count(file) && i < 8; i++) {
        const char *name = spex_perfdata_attr(file, i)->name;
        out_printf(&events, "%s%s", i ? ", " : " of ", *name ? name : "an event without a name");
    }
    cli_error(
        "%s holds no SPE data, but %s sample%s%.*s; record with -e arm_spe// (spex record, or "
        "perf record on a machine with SPE)",
        part->name, text_count(a, info->samples), info->samples == 1 ? "" : "s", (int)events.size,
        events.size ? events.data : "");
    out_fini(&events);
    return true;
}

void profile_problem(const char *name, const struct spex_perf_problem *problem)
{
    cli_error("%s: byte %llu: %s%s", name, (unsigned long long)problem->offset, problem->text,
              problem->status == SPEX_NO_MEMORY ? remedy_words(SPEX_REMEDY_MEMORY) : "");
}

/* Reports what was wrong with a file; returns the exit status. */
static int report_part(const struct spex_part *part)
{
    const struct spex_totals *t = part->totals;
    int status = CLI_OK;
    for (size_t i = 0; part->file && i < spex_perfdata_problem_count(part->file); i++) {
        const struct spex_perf_problem *problem = spex_perfdata_problem(part->file, i);
        profile_problem(part->name, problem);
        status = CLI_DATA;
    }
    if (t->damaged) {
        cli_error("%s: byte %llu: %s; %llu place%s damaged, %llu bytes skipped, the rest was "
                  "read",
                  part->name, (unsigned long long)t->first_damage,
                  t->damage_reason ? t->damage_reason : "damaged record",
                  (unsigned long long)t->damaged, t->damaged == 1 ? "" : "s",
                  (unsigned long long)t->damaged_bytes);
        status = CLI_DATA;
    }
    return report_no_spe(part) ? CLI_DATA : status;
}

void profile_losses(const char *name, uint64_t lost, uint64_t truncated)
{
    char events[32], buffers[32];
    if (lost || truncated)
        cli_note("%s: not all was recorded: %s events lost, %s buffers truncated", name,
                 text_count(events, lost), text_count(buffers, truncated));
}

int profile_close(struct profile *p)
{
    int status = p->status;
    if (p->analysis) {
        struct spex_part part;
        int error = out_fini(&p->out);
        if (error) {
            cli_error("cannot write: %s", strerror(error));
            status = CLI_DATA;
        }
        for (size_t i = 0; spex_analysis_part(p->analysis, i, &part); i++)
            if (report_part(&part))
                status = CLI_DATA;
        const struct spex_totals *t = spex_analysis_totals(p->analysis);
        if (!p->told)
            profile_losses(p->name, t->lost, t->truncated);
        report_modules(p);
        report_sources(p);
    }
    spex_analysis_close(p->analysis);
    p->analysis = NULL;
    forget_files(p);
    return status;
}

struct table_options profile_table(const struct profile *p)
{
    enum { NAME = 120 }; /* longer names are cut; -v shows more */
    return (struct table_options){.format = (enum table_format)p->options->format,
                                  .width = p->width,
                                  .colour = p->colour,
                                  .whole_names = p->whole_names,
                                  .name_width = p->whole_names && !p->options->verbose ? NAME : 0};
}

int profile_keys(const char *list, enum spex_key *keys, size_t *count)
{
    *count = 0;
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        if (*count == SPEX_KEYS_MAX)
            return cli_usage("--sort: at most %d keys", SPEX_KEYS_MAX);
        if (!spex_key_parse(p, n, &keys[*count])) {
            const struct perf_word *perf = perf_word("--sort", p, n);
            if (perf)
                return cli_usage("--sort: '%.*s': %s", (int)n, p, perf->says);
            char names[400] = "";
            for (unsigned k = 0; k < SPEX_KEY_COUNT; k++)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k ? ", " : "",
                         spex_key_name(k));
            return cli_usage("--sort: '%.*s' is not one of %s", (int)n, p, names);
        }
        ++*count;
        p += n;
        if (!*p)
            return CLI_OK;
    }
}

int profile_wrong_field(const char *list)
{
    int n = (int)strcspn(list, ",");
    const struct perf_word *perf = perf_word("--fields", list, (size_t)n);
    return cli_usage("--fields: '%.*s' is not a column here; %s", n, list,
                     perf ? perf->says : "see 'spex help fields'");
}

double ratio_of(uint64_t count, uint64_t total)
{
    return total ? (double)count / (double)total : NAN;
}
