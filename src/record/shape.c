/*
 * Shapes: the fast path for records that begin every 64 bytes, as on Arm's own cores;
 * and what stream.c needs of them for records of any length.
 * Such streams use few shapes: which packets in which places. A shape is learnt
 * once; a cell of that shape is recognized by one masked compare, and its fields
 * are taken from fixed places.
 *
 * Which shape to compare with: the last one as long as it repeats, else the one
 * that was learnt for the same bytes at places that tell shapes apart. Whatever
 * that lookup says, the compare decides, so that the result is what the general
 * decoder yields: equal headers and padding mean equal packets.
 */
#include "record/reader.h"
#include "record/run.h"
#include "wire/headers.h"

#include <string.h>

enum {
    MARGIN = CELL + 8, /* bytes that must be readable behind the start of a cell */
    REPEATS = 8,       /* so many of one shape, and the next is expected to be so too */
    GROUP = 16,        /* cells whose shapes are looked up before the first is read */
    AHEAD = 2048,      /* bytes to fetch ahead */
};

#define AT(member) offsetof(struct spex_record, member)
_Static_assert(sizeof(struct spex_record) == 96 && AT(events) == 40 && AT(timestamp) == 48 &&
                   AT(offset) == 56 && AT(context) == 64 && AT(total) == 72 &&
                   AT(data_source) == 80 && AT(op_payload) == 87,
               "records are written in pieces of 64, 16 and 16 bytes");
_Static_assert(sizeof(((struct shape *)0)->fixed) == sizeof(struct spex_record) - AT(data_source),
               "the fixed part of a shape is the end of a record");

/* ---- learning ---- */

/* Eight bits to eight bytes of ones or zeros. */
static inline uint64_t spread(unsigned bits)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t one_bit = bits * ones & UINT64_C(0x8040201008040201);
    return ((one_bit + 0x7f * ones) >> 7 & ones) * 0xff;
}

/* Which byte of which field each byte of struct spex_record is; 15: none. */
/* clang-format off */
static const struct {
    uint8_t field[96], byte[96];
} layout __attribute__((unused)) = { /* SIMD variants only */
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

/* The field that a packet fills, by slot. */
static const uint8_t field_of[SLOTS] = {
    [SLOT_PC] = FIELD_ADDRESS,
    [SLOT_TARGET] = FIELD_ADDRESS + 1,
    [SLOT_VA] = FIELD_ADDRESS + 2,
    [SLOT_PA] = FIELD_ADDRESS + 3,
    [SLOT_PREV_TARGET] = FIELD_ADDRESS + 4,
    [SLOT_TOTAL] = FIELD_COUNTER,
    [SLOT_ISSUE] = FIELD_COUNTER + 1,
    [SLOT_TRANSLATION] = FIELD_COUNTER + 2,
    [SLOT_ALT_ISSUE] = FIELD_COUNTER + 3,
    [SLOT_CONTEXT_EL1] = FIELD_CONTEXT,
    [SLOT_CONTEXT_EL2] = FIELD_CONTEXT + 1,
    [SLOT_EVENTS] = FIELD_EVENTS,
    [SLOT_DATA_SOURCE] = FIELD_DATA_SOURCE,
    [SLOT_OP] = FIELD_OP,
    [SLOT_TIMESTAMP] = FIELD_TIMESTAMP,
};

/* Where each field is in struct spex_record. */
/* clang-format off */
static const uint8_t place_of[FIELD_COUNT] = {
    0, 8, 16, 24, 32, AT(events), AT(timestamp), AT(context), AT(context) + 4, AT(total),
    AT(issue), AT(translation), AT(alt_issue), AT(data_source), AT(op_payload)};
/* clang-format on */

static void add_packet(struct shape *shape, const struct spex_packet *packet, size_t at)
{
    enum slot slot = slot_of(packet);
    shape->fixed.present |= (uint16_t)SLOT_BITS(slot);
    if (slot >= SLOTS)
        return;
    unsigned field = field_of[slot];
    shape->at[field] = (uint8_t)at;
    uint64_t bytes = BIT(packet->size) - 1;
    if (place_of[field] < 64)
        shape->filled_low |= bytes << place_of[field];
    else
        shape->filled_high |= (uint32_t)bytes << (place_of[field] - 64);
    uint64_t ones = spread((unsigned)bytes);
    if (field <= FIELD_TIMESTAMP)
        shape->wide_mask[field] = ones;
    else if (field < FIELD_COUNTER)
        shape->context_mask[field - FIELD_CONTEXT] = (uint32_t)ones;
    else if (field < FIELD_DATA_SOURCE)
        shape->counter_mask[field - FIELD_COUNTER] = (uint16_t)ones;
    if (field == FIELD_EVENTS) {
        shape->fixed.events_size = packet->size;
    } else if (field == FIELD_DATA_SOURCE) {
        shape->fixed.data_source_size = packet->size;
    } else if (field == FIELD_OP) {
        shape->fixed.op_class = packet->index;
    }
}

/* The key of a cell: a hash of its bytes at the places. */
static inline unsigned key_portable(const struct reader_state *state, const uint8_t *cell)
{
    static const uint64_t factors[CELL / 8] = {
        UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xc2b2ae3d27d4eb4f), UINT64_C(0xd6e8feb86659fd93),
        UINT64_C(0xa0761d6478bd642f), UINT64_C(0xe7037ed1a0b428db), UINT64_C(0x8ebc6af09c88c6e3),
        UINT64_C(0x589965cc75374cc3), UINT64_C(0x1d8e4e27c47d124f)};
    uint64_t hash = 0;
    for (unsigned i = 0; i < CELL / 8; i++)
        hash += (le64(cell + 8 * i) & state->key_words[i]) * factors[i];
    return (unsigned)((hash ^ hash >> 29) * factors[0] >> (64 - KEY_BITS));
}

