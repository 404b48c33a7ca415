/* Records of any bytes: every variant of the reader agrees with the table-driven one. */
#include <spex/record.h>
#include <spex/verify.h>

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
static void compare(int variant, bool no_shapes, const uint8_t *data, size_t size)
{
    enum { BATCH = 7 };
    struct spex_record_reader batch, table;
    struct spex_record records[BATCH], record;
    enum spex_status status = SPEX_OK;
    spex_record_reader_init(&batch, data, size, 0);
    spex_record_reader_init(&table, data, size, 0);
    if (variant < READER_VARIANTS)
        reader_state(&batch)->variant = (uint8_t)variant;
    if (no_shapes) /* as after many failures */
        reader_state(&batch)->failures = reader_state(&batch)->pause = 1 << 20;
    for (size_t calls = 0; status != SPEX_END; calls++) {
        struct spex_damage a = {0}, b = {0};
        size_t n = 0;
        require(calls <= 2 * size + 2);
        if (variant < READER_VARIANTS) {
            n = spex_record_batch(&batch, records, BATCH, &status, &a);
        } else { /* one at a time */
            status = spex_record_next(&batch, records, &a);
            n = status == SPEX_OK;
        }
        for (size_t i = 0; i < n; i++) {
            require(spex_record_next_table(&table, &record, &b) == SPEX_OK);
            require(!memcmp(&record, &records[i], sizeof record));
        }
        if (status != SPEX_OK) {
            require(spex_record_next_table(&table, &record, &b) == status);
            require(a.offset == b.offset && a.size == b.size && a.reason == b.reason);
        }
        require(batch.position == table.position);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int variant = 0; variant <= READER_VARIANTS; variant++)
        if (variant == READER_VARIANTS || reader_has_variant((enum reader_variant)variant))
            compare(variant, false, data, size);
    compare(reader_best_variant(), true, data, size);
    return 0;
}
