/* Events, data sources and latencies of a sample, against values worked out by hand. */
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
    struct spex_uarch *model = model_new("sockets=2,cluster=2");
    struct spex_uarch_core *core = core_new(model, 0);
    struct spex_op load = op_make(SPEX_EXEC_LOAD, 0, 1, -1),
                   store = op_make(SPEX_EXEC_STORE, -1, 0, 1),
                   atomic = op_make(SPEX_EXEC_ATOMIC, 0, 1, 2);
    struct row {
        const struct spex_op *op;
        spex_uarch_result result;
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
        spex_uarch_access(core, rows[i].op, 0x1000, 8, rows[i].result, &access);
        if (access.events != rows[i].events)
            fail_msg("row %zu: events %#llx, want %#x", i, (unsigned long long)access.events,
                     rows[i].events);
        assert_int_equal(access.flags, SPEX_ACC_VA | (rows[i].source >= 0 ? SPEX_ACC_SOURCE : 0));
        if (rows[i].source >= 0)
            assert_int_equal(access.data_source, rows[i].source);
        assert_int_equal(access.translation, rows[i].result >> 32);
    }
    spex_uarch_free(model);
}

static void test_recently_fetched(void **state)
{
    SPEC(PKT-90);
    struct spex_uarch *model = model_new("overlap=50");
    struct spex_uarch_core *core = core_new(model, 0);
    struct spex_op load = op_make(SPEX_EXEC_LOAD, 0, 1, -1);
    struct spex_access access = {0};
    spex_uarch_result r = spex_uarch_load(core, 0x1000, 8, 0);
    r = spex_uarch_access(core, &load, 0x1000, 8, r, &access);
    assert_false(access.events & RECENT);
    /* Half of the miss has passed on the clock: the same line's other word is on its way. */
    r = spex_uarch_load(core, 0x1020, 8, 1);
    assert_int_equal(r, 0);
    r = spex_uarch_access(core, &load, 0x1020, 8, r, &access);
    assert_int_equal(access.events, L1 | TLB | RECENT);
    assert_in_range(spex_uarch_result_latency(r), 100, 200);
    /* Later it is simply a hit. */
    spex_uarch_clock_reach(core, spex_uarch_clock(core) + 400);
    r = spex_uarch_access(core, &load, 0x1020, 8, spex_uarch_load(core, 0x1020, 8, 1), &access);
    assert_int_equal(access.events, L1 | TLB);
    assert_int_equal(r, 0);
    spex_uarch_free(model);
}

/* ---- replay ---- */

struct run {
    struct spex_uarch *model;
    struct spex_uarch_core *core;
    struct spex_op ops[64];
    unsigned count;
    struct spex_uarch_block block;
};

static struct run run_new(const char *settings)
{
    struct run r = {.model = model_new(settings)};
    r.core = core_new(r.model, 0);
    return r;
}

static void run_op(struct run *r, struct spex_op op)
{
    r->ops[r->count++] = op;
}

static void run_enter(struct run *r)
{
    spex_uarch_block_init(r->model, &r->block, 0x1000, r->ops, r->count);
    enter(r->core, &r->block);
}

static void expect(struct run *r, unsigned insn, spex_uarch_result result, uint32_t issue,
                   uint32_t total)
{
    struct spex_outcome outcome = {0};
    spex_uarch_replay(r->core, r->core->sequence, insn, result, &outcome);
    if (outcome.issue != issue || outcome.total != total)
        fail_msg("instruction %u: issue %u total %u, want %u %u", insn, outcome.issue,
                 outcome.total, issue, total);
}

#define WIDE "width=16,window=96"

