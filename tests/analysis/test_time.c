/* Whose time it is: exact sums, switches, other threads, lost data, idling, no timestamps. */
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
    clock_share(&clock, &rules, records, N, spent);
    assert_in_range(sum(0, N), 25499, 25500);
    assert_int_equal(clock.spent, 25500);
    fill(10, 1000 + 100 * N); /* the next batch goes on */
    clock_share(&clock, &rules, records, 10, spent);
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
    clock_share(&clock, &rules, records, N, spent);
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
    clock_share(&clock, &rules, records, N, spent);
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
    clock_share(&clock, &rules, records, N, spent);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(spent[i].alike, 0);
    for (size_t i = 100; i < N; i++)
        records[i].timestamp += 50000;
    clock = (struct clock){0};
    clock_share(&clock, &rules, records, N, spent);
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
    struct clock_intervals in = {.first = 3, .ns = ns, .shift = 12, .count = 6};
    const struct clock_rules rules = {.most = 9000, .intervals = &in};
    fill(N, 2 * 4096); /* from the interval before the first on */
    for (size_t i = 50; i < N; i++)
        records[i].timestamp += 20000; /* nobody worked so long */
    clock_share(&clock, &rules, records, N, spent);
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
    clock_share(&clock, &rules, records, N, spent);
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
    clock_share(&clock, &rules, records, N, spent);
    assert_true(spent[4].ps > 20 * spent[5].ps);
}

/* A switch out at 550 and in at 2050: in between nobody of this queue worked. */
static void switched_out(void **state)
{
    struct change list[] = {{3, 550}, {3, 2050}, {4, 700}};
    const struct changes switches = {list, 3, 3};
    const struct clock_rules rules = {.switches = &switches};
    struct clock clock = {.id = 3};
    fill(12, 0);
    for (size_t i = 6; i < 12; i++) {
        records[i].timestamp = 2100 + 100 * (i - 6);
        records[i].context[0] = 8;
    }
    clock_share(&clock, &rules, records, 12, spent);
    assert_in_range(sum(0, 6), 549, 550);
    assert_in_range(sum(6, 12), 548, 550);
    assert_in_range(clock.away, 1499, 1501);
}

/* The same thread comes back. */
static void switched_out_and_back(void **state)
{
    struct change list[] = {{3, 550}, {3, 2050}};
    const struct changes switches = {list, 2, 2};
    const struct clock_rules rules = {.switches = &switches};
    struct clock clock = {.id = 3};
    fill(12, 0);
    for (size_t i = 6; i < 12; i++)
        records[i].timestamp += 1500;
    clock_share(&clock, &rules, records, 12, spent);
    assert_in_range(sum(0, 6), 549, 550);
    assert_in_range(clock.away, 1499, 1501);
}

/* Without switch events, each of two threads gets half of the time between them. */
static void other_thread(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(10, 0);
    for (size_t i = 5; i < 10; i++)
        records[i].context[0] = 8;
    clock_share(&clock, &rules, records, 10, spent);
    assert_in_range(sum(0, 5), 449, 450);
    assert_in_range(sum(5, 10), 449, 450);
    assert_int_equal(clock.away, 0);
}

static void lost_data(void **state)
{
    struct clock clock = {0};
    const struct clock_rules rules = {0};
    fill(10, 0);
    clock_share(&clock, &rules, records, 10, spent);
    clock.cut = true;
    fill(10, 50000);
    clock_share(&clock, &rules, records, 10, spent);
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
    clock_share(&clock, &rules, records, 10, spent);
    assert_int_equal(clock.spent, 800);
    assert_int_equal(clock.away, 1000000 - 800);
}

/* A thread ended at 550; nobody says when the other, long after, began. */
static void idle_between_threads(void **state)
{
    struct change list[] = {{3, 550}};
    const struct changes switches = {list, 1, 1};
    for (unsigned told = 0; told < 2; told++) {
        const struct clock_rules rules = {.most = 10000, .switches = told ? &switches : NULL};
        struct clock clock = {.id = 3};
        fill(12, 0);
        for (size_t i = 6; i < 12; i++) {
            records[i].timestamp = 1000000 + 100 * (i - 6);
            records[i].context[0] = 8;
        }
        clock_share(&clock, &rules, records, 12, spent);
        uint64_t end = told ? 550 : 500;
        assert_in_range(sum(0, 6), end - 1, end);
        assert_in_range(sum(6, 12), 499, 500);
        assert_int_equal(clock.away, 1000000 - end);
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
    clock_share(&clock, &rules, records, 10, spent);
    assert_int_equal(sum(0, 10) + clock.spent, 0);
    fill(10, 0);
    records[4].present &= ~SPEX_HAS_TIMESTAMP;
    records[6].timestamp = 10;
    clock_share(&clock, &rules, records, 10, spent);
    assert_int_equal(clock.spent, 900);
    assert_in_range(sum(0, 10), 899, 900);
    assert_true(spent[4].ps > 0 && spent[6].ps > 0);
}

TEST_MAIN(TEST(all_of_the_time), TEST(counter), TEST(phases), TEST(one_observation),
          TEST(intervals), TEST(by_cost), TEST(mispredicted), TEST(switched_out),
          TEST(switched_out_and_back), TEST(other_thread), TEST(idle_between_threads),
          TEST(lost_data), TEST(idle), TEST(odd_timestamps))
