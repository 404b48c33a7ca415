/* Some seconds under the model; says something halfway if it is asked to. */
#include <stdio.h>
#include <string.h>

static __attribute__((noipa)) void work(int n)
{
    static volatile unsigned char bytes[1 << 22];
    for (int i = 0; i < n; i++)
        bytes[(unsigned)i * 4099u % sizeof bytes]++;
}

int main(int argc, char **argv)
{
    work(2500000);
    if (argc > 1) {
        printf("halfway");
        fflush(stdout);
    }
    work(2500000);
    return argc > 2 ? 3 : 0;
}
