/*
 * Prints the report of spex check for people: on the terminal, and as Markdown for a pull request.
 */
#include "check.h"
#include "table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const check_formats[] = {"text", "markdown", "json", "junit", NULL};

/* ---- text ---- */

/* "+1.25%"; "=" for the same number. */
static const char *change_text(char text[32], uint64_t before, uint64_t after)
{
    if (before == after)
        return strcpy(text, "=");
    if (!before)
        return strcpy(text, "from 0");
    double percent = 100 * ((double)after / (double)before - 1);
    snprintf(text, 32, fabs(percent) < 0.1 ? "%+.3f%%" : "%+.2f%%", percent);
    return text;
}

static const char *cycles_text(char text[32], int64_t cycles)
{
    char number[32];
    snprintf(text, 32, "%c%s", cycles < 0 ? '-' : '+', text_count(number, (uint64_t)llabs(cycles)));
    return text;
}

static void threshold_text(char text[32], double threshold)
{
    snprintf(text, 32, "%.10g%%", 100 * threshold);
}

static bool several_cpus(const struct check_report *report)
{
    for (size_t i = 1; i < report->count; i++)
        if (strcmp(report->changes[i].after->cpu, report->changes[0].after->cpu))
            return true;
    return false;
}

static size_t count_of(const struct check_report *report, enum check_verdict verdict)
{
    size_t n = 0;
    for (size_t i = 0; i < report->count; i++)
        n += report->changes[i].verdict == verdict;
    return n;
}

static bool compared(const struct check_change *change)
{
    return change->before && change->verdict != CHECK_OTHER;
}

/* Does the change deserve more than its row? */
static bool is_beyond(const struct check_change *change)
{
    return change->verdict == CHECK_SLOWER || change->verdict == CHECK_FASTER ||
           change->verdict == CHECK_SPREAD;
}

/* How far the layouts' lowest and highest counts are from the median. */
static void spread_text(char text[64], const struct check_result *r)
{
    double c = (double)r->counts[CHECK_CYCLES];
    *text = '\0';
    if (r->layouts > 1 && c > 0)
        snprintf(text, 64, "%+.2f%% to %+.2f%%", 100 * ((double)r->low / c - 1),
                 100 * ((double)r->high / c - 1));
}

/* The answer in one sentence. */
static void answer(struct out *out, const struct check_report *report)
{
    size_t slower = count_of(report, CHECK_SLOWER), faster = count_of(report, CHECK_FASTER);
    size_t new = count_of(report, CHECK_NEW), other = count_of(report, CHECK_OTHER);
    const char *s = report->count == 1 ? "" : "s";
    if (!report->baseline) {
        out_printf(out, "%zu benchmark%s counted; there is no baseline to compare with",
                   report->count, s);
        return;
    }
    if (!slower)
        out_text(out, "no benchmark is slower than the baseline");
    else
        out_printf(out, "%zu of %zu benchmark%s %s slower than the baseline", slower, report->count,
                   s, slower == 1 ? "is" : "are");
    if (faster)
        out_printf(out, ", %zu faster", faster);
    if (new)
        out_printf(out, ", %zu not in it yet", new);
    if (other)
        out_printf(out, ", %zu there for another model (--update makes it anew)", other);
    if (report->missing)
        out_printf(out, "; %zu of the baseline %s gone", report->missing,
                   report->missing == 1 ? "is" : "are");
}

/* "slower by 1.2%, beyond 1%: +300 cycles, 20,300 in all" */
static void headline(struct out *out, const struct check_change *c)
{
    char threshold[32], cycles[32], all[32], spread[64];
    uint64_t before = c->before->counts[CHECK_CYCLES], after = c->after->counts[CHECK_CYCLES];
    threshold_text(threshold, c->threshold);
    out_printf(out, "%.2f%% %s (threshold %s): %s cycles, %s in all", 100 * fabs(c->change),
               c->change > 0 ? "slower" : "faster", threshold,
               cycles_text(cycles, (int64_t)(after - before)), text_count(all, after));
    if (c->verdict == CHECK_SPREAD) {
        spread_text(spread, c->after);
        out_printf(out, "; the layout of memory alone changes as much (%s), so it does not count",
                   spread);
    }
}

