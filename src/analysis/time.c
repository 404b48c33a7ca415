/*
 * How much time a record stands for (docs/time.md has the comparison behind this).
 *
 * The time between the timestamps of two records of a queue is exact. A window of records
 * shares its time among them by a weight: what the operation probably cost, in cycles.
 *
 *   its place in dispatch     1 / WIDTH
 *   execution that others     c * c / (c + HIDES), c = (execute - 1) * wait / (wait + execute): an
 *   could not hide            operation that waited for its operands is in a chain, one that did
 *                             not runs beside others; short ones are hidden even in a chain
 *   room in the window        total latency / ROOM: what it kept younger operations from
 *   misprediction             REFILL
 *
 * The numbers are those of a middling core; only their ratios matter, and those little where
 * neighbouring windows differ.
 */
#include "internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { WINDOW = 64, PS = 1000, ALIKE_MOST = 63 };
static const float WIDTH = 4, HIDES = 4, ROOM = 96, REFILL = 16;

/* Several records at a time: whether a term is 0 is unpredictable, and to divide takes long. */
enum { LANES = 4 }; /* as many as all machines have */
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float floats __attribute__((vector_size(4 * LANES)));

/*
 * Absent counters are 0. If both counters are saturated, only the room in the window counts, which
 * is right.
 */
static inline void weigh(const struct spex_record *r, float weights[LANES])
{
#define EACH(field)                                                                                \
    {                                                                                              \
        (int)r[0].field, (int)r[1].field, (int)r[2].field, (int)r[3].field                         \
    }
    const ints total = EACH(total), issue = EACH(issue), events = EACH(events);
#undef EACH
    const ints waited = issue - 1, executed = total - issue - 1; /* beyond one cycle */
    const ints wait = waited & (waited > 0), more = executed & (executed > 0);
    const ints wrong = events >> SPEX_EV_MISPREDICT & 1;
#define FLOATS(x) __builtin_convertvector(x, floats)
    /* c is n / d */
    const floats n = FLOATS(more) * FLOATS(wait), d = FLOATS(wait + more + 1);
    const floats chain = n * n / (d * (n + HIDES * d));
    const floats all = 1 / WIDTH + chain + FLOATS(total) / ROOM + FLOATS(wrong) * REFILL;
#undef FLOATS
    memcpy(weights, &all, sizeof all);
}

static void weigh_all(const struct spex_record *records, size_t count, float *weights)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        weigh(records + i, weights + i);
    if (i < count) {
        struct spex_record rest[LANES] = {{{0}}};
        float of_rest[LANES];
        memcpy(rest, records + i, (count - i) * sizeof *rest);
        weigh(rest, of_rest);
        memcpy(weights + i, of_rest, (count - i) * sizeof *weights);
    }
}

static uint64_t nanoseconds(const struct clock_rules *rules, uint64_t tick)
{
    return rules->counter ? spex_perf_time_to_ns(rules->counter, tick) : tick;
}

/* The records of a batch that are looked at, and what is known of each. */
struct batch {
    const struct clock_rules *rules;
    const struct spex_record *records;
    float weights[CLOCK_RECORDS];
    double sums[CLOCK_RECORDS + 1], squares[CLOCK_RECORDS + 1]; /* of the weights before it */
    struct clock_part *parts;
};

/*
 * Shares the time from `from` to `end` (ns) among records first to behind - 1. If the two halves
 * took different times for their weights, and by more than which operations were sampled explains,
 * each half shares its own: the weights are off, or something long began. The slower half is then
 * one observation (slower: these records are such a half): what made it slow, a wait or a system
 * call, happened once, and might as well have hit other records.
 */
static void share(const struct batch *b, size_t first, size_t behind, uint64_t from, uint64_t end,
                  bool slower)
{
    enum { LEAST = 4 };
    static const double sigmas = 1.5;
    size_t middle = first + (behind - first) / 2;
    const struct spex_record *last = middle > first ? &b->records[middle - 1] : NULL;
    if (behind - first >= 2 * LEAST && last->present & SPEX_HAS_TIMESTAMP) {
        uint64_t at = nanoseconds(b->rules, last->timestamp);
        double w = b->sums[middle] - b->sums[first], x = b->sums[behind] - b->sums[middle];
        double noise = (b->squares[middle] - b->squares[first]) / (w * w) +
                       (b->squares[behind] - b->squares[middle]) / (x * x);
        if (at > from && at < end) {
            double apart = log((double)(at - from) * x / ((double)(end - at) * w));
            if (apart * apart > sigmas * sigmas * noise) {
                share(b, first, middle, from, at, apart > 0);
                share(b, middle, behind, at, end, apart < 0);
                return;
            }
        }
    }
    double each = end > from ? (double)(end - from) * PS / (b->sums[behind] - b->sums[first]) : 0;
    static const double most = 1e17; /* damaged timestamps may lie centuries apart */
    const size_t alike = slower ? behind - first - 1 : 0;
    for (size_t i = first; i < behind; i++) {
        double time = each * (double)b->weights[i] + 0.5;
        b->parts[i].ps = (uint64_t)(time < most ? time : most);
        b->parts[i].alike = alike < ALIKE_MOST ? alike : ALIKE_MOST;
    }
}

