/* Single instructions whose classification the manual spells out. */
#include <spex/a64.h>

#include "support/test.h"

struct word {
    const char *text;
    uint32_t insn;
    enum spex_op_kind kind;
    uint32_t flags;
};

static struct spex_op classify(const struct word *w)
{
    struct spex_a64_lengths lengths = {256, 512};
    struct spex_op op;
    bool general =
        w->kind == SPEX_OP_LDST || w->kind == SPEX_OP_LDST_UNSPEC || w->kind == SPEX_OP_LDST_TAG;
    uint32_t flags = w->flags | (general ? SPEX_OPF_CONTIGUOUS : 0);
    if (spex_a64_classify(w->insn, &lengths, &op) || op.kind != w->kind || op.flags != flags)
        fail_msg("%s: kind %s flags %x", w->text, spex_op_kind_name(op.kind), op.flags);
    return op;
}

#define CHECK(words)                                                                               \
    for (size_t i = 0; i < sizeof(words) / sizeof((words)[0]); i++)                                \
    classify(&(words)[i])

/* D17.6.6 and its Note name these. */
static void test_sve_examples(void **state)
{
    (void)state;
    SPEC(DAT-132);
    SPEC(DAT-139);
    SPEC(DAT-140);
    SPEC(DAT-141);
    SPEC(DAT-142);
    static const struct word words[] = {
        {"add z0.s, p7/m, z0.s, z1.s", 0x04801c20, SPEX_OP_SVE, SPEX_OPF_PRED},
        {"fmlalb z2.s, z3.h, z4.h", 0x64a48062, SPEX_OP_SVE, SPEX_OPF_FP},
        {"tbl z5.h, { z6.h }, z7.h", 0x056730c5, SPEX_OP_SVE, 0},
        {"lasta w0, p6, z8.s", 0x05a0b900, SPEX_OP_SVE, 0},
        {"cntp x0, p0, p1.b", 0x25208020, SPEX_OP_SVE, SPEX_OPF_PREDICATE_ONLY},
        {"ptrue p0.b", 0x2518e3e0, SPEX_OP_SVE, SPEX_OPF_PREDICATE_ONLY},
        {"faddv s0, p0, z1.s", 0x65802020, SPEX_OP_SVE, SPEX_OPF_FP},
        {"smaxv s0, p0, z1.s", 0x04882020, SPEX_OP_SVE, 0},
        {"compact z0.s, p0, z1.s", 0x05a18020, SPEX_OP_SVE, 0},
        {"sel z0.s, p0, z1.s, z2.s (mov z0.s, p0/m, z1.s)", 0x05a2c020, SPEX_OP_SVE, 0},
        {"ld1w { z0.s }, p0/z, [x0]", 0xa540a000, SPEX_OP_LDST_SVE,
         SPEX_OPF_LOAD | SPEX_OPF_PRED | SPEX_OPF_PRED_ZEROING | SPEX_OPF_CONTIGUOUS},
        {"st1w { z0.s }, p0, [x0]", 0xe540e000, SPEX_OP_LDST_SVE,
         SPEX_OPF_STORE | SPEX_OPF_PRED | SPEX_OPF_CONTIGUOUS},
        {"addvl x0, x0, #1", 0x04205020, SPEX_OP_OTHER, 0},
    };
    CHECK(words);
    struct spex_op op = classify(&words[0]);
    assert_int_equal(op.vector_bits, 256);
    op = classify(&words[10]);
    assert_int_equal(op.access_size, 4);
    assert_int_equal(op.access_bytes, 32);
}

/* Aliases are the machine instruction: CSET is CSINC, with its (inverted) condition. */
static void test_conditional_aliases(void **state)
{
    (void)state;
    SPEC(DAT-131);
    static const struct word words[] = {
        {"cset w0, eq (csinc w0, wzr, wzr, ne)", 0x1a9f17e0, SPEX_OP_CSINC, 0},
        {"csetm w0, eq (csinv w0, wzr, wzr, ne)", 0x5a9f13e0, SPEX_OP_CSINV, 0},
        {"cneg w0, w1, eq (csneg w0, w1, w1, ne)", 0x5a811420, SPEX_OP_CSNEG, 0},
    };
    CHECK(words);
}