/* Enters a shape under a key: in one of two neighbouring places, the second if both are taken. */
static void enter_shape(struct reader_state *state, unsigned number, unsigned key)
{
    unsigned at = state->by_key[key] == NO_SHAPE ? key : key ^ 1;
    state->by_key[at] = (uint16_t)number;
}

static unsigned cell_key(const struct reader_state *state, const struct shape *shape);
static unsigned stream_key(const struct reader_state *state, const struct shape *shape);

/* The newest shape may change which places are common to all and tell some apart. */
static void index_shape(struct reader_state *state)
{
    unsigned number = state->shape_count - 1u;
    const struct shape *first = &shapes_of(state)[0], *shape = &shapes_of(state)[number];
    if (number == 0) {
        state->common = shape->head.compared;
        state->differ = 0;
        state->key_places = ~UINT64_C(0); /* not yet */
    }
    for (unsigned i = 0; i < CELL; i++)
        if (first->head.value[i] != shape->head.value[i])
            state->differ |= BIT(i);
    state->common &= shape->head.compared;
    if (state->key_places == (state->common & state->differ)) {
        enter_shape(state, number, cell_key(state, shape));
        return;
    }
    state->key_places = state->common & state->differ;
    for (unsigned i = 0; i < CELL; i += 8)
        state->key_words[i / 8] = spread(state->key_places >> i & 255);
    memset(state->by_key, 0xff, sizeof state->by_key); /* NO_SHAPE */
    for (unsigned i = 0; i <= number; i++)
        enter_shape(state, i, cell_key(state, &shapes_of(state)[i]));
}

/* Not before the second one of about this shape: many come only once. */
static bool comes_again(struct reader_state *state, const struct spex_record *record)
{
    unsigned about =
        (record->present * 0x9e3779b1u + record->size * 0x85ebca6bu +
         (record->op_class | record->events_size << 2 | record->data_source_size << 6) *
             0xc2b2ae35u) >>
        20;
    bool again = state->seen[about / 8] >> (about % 8) & 1;
    state->seen[about / 8] |= (uint8_t)(1u << (about % 8));
    return again;
}

