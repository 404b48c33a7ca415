/* The struct of a group's row. */
#ifndef ANALYSIS_ROW_H
#define ANALYSIS_ROW_H

#include <spex/analysis.h>

/* The first 23 are counted together: their order is that of the facts in count.c. */
struct stats {
    uint32_t retired, l1_access, l1_miss, tlb_access, tlb_walk, not_taken, mispredicted;
    uint32_t llc_access, llc_miss, remote, l2_access, l2_miss, modified, peer, reads, writes;
    uint32_t latency_count[SPEX_LATENCY_EXECUTE], branches;
    uint32_t samples;
    uint32_t executes; /* samples with a known execute latency: issue latency did not saturate */
    uint32_t repeats;  /* samples that follow one of the same row, thread and queue */
    uint32_t source[SPEX_SOURCE_COUNT];
    uint64_t latency_sum[SPEX_LATENCY_COUNT];
    uint64_t time; /* ps */
    /*
     * Sum of squared ns, rounded, times the number of samples in the same observation: 128 bits, so
     * that it does not depend on the order of samples.
     */
    uint64_t square_low, square_high;
};

static inline void stats_add_square(struct stats *s, uint64_t square)
{
    s->square_low += square;
    s->square_high += s->square_low < square;
}

static inline double stats_square(const struct stats *s)
{
    return (double)s->square_high * 0x1p64 + (double)s->square_low;
}

struct spex_row {
    struct stats stats;
    uint32_t flags; /* all flags of its samples: enum spex_sample_flag */
    uint64_t key[]; /* see spex_row_text, spex_row_value; histograms follow */
};

/* See spex_group_find_like. */
struct spex_row *group_row_like(struct spex_group *group, const struct spex_row *row);

#endif
