/* What every test of the model needs: a model from settings, cores, instructions. */
#ifndef TESTS_UARCH_SUPPORT_H
#define TESTS_UARCH_SUPPORT_H

#include "support/test.h"

#include "uarch/model.h"

static inline struct spex_uarch *model_new(const char *settings)
{
    struct spex_uarch_config config;
    struct spex_error error = {0};
    struct spex_uarch *model = NULL;
    assert_int_equal(spex_uarch_config_preset("neoverse-n1", &config, &error), SPEX_OK);
    if (settings && spex_uarch_config_set(&config, settings, &error) != SPEX_OK)
        fail_msg("%s", error.text);
    assert_int_equal(spex_uarch_new(&config, &model), SPEX_OK);
    return model;
}

static inline struct spex_uarch_core *core_new(struct spex_uarch *model, unsigned index)
{
    struct spex_uarch_core *core = NULL;
    assert_int_equal(spex_uarch_core_new(model, index, &core), SPEX_OK);
    return core;
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

/* A block of one instruction. */
static inline void block_make(struct spex_uarch *model, struct spex_uarch_block *block, uint64_t pc,
                              const struct spex_op *op)
{
    spex_uarch_block_init(model, block, pc, op, 1);
}

/* As an engine does it. */
static inline unsigned enter(struct spex_uarch_core *core, const struct spex_uarch_block *block)
{
    unsigned flags = spex_uarch_block(core, block);
    return flags ? spex_uarch_block_rest(core, block, flags) : 0;
}

static inline uint64_t random64(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

#endif