/*
 * Adds the shape of a record that is lead bytes into the size bytes at cell, padding
 * around it. False if there is more in the cell, or no room.
 */
static bool add_shape(struct reader_state *state, const uint8_t *cell, size_t size, size_t lead,
                      const struct spex_record *record)
{
    if (state->shape_count == SHAPES || (size > CELL && state->tail_count == TAILS - 1))
        return false;
    size_t end = lead + record->size;
    struct shape shape = {.fixed.size = record->size, .lead = (uint8_t)lead};
    struct pattern tail = {.compared = 0};
    for (size_t at = 0; at < size;) {
        struct spex_packet packet = {.header_size = 1};
        if (at >= lead && at < end)
            wire_decode(cell + at, end - at, &packet);
        else if (cell[at])
            return false; /* another record in the same cell */
        for (size_t i = at; i < at + packet.header_size; i++) {
            struct pattern *pattern = i < CELL ? &shape.head : &tail;
            pattern->value[i % CELL] = cell[i];
            pattern->compared |= BIT(i % CELL);
        }
        add_packet(&shape, &packet, at + packet.header_size);
        at += spex_packet_length(&packet);
    }
    shape.partial = (shape.fixed.present & HAS_WHOLE) != HAS_WHOLE;
    if (size > CELL) {
        shape.tail = ++state->tail_count;
        state->tails[shape.tail] = tail;
    }
    shape.special = shape.partial || shape.tail;
    shapes_of(state)[state->shape_count++] = shape;
    return true;
}

void shape_start(struct spex_record_reader *reader)
{
    struct reader_state *state = reader_state(reader);
    state->streaming = false;
    state->failures = 0;
    state->shape_count = 0;
    state->last_shape = NO_SHAPE;
}

void shape_learn(struct spex_record_reader *reader, const struct spex_record *record)
{
    struct reader_state *state = reader_state(reader);
    size_t start = (size_t)(record->offset - reader->base);
    if (!comes_again(state, record))
        return;
    if (state->shape_count == 0 && record->size <= CELL)
        state->anchor = (uint8_t)(start % CELL); /* an incomplete one goes wrong and is dropped */
    size_t lead = (start - state->anchor) % CELL;
    if (lead + record->size > CELL || start < lead || reader->size - (start - lead) < MARGIN)
        return;
    if (state->shape_count == CELL_SHAPES ||
        !add_shape(state, reader->data + start - lead, CELL, lead, record))
        return;
    const struct shape *shape = &shapes_of(state)[state->shape_count - 1];
    for (const struct shape *other = shapes_of(state); other < shape; other++) {
        if (other->head.compared == shape->head.compared &&
            !memcmp(other->head.value, shape->head.value, CELL)) {
            state->shape_count--; /* known, but lost its place */
            return;
        }
    }
    index_shape(state);
}

void stream_learn(struct spex_record_reader *reader, const struct spex_record *record)
{
    struct reader_state *state = reader_state(reader);
    const uint8_t *data = reader->data + (record->offset - reader->base);
    if (record->size > 2 * CELL || !comes_again(state, record) ||
        !add_shape(state, data, record->size, 0, record))
        return;
    unsigned number = state->shape_count - 1u, key = stream_key(state, &shapes_of(state)[number]);
    if (key != NO_KEY && (state->by_key[key] == NO_SHAPE || state->by_key[key ^ 1] == NO_SHAPE)) {
        enter_shape(state, number, key);
    } else {
        state->shape_count--;
        state->tail_count -= record->size > CELL;
    }
}

/* An incomplete record stands if its Events excuse it; all of its shape have Events. */
static inline bool excused(const struct shape *shape, const uint8_t *data)
{
    return !shape->partial || events_excuse(data[shape->at[FIELD_EVENTS]]);
}

/*
 * How many of these records stand, up to the first incomplete one that does not. Looked at
 * when all have been read: in between nobody could foresee which are incomplete.
 */
