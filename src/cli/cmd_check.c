/* spex check: noise-free performance tests against a baseline. */
#include "check.h"
#include "run.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct check_options {
    const char *baseline, *threshold, *cpu, *name, *input, *start_at, *stop_at, *sysroot;
    struct cli_list model, environment;
    uint64_t layouts;
    bool update;
    int format;
    struct check_engine engine;
};

static bool is_suite(const char *word)
{
    size_t n = strlen(word);
    return n > 5 && !strcmp(word + n - 5, ".toml");
}

/* For FILE.toml: FILE.json beside it. */
static void standard_baseline(const char *suite, char *path, size_t size)
{
    if (suite)
        snprintf(path, size, "%.*s.json", (int)strlen(suite) - 5, suite);
    else
        snprintf(path, size, "spex-check.json");
}

/* Keeps only the cases with these names. */
static int choose(struct check_plan *plan, char **names)
{
    size_t kept = 0;
    for (char **name = names; *name; name++) {
        bool any = false;
        for (size_t i = 0; i < plan->count; i++)
            any |= !strcmp(plan->items[i].name, *name);
        if (!any)
            return cli_usage("the suite has no benchmark %s", *name);
    }
    for (size_t i = 0; i < plan->count; i++) {
        bool wanted = !*names;
        for (char **name = names; *name; name++)
            wanted |= !strcmp(plan->items[i].name, *name);
        if (wanted) {
            struct check_case kept_case = plan->items[i];
            plan->items[i] = plan->items[kept];
            plan->items[kept++] = kept_case;
        }
    }
    for (size_t i = kept; i < plan->count; i++) {
        free(plan->items[i].environment.items);
        free(plan->items[i].model.items);
    }
    plan->count = kept;
    return CLI_OK;
}

static void copy_list(struct cli_list *to, const struct cli_list *from)
{
    for (size_t i = 0; i < from->count; i++) {
        to->items = memory_grow(to->items, to->count, &to->capacity, sizeof *to->items);
        to->items[to->count++] = from->items[i];
    }
}

/* Adds a program; its case is named after its file and arguments. */
static void add_program(const struct check_case *standard, const char *name, char **argv,
                        struct check_plan *plan)
{
    struct check_case *c = check_add(plan);
    const char *slash = strrchr(argv[0], '/');
    struct out text;
    *c = *standard;
    c->environment = c->model = (struct cli_list){0};
    copy_list(&c->environment, &standard->environment);
    copy_list(&c->model, &standard->model);
    c->argv = argv;
    out_init(&text, -1);
    out_text(&text, name ? name : slash && slash[1] ? slash + 1 : argv[0]);
    for (char **word = argv + 1; !name && *word; word++) {
        out_char(&text, ' ');
        out_text(&text, *word);
    }
    out_char(&text, '\0');
    c->name = check_keep(plan, memory_copy(text.data));
    out_fini(&text);
}

static int make_plan(const struct check_options *o, char **argv, struct check_plan *plan)
{
    struct check_case standard = {.cpu = o->cpu,
                                  .input = o->input,
                                  .start_at = o->start_at,
                                  .stop_at = o->stop_at,
                                  .sysroot = o->sysroot,
                                  .environment = o->environment,
                                  .model = o->model,
                                  .layouts = o->layouts};
    if (!cli_percent(o->threshold, &standard.threshold))
        return cli_usage("--threshold: '%s' is not a percentage such as 0.5%%", o->threshold);
    if (!o->layouts || o->layouts > 64)
        return cli_usage("--repeat: 1 to 64 layouts");
    if (!argv[0])
        return cli_usage(
            "no program and no suite; spex check -- PROGRAM, or spex check SUITE.toml");
    if (!is_suite(argv[0])) {
        add_program(&standard, o->name, argv, plan);
        return CLI_OK;
    }
    int status = check_suite(argv[0], &standard, plan);
    return status ? status : choose(plan, argv + 1);
}

static size_t count_missing(const struct check_results *old, const struct check_results *new)
{
    size_t n = 0;
    for (size_t i = 0; i < old->count; i++)
        n += !check_results_find(new, old->items[i].name, old->items[i].cpu);
    return n;
}

/* Prints the comparison; CLI_DATA if a benchmark is slower. */
static int report(const struct check_options *o, const struct check_plan *plan,
                  const struct check_results *old, const char *baseline, bool whole,
                  const struct check_results *new)
{
    struct check_change *changes = memory_get(plan->count, sizeof *changes);
    struct out out;
    bool slower = false;
    for (size_t i = 0; i < plan->count; i++) {
        const struct check_result *r = &new->items[i];
        check_compare(&plan->items[i], check_results_find(old, r->name, r->cpu), r, &changes[i]);
        slower |= changes[i].verdict == CHECK_SLOWER;
    }
    out_init(&out, STDOUT_FILENO);
    check_print(&out, (enum check_format)o->format,
                &(struct check_report){.changes = changes,
                                       .count = plan->count,
                                       .baseline = baseline,
                                       .missing = whole ? count_missing(old, new) : 0});
    int status = cli_end_output(&out);
    free(changes);
    return status ? status : o->update ? CLI_OK : slower ? CLI_DATA : CLI_OK;
}

