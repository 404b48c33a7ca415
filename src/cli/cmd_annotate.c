/*
 * spex annotate: finds the function, counts its samples, shows the screen; listing.c makes the
 * tables.
 */
#include "calls.h"
#include "columns.h"
#include "listing.h"

#include <spex/stacks.h>
#include "base/memory.h"
#include "base/order.h"
#include "base/vec.h"
#include "export/truth.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct annotate_options {
    struct profile_options profile;
    bool exact;
};

/* ---- samples ---- */

enum { GROUP, CALLERS, GROUPS }; /* the group CALLERS is NULL if there are no call stacks */

struct annotate {
    struct spex_feed feed;             /* fills the groups */
    struct spex_group *groups[GROUPS]; /* groups of the chosen function */
    const struct spex_symbol *symbol;
    struct spex_analysis *analysis;
    VEC(struct listing_exact) exact; /* with --exact; ordered by address */
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct annotate *a = context;
    for (size_t i = 0; i < count; i++)
        if (samples[i].symbol == a->symbol) {
            for (unsigned g = 0; g < GROUPS; g++)
                if (a->feed.groups[g])
                    spex_group_sink(a->feed.groups[g], &samples[i], 1);
        }
}

/* Counts for all functions, one of which is then chosen. */
struct every {
    struct spex_group *pcs, *calls; /* instructions; callers, or NULL */
    struct spex_group *symbols;     /* functions */
};

/*
 * The rows of the chosen function, and of all lines (or NULL): from the counts for all functions if
 * they were complete, else from a second pass.
 */
static int count_function(struct profile *p, struct annotate *a, const struct every *every,
                          struct spex_group *lines)
{
    if (spex_group_exact(every->pcs) && (!every->calls || spex_group_exact(every->calls))) {
        spex_group_derive_of(a->groups[GROUP], every->pcs, a->symbol);
        if (a->groups[CALLERS])
            spex_group_derive_of(a->groups[CALLERS], every->calls, a->symbol);
        if (lines)
            spex_group_derive(lines, every->pcs);
        return CLI_OK;
    }
    const struct spex_sink sinks[] = {spex_sink_groups(&a->feed, feed), spex_sink_group(lines)};
    return profile_run_all(p, sinks, lines ? 2 : 1);
}

/* "called by a 71.0%, b 29.0%". */
static void print_callers(struct profile *p, const struct annotate *a)
{
    enum { MOST = 6 };
    struct out line;
    if (!a->groups[CALLERS])
        return;
    out_init(&line, -1);
    size_t count = spex_group_count(a->groups[CALLERS]);
    const struct spex_row *all = spex_group_total(a->groups[CALLERS]);
    for (size_t i = 0; i < count && i < MOST; i++) {
        const struct spex_row *row = spex_group_row(a->groups[CALLERS], i);
        double share = stats_of(all).time ? ratio_of(stats_of(row).time, stats_of(all).time)
                                          : ratio_of(stats_of(row).samples, stats_of(all).samples);
        char *text = columns_text(a->groups[CALLERS], row, 0);
        out_printf(&line, "%s %.60s %.1f%%", i ? "," : "", text, 100 * share);
        free(text);
    }
    out_char(&line, 0);
    calls_say(p, &p->out);
    profile_comment(p, &p->out, "called by%s%s", line.data, count > MOST ? ", ..." : "");
    out_fini(&line);
}

static bool symbol_matches(const struct spex_symbol *symbol, const char *text, const char *wanted)
{
    if (!strcmp(text, wanted) || !fnmatch(wanted, text, 0) ||
        (symbol->raw && !strcmp(symbol->raw, wanted)))
        return true;
    size_t n = strcspn(text, "(");
    return n == strlen(wanted) && !strncmp(text, wanted, n);
}

