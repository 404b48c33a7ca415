/*
 * The model runs a program made up here, with all details or with those near samples alone: loops
 * of short blocks as integer code has them, that load and store near and far. A part of paths.c.
 */
#ifndef COUNTS_MODEL_H
#define COUNTS_MODEL_H

#include "uarch/far.h"

enum { MODEL_BLOCKS = 400, MODEL_OPS = 8 };

static struct {
    struct timing *timing;
    struct timing_core *core;
    struct spex_op ops[MODEL_BLOCKS][MODEL_OPS];
    struct timing_block block[MODEL_BLOCKS];
    uint64_t random;
} model;

static uint32_t model_any(uint32_t below)
{
    model.random = model.random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(model.random >> 33) % below;
}

static struct spex_op model_op(void)
{
    static const uint8_t class[8] = {SPEX_EXEC_ALU,  SPEX_EXEC_ALU,  SPEX_EXEC_ALU,
                                     SPEX_EXEC_LOAD, SPEX_EXEC_LOAD, SPEX_EXEC_STORE,
                                     SPEX_EXEC_ALU,  SPEX_EXEC_SHIFT};
    uint8_t exec = class[model_any(8)];
    struct spex_op op = {.exec = exec, .access_size = 8, .access_bytes = 8};
    memset(op.src, SPEX_REG_NONE, sizeof op.src);
    memset(op.dst, SPEX_REG_NONE, sizeof op.dst);
    op.src[0] = (uint8_t)model_any(20);
    op.kind = exec == SPEX_EXEC_LOAD || exec == SPEX_EXEC_STORE ? SPEX_OP_LDST : SPEX_OP_OTHER;
    if (exec == SPEX_EXEC_STORE)
        op.src[1] = (uint8_t)model_any(20);
    else
        op.dst[0] = (uint8_t)model_any(20);
    op.flags = exec == SPEX_EXEC_LOAD    ? SPEX_OPF_LOAD
               : exec == SPEX_EXEC_STORE ? SPEX_OPF_STORE
                                         : 0;
    return op;
}

static void prepare_model(void)
{
    struct uarch_config config;
    struct spex_error error;
    uint64_t pc = 0x400000;
    if (uarch_config_preset("neoverse-n1", &config, &error) || timing_new(&config, &model.timing) ||
        timing_core_new(model.timing, 0, &model.core)) {
        fprintf(stderr, "paths: no model\n");
        exit(1);
    }
    for (unsigned b = 0; b < MODEL_BLOCKS; b++) {
        unsigned count = 2 + model_any(MODEL_OPS - 1);
        for (unsigned i = 0; i < count; i++)
            model.ops[b][i] = model_op();
        struct spex_op *branch = &model.ops[b][count - 1];
        *branch = model_op();
        *branch = (struct spex_op){
            .kind = SPEX_OP_BRANCH, .exec = SPEX_EXEC_BRANCH, .flags = SPEX_OPF_COND};
        memset(branch->src, SPEX_REG_NONE, sizeof branch->src);
        memset(branch->dst, SPEX_REG_NONE, sizeof branch->dst);
        if (timing_block_init(model.timing, &model.block[b], pc, model.ops[b], count))
            exit(1);
        pc += 4 * count;
    }
}

static void follow(struct timing_block *block, struct timing_block *next, const uint64_t *access,
                   size_t count)
{
    uint64_t words[1 + MODEL_OPS];
    memcpy(words, access, count * sizeof *words);
    bool wrong = timing_predict(model.core, block, next->pc);
    words[count++] = SPEX_TIMING_BLOCK | (uintptr_t)next | (wrong ? SPEX_TIMING_WRONG : 0);
    struct timing_words w = {.block = block,
                             .at = words,
                             .stop = words + count,
                             .limit = UINT64_MAX,
                             .instructions = block->count};
    timing_follow(model.core, &w);
}

static void follow_far(struct timing_block *block, struct timing_block *next,
                       const uint64_t *access, size_t count, uint64_t cycles)
{
    const struct spex_op *ops = model.ops[block - model.block];
    if (!timing_far_fetched(model.core, block))
        timing_far_lines(model.core, block, cycles);
    for (size_t i = 0; i < count; i++) {
        uint64_t va = access[i] & 0xffffffffffff;
        if (ops[access[i] >> 48].flags & SPEX_OPF_LOAD) {
            if (!timing_far_load(model.core, va, 8))
                timing_far_load_slow(model.core, block, access[i], 8, cycles);
        } else if (!timing_far_store(model.core, va, 8)) {
            timing_far_store_slow(model.core, block, access[i], 8, cycles);
        }
    }
    timing_far_branch(model.core, block, next->pc);
}

/*
 * Loops of six blocks, a fifth of whose branches goes over the next; 24 rounds each. Sampled: with
 * details for 70 blocks of 800, as a sample each 4096 operations has them.
 */
static uint64_t run_model(size_t blocks, bool sampled)
{
    uint64_t access[MODEL_OPS], first = 0, b = 0, far = 0;
    for (size_t n = 0; n < blocks; n++) {
        struct timing_block *block = &model.block[b];
        if (n % (6 * 24) == 0)
            first = model_any(MODEL_BLOCKS - 16);
        uint64_t next = b + 1 + (b % 5 == 0);
        if (next >= first + 6 || next < first)
            next = first;
        size_t count = 0;
        for (unsigned i = 0; i < block->count; i++)
            if (model.ops[b][i].kind == SPEX_OP_LDST)
                access[count++] = SPEX_TIMING_ACCESS(
                    0x10000000 + (model_any(64) ? b * 64 + i * 8 : 8 * model_any(1 << 17)), i);
        if (sampled && n % 800 == 70) {
            timing_far_begin(model.core);
            far = timing_clock(model.core);
        } else if (far && n % 800 == 0) {
            timing_far_end(model.core, far);
            far = 0;
        }
        if (far)
            follow_far(block, &model.block[next], access, count, far += 2);
        else
            follow(block, &model.block[next], access, count);
        b = next;
    }
    if (far)
        timing_far_end(model.core, far);
    return timing_clock(model.core);
}

#endif
