/* spex html: one page that shows what happened, for people who would rather look than read. */
#include "profile.h"

#include "base/memory.h"
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct html_options {
    struct profile_options profile;
    const char *output, *title;
};

enum {
    PAGE_MOST = 3000000,
    PAGE_CODE = 160 << 10
}; /* bytes of a page; the part of them that is not data */

static void write_strings(struct json *json, const char *const *list, size_t count)
{
    json_array(json);
    for (size_t i = 0; i < count; i++)
        json_string(json, list[i]);
    json_end(json);
}

/* What was profiled and how; and the filters, so that the page can show the equivalent command. */
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

static int write_profile(struct profile *p, const struct html_options *o, size_t most,
                         struct json *json)
{
    struct report_options options = {.symfs = o->profile.symfs,
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
    report_write(report, json);
    json_end(json);
    report_free(report);
    return CLI_OK;
}

static int write_page(const char *path, const char *title, const struct out *data)
{
    bool standard = !strcmp(path, "-");
    int fd = standard ? STDOUT_FILENO
                      : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    if (fd < 0) {
        cli_error("cannot write %s: %s", path, strerror(errno));
        return CLI_DATA;
    }
    struct out page;
    struct stat st;
    bool regular = !standard && !fstat(fd, &st) && S_ISREG(st.st_mode);
    out_init(&page, fd);
    report_page(&page, title, data->data, data->size);
    int problem = out_fini(&page);
    off_t size = standard ? 0 : lseek(fd, 0, SEEK_CUR);
    if (!standard && close(fd) && !problem)
        problem = errno;
    if (problem) {
        cli_error("cannot write %s: %s", path, strerror(problem));
        if (regular)
            unlink(path); /* half a page shows nothing */
        return CLI_DATA;
    }
    if (!standard)
        cli_note("wrote %s (%.1f MB): open it in a browser", path, (double)size / 1e6);
    return CLI_OK;
}

static int run_html(void *options, int argc, char **argv)
{
    const struct html_options *o = options;
    const bool together = o->profile.inputs.count; /* files of -i are the first profile */
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
        if (!one && (one = profile_keep_input(&p, o->output))) {
            profile_close(&p);
        } else if (!one) {
            one = write_profile(&p, o, (PAGE_MOST - PAGE_CODE) / count, &json);
            p.status = one;
            if (profile_close(&p))
                status = CLI_DATA;
        }
        if (one) {
            out_fini(&data);
            return one;
        }
    }
    json_end(&json);
    json_end(&json);
    int written = data.error ? CLI_DATA : write_page(o->output, title, &data);
    if (data.error)
        cli_error("no memory for the page");
    out_fini(&data);
    return written ? written : status;
}

static const struct cli_option html_options[] = {
    PROFILE_SOURCE_OPTIONS(struct html_options),
    {"output", 'o', CLI_STRING, offsetof(struct html_options, output), "FILE",
     "page to write, - for standard output", "report.html", NULL},
    {"title", 0, CLI_STRING, offsetof(struct html_options, title), "TEXT",
     "title of the page (default: the name of the profile)", NULL, NULL},
#define OPTIONS struct html_options
#include "filter_options.def"
    PROFILE_REPLAY(struct html_options),
    PROFILE_SYMBOL_OPTIONS(struct html_options),
    CLI_THREADS(struct html_options, profile.threads),
    {0},
};

const struct cli_command cli_html = {
    .name = "html",
    .group = CLI_WHY,
    .pages = true,
    .synopsis = "[FILE [OTHER]]",
    .summary = "one page to look at: time, code, memory, sharing, branches, threads",
    .details = "Writes one self-contained page that any browser opens without a network: what was "
               "found, everything over time, functions with their source and instructions, data, "
               "cache lines that threads share, branches. A range of time chosen in the page "
               "filters all of it. A second profile is shown beside the first, with the "
               "differences.",
    .options = html_options,
    .size = sizeof(struct html_options),
    .run = run_html,
};
