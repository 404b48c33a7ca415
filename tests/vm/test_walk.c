/* Stage 1 translation: each granule and size, each fault with its level. */
#include "guest/walk.h"

#include "support/test.h"

#include <stdbool.h>

/* A little memory for tables, from BASE up; everything else is not there. */
enum { BASE = 0x100000, WORDS = 1 << 18 };
static uint64_t memory[WORDS];
static uint64_t next_table;

static bool read_memory(void *user, uint64_t pa, uint64_t *descriptor)
{
    (void)user;
    if (pa < BASE || pa >= BASE + 8ull * WORDS || pa & 7)
        return false;
    *descriptor = memory[(pa - BASE) / 8];
    return true;
}

enum { VALID = 1, NOT_BLOCK = 2, READ_ONLY = 1 << 7, AF = 1 << 10 };
#define DBM (UINT64_C(1) << 51)
#define APTABLE_RO (UINT64_C(1) << 62)

/* One way to describe a regime: how many bits an address has, what a page is. */
struct shape {
    const char *name;
    unsigned granule, size;
    int start;    /* level of the first table */
    uint64_t tcr; /* beyond T0SZ and T1SZ */
};
#define IPS(n) ((uint64_t)(n) << 32)
#define TG(zero, one) ((uint64_t)(zero) << 14 | (uint64_t)(one) << 30)
static const struct shape shapes[] = {
    {"4K, 39 bits", 12, 39, 1, IPS(5) | TG(0, 2)},
    {"4K, 48 bits", 12, 48, 0, IPS(5) | TG(0, 2)},
    {"4K, 52 bits (DS)", 12, 52, -1, IPS(6) | TG(0, 2) | UINT64_C(1) << 59},
    {"16K, 36 bits", 14, 36, 2, IPS(5) | TG(2, 1)},
    {"16K, 47 bits", 14, 47, 1, IPS(5) | TG(2, 1)},
    {"16K, 48 bits", 14, 48, 0, IPS(5) | TG(2, 1)},
    {"64K, 42 bits", 16, 42, 2, IPS(5) | TG(1, 3)},
    {"64K, 48 bits", 16, 48, 1, IPS(5) | TG(1, 3)},
    {"64K, 52 bits", 16, 52, 1, IPS(6) | TG(1, 3)},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct walk_regime regime_of(const struct shape *s)
{
    unsigned sz = 64 - s->size;
    memset(memory, 0, sizeof memory);
    next_table = BASE + 0x10000; /* aligned for every granule */
    uint64_t table = BASE + 0x10000;
    next_table = table + 0x10000;
    return (struct walk_regime){.sctlr = 1,
                                .tcr = s->tcr | sz | (uint64_t)sz << 16,
                                .ttbr = {table, table},
                                .two_ranges = true};
}

/* Where the descriptor of va at a level is, given its table. */
static uint64_t *slot(const struct shape *s, uint64_t table, uint64_t va, int level)
{
    unsigned stride = s->granule - 3, low = s->granule + (unsigned)(3 - level) * stride;
    unsigned bits = level == s->start ? s->size - low : stride;
    uint64_t index = va >> low & ((UINT64_C(1) << bits) - 1);
    return &memory[(table - BASE) / 8 + index];
}

/* Maps va to pa with a leaf at `leaf`, tables above it; returns the leaf's descriptor. */
static uint64_t *map(const struct shape *s, uint64_t va, uint64_t pa, int leaf, uint64_t attributes)
{
    uint64_t table = BASE + 0x10000;
    for (int level = s->start; level < leaf; level++) {
        uint64_t *d = slot(s, table, va, level);
        if (!*d) {
            *d = next_table | VALID | NOT_BLOCK;
            next_table += 0x10000;
        }
        table = *d & 0xffffffff0000;
    }
    uint64_t *d = slot(s, table, va, leaf);
    *d = (pa & 0xffffffffffff) | VALID | AF | attributes | (leaf == 3 ? NOT_BLOCK : 0);
    if (s->size == 52 && s->granule == 12)
        *d = (pa & 0x3ffffffffffff) | pa >> 50 << 8 | VALID | AF | attributes |
             (leaf == 3 ? NOT_BLOCK : 0);
    if (s->size == 52 && s->granule == 16)
        *d |= pa >> 48 << 12;
    return d;
}

static void finds(const struct shape *s, const struct walk_regime *r, uint64_t va, uint64_t pa)
{
    uint64_t got = 0;
    unsigned fsc = 0;
    if (!walk_stage1(r, va, read_memory, NULL, &got, &fsc))
        fail_msg("%s: 0x%llx faults with 0x%x", s->name, (unsigned long long)va, fsc);
    if (got != pa)
        fail_msg("%s: 0x%llx is at 0x%llx", s->name, (unsigned long long)va,
                 (unsigned long long)got);
}

static void faults(const struct shape *s, const struct walk_regime *r, uint64_t va, unsigned want)
{
    uint64_t got = 0;
    unsigned fsc = 0xff;
    if (walk_stage1(r, va, read_memory, NULL, &got, &fsc))
        fail_msg("%s: 0x%llx does not fault", s->name, (unsigned long long)va);
    if (fsc != want)
        fail_msg("%s: 0x%llx faults with 0x%x, not 0x%x", s->name, (unsigned long long)va, fsc,
                 want);
}

/* An address of a shape with all index bits in use, in the lower or upper range. */
static uint64_t address(const struct shape *s, bool upper)
{
    uint64_t va = 0x0005a3c5f0f69234 & ((UINT64_C(1) << s->size) - 1);
    return upper ? va | ~((UINT64_C(1) << s->size) - 1) : va;
}

static int highest_block(const struct shape *s)
{
    return s->granule == 12 ? (s->size == 52 ? 0 : 1) : s->granule == 16 && s->size == 52 ? 1 : 2;
}

static void test_pages_and_blocks(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        for (int upper = 0; upper < 2; upper++) {
            for (int leaf = s->start; leaf <= 3; leaf++) {
                if (leaf < highest_block(s))
                    continue;
                struct walk_regime r = regime_of(s);
                uint64_t va = address(s, upper);
                unsigned low = s->granule + (unsigned)(3 - leaf) * (s->granule - 3);
                uint64_t inside = (UINT64_C(1) << low) - 1;
                uint64_t pa =
                    (s->size == 52 ? UINT64_C(0xc040000000000) : UINT64_C(0x540000000000)) &
                    ~inside;
                map(s, va, pa, leaf, 0);
                finds(s, &r, va, pa | (va & inside));
            }
        }
    }
}

