/* Sums the exact counts of a run from instructions to functions and lines. */
#include "check.h"

#include "base/memory.h"
#include "base/order.h"

#include "export/truth.h"

#include <spex/analysis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    char *function;
    const char *file; /* or NULL */
    unsigned line;
    uint64_t counts[CHECK_COUNTS];
};

struct collecting {
    struct spex_analysis *analysis;
    struct row *rows;
    size_t count, capacity;
};

/* A function's name; for code without one its file's name, since addresses mean nothing later. */
static char *name_of(const struct spex_place *place)
{
    char *name = NULL;
    if (place->symbol && place->symbol->name)
        return memory_copy(place->symbol->name);
    if (asprintf(&name, "[%s]", place->module ? spex_module_name(place->module) : "unknown") < 0)
        name = NULL;
    return memory_checked(name);
}

static const char *base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash && slash[1] ? slash + 1 : path;
}

static void add(void *context, const struct truth_row *row)
{
    struct collecting *c = context;
    struct spex_place place;
    struct spex_line line = {0};
    spex_analysis_locate(c->analysis, row->pid, row->pc, &place);
    if (place.module && !spex_module_line(place.module, place.address, &line))
        line = (struct spex_line){0};
    c->rows = memory_grow(c->rows, c->count, &c->capacity, sizeof *c->rows);
    c->rows[c->count++] =
        (struct row){.function = name_of(&place),
                     .file = base_name(line.file),
                     .line = line.line,
                     .counts = {[CHECK_CYCLES] = row->counts[TRUTH_CYCLES],
                                [CHECK_INSTRUCTIONS] = row->counts[TRUTH_OPERATIONS],
                                [CHECK_L1] = row->counts[TRUTH_L1_MISS],
                                [CHECK_L2] = row->counts[TRUTH_L2_MISS],
                                [CHECK_LLC] = row->counts[TRUTH_LLC_MISS],
                                [CHECK_WALKS] = row->counts[TRUTH_WALK],
                                [CHECK_MISPREDICTS] = row->counts[TRUTH_MISPREDICT]}};
}

static int by_place(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->function, y->function);
    if (!order)
        order = strcmp(x->file ? x->file : "", y->file ? y->file : "");
    return order ? order : ORDER(x->line, y->line);
}

static int by_cycles(const void *a, const void *b)
{
    const struct check_function *x = a, *y = b;
    if (x->counts[CHECK_CYCLES] != y->counts[CHECK_CYCLES])
        return x->counts[CHECK_CYCLES] > y->counts[CHECK_CYCLES] ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void add_up(uint64_t to[CHECK_COUNTS], const uint64_t counts[CHECK_COUNTS])
{
    for (unsigned n = 0; n < CHECK_COUNTS; n++)
        to[n] += counts[n];
}

/* Rows are ordered by function, file and line. Lines with fewer cycles than this are left out. */
static void by_function(const struct collecting *c, uint64_t least, struct check_result *r)
{
    struct check_function *f = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct row *row = &c->rows[i];
        if (!i || strcmp(row->function, c->rows[i - 1].function))
            f = check_function_add(r, row->function);
        add_up(f->counts, row->counts);
        struct check_line *last = f->line_count ? &f->lines[f->line_count - 1] : NULL;
        if (!row->file || !row->line)
            continue;
        if (last && last->line == row->line && !strcmp(last->file, row->file)) {
            last->cycles += row->counts[CHECK_CYCLES];
            continue;
        }
        if (last && last->cycles < least) {
            free(last->file);
            f->line_count--;
        }
        check_line_add(f, row->file, row->line)->cycles = row->counts[CHECK_CYCLES];
    }
    for (size_t i = 0; i < r->function_count; i++) {
        f = &r->functions[i];
        if (f->line_count && f->lines[f->line_count - 1].cycles < least)
            free(f->lines[--f->line_count].file);
    }
}

/* Keeps the largest first; combines functions that are too small. */
static void keep_large(struct check_result *r)
{
    uint64_t small[CHECK_COUNTS] = {0};
    size_t kept = 0;
    qsort(r->functions, r->function_count, sizeof *r->functions, by_cycles);
    while (kept < r->function_count &&
           r->functions[kept].counts[CHECK_CYCLES] * 1000 >= r->counts[CHECK_CYCLES])
        kept++;
    for (size_t i = kept; i < r->function_count; i++) {
        add_up(small, r->functions[i].counts);
        for (size_t k = 0; k < r->functions[i].line_count; k++)
            free(r->functions[i].lines[k].file);
        free(r->functions[i].lines);
        free(r->functions[i].name);
    }
    bool any = kept < r->function_count;
    r->function_count = kept;
    if (any)
        memcpy(check_function_add(r, CHECK_OTHERS)->counts, small, sizeof small);
}

static void make_result(struct collecting *c, struct check_result *r)
{
    for (size_t i = 0; i < c->count; i++)
        add_up(r->counts, c->rows[i].counts);
    if (r->kernel) { /* the kernel has no row */
        check_function_add(r, "[kernel]")->counts[CHECK_CYCLES] = r->kernel;
        r->counts[CHECK_CYCLES] += r->kernel;
    }
    if (c->count)
        qsort(c->rows, c->count, sizeof *c->rows, by_place);
    by_function(c, r->counts[CHECK_CYCLES] / 1000 + 1, r);
    keep_large(r);
}

static void none(void *context, const struct spex_sample *samples, size_t count)
{
    (void)context;
    (void)samples;
    (void)count;
}

int check_collect(const char *profile, bool kernel, struct check_result *result)
{
    char truth[4096];
    struct spex_error error;
    struct spex_symbols_options symbols = {.size = sizeof symbols};
    struct spex_analysis_options options = {
        .size = sizeof options, .want = SPEX_WANT_SYMBOL, .symbols = &symbols};
    struct collecting c = {0};
    snprintf(truth, sizeof truth, "%.4000s.truth", profile);
    enum spex_status s = spex_analysis_open(profile, &options, &c.analysis, &error);
    if (!s)
        s = spex_analysis_run(c.analysis, none, NULL, &error);
    if (!s)
        s = truth_read(truth, add, &c, &error);
    if (!s && kernel)
        s = truth_read_kernel(truth, &result->kernel, &error);
    if (!s)
        make_result(&c, result);
    else
        cli_error("%s", error.text);
    for (size_t i = 0; i < c.count; i++)
        free(c.rows[i].function);
    free(c.rows);
    spex_analysis_close(c.analysis);
    return s ? CLI_DATA : CLI_OK;
}
