/*
 * The full model and the slow one (slow.c) agree on every instruction of random
 * programs: cycles of dispatch, issue, completion and retirement, what each access
 * met, predictions, and all counts.
 */
#include "uarch/support.h"

#include "uarch/account.h"
#include "uarch/slow.h"

enum { BLOCKS = 80, LONGEST = 40, ACCESSES = 2 * LONGEST, CORES = 3 };

enum pattern { STREAM, FAR, NEAR, STACK, COMMON, PATTERNS };

struct place { /* where a static instruction goes */
    enum pattern pattern;
    uint64_t at;
    int64_t step;
};

struct program {
    unsigned blocks;
    struct spex_op ops[BLOCKS][LONGEST];
    struct place place[BLOCKS][LONGEST];
    struct timing_block block[BLOCKS];
    unsigned period[BLOCKS]; /* of a conditional branch; 0: a coin */
    unsigned turn[BLOCKS];
};

static uint64_t seed;
static bool calm; /* accesses that hit, branches that repeat: blocks find what they found before */

static unsigned any(unsigned below)
{
    return (unsigned)(random64(&seed) % below);
}

static int reg(void)
{
    return (int)any(12);
}

static struct spex_op random_op(void)
{
    static const uint8_t classes[] = {
        SPEX_EXEC_ALU,  SPEX_EXEC_ALU,   SPEX_EXEC_ALU,    SPEX_EXEC_ALU,    SPEX_EXEC_NOP,
        SPEX_EXEC_MUL,  SPEX_EXEC_SHIFT, SPEX_EXEC_FP_ADD, SPEX_EXEC_FP_FMA, SPEX_EXEC_SIMD_ALU,
        SPEX_EXEC_LOAD, SPEX_EXEC_LOAD,  SPEX_EXEC_LOAD,   SPEX_EXEC_LOAD,   SPEX_EXEC_LOAD,
        SPEX_EXEC_LOAD, SPEX_EXEC_STORE, SPEX_EXEC_STORE,  SPEX_EXEC_STORE,  SPEX_EXEC_STORE,
    };
    uint8_t class = classes[any(sizeof classes)];
    if (any(calm ? 1000 : 60) == 0)
        class = (uint8_t[]){SPEX_EXEC_DIV, SPEX_EXEC_FP_DIV, SPEX_EXEC_BARRIER, SPEX_EXEC_ATOMIC,
                            SPEX_EXEC_SYSTEM}[any(5)];
    struct spex_op op =
        op_make(class, class == SPEX_EXEC_STORE ? -1 : reg(), reg(), any(2) ? reg() : -1);
    op.access_size = (uint8_t)(1u << any(4));
    op.access_bytes = (uint16_t)(op.access_size << op.src[0] % 4); /* of several registers */
    if (class == SPEX_EXEC_STORE && any(20) == 0)
        op.kind = SPEX_OP_DC_ZVA;
    if (class == SPEX_EXEC_STORE && any(30) == 0 && op.kind != SPEX_OP_DC_ZVA)
        op.flags |= SPEX_OPF_EXCL;
    if (class == SPEX_EXEC_LOAD && any(3) == 0)
        op.dst[1] = op.src[0];                           /* the base, written back */
    if (class == SPEX_EXEC_LOAD && op.src[0] % 8 == 3) { /* PRFM, sometimes for nothing */
        static const uint8_t hints[8] = {0, 1, 1, 2, 3, 5, 6, 7};
        op.prefetch = hints[op.dst[0] % 8];
        op.kind = SPEX_OP_PREFETCH;
        op.flags = 0;
        op.dst[0] = op.dst[1] = SPEX_REG_NONE;
    }
    if (any(10) == 0)
        for (unsigned i = 2; i < 5; i++)
            op.src[i] = (uint8_t)reg();
    if (any(20) == 0 && class == SPEX_EXEC_ALU)
        op.dst[2] = (uint8_t)reg();
    return op;
}

static struct place random_place(void)
{
    static const int64_t steps[] = {8, 4, 64, -64, 192, 16, 1, -8};
    struct place p = {.pattern = calm ? (any(8) ? NEAR : STACK) : (enum pattern)any(PATTERNS)};
    p.at = p.pattern == STREAM ? 0x10000000 + any(64) * 0x100000ull : 0;
    p.step = steps[any(8)];
    return p;
}

