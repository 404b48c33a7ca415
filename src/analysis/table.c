/*
 * A sorted table of symbols.
 *
 * The choice between symbols at the same address follows perf, so that names agree: not weak,
 * global, fewer leading underscores, longer.
 */
#include "module.h"

#include "base/memory.h"
#include "base/search.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

void table_add(struct module_table *table, uint64_t start, uint64_t size, const char *name,
               bool code, bool weak, unsigned global)
{
    if (table->full)
        return;
    /* twice its size in addition: the final table and its names are made from this one */
    if (table->count == table->capacity &&
        (!memory_allows(3 * (table->capacity * 3 / 2) * sizeof *table->items) ||
         !vec_reserve(table, table->count + 1))) {
        table->full = true;
        return;
    }
    uint64_t end = start + size < start ? UINT64_MAX : start + size;
    table->items[table->count++] =
        (struct candidate_symbol){{.start = start, .end = end, .raw = name, .data = !code},
                                  .weak = weak,
                                  .code = code,
                                  .global = (uint8_t)global};
}

/* Names may share their ends, so there may be more of them than their section has bytes. */
enum { NAME_COMPARED = 4096, UNDERSCORES_MOST = 16 };

static unsigned underscores(const char *name)
{
    unsigned n = 0;
    while (n < UNDERSCORES_MOST && name[n] == '_')
        n++;
    return n;
}

/* Among symbols with the same start, the best one comes first. */
static int compare_symbols(const void *a, const void *b)
{
    const struct candidate_symbol *x = a, *y = b;
    if (x->symbol.start != y->symbol.start)
        return x->symbol.start < y->symbol.start ? -1 : 1;
    if (x->order != y->order)
        return x->order > y->order ? -1 : 1;
    bool sized_x = x->symbol.end > x->symbol.start, sized_y = y->symbol.end > y->symbol.start;
    if (sized_x != sized_y)
        return sized_x ? -1 : 1;
    if (!x->symbol.raw != !y->symbol.raw)
        return x->symbol.raw ? -1 : 1;
    if (!x->symbol.raw)
        return 0;
    if (x->weak != y->weak)
        return x->weak ? 1 : -1;
    if (x->global != y->global)
        return x->global > y->global ? -1 : 1;
    unsigned u = underscores(x->symbol.raw), v = underscores(y->symbol.raw);
    if (u != v)
        return u < v ? -1 : 1;
    size_t n = strnlen(x->symbol.raw, NAME_COMPARED), m = strnlen(y->symbol.raw, NAME_COMPARED);
    if (n != m)
        return n > m ? -1 : 1;
    return strncmp(x->symbol.raw, y->symbol.raw, NAME_COMPARED);
}

const char *table_name(struct module_table *table, uint64_t address)
{
    if (table->sorted != table->count)
        qsort(table->items, table->count, sizeof *table->items, compare_symbols);
    table->sorted = table->count;
    /* the first, and so the best, of those that begin there */
    size_t low = SEARCH(i, 0, table->count, table->items[i].symbol.start < address);
    return low < table->count && table->items[low].symbol.start == address
               ? table->items[low].symbol.raw
               : NULL;
}

/* Keeps one symbol for each address, and no nameless symbol inside a named one. */
static size_t keep_best(struct module_table *table)
{
    size_t kept = 0;
    uint64_t named = 0; /* end of the last code with a name */
    for (size_t i = 0; i < table->count; i++) {
        const struct candidate_symbol *c = &table->items[i];
        if (kept && c->symbol.start == table->items[kept - 1].symbol.start)
            continue;
        if (!c->symbol.raw && c->symbol.start < named)
            continue;
        if (c->symbol.raw && c->code && c->symbol.end > named)
            named = c->symbol.end;
        table->items[kept++] = *c;
    }
    return kept;
}

enum { PADDING = 16 }; /* a smaller gap between two functions is not a third one */

/*
 * Symbols without a size end where the next one begins. With gaps, code between two functions
 * counts as a function without a name: assembly often has no unwind information.
 */
static size_t write_symbols(struct spex_module *module, const struct module_table *table,
                            size_t kept)
{
    size_t n = 0;
    uint64_t end = 0; /* highest end so far */
    for (size_t i = 0; i < kept; i++) {
        const struct candidate_symbol *c = &table->items[i];
        uint64_t start = c->symbol.start;
        if (table->gaps && i && c->code && c[-1].code && start > end && start - end >= PADDING)
            module->symbols[n++] =
                (struct spex_symbol){.start = end, .end = start, .module = module};
        struct spex_symbol *s = &module->symbols[n++];
        *s = c->symbol;
        s->module = module;
        if (s->end == s->start)
            s->end = i + 1 < kept ? c[1].symbol.start : (s->start | 0xfff) + 1;
        if (s->end > end)
            end = s->end;
    }
    return n;
}

void table_finish(struct spex_module *module, struct module_table *table)
{
    if (table->count)
        qsort(table->items, table->count, sizeof *table->items, compare_symbols);
    size_t kept = keep_best(table);
    module->symbols =
        memory_zeroed(kept ? (table->gaps ? 2 : 1) * kept : 1, sizeof *module->symbols);
    if (!module->symbols) { /* the work ends here */
        memory_free(table->items);
        memory_checked(NULL);
    }
    if (table->full &&
        module_problem(module,
                       "%s: has more symbols than the memory that is allowed can hold; %zu are "
                       "used",
                       module->name, kept))
        module->remedy = SPEX_REMEDY_MEMORY;
    module->count = write_symbols(module, table, kept);
    memory_free(table->items);
}
