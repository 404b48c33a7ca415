/*
 * A program whose operations are known: hot() is exactly LOOPS * 8 instructions, walk() misses
 * the caches, and flip() mispredicts. Runs in the guest of tests/vm.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOOPS = 2000000, NODES = 1 << 16, STEPS = 300000 };

__attribute__((noinline)) static uint64_t hot(uint64_t n)
{
    uint64_t sum = 0;
    __asm__ volatile("1: add %0, %0, #1\n\t"
                     "eor %0, %0, %1\n\t"
                     "add %0, %0, #2\n\t"
                     "eor %0, %0, %1\n\t"
                     "add %0, %0, #3\n\t"
                     "nop\n\t"
                     "subs %1, %1, #1\n\t"
                     "b.ne 1b"
                     : "+r"(sum), "+r"(n)
                     :
                     : "cc");
    return sum;
}

struct node {
    struct node *next;
    char pad[120];
};

__attribute__((noinline)) static struct node *walk(struct node *node, unsigned steps)
{
    while (steps--)
        node = node->next;
    return node;
}

__attribute__((noinline)) static unsigned flip(unsigned steps)
{
    uint64_t x = 88172645463325252u;
    unsigned taken = 0;
    while (steps--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (x & 1)
            __asm__ volatile("add %w0, %w0, #1" : "+r"(taken));
        else
            __asm__ volatile("add %w0, %w0, #2" : "+r"(taken));
    }
    return taken;
}

int main(int argc, char **argv)
{
    unsigned scale = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    struct node *nodes = malloc(NODES * sizeof *nodes);
    uint32_t at = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t next = (at + 40503u) % NODES; /* coprime: visits every node */
        nodes[at].next = &nodes[next];
        at = next;
    }
    printf("%llu\n", (unsigned long long)(hot((uint64_t)LOOPS * scale) +
                                          (uintptr_t)walk(nodes, STEPS * scale) % 2 +
                                          flip(100000 * scale)));
    free(nodes);
    return 0;
}