static void test_chain(void **state)
{
    SPEC(PKT-144); /* issued: when the operands are there */
    SPEC(PKT-145); /* complete: when the quotient is there, however long that takes */
    struct run r = run_new(WIDE);
    run_op(&r, op_make(SPEX_EXEC_MUL, 1, 0, 0));       /* dispatched 0, issued 1, done 3 */
    run_op(&r, op_make(SPEX_EXEC_ALU, 2, 1, 0));       /* issued 3, done 4 */
    run_op(&r, op_make(SPEX_EXEC_FP_FMA, 40, 41, 42)); /* independent: issued 1, done 5 */
    run_op(&r, op_make(SPEX_EXEC_DIV, 3, 2, 1));       /* issued 4, done 16 */
    run_op(&r, op_make(SPEX_EXEC_ALU, 4, 3, 2));       /* issued 16, done 17 */
    run_op(&r, op_make(SPEX_EXEC_DIV, 5, 0, 0));       /* operands ready, divider busy until 16 */
    run_op(&r, op_make(SPEX_EXEC_LOAD, 6, 4, -1));     /* issued 17, done 21: level 1 */
    run_op(&r, op_make(SPEX_EXEC_STORE, -1, 6, 4));    /* issued 21, done 22 */
    run_enter(&r);
    expect(&r, 0, 0, 1, 3);
    expect(&r, 1, 0, 3, 4);
    expect(&r, 2, 0, 1, 5);
    expect(&r, 3, 0, 4, 16);
    expect(&r, 4, 0, 16, 17);
    expect(&r, 5, 0, 16, 28);
    expect(&r, 6, 0, 17, 21);
    expect(&r, 7, 0, 21, 22);
    spex_uarch_free(r.model);
}

/* A branch is complete when it is resolved, a barrier when it is done. */
static void test_branches_and_barriers_complete(void **state)
{
    SPEC(PKT-49);
    SPEC(PKT-152);
    struct run r = run_new(WIDE ",lat.barrier=20");
    run_op(&r, op_make(SPEX_EXEC_DIV, 1, 0, 0));        /* issued 1, done 13 */
    run_op(&r, op_make(SPEX_EXEC_BARRIER, -1, -1, -1)); /* issued 1, done 21 */
    run_op(&r, op_make(SPEX_EXEC_BRANCH, -1, 1, -1));   /* on the quotient */
    run_enter(&r);
    expect(&r, 1, 0, 1, 21);
    struct spex_outcome outcome = {0};
    spex_uarch_replay(r.core, r.core->sequence, 2, 0, &outcome);
    assert_true(outcome.total > outcome.issue);
    spex_uarch_free(r.model);
    r = run_new(WIDE);
    run_op(&r, op_make(SPEX_EXEC_DIV, 1, 0, 0));
    run_op(&r,
           op_make(SPEX_EXEC_BRANCH, -1, 1, -1)); /* waits for the quotient: issued 13, done 14 */
    run_enter(&r);
    expect(&r, 1, 0, 13, 14);
    spex_uarch_free(r.model);
}

static void test_width(void **state)
{
    SPEC(PKT-159);
    /* Four a cycle: instruction 9 is dispatched in cycle 2; its operand comes in cycle 5. */
    struct run r = run_new("width=4,window=96");
    for (unsigned i = 0; i < 9; i++)
        run_op(&r,
               op_make(i == 1 ? SPEX_EXEC_FP_FMA : SPEX_EXEC_ALU, (int)(i == 1 ? 40 : 20), -1, -1));
    run_op(&r, op_make(SPEX_EXEC_FP_ADD, 41, 40, -1));
    run_enter(&r);
    expect(&r, 9, 0, 3, 5);
    spex_uarch_free(r.model);
}

static void test_queue(void **state)
{
    /* With room for four waiting operations, dispatch follows the chain. */
    struct run r = run_new("width=16,window=4");
    for (unsigned i = 0; i < 12; i++)
        run_op(&r, op_make(SPEX_EXEC_DIV, 1, 1, 1));
    run_enter(&r);
    /* Operation n issues at 1 + 12 n; it was dispatched when n - 4 issued. */
    expect(&r, 3, 0, 37, 49);
    expect(&r, 4, 0, 48, 60);
    expect(&r, 11, 0, 48, 60);
    spex_uarch_free(r.model);
}

