/* What docs/model.md promises of the full model's account of time. */
#include "uarch/support.h"

static uint64_t clock_of(const struct machine *m)
{
    return timing_clock(m->core);
}

/* Runs a loop body of `count` operations so often; addresses from next(), one for each access. */
static double cycles_of(struct machine *m, const struct spex_op *ops, size_t count, unsigned times,
                        uint64_t (*next)(unsigned))
{
    struct timing_block block;
    timing_access access[64];
    unsigned made = 0;
    timing_block_init(m->timing, &block, 0x400000, ops, count);
    uint64_t before = 0;
    for (unsigned i = 0; i < 2 * times; i++) { /* the second half counts */
        struct timing_run run = {.executed = (uint32_t)count, .next = 0x400000};
        if (i == times)
            before = clock_of(m);
        for (unsigned k = 0; k < count; k++)
            if (ops[k].kind == SPEX_OP_LDST || ops[k].kind == SPEX_OP_PREFETCH)
                access[run.access_count++] = SPEX_TIMING_ACCESS(next(made++), k);
        run.access = access;
        block_run(m->core, &block, &run);
    }
    timing_block_fini(&block);
    return (double)(clock_of(m) - before) / times;
}

static void near(double value, double want, double by)
{
    if (value < want - by || value > want + by)
        fail_msg("%.3f, want %.3f +- %.3f", value, want, by);
}

static void test_chains(void **state)
{
    struct spex_op ops[8];
    struct machine m = machine_new(NULL);
    /* Dependent divisions cost their sum, independent ones too: there is one divider. */
    for (unsigned i = 0; i < 8; i++)
        ops[i] = op_make(SPEX_EXEC_DIV, 1, 1, -1);
    near(cycles_of(&m, ops, 8, 1000, NULL), 8 * 12, 0.1);
    for (unsigned i = 0; i < 8; i++)
        ops[i] = op_make(SPEX_EXEC_DIV, (int)i, 20, -1);
    near(cycles_of(&m, ops, 8, 1000, NULL), 8 * 12, 0.1);
    /* Multiplications are pipelined: a chain takes its latencies, others one port. */
    for (unsigned i = 0; i < 8; i++)
        ops[i] = op_make(SPEX_EXEC_MUL, 1, 1, -1);
    near(cycles_of(&m, ops, 8, 1000, NULL), 8 * 2, 0.1);
    for (unsigned i = 0; i < 8; i++)
        ops[i] = op_make(SPEX_EXEC_MUL, (int)i, 20, -1);
    near(cycles_of(&m, ops, 8, 1000, NULL), 8, 0.1);
    /* Additions: a chain one a cycle, also across blocks; independent ones three, by the ports. */
    for (unsigned i = 0; i < 8; i++)
        ops[i] = op_make(SPEX_EXEC_ALU, 1, 1, -1);
    near(cycles_of(&m, ops, 8, 1000, NULL), 8, 0.1);
    for (unsigned i = 0; i < 8; i++)
        ops[i] = op_make(SPEX_EXEC_ALU, (int)i, 20, -1);
    near(cycles_of(&m, ops, 8, 1000, NULL), 8 / 3.0, 0.1);
    timing_free(m.timing);
    /* And dispatch bounds what the ports do not: 6 operations of two kinds, four a cycle. */
    m = machine_new(NULL);
    for (unsigned i = 0; i < 6; i++)
        ops[i] = op_make(i % 2 ? SPEX_EXEC_ALU : SPEX_EXEC_FP_ADD, (int)i, 20, -1);
    near(cycles_of(&m, ops, 6, 1000, NULL), 1.5, 0.05);
    timing_free(m.timing);
}

static uint64_t random_far(unsigned n)
{
    uint64_t seed = n;
    return 0x10000000 + random64(&seed) % (512 << 20) / 64 * 64;
}

/* Sixteen of them, and the same again. */
static uint64_t random_pairs(unsigned n)
{
    return random_far(n / 32 * 16 + n % 16);
}

