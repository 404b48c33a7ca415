/* spex annotate: a function's instructions with source lines and what was sampled at each. */
#include "calls.h"
#include "columns.h"

#include "analysis/code.h"
#include "analysis/stacks.h"
#include "analysis/internal.h"
#include "analysis/waits.h"
#include "base/bits.h"
#include "base/memory.h"
#include "base/vec.h"
#include "export/truth.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct annotate_options {
    struct profile_options profile;
    bool no_source, exact;
};

static const struct table_column columns[] = {
    {"time", "time", TABLE_PERCENT, 0, "share of the function's time"},
    {"time_error", "+-95%", TABLE_PERCENT, 20, "half of the 95% interval of that share"},
    {"time_ns", "time ns", TABLE_COUNT, 255, "the time itself, nanoseconds"},
    {"share", "share", TABLE_PERCENT, 0, "share of the function's samples"},
    {"samples", "samples", TABLE_COUNT, 10, "number of samples"},
    {"latency_mean", "lat", TABLE_NUMBER, 255, "total latency, mean"},
    {"latency_p50", "lat p50", TABLE_NUMBER, 255, "total latency, median"},
    {"latency_p95", "lat p95", TABLE_NUMBER, 255, "total latency, 95th percentile"},
    {"issue_mean", "wait", TABLE_NUMBER, 8, "issue latency, mean: waiting for operands"},
    {"execute_mean", "execute", TABLE_NUMBER, 15, "total minus issue latency, mean"},
    {"execute_p95", "p95", TABLE_NUMBER, 30, "total minus issue latency, 95th percentile"},
    {"translation_mean", "translate", TABLE_NUMBER, 65, "translation latency, mean"},
    {"l1_miss", "L1 miss", TABLE_PERCENT, 12, "L1D misses of L1D accesses"},
    {"llc_miss", "LLC miss", TABLE_PERCENT, 40, "last-level misses"},
    {"tlb_walk", "TLB walk", TABLE_PERCENT, 35, "accesses that walked the tables"},
    {"mispredict", "mispred", TABLE_PERCENT, 13, "branches mispredicted"},
    {"taken", "taken", TABLE_PERCENT, 50, "branches taken"},
    {"from", "from", TABLE_TEXT, 11, "where data came from"},
    {"waits_for", "waits for", TABLE_TEXT, 9,
     "the instruction, before it in its block, that makes what this one waits for"},
    {"exact_count", "count", TABLE_COUNT, 5, "how often it was executed (--exact)"},
    {"exact_cycles", "cycles", TABLE_COUNT, 6, "cycles to its retirement from the one before"},
    {"exact_l1_miss", "L1 misses", TABLE_COUNT, 7, "level 1 misses, counted"},
    {"exact_mispredict", "mispredicts", TABLE_COUNT, 8, "mispredicts, counted"},
    {"file", "file", TABLE_TEXT, 255, "source file"},
    {"line", "line", TABLE_NUMBER, 255, "source line"},
    {"inlined", "inlined", TABLE_TEXT, 255, "functions inlined here, innermost first"},
    {"address", "address", TABLE_HEX, 0, "address in the file", true},
    {"instruction", "instruction", TABLE_TEXT, 0, "disassembly", true},
    {0},
};

/* ---- samples ---- */

/* What was counted for an instruction. */
struct exact {
    uint64_t address, counts[TRUTH_COUNTS];
};

struct annotate {
    struct spex_group *group;
    struct spex_group *callers; /* of the function; NULL: there are no call stacks */
    const struct spex_symbol *symbol;
    struct spex_analysis *analysis;
    VEC(struct exact) exact; /* in order of address, with --exact */
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct annotate *a = context;
    for (size_t i = 0; i < count; i++)
        if (samples[i].symbol == a->symbol) {
            spex_group_sink(a->group, &samples[i], 1);
            if (a->callers)
                spex_group_sink(a->callers, &samples[i], 1);
        }
}

/* What is counted of all functions, of which one is chosen then. */
struct every {
    struct spex_group *pcs, *calls; /* instructions; callers, or NULL */
    struct spex_group *symbols;     /* functions */
};

/*
 * The rows of the chosen function, and of all lines (or NULL): from what was counted, unless that
 * was too much to be kept; then in a second pass.
 */
