/* Events, data sources and latencies of operations, against values worked out by hand. */
#include "uarch/support.h"

enum {
    L1 = 1 << 2,
    L1_MISS = 1 << 3,
    TLB = 1 << 4,
    WALK = 1 << 5,
    LLC = 1 << 8,
    LLC_MISS = 1 << 9,
    REMOTE = 1 << 10,
    MISALIGNED = 1 << 11,
    L2 = 1 << 19,
    L2_MISS = 1 << 20,
    MODIFIED = 1 << 21,
    RECENT = 1 << 22,
    SNOOPED = 1 << 23,
};

/* ---- events and data sources, one row for each way an access can go ---- */

static void test_events(void **state)
{
    SPEC(DAT-63);
    SPEC(DAT-64);
    SPEC(PKT-88);
    SPEC(PKT-89);
    SPEC(PKT-90);
    SPEC(PKT-91);
    struct machine m = machine_new("sockets=2,cluster=2");
    struct spex_op load = op_make(SPEX_EXEC_LOAD, 0, 1, -1),
                   store = op_make(SPEX_EXEC_STORE, -1, 0, 1),
                   atomic = op_make(SPEX_EXEC_ATOMIC, 0, 1, 2);
    struct row {
        const struct spex_op *op;
        uarch_result result;
        uint32_t events;
        int source; /* -1 none */
    } rows[] = {
        {&load, 0, L1 | TLB, 0x0},
        {&load, SPEX_UARCH_L2 | 11 << 16, L1 | L1_MISS | TLB | L2, 0x8},
        {&load, SPEX_UARCH_LLC | 75 << 16, L1 | L1_MISS | TLB | L2 | L2_MISS | LLC, 0xb},
        {&load, SPEX_UARCH_DRAM | 280 << 16, L1 | L1_MISS | TLB | L2 | L2_MISS | LLC | LLC_MISS,
         0xe},
        {&load, SPEX_UARCH_PEER | SPEX_UARCH_SNOOPED | 60 << 16,
         L1 | L1_MISS | TLB | L2 | L2_MISS | LLC | LLC_MISS | SNOOPED, 0x9},
        {&load, SPEX_UARCH_FAR | SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED | 60 << 16,
         L1 | L1_MISS | TLB | L2 | L2_MISS | LLC | LLC_MISS | SNOOPED | MODIFIED, 0xc},
        {&load, SPEX_UARCH_REMOTE | SPEX_UARCH_SOCKET | 300 << 16,
         L1 | L1_MISS | TLB | L2 | L2_MISS | LLC | LLC_MISS | REMOTE, 0xd},
        {&load, SPEX_UARCH_DRAM | SPEX_UARCH_SOCKET | 500 << 16,
         L1 | L1_MISS | TLB | L2 | L2_MISS | LLC | LLC_MISS | REMOTE, 0xd},
        {&load, SPEX_UARCH_L1 | SPEX_UARCH_TLB_MISS | 4 << 16 | 5ull << 32, L1 | TLB, 0x0},
        {&load, SPEX_UARCH_L1 | SPEX_UARCH_TLB_MISS | SPEX_UARCH_WALK | 4 << 16 | 30ull << 32,
         L1 | TLB | WALK, 0x0},
        /* on its way, and where it comes from */
        {&load, SPEX_UARCH_L1 | SPEX_UARCH_RECENT | SPEX_UARCH_LLC << 13 | 40 << 16,
         L1 | TLB | RECENT, 0xb},
        {&atomic, SPEX_UARCH_PEER | SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED | 60 << 16,
         L1 | L1_MISS | TLB | L2 | L2_MISS | LLC | LLC_MISS | SNOOPED | MODIFIED, 0x9},
        /* Stores: no data source, and the events that are for loads alone stay 0. */
        {&store, 0, L1 | TLB, -1},
        {&store, SPEX_UARCH_PEER | SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED | 60 << 16,
         L1 | L1_MISS | TLB | LLC | LLC_MISS, -1},
        {&store, SPEX_UARCH_L2 | SPEX_UARCH_TLB_MISS | SPEX_UARCH_WALK | 11 << 16 | 70ull << 32,
         L1 | L1_MISS | TLB | WALK, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spex_access access = {.flags = SPEX_ACC_VA};
        timing_access_outcome(m.core, rows[i].op, 0x1000, 8, rows[i].result, &access);
        if (access.events != rows[i].events)
            fail_msg("row %zu: events %#llx, want %#x", i, (unsigned long long)access.events,
                     rows[i].events);
        assert_int_equal(access.flags, SPEX_ACC_VA | (rows[i].source >= 0 ? SPEX_ACC_SOURCE : 0));
        if (rows[i].source >= 0)
            assert_int_equal(access.data_source, rows[i].source);
        assert_int_equal(access.translation, rows[i].result >> 32);
    }
    timing_free(m.timing);
}

/* ---- latencies ---- */

struct run {
    struct machine m;
    struct spex_op ops[64];
    unsigned count;
    struct timing_block block;
    timing_access access[64];
    unsigned access_count;
    struct account_insn time[64];
    uarch_result result[64];
};

/* No prefetchers, no time for the first use of what is large. */
#define PLAIN "prefetch=none,width=16,page.size=2M"

static struct run run_new(const char *settings)
{
    return (struct run){.m = machine_new(settings)};
}

static void run_op(struct run *r, struct spex_op op)
{
    r->ops[r->count++] = op;
}

/* The last one accesses this. */
static void at(struct run *r, uint64_t va)
{
    r->access[r->access_count++] = SPEX_TIMING_ACCESS(va, r->count - 1);
}

/* Once, with nothing else in the core. */
static void run_enter(struct run *r)
{
    struct timing_run run = {.executed = r->count,
                             .next = 0x400000,
                             .access = r->access,
                             .access_count = r->access_count,
                             .insns = r->time,
                             .results = r->result};
    timing_block_init(r->m.timing, &r->block, 0x400000, r->ops, r->count);
    timing_spend(r->m.core, 100000);
    block_run(r->m.core, &r->block, &run);
    timing_block_fini(&r->block);
}

static void run_again(struct run *r)
{
    run_enter(r);
    r->count = r->access_count = 0;
}

static void run_free(struct run *r)
{
    timing_free(r->m.timing);
}

/* A load or store of the line, long ago. */
static void warm(struct run *r, uint64_t va, bool store)
{
    run_op(r, store ? op_make(SPEX_EXEC_STORE, -1, 0, 1) : op_make(SPEX_EXEC_LOAD, 0, 1, -1));
    at(r, va);
    run_again(r);
}

static uint32_t issue_of(const struct run *r, unsigned insn)
{
    return (uint32_t)(r->time[insn].issue - r->time[insn].dispatch);
}

static uint32_t total_of(const struct run *r, unsigned insn)
{
    return (uint32_t)(r->time[insn].done - r->time[insn].dispatch);
}

static void expect(const struct run *r, unsigned insn, uint32_t issue, uint32_t total)
{
    if (issue_of(r, insn) != issue || total_of(r, insn) != total)
        fail_msg("instruction %u: issue %u total %u, want %u %u", insn, issue_of(r, insn),
                 total_of(r, insn), issue, total);
}

static void test_chain(void **state)
{
    SPEC(PKT-144); /* issued: when the operands are there */
    SPEC(PKT-145); /* complete: when the quotient is there, however long that takes */
    struct run r = run_new(PLAIN);
    warm(&r, 0x10000, true);
    run_op(&r, op_make(SPEX_EXEC_MUL, 1, 0, 0));       /* dispatched 0, issued 1, done 3 */
    run_op(&r, op_make(SPEX_EXEC_ALU, 2, 1, 0));       /* issued 3, done 4 */
    run_op(&r, op_make(SPEX_EXEC_FP_FMA, 40, 41, 42)); /* independent: issued 1, done 5 */
    run_op(&r, op_make(SPEX_EXEC_DIV, 3, 2, 1));       /* issued 4, done 16 */
    run_op(&r, op_make(SPEX_EXEC_ALU, 4, 3, 2));       /* issued 16, done 17 */
    run_op(&r, op_make(SPEX_EXEC_DIV, 5, 0, 0));       /* operands ready, divider busy until 16 */
    run_op(&r, op_make(SPEX_EXEC_LOAD, 6, 4, -1));     /* issued 17, done 21: level 1 */
    at(&r, 0x10000);
    run_op(&r, op_make(SPEX_EXEC_STORE, -1, 6, 4)); /* issued 21, done 22 */
    at(&r, 0x10000);
    run_enter(&r);
    expect(&r, 0, 1, 3);
    expect(&r, 1, 3, 4);
    expect(&r, 2, 1, 5);
    expect(&r, 3, 4, 16);
    expect(&r, 4, 16, 17);
    expect(&r, 5, 16, 28);
    expect(&r, 6, 17, 21);
    expect(&r, 7, 21, 22);
    run_free(&r);
}

/* A branch is complete when it is resolved, a barrier when it is done. */
static void test_branches_and_barriers_complete(void **state)
{
    SPEC(PKT-49);
    SPEC(PKT-152);
    struct run r = run_new(PLAIN ",lat.barrier=20");
    run_op(&r, op_make(SPEX_EXEC_MUL, 1, 0, 0));
    run_op(&r, op_make(SPEX_EXEC_BARRIER, -1, -1, -1));
    run_op(&r, op_make(SPEX_EXEC_ALU, 2, 1, -1)); /* dispatched when the barrier is done */
    run_enter(&r);
    assert_true(total_of(&r, 1) >= 20);
    assert_true(r.time[2].dispatch >= r.time[1].done);
    expect(&r, 2, 1, 2);
    run_free(&r);
    r = run_new(PLAIN);
    run_op(&r, op_make(SPEX_EXEC_DIV, 1, 0, 0));
    struct spex_op branch = branch_make(SPEX_OPF_COND);
    branch.src[0] = 1;
    run_op(&r, branch); /* waits for the quotient: issued 13, done 14 */
    run_enter(&r);
    expect(&r, 1, 13, 14);
    run_free(&r);
}

static void test_width(void **state)
{
    SPEC(PKT-159);
    /* Four a cycle: instruction 9 is dispatched in cycle 2; its operand comes in cycle 5. */
    struct run r = run_new(PLAIN ",width=4");
    for (unsigned i = 0; i < 9; i++)
        run_op(&r,
               op_make(i == 1 ? SPEX_EXEC_FP_FMA : SPEX_EXEC_ALU, (int)(i == 1 ? 40 : 20), -1, -1));
    run_op(&r, op_make(SPEX_EXEC_FP_ADD, 41, 40, -1));
    run_enter(&r);
    expect(&r, 9, 3, 5);
    run_free(&r);
}

static void test_misses_delay_their_users(void **state)
{
    SPEC(PKT-47);
    SPEC(PKT-48);
    struct run r = run_new("prefetch=none,width=16,dram.latency=200,walk.latency=30,walk.upper=0,"
                           "tlb2.latency=1,page.size=4K");
    warm(&r, 0x105008, false); /* this is there, and the next line's translation */
    run_op(&r, op_make(SPEX_EXEC_LOAD, 1, 0, -1)); /* misses: 200 and 31 of translation */
    at(&r, 0x207000);
    run_op(&r, op_make(SPEX_EXEC_ALU, 2, 1, -1));
    run_op(&r, op_make(SPEX_EXEC_LOAD, 3, 5, -1)); /* hits */
    at(&r, 0x105008);
    run_op(&r, op_make(SPEX_EXEC_ALU, 4, 3, -1));
    run_op(&r, op_make(SPEX_EXEC_LOAD, 6, 2, -1)); /* next of the list: misses in cache only */
    at(&r, 0x105080);
    run_op(&r, op_make(SPEX_EXEC_STORE, -1, 6, 2)); /* store that misses: the buffer has it */
    at(&r, 0x105100);
    run_enter(&r);
    expect(&r, 0, 1, 1 + 200 + 31);
    expect(&r, 1, 232, 233);
    expect(&r, 2, 1, 5);
    expect(&r, 3, 5, 6);
    expect(&r, 4, 233, 433);
    expect(&r, 5, 433, 434);
    run_free(&r);
}

static void test_pair_waits_for_the_later_half(void **state)
{
    /* An LDP that engines show as two accesses: a miss to memory, then a hit. */
    struct run r = run_new(PLAIN ",dram.latency=200");
    struct spex_op pair = op_make(SPEX_EXEC_LOAD, 1, 0, -1);
    pair.dst[1] = 2;
    warm(&r, 0x5040, false);
    run_op(&r, pair);
    at(&r, 0x7000);
    at(&r, 0x5040);
    run_op(&r, op_make(SPEX_EXEC_ALU, 3, 2, -1));
    run_enter(&r);
    assert_int_equal(uarch_result_level(r.result[0]), SPEX_UARCH_DRAM);
    assert_int_equal(uarch_result_level(r.result[1]), SPEX_UARCH_L1);
    expect(&r, 1, 201, 202);
    run_free(&r);
}

static void test_atomic(void **state)
{
    SPEC(PKT-151);
    struct run r = run_new(PLAIN ",lat.atomic=6,dram.latency=200");
    warm(&r, 0x5000, true);
    run_op(&r, op_make(SPEX_EXEC_ATOMIC, 1, 0, 2));
    at(&r, 0x5000);
    run_op(&r, op_make(SPEX_EXEC_LOAD, 3, 1, -1));
    at(&r, 0x5008);
    run_enter(&r);
    expect(&r, 0, 1, 1 + 4 + 6);
    expect(&r, 1, 11, 11 + 4);
    r.count = r.access_count = 0;
    run_op(&r, op_make(SPEX_EXEC_ATOMIC, 1, 0, 2)); /* its data is in memory */
    at(&r, 0x8000);
    run_enter(&r);
    assert_true(total_of(&r, 0) >= 1 + 200 + 6);
    run_free(&r);
}

/* A store that misses is done when the buffer has it; one with a status, when that came back. */
static void test_status_result(void **state)
{
    SPEC(DAT-111);
    struct run r = run_new(PLAIN ",dram.latency=200");
    struct spex_op st64bv = op_make(SPEX_EXEC_STORE, 3, 0, 1);
    warm(&r, 0x9000, false);
    run_op(&r, op_make(SPEX_EXEC_STORE, -1, 0, 1));
    at(&r, 0x5000);
    st64bv.flags |= SPEX_OPF_STATUS_RESULT;
    run_op(&r, st64bv);
    at(&r, 0x6000);
    run_enter(&r);
    assert_in_range(total_of(&r, 0), 1, 10);
    assert_in_range(total_of(&r, 1), 190, 210);
    run_free(&r);
}

/* The events of all accesses add up to what a PMU would have counted (D17.6). */
static void test_events_are_those_of_a_pmu(void **state)
{
    SPEC(DAT-18);
    struct run r = run_new("prefetch=none,l1d.size=4K,l1d.ways=2,l2.size=32K,l2.ways=4,"
                           "llc.size=64K,llc.ways=4");
    uint64_t l1 = 0, l2 = 0, llc = 0, llc_miss = 0, walk = 0, x = 12345;
    struct uarch_counts before, counts;
    warm(&r, 0x1000000, false); /* what the code itself needs */
    timing_counts(r.m.core, &before);
    run_op(&r, op_make(SPEX_EXEC_LOAD, 0, 1, -1));
    for (unsigned i = 0; i < 20000; i++) { /* each alone: nothing is on its way */
        uint64_t va = 0x100000 + (random64(&x) >> 33) % 0x40000 / 8 * 8;
        struct spex_access access = {0};
        r.access_count = 0;
        at(&r, va);
        run_enter(&r);
        timing_access_outcome(r.m.core, &r.ops[0], va, 8, r.result[0], &access);
        l1 += (access.events & L1_MISS) != 0;
        l2 += (access.events & L2_MISS) != 0;
        llc += (access.events & LLC) != 0;
        llc_miss += (access.events & LLC_MISS) != 0;
        walk += (access.events & WALK) != 0;
    }
    timing_counts(r.m.core, &counts);
    assert_true(counts.l1_miss > counts.l2_miss && counts.llc_miss > 100 && counts.walk > 10);
    assert_int_equal(l1, counts.l1_miss - before.l1_miss);
    assert_int_equal(l2, counts.l2_miss - before.l2_miss);
    assert_int_equal(llc, counts.llc_access - before.llc_access);
    assert_int_equal(llc_miss, counts.llc_miss - before.llc_miss);
    assert_int_equal(walk, counts.walk - before.walk);
    run_free(&r);
}

static void test_recently_fetched(void **state)
{
    SPEC(PKT-90);
    struct run r = run_new(PLAIN ",dram.latency=200");
    struct spex_access access = {0};
    warm(&r, 0x9000, false);                       /* the translation is there */
    run_op(&r, op_make(SPEX_EXEC_LOAD, 1, 0, -1)); /* misses */
    at(&r, 0x5000);
    run_op(&r, op_make(SPEX_EXEC_LOAD, 2, 0, -1)); /* the same line's other word is on its way */
    at(&r, 0x5020);
    run_enter(&r);
    timing_access_outcome(r.m.core, &r.ops[0], 0x5000, 8, r.result[0], &access);
    assert_false(access.events & RECENT);
    timing_access_outcome(r.m.core, &r.ops[1], 0x5020, 8, r.result[1], &access);
    assert_int_equal(access.events, L1 | TLB | RECENT);
    assert_in_range(uarch_result_latency(r.result[1]), 190, 200);
    expect(&r, 1, 1, total_of(&r, 0));
    run_enter(&r); /* later it is simply a hit */
    timing_access_outcome(r.m.core, &r.ops[1], 0x5020, 8, r.result[1], &access);
    assert_int_equal(access.events, L1 | TLB);
    run_free(&r);
}

static void test_writeback_base(void **state)
{
    /* LDR X1, [X0], #8 twice: the second waits for the add, not for the load. */
    struct run r = run_new(PLAIN);
    struct spex_op post = op_make(SPEX_EXEC_LOAD, 1, 0, -1);
    post.dst[1] = 0;
    warm(&r, 0x5000, true);
    warm(&r, 0x9000, true);
    run_op(&r, post);
    at(&r, 0x5000);
    run_op(&r, post);
    at(&r, 0x5008);
    run_op(&r, op_make(SPEX_EXEC_LOAD, 0, 0, -1)); /* LDR X0, [X0] waits for the second add */
    at(&r, 0x5010);
    run_op(&r, op_make(SPEX_EXEC_LOAD, 0, 0, -1)); /* and this for the load */
    at(&r, 0x5018);
    struct spex_op push = op_make(SPEX_EXEC_STORE, 0, 0, 1);
    run_op(&r, push); /* STR X1, [X0, #8]! */
    at(&r, 0x9000);
    run_op(&r, push);
    at(&r, 0x9008);
    run_enter(&r);
    expect(&r, 1, 2, 6);
    expect(&r, 2, 3, 7);
    expect(&r, 3, 7, 11);
    expect(&r, 4, 11, 12);
    expect(&r, 5, 12, 13);
    run_free(&r);
}

/* ---- alignment ---- */

/* One access of a line that is there: how long it takes, and with which events. */
static uint32_t total_at(struct run *r, uint64_t va, unsigned size, bool store, uint64_t *events)
{
    struct spex_access access = {0};
    r->count = r->access_count = 0;
    run_op(r, store ? op_make(SPEX_EXEC_STORE, -1, 0, 1) : op_make(SPEX_EXEC_LOAD, 0, 1, -1));
    if (size == 64)
        r->ops[0].kind = SPEX_OP_DC_ZVA;
    r->ops[0].access_size = (uint8_t)size;
    at(r, va);
    run_enter(r);
    run_enter(r);
    timing_access_outcome(r->m.core, &r->ops[0], va, size, r->result[0], &access);
    *events = access.events;
    return total_of(r, 0);
}

static void test_alignment(void **state)
{
    SPEC(DAT-117);
    SPEC(DAT-118);
    struct run r = run_new(PLAIN ",align.load=64,align.store=16,split.latency=7");
    uint64_t events;
    uint32_t load = total_at(&r, 0x10000, 8, false, &events);
    assert_int_equal(events, L1 | TLB);
    /* Not aligned, but inside a line: no penalty, no flag. */
    assert_int_equal(total_at(&r, 0x10000 + 13, 4, false, &events), load);
    assert_int_equal(events, L1 | TLB);
    assert_int_equal(total_at(&r, 0x10000 + 60, 8, false, &events), load + 7);
    assert_int_equal(events, L1 | TLB | MISALIGNED);
    /* Stores pay at 16 bytes. */
    uint32_t store = total_at(&r, 0x10000, 8, true, &events);
    assert_int_equal(events, L1 | TLB);
    assert_int_equal(total_at(&r, 0x10000 + 13, 4, true, &events), store + 7);
    assert_int_equal(events, L1 | TLB | MISALIGNED);
    run_free(&r);
}

/* What no address could avoid is not the alignment's doing, in the flag and in the time. */
static void test_optimal_alignment(void **state)
{
    SPEC(DAT-119);
    SPEC(DAT-117);
    struct run r = run_new(PLAIN ",align.load=64,align.store=32,split.latency=7");
    static const struct {
        unsigned at, size;
        bool store, marked;
    } rows[] = {
        {0, 128, false, false}, /* a vector as long as two lines, at a line */
        {16, 128, false, true}, /* three lines */
        {0, 64, true, false},   /* DC ZVA */
        {32, 64, true, false},  {16, 64, true, true}, {0, 33, true, false},   {31, 33, true, false},
        {32, 32, true, false},  {16, 32, true, true}, {0, 256, false, false}, {8, 256, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spex_op op =
            rows[i].store ? op_make(SPEX_EXEC_STORE, -1, 0, 1) : op_make(SPEX_EXEC_LOAD, 0, 1, -1);
        struct spex_access access = {0};
        timing_access_outcome(r.m.core, &op, 0x10000 + rows[i].at, rows[i].size, 0, &access);
        if ((access.events >> 11 & 1) != rows[i].marked)
            fail_msg("%u bytes at %u: E[11] is not %d", rows[i].size, rows[i].at, rows[i].marked);
    }
    /* A line that is cleared crosses no boundary that it could avoid. */
    uint64_t events;
    assert_int_equal(total_at(&r, 0x10000, 64, true, &events),
                     total_at(&r, 0x10000, 8, true, &events));
    run_free(&r);
}

TEST_MAIN(TEST(test_events), TEST(test_recently_fetched), TEST(test_chain),
          TEST(test_branches_and_barriers_complete), TEST(test_width),
          TEST(test_misses_delay_their_users), TEST(test_pair_waits_for_the_later_half),
          TEST(test_atomic), TEST(test_status_result), TEST(test_events_are_those_of_a_pmu),
          TEST(test_writeback_base), TEST(test_alignment), TEST(test_optimal_alignment))
