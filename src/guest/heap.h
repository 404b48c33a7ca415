/*
 * Which memory belongs to which allocation, now and for a while back in time.
 *
 * Time is the number of changes so far. A block exists from the change that made it up to the one
 * that ended it; ended blocks are remembered for a while, for callers that are behind. Blocks of
 * the allocators lie in memory that was mapped, and both are kept: the block is the better answer.
 * Not for several threads at a time.
 */
#ifndef GUEST_HEAP_H
#define GUEST_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum heap_layer { HEAP_BLOCKS, HEAP_MAPS, HEAP_LAYERS };

struct heap_block {
    uint64_t start, size;
    uint64_t born, died; /* died: 0 while it lives */
    const void *site;    /* the user's */
    bool map;
};

struct heap;
#define HEAP_NOW UINT64_MAX

/* ended: how many that ended are remembered, a power of two, or 0. Ends the program if there is no
 * memory. */
struct heap *heap_new(size_t ended);
void heap_free(struct heap *heap);
/* Changes so far. */
uint64_t heap_time(const struct heap *heap);

/* A block of the allocators: blocks that it overlaps have ended, though nobody reported it. */
void heap_add(struct heap *heap, uint64_t start, uint64_t size, const void *site);
/* The one that begins there, if any, is over. */
void heap_remove(struct heap *heap, uint64_t start);
/* Memory is mapped, in place of what was there; and is unmapped: parts of older ones may stay. */
void heap_map(struct heap *heap, uint64_t start, uint64_t size, const void *site);
void heap_unmap(struct heap *heap, uint64_t start, uint64_t size);

/* The block that the address was in at a time; false if there was none. */
bool heap_find(const struct heap *heap, uint64_t address, uint64_t time, struct heap_block *block);

#endif
