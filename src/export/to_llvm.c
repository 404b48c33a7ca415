/*
 * LLVM's sample profile as text, for clang -fprofile-sample-use: for each function its lines, as
 * offsets from its declaration, with discriminators, and the functions inlined at each call. A
 * line's count is that of its most frequent instruction, as in llvm-profgen.
 */
#include "flows.h"

#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "export/texts.h"

#include <spex/symbols.h>

#include <stdlib.h>

enum { INSTRUCTION = 4, DEEP = 32 };
#define OFFSET_MASK 0xffffu /* bits that the format keeps of a line's offset */

struct node {              /* a function, or one inlined at a line of another */
    uint32_t parent, name; /* parent: 1 + number, 0 none */
    uint64_t site;         /* line offset << 32 | discriminator, in the parent */
    uint64_t total, head;
    uint32_t child, sibling; /* 1 + number */
};

struct body {
    uint32_t node;
    uint64_t site, count;
};

struct llvm {
    struct flows *flows;
    struct texts names;
    struct ids by_name, by_entry; /* functions with a known line of declaration */
    unsigned *name_line, *entry_line;
    size_t name_capacity, entry_capacity;
    struct ids node_ids, body_ids;
    struct node *nodes;
    struct body *bodies;
    size_t node_count, node_capacity, body_count, body_capacity;
    uint64_t nameless; /* instructions that were executed where nothing has a name or line */
};

/* ---- where functions are declared ---- */

static void note_line(struct ids *ids, unsigned **lines, size_t *capacity, uint64_t what,
                      unsigned line)
{
    uint64_t key[IDS_WORDS] = {what, 0, 0, 1};
    bool fresh;
    uint32_t n = ids_find(ids, key, &fresh);
    if (fresh) {
        *lines = memory_grow(*lines, n, capacity, sizeof **lines);
        (*lines)[n] = line;
    }
}

static unsigned line_of(const struct ids *ids, const unsigned *lines, uint64_t what)
{
    uint64_t key[IDS_WORDS] = {what, 0, 0, 1};
    uint32_t n;
    return ids_get(ids, key, &n) ? lines[n] : 0;
}

static void note_function(void *context, const struct spex_declaration *f)
{
    struct llvm *l = context;
    if (f->entry)
        note_line(&l->by_entry, &l->entry_line, &l->entry_capacity, f->entry, f->line);
    if (f->linkage)
        note_line(&l->by_name, &l->name_line, &l->name_capacity, texts_find(&l->names, f->linkage),
                  f->line);
    if (f->name)
        note_line(&l->by_name, &l->name_line, &l->name_capacity, texts_find(&l->names, f->name),
                  f->line);
}

/* ---- counts by line ---- */

/* The format ends names at blanks and lines. */
static bool is_name(const char *name)
{
    for (; name && *name; name++)
        if ((unsigned char)*name <= ' ' || (unsigned char)*name >= 0x7f)
            return false;
    return name != NULL;
}

static uint32_t find_node(struct llvm *l, uint32_t parent, uint64_t site, const char *name)
{
    uint32_t text = texts_find(&l->names, name);
    uint64_t key[IDS_WORDS] = {parent, site, text, 1};
    bool fresh;
    uint32_t n = ids_find(&l->node_ids, key, &fresh);
    if (fresh) {
        l->nodes = memory_grow(l->nodes, l->node_count, &l->node_capacity, sizeof *l->nodes);
        l->nodes[l->node_count++] = (struct node){.parent = parent, .name = text, .site = site};
    }
    return n;
}

static uint64_t site_of(unsigned line, unsigned declared, unsigned discriminator)
{
    return (uint64_t)((line - declared) & OFFSET_MASK) << 32 | discriminator;
}

/* The first of the three numbers that LLVM packs into a discriminator, the one that profiles have:
 * 5 or 12 bits, after a 0. */
static unsigned base_discriminator(unsigned packed)
{
    if (packed & 1)
        return 0;
    packed >>= 1;
    return packed & 0x20 ? (packed >> 1 & 0xfe0) | (packed & 0x1f) : packed & 0x1f;
}

