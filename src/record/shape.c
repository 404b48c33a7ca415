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
#include "record/tree.h"
#include "wire/fast.h"

#include <string.h>

enum {
    MARGIN = CELL + 8, /* bytes that must be readable behind the start of a cell */
    REPEATS = 8,       /* so many of one shape, and the next is expected to be so too */
    GROUP = 8,         /* cells whose shapes are looked up before the first is read */
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

/* The field that a packet fills; NONE for those without one. */
static unsigned field_of(const struct spex_packet *packet)
{
    switch (packet->type) {
    case SPEX_PACKET_ADDRESS:
        return packet->index < 5 ? FIELD_ADDRESS + packet->index : NONE;
    case SPEX_PACKET_COUNTER:
        return packet->index < 3                         ? FIELD_COUNTER + packet->index
               : packet->index == SPEX_COUNTER_ALT_ISSUE ? FIELD_COUNTER + 3
                                                         : NONE;
    case SPEX_PACKET_CONTEXT:
        return FIELD_CONTEXT + packet->index;
    case SPEX_PACKET_EVENTS:
        return FIELD_EVENTS;
    case SPEX_PACKET_DATA_SOURCE:
        return FIELD_DATA_SOURCE;
    case SPEX_PACKET_OPERATION_TYPE:
        return FIELD_OP;
    case SPEX_PACKET_TIMESTAMP:
        return FIELD_TIMESTAMP;
    default:
        return NONE;
    }
}

/* Where each field is in struct spex_record. */
static const uint8_t place_of[FIELD_COUNT] = {
    0, 8, 16, 24, 32, AT(events), AT(timestamp), AT(context), AT(context) + 4, AT(total),
    AT(issue), AT(translation), AT(alt_issue), AT(data_source), AT(op_payload)};

static void add_packet(struct shape *shape, const struct spex_packet *packet, size_t at)
{
    unsigned field = field_of(packet);
    shape->fixed.present |= (uint16_t)slot_of(packet->type, packet->index);
    if (field == NONE)
        return;
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

static unsigned key(const struct reader_state *state, const uint8_t *cell);

/* Enters a shape under its key: in one of two neighbouring places. */
static void enter_shape(struct reader_state *state, unsigned number)
{
    unsigned at = key(state, shapes_of(state)[number].value);
    if (state->by_key[at] != NO_SHAPE && state->by_key[at ^ 1] == NO_SHAPE)
        at ^= 1;
    state->by_key[at] = (uint16_t)number;
}

/* The newest shape may change which places are common to all and tell some apart. */
static void index_shape(struct reader_state *state)
{
    unsigned number = state->shape_count - 1u;
    const struct shape *first = &shapes_of(state)[0], *shape = &shapes_of(state)[number];
    if (number == 0) {
        state->common = shape->compared;
        state->differ = 0;
        state->key_places = ~UINT64_C(0); /* not yet */
    }
    for (unsigned i = 0; i < CELL; i++)
        if (first->value[i] != shape->value[i])
            state->differ |= BIT(i);
    state->common &= shape->compared;
    if (state->key_places == (state->common & state->differ)) {
        enter_shape(state, number);
        return;
    }
    state->key_places = state->common & state->differ;
    for (unsigned i = 0; i < CELL; i += 8)
        state->key_words[i / 8] = spread(state->key_places >> i & 255);
    for (unsigned i = 0; i < 1 << KEY_BITS; i++)
        state->by_key[i] = NO_SHAPE;
    for (unsigned i = 0; i <= number; i++)
        enter_shape(state, i);
}

/* Not before the second one of about this shape: many come only once. */
static bool comes_again(struct reader_state *state, const struct spex_record *record)
{
    unsigned about = (record->present * 0x9e3779b1u + record->size * 0x85ebca6bu +
                      (record->op_class | record->events_size << 2 |
                       record->data_source_size << 6) * 0xc2b2ae35u) >> 23;
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
    size_t end = lead + record->size;
    struct shape shape = {.fixed.size = record->size, .lead = (uint8_t)lead};
    if (state->shape_count == SHAPES)
        return false;
    for (size_t at = 0; at < size;) {
        struct spex_packet packet = {.header_size = 1};
        if (at >= lead && at < end)
            wire_decode(cell + at, end - at, &packet);
        else if (cell[at])
            return false; /* another record in the same cell */
        for (unsigned i = 0; i < packet.header_size; i++) {
            shape.value[at + i] = cell[at + i];
            shape.compared |= BIT(at + i);
        }
        add_packet(&shape, &packet, at + packet.header_size);
        at += spex_packet_length(&packet);
    }
    shape.partial = (shape.fixed.present & SLOTS_WHOLE) != SLOTS_WHOLE;
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
        if (other->compared == shape->compared && !memcmp(other->value, shape->value, CELL)) {
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
    if (record->size <= CELL && comes_again(state, record) &&
        add_shape(state, data, record->size, 0, record) && !tree_insert(state))
        state->shape_count--;
}

/* An incomplete record stands if its Events excuse it; all of its shape have Events. */
static inline bool excused(const struct shape *shape, const uint8_t *data)
{
    return !shape->partial || events_excuse(data[shape->at[FIELD_EVENTS]]);
}

/* ---- records of a stream ---- */

enum {
    LANE_MARGIN = 256, /* bytes that must be readable behind the last lane */
    LANE_LEAST = 64,   /* bytes of a lane near the end of the data */
    LANE_SEARCH = 128, /* bytes in which its first record must begin */
    DEPTH = 11,        /* steps down the tree that are made in any case */
};

/* Where the packets from p on close a record; 0 if not soon. */
static size_t closing_end(const uint8_t *p)
{
    for (size_t at = 0; at < LANE_MARGIN - 16;) {
        unsigned header = p[at];
        if (header == 0x01)
            return at + 1;
        if (header == 0x71)
            return at + 9;
        if ((header & 0xe0) == 0x20)
            header = p[++at];
        at += 1 + (header < 0x40 ? 0 : 1u << (header >> 4 & 3));
    }
    return 0;
}

/* ---- portable ---- */

static inline bool matches_portable(const struct shape *shape, const uint8_t *data)
{
    uint64_t difference = 0;
    for (unsigned i = 0; i < CELL; i += 8)
        difference |= (le64(data + i) ^ le64(shape->value + i)) & spread(shape->compared >> i & 255);
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

#define VARIANT(name) name##_portable
#define TARGET
#define BYTES const uint8_t *
#define LOAD(data) (data)
#define CONSTANTS int
#define CONSTANTS_MAKE() 0
#define KEY(state, cell) key_portable(state, cell)
#define MATCHES(shape, bytes) matches_portable(shape, bytes)
#define TAKE(constants, shape, bytes, data, offset, record) take_portable(shape, data, offset, record)
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

AVX2 static inline bool matches_avx2(const struct shape *shape, struct bytes_avx2 bytes)
{
    struct bytes_avx2 value = load_avx2(shape->value);
    __m256i low = _mm256_xor_si256(bytes.low, value.low);
    __m256i high = _mm256_xor_si256(bytes.high, value.high);
    low = _mm256_and_si256(low, spread_avx2((uint32_t)shape->compared));
    high = _mm256_and_si256(high, spread_avx2((uint32_t)(shape->compared >> 32)));
    low = _mm256_or_si256(low, high);
    return _mm256_testz_si256(low, low);
}

#define VARIANT(name) name##_avx2
#define TARGET AVX2
#define BYTES struct bytes_avx2
#define LOAD(data) load_avx2(data)
#define CONSTANTS int
#define CONSTANTS_MAKE() 0
#define KEY(state, cell) key_portable(state, cell)
#define MATCHES(shape, bytes) matches_avx2(shape, bytes)
#define TAKE(constants, shape, bytes, data, offset, record) take_portable(shape, data, offset, record)
#include "record/shape_loop.inc"

AVX512 static inline bool matches_avx512(const struct shape *shape, __m512i bytes)
{
    return !_mm512_mask_cmpneq_epi8_mask(shape->compared, bytes,
                                         _mm512_loadu_si512(shape->value));
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

/* Two permutations put every byte of the struct in place. */
AVX512 static inline __attribute__((always_inline)) void
take_avx512(const struct places_avx512 *p, const struct shape *shape, __m512i bytes,
            uint64_t offset, struct spex_record *record)
{
    __m512i at = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)shape->at));
    __m512i low = _mm512_add_epi8(_mm512_shuffle_epi8(at, p->field_low), p->byte_low);
    __m256i high = _mm256_add_epi8(
        _mm256_shuffle_epi8(_mm512_castsi512_si256(at), p->field_high), p->byte_high);
    low = _mm512_maskz_permutexvar_epi8(shape->filled_low, low, bytes);
    __m256i fixed = _mm256_inserti128_si256(_mm256_setzero_si256(),
                                            _mm_loadu_si128((const void *)&shape->fixed), 1);
    high = _mm256_mask_mov_epi8(
        fixed, shape->filled_high,
        _mm512_castsi512_si256(_mm512_permutexvar_epi8(_mm512_castsi256_si512(high), bytes)));
    _mm512_storeu_si512(record, low);
    record->offset = offset + shape->lead;
    _mm256_storeu_si256((void *)((char *)record + 64), high);
}

#define VARIANT(name) name##_avx512
#define TARGET AVX512
#define BYTES __m512i
#define LOAD(data) _mm512_loadu_si512(data)
#define CONSTANTS struct places_avx512
#define CONSTANTS_MAKE() places_avx512()
#define KEY(state, cell) key_avx512(state, cell)
#define MATCHES(shape, bytes) matches_avx512(shape, bytes)
#define TAKE(constants, shape, bytes, data, offset, record)                                        \
    take_avx512(&(constants), shape, bytes, offset, record)
#include "record/shape_loop.inc"

#define HAVE_X86 1
#endif

/* ---- AArch64 ---- */

#if defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>

static inline bool matches_neon(const struct shape *shape, const uint8_t *data)
{
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vld1q_u8(bit);
    uint8x16_t difference = vdupq_n_u8(0);
    for (unsigned i = 0; i < CELL; i += 16) {
        uint64_t places = shape->compared >> i;
        uint8x16_t spread = vtstq_u8(
            vcombine_u8(vdup_n_u8((uint8_t)places), vdup_n_u8((uint8_t)(places >> 8))), bits);
        uint8x16_t other = veorq_u8(vld1q_u8(data + i), vld1q_u8(shape->value + i));
        difference = vorrq_u8(difference, vandq_u8(other, spread));
    }
    return vmaxvq_u8(difference) == 0;
}

#define VARIANT(name) name##_neon
#define TARGET
#define BYTES const uint8_t *
#define LOAD(data) (data)
#define CONSTANTS int
#define CONSTANTS_MAKE() 0
#define KEY(state, cell) key_portable(state, cell)
#define MATCHES(shape, bytes) matches_neon(shape, bytes)
#define TAKE(constants, shape, bytes, data, offset, record) take_portable(shape, data, offset, record)
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

static unsigned key(const struct reader_state *state, const uint8_t *cell)
{
#ifdef HAVE_X86
    if (state->variant == READER_AVX512)
        return key_avx512(state, cell);
#endif
    return key_portable(state, cell);
}

/* What differs between variants; by enum reader_variant. */
static const struct {
    size_t (*cells)(struct spex_record_reader *, struct spex_record *, size_t);
    size_t (*found)(struct spex_record_reader *, struct spex_record *, size_t);
    void (*find)(struct spex_record_reader *);
} variants[READER_VARIANTS] = {
    [READER_PORTABLE] = {records_portable, found_portable, find_portable},
#ifdef HAVE_X86
    [READER_AVX2] = {records_avx2, found_avx2, find_avx2},
    [READER_AVX512] = {records_avx512, found_avx512, find_avx512},
#endif
#ifdef HAVE_NEON
    [READER_NEON] = {records_neon, found_neon, find_neon},
#endif
};

size_t stream_records(struct spex_record_reader *reader, struct spex_record *records, size_t count)
{
    enum { IDLE_LEAST = 16, IDLE_MOST = 4096 };
    struct reader_state *state = reader_state(reader);
    size_t n = 0;
    while (n < count) {
        if (state->taken == state->found) {
            if (state->idle_left) {
                state->idle_left--;
                break;
            }
            state->found = state->taken = 0;
            if (reader->position >= reader->size ||
                reader->size - reader->position <= LANE_MARGIN + CELL)
                break;
            if (state->shape_count)
                variants[state->variant].find(reader);
            unsigned unknown = 0, apart = CELL;
            for (unsigned i = 0; i < state->found; i++)
                unknown += state->queue[i].shape == NO_SHAPE;
            for (unsigned i = 1; i < state->found; i++)
                apart |= (unsigned)state->queue[i].at - state->queue[i - 1].at;
            if (2 * unknown >= state->found) { /* the tree knows little of this */
                state->idle = state->idle < IDLE_MOST ? 2 * state->idle + IDLE_LEAST : IDLE_MOST;
                state->idle_left = state->idle;
                state->found = 0;
                break;
            }
            state->idle = 0;
            if (apart == CELL && state->found > LANES) { /* these are cells */
                shape_start(reader);
                break;
            }
        }
        size_t taken = variants[state->variant].found(reader, records + n, count - n);
        n += taken;
        if (n < count && state->taken < state->found) {
            /* One that is not known, or odd: the general reader is next, which comes after 0. */
            state->taken += n == 0;
            break;
        }
    }
    return n;
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
