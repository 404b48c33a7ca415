/*
 * Exact counts for callgrind_annotate, cg_annotate and KCachegrind: the counts of spex record
 * --truth, by instruction (callgrind) or by line (cachegrind). Nothing here is sampled.
 */
#include "export.h"

#include "base/memory.h"
#include "base/name.h"
#include "base/order.h"
#include "base/search.h"
#include "export/remedies.h"
#include "export/truth.h"

#include <stdlib.h>

struct grind_row {
    struct spex_module *module;
    const struct spex_symbol *symbol;
    const char *file;
    unsigned line;
    uint64_t address, counts[TRUTH_COUNTS];
};

/* Calls from an instruction. */
struct grind_call {
    const struct spex_module *module; /* module of the calling instruction */
    uint64_t address;
    struct grind_row to; /* the called function; counts run until it returns */
    uint64_t calls;
};

struct grind {
    struct export_job *job;
    struct grind_row *rows;
    size_t count, capacity;
    struct grind_call *calls;
    size_t call_count, call_capacity;
    uint64_t sum[TRUTH_COUNTS];
};

static const char events[] = "Ir L1m LLm Walk Bm Taken Cycles L2m";

static struct grind_row locate(const struct grind *g, int32_t pid, uint64_t pc,
                               const uint64_t counts[TRUTH_COUNTS])
{
    struct spex_place place;
    struct spex_line line = {0};
    spex_analysis_locate(g->job->analysis, pid, pc, &place);
    if (!place.module || !spex_module_line(place.module, place.address, &line))
        line = (struct spex_line){0};
    struct grind_row row = {.module = place.module,
                            .symbol = place.symbol && place.symbol->name ? place.symbol : NULL,
                            .file = line.file,
                            .line = line.line,
                            .address = place.module ? place.address : pc};
    memcpy(row.counts, counts, sizeof row.counts);
    return row;
}

static void add(void *context, const struct truth_row *row)
{
    struct grind *g = context;
    g->rows = memory_grow(g->rows, g->count, &g->capacity, sizeof *g->rows);
    g->rows[g->count++] = locate(g, row->pid, row->pc, row->counts);
    for (unsigned i = 0; i < TRUTH_COUNTS; i++)
        g->sum[i] += row->counts[i];
}

static void add_call(void *context, const struct truth_row *row)
{
    struct grind *g = context;
    struct spex_place from;
    spex_analysis_locate(g->job->analysis, row->pid, row->pc, &from);
    g->calls = memory_grow(g->calls, g->call_count, &g->call_capacity, sizeof *g->calls);
    g->calls[g->call_count++] =
        (struct grind_call){.module = from.module,
                            .address = from.module ? from.address : row->pc,
                            .to = locate(g, row->pid, row->target, row->counts),
                            .calls = row->calls};
}

static int compare_text(const char *a, const char *b)
{
    return a == b ? 0 : !a ? -1 : !b ? 1 : strcmp(a, b);
}

/* Rows of one function are adjacent, and so are those of one source file in it. */
static int by_function(const void *a, const void *b)
{
    const struct grind_row *x = a, *y = b;
    int order = compare_text(x->module ? spex_module_path(x->module) : NULL,
                             y->module ? spex_module_path(y->module) : NULL);
    if (order)
        return order;
    if (x->symbol != y->symbol) {
        uint64_t m = x->symbol ? x->symbol->start : 0, n = y->symbol ? y->symbol->start : 0;
        return m != n ? (m < n ? -1 : 1)
                      : compare_text(x->symbol ? x->symbol->name : NULL,
                                     y->symbol ? y->symbol->name : NULL);
    }
    if ((order = compare_text(x->file, y->file)))
        return order;
    return x->line != y->line ? ORDER(x->line, y->line) : ORDER(x->address, y->address);
}

static int by_caller(const void *a, const void *b)
{
    const struct grind_call *x = a, *y = b;
    if (x->module != y->module)
        return (uintptr_t)x->module < (uintptr_t)y->module ? -1 : 1;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return by_function(&x->to, &y->to);
}

