/* spex annotate: a function's instructions with source lines and what was sampled at each. */
#include "columns.h"

#include "base/bits.h"
#include "base/vec.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct annotate_options {
    struct profile_options profile;
    bool no_source;
};

static const struct table_column columns[] = {
    {"share", "share", TABLE_PERCENT, 0, "share of the function's samples"},
    {"samples", "samples", TABLE_COUNT, 10, "number of samples"},
    {"latency_mean", "lat", TABLE_NUMBER, 55, "total latency, mean"},
    {"latency_p50", "p50", TABLE_NUMBER, 30, "total latency, median"},
    {"latency_p95", "p95", TABLE_NUMBER, 15, "total latency, 95th percentile"},
    {"issue_mean", "issue", TABLE_NUMBER, 60, "issue latency, mean"},
    {"translation_mean", "xlat", TABLE_NUMBER, 65, "translation latency, mean"},
    {"l1_miss", "L1 miss", TABLE_PERCENT, 12, "L1D misses of L1D accesses"},
    {"llc_miss", "LLC miss", TABLE_PERCENT, 40, "last-level misses"},
    {"tlb_walk", "TLB walk", TABLE_PERCENT, 35, "accesses that walked the tables"},
    {"mispredict", "mispred", TABLE_PERCENT, 13, "branches mispredicted"},
    {"taken", "taken", TABLE_PERCENT, 50, "branches taken"},
    {"from", "from", TABLE_TEXT, 11, "where data came from"},
    {"file", "file", TABLE_TEXT, 255, "source file"},
    {"line", "line", TABLE_NUMBER, 255, "source line"},
    {"inlined", "inlined", TABLE_TEXT, 255, "functions inlined here, innermost first"},
    {"address", "address", TABLE_HEX, 0, "address in the file"},
    {"instruction", "instruction", TABLE_TEXT, 0, "disassembly"},
    {0},
};

/* ---- source files ---- */

struct source {
    char *path; /* as the debug information names it */
    char *text; /* NULL: not found */
    VEC(char *) lines;
    struct source *next;
};

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t size = 0, capacity = 1 << 16;
    char *text = malloc(capacity + 1);
    while (text) {
        size_t n = fread(text + size, 1, capacity - size, f);
        size += n;
        if (!n || size > 64 << 20)
            break;
        if (size == capacity) {
            char *more = realloc(text, (capacity *= 2) + 1);
            if (!more)
                break;
            text = more;
        }
    }
    fclose(f);
    if (text)
        text[size] = 0;
    return text;
}

static struct source *get_source(struct source **list, const struct spex_line *line,
                                 const char *symfs)
{
    for (struct source *s = *list; s; s = s->next)
        if (!strcmp(s->path, line->file))
            return s;
    struct source *s = cli_memory(calloc(1, sizeof *s));
    char path[4096];
    s->path = cli_memory(strdup(line->file));
    s->next = *list;
    *list = s;
    const char *dir = line->file[0] != '/' && line->dir ? line->dir : "";
    if (symfs) {
        snprintf(path, sizeof path, "%s%s%s%s", symfs, dir, *dir ? "/" : "", line->file);
        s->text = read_file(path);
    }
    if (!s->text) {
        snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", line->file);
        s->text = read_file(path);
    }
    if (!s->text) {
        const char *slash = strrchr(line->file, '/');
        s->text = read_file(slash ? slash + 1 : line->file);
    }
    for (char *p = s->text; p && *p;) {
        char **start = cli_memory(vec_push(&s->lines));
        *start = p;
        p += strcspn(p, "\n");
        if (*p)
            *p++ = 0;
    }
    return s;
}

static void free_sources(struct source *s)
{
    while (s) {
        struct source *next = s->next;
        free(s->path);
        free(s->text);
        vec_free(&s->lines);
        free(s);
        s = next;
    }
}

/* ---- samples ---- */

struct annotate {
    struct spex_group *group;
    const struct spex_symbol *symbol;
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct annotate *a = context;
    for (size_t i = 0; i < count; i++)
        if (samples[i].symbol == a->symbol)
            spex_group_sink(a->group, &samples[i], 1);
}

static bool symbol_matches(const struct spex_symbol *symbol, const char *text, const char *wanted)
{
    if (!strcmp(text, wanted) || !fnmatch(wanted, text, 0) ||
        (symbol->raw && !strcmp(symbol->raw, wanted)))
        return true;
    size_t n = strcspn(text, "(");
    return n == strlen(wanted) && !strncmp(text, wanted, n);
}

/* Where a direct branch goes: B, BL, B.cond, CBZ, TBZ (DDI 0487 C4.1). */
static bool branch_target(uint32_t word, uint64_t address, uint64_t *target)
{
    int64_t offset;
    if ((word & 0x7c000000) == 0x14000000)
        offset = (int64_t)((uint64_t)word << 38) >> 36;
    else if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000)
        offset = (int64_t)((uint64_t)(word >> 5 & 0x7ffff) << 45) >> 43;
    else if ((word & 0x7e000000) == 0x36000000)
        offset = (int64_t)((uint64_t)(word >> 5 & 0x3fff) << 50) >> 48;
    else
        return false;
    *target = address + (uint64_t)offset;
    return true;
}

