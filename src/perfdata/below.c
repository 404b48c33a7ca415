#include "below.h"

#include "jit.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

char *below_dump(const struct below *below, const struct spex_perf_map *map, char path[BELOW_PATH],
                 size_t *size)
{
    if (!(map->prot & 4) || !jit_is_dump(map->filename))
        return NULL;
    for (const char *const *root = below->roots; *root; root++) {
        if (snprintf(path, BELOW_PATH, "%s%s", *root, map->filename) >= BELOW_PATH)
            continue;
        char *data = file_read_named(path, JIT_FILE_MOST, FILE_OWN_OR_ROOT, size);
        if (data && jit_dump_pid(data, *size) == map->pid)
            return data;
        memory_free(data);
    }
    return NULL;
}
