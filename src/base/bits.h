/* Bit and little-endian access used by every module. Header only. */
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <stdint.h>
#include <string.h>

#define BIT(n) (UINT64_C(1) << (n))

/* Mask of bits hi..lo, both included, as the manual writes <hi:lo>. */
#define BITS(hi, lo) ((~UINT64_C(0) >> (63 - (hi))) & (~UINT64_C(0) << (lo)))

static inline uint64_t bits_get(uint64_t value, unsigned hi, unsigned lo)
{
    return (value & BITS(hi, lo)) >> lo;
}

static inline uint64_t bits_set(uint64_t value, unsigned hi, unsigned lo, uint64_t field)
{
    return (value & ~BITS(hi, lo)) | ((field << lo) & BITS(hi, lo));
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LE16(x) __builtin_bswap16(x)
#define LE32(x) __builtin_bswap32(x)
#define LE64(x) __builtin_bswap64(x)
#else
#define LE16(x) (x)
#define LE32(x) (x)
#define LE64(x) (x)
#endif

static inline uint16_t le16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return LE16(v);
}

static inline uint32_t le32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return LE32(v);
}

static inline uint64_t le64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return LE64(v);
}

static inline void put_le16(void *p, uint16_t v)
{
    v = LE16(v);
    memcpy(p, &v, sizeof v);
}

static inline void put_le32(void *p, uint32_t v)
{
    v = LE32(v);
    memcpy(p, &v, sizeof v);
}

static inline void put_le64(void *p, uint64_t v)
{
    v = LE64(v);
    memcpy(p, &v, sizeof v);
}

#endif
