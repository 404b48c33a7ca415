/* Binary search. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stddef.h>

/*
 * The first of the numbers from..end-1 of which `before`, an expression of the number `at`, is
 * false, or end. The items are in order: it is true of the first ones.
 */
#define SEARCH(at, from, end, before)                                                              \
    __extension__({                                                                                \
        size_t low_ = (from), high_ = (end);                                                       \
        while (low_ < high_) {                                                                     \
            const size_t at = low_ + (high_ - low_) / 2;                                           \
            if (before)                                                                            \
                low_ = at + 1;                                                                     \
            else                                                                                   \
                high_ = at;                                                                        \
        }                                                                                          \
        low_;                                                                                      \
    })

#endif