static int count_function(struct profile *p, struct annotate *a, const struct every *every,
                          struct spex_group *lines)
{
    if (group_exact(every->pcs) && (!every->calls || group_exact(every->calls))) {
        group_derive_of(a->group, every->pcs, a->symbol);
        if (a->callers)
            group_derive_of(a->callers, every->calls, a->symbol);
        if (lines)
            spex_group_derive(lines, every->pcs);
        return CLI_OK;
    }
    const struct analysis_sink sinks[] = {{feed, a}, {spex_group_sink, lines}};
    return profile_run_all(p, sinks, lines ? 2 : 1);
}

/* "called by a 71.0%, b 29.0%". */
static void print_callers(struct profile *p, const struct annotate *a)
{
    enum { MOST = 6 };
    struct out line;
    if (!a->callers)
        return;
    out_init(&line, -1);
    size_t count = spex_group_count(a->callers);
    const struct spex_row *all = spex_group_total(a->callers);
    for (size_t i = 0; i < count && i < MOST; i++) {
        const struct spex_row *row = spex_group_row(a->callers, i);
        double share = all->stats.time ? ratio_of(row->stats.time, all->stats.time)
                                       : ratio_of(row->stats.samples, all->stats.samples);
        char *text = columns_text(a->callers, row, 0);
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

struct sampled { /* an instruction with samples */
    uint64_t address;
    const struct spex_row *row;
};

static int by_address(const void *a, const void *b)
{
    const struct sampled *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* The rows of a group in order of address, then one past the last. */
static struct sampled *sort_sampled(const struct spex_group *group)
{
    size_t count = spex_group_count(group);
    struct sampled *list = memory_get(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        const struct spex_row *row = spex_group_row(group, i);
        list[i] = (struct sampled){spex_row_address(group, row, 0), row};
    }
    qsort(list, count, sizeof *list, by_address);
    list[count] = (struct sampled){UINT64_MAX, NULL};
    return list;
}

static void fill(const struct profile *p, struct table *table, const struct spex_group *group,
                 const struct spex_row *row)
{
    const struct spex_stats *s = &row->stats, *t = &spex_group_total(group)->stats;
    char from[80];
    static const struct {
        const char *column;
        enum spex_latency latency;
    } means[] = {{"latency_mean", SPEX_LATENCY_TOTAL},
                 {"issue_mean", SPEX_LATENCY_ISSUE},
                 {"execute_mean", SPEX_LATENCY_EXECUTE},
                 {"translation_mean", SPEX_LATENCY_TRANSLATION}};
    double share = ratio_of(s->samples, t->samples), time = ratio_of(s->time, t->time);
    const char *first = t->time ? "time" : "share";
    table_set(table, "share", share);
    if ((t->time ? time : share) >= 0.05)
        table_style(table, first, (t->time ? time : share) >= 0.2 ? TABLE_HOT : TABLE_WARM);
    if (t->time) {
        struct spex_interval interval = spex_row_time_interval(group, row);
        table_set(table, "time", time);
        table_set(table, "time_error", (interval.high - interval.low) / 2);
        table_set(table, "time_ns", round(spex_row_time(row)));
    }
    table_set_u64(table, "samples", s->samples);
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        uint64_t sum, count = spex_row_latencies(row, means[i].latency, &sum);
        table_set(table, means[i].column, ratio_of(sum, count));
    }
    if (row->flags & SPEX_SAMPLE_LEAST_ISSUE)
        table_least(table, "issue_mean");
    columns_latency(p, table, "execute_p95",
                    spex_row_latency(group, row, SPEX_LATENCY_EXECUTE, 0.95));
    columns_latency(p, table, "latency_p50", spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.5));
    columns_latency(p, table, "latency_p95",
                    spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.95));
    if (s->reads || s->writes) {
        table_set(table, "l1_miss", ratio_of(s->l1_miss, s->l1_access ? s->l1_access : s->samples));
        table_set(table, "llc_miss", ratio_of(s->llc_miss, s->llc_access));
        table_set(table, "tlb_walk", ratio_of(s->tlb_walk, s->tlb_access));
        columns_sources(s, 0, 1, from, sizeof from);
        table_set_text(table, "from", from);
    }
    if (s->branches) {
        table_set(table, "mispredict", ratio_of(s->mispredicted, s->branches));
        table_set(table, "taken", ratio_of(s->branches - s->not_taken, s->branches));
    }
}

