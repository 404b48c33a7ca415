/*
 * The mappings of an epoch, searchable by address.
 *
 * The newest mapping that covers an address counts. The addresses where mappings begin and end
 * divide the address space into pieces, the leaves of a binary tree; a mapping is entered at
 * the few nodes that together cover its pieces. An address is in the mappings on the path from
 * its leaf to the root, which are sorted by time at each node.
 */
#include "file.h"

#include "base/order.h"
#include "base/search.h"

#include <assert.h>
#include <stdlib.h>

enum { FEW = 12 }; /* up to this many mappings are searched one by one */

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return ORDER(x, y);
}

/* The number of bounds <= address. */
static uint32_t bound_above(const struct epoch *epoch, uint64_t address)
{
    return (uint32_t)SEARCH(i, 0, epoch->bound_count, epoch->bounds[i] <= address);
}

/* Calls for each node that covers part of [from, to); leaves are n .. 2n-1. */
#define FOR_NODES(node, n, from, to)                                                               \
    for (uint32_t l_ = (from) + (n), r_ = (to) + (n), node; l_ < r_; l_ >>= 1, r_ >>= 1)           \
        for (int side_ = 0; side_ < 2; side_++)                                                    \
            if (side_ ? (r_ & 1 && (node = --r_, 1)) : (l_ & 1 && (node = l_++, 1)))

bool perfdata_epoch_build(const struct spex_perfdata *file, struct epoch *epoch)
{
    uint32_t count = epoch->count;
    if (count <= FEW)
        return true;
    uint64_t *bounds = memory_new(2 * (size_t)count * sizeof *bounds);
    epoch->bounds = bounds;
    if (!bounds)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        bounds[2 * i] = file->maps.items[epoch->maps[i]].start;
        bounds[2 * i + 1] = file->maps.items[epoch->maps[i]].end;
    }
    qsort(bounds, 2 * (size_t)count, sizeof *bounds, compare_u64);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 2 * count; i++)
        if (!n || bounds[n - 1] != bounds[i])
            bounds[n++] = bounds[i];
    assert(n > 0 && n <= 2 * count);
    epoch->bound_count = n;
    epoch->starts = memory_zeroed(2 * (size_t)n + 1, sizeof *epoch->starts);
    if (!epoch->starts)
        return false;
    /* Piece i is [bounds[i], bounds[i + 1]). First count, then place. */
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            const struct spex_perf_map *map = &file->maps.items[epoch->maps[i]];
            uint32_t from = bound_above(epoch, map->start) - 1;
            uint32_t to = bound_above(epoch, map->end) - 1;
            FOR_NODES(node, n, from, to)
            {
                if (pass == 0)
                    epoch->starts[node + 1]++;
                else
                    epoch->entries[epoch->starts[node]++] = i;
            }
        }
        if (pass == 0) {
            for (uint32_t i = 1; i <= 2 * n; i++)
                epoch->starts[i] += epoch->starts[i - 1];
            size_t entries = epoch->starts[2 * n];
            epoch->entries = memory_new((entries ? entries : 1) * sizeof *epoch->entries);
            if (!epoch->entries)
                return false;
        }
    }
    /* Placing moved each start to the next node's: starts[i] is now where node i ends. */
    return true;
}

/* The newest entry of a node that is no later than time; -1 if there is none. */
static int64_t newest_entry(const struct spex_perfdata *file, const struct epoch *epoch,
                            uint32_t node, uint64_t time)
{
    const uint32_t first = node ? epoch->starts[node - 1] : 0;
    size_t low = SEARCH(i, first, epoch->starts[node],
                        file->maps.items[epoch->maps[epoch->entries[i]]].time <= time);
    return low > first ? (int64_t)epoch->entries[low - 1] : -1;
}

const struct spex_perf_map *perfdata_epoch_find(const struct spex_perfdata *file,
                                                const struct epoch *epoch, uint64_t address,
                                                uint64_t time)
{
    int64_t best = -1;
    if (!epoch->bounds) {
        for (uint32_t i = epoch->count; i-- > 0;) {
            const struct spex_perf_map *map = &file->maps.items[epoch->maps[i]];
            if (map->time <= time && address >= map->start && address < map->end)
                return map;
        }
        return NULL;
    }
    uint32_t piece = bound_above(epoch, address);
    if (!piece || piece == epoch->bound_count)
        return NULL;
    for (uint32_t node = piece - 1 + epoch->bound_count; node > 0; node >>= 1) {
        int64_t entry = newest_entry(file, epoch, node, time);
        if (entry > best)
            best = entry;
    }
    return best >= 0 ? &file->maps.items[epoch->maps[best]] : NULL;
}

void perfdata_epoch_fini(struct epoch *epoch)
{
    memory_free(epoch->maps);
    memory_free(epoch->bounds);
    memory_free(epoch->starts);
    memory_free(epoch->entries);
}
