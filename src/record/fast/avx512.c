/* The AVX-512 variant: permutes 64 bytes at once, and walks by doubling steps. */
#include "record/fast/fast.h"
#include "record/slots.h"

#ifdef FAST_X86
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2"))), \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2")
#endif

enum { WALK_WIDTH = 2 }; /* records walked side by side */

struct bytes {
    __m512i all;
};

FAST_INLINE struct bytes load(const uint8_t *data)
{
    return (struct bytes){_mm512_loadu_si512(data)};
}

/* For each byte of struct spex_record, the byte of its field that it is; 15: none. */
/* clang-format off */
static const struct {
    uint8_t field[96], byte[96];
} layout = {
#define WIDE(f) f, f, f, f, f, f, f, f
#define BYTES8 0, 1, 2, 3, 4, 5, 6, 7
#define NONE 15
    {WIDE(0), WIDE(1), WIDE(2), WIDE(3), WIDE(4), WIDE(FIELD_EVENTS), WIDE(FIELD_TIMESTAMP),
     WIDE(NONE), 7, 7, 7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, FIELD_DATA_SOURCE,
     FIELD_DATA_SOURCE, NONE, NONE, NONE, NONE, NONE, FIELD_OP, WIDE(NONE)},
    {BYTES8, BYTES8, BYTES8, BYTES8, BYTES8, BYTES8, BYTES8, BYTES8,
     0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, BYTES8},
};
/* clang-format on */

FAST_INLINE bool matches(const struct pattern *pattern, struct bytes bytes)
{
    return !_mm512_mask_cmpneq_epi8_mask(pattern->compared, bytes.all,
                                         _mm512_loadu_si512(pattern->value));
}

/* Hashes the first 16 bytes at the key's positions. */
FAST_INLINE unsigned hash_cell(const struct cell_keys *keys, const uint8_t *cell)
{
    __mmask64 places = keys[cell_group(cell)].places;
    __m128i bytes =
        _mm512_castsi512_si128(_mm512_maskz_compress_epi8(places, _mm512_loadu_si512(cell)));
    uint64_t hash = (uint64_t)_mm_cvtsi128_si64(bytes) +
                    (uint64_t)_mm_extract_epi64(bytes, 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)((hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93) >> (64 - KEY_BITS));
}

/* For each field, where its bytes go; kept in registers. */
struct constants {
    __m512i field_low, byte_low;
    __m256i field_high, byte_high;
};

FAST_INLINE struct constants constants_make(void)
{
    return (struct constants){
        .field_low = _mm512_loadu_si512(layout.field),
        .byte_low = _mm512_loadu_si512(layout.byte),
        .field_high = _mm256_loadu_si256((const void *)(layout.field + 64)),
        .byte_high = _mm256_loadu_si256((const void *)(layout.byte + 64)),
    };
}

/* What take needs of a shape: where each byte goes, and the constant part of the record. */
struct prepared {
    __m512i low;
    __m256i high, fixed;
    __mmask64 filled_low;
    __mmask32 filled_high;
    uint8_t lead;
};

FAST_INLINE struct prepared prepare(struct constants p, const struct shape *shape)
{
    __m512i at = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)shape->at));
    return (struct prepared){
        .low = _mm512_add_epi8(_mm512_shuffle_epi8(at, p.field_low), p.byte_low),
        .high = _mm256_add_epi8(_mm256_shuffle_epi8(_mm512_castsi512_si256(at), p.field_high),
                                p.byte_high),
        .fixed = _mm256_inserti128_si256(_mm256_setzero_si256(),
                                         _mm_loadu_si128((const void *)&shape->fixed), 1),
        .filled_low = shape->filled_low,
        .filled_high = shape->filled_high,
        .lead = shape->lead,
    };
}

/* Two permutations put every byte of the struct in place. `more`: the second 64 bytes. */
FAST_INLINE void take(const struct prepared *shape, const struct bytes *bytes,
                      const struct bytes *more, const uint8_t *data, uint64_t offset,
                      struct spex_record *record)
{
    __m512i low, high = _mm512_castsi256_si512(shape->high);
    if (more) {
        low = _mm512_maskz_permutex2var_epi8(shape->filled_low, bytes->all, shape->low, more->all);
        high = _mm512_permutex2var_epi8(bytes->all, high, more->all);
    } else {
        low = _mm512_maskz_permutexvar_epi8(shape->filled_low, shape->low, bytes->all);
        high = _mm512_permutexvar_epi8(high, bytes->all);
    }
    _mm512_storeu_si512(record, low);
    record->offset = offset + shape->lead;
    _mm256_storeu_si256(
        (void *)((char *)record + 64),
        _mm256_mask_mov_epi8(shape->fixed, shape->filled_high, _mm512_castsi512_si256(high)));
}

