/*
 * Items that one thread fills and others work on, several at a time; what comes of them is put
 * out in order. The number of items under way is bounded.
 */
#ifndef BASE_TURNS_H
#define BASE_TURNS_H

#include <spex/base.h>

struct turns_work {
    void *user;
    /* Any of the threads, which are numbered from 0. */
    void (*work)(void *user, void *item, unsigned thread);
    /* After work, by one thread at a time, in the order in which items were passed. */
    void (*put)(void *user, void *item);
};

struct turns;

/* Items of size bytes, zero at first. NULL: no thread could be had. */
struct turns *turns_new(unsigned threads, size_t size, const struct turns_work *work);
unsigned turns_threads(const struct turns *turns);
/* The item to fill: the same one until it is passed, then one that was put, or is still zero. */
void *turns_item(struct turns *turns);
void turns_pass(struct turns *turns);
/* Waits until all items that were passed have been put; fini may release what items hold. */
void turns_free(struct turns *turns, void (*fini)(void *item));

#endif