static size_t excused_until(const struct spex_record *records, size_t count, const uint8_t *partial,
                            size_t partials)
{
    for (size_t i = 0; i < partials; i++)
        if (!events_excuse(records[partial[i]].events))
            return partial[i];
    return count;
}

/* ---- records of a stream ---- */

enum {
    LANE_LEAST = 64,   /* bytes of a lane near the end of the data */
    LANE_SEARCH = 512, /* bytes in which its first record must begin */
    STEPS = 16,        /* of a walk: packets, and first bytes of extended headers */
};

/* From a header byte to the next: the first byte of an extended header counts as one. Closing: 0.
 */
#define LENGTH(h) ((h) == WIRE_END || (h) == WIRE_TIMESTAMP ? 0 : WIRE_LENGTH(h))
/* The same, and a hash of the header in the other 24 bits: sixteen lengths do not reach there. */
#define STEP(h) ((uint32_t)LENGTH(h) | ((h)*UINT32_C(0x9e3779b1) & 0xffffff00))

static const uint32_t steps[256] = WIRE_ALL(STEP);

/* Where STEPS packets lead: behind the closing one, if that is soon enough. */
struct walked {
    uint16_t end, key; /* key: of the headers */
    bool closed;
};

/* The key of a record that takes more than one walk. */
static inline unsigned keys_together(unsigned first, unsigned second)
{
    return (first * 5 + second) & ((1 << KEY_BITS) - 1);
}

/* A part of the data in which records are found, side by side with others. */
struct lane {
    const uint8_t *at, *end;
    struct queued *next; /* where its next record goes */
    bool open;           /* inside a record that takes more than one walk */
};

/* ---- portable ---- */

static inline bool matches_portable(const struct pattern *pattern, const uint8_t *data)
{
    uint64_t difference = 0;
    for (unsigned i = 0; i < CELL; i += 8)
        difference |=
            (le64(data + i) ^ le64(pattern->value + i)) & spread(pattern->compared >> i & 255);
    return difference == 0;
}

static inline void take_portable(const struct shape *shape, const uint8_t *data, uint64_t offset,
                                 struct spex_record *record)
{
    const uint8_t *at = shape->at;
    const uint64_t *wide = shape->wide_mask;
    const uint16_t *counter = shape->counter_mask;
    memcpy(&record->data_source, &shape->fixed, sizeof shape->fixed);
    for (unsigned i = 0; i < 5; i++)
        record->address[i] = le64(data + at[FIELD_ADDRESS + i]) & wide[i];
    record->events = le64(data + at[FIELD_EVENTS]) & wide[5];
    record->timestamp = le64(data + at[FIELD_TIMESTAMP]) & wide[6];
    record->offset = offset + shape->lead;
    record->context[0] = le32(data + at[FIELD_CONTEXT]) & shape->context_mask[0];
    record->context[1] = le32(data + at[FIELD_CONTEXT + 1]) & shape->context_mask[1];
    record->total = le16(data + at[FIELD_COUNTER]) & counter[0];
    record->issue = le16(data + at[FIELD_COUNTER + 1]) & counter[1];
    record->translation = le16(data + at[FIELD_COUNTER + 2]) & counter[2];
    record->alt_issue = le16(data + at[FIELD_COUNTER + 3]) & counter[3];
    record->data_source = (uint16_t)(le16(data + at[FIELD_DATA_SOURCE]) &
                                     ((1u << 8 * shape->fixed.data_source_size) - 1));
    record->op_payload = shape->fixed.present & SPEX_HAS_OP ? data[at[FIELD_OP]] : 0;
}

