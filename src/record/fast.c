/*
 * The fast path of the record reader. Real streams use few record shapes: which
 * packets in which places. A shape is learnt once; a record of that shape is
 * recognized by one masked compare, and its fields are taken from fixed places.
 *
 * Which shape to compare with is looked up by the bytes at a few places that are
 * headers or padding in all known shapes and differ between them.
 *
 * The struct shape and the bytes it was learnt from fix every packet's place, so
 * what a match yields is what the general decoder would yield.
 */
#include "record/reader.h"
#include "record/slots.h"
#include "wire/fast.h"

#include <string.h>

_Static_assert(sizeof(struct spex_record) == 96 && offsetof(struct spex_record, offset) == 56,
               "two stores of 64 and 32 bytes fill a record");

/* ---- learning ---- */

/* Size bytes of payload at `at` go to the field at `field` in the struct. */
static void take(struct shape *shape, size_t field, size_t at, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        shape->source[field + i] = (uint8_t)(at + i);
        shape->filled[(field + i) / 64] |= BIT((field + i) % 64);
    }
}

static uint64_t low_bytes(unsigned size)
{
    return size == 8 ? ~UINT64_C(0) : BIT(8 * size) - 1;
}

#define AT(member) offsetof(struct spex_record, member)

static void add_packet(struct shape *shape, const struct spex_packet *packet, size_t at)
{
    struct spex_record *fixed = &shape->fixed;
    unsigned index = packet->index;
    uint32_t slot = slot_of(packet->type, index);
    fixed->present |= (uint16_t)slot;
    if (slot & SPEX_HAS_OTHER)
        return;
    switch (packet->type) {
    case SPEX_PACKET_ADDRESS:
        shape->address_at[index] = (uint8_t)at;
        shape->address_mask[index] = ~UINT64_C(0);
        take(shape, AT(address) + 8 * index, at, 8);
        break;
    case SPEX_PACKET_COUNTER: {
        unsigned field = index == SPEX_COUNTER_ALT_ISSUE ? 3 : index;
        shape->counter_at[field] = (uint8_t)at;
        shape->counter_mask[field] = 0xffff;
        take(shape, AT(total) + 2 * field, at, 2);
        break;
    }
    case SPEX_PACKET_CONTEXT:
        shape->context_at[index] = (uint8_t)at;
        shape->context_mask[index] = UINT32_MAX;
        take(shape, AT(context) + 4 * index, at, 4);
        break;
    case SPEX_PACKET_EVENTS:
        shape->events_at = (uint8_t)at;
        shape->events_mask = low_bytes(packet->size);
        fixed->events_size = packet->size;
        take(shape, AT(events), at, packet->size);
        break;
    case SPEX_PACKET_DATA_SOURCE:
        shape->data_source_at = (uint8_t)at;
        shape->data_source_mask = (uint16_t)low_bytes(packet->size);
        fixed->data_source_size = packet->size;
        take(shape, AT(data_source), at, packet->size);
        break;
    case SPEX_PACKET_OPERATION_TYPE:
        shape->op_at = (uint8_t)at;
        fixed->op_class = packet->index;
        take(shape, AT(op_payload), at, 1);
        break;
    case SPEX_PACKET_TIMESTAMP:
        shape->timestamp_at = (uint8_t)at;
        shape->timestamp_mask = ~UINT64_C(0);
        take(shape, AT(timestamp), at, 8);
        break;
    default:
        break;
    }
}

static bool same_shape(const struct shape *a, const struct shape *b)
{
    return a->fixed.size == b->fixed.size && !memcmp(a->mask, b->mask, SHAPE_BYTES) &&
           !memcmp(a->value, b->value, SHAPE_BYTES);
}

static uint64_t key_of(const struct reader_state *state, const uint8_t *data)
{
    uint64_t key = 0;
    for (unsigned i = 0; i < state->key_count; i++)
        key |= (uint64_t)data[state->key_at[i]] << (8 * i);
    return key;
}

