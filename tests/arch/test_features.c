#include "support/test.h"

#include <spex/op.h>

#include "arch/feature_set.h"
#include "arch/sources.h"

static void test_presets_are_possible(void **state)
{
    const char *name;
    for (size_t i = 0; (name = spex_features_preset_name(i)); i++) {
        struct arch_features f;
        struct spex_error error;
        assert_int_equal(arch_features_parse(name, &f, &error), SPEX_OK);
    }
}

/* MIDR_EL1 is a word of the list like others; the last one counts. */
static void test_midr(void **state)
{
    struct arch_features f;
    struct spex_error error = {0};
    assert_int_equal(arch_features_parse("neoverse-v2,midr=0x480fd060", &f, &error), SPEX_OK);
    assert_int_equal(f.midr, 0x480fd060);
    assert_true(f.SVE && f.version == 3);
    assert_int_equal(arch_features_parse("midr=4294967295", &f, &error), SPEX_OK);
    assert_int_equal(f.midr, UINT32_MAX);
    static const char *const bad[] = {"midr=",      "midr=-1", "midr=4294967296",
                                      "midr=0x41g", "midr=n1", "midr"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(arch_features_parse(bad[i], &f, &error), SPEX_OK);
        assert_non_null(strstr(error.text, "midr"));
        assert_int_equal(f.midr, UINT32_MAX);
    }
}

