/* Branch prediction: what can be predicted is, what cannot is wrong half of the time. */
#include "uarch/support.h"

struct code {
    struct spex_uarch *model;
    struct spex_uarch_core *core;
    struct spex_op cond, direct, call, ret, indirect, indirect_call, other;
};

static struct code code_new(const char *settings)
{
    struct code c;
    c.model = model_new(settings);
    c.core = core_new(c.model, 0);
    c.cond = branch_make(SPEX_OPF_COND);
    c.direct = branch_make(0);
    c.call = branch_make(SPEX_OPF_LINK);
    c.ret = branch_make(SPEX_OPF_INDIRECT | SPEX_OPF_RETURN);
    c.indirect = branch_make(SPEX_OPF_INDIRECT);
    c.indirect_call = branch_make(SPEX_OPF_INDIRECT | SPEX_OPF_LINK);
    c.other = op_make(SPEX_EXEC_ALU, 0, 1, 2);
    return c;
}

/* Enters a block; was the branch to it mispredicted? */
static bool missed(struct code *c, const struct spex_uarch_block *block)
{
    enter(c->core, block);
    return spex_uarch_mispredicted(c->core, c->core->sequence - 1);
}

/* A conditional branch whose outcome i is taken(i); the share mispredicted in the second half.
 */
static double conditional(unsigned n, bool (*taken)(unsigned i, uint64_t x))
{
    struct code c = code_new(NULL);
    struct spex_uarch_block head, yes, no;
    block_make(c.model, &head, 0x1000, &c.cond);
    block_make(c.model, &yes, 0x2000, &c.direct);
    block_make(c.model, &no, 0x1004, &c.direct);
    uint64_t seed = 42;
    unsigned wrong = 0;
    enter(c.core, &head);
    for (unsigned i = 0; i < n; i++) {
        uint32_t branch = c.core->sequence;
        bool mispredicted = missed(&c, taken(i, random64(&seed)) ? &yes : &no);
        wrong += i >= n / 2 && mispredicted;
        assert_false(missed(&c, &head)); /* direct branches never are */
        assert_int_equal(spex_uarch_mispredicted(c.core, branch), mispredicted);
    }
    spex_uarch_free(c.model);
    return wrong / (n / 2.0);
}

static bool always(unsigned i, uint64_t x)
{
    return true;
}
static bool never(unsigned i, uint64_t x)
{
    return false;
}
static bool coin(unsigned i, uint64_t x)
{
    return x & 1;
}
static bool one_in_eight(unsigned i, uint64_t x)
{
    return !(x & 7);
}
static bool alternate(unsigned i, uint64_t x)
{
    return i & 1;
}
static bool loop_of_seven(unsigned i, uint64_t x)
{
    return i % 7 != 6;
}

static void test_conditional(void **state)
{
    assert_true(conditional(2000, always) == 0);
    assert_true(conditional(2000, never) == 0);
    assert_true(conditional(2000, alternate) == 0); /* by history */
    assert_true(conditional(2000, loop_of_seven) == 0);
    double random = conditional(20000, coin);
    assert_true(random > 0.45 && random < 0.55);
    double biased = conditional(20000, one_in_eight);
    assert_true(biased > 0.12 && biased < 0.3);
}

static void test_return_stack(void **state)
{
    /* depth nested calls from one place, then the returns. */
    for (unsigned depth = 1; depth <= 40; depth++) {
        struct code c = code_new("ras.depth=16");
        struct spex_uarch_block calls[41], back[41];
        unsigned wrong = 0;
        for (unsigned i = 0; i <= depth; i++) {
            block_make(c.model, &calls[i], 0x10000 + i * 0x100, &c.call);
            block_make(c.model, &back[i], 0x10004 + i * 0x100, &c.ret);
        }
        for (unsigned i = 0; i <= depth; i++)
            assert_int_equal(enter(c.core, &calls[i]), 0);
        struct spex_uarch_block leaf;
        block_make(c.model, &leaf, 0x90000, &c.ret);
        enter(c.core, &leaf);
        for (unsigned i = depth + 1; i-- > 0;)
            wrong += missed(&c, &back[i]);
        assert_int_equal(wrong, depth + 1 > 16 ? depth + 1 - 16 : 0);
        spex_uarch_free(c.model);
    }
}

