/*
 * Symbols as one sorted table.
 *
 * The choice among symbols at one address follows perf, so that names agree:
 * not weak, global, fewer leading underscores, longer.
 */
#include "module.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void table_add(struct module_table *table, uint64_t start, uint64_t size, const char *name,
               bool code, bool weak, bool global)
{
    if (table->full)
        return;
    if (table->count == table->capacity) {
        size_t more = table->capacity ? table->capacity + table->capacity / 2 : 16;
        size_t bytes = more * sizeof *table->items;
        /* three times: the table that stays is made of this one, and its names */
        void *items = memory_allows(3 * bytes) ? realloc(table->items, bytes) : NULL;
        if (!items) {
            table->full = true;
            return;
        }
        table->items = items;
        table->capacity = more;
    }
    uint64_t end = start + size < start ? UINT64_MAX : start + size;
    table->items[table->count++] = (struct candidate_symbol){
        {.start = start, .end = end, .raw = name, .data = !code}, weak, global, code};
}

static unsigned underscores(const char *name)
{
    return (unsigned)strspn(name, "_");
}

/* Best first among those with the same start. */
static int compare_symbols(const void *a, const void *b)
{
    const struct candidate_symbol *x = a, *y = b;
    if (x->symbol.start != y->symbol.start)
        return x->symbol.start < y->symbol.start ? -1 : 1;
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
        return x->global ? -1 : 1;
    unsigned u = underscores(x->symbol.raw), v = underscores(y->symbol.raw);
    if (u != v)
        return u < v ? -1 : 1;
    size_t n = strlen(x->symbol.raw), m = strlen(y->symbol.raw);
    if (n != m)
        return n > m ? -1 : 1;
    return strcmp(x->symbol.raw, y->symbol.raw);
}

/* Sorts, keeps one symbol per address, and lets symbols without a size end at the next. */
void table_finish(struct spex_module *module, struct module_table *table)
{
    if (table->count)
        qsort(table->items, table->count, sizeof *table->items, compare_symbols);
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++)
        if (!kept || table->items[i].symbol.start != table->items[kept - 1].symbol.start)
            table->items[kept++] = table->items[i];
    module->symbols = calloc(kept ? kept : 1, sizeof *module->symbols);
    if (!module->symbols) { /* the work ends here */
        free(table->items);
        memory_checked(NULL);
    }
    if (table->full)
        module_problem(module,
                       "%s: has more symbols than the memory that is allowed can hold; %zu are "
                       "used: --max-memory SIZE allows more",
                       module->name, kept);
    for (size_t i = 0; i < kept; i++) {
        struct spex_symbol *s = &module->symbols[i];
        *s = table->items[i].symbol;
        s->module = module;
        if (s->end == s->start)
            s->end = i + 1 < kept ? table->items[i + 1].symbol.start : (s->start | 0xfff) + 1;
    }
    module->count = kept;
    free(table->items);
}
