/*
 * A thread that uses what its owner makes, item by item in the same order, while the owner
 * makes the next. Only so many items are under way.
 */
#ifndef BASE_RELAY_H
#define BASE_RELAY_H

#include <spex/base.h>

struct relay;

/*
 * So many items, an even number, of size bytes, zero at first; use is called by the thread. NULL:
 * there is none.
 */
struct relay *relay_new(size_t items, size_t size, void (*use)(void *user, void *item), void *user);
/* The item to fill: the same until it is passed, then one that was used or is zero. */
void *relay_item(struct relay *relay);
void relay_pass(struct relay *relay);
/* After all that was passed has been used. */
void relay_free(struct relay *relay);

#endif