static void test_indirect(void **state)
{
    struct code c = code_new(NULL);
    struct spex_uarch_block head, target[4];
    block_make(c.model, &head, 0x1000, &c.indirect);
    for (unsigned i = 0; i < 4; i++)
        block_make(c.model, &target[i], 0x2000 + i * 0x40, &c.direct);
    unsigned wrong = 0;
    /* One target: learnt at once. */
    for (unsigned i = 0; i < 100; i++) {
        enter(c.core, &head);
        bool m = missed(&c, &target[0]);
        wrong += i >= 20 && m;
    }
    assert_int_equal(wrong, 0);
    /* Four in turn: learnt by the path. */
    for (unsigned i = 0; i < 400; i++) {
        enter(c.core, &head);
        bool m = missed(&c, &target[i % 4]);
        wrong += i >= 200 && m;
    }
    assert_int_equal(wrong, 0);
    /* Four at random: wrong three times in four. */
    uint64_t seed = 3;
    for (unsigned i = 0; i < 4000; i++) {
        enter(c.core, &head);
        wrong += missed(&c, &target[random64(&seed) % 4]);
    }
    assert_true(wrong > 2600 && wrong < 3400);
    /* An indirect call pushes its return address. */
    struct spex_uarch_block call, callee, after;
    block_make(c.model, &call, 0x5000, &c.indirect_call);
    block_make(c.model, &callee, 0x6000, &c.ret);
    block_make(c.model, &after, 0x5004, &c.direct);
    for (unsigned i = 0; i < 3; i++) {
        enter(c.core, &call);
        enter(c.core, &callee);
        assert_false(missed(&c, &after));
    }
    spex_uarch_free(c.model);
}

static void test_cut(void **state)
{
    /* A signal in a block: where it goes says nothing about the branch at its end. */
    struct code c = code_new(NULL);
    struct spex_uarch_block cond, ret, indirect, handler;
    block_make(c.model, &cond, 0x1000, &c.cond);
    block_make(c.model, &ret, 0x2000, &c.ret);
    block_make(c.model, &indirect, 0x3000, &c.indirect);
    block_make(c.model, &handler, 0x9000, &c.other);
    const struct spex_uarch_block *blocks[] = {&cond, &ret, &indirect};
    for (unsigned i = 0; i < 3; i++) {
        enter(c.core, blocks[i]);
        uint32_t history = c.core->history, top = c.core->ras_top;
        spex_uarch_cut(c.core);
        c.core->attention = SPEX_UARCH_ATT_ENGINE; /* even if the slow path runs */
        assert_int_equal(enter(c.core, &handler), SPEX_UARCH_ATTENTION);
        c.core->attention = 0;
        assert_false(spex_uarch_mispredicted(c.core, c.core->sequence - 1));
        assert_int_equal(c.core->history, history);
        assert_int_equal(c.core->ras_top, top);
        enter(c.core, &handler);
    }
    spex_uarch_free(c.model);
}

static void test_mispredict_costs_time(void **state)
{
    struct code c = code_new("mispredict=50");
    struct spex_uarch_block head, yes;
    block_make(c.model, &head, 0x1000, &c.cond);
    block_make(c.model, &yes, 0x2000, &c.direct);
    enter(c.core, &head);
    uint64_t before = spex_uarch_clock(c.core);
    assert_true(missed(&c, &yes)); /* starts as not taken */
    assert_true(spex_uarch_clock(c.core) >= before + 50);
    spex_uarch_free(c.model);
}

static void test_none_predicts_nothing(void **state)
{
    struct code c = code_new("none");
    struct spex_uarch_block ret, elsewhere;
    block_make(c.model, &ret, 0x1000, &c.ret);
    block_make(c.model, &elsewhere, 0x2000, &c.direct);
    enter(c.core, &ret);
    assert_false(missed(&c, &elsewhere));
    spex_uarch_free(c.model);
}

TEST_MAIN(TEST(test_conditional), TEST(test_return_stack), TEST(test_indirect), TEST(test_cut),
          TEST(test_mispredict_costs_time), TEST(test_none_predicts_nothing))
