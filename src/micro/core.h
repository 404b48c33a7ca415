/*
 * Microbenchmarks of the core itself, a part of micro.c: execution, branches, fetching, and stores
 * read by loads.
 */
#ifndef VALIDATE_CORE_H
#define VALIDATE_CORE_H

#include "clock.h"

#include <string.h>

/* All kernels are in one section: counts of instructions there belong to them. */
#define KERNEL __attribute__((noinline, noclone, aligned(64), section("micro_kernels")))
#define FOUR(x) x x x x

/*
 * ---- execution: a body runs 16 times per round; in chains, each operation needs the previous one
 * ----
 */

#define BODY(name, body)                                                                           \
    KERNEL void kernel_##name(uint64_t rounds)                                                     \
    {                                                                                              \
        __asm__ volatile("mov x8, #-1\n mov x9, #3\n mov x10, #7\n mov x11, #9\n mov x12, #5\n"    \
                         "fmov d0, #1.0\n fmov d1, #1.0\n movi v2.16b, #1\n movi v3.16b, #1\n"     \
                         "sub sp, sp, #64\n"                                                       \
                         "1:\n" FOUR(FOUR(body)) "subs %0, %0, #1\n b.ne 1b\n"                     \
                                                 "add sp, sp, #64\n"                               \
                         : "+r"(rounds)                                                            \
                         :                                                                         \
                         : "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "v0",      \
                           "v1", "v2", "v3", "v4", "v5", "v6", "v7", "memory", "cc");              \
    }
BODY(div, "udiv x8, x8, x9\n")
BODY(mul, "mul x8, x8, x9\n")
BODY(add, "add x8, x8, x9\n")
BODY(fadd, "fadd d0, d0, d1\n")
BODY(fmul, "fmul d0, d0, d1\n")
BODY(fma, "fmadd d0, d1, d1, d0\n")
BODY(vadd, "add v2.4s, v2.4s, v3.4s\n")
BODY(vmul, "mul v2.4s, v2.4s, v3.4s\n")
BODY(fdiv, "fdiv d0, d0, d1\n")
BODY(fsqrt, "fsqrt d0, d0\n")
BODY(wide, "add x8, x8, #1\n add x10, x10, #1\n add x11, x11, #1\n add x12, x12, #1\n"
           "add x13, x13, #1\n add x14, x14, #1\n add x15, x15, #1\n add x16, x16, #1\n")
BODY(muls, "mul x8, x9, x9\n mul x10, x9, x9\n mul x11, x9, x9\n mul x12, x9, x9\n")
BODY(fadds, "fadd v4.2d, v0.2d, v1.2d\n fadd v5.2d, v0.2d, v1.2d\n"
            "fadd v6.2d, v0.2d, v1.2d\n fadd v7.2d, v0.2d, v1.2d\n")
BODY(nops, FOUR("nop\n"))
BODY(untaken, FOUR("cbnz xzr, 1b\n"))
BODY(loads, "ldr x8, [sp]\n ldr x10, [sp, #8]\n ldr x11, [sp, #16]\n ldr x12, [sp, #24]\n")
BODY(stores, "str x9, [sp]\n str x9, [sp, #8]\n str x9, [sp, #16]\n str x9, [sp, #24]\n")

/* A load whose data crosses a 64-byte line; each load needs the address from the previous one. */
KERNEL void *kernel_crosses(void *p, uint64_t rounds)
{
    __asm__ volatile("1:\n" FOUR(FOUR("ldr %0, [%0]\n")) "subs %1, %1, #1\n b.ne 1b\n"
                     : "+r"(p), "+r"(rounds)
                     :
                     : "memory", "cc");
    return p;
}

static void crosses(uint64_t rounds)
{
    static _Alignas(64) char lines[128];
    void *p = lines + 60;
    memcpy(p, &p, sizeof p);
    kernel_crosses(p, rounds);
}

/* ---- a store, a load of what it wrote, and so on; the loaded data is stored next ---- */

static _Alignas(64) uint64_t cell[8];

#define PAIR(name, store, load)                                                                    \
    KERNEL void kernel_##name(uint64_t rounds)                                                     \
    {                                                                                              \
        __asm__ volatile("mov x8, #0\n"                                                            \
                         "1:\n" FOUR(FOUR(store "\n" load "\n")) "subs %0, %0, #1\n b.ne 1b\n"     \
                         : "+r"(rounds)                                                            \
                         : "r"(cell)                                                               \
                         : "x8", "memory", "cc");                                                  \
    }
PAIR(forward, "str x8, [%1]", "ldr x8, [%1]")
PAIR(half, "str x8, [%1]", "ldr w8, [%1, #4]")
PAIR(offset, "str x8, [%1]", "ldrb w8, [%1, #1]")
PAIR(overlap, "str x8, [%1]", "ldur x8, [%1, #2]")
PAIR(narrow, "strb w8, [%1]", "ldr x8, [%1]")

/* ---- branches ---- */

/*
 * 32 independent branches, each by a bit that is random in each round (mask ~0) or never taken
 * (mask 0). The bits are made before, by a chain that takes as long in both cases.
 */
KERNEL void kernel_guess(uint64_t mask, uint64_t count)
{
    __asm__ volatile("mov x8, #0x4e25\n movk x8, #0x3e5a, lsl #32\n"
                     "1: eor x8, x8, x8, lsl #13\n eor x8, x8, x8, lsr #7\n"
                     "eor x8, x8, x8, lsl #17\n and x9, x8, %0\n"
                     ".set bit, 0\n .rept 32\n tbnz x9, #bit, . + 8\n nop\n"
                     ".set bit, bit + 1\n .endr\n"
                     "subs %1, %1, #32\n b.hi 1b\n"
                     : "+r"(mask), "+r"(count)
                     :
                     : "x8", "x9", "cc");
}

/* `count` branches, a stride apart, each to the next one and the last to the first. */
#define TAKEN(count, stride)                                                                       \
    KERNEL void kernel_taken##count##x##stride(uint64_t rounds)                                    \
    {                                                                                              \
        __asm__ volatile(".p2align 6\n"                                                            \
                         "1: .rept " #count " - 1\n b . + " #stride "\n"                           \
                         ".fill " #stride " / 4 - 1, 4, 0xd503201f\n .endr\n"                      \
                         "subs %0, %0, #1\n b.eq 2f\n b 1b\n 2:\n"                                 \
                         : "+r"(rounds)                                                            \
                         :                                                                         \
                         : "cc");                                                                  \
    }
#define TAKEN_ALL(row)                                                                             \
    row(16, 16) row(32, 16) row(64, 16) row(80, 16) row(96, 16) row(256, 16) row(512, 16)          \
        row(1000, 16) row(2048, 16) row(3000, 16) row(4096, 16) row(16, 32) row(64, 32)            \
            row(1000, 32) row(64, 8) row(1000, 8) row(4096, 8) row(8000, 8) row(64, 64)            \
                row(1000, 64) row(4096, 64) row(16, 128) row(500, 128) row(24, 4160) row(64, 4160) \
                    row(512, 4160)
TAKEN_ALL(TAKEN)

/* Nested calls, each from its own call site, and the same number of returns. */
#define CALLS 64
__asm__(".pushsection micro_kernels, \"ax\"\n .p2align 6\n .globl kernel_calls\n .type "
        "kernel_calls, %function\n"
        "kernel_calls:\n"
        "mov x10, x0\n mov x11, x30\n"
        "1: blr x1\n subs x10, x10, #1\n b.ne 1b\n"
        "mov x30, x11\n ret\n"
        ".rept 64\n stp x29, x30, [sp, #-16]!\n bl . + 12\n ldp x29, x30, [sp], #16\n ret\n .endr\n"
        ".globl kernel_calls_end\n kernel_calls_end: ret\n"
        ".size kernel_calls, . - kernel_calls\n .popsection\n");
void kernel_calls(uint64_t rounds, const void *first);
void kernel_calls_end(void);

/* depth includes the first call. */
static uint64_t calls(uint64_t depth, uint64_t rounds)
{
    TIMED(kernel_calls(rounds, (const char *)kernel_calls_end - 16 * (depth - 1)));
    return rounds;
}

/* Runs the last `count` operations of a row in a loop. */
#define ROW(name, count, operation)                                                                \
    __asm__(".pushsection micro_kernels, \"ax\"\n .p2align 6\n .globl kernel_" #name "\n"          \
            ".type kernel_" #name ", %function\n"                                                  \
            "kernel_" #name ": br x1\n .p2align 5\n"                                               \
            ".rept " #count "\n " operation "\n .endr\n .globl kernel_" #name "_end\n"             \
            "kernel_" #name "_end: subs x0, x0, #1\n b.eq 2f\n br x1\n 2: ret\n"                   \
            ".size kernel_" #name ", . - kernel_" #name "\n .popsection\n");                       \
    void kernel_##name(uint64_t rounds, const void *first);                                        \
    void kernel_##name##_end(void);
/* A branch over `stride` bytes to the next one. */
#define NEXT(stride) "b . + " #stride "\n .fill " #stride " / 4 - 1, 4, 0xd503201f"
ROW(row, 4096, NEXT(32))
ROW(dense, 16384, NEXT(8))
ROW(paged, 128, NEXT(4160))
ROW(straight, 32768, "nop")

static const struct row {
    const char *name;
    void (*run)(uint64_t rounds, const void *first);
    void (*end)(void);
    uint32_t most, stride;
} rows[] = {{"row", kernel_row, kernel_row_end, 4096, 32},
            {"dense", kernel_dense, kernel_dense_end, 16384, 8},
            {"paged", kernel_paged, kernel_paged_end, 128, 4160},
            {"straight", kernel_straight, kernel_straight_end, 32768, 4}};

/*
 * Runs a row; returns the number of operations, or 0 if there is no row with this name and length.
 */
static uint64_t row(const char *name, uint64_t count, uint64_t rounds)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        if (strcmp(r->name, name) || !count || count > r->most)
            continue;
        TIMED(r->run(rounds, (const char *)r->end - r->stride * (count - 1)));
        return rounds * count;
    }
    return 0;
}

/* Indirect branches, each to one of up to 64 targets after it, chosen by the table. */
#define BRANCHES 64
#define TARGETS 64
__asm__(".pushsection micro_kernels, \"ax\"\n .p2align 6\n .globl kernel_targets\n"
        ".type kernel_targets, %function\n"
        "kernel_targets: mov x8, x1\n"
        "1: .rept 64\n ldr x9, [x8], #8\n br x9\n .rept 64\n nop\n .endr\n .endr\n"
        "cmp x8, x2\n csel x8, x1, x8, hs\n subs x0, x0, #1\n b.eq 2f\n b 1b\n 2: ret\n"
        ".size kernel_targets, . - kernel_targets\n .popsection\n");
void kernel_targets(uint64_t rounds, const void *const *table, const void *const *end);

/* Each branch goes to `count` targets in turn. */
static uint64_t targets(uint64_t count, uint64_t rounds)
{
    static const void *table[TARGETS * BRANCHES];
    const char *first = (const char *)kernel_targets + 12; /* after the first branch */
    for (uint64_t i = 0; i < count * BRANCHES; i++)
        table[i] =
            first + i % BRANCHES * 4 * (2 + TARGETS) + 4 * ((i / BRANCHES + i % BRANCHES) % count);
    TIMED(kernel_targets(rounds, table, table + count * BRANCHES));
    return rounds * BRANCHES;
}

/* ---- the window: two loads that miss, and a number of operations between them ---- */

/* x0, x1: two chains of loads; x2: rounds; x3 and x4: where the rows of operations begin. */
#define APART 1024
#define WINDOW(name, operation)                                                                    \
    __asm__(".pushsection micro_kernels, \"ax\"\n .p2align 6\n .globl kernel_" name "\n"           \
            ".type kernel_" name ", %function\n"                                                   \
            "kernel_" name ": sub sp, sp, #64\n mov x9, #0\n"                                      \
            "1: ldr x0, [x0]\n br x3\n"                                                            \
            ".rept 1024\n " operation "\n .endr\n"                                                 \
            ".globl kernel_" name "_middle\n kernel_" name "_middle:\n"                            \
            "ldr x1, [x1]\n br x4\n"                                                               \
            ".rept 1024\n " operation "\n .endr\n"                                                 \
            ".globl kernel_" name "_end\n kernel_" name "_end:\n"                                  \
            "subs x2, x2, #1\n b.ne 1b\n add sp, sp, #64\n ret\n"                                  \
            ".size kernel_" name ", . - kernel_" name "\n .popsection\n");
WINDOW("window", "nop")
WINDOW("window_loads", "ldr x9, [sp]")
WINDOW("window_stores", "str x9, [sp]")
typedef void window_kernel(void *a, void *b, uint64_t rounds, const void *first,
                           const void *second);
window_kernel kernel_window, kernel_window_loads, kernel_window_stores;
void kernel_window_middle(void), kernel_window_end(void);
void kernel_window_loads_middle(void), kernel_window_loads_end(void);
void kernel_window_stores_middle(void), kernel_window_stores_end(void);

static uint64_t apart(char kind, uint64_t count, void *a, void *b, uint64_t rounds)
{
    window_kernel *run = kind == 'l'   ? kernel_window_loads
                         : kind == 's' ? kernel_window_stores
                                       : kernel_window;
    void (*middle)(void) = kind == 'l'   ? kernel_window_loads_middle
                           : kind == 's' ? kernel_window_stores_middle
                                         : kernel_window_middle;
    void (*end)(void) = kind == 'l'   ? kernel_window_loads_end
                        : kind == 's' ? kernel_window_stores_end
                                      : kernel_window_end;
    const char *first = (const char *)middle - 4 * count, *second = (const char *)end - 4 * count;
    TIMED(run(a, b, rounds, first, second));
    return rounds;
}

/* ---- straight code, run again and again: more than level 1 holds ---- */

#define STRAIGHT(name, count)                                                                      \
    KERNEL void kernel_##name(uint64_t rounds)                                                     \
    {                                                                                              \
        __asm__ volatile("1: .fill " #count ", 4, 0xd503201f\n subs %0, %0, #1\n b.eq 2f\n b 1b\n" \
                         "2:\n"                                                                    \
                         : "+r"(rounds)                                                            \
                         :                                                                         \
                         : "cc");                                                                  \
    }
STRAIGHT(short, 1024) /* 4 KB */
STRAIGHT(near, 4096)  /* 16 KB */
STRAIGHT(code, 65536) /* 256 KB */

/* ---- by name ---- */

struct kernel {
    const char *name;
    void (*run)(uint64_t rounds);
    uint32_t units; /* units per round */
};
#define NAMED(name, units) {#name, kernel_##name, units},
#define NAMED_TAKEN(count, stride)                                                                 \
    {"taken" #count "x" #stride, kernel_taken##count##x##stride, count},
static const struct kernel kernels[] = {
    NAMED(div, 16) NAMED(mul, 16) NAMED(add, 16) NAMED(fadd, 16) NAMED(fmul, 16) NAMED(fma, 16)
        NAMED(vadd, 16) NAMED(vmul, 16) NAMED(fdiv, 16) NAMED(fsqrt, 16) NAMED(wide, 128)
            NAMED(muls, 64) NAMED(fadds, 64) NAMED(nops, 64) NAMED(untaken, 64) NAMED(loads, 64)
                NAMED(stores, 64) NAMED(forward, 16) NAMED(half, 16) NAMED(offset, 16)
                    NAMED(overlap, 16) NAMED(narrow, 16) NAMED(short, 1024) NAMED(near, 4096)
                        NAMED(code, 65536){"crosses", crosses, 16},
    TAKEN_ALL(NAMED_TAKEN)};

/* Returns how many units it did, or 0 if no kernel has this name. */
static uint64_t kernel_run(const char *name, uint64_t units)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const struct kernel *k = &kernels[i];
        if (strcmp(k->name, name))
            continue;
        uint64_t rounds = units / k->units ? units / k->units : 1;
        TIMED(k->run(rounds));
        return rounds * k->units;
    }
    return 0;
}

#endif