static uint64_t next_address(struct place *p, unsigned core, unsigned size)
{
    uint64_t base = 0x40000000 + core * 0x1000000ull;
    switch (p->pattern) {
    case STREAM:
        p->at += (uint64_t)p->step;
        return p->at + core * 0x4000000ull;
    case FAR:
        return base + any(1 << 20);
    case NEAR:
        return base + any(1 << 13);
    case STACK:
        return base + 0x800000 + any(64);
    default:
        return (0x70000000 + any(512)) / size * size;
    }
}

static void make_program(struct program *p, struct timing *timing)
{
    static const uint32_t ends[] = {SPEX_OPF_COND,
                                    SPEX_OPF_COND,
                                    SPEX_OPF_COND,
                                    SPEX_OPF_COND,
                                    0,
                                    SPEX_OPF_LINK,
                                    SPEX_OPF_INDIRECT,
                                    SPEX_OPF_INDIRECT | SPEX_OPF_LINK,
                                    SPEX_OPF_INDIRECT | SPEX_OPF_RETURN};
    uint64_t pc = 0x400000;
    p->blocks = calm ? 6 : 10 + any(BLOCKS - 10);
    for (unsigned b = 0; b < p->blocks; b++) {
        unsigned count = 1 + any(calm ? 8 : LONGEST);
        for (unsigned i = 0; i < count; i++) {
            p->ops[b][i] = random_op();
            p->place[b][i] = random_place();
        }
        if (any(12))
            p->ops[b][count - 1] = branch_make(ends[any(9)]);
        p->period[b] = any(3) ? any(12) : 0;
        p->turn[b] = 0;
        assert_int_equal(timing_block_init(timing, &p->block[b], pc, p->ops[b], count), SPEX_OK);
        pc += 4 * count + 4 * any(200);
    }
}

static size_t make_accesses(struct program *p, unsigned b, unsigned executed, unsigned core,
                            timing_access *access)
{
    size_t n = 0;
    for (unsigned i = 0; i < executed; i++) {
        const struct spex_op *op = &p->ops[b][i];
        if (op->kind != SPEX_OP_PREFETCH &&
            (!(op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE)) || op->kind == SPEX_OP_BRANCH))
            continue;
        if (op->flags & SPEX_OPF_EXCL && any(2))
            continue; /* it failed */
        unsigned zva = op->kind == SPEX_OP_DC_ZVA, pair = !zva && any(4) == 0;
        uint64_t va = next_address(&p->place[b][i], core, op->access_size);
        if (zva)
            va &= ~63ull;
        access[n++] = SPEX_TIMING_ACCESS(va, i);
        if (pair)
            access[n++] = SPEX_TIMING_ACCESS(va + op->access_size, i);
    }
    return n;
}

static void compare(const struct timing_run *a, const struct timing_run *b, uint64_t number)
{
    for (unsigned i = 0; a->insns && i < a->executed; i++)
        if (memcmp(&a->insns[i], &b->insns[i], sizeof a->insns[i]))
            fail_msg("instruction %llu + %u: %llu %llu %llu %llu, slow %llu %llu %llu %llu",
                     (unsigned long long)number, i, (unsigned long long)a->insns[i].dispatch,
                     (unsigned long long)a->insns[i].issue, (unsigned long long)a->insns[i].done,
                     (unsigned long long)a->insns[i].retire,
                     (unsigned long long)b->insns[i].dispatch,
                     (unsigned long long)b->insns[i].issue, (unsigned long long)b->insns[i].done,
                     (unsigned long long)b->insns[i].retire);
    for (size_t i = 0; a->results && i < a->access_count; i++)
        if (a->results[i] != b->results[i])
            fail_msg("instruction %llu, access %zu to %llx: %llx, slow %llx",
                     (unsigned long long)number, i, (unsigned long long)a->access[i],
                     (unsigned long long)a->results[i], (unsigned long long)b->results[i]);
    assert_int_equal(a->mispredicted, b->mispredicted);
}

