/*
 * Live blocks by address, in a treap: an array of nodes whose priorities are hashes of addresses.
 * Ended blocks are in a ring, in the order they ended.
 */
#include "heap.h"

#include "need.h"

#include <stdlib.h>

struct node {
    struct heap_block block;
    uint32_t left, right; /* numbers of nodes; 0: none */
};

struct heap {
    struct node *nodes; /* number 0 means none */
    uint32_t count, room, unused;
    uint32_t root[HEAP_LAYERS];
    uint64_t time;
    struct heap_block *ended;
    uint64_t end_count, end_mask;
    bool remembers;
};

struct heap *heap_new(size_t ended)
{
    struct heap *h = need(calloc(1, sizeof *h));
    h->room = 1024;
    h->nodes = need(calloc(h->room, sizeof *h->nodes));
    h->count = 1;
    h->remembers = ended;
    h->end_mask = ended ? ended - 1 : 0;
    if (ended)
        h->ended = need(calloc(ended, sizeof *h->ended));
    return h;
}

void heap_free(struct heap *h)
{
    free(h->nodes);
    free(h->ended);
    free(h);
}

uint64_t heap_time(const struct heap *h)
{
    return h->time;
}

/* ---- the treap ---- */

static uint32_t priority(const struct heap *h, uint32_t n)
{
    return (uint32_t)(h->nodes[n].block.start * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static uint32_t new_node(struct heap *h)
{
    uint32_t n = h->unused;
    if (n) {
        h->unused = h->nodes[n].left;
        return n;
    }
    if (h->count == h->room) {
        h->room *= 2;
        h->nodes = need(realloc(h->nodes, h->room * sizeof *h->nodes));
    }
    return h->count++;
}

/* The caller knows that no other block begins there. */
static void insert(struct heap *h, uint32_t *root, const struct heap_block *block)
{
    uint32_t n = new_node(h), *at = root;
    struct node *nodes = h->nodes;
    nodes[n].block = *block;
    uint32_t first = priority(h, n);
    while (*at && priority(h, *at) >= first)
        at = nodes[*at].block.start < block->start ? &nodes[*at].right : &nodes[*at].left;
    uint32_t rest = *at, *left = &nodes[n].left, *right = &nodes[n].right;
    *at = n;
    while (rest) {
        uint32_t **to = nodes[rest].block.start < block->start ? &left : &right;
        **to = rest;
        *to = to == &left ? &nodes[rest].right : &nodes[rest].left;
        rest = **to;
    }
    *left = *right = 0;
}

/* Removes the node at this link. */
static void take_out(struct heap *h, uint32_t *at)
{
    struct node *nodes = h->nodes;
    uint32_t n = *at, left = nodes[n].left, right = nodes[n].right;
    while (left && right) {
        uint32_t *to = priority(h, left) >= priority(h, right) ? &left : &right;
        *at = *to;
        at = to == &left ? &nodes[left].right : &nodes[right].left;
        *to = *at;
    }
    *at = left ? left : right;
    nodes[n].left = h->unused;
    h->unused = n;
}

/* The link of the last block that begins at or before the address; NULL if there is none. */
static const uint32_t *last_before(const struct heap *h, const uint32_t *at, uint64_t address)
{
    const uint32_t *found = NULL;
    while (*at) {
        const struct node *n = &h->nodes[*at];
        if (n->block.start <= address)
            found = at;
        at = n->block.start <= address ? &n->right : &n->left;
    }
    return found;
}

static const struct heap_block *living(const struct heap *h, enum heap_layer layer,
                                       uint64_t address)
{
    const uint32_t *at = last_before(h, &h->root[layer], address);
    const struct heap_block *b = at ? &h->nodes[*at].block : NULL;
    return b && address - b->start < b->size ? b : NULL;
}

/* ---- changes ---- */

static void end(struct heap *h, uint32_t *at)
{
    struct heap_block block = h->nodes[*at].block;
    block.died = h->time;
    if (h->remembers)
        h->ended[h->end_count++ & h->end_mask] = block;
    take_out(h, at);
}

/* Ends blocks in the range; the parts of mappings outside it stay. */
static void cut(struct heap *h, enum heap_layer layer, uint64_t start, uint64_t size)
{
    uint64_t last = start + size - 1;
    for (;;) {
        uint32_t *at = (uint32_t *)(uintptr_t)last_before(h, &h->root[layer], last);
        if (!at)
            return;
        struct heap_block b = h->nodes[*at].block, part = b;
        if (b.start + b.size - 1 < start)
            return;
        end(h, at);
        part.born = h->time;
        if (layer == HEAP_MAPS && b.start + b.size - 1 > last) {
            part.start = last + 1;
            part.size = b.start + b.size - part.start;
            insert(h, &h->root[layer], &part);
        }
        if (layer == HEAP_MAPS && b.start < start) {
            part.start = b.start;
            part.size = start - b.start;
            insert(h, &h->root[layer], &part);
        }
    }
}

static void add(struct heap *h, enum heap_layer layer, uint64_t start, uint64_t size,
                const void *site)
{
    if (!size || start + size - 1 < start)
        return;
    h->time++;
    cut(h, layer, start, size);
    struct heap_block block = {
        .start = start, .size = size, .born = h->time, .site = site, .map = layer == HEAP_MAPS};
    insert(h, &h->root[layer], &block);
}

void heap_add(struct heap *h, uint64_t start, uint64_t size, const void *site)
{
    add(h, HEAP_BLOCKS, start, size, site);
}

void heap_map(struct heap *h, uint64_t start, uint64_t size, const void *site)
{
    add(h, HEAP_MAPS, start, size, site);
}

void heap_remove(struct heap *h, uint64_t start)
{
    uint32_t *at = (uint32_t *)(uintptr_t)last_before(h, &h->root[HEAP_BLOCKS], start);
    if (!at || h->nodes[*at].block.start != start)
        return;
    h->time++;
    end(h, at);
}

void heap_unmap(struct heap *h, uint64_t start, uint64_t size)
{
    if (!size || start + size - 1 < start)
        return;
    h->time++;
    cut(h, HEAP_MAPS, start, size);
}

/* ---- questions ---- */

bool heap_find(const struct heap *h, uint64_t address, uint64_t time, struct heap_block *block)
{
    bool found = false;
    for (enum heap_layer layer = HEAP_LAYERS; layer-- > 0;) {
        const struct heap_block *b = living(h, layer, address);
        if (b && b->born <= time) {
            *block = *b;
            found = true;
        }
    }
    uint64_t kept = h->end_count > h->end_mask ? h->end_count - h->end_mask - 1 : 0;
    for (uint64_t i = h->end_count; i-- > kept && (!found || block->map);) {
        const struct heap_block *b = &h->ended[i & h->end_mask];
        if (b->died <= time)
            break;
        if (address - b->start < b->size && b->born <= time && (!found || !b->map)) {
            *block = *b;
            found = true;
        }
    }
    return found;
}