/* "bl #0xfc" to "bl sum", "b.ne #-0xc" to "b.ne 0x401204". */
static void name_target(const struct spex_symbol *symbol, uint32_t word, uint64_t address,
                        char text[SPEX_INSTRUCTION_TEXT])
{
    uint64_t target;
    char *operand = strrchr(text, ',');
    if (!branch_target(word, address, &target))
        return;
    operand = operand ? operand + 1 : strchr(text, ' ');
    if (!operand)
        return;
    while (*operand == ' ')
        operand++;
    size_t room = SPEX_INSTRUCTION_TEXT - (size_t)(operand - text);
    const struct spex_symbol *other = spex_module_symbol(symbol->module, target);
    if (other && other != symbol && other->name && target == other->start)
        snprintf(operand, room, "%s", other->name);
    else
        snprintf(operand, room, "0x%llx", (unsigned long long)target);
}

static const struct spex_row *row_for(const struct spex_group *group, uint64_t address)
{
    /* rows are few: one per instruction of a function */
    for (size_t i = 0; i < spex_group_count(group); i++)
        if (spex_row_address(group, spex_group_row(group, i), 0) == address)
            return spex_group_row(group, i);
    return NULL;
}

static void fill(struct table *table, const struct spex_group *group, const struct spex_row *row)
{
    const struct spex_stats *s = &row->stats, *t = &spex_group_total(group)->stats;
    char from[80];
    static const struct {
        const char *column;
        enum spex_latency latency;
    } means[] = {{"latency_mean", SPEX_LATENCY_TOTAL},
                 {"issue_mean", SPEX_LATENCY_ISSUE},
                 {"translation_mean", SPEX_LATENCY_TRANSLATION}};
    double share = ratio_of(s->samples, t->samples);
    table_set(table, "share", share);
    if (share >= 0.05)
        table_style(table, "share", share >= 0.2 ? TABLE_HOT : TABLE_WARM);
    table_set_u64(table, "samples", s->samples);
    for (size_t i = 0; i < 3; i++)
        table_set(table, means[i].column,
                  ratio_of(s->latency_sum[means[i].latency], s->latency_count[means[i].latency]));
    int p50 = spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.5);
    int p95 = spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.95);
    if (p50 >= 0)
        table_set_u64(table, "latency_p50", (uint64_t)p50);
    if (p95 >= 0)
        table_set_u64(table, "latency_p95", (uint64_t)p95);
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

static struct table *function_table(struct profile *p, const struct annotate *a,
                                    struct spex_disassembler *d, bool with_source)
{
    const struct spex_symbol *symbol = a->symbol;
    struct table *table = table_new(columns);
    size_t count = (size_t)(symbol->end - symbol->start) / 4, have;
    enum { MOST = 1 << 16 };
    if (count > MOST)
        count = MOST;
    uint8_t *code = cli_memory(calloc(count + 1, 4));
    char(*text)[SPEX_INSTRUCTION_TEXT] = cli_memory(calloc(count + 1, sizeof *text));
    have = spex_module_read(symbol->module, symbol->start, code, 4 * count) / 4;
    spex_disassemble(d, symbol->start, code, have, text);
    bool is_text = p->options->format == TABLE_AS_TEXT;
    struct source *sources = NULL;
    struct spex_line last = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t address = symbol->start + 4 * i;
        const struct spex_row *row = row_for(a->group, address);
        struct spex_line line;
        struct spex_inline frames[4];
        if (i >= have && !row)
            continue; /* no code: only what was sampled */
        bool known = spex_module_line(symbol->module, address, &line);
        size_t depth = known ? spex_module_inlines(symbol->module, address, frames, 4) : 0;
        char inlined[200] = "";
        for (size_t f = 0; f < depth && f < 4; f++) {
            size_t n = strlen(inlined);
            snprintf(inlined + n, sizeof inlined - n, "%s%s", f ? " < " : "", frames[f].name);
        }
        if (is_text && with_source && known &&
            (!last.file || strcmp(last.file, line.file) || last.line != line.line)) {
            const struct source *s = get_source(&sources, &line, p->options->symfs);
            const char *slash = strrchr(line.file, '/');
            const char *words =
                s->text && line.line <= s->lines.count ? s->lines.items[line.line - 1] : "";
            char span[600];
            snprintf(span, sizeof span, "%s:%u%s%s%s%s%s", slash ? slash + 1 : line.file, line.line,
                     depth ? " (inlined " : "", inlined, depth ? ")" : "", *words ? "  " : "",
                     words + strspn(words, " \t"));
            table_span(table, span);
            last = line;
        }
        table_row(table);
        if (row)
            fill(table, a->group, row);
        else if (is_text)
            table_note(table);
        if (known) {
            table_set_text(table, "file", line.file);
            table_set_u64(table, "line", line.line);
        }
        if (depth)
            table_set_text(table, "inlined", inlined);
        table_set_u64(table, "address", address);
        if (i < have) {
            name_target(symbol, le32(code + 4 * i), address, text[i]);
            table_set_text(table, "instruction", text[i]);
        }
    }
    free_sources(sources);
    free(code);
    free(text);
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
        char text[1024];
        if (!symbol)
            continue;
        spex_row_text(symbols, row, 0, text, sizeof text);
        if (wanted && !symbol_matches(symbol, text, wanted))
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
        out_text(&p->out, "no function of the profile is known by name or place; spex report "
                          "--sort pc lists addresses\n");
    }
    return found;
}

