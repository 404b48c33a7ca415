/*
 * The samples that say what threads did while they did not run: PERF_RECORD_SAMPLEs of an event of
 * their own, a few per thread, written when it ends. Each stands for all system calls of one kind
 * that a thread made at one place, and one for the time that it ran. Period: time in ns. Address:
 * the futex, or 0. Weight: what the time is of. The callchain says who made the calls.
 */
#ifndef PERFDATA_ELAPSED_H
#define PERFDATA_ELAPSED_H

#include "allocation.h"

#define ELAPSED_EVENT "spe-elapsed"

enum { ELAPSED_ID = 5 };

enum elapsed_state { ELAPSED_RUNS, ELAPSED_KERNEL, ELAPSED_WAITS, ELAPSED_FAULTS, ELAPSED_STATES };

/* A weight: how many calls, the state, the number of the system call. */
static inline uint64_t elapsed_weight(uint64_t count, enum elapsed_state state, unsigned call)
{
    return count << 18 | (uint64_t)state << 16 | (call & 0xffff);
}

static inline uint64_t elapsed_count(uint64_t weight)
{
    return weight >> 18;
}

static inline enum elapsed_state elapsed_state(uint64_t weight)
{
    return (enum elapsed_state)(weight >> 16 & 3);
}

static inline unsigned elapsed_call(uint64_t weight)
{
    return weight & 0xffff;
}

/* start: address; size: ns; number: weight. The site begins with the PC. */
static inline void elapsed_write(uint8_t *to, const struct allocation *a, const uint64_t *site)
{
    allocation_write(to, a, site);
    put_le64(to + 8, ELAPSED_ID);
}

#endif