enum { PIECE = 4096 }; /* instructions that are read and disassembled at a time */

struct listing {
    struct profile *profile;
    const struct annotate *annotate;
    struct spex_disassembler *disassembler;
    bool with_source;
    struct table *table;
    struct sources *sources;
    struct spex_line last;        /* whose source was shown */
    const struct sampled *sample; /* the next */
    size_t exact;                 /* the next of the counted ones */
    uint8_t code[4 * PIECE];
    char text[PIECE][SPEX_INSTRUCTION_TEXT];
    /* the same for what instructions wait for */
    struct code_use uses[PIECE];
    uint32_t words[PIECE];
    double cost[PIECE];
    bool starts[PIECE];
};

static double mean_of(const struct spex_row *row, enum spex_latency latency)
{
    uint64_t sum, count = spex_row_latencies(row, latency, &sum);
    return count ? (double)sum / (double)count : 0;
}

static struct code_block know_code(struct listing *l, uint64_t start, size_t have)
{
    struct code_block block = {l->uses, l->words, have, start, l->cost, l->starts};
    for (size_t i = 0; i < have; i++) {
        l->words[i] = le32(l->code + 4 * i);
        l->cost[i] = 0;
        code_use(l->text[i], &l->uses[i]);
    }
    for (const struct sampled *s = l->sample; s->row && (s->address - start) / 4 < have; s++)
        if (s->address >= start)
            l->cost[(s->address - start) / 4] = mean_of(s->row, SPEX_LATENCY_EXECUTE);
    code_find_blocks(&block);
    return block;
}

/* For an instruction that mostly waited: the one it waited for, if its block shows it. */
static void fill_wait(struct table *table, const struct code_block *block, size_t at,
                      const struct spex_row *row)
{
    enum { NOTHING = 3 }; /* cycles that any operation may wait */
    double wait = mean_of(row, SPEX_LATENCY_ISSUE);
    if (wait <= NOTHING || wait < mean_of(row, SPEX_LATENCY_EXECUTE))
        return;
    size_t producer = code_waits_for(block, at);
    if (producer == at)
        table_set_text(table, "waits_for", "itself");
    else if (producer < block->count)
        table_printf(table, "waits_for", "0x%llx",
                     (unsigned long long)(block->address + 4 * producer));
}

static void fill_exact(struct table *table, const struct exact *exact)
{
    table_set_u64(table, "exact_count", exact->counts[TRUTH_OPERATIONS]);
    table_set_u64(table, "exact_cycles", exact->counts[TRUTH_CYCLES]);
    if (exact->counts[TRUTH_L1_MISS])
        table_set_u64(table, "exact_l1_miss", exact->counts[TRUTH_L1_MISS]);
    if (exact->counts[TRUTH_MISPREDICT])
        table_set_u64(table, "exact_mispredict", exact->counts[TRUTH_MISPREDICT]);
}

/*
 * The instructions from address on with their samples; where the code is missing, only sampled
 * ones.
 */
