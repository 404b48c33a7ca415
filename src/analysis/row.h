/*
 * The struct of a group's row, for the modules of this tree; <spex/analysis.h> has functions
 * for everyone else.
 */
#ifndef ANALYSIS_ROW_H
#define ANALYSIS_ROW_H

#include <spex/analysis.h>

/* The first 23 are counted together: their order is that of group.c's facts. */
struct stats {
    uint32_t retired, l1_access, l1_miss, tlb_access, tlb_walk, not_taken, mispredicted;
    uint32_t llc_access, llc_miss, remote, l2_access, l2_miss, modified, peer, reads, writes;
    uint32_t latency_count[SPEX_LATENCY_EXECUTE], branches;
    uint32_t samples;
    uint32_t executes; /* samples whose execute latency is known: issue latency did not saturate */
    uint32_t repeats;  /* samples after one of the same row, thread and queue */
    uint32_t source[SPEX_SOURCE_COUNT];
    uint64_t latency_sum[SPEX_LATENCY_COUNT];
    uint64_t time; /* ps */
    /*
     * Sum of ns squared, rounded, times the number of samples in the same observation: 128 bits, so
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
    uint32_t flags; /* union over its samples: enum spex_sample_flag */
    uint64_t key[]; /* see spex_row_text, spex_row_value; histograms after it */
};

/* How far a row's time is off because of the weights of its samples, ns: a standard deviation. */
double row_time_off(const struct spex_group *group, const struct spex_row *row);
/*
 * Variance of a row's time in another run, ns^2, by what lies before the first sample and after
 * the last in each thread: there is one in some time of a sample, no matter how many others.
 */
double row_time_ends(const struct spex_group *group, const struct spex_row *row);
/*
 * Variance of a row's time by sampling, ns^2, and the 95% interval of its share of all time, both
 * in ns with their sums of squares. All the time is exact, which part of it is the row's is not.
 */
double time_variance(double time, double square, double all, double all_square);
struct spex_interval time_interval(double time, double square, double all, double all_square);

/* The row of a sample, which is not counted; before the rows are sorted. */
struct spex_row *group_row_of(struct spex_group *group, const struct spex_sample *sample);
/* The same for a row of another group with the same keys. */
struct spex_row *group_row_like(struct spex_group *group, const struct spex_row *row);

#endif
