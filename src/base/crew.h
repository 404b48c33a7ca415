/*
 * Threads that share the parts of an item, one item after the other, while their owner makes the
 * next item. An owner that is done first takes parts as well. Results must not depend on which
 * thread does which part.
 */
#ifndef BASE_CREW_H
#define BASE_CREW_H

#include <spex/base.h>

struct crew_work {
    size_t parts; /* parts per item */
    /*
     * prepare: called once, before any part. part: worker 0 is the owner, 1 to threads the
     * others. finish: called once, after all parts.
     */
    void (*prepare)(void *user, void *item);
    void (*part)(void *user, void *item, size_t part, unsigned worker);
    void (*finish)(void *user, void *item);
    void *user;
};

struct crew;

/*
 * threads: in addition to the owner; there are fewer if no more can be started. Ends the
 * command if memory runs out.
 */
struct crew *crew_new(unsigned threads, const struct crew_work *work);
unsigned crew_threads(const struct crew *crew);
/*
 * Hands over item, after waiting for the previous one. Do not change item until the next one
 * has been passed.
 */
void crew_pass(struct crew *crew, void *item);
/* Waits until all items passed so far are done, then frees. */
void crew_free(struct crew *crew);

#endif
