/*
 * Records of any shape at speed (AVX-512). Where a packet ends depends on its
 * header, so reading packets one after the other waits for memory at each step.
 * This works on a kilobyte at a time instead:
 *
 *   1. For every byte, as if a packet began there: its length, what kind it is,
 *      and by adding up, how far two packets reach. 64 bytes at once.
 *   2. Hop from packet to packet, two per step, and drop each payload into a
 *      slot of its record. No branch depends on the data: a closing packet moves
 *      on to the next record's slots by adding a number from a table.
 *   3. For each record check what was seen and put the slots into the struct.
 *
 * A record that is odd in any way (docs/format.md) ends the run in front of it;
 * the general reader takes over there.
 */
#include "record/reader.h"
#include "record/run.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#include <string.h>

#define AVX512                                                                                     \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2,"    \
                          "popcnt")))

/* Kinds of packet; those before KIND_OTHER have a bit of their own in what was seen. */
enum kind {
    KIND_ADDRESS = 0,    /* five; these and the next six follow enum spex_has */
    KIND_COUNTER = 5,    /* total, issue, translation, alternate issue */
    KIND_CONTEXT = 9,    /* two */
    KIND_EVENTS = 11,    /* of 1, 2, 4, 8 bytes */
    KIND_SOURCE = 15,    /* of 1, 2 bytes */
    KIND_OPERATION = 17, /* three classes */
    KIND_OTHER = 20,
    KIND_RESERVED,
    KIND_PADDING,
    KIND_CLOSING = 24,
    KIND_TIMESTAMP = KIND_CLOSING,
    KIND_END,
    KINDS = 32
};

enum {
    BLOCK = 1024,
    AHEAD = 128,   /* bytes looked at behind a block */
    MARGIN = AHEAD + 128,
    ROOM = 64,     /* records per block */
    LONGEST = 255, /* longer records go to the general reader */
    SLOTS = 32,
    SEEN_SLOT = SLOTS - 1,
};

/*
 * What was seen, summed up: bit k for kind k, then the number of such packets,
 * the number of others, and the end. If a kind came twice, its bit was carried,
 * and there are fewer bits than packets. No field overflows within a block.
 */
enum { SEEN_COUNT = 31, SEEN_OTHER = 42, SEEN_END = 52 };
_Static_assert(BIT(19) * (BLOCK + AHEAD) <= BIT(SEEN_COUNT) &&
                   BLOCK + AHEAD <= 1 << (SEEN_OTHER - SEEN_COUNT) &&
                   (BLOCK + AHEAD) / 3 <= 1 << (SEEN_END - SEEN_OTHER) &&
                   BLOCK + AHEAD <= 1 << (64 - SEEN_END),
               "the fields hold what a block can have");

#define ONE(k) [k] = BIT(k) | BIT(SEEN_COUNT)
static const uint64_t seen_add[KINDS] = {
    ONE(0),  ONE(1),  ONE(2),  ONE(3),  ONE(4),  ONE(5),  ONE(6),
    ONE(7),  ONE(8),  ONE(9),  ONE(10), ONE(11), ONE(12), ONE(13),
    ONE(14), ONE(15), ONE(16), ONE(17), ONE(18), ONE(19),
    [KIND_OTHER] = BIT(SEEN_OTHER),
    [KIND_RESERVED] = BIT(SEEN_COUNT), /* counted without a bit: odd */
    [KIND_TIMESTAMP] = BIT(KIND_TIMESTAMP) | BIT(SEEN_COUNT),
};

#define R KIND_RESERVED
#define R8 R, R, R, R, R, R, R, R
static const uint8_t kind_of[256] = {
    /* 00 */ KIND_PADDING, KIND_END, R, R, R, R, R, R, R8,
    /* 10 */ R8, R8,
    /* 20 */ R8, R8, R8, R8, /* extended: the second byte tells */
    /* 40 */ R, R, 11, 15, R, R, R, R, 17, 18, 19, R, R, R, R, R,
    /* 50 */ R, R, 12, 16, R, R, R, R, R8,
    /* 60 */ R, R, 13, R, 9, 10, R, R, R8,
    /* 70 */ R, KIND_TIMESTAMP, 14, R, R, R, R, R, R8,
    /* 80 */ R8, R8,
    /* 90 */ R8, 5, 6, 7, R, 8, R, KIND_OTHER, KIND_OTHER,
    /* a0 */ R8, R8,
    /* b0 */ 0, 1, 2, 3, 4, R, KIND_OTHER, KIND_OTHER, R8,
    /* c0 */ R8, R8, R8, R8, R8, R8, R8, R8,
};

