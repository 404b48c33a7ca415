/*
 * The random modes: mean interval, uniformity, no aliasing with loops; and the
 * random choices of collection. Seeds are fixed, so every run gives the same
 * numbers; the bounds are those of a fair source.
 */
#include "rig.h"

#include "base/bits.h"

enum { SAMPLES = 60000 };

static struct rig rig;

/* A unit with its own random source. */
static void open_seeded(const char *features, const char *choices, uint64_t seed)
{
    rig_open(&rig, features, choices);
    rig.config.host.random = NULL;
    rig.config.seed = seed;
    rig.config.host.write = NULL;
    rig_reopen(&rig);
}

static void start(uint64_t interval, bool rnd)
{
    rig_set(&rig, SPEX_PMBPTR_EL1, RIG_BASE);
    /* Discard mode: as many samples as we like. */
    rig_set(&rig, SPEX_PMBLIMITR_EL1, 2 << 1 | 1);
    rig_set(&rig, SPEX_PMSIRR_EL1, interval << 8 | rnd);
    rig_set(&rig, SPEX_PMSICR_EL1, 0);
    rig_set(&rig, SPEX_PMSCR_EL1, 3);
}

/* Places (from 1) of the next count sampled operations. */
static void sample(uint64_t *at, size_t count, uint64_t *position)
{
    struct made_op op;
    ops_plain(SPEX_OP_OTHER, 0, &op);
    for (size_t i = 0; i < count;) {
        uint64_t n = spex_spu_until(rig.unit);
        spex_spu_pass(rig.unit, n);
        *position += n + 1;
        if (spex_spu_op(rig.unit, op.pc, &op.op, &op.outcome))
            at[i++] = *position;
    }
}

/* Pearson's statistic against uniform. */
static double chi_square(const uint64_t *bins, size_t count)
{
    uint64_t total = 0;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        total += bins[i];
    double expected = (double)total / (double)count;
    for (size_t i = 0; i < count; i++)
        sum += ((double)bins[i] - expected) * ((double)bins[i] - expected) / expected;
    return sum;
}

/* Five standard deviations, sqrt(2k), around k degrees of freedom; more room where k is small. */
static void assert_uniform(const uint64_t *bins, size_t count, const char *what)
{
    double k = (double)count - 1, chi = chi_square(bins, count), away = chi - k;
    if (away > 8)
        away -= 8;
    if (away * away > 25 * 2 * k)
        fail_msg("%s: chi-square %.1f with %.0f degrees of freedom", what, chi, k);
}

static uint64_t at[SAMPLES];

/* No randomness: the distance is exactly INTERVAL*256 + 1, the first is INTERVAL*256. */
static void test_exact(void **state)
{
    SPEC(SMP-08);
    SPEC(SMP-22);
    SPEC(SMP-23);
    SPEC(SMP-24);
    SPEC(SMP-25);
    SPEC(SMP-26);
    for (unsigned ernd = 0; ernd < 2; ernd++) {
        for (uint64_t interval = 1; interval < 50; interval += 7) {
            uint64_t position = 0;
            open_seeded(ernd ? "max" : "max,no-ernd", "", 1);
            start(interval, false);
            sample(at, 50, &position);
            assert_int_equal(at[0], interval * 256);
            for (size_t i = 1; i < 50; i++)
                assert_int_equal(at[i] - at[i - 1], interval * 256 + 1);
            rig_close(&rig);
        }
    }
    /* The pseudocode's reading: the first operation loads. */
    uint64_t position = 0;
    open_seeded("max", "initial_load=first-op", 1);
    start(3, false);
    sample(at, 1, &position);
    assert_int_equal(at[0], 3 * 256 + 1);
    rig_close(&rig);
}

/* RND without ERnd: COUNT[7:0] is random at each load. */
static void test_random_reload(void **state)
{
    SPEC(SMP-05);
    SPEC(SMP-07);
    SPEC(SMP-12);
    SPEC(SMP-14);
    SPEC(SMP-19);
    SPEC(SMP-27);
    SPEC(SMP-28);
    SPEC(SMP-29);
    SPEC(SMP-30);
    SPEC(SMP-31);
    for (uint64_t interval = 1; interval <= 5; interval += 4) {
        uint64_t bins[256] = {0}, position = 0;
        open_seeded("max,no-ernd", "", 7 * interval);
        start(interval, true);
        sample(at, SAMPLES, &position);
        for (size_t i = 1; i < SAMPLES; i++) {
            uint64_t r = at[i] - at[i - 1] - 1 - interval * 256;
            assert_true(r <= 255);
            bins[r]++;
        }
        assert_true(bins[0] && bins[255]);
        assert_uniform(bins, 256, "random reload");
        double mean = (double)(at[SAMPLES - 1] - at[0]) / (SAMPLES - 1);
        /* The Note says + 128; exactly it is + 128.5; five sigmas of 73.9 / sqrt(n) are 1.5. */
        double off = mean - ((double)interval * 256 + 128.5);
        if (off * off > 1.5 * 1.5)
            fail_msg("mean interval %.3f", mean);
        rig_close(&rig);
    }
}