#define MEMORY                                                                                     \
    "page.size=2097152,prefetch=none,dram.queue=0,tlb.entries=128,tlb2.entries=4096,tlb2.ways=8"

static double gather(unsigned chains)
{
    struct spex_op ops[16];
    struct machine m = machine_new(MEMORY);
    /* Each load needs the one before in its chain: its address register is its result. */
    for (unsigned i = 0; i < 16; i++)
        ops[i] = op_make(SPEX_EXEC_LOAD, (int)(i % chains), (int)(i % chains), -1);
    double cycles = cycles_of(&m, ops, 16, 400, random_far) / 16;
    timing_free(m.timing);
    return cycles;
}

/* Independent gathers cost far less than dependent ones, up to what the miss registers allow. */
static void test_parallelism(void **state)
{
    double one = gather(1);
    near(one, 238, 4);
    near(gather(2), one / 2, one * 0.02);
    near(gather(4), one / 4, one * 0.02);
    near(gather(8), one / 8, one * 0.02);
    near(gather(16), one / 16, one * 0.02);
    struct spex_op ops[16];
    for (unsigned i = 0; i < 16; i++)
        ops[i] = op_make(SPEX_EXEC_LOAD, (int)i, 20, -1);
    struct machine m = machine_new(MEMORY ",l1d.misses=10");
    near(cycles_of(&m, ops, 16, 400, random_far) / 16, 238 / 10.0, 1);
    timing_free(m.timing);
    /* A window of 32 operations holds one such load in 32. */
    struct spex_op wide[32];
    for (unsigned i = 0; i < 32; i++)
        wide[i] = i ? op_make(SPEX_EXEC_ALU, 21, 20, -1) : op_make(SPEX_EXEC_LOAD, 1, 20, -1);
    m = machine_new(MEMORY ",rob=32");
    near(cycles_of(&m, wide, 32, 400, random_far), 240, 12);
    timing_free(m.timing);
    m = machine_new(MEMORY ",rob=128");
    near(cycles_of(&m, wide, 32, 400, random_far), 240 / 4.0, 6);
    timing_free(m.timing);
}

/* Latency of a chase while `others` cores read what they can. */
static double loaded(unsigned others)
{
    struct spex_op chase = op_make(SPEX_EXEC_LOAD, 1, 1, -1), bulk[16];
    struct machine m = machine_new("prefetch=none,dram.lines=16,dram.queue=40,page.size=2097152");
    struct timing_core *core[8];
    struct timing_block one, many;
    uint64_t seed = 7, waited = 0, n = 0;
    for (unsigned i = 0; i < 16; i++)
        bulk[i] = op_make(SPEX_EXEC_LOAD, (int)i, 20, -1);
    timing_block_init(m.timing, &one, 0x400000, &chase, 1);
    timing_block_init(m.timing, &many, 0x500000, bulk, 16);
    for (unsigned i = 0; i < others; i++)
        timing_core_new(m.timing, i + 1, &core[i]);
    while (clock_of(&m) < 400000) {
        timing_access access[16];
        struct timing_run run = {.executed = 1, .next = 0x400000, .access_count = 1};
        access[0] = SPEX_TIMING_ACCESS(random64(&seed) % (1 << 30) / 64 * 64, 0);
        run.access = access;
        uint64_t before = clock_of(&m);
        block_run(m.core, &one, &run);
        if (before > 100000) {
            waited += clock_of(&m) - before;
            n++;
        }
        for (unsigned i = 0; i < others; i++)
            while (timing_clock(core[i]) < clock_of(&m)) {
                for (unsigned k = 0; k < 16; k++)
                    access[k] =
                        SPEX_TIMING_ACCESS((1 << 30) + random64(&seed) % (1 << 30) / 64 * 64, k);
                run = (struct timing_run){
                    .executed = 16, .next = 0x500000, .access = access, .access_count = 16};
                block_run(core[i], &many, &run);
            }
    }
    timing_block_fini(&one);
    timing_block_fini(&many);
    timing_free(m.timing);
    return (double)waited / (double)n;
}

