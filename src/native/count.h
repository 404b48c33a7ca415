/*
 * The CPU's own counters beside SPE, where its PMU has them: SAMPLE_POP, SAMPLE_FEED,
 * SAMPLE_FILTRATE, SAMPLE_COLLISION.
 */
#ifndef NATIVE_COUNT_H
#define NATIVE_COUNT_H

#include "open.h"

enum native_count { COUNT_POP, COUNT_FEED, COUNT_FILTRATE, COUNT_COLLISION, NATIVE_COUNTS };
extern const char *const native_count_names[NATIVE_COUNTS];

struct native_counters {
    VEC(struct open_fd) fds; /* event: enum native_count */
    bool there[NATIVE_COUNTS];
};

/* For the same threads and CPUs as the events; a counter that cannot be opened is left out. */
void native_counters_open(const struct native_options *o, const int32_t *tids, size_t count,
                          struct native_counters *counters);
void native_counters_enable(const struct native_counters *counters);
void native_counters_read(const struct native_counters *counters, uint64_t value[NATIVE_COUNTS]);
void native_counters_close(struct native_counters *counters);

/* What a run shows about its period. */
struct native_run_figures {
    uint64_t period, least; /* least: smallest period that the PMU allows; 0: unknown */
    uint64_t samples;
    uint64_t collisions; /* the CPU's count; else a lower bound: AUX buffers with collisions */
    uint64_t truncated;
};
/* A better period, or the same one; why, in words. */
uint64_t native_recommend(const struct native_run_figures *f, const char **why);

#endif
