/*
 * spex whatif: runs the same programs on other cores, cache sizes and page sizes, and compares
 * them.
 */
#include "columns.h"
#include "whatif.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct whatif_options {
    struct run_options run;
    struct profile_options profile;
    struct cli_list ideal;
    bool findings;
    uint64_t jobs;
};

static const struct table_column run_columns[] = {
    {"program", "", TABLE_TEXT, 0, "name and arguments, or their beginning"},
    {"variant", "", TABLE_TEXT, 0, "what is modelled; after the first what differs from it", true},
    {"time_ns", "ns", TABLE_COUNT, 255, "modelled time: cycles at 1 GHz"},
    {"time", "time", TABLE_TEXT, 0, "modelled time: cycles at 1 GHz"},
    {"change", "change", TABLE_TEXT, 0, "of the time, against the first variant"},
    {"ratio", "ratio", TABLE_RATE, 255, "time as a multiple of the first variant's"},
    {"operations", "ops", TABLE_SCALED, 10, "operations"},
    {"l1d_miss", "L1 misses", TABLE_SCALED, 3, "accesses that missed the level 1 data cache"},
    {"l2_miss", "L2 misses", TABLE_SCALED, 4, "accesses that missed level 2"},
    {"llc_miss", "LLC misses", TABLE_SCALED, 1, "accesses that went past the last level"},
    {"walk", "TLB walks", TABLE_SCALED, 5, "accesses that walked the translation tables"},
    {"mispredict", "mispredicts", TABLE_SCALED, 2, "branches; the full model counts them"},
    {"status", "ended", TABLE_TEXT, 0, "exit status or signal of the program, if not 0"},
    {0},
};

static const struct table_column function_columns[] = {
    {"program", "", TABLE_TEXT, 255, "name and arguments, or their beginning"},
    {"variant", "variant", TABLE_TEXT, 0, "against the first one"},
    {"first", "first", TABLE_PERCENT, 0, "time in the first variant, of all of that"},
    {"this", "this", TABLE_PERCENT, 0, "time in this variant, of all of the first"},
    {"change", "change", TABLE_TEXT, 0, "percent of the whole time of the first"},
    {"delta", "delta", TABLE_NUMBER, 255, "the same as a fraction"},
    {"low", "low", TABLE_NUMBER, 255, "lower end of its 95% interval"},
    {"high", "high", TABLE_NUMBER, 255, "upper end of its 95% interval"},
    {"interval", "95% interval", TABLE_TEXT, 0, "of the change"},
    {"function", "", TABLE_TEXT, 0, "that gains or loses", true},
    {0},
};

/* ---- the runs ---- */

static void program_name(char **argv, char *text, size_t size)
{
    const char *slash = strrchr(argv[0], '/');
    size_t n = (size_t)snprintf(text, size, "%s", slash && slash[1] ? slash + 1 : argv[0]);
    for (size_t i = 1; argv[i] && n + 1 < size; i++)
        n += (size_t)snprintf(text + n, size - n, " %s", argv[i]);
    if (n >= size)
        memcpy(text + size - 4, "...", 4);
}

static void fill_run(struct table *table, const struct batch_run *run,
                     const struct batch_run *first)
{
    const struct uarch_counts *c = &run->totals.counts;
    char time[32];
    double ratio = (double)run->totals.clock / (double)first->totals.clock;
    table_set_u64(table, "time_ns", run->totals.clock);
    table_set_text(table, "time", text_time(time, (double)run->totals.clock));
    if (run != first && first->totals.clock) {
        table_printf(table, "change", "%+.1f%%", 100 * (ratio - 1));
        table_set(table, "ratio", ratio);
        table_style(table, "change",
                    ratio > 1.01   ? TABLE_HOT
                    : ratio < 0.99 ? TABLE_BOLD
                                   : TABLE_DIM);
    }
    table_set_u64(table, "operations", run->totals.pmu[0]);
    table_set_u64(table, "l1d_miss", c->l1_miss);
    table_set_u64(table, "l2_miss", c->l2_miss);
    table_set_u64(table, "llc_miss", c->llc_miss);
    table_set_u64(table, "walk", c->walk);
    table_set_u64(table, "mispredict", c->mispredict);
    if (WIFSIGNALED(run->status))
        table_printf(table, "status", "signal %d", WTERMSIG(run->status));
    else if (WEXITSTATUS(run->status))
        table_printf(table, "status", "%d", WEXITSTATUS(run->status));
}

