/*
 * What the unit costs an engine: operations per second through the block path at
 * three intervals (the engine's own work is a few additions per block of ten), the
 * cost of an operation that is not sampled, and records per second from outcome to
 * bytes in the buffer.
 */
#include "spu/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BASE = 0x100000, SIZE = 1 << 20, BLOCK = 10 };

static uint8_t memory[SIZE];
static volatile uint64_t sink;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void write_buffer(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    memcpy(memory + (store->address - BASE), store->bytes, store->count);
}

static bool counter(void *user, uint64_t *count)
{
    return ++*(uint64_t *)user, *count = *(uint64_t *)user, true;
}

static struct spex_spu *start(const char *features, uint64_t interval)
{
    static uint64_t time;
    struct spu_config config;
    struct spex_spu *unit;
    struct spex_error error;
    spu_config_default(&config);
    config.host = (struct spex_spu_host){.user = &time, .write = write_buffer, .counter = counter};
    if (arch_features_parse(features, &config.features, &error) ||
        spu_new(&config, &unit, &error)) {
        fprintf(stderr, "bench-spu: %s\n", error.text);
        exit(1);
    }
    spex_spu_boot(unit);
    spex_spu_set(unit, SPEX_PMBPTR_EL1, BASE);
    spex_spu_set(unit, SPEX_PMBLIMITR_EL1, (BASE + SIZE) | 1);
    spex_spu_set(unit, SPEX_PMSIRR_EL1, interval);
    spex_spu_set(unit, SPEX_PMSCR_EL1, 0x73);
    return unit;
}

static void service(struct spex_spu *unit)
{
    uint64_t sr = 0;
    spex_spu_get(unit, SPEX_PMBSR_EL1, &sr);
    if (sr & SPEX_FIELD_MASK(SPEX_PMBSR_EL1_S)) {
        spex_spu_set(unit, SPEX_PMBPTR_EL1, BASE);
        spex_spu_set(unit, SPEX_PMBSR_EL1, 0);
    }
}

static const struct spex_op load = {.kind = SPEX_OP_LDST, .flags = SPEX_OPF_LOAD};
/* clang-format off */
static const struct spex_outcome outcome = {
    .flags = SPEX_OUT_EXECUTED, .total = 12, .issue = 3,
    .access[0] = {.va = 0x1234, .pa = 0x5678, .pas = SPEX_NONSECURE, .events = 0x14,
                  .flags = SPEX_ACC_VA | SPEX_ACC_PA | SPEX_ACC_DONE | SPEX_ACC_SOURCE},
};
/* clang-format on */

/* count operations in blocks; unit NULL: the engine alone. */
static double blocks(struct spex_spu *unit, uint64_t count)
{
    double best = 1e9;
    for (unsigned round = 0; round < 3; round++) {
        uint64_t sum = 0;
        double before = seconds();
        for (uint64_t i = 0; i < count; i += BLOCK) {
            sum = sum * 3 + i;
            if (!unit)
                continue;
            if (__builtin_expect(spex_spu_until(unit) >= BLOCK, 1)) {
                spex_spu_pass(unit, BLOCK);
                continue;
            }
            for (unsigned n = 0; n < BLOCK; n++)
                if (spex_spu_op(unit, 4 * n, &load, &outcome))
                    service(unit);
        }
        double time = seconds() - before;
        sink = sum;
        best = time < best ? time : best;
    }
    return best;
}

/*
 * Best of many rounds of a few milliseconds: on a shared machine a longer one measures others.
 * set: every operation is sampled, PMSICR_EL1 is made 1 before each. Otherwise operations pass
 * up to the next that is sampled. Returns records per second.
 */
static double records(const char *features, bool set)
{
    enum { ROUNDS = 60, RECORDS = 50000 };
    struct spex_spu *unit = start(features, set ? 0 : 0x100);
    double best = 1e9;
    for (unsigned round = 0; round < ROUNDS; round++) {
        double before = seconds();
        for (uint64_t i = 0; i < RECORDS; i++) {
            if (set)
                spex_spu_set(unit, SPEX_PMSICR_EL1, 1);
            else
                spex_spu_pass(unit, spex_spu_until(unit));
            spex_spu_op(unit, 4 * i, &load, &outcome);
            if (i % 8192 == 8191)
                service(unit);
        }
        double time = seconds() - before;
        best = time < best ? time : best;
    }
    spex_spu_free(unit);
    return RECORDS / best;
}

int main(void)
{
    static const uint64_t intervals[] = {256, 4096, 1000000 & ~255};
    static const char *const names[] = {"256", "4096", "1000000"};
    const uint64_t count = 400000000;
    double alone = blocks(NULL, count);
    for (unsigned i = 0; i < 3; i++) {
        struct spex_spu *unit = start("neoverse-n1", intervals[i]);
        double time = blocks(unit, count);
        printf("spu-ops-%s\t%.0f\top/s\t%.2f\tthe engine alone\n", names[i], (double)count / time,
               alone / time);
        printf("spu-cost-%s\t%.3f\tns/op\t\t\n", names[i], (time - alone) / (double)count * 1e9);
        spex_spu_free(unit);
    }
    printf("spu-records-n1\t%.0f\trecord/s\t\t\n", records("neoverse-n1", false));
    printf("spu-records-max\t%.0f\trecord/s\t\t\n", records("max", false));
    printf("spu-records-set-n1\t%.0f\trecord/s\t\t\n", records("neoverse-n1", true));
    return 0;
}