static void list_piece(struct listing *l, uint64_t start, size_t count)
{
    const struct spex_symbol *symbol = l->annotate->symbol;
    struct profile *p = l->profile;
    struct table *table = l->table;
    size_t have = spex_module_read(symbol->module, start, l->code, 4 * count) / 4;
    spex_disassemble(l->disassembler, start, l->code, have, l->text);
    bool is_text = p->options->format == TABLE_AS_TEXT;
    const struct code_block block = know_code(l, start, have);
    struct out inlined;
    out_init(&inlined, -1);
    for (size_t i = 0; i < count; i++) {
        uint64_t address = start + 4 * i;
        if (i >= have) { /* no code: go on at the next sample */
            if (!l->sample->row || (l->sample->address - start) / 4 >= count)
                break;
            if (l->sample->address > address) {
                i = (size_t)(l->sample->address - start) / 4;
                address = start + 4 * i;
            }
        }
        while (l->sample->address < address)
            l->sample++;
        const struct spex_row *row = l->sample->address == address ? l->sample->row : NULL;
        struct spex_line line;
        struct spex_inline frames[4];
        if (i >= have && !row)
            continue;
        bool known = spex_module_line(symbol->module, address, &line);
        size_t depth = known ? spex_module_inlines(symbol->module, address, frames, 4) : 0;
        inlined.size = 0;
        for (size_t f = 0; f < depth && f < 4; f++) {
            out_text(&inlined, f ? " < " : "");
            out_text(&inlined, frames[f].name);
        }
        out_char(&inlined, 0);
        if (is_text && l->with_source && known &&
            (!l->last.file || strcmp(l->last.file, line.file) || l->last.line != line.line)) {
            struct source *s = sources_get(l->sources, &line, p->options->symfs);
            const char *slash = strrchr(line.file, '/');
            if (s->error && !s->told)
                cli_error("%s: %s", s->path, strerror(s->error));
            s->told = true;
            const char *words = s->text && line.line <= s->count ? s->lines[line.line - 1] : "";
            char span[600];
            snprintf(span, sizeof span, "%s:%u%s%s%s%s%s", slash ? slash + 1 : line.file, line.line,
                     depth ? " (inlined " : "", inlined.data, depth ? ")" : "", *words ? "  " : "",
                     words + strspn(words, " \t"));
            table_span(table, span);
            l->last = line;
        }
        table_row(table);
        if (row)
            fill(p, table, l->annotate->group, row);
        else if (is_text)
            table_note(table);
        if (row && i < have)
            fill_wait(table, &block, i, row);
        const struct exact *exact = l->annotate->exact.items;
        while (l->exact < l->annotate->exact.count && exact[l->exact].address < address)
            l->exact++;
        if (l->exact < l->annotate->exact.count && exact[l->exact].address == address)
            fill_exact(table, &exact[l->exact]);
        if (known) {
            table_set_text(table, "file", line.file);
            table_set_u64(table, "line", line.line);
        }
        if (depth)
            table_set_text(table, "inlined", inlined.data);
        table_set_u64(table, "address", address);
        if (i < have) {
            code_name_target(symbol, le32(l->code + 4 * i), address, l->text[i]);
            table_set_text(table, "instruction", l->text[i]);
        }
    }
    out_fini(&inlined);
}

static struct table *function_table(struct profile *p, const struct annotate *a,
                                    struct spex_disassembler *d, bool with_source)
{
    const struct spex_symbol *symbol = a->symbol;
    struct listing *l = memory_get(1, sizeof *l);
    struct sampled *samples = sort_sampled(a->group);
    struct table *table = table_new(columns);
    l->profile = p;
    l->annotate = a;
    l->disassembler = d;
    l->with_source = with_source;
    l->table = table;
    l->sources = sources_new();
    l->sample = samples;
    /* The size may be wrong: where there is no code, go on with the piece of the next sample. */
    for (uint64_t at = 0, size = (symbol->end - symbol->start) & ~UINT64_C(3); at < size;) {
        uint64_t left = (size - at) / 4;
        uint8_t any[4];
        list_piece(l, symbol->start + at, left < PIECE ? (size_t)left : PIECE);
        at += 4 * PIECE;
        if (at < size && !spex_module_read(symbol->module, symbol->start + at, any, sizeof any)) {
            while (l->sample->address < symbol->start + at)
                l->sample++;
            if (!l->sample->row)
                break;
            uint64_t next = l->sample->address - symbol->start;
            at = next & ~UINT64_C(3);
        }
    }
    sources_free(l->sources);
    free(samples);
    free(l);
    return table;
}

/* The row of the symbol that is meant: the hottest that matches, or the hottest of all. */
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
    struct exact *exact = memory_checked(vec_push(&a->exact));
    exact->address = where.address;
    memcpy(exact->counts, row->counts, sizeof exact->counts);
}

static int by_exact_address(const void *a, const void *b)
{
    const struct exact *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
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
        struct exact *last = n ? &a->exact.items[n - 1] : NULL, *next = &a->exact.items[i];
        if (last && last->address == next->address)
            for (unsigned c = 0; c < TRUTH_COUNTS; c++)
                last->counts[c] += next->counts[c];
        else
            a->exact.items[n++] = *next;
    }
    a->exact.count = n;
    return CLI_OK;
}

