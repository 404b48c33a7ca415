/*
 * One thread fills items, others work on them, several at a time; results are put out in the
 * original order. The number of items under way is bounded.
 */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include <spex/base.h>

struct turns_work {
    void *user;
    /* Called by any of the threads, which are numbered from 0. */
    void (*work)(void *user, void *item, unsigned thread);
    /* Called after work, by one thread at a time, in the order in which items were passed. */
    void (*put)(void *user, void *item);
};

struct turns;

/* Items of size bytes, zeroed at first. NULL: no thread could be started. */
struct turns *turns_new(unsigned threads, size_t size, const struct turns_work *work);
unsigned turns_threads(const struct turns *turns);
/*
 * The item to fill: the same one until it is passed, then another, which was put before or
 * is still zero.
 */
void *turns_item(struct turns *turns);
void turns_pass(struct turns *turns);
/* Waits until all items that were passed have been put; fini may release what items hold. */
void turns_free(struct turns *turns, void (*fini)(void *item));

#endif
