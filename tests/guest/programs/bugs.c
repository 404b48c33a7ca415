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

/* ---- nodes across two lines, and nodes in one each ---- */

struct __attribute__((packed)) part_node {
    uint8_t before[60];
    struct part_node *next;
    uint8_t after[60];
};
static _Alignas(64) struct part_node parts[64]; /* 128 bytes each: all links lie across */
static _Alignas(64) struct {
    uint8_t before[56];
    struct part_node *next;
} whole_parts[64];

static APART void *links(void *at, u64 n)
{
    while (n--)
        __asm__ volatile("ldr %0, [%0, 60]" : "+r"(at) : : "memory");
    return at;
}

static APART void *whole_links(void *at, u64 n)
{
    while (n--)
        __asm__ volatile("ldr %0, [%0, 56]" : "+r"(at) : : "memory");
    return at;
}

static u64 split(int fixed)
{
    for (unsigned i = 0; i < 64; i++) {
        parts[i].next = &parts[(i + 1) % 64];
        whole_parts[i].next = (void *)&whole_parts[(i + 1) % 64];
    }
    return fixed ? whole_links(whole_parts, 400000) == NULL : links(parts, 400000) == NULL;
}

/* ---- more code than the instruction cache holds, and less: a line and then another one ---- */

#define LINES(name, count, step)                                                                   \
    __asm__(".balign 64\n.type " #name ",%function\n" #name ":\n.set at, 0\n.rept " #count         \
            "\n.rept 11\n add x0, x0, 1\n.endr\n subs x1, x1, 1\n b.eq 1f\n and x2, x0, 7\n"       \
            " b " #name " + ((at * " #step " + 1) % " #count ") * 64\n1: ret\n"                    \
            ".set at, at + 1\n.endr\n.size " #name ", . - " #name "\n")
LINES(cold_lines, 8192, 1237);
LINES(warm_lines, 256, 37);
u64 cold_lines(u64 x, u64 n), warm_lines(u64 x, u64 n);

static u64 cold(int fixed)
{
    return fixed ? warm_lines(1, 150000) : cold_lines(1, 150000);
}

/* ---- a lock that threads spin for, at each step and at many ---- */

static _Alignas(128) u64 spun;

static APART void enter(u64 *word)
{
    u64 was;
    __asm__ volatile("1: ldaxr %0, [%1]\n cbnz %0, 1b\n stxr %w0, %2, [%1]\n cbnz %w0, 1b"
                     : "=&r"(was)
                     : "r"(word), "r"(UINT64_C(1))
                     : "memory");
}

static APART void *spinner(void *unused)
{
    const unsigned steps = apart ? 4096 : 1;
    u64 count = 0;
    (void)unused;
    for (unsigned i = 0; i < 32768; i += steps) {
        enter(&spun);
        for (unsigned k = 0; k < steps; k++)
            __asm__ volatile("add %0, %0, 1" : "+r"(count));
        __atomic_store_n(&spun, 0, __ATOMIC_RELEASE);
    }
    return NULL;
}

static u64 two(void *(*run)(void *))
{
    pthread_t other[2];
    for (u64 i = 0; i < 2; i++)
        pthread_create(&other[i], NULL, run, (void *)i);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(other[i], NULL);
    return total;
}

static u64 spin(int fixed)
{
    apart = fixed;
    return two(spinner);
}

/* ---- what all read beside what one writes, and in lines of their own ---- */

static struct {
    _Alignas(128) volatile u64 limit;
    volatile u64 done;
    _Alignas(128) volatile u64 limit_apart;
} settings;

static APART void *reader(void *writes)
{
    volatile u64 *limit = apart ? &settings.limit_apart : &settings.limit;
    for (unsigned i = 0; i < 60000; i++) {
        u64 sum = *limit + *limit + *limit + *limit;
        if (writes)
            settings.done = sum;
    }
    return NULL;
}

static u64 settled(int fixed)
{
    apart = fixed;
    return two(reader);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        u64 (*run)(int);
    } bugs[] = {{"list", list},          {"gather", gathers}, {"loop", loops},
                {"jump", jumps},         {"sum", sums},       {"memory", counters},
                {"roots", square_roots}, {"shared", shared},  {"split", split},
                {"cold", cold},          {"spin", spin},      {"settings", settled}};
    for (unsigned i = 0; argc > 1 && i < sizeof bugs / sizeof *bugs; i++)
        if (!strcmp(argv[1], bugs[i].name)) {
            printf("%d\n", bugs[i].run(argc > 2) != 42);
            return 0;
        }
    return 1;
}
