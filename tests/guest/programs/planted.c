/* One thing that is slow at a time, and the same without it: planted NUMBER [fixed]. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noipa))
typedef uint64_t u64;
static u64 seed = 1;
static u64 any(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

/* ---- 1: numbers all over a table beyond level 2, and in one that fits level 1 ---- */

enum { ENTRIES = 1 << 15, FEW = 1 << 9, LOOKUPS = 200000 };
struct entry {
    _Alignas(64) u64 value;
} table[ENTRIES];

static APART u64 look_up(u64 n, u64 entries)
{
    u64 sum = 0, at = 1;
    for (u64 i = 0; i < n; i++) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        sum += table[at >> 33 & (entries - 1)].value;
    }
    return sum;
}

static u64 lookups(int fixed)
{
    table[1].value = 1;
    return look_up(LOOKUPS, fixed ? FEW : ENTRIES);
}

/* ---- 2: a branch that depends on data, and a conditional select ---- */

static uint8_t dice[1 << 12];

static APART u64 count_if(const uint8_t *at, u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        if (at[i] & 1)
            __asm__ volatile("add %0, %0, %1" : "+r"(sum) : "r"(i));
    return sum;
}

static APART u64 count_select(const uint8_t *at, u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        __asm__ volatile("tst %1, 1\n csel x16, %2, xzr, ne\n add %0, %0, x16"
                         : "+r"(sum)
                         : "r"((u64)at[i]), "r"(i)
                         : "x16", "cc");
    return sum;
}

static u64 branches(int fixed)
{
    u64 sum = 0;
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < sizeof dice; i++)
            dice[i] = (uint8_t)any();
        sum += fixed ? count_select(dice, sizeof dice) : count_if(dice, sizeof dice);
    }
    return sum;
}

/* ---- 3: a division by a number that the compiler does not know, and does ---- */

static APART u64 scale_divide(u64 n, u64 by)
{
    u64 at = n;
    for (u64 i = 0; i < n; i++)
        at = (at * 31 + i) / by + i;
    return at;
}

static APART u64 scale_known(u64 n)
{
    u64 at = n;
    for (u64 i = 0; i < n; i++)
        at = ((at * 31 + i) / 1024) + i;
    return at;
}

static u64 divisions(int fixed)
{
    return fixed ? scale_known(100000) : scale_divide(100000, 1024);
}

/* ---- 4: counters of two threads in one line ---- */

struct counters {
    _Alignas(128) volatile u64 near[2];
    _Alignas(128) volatile u64 far[2][16];
} counters;
static int apart;

static APART void *count_up(void *which)
{
    volatile u64 *at = apart ? counters.far[which != NULL] : &counters.near[which != NULL];
    for (unsigned i = 0; i < 40000; i++)
        ++*at;
    return NULL;
}

static u64 sharing(int fixed)
{
    pthread_t other;
    apart = fixed;
    pthread_create(&other, NULL, count_up, &apart);
    count_up(NULL);
    pthread_join(other, NULL);
    return counters.near[0] + counters.far[0][0];
}

/* ---- 5: a list whose nodes have a page each, and the same nodes in one another's ---- */

enum { NODES = 2048, PAGE = 4096 + 64 };
struct node {
    struct node *next;
};
static _Alignas(4096) char pool[NODES * PAGE];

static APART struct node *follow(struct node *at, u64 n)
{
    while (n--)
        at = at->next;
    return at;
}

static u64 pages(int fixed)
{
    uint32_t order[NODES];
    u64 step = fixed ? 64 : PAGE;
    for (uint32_t i = 0; i < NODES; i++)
        order[i] = i;
    for (uint32_t i = NODES - 1; i > 0; i--) {
        uint32_t k = (uint32_t)(any() % i), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (uint32_t i = 0; i < NODES; i++)
        ((struct node *)(pool + order[i] * step))->next =
            (struct node *)(pool + order[(i + 1) % NODES] * step);
    return (u64)((char *)follow((struct node *)pool, 200000) - pool);
}

/* ---- 6: a sum that nobody asked for ---- */

static char text[4096];

static APART u64 checksum(const char *at, u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        sum = sum * 31 + (unsigned char)at[i];
    return sum;
}

static APART u64 use(u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        sum += (u64)text[i % sizeof text] * i;
    return sum;
}

static u64 needless(int fixed)
{
    u64 sum = 0;
    for (unsigned i = 0; i < 50; i++) {
        sum += use(4000);
        if (!fixed)
            sum ^= checksum(text, sizeof text);
    }
    return sum;
}

/* ---- 7: calls in any order, and sorted ---- */

static APART u64 add(u64 x)
{
    return x + 1;
}
static APART u64 twice(u64 x)
{
    return x * 2;
}
static APART u64 less(u64 x)
{
    return x - 1;
}
static APART u64 flip(u64 x)
{
    return ~x;
}
static u64 (*const doing[4])(u64) = {add, twice, less, flip};
static uint8_t orders[1 << 15];

static APART u64 dispatch(u64 x)
{
    for (unsigned i = 0; i < sizeof orders; i++)
        x = doing[orders[i]](x);
    return x;
}

static u64 calls(int fixed)
{
    for (unsigned i = 0; i < sizeof orders; i++) {
        u64 next = any() & 3;
        orders[i] = (uint8_t)(fixed ? i / (sizeof orders / 4) : next);
    }
    return dispatch(1);
}

int main(int argc, char **argv)
{
    static u64 (*const bugs[])(int) = {lookups, branches, divisions, sharing,
                                       pages,   needless, calls};
    unsigned number = argc > 1 ? (unsigned)atoi(argv[1]) - 1 : ~0u;
    if (number >= sizeof bugs / sizeof *bugs)
        return 1;
    printf("%d\n", bugs[number](argc > 2) != 42);
    return 0;
}
