/*
 * A linked list in random order, larger than the last level cache, and an array that fits into
 * level 1.
 *
 * A profile shows: nearly all latency in walk(), on its one load; it misses level 1 and the
 * last level, its pages miss the TLB, its data source is DRAM, and its issue latency is long
 * too, since each address waits for the load before. sum() loads as much and waits for nothing.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 1 << 20, STEPS = 2000000, SMALL = 1024 };

struct node {
    struct node *next;
    char pad[56]; /* one node a cache line */
};

static __attribute__((noipa)) struct node *walk(struct node *node, long steps)
{
    while (steps--)
        node = node->next;
    return node;
}

static __attribute__((noipa)) uint64_t sum(const volatile uint64_t *values, long steps)
{
    uint64_t total = 0;
    for (long i = 0; i < steps; i++)
        total += values[i % SMALL];
    return total;
}

/* One cycle through all nodes (Sattolo). */
static __attribute__((noipa)) void link_nodes(struct node *nodes, uint32_t *order)
{
    uint64_t seed = 1;
    for (uint32_t i = 0; i < NODES; i++)
        order[i] = i;
    for (uint32_t i = NODES - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)(seed >> 33) % i, t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (uint32_t i = 0; i < NODES; i++)
        nodes[order[i]].next = &nodes[order[(i + 1) % NODES]];
}

int main(void)
{
    struct node *nodes = aligned_alloc(64, NODES * sizeof *nodes);
    uint32_t *order = malloc(NODES * sizeof *order);
    static uint64_t values[SMALL];
    if (!nodes || !order)
        return 1;
    link_nodes(nodes, order);
    struct node *last = walk(nodes, STEPS);
    printf("node %ld, sum %lu\n", (long)(last - nodes), (unsigned long)sum(values, STEPS));
    return 0;
}
