/*
 * Lets several threads read one stretch of bytes in which each item begins where the one
 * before ends, so that only the first item's place is known.
 *
 * The bytes are cut into chunks. Whoever takes a chunk guesses where its first
 * item begins, and in which state a reader would be there, and works from there
 * to the first item of the next chunk. The caller's thread goes through the chunks
 * in order: one that began exactly where the chunk before ended, in the same state,
 * is as good as if it had been read in order, since a reader's work depends on its
 * state alone. Any other is done again from the state that is proven. So the
 * results do not depend on guesses, the number of threads or the size of chunks.
 *
 * Some chunks per thread are under way at a time, never more.
 */
#ifndef BASE_CHUNKS_H
#define BASE_CHUNKS_H

#include <spex/base.h>

enum {
    CHUNKS_THREADS_MAX = 64,
    CHUNKS_APART = 128, /* bytes, aligned, that two threads must not both write to */
};

/* Everything but the bytes that a reader's further work depends on; unused words are 0. */
struct chunks_state {
    uint64_t position, more[3];
};

struct chunks_job {
    void *user;
    size_t size;  /* of the bytes */
    size_t chunk; /* bytes of a chunk */
    /* Any thread: a state at an item that begins in [from, to); false if none is likely. */
    bool (*guess)(void *user, size_t from, size_t to, struct chunks_state *state);
    /*
     * Called by any thread, with its number: work from *state on, stop in front of the first item
     * that begins at or after `to`, and leave its place in *state; a place before `to` ends the
     * job. result may still hold what an earlier chunk left.
     */
    void (*run)(void *user, unsigned thread, struct chunks_state *state, size_t to, void *result);
    /* The caller's thread, in order; false ends the job. */
    bool (*reduce)(void *user, void *result);
};

struct chunks;
/* threads counts the caller's; fewer if no more can be had, 1 starts none. NULL: no memory. */
struct chunks *chunks_new(unsigned threads, size_t result_size);
unsigned chunks_threads(const struct chunks *chunks);
/* Results are zeroed once, at the start; fini may release what they hold, or be NULL. */
void chunks_free(struct chunks *chunks, void (*fini)(void *result));

/*
 * Reads from *state to the end of the bytes, which *state then describes. False if reduce ended the
 * job.
 */
bool chunks_run(struct chunks *chunks, const struct chunks_job *job, struct chunks_state *state);

#endif
