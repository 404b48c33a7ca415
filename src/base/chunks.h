/*
 * Several threads on one stretch of bytes whose items begin where the one before
 * ends, so that only the first is known to begin where it does.
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
    CHUNKS_APART = 128, /* what two threads write must not share so many aligned bytes */
};

/* All that a reader's further work depends on, besides the bytes; unused words are 0. */
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
     * Any thread, whose number is given: work from *state on, stop in front of the
     * first item that begins at `to` or behind, and say in *state where that is; a
     * place before `to` ends the job. result may hold what an earlier chunk left.
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

/* From *state to the end of the bytes. *state is where that is. False if reduce ended it. */
bool chunks_run(struct chunks *chunks, const struct chunks_job *job, struct chunks_state *state);

/* CPUs that this process may use, as a number of threads. */
unsigned chunks_cpus(void);

#endif
