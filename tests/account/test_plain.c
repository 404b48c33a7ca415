/*
 * The plain account (account/plain.h) and the full model's agree on every instruction of random
 * programs whose code and data are in the level 1 caches: cycles of dispatch, issue, completion and
 * retirement. Loads get their time from the model, or, where all data is at places that are known,
 * from the latency of a hit and from the stores before them.
 */
#include "../uarch/support.h"

#include "account/plain.h"
#include "uarch/timing.h"

enum { BLOCKS = 40, LONGEST = 24, PLACES = 6 };

static uint64_t seed;

static unsigned any(unsigned below)
{
    return (unsigned)(random64(&seed) % below);
}

static struct program {
    struct spex_op ops[BLOCKS][LONGEST];
    struct account_op plain[BLOCKS][LONGEST];
    unsigned place[BLOCKS][LONGEST];
    struct account_ports ports[BLOCKS];
    struct timing_block block[BLOCKS];
} p;

static struct spex_op random_op(bool known)
{
    static const uint8_t classes[] = {
        SPEX_EXEC_ALU,  SPEX_EXEC_ALU,     SPEX_EXEC_ALU,    SPEX_EXEC_ALU,    SPEX_EXEC_NOP,
        SPEX_EXEC_MUL,  SPEX_EXEC_SHIFT,   SPEX_EXEC_FP_ADD, SPEX_EXEC_FP_FMA, SPEX_EXEC_LOAD,
        SPEX_EXEC_LOAD, SPEX_EXEC_LOAD,    SPEX_EXEC_STORE,  SPEX_EXEC_STORE,  SPEX_EXEC_DIV,
        SPEX_EXEC_SVE,  SPEX_EXEC_FP_SQRT,
    };
    uint8_t class = classes[any(sizeof classes)];
    if (any(100) == 0)
        class =
            (uint8_t[]){SPEX_EXEC_BARRIER, SPEX_EXEC_SYSTEM, SPEX_EXEC_ATOMIC}[any(known ? 2 : 3)];
    int dst = class == SPEX_EXEC_STORE ? -1 : (int)any(12);
    struct spex_op op = op_make(class, dst, (int)any(12), any(2) ? (int)any(12) : -1);
    if (class == SPEX_EXEC_LOAD && any(3) == 0)
        op.dst[1] = op.src[0]; /* the base, written back */
    if (class == SPEX_EXEC_ALU && any(20) == 0)
        op.dst[2] = (uint8_t)any(12);
    if (any(10) == 0)
        for (unsigned i = 2; i < 5; i++)
            op.src[i] = (uint8_t)any(12);
    return op;
}

static void make_program(const struct uarch_config *c, struct timing *timing, bool known)
{
    static const uint32_t ends[] = {SPEX_OPF_COND, SPEX_OPF_COND, 0, SPEX_OPF_INDIRECT};
    uint16_t latency[SPEX_EXEC_CLASS_COUNT];
    uint64_t pc = 0x400000;
    memset(&p, 0, sizeof p);
    account_latencies(c, latency);
    for (unsigned b = 0; b < BLOCKS; b++) {
        unsigned count = 2 + any(LONGEST - 2);
        for (unsigned i = 0; i < count; i++) {
            p.ops[b][i] = i == count - 1 ? branch_make(ends[any(4)]) : random_op(known);
            p.place[b][i] = any(PLACES);
            account_op(c, latency, &p.plain[b][i], &p.ops[b][i]);
            account_use(&p.ports[b], &p.ops[b][i]);
        }
        assert_int_equal(timing_block_init(timing, &p.block[b], pc, p.ops[b], count), SPEX_OK);
        pc += 4 * count;
    }
}

static void run_block(struct timing_core *core, unsigned b, unsigned to, struct account_insn *insns,
                      struct timing_run *run)
{
    static timing_access access[LONGEST];
    *run = (struct timing_run){.executed = p.block[b].count, .access = access, .insns = insns};
    for (unsigned i = 0; i < run->executed; i++)
        if (p.ops[b][i].flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE))
            access[run->access_count++] = SPEX_TIMING_ACCESS(0x40000000 + 8 * p.place[b][i], i);
    run->next = p.block[to].pc;
    run->mispredicted = timing_predict(core, &p.block[b], run->next);
    timing_run(core, &p.block[b], run);
}

