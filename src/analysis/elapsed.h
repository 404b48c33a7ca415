/* What a file says about time in which threads do not run (<spex/elapsed.h>), as it is read. */
#ifndef ANALYSIS_ELAPSED_H
#define ANALYSIS_ELAPSED_H

#include <spex/elapsed.h>

enum { ELAPSED_FRAMES = 16 };

struct elapsed_sample { /* see perfdata/elapsed.h */
    int32_t pid, tid;
    uint64_t time, ns, object, weight;
    uint32_t depth;
    uint64_t chain[ELAPSED_FRAMES]; /* the PC and return addresses */
};

/* The event whose samples these are; NULL: the file has none. */
const struct spex_perf_attr *elapsed_attr(const struct spex_perfdata *file);
void elapsed_take(struct elapsed_sample *to, const struct spex_perf_event *event);

#endif