static void put_name(struct out *out, const char *key, const char *name)
{
    out_text(out, key);
    out_name(out, name && *name ? name : "???");
    out_char(out, '\n');
}

static void put_position(struct out *out, const struct grind_row *row, const char *before)
{
    out_text(out, before);
    out_hex(out, row->address);
    out_char(out, ' ');
    out_u64(out, row->line);
}

static void put_counts(struct out *out, const uint64_t counts[TRUTH_COUNTS])
{
    for (unsigned i = 0; i < TRUTH_COUNTS; i++) {
        out_char(out, ' ');
        out_u64(out, counts[i]);
    }
    out_char(out, '\n');
}

static void begin(struct export_job *job)
{
    struct grind *g = job->state = memory_get(1, sizeof *g);
    g->job = job;
}

static enum spex_status read_rows(struct grind *g)
{
    enum spex_status status = truth_read(g->job->settings->truth, add, g, &g->job->error);
    if (!status && g->count)
        qsort(g->rows, g->count, sizeof *g->rows, by_function);
    if (!status)
        status = truth_read_calls(g->job->settings->truth, add_call, g, &g->job->error);
    if (!status && g->call_count)
        qsort(g->calls, g->call_count, sizeof *g->calls, by_caller);
    return status;
}

/* Files whose functions have no names, and why. Rows of one file are adjacent. */
static void tell_unnamed(const struct grind *g)
{
    uint64_t unnamed = 0;
    for (size_t i = 0; i < g->count; i++) {
        const struct grind_row *row = &g->rows[i];
        unnamed += row->symbol ? 0 : row->counts[0];
        if (i + 1 < g->count && row[1].module == row->module)
            continue;
        const char *problem = unnamed && row->module ? spex_module_problem(row->module) : NULL;
        if (problem)
            out_printf(&g->job->notes, "%.1f%% of instructions: %s%s\n",
                       100.0 * (double)unnamed / (double)g->sum[0], problem,
                       remedy_words(spex_module_remedy(row->module)));
        unnamed = 0;
    }
}

static enum spex_status finish(struct grind *g, enum spex_status status)
{
    if (!status && !g->count)
        out_text(&g->job->notes, "the file of exact counts has no rows\n");
    if (!status)
        tell_unnamed(g);
    free(g->rows);
    free(g->calls);
    free(g);
    return status;
}

/* The name of a function; without one, the name of its file. */
static const char *function_of(const struct grind_row *row)
{
    return row->symbol   ? row->symbol->name
           : row->module ? spex_module_name(row->module)
                         : "[unknown]";
}

/* The source file of the function whose rows begin at i: that of its first instruction. */
static const char *file_of(const struct grind *g, size_t i)
{
    const struct grind_row *first = &g->rows[i], *row = first;
    for (; i < g->count && row->module == first->module && row->symbol == first->symbol; i++, row++)
        if (row->address < first->address)
            first = row;
    return first->file;
}

/* The calls from a row's instruction: they start at the first that is not before it. */
static void put_calls(struct out *out, const struct grind *g, const struct grind_row *row)
{
    struct grind_call key = {.module = row->module, .address = row->address};
    size_t low = SEARCH(i, 0, g->call_count,
                        g->calls[i].module == key.module
                            ? g->calls[i].address < key.address
                            : (uintptr_t)g->calls[i].module < (uintptr_t)key.module);
    for (; low < g->call_count; low++) {
        const struct grind_call *c = &g->calls[low];
        if (c->module != key.module || c->address != key.address)
            break;
        put_name(out, "cob=", c->to.module ? spex_module_path(c->to.module) : NULL);
        put_name(out, "cfi=", c->to.file);
        put_name(out, "cfn=", function_of(&c->to));
        out_text(out, "calls=");
        out_u64(out, c->calls);
        put_position(out, &c->to, " 0x");
        put_position(out, row, "\n0x");
        put_counts(out, c->to.counts);
    }
}

