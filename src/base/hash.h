/*
 * Hashes of what stands in files. They begin with a number that is different in each run, so
 * that nobody can choose keys that all meet; no output may depend on their order.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The same for the whole run. */
uint64_t hash_seed(void);

/* Goes on from hash with one word. Both halves of the product: all bits of the word count. */
static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    unsigned __int128 product = (unsigned __int128)(hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size);

#endif
