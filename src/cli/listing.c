#include "listing.h"

#include "columns.h"

#include "waits.h"
#include "base/bits.h"
#include "base/memory.h"
#include "base/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    {"waits_for", "waits for", TABLE_TEXT, 9, "the instruction that makes what this one waits for"},
    {"exact_count", "count", TABLE_COUNT, 5, "how often it was executed (--exact)"},
    {"exact_cycles", "cycles", TABLE_COUNT, 6, "cycles in which it held the core up"},
    {"exact_l1_miss", "L1 misses", TABLE_COUNT, 7, "level 1 misses, counted"},
    {"exact_mispredict", "mispredicts", TABLE_COUNT, 8, "mispredicts, counted"},
    {"file", "file", TABLE_TEXT, 255, "source file"},
    {"line", "line", TABLE_NUMBER, 255, "source line"},
    {"inlined", "inlined", TABLE_TEXT, 255, "functions inlined here, innermost first"},
    {"address", "address", TABLE_HEX, 0, "address in the file", true},
    {"instruction", "instruction", TABLE_TEXT, 0, "disassembly", true},
    {0},
};

/* ---- a function ---- */

struct sampled { /* an instruction with samples */
    uint64_t address;
    const struct spex_row *row;
};

static int by_address(const void *a, const void *b)
{
    const struct sampled *x = a, *y = b;
    return ORDER(x->address, y->address);
}

/* The rows of a group ordered by address, followed by an end mark. */
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
    const struct spex_stats s = stats_of(row), t = stats_of(spex_group_total(group));
    char from[80];
    static const struct {
        const char *column;
        enum spex_latency latency;
    } means[] = {{"latency_mean", SPEX_LATENCY_TOTAL},
                 {"issue_mean", SPEX_LATENCY_ISSUE},
                 {"execute_mean", SPEX_LATENCY_EXECUTE},
                 {"translation_mean", SPEX_LATENCY_TRANSLATION}};
    double share = ratio_of(s.samples, t.samples), time = ratio_of(s.time, t.time);
    const char *first = t.time ? "time" : "share";
    table_set(table, "share", share);
    if ((t.time ? time : share) >= 0.05)
        table_style(table, first, (t.time ? time : share) >= 0.2 ? TABLE_HOT : TABLE_WARM);
    if (t.time) {
        struct spex_interval interval = spex_row_time_interval(group, row);
        table_set(table, "time", time);
        table_set(table, "time_error", (interval.high - interval.low) / 2);
        table_set(table, "time_ns", round(spex_row_time(row)));
    }
    table_set_u64(table, "samples", s.samples);
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        uint64_t sum, count = spex_row_latencies(row, means[i].latency, &sum);
        table_set(table, means[i].column, ratio_of(sum, count));
    }
    if (s.flags & SPEX_SAMPLE_LEAST_ISSUE)
        table_least(table, "issue_mean");
    columns_latency(p, table, "execute_p95",
                    spex_row_latency(group, row, SPEX_LATENCY_EXECUTE, 0.95));
    columns_latency(p, table, "latency_p50", spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.5));
    columns_latency(p, table, "latency_p95",
                    spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.95));
    if (s.reads || s.writes) {
        table_set(table, "l1_miss", ratio_of(s.l1_miss, s.l1_access ? s.l1_access : s.samples));
        table_set(table, "llc_miss", ratio_of(s.llc_miss, s.llc_access));
        table_set(table, "tlb_walk", ratio_of(s.tlb_walk, s.tlb_access));
        columns_sources(&s, 0, 1, from, sizeof from);
        table_set_text(table, "from", from);
    }
    if (s.branches) {
        table_set(table, "mispredict", ratio_of(s.mispredicted, s.branches));
        table_set(table, "taken", ratio_of(s.branches - s.not_taken, s.branches));
    }
}

enum { PIECE = 4096 }; /* instructions that are read and disassembled together */

struct listing {
    struct profile *profile;
    const struct listing_of *of;
    struct spex_disassembler *disassembler;
    bool with_source;
    struct table *table;
    struct sources *sources;
    struct spex_line last;        /* the line whose source was shown last */
    const struct sampled *sample; /* the next sampled instruction */
    size_t exact;                 /* index of the next counted instruction */
    uint8_t code[4 * PIECE];
    char text[PIECE][SPEX_INSTRUCTION_TEXT];
    /* registers that the instructions of `text` use, and so wait for */
    struct code_use uses[PIECE];
    uint32_t words[PIECE];
    double cost[PIECE];
    uint64_t samples[PIECE];
    size_t never; /* instructions without samples in blocks that have some */
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
        l->samples[i] = 0;
        code_use(l->text[i], &l->uses[i]);
    }
    for (const struct sampled *s = l->sample; s->row && (s->address - start) / 4 < have; s++)
        if (s->address >= start) {
            l->cost[(s->address - start) / 4] = mean_of(s->row, SPEX_LATENCY_EXECUTE);
            l->samples[(s->address - start) / 4] = stats_of(s->row).samples;
        }
    code_find_blocks(&block);
    l->never += code_never_sampled(&block, l->samples);
    return block;
}

/* Shows the instruction that is waited for; with its function if that is another one. */
static void set_maker(struct table *table, const struct spex_symbol *here,
                      struct spex_module *module, uint64_t address)
{
    const struct spex_symbol *s =
        module == here->module && address >= here->start && address < here->end
            ? NULL
            : spex_module_symbol(module, address);
    if (s && s->name)
        table_printf(table, "waits_for", "%s+0x%llx", s->name,
                     (unsigned long long)(address - s->start));
    else
        table_printf(table, "waits_for", "0x%llx", (unsigned long long)address);
}

