/*
 * Microbenchmarks for `spex calibrate` and `make validate`: each kernel does one thing a stated
 * number of times, so that the cycles of its function divided by that number are a latency, a
 * bandwidth or a rate.
 *
 *   spex-micro [--clock RUNS] KERNEL ARGUMENT...
 *
 * Prints "KERNEL UNITS START END": UNITS is how many loads, bytes, branches, ... the kernel did,
 * and all kernels lie from START to END. A kernel's own function is called kernel_NAME; data is
 * prepared in other functions, so that exact counts by function tell the two apart. With --clock
 * the kernel runs once more than RUNS times, and the line continues with the name of the clock
 * (clock.h) and the cycles of each run but the first. Kernels are written in A64 where the
 * compiler's choice would matter.
 */
#include "core.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 2 << 20 };

static uint64_t state = 88172645463325252u;
static bool small_pages;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void *memory(size_t size)
{
    /* Twice as much, so that it can begin at a large page: translation then adds nothing. */
    size_t room = size >= LARGE / 4 ? (size + LARGE - 1) / LARGE * LARGE + LARGE : size;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("spex-micro: mmap");
        exit(1);
    }
    if (room > size)
        p += -(uintptr_t)p & (LARGE - 1);
    if (clock_wanted)
        madvise(p, size, small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    return p;
}

/* A ring through all nodes of the buffer in random order, one node every stride bytes. */
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

/*
 * ---- latency: each load needs the previous one; loads still under way at the end count, too ----
 */

KERNEL void *kernel_chase(void *p, uint64_t rounds)
{
    __asm__ volatile("1:\n" FOUR(FOUR("ldr %0, [%0]\n")) "subs %1, %1, #1\n b.ne 1b\n dsb nsh\n"
                     : "+r"(p), "+r"(rounds)
                     :
                     : "memory", "cc");
    return p;
}

/* The same, with one load per block: threads are accounted for by blocks. */
KERNEL void *kernel_lone(void *p, uint64_t loads)
{
    __asm__ volatile("1: ldr %0, [%0]\n subs %1, %1, #1\n b.ne 1b\n dsb nsh\n"
                     : "+r"(p), "+r"(loads)
                     :
                     : "memory", "cc");
    return p;
}

/* The same with room between the loads, so that few of them wait for each other. */
KERNEL void *kernel_spaced(void *p, uint64_t loads)
{
    __asm__ volatile("1: ldr %0, [%0]\n .rept 61\n nop\n .endr\n subs %1, %1, #1\n b.ne 1b\n"
                     : "+r"(p), "+r"(loads)
                     :
                     : "memory", "cc");
    return p;
}

/* When this returns, the memory is mapped and warm. */
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
    TIMED(kernel_chase(p, rounds));
    return rounds * 16;
}

/*
 * Makes nodes that are in no cache. A model does not see what the system writes, so a file that is
 * mapped is cold there; on a real core the nodes are driven out of the caches.
 */
static void *cold(size_t size, size_t stride)
{
    enum { OTHER = 512 << 20 };
    char *p = memory(size), *q = (char *)ring(size, stride);
    for (size_t i = 0; i < size / stride; i++)
        *(char **)(q + i * stride) += p - q;
    int file = memfd_create("nodes", MFD_CLOEXEC);
    if (file < 0 || write(file, q, size) != (ssize_t)size ||
        pread(file, p, size, 0) != (ssize_t)size) {
        perror("spex-micro: memfd_create");
        exit(1);
    }
    close(file);
    if (clock_wanted) {
        char *other = memory(OTHER);
        for (size_t i = 0; i < OTHER; i += 64)
            other[i] = 1;
    }
    return p;
}

/* Two chains of such nodes. */
static uint64_t window(const char *kind, uint64_t count, uint64_t rounds)
{
    enum { STRIDE = 4096 + 64 }; /* prefetched lines are of no use */
    void *a = cold((rounds + 64) * STRIDE, STRIDE), *b = cold((rounds + 64) * STRIDE, STRIDE);
    return apart(*kind, count, a, b, rounds);
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
    for (unsigned i = 0; i < 8; i++) { /* chains start far apart on the same ring */
        p[i] = at;
        for (size_t k = 0; k < nodes / 8; k++)
            at = *(void **volatile *)at;
    }
    uint64_t rounds = loads / (4 * chains);
    if (chains == 1)
        TIMED(kernel_gather1(p, rounds));
    else if (chains == 2)
        TIMED(kernel_gather2(p, rounds));
    else if (chains == 4)
        TIMED(kernel_gather4(p, rounds));
    else
        TIMED(kernel_gather8(p, rounds));
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

/* A load every stride bytes, in order: what a stride prefetcher sees. */
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
        TIMED(kernel_read(p, p + size, passes));
    } else if (!strcmp(name, "write")) {
        TIMED(kernel_write(p, p + size, passes));
    } else if (!strcmp(name, "modify")) {
        TIMED(kernel_modify(p, p + size, passes));
    } else {
        q = memory(size);
        memset(q, 1, size);
        TIMED(kernel_copy(q, p, p + size, passes));
    }
    return passes * size;
}

