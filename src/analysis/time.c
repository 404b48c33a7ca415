/*
 * How much time a record stands for (docs/time.md has the comparison behind this).
 *
 * The time between the timestamps of two records of a queue is exact. A window of records
 * shares its time among them by a weight: what the operation probably cost, in cycles. Where the
 * code was replayed that is known (replay.h); elsewhere latencies alone tell:
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
#include "replay.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { WINDOW = 128, REPLAYED = 1024, PS = 1000, CALL = 6 };
/*
 * Records that are one observation, with how many others: how much of a gap with a call in it was
 * work is a guess, as good as one about a few records, and what makes a part slow comes once.
 */
enum { ALIKE = 7 };
static const float WIDTH = 4, HIDES = 16, ROOM = 96, REFILL = 16;

/* Several records at a time: whether a term is 0 is unpredictable, and to divide takes long. */
enum { LANES = 4 }; /* all machines have vectors of this length */
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

float clock_weight(const struct spex_record *record)
{
    float weight;
    weigh_all(record, 1, &weight);
    return weight;
}

/* What the instructions cost where that is known. */
static void weigh_replayed(const struct replay *replay, const struct spex_record *records,
                           size_t count, float *weights)
{
    static const float cycle = REPLAY_WEIGHT;
    for (size_t i = 0; i < count; i++) {
        const uint32_t weight = replay_weight(replay, &records[i], record_who(&records[i]));
        weights[i] = weight ? (float)weight / cycle : clock_weight(&records[i]) * replay->others;
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
    struct clock_part *parts;
};
enum { SIDE = 32 }; /* records on each side that tell how long work takes */

struct sums {
    double all, squares;
};

static inline struct sums add_up(const float *weights, size_t count)
{
    typedef float some __attribute__((vector_size(8)));
    typedef double wide __attribute__((vector_size(16)));
    wide all = {0}, squares = {0};
    size_t i = 0;
    for (; i + 2 <= count; i += 2) {
        some weight;
        memcpy(&weight, weights + i, sizeof weight);
        const wide cost = __builtin_convertvector(weight, wide);
        all += cost;
        squares += cost * cost;
    }
    struct sums sums = {all[0] + all[1], squares[0] + squares[1]};
    if (i < count) {
        const double cost = weights[i];
        sums.all += cost;
        sums.squares += cost * cost;
    }
    return sums;
}

/*
 * Shares the time from `from` to `end` (ns) among records first to behind - 1. If the two halves
 * took different times for their weights, and by more than which operations were sampled explains,
 * each half shares its own: the weights are off, or something long began. In the slower half some
 * records are then one observation: what made it slow, a wait or a system call, happened once, and
 * might as well have hit others. together: with how many others each of these records is one
 * already.
 */
static void share(const struct batch *b, size_t first, size_t behind, uint64_t from, uint64_t end,
                  size_t together)
{
    enum { LEAST = 4 };
    const double sigmas = b->rules->replay ? 3 : 1.5;
    size_t middle = first + (behind - first) / 2;
    const struct spex_record *last = middle > first ? &b->records[middle - 1] : NULL;
    const struct sums w = add_up(b->weights + first, middle - first);
    const struct sums x = add_up(b->weights + middle, behind - middle);
    if (behind - first >= 2 * LEAST && last->present & SPEX_HAS_TIMESTAMP) {
        uint64_t at = nanoseconds(b->rules, last->timestamp);
        double noise = w.squares / (w.all * w.all) + x.squares / (x.all * x.all);
        if (at > from && at < end) {
            double apart = log((double)(at - from) * x.all / ((double)(end - at) * w.all));
            if (apart * apart > sigmas * sigmas * noise) {
                share(b, first, middle, from, at, apart > 0 ? ALIKE : 0);
                share(b, middle, behind, at, end, apart < 0 ? ALIKE : 0);
                return;
            }
        }
    }
    const double each = end > from ? (double)(end - from) * PS / (w.all + x.all) : 0;
    static const double most = 1e17; /* damaged timestamps may lie centuries apart */
    const size_t others = behind - first - 1;
    const unsigned alike = (unsigned)(others < together ? others : together);
    for (size_t i = first; i < behind; i++) {
        double time = each * (double)b->weights[i] + 0.5;
        time = time < most ? time : most;
        b->parts[i] = (struct clock_part){(uint64_t)(int64_t)time, alike};
    }
}

/* A window of records that is still open. */
struct window {
    size_t first;
    uint64_t from; /* ns */
    bool beside;   /* a call */
};

/* Adds the time from `from` to `end`, which may lie in several intervals. */
static void count_time(const struct spex_time_bins *in, uint64_t from, uint64_t end)
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
    share(b, w->first, behind, w->from, end, w->beside ? ALIKE : 0);
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
            out = before.until + 1; /* no later than now */
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

/* Seldom is the time between two records of first to behind - 1 and those before them shorter. */
static double short_gap(const struct batch *b, size_t first, size_t behind, double otherwise)
{
    enum { SELDOM = 8, KEPT = SIDE / SELDOM + 1 };
    uint64_t least[KEPT + 1]; /* ascending; the last is for all other values */
    size_t count = 0;
    for (size_t i = first; i < behind; i++) {
        const struct spex_record *r = &b->records[i], *last = r - 1;
        if (!(r->present & last->present & SPEX_HAS_TIMESTAMP) || r->timestamp < last->timestamp)
            continue;
        size_t at = count < KEPT ? count : KEPT;
        for (; at && least[at - 1] > r->timestamp - last->timestamp; at--)
            least[at] = least[at - 1];
        least[at] = r->timestamp - last->timestamp;
        count++;
    }
    return count ? (double)least[count / SELDOM] : otherwise;
}

static double mean_weight(const struct batch *b, size_t first, size_t behind)
{
    return add_up(b->weights + first, behind - first).all / (double)(behind - first);
}

/*
 * A gap before record i that is many times those on both sides of it, and that the latencies beside
 * it do not explain: a system call or a fault, where the kernel is not sampled. Returns how many of
 * its ticks are work that records show, or all of them. Where slow code begins or ends, one of the
 * sides is slow too; at the end of a batch that cannot be told.
 */
static uint64_t work_in(const struct clock *clock, const struct batch *b, size_t i, size_t count,
                        uint64_t gap)
{
    enum { BESIDE = 4 };
    const size_t first = i > SIDE ? i - SIDE : 0;
    const size_t behind = count - i > SIDE ? i + 1 + SIDE : count;
    const double before = short_gap(b, first + 1, i, clock->usual);
    const double after = short_gap(b, i + 1, behind, (double)gap);
    const double usual = before > after ? before : after;
    const double slower =
        mean_weight(b, i > BESIDE ? i - BESIDE : 0, count - i > BESIDE ? i + BESIDE : count) /
        mean_weight(b, first, behind);
    const double work = slower > 1 ? usual * slower : usual;
    return work > 0 && (double)gap > CALL * work ? (uint64_t)work : gap;
}

/* Ticks between two records that need no look. */
static uint64_t ordinary_gap(const struct clock *clock, const struct clock_rules *rules)
{
    const uint64_t most = rules->most && rules->most < INT64_MAX ? rules->most : INT64_MAX;
    const double call = CALL * clock->usual;
    return rules->user_only && call < (double)most ? (uint64_t)call : most;
}

/* Notes that `count` gaps took this many ticks. */
static void note_usual(struct clock *clock, size_t gaps, uint64_t ticks)
{
    enum { MEMORY = 1024 }; /* gaps before these */
    if (gaps)
        clock->usual += ((double)ticks - (double)gaps * clock->usual) /
                        (double)(gaps + (clock->usual > 0 ? MEMORY : 0));
}

/* The windows of count records are of this size, but for the last. */
static size_t window_size(const struct clock_rules *rules, size_t count)
{
    const size_t most = rules->replay ? REPLAYED : WINDOW;
    const size_t windows = (count + most / 2) / most;
    return count / (windows ? windows : 1);
}

static void share_any(struct clock *clock, const struct batch *b, size_t count)
{
    const struct clock_rules *rules = b->rules;
    const size_t size = window_size(b->rules, count);
    const uint64_t most = rules->most ? rules->most : UINT64_MAX;
    const uint64_t ordinary = ordinary_gap(clock, rules);
    struct window w = {0, clock->running ? nanoseconds(rules, clock->tick) : 0, false};
    size_t gaps = 0;
    uint64_t ticks = 0;
    for (size_t i = 0; i < count; i++) {
        const struct spex_record *r = &b->records[i];
        if (!(r->present & SPEX_HAS_TIMESTAMP)) /* shares the time of its neighbours */
            continue;
        uint64_t tick = r->timestamp > clock->tick ? r->timestamp : clock->tick;
        uint64_t who = record_who(r);
        bool other = who != clock->who, full = i >= w.first + size && count - i >= size;
        if (!clock->running) {
            clock->running = true;
            clock->cut = false;
            w.from = nanoseconds(rules, r->timestamp);
            look_ahead(clock, rules, w.from);
            tick = r->timestamp;
        } else {
            const uint64_t gap = tick - clock->tick;
            uint64_t end = nanoseconds(rules, clock->tick), begin = end, work = gap;
            bool apart = clock->cut || other || tick > clock->until || gap > most;
            if (apart) {
                bridge(clock, rules, other, nanoseconds(rules, tick), &end, &begin);
            } else {
                work = gap > ordinary ? work_in(clock, b, i, count, gap) : gap;
                gaps++;
                ticks += work;
            }
            if (work < gap) {
                const uint64_t half = i > w.first ? work / 2 : 0;
                end = nanoseconds(rules, clock->tick + half);
                begin = nanoseconds(rules, tick - (work - half));
                clock->unseen += begin - end;
            }
            if (full || apart || work < gap) {
                w.beside |= work < gap;
                close_window(clock, b, &w, end, i);
                w = (struct window){i, begin, work < gap};
            }
        }
        clock->tick = tick;
        clock->who = who;
    }
    note_usual(clock, gaps, ticks);
    if (clock->running)
        close_window(clock, b, &w, nanoseconds(rules, clock->tick), count);
    else
        memset(b->parts, 0, count * sizeof *b->parts);
}

/* Nothing happens in these records but work: what most of a batch is, told without branches. */
static bool is_steady(const struct clock *clock, const struct clock_rules *rules,
                      const struct spex_record *records, size_t count)
{
    const unsigned who = SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2,
                   both = SPEX_HAS_TIMESTAMP | who;
    const uint64_t most = ordinary_gap(clock, rules);
    const struct spex_record *last = &records[count - 1];
    const unsigned present = (records->present & who) | SPEX_HAS_TIMESTAMP;
    const unsigned level = !(present & SPEX_HAS_CONTEXT_EL1);
    const uint32_t context = records->context[level];
    uint64_t tick = clock->tick;
    unsigned other = 0, late = 0;
    if (!clock->running || clock->cut || record_who(records) != clock->who ||
        last->timestamp > clock->until)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct spex_record *r = &records[i];
        other |= ((r->present & both) ^ present) | (r->context[level] ^ context);
        late |= r->timestamp - tick > most; /* or before the last */
        tick = r->timestamp;
    }
    return !(other | late);
}

static void share_steady(struct clock *clock, const struct batch *b, size_t count)
{
    const size_t size = window_size(b->rules, count);
    struct window w = {0, nanoseconds(b->rules, clock->tick), false};
    note_usual(clock, count, b->records[count - 1].timestamp - clock->tick);
    while (w.first < count) {
        size_t behind = count - w.first >= 2 * size ? w.first + size : count;
        clock->tick = b->records[behind - 1].timestamp;
        uint64_t end = nanoseconds(b->rules, clock->tick);
        close_window(clock, b, &w, end, behind);
        w = (struct window){behind, end, false};
    }
}

void clock_share(struct clock *clock, const struct clock_rules *rules,
                 const struct spex_record *records, size_t count, struct clock_part *parts)
{
    struct batch b;
    b.rules = rules; /* the rest needs no initialization */
    b.records = records;
    b.parts = parts;
    assert(count <= CLOCK_RECORDS);
    if (!count)
        return;
    if (rules->replay)
        weigh_replayed(rules->replay, records, count, b.weights);
    else
        weigh_all(records, count, b.weights);
    if (__builtin_expect(is_steady(clock, rules, records, count), 1))
        share_steady(clock, &b, count);
    else
        share_any(clock, &b, count);
}
