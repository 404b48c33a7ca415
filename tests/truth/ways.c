/*
 * ways KIND [N]: two kinds of work in turn, N times, that are as many operations each and take
 * three or four times as long one as the other, reached in a way of their own: by a tail call,
 * by calls into a library, in two threads, as SVE code.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORK __attribute__((noipa)) uint64_t
#define FOUR(x) x x x x

#ifdef LIBRARY
#define static
#define slow slow_there
#define quick quick_there
#endif

static WORK slow(uint64_t x)
{
    for (int i = 0; i < 8; i++)
        __asm__ volatile(FOUR("add %0, %0, #1\n add %0, %0, #2\n add %0, %0, #3\n") : "+r"(x));
    return x;
}

static WORK quick(uint64_t x)
{
    uint64_t a = x, b = x, c = x;
    for (int i = 0; i < 8; i++)
        __asm__ volatile(FOUR("add %0, %0, #1\n add %1, %1, #2\n add %2, %2, #3\n")
                         : "+r"(a), "+r"(b), "+r"(c));
    return a + b + c;
}

#ifndef LIBRARY
#ifdef CALLER
uint64_t slow_there(uint64_t x), quick_there(uint64_t x);
#endif

/* The same, and on to quick() without coming back. */
static WORK slow_and_on(uint64_t x)
{
    for (int i = 0; i < 8; i++)
        __asm__ volatile(FOUR("add %0, %0, #1\n add %0, %0, #2\n add %0, %0, #3\n") : "+r"(x));
    return quick(x);
}

#ifdef __ARM_FEATURE_SVE
static WORK vectors_slow(uint64_t x)
{
    __asm__ volatile("dup z0.d, %0\n ptrue p0.d\n" : : "r"(x) : "v0", "p0");
    for (int i = 0; i < 8; i++)
        __asm__ volatile(FOUR("fadd z0.d, p0/m, z0.d, z0.d\n fadd z0.d, p0/m, z0.d, z0.d\n"
                              "fadd z0.d, p0/m, z0.d, z0.d\n")
                         :
                         :
                         : "v0");
    return x;
}
static WORK vectors_quick(uint64_t x)
{
    __asm__ volatile("dup z0.d, %0\n" : : "r"(x) : "v0");
    for (int i = 0; i < 8; i++)
        __asm__ volatile(FOUR("fadd z1.d, z0.d, z0.d\n fadd z2.d, z0.d, z0.d\n"
                              "fadd z3.d, z0.d, z0.d\n")
                         :
                         :
                         : "v1", "v2", "v3");
    return x;
}
#endif

static uint64_t turns;

static void *both(void *unused)
{
    uint64_t x = 0;
    (void)unused;
    for (uint64_t i = 0; i < turns; i++)
        x += slow(x) + quick(x);
    return (void *)(uintptr_t)x;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    uint64_t x = 0;
    turns = argc > 2 ? strtoull(argv[2], NULL, 0) : 8000;
    if (!strcmp(kind, "tail")) {
        for (uint64_t i = 0; i < turns; i++)
            x += slow_and_on(x);
    } else if (!strcmp(kind, "threads")) {
        pthread_t other;
        if (pthread_create(&other, NULL, both, NULL))
            return 1;
        both(NULL);
        pthread_join(other, NULL);
#ifdef CALLER
    } else if (!strcmp(kind, "library")) {
        for (uint64_t i = 0; i < turns; i++)
            x += slow_there(x) + quick_there(x);
#endif
#ifdef __ARM_FEATURE_SVE
    } else if (!strcmp(kind, "vectors")) {
        for (uint64_t i = 0; i < turns; i++)
            x += vectors_slow(x) + vectors_quick(x);
#endif
    } else {
        return 2;
    }
    printf("%d\n", (int)(x & 1));
    return 0;
}
#endif
