/*
 * rules A B [N]: two kinds of work in turn, N times, each some 50 to 300 operations: whose time it
 * is depends on one rule of the account of time (docs/model.md) or on another.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORK static __attribute__((noipa)) uint64_t
#define TWICE(x) x x
#define EIGHT(x) TWICE(TWICE(TWICE(x)))

enum { LINES = 1 << 17, NEAR = 256 };
static struct node {
    struct node *next;
    char pad[56];
} * nodes, near[NEAR], *far_at, *near_at;
static uint32_t *order, at;
static uint64_t words[64], seed = 88172645463325252u;

static uint64_t any(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* width, one cycle each: independent, and a chain */
WORK sums(uint64_t x)
{
    uint64_t a = x, b = x, c = x, d = x;
    for (int i = 0; i < 12; i++)
        __asm__ volatile("add %0, %0, #1\n add %1, %1, #1\n add %2, %2, #1\n add %3, %3, #1\n"
                         "add %0, %0, #2\n add %1, %1, #2\n add %2, %2, #2\n add %3, %3, #2\n"
                         : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    return a + b + c + d;
}
WORK chain(uint64_t x)
{
    for (int i = 0; i < 12; i++)
        __asm__ volatile(EIGHT("add %0, %0, #1\n") : "+r"(x));
    return x;
}
/* ports and latencies */
WORK muls(uint64_t x)
{
    uint64_t a, b, c, d;
    for (int i = 0; i < 12; i++)
        __asm__ volatile("mul %0, %4, %4\n mul %1, %4, %4\n mul %2, %4, %4\n mul %3, %4, %4\n"
                         : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                         : "r"(x));
    return a + b + c + d;
}
WORK mulchain(uint64_t x)
{
    for (int i = 0; i < 12; i++)
        __asm__ volatile(TWICE(TWICE("mul %0, %0, %0\n")) : "+r"(x));
    return x;
}
WORK shifts(uint64_t x)
{
    uint64_t a = x, b = x;
    for (int i = 0; i < 12; i++)
        __asm__ volatile(TWICE("add %0, %2, %2, lsl #7\n add %1, %2, %2, lsl #9\n")
                         : "=&r"(a), "=&r"(b)
                         : "r"(x));
    return a + b;
}
WORK fps(uint64_t x)
{
    double a, b, c = (double)x;
    for (int i = 0; i < 12; i++)
        __asm__ volatile(TWICE("fmul %d0, %d2, %d2\n fmul %d1, %d2, %d2\n")
                         : "=&w"(a), "=&w"(b)
                         : "w"(c));
    return a + b > 1;
}
WORK fpchain(uint64_t x)
{
    double a = 1, b = (double)(x & 1);
    for (int i = 0; i < 12; i++)
        __asm__ volatile(TWICE(TWICE("fmadd %d0, %d0, %d0, %d1\n")) : "+w"(a) : "w"(b));
    return a > 1;
}
/* what is not pipelined */
WORK divs(uint64_t x)
{
    uint64_t a = 0;
    for (int i = 0; i < 10; i++)
        __asm__ volatile("udiv %0, %1, %2\n" : "=r"(a) : "r"(x), "r"(x | 3));
    return a;
}
WORK divchain(uint64_t x)
{
    for (int i = 0; i < 10; i++)
        x = (x | 1ull << 63) / (x >> 32 | 3);
    return x;
}
WORK roots(uint64_t x)
{
    double a = (double)x;
    for (int i = 0; i < 6; i++)
        __asm__ volatile("fsqrt %d0, %d0\n" : "+w"(a));
    return a > 1;
}
/* loads that hit, that depend on each other, that miss */
WORK loads(uint64_t x)
{
    uint64_t a, b;
    for (int i = 0; i < 16; i++)
        __asm__ volatile("ldr %0, [%2]\n ldr %1, [%2, #8]\n ldr %0, [%2, #16]\n ldr %1, [%2, #24]\n"
                         : "=&r"(a), "=&r"(b)
                         : "r"(words + x % 32));
    return a + b;
}
WORK hops(uint64_t x)
{
    for (int i = 0; i < 24; i++)
        near_at = near_at->next;
    return x;
}
WORK chase(uint64_t x)
{
    for (int i = 0; i < 24; i++)
        far_at = far_at->next;
    return x;
}
WORK gather(uint64_t x)
{
    for (int i = 0; i < 40; i++)
        x += (uintptr_t)nodes[order[at++ % LINES]].next;
    return x;
}
/* stores: ports, queue, forwarding */
WORK stores(uint64_t x)
{
    for (int i = 0; i < 16; i++)
        __asm__ volatile("str %0, [%1]\n str %0, [%1, #8]\n str %0, [%1, #16]\n str %0, [%1, #24]\n"
                         :
                         : "r"(x), "r"(words + x % 32)
                         : "memory");
    return x;
}
WORK forward(uint64_t x)
{
    for (int i = 0; i < 12; i++)
        __asm__ volatile(TWICE("str %0, [%1]\n ldr %0, [%1]\n add %0, %0, #1\n")
                         : "+r"(x)
                         : "r"(words)
                         : "memory");
    return x;
}
WORK beside(uint64_t x)
{
    uint64_t a;
    for (int i = 0; i < 12; i++)
        __asm__ volatile(TWICE("str %1, [%2]\n ldr %0, [%2, #128]\n add %1, %1, #1\n")
                         : "=&r"(a), "+r"(x)
                         : "r"(words)
                         : "memory");
    return x;
}
/* a base register that is written back, and is there before the data */
WORK steps(uint64_t x)
{
    uint64_t *p = words, a = 0;
    for (int i = 0; i < 12; i++)
        __asm__ volatile(TWICE("ldr %0, [%1], #8\n") "ldr %0, [%1, #8]!\n add %2, %2, %0\n"
                         : "=&r"(a), "+r"(p), "+r"(x)
                         :
                         : "memory");
    return x;
}
/* branches */
WORK jumps(uint64_t x)
{
    for (int i = 0; i < 6; i++)
        __asm__ volatile(EIGHT("b 1f\n nop\n1: add %0, %0, #1\n") : "+r"(x));
    return x;
}
WORK guess(uint64_t x)
{
    uint64_t y = any();
    for (int i = 0; i < 8; i++)
        if (y >> i & 1)
            __asm__ volatile("add %0, %0, #1\n" : "+r"(x));
        else
            __asm__ volatile("sub %0, %0, #1\n" : "+r"(x));
    return x;
}
WORK sure(uint64_t x)
{
    for (int i = 0; i < 40; i++)
        if (i & 1)
            __asm__ volatile("add %0, %0, #1\n" : "+r"(x));
        else
            __asm__ volatile("sub %0, %0, #1\n" : "+r"(x));
    return x;
}
static __attribute__((noipa)) uint64_t one(uint64_t x)
{
    return x + 1;
}
static __attribute__((noipa)) uint64_t two(uint64_t x)
{
    return x * 3;
}
static __attribute__((noipa)) uint64_t three(uint64_t x)
{
    return x ^ 5;
}
static __attribute__((noipa)) uint64_t four(uint64_t x)
{
    return x - 7;
}
static uint64_t (*const calls[])(uint64_t) = {one, two, three, four};
WORK table(uint64_t x)
{
    uint64_t y = any();
    for (int i = 0; i < 6; i++)
        x = calls[y >> 2 * i & 3](x);
    return x;
}
WORK recurse(uint64_t x)
{
    return x & 15 ? recurse(x - 1) + 1 : x;
}
WORK deep(uint64_t x)
{
    return recurse(x | 15);
}
/* what waits for all before it, and read-modify-write */
WORK barrier(uint64_t x)
{
    for (int i = 0; i < 3; i++)
        __asm__ volatile("str %0, [%1]\n dmb ish\n" EIGHT("add %0, %0, #1\n")
                         : "+r"(x)
                         : "r"(words)
                         : "memory");
    return x;
}
WORK atomic(uint64_t x)
{
    for (int i = 0; i < 8; i++)
        __atomic_fetch_add(&words[8 * (i & 3)], x, __ATOMIC_RELAXED);
    return x;
}

static const struct work {
    const char *name;
    uint64_t (*run)(uint64_t);
} works[] = {
#define ROW(name)                                                                                  \
    {                                                                                              \
#name, name                                                                                \
    }
    ROW(sums), ROW(chain),  ROW(muls),  ROW(mulchain), ROW(shifts), ROW(fps),     ROW(fpchain),
    ROW(divs), ROW(roots),  ROW(loads), ROW(divchain), ROW(hops),   ROW(chase),   ROW(gather),
    ROW(deep), ROW(guess),  ROW(table), ROW(forward),  ROW(stores), ROW(barrier), ROW(beside),
    ROW(sure), ROW(atomic), ROW(steps), ROW(jumps)};

static const struct work *find(const char *name)
{
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (!strcmp(works[i].name, name))
            return &works[i];
    fprintf(stderr, "rules: no work '%s'\n", name);
    exit(2);
}

static void prepare(void)
{
    nodes = aligned_alloc(64, LINES * sizeof *nodes);
    order = malloc(LINES * sizeof *order);
    for (uint32_t i = 0; i < LINES; i++)
        order[i] = i;
    for (uint32_t i = LINES - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(any() % (i + 1)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (uint32_t i = 0; i < LINES; i++)
        nodes[order[i]].next = &nodes[order[(i + 1) % LINES]];
}

int main(int argc, char **argv)
{
    const struct work *a = find(argc > 1 ? argv[1] : ""), *b = find(argc > 2 ? argv[2] : "");
    long turns = argc > 3 ? atol(argv[3]) : 10000;
    uint64_t r = 5;
    for (unsigned i = 0; i < NEAR; i++)
        near[i].next = &near[(i * 5 + 1) % NEAR];
    near_at = near;
    if (a->run == chase || a->run == gather || b->run == chase || b->run == gather)
        prepare();
    far_at = nodes;
    for (long i = 0; i < turns; i++)
        r = (b->run(a->run(r)) & 0xffff) + (uint64_t)i;
    printf("%llu\n", (unsigned long long)r);
    return 0;
}