/* Per position, for a walk: the position, how far a header there may lead, a random byte. */
static const struct {
    uint8_t place[CELL], room[CELL], scramble[CELL], by_nibble[16];
} walks = {
#define EIGHT(f, i) f(i), f(i + 1), f(i + 2), f(i + 3), f(i + 4), f(i + 5), f(i + 6), f(i + 7)
#define ALL(f)                                                                                     \
    EIGHT(f, 0), EIGHT(f, 8), EIGHT(f, 16), EIGHT(f, 24), EIGHT(f, 32), EIGHT(f, 40),              \
        EIGHT(f, 48), EIGHT(f, 56)
#define PLACE(i) (i)
#define ROOM(i) (CELL - 1 - (i))
#define SCRAMBLE(i) ((i)*0x9e3779b1u >> 13 & 0xff)
#define BY_NIBBLE(i) WIRE_LENGTH((i) << 4)
    {ALL(PLACE)}, {ALL(ROOM)}, {ALL(SCRAMBLE)}, {EIGHT(BY_NIBBLE, 0), EIGHT(BY_NIBBLE, 8)}};

/*
 * Walks all 64 positions at once: finds where each leads if it is a header, then by doubling
 * where two, four, eight and sixteen steps lead, and a sum over the headers on the way. Each
 * operation waits for the one before, so a few records are walked side by side, in this order:
 * KEEP stops the compiler from changing it.
 */
#define KEEP(vector) __asm__ volatile("" : "+v"(vector))
#define EACH _Pragma("GCC unroll 8") for (unsigned i = 0; i < lanes; i++)
FAST_INLINE void walk(const uint8_t *const *p, unsigned lanes, struct walked *walked)
{
    enum { CLOSED = 0x80 };
    const __m512i place = _mm512_loadu_si512(walks.place);
    const __m512i place_closed = _mm512_or_si512(place, _mm512_set1_epi8((char)CLOSED));
    const __m512i room = _mm512_loadu_si512(walks.room);
    const __m512i scramble = _mm512_loadu_si512(walks.scramble);
    const __m512i by_nibble =
        _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)walks.by_nibble));
    __m512i bytes[LANES], length[LANES], end[LANES], next[LANES], sum[LANES], behind[LANES];
    __mmask64 on[LANES];
    EACH bytes[i] = _mm512_loadu_si512(p[i]);
    EACH KEEP(bytes[i]);
    EACH length[i] = _mm512_and_si512(_mm512_srli_epi16(bytes[i], 4), _mm512_set1_epi8(15));
    EACH on[i] = _mm512_cmpneq_epi8_mask(bytes[i], _mm512_set1_epi8(WIRE_TIMESTAMP));
    EACH length[i] = _mm512_shuffle_epi8(by_nibble, length[i]);
    EACH on[i] = _mm512_mask_cmpneq_epi8_mask(on[i], bytes[i], _mm512_set1_epi8(WIRE_END));
    EACH end[i] = _mm512_mask_add_epi8(place, ~on[i], place_closed, length[i]);
    EACH on[i] = _mm512_mask_cmple_epu8_mask(on[i], length[i], room);
    EACH sum[i] = _mm512_xor_si512(bytes[i], scramble);
    EACH next[i] = _mm512_mask_add_epi8(place, on[i], place, length[i]);
    EACH KEEP(next[i]);
#pragma GCC unroll 4
    for (unsigned done = 1; done < STEPS / 2; done *= 2) {
        EACH behind[i] = _mm512_permutexvar_epi8(next[i], sum[i]);
        EACH next[i] = _mm512_permutexvar_epi8(next[i], next[i]);
        EACH KEEP(next[i]);
        EACH sum[i] = _mm512_add_epi8(sum[i], behind[i]);
        EACH KEEP(sum[i]);
    }
    EACH end[i] = _mm512_permutexvar_epi8(next[i], end[i]);
    EACH behind[i] = _mm512_permutexvar_epi8(next[i], sum[i]);
    EACH KEEP(end[i]);
    EACH end[i] = _mm512_permutexvar_epi8(next[i], end[i]);
    EACH sum[i] = _mm512_add_epi8(sum[i], behind[i]);
    EACH
    {
        unsigned first = (unsigned)_mm_cvtsi128_si32(_mm512_castsi512_si128(end[i])) & 0xff;
        unsigned hash = (unsigned)_mm_cvtsi128_si32(_mm_unpacklo_epi8(
                            _mm512_castsi512_si128(sum[i]), _mm512_castsi512_si128(next[i]))) &
                        0xffff;
        walked[i] = (struct walked){
            .end = first & ~(unsigned)CLOSED,
            .closed = first & CLOSED,
            .key = (uint16_t)((hash << 8 | first) * UINT32_C(0x9e3779b1) >> (32 - KEY_BITS))};
    }
}

#include "record/fast/loop.h"

#ifdef __clang__
#pragma clang attribute pop
#endif

const struct fast_variant fast_avx512 = {"AVX-512", read_cells, find, found, cell_key, walk_one};
#endif
