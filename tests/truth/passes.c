/* passes MODE: reads 64 MB in order ("order") or line by line at random ("random"); divisions
 * ("div"); 16 KB again and again, alone ("alone"), with multiplications between ("among") or with
 * 256 KB ("shares"). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 64 << 20, LINES = BYTES / 64 };

static __attribute__((noipa)) uint64_t in_order(const uint64_t *a)
{
    uint64_t sum = 0;
    for (long i = 0; i < BYTES / 8; i += 2)
        sum += a[i];
    return sum;
}

static __attribute__((noipa)) uint64_t at_random(const uint64_t *a)
{
    uint64_t sum = 0, x = 1;
    for (long i = 0; i < LINES; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        sum += a[(x >> 32) % LINES * 8];
    }
    return sum;
}

static __attribute__((noipa)) uint64_t divide(uint64_t x)
{
    for (long i = 0; i < 1000000; i++)
        x = (x | 1ull << 63) / (x >> 32 | 3);
    return x;
}

static __attribute__((noipa)) uint64_t others(const uint64_t *a)
{
    uint64_t sum = 0;
    for (long i = 0; i < 4096; i++)
        sum += a[8 * i];
    return sum;
}

static __attribute__((noipa)) uint64_t small(const uint64_t *a)
{
    uint64_t sum = 0;
    for (long i = 0; i < 2048; i++)
        sum += a[8 * (i % 256)];
    return sum;
}

static __attribute__((noipa)) uint64_t multiply(uint64_t x)
{
    for (long i = 0; i < 1000; i++)
        x = x * x + 1;
    return x;
}

static uint64_t rounds(const char *mode, const uint64_t *a)
{
    uint64_t sum = 0;
    for (long i = 0; i < 60; i++) {
        sum += small(a);
        if (!strcmp(mode, "among"))
            sum += multiply(sum);
        else if (!strcmp(mode, "shares"))
            sum += others(a + 4096);
    }
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t *a = malloc(BYTES);
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "alone") || !strcmp(mode, "among") || !strcmp(mode, "shares")) {
        printf("%llu\n", (unsigned long long)rounds(mode, memset(a, 1, 1 << 20)));
        return 0;
    }
    if (strcmp(mode, "div"))
        memset(a, 1, BYTES);
    uint64_t r = !strcmp(mode, "order")    ? in_order(a)
                 : !strcmp(mode, "random") ? at_random(a)
                                           : divide(5);
    printf("%llu\n", (unsigned long long)r);
    return 0;
}