static void where_text(char text[300], const struct check_blamed_line *line)
{
    char cycles[32];
    const struct check_line *at = line->after ? line->after : line->before;
    snprintf(text, 300, "%.200s:%u %s%s", at->file, at->line, cycles_text(cycles, line->cycles),
             !line->before  ? " (new)"
             : !line->after ? " (gone)"
                            : "");
}

static const char *function_name(const struct check_blame *b)
{
    return (b->after ? b->after : b->before)->name;
}

static const char *came(const struct check_blame *b)
{
    return !b->before ? "new" : !b->after ? "gone" : "";
}

static double share(const struct check_change *c, const struct check_blame *b)
{
    return 100 * (double)b->cycles / (double)c->before->counts[CHECK_CYCLES];
}

/* ---- terminal ---- */

static const struct table_column columns[] = {
    {"benchmark", "", TABLE_TEXT, 0, "", true},
    {"cpu", "cpu", TABLE_TEXT, 0, "", false},
    {"cycles", "cycles", TABLE_COUNT, 0, "", false},
    {"change", "change", TABLE_TEXT, 0, "", false},
    {"spread", "of layouts", TABLE_TEXT, 3, "", false},
    {"verdict", "", TABLE_TEXT, 0, "", false},
    {"instructions", "instructions", TABLE_TEXT, 1, "", false},
    {"l1d_misses", "L1 misses", TABLE_TEXT, 5, "", false},
    {"l2_misses", "L2 misses", TABLE_TEXT, 6, "", false},
    {"llc_misses", "LLC misses", TABLE_TEXT, 7, "", false},
    {"tlb_walks", "TLB walks", TABLE_TEXT, 8, "", false},
    {"mispredicts", "mispredicts", TABLE_TEXT, 4, "", false},
    {0},
};

static void fill(struct table *table, const struct check_change *c)
{
    char text[64];
    table_row(table);
    table_set_text(table, "benchmark", c->after->name);
    table_set_text(table, "cpu", c->after->cpu);
    table_set_u64(table, "cycles", c->after->counts[CHECK_CYCLES]);
    spread_text(text, c->after);
    table_set_text(table, "spread", text);
    table_set_text(table, "verdict", c->verdict == CHECK_SAME ? "" : check_verdicts[c->verdict]);
    if (c->verdict == CHECK_SLOWER || c->verdict == CHECK_FASTER)
        table_style(table, "verdict", c->verdict == CHECK_SLOWER ? TABLE_HOT : TABLE_BOLD);
    for (unsigned n = 1; n < CHECK_COUNTS; n++) {
        if (compared(c))
            table_set_text(table, check_names[n],
                           change_text(text, c->before->counts[n], c->after->counts[n]));
        else
            table_set_text(table, check_names[n], text_scaled(text, (double)c->after->counts[n]));
    }
    if (compared(c))
        table_set_text(
            table, "change",
            change_text(text, c->before->counts[CHECK_CYCLES], c->after->counts[CHECK_CYCLES]));
}

static void print_blame(struct out *out, const struct check_change *c)
{
    struct check_blame blames[CHECK_BLAMED];
    size_t count = check_blame(c, blames);
    char cycles[32], where[300];
    out_char(out, '\n');
    out_name(out, c->after->name);
    out_printf(out, " on %s: ", c->after->cpu);
    headline(out, c);
    out_char(out, '\n');
    for (size_t i = 0; i < count; i++) {
        const struct check_blame *b = &blames[i];
        out_printf(out, "  %+6.2f%%  %14s  ", share(c, b), cycles_text(cycles, b->cycles));
        out_name(out, function_name(b));
        out_printf(out, "%s%s%s\n", *came(b) ? " (" : "", came(b), *came(b) ? ")" : "");
        for (size_t k = 0; k < b->line_count; k++) {
            where_text(where, &b->lines[k]);
            out_printf(out, "%27s", "");
            out_name(out, where);
            out_char(out, '\n');
        }
    }
}

static void print_text(struct out *out, const struct check_report *report)
{
    struct table *table = table_new(columns);
    struct table_options how = {.format = TABLE_AS_TEXT,
                                .width = cli_columns() ? cli_columns() : 140,
                                .colour = cli_colour(1)};
    bool layouts = false, changes = false;
    for (size_t i = 0; i < report->count; i++) {
        fill(table, &report->changes[i]);
        layouts |= report->changes[i].after->layouts > 1;
        changes |= compared(&report->changes[i]);
    }
    if (!several_cpus(report))
        table_hide(table, "cpu");
    if (!layouts)
        table_hide(table, "spread");
    if (!changes)
        table_hide(table, "change");
    if (!report->baseline)
        table_hide(table, "verdict");
    table_print(table, out, &how);
    table_free(table);
    for (size_t i = 0; i < report->count; i++)
        if (is_beyond(&report->changes[i]))
            print_blame(out, &report->changes[i]);
    out_char(out, '\n');
    answer(out, report);
    out_char(out, '\n');
}