static uint64_t stride(size_t size, size_t step, uint64_t loads)
{
    char *p = memory(size);
    memset(p, 1, size);
    uint64_t passes = loads / (size / step) ? loads / (size / step) : 1;
    TIMED(kernel_stride(p, p + size, step, passes));
    return passes * (size / step);
}

/* ---- branches: taken according to a table of bits ---- */

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
    TIMED(kernel_branch(bits, period, count));
    return count;
}

/*
 * ---- two threads pass a line back and forth by compare and swap, the usual way to measure it ----
 */

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

/*
 * ---- latency under load: one thread chases through eight times as much as each of the others
 * reads ----
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

/* ---- several threads, each reading its own memory ---- */

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

/* Runs the kernel and returns how much it did; 0 if there is no such kernel. */
static uint64_t run(char **argv)
{
    const char *name = argv[1];
    bool sweeps = !strcmp(name, "read") || !strcmp(name, "write") || !strcmp(name, "modify") ||
                  !strcmp(name, "copy");
    uint64_t a = number(argv, 2);
    if (!strcmp(name, "chase") || !strcmp(name, "pages")) {
        small_pages = *name == 'p';
        return chase(prepare(a, number(argv, 3)), number(argv, 4));
    }
    if (!strcmp(name, "cold"))
        return chase(cold(a, number(argv, 3)), number(argv, 4));
    if (!strcmp(name, "spaced") || !strcmp(name, "spaced-cold")) {
        size_t stride = number(argv, 3);
        TIMED(kernel_spaced(name[6] ? cold(a, stride) : prepare(a, stride), number(argv, 4)));
        return number(argv, 4);
    }
    if (!strcmp(name, "window") && argv[3] && a <= APART)
        return window(argv[3], a, number(argv, 4));
    if (!strcmp(name, "gather"))
        return gather((unsigned)a, number(argv, 3), number(argv, 4));
    if (sweeps)
        return sweep(name, a, number(argv, 3));
    if (!strcmp(name, "stride"))
        return stride(a, number(argv, 3), number(argv, 4));
    if (!strcmp(name, "branch"))
        return branch(a, number(argv, 3));
    if (!strcmp(name, "pingpong"))
        return pingpong(a);
    if (!strcmp(name, "loaded"))
        return loaded((unsigned)a, number(argv, 3), number(argv, 4));
    if (!strcmp(name, "readers"))
        return readers((unsigned)a, number(argv, 3), number(argv, 4));
    if (!strcmp(name, "guess")) {
        uint64_t count = number(argv, 3) / 32 * 32;
        TIMED(kernel_guess(a ? ~0ull : 0, count));
        return count;
    }
    if (!strcmp(name, "calls") && a >= 1 && a <= CALLS)
        return calls(a, number(argv, 3));
    if (!strcmp(name, "targets") && a >= 1 && a <= TARGETS)
        return targets(a, number(argv, 3));
    uint64_t done = argv[3] ? row(name, a, number(argv, 3)) : 0;
    return done ? done : kernel_run(name, a);
}

extern const char __start_micro_kernels[], __stop_micro_kernels[];

int main(int argc, char **argv)
{
    unsigned runs = 0;
    if (argc > 2 && !strcmp(argv[1], "--clock")) {
        runs = (unsigned)number(argv, 2);
        clock_open();
        argv += 2;
        argc -= 2;
    }
    uint64_t units = argc < 3 ? 0 : run(argv);
    if (!units) {
        fprintf(stderr,
                "usage: spex-micro [--clock RUNS] chase|pages|cold|spaced|spaced-cold SIZE STRIDE "
                "LOADS | "
                "gather CHAINS SIZE LOADS | read|write|modify|copy SIZE BYTES | "
                "stride SIZE STEP LOADS | branch PERIOD COUNT | guess MASK COUNT | "
                "calls DEPTH ROUNDS | row|dense|paged|straight COUNT ROUNDS | "
                "targets COUNT ROUNDS | window COUNT nops|loads|stores ROUNDS | "
                "pingpong COUNT | loaded READERS SIZE LOADS | readers COUNT SIZE BYTES");
        for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
            fprintf(stderr, " | %s N", kernels[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    printf("%s %llu %p %p", argv[1], (unsigned long long)units, (const void *)__start_micro_kernels,
           (const void *)__stop_micro_kernels);
    if (runs)
        printf(" %s", clock_name());
    for (unsigned i = 0; i < runs; i++) {
        run(argv);
        printf(" %.1f", clock_cycles());
    }
    printf("\n");
    return 0;
}
