/* Numbers in few bits, as Parquet packs them: the first value in the lowest bits. */
#ifndef EXPORT_PACK_H
#define EXPORT_PACK_H

#include "base/out.h"

/* Bits that hold value; 0 for 0. */
static inline unsigned pack_width(uint64_t value)
{
    return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/* The hybrid of runs and packed groups: all of one value, or packed in groups of eight. */
void pack_run(struct out *out, uint32_t value, size_t count, unsigned width);
void pack_indices(struct out *out, const uint32_t *values, size_t count, unsigned width);
/* Packs values of one bit each. */
void pack_bits(struct out *out, const uint8_t *values, size_t count);
/* PLAIN booleans: packed bits without the run's header. */
void pack_bools(struct out *out, const uint8_t *values, size_t count);

/* DELTA_BINARY_PACKED of 64-bit numbers. */
void pack_delta(struct out *out, const uint64_t *values, size_t count);

#endif