static void test_misses_delay_their_users(void **state)
{
    SPEC(PKT-47);
    SPEC(PKT-48);
    struct run r = run_new(WIDE ",dram.latency=200,walk.latency=30,walk.upper=0,tlb2.latency=1");
    run_op(&r, op_make(SPEX_EXEC_LOAD, 1, 0, -1)); /* misses: 200 and 31 of translation */
    run_op(&r, op_make(SPEX_EXEC_ALU, 2, 1, -1));
    run_op(&r, op_make(SPEX_EXEC_LOAD, 3, 5, -1)); /* hits */
    run_op(&r, op_make(SPEX_EXEC_ALU, 4, 3, -1));
    run_op(&r, op_make(SPEX_EXEC_LOAD, 6, 2, -1));  /* next of the list: misses in cache only */
    run_op(&r, op_make(SPEX_EXEC_STORE, -1, 6, 2)); /* store that misses: the buffer has it */
    run_enter(&r);
    spex_uarch_result first = spex_uarch_load(r.core, 0x5000, 8, 0);
    assert_int_equal(spex_uarch_load(r.core, 0x5008, 8, 2), 0);
    spex_uarch_result second = spex_uarch_load(r.core, 0x5040, 8, 4);
    spex_uarch_result third = spex_uarch_store(r.core, 0x5080, 8, 5);
    expect(&r, 0, first, 1, 1 + 200 + 31);
    expect(&r, 1, 0, 232, 233);
    expect(&r, 2, 0, 1, 5);
    expect(&r, 3, 0, 5, 6);
    expect(&r, 4, second, 233, 433);
    expect(&r, 5, third, 433, 434);
    spex_uarch_free(r.model);
}

static void test_pair_waits_for_the_later_half(void **state)
{
    /* An LDP that engines show as two accesses: a miss to memory, then one to level 2. */
    struct run r = run_new(WIDE ",dram.latency=200,l2.latency=11,page.size=2M");
    struct spex_op pair = op_make(SPEX_EXEC_LOAD, 1, 0, -1);
    pair.dst[1] = 2;
    run_op(&r, pair);
    run_op(&r, op_make(SPEX_EXEC_ALU, 3, 2, -1));
    for (unsigned i = 0; i < 5; i++) /* 0x5040 to level 2 */
        spex_uarch_load(r.core, 0x5040 + i * 0x4000, 8, 0);
    run_enter(&r);
    assert_int_equal(spex_uarch_result_level(spex_uarch_load(r.core, 0x7000, 8, 0)),
                     SPEX_UARCH_DRAM);
    assert_int_equal(spex_uarch_result_level(spex_uarch_load(r.core, 0x5040, 8, 0)), SPEX_UARCH_L2);
    expect(&r, 1, 0, 201, 202);
    spex_uarch_free(r.model);
}

static void test_atomic_and_split(void **state)
{
    SPEC(PKT-151);
    struct run r = run_new(WIDE ",lat.atomic=6,peer.latency=60,split.latency=2");
    run_op(&r, op_make(SPEX_EXEC_ATOMIC, 1, 0, 2));
    run_op(&r, op_make(SPEX_EXEC_LOAD, 3, 1, -1));
    run_enter(&r);
    expect(&r, 0, 0, 1, 1 + 4 + 6);
    expect(&r, 0, SPEX_UARCH_PEER | SPEX_UARCH_SNOOPED | 60 << 16, 1, 1 + 60 + 6);
    expect(&r, 1, SPEX_UARCH_L1 | SPEX_UARCH_SPLIT | 4 << 16, 11, 11 + 4 + 2);
    spex_uarch_free(r.model);
}

