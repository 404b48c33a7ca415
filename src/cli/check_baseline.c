/* Reads and writes the baseline of spex check: docs/check.md, "The baseline". */
#include "check.h"
#include "output.h"

#include "base/json.h"
#include "base/json_read.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char schema[] = "spex.baseline.1", family[] = "spex.baseline.";
enum { MOST = 64 << 20 };

/* ---- writing ---- */

static void put_counts(struct json *to, const uint64_t counts[CHECK_COUNTS])
{
    for (unsigned n = 0; n < CHECK_COUNTS; n++) {
        json_name(to, check_names[n]);
        json_u64(to, counts[n]);
    }
}

/* Writes one line of the file. */
static void put_function(struct json *to, const struct check_function *f)
{
    json_object(to);
    JSON_MEMBER(to, "name", string, f->name);
    put_counts(to, f->counts);
    json_name(to, "lines");
    json_array(to);
    for (size_t i = 0; i < f->line_count; i++) {
        json_array(to);
        json_string(to, f->lines[i].file);
        json_u64(to, f->lines[i].line);
        json_u64(to, f->lines[i].cycles);
        json_end(to);
    }
    json_end(to);
    json_end(to);
}

static void put_result(struct json *to, const struct check_result *r)
{
    json_object_lines(to);
    JSON_MEMBER(to, "name", string, r->name);
    JSON_MEMBER(to, "cpu", string, r->cpu);
    JSON_MEMBER(to, "model", string, r->model);
    JSON_MEMBER(to, "layouts", u64, r->layouts);
    put_counts(to, r->counts);
    JSON_MEMBER(to, "cycles_low", u64, r->low);
    JSON_MEMBER(to, "cycles_high", u64, r->high);
    JSON_MEMBER(to, "kernel_cycles", u64, r->kernel);
    JSON_MEMBER(to, "time_ns", u64, r->time);
    json_name(to, "functions");
    json_array_lines(to);
    for (size_t i = 0; i < r->function_count; i++)
        put_function(to, &r->functions[i]);
    json_end(to);
    json_end(to);
}

static bool put_all(void *context, int fd)
{
    const struct check_results *results = context;
    struct out out;
    out_init(&out, fd);
    struct json to = json_to(&out);
    json_object_lines(&to);
    JSON_MEMBER(&to, "schema", string, schema);
    JSON_MEMBER(&to, "spex", string, SPEX_VERSION);
    json_name(&to, "benchmarks");
    json_array_lines(&to);
    for (size_t i = 0; i < results->count; i++)
        put_result(&to, &results->items[i]);
    json_end(&to);
    json_end(&to);
    int error = out_fini(&out);
    if (error)
        cli_error("cannot write: %s", strerror(error));
    return !error;
}

int check_baseline_write(const char *path, const struct check_results *results)
{
    struct output output;
    int status =
        output_open(&output, path, 0); /* overwriting is safe: the old file is in the repository */
    if (!status)
        status = output_make(&output, put_all, (void *)(uintptr_t)results);
    output_close(&output);
    return status;
}

/* ---- reading ---- */

static bool get_counts(const struct json_value *from, uint64_t counts[CHECK_COUNTS])
{
    for (unsigned n = 0; n < CHECK_COUNTS; n++)
        if (!json_get_u64(json_member(from, check_names[n]), &counts[n]))
            return false;
    return true;
}

static bool get_line(const struct json_value *v, struct check_function *f)
{
    const char *file;
    uint64_t line, cycles;
    const struct json_value *second = v->first ? v->first->next : NULL;
    if (v->kind != JSON_ARRAY || !json_get_text(v->first, &file) || !json_get_u64(second, &line) ||
        line > UINT32_MAX || !json_get_u64(second->next, &cycles))
        return false;
    check_line_add(f, file, (unsigned)line)->cycles = cycles;
    return true;
}

static bool get_function(const struct json_value *v, struct check_result *r)
{
    const char *name;
    const struct json_value *lines = json_member(v, "lines");
    if (!json_get_text(json_member(v, "name"), &name) || !lines || lines->kind != JSON_ARRAY)
        return false;
    struct check_function *f = check_function_add(r, name);
    for (const struct json_value *l = lines->first; l; l = l->next)
        if (!get_line(l, f))
            return false;
    return get_counts(v, f->counts);
}