static unsigned next_of(unsigned b)
{
    return any(3) ? (b + 1) % BLOCKS : any(BLOCKS);
}

static void agree(const char *settings, uint64_t random, bool known)
{
    struct uarch_config c;
    struct spex_error error = {0};
    struct timing *timing;
    struct timing_core *core;
    struct account_insn insns[LONGEST], n;
    struct timing_run run;
    static struct plain plain;
    seed = random;
    uarch_config_preset("neoverse-n1", &c, &error);
    if (uarch_config_set(&c, settings, &error))
        fail_msg("%s", error.text);
    assert_int_equal(timing_new(&c, &timing), SPEX_OK);
    assert_int_equal(timing_core_new(timing, 0, &core), SPEX_OK);
    make_program(&c, timing, known);
    unsigned b = 0, wrong = 0;
    for (unsigned k = 0; k < 2 * BLOCKS; k++) /* lines, translations and targets are there then */
        run_block(core, k % BLOCKS, (k + 1) % BLOCKS, insns, &run);
    for (unsigned k = 0; k < BLOCKS; k++)
        run_block(core, k, k ? 0 : BLOCKS / 2, insns, &run);
    timing_spend(core, 100000);
    plain_init(&plain, &c);
    plain_restart(&plain, timing_clock(core));
    for (unsigned done = 0; done < 200000; done += p.block[b].count) {
        unsigned to = next_of(b);
        run_block(core, b, to, insns, &run);
        for (unsigned i = 0; i < run.executed; i++) {
            uint32_t took = known ? c.l1d_latency : (uint32_t)(insns[i].done - insns[i].issue);
            const struct plain_access access = {.took = took,
                                                .place = known ? p.place[b][i] + 1 : 0};
            n = plain_run(&plain, &p.plain[b][i], &access);
            if (memcmp(&n, &insns[i], sizeof n))
                fail_msg("%s: instruction %u + %u, class %u: %llu %llu %llu %llu, model %llu %llu "
                         "%llu %llu",
                         settings, done, i, p.ops[b][i].exec, (unsigned long long)n.dispatch,
                         (unsigned long long)n.issue, (unsigned long long)n.done,
                         (unsigned long long)n.retire, (unsigned long long)insns[i].dispatch,
                         (unsigned long long)insns[i].issue, (unsigned long long)insns[i].done,
                         (unsigned long long)insns[i].retire);
        }
        const uint64_t extra = account_extra(&c, plain.parts, &p.ports[b]);
        plain_ports(&plain, extra);
        const unsigned end = p.block[b].end;
        if (run.mispredicted)
            plain_mispredicted(&plain, n.done);
        else if (end != SPEX_UARCH_END_COND || run.next != p.block[b].next)
            plain_taken(&plain, p.ports[b].count, extra, 1,
                        c.btb_pairs && end == SPEX_UARCH_END_DIRECT);
        wrong += run.mispredicted;
        b = to;
    }
    assert_true(wrong > 1000);
    for (unsigned i = 0; i < BLOCKS; i++)
        timing_block_fini(&p.block[i]);
    timing_free(timing);
}

#define CALM "prefetch=none,btb.near=4096" /* and a branch a cycle, as the N1 */

static void test_latencies_given(void **state)
{
    agree(CALM, 1, false);
    agree(CALM ",width=1,rob=8,loads=2,stores=2,pipes.alu=1", 2, false);
    agree(CALM ",width=8,rob=320,loads=96,stores=3,pipes.load=3,mispredict=30", 3, false);
    agree(CALM ",width=10,pipes.branch=4,pipes.alu=10,btb.pairs=1", 8, false);
    agree(CALM ",width=5,rob=1024,loads=512,stores=256,lat.div=40,forward=9", 4, false);
}

static void test_places_known(void **state)
{
    agree(CALM, 5, true);
    agree(CALM ",width=10,rob=384,pipes.alu=8,pipes.store=1,forward=7", 6, true);
    agree(CALM ",stores=4,loads=6,lat.barrier=50", 7, true);
}

TEST_MAIN(TEST(test_latencies_given), TEST(test_places_known))
