/*
 * Lets several threads read one stretch of bytes in which each item begins where the previous
 * one ends, so that only the first item's place is known.
 *
 * The bytes are cut into chunks. The thread that takes a chunk guesses where its first item
 * begins and what state a reader would be in there, and reads up to the first item of the next
 * chunk. The caller's thread then goes through the chunks in order. If a chunk began exactly
 * where the previous one ended, in the same state, its result is what reading in order would
 * have given, since a reader's work depends on its state alone. Otherwise it is read again from
 * the proven state. So the results do not depend on guesses, the number of threads or the size
 * of chunks.
 *
 * The number of chunks under way at a time is bounded: a few per thread.
 */
#ifndef BASE_CHUNKS_H
#define BASE_CHUNKS_H

#include <spex/base.h>

enum {
    CHUNKS_THREADS_MAX = 64,
    CHUNKS_APART = 128, /* bytes, aligned: distance between data that different threads write */
};

/* Everything a reader's further work depends on, apart from the bytes; unused words are 0. */
struct chunks_state {
    uint64_t position, more[3];
};

struct chunks_job {
    void *user;
    size_t size;  /* size of the bytes */
    size_t chunk; /* bytes of a chunk */
    /*
     * Any thread: finds a likely item in [from, to) and the state there; false if there is
     * none.
     */
    bool (*guess)(void *user, size_t from, size_t to, struct chunks_state *state);
    /*
     * Any thread, with its number: works from *state on, stops before the first item that
     * begins at or after `to`, and leaves its place in *state; a place before `to` ends the
     * job. result may still hold what an earlier chunk left.
     */
    void (*run)(void *user, unsigned thread, struct chunks_state *state, size_t to, void *result);
    /* The caller's thread, chunk by chunk in order; false ends the job. */
    bool (*reduce)(void *user, void *result);
};

struct chunks;
/*
 * threads includes the caller's; there are fewer if no more can be started, and 1 starts
 * none. NULL: out of memory.
 */
struct chunks *chunks_new(unsigned threads, size_t result_size);
unsigned chunks_threads(const struct chunks *chunks);
/* Results are zeroed once, at the start; fini may release what they hold, or be NULL. */
void chunks_free(struct chunks *chunks, void (*fini)(void *result));

/*
 * Reads from *state to the end of the bytes; *state then describes the end. False if reduce
 * ended the job.
 */
bool chunks_run(struct chunks *chunks, const struct chunks_job *job, struct chunks_state *state);

#endif
