/*
 * A small seedable generator (splitmix64): the same numbers on every machine.
 * Good enough for tests, generators and sampling jitter; not for secrets.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in [0, n); n > 0. The bias (high half of the product) is below 2^-32 for n < 2^32. */
static inline uint32_t rng_below(struct rng *rng, uint32_t n)
{
    return (uint32_t)(((rng_next(rng) >> 32) * n) >> 32);
}

/* True with probability num/den. */
static inline int rng_chance(struct rng *rng, uint32_t num, uint32_t den)
{
    return rng_below(rng, den) < num;
}

#endif
