/* What every test of the model needs: systems from settings, instructions, executions. */
#ifndef TESTS_UARCH_SUPPORT_H
#define TESTS_UARCH_SUPPORT_H

#include "support/test.h"

#include "uarch/timing.h"

struct machine {
    struct timing *timing;
    struct timing_core *core;
};

static inline struct uarch_config config_new(const char *settings)
{
    struct uarch_config config;
    struct spex_error error = {0};
    assert_int_equal(uarch_config_preset("neoverse-n1", &config, &error), SPEX_OK);
    if (settings && uarch_config_set(&config, settings, &error))
        fail_msg("%s", error.text);
    return config;
}

static inline struct machine machine_new(const char *settings)
{
    struct machine m;
    const struct uarch_config config = config_new(settings);
    assert_int_equal(timing_new(&config, &m.timing), SPEX_OK);
    assert_int_equal(timing_core_new(m.timing, 0, &m.core), SPEX_OK);
    return m;
}

/* An execution that is not cut. */
static inline void block_run(struct timing_core *core, struct timing_block *block,
                             struct timing_run *run)
{
    run->mispredicted = timing_predict(core, block, run->next);
    timing_run(core, block, run);
}

static inline struct spex_op op_make(uint8_t exec, int dst, int src0, int src1)
{
    struct spex_op op = {.kind = SPEX_OP_OTHER, .exec = exec, .vectors = 1};
    memset(op.src, SPEX_REG_NONE, sizeof op.src);
    memset(op.dst, SPEX_REG_NONE, sizeof op.dst);
    if (dst >= 0)
        op.dst[0] = (uint8_t)dst;
    if (src0 >= 0)
        op.src[0] = (uint8_t)src0;
    if (src1 >= 0)
        op.src[1] = (uint8_t)src1;
    if (exec == SPEX_EXEC_LOAD || exec == SPEX_EXEC_STORE || exec == SPEX_EXEC_ATOMIC) {
        op.kind = SPEX_OP_LDST;
        op.flags = exec == SPEX_EXEC_LOAD    ? SPEX_OPF_LOAD
                   : exec == SPEX_EXEC_STORE ? SPEX_OPF_STORE
                                             : SPEX_OPF_LOAD | SPEX_OPF_STORE | SPEX_OPF_ATOMIC;
        op.access_size = 8;
        op.access_bytes = 8;
    }
    return op;
}

static inline struct spex_op branch_make(uint32_t flags)
{
    struct spex_op op = op_make(SPEX_EXEC_BRANCH, -1, -1, -1);
    op.kind = SPEX_OP_BRANCH;
    op.flags = flags;
    return op;
}

static inline uint64_t random64(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

#endif
