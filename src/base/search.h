/* Binary search. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stddef.h>

/*
 * The first number in from..end-1 for which `before`, an expression of the number `at`, is false;
 * or end. Items must be ordered so that it is true for the first ones only.
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