/* The row of the requested symbol: the hottest that matches, or the hottest of all. */
static const struct spex_symbol *choose(struct profile *p, struct spex_group *symbols,
                                        const char *wanted)
{
    const struct spex_symbol *found = NULL;
    size_t others = 0;
    for (size_t i = 0; i < spex_group_count(symbols); i++) {
        const struct spex_row *row = spex_group_row(symbols, i);
        const struct spex_symbol *symbol = spex_row_symbol(symbols, row, 0);
        if (!symbol)
            continue;
        char *text = columns_text(symbols, row, 0);
        bool matches = !wanted || symbol_matches(symbol, text, wanted);
        free(text);
        if (!matches)
            continue;
        if (!found)
            found = symbol;
        else
            others++;
        if (!wanted)
            break;
    }
    if (found && wanted && others)
        cli_error("%zu more function%s match '%s' and have fewer samples; --dso tells them apart",
                  others, others == 1 ? "" : "s", wanted);
    if (!found && wanted) {
        char text[256];
        const char *names[64];
        char *copies[64];
        size_t count = 0;
        for (size_t i = 0; i < spex_group_count(symbols) && count < 64; i++) {
            const struct spex_row *row = spex_group_row(symbols, i);
            if (!spex_row_symbol(symbols, row, 0))
                continue;
            spex_row_text(symbols, row, 0, text, sizeof text);
            names[count] = copies[count] = strdup(text);
            count += copies[count] != NULL;
        }
        const char *near = cli_nearest(wanted, names, count);
        if (near)
            cli_error("no samples in a function '%s'; did you mean '%s'?", wanted, near);
        else
            cli_error("no samples in a function '%s'; spex report lists them", wanted);
        for (size_t i = 0; i < count; i++)
            free(copies[i]);
        p->status = CLI_DATA;
    } else if (!found) {
        cli_wrap(&p->out,
                 "no function of the profile is known by name or place; spex report --sort pc "
                 "lists addresses",
                 0);
    }
    return found;
}

/* ---- exact counts ---- */

static void add_exact(void *context, const struct truth_row *row)
{
    struct annotate *a = context;
    struct spex_place where;
    spex_analysis_locate(a->analysis, row->pid, row->pc, &where);
    if (where.symbol != a->symbol)
        return;
    struct listing_exact *exact = memory_checked(vec_push(&a->exact));
    exact->address = where.address;
    memcpy(exact->counts, row->counts, sizeof exact->counts);
}

static int by_exact_address(const void *a, const void *b)
{
    const struct listing_exact *x = a, *y = b;
    return ORDER(x->address, y->address);
}

/* The counts of the function, summed over the processes that ran it. */
static int read_exact(struct profile *p, struct annotate *a)
{
    char path[4096];
    struct spex_error error;
    size_t n = 0;
    snprintf(path, sizeof path, "%s.truth", p->name);
    if (truth_read(path, add_exact, a, &error)) {
        cli_error("--exact: %s", error.text);
        return CLI_DATA;
    }
    if (a->exact.count)
        qsort(a->exact.items, a->exact.count, sizeof *a->exact.items, by_exact_address);
    for (size_t i = 0; i < a->exact.count; i++) {
        struct listing_exact *last = n ? &a->exact.items[n - 1] : NULL, *next = &a->exact.items[i];
        if (last && last->address == next->address)
            for (unsigned c = 0; c < TRUTH_COUNTS; c++)
                last->counts[c] += next->counts[c];
        else
            a->exact.items[n++] = *next;
    }
    a->exact.count = n;
    return CLI_OK;
}

/* ---- printing ---- */

static void hide_unknown(const struct profile *p, struct table *table, bool timed)
{
    if (!timed) {
        table_hide(table, "time");
        table_hide(table, "time_error");
        table_hide(table, "time_ns");
    } else if (p->options->format == TABLE_AS_TEXT && !p->options->fields) {
        table_hide(table, "share");
    }
}

/* What is known about the whole profile, beyond the function. */
struct whole {
    const struct spex_group *symbols, *lines; /* lines is NULL if a function was named */
    const struct advice *advice;
};

static void put_callers(struct json *json, const struct spex_group *callers)
{
    json_name(json, "callers");
    json_array(json);
    for (size_t i = 0; i < spex_group_count(callers); i++) {
        const struct spex_row *row = spex_group_row(callers, i);
        char *text = columns_text(callers, row, 0);
        json_object(json);
        JSON_MEMBER(json, "symbol", string, text);
        JSON_MEMBER(json, "samples", u64, stats_of(row).samples);
        JSON_MEMBER(json, "time_ns", u64, (uint64_t)llround(spex_row_time(row)));
        json_end(json);
        free(text);
    }
    json_end(json);
}

