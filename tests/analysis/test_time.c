/*
 * Whose time it is: exact sums, switches, other threads, lost data, idling, calls that nobody
 * samples, no timestamps.
 */
#include "support/test.h"

#include "analysis/internal.h"

#include <string.h>

enum { N = 256 };
static struct spex_record records[N];
static struct clock_part spent[N];

/* count records 100 ticks apart from a tick on, of one thread and without latencies. */
static void fill(size_t count, uint64_t from)
{
    memset(records, 0, sizeof records);
    for (size_t i = 0; i < count; i++)
        records[i] = (struct spex_record){.present = SPEX_HAS_TIMESTAMP | SPEX_HAS_TOTAL |
                                                     SPEX_HAS_ISSUE | SPEX_HAS_CONTEXT_EL1,
                                          .timestamp = from + 100 * i,
                                          .context = {7},
                                          .total = 2,
                                          .issue = 1};
}

/* In the midst of a recording: a record comes before, at the same time. */
static bool running;

static void share(struct clock *clock, const struct clock_rules *rules, size_t count)
{
    struct clock_part before;
    if (running && !clock->running)
        clock_share(clock, rules, records, 1, &before);
    clock_share(clock, rules, records, count, spent);
}

static uint64_t sum(size_t from, size_t to)
{
    uint64_t all = 0;
    for (size_t i = from; i < to; i++)
        all += spent[i].ps;
    return all / 1000;
}

static void all_of_the_time(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(N, 1000);
    share(&clock, &rules, N);
    assert_in_range(sum(0, N), 25499, 25500);
    assert_int_equal(clock.spent, 25500);
    fill(10, 1000 + 100 * N); /* the next batch goes on */
    share(&clock, &rules, 10);
    assert_in_range(sum(0, 10), 999, 1000);
    assert_int_equal(clock.spent, 26500);
    assert_int_equal(clock.away + clock.lost, 0);
}

/* A counter of 25 MHz: nanoseconds come out. */
static void counter(void **state)
{
    struct clock clock = {0};
    struct spex_perf_time time;
    spex_perf_time_init(&time, 25000000);
    const struct clock_rules rules = {.counter = &time};
    fill(N, 5000);
    share(&clock, &rules, N);
    assert_in_range(clock.spent, 25500 * 40 - 1, 25500 * 40 + 1);
}

/* Phases: the slow half has its own time, to the record or nearly. */
static void phases(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(N, 0);
    for (size_t i = N / 2; i < N; i++)
        records[i].timestamp = 100 * (N / 2) + 5000 * (i - N / 2);
    share(&clock, &rules, N);
    uint64_t slow = sum(N / 2, N);
    assert_true(slow > 5000 * (N / 2 - 4) && slow <= 5000 * (N / 2));
}

/*
 * One long wait among records that are all alike: those that share its time are one observation,
 * the others one each. Where nothing is long, and in the middle of a long phase, each is one.
 */