/* The same as timing_run(), from words. */
static void run_words(struct timing_core *core, struct timing_block *block,
                      const struct timing_run *run)
{
    static struct timing_block after;
    uint64_t words[ACCESSES + 1];
    size_t n = run->access_count;
    memcpy(words, run->access, n * sizeof *words);
    after.pc = run->next;
    words[n] = SPEX_TIMING_BLOCK | (uintptr_t)&after | (run->mispredicted ? SPEX_TIMING_WRONG : 0);
    struct timing_words w = {.block = block,
                             .at = words,
                             .stop = words + n + 1,
                             .limit = UINT64_MAX,
                             .instructions = block->count};
    timing_follow(core, &w);
    assert_ptr_equal(w.at, words + n + 1);
    assert_ptr_equal(w.block, &after);
    assert_int_equal(w.instructions, 0);
    bool taken = block->end > SPEX_UARCH_END_COND ||
                 (block->end == SPEX_UARCH_END_COND && run->next != block->next);
    assert_ptr_equal(w.taken, taken ? block : NULL);
    if (taken)
        assert_int_equal(w.target, run->next);
}

static void run_same(const char *settings, uint64_t random, unsigned cores, uint64_t instructions)
{
    struct uarch_config config;
    struct spex_error error = {0};
    struct timing *timing;
    struct timing_core *core[CORES];
    static struct program p;
    seed = random;
    uarch_config_preset("neoverse-v1", &config, &error);
    if (uarch_config_set(&config, settings, &error))
        fail_msg("%s", error.text);
    assert_int_equal(timing_new(&config, &timing), SPEX_OK);
    struct slow *slow = slow_new(&config, cores);
    for (unsigned i = 0; i < cores; i++)
        assert_int_equal(timing_core_new(timing, i, &core[i]), SPEX_OK);
    make_program(&p, timing);
    unsigned b = 0;
    uint64_t clock[CORES] = {0}, spent[CORES] = {0}, runs = 0, known = 0;
    for (uint64_t n = 0; n < instructions;) {
        unsigned k = any(cores), count = p.block[b].count, end = p.block[b].end;
        timing_access access[ACCESSES];
        struct account_insn insns[2][LONGEST];
        uarch_result results[2][ACCESSES];
        struct timing_run fast = {.executed = count, .access = access}, same;
        if (any(calm ? 20000 : 200) == 0) {
            fast.executed = 1 + any(count);
            fast.cut = true;
        }
        fast.access_count = make_accesses(&p, b, fast.executed, k, access);
        unsigned to = any(calm ? 50 : 4) ? (b + 1) % p.blocks : any(p.blocks);
        bool taken = p.period[b] ? p.turn[b]++ % p.period[b] == 0 : any(2);
        fast.next = end == SPEX_UARCH_END_COND && !taken ? p.block[b].next : p.block[to].pc;
        same = fast;
        same.insns = insns[1];
        same.results = results[1];
        if (any(calm ? 500 : 2) == 0) {
            fast.insns = insns[0];
            fast.results = results[0];
        }
        uint32_t went = core[k]->went_count;
        fast.mispredicted = !fast.cut && timing_predict(core[k], &p.block[b], fast.next);
        if (!fast.cut && !fast.insns && any(20))
            run_words(core[k], &p.block[b], &fast);
        else
            timing_run(core[k], &p.block[b], &fast);
        slow_run(slow, k, p.ops[b], p.block[b].pc, count, &same);
        compare(&fast, &same, n);
        runs++;
        known += core[k]->went_count > went;
        assert_int_equal(timing_clock(core[k]), same.insns[fast.executed - 1].retire);
        for (unsigned i = 0; i < fast.executed; i++) { /* time adds up */
            spent[k] += same.insns[i].retire - clock[k];
            clock[k] = same.insns[i].retire;
        }
        if (any(1000) == 0) {
            unsigned cycles = any(3000);
            timing_spend(core[k], cycles);
            slow_spend(slow, k, cycles);
            clock[k] += cycles;
            spent[k] += cycles;
        }
        assert_int_equal(spent[k], timing_clock(core[k]));
        n += fast.executed;
        b = to;
    }
    if (calm && cores == 1)
        assert_true(known > runs / 3);
    for (unsigned i = 0; i < cores; i++) {
        struct uarch_counts a, s;
        timing_counts(core[i], &a);
        slow_counts(slow, i, &s);
        assert_memory_equal(&a, &s, sizeof a);
    }
    for (unsigned i = 0; i < p.blocks; i++)
        timing_block_fini(&p.block[i]);
    slow_free(slow);
    timing_free(timing);
}