static int check_in(const struct check_options *o, char **argv, struct check_plan *plan,
                    struct check_results *old, struct check_results *new)
{
    char path[4096];
    bool there, suite = is_suite(argv[0]);
    standard_baseline(suite ? argv[0] : NULL, path, sizeof path);
    if (o->baseline)
        snprintf(path, sizeof path, "%s", o->baseline);
    int status = check_baseline_read(path, old, &there);
    if (status)
        return status;
    if (!there && o->baseline && !o->update) {
        cli_error("%s: there is no such baseline; --update makes it", path);
        return CLI_DATA;
    }
    status = check_run(plan, &o->engine, new);
    if (status)
        return status;
    if (there && strcmp(old->spex, SPEX_VERSION))
        cli_note("the baseline is of spex %s, this is %s: what the model says may have changed, "
                 "too; --update after a look at it",
                 old->spex, SPEX_VERSION);
    status = report(o, plan, old, there ? path : NULL, suite && !argv[1], new);
    if (!o->update) {
        if (!there && !status)
            cli_note("--update writes the baseline, %s", path);
        return status;
    }
    size_t count = new->count;
    if (status)
        return status;
    if (suite && !argv[1]) /* the whole suite ran: drop what is no longer in it */
        check_results_free(old);
    check_baseline_merge(old, new);
    status = check_baseline_write(path, old);
    if (!status)
        cli_note("wrote %s: %zu benchmark%s", path, count, count == 1 ? "" : "s");
    return status;
}

static int run_check(void *options, int argc, char **argv)
{
    const struct check_options *o = options;
    struct check_plan plan = {0};
    struct check_results old = {0}, new = {0};
    (void)argc;
    int status = make_plan(o, argv, &plan);
    if (!status)
        status = check_in(o, argv, &plan, &old, &new);
    check_results_free(&old);
    check_results_free(&new);
    check_plan_free(&plan);
    return status;
}

#define AT(member) offsetof(struct check_options, member)
static const struct cli_option check_options[] = {
    {"baseline", 0, CLI_STRING, AT(baseline), "FILE",
     "what to compare with (default SUITE.json beside SUITE.toml, else spex-check.json)", NULL,
     NULL},
    {"threshold", 0, CLI_STRING, AT(threshold), "PERCENT",
     "how many percent more cycles are still no failure; a suite can set it for each benchmark",
     "1%", NULL},
    {"update", 0, CLI_FLAG, AT(update), NULL, "write a new baseline, and exit with status 0", NULL,
     NULL},
    {"repeat", 0, CLI_NUMBER, AT(layouts), "N",
     "run each in N layouts of memory (stack, heap, mappings) and take the median", "1", NULL},
    {"format", 0, CLI_CHOICE, AT(format), "FORMAT",
     "text, markdown (for a pull request), json or junit", "text", check_formats},
    {"name", 0, CLI_STRING, AT(name), "NAME",
     "name of the program in the baseline (default: its file's name and arguments)", NULL, NULL},
    {"cpu", 0, CLI_STRING, AT(cpu), "CPU", "CPU to model (spex help cpus)", "neoverse-n1", NULL},
    {"model", 0, CLI_LIST, AT(model), "KEY=VALUE", "number of the model (spex help model)", NULL,
     NULL},
    {"input", 0, CLI_STRING, AT(input), "FILE", "standard input of the program (default: none)",
     NULL, NULL},
    {"start-at", 0, CLI_STRING, AT(start_at), "FUNCTION",
     "start counting at each entry of this function", NULL, NULL},
    {"stop-at", 0, CLI_STRING, AT(stop_at), "FUNCTION",
     "stop counting at each entry of this function", NULL, NULL},
    {"env", 0, CLI_LIST, AT(environment), "NAME=VALUE",
     "environment variable for the program; it gets no others", NULL, NULL},
    {"sysroot", 'L', CLI_STRING, AT(sysroot), "DIR",
     "where dynamic programs find their libraries (default /usr/aarch64-linux-gnu)", NULL, NULL},
    {"seed", 0, CLI_NUMBER, AT(engine.seed), "N", "seed of the guest's AT_RANDOM", "1", NULL},
    {"qemu", 0, CLI_STRING, AT(engine.qemu), "PROGRAM",
     "QEMU to use, with plugins (default qemu-aarch64, or what record --setup-qemu has built)",
     NULL, NULL},
    {"qemu-cpu", 0, CLI_STRING, AT(engine.qemu_cpu), "NAME",
     "QEMU's own CPU model (default: the nearest to --cpu)", NULL, NULL},
    {"jobs", 'j', CLI_NUMBER, AT(engine.jobs), "N", "parallel runs (default: one per CPU, up to 8)",
     NULL, NULL},
    {0},
};

const struct cli_command cli_check = {
    .name = "check",
    .group = CLI_FIRST,
    .synopsis = "SUITE.toml [NAME...] | -- PROGRAM [ARGUMENTS]",
    .summary = "performance tests without noise: exact cycles against a baseline",
    .details =
        "Runs AArch64 programs under the full model, each time with the same memory, environment "
        "and order of threads, and compares exact cycles with those of a baseline, a small file "
        "that --update writes and that is meant to be committed. Exit status 0: no benchmark is "
        "slower by more than the threshold; 1: one is, or could not be run; the functions and "
        "lines that made it slower are named. docs/check.md has the form of a suite, docs/ci.md "
        "workflows for GitHub and GitLab.",
    .options = check_options,
    .size = sizeof(struct check_options),
    .run = run_check,
};
