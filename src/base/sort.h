/* qsort_r by several threads. */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stddef.h>

/*
 * Several threads call compare at a time. It may end the guarded work (memory.h), and then the
 * whole sort ends. The order of equal items is unspecified.
 */
void sort_items(void *items, size_t count, size_t size,
                int (*compare)(const void *, const void *, void *), void *context,
                unsigned threads);

#endif
