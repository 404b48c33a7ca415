/* Integer code: sorts a million numbers with quicksort and checks the order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void sort(uint32_t *a, long n)
{
    while (n > 16) {
        uint32_t pivot = a[n / 2];
        long i = 0, j = n - 1;
        while (i <= j) {
            while (a[i] < pivot)
                i++;
            while (a[j] > pivot)
                j--;
            if (i <= j) {
                uint32_t t = a[i];
                a[i++] = a[j];
                a[j--] = t;
            }
        }
        sort(a, j + 1);
        a += i;
        n -= i;
    }
    for (long i = 1; i < n; i++) {
        uint32_t t = a[i];
        long j = i;
        for (; j > 0 && a[j - 1] > t; j--)
            a[j] = a[j - 1];
        a[j] = t;
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 4;
    enum { N = 1000000 };
    static uint32_t a[N];
    uint32_t x = 1;
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < N; i++)
            a[i] = x = x * 1664525 + 1013904223;
        sort(a, N);
        for (int i = 1; i < N; i++)
            if (a[i - 1] > a[i])
                return 1;
    }
    printf("%u\n", a[N / 2]);
    return 0;
}
