/*
 * Derives numbers of a core from microbenchmarks. None of them reads the model's parameters: they
 * see only cycles, as on hardware.
 */
#include "calibrate.h"

#include "base/memory.h"

#include <string.h>

enum { LOADS = 40000, PAGE = 4096 + 64 /* one line in each page, not all in the same set */ };

static double value(struct calibrate *c, const char *key)
{
    return calibrate_value(c, key)->measured.value;
}

/* ---- sums ---- */

static struct measured plus(struct measured m, double add)
{
    return (struct measured){m.value + add, m.low + add, m.high + add};
}

static struct measured less(struct measured m, struct measured other)
{
    return (struct measured){m.value - other.value, m.low - other.high, m.high - other.low};
}

static struct measured times(struct measured m, double by)
{
    return (struct measured){m.value * by, m.low * by, m.high * by};
}

/* Converts cycles per operation to operations per cycle. */
static struct measured rate(struct measured m)
{
    if (m.value <= 0 || m.low <= 0)
        return (struct measured){0};
    return (struct measured){1 / m.value, 1 / m.high, 1 / m.low};
}

/* ---- capacities ---- */

/* Does the benchmark with n items take more cycles than the limit? */
typedef bool more(struct calibrate *c, unsigned n, double limit);

/* The largest n from low to high that does not take more, by bisection down to `step`. */
static struct measured most(struct calibrate *c, more *test, double limit, unsigned low,
                            unsigned high, unsigned step)
{
    while (high - low > step && !c->status) {
        unsigned middle = low + (high - low) / 2 / step * step;
        if (test(c, middle, limit))
            high = middle;
        else
            low = middle;
    }
    return (struct measured){low, low, high - 1};
}

/* The same, doubling n from low on, to within a 16th; 0 if it is not found below the end. */
static struct measured size_from(struct calibrate *c, more *test, double limit, unsigned low,
                                 unsigned end)
{
    while (!c->status && !test(c, 2 * low, limit))
        if ((low *= 2) >= end)
            return (struct measured){0};
    return most(c, test, limit, low, 2 * low, low < 16 ? 1 : low / 16);
}

static struct measured chase(struct calibrate *c, unsigned size)
{
    return calibrate_cost(c, CALIBRATE_PLAIN, "chase %u 64 %d", size, LOADS);
}

static bool chase_more(struct calibrate *c, unsigned size, double limit)
{
    return chase(c, size).value > limit;
}

/* ---- caches ---- */

static struct measured l1_latency(struct calibrate *c)
{
    return chase(c, 16 << 10);
}

static struct measured l1_size(struct calibrate *c)
{
    return size_from(c, chase_more, value(c, "l1d.latency") + 0.5, 16 << 10, 1 << 20);
}

static struct measured l2_latency(struct calibrate *c)
{
    return chase(c, 4 * (unsigned)value(c, "l1d.size"));
}

static struct measured l2_size(struct calibrate *c)
{
    return size_from(c, chase_more, 1.25 * value(c, "l2.latency"),
                     4 * (unsigned)value(c, "l1d.size"), 64 << 20);
}

static struct measured llc_latency(struct calibrate *c)
{
    return chase(c, 3 * (unsigned)value(c, "l2.size"));
}

static struct measured dram_latency(struct calibrate *c)
{
    return calibrate_cost(c, CALIBRATE_PLAIN, "cold 64M %d 16000", PAGE);
}

/* A line has 64 bytes, so the bytes per cycle are the lines per 64 cycles. */
static struct measured reading(struct calibrate *c, unsigned size, unsigned passes)
{
    return rate(calibrate_cost(c, CALIBRATE_AGAIN, "read %u %u", size, passes * size));
}

static struct measured l2_lines(struct calibrate *c)
{
    return reading(c, (unsigned)value(c, "l2.size") / 2, 8);
}

static struct measured mesh_lines(struct calibrate *c)
{
    return reading(c, 3 * (unsigned)value(c, "l2.size"), 4);
}

/* ---- translation: what pages of 4 KB add to a load ---- */

static struct measured translation(struct calibrate *c, unsigned pages)
{
    struct measured small =
        calibrate_cost(c, CALIBRATE_PAGES, "pages %u %d 20000", pages * PAGE, PAGE);
    return less(small, calibrate_cost(c, CALIBRATE_PLAIN, "chase %u %d 20000", pages * PAGE, PAGE));
}

static bool translation_more(struct calibrate *c, unsigned pages, double limit)
{
    return translation(c, pages).value > limit;
}

static struct measured tlb_entries(struct calibrate *c)
{
    return most(c, translation_more, translation(c, 8).value + 1, 8, 512, 1);
}

static unsigned between_tlbs(struct calibrate *c)
{
    return 2 * (unsigned)value(c, "tlb.entries");
}

static struct measured tlb2_entries(struct calibrate *c)
{
    unsigned low = between_tlbs(c);
    return most(c, translation_more, translation(c, low).value + 1, low, 8192, 1);
}

static struct measured tlb2_latency(struct calibrate *c)
{
    return translation(c, between_tlbs(c));
}

static struct measured walk_latency(struct calibrate *c)
{
    return plus(translation(c, 3 * (unsigned)value(c, "tlb2.entries")), -value(c, "tlb2.latency"));
}

/* ---- branches ---- */

static struct measured row(struct calibrate *c, unsigned count)
{
    return calibrate_cost(c, CALIBRATE_AGAIN, "row %u 200", count);
}

