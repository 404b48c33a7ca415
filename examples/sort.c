/*
 * A condition on unsorted and on sorted data.
 *
 * A profile shows: the branch on v[i] >= 128 in sum_unsorted() is mispredicted about every
 * second time, the same branch in sum_sorted() nearly never. The comparisons of sort() are
 * mispredicted often too, which is why sorting is slow.
 */
#include <stdint.h>
#include <stdio.h>

enum { COUNT = 16384, PASSES = 60 };

static uint8_t values[COUNT];

/* The asm statement keeps the compiler from making the branch a conditional select. */
#define SUM                                                                                        \
    uint64_t sum = 0;                                                                              \
    for (int pass = 0; pass < PASSES; pass++)                                                      \
        for (int i = 0; i < COUNT; i++)                                                            \
            if (values[i] >= 128) {                                                                \
                sum += values[i];                                                                  \
                __asm__ volatile("" : "+r"(sum));                                                  \
            }                                                                                      \
    return sum

static __attribute__((noipa)) uint64_t sum_unsorted(void)
{
    SUM;
}

static __attribute__((noipa)) uint64_t sum_sorted(void)
{
    SUM;
}

static __attribute__((noipa)) void sort(uint8_t *v, int n)
{
    while (n > 1) {
        uint8_t pivot = v[n / 2];
        int i = 0, j = n - 1;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                uint8_t t = v[i];
                v[i++] = v[j];
                v[j--] = t;
            }
        }
        sort(v, j + 1);
        v += i;
        n -= i;
    }
}

int main(void)
{
    uint32_t seed = 7;
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525 + 1013904223;
        values[i] = (uint8_t)(seed >> 24);
    }
    uint64_t unsorted = sum_unsorted();
    sort(values, COUNT);
    printf("%lu %lu\n", (unsigned long)unsorted, (unsigned long)sum_sorted());
    return 0;
}