/* Side by side for several records: each step waits for the one before. */
static inline __attribute__((always_inline)) void
walk_portable(const uint8_t *const *p, unsigned lanes, struct walked *walked)
{
    uint32_t sum[LANES] = {0};
    for (unsigned step = 0; step < STEPS; step++) {
#pragma GCC unroll 8
        for (unsigned i = 0; i < lanes; i++) {
            sum[i] += steps[p[i][(uint8_t)sum[i]]];
            __asm__("" : "+r"(sum[i])); /* not as a vector, which would be taken apart again */
        }
    }
    for (unsigned i = 0; i < lanes; i++) {
        unsigned at = (uint8_t)sum[i], header = p[i][at], closed = !(uint8_t)steps[header];
        walked[i] = (struct walked){
            .end = (uint16_t)(at + closed + (header == WIRE_TIMESTAMP) * WIRE_SIZE(WIRE_TIMESTAMP)),
            .key = (uint16_t)(sum[i] * UINT32_C(0x9e3779b1) >> (32 - KEY_BITS)),
            .closed = closed};
    }
}

#define VARIANT(name) name##_portable
#define TARGET
#define BYTES const uint8_t *
#define LOAD(data) (data)
#define MATCHES(pattern, bytes) matches_portable(pattern, bytes)
#include "record/shape_loop.inc"

/* ---- x86-64 ---- */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,bmi,bmi2")))
#define AVX512                                                                                     \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2")))

struct bytes_avx2 {
    __m256i low, high;
};

AVX2 static inline __attribute__((always_inline)) struct bytes_avx2 load_avx2(const uint8_t *data)
{
    return (struct bytes_avx2){_mm256_loadu_si256((const void *)data),
                               _mm256_loadu_si256((const void *)(data + 32))};
}

AVX2 static inline __m256i spread_avx2(uint32_t bits)
{
    const __m256i bytes = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                           2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit = _mm256_set1_epi64x((long long)UINT64_C(0x8040201008040201));
    __m256i all = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), bytes), bit);
    return _mm256_cmpeq_epi8(all, bit);
}

AVX2 static inline bool matches_avx2(const struct pattern *pattern, struct bytes_avx2 bytes)
{
    struct bytes_avx2 value = load_avx2(pattern->value);
    __m256i low = _mm256_xor_si256(bytes.low, value.low);
    __m256i high = _mm256_xor_si256(bytes.high, value.high);
    low = _mm256_and_si256(low, spread_avx2((uint32_t)pattern->compared));
    high = _mm256_and_si256(high, spread_avx2((uint32_t)(pattern->compared >> 32)));
    low = _mm256_or_si256(low, high);
    return _mm256_testz_si256(low, low);
}

#define VARIANT(name) name##_avx2
#define TARGET AVX2
#define BYTES struct bytes_avx2
#define LOAD(data) load_avx2(data)
#define MATCHES(pattern, bytes) matches_avx2(pattern, bytes)
#include "record/shape_loop.inc"

AVX512 static inline bool matches_avx512(const struct pattern *pattern, __m512i bytes)
{
    return !_mm512_mask_cmpneq_epi8_mask(pattern->compared, bytes,
                                         _mm512_loadu_si512(pattern->value));
}

/* The first 16 of the bytes at the places. */
AVX512 static inline unsigned key_avx512(const struct reader_state *state, const uint8_t *cell)
{
    __m128i bytes = _mm512_castsi512_si128(
        _mm512_maskz_compress_epi8(state->key_places, _mm512_loadu_si512(cell)));
    uint64_t hash = (uint64_t)_mm_cvtsi128_si64(bytes) +
                    (uint64_t)_mm_extract_epi64(bytes, 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (unsigned)((hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93) >> (64 - KEY_BITS));
}

/* Which byte of which field goes where; kept in registers. */
struct places_avx512 {
    __m512i field_low, byte_low;
    __m256i field_high, byte_high;
};

AVX512 static inline __attribute__((always_inline)) struct places_avx512 places_avx512(void)
{
    return (struct places_avx512){
        .field_low = _mm512_loadu_si512(layout.field),
        .byte_low = _mm512_loadu_si512(layout.byte),
        .field_high = _mm256_loadu_si256((const void *)(layout.field + 64)),
        .byte_high = _mm256_loadu_si256((const void *)(layout.byte + 64)),
    };
}

/* What take_avx512 needs of a shape: which byte goes where, and the rest of the record. */
struct prepared_avx512 {
    __m512i low;
    __m256i high, fixed;
    __mmask64 filled_low;
    __mmask32 filled_high;
    uint8_t lead;
};

AVX512 static inline __attribute__((always_inline)) struct prepared_avx512
prepare_avx512(const struct places_avx512 *p, const struct shape *shape)
{
    __m512i at = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)shape->at));
    return (struct prepared_avx512){
        .low = _mm512_add_epi8(_mm512_shuffle_epi8(at, p->field_low), p->byte_low),
        .high = _mm256_add_epi8(_mm256_shuffle_epi8(_mm512_castsi512_si256(at), p->field_high),
                                p->byte_high),
        .fixed = _mm256_inserti128_si256(_mm256_setzero_si256(),
                                         _mm_loadu_si128((const void *)&shape->fixed), 1),
        .filled_low = shape->filled_low,
        .filled_high = shape->filled_high,
        .lead = shape->lead,
    };
}