static bool row_more(struct calibrate *c, unsigned count, double limit)
{
    return row(c, count).value > limit;
}

static struct measured btb_near(struct calibrate *c)
{
    return size_from(c, row_more, 1.25 * row(c, 8).value, 8, 4096);
}

static struct measured btb_pairs(struct calibrate *c)
{
    struct measured m = calibrate_cost(c, CALIBRATE_AGAIN, "taken16x16 4000");
    return (struct measured){m.value < 0.75, m.high < 0.75, m.low < 0.75};
}

static struct measured mispredict(struct calibrate *c)
{
    struct measured random = calibrate_cost(c, CALIBRATE_PLAIN, "guess 1 40000");
    struct measured steady = calibrate_cost(c, CALIBRATE_PLAIN, "guess 0 40000");
    return plus(times(less(random, steady), 2), -2);
}

static struct measured calls(struct calibrate *c, unsigned depth)
{
    return calibrate_cost(c, CALIBRATE_AGAIN, "calls %u 200", depth);
}

/*
 * One more call takes as long as a misprediction, and so does the next: a full branch target buffer
 * makes only a single such step.
 */
static bool calls_more(struct calibrate *c, unsigned depth, double limit)
{
    double before = calls(c, depth - 1).value, here = calls(c, depth).value;
    return here - before > limit && calls(c, depth + 1).value - here > limit;
}

static struct measured ras_depth(struct calibrate *c)
{
    double each = (calls(c, 7).value - calls(c, 3).value) / 4;
    return most(c, calls_more, each + 0.8 * value(c, "mispredict"), 4, 64, 1);
}

/* ---- the core ---- */

static struct measured width(struct calibrate *c)
{
    return rate(calibrate_cost(c, CALIBRATE_AGAIN, "short 100000"));
}

static struct measured apart(struct calibrate *c, const char *what, unsigned count)
{
    return calibrate_cost(c, CALIBRATE_PLAIN, "window %u %s 500", count, what);
}

static bool apart_nops(struct calibrate *c, unsigned count, double limit)
{
    return apart(c, "nops", count).value > limit;
}

static bool apart_loads(struct calibrate *c, unsigned count, double limit)
{
    return apart(c, "loads", count).value > limit;
}

static bool apart_stores(struct calibrate *c, unsigned count, double limit)
{
    return apart(c, "stores", count).value > limit;
}

/* The two loads and the branch between them are in the window, too. */
static struct measured rob(struct calibrate *c)
{
    double limit = 1.7 * apart(c, "nops", 4).value;
    return plus(most(c, apart_nops, limit, 4, 1024, 1), 3);
}

static struct measured loads(struct calibrate *c)
{
    double limit = 1.7 * apart(c, "nops", 4).value;
    return plus(most(c, apart_loads, limit, 4, 512, 1), 2);
}

static struct measured stores(struct calibrate *c)
{
    double limit = 1.7 * apart(c, "nops", 4).value;
    return most(c, apart_stores, limit, 4, 256, 1);
}

/* ---- execution ---- */

#define COST(name, words)                                                                          \
    static struct measured name(struct calibrate *c)                                               \
    {                                                                                              \
        return calibrate_cost(c, CALIBRATE_PLAIN, words);                                          \
    }
#define RATE(name, words)                                                                          \
    static struct measured name(struct calibrate *c)                                               \
    {                                                                                              \
        return rate(calibrate_cost(c, CALIBRATE_PLAIN, words));                                    \
    }
RATE(pipes_alu, "wide 100000")
RATE(pipes_mul, "muls 100000")
RATE(pipes_branch, "untaken 100000")
RATE(pipes_fp, "fadds 100000")
RATE(pipes_load, "loads 100000")
RATE(pipes_store, "stores 100000")
COST(lat_mul, "mul 50000")
COST(lat_div, "div 50000")
COST(lat_fpadd, "fadd 50000")
COST(lat_fpmul, "fmul 50000")
COST(lat_fpfma, "fma 50000")
COST(lat_fpdiv, "fdiv 50000")
COST(lat_fpsqrt, "fsqrt 50000")
COST(lat_simd, "vadd 50000")
COST(lat_simdmul, "vmul 50000")

static struct measured forward(struct calibrate *c)
{
    return plus(calibrate_cost(c, CALIBRATE_PLAIN, "forward 50000"), -1);
}

static struct measured forward_fail(struct calibrate *c)
{
    return plus(calibrate_cost(c, CALIBRATE_PLAIN, "overlap 50000"), -1 - value(c, "l1d.latency"));
}

static struct measured split_latency(struct calibrate *c)
{
    return plus(calibrate_cost(c, CALIBRATE_PLAIN, "crosses 50000"), -value(c, "l1d.latency"));
}

/* ---- all of them ---- */

static const struct calibrate_claim claims[] = {
#define CLAIM(key, measure, how) {key, measure, how},
#include "calibrate.def"
};
enum { CLAIMS = sizeof claims / sizeof *claims };

const struct calibrate_claim *calibrate_claim(size_t index)
{
    return index < CLAIMS ? &claims[index] : NULL;
}

const struct calibrate_value *calibrate_value(struct calibrate *c, const char *key)
{
    size_t i = 0;
    while (i < CLAIMS - 1 && strcmp(claims[i].key, key))
        i++;
    if (!c->values)
        c->values = memory_get(CLAIMS, sizeof *c->values);
    struct calibrate_value *v = &c->values[i];
    if (!v->known && !c->status) {
        v->measured = claims[i].measure(c);
        v->known = !c->status;
    }
    return v;
}