/* Latency grows with what others ask of memory. */
static void test_load(void **state)
{
    double idle = loaded(0), some = loaded(2), more = loaded(6);
    assert_true(some > idle + 2 && more > some + 20 && more < 20 * idle);
}

static uint64_t in_order(unsigned n)
{
    return 0x10000000 + n * 8ull;
}

static struct uarch_counts pass(const char *settings, uint64_t (*next)(unsigned), double *cycles)
{
    struct spex_op ops[8];
    struct machine m = machine_new(settings);
    struct uarch_counts counts;
    for (unsigned i = 0; i < 8; i++)
        ops[i] = op_make(SPEX_EXEC_LOAD, (int)i, 20, -1);
    *cycles = cycles_of(&m, ops, 8, 65536, next);
    timing_counts(m.core, &counts);
    timing_free(m.timing);
    return counts;
}

/* A pass in order has few misses that the program sees, a random one has all of them. */
static void test_prefetch(void **state)
{
    double with, without, cycles;
    struct uarch_counts c = pass(NULL, in_order, &with);
    assert_true(c.l1_miss < 131072 / 20 && c.prefetch > 100000);
    c = pass("prefetch=none", in_order, &without);
    assert_int_equal(c.l1_miss, 131072); /* one a line */
    assert_int_equal(c.prefetch, 0);
    assert_true(with < without / 2);
    c = pass(NULL, random_far, &cycles);
    assert_true(c.l1_miss > 0.99 * 2 * 65536 * 8);
    assert_true(c.llc_miss > 0.9 * 2 * 65536 * 8);
    /* One that comes too late shortens the miss and does not hide it. */
    c = pass("pf.stride.ahead=1,pf.stream=0,pf.l2=0", in_order, &cycles);
    assert_true(c.prefetch_late > 100000 && cycles > 2 * with && cycles < without * 1.01);
}

/* One instruction with one access; its result. */
static uarch_result once(struct timing_core *core, struct timing *timing, struct spex_op op,
                         uint64_t va)
{
    struct timing_block block;
    timing_access access = SPEX_TIMING_ACCESS(va, 0);
    uarch_result result = 99;
    struct account_insn insn;
    struct timing_run run = {.executed = 1,
                             .next = 0x400000,
                             .access = &access,
                             .access_count = 1,
                             .insns = &insn,
                             .results = &result};
    timing_block_init(timing, &block, 0x400000, &op, 1);
    block_run(core, &block, &run);
    timing_block_fini(&block);
    return result;
}

static struct spex_op prefetch_make(unsigned what)
{
    struct spex_op op = op_make(SPEX_EXEC_LOAD, -1, 20, -1);
    op.kind = SPEX_OP_PREFETCH;
    op.flags = 0;
    op.prefetch = (uint8_t)what;
    return op;
}

