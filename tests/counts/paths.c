/*
 * The hot paths, once each, for instruction counts: paths NAME RECORDS. Only what happens inside
 * path_run is counted (callgrind --toggle-collect=path_run).
 */
#include <spex/record.h>

#include "record/generator.h"
#include "record/verifier.h"
#include "spu/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

struct stream {
    uint8_t *data;
    size_t size, records;
    struct arch_features features;
};

static void make(struct stream *s, const char *features, enum spex_layout layout, unsigned align,
                 unsigned ops, size_t records)
{
    struct generate_options options = {.seed = 1, .layout = layout, .align = align, .ops = ops};
    struct spex_generator generator;
    struct spex_error error;
    struct spex_record record;
    if (arch_features_parse(features, &options.features, &error) ||
        generator_init(&generator, &options, &error)) {
        fprintf(stderr, "paths: %s\n", error.text);
        exit(1);
    }
    s->features = options.features;
    s->data = malloc(records * 256 + SPEX_RECORD_MAX);
    s->size = 0;
    for (s->records = 0; s->records < records; s->records++)
        s->size += spex_generator_next(&generator, s->data + s->size, &record);
}

/* Every 16th record of a stream of cells has its packets in another order. */
static void make_two_orders(struct stream *s, size_t records)
{
    enum { CELL = 64, EVERY = 16 };
    struct stream other;
    make(s, "neoverse-n1", SPEX_LAYOUT_N1, 6, 0, records);
    make(&other, "neoverse-n1", SPEX_LAYOUT_COMPACT, 6, SPEX_GENERATE_BRANCH, 1);
    if (s->size != records * CELL || other.size != CELL) {
        fprintf(stderr, "paths: a record is not one cell\n");
        exit(1);
    }
    for (size_t at = 0; at < s->size; at += EVERY * CELL)
        memcpy(s->data + at, other.data, CELL);
    free(other.data);
}

static uint64_t decode(const struct stream *s)
{
    static struct spex_record batch[64];
    struct spex_reader *reader;
    struct spex_error error;
    enum spex_status status = SPEX_OK;
    uint64_t sum = 0;
    if (spex_reader_new(NULL, &reader, &error))
        exit(1);
    spex_reader_feed(reader, s->data, s->size, 0, true);
    while (status == SPEX_OK) {
        size_t n = spex_reader_batch(reader, batch, 64, &status, NULL);
        for (size_t i = 0; i < n; i++)
            sum += batch[i].present;
    }
    spex_reader_free(reader);
    return sum;
}

/* A load in a loop, sampled at the smallest interval; the buffer never fills. */
static void forget(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    *(uint64_t *)user += store->count;
}

static uint64_t count_bytes;
static struct spex_spu *unit;

static void prepare_unit(void)
{
    static const struct {
        unsigned encoding;
        uint64_t value;
    } writes[] = {
        {SPEX_PMBPTR_EL1, UINT64_C(0x10000000)},
        {SPEX_PMBLIMITR_EL1, UINT64_C(0x7fff00000000) | 1},
        {SPEX_PMSIRR_EL1, 256},
        {SPEX_PMSICR_EL1, 0},
        {SPEX_PMSCR_EL1, 3},
    };
    struct spu_config config;
    struct spex_error error;
    spu_config_default(&config);
    arch_features_preset("neoverse-n1", &config.features);
    config.host = (struct spex_spu_host){.user = &count_bytes, .write = forget};
    if (spu_new(&config, &unit, &error)) {
        fprintf(stderr, "paths: %s\n", error.text);
        exit(1);
    }
    spex_spu_boot(unit);
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        spex_spu_write(unit, writes[i].encoding, 0, writes[i].value, NULL);
}

static uint64_t sample(size_t records)
{
    const struct spex_op op = {.kind = SPEX_OP_LDST, .flags = SPEX_OPF_LOAD, .access_size = 8};
    struct spex_outcome outcome = {
        .flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED, .total = 9, .issue = 2};
    outcome.access[0] =
        (struct spex_access){.va = 0x1000, .flags = SPEX_ACC_VA | SPEX_ACC_DONE | SPEX_ACC_SOURCE};
    while (records--) {
        spex_spu_pass(unit, spex_spu_until(unit));
        spex_spu_op(unit, 0x400000, &op, &outcome);
    }
    return count_bytes;
}

__attribute__((noinline)) uint64_t path_run(const char *path, const struct stream *s);
__attribute__((noinline)) uint64_t path_run(const char *path, const struct stream *s)
{
    if (!strncmp(path, "decode", 6))
        return decode(s);
    if (!strcmp(path, "model-full")) /* blocks */
        return run_model(s->records, false);
    if (!strcmp(path, "model-sampled"))
        return run_model(s->records, true);
    return sample(s->records);
}

/* Counts are of one compiler, its options and one kind of machine. */
static int print_toolchain(void)
{
#if defined(__clang__)
    const char *compiler = "clang", *simd = "?";
#else
    const char *compiler = "gcc", *simd = "portable";
#endif
#if defined(__x86_64__) && !defined(__clang__)
    simd = __builtin_cpu_supports("avx2") ? "x86-64 avx2" : "x86-64";
#elif defined(__aarch64__)
    simd = "aarch64";
#endif
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__)
    compiler = "debugging build of";
#endif
    printf("%s %s %s\n", compiler, __VERSION__, simd);
    return 0;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "";
    size_t records = argc > 2 ? strtoul(argv[2], NULL, 0) : 10000;
    struct stream s = {.records = records};
    if (!strcmp(path, "toolchain"))
        return print_toolchain();
    if (!strcmp(path, "decode-n1-loads"))
        make(&s, "neoverse-n1", SPEX_LAYOUT_N1, 6, SPEX_GENERATE_LOAD, records);
    else if (!strcmp(path, "decode-n1-mixed"))
        make(&s, "neoverse-n1", SPEX_LAYOUT_N1, 6, 0, records);
    else if (!strcmp(path, "decode-two-orders"))
        make_two_orders(&s, records);
    else if (!strcmp(path, "decode-hisi"))
        make(&s, "v1p0", SPEX_LAYOUT_HISI, 0, 0, records);
    else if (!strcmp(path, "decode-variable"))
        make(&s, "max", SPEX_LAYOUT_HISI, 0, 0, records);
    else if (!strcmp(path, "spu-sample"))
        prepare_unit();
    else if (!strncmp(path, "model-", 6))
        prepare_model();
    else
        return 2;
    uint64_t sum = path_run(path, &s);
    printf("%s %zu records, %llu\n", path, s.records, (unsigned long long)sum);
    free(s.data);
    if (unit)
        spex_spu_free(unit);
    return sum == 0;
}