/* RND with ERnd: the primary counter keeps its period, ECOUNT adds to each selection. */
static void test_secondary(void **state)
{
    SPEC(SMP-05);
    SPEC(SMP-07);
    SPEC(SMP-14);
    SPEC(SMP-20);
    SPEC(SMP-21);
    SPEC(SMP-32);
    SPEC(SMP-33);
    SPEC(SMP-34);
    SPEC(SMP-35);
    SPEC(SMP-36);
    SPEC(SMP-37);
    SPEC(SMP-38);
    for (uint64_t interval = 1; interval <= 5; interval += 4) {
        uint64_t bins[256] = {0}, position = 0, period = interval * 256 + 1;
        open_seeded("max", "", 11 * interval);
        start(interval, true);
        assert_int_equal(rig_get(&rig, SPEX_PMSICR_EL1), interval << 8); /* ECOUNT not loaded */
        sample(at, SAMPLES, &position);
        for (size_t i = 0; i < SAMPLES; i++) {
            uint64_t r = at[i] - (interval * 256 + i * period);
            assert_true(r <= 255); /* 0: the operation at which the primary counter is zero */
            bins[r]++;
        }
        assert_true(bins[0] && bins[255]);
        assert_uniform(bins, 256, "secondary counter");
        double mean = (double)(at[SAMPLES - 1] - at[0]) / (SAMPLES - 1);
        if ((mean - (double)period) * (mean - (double)period) > 0.01 * 0.01)
            fail_msg("mean interval %.4f, not %.0f", mean, (double)period);
        rig_close(&rig);
    }
}

/* Samples per place in a loop of a length that divides the sampling period. */
static void loop(const char *features, bool rnd, uint64_t length, uint64_t *bins)
{
    uint64_t position = 0;
    open_seeded(features, "", 5);
    start(4, rnd); /* a period of 1025 = 5 * 5 * 41 */
    sample(at, 20000, &position);
    memset(bins, 0, length * sizeof *bins);
    for (size_t i = 0; i < 20000; i++)
        bins[at[i] % length]++;
    rig_close(&rig);
}

static void test_aliasing(void **state)
{
    SPEC(SMP-05);
    SPEC(SMP-06);
    static const uint64_t lengths[] = {5, 25, 41, 205};
    uint64_t bins[205];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        /* Without jitter one place gets every sample. */
        loop("max", false, lengths[i], bins);
        size_t places = 0;
        for (size_t k = 0; k < lengths[i]; k++)
            places += bins[k] != 0;
        assert_int_equal(places, 1);
        /* With it they spread: all places, none favoured. 256 is no multiple of these lengths, so
           that single places may be off by one part in 256/length. */
        for (unsigned ernd = 0; ernd < 2; ernd++) {
            loop(ernd ? "max" : "max,no-ernd", true, lengths[i], bins);
            for (size_t k = 0; k < lengths[i]; k++) {
                double share = (double)bins[k] * (double)lengths[i] / 20000;
                double slack = (double)lengths[i] / 256 + 6 / (double)(20000 / lengths[i]) * 8;
                if (share < 1 - slack - 0.2 || share > 1 + slack + 0.2)
                    fail_msg("loop of %u: place %zu has %.2f of its share", (unsigned)lengths[i], k,
                             share);
            }
        }
    }
    /* A loop of 2^n operations: the random byte is uniform over it, exactly. */
    loop("max,no-ernd", true, 64, bins);
    assert_uniform(bins, 64, "loop of 64");
}

/* Always the chosen operation is the k-th after the one that made the counter zero: no bias. */
static void test_select_after(void **state)
{
    SPEC(SMP-06);
    for (uint64_t after = 0; after < 16; after += 5) {
        char choice[32];
        uint64_t position = 0;
        snprintf(choice, sizeof choice, "select_after=%u", (unsigned)after);
        open_seeded("max", choice, 1);
        start(2, false);
        sample(at, 20, &position);
        assert_int_equal(at[0], 512 + after);
        for (size_t i = 1; i < 20; i++)
            assert_int_equal(at[i] - at[i - 1], 513);
        rig_close(&rig);
    }
}

/* Erratum 1694299 by choice: of a loop of eight only the first of each four. */
static void test_select_group(void **state)
{
    SPEC(SMP-06);
    unsigned places[8] = {0};
    uint64_t position = 0;
    open_seeded("max", "select_group=4", 1);
    start(2, true);
    sample(at, 400, &position);
    for (size_t i = 0; i < 400; i++)
        places[at[i] % 8]++;
    for (unsigned i = 0; i < 8; i++)
        if ((places[i] == 0) != (i % 4 != at[0] % 4))
            fail_msg("place %u: %u of 400 samples", i, places[i]);
    rig_close(&rig);
}

