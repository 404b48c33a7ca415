/* Damage to a stream as transport and ring buffers cause it, and the records that survive. */
#include <spex/generate.h>

#include "base/rng.h"

#include <assert.h>
#include <string.h>

/* Removes [from, to) and drops or moves the records after it. */
static size_t cut(uint8_t *data, size_t *size, struct spex_record *records, size_t count,
                  size_t from, size_t to)
{
    size_t kept = 0;
    memmove(data + from, data + to, *size - to);
    *size -= to - from;
    for (size_t i = 0; i < count; i++) {
        struct spex_record r = records[i];
        if (r.offset >= to)
            r.offset -= to - from;
        else if (r.offset + r.size > from)
            continue;
        records[kept++] = r;
    }
    return kept;
}

static void reverse(void *items, size_t count, size_t size)
{
    uint8_t keep[sizeof(struct spex_record)], *low = items, *high = low + count * size;
    while (low + size < high) {
        high -= size;
        memcpy(keep, low, size);
        memcpy(low, high, size);
        memcpy(high, keep, size);
        low += size;
    }
}

/* items[at] becomes items[0]. */
static void turn(void *items, size_t count, size_t size, size_t at)
{
    reverse(items, at, size);
    reverse((uint8_t *)items + at * size, count - at, size);
    reverse(items, count, size);
}

/* Like reading a ring buffer from its write position, in the middle of records[first]. */
static size_t rotate(uint8_t *data, size_t size, struct spex_record *records, size_t count,
                     size_t first, size_t at)
{
    turn(data, size, 1, at);
    turn(records, count, sizeof *records, first);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct spex_record r = records[i];
        if (r.offset < at && r.offset + r.size > at)
            continue;
        r.offset = r.offset >= at ? r.offset - at : r.offset + size - at;
        records[kept++] = r;
    }
    return kept;
}

size_t spex_damage_apply(enum spex_damage_kind kind, uint64_t seed, uint8_t *data, size_t *size,
                         struct spex_record *records, size_t count)
{
    assert(data && size && (records || !count));
    struct rng rng = {seed ^ 0x64616d616765};
    size_t times = 1 + count / (kind == SPEX_DAMAGE_SPLICE ? 400 : 25);
    if (!count)
        return 0;
    if (kind == SPEX_DAMAGE_TRUNCATE) {
        const struct spex_record *r =
            &records[count - 1 - rng_below(&rng, count < 8 ? (uint32_t)count : 8)];
        return cut(data, size, records, count, r->offset + 1 + rng_below(&rng, r->size - 1u),
                   *size);
    }
    if (kind == SPEX_DAMAGE_SPLICE) {
        size_t i = rng_below(&rng, (uint32_t)count);
        size_t at = records[i].offset + 1 + rng_below(&rng, records[i].size - 1u);
        count = rotate(data, *size, records, count, i, at);
    }
    for (size_t n = 0; n < times && count; n++) {
        size_t i = rng_below(&rng, (uint32_t)count);
        const struct spex_record *r = &records[i];
        size_t at = r->offset + rng_below(&rng, r->size);
        if (kind == SPEX_DAMAGE_FLIP) {
            for (unsigned flips = 1 + rng_below(&rng, 3); flips; flips--) /* distinct bytes */
                data[r->offset + (at - r->offset + flips) % r->size] ^=
                    (uint8_t)(1u << rng_below(&rng, 8));
            memmove(&records[i], &records[i + 1], (count - i - 1) * sizeof *records);
            count--;
        } else {
            size_t most = kind == SPEX_DAMAGE_LOSE ? 64 : 2048;
            size_t lost = 1 + rng_below(&rng, (uint32_t)most);
            count = cut(data, size, records, count, at, lost < *size - at ? at + lost : *size);
        }
    }
    return count;
}
