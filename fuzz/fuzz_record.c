/* Records of any bytes: three readers agree, progress is certain, and the checker stands it. */
#include <spex/record.h>
#include <spex/verify.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct spex_record *a, const struct spex_record *b)
{
    if (a->present != b->present || a->offset != b->offset || a->size != b->size)
        return false;
    for (unsigned i = 0; i < 5; i++)
        if (a->present >> i & 1 && a->address[i] != b->address[i])
            return false;
    return (!(a->present & SPEX_HAS_EVENTS) || a->events == b->events) &&
           (!(a->present & SPEX_HAS_TIMESTAMP) || a->timestamp == b->timestamp) &&
           (!(a->present & SPEX_HAS_TOTAL) || a->total == b->total) &&
           (!(a->present & SPEX_HAS_ISSUE) || a->issue == b->issue) &&
           (!(a->present & SPEX_HAS_TRANSLATION) || a->translation == b->translation) &&
           (!(a->present & SPEX_HAS_DATA_SOURCE) || a->data_source == b->data_source) &&
           (!(a->present & SPEX_HAS_OP) ||
            (a->op_class == b->op_class && a->op_payload == b->op_payload));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { BATCH = 7 };
    struct spex_record_reader next, table, batch;
    struct spex_record records[BATCH];
    size_t have = 0, used = 0;
    enum spex_status batch_status = SPEX_OK;
    spex_record_reader_init(&next, data, size, 0);
    spex_record_reader_init(&table, data, size, 0);
    spex_record_reader_init(&batch, data, size, 0);
    for (size_t calls = 0;; calls++) {
        struct spex_record a, b;
        struct spex_damage da = {0}, db = {0}, dc = {0};
        enum spex_status status = spex_record_next(&next, &a, &da);
        if (status != spex_record_next_table(&table, &b, &db) || calls > 2 * size + 2)
            abort();
        if (used == have && batch_status == SPEX_OK) {
            have = spex_record_batch(&batch, records, BATCH, &batch_status, &dc);
            used = 0;
        }
        if (status == SPEX_OK) {
            if (!same(&a, &b) || used == have || !same(&a, &records[used++]))
                abort();
            continue;
        }
        if (used != have || batch_status != status)
            abort();
        if (status == SPEX_END)
            break;
        if (da.offset != db.offset || da.size != db.size)
            abort();
        batch_status = SPEX_OK;
    }
    return 0;
}
