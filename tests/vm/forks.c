/* What perf's test of forks compiles: a child that computes for ever, a parent that waits. */
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    volatile double sum = 0;
    if (!fork())
        for (;;)
            sum += sqrt(rand());
    wait(NULL);
    return 0;
}