/* A store that misses is done when the buffer has it; one with a status, when that came back. */
static void test_status_result(void **state)
{
    SPEC(DAT-111);
    struct run r = run_new(WIDE ",dram.latency=200");
    struct spex_op st64bv = op_make(SPEX_EXEC_STORE, 3, 0, 1);
    run_op(&r, op_make(SPEX_EXEC_STORE, -1, 0, 1));
    st64bv.flags |= SPEX_OPF_STATUS_RESULT;
    run_op(&r, st64bv);
    run_enter(&r);
    struct spex_outcome plain = {0}, status = {0};
    spex_uarch_result missed = SPEX_UARCH_DRAM | 200 << 16;
    spex_uarch_replay(r.core, r.core->sequence, 0, missed, &plain);
    spex_uarch_replay(r.core, r.core->sequence, 1, missed, &status);
    assert_in_range(plain.total, 1, 10);
    assert_in_range(status.total, 190, 210);
    spex_uarch_free(r.model);
}

/* The events of all accesses add up to what a PMU would have counted (D17.6). */
static void test_events_are_those_of_a_pmu(void **state)
{
    SPEC(DAT-18);
    struct spex_uarch *model = model_new("l1d.size=4K,l1d.ways=2,l2.size=32K,l2.ways=4,"
                                         "llc.size=64K,llc.ways=4,overlap=0");
    struct spex_uarch_core *core = core_new(model, 0);
    struct spex_op load = op_make(SPEX_EXEC_LOAD, 0, 1, -1);
    uint64_t l1 = 0, l2 = 0, llc = 0, llc_miss = 0, walk = 0, x = 12345;
    for (unsigned i = 0; i < 20000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint64_t va = 0x100000 + (x >> 33) % 0x40000 / 8 * 8;
        struct spex_access access = {0};
        spex_uarch_clock_reach(core, spex_uarch_clock(core) + 1000); /* nothing is on its way */
        spex_uarch_result r = spex_uarch_load(core, va, 8, 0);
        spex_uarch_access(core, &load, va, 8, r, &access);
        l1 += (access.events & L1_MISS) != 0;
        l2 += (access.events & L2_MISS) != 0;
        llc += (access.events & LLC) != 0;
        llc_miss += (access.events & LLC_MISS) != 0;
        walk += (access.events & WALK) != 0;
    }
    struct spex_uarch_counts counts;
    spex_uarch_counts(core, &counts);
    assert_true(counts.l1_miss > counts.l2_miss && counts.llc_miss > 100 && counts.walk > 10);
    assert_int_equal(l1, counts.l1_miss);
    assert_int_equal(l2, counts.l2_miss);
    assert_int_equal(llc, counts.llc_access);
    assert_int_equal(llc_miss, counts.llc_miss);
    assert_int_equal(walk, counts.walk);
    spex_uarch_free(model);
}

static void test_writeback_base(void **state)
{
    /* LDR X1, [X0], #8 twice: the second waits for the add, not for the load. */
    struct run r = run_new(WIDE);
    struct spex_op post = op_make(SPEX_EXEC_LOAD, 1, 0, -1);
    post.dst[1] = 0;
    run_op(&r, post);
    run_op(&r, post);
    run_op(&r, op_make(SPEX_EXEC_LOAD, 0, 0, -1)); /* LDR X0, [X0] waits for the second add */
    run_op(&r, op_make(SPEX_EXEC_LOAD, 0, 0, -1)); /* and this for the load */
    struct spex_op push = op_make(SPEX_EXEC_STORE, 0, 0, 1);
    run_op(&r, push); /* STR X1, [X0, #8]! */
    run_op(&r, push);
    run_enter(&r);
    expect(&r, 1, 0, 2, 6);
    expect(&r, 2, 0, 3, 7);
    expect(&r, 3, 0, 7, 11);
    expect(&r, 4, 0, 11, 12);
    expect(&r, 5, 0, 12, 13);
    spex_uarch_free(r.model);
}