/* A window of records that is still open. */
struct window {
    size_t first;
    uint64_t from; /* ns */
};

/* Adds the time from `from` to `end`, which may lie in several intervals. */
static void count_time(const struct clock_intervals *in, uint64_t from, uint64_t end)
{
    const uint64_t first = in->first << in->shift, behind = (in->first + in->count) << in->shift;
    from = from > first ? from : first;
    end = end < behind ? end : behind;
    for (uint64_t next; from < end; from = next) {
        next = ((from >> in->shift) + 1) << in->shift;
        next = next < end ? next : end;
        in->ns[(from >> in->shift) - in->first] += next - from;
    }
}

static void close_window(struct clock *clock, const struct batch *b, const struct window *w,
                         uint64_t end, size_t behind)
{
    if (behind == w->first)
        return;
    clock->spent += end > w->from ? end - w->from : 0;
    if (b->rules->intervals)
        count_time(b->rules->intervals, w->from, end);
    share(b, w->first, behind, w->from, end, false);
}

/* When the queue's next switch comes, as a tick. */
static void look_ahead(struct clock *clock, const struct clock_rules *rules, uint64_t now)
{
    struct span span = {0, UINT64_MAX};
    if (rules->switches)
        span = changes_span(rules->switches, clock->id, now);
    clock->until = span.until == UINT64_MAX || !rules->counter
                       ? span.until
                       : spex_perf_time_from_ns(rules->counter, span.until);
}

/*
 * Something else happened between two records: works out when the work of the first ended (end:
 * its own time before) and when that of the second began.
 */
static void bridge(struct clock *clock, const struct clock_rules *rules, bool other, uint64_t now,
                   uint64_t *end, uint64_t *begin)
{
    uint64_t last = *end, out = last, in = now;
    if (clock->cut) {
        clock->lost += now - last;
    } else {
        struct span before = {0, UINT64_MAX}, after = {0, UINT64_MAX};
        if (rules->switches) {
            before = changes_span(rules->switches, clock->id, last);
            after = changes_span(rules->switches, clock->id, now);
        }
        if (before.until < now && after.from > last) {
            out = before.until > last ? before.until : last;
            in = after.from < now ? after.from : now;
            in = in > out ? in : out;
        } else if (other) {
            out = in = last + (now - last) / 2;
        }
        /*
         * Longer than work can take, so some of it is not work; where work ended or began is not
         * known.
         */
        uint64_t longest = rules->most ? nanoseconds(rules, clock->tick + rules->most) -
                                             nanoseconds(rules, clock->tick)
                                       : UINT64_MAX;
        out = out - last > longest ? last : out;
        in = now - in > longest ? now : in;
        clock->away += in - out;
    }
    *end = out;
    *begin = in;
    clock->cut = false;
    look_ahead(clock, rules, now);
}

static uint64_t who_of(const struct spex_record *r)
{
    if (!(r->present & (SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2)))
        return 0;
    return (uint64_t)r->context[!(r->present & SPEX_HAS_CONTEXT_EL1)] + 1;
}

void clock_share(struct clock *clock, const struct clock_rules *rules,
                 const struct spex_record *records, size_t count, struct clock_part *parts)
{
    struct batch b;
    b.rules = rules; /* not all of it is needed */
    b.records = records;
    b.parts = parts;
    assert(count <= CLOCK_RECORDS);
    size_t pieces = (count + WINDOW / 2) / WINDOW, size = count / (pieces ? pieces : 1);
    uint64_t most = rules->most ? rules->most : UINT64_MAX;
    struct window w = {0, clock->running ? nanoseconds(rules, clock->tick) : 0};
    weigh_all(records, count, b.weights);
    b.sums[0] = b.squares[0] = 0;
    for (size_t i = 0; i < count; i++) {
        const struct spex_record *r = &records[i];
        double cost = b.weights[i];
        b.sums[i + 1] = b.sums[i] + cost;
        b.squares[i + 1] = b.squares[i] + cost * cost;
        if (!(r->present & SPEX_HAS_TIMESTAMP)) /* it shares with its neighbours */
            continue;
        uint64_t tick = r->timestamp > clock->tick ? r->timestamp : clock->tick;
        uint64_t who = who_of(r);
        bool other = who != clock->who, full = i >= w.first + size && count - i >= size;
        if (!clock->running) {
            clock->running = true;
            clock->cut = false;
            w.from = nanoseconds(rules, r->timestamp);
            look_ahead(clock, rules, w.from);
            tick = r->timestamp;
        } else {
            bool apart = clock->cut || other || tick > clock->until || tick - clock->tick > most;
            if (__builtin_expect(full || apart, 0)) {
                uint64_t end = nanoseconds(rules, clock->tick), begin = end;
                if (apart)
                    bridge(clock, rules, other, nanoseconds(rules, tick), &end, &begin);
                close_window(clock, &b, &w, end, i);
                w = (struct window){i, begin};
            }
        }
        clock->tick = tick;
        clock->who = who;
    }
    if (clock->running)
        close_window(clock, &b, &w, nanoseconds(rules, clock->tick), count);
    else
        memset(parts, 0, count * sizeof *parts);
}