/* ---- Markdown ---- */

/* A cell of a table: no bar, no line, no tag. */
static void put_cell(struct out *out, const char *text)
{
    struct out clean;
    out_init(&clean, -1);
    out_name(&clean, text);
    for (size_t i = 0; i < clean.size; i++) {
        if (strchr("|\\`*_<>[]~#", clean.data[i]))
            out_char(out, '\\');
        out_char(out, clean.data[i]);
    }
    out_fini(&clean);
}

static const char *mark(const struct check_change *c)
{
    return c->verdict == CHECK_SLOWER   ? "**slower**"
           : c->verdict == CHECK_FASTER ? "faster"
           : c->verdict == CHECK_SAME   ? ""
                                        : check_verdicts[c->verdict];
}

static void markdown_row(struct out *out, const struct check_change *c, bool cpus)
{
    char text[64];
    out_text(out, "| ");
    put_cell(out, c->after->name);
    if (cpus) {
        out_text(out, " | ");
        put_cell(out, c->after->cpu);
    }
    for (unsigned n = 0; n < CHECK_COUNTS; n++) {
        if (!n || !compared(c))
            out_printf(out, " | %s", text_count(text, c->after->counts[n]));
        if (compared(c))
            out_printf(out, " | %s", change_text(text, c->before->counts[n], c->after->counts[n]));
        else if (!n)
            out_text(out, " | ");
        if (!n)
            out_printf(out, " | %s", mark(c));
    }
    out_text(out, " |\n");
}

static void markdown_blame(struct out *out, const struct check_change *c)
{
    struct check_blame blames[CHECK_BLAMED];
    size_t count = check_blame(c, blames);
    char cycles[32], where[300];
    out_text(out, "\n**");
    put_cell(out, c->after->name);
    out_printf(out, "** on %s: ", c->after->cpu);
    headline(out, c);
    out_text(out, "\n\n| of all | cycles | function | lines |\n|--:|--:|:--|:--|\n");
    for (size_t i = 0; i < count; i++) {
        const struct check_blame *b = &blames[i];
        out_printf(out, "| %+.2f%% | %s | ", share(c, b), cycles_text(cycles, b->cycles));
        put_cell(out, function_name(b));
        out_printf(out, "%s%s%s | ", *came(b) ? " (" : "", came(b), *came(b) ? ")" : "");
        for (size_t k = 0; k < b->line_count; k++) {
            where_text(where, &b->lines[k]);
            out_text(out, k ? "<br>" : "");
            put_cell(out, where);
        }
        out_text(out, " |\n");
    }
}

static void print_markdown(struct out *out, const struct check_report *report)
{
    bool cpus = several_cpus(report);
    out_text(out, "### spex check: ");
    answer(out, report);
    out_printf(out, "\n\n| benchmark |%s", cpus ? " cpu |" : "");
    for (unsigned n = 0; n < CHECK_COUNTS; n++)
        out_printf(out, " %s |%s", check_headings[n], n ? "" : " change | |");
    out_printf(out, "\n|:--|%s--:|--:|:--|", cpus ? ":--|" : "");
    for (unsigned n = 1; n < CHECK_COUNTS; n++)
        out_text(out, "--:|");
    out_char(out, '\n');
    for (size_t i = 0; i < report->count; i++)
        markdown_row(out, &report->changes[i], cpus);
    for (size_t i = 0; i < report->count; i++)
        if (is_beyond(&report->changes[i]))
            markdown_blame(out, &report->changes[i]);
    out_text(out, "\nExact counts of a model of the CPU, the same in every run: there is no noise "
                  "in them.\n");
}

void check_print(struct out *out, enum check_format format, const struct check_report *report)
{
    if (format == CHECK_TEXT)
        print_text(out, report);
    else if (format == CHECK_MARKDOWN)
        print_markdown(out, report);
    else
        check_print_data(out, format, report);
}