/* Two permutations put every byte of the struct in place. More: the second 64 bytes. */
AVX512 static inline __attribute__((always_inline)) void
take_avx512(const struct prepared_avx512 *shape, __m512i bytes, const __m512i *more,
            uint64_t offset, struct spex_record *record)
{
    __m512i low, high = _mm512_castsi256_si512(shape->high);
    if (more) {
        low = _mm512_maskz_permutex2var_epi8(shape->filled_low, bytes, shape->low, *more);
        high = _mm512_permutex2var_epi8(bytes, high, *more);
    } else {
        low = _mm512_maskz_permutexvar_epi8(shape->filled_low, shape->low, bytes);
        high = _mm512_permutexvar_epi8(high, bytes);
    }
    _mm512_storeu_si512(record, low);
    record->offset = offset + shape->lead;
    _mm256_storeu_si256(
        (void *)((char *)record + 64),
        _mm256_mask_mov_epi8(shape->fixed, shape->filled_high, _mm512_castsi512_si256(high)));
}

/* What depends on the place alone, for a walk: itself, how far a header may lead, a random byte. */
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
 * All places of 64 bytes at once: where each leads as a header, then by doubling
 * where two, four, eight and sixteen steps lead, and a sum of what is on the way.
 * Every operation waits for the one before, so that of few records at a time is
 * done what can be done, in this order: KEEP stops the compiler from changing it.
 */
#define KEEP(vector) __asm__ volatile("" : "+v"(vector))
#define EACH _Pragma("GCC unroll 8") for (unsigned i = 0; i < lanes; i++)
AVX512 static inline __attribute__((always_inline)) void
walk_avx512(const uint8_t *const *p, unsigned lanes, struct walked *walked)
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

#define VARIANT(name) name##_avx512
#define TARGET AVX512
#define BYTES __m512i
#define LOAD(data) _mm512_loadu_si512(data)
#define CONSTANTS struct places_avx512
#define CONSTANTS_MAKE() places_avx512()
#define KEY(state, cell) key_avx512(state, cell)
#define MATCHES(pattern, bytes) matches_avx512(pattern, bytes)
#define PREPARED struct prepared_avx512
#define PREPARE(constants, shape) prepare_avx512(&(constants), shape)
#define TAKE(prepared, bytes, more, data, offset, record)                                          \
    take_avx512(&(prepared), bytes, more, offset, record)
#define WALK walk_avx512
#define WALK_WIDTH 2
#include "record/shape_loop.inc"

#define HAVE_X86 1
#endif

/* ---- AArch64 ---- */

#if defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>

static inline bool matches_neon(const struct pattern *pattern, const uint8_t *data)
{
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vld1q_u8(bit);
    uint8x16_t difference = vdupq_n_u8(0);
    for (unsigned i = 0; i < CELL; i += 16) {
        uint64_t places = pattern->compared >> i;
        uint8x16_t spread = vtstq_u8(
            vcombine_u8(vdup_n_u8((uint8_t)places), vdup_n_u8((uint8_t)(places >> 8))), bits);
        uint8x16_t other = veorq_u8(vld1q_u8(data + i), vld1q_u8(pattern->value + i));
        difference = vorrq_u8(difference, vandq_u8(other, spread));
    }
    return vmaxvq_u8(difference) == 0;
}

