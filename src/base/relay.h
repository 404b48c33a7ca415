/*
 * A thread that uses what its owner makes, item by item and in order, while the owner makes
 * the next item. The number of items under way is bounded.
 */
#ifndef BASE_RELAY_H
#define BASE_RELAY_H

#include <spex/base.h>

struct relay;

/*
 * Makes an even number of items of size bytes, zero at first; the thread calls use for each.
 * NULL: no thread could be had.
 */
struct relay *relay_new(size_t items, size_t size, void (*use)(void *user, void *item), void *user);
/*
 * The item to fill: the same one until it is passed, then one that has been used or is still zero.
 */
void *relay_item(struct relay *relay);
void relay_pass(struct relay *relay);
/* Waits until all items passed have been used. */
void relay_free(struct relay *relay);

#endif
