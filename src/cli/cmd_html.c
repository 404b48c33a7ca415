/* spex html: writes a page that shows what happened, for people who would rather look than read. */
#include "elapsed.h"
#include "output.h"
#include "profile.h"

#include "base/memory.h"
#include "report/report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct html_options {
    struct profile_options profile;
    const char *output, *mode, *title;
};

enum {
    ELAPSED_ROWS = 20,
    SOURCES_TOLD = 5,
    PAGE_MOST = 3000000,
    PAGE_CODE = 160 << 10
}; /* bytes of a page; how many of them are not data */

static void write_strings(struct json *json, const char *const *list, size_t count)
{
    json_array(json);
    for (size_t i = 0; i < count; i++)
        json_string(json, list[i]);
    json_end(json);
}

/*
 * Writes what was profiled and how; also the filters, so that the page can show the equivalent
 * command.
 */
static void write_about(struct profile *p, struct json *json)
{
    const struct spex_perfdata *file = spex_analysis_file(p->analysis);
    const struct spex_perf_info *info = file ? spex_perfdata_info(file) : NULL;
    profile_members(p, json);
    json_name(json, "filters");
    json_array(json);
    for (size_t i = 0; i < p->filter_count; i++) {
        json_array(json);
        json_string(json, p->filters[i].name);
        json_string(json, p->filters[i].value);
        json_end(json);
    }
    json_end(json);
    if (!info)
        return;
    json_name(json, "command");
    write_strings(json, info->cmdline, info->cmdline_count);
    JSON_MEMBER(json, "host", string, info->hostname);
    JSON_MEMBER(json, "kernel", string, info->osrelease);
    JSON_MEMBER(json, "machine", string, info->cpudesc);
}

/* Warns which source files the page contains: whoever gets the page gets these. */
static int tell_sources(const struct report *report, struct output *output)
{
    const char *file;
    size_t count = 0;
    int status = CLI_OK;
    for (; (file = report_source(report, count)) && !status; count++)
        status = output_from(output, file);
    for (size_t i = 0; i < count && i < SOURCES_TOLD && !status; i++)
        cli_note("the page holds source of %s%s", report_source(report, i),
                 i ? "" : "; --no-source leaves source out");
    if (count > SOURCES_TOLD && !status)
        cli_note("and of %zu more files, which the page lists", count - SOURCES_TOLD);
    return status;
}

static int write_profile(struct profile *p, const struct html_options *o, size_t most,
                         struct output *output, struct json *json)
{
    const struct source_places places = profile_sources(&o->profile);
    struct report_options options = {.sources = &places,
                                     .most = most,
                                     .threads = cli_threads(o->profile.threads),
                                     .filtered = p->filter_count > 0};
    struct report *report;
    struct spex_error error;
    if (report_new(p->analysis, &options, &report, &error)) {
        cli_error("%s", error.text);
        return CLI_DATA;
    }
    json_object_lines(json);
    write_about(p, json);
    struct spex_elapsed *elapsed = elapsed_of(p);
    elapsed_json(elapsed, ELAPSED_ROWS, json);
    spex_elapsed_free(elapsed);
    report_write(report, json);
    json_end(json);
    int status = tell_sources(report, output);
    report_free(report);
    return status;
}

struct page {
    const char *name, *title;
    const struct out *data;
    off_t size;
};

static bool write_page(void *context, int fd)
{
    struct page *p = context;
    struct out out;
    out_init(&out, fd);
    report_page(&out, p->title, p->data->data, p->data->size);
    int problem = out_fini(&out);
    p->size = lseek(fd, 0, SEEK_CUR);
    if (problem)
        cli_error("cannot write %s: %s", p->name, strerror(problem));
    return !problem;
}

static int finish_page(const struct output *output, struct page *p)
{
    if (p->data->error) {
        cli_error("no memory for the page");
        return CLI_DATA;
    }
    int status = output_make(output, write_page, p);
    if (!status && output->stream != STDOUT_FILENO)
        cli_note("wrote %s (%.1f MB): open it in a browser", p->name, (double)p->size / 1e6);
    return status;
}

static int run_html(void *options, int argc, char **argv)
{
    const struct html_options *o = options;
    /* files given with -i together are the first profile */
    const bool together = o->profile.inputs.count;
    const unsigned count = (unsigned)argc + (together || !argc);
    int status = CLI_OK;
    if (count > 2)
        return cli_usage("at most two profiles: one to show and one to compare with it");
    const struct spex_analysis_options more = {.size = sizeof more,
                                               .threads = cli_threads(o->profile.threads)};
    struct profile_options alone = o->profile;
    alone.inputs = (struct cli_list){0};
    char title[1024] = "";
    struct out data;
    struct output output;
    if ((status = output_open(&output, o->output, 0)))
        return status;
    out_init(&data, -1);
    struct json json = json_to(&data);
    json_object_lines(&json);
    JSON_MEMBER(&json, "schema", string, "spex.html.1");
    JSON_MEMBER(&json, "spex", string, SPEX_VERSION);
    json_name(&json, "profiles");
    json_array(&json);
    for (unsigned i = 0; i < count; i++) {
        struct profile p;
        bool first = together && !i;
        int one = profile_open(&p, first ? &o->profile : &alone,
                               first || !argc ? NULL : argv[i - together], &more);
        if (!one && !i)
            snprintf(title, sizeof title, "%s", o->title ? o->title : p.name);
        if (!one && (one = profile_output(&p, &output, o->mode))) {
            profile_close(&p);
        } else if (!one) {
            one = write_profile(&p, o, (PAGE_MOST - PAGE_CODE) / count, &output, &json);
            p.status = one;
            if (profile_close(&p))
                status = CLI_DATA;
        }
        if (one) {
            out_fini(&data);
            output_close(&output);
            return one;
        }
    }
    json_end(&json);
    json_end(&json);
    struct page page = {.name = o->output, .title = title, .data = &data};
    int written = finish_page(&output, &page);
    out_fini(&data);
    output_close(&output);
    return written ? written : status;
}

static const struct cli_option html_options[] = {
    PROFILE_SOURCE_OPTIONS(struct html_options),
    {"output", 'o', CLI_STRING, offsetof(struct html_options, output), "FILE",
     "page to write, - for standard output", "report.html", NULL},
    OUTPUT_MODE(offsetof(struct html_options, mode)),
    {"title", 0, CLI_STRING, offsetof(struct html_options, title), "TEXT",
     "title of the page (default: the name of the profile)", NULL, NULL},
#define OPTIONS struct html_options
#include "filter_options.def"
    PROFILE_REPLAY(struct html_options),
    PROFILE_SYMBOL_OPTIONS(struct html_options),
    PROFILE_TEXT_OPTIONS(struct html_options),
    CLI_THREADS(struct html_options, profile.threads),
    {0},
};

const struct cli_command cli_html = {
    .name = "html",
    .group = CLI_WHY,
    .pages = true,
    .synopsis = "[FILE [OTHER]]",
    .summary = "one self-contained page: time, code, memory, sharing, branches",
    .details = "Writes one self-contained page that any browser opens without a network: what was "
               "found, everything over time, functions with their source and instructions, data, "
               "cache lines that threads share, branches. A range of time chosen in the page "
               "filters all of it. A second profile is shown beside the first, with the "
               "differences.",
    .options = html_options,
    .size = sizeof(struct html_options),
    .run = run_html,
};
