#include "tables.h"
#include "export/remedies.h"

#include "base/memory.h"
#include "base/ids.h"

#include <spex/elapsed.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT_ADDRESS EXPORT_ADDRESS_TYPE
const struct tables_info tables_info[TABLES_COUNT] = {
#define TABLE(id, name_, meaning_) [TABLES_##id] = {.name = name_, .meaning = meaning_, .columns = {
#define COLUMN(name_, type_, bits_, null_, meaning_)                                               \
    {.name = name_,                                                                                \
     .type = EXPORT_##type_,                                                                       \
     .bits = bits_,                                                                                \
     .null = sizeof null_ == 2 ? NULL : null_,                                                     \
     .meaning = meaning_},
#define END                                                                                        \
    }                                                                                              \
    }                                                                                              \
    ,
/* clang-format off */
#include "export/tables.def"
    /* clang-format on */
};

struct tables {
    struct spex_analysis *analysis;
    struct stack_ids *stack_ids;
    struct ids symbols;
    uint64_t *symbol_counts;
    size_t symbol_capacity;
    uint32_t cache[SPEX_PLACES]; /* by place: 1 + number of the symbol */
    uint64_t *stack_counts;      /* indexed by call */
    size_t stack_count;
    /* rows */
    enum tables_id table;
    size_t at;     /* module, symbol, stack or file of the profile */
    uint32_t call; /* next one of the stack */
    uint32_t depth;
    struct spex_part part;
    struct spex_perf_event event;
    unsigned flags; /* loss flags of the event that are not yet given out */
    struct spex_elapsed *elapsed;
    struct out id;
    struct tables_cell *cells;
    size_t filled;
};

size_t tables_columns(enum tables_id table)
{
    size_t n = 0;
    while (tables_info[table].columns[n].name)
        n++;
    return n;
}

struct tables *tables_new(struct spex_analysis *analysis)
{
    struct tables *t = memory_get(1, sizeof *t);
    t->analysis = analysis;
    t->stack_ids = stack_ids_new(analysis);
    out_init(&t->id, -1);
    return t;
}

void tables_free(struct tables *t)
{
    if (!t)
        return;
    spex_elapsed_free(t->elapsed);
    stack_ids_free(t->stack_ids);
    ids_free(&t->symbols);
    free(t->symbol_counts);
    free(t->stack_counts);
    out_fini(&t->id);
    free(t);
}

/* ---- the pass ---- */

static void count_symbol(struct tables *t, const struct spex_sample *s)
{
    uint32_t *cache = &t->cache[s->place];
    uint64_t key[IDS_WORDS] = {(uintptr_t)s->symbol};
    bool fresh = false;
    if (!s->symbol || !s->symbol->name)
        return;
    if (!*cache || t->symbols.keys[*cache - 1][0] != key[0])
        *cache = ids_find(&t->symbols, key, &fresh) + 1;
    if (fresh) {
        t->symbol_counts = memory_grow(t->symbol_counts, *cache - 1, &t->symbol_capacity,
                                       sizeof *t->symbol_counts);
        t->symbol_counts[*cache - 1] = 0;
    }
    t->symbol_counts[*cache - 1]++;
}

static void count_stack(struct tables *t, uint32_t call)
{
    if (call >= t->stack_count) {
        size_t count = 2 * (size_t)call + 1024;
        t->stack_counts = memory_resize(t->stack_counts, count, sizeof *t->stack_counts);
        memset(t->stack_counts + t->stack_count, 0,
               (count - t->stack_count) * sizeof *t->stack_counts);
        t->stack_count = count;
    }
    t->stack_counts[call]++;
}

void tables_sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct tables *t = context;
    for (size_t i = 0; i < count; i++)
        count_symbol(t, &samples[i]);
    for (size_t i = 0; i < count && t->stack_ids; i++)
        count_stack(t, spex_sample_stack(t->analysis, &samples[i]));
}

/* ---- rows ---- */

static void put_text(struct tables *t, const char *text)
{
    t->cells[t->filled++] = (struct tables_cell){.there = text != NULL, .text = text};
}

static void put_number(struct tables *t, bool known, uint64_t value)
{
    t->cells[t->filled++] = (struct tables_cell){.there = known, .number = value};
}

static void put_file(struct tables *t, const struct spex_module *m)
{
    put_text(t, m ? spex_module_path(m) : NULL);
    put_text(t, m ? spex_module_name(m) : NULL);
    size_t size = 0;
    const uint8_t *id = m ? spex_module_build_id(m, false, &size) : NULL;
    t->id.size = 0;
    for (size_t i = 0; i < size; i++)
        out_hex_fixed(&t->id, id[i], 2);
    out_char(&t->id, 0);
    put_text(t, size ? t->id.data : NULL);
}

static void put_problem(struct tables *t, struct spex_module *m)
{
    const char *problem = spex_module_problem(m), *remedy = remedy_words(spex_module_remedy(m));
    char *text = NULL;
    if (problem && *remedy && asprintf(&text, "%s%s", problem, remedy) < 0)
        text = NULL;
    put_text(t, text ? text : problem);
    free(text);
}

