/* passes MODE: reads 64 MB in order ("order") or line by line at random ("random"); divisions
 * ("div"). */
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

int main(int argc, char **argv)
{
    uint64_t *a = malloc(BYTES);
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "div"))
        memset(a, 1, BYTES);
    uint64_t r = !strcmp(mode, "order")    ? in_order(a)
                 : !strcmp(mode, "random") ? at_random(a)
                                           : divide(5);
    printf("%llu\n", (unsigned long long)r);
    return 0;
}