/* Returns NULL, or what is wrong. */
static const char *get_result(const struct json_value *v, struct check_results *all)
{
    const char *name, *cpu, *model;
    if (!json_get_text(json_member(v, "name"), &name) ||
        !json_get_text(json_member(v, "cpu"), &cpu))
        return "a benchmark has no name or no cpu";
    if (check_results_find(all, name, cpu))
        return "a benchmark comes twice";
    struct check_result *r = check_results_add(all, name, cpu);
    if (!json_get_text(json_member(v, "model"), &model) || strlen(model) >= sizeof r->model)
        return "model is missing";
    strcpy(r->model, model);
    if (!get_counts(v, r->counts) || !json_get_u64(json_member(v, "layouts"), &r->layouts) ||
        !json_get_u64(json_member(v, "cycles_low"), &r->low) ||
        !json_get_u64(json_member(v, "cycles_high"), &r->high) ||
        !json_get_u64(json_member(v, "kernel_cycles"), &r->kernel) ||
        !json_get_u64(json_member(v, "time_ns"), &r->time))
        return "a number is missing, negative, or not whole";
    const struct json_value *functions = json_member(v, "functions");
    if (!functions || functions->kind != JSON_ARRAY)
        return "functions are missing";
    for (const struct json_value *f = functions->first; f; f = f->next)
        if (!get_function(f, r))
            return "a function is not whole";
    return NULL;
}

static int refuse(const char *path, const char *why)
{
    cli_error("%s is not a baseline that can be read: %s; take it from the repository again, or "
              "make it anew with --update",
              path, why);
    return CLI_DATA;
}

static int get_all(const char *path, const struct json_value *root, struct check_results *results)
{
    const char *is = NULL, *spex = NULL, *wrong = NULL;
    const struct json_value *list = json_member(root, "benchmarks");
    if (!json_get_text(json_member(root, "schema"), &is))
        return refuse(path, "it names no schema: it is another kind of file");
    if (strcmp(is, schema)) {
        char why[200];
        bool newer = !strncmp(is, family, sizeof family - 1);
        snprintf(why, sizeof why,
                 newer ? "its schema is %.60s, of a newer spex; spex %s reads %s"
                       : "its schema is %.60s, of another kind of file; spex %s reads %s",
                 is, SPEX_VERSION, schema);
        if (newer)
            cli_error("%s: %s; install that spex", path, why);
        return newer ? CLI_DATA : refuse(path, why);
    }
    if (!json_get_text(json_member(root, "spex"), &spex) || !list || list->kind != JSON_ARRAY)
        return refuse(path, "spex or benchmarks are missing");
    snprintf(results->spex, sizeof results->spex, "%s", spex);
    for (const struct json_value *v = list->first; v && !wrong; v = v->next)
        wrong = get_result(v, results);
    return wrong ? refuse(path, wrong) : CLI_OK;
}

int check_baseline_read(const char *path, struct check_results *results, bool *there)
{
    struct cli_input input;
    struct json_document *document;
    struct spex_error error;
    *there = !access(path, F_OK);
    if (!*there && errno == ENOENT)
        return CLI_OK;
    if (!cli_load(path, &input))
        return CLI_DATA;
    int status;
    if (input.size > MOST) {
        status = refuse(path, "it is larger than 64 MB");
    } else if (json_read(input.size ? (char *)input.data : "", input.size, &document, &error)) {
        status = refuse(path, error.text);
    } else {
        status = get_all(path, json_root(document), results);
        json_forget(document);
    }
    cli_unload(&input);
    return status;
}

void check_baseline_merge(struct check_results *old, struct check_results *new)
{
    for (size_t i = 0; i < new->count; i++) {
        struct check_result *r = &new->items[i], *at = check_results_find(old, r->name, r->cpu);
        if (at)
            check_result_free(at);
        else
            at = check_results_add(old, "", "");
        free(at->name);
        free(at->cpu);
        *at = *r;
    }
    free(new->items);
    memset(new, 0, sizeof *new);
}