static struct table *make_runs(const struct whatif_plan *plan, char ***programs, size_t count,
                               const struct batch_run *runs)
{
    struct table *table = table_new(run_columns);
    char name[64];
    bool failed = false;
    for (size_t p = 0; p < count; p++)
        for (size_t v = 0; v < plan->count; v++) {
            const struct batch_run *run = &runs[p * plan->count + v];
            table_row(table);
            program_name(programs[p], name, sizeof name);
            table_set_text(table, "program", name);
            table_set_text(table, "variant", plan->variants[v].name);
            fill_run(table, run, &runs[p * plan->count]);
            failed |= run->status != 0;
        }
    if (!failed)
        table_hide(table, "status");
    return table;
}

/* ---- functions ---- */

struct function {
    char *name;
    double time[2], square[2]; /* in the first variant, and in this one; ns */
};

struct functions {
    struct function *items;
    size_t count, capacity;
    double time[2], square[2]; /* sums over all functions of a variant */
};

static struct function *find(struct functions *all, char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(all->items[i].name, name)) {
            free(name);
            return &all->items[i];
        }
    all->items = memory_grow(all->items, all->count, &all->capacity, sizeof *all->items);
    all->items[all->count] = (struct function){.name = name};
    return &all->items[all->count++];
}

/* Adds one profile's functions: side 0 is the first variant. */
static int read_profile(const struct profile_options *options, const char *path, unsigned side,
                        struct functions *all)
{
    enum { MOST = 400 };
    static const enum spex_key key = SPEX_KEY_SYMBOL;
    struct profile p;
    struct spex_analysis_options more = {
        .size = sizeof more, .want = SPEX_WANT_BASE | SPEX_WANT_SPENT | spex_key_wants(key)};
    int status = profile_open(&p, options, path, &more);
    if (status)
        return status;
    struct spex_group *group = profile_group(&p, &key, 1, 0);
    status = profile_run(&p, spex_sink_group(group));
    spex_group_sort(group, SPEX_BY_TIME);
    for (size_t i = 0; i < spex_group_count(group) && i < MOST; i++) {
        const struct spex_row *row = spex_group_row(group, i);
        struct function *f = find(all, columns_text(group, row, 0));
        f->time[side] += spex_row_time(row);
        f->square[side] += stats_of(row).time_square;
    }
    all->time[side] = spex_row_time(spex_group_total(group));
    all->square[side] = stats_of(spex_group_total(group)).time_square;
    spex_group_free(group);
    p.quiet = true; /* commands that read the profile print its notes */
    spex_analysis_close(p.analysis);
    p.analysis = NULL;
    out_fini(&p.out);
    profile_close(&p);
    return status;
}

static int by_change(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    double dx = fabs(x->time[1] - x->time[0]), dy = fabs(y->time[1] - y->time[0]);
    return dx != dy ? (dx > dy ? -1 : 1) : strcmp(x->name, y->name);
}

/*
 * Half of the change's interval: a variant's whole time is exact, the function's part of it is not.
 */
static double half_interval(const struct functions *all, const struct function *f)
{
    double sum = 0;
    for (unsigned side = 0; side < 2; side++)
        if (all->time[side] > 0)
            sum += spex_time_variance(f->time[side], f->square[side], all->time[side],
                                      all->square[side]);
    return 1.96 * sqrt(sum);
}

static void fill_functions(struct table *table, const char *program, const char *variant,
                           struct functions *all, double limit)
{
    enum { SHOWN = 6 };
    size_t shown = 0;
    qsort(all->items, all->count, sizeof *all->items, by_change);
    const double whole = all->time[0];
    for (size_t i = 0; i < all->count && shown < SHOWN && whole > 0; i++) {
        const struct function *f = &all->items[i];
        double delta = (f->time[1] - f->time[0]) / whole, half = half_interval(all, f) / whole;
        if (fabs(delta) <= half || fabs(delta) < limit)
            continue; /* within noise, or too small to show */
        table_row(table);
        table_set_text(table, "program", program);
        table_set_text(table, "variant", variant);
        table_set(table, "first", f->time[0] / whole);
        table_set(table, "this", f->time[1] / whole);
        table_printf(table, "change", "%+.1f", 100 * delta);
        table_style(table, "change", delta > 0 ? TABLE_HOT : TABLE_BOLD);
        table_set(table, "delta", delta);
        table_set(table, "low", delta - half);
        table_set(table, "high", delta + half);
        table_printf(table, "interval", "%+.1f to %+.1f", 100 * (delta - half),
                     100 * (delta + half));
        table_set_text(table, "function", f->name);
        shown++;
    }
}

