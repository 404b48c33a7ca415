/* spex branch: which branches are mispredicted, where they go, what kinds there are. */
#include "columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct branch_options {
    struct profile_options profile;
    uint64_t most;
};

enum section { KINDS, BRANCHES, TARGETS, EDGES, SECTIONS };

static const struct {
    const char *name, *title;
    size_t key_count;
    enum spex_key keys[3];
    enum spex_order order;
} sections[SECTIONS] = {
    [KINDS] = {"kinds", "Kinds of branches", 1, {SPEX_KEY_OP}, SPEX_BY_SAMPLES},
    [BRANCHES] = {"branches",
                  "Branches, most mispredicted first",
                  3,
                  {SPEX_KEY_PC, SPEX_KEY_SYMBOL, SPEX_KEY_SRCLINE},
                  SPEX_BY_MISPREDICTS},
    [TARGETS] = {"targets",
                 "Targets of indirect branches",
                 3,
                 {SPEX_KEY_PC, SPEX_KEY_SYMBOL, SPEX_KEY_TARGET},
                 SPEX_BY_SAMPLES},
    [EDGES] = {"edges",
               "From the target of the previous taken branch to this one",
               3,
               {SPEX_KEY_PREV_TARGET, SPEX_KEY_PC, SPEX_KEY_SYMBOL},
               SPEX_BY_SAMPLES},
};

static const struct table_column columns[] = {
    {"mispredicts", "mispredicts", TABLE_COUNT, 0, "samples that were mispredicted"},
    {"of_all", "of all", TABLE_PERCENT, 0, "share of all mispredicts"},
    {"ratio", "ratio", TABLE_PERCENT, 0, "mispredicts of this row's samples"},
    {"error", "+-95%", TABLE_PERCENT, 30, "half of the 95% interval of the ratio"},
    {"samples", "samples", TABLE_COUNT, 0, "samples of this row"},
    {"share", "share", TABLE_PERCENT, 40, "share of all branch samples"},
    {"taken", "taken", TABLE_PERCENT, 10, "share that was taken"},
    {"latency_p50", "p50", TABLE_NUMBER, 50, "total latency, median"},
    {"latency_p95", "p95", TABLE_NUMBER, 20, "total latency, 95th percentile"},
    {"op", "kind", TABLE_TEXT, 0, "kind of branch", true},
    {"prev-target", "previous target", TABLE_TEXT, 0, "target of the taken branch before it", true},
    {"pc", "branch", TABLE_TEXT, 15, "address of the branch", true},
    {"symbol", "in", TABLE_TEXT, 0, "its function", true},
    {"srcline", "line", TABLE_TEXT, 0, "its source line", true},
    {"target", "target", TABLE_TEXT, 0, "where it went", true},
    {0},
};

struct branch {
    struct spex_feed feed; /* into groups */
    struct spex_group *groups[SECTIONS];
};

/* Chooses the samples that have all these fields and flags. */
static size_t choose(const struct spex_sample *const *samples, size_t count, unsigned present,
                     unsigned flags, const struct spex_sample **chosen)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = samples[i];
        chosen[n] = s;
        n += (s->record->present & present) == present && (s->flags & flags) == flags;
    }
    return n;
}

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct spex_group *const *groups = ((struct branch *)context)->feed.groups;
    const struct spex_sample *branches[SPEX_RECORD_BATCH], *some[SPEX_RECORD_BATCH];
    while (count) {
        size_t n = 0, end = count < SPEX_RECORD_BATCH ? count : SPEX_RECORD_BATCH;
        for (size_t i = 0; i < end; i++) {
            branches[n] = &samples[i];
            n += samples[i].op == SPEX_SAMPLE_BRANCH;
        }
        spex_group_add(groups[KINDS], branches, n);
        spex_group_add(groups[BRANCHES], branches, n);
        size_t targets = choose(branches, n, SPEX_HAS_TARGET, SPEX_SAMPLE_INDIRECT, some);
        spex_group_add(groups[TARGETS], some, targets);
        size_t edges = choose(branches, n, SPEX_HAS_PREV_TARGET, 0, some);
        spex_group_add(groups[EDGES], some, edges);
        samples += end;
        count -= end;
    }
}

enum { LEAST = 3 }; /* mispredicted samples of a branch that are unlikely to be chance */

/* Have the first rows no source lines? Then their text is the address. */
static bool no_lines(const struct spex_group *group, size_t rows)
{
    char line[256], branch[256];
    for (size_t i = 0; i < rows && i < spex_group_count(group); i++) {
        spex_row_text(group, spex_group_row(group, i), 2, line, sizeof line);
        spex_row_text(group, spex_group_row(group, i), 0, branch, sizeof branch);
        if (strcmp(line, branch))
            return false;
    }
    return true;
}