static unsigned hash(const struct reader_state *state, uint64_t key)
{
    return (unsigned)(key * state->key_multiplier >> 56);
}

/* Chooses places that tell the shapes apart, and a multiplier that keeps their keys apart. */
static void index_shapes(struct reader_state *state)
{
    unsigned count = state->shape_count;
    uint64_t keys[SHAPES] = {0};
    uint64_t common = ~UINT64_C(0);
    state->key_count = 0;
    state->key_mask = 0;
    state->common_size = state->shapes[0].fixed.size;
    for (unsigned i = 0; i < count; i++) {
        common &= state->shapes[i].compared;
        if (state->shapes[i].fixed.size != state->common_size)
            state->common_size = 0;
    }
    for (unsigned at = 0; at < SHAPE_BYTES && state->key_count < SHAPE_KEYS; at++) {
        bool helps = false;
        if (!(common >> at & 1))
            continue;
        for (unsigned i = 0; i < count; i++)
            for (unsigned j = 0; j < i; j++)
                helps |= keys[i] == keys[j] &&
                         state->shapes[i].value[at] != state->shapes[j].value[at];
        if (!helps)
            continue;
        for (unsigned i = 0; i < count; i++)
            keys[i] |= (uint64_t)state->shapes[i].value[at] << (8 * state->key_count);
        state->key_at[state->key_count++] = (uint8_t)at;
        state->key_mask |= BIT(at);
    }
    /* Shapes with equal keys form a chain; other collisions cost a chain too, if they stay. */
    state->key_multiplier = UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned attempt = 0; attempt < 64; attempt++) {
        bool collision = false;
        memset(state->by_key, NO_SHAPE, sizeof state->by_key);
        for (unsigned i = 0; i < count; i++) {
            unsigned h = hash(state, keys[i]);
            collision |= state->by_key[h] != NO_SHAPE && keys[state->by_key[h]] != keys[i];
            state->shapes[i].next = state->by_key[h];
            state->by_key[h] = (uint8_t)i;
        }
        if (!collision)
            break;
        state->key_multiplier = state->key_multiplier * UINT64_C(6364136223846793005) | 1;
    }
}

void fast_learn(struct reader_state *state, const uint8_t *data, size_t size, size_t available)
{
    if (state->shape_count == SHAPES || size > SHAPE_BYTES || available < SHAPE_BYTES)
        return;
    struct shape *shape = &state->shapes[state->shape_count];
    memset(shape, 0, sizeof *shape);
    shape->fixed.size = (uint16_t)size;
    for (size_t at = 0; at < size;) {
        struct spex_packet packet;
        if (!wire_decode(data + at, size - at, &packet))
            return;
        for (unsigned i = 0; i < packet.header_size; i++) {
            shape->value[at + i] = data[at + i];
            shape->mask[at + i] = 0xff;
            shape->compared |= BIT(at + i);
        }
        add_packet(shape, &packet, at + packet.header_size);
        at += spex_packet_length(&packet);
    }
    for (unsigned i = 0; i < state->shape_count; i++)
        if (same_shape(shape, &state->shapes[i]))
            return;
    state->shape_count++;
    index_shapes(state);
}

/* ---- portable ---- */

enum { MARGIN = SHAPE_BYTES + 8 }; /* bytes that must be readable behind a record's start */

static inline bool matches_portable(const struct shape *shape, const uint8_t *data)
{
    uint64_t difference = 0;
    for (unsigned i = 0; i < SHAPE_BYTES; i += 8) {
        uint64_t word, value, mask;
        memcpy(&word, data + i, 8);
        memcpy(&value, shape->value + i, 8);
        memcpy(&mask, shape->mask + i, 8);
        difference |= (word ^ value) & mask;
    }
    return difference == 0;
}