#define SMALL                                                                                      \
    "l1d.size=4K,l2.size=32K,llc.size=256K,tlb.entries=8,tlb2.entries=64,tlb2.ways=4,"             \
    "l1i.size=4K,itlb.entries=4,btb.entries=64,btb.ways=4"

static void test_one_core(void **state)
{
    run_same(SMALL, 1, 1, 400000);
    run_same(SMALL ",prefetch=none", 2, 1, 200000);
    run_same(SMALL ",pf.next=2,pf.stride=4,pf.l2=2,pf.stream=2", 3, 1, 300000);
}

static void test_narrow(void **state)
{
    run_same(SMALL ",rob=8,loads=2,stores=2,width=1,l1d.misses=1,l2.misses=2,pipes.alu=1", 4, 1,
             200000);
    run_same(SMALL ",rob=1024,loads=512,stores=256,width=5,l1d.misses=64,l2.misses=256", 5, 1,
             200000);
}

static void test_bandwidth(void **state)
{
    run_same(SMALL ",l2.lines=3,llc.lines=2,dram.lines=1,dram.queue=0", 6, 1, 200000);
    run_same(SMALL ",dram.lines=4,dram.queue=400", 7, 2, 200000);
    run_same(SMALL ",mesh.lines=1,l2.code=1", 20, 1, 100000);
}

static void test_predictors(void **state)
{
    run_same(SMALL ",tage.tables=0", 8, 1, 100000);
    run_same(SMALL ",tage.tables=8,tage.bits=6,tage.history=192,base.bits=5,ittage.bits=4", 9, 1,
             300000);
    run_same(SMALL ",tage.tables=1,ittage.tables=1,ras.depth=2", 10, 1, 100000);
}

static void test_targets(void **state)
{
    run_same(SMALL ",btb.near=4,btb.mid=7,btb.mid.cycles=5,btb.cycles=9,btb.dense=3", 21, 1,
             300000);
    run_same(SMALL ",btb.near=9,btb.pairs=1,btb.cycles=6,btb.miss=3,width=7", 22, 2, 300000);
    run_same(SMALL ",btb.near=1,btb.pairs=1,btb.mid=1,width=1", 23, 1, 100000);
}

static void test_several_cores(void **state)
{
    run_same(SMALL, 11, 2, 300000);
    run_same(SMALL ",sockets=2,cluster=1,remote.lines=2", 12, 3, 300000);
    run_same(SMALL ",sockets=2,cluster=2,lease=100", 13, 3, 200000);
}

static void test_streaming(void **state)
{
    run_same(SMALL ",streaming=1,streaming.far=2", 14, 1, 200000);
    run_same(SMALL ",streaming=0,forward=9,split.latency=7,forward.fail=30", 15, 1, 100000);
}

/* Most blocks find registers as they were before (memo.c). */
static void test_known(void **state)
{
    calm = true;
    run_same("l1d.latency=4", 20, 1, 300000);
    run_same("width=5,pipes.alu=3,rob=40,loads=12,stores=8", 24, 1, 200000);
    run_same("width=16,pipes.alu=13,pipes.fp=11,pipes.load=7,l2.latency=40", 18, 1, 200000);
    run_same("cluster=1", 19, 2, 200000);
    run_same("btb.near=2,btb.mid=3,btb.cycles=7,btb.dense=2", 21, 1, 300000);
    run_same("btb.near=5,btb.pairs=1,btb.cycles=9,btb.dense=0", 19, 1, 300000);
    calm = false;
}

TEST_MAIN(TEST(test_known), TEST(test_one_core), TEST(test_narrow), TEST(test_bandwidth),
          TEST(test_predictors), TEST(test_targets), TEST(test_several_cores), TEST(test_streaming))