static void test_across_blocks(void **state)
{
    /* A long operation in one block, its user in the next; a mispredicted branch between. */
    struct run r = run_new(WIDE ",mispredict=11");
    struct spex_op first[2] = {op_make(SPEX_EXEC_DIV, 1, 0, 0), branch_make(SPEX_OPF_COND)};
    struct spex_op second[2] = {op_make(SPEX_EXEC_ALU, 2, 1, -1), branch_make(0)};
    struct spex_uarch_block a, b;
    struct spex_outcome outcome = {0};
    spex_uarch_block_init(r.model, &a, 0x1000, first, 2);
    spex_uarch_block_init(r.model, &b, 0x2000, second, 2);
    enter(r.core, &a);
    enter(r.core, &b);
    uint32_t at = r.core->sequence;
    assert_true(spex_uarch_mispredicted(r.core, at - 1));
    /* The branch is done at 2; dispatch goes on at 13, the divider's result has come at 13. */
    spex_uarch_replay(r.core, at, 0, 0, &outcome);
    assert_int_equal(outcome.issue, 1);
    assert_int_equal(outcome.total, 2);
    /* The sampled block need not be the last that was entered. */
    spex_uarch_replay(r.core, at - 1, 0, 0, &outcome);
    assert_int_equal(outcome.issue, 1);
    assert_int_equal(outcome.total, 13);
    /* Predicted this time: only the operand counts. */
    spex_uarch_core_reset(r.core);
    memset(r.core->direction, 3 << SPEX_UARCH_DIRECTION_SHIFT, sizeof r.core->direction);
    enter(r.core, &a);
    enter(r.core, &b);
    assert_false(spex_uarch_mispredicted(r.core, r.core->sequence - 1));
    spex_uarch_replay(r.core, r.core->sequence, 0, 0, &outcome);
    assert_int_equal(outcome.issue, 13);
    assert_int_equal(outcome.total, 14);
    spex_uarch_free(r.model);
}

static void test_window_is_bounded(void **state)
{
    /* Sixteen blocks and 96 operations at most, and a chain longer than both. */
    struct run r = run_new(WIDE);
    for (unsigned i = 0; i < 32; i++)
        run_op(&r, op_make(SPEX_EXEC_ALU, 1, 1, -1));
    for (unsigned i = 0; i < 100; i++)
        run_enter(&r);
    /* 96 in the window: the sampled one is the 96th link, dispatched in cycle 5. */
    expect(&r, 31, 0, 96 - 5, 96 - 5 + 1);
    struct run one = run_new(WIDE);
    run_op(&one, op_make(SPEX_EXEC_ALU, 1, 1, -1));
    for (unsigned i = 0; i < 100; i++)
        run_enter(&one);
    expect(&one, 0, 0, 16, 17);
    spex_uarch_free(r.model);
    spex_uarch_free(one.model);
}

static void test_barrier_stops_dispatch(void **state)
{
    struct run r = run_new(WIDE ",lat.barrier=20");
    run_op(&r, op_make(SPEX_EXEC_MUL, 1, 0, 0));
    run_op(&r, op_make(SPEX_EXEC_BARRIER, -1, -1, -1));
    run_op(&r, op_make(SPEX_EXEC_ALU, 2, 1, -1)); /* dispatched when the barrier is done */
    run_enter(&r);
    expect(&r, 1, 0, 1, 21);
    expect(&r, 2, 0, 1, 2);
    spex_uarch_free(r.model);
}

TEST_MAIN(TEST(test_events), TEST(test_recently_fetched), TEST(test_chain),
          TEST(test_branches_and_barriers_complete), TEST(test_width), TEST(test_queue),
          TEST(test_misses_delay_their_users), TEST(test_pair_waits_for_the_later_half),
          TEST(test_atomic_and_split), TEST(test_status_result),
          TEST(test_events_are_those_of_a_pmu), TEST(test_writeback_base), TEST(test_across_blocks),
          TEST(test_window_is_bounded), TEST(test_barrier_stops_dispatch))
