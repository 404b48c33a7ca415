/* Dependent loads over 64 MiB: each one goes to memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    enum { N = 1 << 20 };
    struct line {
        uint64_t next, pad[7];
    } *a = malloc(sizeof *a * N);
    uint64_t x = 1, at = 0;
    for (uint64_t i = 0; i < N; i++)
        a[i].next = (i * 777767777 + 12345) % N;
    for (int i = 0; i < 400000; i++)
        at = a[at].next ^ (x & 0);
    printf("%lu\n", (unsigned long)at);
    return 0;
}
