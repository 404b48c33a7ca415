/*
 * Samples only parts of a run: between two marker functions of the program, on commands from a FIFO
 * (--control), after a delay, or until the file reaches its limit. A thread checks whenever its
 * unit may take a sample, and every REGION_POLL operations while sampling is off.
 */
#ifndef GUEST_REGION_H
#define GUEST_REGION_H

#include "run.h"

enum { REGION_POLL = 1024 };

/* Is the run being sampled now? */
static inline bool region_on(const struct run_control *run, uint64_t clock)
{
    return clock >= run->delay && !__atomic_load_n(&run->disabled, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&run->full, __ATOMIC_RELAXED);
}

#endif