static inline void take_portable(const struct shape *shape, const uint8_t *data, uint64_t offset,
                                 struct spex_record *record)
{
    for (unsigned i = 0; i < 5; i++)
        record->address[i] = le64(data + shape->address_at[i]) & shape->address_mask[i];
    record->events = le64(data + shape->events_at) & shape->events_mask;
    record->timestamp = le64(data + shape->timestamp_at) & shape->timestamp_mask;
    record->offset = offset;
    for (unsigned i = 0; i < 2; i++)
        record->context[i] = le32(data + shape->context_at[i]) & shape->context_mask[i];
    record->total = le16(data + shape->counter_at[0]) & shape->counter_mask[0];
    record->issue = le16(data + shape->counter_at[1]) & shape->counter_mask[1];
    record->translation = le16(data + shape->counter_at[2]) & shape->counter_mask[2];
    record->alt_issue = le16(data + shape->counter_at[3]) & shape->counter_mask[3];
    record->data_source = le16(data + shape->data_source_at) & shape->data_source_mask;
    record->size = shape->fixed.size;
    record->present = shape->fixed.present;
    record->op_class = shape->fixed.op_class;
    record->op_payload = data[shape->op_at];
    record->events_size = shape->fixed.events_size;
    record->data_source_size = shape->fixed.data_source_size;
}

/* First byte that is not padding. */
static inline size_t skip_padding(const uint8_t *data, size_t position, size_t size)
{
    while (position < size && data[position] == 0)
        position++;
    return position;
}

static size_t records_portable(struct spex_record_reader *reader, struct spex_record *records,
                               size_t count)
{
    struct reader_state *state = reader_state(reader);
    const uint8_t *data = reader->data;
    size_t position = reader->position, n = 0;
    size_t last = reader->size - MARGIN;
    while (n < count) {
        position = skip_padding(data, position, reader->size);
        if (position > last)
            break;
        unsigned i = state->by_key[hash(state, key_of(state, data + position))];
        while (i != NO_SHAPE && !matches_portable(&state->shapes[i], data + position))
            i = state->shapes[i].next;
        if (i == NO_SHAPE)
            break;
        const struct shape *shape = &state->shapes[i];
        take_portable(shape, data + position, reader->base + position, &records[n++]);
        position += shape->fixed.size;
    }
    reader->position = position;
    return n;
}

/* ---- x86-64 ---- */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,bmi,bmi2"

__attribute__((target("avx2,bmi,bmi2"))) static size_t
records_avx2(struct spex_record_reader *reader, struct spex_record *records, size_t count)
{
    struct reader_state *state = reader_state(reader);
    const uint8_t *data = reader->data;
    size_t position = reader->position, n = 0;
    size_t last = reader->size - MARGIN;
    while (n < count) {
        position = skip_padding(data, position, reader->size);
        if (position > last)
            break;
        const uint8_t *at = data + position;
        __m256i low = _mm256_loadu_si256((const void *)at);
        __m256i high = _mm256_loadu_si256((const void *)(at + 32));
        unsigned i = state->by_key[hash(state, key_of(state, at))];
        for (; i != NO_SHAPE; i = state->shapes[i].next) {
            const struct shape *s = &state->shapes[i];
            __m256i a = _mm256_xor_si256(low, _mm256_loadu_si256((const void *)s->value));
            __m256i b = _mm256_xor_si256(high, _mm256_loadu_si256((const void *)(s->value + 32)));
            a = _mm256_and_si256(a, _mm256_loadu_si256((const void *)s->mask));
            b = _mm256_and_si256(b, _mm256_loadu_si256((const void *)(s->mask + 32)));
            a = _mm256_or_si256(a, b);
            if (_mm256_testz_si256(a, a))
                break;
        }
        if (i == NO_SHAPE)
            break;
        const struct shape *shape = &state->shapes[i];
        take_portable(shape, at, reader->base + position, &records[n++]);
        position += shape->fixed.size;
    }
    reader->position = position;
    return n;
}