static void one_observation(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(N, 0);
    share(&clock, &rules, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(spent[i].alike, 0);
    for (size_t i = 100; i < N; i++)
        records[i].timestamp += 50000;
    clock = (struct clock){0};
    share(&clock, &rules, N);
    size_t together = 0;
    for (size_t i = 0; i < N; i++) {
        bool slow = spent[i].ps > 1000 * 1000;
        assert_int_equal(spent[i].alike > 0, slow);
        together += slow;
    }
    assert_in_range(together, 2, 8);
    assert_int_equal(spent[100].alike + 1, together);
}

/* Where the time lies: what intervals hold is exact, whoever has it. */
static void intervals(void **state)
{
    struct clock clock = {0};
    uint64_t ns[6] = {0};
    struct spex_time_bins in = {.first = 3, .ns = ns, .shift = 12, .count = 6};
    const struct clock_rules rules = {.most = 9000, .intervals = &in};
    fill(N, 2 * 4096); /* from the interval before the first on */
    for (size_t i = 50; i < N; i++)
        records[i].timestamp += 20000; /* nobody worked so long */
    share(&clock, &rules, N);
    const uint64_t from =
        2 * 4096 + 4900 + 20000 + 100; /* the second run; the first has 4,900 ns */
    const uint64_t want[6] = {2 * 4096 + 4900 - 3 * 4096, 0, 0, 0, 0, 9 * 4096 - from};
    assert_memory_equal(ns, want, sizeof want);
    assert_int_equal(clock.spent, 4900 + 100 * (N - 51));
}

/* The same time for all, but one kind waits and executes long: it has the time. */
static void by_cost(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(N, 0);
    for (size_t i = 0; i < N; i += 2) {
        records[i].issue = 400;
        records[i].total = 500;
    }
    share(&clock, &rules, N);
    uint64_t dear = 0;
    for (size_t i = 0; i < N; i += 2)
        dear += spent[i].ps / 1000;
    assert_true(dear > 0.98 * 25500);
}

static void mispredicted(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(N, 0);
    for (size_t i = 0; i < N; i++)
        records[i].events = i % 4 ? 0 : UINT64_C(1) << SPEX_EV_MISPREDICT;
    share(&clock, &rules, N);
    assert_true(spent[4].ps > 20 * spent[5].ps);
}

/* A switch out at 550 and in at 2050: in between nobody of this queue worked. */
static void switched_out(void **state)
{
    struct change list[] = {{3, 0, 550}, {3, 0, 2050}, {4, 0, 700}};
    const struct changes switches = {list, 3, 3};
    const struct clock_rules rules = {.switches = &switches};
    struct clock clock = {.id = 3};
    fill(12, 0);
    for (size_t i = 6; i < 12; i++) {
        records[i].timestamp = 2100 + 100 * (i - 6);
        records[i].context[0] = 8;
    }
    share(&clock, &rules, 12);
    assert_in_range(sum(0, 6), 549, 550);
    assert_in_range(sum(6, 12), 548, 550);
    assert_in_range(clock.away, 1499, 1501);
}

/* The same thread comes back. */
static void switched_out_and_back(void **state)
{
    struct change list[] = {{3, 0, 550}, {3, 0, 2050}};
    const struct changes switches = {list, 2, 2};
    const struct clock_rules rules = {.switches = &switches};
    struct clock clock = {.id = 3};
    fill(12, 0);
    for (size_t i = 6; i < 12; i++)
        records[i].timestamp += 1500;
    share(&clock, &rules, 12);
    assert_in_range(sum(0, 6), 549, 550);
    assert_in_range(clock.away, 1499, 1501);
}

/* Without switch events, each of two threads gets half of the time between them. */
static void other_thread(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    for (unsigned absent = 0; absent < 2; absent++) { /* not the same as that of number 0 */
        clock = (struct clock){0};
        fill(10, 0);
        for (size_t i = 0; i < 10; i++) {
            records[i].context[0] = i >= 4 && !absent ? 8 : 0;
            if (i >= 4 && absent)
                records[i].present &= (uint16_t)~SPEX_HAS_CONTEXT_EL1;
        }
        share(&clock, &rules, 10);
        assert_in_range(sum(0, 4), 349, 350);
        assert_in_range(sum(4, 10), 549, 550);
        assert_int_equal(clock.away, 0);
    }
}

static void lost_data(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(10, 0);
    share(&clock, &rules, 10);
    clock.cut = true;
    fill(10, 50000);
    share(&clock, &rules, 10);
    assert_in_range(sum(0, 10), 899, 900);
    assert_int_equal(clock.lost, 50000 - 900);
    assert_int_equal(clock.spent, 1800);
}

/* Longer than any work: idle. */
static void idle(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {.most = 10000};
    fill(10, 0);
    records[9].timestamp = 1000000;
    share(&clock, &rules, 10);
    assert_int_equal(clock.spent, 800);
    assert_int_equal(clock.away, 1000000 - 800);
}

/* A thread ended at 550; nobody says when the other, long after, began. */
static void idle_between_threads(void **state)
{
    struct change list[] = {{3, 0, 550}};
    const struct changes switches = {list, 1, 1};
    for (unsigned told = 0; told < 2; told++) {
        const struct clock_rules rules = {.most = 10000, .switches = told ? &switches : NULL};
        struct clock clock = {.id = 3};
        fill(12, 0);
        for (size_t i = 6; i < 12; i++) {
            records[i].timestamp = 1000000 + 100 * (i - 6);
            records[i].context[0] = 8;
        }
        share(&clock, &rules, 12);
        uint64_t end = told ? 550 : 500;
        assert_in_range(sum(0, 6), end - 1, end);
        assert_in_range(sum(6, 12), 499, 500);
        assert_int_equal(clock.away, 1000000 - end);
    }
}

/* Later by so much from record `from` on: something happened before it. */
static void delay(size_t from, uint64_t ticks)
{
    for (size_t i = from; i < N; i++)
        records[i].timestamp += ticks;
}

/*
 * Calls of a kernel that is not sampled are in nobody's time, whoever is beside them: alone, one
 * after the other, at the start, and between batches. Those beside one are one observation.
 */
static void calls(void **state)
{
    static const size_t at[] = {3, 5, 100, 101, 103, 200, 250};
    enum { CALLS = sizeof at / sizeof *at };
    struct clock clock = {0};
    const struct clock_rules rules = {.user_only = true};
    fill(N, 0);
    for (size_t i = 0; i < CALLS; i++)
        delay(at[i], 5000);
    share(&clock, &rules, N);
    assert_int_equal(clock.unseen, 5000 * CALLS);
    assert_int_equal(clock.spent, 25500);
    for (size_t i = 1; i < N; i++)
        assert_in_range(spent[i].ps, 40000, 210000);
    assert_true(spent[99].alike == 7 &&
                spent[102].alike == 1); /* eight are one, or all there are */
    fill(N, 25500 + 5000 * CALLS + 4000);
    share(&clock, &rules, N);
    assert_int_equal(clock.unseen, 5000 * CALLS + 3900);
    assert_int_equal(clock.spent, 2 * 25500 + 100);
    assert_in_range(sum(0, N), 25599, 25600);
    fill(N, 2 * 25500 + 5000 * CALLS + 4100); /* and where nothing happened before for long */
    delay(130, 700);
    share(&clock, &rules, N);
    assert_int_equal(clock.unseen, 5000 * CALLS + 3900 + 700);
}

/* Where the kernel is sampled a long gap is time like any. */
static void no_calls(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(N, 0);
    delay(100, 5000);
    share(&clock, &rules, N);
    assert_int_equal(clock.unseen, 0);
    assert_in_range(sum(0, N), 30499, 30500);
}

/* Slow code begins, wherever in a batch, goes on for batches, and ends: all of it is work. */
static void slow_code(void **state)
{
    static const size_t begins[] = {1, 2, 7, 100, 128, 240, 255};
    const struct clock_rules rules = {.user_only = true};
    for (size_t k = 0; k < sizeof begins / sizeof *begins; k++) {
        struct clock clock = {0};
        uint64_t now = 0, all = 0;
        for (size_t batch = 0; batch < 12; batch++) {
            fill(N, 0);
            for (size_t i = 0; i < N; i++) {
                bool slow = batch > 2 && batch < 9 && (batch > 3 || i >= begins[k]) &&
                            (batch < 8 || i < begins[k]);
                now += slow ? 2000 : 100;
                records[i].timestamp = now;
            }
            share(&clock, &rules, N);
            all += sum(0, N);
        }
        assert_int_equal(clock.unseen, 0);
        assert_int_equal(clock.spent, now - 100);
        assert_in_range(all, now - 100 - 12, now - 100);
    }
}

/* A gap that the latencies on both sides of it explain, and the same gap where they do not. */
static void slow_operations(void **state)
{
    const struct clock_rules rules = {.user_only = true};
    for (unsigned waits = 0; waits < 2; waits++) {
        struct clock clock = {0};
        fill(N, 0);
        delay(100, 2000);
        for (size_t i = 98; waits && i < 102; i++) {
            records[i].issue = 200;
            records[i].total = 400;
        }
        share(&clock, &rules, N);
        assert_int_equal(clock.unseen, waits ? 0 : 2000);
    }
}

/* Without timestamps there is none, with some the others go along; time does not go back. */
static void odd_timestamps(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(10, 0);
    for (size_t i = 0; i < 10; i++)
        records[i].present &= ~SPEX_HAS_TIMESTAMP;
    memset(spent, 0xff, sizeof spent);
    share(&clock, &rules, 10);
    assert_int_equal(sum(0, 10) + clock.spent, 0);
    fill(10, 0);
    records[4].present &= ~SPEX_HAS_TIMESTAMP;
    records[6].timestamp = 10;
    share(&clock, &rules, 10);
    assert_int_equal(clock.spent, 900);
    assert_in_range(sum(0, 10), 899, 900);
    assert_true(spent[4].ps > 0 && spent[6].ps > 0);
}

/* One of the records is odd, or the first of all: the time between has no owner, or two. */
static void one_odd_record(void **state)
{
    const struct clock_rules rules = {0};
    struct clock clock = {0};
    fill(10, 5000);
    for (size_t i = 0; i < 10; i++)
        records[i].present = SPEX_HAS_TIMESTAMP, records[i].context[0] = 0;
    share(&clock, &rules, 10);
    assert_int_equal(clock.spent, 900);

    clock = (struct clock){0};
    fill(10, 0);
    share(&clock, &rules, 10);
    fill(10, 1000); /* all of the batch is of another thread */
    for (size_t i = 0; i < 10; i++)
        records[i].context[0] = 8;
    share(&clock, &rules, 10);
    assert_in_range(sum(0, 10), 949, 950);

    clock = (struct clock){0};
    fill(N, 100);
    records[63].timestamp = 10; /* time does not go back */
    share(&clock, &rules, N);
    assert_int_equal(clock.spent, 25500);
    assert_in_range(sum(0, N), 25499, 25500);
}

/* All of these again where a batch goes on. */
static void within(void **state)
{
    void (*const each[])(void **) = {all_of_the_time,
                                     counter,
                                     phases,
                                     one_observation,
                                     intervals,
                                     by_cost,
                                     mispredicted,
                                     switched_out,
                                     switched_out_and_back,
                                     other_thread,
                                     idle_between_threads,
                                     lost_data,
                                     idle,
                                     calls,
                                     no_calls,
                                     slow_code,
                                     slow_operations,
                                     odd_timestamps,
                                     one_odd_record};
    running = true;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        each[i](state);
}

/*
 * An event is in force from its own time on, so a state that was found at that time holds from
 * there: else which of two threads of the analysis asks first would decide.
 */
static void changes_by_time(void **state)
{
    struct change items[] = {{7, 0, 100}, {7, 0, 200}, {8, 0, 150}};
    const struct changes changes = {items, 3, 3};
    static const struct {
        uint64_t time;
        struct span span;
    } rows[] = {{0, {0, 99}},
                {99, {0, 99}},
                {100, {100, 199}},
                {199, {100, 199}},
                {200, {200, UINT64_MAX}},
                {201, {200, UINT64_MAX}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct span span = changes_span(&changes, 7, rows[i].time);
        assert_int_equal(span.from, rows[i].span.from);
        assert_int_equal(span.until, rows[i].span.until);
    }
}

TEST_MAIN(TEST(changes_by_time), TEST(all_of_the_time), TEST(counter), TEST(phases),
          TEST(one_observation), TEST(intervals), TEST(by_cost), TEST(mispredicted),
          TEST(switched_out), TEST(switched_out_and_back), TEST(other_thread),
          TEST(idle_between_threads), TEST(lost_data), TEST(idle), TEST(calls), TEST(no_calls),
          TEST(slow_code), TEST(slow_operations), TEST(odd_timestamps), TEST(one_odd_record),
          TEST(within))
