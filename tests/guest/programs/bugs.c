/* One thing that is slow at a time, and the same without it: bugs NAME [fixed]. */
#include <pthread.h>
#include <stdatomic.h>
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

/* ---- a list beyond all caches, and one that fits ---- */

enum { NODES = 1 << 17, FEW = 1 << 8 };
struct node {
    _Alignas(64) struct node *next;
};
static struct node nodes[NODES];
static uint32_t order[NODES];

static APART struct node *walk(struct node *at, u64 n)
{
    while (n--)
        at = at->next;
    return at;
}

static u64 list(int fixed)
{
    uint32_t count = fixed ? FEW : NODES;
    for (uint32_t i = 0; i < NODES; i++)
        order[i] = i;
    for (uint32_t i = NODES - 1; i > 0; i--) {
        uint32_t k = (uint32_t)(any() % i), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    for (uint32_t i = 0; i < NODES; i++)
        nodes[order[i]].next = &nodes[order[i / count * count + (i + 1) % count]];
    return (u64)(walk(&nodes[order[0]], 400000) - nodes);
}

/* ---- places that other data tells, all over and one after the other ---- */

enum { PICKS = 1 << 15 };
static uint32_t picks[PICKS];

static APART u64 gather(const uint32_t *at, u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        sum += (u64)(uintptr_t)nodes[at[i]].next;
    return sum;
}

static u64 gathers(int fixed)
{
    u64 sum = 0;
    for (uint32_t i = 0; i < PICKS; i++)
        picks[i] = (uint32_t)(any() % (fixed ? FEW : NODES));
    for (unsigned i = 0; i < 4; i++)
        sum += gather(picks, PICKS);
    return sum;
}

/* ---- loops that end after any number of rounds, and after the same ---- */

static uint8_t lengths[1 << 12];

static APART u64 rounds(u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++) {
        u64 left = lengths[i & (sizeof lengths - 1)];
        __asm__ volatile("1: add %0, %0, 1\n subs %1, %1, 1\n b.ne 1b"
                         : "+r"(sum), "+r"(left)
                         :
                         : "cc");
    }
    return sum;
}

static u64 loops(int fixed)
{
    for (unsigned i = 0; i < sizeof lengths; i++) {
        u64 next = any() % 7;
        lengths[i] = (uint8_t)(fixed ? 4 : 1 + next);
    }
    return rounds(60000);
}

/* ---- an interpreter that jumps by a table ---- */

static uint8_t code[1 << 13];

static APART u64 interpret(u64 x, u64 n)
{
    static const void *const to[] = {&&add, &&twice, &&less, &&flip};
    u64 i = 0;
next:
    if (i == n)
        return x;
    goto *to[code[i++ & (sizeof code - 1)]];
add:
    x += 3;
    goto next;
twice:
    x *= 2;
    goto next;
less:
    x -= 7;
    goto next;
flip:
    x = ~x;
    goto next;
}

static u64 jumps(int fixed)
{
    for (unsigned i = 0; i < sizeof code; i++) {
        u64 next = any() & 3;
        code[i] = (uint8_t)(fixed ? i / (sizeof code / 4) : next);
    }
    return interpret(1, 60000);
}

/* ---- one sum, and four ---- */

double numbers[1 << 9];

static APART double one_sum(u64 n)
{
    double sum = 0;
    for (u64 i = 0; i < n; i++)
        sum = sum * 0.5 + numbers[i & 511];
    return sum;
}

static APART double four_sums(u64 n)
{
    double a = 0, b = 0, c = 0, d = 0;
    for (u64 i = 0; i < n; i += 4) {
        a = a * 0.5 + numbers[i & 511];
        b = b * 0.5 + numbers[(i + 1) & 511];
        c = c * 0.5 + numbers[(i + 2) & 511];
        d = d * 0.5 + numbers[(i + 3) & 511];
    }
    return a + b + c + d;
}

static u64 sums(int fixed)
{
    return (u64)(fixed ? four_sums(400000) : one_sum(400000));
}

/* ---- a counter in memory, and in a register ---- */

static volatile u64 counter;

static APART void count_there(u64 n)
{
    for (u64 i = 0; i < n; i++)
        counter += i;
}

static APART void count_here(u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        __asm__ volatile("add %0, %0, %1" : "+r"(sum) : "r"(i));
    counter = sum;
}

static u64 counters(int fixed)
{
    if (fixed)
        count_here(400000);
    else
        count_there(400000);
    return counter;
}

/* ---- square roots of all, and none ---- */

static APART double roots(double x, u64 n)
{
    for (u64 i = 0; i < n; i++)
        __asm__ volatile("fsqrt %d0, %d0\n fadd %d0, %d0, %d1" : "+w"(x) : "w"(2.5));
    return x;
}

static APART double no_roots(double x, u64 n)
{
    for (u64 i = 0; i < n; i++)
        __asm__ volatile("fadd %d0, %d0, %d1\n fadd %d0, %d0, %d1" : "+w"(x) : "w"(0.25));
    return x;
}

static u64 square_roots(int fixed)
{
    return (u64)(fixed ? no_roots(9, 100000) : roots(9, 100000));
}

/* ---- a counter of all threads, and one for each ---- */

static _Alignas(128) _Atomic u64 total;
static _Alignas(128) int apart;

static APART void *tally(void *unused)
{
    u64 own = 0;
    (void)unused;
    for (unsigned i = 0; i < 30000; i++)
        if (apart)
            __asm__ volatile("add %0, %0, 1" : "+r"(own));
        else
            atomic_fetch_add_explicit(&total, 1, memory_order_relaxed);
    atomic_fetch_add(&total, own);
    return NULL;
}

static u64 shared(int fixed)
{
    pthread_t other[2];
    apart = fixed;
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&other[i], NULL, tally, NULL);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(other[i], NULL);
    return total;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        u64 (*run)(int);
    } bugs[] = {{"list", list}, {"gather", gathers},  {"loop", loops},         {"jump", jumps},
                {"sum", sums},  {"memory", counters}, {"roots", square_roots}, {"shared", shared}};
    for (unsigned i = 0; argc > 1 && i < sizeof bugs / sizeof *bugs; i++)
        if (!strcmp(argv[1], bugs[i].name)) {
            printf("%d\n", bugs[i].run(argc > 2) != 42);
            return 0;
        }
    return 1;
}