/* For an instruction that mostly waited: the one it waited for, from the replay or its block. */
static void fill_wait(struct listing *l, const struct code_block *block, size_t at,
                      const struct spex_row *row)
{
    const struct spex_symbol *here = l->of->symbol;
    /* cycles that any operation may wait, and that a load may take */
    enum { NOTHING = 3, SHORT = 8 };
    const double wait = mean_of(row, SPEX_LATENCY_ISSUE), took = mean_of(row, SPEX_LATENCY_EXECUTE);
    const uint64_t address = block->address + 4 * at;
    struct spex_wait by_replay;
    const struct spex_wait *w =
        spex_analysis_waits_for(l->profile->analysis, here->module, address, &by_replay)
            ? &by_replay
            : NULL;
    if (w && w->stores ? took <= SHORT : wait <= NOTHING || wait < took)
        return;
    const size_t producer = w ? block->count : code_waits_for(block, at);
    if (w ? w->module == here->module && w->address == address : producer == at)
        table_set_text(l->table, "waits_for", "itself");
    else if (w)
        set_maker(l->table, here, w->module, w->address);
    else if (producer < block->count)
        set_maker(l->table, here, here->module, block->address + 4 * producer);
}

static void fill_exact(struct table *table, const struct listing_exact *exact)
{
    table_set_u64(table, "exact_count", exact->counts[TRUTH_OPERATIONS]);
    table_set_u64(table, "exact_cycles", exact->counts[TRUTH_CYCLES]);
    if (exact->counts[TRUTH_L1_MISS])
        table_set_u64(table, "exact_l1_miss", exact->counts[TRUTH_L1_MISS]);
    if (exact->counts[TRUTH_MISPREDICT])
        table_set_u64(table, "exact_mispredict", exact->counts[TRUTH_MISPREDICT]);
}

/*
 * Lists instructions from address on with their samples; where code is missing, only sampled ones.
 */
static void list_piece(struct listing *l, uint64_t start, size_t count)
{
    const struct spex_symbol *symbol = l->of->symbol;
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
        if (i >= have) { /* no code here: continue at the next sample */
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
            struct source *s = sources_get(l->sources, &line, symbol->module);
            const char *slash = strrchr(line.file, '/');
            if (source_problem(s) && !s->reported)
                cli_error("%s: %s", s->path, source_problem(s));
            s->reported = true;
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
            fill(p, table, l->of->group, row);
        else if (is_text)
            table_note(table);
        if (row && i < have)
            fill_wait(l, &block, i, row);
        const struct listing_exact *exact = l->of->exact;
        while (l->exact < l->of->exact_count && exact[l->exact].address < address)
            l->exact++;
        if (l->exact < l->of->exact_count && exact[l->exact].address == address)
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

struct table *listing_function(struct profile *p, const struct listing_of *a,
                               struct spex_disassembler *d, bool with_source, size_t *never)
{
    const struct spex_symbol *symbol = a->symbol;
    struct listing *l = memory_get(1, sizeof *l);
    struct sampled *samples = sort_sampled(a->group);
    struct table *table = table_new(columns);
    l->profile = p;
    l->of = a;
    l->disassembler = d;
    l->with_source = with_source;
    l->table = table;
    struct source_places places = profile_sources(p->options);
    l->sources = sources_new(&places);
    l->sample = samples;
    /*
     * The size may be wrong: where there is no code, continue with the piece that has the next
     * sample.
     */
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
    for (size_t i = 0; !a->with_exact && columns[i].name; i++)
        if (!strncmp(columns[i].name, "exact_", 6))
            table_hide(table, columns[i].name);
    *never = l->never;
    sources_free(l->sources);
    free(samples);
    free(l);
    return table;
}

/* ---- the hottest lines ---- */

enum { STATS = 18, HOT_LINES = 10 };

/* The columns of the listing up to the sources of data, then the line. */
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

/* Shows the text of a row's source line. */
static void fill_source(struct profile *p, struct table *table, struct sources *sources,
                        const struct spex_group *group, const struct spex_row *row)
{
    const struct spex_symbol *symbol = spex_row_symbol(group, row, 0);
    struct spex_line line, first;
    if (!symbol || !spex_row_line(group, row, 1, &line))
        return;
    if (spex_module_line(symbol->module, symbol->start, &first))
        line.dir = first.dir;
    struct source *s = sources_get(sources, &line, symbol->module);
    if (s->text && line.line && line.line <= s->count)
        table_set_text(table, "source",
                       s->lines[line.line - 1] + strspn(s->lines[line.line - 1], " \t"));
}

struct table *listing_hot(struct profile *p, const struct spex_group *lines)
{
    struct table *table = table_new(hot_columns());
    struct source_places places = profile_sources(p->options);
    struct sources *sources = sources_new(&places);
    const struct spex_stats all = stats_of(spex_group_total(lines));
    bool text = p->options->format == TABLE_AS_TEXT;
    for (size_t i = 0; i < spex_group_count(lines) && i < HOT_LINES; i++) {
        const struct spex_row *row = spex_group_row(lines, i);
        double share = all.time ? ratio_of(stats_of(row).time, all.time)
                                : ratio_of(stats_of(row).samples, all.samples);
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