/* ---- the hottest lines ---- */

enum { STATS = 18, HOT_LINES = 10 };

/* The columns of the listing up to where data came from, then the line. */
static const struct table_column *hot_columns(void)
{
    static struct table_column all[STATS + 4];
    _Static_assert(sizeof columns / sizeof *columns > STATS, "columns before 'waits_for'");
    memcpy(all, columns, STATS * sizeof *all);
    all[STATS] = (struct table_column){"symbol", "function", TABLE_TEXT, 0, "function", true};
    all[STATS + 1] = (struct table_column){"srcline", "line", TABLE_TEXT, 0, "source line", true};
    all[STATS + 2] = (struct table_column){"source", "source", TABLE_TEXT, 60, "its text"};
    return all;
}

/* The text of a row's source line; the line is that of any of its instructions. */
static void fill_source(struct profile *p, struct table *table, struct sources *sources,
                        const struct spex_group *group, const struct spex_row *row)
{
    const struct spex_symbol *symbol = spex_row_symbol(group, row, 0);
    const uint64_t *key = group_key(group, row, 1);
    if (!symbol || !(key[1] >> 63) || key[0] & 1) /* no line is known */
        return;
    struct spex_line line = {.file = (const char *)(uintptr_t)key[0], .line = (unsigned)key[1]};
    struct spex_line first;
    if (spex_module_line(symbol->module, symbol->start, &first))
        line.dir = first.dir;
    struct source *s = sources_get(sources, &line, p->options->symfs);
    if (s->text && line.line && line.line <= s->count)
        table_set_text(table, "source",
                       s->lines[line.line - 1] + strspn(s->lines[line.line - 1], " \t"));
}

static struct table *hot_table(struct profile *p, const struct spex_group *lines)
{
    struct table *table = table_new(hot_columns());
    struct sources *sources = sources_new();
    const struct spex_stats *all = &spex_group_total(lines)->stats;
    bool text = p->options->format == TABLE_AS_TEXT;
    for (size_t i = 0; i < spex_group_count(lines) && i < HOT_LINES; i++) {
        const struct spex_row *row = spex_group_row(lines, i);
        double share = all->time ? ratio_of(row->stats.time, all->time)
                                 : ratio_of(row->stats.samples, all->samples);
        if (i && text && share < p->limit)
            break;
        table_row(table);
        fill(p, table, lines, row);
        columns_key(table, "symbol", lines, row, 0);
        columns_key(table, "srcline", lines, row, 1);
        fill_source(p, table, sources, lines, row);
    }
    sources_free(sources);
    return table;
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

/* What is known about the whole profile besides the function. */
struct whole {
    const struct spex_group *symbols, *lines; /* lines NULL: a function was named */
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
        JSON_MEMBER(json, "samples", u64, row->stats.samples);
        JSON_MEMBER(json, "time_ns", u64, (uint64_t)llround(spex_row_time(row)));
        json_end(json);
        free(text);
    }
    json_end(json);
}

