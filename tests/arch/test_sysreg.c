#include "support/test.h"

#include <spex/sysreg.h>

/* Encodings as `S<op0>_<op1>_C<n>_C<m>_<op2>` of the manual, a few by hand. */
static void test_encodings(void **state)
{
    assert_int_equal(SPEX_PMSCR_EL1, 3 << 14 | 0 << 11 | 9 << 7 | 9 << 3 | 0);
    assert_int_equal(SPEX_PMBSR_EL1, 3 << 14 | 0 << 11 | 9 << 7 | 10 << 3 | 3);
    assert_int_equal(SPEX_PMSCR_EL2, 3 << 14 | 4 << 11 | 9 << 7 | 9 << 3 | 0);
    assert_int_equal(SPEX_PMBSR_EL3, 3 << 14 | 6 << 11 | 9 << 7 | 10 << 3 | 3);
    assert_int_equal(SPEX_MDCR_EL3, 3 << 14 | 6 << 11 | 1 << 7 | 3 << 3 | 1);
    unsigned count = 0, encoding;
    while ((encoding = spex_sysreg_at(count))) { /* all different */
        for (unsigned i = 0; i < count; i++)
            assert_int_not_equal(spex_sysreg_at(i), encoding);
        count++;
    }
    assert_true(count > 30);
}

static void test_names(void **state)
{
    unsigned encoding;
    assert_string_equal(spex_sysreg_name(SPEX_PMBLIMITR_EL1), "PMBLIMITR_EL1");
    assert_null(spex_sysreg_name(0));
    assert_int_equal(spex_sysreg_find("pmsicr_el1", &encoding), SPEX_OK);
    assert_int_equal(encoding, SPEX_PMSICR_EL1);
    assert_int_equal(spex_sysreg_find("PMSICR", &encoding), SPEX_INVALID);
    for (unsigned i = 0; (encoding = spex_sysreg_at(i)); i++) {
        unsigned found;
        assert_int_equal(spex_sysreg_find(spex_sysreg_name(encoding), &found), SPEX_OK);
        assert_int_equal(found, encoding);
    }
}

static void test_fields(void **state)
{
    enum spex_sysreg_field field;
    assert_string_equal(spex_sysreg_field_at(SPEX_PMSIRR_EL1, 0, &field), "INTERVAL");
    assert_int_equal(field, SPEX_PMSIRR_EL1_INTERVAL);
    assert_string_equal(spex_sysreg_field_at(SPEX_PMSIRR_EL1, 1, &field), "RND");
    assert_null(spex_sysreg_field_at(SPEX_PMSIRR_EL1, 2, &field));
    assert_int_equal(SPEX_FIELD_MASK(SPEX_PMSIRR_EL1_INTERVAL), 0xffffff00);
    assert_true(SPEX_FIELD_MASK(SPEX_PMSEVFR_EL1_E) == UINT64_MAX);
    assert_int_equal(spex_field_get(0x12345678, SPEX_PMSIRR_EL1_INTERVAL), 0x123456);
    assert_int_equal(spex_field_set(0xff, SPEX_PMSIRR_EL1_INTERVAL, 0x1abcdef), 0xabcdefff);
}

/* A trapped MRS X7, PMSCR_EL1 and MSR PMBSR_EL3, X31: ESR_ELx by hand. */
static void test_syndrome(void **state)
{
    assert_int_equal(spex_sysreg_syndrome(SPEX_PMSCR_EL1, 7, true),
                     0x62000000 | 3 << 20 | 9 << 10 | 7 << 5 | 9 << 1 | 1);
    assert_int_equal(spex_sysreg_syndrome(SPEX_PMBSR_EL3, 31, false),
                     0x62000000 | 3 << 20 | 3 << 17 | 6 << 14 | 9 << 10 | 31 << 5 | 10 << 1);
}

TEST_MAIN(TEST(test_encodings), TEST(test_names), TEST(test_fields), TEST(test_syndrome))
