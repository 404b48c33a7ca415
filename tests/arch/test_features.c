#include "support/test.h"

#include "arch/feature_set.h"

static void test_presets_are_possible(void **state)
{
    const char *name;
    for (size_t i = 0; (name = spex_features_preset_name(i)); i++) {
        struct spex_features f;
        struct spex_error error;
        assert_int_equal(arch_features_parse(name, &f, &error), SPEX_OK);
    }
}

static void test_versions_are_possible(void **state)
{
    struct spex_features f;
    struct spex_error error;
    for (char v = '0'; v <= '5'; v++) {
        char list[] = "v1p0";
        list[3] = v;
        if (arch_features_parse(list, &f, &error) != SPEX_OK)
            fail_msg("%s: %s", list, error.text);
        assert_int_equal(f.version, v - '0' + 1);
    }
}

/* Each dependency of registers.md section 2, broken one at a time. */
static void test_dependencies(void **state)
{
    SPEC(REG-34);
    static const struct {
        const char *list, *word;
    } rows[] = {
        /* clang-format off */
        {"v1p1,fne", "fne"},          {"v1p2,no-fne", "fne"},      {"v1p1,pbt", "pbt"},
        {"v1p3,crr", "crr"},          {"v1p4,gcs,no-crr", "crr"},  {"v1p4,fds,no-lds", "fds"},
        {"v1p3,fds", "fds"},          {"v1p3,eft,no-fpf", "eft"},  {"v1p4,no-sme,spe-sme", "sme"},
        {"v1p4,exc", "exc"},          {"v1p5,no-exc", "exc"},      {"v1p5,no-nvm", "nvm"},
        {"v1p2,dpfzs,no-pmuv3p7", "dpfzs"}, {"interval=1", "interval"}, {"altclk=2", "altclk"},
        {"no-el2,no-vhe,no-nv,no-nv2,no-fgt,no-fgt2,no-rme", "sel2"}, {"v1p0,ev-misaligned", "misaligned"},
        {"maxsize=6,align=7", "align"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spex_features f;
        struct spex_error error = {0};
        if (arch_features_parse(rows[i].list, &f, &error) == SPEX_OK)
            fail_msg("%s was accepted", rows[i].list);
        if (!strstr(error.text, rows[i].word))
            fail_msg("%s: '%s' does not name %s", rows[i].list, error.text, rows[i].word);
    }
}

static void test_bad_words(void **state)
{
    struct spex_features f;
    struct spex_error error = {0};
    assert_int_equal(arch_features_parse("v1p2,unicorn", &f, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "unicorn"));
    assert_int_equal(arch_features_parse("maxsize=12", &f, &error), SPEX_RANGE);
    assert_int_equal(arch_features_parse("maxsize", &f, &error), SPEX_RANGE);
}

TEST_MAIN(TEST(test_presets_are_possible), TEST(test_versions_are_possible),
          TEST(test_dependencies), TEST(test_bad_words))