static void free_functions(struct functions *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].name);
    free(all->items);
}

static int make_functions(const struct whatif_options *o, const struct whatif_plan *plan,
                          char ***programs, size_t count, const struct batch_run *runs,
                          double limit, struct table **out)
{
    struct table *table = table_new(function_columns);
    char name[64];
    int status = CLI_OK;
    for (size_t p = 0; p < count && !status; p++)
        for (size_t v = 1; v < plan->count && !status; v++) {
            struct functions all = {0};
            const struct batch_run *first = &runs[p * plan->count];
            program_name(programs[p], name, sizeof name);
            if (count > 1 && v == 1)
                table_span(table, name);
            status = read_profile(&o->profile, first->data, 0, &all);
            if (!status)
                status = read_profile(&o->profile, first[v].data, 1, &all);
            if (!status)
                fill_functions(table, name, plan->variants[v].name, &all, limit);
            free_functions(&all);
        }
    *out = table;
    return status;
}

/* ---- the command ---- */

static void begin_json(struct profile *p, struct json *to)
{
    *to = json_to(&p->out);
    json_object_lines(to);
    JSON_MEMBER(to, "schema", string, "spex.whatif.1");
}

/* runs is NULL if the program was not run. */
static void print_findings(struct profile *p, struct whatif_findings *findings,
                           const struct table *runs, uint64_t clock)
{
    struct json to;
    whatif_sort_findings(findings);
    if (profile_table(p).format != TABLE_AS_JSON) {
        whatif_print_findings(p, findings, runs != NULL, clock);
        return;
    }
    begin_json(p, &to);
    if (runs) {
        json_name(&to, "rows");
        table_json(runs, &to);
    }
    whatif_json_findings(&to, findings, runs != NULL);
    json_end(&to);
}

static void print(struct profile *p, const struct table *runs, const struct table *functions,
                  struct whatif_findings *findings, uint64_t clock)
{
    struct table_options how = profile_table(p);
    if (findings) {
        print_findings(p, findings, runs, clock);
        return;
    }
    if (how.format == TABLE_AS_JSON) {
        struct json to;
        begin_json(p, &to);
        json_name(&to, "rows");
        table_json(runs, &to);
        json_name(&to, "functions");
        table_json(functions, &to);
        json_end(&to);
        return;
    }
    table_print(runs, &p->out, &how);
    if (how.format == TABLE_AS_CSV)
        return;
    if (table_rows(functions)) {
        out_char(&p->out, '\n');
        profile_comment(
            p, &p->out,
            "functions that change beyond noise, percent of the whole time of the first "
            "variant of their program");
        table_print(functions, &p->out, &how);
    } else {
        profile_comment(p, &p->out, "no function changes beyond noise");
    }
}

/* Commands are separated by the word ::. Splits argv there. */
static size_t split(char **argv, char ***programs)
{
    size_t count = 0;
    programs[count++] = argv;
    for (; *argv; argv++)
        if (!strcmp(*argv, "::")) {
            *argv = NULL;
            programs[count++] = argv + 1;
        }
    return count;
}

