/* What instructions read and write, from their text, and for which of them one waits. */
#include "support/test.h"

#include "cli/waits.h"

#define X(n) (UINT64_C(1) << (n))
#define V(n) (UINT64_C(1) << (32 + (n)))
#define SP X(31)

static void registers(void **state)
{
    static const struct {
        const char *text;
        uint64_t reads, writes;
        bool reads_flags, writes_flags, ends;
    } rows[] = {
        {"add x1, x1, x2", X(1) | X(2), X(1), false, false, false},
        {"add w3, w4, #0x10", X(4), X(3), false, false, false},
        {"mov x0, xzr", 0, X(0), false, false, false},
        {"subs x2, x2, #1", X(2), X(2), false, true, false},
        {"cmp x0, x3", X(0) | X(3), 0, false, true, false},
        {"b.ne 0x401104", 0, 0, true, false, true},
        {"cbnz x0, #-8", X(0), 0, false, false, true},
        {"csel x0, x1, x2, lt", X(1) | X(2), X(0), true, false, false},
        {"ldr x0, [x0]", X(0), X(0), false, false, false},
        {"ldr w3, [x0], #4", X(0), X(0) | X(3), false, false, false},
        {"ldr x1, [x2, x3, lsl #3]", X(2) | X(3), X(1), false, false, false},
        {"ldp x29, x30, [sp], #16", SP, X(29) | X(30) | SP, false, false, false},
        {"stp x29, x30, [sp, #-16]!", X(29) | X(30) | SP, SP, false, false, false},
        {"str x1, [x4], #0x8", X(1) | X(4), X(4), false, false, false},
        {"stxr w5, x6, [x7]", X(6) | X(7), X(5), false, false, false},
        {"ldadd x3, x4, [x0]", X(3) | X(0), X(4), false, false, false},
        {"cas x1, x2, [x3]", X(1) | X(2) | X(3), X(1), false, false, false},
        {"movk x9, #0x1234, lsl #16", X(9), X(9), false, false, false},
        {"fmul d0, d1, v2.d[1]", V(1) | V(2), V(0), false, false, false},
        {"fmla v0.4s, v1.4s, v2.4s", V(0) | V(1) | V(2), V(0), false, false, false},
        {"ld1 {v0.16b, v1.16b}, [x1], #32", X(1), V(0) | V(1) | X(1), false, false, false},
        {"ret", 0, 0, false, false, true},
        {"nop", 0, 0, false, false, false},
        {"", 0, 0, false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct code_use use;
        code_use(rows[i].text, &use);
        if (use.reads != rows[i].reads || use.writes != rows[i].writes ||
            use.reads_flags != rows[i].reads_flags || use.writes_flags != rows[i].writes_flags ||
            use.ends != rows[i].ends)
            fail_msg("%s: reads %llx writes %llx", rows[i].text, (unsigned long long)use.reads,
                     (unsigned long long)use.writes);
    }
}

/* A loop of six instructions after two others; the words matter for branches only. */
enum { COUNT = 8 };
static const char *const loop[COUNT] = {
    "mov x1, #0",     "ldr x9, [x8]",   "ldr w2, [x0]", /* a block begins: the branch leads here */
    "add x0, x0, #1", "mul x5, x2, x2", "add x1, x1, x5", "cmp x0, x3", "b.ne 0x1008",
};
static const double costs[COUNT] = {1, 50, 100, 1, 3, 1, 1, 1};

static size_t waits(size_t at)
{
    struct code_use uses[COUNT];
    uint32_t words[COUNT] = {0};
    bool starts[COUNT];
    struct code_block code = {uses, words, COUNT, 0x1000, costs, starts};
    for (size_t i = 0; i < COUNT; i++)
        code_use(loop[i], &uses[i]);
    words[COUNT - 1] = 0x54ffff61; /* b.ne -20 */
    code_find_blocks(&code);
    return code_waits_for(&code, at);
}

static void producers(void **state)
{
    assert_int_equal(waits(4), 2);     /* mul waits for the load */
    assert_int_equal(waits(5), 4);     /* add for the multiplication, not for itself */
    assert_int_equal(waits(7), 6);     /* the branch for the flags */
    assert_int_equal(waits(2), 3);     /* the load for the address of the round before */
    assert_int_equal(waits(3), 3);     /* the index for itself */
    assert_int_equal(waits(1), COUNT); /* nothing before it makes x8 */
    assert_int_equal(waits(0), COUNT); /* needs nothing */
}

TEST_MAIN(TEST(registers), TEST(producers))
