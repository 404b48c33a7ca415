#include "whatif.h"

#include "ideal.h"

#include "base/memory.h"

#include "guest/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- variants ---- */

struct choice { /* a --model option with several values */
    const char *key;
    size_t key_length;
    const char *values[WHATIF_VARIANTS];
    size_t count;
};

static void add_word(struct cli_list *list, const char *word)
{
    list->items = memory_grow(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count++] = word;
}

/* Makes KEY=VALUE, which the plan keeps. */
static const char *pair_text(struct whatif_plan *plan, const struct choice *c, size_t value)
{
    char *at = plan->text + plan->text_used;
    plan->text_used +=
        (size_t)sprintf(at, "%.*s=%s", (int)c->key_length, c->key, c->values[value]) + 1;
    return at;
}

/* Splits text at each mark; returns the number of parts. */
static size_t cut(char *text, char mark, const char *parts[WHATIF_VARIANTS])
{
    size_t n = 0;
    for (char *next; text && n < WHATIF_VARIANTS; text = next) {
        next = strchr(text, mark);
        if (next)
            *next++ = '\0';
        parts[n++] = text;
    }
    return n;
}

/* Adds the model of a variant: fixed words, then one value of each choice. */
static int add_variant(struct whatif_plan *plan, const char *cpu, const struct cli_list *fixed,
                       const struct choice *choices, size_t choice_count, size_t which,
                       size_t value)
{
    if (plan->count == WHATIF_VARIANTS)
        return cli_usage("more than %d variants", WHATIF_VARIANTS);
    struct whatif_variant *v = &plan->variants[plan->count];
    bool first = !plan->count;
    *v = (struct whatif_variant){.cpu = cpu};
    add_word(&v->model, "full");
    for (size_t i = 0; i < fixed->count; i++)
        add_word(&v->model, fixed->items[i]);
    size_t used =
        (size_t)snprintf(v->name, sizeof v->name, "%s", first || which == SIZE_MAX ? cpu : "");
    for (size_t i = 0; i < choice_count; i++) {
        const char *word = pair_text(plan, &choices[i], i == which ? value : 0);
        add_word(&v->model, word);
        if ((first || i == which) && used < sizeof v->name)
            used += (size_t)snprintf(v->name + used, sizeof v->name - used, "%s%s", used ? " " : "",
                                     word);
    }
    plan->count++;
    struct cpu_choice parsed;
    struct spex_error error;
    if (cpu_parse(cpu, &parsed, &error))
        return cli_usage("--cpu: %s", error.text);
    for (size_t i = 0; i < v->model.count; i++)
        if (uarch_config_set(&parsed.model, v->model.items[i], &error))
            return cli_usage("--model: %s", error.text);
    return CLI_OK;
}

int whatif_add_ideal(struct whatif_plan *plan, const char *spec)
{
    int status = ideal_check(spec);
    if (!status && plan->count == WHATIF_VARIANTS)
        status = cli_usage("more than %d variants", WHATIF_VARIANTS);
    if (status)
        return status;
    struct whatif_variant *v = &plan->variants[plan->count++];
    *v = (struct whatif_variant){.cpu = plan->variants[0].cpu, .ideal = spec};
    snprintf(v->name, sizeof v->name, "%s", spec);
    for (size_t i = 0; i < plan->variants[0].model.count; i++)
        add_word(&v->model, plan->variants[0].model.items[i]);
    if (ideal_large_pages(spec))
        add_word(&v->model, "page.size=2M");
    return CLI_OK;
}

