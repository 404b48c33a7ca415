#include "allocs.h"

#include "internal.h"
#include "module.h"
#include "pass.h"

#include "base/hash.h"
#include "base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Keys numbered from 1 on in the order in which they are first seen. */
struct numbers {
    uint32_t *index;
    size_t mask;
};

struct allocs_table {
    struct spex_block *blocks;
    size_t block_count, block_room;
    struct spex_site *sites;
    size_t site_count, site_room;
    struct numbers of_blocks, of_sites;
};

static const struct spex_block no_block;
static const struct spex_site no_site;

/* ---- wrappers ---- */

static bool has_word(const char *name, size_t length, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= length; i++)
        if (!strncasecmp(name + i, word, size))
            return true;
    return false;
}

/*
 * Does this function allocate on behalf of its caller? Judged by its name: allocators, their
 * wrappers, and the functions of the C++ and Rust libraries that containers call.
 */
static bool is_wrapper(const char *name)
{
    static const char *const words[] = {"malloc",       "calloc",   "realloc", "zalloc",
                                        "memalign",     "strdup",   "strndup", "memdup",
                                        "operator new", "asprintf", "mmap"};
    static const char *const spaces[] = {
        "std::", "__gnu_cxx::", "alloc::", "<alloc", "__rust_", "__rdl_"};
    size_t length = strcspn(name, "(");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(name, strcspn(name, "<("), words[i]))
            return true;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        /* the name of a template begins with its type: "void std::vector<...>::..." */
        const char *at = memmem(name, length, spaces[i], strlen(spaces[i]));
        if (at && (at == name || (at[-1] == ' ' && !memchr(name, '<', (size_t)(at - name)))))
            return true;
    }
    return false;
}

/* The innermost call that is not in a wrapper; if all of them are, the innermost call. */
static uint32_t skip_wrappers(const struct stacks_table *calls, uint32_t call)
{
    for (uint32_t n = call; n; n = stacks_call(calls, n)->caller) {
        const struct spex_symbol *symbol = stacks_call(calls, n)->symbol;
        if (!symbol || !symbol->name || !is_wrapper(symbol->name))
            return n;
    }
    return call;
}

/* ---- tables ---- */

static uint64_t hash_site(const struct spex_site *s)
{
    return hash_word(hash_word(hash_seed(), (uintptr_t)s->module), s->address);
}

static uint64_t hash_block(const struct spex_block *b)
{
    uint64_t hash = hash_word(hash_word(hash_seed(), b->start), b->size);
    return hash_word(hash_word(hash, b->number), (uint32_t)b->pid | (uint64_t)b->stack << 32);
}

static void put_number(struct numbers *n, uint64_t hash, size_t number)
{
    size_t i = hash & n->mask;
    while (n->index[i])
        i = (i + 1) & n->mask;
    n->index[i] = (uint32_t)number;
}

/* Makes room for one entry more than count. */
static bool grow(struct numbers *n, size_t count)
{
    if (n->index && 2 * count <= n->mask)
        return false;
    size_t mask = n->index ? 2 * n->mask + 1 : 1023;
    uint32_t *index = memory_get(mask + 1, sizeof *index);
    memory_free(n->index);
    n->index = index;
    n->mask = mask;
    return true;
}

static uint32_t site_number(struct allocs_table *t, const struct spex_site *site)
{
    uint64_t hash = hash_site(site);
    if (grow(&t->of_sites, t->site_count))
        for (size_t n = 1; n < t->site_count; n++)
            put_number(&t->of_sites, hash_site(&t->sites[n]), n);
    for (size_t i = hash & t->of_sites.mask; t->of_sites.index[i]; i = (i + 1) & t->of_sites.mask) {
        const struct spex_site *s = &t->sites[t->of_sites.index[i]];
        if (s->module == site->module && s->address == site->address)
            return t->of_sites.index[i];
    }
    t->sites = memory_grow(t->sites, t->site_count, &t->site_room, sizeof *t->sites);
    t->sites[t->site_count] = *site;
    put_number(&t->of_sites, hash, t->site_count);
    return (uint32_t)t->site_count++;
}

