/*
 * Growing arrays: VEC(type) name = {0}; items, count and capacity may be read. Functions that
 * grow one return NULL or false when memory runs out; the array is then unchanged.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/memory.h"

#include <stdlib.h>

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, capacity;                                                                    \
    }

/*
 * Makes room for `need` items of `size` bytes. Grows by half or more, but to no more than
 * `most` items. items: the address of the array pointer.
 */
bool vec_grow_most(void *items, size_t *capacity, size_t need, size_t most, size_t size);

static inline bool vec_grow(void *items, size_t *capacity, size_t need, size_t size)
{
    return vec_grow_most(items, capacity, need, (size_t)-1, size);
}

/* Makes room for n items in all. */
#define vec_reserve(vec, n) vec_grow(&(vec)->items, &(vec)->capacity, n, sizeof *(vec)->items)

/* Appends one item, not cleared. */
#define vec_push(vec)                                                                              \
    ((vec)->count < (vec)->capacity || vec_reserve(vec, (vec)->count + 1)                          \
         ? &(vec)->items[(vec)->count++]                                                           \
         : NULL)

/* Frees the items and empties the array. */
#define vec_free(vec)                                                                              \
    (memory_free((vec)->items), (vec)->items = NULL, (void)((vec)->count = (vec)->capacity = 0))

#endif
