/* A set of cache lines. */
#ifndef BASE_LINE_SET_H
#define BASE_LINE_SET_H

#include <stdbool.h>
#include <stdint.h>

/* By a hash of bits 55:6 of their addresses; it may hold others by chance. */
enum { LINE_SET_BITS = 16 };
struct line_set {
    uint64_t bits[(1 << LINE_SET_BITS) / 64];
};
static inline unsigned line_bit(uint64_t address)
{
    return (unsigned)((address >> 6 << 14) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LINE_SET_BITS));
}
static inline void line_set_add(struct line_set *lines, uint64_t address)
{
    lines->bits[line_bit(address) / 64] |= UINT64_C(1) << line_bit(address) % 64;
}
static inline bool line_set_has(const struct line_set *lines, uint64_t address)
{
    unsigned bit = line_bit(address);
    return lines->bits[bit / 64] >> bit % 64 & 1;
}

#endif
