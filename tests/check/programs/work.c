/*
 * A program with several functions, one of which may take a little longer: EXTRA iterations more in
 * POLISH, each 22 of which take 0.1% of the whole time.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef EXTRA
#define EXTRA 0
#endif
#ifndef POLISH
#define POLISH polish
#endif

enum { COUNT = 4096, ROUNDS = 24 };

static uint32_t seed = 1;

static __attribute__((noipa)) uint32_t next(void)
{
    return seed = seed * 1664525 + 1013904223;
}

static __attribute__((noipa)) void fill(uint32_t *v)
{
    for (int i = 0; i < COUNT; i++)
        v[i] = next();
}

static __attribute__((noipa)) uint64_t sum(const uint32_t *v)
{
    uint64_t s = 0;
    for (int i = 0; i < COUNT; i++)
        if (v[i] & 0x100000)
            s += v[i];
    return s;
}

/* Each iteration waits for the one before. */
static __attribute__((noipa)) uint64_t POLISH(uint64_t s)
{
    for (int i = 0; i < 2000 + EXTRA; i++) {
        s *= 0x9e3779b97f4a7c15;
        __asm__ volatile("" : "+r"(s));
    }
    return s;
}

int main(void)
{
    uint64_t s = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t *v = malloc(COUNT * sizeof *v);
        fill(v);
        s += POLISH(sum(v));
        if (i % 3)
            free(v);
    }
    printf("%016llx\n", (unsigned long long)s);
    return 0;
}