#define VARIANT(name) name##_neon
#define TARGET
#define BYTES const uint8_t *
#define LOAD(data) (data)
#define MATCHES(pattern, bytes) matches_neon(pattern, bytes)
#include "record/shape_loop.inc"
#define HAVE_NEON 1
#endif

/* ---- choice ---- */

bool reader_has_variant(enum reader_variant variant)
{
    switch (variant) {
    case READER_PORTABLE:
        return true;
#ifdef HAVE_X86
    case READER_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
               __builtin_cpu_supports("bmi2");
    case READER_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#endif
#ifdef HAVE_NEON
    case READER_NEON:
        return true;
#endif
    default:
        return false;
    }
}

enum reader_variant reader_best_variant(void)
{
    for (int variant = READER_VARIANTS - 1; variant > 0; variant--)
        if (reader_has_variant((enum reader_variant)variant))
            return (enum reader_variant)variant;
    return READER_PORTABLE;
}

/* What differs between variants; by enum reader_variant. */
/* clang-format off */
static const struct {
    size_t (*cells)(struct spex_record_reader *, struct spex_record *, size_t);
    size_t (*found)(struct spex_record_reader *, struct spex_record *, size_t);
    void (*find)(struct spex_record_reader *);
    unsigned (*cell_key)(const struct reader_state *, const uint8_t *);
    void (*walk)(const uint8_t *, struct walked *);
} variants[READER_VARIANTS] = {
#define FUNCTIONS(v) {records_##v, found_##v, find_##v, cell_key_##v, walk_one_##v}
    [READER_PORTABLE] = FUNCTIONS(portable),
#ifdef HAVE_X86
    [READER_AVX2] = FUNCTIONS(avx2),
    [READER_AVX512] = FUNCTIONS(avx512),
#endif
#ifdef HAVE_NEON
    [READER_NEON] = FUNCTIONS(neon),
#endif
};
/* clang-format on */

static unsigned cell_key(const struct reader_state *state, const struct shape *shape)
{
    return variants[state->variant].cell_key(state, shape->head.value);
}

/* As records of this shape are walked; NO_KEY if that does not come to their end. */
static unsigned stream_key(const struct reader_state *state, const struct shape *shape)
{
    uint8_t headers[4 * CELL] = {0};
    struct walked walked;
    unsigned key = 0;
    size_t at = 0;
    memcpy(headers, shape->head.value, CELL);
    if (shape->tail)
        memcpy(headers + CELL, state->tails[shape->tail].value, CELL);
    do {
        variants[state->variant].walk(headers + at, &walked);
        key = at ? keys_together(key, walked.key) : walked.key;
        at += walked.end;
    } while (!walked.closed && at < shape->fixed.size);
    return walked.closed && at == shape->fixed.size ? key : NO_KEY;
}

void shape_find(struct spex_record_reader *reader)
{
    variants[reader_state(reader)->variant].find(reader);
}

size_t shape_found(struct spex_record_reader *reader, struct spex_record *records, size_t count)
{
    return variants[reader_state(reader)->variant].found(reader, records, count);
}

size_t shape_records(struct spex_record_reader *reader, struct spex_record *records, size_t count)
{
    const struct reader_state *state = reader_state(reader);
    size_t position = reader->position, into = (position - state->anchor) % CELL;
    if (!state->shape_count || reader->size < MARGIN)
        return 0;
    /* The rest of the last record's cell, if it is padding. */
    if (into) {
        size_t next = position + CELL - into;
        for (size_t at = position; at < next; at++)
            if (at >= reader->size || reader->data[at])
                return 0;
        reader->position = next;
    }
    size_t n = variants[state->variant].cells(reader, records, count);
    if (n)
        reader->position = (size_t)(records[n - 1].offset - reader->base) + records[n - 1].size;
    else
        reader->position = position;
    return n;
}
