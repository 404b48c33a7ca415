/* For optimizers: cold code between hot blocks, a branch that cannot be predicted, an inlined
 * function. */
#include <stdio.h>

static unsigned state = 1;

static inline unsigned next(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 16;
}

__attribute__((noinline)) static int cold(int x)
{
    printf("cold %d\n", x);
    return x * 3;
}

__attribute__((noinline)) static int work(unsigned n)
{
    int sum = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned r = next();
        if (r == 70000)
            sum += cold((int)i);
        if (r & 1)
            sum += (int)r;
        else if ((r & 7) == 6)
            sum -= 3;
        else
            sum ^= 5;
    }
    return sum;
}

int main(void)
{
    int sum = 0;
    for (int k = 0; k < 20; k++)
        sum += work(20000);
    printf("%d\n", sum);
    return 0;
}