static struct table *section_table(struct profile *p, const struct spex_group *group,
                                   enum section s, uint64_t mispredicts, size_t most)
{
    struct table *table = table_new(columns);
    bool text = p->options->format == TABLE_AS_TEXT;
    const struct spex_stats all = stats_of(spex_group_total(group));
    size_t rows = spex_group_count(group);
    for (unsigned k = 0; columns[k].name; k++) {
        bool key = columns[k].type == TABLE_TEXT, ours = !key;
        for (size_t n = 0; n < sections[s].key_count; n++)
            ours |= !strcmp(columns[k].name, spex_key_name(sections[s].keys[n]));
        if (!ours)
            table_hide(table, columns[k].name);
    }
    if (text && s == BRANCHES && !p->options->fields && no_lines(group, most))
        table_hide(table, "pc");
    for (size_t i = 0; i < rows && (!text || i < most); i++) {
        const struct spex_row *row = spex_group_row(group, i);
        const struct spex_stats t = stats_of(row);
        if (text && s == BRANCHES &&
            (t.mispredicted < LEAST || (uint64_t)t.mispredicted * 200 < mispredicts))
            break; /* below 0.5% of all mispredicts */
        struct spex_interval interval = spex_share_interval(t.mispredicted, t.samples);
        double ratio = ratio_of(t.mispredicted, t.samples);
        table_row(table);
        table_set_u64(table, "mispredicts", t.mispredicted);
        table_set(table, "of_all", ratio_of(t.mispredicted, mispredicts));
        table_set(table, "ratio", ratio);
        if (ratio >= 0.1)
            table_style(table, "ratio", TABLE_HOT);
        else if (ratio >= 0.02)
            table_style(table, "ratio", TABLE_WARM);
        table_set(table, "error", (interval.high - interval.low) / 2);
        table_set_u64(table, "samples", t.samples);
        table_set(table, "share", ratio_of(t.samples, all.samples));
        table_set(table, "taken", ratio_of(t.samples - t.not_taken, t.samples));
        columns_latency(p, table, "latency_p50",
                        spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.5));
        columns_latency(p, table, "latency_p95",
                        spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.95));
        columns_fill_keys(table, group, row, sections[s].keys, sections[s].key_count);
    }
    return table;
}

static int run_branch(void *options, int argc, char **argv)
{
    const struct branch_options *o = options;
    struct profile p;
    struct branch b = {.feed = {sizeof b, b.groups, SECTIONS}};
    (void)argc;
    struct spex_analysis_options more = {.size = sizeof more,
                                         .want =
                                             SPEX_WANT_SYMBOL | SPEX_WANT_BRANCH | SPEX_WANT_SPENT,
                                         .threads = cli_threads(o->profile.threads)};
    int status = profile_open_all(&p, &o->profile, argv, &more);
    if (status)
        return status;
    for (unsigned s = 0; s < SECTIONS; s++)
        b.groups[s] =
            profile_group(&p, sections[s].keys, sections[s].key_count, SPEX_GROUP_PERCENTILES);
    struct advice advice =
        advice_new(&p, o->profile.format != TABLE_AS_CSV, spex_sink_groups(&b.feed, feed));
    p.status = advice_run(&advice, &p);
    for (unsigned s = 0; s < SECTIONS; s++)
        spex_group_sort(b.groups[s], sections[s].order);
    const struct spex_stats t = stats_of(spex_group_total(b.groups[KINDS]));
    struct table_options how = profile_table(&p);
    bool json = how.format == TABLE_AS_JSON, text = how.format == TABLE_AS_TEXT;
    if (!p.status && !profile_empty(&p, t.samples,
                                    "is of a branch: sample them "
                                    "(branch_filter=1, or no filter)")) {
        char a[32];
        struct json to = {0};
        if (json)
            to = profile_json(&p, "spex.branch.1");
        profile_header(&p, &p.out);
        profile_comment(&p, &p.out, "%s branches sampled: %.1f%% mispredicted, %.1f%% taken",
                        text_count(a, t.samples), 100 * ratio_of(t.mispredicted, t.samples),
                        100 * ratio_of(t.samples - t.not_taken, t.samples));
        for (unsigned s = 0; s < SECTIONS; s++) {
            if (!spex_group_count(b.groups[s]) && text)
                continue;
            if (text && s == BRANCHES &&
                stats_of(spex_group_row(b.groups[s], 0)).mispredicted < LEAST) {
                out_printf(&p.out, "\nNo branch has %d mispredicted samples\n", LEAST);
                continue;
            }
            struct table *table = section_table(&p, b.groups[s], s, t.mispredicted, o->most);
            const char *wrong = o->profile.fields ? table_select(table, o->profile.fields) : NULL;
            if (wrong) {
                p.status = profile_wrong_field(wrong);
                table_free(table);
                break;
            }
            if (json) {
                json_name(&to, sections[s].name);
                table_json(table, &to);
            } else if (text) {
                out_printf(&p.out, "\n%s\n", sections[s].title);
            } else if (s) {
                out_char(&p.out, '\n');
            }
            table_print(table, &p.out, &how);
            size_t rows = spex_group_count(b.groups[s]);
            if (text && rows > table_rows(table))
                out_printf(&p.out, "(%zu more)\n", rows - table_rows(table));
            table_free(table);
        }
        if (json) {
            advice_json(&advice, &to);
            json_end(&to);
        } else if (!p.status) {
            advice_print(&advice, &p);
        }
    }
    advice_free(&advice);
    for (unsigned s = 0; s < SECTIONS; s++)
        spex_group_free(b.groups[s]);
    return profile_close(&p);
}

static const struct cli_option branch_options[] = {
    PROFILE_INPUT_OPTIONS(struct branch_options),
    CLI_THREADS(struct branch_options, profile.threads),
    {"rows", 'n', CLI_NUMBER, offsetof(struct branch_options, most), "N", "rows of each table",
     "12", NULL},
    PROFILE_FIELDS(struct branch_options),
#define OPTIONS struct branch_options
#include "filter_options.def"
    PROFILE_REPLAY(struct branch_options),
    PROFILE_SYMBOL_OPTIONS(struct branch_options),
    {0},
};

const struct cli_command cli_branch = {
    .name = "branch",
    .group = CLI_WHY,
    .pages = true,
    .synopsis = "[FILE...]",
    .summary = "mispredicted branches, their targets and kinds",
    .details = "Branches by how often they are mispredicted, with the share that is taken, the "
               "targets of indirect ones and, where the CPU records it, the target of the "
               "previous taken branch.",
    .options = branch_options,
    .size = sizeof(struct branch_options),
    .run = run_branch,
};