static enum spex_status end_callgrind(struct export_job *job)
{
    struct grind *g = job->state;
    struct out *out = job->out;
    enum spex_status status = read_rows(g);
    if (status)
        return finish(g, status);
    out_text(out, "# callgrind format\nversion: 1\ncreator: spex ");
    out_text(out, job->settings->version);
    put_name(out, "\ncmd: ", job->settings->input);
    out_text(out, "positions: instr line\nevents: ");
    out_text(out, events);
    out_text(out, "\nsummary:");
    put_counts(out, g->sum);
    const char *file = NULL;
    for (size_t i = 0; i < g->count; i++) {
        const struct grind_row *row = &g->rows[i], *before = i ? row - 1 : NULL;
        bool object = !before || before->module != row->module;
        bool function = object || before->symbol != row->symbol;
        if (object)
            put_name(out, "\nob=", row->module ? spex_module_path(row->module) : NULL);
        if (function) {
            file = file_of(g, i);
            put_name(out, "fl=", file);
            put_name(out, "fn=", function_of(row));
        }
        if (compare_text(file, row->file)) {
            file = row->file;
            put_name(out, "fi=", file); /* inlined from there */
        }
        put_position(out, row, "0x");
        put_counts(out, row->counts);
        if (g->call_count &&
            (i + 1 == g->count || row[1].module != row->module || row[1].address != row->address))
            put_calls(out, g, row);
    }
    out_text(out, "\ntotals:");
    put_counts(out, g->sum);
    return finish(g, status);
}

static enum spex_status end_cachegrind(struct export_job *job)
{
    struct grind *g = job->state;
    struct out *out = job->out;
    enum spex_status status = read_rows(g);
    if (status)
        return finish(g, status);
    out_text(out, "desc: exact counts of spex record --truth");
    put_name(out, "\ncmd: ", job->settings->input);
    out_text(out, "events: ");
    out_text(out, events);
    out_char(out, '\n');
    for (size_t i = 0, next; i < g->count; i = next) {
        const struct grind_row *row = &g->rows[i];
        uint64_t counts[TRUTH_COUNTS] = {0};
        bool function = !i || row[-1].module != row->module || row[-1].symbol != row->symbol;
        if (!i || compare_text(row[-1].file, row->file))
            put_name(out, "fl=", row->file), function = true;
        if (function)
            put_name(out, "fn=", function_of(row));
        for (next = i; next < g->count; next++) { /* all of one line */
            const struct grind_row *other = &g->rows[next];
            if (other->module != row->module || other->symbol != row->symbol ||
                compare_text(other->file, row->file) || other->line != row->line)
                break;
            for (unsigned k = 0; k < TRUTH_COUNTS; k++)
                counts[k] += other->counts[k];
        }
        out_u64(out, row->line);
        put_counts(out, counts);
    }
    out_text(out, "summary:");
    put_counts(out, g->sum);
    return finish(g, status);
}

#define GRIND_WEIGHT                                                                               \
    "exact counts: operations (Ir), level 1 and last-level data cache misses (L1m, LLm), walks "   \
    "of "                                                                                          \
    "the tables (Walk), mispredicted and taken branches (Bm, Taken), cycles of the model"

const struct export_format export_callgrind = {
    .name = "callgrind",
    .summary = "exact counts by instruction, for callgrind_annotate and KCachegrind; needs record "
               "--truth; "
               "with -g and --model full calls, too",
    .weight = GRIND_WEIGHT,
    .cannot = "threads; filters do not apply; calls without record -g --model full",
    .truth = true,
    .begin = begin,
    .end = end_callgrind,
};
const struct export_format export_cachegrind = {
    .name = "cachegrind",
    .summary = "exact counts by line, for cg_annotate; needs record --truth",
    .weight = GRIND_WEIGHT,
    .cannot = "instructions, objects, threads; filters do not apply",
    .truth = true,
    .begin = begin,
    .end = end_cachegrind,
};
