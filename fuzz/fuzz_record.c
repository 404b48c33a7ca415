/* Records of any bytes: every variant of the reader agrees with the oracle. */
#include <spex/record.h>
#include "record/verifier.h"

#include "record/oracle.h"
#include "record/reader.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* Same statuses, records, damage and positions; progress is certain. */
static void compare(const struct fast_variant *variant, bool streaming, const uint8_t *data,
                    size_t size)
{
    enum { BATCH = 7 };
    struct spex_reader batch;
    struct oracle oracle = oracle_start(data, size, 0);
    struct spex_record records[BATCH], record;
    enum spex_status status = SPEX_OK;
    static struct spex_shapes shapes;
    reader_whole(&batch, data, size, 0);
    if (variant) {
        shapes_init(&shapes, variant);
        if (streaming) /* as after many failures of cells */
            shapes_restart(&shapes, true);
        batch.shapes = &shapes;
    }
    for (size_t calls = 0; status != SPEX_END; calls++) {
        struct spex_damage a = {0}, b = {0};
        size_t n = 0;
        require(calls <= 2 * size + 2);
        if (variant) {
            n = spex_reader_batch(&batch, records, BATCH, &status, &a);
        } else { /* one at a time */
            status = spex_reader_next(&batch, records, &a);
            n = status == SPEX_OK;
        }
        for (size_t i = 0; i < n; i++) {
            require(oracle_next(&oracle, &record, &b) == SPEX_OK);
            require(!memcmp(&record, &records[i], sizeof record));
        }
        if (status != SPEX_OK) {
            require(oracle_next(&oracle, &record, &b) == status);
            require(a.offset == b.offset && a.size == b.size);
        }
        require(batch.position == oracle.position);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fast_variant *variant;
    compare(NULL, false, data, size);
    for (size_t i = 0; (variant = fast_variant(i)); i++)
        for (int streaming = 0; streaming < 2; streaming++)
            compare(variant, streaming, data, size);
    return 0;
}