static bool next_file(struct tables *t)
{
    struct spex_module *m;
    uint64_t samples = 0;
    while ((m = spex_symbols_nth(spex_analysis_symbols(t->analysis), t->at++)))
        if ((samples = spex_module_samples(m, true)))
            break;
    if (!m)
        return false;
    put_file(t, m);
    put_number(t, true, spex_module_is_kernel(m));
    put_number(t, true, samples);
    put_problem(t, m);
    return true;
}

static bool next_symbol(struct tables *t)
{
    size_t n = t->at++;
    if (n >= t->symbols.count)
        return false;
    const struct spex_symbol *symbol = (const struct spex_symbol *)(uintptr_t)t->symbols.keys[n][0];
    put_text(t, symbol->name);
    put_text(t, symbol->raw ? symbol->raw : symbol->name);
    put_file(t, symbol->module);
    put_number(t, true, symbol->start);
    put_number(t, true, symbol->end - symbol->start);
    put_number(t, true, t->symbol_counts[n]);
    return true;
}

/* Call 0 is none. */
static bool next_call(struct tables *t)
{
    while (!t->call) {
        if (++t->at >= t->stack_count)
            return false;
        if (t->stack_counts[t->at])
            t->call = (uint32_t)t->at;
        t->depth = 0;
    }
    const struct spex_call *call = spex_analysis_call(t->analysis, t->call);
    struct spex_line line;
    bool known = call->module && spex_module_line(call->module, call->address, &line);
    put_number(t, true, stack_ids_get(t->stack_ids, (uint32_t)t->at));
    put_number(t, true, ++t->depth);
    put_text(t, call->symbol ? call->symbol->name : NULL);
    put_file(t, call->module);
    put_number(t, true, call->address);
    put_text(t, known ? line.file : NULL);
    put_number(t, known, known ? line.line : 0);
    put_number(t, true, call->cut);
    put_number(t, true, t->stack_counts[t->at]);
    t->call = call->caller;
    return true;
}

enum { LOST = 1 << 8 }; /* a flag above those of AUX records */

/* Finds an event's losses. */
static unsigned losses_of(const struct spex_perf_event *e)
{
    const unsigned flags =
        SPEX_PERF_AUX_TRUNCATED | SPEX_PERF_AUX_PARTIAL | SPEX_PERF_AUX_COLLISION;
    return e->type == SPEX_PERF_AUX                                         ? e->u.aux.flags & flags
           : e->type == SPEX_PERF_LOST || e->type == SPEX_PERF_LOST_SAMPLES ? LOST
                                                                            : 0;
}

static bool next_loss(struct tables *t)
{
    static const struct {
        unsigned flag;
        const char *kind;
    } kinds[] = {{SPEX_PERF_AUX_TRUNCATED, "truncated"},
                 {SPEX_PERF_AUX_PARTIAL, "partial"},
                 {SPEX_PERF_AUX_COLLISION, "collision"},
                 {LOST, "lost"}};
    const struct spex_perf_event *e = &t->event;
    while (!t->flags) {
        if (t->part.file && !spex_perfdata_next(t->part.file, &t->event)) {
            t->flags = losses_of(e);
            continue;
        }
        if (!spex_analysis_part(t->analysis, t->at++, &t->part))
            return false;
        if (t->part.file)
            spex_perfdata_rewind(t->part.file);
    }
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!(t->flags & kinds[i].flag))
            continue;
        t->flags &= ~kinds[i].flag;
        put_number(t, e->present & SPEX_PERF_SAMPLE_TIME, e->time);
        put_number(t, e->cpu >= 0, (uint32_t)e->cpu);
        put_number(t, e->pid >= 0, (uint32_t)e->pid);
        put_number(t, e->tid >= 0, (uint32_t)e->tid);
        put_text(t, kinds[i].kind);
        put_number(t, true, e->type == SPEX_PERF_AUX ? e->u.aux.size : e->u.lost.lost);
        break;
    }
    return true;
}

static bool next_elapsed(struct tables *t)
{
    static const char *const states[] = {"running", "kernel", "waiting"};
    struct spex_error error;
    if (!t->elapsed && spex_elapsed_new(t->analysis, true, &t->elapsed, &error))
        return false;
    const struct spex_elapsed_row *row = spex_elapsed_at(t->elapsed, t->at++);
    if (!row)
        return false;
    put_number(t, row->pid >= 0, (uint32_t)row->pid);
    put_number(t, true, (uint32_t)row->tid);
    const char *const texts[] = {states[row->state], row->what,     row->call, row->object,
                                 row->through,       row->function, row->line};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        put_text(t, texts[i]);
    put_number(t, true, row->calls);
    put_number(t, true, row->ns);
    return true;
}

void tables_begin(struct tables *t, enum tables_id table)
{
    t->table = table;
    t->at = 0;
    t->call = t->flags = 0;
    t->part = (struct spex_part){0};
}

bool tables_next(struct tables *t, struct tables_cell cells[TABLES_COLUMNS])
{
    static bool (*const next[])(struct tables *) = {
        [TABLES_FILES] = next_file,  [TABLES_SYMBOLS] = next_symbol,  [TABLES_STACKS] = next_call,
        [TABLES_LOSSES] = next_loss, [TABLES_ELAPSED] = next_elapsed,
    };
    t->cells = cells;
    t->filled = 0;
    bool any = next[t->table](t);
    assert(!any || t->filled == tables_columns(t->table));
    return any;
}
