/*
 * Threads that share the parts of items, several items at a time, while their owner makes the next
 * one. Parts are begun in order, item by item, and an item is finished after those before it. Where
 * the parts of an item must wait for those of the item before, or for each other, they take turns.
 * Results must not depend on which thread does which part.
 */
#ifndef BASE_CREW_H
#define BASE_CREW_H

#include <spex/base.h>

struct crew_work {
    size_t parts; /* parts per item */
    size_t items; /* items under way at most */
    size_t turns; /* kinds of turns: see crew_turn */
    /* Worker 0 is the owner, 1 to threads the others; items are numbered from 0 on. */
    void (*part)(void *user, void *item, size_t number, size_t part, unsigned worker);
    void (*finish)(void *user, void *item); /* after all parts; one item at a time */
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
 * Hands over item, which the caller leaves alone until it is finished. Waits, and helps, as long as
 * too many are under way.
 */
void crew_pass(struct crew *crew, void *item);
/* Waits, and helps, until so many items are finished. */
void crew_wait(struct crew *crew, size_t items);
/*
 * In a part: waits until so many turns of this kind are over. They must be those of parts that are
 * begun earlier.
 */
void crew_turn(struct crew *crew, size_t kind, size_t count);
/* One more is over. */
void crew_next(struct crew *crew, size_t kind);
/* Waits until all items passed so far are done, then frees. */
void crew_free(struct crew *crew);

#endif