/* Runs everything in the directory place; for findings, also how much they would save. */
static int run_all(const struct whatif_options *o, struct whatif_plan *plan, char ***programs,
                   size_t count, const char *place, struct batch_run *runs,
                   struct whatif_findings *findings)
{
    unsigned jobs = cli_threads(o->jobs);
    struct run_options options = o->run;
    options.exact = true;
    if (!o->findings && !plan->variants[plan->count - 1].ideal)
        return whatif_run(&options, plan, programs, count, jobs, place, runs);
    options.deterministic = true;
    int status = whatif_begin(&options, plan, programs, count, jobs, place, runs);
    if (!status && o->findings)
        status = whatif_find(&o->profile, runs[0].data, findings);
    size_t first = plan->count, v = first;
    for (size_t i = 0; i < findings->count && !status; i++)
        if (findings->items[i].ideal)
            status = whatif_add_ideal(plan, findings->items[i].ideal);
    if (!status)
        status = whatif_go_on(&options, &o->profile, plan, programs, count, jobs, place, runs);
    for (size_t i = 0; i < findings->count && !status; i++) {
        struct whatif_finding *f = &findings->items[i];
        f->saves =
            f->ideal ? 1 - (double)runs[v++].totals.clock / (double)runs[0].totals.clock : f->share;
    }
    return status;
}

static int compare(const struct whatif_options *o, struct whatif_plan *plan, char ***programs,
                   size_t count, const char *directory)
{
    struct batch_run *runs = memory_get(WHATIF_VARIANTS * count, sizeof *runs);
    struct table *functions = NULL, *table = NULL;
    struct whatif_findings findings = {0};
    struct profile printing;
    int status = profile_printing(&printing, &o->profile), error;
    if (status) {
        free(runs);
        return status;
    }
    printing.options = &o->profile;
    status = run_all(o, plan, programs, count, directory, runs, &findings);
    if (!status) {
        table = make_runs(plan, programs, count, runs);
        status = make_functions(o, plan, programs, count, runs, printing.limit, &functions);
    }
    if (!status)
        print(&printing, table, functions, o->findings ? &findings : NULL, runs[0].totals.clock);
    if ((error = out_fini(&printing.out)) && !status) {
        cli_error("cannot write: %s", strerror(error));
        status = CLI_DATA;
    }
    if (table)
        table_free(table);
    if (functions)
        table_free(functions);
    whatif_free_findings(&findings);
    free(runs);
    return status;
}

/* Prices the findings of a profile whose program is not run. */
static int price_file(const struct whatif_options *o)
{
    struct whatif_findings findings = {0};
    struct profile printing;
    int status = whatif_find(&o->profile, NULL, &findings), error;
    if (!status)
        status = profile_printing(&printing, &o->profile);
    if (status)
        return status;
    printing.options = &o->profile;
    for (size_t i = 0; i < findings.count; i++)
        findings.items[i].saves = findings.items[i].share;
    print_findings(&printing, &findings, NULL, 0);
    if ((error = out_fini(&printing.out))) {
        cli_error("cannot write: %s", strerror(error));
        status = CLI_DATA;
    }
    whatif_free_findings(&findings);
    return status;
}

static int run_whatif(void *options, int argc, char **argv)
{
    struct whatif_options *o = options;
    struct whatif_plan plan;
    char directory[BATCH_PATH];
    if (!argc && o->findings && o->profile.inputs.count)
        return price_file(o);
    if (!argc)
        return cli_usage("no program; spex whatif [OPTIONS] -- PROGRAM [ARGUMENTS]");
    if (o->profile.inputs.count)
        return cli_usage("-i FILE is for --findings without a program");
    char ***programs = memory_get((size_t)argc + 1, sizeof *programs);
    size_t count = split(argv, programs);
    int status = CLI_OK;
    for (size_t i = 0; i < count; i++)
        if (!*programs[i] && !status)
            status = cli_usage("a program is missing before or after ::");
    if (!status && o->findings && (count > 1 || o->ideal.count))
        status = cli_usage("--findings takes one program, and no --ideal");
    if (status) {
        free(programs);
        return status;
    }
    status = whatif_plan(o->run.cpu, &o->run.model, &o->ideal, o->findings, &plan);
    if (!status) {
        run_temporary(directory, sizeof directory - 16);
        strcat(directory, ".whatif-XXXXXX");
        if (mkdtemp(directory)) {
            status = compare(o, &plan, programs, count, directory);
            if (!left_remove(directory))
                cli_error("%s stays", directory);
        } else {
            cli_error("%s: cannot be made", directory);
            status = CLI_DATA;
        }
    }
    whatif_plan_free(&plan);
    free(programs);
    return status;
}