/* perf's lists of cores by implementer and part; variant and revision do not matter. */
static void test_tables_of_sources(void **state)
{
    static const struct {
        uint64_t midr;
        const char *table;
    } rows[] = {{0x413fd0c1, "common"}, {0x410fd490, "common"}, {0x410fd840, "common"},
                {0xc00fac40, "ampere"}, {0xc01fac43, "ampere"}, {0x480fd060, "hisi"},
                {0x482fd065, "hisi"},   {0x481fd010, "common"}, {0x000f0000, "common"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(arch_sources_name(arch_sources_of(rows[i].midr)), rows[i].table);
}

static void test_versions_are_possible(void **state)
{
    struct arch_features f;
    struct spex_error error;
    for (char v = '0'; v <= '5'; v++) {
        char list[] = "v1p0";
        list[3] = v;
        if (arch_features_parse(list, &f, &error) != SPEX_OK)
            fail_msg("%s: %s", list, error.text);
        assert_int_equal(f.version, v - '0' + 1);
    }
}

/* Each dependency of a feature (Arm ARM A2), broken one at a time. */
static void test_dependencies(void **state)
{
    SPEC(REG-34);
    SPEC(DAT-246);
    static const struct {
        const char *list, *word;
    } rows[] = {
        /* clang-format off */
        {"v1p1,fne", "fne"},          {"v1p2,no-fne", "fne"},      {"v1p1,pbt", "pbt"},
        {"v1p3,crr", "crr"},          {"v1p4,gcs,no-crr", "crr"},  {"v1p4,fds,no-lds", "fds"},
        {"v1p3,fds", "fds"},          {"v1p3,eft,no-fpf", "eft"},  {"v1p4,no-sme,spe-sme", "sme"},
        {"v1p4,exc", "exc"},          {"v1p5,no-exc", "exc"},      {"v1p5,no-nvm", "nvm"},
        {"v1p2,dpfzs,no-pmuv3p7", "dpfzs"}, {"interval=1", "interval"}, {"altclk=2", "altclk"},
        {"no-el2,no-vhe,no-nv,no-nv2,no-fgt,no-fgt2,no-rme", "sel2"},
        {"v1p0,ev-misaligned", "misaligned"},
        {"maxsize=6,align=7", "align"}, {"v1p0,spe-sme", "spe-sme"},  {"v1p1,dpfzs", "dpfzs"},
        {"no-secure", "sel2"},        {"no-el2,no-sel2", "vhe"},   {"no-vhe", "nv needs vhe"},
        {"no-nv", "nv2"},             {"no-el3", "rme"},           {"v1p3,ev-l2d", "E[23:19]"},
        {"v1p5,no-gcs,no-crr", "SPEv1p5 makes"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arch_features f;
        struct spex_error error = {0};
        if (arch_features_parse(rows[i].list, &f, &error) == SPEX_OK)
            fail_msg("%s was accepted", rows[i].list);
        if (!strstr(error.text, rows[i].word))
            fail_msg("%s: '%s' does not name %s", rows[i].list, error.text, rows[i].word);
    }
}

/* A set that a program makes field by field: the text of a list cannot say these. */
static void test_no_such_version(void **state)
{
    struct arch_features f;
    struct spex_error error;
    arch_features_preset("max", &f);
    for (f.version = 0; f.version < 9; f.version += 7) {
        assert_int_equal(arch_features_check(&f, &error), SPEX_INVALID);
        assert_non_null(strstr(error.text, "PMSVer"));
    }
}

static void test_kind_names(void **state)
{
    for (unsigned i = 0; i < SPEX_OP_KIND_COUNT; i++)
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(spex_op_kind_name((enum spex_op_kind)i),
                                    spex_op_kind_name((enum spex_op_kind)j));
    assert_string_equal(spex_op_kind_name(SPEX_OP_KIND_COUNT), "unknown");
}

/* The numbers of PMSIDR_EL1 and PMBIDR_EL1 that a model may have, and no others. */
static void test_numbers(void **state)
{
    SPEC(REG-02);
    SPEC(REG-34);
    for (unsigned n = 0; n < 16; n++) {
        struct arch_features max, f;
        struct spex_error error;
        arch_features_preset("max", &max);
#define POSSIBLE(field, value)                                                                     \
    (f = max, f.field = (uint8_t)(value), arch_features_check(&f, &error) == SPEX_OK)
        assert_int_equal(POSSIBLE(MaxSize, n), n >= 6 && n <= 11);
        assert_int_equal(POSSIBLE(CountSize, n), n == 2 || n == 3);
        assert_int_equal(POSSIBLE(Interval, n), n == 0 || (n >= 2 && n <= 8));
        assert_int_equal(POSSIBLE(EA, n), n <= 2);
        assert_int_equal(POSSIBLE(ALTCLK, n), n == 0 || n == 1 || n == 15);
        f = max;
        f.MaxSize = 11;
        f.Align = (uint8_t)n;
        assert_int_equal(arch_features_check(&f, &error) == SPEX_OK, n <= 11);
        if (n > 6)
            assert_false(POSSIBLE(version, n));
    }
}

static void test_bad_words(void **state)
{
    struct arch_features f;
    struct spex_error error = {0};
    assert_int_equal(arch_features_parse("v1p2,unicorn", &f, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "unicorn"));
    assert_int_equal(arch_features_parse("maxsize=12", &f, &error), SPEX_RANGE);
    assert_int_equal(arch_features_parse("maxsize", &f, &error), SPEX_RANGE);
}

/*
 * A version drops what it is too old for and brings what it makes mandatory, whatever was asked
 * for before it: FnE, PBT and DPFZS are of v1p2, CRR, GCS and FDS of v1p4, EXC and nVM of v1p5.
 */
static void test_version_after_features(void **state)
{
    static const char *const flags[] = {"f",   "crr", "gcs",   "lds,fds", "pbt",
                                        "lds", "fds", "dpfzs", "spe-sme", "misaligned"};
    for (size_t i = 0; i < 2 * sizeof flags / sizeof *flags; i++)
        for (unsigned v = 0; v <= 5; v++) {
            struct arch_features f;
            struct spex_error error;
            char list[64];
            const char *flag = flags[i / 2];
            if (i % 2 && strchr(flag, ','))
                continue;
            snprintf(list, sizeof list, "min,v1p4,%s%s,v1p%u", i % 2 ? "no-" : "", flag, v);
            if (arch_features_parse(list, &f, &error) != SPEX_OK)
                continue; /* lds alone, say, leaves fds without it */
            assert_int_equal(f.version, v + 1);
            assert_int_equal(f.FnE, v >= 2);
            assert_int_equal(f.EXC, v >= 5);
            assert_int_equal(f.nVM, v >= 5);
            assert_true(v < 5 || f.CRR);
            assert_true(v < 3 || f.F);
            assert_true(v >= 4 || (!f.CRR && !f.GCS && !f.FDS));
            assert_true(v >= 2 || (!f.PBT && !f.DPFZS));
            assert_true(v >= 1 || (!f.SPE_SME && !f.Misaligned));
        }
}

static void test_words(void **state)
{
    static const char *const bad[] = {
        "v1p6",
        "v1p/",
        "v1q0",
        "v2p0",
        "sve=",
        "maxsize",
        "maxsize=",
        "maxsize=7x",
        "maxsize=5",
        "maxsize=12",
        "altclk=2",
        "no-maxsize",
        "align=12",
        "countsize=4",
        "countsize=1",
        "version=0",
        "version=7",
        "no-such",
        "a-name-that-is-longer-than-any-feature-and-than-the-room-that-there-is-for-it"};
    static const char *const good[] = {"", ",", "min,,v1p2", "max,", "maxsize=11", "altclk=15"};
    struct arch_features f;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spex_error error = {0};
        if (arch_features_parse(bad[i], &f, &error) == SPEX_OK)
            fail_msg("'%s' is taken", bad[i]);
        assert_true(error.text[0] != 0);
        assert_int_not_equal(spex_features_check(bad[i], &error), SPEX_OK);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct spex_error error = {0};
        if (arch_features_parse(good[i], &f, &error) != SPEX_OK)
            fail_msg("'%s': %s", good[i], error.text);
    }
}

TEST_MAIN(TEST(test_no_such_version), TEST(test_kind_names), TEST(test_presets_are_possible),
          TEST(test_midr), TEST(test_tables_of_sources), TEST(test_versions_are_possible),
          TEST(test_dependencies), TEST(test_numbers), TEST(test_bad_words),
          TEST(test_version_after_features), TEST(test_words))
