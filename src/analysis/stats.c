/* Intervals for shares (Wilson 1927) and for their differences (Newcombe 1998, method 10). */
#include "internal.h"

#include <math.h>

static const double z95 = 1.959963984540054;

struct spex_interval spex_share_interval(uint64_t count, uint64_t total)
{
    if (!total)
        return (struct spex_interval){0, 1};
    double n = (double)total, p = (double)count / n, z2 = z95 * z95;
    double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
    double half = z95 / (1 + z2 / n) * sqrt(p * (1 - p) / n + z2 / (4 * n * n));
    struct spex_interval interval = {centre - half, centre + half};
    if (interval.low < 0 || count == 0)
        interval.low = 0;
    if (interval.high > 1 || count == total)
        interval.high = 1;
    return interval;
}

struct spex_interval share_interval(double share, double variance)
{
    double half = z95 * sqrt(variance);
    return (struct spex_interval){fmax(share - half, 0), fmin(share + half, 1)};
}

struct spex_interval spex_difference_interval(uint64_t count0, uint64_t total0, uint64_t count1,
                                              uint64_t total1)
{
    double p0 = total0 ? (double)count0 / (double)total0 : 0;
    double p1 = total1 ? (double)count1 / (double)total1 : 0;
    struct spex_interval a = spex_share_interval(count0, total0);
    struct spex_interval b = spex_share_interval(count1, total1);
    double d = p1 - p0;
    return (struct spex_interval){
        d - sqrt((p1 - b.low) * (p1 - b.low) + (a.high - p0) * (a.high - p0)),
        d + sqrt((b.high - p1) * (b.high - p1) + (p0 - a.low) * (p0 - a.low)),
    };
}