/* One permutation puts 64 bytes of the struct in place, a second one the rest. */
__attribute__((target(AVX512))) static size_t
records_avx512(struct spex_record_reader *reader, struct spex_record *records, size_t count)
{
    const struct reader_state *state = reader_state(reader);
    const uint8_t *data = reader->data;
    size_t position = reader->position, n = 0;
    size_t last = reader->size - MARGIN;
    uint64_t multiplier = state->key_multiplier;
    __mmask64 key_mask = _cvtu64_mask64(state->key_mask);
    size_t common = state->common_size;
    bool single = state->shape_count == 1;
    while (n < count) {
        if (data[position] == 0)
            position = skip_padding(data, position, reader->size);
        if (position > last)
            break;
        _mm_prefetch((const char *)data + position + 2048, _MM_HINT_T0);
        __m512i bytes = _mm512_loadu_si512(data + position);
        unsigned i = 0;
        if (!single) {
            __m128i key = _mm512_castsi512_si128(_mm512_maskz_compress_epi8(key_mask, bytes));
            i = state->by_key[(uint64_t)_mm_cvtsi128_si64(key) * multiplier >> 56];
        }
        for (; i != NO_SHAPE; i = state->shapes[i].next) {
            __m512i value = _mm512_loadu_si512(state->shapes[i].value);
            if (!_mm512_mask_cmpneq_epi8_mask(state->shapes[i].compared, bytes, value))
                break;
        }
        if (i == NO_SHAPE)
            break;
        const struct shape *shape = &state->shapes[i];
        struct spex_record *record = &records[n++];
        __m512i offset = _mm512_maskz_set1_epi64(0x80, (long long)(reader->base + position));
        __m512i low = _mm512_maskz_permutexvar_epi8(shape->filled[0],
                                                    _mm512_loadu_si512(shape->source), bytes);
        __m256i rest = _mm512_castsi512_si256(_mm512_permutexvar_epi8(
            _mm512_castsi256_si512(_mm256_loadu_si256((const void *)(shape->source + 64))), bytes));
        __m256i fixed = _mm256_loadu_si256((const void *)((const char *)&shape->fixed + 64));
        rest = _mm256_mask_mov_epi8(fixed, (__mmask32)shape->filled[1], rest);
        _mm512_storeu_si512(record, _mm512_or_si512(low, offset));
        _mm256_storeu_si256((void *)((char *)record + 64), rest);
        /* A guess by the branch predictor, so that the next record need not wait for this one. */
        if (__builtin_expect(shape->fixed.size == common, 1)) {
            position += common;
        } else {
            position += shape->fixed.size;
            __asm__ volatile("" : "+r"(position));
        }
    }
    reader->position = position;
    return n;
}

bool reader_has_variant(enum reader_variant variant)
{
    switch (variant) {
    case READER_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
               __builtin_cpu_supports("bmi2");
    case READER_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    default:
        return true;
    }
}
#else
bool reader_has_variant(enum reader_variant variant)
{
    return variant == READER_PORTABLE;
}
#endif

enum reader_variant reader_best_variant(void)
{
    return reader_has_variant(READER_AVX512) ? READER_AVX512
           : reader_has_variant(READER_AVX2) ? READER_AVX2
                                             : READER_PORTABLE;
}

size_t fast_records(struct spex_record_reader *reader, struct spex_record *records, size_t count)
{
    struct reader_state *state = reader_state(reader);
    if (!state->shape_count || reader->size < MARGIN || reader->position > reader->size - MARGIN)
        return 0;
    switch (state->variant) {
#if defined(__x86_64__) && defined(__GNUC__)
    case READER_AVX512:
        return records_avx512(reader, records, count);
    case READER_AVX2:
        return records_avx2(reader, records, count);
#endif
    default:
        return records_portable(reader, records, count);
    }
}
