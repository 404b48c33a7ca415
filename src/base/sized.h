/*
 * Structs of the API that begin with their own size, so that programs and libraries of
 * different versions fit together (docs/api.md).
 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include <spex/base.h>

/*
 * Reads a caller's struct into known (of known_size bytes), zero where the caller's is shorter.
 * SPEX_UNSUPPORTED if it is longer and not zero there, SPEX_INVALID if its size is impossible;
 * the error names the struct and the offset.
 */
enum spex_status sized_take(const char *name, const void *given, void *known, size_t known_size,
                            struct spex_error *error);

/*
 * Fills a caller's struct with as much of known (whose first member is known_size) as fits into
 * out->size.
 */
void sized_give(void *out, const void *known);

#endif
