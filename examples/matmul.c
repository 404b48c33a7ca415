/*
 * One matrix product in two loop orders.
 *
 * A profile shows: multiply_bad() walks b down its columns; a column's lines fall into few sets
 * of level 1, so that nearly every second load misses it and comes from level 2.
 * multiply_good() does the same arithmetic row by row and misses once in eight elements at
 * most.
 */
#include <stdio.h>
#include <stdlib.h>

enum { N = 192 };

static double a[N][N], b[N][N], bad[N][N], good[N][N];

static __attribute__((noipa)) void multiply_bad(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[i][k] * b[k][j];
            bad[i][j] = sum;
        }
}

static __attribute__((noipa)) void multiply_good(void)
{
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            double factor = a[i][k];
            for (int j = 0; j < N; j++)
                good[i][j] += factor * b[k][j];
        }
}

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = i + j;
            b[i][j] = i - j;
        }
    multiply_bad();
    multiply_good();
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            if (bad[i][j] != good[i][j])
                return 1;
    printf("%g\n", good[N - 1][N - 1]);
    return 0;
}
