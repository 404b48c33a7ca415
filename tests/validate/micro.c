/*
 * Microbenchmarks for `make validate`: each kernel does one thing a stated number of times, so that
 * the modelled cycles of its function divided by that number are a latency, a bandwidth or a rate.
 *
 *   micro KERNEL ARGUMENT...
 *
 * Prints "KERNEL UNITS" where UNITS is how many loads, bytes, branches, ... the kernel did. The
 * kernel's own function is called kernel_NAME; preparing the data is left to other functions, so
 * that exact counts by function tell the two apart. Kernels are written in A64 where the compiler's
 * choice would matter.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void *memory(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("micro: mmap");
        exit(1);
    }
    return p;
}

/* One cycle through all nodes of the buffer in random order, a node each stride bytes. */
static void **ring(size_t size, size_t stride)
{
    size_t count = size / stride;
    char *base = memory(size);
    uint32_t *order = malloc(count * sizeof *order);
    if (!order)
        exit(1);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count - 1; i > 0; i--) {
        size_t j = draw() % (i + 1);
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (size_t i = 0; i < count; i++)
        *(void **)(base + order[i] * stride) = base + order[(i + 1) % count] * stride;
    free(order);
    return (void **)base;
}

/* ---- latency: each load needs the one before; what is under way at the end belongs to it ---- */

KERNEL void *kernel_chase(void *p, uint64_t rounds)
{
    __asm__ volatile("1:\n" FOUR(FOUR("ldr %0, [%0]\n")) "subs %1, %1, #1\n b.ne 1b\n dsb nsh\n"
                     : "+r"(p), "+r"(rounds)
                     :
                     : "memory", "cc");
    return p;
}

/* The same, a load in each block: threads are accounted for by blocks. */
KERNEL void *kernel_lone(void *p, uint64_t loads)
{
    __asm__ volatile("1: ldr %0, [%0]\n subs %1, %1, #1\n b.ne 1b\n dsb nsh\n"
                     : "+r"(p), "+r"(loads)
                     :
                     : "memory", "cc");
    return p;
}

/* Memory for it is ready when this returns, and warm. */
static void *prepare(size_t size, size_t stride)
{
    void *p = ring(size, stride);
    for (size_t i = 0; i < size / stride; i++)
        p = *(void *volatile *)p;
    return p;
}

static uint64_t chase(void *p, uint64_t loads)
{
    uint64_t rounds = loads / 16;
    kernel_chase(p, rounds);
    return rounds * 16;
}

/* ---- parallelism: up to eight chains at a time ---- */

