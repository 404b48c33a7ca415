/*
 * How fast records are decoded, all fields, against one plain pass over the same
 * memory in the same run. Streams:
 *   n1-uniform  64-byte Neoverse N1 records of one shape (loads)
 *   n1-mixed    64-byte records of all operation kinds
 *   hisi        HiSilicon layout, v1p0 features: few shapes, lengths differ
 *   variable    HiSilicon layout with every feature: extended headers,
 *               IMPLEMENTATION DEFINED packets, every kind of operation
 */
#include <spex/record.h>

#include "record/generator.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PIECE = 256 * 1024, ROUNDS = 5 };

static volatile uint64_t sink; /* keeps results alive */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Reads every word once; the compiler makes the best loop it can for this machine. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
static uint64_t
memory_pass(const uint64_t *words, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += words[i];
    return sum;
}

static size_t make_stream(const char *features, enum spex_layout layout, unsigned align,
                          unsigned ops, uint8_t *data, size_t size, size_t *records)
{
    struct generate_options options = {.seed = 1, .layout = layout, .align = align, .ops = ops};
    struct spex_generator generator;
    struct spex_error error;
    struct spex_record record;
    size_t at = 0;
    *records = 0;
    if (arch_features_parse(features, &options.features, &error) ||
        generator_init(&generator, &options, &error)) {
        fprintf(stderr, "bench-decode: %s\n", error.text);
        exit(1);
    }
    while (at + SPEX_RECORD_MAX <= size) {
        at += spex_generator_next(&generator, data + at, &record);
        ++*records;
    }
    return at;
}

/* 64-byte loads that differ in their payloads only. */
static size_t make_uniform(uint8_t *data, size_t size, size_t *records)
{
    size_t at = 0, length;
    struct spex_record r = {.present = SPEX_HAS_PC | SPEX_HAS_VA | SPEX_HAS_CONTEXT_EL2 |
                                       SPEX_HAS_TOTAL | SPEX_HAS_ISSUE | SPEX_HAS_TRANSLATION |
                                       SPEX_HAS_EVENTS | SPEX_HAS_DATA_SOURCE | SPEX_HAS_OP |
                                       SPEX_HAS_TIMESTAMP,
                            .op_class = SPEX_CLASS_LDST};
    for (*records = 0; at + 64 <= size; ++*records, at += length) {
        uint64_t n = *records * UINT64_C(0x9e3779b97f4a7c15);
        r.address[SPEX_ADDRESS_PC] = n >> 20 | UINT64_C(1) << 63;
        r.address[SPEX_ADDRESS_VA] = n >> 16;
        r.events = 0x12 | (n & 0xc);
        r.total = n >> 52;
        r.issue = n >> 54;
        r.context[1] = (uint32_t)n;
        r.timestamp = *records * 1000;
        spex_record_encode(&r, SPEX_LAYOUT_N1, 6, data + at, 64, &length);
    }
    return at;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/*
 * Seconds per byte: the median over pieces of about PIECE bytes, so that being
 * descheduled now and then does not count.
 */
struct pieces {
    double values[1 << 16];
    size_t count;
};

static void piece(struct pieces *p, double time, size_t bytes)
{
    if (p->count < sizeof p->values / sizeof p->values[0])
        p->values[p->count++] = time / (double)bytes;
}

static double median(struct pieces *p)
{
    qsort(p->values, p->count, sizeof p->values[0], by_value);
    return p->values[p->count / 2];
}

static uint64_t pass_all(const uint8_t *data, size_t size, struct pieces *pieces)
{
    uint64_t sum = 0;
    for (size_t at = 0; at + PIECE <= size; at += PIECE) {
        double start = seconds();
        sum += memory_pass((const uint64_t *)(const void *)(data + at), PIECE / 8);
        piece(pieces, seconds() - start, PIECE);
    }
    return sum;
}

static void decode_all(const uint8_t *data, size_t size, struct spex_record *batch, size_t want,
                       struct pieces *pieces)
{
    struct spex_reader *reader;
    struct spex_error error;
    enum spex_status status = SPEX_OK;
    size_t records = 0, from = 0;
    uint64_t check = 0;
    if (spex_reader_new(NULL, &reader, &error))
        exit(1);
    spex_reader_feed(reader, data, size, 0, true);
    double start = seconds();
    while (status == SPEX_OK) {
        size_t n = spex_reader_batch(reader, batch, SPEX_RECORD_BATCH, &status, NULL);
        records += n;
        check += n ? batch[n - 1].address[0] : 0;
        size_t position = (size_t)spex_reader_position(reader);
        if (position - from >= PIECE) {
            double now = seconds();
            piece(pieces, now - start, position - from);
            from = position;
            start = now;
        }
    }
    spex_reader_free(reader);
    if (status != SPEX_END || records != want || !check) {
        fprintf(stderr, "bench-decode: %zu of %zu records\n", records, want);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    size_t size = (argc > 1 ? strtoull(argv[1], NULL, 0) : 128) << 20;
    uint8_t *data = aligned_alloc(64, size);
    struct spex_record *batch = calloc(SPEX_RECORD_BATCH, sizeof *batch);
    static struct pieces pass, decode;
    static const char *const names[] = {"n1-uniform", "n1-mixed", "hisi", "variable"};
    if (!data || !batch)
        return 1;
    for (unsigned i = 0; i < 4; i++) {
        size_t records, used = 0;
        if (i == 0)
            used = make_uniform(data, size, &records);
        else if (i == 1)
            used = make_stream("neoverse-n1", SPEX_LAYOUT_N1, 6, 0, data, size, &records);
        else if (i == 2)
            used = make_stream("v1p0", SPEX_LAYOUT_HISI, 0, 0, data, size, &records);
        else
            used = make_stream("max", SPEX_LAYOUT_HISI, 0, 0, data, size, &records);
        pass.count = decode.count = 0;
        for (int round = 0; round < ROUNDS; round++) {
            sink += pass_all(data, used, &pass);
            decode_all(data, used, batch, records, &decode);
        }
        double per_pass = median(&pass), per_decode = median(&decode);
        printf("decode/%s\t%.0f\tMB/s\t%.3f\tmemory-pass\n", names[i], 1e-6 / per_decode,
               per_pass / per_decode);
        printf("decode/%s/records\t%.1f\tM/s\t\t\n", names[i],
               1e-6 / per_decode * (double)records / (double)used);
        printf("memory-pass/%s\t%.0f\tMB/s\t\t\n", names[i], 1e-6 / per_pass);
        fflush(stdout);
    }
    free(data);
    free(batch);
    return 0;
}
