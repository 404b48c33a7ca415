/* The AVX2 variant: compares 32 bytes at once; otherwise like the portable one. */
#include "record/fast/fast.h"

#ifdef FAST_X86
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC target("avx2,bmi,bmi2")
#endif

#include "record/fast/portable.h"

struct bytes {
    __m256i low, high;
};

FAST_INLINE struct bytes load(const uint8_t *data)
{
    return (struct bytes){_mm256_loadu_si256((const void *)data),
                          _mm256_loadu_si256((const void *)(data + 32))};
}

static inline __m256i spread_32(uint32_t bits)
{
    const __m256i bytes = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                           2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)UINT64_C(0x8040201008040201));
    __m256i all = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), bytes), bit);
    return _mm256_cmpeq_epi8(all, bit);
}

static inline bool matches(const struct pattern *pattern, struct bytes bytes)
{
    struct bytes value = load(pattern->value);
    __m256i low = _mm256_xor_si256(bytes.low, value.low);
    __m256i high = _mm256_xor_si256(bytes.high, value.high);
    low = _mm256_and_si256(low, spread_32((uint32_t)pattern->compared));
    high = _mm256_and_si256(high, spread_32((uint32_t)(pattern->compared >> 32)));
    low = _mm256_or_si256(low, high);
    return _mm256_testz_si256(low, low);
}

#include "record/fast/loop.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

const struct fast_variant fast_avx2 = {"AVX2", read_cells, find, found, cell_key, walk_one};
#endif
