/*
 * The struct of a group's row, for the modules in this tree; <spex/analysis.h> has functions for
 * all others.
 */
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

/* Standard deviation of a row's time because of the weights of its samples, in ns. */
double row_time_off(const struct spex_group *group, const struct spex_row *row);
/*
 * Variance, in ns^2, of a row's time between runs, from the time before the first sample and after
 * the last one in each thread: it is part of a sample's time, no matter how many others there are.
 */
double row_time_ends(const struct spex_group *group, const struct spex_row *row);
/*
 * Variance of a row's time by sampling, in ns^2, and the 95% interval of its share of all time,
 * both from ns and their sums of squares. The whole time is exact; the row's part of it is not.
 */
double time_variance(double time, double square, double all, double all_square);
struct spex_interval time_interval(double time, double square, double all, double all_square);

/* The row that a sample belongs to, without counting it; before rows are sorted. */
struct spex_row *group_row_of(struct spex_group *group, const struct spex_sample *sample);
/* The row that corresponds to a row of another group with the same keys. */
struct spex_row *group_row_like(struct spex_group *group, const struct spex_row *row);

#endif