/* What instructions ask to be fetched: to the level they name, and nobody waits for it. */
static void test_hints(void **state)
{
    static const enum uarch_level from[] = {SPEX_UARCH_DRAM, SPEX_UARCH_L1, SPEX_UARCH_L2,
                                            SPEX_UARCH_LLC};
    struct spex_op load = op_make(SPEX_EXEC_LOAD, 1, 20, -1),
                   store = op_make(SPEX_EXEC_STORE, -1, 20, 1);
    for (unsigned what = 0; what < 8; what++) {
        struct machine m = machine_new(MEMORY);
        once(m.core, m.timing, load, 0x10000000); /* the page */
        timing_spend(m.core, 1);
        uint64_t before = clock_of(&m);
        assert_int_equal(once(m.core, m.timing, prefetch_make(what), 0x10001008), 0);
        assert_in_range(clock_of(&m) - before, 0, 10);
        timing_spend(m.core, 1000);
        uarch_result r = once(m.core, m.timing, load, 0x10001010);
        assert_int_equal(uarch_result_level(r), from[what & SPEX_PREFETCH_LEVEL]);
        assert_int_equal(uarch_result_translation(r), 0);
        timing_free(m.timing);
    }
    /* A load that comes soon waits for the rest of the way. */
    struct machine m = machine_new(MEMORY);
    once(m.core, m.timing, load, 0x10000000);
    timing_spend(m.core, 1); /* dispatch would not wait for the load */
    once(m.core, m.timing, prefetch_make(1), 0x10001000);
    timing_spend(m.core, 100);
    uint64_t late = uarch_result_latency(once(m.core, m.timing, load, 0x10001000));
    assert_in_range(late, 100, 238 - 90);
    /* For a store: the line is this core's then, and the other's no more. */
    struct timing_core *other;
    timing_core_new(m.timing, 1, &other);
    once(other, m.timing, load, 0x10002000);
    once(m.core, m.timing, prefetch_make(1 | SPEX_PREFETCH_WRITE), 0x10002000);
    timing_spend(m.core, 1000);
    assert_int_equal(once(m.core, m.timing, store, 0x10002000) & SPEX_UARCH_UPGRADE, 0);
    timing_spend(other, 2000);
    assert_true(once(other, m.timing, load, 0x10002000) & SPEX_UARCH_MODIFIED);
    timing_free(m.timing);
    /* Asked for ahead, a chain of misses is as fast as the miss registers allow. */
    struct spex_op ops[32];
    m = machine_new(MEMORY);
    for (unsigned i = 0; i < 16; i++) {
        ops[i] = prefetch_make(1);
        ops[16 + i] = op_make(SPEX_EXEC_LOAD, 1, 1, -1);
    }
    near(cycles_of(&m, ops, 32, 400, random_pairs) / 16, 238 / 20.0, 0.5);
    timing_free(m.timing);
}

static uint64_t stack(unsigned n)
{
    return 0x7fff0000 + n % 2 * 0;
}

static void test_forwarding(void **state)
{
    /* A value that goes through memory: store, load, add. */
    struct spex_op ops[3] = {op_make(SPEX_EXEC_STORE, -1, 20, 1),
                             op_make(SPEX_EXEC_LOAD, 1, 20, -1), op_make(SPEX_EXEC_ALU, 1, 1, -1)};
    struct machine m = machine_new(NULL);
    struct uarch_counts counts;
    near(cycles_of(&m, ops, 3, 1000, stack), 5 + 1 + 1, 0.1);
    timing_counts(m.core, &counts);
    assert_true(counts.forwarded > 1990);
    timing_free(m.timing);
}

static void test_stores(void **state)
{
    /* Stores that miss do not hold anybody up until the miss registers are used up. */
    struct spex_op ops[8];
    struct uarch_counts counts;
    for (unsigned i = 0; i < 8; i++)
        ops[i] = op_make(SPEX_EXEC_STORE, -1, 20, 1);
    struct machine m = machine_new("streaming=0,prefetch=none,dram.queue=0");
    double fetched = cycles_of(&m, ops, 8, 8192, in_order);
    near(fetched, 238 / 20.0, 4);
    timing_counts(m.core, &counts);
    assert_int_equal(counts.streamed, 0);
    timing_free(m.timing);
    /* Whole lines one after the other are written without being fetched. */
    m = machine_new("prefetch=none");
    assert_true(cycles_of(&m, ops, 8, 8192, in_order) < 0.5 * fetched);
    timing_counts(m.core, &counts);
    assert_true(counts.streamed > 16300);
    timing_free(m.timing);
}

/* ---- the front end ---- */

static unsigned wrong_of(struct machine *m, unsigned period, unsigned times)
{
    struct spex_op branch = branch_make(SPEX_OPF_COND);
    struct timing_block block;
    unsigned wrong = 0;
    uint64_t seed = 1;
    timing_block_init(m->timing, &block, 0x400000, &branch, 1);
    for (unsigned i = 0; i < times; i++) {
        bool taken = period ? i % period == 0 : random64(&seed) & 1;
        struct timing_run run = {.executed = 1, .next = taken ? 0x500000 : 0x400004};
        block_run(m->core, &block, &run);
        wrong += run.mispredicted && i >= times / 2;
    }
    timing_block_fini(&block);
    return wrong;
}

