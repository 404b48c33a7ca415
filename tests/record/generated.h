/* Streams of the generator, for the feature sets of its tests. */
#ifndef TESTS_RECORD_GENERATED_H
#define TESTS_RECORD_GENERATED_H

#include "record/generator.h"

static const char *const feature_lists[] = {
    "neoverse-n1",
    "neoverse-v1",
    "neoverse-n2",
    "neoverse-v2",
    "neoverse-v3",
    "ampereone",
    "kunpeng-920",
    "max",
    "min",
    "v1p0",
    "v1p1",
    "v1p2",
    "v1p3",
    "v1p4",
    "v1p5",
    "max,no-ts",
    "max,maxsize=6",
    "max,countsize=2,align=3",
    "max,no-lds,no-fds,no-pbt",
    "max,no-gcs,no-mops,no-nv2,no-rme,no-mte2",
    "max,no-secure,no-sel2",
    "max,no-sve,no-sme,no-spe-sme",
    "v1p4,no-crr,no-gcs,no-spe-sme,no-ev-smcu",
    "max,no-sel2",
    "v1p1,no-spe-sme,no-ev-smcu",
    "max,no-ev-llc,no-ev-remote,no-ev-misaligned,no-ev-l2d",
    "max,no-fpf,no-eft,altclk=0",
    "max,maxsize=11,align=11",
};

struct stream {
    struct generate_options options;
    uint8_t *data;
    size_t size, count;
    struct spex_record *records;
};

static void make(struct stream *s, const char *features, unsigned layout, uint64_t seed,
                 size_t count, unsigned ops)
{
    struct spex_error error;
    struct spex_generator g;
    memset(s, 0, sizeof *s);
    if (arch_features_parse(features, &s->options.features, &error))
        fail_msg("%s: %s", features, error.text);
    s->options.layout = (enum spex_layout)layout;
    s->options.align = s->options.features.Align;
    s->options.seed = seed;
    s->options.ops = ops;
    s->count = count;
    s->data = malloc(count * SPEX_RECORD_MAX);
    s->records = malloc(count * sizeof *s->records);
    assert_int_equal(generator_init(&g, &s->options, &error), SPEX_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(g.offset, s->size);
        s->size += spex_generator_next(&g, s->data + s->size, &s->records[i]);
    }
}

static void drop(struct stream *s)
{
    free(s->data);
    free(s->records);
}

#endif
