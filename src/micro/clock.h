/*
 * Cycles of a real core: from its cycle counter if the kernel allows it, else from the counter of
 * CNTVCT_EL0, scaled by a chain of additions, each of which takes one cycle on every core.
 */
#ifndef MICRO_CLOCK_H
#define MICRO_CLOCK_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool clock_wanted;
static int clock_counter = -1; /* descriptor from perf_event_open, or -1 */
static uint64_t clock_begun;
static double clock_took;

static uint64_t clock_now(void)
{
    uint64_t now = 0;
    if (clock_counter >= 0) {
        if (read(clock_counter, &now, sizeof now) != sizeof now)
            now = 0;
        return now;
    }
    __asm__ volatile("isb\n mrs %0, cntvct_el0\n isb" : "=r"(now) : : "memory");
    return now;
}

/* A chain of additions, each of which needs the previous one. */
static uint64_t clock_chain(void)
{
    enum { ROUNDS = 10000, EACH = 100 };
    uint64_t rounds = ROUNDS, begun = clock_now();
    __asm__ volatile("mov x8, #1\n"
                     "1: .rept 100\n add x8, x8, x8\n .endr\n subs %0, %0, #1\n b.ne 1b\n"
                     : "+r"(rounds)
                     :
                     : "x8", "cc");
    uint64_t took = clock_now() - begun;
    return took ? took : 1;
}
enum { CLOCK_ADDITIONS = 1000000 };

static void clock_open(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_HW_CPU_CYCLES,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    clock_wanted = true;
    clock_counter = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static const char *clock_name(void)
{
    return clock_counter >= 0 ? "cycles" : "counter";
}

static void clock_begin(void)
{
    if (clock_wanted)
        clock_begun = clock_now();
}

/*
 * The core's clock may have changed since the last measurement, so the chain runs beside each one.
 */
static void clock_end(void)
{
    if (!clock_wanted)
        return;
    clock_took = (double)(clock_now() - clock_begun);
    if (clock_counter < 0)
        clock_took *= (double)CLOCK_ADDITIONS / (double)clock_chain();
}

static double clock_cycles(void)
{
    return clock_took;
}

#define TIMED(kernel) (clock_begin(), (void)(kernel), clock_end())

#endif