static void test_off(void **state)
{
    (void)state;
    struct walk_regime r = {.sctlr = 0};
    finds(&shapes[0], &r, 0x123456789, 0x123456789);
}

static void test_translation_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        uint64_t va = address(s, false);
        for (int level = s->start; level <= 3; level++) {
            struct walk_regime r = regime_of(s);
            if (level > s->start) { /* tables down to it */
                map(s, va, 0, level, 0);
                *map(s, va, 0, level, 0) = 0;
            }
            faults(s, &r, va, level < 0 ? 0x2b : 0x04 | (unsigned)level);
        }
        struct walk_regime r = regime_of(s);
        *map(s, va, 0, 3, 0) &= ~(uint64_t)NOT_BLOCK; /* reserved at level 3 */
        faults(s, &r, va, 0x07);
        if (s->start < highest_block(s)) { /* no block so high up */
            r = regime_of(s);
            map(s, va, 0, s->start, 0);
            faults(s, &r, va, s->start < 0 ? 0x2b : 0x04 | (unsigned)s->start);
        }
    }
}

static void test_ranges(void **state)
{
    (void)state;
    const struct shape *s = &shapes[1];
    struct walk_regime r = regime_of(s);
    uint64_t va = address(s, false);
    map(s, va, 0x40000000, 3, 0);
    faults(s, &r, va | UINT64_C(1) << 50, 0x04); /* between the ranges */
    r.tcr |= 1 << 7;                             /* EPD0 */
    faults(s, &r, va, 0x04);
    finds(s, &r, address(s, true), 0x40000000 | (va & 0xfff));
    r.tcr ^= 1 << 7 | 1 << 23; /* EPD1 */
    faults(s, &r, address(s, true), 0x04);
    finds(s, &r, va, 0x40000000 | (va & 0xfff));
    r = regime_of(s); /* EL2 without VHE: one range, its fields elsewhere */
    map(s, va, 0x40000000, 3, 0);
    r.two_ranges = false;
    r.tcr = (64 - s->size) | 5 << 16;
    finds(s, &r, va, 0x40000000 | (va & 0xfff));
    faults(s, &r, address(s, true), 0x04);
}

static void test_other_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        uint64_t va = address(s, false), offset = va & ((UINT64_C(1) << s->granule) - 1);
        for (int leaf = highest_block(s) < s->start ? s->start : highest_block(s); leaf <= 3;
             leaf++) {
            unsigned l = (unsigned)leaf;
            struct walk_regime r = regime_of(s);
            *map(s, va, 0, leaf, 0) &= ~(uint64_t)AF;
            faults(s, &r, va, 0x08 | l);
            r = regime_of(s);
            map(s, va, 0, leaf, READ_ONLY);
            faults(s, &r, va, 0x0c | l);
        }
        struct walk_regime r = regime_of(s);
        *map(s, va, 0, 3, 0) &= ~(uint64_t)AF;
        r.tcr |= UINT64_C(1) << 39; /* HA: hardware would set it */
        finds(s, &r, va, offset);
        map(s, va, 0, 3, READ_ONLY | DBM);
        faults(s, &r, va, 0x0f);
        r.tcr |= UINT64_C(1) << 40; /* HD: hardware would make it dirty */
        finds(s, &r, va, offset);
        map(s, va, 0, 3, READ_ONLY);
        r.tcr2 = 2; /* PIE: permissions are not in the descriptor */
        finds(s, &r, va, offset);
        if (s->start == 3)
            continue;
        r = regime_of(s);
        map(s, va, 0, 3, 0);
        *slot(s, BASE + 0x10000, va, s->start) |= APTABLE_RO;
        faults(s, &r, va, 0x0f);
        r.tcr |= UINT64_C(1) << 41; /* HPD0: hierarchy off */
        finds(s, &r, va, offset);
        r = regime_of(s);
        map(s, va, 0, 3, 0);
        *slot(s, BASE + 0x10000, va, s->start) = UINT64_C(0x7fff0000) | VALID | NOT_BLOCK;
        faults(s, &r, va, 0x14 | (unsigned)(s->start + 1)); /* no memory for the next table */
    }
    const struct shape *s = &shapes[1];
    uint64_t va = address(s, false);
    struct walk_regime r = regime_of(s);
    r.tcr = (r.tcr & ~IPS(7)) | IPS(0); /* 32 bits out */
    map(s, va, UINT64_C(1) << 32, 3, 0);
    faults(s, &r, va, 0x03);
    map(s, va, UINT64_C(1) << 32, 3, 0);
    *slot(s, BASE + 0x10000, va, 0) |= UINT64_C(1) << 33;
    faults(s, &r, va, 0x00);
    r.ttbr[0] = 0x7fff0000;
    faults(s, &r, va, 0x14);
}

TEST_MAIN(TEST(test_pages_and_blocks), TEST(test_off), TEST(test_translation_faults),
          TEST(test_ranges), TEST(test_other_faults))
