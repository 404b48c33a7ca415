/* The portable variant: uses words of 64 bits. */
#include "record/fast/portable.h"

/* The 64 bytes of a cell, by reference. */
struct bytes {
    const uint8_t *at;
};

FAST_INLINE struct bytes load(const uint8_t *data)
{
    return (struct bytes){data};
}

FAST_INLINE bool matches(const struct pattern *pattern, struct bytes bytes)
{
    uint64_t difference = 0;
    for (unsigned i = 0; i < CELL; i += 8)
        difference |=
            (le64(bytes.at + i) ^ le64(pattern->value + i)) & spread(pattern->compared >> i & 255);
    return difference == 0;
}

#include "record/fast/loop.h"

const struct fast_variant fast_portable = {"portable", read_cells, find, found, cell_key, walk_one};