static void test_sme_examples(void **state)
{
    (void)state;
    SPEC(DAT-133);
    SPEC(DAT-134);
    SPEC(DAT-138);
    static const struct word words[] = {
        {"smopa za0.s, p0/m, p1/m, z2.b, z3.b", 0xa0832040, SPEX_OP_SME_TILE, SPEX_OPF_PRED},
        {"fmopa za0.d, p0/m, p0/m, z0.d, z0.d", 0x80c00000, SPEX_OP_SME_TILE,
         SPEX_OPF_PRED | SPEX_OPF_FP},
        {"zero {za1.h}", 0xc00800aa, SPEX_OP_SME_TILE, 0},
        {"zero {za}", 0xc00800ff, SPEX_OP_SME_TILE, SPEX_OPF_WHOLE_ZA},
        {"mova z11.s, p3/m, za0h.s[w12, 1]", 0xc0820c2b, SPEX_OP_SME_VECTOR, SPEX_OPF_PRED},
        {"ld1w { za1v.s[w13, 0] }, p4/z, [x1, x2, lsl #2]", 0xe082b024, SPEX_OP_LDST_SME,
         SPEX_OPF_LOAD | SPEX_OPF_PRED | SPEX_OPF_PRED_ZEROING | SPEX_OPF_CONTIGUOUS},
        {"add za.s[w8, 3, vgx2], { z0.s, z1.s }, { z2.s, z3.s }", 0xc1a21813, SPEX_OP_SME_VECTOR,
         0},
    };
    CHECK(words);
    /* A tile of 32-bit elements has SVL/32 rows of SVL bits. */
    assert_int_equal(classify(&words[0]).vector_bits, 512 * 512 / 32);
    assert_int_equal(classify(&words[1]).vector_bits, 512 * 512 / 64);
    assert_int_equal(classify(&words[2]).vector_bits, 512 * 512 / 16);
    assert_int_equal(classify(&words[4]).vector_bits, 512);
    assert_int_equal(classify(&words[6]).vectors, 2);
}