int whatif_plan(const char *cpus, const struct cli_list *words, const struct cli_list *ideals,
                bool findings, struct whatif_plan *plan)
{
    struct choice choices[WHATIF_VARIANTS] = {0};
    struct cli_list fixed = {0};
    const char *cpu[WHATIF_VARIANTS];
    size_t size = strlen(cpus) + 1, n = 0;
    for (size_t i = 0; i < words->count; i++)
        size += strlen(words->items[i]) + 1;
    *plan = (struct whatif_plan){.text = memory_get(size * (WHATIF_VARIANTS + 1), 1)};
    strcpy(plan->text, cpus);
    size_t cpu_count = cut(plan->text, ',', cpu);
    plan->text_used = strlen(cpus) + 1;
    for (size_t i = 0; i < words->count; i++) {
        char *word = strcpy(plan->text + plan->text_used, words->items[i]), *equals;
        plan->text_used += strlen(word) + 1;
        equals = strchr(word, '=');
        if (!equals || !strchr(equals, ':') || n == WHATIF_VARIANTS) {
            add_word(&fixed, word);
            continue;
        }
        choices[n] = (struct choice){.key = word, .key_length = (size_t)(equals - word)};
        choices[n].count = cut(equals + 1, ':', choices[n].values);
        n++;
    }
    int status = add_variant(plan, cpu[0], &fixed, choices, n, SIZE_MAX, 0);
    if (!status && (ideals->count || findings) && (cpu_count > 1 || n))
        status = cli_usage("%s is compared with one CPU and one model: leave other CPUs and values "
                           "out",
                           findings ? "--findings" : "--ideal");
    for (size_t i = 0; !status && i < ideals->count; i++)
        status = whatif_add_ideal(plan, ideals->items[i]);
    for (size_t i = 1; !status && i < cpu_count; i++)
        status = add_variant(plan, cpu[i], &fixed, choices, n, SIZE_MAX, 0);
    for (size_t i = 0; !status && i < n; i++)
        for (size_t k = 1; !status && k < choices[i].count; k++)
            status = add_variant(plan, cpu[0], &fixed, choices, n, i, k);
    free(fixed.items);
    if (!status && plan->count < 2 && !findings)
        status = cli_usage("nothing to compare: give several CPUs (--cpu A,B) or several values "
                           "of something (--model page.size=4K:2M), or say what is to be ideal "
                           "(--ideal loads=FUNCTION)");
    return status;
}

void whatif_plan_free(struct whatif_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->variants[i].model.items);
    free(plan->text);
}

/* ---- runs ---- */

/* Finds what the variants of a program make ideal, from its first run. */
static int find_ideal(const struct profile_options *reading, const struct whatif_plan *plan,
                      struct batch_run *runs)
{
    struct spex_analysis_options more = {.size = sizeof more, .want = SPEX_WANT_BASE};
    struct profile p;
    int status = profile_open(&p, reading, runs[0].data, &more);
    if (status)
        return status;
    p.label = runs[0].argv[0];
    for (size_t v = 1; v < plan->count && !status; v++) {
        struct engine_ideal *ranges;
        status = ideal_find(plan->variants[v].ideal, &p, &ranges, &runs[v].options.ideal_count);
        runs[v].options.ideal = ranges; /* valid until the command ends */
    }
    p.quiet = true;
    spex_analysis_close(p.analysis);
    p.analysis = NULL;
    out_fini(&p.out);
    profile_close(&p);
    return status;
}

static void fill_runs(const struct run_options *options, const struct whatif_plan *plan,
                      char ***programs, size_t all, struct batch_run *runs)
{
    for (size_t i = 0; i < all; i++) {
        const struct whatif_variant *variant = &plan->variants[i % plan->count];
        if (runs[i].done)
            continue;
        runs[i] = (struct batch_run){
            .options = *options, .argv = programs[i / plan->count], .show = i % plan->count == 0};
        runs[i].options.cpu = variant->cpu;
        runs[i].options.model = variant->model;
    }
}

int whatif_run(const struct run_options *options, const struct whatif_plan *plan, char ***programs,
               size_t program_count, unsigned at_a_time, const char *place, struct batch_run *runs)
{
    size_t all = plan->count * program_count;
    fill_runs(options, plan, programs, all, runs);
    return batch_do(runs, all, at_a_time, place, "variants");
}

int whatif_begin(const struct run_options *options, const struct whatif_plan *plan,
                 char ***programs, size_t program_count, unsigned at_a_time, const char *place,
                 struct batch_run *runs)
{
    size_t all = plan->count * program_count;
    fill_runs(options, plan, programs, all, runs);
    for (size_t i = 0; i < all; i++)
        runs[i].done = i % plan->count; /* only the first variant for now */
    int status = batch_do(runs, all, at_a_time, place, "programs");
    for (size_t i = 0; i < all; i++)
        runs[i].done = i % plan->count == 0;
    return status;
}

int whatif_go_on(const struct run_options *options, const struct profile_options *reading,
                 const struct whatif_plan *plan, char ***programs, size_t program_count,
                 unsigned at_a_time, const char *place, struct batch_run *runs)
{
    size_t all = plan->count * program_count;
    int status = CLI_OK;
    fill_runs(options, plan, programs, all, runs);
    for (size_t i = 0; i < all && !status; i += plan->count)
        status = find_ideal(reading, plan, &runs[i]);
    return status ? status : batch_do(runs, all, at_a_time, place, "variants");
}
