/*
 * mixes MODE: two kinds of work whose time is not their share of operations or of latency.
 *   calls    two functions of some 50 operations called in turn: dependent divisions, independent
 * sums turns    a dependent chase through memory and independent sums in turn, 600 operations each
 *   phases   a chase and a gather of independent loads, one after the other
 *   gathers  the same in turn, 600 operations each
 *   guesses  a function that mispredicts half of its branches and one that does not, in turn
 *   long     chase, sums, divisions, guesses, long phases
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 1 << 18 };
static struct node {
    struct node *next;
    char pad[56];
} * nodes;
static uint32_t *order;

static __attribute__((noipa)) uint64_t divisions(uint64_t x)
{
    for (int i = 0; i < 10; i++)
        x = (x | 1ull << 63) / (x >> 32 | 3);
    return x;
}
static __attribute__((noipa)) uint64_t sums(uint64_t n)
{
    uint64_t a = n, b = n, c = n, d = n;
    for (uint64_t i = 0; i < n; i++) {
        a += i;
        b ^= i;
        c -= i;
        d |= i;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
    return a + b + c + d;
}
static __attribute__((noipa)) struct node *chase(struct node *p, long steps)
{
    while (steps--)
        p = p->next;
    return p;
}
static __attribute__((noipa)) uint64_t gather(const uint32_t *at, long steps)
{
    uint64_t sum = 0;
    for (long i = 0; i < steps; i++)
        sum += (uintptr_t)nodes[at[i]].next;
    return sum;
}
static __attribute__((noipa)) uint64_t guesses(uint64_t x, long n, uint64_t odd)
{
    uint64_t sum = 0;
    for (long i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (x >> 20 & odd) {
            __asm__ volatile("" : "+r"(sum));
            sum += i;
        } else {
            __asm__ volatile("" : "+r"(sum));
            sum ^= x;
        }
    }
    return sum + x;
}
static __attribute__((noipa)) uint64_t surely(uint64_t x, long n, uint64_t odd)
{
    uint64_t sum = 0;
    for (long i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (x >> 20 & odd) {
            __asm__ volatile("" : "+r"(sum));
            sum += i;
        } else {
            __asm__ volatile("" : "+r"(sum));
            sum ^= x;
        }
    }
    return sum + x;
}
static __attribute__((noipa)) void prepare(void)
{
    uint64_t seed = 1;
    nodes = aligned_alloc(64, LINES * sizeof *nodes);
    order = malloc(LINES * sizeof *order);
    for (uint32_t i = 0; i < LINES; i++)
        order[i] = i;
    for (uint32_t i = LINES - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)(seed >> 33) % i, t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (uint32_t i = 0; i < LINES; i++)
        nodes[order[i]].next = &nodes[order[(i + 1) % LINES]];
}
int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    uint64_t r = 5;
    struct node *p;
    if (!strcmp(mode, "calls"))
        for (int i = 0; i < 100000; i++)
            r += divisions(i) + sums(8);
    else if (!strcmp(mode, "guesses"))
        for (int i = 0; i < 100000; i++)
            r += guesses(i + 88172645463325252u, 10, 1) + surely(i + 88172645463325252u, 10, 0);
    else {
        prepare();
        p = nodes;
        uint32_t at = 0;
        if (!strcmp(mode, "turns"))
            for (int i = 0; i < 6000; i++) {
                p = chase(p, 200);
                r += sums(100);
            }
        else if (!strcmp(mode, "phases"))
            for (int i = 0; i < 4; i++) {
                p = chase(p, 100000);
                r += gather(order, 200000);
            }
        else if (!strcmp(mode, "gathers"))
            for (int i = 0; i < 5000; i++) {
                p = chase(p, 200);
                r += gather(order + at, 120);
                at = (at + 120) % (LINES - 200);
            }
        else {
            p = chase(p, 200000);
            r += sums(400000);
            for (int i = 0; i < 20000; i++)
                r += divisions(i);
            r += guesses(88172645463325252u, 200000, 1);
            r += surely(88172645463325252u, 200000, 0);
            p = chase(p, 100000);
            r += sums(800000);
            r += gather(order, 200000);
        }
        r += (uintptr_t)p;
    }
    printf("%llu\n", (unsigned long long)r);
    return 0;
}