static void test_memory(void **state)
{
    (void)state;
    SPEC(DAT-94);
    SPEC(DAT-103);
    SPEC(DAT-104);
    SPEC(DAT-108);
    SPEC(DAT-109);
    static const struct word words[] = {
        {"ldadd x0, x1, [x2]", 0xf8200041, SPEX_OP_LDST,
         SPEX_OPF_LOAD | SPEX_OPF_STORE | SPEX_OPF_ATOMIC},
        {"stadd x0, [x2]", 0xf820005f, SPEX_OP_LDST, SPEX_OPF_STORE | SPEX_OPF_ATOMIC},
        {"ldadda x0, xzr, [x2]", 0xf8a0005f, SPEX_OP_LDST,
         SPEX_OPF_LOAD | SPEX_OPF_STORE | SPEX_OPF_ATOMIC | SPEX_OPF_ACQREL},
        {"casal x0, x1, [x2]", 0xc8e0fc41, SPEX_OP_LDST,
         SPEX_OPF_LOAD | SPEX_OPF_STORE | SPEX_OPF_ATOMIC | SPEX_OPF_ACQREL},
        {"ldaxr x0, [x1]", 0xc85ffc20, SPEX_OP_LDST,
         SPEX_OPF_LOAD | SPEX_OPF_EXCL | SPEX_OPF_ACQREL},
        {"stxr w2, x0, [x1]", 0xc8027c20, SPEX_OP_LDST, SPEX_OPF_STORE | SPEX_OPF_EXCL},
        {"ldapr x0, [x1]", 0xf8bfc020, SPEX_OP_LDST, SPEX_OPF_LOAD | SPEX_OPF_ACQREL},
        {"ldr d0, [x0]", 0xfd400000, SPEX_OP_LDST,
         SPEX_OPF_LOAD | SPEX_OPF_FP | SPEX_OPF_SIMDFP_REG},
        {"ldr q0, [x0]", 0x3dc00000, SPEX_OP_LDST,
         SPEX_OPF_LOAD | SPEX_OPF_SIMD | SPEX_OPF_SIMDFP_REG},
        {"ld1r { v0.4s }, [x0]", 0x4d40c800, SPEX_OP_LDST,
         SPEX_OPF_LOAD | SPEX_OPF_SIMD | SPEX_OPF_SIMDFP_REG},
        {"ldg x0, [x1]", 0xd9600020, SPEX_OP_LDST_TAG, SPEX_OPF_LOAD},
        {"stzg x0, [x1]", 0xd9600820, SPEX_OP_LDST_UNSPEC, SPEX_OPF_STORE},
        {"stgp x0, x1, [x2]", 0x69000440, SPEX_OP_LDST, SPEX_OPF_STORE},
        {"ld64b x0, [x10]", 0xf83fd140, SPEX_OP_LDST_UNSPEC, SPEX_OPF_LOAD},
        {"st64bv x1, x2, [x10]", 0xf821b142, SPEX_OP_LDST_UNSPEC, SPEX_OPF_STORE},
        {"cpyfp [x0]!, [x1]!, x2!", 0x19010440, SPEX_OP_MEMCPY,
         SPEX_OPF_LOAD | SPEX_OPF_STORE | SPEX_OPF_CONTIGUOUS},
        {"setp [x0]!, x1!, x2", 0x19c20420, SPEX_OP_MEMSET, SPEX_OPF_STORE | SPEX_OPF_CONTIGUOUS},
        {"dc zva, x0", 0xd50b7420, SPEX_OP_DC_ZVA, SPEX_OPF_STORE},
        {"dc civac, x0", 0xd50b7e20, SPEX_OP_CACHE, 0},
        {"at s1e1r, x0", 0xd5087800, SPEX_OP_AT, 0},
        {"prfm pldl1keep, [x0]", 0xf9800000, SPEX_OP_PREFETCH, 0},
        {"prfb pldl1keep, p0, [x0]", 0x85c00000, SPEX_OP_SVE_PREFETCH, SPEX_OPF_CONTIGUOUS},
        {"gcspushm x0", 0xd50b7700, SPEX_OP_GCS, SPEX_OPF_STORE | SPEX_OPF_GCS},
        {"gcsss2 x0", 0xd52b7760, SPEX_OP_GCS, SPEX_OPF_LOAD | SPEX_OPF_STORE | SPEX_OPF_GCS},
    };
    CHECK(words);
    struct spex_op op;
    spex_a64_classify(0xa9c12061, NULL, &op); /* ldp x1, x8, [x3, #16]! */
    assert_int_equal(op.access_size, 8);
    assert_int_equal(op.access_bytes, 16);
    assert_memory_equal(op.dst, ((uint8_t[]){1, 8, 3, SPEX_REG_NONE}), 4);
    assert_memory_equal(op.src, ((uint8_t[]){3, SPEX_REG_NONE}), 2);
    spex_a64_classify(0x4cdf0be0, NULL, &op); /* ld4 { v0.4s - v3.4s }, [sp], #64 */
    assert_int_equal(op.access_size, 4);
    assert_int_equal(op.access_bytes, 64);
    assert_int_equal(op.dst[0], SPEX_REG_SP);
}