static void test_directions(void **state)
{
    struct machine m = machine_new(NULL);
    assert_int_equal(wrong_of(&m, 1, 1000), 0);
    assert_int_equal(wrong_of(&m, 2, 1000), 0);
    assert_int_equal(wrong_of(&m, 7, 10000), 0);
    /* Longer than the 14 branches that gshare sees: tables with long histories know it. */
    assert_true(wrong_of(&m, 40, 40000) < 10);
    unsigned coin = wrong_of(&m, 0, 10000);
    assert_true(coin > 2200 && coin < 2800);
    timing_free(m.timing);
    m = machine_new("tage.tables=0");
    assert_true(wrong_of(&m, 2, 1000) > 200);
    timing_free(m.timing);
    /* A misprediction costs what the preset says, from the branch on. */
    struct spex_op ops[2] = {op_make(SPEX_EXEC_ALU, 1, 1, -1), branch_make(SPEX_OPF_INDIRECT)};
    struct timing_block block;
    m = machine_new("mispredict=30");
    timing_block_init(m.timing, &block, 0x400000, ops, 2);
    for (unsigned i = 0; i < 100; i++) {
        struct timing_run run = {.executed = 2, .next = 0x500000 + 64 * i};
        uint64_t before = clock_of(&m);
        block_run(m.core, &block, &run);
        assert_true(run.mispredicted);
        if (i > 2) /* branch to dispatch 30, dispatch to issue 1, latency 1 */
            assert_int_equal(clock_of(&m) - before, 32);
    }
    timing_block_fini(&block);
    timing_free(m.timing);
}

static void test_targets_and_returns(void **state)
{
    struct machine m = machine_new("ras.depth=16");
    struct spex_op jump = branch_make(SPEX_OPF_INDIRECT), call = branch_make(SPEX_OPF_LINK),
                   ret = branch_make(SPEX_OPF_INDIRECT | SPEX_OPF_RETURN);
    struct timing_block block, calls[32], returns;
    unsigned wrong = 0;
    timing_block_init(m.timing, &block, 0x400000, &jump, 1);
    for (unsigned i = 0; i < 4000; i++) { /* six targets in turn: the path tells which */
        struct timing_run run = {.executed = 1, .next = 0x500000 + i % 6 * 0x1040};
        block_run(m.core, &block, &run);
        wrong += run.mispredicted && i > 2000;
    }
    assert_int_equal(wrong, 0);
    timing_block_init(m.timing, &returns, 0x700000, &ret, 1);
    for (unsigned depth = 1; depth <= 20; depth++) {
        for (unsigned i = 0; i < depth; i++) {
            struct timing_run run = {.executed = 1, .next = 0x700000};
            timing_block_init(m.timing, &calls[i], 0x600000 + 64 * i, &call, 1);
            block_run(m.core, &calls[i], &run);
            assert_false(run.mispredicted);
        }
        wrong = 0;
        for (unsigned i = depth; i-- > 0;) {
            struct timing_run run = {.executed = 1, .next = 0x600004 + 64 * i};
            block_run(m.core, &returns, &run);
            wrong += run.mispredicted;
            timing_block_fini(&calls[i]);
        }
        assert_int_equal(wrong, depth > 16 ? depth - 16 : 0);
    }
    timing_block_fini(&block);
    timing_block_fini(&returns);
    timing_free(m.timing);
}

/* A loop over more code than level 1 holds pays for it; half as much does not. */
static double loop_over(unsigned bytes, struct uarch_counts *counts)
{
    enum { LENGTH = 16 };
    struct spex_op ops[LENGTH];
    struct machine m = machine_new("prefetch=none");
    unsigned blocks = bytes / (4 * LENGTH), times = 12;
    struct timing_block *block = calloc(blocks, sizeof *block);
    for (unsigned i = 0; i < LENGTH; i++)
        ops[i] = op_make(i % 2 ? SPEX_EXEC_ALU : SPEX_EXEC_FP_ADD, (int)i, 20, -1);
    for (unsigned b = 0; b < blocks; b++)
        timing_block_init(m.timing, &block[b], 0x400000 + 4ull * LENGTH * b, ops, LENGTH);
    uint64_t before = 0;
    for (unsigned t = 0; t < times; t++) {
        if (t == times / 2)
            before = clock_of(&m);
        for (unsigned b = 0; b < blocks; b++) {
            struct timing_run run = {.executed = LENGTH, .next = block[(b + 1) % blocks].pc};
            block_run(m.core, &block[b], &run);
        }
    }
    double cycles = (double)(clock_of(&m) - before) / (times / 2) / blocks;
    timing_counts(m.core, counts);
    for (unsigned b = 0; b < blocks; b++)
        timing_block_fini(&block[b]);
    free(block);
    timing_free(m.timing);
    return cycles;
}

