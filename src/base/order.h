/* Helper for comparison functions. */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H

/* -1 if a comes before b, 1 if after it, 0 if they are the same. */
#define ORDER(a, b) ((a) < (b) ? -1 : (a) > (b))

#endif
