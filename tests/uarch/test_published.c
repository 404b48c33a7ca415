/*
 * What was measured on silicon (spec/published.tsv has the sources), on the full model alone:
 * reading in order from each level, and loads of what a store before them wrote.
 */
#include "uarch/support.h"

#include "uarch/timing.h"

struct modelled {
    struct timing *timing;
    struct timing_core *core;
    unsigned lines; /* of level 2, by which streams are as long as they are */
};

static struct modelled machine_of(const char *cpu, const char *settings)
{
    struct modelled m;
    struct uarch_config config;
    struct spex_error error = {0};
    assert_int_equal(uarch_config_preset(cpu, &config, &error), SPEX_OK);
    if (uarch_config_set(&config, settings, &error))
        fail_msg("%s", error.text);
    m.lines = (unsigned)(config.l2_size / 64);
    assert_int_equal(timing_new(&config, &m.timing), SPEX_OK);
    assert_int_equal(timing_core_new(m.timing, 0, &m.core), SPEX_OK);
    return m;
}

/* Runs a block so often; access k of round n is to next(k, n). Cycles of a round. */
static double cycles_of(struct modelled *m, const struct spex_op *ops, size_t count,
                        unsigned rounds, uint64_t (*next)(unsigned, unsigned, unsigned),
                        unsigned what)
{
    struct timing_block block;
    uint64_t before = timing_clock(m->core);
    timing_block_init(m->timing, &block, 0x400000, ops, count);
    for (unsigned n = 0; n < rounds; n++) {
        timing_access access[16];
        struct timing_run run = {.executed = (uint32_t)count, .next = 0x400000};
        for (unsigned k = 0, i = 0; k < count; k++)
            for (unsigned b = 0; b < ops[k].access_bytes; b += ops[k].access_size)
                access[run.access_count++] = SPEX_TIMING_ACCESS(next(what, i++, n), k);
        run.access = access;
        run.mispredicted = timing_predict(m->core, &block, run.next);
        timing_run(m->core, &block, &run);
    }
    timing_block_fini(&block);
    return (double)(timing_clock(m->core) - before) / rounds;
}

static uint64_t in_order(unsigned lines, unsigned access, unsigned round)
{
    return 0x10000000 + round % lines * 64ull + access * 16;
}

/* Two loads of two registers of 16 bytes each, the address, the comparison, the branch. */
static double bytes_a_cycle(struct modelled *m, unsigned lines)
{
    struct spex_op ops[5] = {op_make(SPEX_EXEC_LOAD, 40, 8, -1), op_make(SPEX_EXEC_LOAD, 42, 8, -1),
                             op_make(SPEX_EXEC_ALU, 8, 8, -1), op_make(SPEX_EXEC_ALU, 9, 8, -1),
                             branch_make(SPEX_OPF_COND)};
    unsigned passes = 1 + 20000 / lines;
    for (unsigned i = 0; i < 2; i++) {
        ops[i].dst[1] = (uint8_t)(ops[i].dst[0] + 1);
        ops[i].access_size = 16;
        ops[i].access_bytes = 32;
    }
    cycles_of(m, ops, 5, lines, in_order, lines);
    return 64 / cycles_of(m, ops, 5, passes * lines, in_order, lines);
}

static void within(const char *cpu, const char *what, double value, double published)
{
    if (published && (value < 0.85 * published || value > 1.15 * published))
        fail_msg("%s, %s: %.2f, and %.2f was measured", cpu, what, value, published);
}

/* One core reads in order: from level 1 what its ports take, from level 2 and the
 * last level less each; what is fetched ahead from memory can be as fast as the last level. */
static void test_streams(void **state)
{
    static const struct {
        const char *cpu;
        double ports, level[4]; /* level 1, level 2, last level, memory; 0: nobody says */
    } rows[] = {
        {"neoverse-n1", 32, {0, 29.36, 14.36, 8.36}},
        {"neoverse-v2", 48, {45.22, 24.16, 10.9, 10}},
        {"grace", 48, {0, 0, 0, 8.14}},
        {"kunpeng-920", 32, {0, 20, 0, 0}},
    };
    static const char *names[] = {"level 1", "level 2", "last level", "memory"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double last = rows[i].ports;
        for (unsigned level = 0; level < 4; level++) {
            struct modelled m =
                machine_of(rows[i].cpu,
                           level == 3 ? "page.size=2M,llc.size=2304K,llc.ways=18" : "page.size=2M");
            unsigned lines = level == 0   ? 512
                             : level == 1 ? m.lines / 2
                             : level == 2 ? 3 * m.lines
                                          : 1 << 18;
            double bytes = bytes_a_cycle(&m, lines);
            within(rows[i].cpu, names[level], bytes, rows[i].level[level]);
            if (bytes > (level == 1 || level == 2 ? 0.95 : 1.01) * last)
                fail_msg("%s: %.2f bytes a cycle from the %s, %.2f from what is nearer",
                         rows[i].cpu, bytes, names[level], last);
            last = bytes;
            timing_free(m.timing);
        }
    }
}

static uint64_t beside(unsigned offset, unsigned access, unsigned round)
{
    return 0x10000000 + access * offset + round * 0;
}

/* A store, and a load of so many bytes that far from it, which the next store needs. */
static double pair(const char *cpu, unsigned stored, unsigned loaded, unsigned offset)
{
    struct spex_op ops[2] = {op_make(SPEX_EXEC_STORE, -1, 20, 1),
                             op_make(SPEX_EXEC_LOAD, 1, 20, -1)};
    struct modelled m = machine_of(cpu, "page.size=2M");
    ops[0].access_size = (uint8_t)stored;
    ops[0].access_bytes = (uint8_t)stored;
    ops[1].access_size = (uint8_t)loaded;
    ops[1].access_bytes = (uint8_t)loaded;
    cycles_of(&m, ops, 2, 1000, beside, offset);
    double cycles = cycles_of(&m, ops, 2, 1000, beside, offset);
    timing_free(m.timing);
    return cycles;
}

/* What is forwarded takes what was measured; what cannot be takes longer, on every core. */
static void test_forwarding(void **state)
{
    static const struct {
        const char *cpu;
        double forwarded, not ;
    } rows[] = {
        {"neoverse-n1", 0, 0}, {"neoverse-v1", 0, 0},    {"neoverse-n2", 0, 0},
        {"kunpeng-920", 0, 0}, {"neoverse-v2", 5, 10.5}, {"neoverse-v3", 5.3, 10.5},
        {"grace", 5, 10.5},    {"ampereone", 6.5, 17},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *cpu = rows[i].cpu;
        double whole = pair(cpu, 8, 8, 0), half = pair(cpu, 8, 4, 4), overlap = pair(cpu, 8, 8, 2),
               narrow = pair(cpu, 1, 8, 0), middle = pair(cpu, 8, 1, 1);
        within(cpu, "forwarded", whole, rows[i].forwarded);
        within(cpu, "its upper half", half, rows[i].forwarded);
        within(cpu, "overlap", overlap, rows[i].not );
        within(cpu, "load wider than the store", narrow, rows[i].not );
        within(cpu, "a byte out of the middle", middle, rows[i].not );
        if (overlap < whole + 1 || narrow < whole + 1 || middle < whole + 1)
            fail_msg("%s: %.2f forwarded, not forwarded %.2f, %.2f, %.2f", cpu, whole, overlap,
                     narrow, middle);
    }
}

TEST_MAIN(TEST(test_streams), TEST(test_forwarding))
