/*
 * What threads did with the time that passed: ran, were in the kernel, or waited, and in which
 * system call, for which lock, called from where. Samples show only what ran; this is the rest.
 *
 * spex record (with a model) writes it into the file, exactly, in modelled time. Elsewhere it comes
 * from switches of threads (perf record --switch-events; not with several events of the same time
 * and thread), which say how long a thread did not run and whether it could have, and nothing else.
 *
 *     struct spex_elapsed *elapsed;
 *     const struct spex_elapsed_row *row;
 *     status = spex_elapsed_new(analysis, false, &elapsed, &error);
 *     for (size_t i = 0; (row = spex_elapsed_at(elapsed, i)); i++)
 *         printf("%s %s %llu ns\n", row->what, row->object ? row->object : "", row->ns);
 *     spex_elapsed_free(elapsed);
 *
 * It is of the whole profile, whatever its filters. Ownership: rows and their texts belong to the
 * handle, which is ended before the analysis. Threads: as the analysis. All of it is since 1.4.
 */
#ifndef SPEX_ELAPSED_H
#define SPEX_ELAPSED_H

#include <spex/analysis.h>

#ifdef __cplusplus
extern "C" {
#endif

enum spex_elapsed_state {
    SPEX_ELAPSED_RUNS,   /* its own code, which is sampled */
    SPEX_ELAPSED_KERNEL, /* system calls that work */
    SPEX_ELAPSED_WAITS,  /* system calls that wait, and threads that are switched out */
    SPEX_ELAPSED_STATES
};

struct spex_elapsed_row {
    enum spex_elapsed_state state;
    int32_t pid, tid;     /* -1: of several */
    uint64_t threads;     /* how many */
    uint64_t ns, calls;   /* calls: or times that it was switched out */
    const char *what;     /* "[running]", "[kernel: read]", "[blocked: futex]", "[preempted]" */
    const char *call;     /* the system call; NULL: not known */
    const char *object;   /* the futex that it waits at: "queue_lock"; or NULL */
    const char *through;  /* the function of a library that was called for it, or NULL */
    const char *function; /* that calls it, or NULL */
    const char *line;     /* "queue.c:31", or NULL */
};

struct spex_elapsed_sum {
    size_t size;      /* sizeof(struct spex_elapsed_sum), set by the caller */
    uint64_t threads; /* 0: the profile says nothing */
    uint64_t ns[SPEX_ELAPSED_STATES];
};

struct spex_elapsed;
/* by_thread: rows of each thread, those of what ran included; else of all together. */
enum spex_status spex_elapsed_new(struct spex_analysis *analysis, bool by_thread,
                                  struct spex_elapsed **elapsed,
                                  struct spex_error *error); /* since 1.4 */
void spex_elapsed_free(struct spex_elapsed *elapsed);        /* NULL is ignored; since 1.4 */
void spex_elapsed_add_up(const struct spex_elapsed *elapsed,
                         struct spex_elapsed_sum *sum); /* since 1.4 */
/* Most time first; NULL past the last (since 1.4). */
const struct spex_elapsed_row *spex_elapsed_at(const struct spex_elapsed *elapsed, size_t index);

#ifdef __cplusplus
}
#endif
#endif