static void test_instruction_side(void **state)
{
    struct uarch_counts counts;
    near(loop_over(32 << 10, &counts), 4, 0.1);
    assert_int_equal(counts.code_miss, 512);
    assert_true(loop_over(256 << 10, &counts) > 7);
    assert_int_equal(counts.code_miss, 4096 * 12);
}

/* ---- vectors ---- */

/* A store of many elements has more pieces than the store buffer has room for: it goes on. */
static void test_wide_stores(void **state)
{
    struct machine m = machine_new("prefetch=none");
    struct spex_op ops[2] = {op_make(SPEX_EXEC_STORE, -1, 20, 1),
                             op_make(SPEX_EXEC_LOAD, 2, 20, -1)};
    struct timing_block block;
    enum { ELEMENTS = 300 };
    timing_access access[ELEMENTS + 1];
    uint64_t seed = 3;
    timing_block_init(m.timing, &block, 0x400000, ops, 2);
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t elements = 1 + random64(&seed) % ELEMENTS;
        for (uint64_t k = 0; k < elements; k++)
            access[k] = SPEX_TIMING_ACCESS(0x10001 + random64(&seed) % 16, 0);
        access[elements] = SPEX_TIMING_ACCESS(0x90000 + random64(&seed) % 16, 1);
        struct timing_run run = {
            .executed = 2, .next = 0x400000, .access = access, .access_count = elements + 1};
        block_run(m.core, &block, &run);
    }
    assert_true(clock_of(&m) >= 1000); /* four operations a cycle */
    timing_block_fini(&block);
    timing_free(m.timing);
}

/* ---- NUMA ---- */

static void test_first_touch(void **state)
{
    struct machine m = machine_new("sockets=2,cluster=1,prefetch=none");
    struct timing_core *other;
    struct spex_op load = op_make(SPEX_EXEC_LOAD, 1, 20, -1);
    struct timing_block block;
    uarch_result result;
    struct account_insn insn;
    timing_core_new(m.timing, 1, &other);
    timing_block_init(m.timing, &block, 0x400000, &load, 1);
    const struct {
        struct timing_core *core;
        uint64_t va;
        bool remote;
    } rows[] = {{m.core, 0x10000, false},
                {other, 0x20000, false},
                {other, 0x10040, true},
                {m.core, 0x20040, true},
                {m.core, 0x10080, false}};
    for (unsigned i = 0; i < 5; i++) {
        timing_access access = SPEX_TIMING_ACCESS(rows[i].va, 0);
        struct timing_run run = {.executed = 1,
                                 .next = 0x400004,
                                 .access = &access,
                                 .access_count = 1,
                                 .insns = &insn,
                                 .results = &result};
        block_run(rows[i].core, &block, &run);
        assert_int_equal(!!(result & SPEX_UARCH_SOCKET), rows[i].remote);
        assert_int_equal(uarch_result_latency(result), 238 + (rows[i].remote ? 220 : 0));
    }
    timing_block_fini(&block);
    timing_free(m.timing);
}

TEST_MAIN(TEST(test_chains), TEST(test_parallelism), TEST(test_load), TEST(test_prefetch),
          TEST(test_hints), TEST(test_forwarding), TEST(test_stores), TEST(test_directions),
          TEST(test_targets_and_returns), TEST(test_instruction_side), TEST(test_first_touch),
          TEST(test_wide_stores))
