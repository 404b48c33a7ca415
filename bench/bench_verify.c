/*
 * The checker and the generator, in records a second on one core. The ratio of the
 * checker is against reading the same memory once.
 */
#include "record/generator.h"
#include "record/verifier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RECORDS = 400000, ROUNDS = 5 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void measure(const char *name, const char *features, enum spex_layout layout)
{
    struct generate_options options = {.layout = layout, .seed = 1};
    struct spex_generator generator;
    struct spex_record record;
    struct spex_verifier verifier;
    struct spex_violation violation;
    struct spex_error error;
    size_t size = 0;
    uint8_t *data = malloc((size_t)RECORDS * 256 + SPEX_RECORD_MAX);
    if (!data || arch_features_parse(features, &options.features, &error))
        exit(1);
    options.align = options.features.Align;
    if (generator_init(&generator, &options, &error))
        exit(1);
    double start = seconds(), read = 1e9, verify = 1e9;
    for (unsigned i = 0; i < RECORDS; i++)
        size += spex_generator_next(&generator, data + size, &record);
    double generate = seconds() - start;
    for (unsigned round = 0; round < ROUNDS; round++) {
        volatile uint64_t sink = 0;
        uint64_t sum = 0;
        start = seconds();
        for (size_t i = 0; i + 8 <= size; i += 8) {
            uint64_t word;
            memcpy(&word, data + i, 8);
            sum += word;
        }
        sink = sum;
        (void)sink;
        double time = seconds() - start;
        read = time < read ? time : read;
        verifier_init(&verifier, &options.features);
        spex_verifier_feed(&verifier, data, size, 0, true);
        start = seconds();
        if (spex_verifier_next(&verifier, &violation) != SPEX_END)
            exit(1);
        time = seconds() - start;
        verify = time < verify ? time : verify;
    }
    printf("verify %s\t%.1f\tM records/s\t%.3f\treading the memory once\n", name,
           RECORDS / verify / 1e6, read / verify);
    printf("generate %s\t%.1f\tM records/s\t%.3f\tverify\n", name, RECORDS / generate / 1e6,
           verify / generate);
    free(data);
}

int main(void)
{
    measure("n1", "neoverse-n1", SPEX_LAYOUT_N1);
    measure("compact", "max", SPEX_LAYOUT_COMPACT);
    return 0;
}
