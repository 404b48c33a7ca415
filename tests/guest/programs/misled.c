/* What findings could take for something else: misled NAME [fixed]. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define APART __attribute__((noipa))
typedef uint64_t u64;
static u64 seed = 1;
static u64 any(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 33;
}

/* ---- a branch that goes the other way every tenth time ---- */

static APART u64 tenth(u64 n)
{
    u64 sum = 0, left = 10;
    for (u64 i = 0; i < n; i++) {
        __asm__ volatile("subs %1, %1, 1\n b.ne 1f\n mov %1, 10\n add %0, %0, 1\n1:"
                         : "+r"(sum), "+r"(left)
                         :
                         : "cc");
        sum += i;
    }
    return sum;
}

/* ---- a few mispredicts beside much else ---- */

static APART u64 divide(u64 n, u64 by)
{
    u64 at = n;
    for (u64 i = 0; i < n; i++)
        at = (at * 31 + i) / by + i;
    return at;
}

static APART u64 seldom(u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        if (any() & 1)
            __asm__ volatile("add %0, %0, %1" : "+r"(sum) : "r"(i));
    return sum;
}

static u64 few(int fixed)
{
    return divide(400000, 1024) + (fixed ? 0 : seldom(1000));
}

/* ---- memory that is new each time ---- */

static APART u64 touch(char *at, u64 size)
{
    for (u64 i = 0; i < size; i += 4096)
        at[i] = 1;
    return (u64)at[0];
}

static u64 faults(int fixed)
{
    enum { SIZE = 8 << 20 };
    u64 sum = 0;
    char *kept = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned i = 0; i < 100; i++) {
        char *at =
            fixed ? kept
                  : mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sum += touch(at, SIZE);
        if (!fixed)
            munmap(at, SIZE);
    }
    return sum;
}

/* ---- threads that wait for one lock ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static u64 guarded[512];

static APART void *convoy(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 2000; i++) {
        pthread_mutex_lock(&gate);
        for (unsigned k = 0; k < 512; k++)
            guarded[k] += k;
        pthread_mutex_unlock(&gate);
    }
    return NULL;
}

/* ---- rows of a table, one for each thread, of which the ends are used ---- */

struct row {
    u64 hits;
    u64 name[4];
    u64 misses;
};
static _Alignas(64) volatile struct row rows[4];
static _Alignas(64) volatile struct {
    struct row row;
    char apart[80];
} lines[4];
static int rows_apart;

static APART void *count_rows(void *which)
{
    volatile struct row *r = rows_apart ? &lines[(u64)which].row : &rows[(u64)which];
    for (unsigned i = 0; i < 20000; i++) {
        r->hits++;
        r->misses++;
    }
    return NULL;
}

static u64 threads(void *(*run)(void *))
{
    pthread_t other[4];
    for (u64 i = 0; i < 4; i++)
        pthread_create(&other[i], NULL, run, (void *)i);
    for (u64 i = 0; i < 4; i++)
        pthread_join(other[i], NULL);
    return guarded[1] + rows[0].hits;
}

static u64 lock(int fixed)
{
    return fixed ? 0 : threads(convoy);
}

static u64 padding(int fixed)
{
    rows_apart = fixed;
    return threads(count_rows);
}

/* ---- a table with too few heads ---- */

struct item {
    struct item *next;
    u64 key, value;
};
static struct item *heads[1 << 16];
static u64 head_count;

static APART struct item *find(u64 key)
{
    struct item *at = heads[key % head_count];
    while (at && at->key != key)
        at = at->next;
    return at;
}

static u64 chains(int fixed)
{
    enum { ITEMS = 1 << 14 };
    u64 sum = 0;
    head_count = fixed ? 1 << 15 : 64;
    for (u64 i = 0; i < ITEMS; i++) {
        struct item *new = malloc(sizeof *new), **head = &heads[i % head_count];
        *new = (struct item){*head, i, i};
        *head = new;
    }
    for (unsigned i = 0; i < 10000; i++)
        sum += find(any() % ITEMS)->value;
    return sum;
}

/* ---- loads that are not aligned, in one line each; loads across lines that nobody waits for ----
 */

static _Alignas(64) uint8_t links[64 * 128 + 64], bytes[1 << 14];

static APART u64 unaligned(u64 n)
{
    uint8_t *at = links;
    u64 sum = 0;
    for (unsigned i = 0; i < 64; i++) {
        uint8_t *next = links + (i + 1) % 64 * 128;
        memcpy(links + i * 128 + 52, &next, sizeof next);
    }
    for (u64 i = 0; i < n; i++)
        __asm__ volatile("ldr %0, [%0, 52]\n ldr x16, [%2]\n add %1, %1, x16"
                         : "+r"(at), "+r"(sum)
                         : "r"(bytes + 60 + i % 64 * 64)
                         : "x16", "memory");
    return sum + (u64)*at;
}

static u64 across(int fixed)
{
    return fixed ? 0 : unaligned(200000);
}

/* ---- much code, a part of it at a time ---- */

__asm__(".balign 64\n.type phases,%function\nphases:\n.rept 20\n1:\n.rept 1021\n add x0, x0, 1\n"
        ".endr\n subs x1, x1, 1\n b.pl 1b\n mov x1, x2\n.endr\n ret\n.size phases, . - phases\n");
u64 phases(u64 x, u64 first, u64 rounds);

static u64 phased(int fixed)
{
    return fixed ? 0 : phases(1, 600, 600);
}

/* ---- a counter by exclusives, which is no lock ---- */

static _Alignas(128) u64 tally;

static APART void *tallies(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 20000; i++) {
        u64 value, failed;
        __asm__ volatile("1: ldxr %0, [%2]\n add %0, %0, 1\n stxr %w1, %0, [%2]\n cbnz %w1, 1b"
                         : "=&r"(value), "=&r"(failed)
                         : "r"(&tally)
                         : "memory");
    }
    return NULL;
}

static u64 counter(int fixed)
{
    return fixed ? 0 : threads(tallies);
}

static u64 period(int fixed)
{
    return fixed ? 0 : tenth(1000000);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        u64 (*run)(int);
    } cases[] = {{"period", period}, {"few", few},         {"faults", faults},
                 {"lock", lock},     {"padding", padding}, {"chains", chains},
                 {"across", across}, {"phases", phased},   {"counter", counter}};
    for (unsigned i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name)) {
            printf("%d\n", cases[i].run(argc > 2) != 42);
            return 0;
        }
    return 1;
}