#define GATHER(n, body)                                                                            \
    KERNEL void kernel_gather##n(void **p, uint64_t rounds)                                        \
    {                                                                                              \
        __asm__ volatile("ldp x8, x9, [%0]\n ldp x10, x11, [%0, #16]\n"                            \
                         "ldp x12, x13, [%0, #32]\n ldp x14, x15, [%0, #48]\n"                     \
                         "1:\n" FOUR(body) "subs %1, %1, #1\n b.ne 1b\n"                           \
                         : "+r"(p), "+r"(rounds)                                                   \
                         :                                                                         \
                         : "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "memory", "cc");  \
    }
#define L1 "ldr x8, [x8]\n"
#define L2 L1 "ldr x9, [x9]\n"
#define L4 L2 "ldr x10, [x10]\n ldr x11, [x11]\n"
#define L8 L4 "ldr x12, [x12]\n ldr x13, [x13]\n ldr x14, [x14]\n ldr x15, [x15]\n"
GATHER(1, L1)
GATHER(2, L2)
GATHER(4, L4)
GATHER(8, L8)

static uint64_t gather(unsigned chains, size_t size, uint64_t loads)
{
    void *p[8] = {0}, **at = ring(size, 64);
    size_t nodes = size / 64;
    for (unsigned i = 0; i < 8; i++) { /* chains start far from each other on the same ring */
        p[i] = at;
        for (size_t k = 0; k < nodes / 8; k++)
            at = *(void **volatile *)at;
    }
    uint64_t rounds = loads / (4 * chains);
    if (chains == 1)
        kernel_gather1(p, rounds);
    else if (chains == 2)
        kernel_gather2(p, rounds);
    else if (chains == 4)
        kernel_gather4(p, rounds);
    else
        kernel_gather8(p, rounds);
    return rounds * 4 * chains;
}

/* ---- bandwidth ---- */

KERNEL void kernel_read(const void *p, const void *end, uint64_t passes)
{
    __asm__ volatile("2: mov x8, %0\n"
                     "1: ldp q0, q1, [x8]\n ldp q2, q3, [x8, #32]\n"
                     "add x8, x8, #64\n cmp x8, %1\n b.lo 1b\n"
                     "subs %2, %2, #1\n b.ne 2b\n"
                     : "+r"(p), "+r"(end), "+r"(passes)
                     :
                     : "x8", "v0", "v1", "v2", "v3", "memory", "cc");
}

KERNEL void kernel_write(void *p, void *end, uint64_t passes)
{
    __asm__ volatile("movi v0.16b, #1\n"
                     "2: mov x8, %0\n"
                     "1: stp q0, q0, [x8]\n stp q0, q0, [x8, #32]\n"
                     "add x8, x8, #64\n cmp x8, %1\n b.lo 1b\n"
                     "subs %2, %2, #1\n b.ne 2b\n"
                     : "+r"(p), "+r"(end), "+r"(passes)
                     :
                     : "x8", "v0", "memory", "cc");
}

KERNEL void kernel_modify(void *p, void *end, uint64_t passes)
{
    __asm__ volatile("2: mov x8, %0\n"
                     "1: ldp q0, q1, [x8]\n ldp q2, q3, [x8, #32]\n"
                     "stp q0, q1, [x8]\n stp q2, q3, [x8, #32]\n"
                     "add x8, x8, #64\n cmp x8, %1\n b.lo 1b\n"
                     "subs %2, %2, #1\n b.ne 2b\n"
                     : "+r"(p), "+r"(end), "+r"(passes)
                     :
                     : "x8", "v0", "v1", "v2", "v3", "memory", "cc");
}

KERNEL void kernel_copy(void *to, const void *from, const void *end, uint64_t passes)
{
    __asm__ volatile("2: mov x8, %1\n mov x9, %0\n"
                     "1: ldp q0, q1, [x8]\n ldp q2, q3, [x8, #32]\n"
                     "stp q0, q1, [x9]\n stp q2, q3, [x9, #32]\n"
                     "add x8, x8, #64\n add x9, x9, #64\n cmp x8, %2\n b.lo 1b\n"
                     "subs %3, %3, #1\n b.ne 2b\n"
                     : "+r"(to), "+r"(from), "+r"(end), "+r"(passes)
                     :
                     : "x8", "x9", "v0", "v1", "v2", "v3", "memory", "cc");
}

/* A load each stride bytes, in order: what a stride prefetcher sees. */
KERNEL void kernel_stride(const void *p, const void *end, uint64_t stride, uint64_t passes)
{
    __asm__ volatile("2: mov x8, %0\n"
                     "1: ldr x9, [x8]\n add x8, x8, %2\n cmp x8, %1\n b.lo 1b\n"
                     "subs %3, %3, #1\n b.ne 2b\n"
                     : "+r"(p), "+r"(end), "+r"(stride), "+r"(passes)
                     :
                     : "x8", "x9", "memory", "cc");
}

static uint64_t sweep(const char *name, size_t size, uint64_t bytes)
{
    char *p = memory(size), *q = NULL;
    memset(p, 1, size);
    uint64_t passes = bytes / size ? bytes / size : 1;
    if (!strcmp(name, "read")) {
        kernel_read(p, p + size, passes);
    } else if (!strcmp(name, "write")) {
        kernel_write(p, p + size, passes);
    } else if (!strcmp(name, "modify")) {
        kernel_modify(p, p + size, passes);
    } else {
        q = memory(size);
        memset(q, 1, size);
        kernel_copy(q, p, p + size, passes);
    }
    return passes * size;
}

static uint64_t stride(size_t size, size_t step, uint64_t loads)
{
    char *p = memory(size);
    memset(p, 1, size);
    uint64_t passes = loads / (size / step) ? loads / (size / step) : 1;
    kernel_stride(p, p + size, step, passes);
    return passes * (size / step);
}

/* ---- branches: taken as a table of bits says ---- */

KERNEL void kernel_branch(const uint8_t *bits, uint64_t period, uint64_t count)
{
    __asm__ volatile("mov x8, #0\n"
                     "1: ldrb w9, [%0, x8]\n add x8, x8, #1\n cmp x8, %1\n csel x8, xzr, x8, hs\n"
                     "cbz w9, 2f\n add x10, x10, #1\n"
                     "2: subs %2, %2, #1\n b.ne 1b\n"
                     : "+r"(bits), "+r"(period), "+r"(count)
                     :
                     : "x8", "x9", "x10", "memory", "cc");
}

static uint64_t branch(uint64_t period, uint64_t count)
{
    uint8_t *bits = malloc(period);
    if (!bits)
        exit(1);
    for (uint64_t i = 0; i < period; i++)
        bits[i] = draw() >> 33 & 1;
    kernel_branch(bits, period, count);
    return count;
}

/* ---- two threads hand a line to and fro by compare and swap, as it is usually measured ---- */

static _Alignas(128) volatile uint64_t turn;
static uint64_t turns;
static pthread_barrier_t ready;

KERNEL void kernel_pingpong(volatile uint64_t *p, uint64_t me, uint64_t count)
{
    __asm__ volatile(".arch_extension lse\n"
                     "1: mov x8, %1\n cas x8, %3, [%0]\n cmp x8, %1\n b.eq 2f\n yield\n b 1b\n"
                     "2: subs %2, %2, #1\n b.ne 1b\n"
                     : "+r"(p), "+r"(me), "+r"(count)
                     : "r"(me ^ 1)
                     : "x8", "memory", "cc");
}

static void *partner(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&ready);
    kernel_pingpong(&turn, 1, turns);
    return NULL;
}

static uint64_t pingpong(uint64_t count)
{
    pthread_t other;
    turns = count;
    pthread_barrier_init(&ready, NULL, 2);
    if (pthread_create(&other, NULL, partner, NULL))
        exit(1);
    pthread_barrier_wait(&ready);
    kernel_pingpong(&turn, 0, count);
    pthread_join(other, NULL);
    return 2 * count; /* transfers */
}

/* ---- latency under load: one thread chases through eight times what each of the others reads ----
 */

static volatile int stop;
static size_t load_size;

KERNEL void kernel_load(const void *p, const void *end)
{
    kernel_read(p, end, 1);
}

static void *reader(void *unused)
{
    char *p = memory(load_size);
    memset(p, 1, load_size);
    (void)unused;
    pthread_barrier_wait(&ready);
    while (!stop)
        kernel_load(p, p + load_size);
    return NULL;
}

static uint64_t loaded(unsigned readers, size_t size, uint64_t loads)
{
    pthread_t other[64];
    void *p = prepare(8 * size, 64);
    load_size = size;
    pthread_barrier_init(&ready, NULL, readers + 1);
    for (unsigned i = 0; i < readers; i++)
        if (pthread_create(&other[i], NULL, reader, NULL))
            exit(1);
    pthread_barrier_wait(&ready);
    kernel_lone(p, loads);
    stop = 1;
    for (unsigned i = 0; i < readers; i++)
        pthread_join(other[i], NULL);
    return loads;
}

/* ---- so many threads, each reading its own ---- */

static uint64_t each_bytes;

static void *reads(void *p)
{
    pthread_barrier_wait(&ready);
    kernel_read(p, (char *)p + load_size, each_bytes / load_size);
    return NULL;
}

static uint64_t readers(unsigned count, size_t size, uint64_t bytes)
{
    pthread_t other[64];
    load_size = size;
    each_bytes = bytes;
    pthread_barrier_init(&ready, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        char *p = memory(size);
        memset(p, 1, size);
        if (pthread_create(&other[i], NULL, reads, p))
            exit(1);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(other[i], NULL);
    return count * (bytes / size * size);
}

static uint64_t number(char **argv, int at)
{
    char *end;
    if (!argv[at])
        exit(2);
    uint64_t n = strtoull(argv[at], &end, 0);
    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: micro chase SIZE STRIDE LOADS | gather CHAINS SIZE LOADS | "
                        "read|write|modify|copy SIZE BYTES | stride SIZE STEP LOADS | "
                        "branch PERIOD COUNT | guess MASK COUNT | calls DEPTH ROUNDS | "
                        "pingpong COUNT | loaded READERS SIZE LOADS | readers COUNT SIZE BYTES");
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            fprintf(stderr, " | %s N", kernels[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    const char *name = argv[1];
    uint64_t a = number(argv, 2), units;
    if (!strcmp(name, "chase"))
        units = chase(prepare(a, number(argv, 3)), number(argv, 4));
    else if (!strcmp(name, "gather"))
        units = gather((unsigned)a, number(argv, 3), number(argv, 4));
    else if (!strcmp(name, "read") || !strcmp(name, "write") || !strcmp(name, "modify") ||
             !strcmp(name, "copy"))
        units = sweep(name, a, number(argv, 3));
    else if (!strcmp(name, "stride"))
        units = stride(a, number(argv, 3), number(argv, 4));
    else if (!strcmp(name, "branch"))
        units = branch(a, number(argv, 3));
    else if (!strcmp(name, "pingpong"))
        units = pingpong(a);
    else if (!strcmp(name, "loaded"))
        units = loaded((unsigned)a, number(argv, 3), number(argv, 4));
    else if (!strcmp(name, "readers"))
        units = readers((unsigned)a, number(argv, 3), number(argv, 4));
    else if (!strcmp(name, "guess"))
        kernel_guess(a ? ~0ull : 0, units = number(argv, 3) / 32 * 32);
    else if (!strcmp(name, "calls") && a >= 1 && a <= CALLS)
        units = calls(a, number(argv, 3));
    else if (!(units = kernel_run(name, a)))
        return 2;
    printf("%s %llu\n", name, (unsigned long long)units);
    return 0;
}