#define RUN_AT(member) offsetof(struct whatif_options, run.member)
static const struct cli_option whatif_options[] = {
    {"cpu", 0, CLI_STRING, RUN_AT(cpu), "CPU,CPU...",
     "CPUs to compare, presets or files; the first is what the others are compared with",
     "neoverse-n1", NULL},
    {"model", 0, CLI_LIST, RUN_AT(model), "KEY=VALUE:VALUE...",
     "values of the model to compare, each with the rest as in the first; other words of --model "
     "apply to all",
     NULL, NULL},
    {"ideal", 0, CLI_LIST, offsetof(struct whatif_options, ideal), "KIND=PLACE,...",
     "make something ideal, and say what the run gains: loads=, branch=, divide=, time= of code "
     "(FUNCTION, FILE:LINE, 0xADDRESS, all), share=, pages= of data (OBJECT, 0xADDRESS, heap, all)",
     NULL, NULL},
    {"findings", 0, CLI_FLAG, offsetof(struct whatif_options, findings), NULL,
     "what each finding of a first run would save at most: run again with that ideal", NULL, NULL},
    {"input", 'i', CLI_LIST, PROFILE_AT(struct whatif_options, inputs), "FILE",
     "with --findings, without a program: a bound from the time in this perf.data file", NULL,
     NULL},
    {"count", 'c', CLI_NUMBER, RUN_AT(period), "PERIOD",
     "sampling interval in operations, for the functions", "1024", NULL},
    {"event", 'e', CLI_STRING, RUN_AT(event), "EVENT", "SPE event, as for spex record",
     "arm_spe/ts_enable=1,jitter=1/", NULL},
    {"mmap-pages", 'm', CLI_STRING, RUN_AT(aux), ",SIZE", "size of the AUX area", ",1M", NULL},
    {"seed", 0, CLI_NUMBER, RUN_AT(seed), "N", "seed of the sampling jitter", "1", NULL},
    {"sysroot", 'L', CLI_STRING, RUN_AT(sysroot), "DIR",
     "where dynamic programs find their libraries (default /usr/aarch64-linux-gnu)", NULL, NULL},
    {"env", 0, CLI_LIST, RUN_AT(environment), "NAME=VALUE", "environment variable for the program",
     NULL, NULL},
    {"qemu", 0, CLI_STRING, RUN_AT(qemu), "PROGRAM",
     "QEMU to use, with plugins (default qemu-aarch64, or what record --setup-qemu has built)",
     NULL, NULL},
    {"qemu-cpu", 0, CLI_STRING, RUN_AT(qemu_cpu), "NAME",
     "QEMU's own CPU model (default: the nearest to --cpu)", NULL, NULL},
    {"jobs", 'j', CLI_NUMBER, offsetof(struct whatif_options, jobs), "N",
     "parallel runs (default: one per CPU)", NULL, NULL},
    {"format", 0, CLI_CHOICE, PROFILE_AT(struct whatif_options, format), "FORMAT",
     "text, json or csv (of the runs alone)", "text", table_formats},
    {"percent-limit", 0, CLI_STRING, PROFILE_AT(struct whatif_options, percent_limit), "PERCENT",
     "hide functions that change by less (default 0.5 in text, else 0)", NULL, NULL},
    {0},
};

const struct cli_command cli_whatif = {
    .name = "whatif",
    .group = CLI_RUNS,
    .synopsis = "[--] PROGRAM [ARGUMENTS] [:: PROGRAM...]...",
    .summary = "compare programs across CPUs and caches, or with one thing ideal",
    .details =
        "Runs each program once for each variant, several at a time, and prints modelled time, "
        "misses and mispredicts, then the functions that gain or lose with the 95% intervals of "
        "sampling. All are compared with the first CPU with the first values; each differs from it "
        "in one thing. Programs, or one program with several inputs, are separated "
        "by ::. They get no standard input; their output is that of the first variant. Example: "
        "spex whatif --cpu neoverse-n1,neoverse-v2 --model page.size=4K:2M --model l2.size=1M:2M "
        "-- ./prog. With --ideal each variant is the program with one thing made free, and the "
        "change is the most that mending it can gain: spex whatif --ideal loads=walk "
        "--ideal branch=parse.c:42 --ideal share=counters -- ./prog (docs/whatif.md).",
    .options = whatif_options,
    .size = sizeof(struct whatif_options),
    .run = run_whatif,
};