static void raise_body(struct llvm *l, uint32_t node, uint64_t site, uint64_t count)
{
    uint64_t key[IDS_WORDS] = {node, site, 0, 1};
    bool fresh;
    uint32_t n = ids_find(&l->body_ids, key, &fresh);
    if (fresh) {
        l->bodies = memory_grow(l->bodies, l->body_count, &l->body_capacity, sizeof *l->bodies);
        l->bodies[l->body_count++] = (struct body){.node = node, .site = site};
    }
    if (count > l->bodies[n].count)
        l->bodies[n].count = count;
}

/* Counts an instruction that was executed this often, or 0 times. */
static void add_instruction(struct llvm *l, uint64_t address, uint64_t count)
{
    struct spex_module *module = l->flows->module;
    const struct spex_symbol *symbol = spex_module_symbol(module, address);
    struct spex_inline inlines[DEEP];
    struct spex_line line;
    const char *name = symbol ? symbol->raw : NULL;
    bool known = is_name(name) && spex_module_line(module, address, &line) && line.line;
    size_t depth = known ? spex_module_inlines(module, address, inlines, DEEP) : 0;
    unsigned declared = known ? line_of(&l->by_entry, l->entry_line, symbol->start) : 0;
    if (!declared || depth > DEEP) {
        l->nameless += count > 0;
        return;
    }
    uint32_t node = find_node(l, 0, 0, name);
    for (size_t i = depth; i-- > 0;) {
        uint64_t site = site_of(inlines[i].call.line, declared, 0);
        if (!is_name(inlines[i].name) ||
            !(declared =
                  line_of(&l->by_name, l->name_line, texts_find(&l->names, inlines[i].name)))) {
            l->nameless += count > 0;
            return;
        }
        node = find_node(l, node + 1, site, inlines[i].name);
    }
    raise_body(l, node,
               site_of(line.line, declared,
                       base_discriminator(spex_module_discriminator(module, address))),
               count);
}

struct change {
    uint64_t address;
    int64_t by;
};

static int by_address(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    return ORDER(x->address, y->address);
}

/* Every instruction of runs that overlap, once, with the sum of their counts. */
static void add_runs(struct llvm *l, const struct flow_run *runs, size_t count)
{
    struct change *changes = memory_get(2 * count + 1, sizeof *changes);
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        changes[2 * i] = (struct change){runs[i].start, (int64_t)runs[i].count};
        changes[2 * i + 1] = (struct change){runs[i].end + INSTRUCTION, -(int64_t)runs[i].count};
    }
    if (count)
        qsort(changes, 2 * count, sizeof *changes, by_address);
    for (size_t i = 0; i < 2 * count; i++) {
        sum += changes[i].by;
        for (uint64_t a = changes[i].address;
             sum && i + 1 < 2 * count && a < changes[i + 1].address; a += INSTRUCTION)
            add_instruction(l, a, (uint64_t)sum);
    }
    free(changes);
}

/* Code that did not run, in functions that did, is cold; without an entry it would be unknown. */
static void add_cold(struct llvm *l, const struct flow_run *runs, size_t count)
{
    enum { MOST = 1 << 20 };
    const struct spex_symbol *last = NULL;
    for (size_t i = 0; i < count; i++) { /* runs are in order of address */
        const struct spex_symbol *symbol = spex_module_symbol(l->flows->module, runs[i].start);
        if (!symbol || symbol == last || symbol->end - symbol->start > MOST)
            continue;
        for (uint64_t a = symbol->start; a < symbol->end; a += INSTRUCTION)
            add_instruction(l, a, 0);
        last = symbol;
    }
}

/* Taken branches to the first instruction of a function are its heads. */
static void add_heads(struct llvm *l)
{
    const struct flows *f = l->flows;
    for (size_t i = 0; i < f->branch_count; i++) {
        const struct flow *b = &f->branches[i];
        const struct spex_symbol *to =
            b->taken && b->to_module == f->module ? spex_module_symbol(f->module, b->to) : NULL;
        if (to && to->start == b->to && is_name(to->raw) &&
            spex_module_symbol(f->module, b->from) != to) {
            uint32_t node = find_node(l, 0, 0, to->raw); /* may move the nodes */
            l->nodes[node].head += b->count;
        }
    }
}

/* ---- text ---- */

static int body_order(const void *a, const void *b)
{
    const struct body *x = a, *y = b;
    return x->node != y->node ? ORDER(x->node, y->node) : ORDER(x->site, y->site);
}