struct block {
    uint8_t one[BLOCK + AHEAD], two[BLOCK + AHEAD], kind[BLOCK + AHEAD];
    uint64_t slots[ROOM + 4][SLOTS];
};

/* Step 1. size is a multiple of 64; AHEAD + 65 bytes behind it can be read. */
AVX512 static void measure(struct block *b, const uint8_t *data, size_t size)
{
    const __m512i nibble = _mm512_set1_epi8(15), iota = _mm512_set_epi8(
        63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42,
        41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20,
        19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    /* By the upper half of a header byte: packet length; of a second header byte: both headers'. */
    const __m512i short_length = _mm512_broadcast_i32x4(
        _mm_setr_epi8(1, 1, 0, 0, 2, 3, 5, 9, 2, 3, 5, 9, 2, 3, 5, 9));
    const __m512i long_length = _mm512_broadcast_i32x4(
        _mm_setr_epi8(2, 2, 2, 2, 3, 4, 6, 10, 3, 4, 6, 10, 3, 4, 6, 10));
    const __m512i k0 = _mm512_loadu_si512(kind_of), k1 = _mm512_loadu_si512(kind_of + 64);
    const __m512i k2 = _mm512_loadu_si512(kind_of + 128), k3 = _mm512_loadu_si512(kind_of + 192);
    const __m512i top5 = _mm512_set1_epi8((char)0xf8);
    for (size_t i = 0; i < size + AHEAD; i += 64) {
        __m512i first = _mm512_loadu_si512(data + i);
        __m512i second = _mm512_loadu_si512(data + i + 1);
        __m512i high = _mm512_and_si512(_mm512_srli_epi16(first, 4), nibble);
        __m512i length = _mm512_shuffle_epi8(short_length, high);
        __mmask64 extended = _mm512_cmpeq_epi8_mask(length, _mm512_setzero_si512());
        __m512i high2 = _mm512_and_si512(_mm512_srli_epi16(second, 4), nibble);
        length = _mm512_mask_shuffle_epi8(length, extended, long_length, high2);
        /* Padding: up to eight bytes in one hop, not beyond these 64. */
        __mmask64 padding = _mm512_cmpeq_epi8_mask(first, _mm512_setzero_si512());
        if (padding & padding >> 1) {
            for (int step = 0; step < 3; step++) {
                __m512i at = _mm512_add_epi8(iota, length);
                __mmask64 inside = _mm512_mask_cmplt_epu8_mask(padding, at, _mm512_set1_epi8(64));
                __m512i more = _mm512_maskz_permutexvar_epi8(
                    inside, at, _mm512_maskz_mov_epi8(padding, length));
                length = _mm512_add_epi8(length, more);
            }
        }
        _mm512_storeu_si512(b->one + i, length);
        __m512i name = _mm512_and_si512(second, top5);
        __mmask64 named = _mm512_cmpeq_epi8_mask(name, _mm512_set1_epi8((char)0xb0)) |
                          _mm512_cmpeq_epi8_mask(name, _mm512_set1_epi8((char)0x98));
        __mmask64 low = named & _mm512_cmpeq_epi8_mask(first, _mm512_set1_epi8(0x20));
        __mmask64 implementation =
            named & _mm512_cmpeq_epi8_mask(_mm512_and_si512(first, _mm512_set1_epi8((char)0xfe)),
                                           _mm512_set1_epi8(0x22));
        __m512i header = _mm512_mask_mov_epi8(first, low, second);
        __m512i kind = _mm512_mask_blend_epi8(_mm512_movepi8_mask(header),
                                              _mm512_permutex2var_epi8(k0, header, k1),
                                              _mm512_permutex2var_epi8(k2, header, k3));
        kind = _mm512_mask_mov_epi8(kind, implementation, _mm512_set1_epi8(KIND_OTHER));
        _mm512_storeu_si512(b->kind + i, kind);
    }
    for (size_t i = 0; i < size + 64; i += 64) {
        __m512i one = _mm512_loadu_si512(b->one + i), next = _mm512_loadu_si512(b->one + i + 64);
        __m512i more = _mm512_permutex2var_epi8(one, _mm512_add_epi8(iota, one), next);
        _mm512_storeu_si512(b->two + i, _mm512_add_epi8(one, more));
    }
}

/* Step 2. Returns how many records were closed. */
static size_t gather(struct block *b, const uint8_t *data, size_t size, size_t room)
{
    char *slots = (char *)b->slots[0], *full = (char *)b->slots[room];
    size_t position = 0;
    uint64_t seen = 0;
    while (position < size && slots < full) {
        size_t at[5];
        at[0] = position;
        at[1] = position + b->one[position];
        at[2] = position + b->two[position];
        at[3] = at[2] + b->one[at[2]];
        at[4] = at[2] + b->two[at[2]];
#pragma GCC unroll 4
        for (unsigned i = 0; i < 4; i++) {
            size_t kind = b->kind[at[i]];
            uint64_t payload; /* in the upper bytes */
            memcpy(&payload, data + at[i + 1] - 8, 8);
            memcpy(slots + 8 * kind, &payload, 8);
            seen += seen_add[kind];
            uint64_t told = seen | (uint64_t)at[i + 1] << SEEN_END;
            memcpy(slots + 8 * SEEN_SLOT, &told, 8);
            /* A closing packet forgets what was seen and goes to the next record's slots. */
            uint64_t closing = (kind + 8) >> 5;
            seen &= closing - 1;
            slots += closing * sizeof b->slots[0];
        }
        position = at[4];
    }
    return (size_t)(slots - (char *)b->slots[0]) / sizeof b->slots[0];
}

/*
 * What the kinds of Events, Data Source and Operation Type packets mean, by their
 * nine bits in what was seen.
 */
struct choice {
    uint16_t has;           /* presence bits */
    uint8_t events, source, operation; /* slots */
    uint8_t events_shift, source_shift;
    uint8_t events_size, source_size, op_class;
    bool odd;               /* two of a kind */
};

#define LOG(x) ((x)&8 ? 3 : (x)&4 ? 2 : (x)&2 ? 1 : 0)
#define MANY(x) (((x) & ((x)-1)) != 0)
#define EV(i) ((i)&15)
#define DS(i) ((i) >> 4 & 3)
#define OP(i) ((i) >> 6 & 7)
#define CHOICE(i)                                                                                  \
    {(EV(i) ? SPEX_HAS_EVENTS : 0) | (DS(i) ? SPEX_HAS_DATA_SOURCE : 0) |                          \
         (OP(i) ? SPEX_HAS_OP : 0),                                                                \
     KIND_EVENTS + LOG(EV(i)), KIND_SOURCE + LOG(DS(i)), KIND_OPERATION + LOG(OP(i)),              \
     64 - (8 << LOG(EV(i))), 64 - (8 << LOG(DS(i))), EV(i) ? 1 << LOG(EV(i)) : 0,                  \
     DS(i) ? 1 << LOG(DS(i)) : 0, OP(i) ? LOG(OP(i)) : 0,                                          \
     MANY(EV(i)) || MANY(DS(i)) || MANY(OP(i))}
#define CHOICE4(i) CHOICE(i), CHOICE((i) + 1), CHOICE((i) + 2), CHOICE((i) + 3)
#define CHOICE16(i) CHOICE4(i), CHOICE4((i) + 4), CHOICE4((i) + 8), CHOICE4((i) + 12)
#define CHOICE64(i) CHOICE16(i), CHOICE16((i) + 16), CHOICE16((i) + 32), CHOICE16((i) + 48)
static const struct choice choices[512] = {CHOICE64(0),   CHOICE64(64),  CHOICE64(128),
                                           CHOICE64(192), CHOICE64(256), CHOICE64(320),
                                           CHOICE64(384), CHOICE64(448)};

static inline uint64_t mask_if(bool condition)
{
    return -(uint64_t)condition;
}

/* Step 3. False if the record is odd. */
AVX512 static inline bool assemble(const uint64_t *slots, struct spex_record *record,
                                   uint64_t offset, size_t size)
{
    uint64_t told = slots[SEEN_SLOT];
    uint32_t seen = (uint32_t)(told & (BIT(SEEN_COUNT) - 1));
    const struct choice *choice = &choices[seen >> KIND_EVENTS & 511];
    uint32_t has = (seen & 0x7ff) | choice->has; /* addresses, counters, contexts and these */
    has |= seen >> (KIND_TIMESTAMP - 14) & SPEX_HAS_TIMESTAMP;
    has |= told >> SEEN_OTHER & 1023 ? SPEX_HAS_OTHER : 0;
    uint64_t events =
        slots[choice->events] >> choice->events_shift & mask_if(choice->events_size);
    bool odd = (unsigned)__builtin_popcount(seen) != (told >> SEEN_COUNT & 2047) || choice->odd ||
               size > LONGEST || !(has & ~SPEX_HAS_TIMESTAMP) ||
               ((has & SLOTS_WHOLE) != SLOTS_WHOLE &&
                !(choice->events_size && events_excuse(events)));
    if (__builtin_expect(odd, 0))
        return false;
    __m512i wide = _mm512_maskz_loadu_epi64((__mmask8)(seen & 31), slots + KIND_ADDRESS);
    _mm512_storeu_si512(record, wide);
    record->events = events;
    record->timestamp = slots[KIND_TIMESTAMP] & mask_if(has & SPEX_HAS_TIMESTAMP);
    record->offset = offset;
    /* Upper 2 bytes of the counters and 4 bytes of the contexts. */
    const __m512i order = _mm512_castsi128_si512(
        _mm_setr_epi8(36, 37, 38, 39, 44, 45, 46, 47, 6, 7, 14, 15, 22, 23, 30, 31));
    __m512i narrow =
        _mm512_maskz_loadu_epi64((__mmask8)(seen >> KIND_COUNTER & 63), slots + KIND_COUNTER);
    _mm_storeu_si128((__m128i *)record->context,
                     _mm512_castsi512_si128(_mm512_permutexvar_epi8(order, narrow)));
    uint64_t source =
        slots[choice->source] >> choice->source_shift & mask_if(choice->source_size);
    uint64_t operation = slots[choice->operation] >> 56 & mask_if(has & SPEX_HAS_OP);
    uint64_t tail = source | (uint64_t)size << 16 | (uint64_t)(uint16_t)has << 32 |
                    (uint64_t)choice->op_class << 48 | operation << 56;
    uint64_t sizes = choice->events_size | (uint64_t)choice->source_size << 8;
    memcpy(&record->data_source, &tail, 8);
    memcpy(&record->events_size, &sizes, 8);
    return true;
}

_Static_assert(SPEX_HAS_TIMESTAMP == 1 << 14, "assemble shifts the bit there");
_Static_assert(offsetof(struct spex_record, context) == 64 &&
                   offsetof(struct spex_record, total) == 72 &&
                   offsetof(struct spex_record, data_source) == 80 &&
                   offsetof(struct spex_record, size) == 82 &&
                   offsetof(struct spex_record, present) == 84 &&
                   offsetof(struct spex_record, op_class) == 86 &&
                   offsetof(struct spex_record, op_payload) == 87 &&
                   offsetof(struct spex_record, events_size) == 88,
               "assemble writes the struct in pieces");

AVX512 size_t stream_records(struct spex_record_reader *reader, struct spex_record *records,
                             size_t count)
{
    struct block b;
    size_t n = 0;
    while (n < count && reader->position >= 8 && reader->size - reader->position > MARGIN + 64) {
        const uint8_t *data = reader->data + reader->position;
        size_t size = reader->size - reader->position - MARGIN;
        size = size > BLOCK ? BLOCK : size & ~(size_t)63;
        size_t room = count - n < ROOM ? count - n : ROOM;
        measure(&b, data, size);
        size_t closed = gather(&b, data, size, room);
        size_t end = 0, taken = 0;
        if (closed > room)
            closed = room;
        for (; taken < closed; taken++) {
            size_t start = end, next = b.slots[taken][SEEN_SLOT] >> SEEN_END;
            while (data[start] == 0)
                start++;
            if (!assemble(b.slots[taken], &records[n], reader->base + reader->position + start,
                          next - start))
                break;
            end = next;
            n++;
        }
        reader->position += end;
        if (taken < closed || taken == 0)
            break;
    }
    return n;
}
#else
size_t stream_records(struct spex_record_reader *reader, struct spex_record *records, size_t count)
{
    return 0;
}
#endif
