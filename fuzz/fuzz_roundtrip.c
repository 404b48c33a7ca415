/* A generated record (seed and features from the input) survives encode, decode and the checker. */
#include "record/generator.h"
#include "record/reader.h"
#include <spex/record.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const features[] = {"neoverse-n1", "neoverse-v1", "v1p2",
                                           "v1p4",        "max",         "min"};
    struct generate_options options = {0};
    struct spex_generator generator;
    struct spex_error error;
    if (size < 10)
        return 0;
    memcpy(&options.seed, data, 8);
    if (arch_features_parse(features[data[8] % 6], &options.features, &error))
        abort();
    options.layout = data[9] % 3;
    options.align = options.layout == SPEX_LAYOUT_N1 ? 6 : 0;
    if (generator_init(&generator, &options, &error))
        return 0;
    for (int i = 0; i < 8; i++) {
        uint8_t bytes[SPEX_RECORD_MAX];
        struct spex_record meant, got;
        struct spex_reader reader;
        uint64_t offset = generator.offset;
        size_t length = spex_generator_next(&generator, bytes, &meant);
        reader_whole(&reader, bytes, length, offset);
        if (spex_reader_next(&reader, &got, NULL) != SPEX_OK || got.present != meant.present ||
            got.offset != meant.offset || got.op_class != meant.op_class ||
            (got.present & SPEX_HAS_EVENTS && got.events != meant.events) ||
            spex_reader_next(&reader, &got, NULL) != SPEX_END)
            abort();
    }
    return 0;
}