static bool same_block(const struct spex_block *a, const struct spex_block *b)
{
    return a->start == b->start && a->size == b->size && a->number == b->number &&
           a->pid == b->pid && a->stack == b->stack;
}

static struct allocs_table *new_table(void)
{
    struct allocs_table *t = memory_get(1, sizeof *t);
    t->blocks = memory_grow(NULL, 0, &t->block_room, sizeof *t->blocks);
    t->sites = memory_grow(NULL, 0, &t->site_room, sizeof *t->sites);
    t->blocks[0] = no_block;
    t->sites[0] = no_site;
    t->block_count = t->site_count = 1;
    return t;
}

uint32_t allocs_number(struct allocs_table **table, const struct stacks_table *calls,
                       const struct spex_perf_event *e, uint32_t call)
{
    if (!*table)
        *table = new_table();
    struct allocs_table *t = *table;
    struct spex_block block = {.start = e->u.sample.addr,
                               .size = e->u.sample.period,
                               .number = e->u.sample.weight,
                               .pid = e->pid,
                               .stack = call};
    uint64_t hash = hash_block(&block);
    if (grow(&t->of_blocks, t->block_count))
        for (size_t n = 1; n < t->block_count; n++)
            put_number(&t->of_blocks, hash_block(&t->blocks[n]), n);
    struct numbers *of = &t->of_blocks;
    for (size_t i = hash & of->mask; of->index[i]; i = (i + 1) & of->mask)
        if (same_block(&t->blocks[of->index[i]], &block))
            return of->index[i];
    const struct spex_call *at = stacks_call(calls, skip_wrappers(calls, call));
    const struct spex_site site = {
        .module = at->module, .symbol = at->symbol, .address = at->address, .least = UINT64_MAX};
    block.site = site_number(t, &site);
    struct spex_site *s = &t->sites[block.site];
    s->blocks++;
    s->least = block.size < s->least ? block.size : s->least;
    s->most = block.size > s->most ? block.size : s->most;
    t->blocks = memory_grow(t->blocks, t->block_count, &t->block_room, sizeof *t->blocks);
    t->blocks[t->block_count] = block;
    put_number(of, hash, t->block_count);
    return (uint32_t)t->block_count++;
}

const struct spex_block *allocs_block(const struct allocs_table *t, uint32_t n)
{
    return t && n < t->block_count ? &t->blocks[n] : &no_block;
}

const struct spex_site *allocs_site(const struct allocs_table *t, uint32_t n)
{
    return t && n < t->site_count ? &t->sites[n] : &no_site;
}

void allocs_table_free(struct allocs_table *t)
{
    if (!t)
        return;
    memory_free(t->blocks);
    memory_free(t->sites);
    memory_free(t->of_blocks.index);
    memory_free(t->of_sites.index);
    memory_free(t);
}

/* ---- words ---- */

size_t spex_analysis_site_text(struct spex_analysis *analysis, uint32_t n, char *text,
                               size_t capacity)
{
    assert(analysis && (text || !capacity));
    const struct spex_site *s = spex_analysis_site(analysis, n);
    struct spex_line line = {0};
    char place[512] = "", name[64];
    analysis_lock(analysis);
    if (s->module && spex_module_line(s->module, s->address, &line)) {
        const char *slash = strrchr(line.file, '/');
        snprintf(place, sizeof place, "%s:%u ", slash ? slash + 1 : line.file, line.line);
    }
    analysis_unlock(analysis);
    if (s->symbol && s->symbol->name)
        return (size_t)snprintf(text, capacity, "%s%s", place, s->symbol->name);
    snprintf(name, sizeof name, "0x%llx", (unsigned long long)s->address);
    return (size_t)snprintf(text, capacity, "%s%s%s%s", place,
                            s->module ? spex_module_name(s->module) : "", s->module ? "+" : "",
                            name);
}
