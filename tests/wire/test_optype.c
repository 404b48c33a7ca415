/* The Operation Type payload: all 256 values in each class against the manual's SUBCLASS column. */
#include "support/test.h"

#include <spex/wire.h>

#include <stdbool.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* "0b000xxx1x" as D18.2.7 prints it. */
static bool matches(const char *pattern, unsigned payload)
{
    for (unsigned i = 0; i < 8; i++)
        if (pattern[2 + i] != 'x' && (unsigned)(pattern[2 + i] - '0') != (payload >> (7 - i) & 1))
            return false;
    return true;
}

static const struct {
    unsigned op_class;
    const char *pattern;
    enum spex_op_subclass subclass;
    const char *spec;
} rows[] = {
    {0, "0b00000xxx", SPEX_SUB_OTHER, "PKT-100"},
    {0, "0b0xxx1xx0", SPEX_SUB_SVE, "PKT-103"},
    {0, "0b1xxx1xx0", SPEX_SUB_SME, "PKT-107"},
    {1, "0b0000000x", SPEX_SUB_LDST_GP, "PKT-111"},
    {1, "0b0000010x", SPEX_SUB_LDST_SIMD_FP, "PKT-112"},
    {1, "0b0001000x", SPEX_SUB_LDST_UNSPEC, "PKT-113"},
    {1, "0b0001010x", SPEX_SUB_LDST_TAG, "PKT-114"},
    {1, "0b0011000x", SPEX_SUB_LDST_NV2, "PKT-115"},
    {1, "0b000xxx1x", SPEX_SUB_LDST_EXTENDED, "PKT-117"},
    {1, "0bxxxx1x0x", SPEX_SUB_LDST_SVE_SME, "PKT-119"},
    {1, "0b0010000x", SPEX_SUB_LDST_MEMCPY, "PKT-124"},
    {1, "0b00100101", SPEX_SUB_LDST_MEMSET, "PKT-125"},
    {1, "0b01000x0x", SPEX_SUB_LDST_GCS, "PKT-126"},
    {2, "0b000xxxxx", SPEX_SUB_BRANCH, "PKT-129"},
};

static void test_subclass_of_every_payload(void **state)
{
    SPEC(PKT-98);
    SPEC(PKT-99);
    SPEC(PKT-134);
    for (unsigned i = 0; i < COUNT(rows); i++)
        SPEC_ID(rows[i].spec);
    for (unsigned op_class = 0; op_class < 4; op_class++) {
        for (unsigned payload = 0; payload < 256; payload++) {
            enum spex_op_subclass expected = SPEX_SUB_RESERVED;
            unsigned count = 0;
            for (unsigned i = 0; i < COUNT(rows); i++) {
                if (rows[i].op_class == op_class && matches(rows[i].pattern, payload)) {
                    expected = rows[i].subclass;
                    count++;
                }
            }
            assert_in_range(count, 0, 1); /* the patterns do not overlap */
            struct spex_op_type type;
            spex_op_type_decode(op_class, payload, &type);
            assert_int_equal(type.subclass, expected);
        }
    }
}

/* Each field is this bit and no other, in the subclasses that have it. */
static void test_fields(void **state)
{
    for (unsigned op_class = 0; op_class < 4; op_class++) {
        for (unsigned payload = 0; payload < 256; payload++) {
            struct spex_op_type t;
            spex_op_type_decode(op_class, payload, &t);
            unsigned s = t.subclass;
            bool bit[8];
            for (unsigned i = 0; i < 8; i++)
                bit[i] = payload >> i & 1;
            bool other = s == SPEX_SUB_OTHER, sve = s == SPEX_SUB_SVE, sme = s == SPEX_SUB_SME;
            bool extended = s == SPEX_SUB_LDST_EXTENDED, vector = s == SPEX_SUB_LDST_SVE_SME;
            bool branch = s == SPEX_SUB_BRANCH, gcs = s == SPEX_SUB_LDST_GCS;
            bool known = s != SPEX_SUB_RESERVED;
            assert_int_equal(t.store, known && op_class == 1 && bit[0]);
            assert_int_equal(t.cond, (other || branch) && bit[0]);
            assert_int_equal(t.ase, other && bit[2]);
            assert_int_equal(t.fp, (other || sve || sme) && bit[1]);
            assert_int_equal(t.pred, (sve || vector) && bit[2]);
            assert_int_equal(t.sg, vector && bit[7]);
            assert_int_equal(t.ar, extended && bit[4]);
            assert_int_equal(t.excl, extended && bit[3]);
            assert_int_equal(t.at, extended && bit[2]);
            assert_int_equal(t.comm, gcs && bit[2]);
            assert_int_equal(t.gcs, branch && bit[2]);
            assert_int_equal(t.indirect, branch && bit[1]);
            assert_int_equal(t.cr, branch ? payload >> 3 & 3 : 0);
            unsigned code = sve || vector ? payload >> 4 & 7
                            : sme         ? (payload >> 4 & 7) << 1 | bit[2]
                                          : 0;
            assert_int_equal(t.length_code, code);
        }
    }
    SPEC(PKT-102);
    SPEC(PKT-106);
    SPEC(PKT-116);
    SPEC(PKT-156);
    SPEC(PKT-118);
    SPEC(PKT-153);
    SPEC(PKT-154);
    SPEC(PKT-121);
    SPEC(PKT-127);
    SPEC(PKT-128);
    SPEC(PKT-130);
    SPEC(PKT-133);
    SPEC(PKT-150);
}