static void test_branches(void **state)
{
    (void)state;
    SPEC(DAT-123);
    static const struct word words[] = {
        {"b .", 0x14000000, SPEX_OP_BRANCH, 0},
        {"bl .", 0x94000000, SPEX_OP_BRANCH, SPEX_OPF_LINK | SPEX_OPF_GCS},
        {"b.eq .", 0x54000000, SPEX_OP_BRANCH, SPEX_OPF_COND},
        {"cbz x0, .", 0xb4000000, SPEX_OP_BRANCH, SPEX_OPF_COND},
        {"tbnz x0, #0, .", 0x37000000, SPEX_OP_BRANCH, SPEX_OPF_COND},
        {"br x0", 0xd61f0000, SPEX_OP_BRANCH, SPEX_OPF_INDIRECT},
        {"blraa x0, x1", 0xd73f0801, SPEX_OP_BRANCH,
         SPEX_OPF_INDIRECT | SPEX_OPF_LINK | SPEX_OPF_GCS},
        {"ret", 0xd65f03c0, SPEX_OP_BRANCH, SPEX_OPF_INDIRECT | SPEX_OPF_RETURN | SPEX_OPF_GCS},
        {"retaa", 0xd65f0bff, SPEX_OP_BRANCH, SPEX_OPF_INDIRECT | SPEX_OPF_RETURN | SPEX_OPF_GCS},
        {"eret", 0xd69f03e0, SPEX_OP_ERET, SPEX_OPF_CSYNC},
        {"isb", 0xd5033fdf, SPEX_OP_ISB, SPEX_OPF_CSYNC},
        {"dmb ish", 0xd5033bbf, SPEX_OP_BARRIER, 0},
        {"psb csync", 0xd503223f, SPEX_OP_BARRIER, SPEX_OPF_PSB},
        {"svc #0", 0xd4000001, SPEX_OP_EXCEPTION, SPEX_OPF_CSYNC},
        {"udf #0", 0x00000000, SPEX_OP_EXCEPTION, 0},
        {"wfe", 0xd503205f, SPEX_OP_WAIT, 0},
        {"csel x0, x1, x2, eq", 0x9a820020, SPEX_OP_CSEL, 0},
        {"fcsel d0, d1, d2, eq", 0x1e620c20, SPEX_OP_CSEL, SPEX_OPF_FP},
        {"cset x0, eq (csinc)", 0x9a9f17e0, SPEX_OP_CSINC, 0},
        {"ccmp x0, x1, #0, eq", 0xfa410000, SPEX_OP_CCMP, 0},
        {"fccmp d0, d1, #0, eq", 0x1e610400, SPEX_OP_CCMP, SPEX_OPF_FP},
        {"ccmn x0, x1, #0, eq", 0xba410000, SPEX_OP_CCMN, 0},
    };
    CHECK(words);
    uint64_t target;
    assert_true(spex_a64_target(0x17ffffff, 0x1000, &target));
    assert_int_equal(target, 0xffc);
    assert_true(spex_a64_target(0x54ffffe0, 0x1000, &target));
    assert_int_equal(target, 0xffc);
    assert_false(spex_a64_target(0xd65f03c0, 0x1000, &target));
}

static void test_reserved(void **state)
{
    (void)state;
    struct spex_op op;
    assert_int_equal(spex_a64_classify(0xffffffff, NULL, &op), SPEX_RESERVED);
    assert_int_equal(op.kind, SPEX_OP_EXCEPTION);
    assert_null(spex_a64_name(0xffffffff));
    assert_string_equal(spex_a64_name(0xf8200041), "LDADD");
}

/* C6.2 PRFM, C8.2 PRFB: type, target and policy of the operation. */
static void test_prefetches(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t word;
        uint8_t prefetch;
    } words[] = {
        {"prfm pldl1keep, [x0]", 0xf9800000, 1},
        {"prfm pldl1strm, [x0]", 0xf9800001, 1},
        {"prfm pldl2keep, [x0]", 0xf9800002, 2},
        {"prfm pldl3strm, [x0]", 0xf9800005, 3},
        {"prfm pldslckeep, [x0]", 0xf9800006, 3},
        {"prfm plil1keep, [x0]", 0xf9800008, 2},
        {"prfm plil3keep, [x0]", 0xf980000c, 3},
        {"prfm pstl1keep, [x0]", 0xf9800010, 1 | SPEX_PREFETCH_WRITE},
        {"prfm pstl2strm, [x0]", 0xf9800013, 2 | SPEX_PREFETCH_WRITE},
        {"prfm #24, [x0]", 0xf9800018, 0},
        {"prfum pstl3keep, [x1, #-9]", 0xf89f7034, 3 | SPEX_PREFETCH_WRITE},
        {"prfb pldl1keep, p0, [x0]", 0x85c00000, 1},
        {"prfb pldl3keep, p0, [x0]", 0x85c00004, 3},
        {"prfb pstl1strm, p0, [x0]", 0x85c00009, 1 | SPEX_PREFETCH_WRITE},
        {"ldr x0, [x0]", 0xf9400000, 0},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct spex_op op;
        spex_a64_classify(words[i].word, NULL, &op);
        if (op.prefetch != words[i].prefetch)
            fail_msg("%s: %u", words[i].text, op.prefetch);
    }
}

TEST_MAIN(TEST(test_prefetches), TEST(test_sve_examples), TEST(test_conditional_aliases),
          TEST(test_sme_examples), TEST(test_memory), TEST(test_branches), TEST(test_reserved))
