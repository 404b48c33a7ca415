/* What a row counts, as a value. */
#ifndef REPORT_STATS_H
#define REPORT_STATS_H

#include <spex/analysis.h>

static inline struct spex_stats stats_of(const struct spex_row *row)
{
    struct spex_stats stats;
    stats.size = sizeof stats;
    spex_row_stats(row, &stats);
    return stats;
}

#endif
