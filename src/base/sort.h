/* qsort_r by several threads. */
#ifndef BASE_SORT_H
#define BASE_SORT_H

#include <stddef.h>

/*
 * compare is called by several threads at a time, and may end what is guarded (memory.h): then all
 * of it ends. Of equal items it is not said which comes first.
 */
void sort_items(void *items, size_t count, size_t size,
                int (*compare)(const void *, const void *, void *), void *context,
                unsigned threads);

#endif