/* The source: same seed, same numbers; another seed, others; a register with its state. */
static void test_seeds(void **state)
{
    SPEC(SMP-11);
    SPEC(SMP-13);
    uint64_t first[64], second[64], position = 0;
    open_seeded("max", "random_register=present", 42);
    start(1, true);
    uint64_t saved = rig_get(&rig, SPEX_IMP_RNDSTATE_EL1);
    sample(first, 64, &position);
    /* Put the generator back: the same numbers come again. */
    rig_set(&rig, SPEX_PMSCR_EL1, 0);
    rig_set(&rig, SPEX_IMP_RNDSTATE_EL1, saved);
    start(1, true);
    position = 0;
    sample(second, 64, &position);
    assert_memory_equal(first, second, sizeof first);
    rig_close(&rig);
    open_seeded("max", "", 42);
    start(1, true);
    position = 0;
    sample(second, 64, &position);
    assert_memory_equal(first, second, sizeof first);
    uint64_t value;
    assert_false(spex_spu_get(rig.unit, SPEX_IMP_RNDSTATE_EL1, &value));
    rig_close(&rig);
    open_seeded("max", "", 43);
    start(1, true);
    position = 0;
    sample(second, 64, &position);
    assert_memory_not_equal(first, second, sizeof first);
    rig_close(&rig);
}

/* ---- choices of collection ---- */

static struct host *kept;

/* The next record of one sampled operation. */
static struct spex_record record_of(const struct made_op *op)
{
    rig_set(&rig, SPEX_PMBPTR_EL1, RIG_BASE);
    host_clear(kept);
    rig_sample(&rig, op);
    return rig_record(&rig);
}

static void open_records(const char *features, const char *choices)
{
    rig_open(&rig, features, choices);
    rig.config.host.random = NULL;
    rig_reopen(&rig);
    rig_start(&rig, 0x10000);
    kept = &rig.host;
}

/* A copy is sampled as its load or as its store, fairly, unless the filter wants one. */
static void test_copies(void **state)
{
    SPEC(DAT-105);
    SPEC(DAT-106);
    SPEC(DAT-107);
    SPEC(DAT-112);
    SPEC(DAT-113);
    SPEC(DAT-114);
    static const enum spex_op_kind kinds[] = {SPEX_OP_MEMCPY, SPEX_OP_GCS};
    for (size_t k = 0; k < 2; k++) {
        struct made_op op;
        ops_plain(kinds[k], SPEX_OPF_LOAD | SPEX_OPF_STORE, &op);
        open_records("max", "");
        uint64_t bins[2] = {0};
        for (unsigned i = 0; i < 20000; i++) {
            struct spex_record r = record_of(&op);
            unsigned store = r.op_payload & 1;
            assert_int_equal(r.address[SPEX_ADDRESS_VA], op.outcome.access[store].va);
            bins[store]++;
        }
        assert_uniform(bins, 2, "copy");
        for (unsigned store = 0; store < 2; store++) {
            rig_set(&rig, SPEX_PMSFCR_EL1, BIT(1) | (store ? BIT(18) : BIT(17)));
            for (unsigned i = 0; i < 50; i++) {
                struct spex_record r = record_of(&op);
                assert_int_equal(r.op_payload & 1, store);
                assert_int_equal(r.address[SPEX_ADDRESS_VA], op.outcome.access[store].va);
            }
        }
        /* Both selected: fair again. */
        rig_set(&rig, SPEX_PMSFCR_EL1, BIT(1) | BIT(17) | BIT(18));
        bins[0] = bins[1] = 0;
        for (unsigned i = 0; i < 20000; i++)
            bins[record_of(&op).op_payload & 1]++;
        assert_uniform(bins, 2, "copy with both selected");
        rig_close(&rig);
    }
}

/* Parts and elements: at random or in turn, none favoured. */
static void test_parts(void **state)
{
    SPEC(DAT-76);
    SPEC(DAT-82);
    SPEC(DAT-167);
    static const char *const choices[] = {
        "multi_access=part", "multi_access=part part_choice=rotate", "multi_access=all"};
    for (size_t c = 0; c < 3; c++) {
        struct made_op op;
        uint64_t bins[4] = {0};
        ops_plain(SPEX_OP_LDST_SVE, SPEX_OPF_LOAD | SPEX_OPF_GATHER, &op);
        op.op.vector_bits = 256;
        for (size_t i = 0; i < 4; i++) {
            op.parts[i] = op.outcome.access[0];
            op.parts[i].va = 0x1000 * (i + 1);
        }
        op.outcome.parts = op.parts;
        op.outcome.part_count = 4;
        open_records("max", choices[c]);
        for (unsigned i = 0; i < 4000; i++) {
            struct spex_record r = record_of(&op);
            size_t part = r.address[SPEX_ADDRESS_VA] / 0x1000 - 1;
            assert_true(part < 4);
            bins[part]++;
        }
        if (c == 1)
            for (size_t i = 0; i < 4; i++)
                assert_int_equal(bins[i], 1000);
        else
            assert_uniform(bins, 4, choices[c]);
        rig_close(&rig);
    }
}

TEST_MAIN(TEST(test_exact), TEST(test_random_reload), TEST(test_secondary), TEST(test_aliasing),
          TEST(test_select_after), TEST(test_select_group), TEST(test_seeds), TEST(test_copies),
          TEST(test_parts))
