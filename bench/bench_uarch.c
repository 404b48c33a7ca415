/*
 * Cost of the microarchitecture model to an engine: nanoseconds per access, block and
 * sample. The ratio is against the cheapest thing an engine can do per access: a call
 * that adds its argument to a counter.
 *
 *     bench-uarch [ROW [N]]    only rows whose name contains ROW, N accesses (for callgrind)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "uarch/model.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* As an engine's callbacks: out of line, called through a pointer. */
static __attribute__((noinline)) void count_callback(struct spex_uarch_core *core, uint64_t va)
{
    core->clock_base += va;
}
static __attribute__((noinline)) void load_callback(struct spex_uarch_core *core, uint64_t va)
{
    spex_uarch_load(core, va, 8, 0);
}
static __attribute__((noinline)) void store_callback(struct spex_uarch_core *core, uint64_t va)
{
    spex_uarch_store(core, va, 8, 0);
}

typedef void callback(struct spex_uarch_core *core, uint64_t va);

static unsigned N = 1 << 22;
static const char *only = "";
static uint64_t *address;
static struct spex_uarch *model;
static double base;

static double measure(callback *function)
{
    callback *volatile pointer = function;
    double best = 1e9;
    for (unsigned round = 0; round < 4; round++) {
        struct spex_uarch_core *core;
        if (spex_uarch_core_new(model, 0, &core))
            exit(1);
        for (unsigned i = 0; i < N; i++) /* warm */
            pointer(core, address[i]);
        double start = seconds();
        for (unsigned i = 0; i < N; i++)
            pointer(core, address[i]);
        double time = (seconds() - start) / N * 1e9;
        if (time < best)
            best = time;
        spex_uarch_core_free(core);
    }
    return best;
}

static bool wanted(const char *name)
{
    return strstr(name, only) != NULL;
}

static void line(const char *name, double value)
{
    printf("%s\t%.2f\tns\t%.2f\tcounting call\n", name, value, value / base);
    fflush(stdout);
}

static void row(const char *name, callback *function)
{
    if (wanted(name))
        line(name, measure(function));
}

static __attribute__((noinline)) void enter_blocks(struct spex_uarch_core *core,
                                                   const struct spex_uarch_block *blocks,
                                                   const uint8_t *path)
{
    for (unsigned i = 0; i < N; i++) {
        unsigned flags = spex_uarch_block(core, &blocks[path[i]]);
        if (flags && spex_uarch_block_rest(core, &blocks[path[i]], flags) & SPEX_UARCH_EXPIRED)
            spex_uarch_arm(core, 4096);
    }
}

static uint64_t next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    return x ^ x >> 27;
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : only;
    N = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : N;
    struct spex_uarch_config config;
    uint64_t seed = 1;
    address = malloc(N * sizeof *address);
    if (spex_uarch_config_preset("neoverse-n1", &config, NULL) || spex_uarch_new(&config, &model) ||
        !address)
        return 1;
    for (unsigned i = 0; i < N; i++)
        address[i] = 0x100000 + i * 8ull % 32768;
    base = measure(count_callback);
    if (wanted("uarch counting call"))
        line("uarch counting call", base);
    row("uarch load, sequential in 32K", load_callback);
    row("uarch store, sequential in 32K", store_callback);
    for (unsigned i = 0; i < N; i++)
        address[i] = 0x100000 + next(&seed) % 4096 * 8;
    row("uarch load, random in 32K", load_callback);
    for (unsigned i = 0; i < N; i++)
        address[i] = 0x100000 + next(&seed) % (1 << 16) * 8;
    row("uarch load, random in 512K", load_callback);
    for (unsigned i = 0; i < N; i++)
        address[i] = 0x100000 + next(&seed) % (1 << 21) * 8;
    row("uarch load, random in 16M", load_callback);
    for (unsigned i = 0; i < N; i++)
        address[i] = 0x100000 + i * 8ull % (64 << 20);
    row("uarch load, sequential in 32M", load_callback);
    row("uarch store, sequential in 32M", store_callback);

    /* Blocks: a loop of three, one conditional branch not quite predictable. */
    struct spex_op ops[8];
    memset(ops, 0xff, sizeof ops);
    for (unsigned i = 0; i < 8; i++) {
        ops[i].kind = SPEX_OP_OTHER;
        ops[i].exec = SPEX_EXEC_ALU;
        ops[i].flags = 0;
        ops[i].src[0] = (uint8_t)(i % 4);
        ops[i].dst[0] = (uint8_t)(i % 3);
    }
    ops[7].kind = SPEX_OP_BRANCH;
    ops[7].exec = SPEX_EXEC_BRANCH;
    ops[7].flags = SPEX_OPF_COND;
    struct spex_uarch_block blocks[3];
    spex_uarch_block_init(model, &blocks[0], 0x1000, ops, 8);
    spex_uarch_block_init(model, &blocks[1], 0x1020, ops, 8);
    spex_uarch_block_init(model, &blocks[2], 0x1100, ops, 8);
    struct spex_uarch_core *core;
    if (spex_uarch_core_new(model, 0, &core))
        return 1;
    uint8_t *path = malloc(N);
    for (unsigned i = 0; i < N; i++)
        path[i] = (uint8_t)(i % 3 == 1 ? (next(&seed) % 16 ? 1 : 2) : i % 3 ? 2 : 0);
    double best = 1e9;
    for (unsigned round = 0; round < 4; round++) {
        double start = seconds();
        enter_blocks(core, blocks, path);
        double time = (seconds() - start) / N * 1e9;
        if (time < best)
            best = time;
    }
    if (wanted("uarch block"))
        line("uarch block", best);

    struct spex_outcome outcome = {0};
    uint64_t sum = 0;
    unsigned samples = wanted("uarch replay of a sample") ? 100000 : 0;
    double start = seconds();
    for (unsigned i = 0; i < samples; i++) {
        spex_uarch_replay(core, core->sequence, 7, 0, &outcome);
        sum += outcome.total;
    }
    if (samples)
        line("uarch replay of a sample", (seconds() - start) / samples * 1e9 + (double)(sum & 0));
    spex_uarch_free(model);
    free(path);
    free(address);
    return 0;
}
