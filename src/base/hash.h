/*
 * Hashes of data from files. The seed differs from run to run, so that nobody can choose keys
 * that all collide; no output may depend on the order of hashes.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

extern uint64_t hash_seed_made; /* 0: not yet */
uint64_t hash_seed_make(void);

/* The seed, constant during a run. */
static inline uint64_t hash_seed(void)
{
    uint64_t made = __atomic_load_n(&hash_seed_made, __ATOMIC_RELAXED);
    return made ? made : hash_seed_make();
}

/*
 * Adds one word to hash. Folds both halves of the product, so that all bits of the word
 * count.
 */
static inline uint64_t hash_word(uint64_t hash, uint64_t word)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    word ^= hash;
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128)word * odd;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else /* multiply in halves, none of whose sums overflows */
    uint64_t low = (uint32_t)word, high = word >> 32;
    uint64_t middle = high * (uint32_t)odd + (low * (uint32_t)odd >> 32);
    uint64_t other = low * (odd >> 32) + (uint32_t)middle;
    return word * odd ^ (high * (odd >> 32) + (middle >> 32) + (other >> 32));
#endif
}

uint64_t hash_bytes(uint64_t hash, const void *data, size_t size);

#endif
