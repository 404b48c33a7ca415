#include "pack.h"

#include "base/bits.h"
#include "export/thrift.h"

enum { ROOM = 2048, GROUP = 512 }; /* values packed between two checks for room */

/* Packs count values of up to 64 bits; whole bytes only if count * width is a multiple of 8. */
#define PACK(p, values, count, width)                                                              \
    do {                                                                                           \
        uint64_t word = 0;                                                                         \
        unsigned fill = 0;                                                                         \
        for (size_t k = 0; k < (count); k++) {                                                     \
            uint64_t value = (values)[k];                                                          \
            word |= value << fill;                                                                 \
            if (fill + (width) >= 64) {                                                            \
                put_le64(p, word);                                                                 \
                (p) += 8;                                                                          \
                word = fill ? value >> (64 - fill) : 0;                                            \
                fill = fill + (width)-64;                                                          \
            } else {                                                                               \
                fill += (width);                                                                   \
            }                                                                                      \
        }                                                                                          \
        put_le64(p, word);                                                                         \
        (p) += (fill + 7) / 8;                                                                     \
    } while (0)

void pack_run(struct out *out, uint32_t value, size_t count, unsigned width)
{
    if (!count)
        return;
    thrift_varint(out, (uint64_t)count << 1);
    for (unsigned bits = 0; bits < width; bits += 8)
        out_char(out, (char)(value >> bits));
}

/* 64 values make as many words as a value has bits: with a constant width, moves and shifts. */
static inline __attribute__((always_inline)) uint8_t *pack_words(uint8_t *p, const uint32_t *values,
                                                                 unsigned width)
{
    uint64_t word = 0;
    unsigned fill = 0;
#pragma GCC unroll 64
    for (unsigned k = 0; k < 64; k++) {
        word |= (uint64_t)values[k] << fill;
        fill += width;
        if (fill >= 64) {
            put_le64(p, word);
            p += 8;
            fill -= 64;
            word = fill ? (uint64_t)values[k] >> (width - fill) : 0;
        }
    }
    return p;
}

/* clang-format off */
#define WIDTHS                                                                                     \
    WIDTH(1) WIDTH(2) WIDTH(3) WIDTH(4) WIDTH(5) WIDTH(6) WIDTH(7) WIDTH(8) WIDTH(9) WIDTH(10)     \
    WIDTH(11) WIDTH(12) WIDTH(13) WIDTH(14) WIDTH(15) WIDTH(16)
/* clang-format on */

static uint8_t *pack_64(uint8_t *p, const uint32_t *values, unsigned width)
{
    switch (width) {
#define WIDTH(n)                                                                                   \
    case n:                                                                                        \
        return pack_words(p, values, n);
        WIDTHS
#undef WIDTH
    default:
        PACK(p, values, 64, width);
        return p;
    }
}

void pack_indices(struct out *out, const uint32_t *values, size_t count, unsigned width)
{
    thrift_varint(out, (uint64_t)((count + 7) / 8) << 1 | 1);
    if (!width)
        return;
    for (size_t i = 0; i < count; i += GROUP) {
        size_t n = count - i < GROUP ? count - i : GROUP, done = 0;
        uint8_t *start = (uint8_t *)out_room(out, ROOM + 16), *p = start;
        for (; done + 64 <= n; done += 64)
            p = pack_64(p, values + i + done, width);
        if (done < n)
            PACK(p, values + i + done, n - done, width);
        size_t whole = ((n + 7) / 8) * width;
        memset(p, 0, start + whole > p ? (size_t)(start + whole - p) : 0);
        out->size += whole;
    }
}

void pack_bools(struct out *out, const uint8_t *values, size_t count)
{
    enum { MOST = 8 * ROOM };
    for (size_t i = 0; i < count; i += MOST) {
        size_t n = count - i < MOST ? count - i : MOST, k = 0;
        uint8_t *p = (uint8_t *)out_room(out, ROOM), *start = p;
        for (; k + 8 <= n; k += 8) /* bit j of the highest byte is that of byte j */
            *p++ = (uint8_t)(le64(values + i + k) * UINT64_C(0x0102040810204080) >> 56);
        if (k < n) {
            unsigned byte = 0;
            for (unsigned b = 0; k + b < n; b++)
                byte |= (unsigned)values[i + k + b] << b;
            *p++ = (uint8_t)byte;
        }
        out->size += (size_t)(p - start);
    }
}

void pack_bits(struct out *out, const uint8_t *values, size_t count)
{
    thrift_varint(out, (uint64_t)((count + 7) / 8) << 1 | 1);
    pack_bools(out, values, count);
}

void pack_delta(struct out *out, const uint64_t *values, size_t count)
{
    enum { BLOCK = 128, MINI = 32, MINIS = BLOCK / MINI };
    thrift_varint(out, BLOCK);
    thrift_varint(out, MINIS);
    thrift_varint(out, count);
    thrift_varint(out, thrift_zigzag(count ? (int64_t)values[0] : 0));
    for (size_t i = 1; i < count; i += BLOCK) {
        uint64_t deltas[BLOCK] = {0};
        size_t n = count - i < BLOCK ? count - i : BLOCK;
        int64_t least = INT64_MAX;
        for (size_t k = 0; k < n; k++) {
            deltas[k] = values[i + k] - values[i + k - 1];
            if ((int64_t)deltas[k] < least)
                least = (int64_t)deltas[k];
        }
        thrift_varint(out, thrift_zigzag(least));
        uint8_t widths[MINIS] = {0};
        for (size_t k = 0; k < n; k++) {
            deltas[k] -= (uint64_t)least;
            unsigned width = pack_width(deltas[k]);
            if (width > widths[k / MINI])
                widths[k / MINI] = (uint8_t)width;
        }
        for (size_t k = n; k < BLOCK; k++)
            deltas[k] = 0;
        out_bytes(out, widths, MINIS);
        for (unsigned m = 0; m < MINIS && m * MINI < n; m++) {
            uint8_t *p = (uint8_t *)out_room(out, 8 * MINI + 16), *start = p;
            PACK(p, deltas + m * MINI, MINI, widths[m]);
            out->size += (size_t)(p - start);
        }
    }
}