static int run_annotate(void *options, int argc, char **argv)
{
    const struct annotate_options *o = options;
    static const enum spex_key by_symbol[] = {SPEX_KEY_SYMBOL}, by_pc[] = {SPEX_KEY_PC};
    struct profile p;
    if (argc > 1)
        return cli_usage("one function at a time");
    struct spex_analysis_options more = {.want = SPEX_WANT_SYMBOL};
    int status = profile_open(&p, &o->profile, NULL, &more);
    if (status)
        return status;
    struct spex_group *symbols = spex_group_new(p.analysis, by_symbol, 1, 0);
    struct annotate a = {spex_group_new(p.analysis, by_pc, 1, SPEX_GROUP_PERCENTILES), NULL};
    p.status = profile_run(&p, spex_group_sink, symbols);
    spex_group_sort(symbols, SPEX_BY_SAMPLES);
    uint64_t all = spex_group_total(symbols)->stats.samples;
    if (!p.status && !profile_empty(&p, all, ""))
        a.symbol = choose(&p, symbols, argv[0]);
    if (a.symbol && !p.status && !(p.status = profile_run(&p, feed, &a))) {
        spex_group_sort(a.group, SPEX_BY_SAMPLES);
        struct spex_disassembler *d = spex_disassembler_new();
        struct table *table = function_table(&p, &a, d, !o->no_source);
        const char *wrong = o->profile.fields ? table_select(table, o->profile.fields) : NULL;
        struct table_options how = profile_table(&p);
        uint64_t own = spex_group_total(a.group)->stats.samples;
        char name[300], count[32];
        if (a.symbol->name)
            snprintf(name, sizeof name, "%s", a.symbol->name);
        else
            snprintf(name, sizeof name, "%s+0x%llx", spex_module_name(a.symbol->module),
                     (unsigned long long)a.symbol->start);
        if (wrong) {
            p.status =
                cli_usage("--fields: '%.*s' is no column here", (int)strcspn(wrong, ","), wrong);
        } else if (how.format == TABLE_AS_JSON) {
            struct json json = profile_json(&p, "spex.annotate.1");
            JSON_MEMBER(&json, "symbol", string, a.symbol->name ? a.symbol->name : name);
            JSON_MEMBER(&json, "dso", string, spex_module_path(a.symbol->module));
            JSON_MEMBER(&json, "samples", u64, own);
            json_name(&json, "instructions");
            table_json(table, &json);
            json_end(&json);
        } else {
            profile_comment(&p, &p.out, "%s in %s: %s samples, %.1f%% of all; instructions by %s",
                            name, spex_module_name(a.symbol->module), text_count(count, own),
                            100 * ratio_of(own, all), spex_disassembler_name(d));
            table_print(table, &p.out, &how);
            if (a.symbol->end - a.symbol->start && !table_rows(table))
                out_text(&p.out, "the code of this function is not at hand\n");
        }
        table_free(table);
        spex_disassembler_free(d);
    }
    spex_group_free(symbols);
    spex_group_free(a.group);
    return profile_close(&p);
}

static const struct cli_option annotate_options[] = {
    PROFILE_INPUT_OPTIONS(struct annotate_options),
    {"no-source", 0, CLI_FLAG, offsetof(struct annotate_options, no_source), NULL,
     "instructions only, without source lines", NULL, NULL},
    {"fields", 'F', CLI_STRING, PROFILE_AT(struct annotate_options, fields), "LIST",
     "columns to show, in order; +LIST adds to the usual ones", NULL, NULL},
#define FILTER(option, member, kind, value, help)                                                  \
    {option, 0,    CLI_STRING, PROFILE_AT(struct annotate_options, filter.member),                 \
     value,  help, NULL,       NULL},
#include "analysis/filters.def"
    PROFILE_SYMBOL_OPTIONS(struct annotate_options),
    {0},
};

extern const struct cli_command cli_annotate;
const struct cli_command cli_annotate = {
    .name = "annotate",
    .group = CLI_READING,
    .synopsis = "[FUNCTION]",
    .summary = "a function's instructions with source lines and samples",
    .details = "Without FUNCTION, the one with the most samples. Instructions come from the newest "
               "libLLVM that is installed, else from objdump. Sources are looked for where the "
               "debug information says, below --symfs, and in the current directory.",
    .options = annotate_options,
    .size = sizeof(struct annotate_options),
    .run = run_annotate,
};