static void put_site(struct out *out, unsigned depth, uint64_t site)
{
    for (unsigned i = 0; i < depth; i++)
        out_char(out, ' ');
    out_u64(out, site >> 32);
    if ((uint32_t)site) {
        out_char(out, '.');
        out_u64(out, (uint32_t)site);
    }
    out_text(out, ": ");
}

static void put_node(struct llvm *l, uint32_t number, unsigned depth)
{
    const struct node *node = &l->nodes[number];
    struct out *out = l->flows->job->out;
    if (depth)
        put_site(out, depth, node->site);
    out_text(out, texts_at(&l->names, node->name));
    out_char(out, ':');
    out_u64(out, node->total);
    if (!depth) {
        out_char(out, ':');
        out_u64(out, node->head);
    }
    out_char(out, '\n');
    /* its bodies are adjacent */
    size_t low = SEARCH(i, 0, l->body_count, l->bodies[i].node < number);
    for (; low < l->body_count && l->bodies[low].node == number; low++) {
        put_site(out, depth + 1, l->bodies[low].site);
        out_u64(out, l->bodies[low].count);
        out_char(out, '\n');
    }
    for (uint32_t i = node->child; i; i = l->nodes[i - 1].sibling)
        put_node(l, i - 1, depth + 1);
}

struct top {
    uint64_t total;
    uint32_t node;
    const char *name;
};

static int hottest(const void *a, const void *b)
{
    const struct top *x = a, *y = b;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void put_all(struct llvm *l)
{
    struct top *tops = memory_get(l->node_count + 1, sizeof *tops);
    size_t n = 0;
    if (l->body_count)
        qsort(l->bodies, l->body_count, sizeof *l->bodies, body_order);
    for (size_t i = 0; i < l->body_count; i++)
        for (uint32_t at = l->bodies[i].node + 1; at; at = l->nodes[at - 1].parent)
            l->nodes[at - 1].total += l->bodies[i].count;
    for (size_t i = l->node_count; i-- > 0;) {
        struct node *node = &l->nodes[i];
        if (node->parent) {
            node->sibling = l->nodes[node->parent - 1].child;
            l->nodes[node->parent - 1].child = (uint32_t)i + 1;
        }
    }
    for (uint32_t i = 0; i < l->node_count; i++)
        if (!l->nodes[i].parent && l->nodes[i].total)
            tops[n++] = (struct top){l->nodes[i].total, i, texts_at(&l->names, l->nodes[i].name)};
    if (n)
        qsort(tops, n, sizeof *tops, hottest);
    for (size_t i = 0; i < n; i++)
        put_node(l, tops[i].node, 0);
    free(tops);
}

static enum spex_status end(struct export_job *job)
{
    struct llvm l = {.flows = flows_finish(job)};
    struct flows *f = l.flows;
    texts_init(&l.names);
    if (f->module) {
        spex_module_declarations(f->module, note_function, &l);
        add_runs(&l, f->run_count ? f->runs : f->places,
                 f->run_count ? f->run_count : f->place_count);
        add_cold(&l, f->runs, f->run_count);
        add_heads(&l);
        put_all(&l);
    }
    if (l.nameless)
        out_printf(
            &job->notes,
            "%llu instructions that were executed have no name or line: left out (build with -g)\n",
            (unsigned long long)l.nameless);
    texts_fini(&l.names);
    ids_free(&l.by_name);
    ids_free(&l.by_entry);
    ids_free(&l.node_ids);
    ids_free(&l.body_ids);
    free(l.name_line);
    free(l.entry_line);
    free(l.nodes);
    free(l.bodies);
    flows_free(f);
    return SPEX_OK;
}

const struct export_format export_llvm = {
    .name = "llvm",
    .summary = "sample profile by function and line for clang -fprofile-sample-use",
    .weight =
        "how often lines were executed, in samples: runs as profgen, the most frequent instruction "
        "of a line, 0 for other lines of such functions; heads are sampled calls",
    .cannot =
        "targets of calls, discriminators of inlined calls, latencies, threads, other files; names "
        "with blanks or other than ASCII",
    .want = SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_BRANCH,
    .begin = flows_begin,
    .sink = flows_sink,
    .end = end,
};
