/*
 * A row of a group as it is, for the modules of this tree; <spex/analysis.h> has functions for
 * the rest of the world.
 */
#ifndef ANALYSIS_ROW_H
#define ANALYSIS_ROW_H

#include <spex/analysis.h>

/* The first 20 are counted together: their order is that of group.c's masks. */
struct spex_stats {
    uint32_t retired, l1_access, l1_miss, tlb_access, tlb_walk, not_taken, mispredicted;
    uint32_t llc_access, llc_miss, remote, l2_access, l2_miss, modified, peer, reads, writes;
    uint32_t latency_count[SPEX_LATENCY_COUNT], branches;
    uint32_t samples, source[SPEX_SOURCE_COUNT];
    uint64_t latency_sum[SPEX_LATENCY_COUNT];
};

struct spex_row {
    struct spex_stats stats;
    uint32_t latency[SPEX_LATENCY_COUNT]; /* private: histograms */
    uint32_t flags;                       /* of all its samples: enum spex_sample_flag */
    uint64_t key[];                       /* see spex_row_text, spex_row_value */
};

#endif