static void print_json(struct profile *p, const struct annotate *a, const struct whole *whole,
                       const char *name, const struct table *table, const struct table *hot,
                       size_t never)
{
    const struct profile_bias bias = profile_bias(p, never);
    const struct spex_row *own = spex_group_total(a->groups[GROUP]);
    struct json json = profile_json(p, "spex.annotate.1");
    JSON_MEMBER(&json, "symbol", string, name);
    JSON_MEMBER(&json, "dso", string, spex_module_path(a->symbol->module));
    JSON_MEMBER(&json, "samples", u64, stats_of(own).samples);
    JSON_MEMBER(&json, "time_ns", u64, (uint64_t)llround(spex_row_time(own)));
    JSON_MEMBER(&json, "never_sampled", u64, bias.never);
    JSON_MEMBER(&json, "erratum", string, bias.erratum);
    advice_json(whole->advice, &json);
    if (a->groups[CALLERS])
        put_callers(&json, a->groups[CALLERS]);
    if (hot) {
        json_name(&json, "lines");
        table_json(hot, &json);
    }
    json_name(&json, "instructions");
    table_json(table, &json);
    json_end(&json);
}

static void print_text(struct profile *p, const struct annotate *a, const struct whole *whole,
                       const char *name, const struct table *table, const struct table *hot,
                       const char *disassembler, size_t never)
{
    struct table_options how = profile_table(p);
    uint64_t own = stats_of(spex_group_total(a->groups[GROUP])).samples;
    double time = spex_row_time(spex_group_total(a->groups[GROUP]));
    char of_time[40] = "time not known", count[32];
    if (hot) {
        profile_header(p, &p->out);
        if (time > 0)
            profile_doubt(p, &p->out);
        profile_comment(p, &p->out, "the hottest lines; shares are of %s",
                        time > 0 ? "all of the time" : "all samples");
        table_print(hot, &p->out, &how);
        out_char(&p->out, '\n');
    }
    if (time > 0)
        snprintf(of_time, sizeof of_time, "%.1f%% of the time",
                 100 * time / spex_row_time(spex_group_total(whole->symbols)));
    profile_comment(
        p, &p->out, "%s in %s: %s; %s sample%s, %.1f%% of all; instructions by %s", name,
        spex_module_name(a->symbol->module), of_time, text_count(count, own), own == 1 ? "" : "s",
        100 * ratio_of(own, stats_of(spex_group_total(whole->symbols)).samples), disassembler);
    if (time > 0 && !hot)
        profile_doubt(p, &p->out);
    print_callers(p, a);
    profile_bias_print(p, &p->out, never);
    table_print(table, &p->out, &how);
    if (a->symbol->end - a->symbol->start && !table_rows(table))
        out_text(&p->out,
                 "the code of this function was not found: --symfs DIR says where its file is\n");
    if (hot)
        advice_print(whole->advice, p);
}

static int print(struct profile *p, const struct annotate *a, const struct whole *whole,
                 const struct annotate_options *o)
{
    struct spex_disassembler *d;
    struct spex_error error;
    if (spex_disassembler_new(&d, &error)) {
        cli_error("%s", error.text);
        exit(CLI_DATA);
    }
    bool timed = spex_row_time(spex_group_total(a->groups[GROUP])) > 0;
    const struct listing_of of = {a->symbol, a->groups[GROUP], o->exact, a->exact.items,
                                  a->exact.count};
    size_t never = 0;
    struct table *table = listing_function(p, &of, d, !o->profile.no_source, &never), *hot = NULL;
    hide_unknown(p, table, timed);
    if (whole->lines) {
        hot = listing_hot(p, whole->lines);
        hide_unknown(p, hot, timed);
    }
    const char *wrong = o->profile.fields ? table_select(table, o->profile.fields) : NULL;
    int format = o->profile.format, status = CLI_OK;
    char name[300];
    if (a->symbol->name)
        snprintf(name, sizeof name, "%s", a->symbol->name);
    else
        snprintf(name, sizeof name, "%s+0x%llx", spex_module_name(a->symbol->module),
                 (unsigned long long)a->symbol->start);
    if (wrong)
        status = profile_wrong_field(wrong);
    else if (format == TABLE_AS_JSON)
        print_json(p, a, whole, a->symbol->name ? a->symbol->name : name, table, hot, never);
    else
        print_text(p, a, whole, name, table, format == TABLE_AS_TEXT ? hot : NULL,
                   spex_disassembler_name(d), never);
    table_free(table);
    table_free(hot);
    spex_disassembler_free(d);
    return status;
}

