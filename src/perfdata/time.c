/* perf's clock: TIME_CONV, the arithmetic of the perf_event mmap page. */
#include <spex/perfdata.h>

#include <assert.h>

uint64_t spex_perf_time_to_ns(const struct spex_perf_time *time, uint64_t ticks)
{
    assert(time);
    unsigned shift = (unsigned)time->shift & 63;
    if (time->cap_short)
        ticks = time->cycles + ((ticks - time->cycles) & time->mask);
    uint64_t quotient = ticks >> shift;
    uint64_t rest = ticks & ((UINT64_C(1) << shift) - 1);
    return time->zero + quotient * time->mult + ((rest * time->mult) >> shift);
}

uint64_t spex_perf_time_from_ns(const struct spex_perf_time *time, uint64_t ns)
{
    assert(time);
    unsigned shift = (unsigned)time->shift & 63;
    uint64_t t = ns - time->zero;
    if (!time->mult)
        return 0; /* perf would divide by it and crash */
    uint64_t quotient = t / time->mult;
    uint64_t rest = t % time->mult;
    return (quotient << shift) + (rest << shift) / time->mult;
}

void spex_perf_time_init(struct spex_perf_time *time, uint64_t hz)
{
    assert(time && hz);
    /* The largest shift whose multiplier fits 32 bits, as the kernel's clocks choose it. */
    unsigned shift = 32;
    uint64_t mult = 0;
    for (; shift > 0; shift--) {
        mult = ((UINT64_C(1000000000) << shift) + hz / 2) / hz; /* below 2^62 + 2^63 */
        if (mult >> 32 == 0)
            break;
    }
    *time = (struct spex_perf_time){
        .shift = shift,
        .mult = mult,
        .mask = (UINT64_C(1) << 56) - 1,
        .cap_zero = true,
        .cap_short = true,
    };
}
