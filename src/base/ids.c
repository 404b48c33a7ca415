#include "base/ids.h"

#include "base/hash.h"
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static size_t slot_of(const struct ids *ids, const uint64_t key[IDS_WORDS])
{
    uint64_t hash = hash_seed();
    for (unsigned i = 0; i < IDS_WORDS; i++)
        hash = hash_word(hash, key[i]);
    return hash & (ids->slot_count - 1);
}

static void grow(struct ids *ids)
{
    const size_t count = ids->slot_count ? 2 * ids->slot_count : 1024;
    uint32_t *slots = memory_get(count, sizeof *slots);
    memory_free(ids->slots);
    ids->slots = slots;
    ids->slot_count = count;
    assert(!(count & (count - 1)) && ids->count <= ids->capacity);
    for (size_t i = 0; i < ids->count; i++) {
        size_t at = slot_of(ids, ids->keys[i]);
        while (ids->slots[at])
            at = (at + 1) & (ids->slot_count - 1);
        ids->slots[at] = (uint32_t)i + 1;
    }
}

uint32_t ids_find(struct ids *ids, const uint64_t key[IDS_WORDS], bool *fresh)
{
    if (2 * ids->count >= ids->slot_count)
        grow(ids);
    size_t at = slot_of(ids, key);
    for (; ids->slots[at]; at = (at + 1) & (ids->slot_count - 1))
        if (ids_equal(ids->keys[ids->slots[at] - 1], key)) {
            *fresh = false;
            return ids->slots[at] - 1;
        }
    ids->keys = memory_grow(ids->keys, ids->count, &ids->capacity, sizeof *ids->keys);
    memcpy(ids->keys[ids->count++], key, sizeof *ids->keys);
    ids->slots[at] = (uint32_t)ids->count;
    *fresh = true;
    return (uint32_t)ids->count - 1;
}

bool ids_get(const struct ids *ids, const uint64_t key[IDS_WORDS], uint32_t *number)
{
    if (!ids->count)
        return false;
    for (size_t at = slot_of(ids, key); ids->slots[at]; at = (at + 1) & (ids->slot_count - 1))
        if (ids_equal(ids->keys[ids->slots[at] - 1], key)) {
            *number = ids->slots[at] - 1;
            return true;
        }
    return false;
}

void ids_clear(struct ids *ids)
{
    ids->count = 0;
    if (ids->slots)
        memset(ids->slots, 0, ids->slot_count * sizeof *ids->slots);
}

void ids_free(struct ids *ids)
{
    memory_free(ids->keys);
    memory_free(ids->slots);
    *ids = (struct ids){0};
}
