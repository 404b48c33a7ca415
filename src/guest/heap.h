/*
 * Which memory belongs to which allocation, now and for a while back in time.
 *
 * Time is the number of changes so far. A block exists from the change that made it up to the
 * change that ended it. Ended blocks are remembered for a while, for callers that are behind.
 * Allocators take their blocks from mapped memory, and both are kept: the allocator's block is the
 * better answer. Not thread-safe.
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
    const void *site;    /* for the caller */
    bool map;
};

struct heap;
#define HEAP_NOW UINT64_MAX

/*
 * ended: how many ended blocks to remember; a power of two, or 0. Ends the program if there is no
 * memory.
 */
struct heap *heap_new(size_t ended);
void heap_free(struct heap *heap);
/* Number of changes so far. */
uint64_t heap_time(const struct heap *heap);

/* Adds an allocator's block. Blocks that it overlaps have ended without anybody reporting it. */
void heap_add(struct heap *heap, uint64_t start, uint64_t size, const void *site);
/* Ends the block that begins there, if any. */
void heap_remove(struct heap *heap, uint64_t start);
/*
 * heap_map: memory is mapped and replaces what was there. heap_unmap: parts of older mappings may
 * stay.
 */
void heap_map(struct heap *heap, uint64_t start, uint64_t size, const void *site);
void heap_unmap(struct heap *heap, uint64_t start, uint64_t size);

/* The block that the address was in at a time; false if there was none. */
bool heap_find(const struct heap *heap, uint64_t address, uint64_t time, struct heap_block *block);

#endif
