#include "vec.h"

#include "memory.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

bool vec_grow_most(void *items, size_t *capacity, size_t need, size_t most, size_t size)
{
    enum { FEW = 8 };
    void *memory;
    assert(items && capacity && size);
    if (need <= *capacity)
        return true;
    size_t more = *capacity + *capacity / 2;
    if (more < need)
        more = need;
    if (more < FEW)
        more = FEW;
    if (more > most)
        more = most;
    if (more < need || more > PTRDIFF_MAX / size)
        return false;
    memcpy(&memory, items, sizeof memory); /* whatever the pointer's type */
    memory = memory_allows((more - *capacity) * size) ? memory_again(memory, more * size) : NULL;
    if (!memory)
        return false;
    memcpy(items, &memory, sizeof memory);
    *capacity = more;
    return true;
}
