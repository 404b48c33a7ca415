/* The results of spex check in memory: functions, lines, and medians over layouts. */
#include "check.h"

#include "base/memory.h"
#include "base/order.h"

#include <stdlib.h>
#include <string.h>

const char *const check_names[CHECK_COUNTS] = {
    "cycles", "instructions", "l1d_misses", "l2_misses", "llc_misses", "tlb_walks", "mispredicts"};
const char *const check_headings[CHECK_COUNTS] = {
    "cycles", "instructions", "L1 misses", "L2 misses", "LLC misses", "TLB walks", "mispredicts"};

/* ---- plans ---- */

char *check_keep(struct check_plan *plan, char *text)
{
    plan->texts =
        memory_grow(plan->texts, plan->text_count, &plan->text_capacity, sizeof *plan->texts);
    return plan->texts[plan->text_count++] = text;
}

struct check_case *check_add(struct check_plan *plan)
{
    plan->items = memory_grow(plan->items, plan->count, &plan->capacity, sizeof *plan->items);
    memset(&plan->items[plan->count], 0, sizeof *plan->items);
    return &plan->items[plan->count++];
}

void check_plan_free(struct check_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->items[i].environment.items);
        free(plan->items[i].model.items);
    }
    for (size_t i = 0; i < plan->text_count; i++)
        free(plan->texts[i]);
    free(plan->texts);
    free(plan->items);
}

/* ---- results ---- */

void check_result_free(struct check_result *r)
{
    for (size_t i = 0; i < r->function_count; i++) {
        for (size_t k = 0; k < r->functions[i].line_count; k++)
            free(r->functions[i].lines[k].file);
        free(r->functions[i].lines);
        free(r->functions[i].name);
    }
    free(r->functions);
    free(r->name);
    free(r->cpu);
    memset(r, 0, sizeof *r);
}

void check_results_free(struct check_results *results)
{
    for (size_t i = 0; i < results->count; i++)
        check_result_free(&results->items[i]);
    free(results->items);
    memset(results, 0, sizeof *results);
}

struct check_result *check_results_add(struct check_results *all, const char *name, const char *cpu)
{
    all->items = memory_grow(all->items, all->count, &all->capacity, sizeof *all->items);
    struct check_result *r = &all->items[all->count++];
    *r = (struct check_result){.name = memory_copy(name), .cpu = memory_copy(cpu)};
    return r;
}

struct check_result *check_results_find(const struct check_results *all, const char *name,
                                        const char *cpu)
{
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(all->items[i].name, name) && !strcmp(all->items[i].cpu, cpu))
            return &all->items[i];
    return NULL;
}

struct check_function *check_function_add(struct check_result *r, const char *name)
{
    r->functions =
        memory_grow(r->functions, r->function_count, &r->function_capacity, sizeof *r->functions);
    struct check_function *f = &r->functions[r->function_count++];
    *f = (struct check_function){.name = memory_copy(name)};
    return f;
}

struct check_line *check_line_add(struct check_function *f, const char *file, unsigned line)
{
    f->lines = memory_grow(f->lines, f->line_count, &f->line_capacity, sizeof *f->lines);
    struct check_line *l = &f->lines[f->line_count++];
    *l = (struct check_line){.file = memory_copy(file), .line = line};
    return l;
}

/* ---- medians ---- */

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return ORDER(x, y);
}

/* For an even number, the lower of the two in the middle, so that the result was really counted. */
static uint64_t median(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, by_number);
    return values[(count - 1) / 2];
}

static struct check_function *function_of(const struct check_result *r, const char *name)
{
    for (size_t i = 0; i < r->function_count; i++)
        if (!strcmp(r->functions[i].name, name))
            return &r->functions[i];
    return NULL;
}

static struct check_line *line_of(const struct check_function *f, const struct check_line *like)
{
    for (size_t i = 0; f && i < f->line_count; i++)
        if (f->lines[i].line == like->line && !strcmp(f->lines[i].file, like->file))
            return &f->lines[i];
    return NULL;
}

/* The first layout decides which functions and lines exist: code does not move. */
static void median_function(struct check_function *f, const struct check_result *results,
                            size_t count, uint64_t *values)
{
    for (unsigned n = 0; n < CHECK_COUNTS; n++) {
        for (size_t i = 0; i < count; i++) {
            const struct check_function *other = function_of(&results[i], f->name);
            values[i] = other ? other->counts[n] : 0;
        }
        f->counts[n] = median(values, count);
    }
    for (size_t l = 0; l < f->line_count; l++) {
        for (size_t i = 0; i < count; i++) {
            const struct check_line *other =
                line_of(function_of(&results[i], f->name), &f->lines[l]);
            values[i] = other ? other->cycles : 0;
        }
        f->lines[l].cycles = median(values, count);
    }
}

enum { NUMBERS = CHECK_COUNTS + 2 };

static uint64_t *number_of(struct check_result *r, unsigned n)
{
    return n < CHECK_COUNTS ? &r->counts[n] : n == CHECK_COUNTS ? &r->kernel : &r->time;
}

void check_median(struct check_result *results, size_t count)
{
    struct check_result *r = &results[0];
    uint64_t *values = memory_get(count, sizeof *values);
    struct check_function *functions = memory_get(r->function_count + 1, sizeof *functions);
    for (size_t f = 0; f < r->function_count; f++) { /* the first layout is one of those compared */
        functions[f] = r->functions[f];
        functions[f].lines = memory_get(functions[f].line_count + 1, sizeof *functions[f].lines);
        memcpy(functions[f].lines, r->functions[f].lines,
               functions[f].line_count * sizeof *functions[f].lines);
        median_function(&functions[f], results, count, values);
    }
    for (size_t f = 0; f < r->function_count; f++)
        free(r->functions[f].lines);
    free(r->functions);
    r->functions = functions;
    r->function_capacity = r->function_count + 1;
    for (unsigned n = 0; n < NUMBERS; n++) {
        for (size_t i = 0; i < count; i++)
            values[i] = *number_of(&results[i], n);
        *number_of(r, n) = median(values, count);
        if (n == CHECK_CYCLES) {
            r->low = values[0];
            r->high = values[count - 1];
        }
    }
    r->layouts = count;
    free(values);
}
