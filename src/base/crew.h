/*
 * Threads that share the parts of an item, one item after the other, while their owner makes the
 * next one. An owner that is ready before they are takes parts as well. It must not matter which
 * thread does which part.
 */
#ifndef BASE_CREW_H
#define BASE_CREW_H

#include <spex/base.h>

struct crew_work {
    size_t parts; /* of each item */
    /*
     * prepare: by one thread, before any part. part: by worker 0 (the owner) to threads. finish:
     * after all parts.
     */
    void (*prepare)(void *user, void *item);
    void (*part)(void *user, void *item, size_t part, unsigned worker);
    void (*finish)(void *user, void *item);
    void *user;
};

struct crew;

/*
 * threads: besides the owner; fewer if the system gives fewer. Ends the command if there is no
 * memory.
 */
struct crew *crew_new(unsigned threads, const struct crew_work *work);
unsigned crew_threads(const struct crew *crew);
/* Waits for the item before. Do not change this item until the next one has been passed. */
void crew_pass(struct crew *crew, void *item);
/* Waits until all items passed so far are done. */
void crew_free(struct crew *crew);

#endif