static void test_lengths(void **state)
{
    static const uint32_t evl[8] = {32, 64, 128, 256, 512, 1024, 2048, 0};
    static const uint32_t ets[16] = {128,   256,   512,    1024,   2048, 4096, 8192, 16384,
                                     32768, 65536, 131072, 262144, 0,    0,    0,    0};
    struct spex_op_type t;
    SPEC(PKT-104);
    for (unsigned i = 0; i < 8; i++) {
        spex_op_type_decode(0, 0x08 | i << 4, &t);
        assert_int_equal(t.bits, evl[i]);
        spex_op_type_decode(1, 0x88 | i << 4, &t);
        assert_int_equal(t.bits, evl[i]);
    }
    SPEC(PKT-108);
    for (unsigned i = 0; i < 16; i++) {
        spex_op_type_decode(0, 0x88 | (i >> 1) << 4 | (i & 1) << 2, &t);
        assert_int_equal(t.length_code, i);
        assert_int_equal(t.bits, ets[i]);
    }
}

static void test_encode(void **state)
{
    struct spex_op_type t;
    unsigned op_class, payload;
    for (unsigned c = 0; c < 4; c++) {
        for (unsigned p = 0; p < 256; p++) {
            spex_op_type_decode(c, p, &t);
            enum spex_status status = spex_op_type_encode(&t, &op_class, &payload);
            if (t.subclass == SPEX_SUB_RESERVED) {
                assert_int_equal(status, SPEX_INVALID);
                continue;
            }
            assert_int_equal(status, SPEX_OK);
            assert_int_equal(op_class, c);
            assert_int_equal(payload, p);
        }
    }
    /* What a subclass has no bit for. */
    t = (struct spex_op_type){.subclass = SPEX_SUB_OTHER, .store = true};
    assert_int_equal(spex_op_type_encode(&t, &op_class, &payload), SPEX_INVALID);
    t = (struct spex_op_type){.subclass = SPEX_SUB_LDST_MEMSET};
    assert_int_equal(spex_op_type_encode(&t, &op_class, &payload), SPEX_INVALID);
    t = (struct spex_op_type){.subclass = SPEX_SUB_LDST_GP, .at = true};
    assert_int_equal(spex_op_type_encode(&t, &op_class, &payload), SPEX_INVALID);
    t = (struct spex_op_type){.subclass = SPEX_SUB_BRANCH, .cr = 4};
    assert_int_equal(spex_op_type_encode(&t, &op_class, &payload), SPEX_INVALID);
    t = (struct spex_op_type){.subclass = SPEX_SUB_SVE, .length_code = 8};
    assert_int_equal(spex_op_type_encode(&t, &op_class, &payload), SPEX_RANGE);
    t = (struct spex_op_type){.subclass = SPEX_SUB_COUNT};
    assert_int_equal(spex_op_type_encode(&t, &op_class, &payload), SPEX_INVALID);
}

static void test_names(void **state)
{
    for (unsigned i = 0; i < SPEX_SUB_COUNT; i++)
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(spex_op_subclass_name((enum spex_op_subclass)i),
                                    spex_op_subclass_name((enum spex_op_subclass)j));
    assert_string_equal(spex_op_subclass_name(SPEX_SUB_COUNT), "?");
}

TEST_MAIN(TEST(test_subclass_of_every_payload), TEST(test_fields), TEST(test_lengths),
          TEST(test_encode), TEST(test_names))
