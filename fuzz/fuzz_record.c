/*
 * Records of any bytes: every variant of the reader, and teams of threads with small
 * chunks, agree with the table-driven one.
 */
#include <spex/record.h>
#include "record/verifier.h"

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
static void compare(int variant, bool streaming, const uint8_t *data, size_t size)
{
    enum { BATCH = 7 };
    struct spex_record_reader batch, table;
    struct spex_record records[BATCH], record;
    enum spex_status status = SPEX_OK;
    spex_record_reader_init(&batch, data, size, 0);
    spex_record_reader_init(&table, data, size, 0);
    if (variant < READER_VARIANTS)
        reader_state(&batch)->variant = (uint8_t)variant;
    if (streaming) /* as after many failures of cells */
        stream_start(&batch);
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

/* ---- teams: what a chunk found is compared when it is reduced ---- */

struct found {
    struct {
        struct spex_record record; /* of size 0: damage */
        struct spex_damage damage;
    } * items;
    size_t count, capacity;
};

static void found_begin(void *user, void *result)
{
    (void)user;
    ((struct found *)result)->count = 0;
}

static void found_map(void *user, void *result, const struct spex_record *records, size_t count,
                      const struct spex_damage *damage)
{
    struct found *found = result;
    (void)user;
    if (found->capacity < found->count + count + 1) {
        found->capacity = 2 * (found->count + count + 1);
        found->items = realloc(found->items, found->capacity * sizeof *found->items);
        require(found->items != NULL);
    }
    for (size_t i = 0; i < count; i++)
        found->items[found->count++].record = records[i];
    if (damage) {
        found->items[found->count].record.size = 0;
        found->items[found->count++].damage = *damage;
    }
}

static bool found_reduce(void *user, void *result)
{
    const struct found *found = result;
    for (size_t i = 0; i < found->count; i++) {
        struct spex_record record;
        struct spex_damage damage = {0};
        const struct spex_damage *other = &found->items[i].damage;
        enum spex_status status = spex_record_next_table(user, &record, &damage);
        if (found->items[i].record.size)
            require(status == SPEX_OK && !memcmp(&record, &found->items[i].record, sizeof record));
        else
            require(status == other->status && damage.offset == other->offset &&
                    damage.size == other->size && damage.reason == other->reason);
    }
    return true;
}

static void compare_team(unsigned threads, size_t chunk, const uint8_t *data, size_t size)
{
    static struct spex_record_team *teams[4]; /* kept: starting threads takes longer than reading */
    struct spex_record_reader reader, table;
    struct spex_record record;
    /* clang-format off */
    const struct spex_record_job job = {
        .user = &table, .chunk = chunk, .begin = found_begin, .map = found_map, .reduce = found_reduce};
    /* clang-format on */
    if (!teams[threads])
        teams[threads] = spex_record_team_new(threads, sizeof(struct found));
    require(teams[threads] != NULL);
    spex_record_reader_init(&reader, data, size, 0);
    spex_record_reader_init(&table, data, size, 0);
    require(spex_record_team_read(teams[threads], &reader, &job) && reader.position == size);
    require(spex_record_next_table(&table, &record, NULL) == SPEX_END);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int variant = 0; variant <= READER_VARIANTS; variant++)
        if (variant == READER_VARIANTS || reader_has_variant((enum reader_variant)variant))
            for (int streaming = 0; streaming < 2; streaming++)
                compare(variant, streaming, data, size);
    compare_team(1, size / 3 + 1, data, size);
    compare_team(2, 1 + size % 61, data, size);
    compare_team(3, 64 + size % 200, data, size);
    return 0;
}
