/*
 * A program whose operations are known: hot() is exactly LOOPS * 8 instructions, walk() misses
 * the caches, flip() mispredicts, vector() computes with SIMD and floating point, faults() lives on
 * SIGSEGV. Runs in the guest of tests/vm: all of them but faults(), or what the argument names.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LOOPS = 2000000, NODES = 1 << 16, STEPS = 300000 };

__attribute__((noipa)) static uint64_t hot(uint64_t n)
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

__attribute__((noipa)) static struct node *walk(struct node *node, unsigned steps)
{
    while (steps--)
        node = node->next;
    return node;
}

__attribute__((noipa)) static unsigned flip(unsigned steps)
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

__attribute__((noipa)) static double vector(unsigned steps)
{
    double d = 1.0;
    __asm__ volatile("movi v1.4s, #1\n\t"
                     "1: add v0.4s, v0.4s, v1.4s\n\t"
                     "fadd %d0, %d0, %d0\n\t"
                     "fmul v2.2d, v0.2d, v1.2d\n\t"
                     "str q0, [%2]\n\t"
                     "ldr d3, [%2]\n\t"
                     "subs %w1, %w1, #1\n\t"
                     "b.ne 1b"
                     : "+w"(d), "+r"(steps)
                     : "r"((char[16]){0})
                     : "v0", "v1", "v2", "v3", "cc", "memory");
    return d;
}

static char *page;

static void on_segv(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    (void)context;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

__attribute__((noipa)) static int faults(unsigned count)
{
    struct sigaction action = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO};
    int sum = 0;
    sigaction(SIGSEGV, &action, NULL);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (count--) {
        sum += *(volatile char *)page; /* faults, is repeated */
        mprotect(page, 4096, PROT_NONE);
    }
    return sum;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "faults"))
        return faults(3000);
    if (argc > 1 && !strcmp(argv[1], "vector"))
        return vector(200000) == 0;
    struct node *nodes = malloc(NODES * sizeof *nodes);
    uint32_t at = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t next = (at + 40503u) % NODES; /* coprime: visits every node */
        nodes[at].next = &nodes[next];
        at = next;
    }
    printf("%llu\n",
           (unsigned long long)(hot(LOOPS) + (uintptr_t)walk(nodes, STEPS) % 2 + flip(100000)));
    free(nodes);
    return 0;
}