static void print_json(struct profile *p, const struct annotate *a, const struct whole *whole,
                       const char *name, const struct table *table, const struct table *hot)
{
    const struct spex_row *own = spex_group_total(a->group);
    struct json json = profile_json(p, "spex.annotate.1");
    JSON_MEMBER(&json, "symbol", string, name);
    JSON_MEMBER(&json, "dso", string, spex_module_path(a->symbol->module));
    JSON_MEMBER(&json, "samples", u64, own->stats.samples);
    JSON_MEMBER(&json, "time_ns", u64, (uint64_t)llround(spex_row_time(own)));
    advice_json(whole->advice, &json);
    if (a->callers)
        put_callers(&json, a->callers);
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
                       const char *disassembler)
{
    struct table_options how = profile_table(p);
    uint64_t own = spex_group_total(a->group)->stats.samples;
    double time = spex_row_time(spex_group_total(a->group));
    char of_time[40] = "time not known", count[32];
    if (hot) {
        profile_header(p, &p->out);
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
        100 * ratio_of(own, spex_group_total(whole->symbols)->stats.samples), disassembler);
    print_callers(p, a);
    table_print(table, &p->out, &how);
    if (a->symbol->end - a->symbol->start && !table_rows(table))
        out_text(&p->out, "the code of this function is not at hand\n");
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
    bool timed = spex_row_time(spex_group_total(a->group)) > 0;
    struct table *table = function_table(p, a, d, !o->no_source), *hot = NULL;
    hide_unknown(p, table, timed);
    for (size_t i = 0; !o->exact && columns[i].name; i++)
        if (!strncmp(columns[i].name, "exact_", 6))
            table_hide(table, columns[i].name);
    if (whole->lines) {
        hot = hot_table(p, whole->lines);
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
        status = cli_usage("--fields: '%.*s' is no column here", (int)strcspn(wrong, ","), wrong);
    else if (format == TABLE_AS_JSON)
        print_json(p, a, whole, a->symbol->name ? a->symbol->name : name, table, hot);
    else
        print_text(p, a, whole, name, table, format == TABLE_AS_TEXT ? hot : NULL,
                   spex_disassembler_name(d));
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
        return cli_usage("one function at a time");
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
    struct annotate a = {.group = profile_group(&p, by_pc + 1, 1, percentiles),
                         .analysis = p.analysis};
    spex_group_derive(every.symbols, every.pcs);
    struct advice advice =
        advice_new(&p, o->profile.format != TABLE_AS_CSV, spex_group_sink, every.pcs);
    if (analysis_stacks(p.analysis) != STACKS_NONE) {
        a.callers = profile_group(&p, by_caller + 1, 1, 0);
        every.calls = profile_group(&p, by_caller, 2, 0);
        advice_feed(&advice, spex_group_sink, every.calls);
    }
    /* the hottest of all, if there is no function to look at */
    struct spex_group *lines = argv[0] ? NULL : profile_group(&p, by_line, 2, percentiles);
    p.status = advice_run(&advice, &p);
    spex_group_sort(every.symbols, SPEX_BY_TIME);
    if (!p.status && !profile_empty(&p, spex_group_total(every.symbols)->stats.samples, ""))
        a.symbol = choose(&p, every.symbols, argv[0]);
    if (a.symbol && !p.status)
        p.status = count_function(&p, &a, &every, lines);
    if (a.symbol && !p.status && o->exact)
        p.status = read_exact(&p, &a);
    if (a.symbol && !p.status) {
        struct whole whole = {every.symbols, lines, &advice};
        spex_group_sort(a.group, SPEX_BY_SAMPLES);
        if (lines)
            spex_group_sort(lines, SPEX_BY_TIME);
        if (a.callers)
            spex_group_sort(a.callers, SPEX_BY_TIME);
        p.status = print(&p, &a, &whole, o);
    }
    vec_free(&a.exact);
    advice_free(&advice);
    struct spex_group *groups[] = {every.pcs, every.calls, every.symbols,
                                   lines,     a.group,     a.callers};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        spex_group_free(groups[i]);
    return profile_close(&p);
}

static const struct cli_option annotate_options[] = {
    PROFILE_INPUT_OPTIONS(struct annotate_options),
    CLI_THREADS(struct annotate_options, profile.threads),
    {"no-source", 0, CLI_FLAG, offsetof(struct annotate_options, no_source), NULL,
     "instructions only, without source lines", NULL, NULL},
    {"exact", 0, CLI_FLAG, offsetof(struct annotate_options, exact), NULL,
     "also what spex record --truth counted: executions, cycles, misses, mispredicts", NULL, NULL},
    PROFILE_FIELDS(struct annotate_options),
#define OPTIONS struct annotate_options
#include "filter_options.def"
    PROFILE_SYMBOL_OPTIONS(struct annotate_options),
    {0},
};

const struct cli_command cli_annotate = {
    .name = "annotate",
    .group = CLI_READING,
    .synopsis = "[FUNCTION]",
    .summary = "a function's instructions with source lines and samples",
    .details = "Without FUNCTION, the hottest lines of all functions, then the function with the "
               "most time. 'wait' is how long an instruction waited for its operands, 'waits for' "
               "the instruction that makes them, where its block shows it: that one is to blame. "
               "Instructions come from the newest "
               "libLLVM that is installed, else from objdump. Sources are looked for where the "
               "debug information says, below --symfs, and in the current directory.",
    .options = annotate_options,
    .size = sizeof(struct annotate_options),
    .run = run_annotate,
};
