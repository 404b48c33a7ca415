/* Calls and little else: what call stacks cost at most. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static long fib(long n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

int main(int argc, char **argv)
{
    printf("%ld\n", fib(argc > 1 ? atol(argv[1]) : 34));
    return 0;
}
