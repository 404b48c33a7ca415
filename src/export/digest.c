#include "digest.h"

#include <stdbool.h>
#include <string.h>

static const uint64_t start[8] = {
    UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b), UINT64_C(0x3c6ef372fe94f82b),
    UINT64_C(0xa54ff53a5f1d36f1), UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179),
};

static const uint8_t order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint64_t rotate(uint64_t value, unsigned by)
{
    return value >> by | value << (64 - by);
}

static inline void mix(uint64_t v[16], int a, int b, int c, int d, uint64_t x, uint64_t y)
{
    v[a] += v[b] + x;
    v[d] = rotate(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = rotate(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 63);
}

static void compress(struct digest *d, const uint8_t *block, bool last)
{
    uint64_t v[16], m[16] = {0};
    for (unsigned i = 0; i < 16; i++)
        for (unsigned k = 0; k < 8; k++)
            m[i] |= (uint64_t)block[8 * i + k] << 8 * k;
    memcpy(v, d->state, sizeof d->state);
    memcpy(v + 8, start, sizeof start);
    v[12] ^= d->size; /* the high half of the size is always 0 */
    if (last)
        v[14] = ~v[14];
    for (unsigned round = 0; round < 12; round++) {
        const uint8_t *s = order[round % 10];
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + i, 8 + i, 12 + i, m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[s[8 + 2 * i]],
                m[s[9 + 2 * i]]);
    }
    for (unsigned i = 0; i < 8; i++)
        d->state[i] ^= v[i] ^ v[8 + i];
}

void digest_begin(struct digest *d, size_t length)
{
    *d = (struct digest){.length = length};
    memcpy(d->state, start, sizeof start);
    d->state[0] ^= 0x01010000 ^ length;
}

void digest_add(struct digest *d, const void *data, size_t size)
{
    const uint8_t *p = data;
    while (size) {
        if (d->used == DIGEST_BLOCK) { /* more data follows, so this block is not the last */
            d->size += DIGEST_BLOCK;
            compress(d, d->block, false);
            d->used = 0;
        }
        size_t n = DIGEST_BLOCK - d->used < size ? DIGEST_BLOCK - d->used : size;
        memcpy(d->block + d->used, p, n);
        d->used += n;
        p += n;
        size -= n;
    }
}

void digest_end(struct digest *d, uint8_t *result)
{
    memset(d->block + d->used, 0, DIGEST_BLOCK - d->used);
    d->size += d->used;
    compress(d, d->block, true);
    for (size_t i = 0; i < d->length; i++)
        result[i] = (uint8_t)(d->state[i / 8] >> 8 * (i % 8));
}
