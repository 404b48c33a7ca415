/*
 * Numbers as digits, written in place without loops: eight digits are computed at once, one per
 * byte of a word, and stored as a word. So a put_* function may write up to DIGITS_SPARE bytes
 * past its text; it returns the end of the text.
 */
#ifndef BASE_DIGITS_H
#define BASE_DIGITS_H

#include "base/bits.h"

enum { DIGITS_SPARE = 16, DIGITS_ROOM = 20 + DIGITS_SPARE, DIGITS_E8 = 100000000 };

#define DIGITS_BYTES UINT64_C(0x0101010101010101) /* times a byte: eight copies of it */

/*
 * The eight hexadecimal digits of value, one character per byte, the first in the lowest
 * byte.
 */
static inline uint64_t hex_digits(uint32_t value)
{
    /* becomes one nibble per byte, the highest nibble in the highest byte */
    uint64_t digits = value;
    digits = (digits << 16 | digits) & UINT64_C(0x0000ffff0000ffff);
    digits = (digits << 8 | digits) & UINT64_C(0x00ff00ff00ff00ff);
    digits = (digits << 4 | digits) & 0x0f * DIGITS_BYTES;
    uint64_t letters = (digits + 6 * DIGITS_BYTES) >> 4 & DIGITS_BYTES;
    return __builtin_bswap64(digits + '0' * DIGITS_BYTES + letters * ('a' - '0' - 10));
}

/*
 * The eight decimal digits of value, below 10^8: 0 to 9 per byte, the first in the lowest
 * byte.
 */
static inline uint64_t decimal_digits(uint32_t value)
{
    /* split into fours, twos, then single digits: the first half goes into the lower bits */
    uint64_t digits = value / 10000 | (uint64_t)(value % 10000) << 32;
    uint64_t first = digits * 5243 >> 19 & UINT64_C(0x0000007f0000007f); /* divided by 100 */
    digits = first | (digits - 100 * first) << 16;
    first = digits * 103 >> 10 & UINT64_C(0x000f000f000f000f); /* divided by 10 */
    return first | (digits - 10 * first) << 8;
}

/* Bits taken by leading zeros in decimal_digits; the last digit never counts as one. */
static inline unsigned decimal_zeros(uint64_t digits)
{
    return (unsigned)__builtin_ctzll(digits | UINT64_C(1) << 56) & ~7u;
}

static inline char *put_eight(char *p, uint32_t value)
{
    put_le64(p, decimal_digits(value) + '0' * DIGITS_BYTES);
    return p + 8;
}

/* value is below 10^8. */
static inline char *put_u32(char *p, uint32_t value)
{
    uint64_t digits = decimal_digits(value);
    unsigned zeros = decimal_zeros(digits);
    put_le64(p, (digits + '0' * DIGITS_BYTES) >> zeros);
    return p + 8 - zeros / 8;
}

static inline char *put_u64(char *p, uint64_t value)
{
    if (value < DIGITS_E8)
        return put_u32(p, (uint32_t)value);
    uint64_t high = value / DIGITS_E8;
    if (high < DIGITS_E8)
        p = put_u32(p, (uint32_t)high);
    else
        p = put_eight(put_u32(p, (uint32_t)(high / DIGITS_E8)), (uint32_t)(high % DIGITS_E8));
    return put_eight(p, (uint32_t)(value % DIGITS_E8));
}

/* Right-aligned in width columns, at most 8. */
static inline char *put_padded(char *p, uint64_t value, unsigned width)
{
    if (value >= DIGITS_E8)
        return put_u64(p, value);
    uint64_t digits = decimal_digits((uint32_t)value);
    unsigned zeros = decimal_zeros(digits), most = 64 - 8 * width;
    uint64_t blank = (UINT64_C(1) << zeros) - 1;
    digits += ('0' * DIGITS_BYTES & ~blank) | (' ' * DIGITS_BYTES & blank);
    unsigned skip = zeros < most ? zeros : most;
    put_le64(p, digits >> skip);
    return p + 8 - skip / 8;
}

/* Exactly width digits, 1 to 8. */
static inline char *put_fixed(char *p, uint32_t value, unsigned width)
{
    put_le64(p, (decimal_digits(value) + '0' * DIGITS_BYTES) >> (64 - 8 * width));
    return p + width;
}

typedef uint64_t digits_pair __attribute__((vector_size(16)));
typedef uint8_t digits_sixteen __attribute__((vector_size(16)));

/*
 * The sixteen hexadecimal digits of value at p. (They are stored rather than returned: not
 * every ABI can return a vector.)
 */
static inline void put_sixteen(char *p, uint64_t value)
{
    digits_sixteen low = (digits_sixteen)(digits_pair){LE64(__builtin_bswap64(value))};
    digits_sixteen high = low >> 4, digits;
    low &= 0x0f;
    digits =
        __builtin_shufflevector(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    digits += '0' + ((digits_sixteen)(digits > 9) & ('a' - '0' - 10));
    memcpy(p, &digits, sizeof digits);
}

/* Hexadecimal without 0x and leading zeros. */
static inline char *put_hex(char *p, uint64_t value)
{
    unsigned digits = (67 - (unsigned)__builtin_clzll(value | 1)) / 4;
    /* shifted so that the first digit comes first; what follows the last is overwritten */
    put_sixteen(p, value << (64 - 4 * digits));
    return p + digits;
}

/* 26,412 for people. */
static inline const char *digits_grouped(char buffer[32], uint64_t n)
{
    char *p = buffer + 31;
    *p = 0;
    for (unsigned i = 0; i == 0 || n; i++, n /= 10) {
        if (i && i % 3 == 0)
            *--p = ',';
        *--p = (char)('0' + n % 10);
    }
    return p;
}

#endif