static int run_annotate(void *options, int argc, char **argv)
{
    const struct annotate_options *o = options;
    static const enum spex_key by_line[] = {SPEX_KEY_SYMBOL, SPEX_KEY_SRCLINE},
                               by_pc[] = {SPEX_KEY_SYMBOL, SPEX_KEY_PC},
                               by_caller[] = {SPEX_KEY_SYMBOL, SPEX_KEY_CALLER};
    struct profile p;
    if (argc > 1)
        return cli_usage("one function at a time: name only one");
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want =
                                             SPEX_WANT_SYMBOL | SPEX_WANT_SPENT | SPEX_WANT_STACK,
                                         .threads = cli_threads(o->profile.threads)};
    int status = profile_open(&p, &o->profile, NULL, &more);
    if (status)
        return status;
    const unsigned percentiles = columns_percentiles(&o->profile);
    struct every every = {.pcs = profile_group(&p, by_pc, 2, percentiles),
                          .symbols = profile_group(&p, by_pc, 1, 0)};
    struct annotate a = {.feed = {sizeof a, a.groups, GROUPS},
                         .groups = {profile_group(&p, by_pc + 1, 1, percentiles)},
                         .analysis = p.analysis};
    spex_group_derive(every.symbols, every.pcs);
    struct advice advice =
        advice_new(&p, o->profile.format != TABLE_AS_CSV, spex_sink_group(every.pcs));
    if (spex_analysis_stacks(p.analysis) != SPEX_STACKS_NONE) {
        a.groups[CALLERS] = profile_group(&p, by_caller + 1, 1, 0);
        every.calls = profile_group(&p, by_caller, 2, 0);
        advice_feed(&advice, spex_sink_group(every.calls));
    }
    /* the hottest of all, if there is no function to look at */
    struct spex_group *lines = argv[0] ? NULL : profile_group(&p, by_line, 2, percentiles);
    p.status = advice_run(&advice, &p);
    spex_group_sort(every.symbols, SPEX_BY_TIME);
    if (!p.status && !profile_empty(&p, stats_of(spex_group_total(every.symbols)).samples, ""))
        a.symbol = choose(&p, every.symbols, argv[0]);
    if (a.symbol && !p.status)
        p.status = count_function(&p, &a, &every, lines);
    if (a.symbol && !p.status && o->exact)
        p.status = read_exact(&p, &a);
    if (a.symbol && !p.status) {
        struct whole whole = {every.symbols, lines, &advice};
        spex_group_sort(a.groups[GROUP], SPEX_BY_SAMPLES);
        if (lines)
            spex_group_sort(lines, SPEX_BY_TIME);
        if (a.groups[CALLERS])
            spex_group_sort(a.groups[CALLERS], SPEX_BY_TIME);
        p.status = print(&p, &a, &whole, o);
    }
    vec_free(&a.exact);
    advice_free(&advice);
    struct spex_group *groups[] = {every.pcs, every.calls,     every.symbols,
                                   lines,     a.groups[GROUP], a.groups[CALLERS]};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        spex_group_free(groups[i]);
    return profile_close(&p);
}

static const struct cli_option annotate_options[] = {
    PROFILE_INPUT_OPTIONS(struct annotate_options),
    CLI_THREADS(struct annotate_options, profile.threads),
    PROFILE_TEXT_OPTIONS(struct annotate_options),
    {"exact", 0, CLI_FLAG, offsetof(struct annotate_options, exact), NULL,
     "also show the exact counts of spex record --truth: executions, cycles, misses, mispredicts",
     NULL, NULL},
    PROFILE_FIELDS(struct annotate_options),
#define OPTIONS struct annotate_options
#include "filter_options.def"
    PROFILE_REPLAY(struct annotate_options),
    PROFILE_SYMBOL_OPTIONS(struct annotate_options),
    {0},
};

const struct cli_command cli_annotate = {
    .name = "annotate",
    .group = CLI_WHY,
    .pages = true,
    .synopsis = "[FUNCTION]",
    .summary = "a function's instructions with source lines and samples",
    .details = "Without FUNCTION, the hottest lines of all functions, then the function with the "
               "most time. 'wait' is how long an instruction waited for its operands; 'waits for' "
               "is the instruction that makes the last of them, the one to blame. The replay finds "
               "it (docs/time.md) or, without a replay, the code of the block. "
               "Instructions come from the newest "
               "libLLVM that is installed, else from objdump. Sources are looked for below "
               "--source-dir and --symfs, where the debug information says, and in the current "
               "directory; they are shown only if they lie below one of these, the current "
               "directory or the program's.",
    .options = annotate_options,
    .size = sizeof(struct annotate_options),
    .run = run_annotate,
};
