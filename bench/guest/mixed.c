/* Sorting and a floating-point matrix product, in about equal shares of time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 4;
    enum { N = 160, M = 150000 };
    static double a[N][N], b[N][N], c[N][N];
    static uint32_t v[M];
    uint32_t x = 1;
    double sum = 0;
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < M; i++)
            v[i] = x = x * 1664525 + 1013904223;
        qsort(v, M, sizeof v[0], compare);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                a[i][j] = v[i * N + j] % 1000;
                b[i][j] = i ^ j;
                c[i][j] = 0;
            }
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++)
                    c[i][j] += a[i][k] * b[k][j];
        sum += c[N / 2][N / 3];
    }
    printf("%g\n", sum);
    return 0;
}
