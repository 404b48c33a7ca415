/*
 * Threads that share out the parts of an item, one item after the other, while their owner makes
 * the next one; when that is made too early, the owner takes parts as well. Which thread has which
 * part must not matter.
 */
#ifndef BASE_CREW_H
#define BASE_CREW_H

#include <spex/base.h>

struct crew_work {
    size_t parts; /* of each item */
    /* before any part, by one thread; a part, by worker 0 (the owner) to threads; behind all */
    void (*prepare)(void *user, void *item);
    void (*part)(void *user, void *item, size_t part, unsigned worker);
    void (*finish)(void *user, void *item);
    void *user;
};

struct crew;

/* threads: beside the owner; as many as can be had. Ends the command if there is no memory. */
struct crew *crew_new(unsigned threads, const struct crew_work *work);
unsigned crew_threads(const struct crew *crew);
/* Waits for the item before; this one must be left alone until the next has been passed. */
void crew_pass(struct crew *crew, void *item);
/* Behind all that was passed. */
void crew_free(struct crew *crew);

#endif
