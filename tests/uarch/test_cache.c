/*
 * Caches and TLBs: the steps of the classic experiments lie where the settings put
 * them, and every single answer equals that of a slow, obvious model.
 */
#include "uarch/support.h"

enum { LINE = 64 };

/* ---- the classic experiments ---- */

struct chase {
    double l1, l2, llc, walk, tlb; /* missed, of all accesses in the second round */
    double latency;
};

/* A random cycle through size bytes, step bytes apart, walked twice; counts of the second. */
static struct chase chase(const char *settings, size_t size, size_t step)
{
    struct spex_uarch *model = model_new(settings);
    struct spex_uarch_core *core = core_new(model, 0);
    size_t n = size / step;
    uint32_t *order = malloc(n * sizeof *order);
    uint64_t seed = size;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t j = random64(&seed) % i;
        uint32_t t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
    struct spex_uarch_counts a, b;
    uint64_t latency = 0, base = 0x10000000;
    for (unsigned round = 0; round < 2; round++) {
        if (round)
            spex_uarch_counts(core, &a);
        for (size_t i = 0; i < n; i++) {
            spex_uarch_result r = spex_uarch_load(core, base + (uint64_t)order[i] * step, 8, 0);
            if (round)
                latency += r ? spex_uarch_result_latency(r) + spex_uarch_result_translation(r) : 4;
        }
    }
    spex_uarch_counts(core, &b);
    double d = (double)n;
    struct chase c = {(double)(b.l1_miss - a.l1_miss) / d,   (double)(b.l2_miss - a.l2_miss) / d,
                      (double)(b.llc_miss - a.llc_miss) / d, (double)(b.walk - a.walk) / d,
                      (double)(b.tlb_miss - a.tlb_miss) / d, (double)latency / d};
    free(order);
    spex_uarch_free(model);
    return c;
}

static void steps_at(const char *settings, size_t l1, size_t l2, size_t llc)
{
    struct chase c;
    /* Fits: no miss at all in the second round. Twice the size: LRU loses nearly everything. */
    c = chase(settings, l1, LINE);
    assert_true(c.l1 == 0);
    c = chase(settings, 2 * l1, LINE);
    assert_true(c.l1 > 0.85 && c.l2 == 0);
    c = chase(settings, l2, LINE);
    assert_true(c.l1 > 0.95 && c.l2 == 0);
    c = chase(settings, 2 * l2, LINE);
    assert_true(c.l2 > 0.85 && c.llc == 0);
    c = chase(settings, llc, LINE);
    assert_true(c.l2 > 0.95 && c.llc == 0);
    c = chase(settings, 2 * llc, LINE);
    assert_true(c.llc > 0.85);
}

static void test_chase_steps(void **state)
{
    steps_at("llc.size=4M", 64 << 10, 1 << 20, 4 << 20);
    steps_at("l1d.size=16K,l1d.ways=2,l2.size=128K,l2.ways=4,llc.size=1M", 16 << 10, 128 << 10,
             1 << 20);
    steps_at("l1d.size=32K,l1d.ways=8,l2.size=256K,llc.size=2304K,llc.ways=18", 32 << 10, 256 << 10,
             2304 << 10);
}

static void test_chase_latency(void **state)
{
    /* One page is enough for every access of these, so that only the caches count. */
    const char *s = "page.size=2097152,llc.size=4M,llc.latency=75,dram.latency=280";
    assert_true(chase(s, 32 << 10, LINE).latency == 4);
    assert_true(chase(s, 512 << 10, LINE).latency > 10.5 &&
                chase(s, 512 << 10, LINE).latency <= 11);
    double l = chase(s, 4 << 20, LINE).latency;
    assert_true(l > 72 && l <= 75);
    l = chase(s, 16 << 20, LINE).latency;
    assert_true(l > 260 && l <= 285);
}

static void test_stride_steps(void **state)
{
    /* Within a line neighbours hit; from a line on every access misses, whatever the stride. */
    struct spex_uarch *model = model_new("llc.size=1M");
    for (unsigned stride = 8; stride <= 512; stride *= 2) {
        struct spex_uarch_core *core = core_new(model, 0);
        struct spex_uarch_counts counts;
        unsigned n = 0;
        for (uint64_t at = 0; at < 8 << 20; at += stride, n++)
            spex_uarch_load(core, 0x40000000 + at, 8, 0);
        spex_uarch_counts(core, &counts);
        assert_int_equal(counts.l1_miss, stride < LINE ? (8 << 20) / LINE : n);
        spex_uarch_core_free(core);
    }
    spex_uarch_free(model);
}

static void test_associativity(void **state)
{
    /* 64K in 4 ways: addresses 16K apart share a set; four fit, a fifth does not. */
    for (unsigned n = 1; n <= 6; n++) {
        struct spex_uarch *model = model_new(NULL);
        struct spex_uarch_core *core = core_new(model, 0);
        struct spex_uarch_counts a, b;
        for (unsigned round = 0; round < 3; round++) {
            spex_uarch_counts(core, &a);
            for (unsigned i = 0; i < n; i++)
                spex_uarch_load(core, 0x100000 + i * 16384, 8, 0);
        }
        spex_uarch_counts(core, &b);
        assert_int_equal(b.l1_miss - a.l1_miss, n > 4 ? n : 0);
        spex_uarch_free(model);
    }
}

static void test_tlb_steps(void **state)
{
    /* One line of each page; all of them in four sets of level 1, which they overflow. */
    assert_true(chase(NULL, 48 * 4096, 4096).tlb == 0);
    struct chase c = chase(NULL, 96 * 4096, 4096);
    assert_true(c.tlb == 1 && c.walk == 0);
    assert_true(chase(NULL, 1280 * 4096, 4096).walk == 0);
    assert_true(chase(NULL, 2560 * 4096, 4096).walk > 0.9);
    assert_true(chase("tlb.entries=20", 20 * 4096, 4096).tlb == 0);
    assert_true(chase("tlb.entries=20", 21 * 4096, 4096).tlb == 1);
    assert_true(chase("tlb2.entries=256,tlb2.ways=4", 256 * 4096, 4096).walk == 0);
    assert_true(chase("tlb2.entries=256,tlb2.ways=4", 512 * 4096, 4096).walk > 0.9);
    assert_true(chase("page.size=64K", 48 << 16, 4096).tlb < 1 / 16.0);
    /* The known limit: the most recent line of a set is taken to be translated. */
    assert_true(chase(NULL, 96 * (4096 + LINE), 4096 + LINE).tlb == 0);
}

static void test_translation_latency(void **state)
{
    struct spex_uarch *model =
        model_new("tlb.entries=2,tlb2.latency=5,walk.latency=25,walk.upper=40");
    struct spex_uarch_core *core = core_new(model, 0);
    uint64_t va = 0x40000000;
    spex_uarch_result r = spex_uarch_load(core, va, 8, 0);
    assert_int_equal(spex_uarch_result_translation(r), 70);
    assert_true(r & SPEX_UARCH_WALK && r & SPEX_UARCH_TLB_MISS);
    r = spex_uarch_load(core, va + 4096, 8, 0); /* same table of the last level */
    assert_int_equal(spex_uarch_result_translation(r), 30);
    r = spex_uarch_load(core, va + (2 << 20), 8, 0); /* the next one */
    assert_int_equal(spex_uarch_result_translation(r), 70);
    r = spex_uarch_load(core, va + 64, 8, 0); /* out of the first TLB, in the second */
    assert_int_equal(spex_uarch_result_translation(r), 5);
    assert_true(!(r & SPEX_UARCH_WALK) && r & SPEX_UARCH_TLB_MISS);
    r = spex_uarch_load(core, va + 128, 8, 0);
    assert_int_equal(spex_uarch_result_translation(r), 0);
    spex_uarch_free(model);
}

static void test_split(void **state)
{
    struct spex_uarch *model = model_new(NULL);
    struct spex_uarch_core *core = core_new(model, 0);
    struct spex_op load = op_make(SPEX_EXEC_LOAD, 0, 1, -1);
    struct spex_op store = op_make(SPEX_EXEC_STORE, -1, 0, 1);
    struct spex_access access = {0};
    struct spex_uarch_counts counts;
    spex_uarch_result r = spex_uarch_load(core, 0x1000 + 60, 8, 0);
    spex_uarch_counts(core, &counts);
    assert_true(r & SPEX_UARCH_SPLIT);
    assert_int_equal(counts.l1_miss, 2);
    spex_uarch_access(core, &load, 0x1000 + 60, 8, r, &access);
    assert_true(access.events & 1 << 11);
    /* Both lines are here now; still split, no miss. */
    r = spex_uarch_load(core, 0x1000 + 60, 8, 0);
    assert_true(r & SPEX_UARCH_SPLIT);
    assert_int_equal(spex_uarch_result_level(r), SPEX_UARCH_L1);
    /* Not aligned, but inside a line: no penalty, no flag (DAT-118). */
    SPEC(DAT-118);
    SPEC(DAT-117);
    r = spex_uarch_load(core, 0x1000 + 13, 4, 0);
    spex_uarch_access(core, &load, 0x1000 + 13, 4, r, &access);
    assert_false(access.events & 1 << 11);
    /* Stores of this core pay at 16 bytes. */
    r = spex_uarch_store(core, 0x1000 + 13, 4, 0);
    r = spex_uarch_access(core, &store, 0x1000 + 13, 4, r, &access);
    assert_true(access.events & 1 << 11);
    struct spex_uarch_block block;
    struct spex_outcome plain, split;
    block_make(model, &block, 0x1000, &store);
    enter(core, &block);
    spex_uarch_replay(core, core->sequence, 0, 0, &plain);
    spex_uarch_replay(core, core->sequence, 0, r, &split);
    assert_int_equal(split.total, plain.total + 1); /* split.latency: only because of alignment */
    /* A store that crosses into the next line, with both lines written before. */
    assert_true(spex_uarch_store(core, 0x1000 + 60, 8, 0) & SPEX_UARCH_SPLIT);
    assert_true(spex_uarch_store(core, 0x1000 + 60, 8, 0) & SPEX_UARCH_SPLIT);
    assert_true(spex_uarch_atomic(core, 0x1000 + 60, 8, 0) & SPEX_UARCH_SPLIT);
    /* Two pages: both are translated. */
    r = spex_uarch_load(core, 0x9000 - 4, 8, 0);
    assert_int_equal(spex_uarch_result_translation(r), 30 + 30);
    spex_uarch_free(model);
}

/* ---- against the obvious model ---- */

struct list { /* most recent last */
    uint64_t *item;
    unsigned ways;
    unsigned *used;
    uint64_t sets;
};

static struct list list_new(uint64_t sets, unsigned ways)
{
    struct list l = {calloc(sets * ways, 8), ways, calloc(sets, sizeof(unsigned)), sets};
    return l;
}

static void list_free(struct list *l)
{
    free(l->item);
    free(l->used);
}

static bool list_remove(struct list *l, uint64_t key)
{
    uint64_t *item = &l->item[key % l->sets * l->ways];
    unsigned *used = &l->used[key % l->sets];
    for (unsigned i = 0; i < *used; i++)
        if (item[i] == key) {
            memmove(item + i, item + i + 1, (*used - i - 1) * 8);
            --*used;
            return true;
        }
    return false;
}

/* Adds as most recent; true and *victim if one had to go. */
static bool list_add(struct list *l, uint64_t key, uint64_t *victim)
{
    uint64_t *item = &l->item[key % l->sets * l->ways];
    unsigned *used = &l->used[key % l->sets];
    bool full = *used == l->ways;
    if (full) {
        *victim = item[0];
        memmove(item, item + 1, (*used - 1) * 8);
        --*used;
    }
    item[(*used)++] = key;
    return full;
}

static bool list_use(struct list *l, uint64_t key)
{
    uint64_t victim;
    bool hit = list_remove(l, key);
    list_add(l, key, &victim);
    return hit;
}

struct slow {
    struct list l1, l2, llc, tlb, tlb2;
    bool *dirty;              /* by line, of private lines */
    uint64_t last_line[1024]; /* most recent line of each level 1 set: no TLB access */
};

struct slow_result {
    enum spex_uarch_level level;
    bool tlb_miss, walk;
};

static struct slow_result slow_access(struct slow *s, const struct spex_uarch_config *c,
                                      uint64_t va, bool write, uint64_t first_line)
{
    struct slow_result r = {SPEX_UARCH_L1, false, false};
    uint64_t line = va / LINE, page = va / 4096, victim;
    uint64_t set = line % s->l1.sets;
    /* The one shortcut of the fast model: the TLB is asked unless the line is its set's latest.
     */
    bool quick = s->last_line[set] == line && (!write || s->dirty[line - first_line]);
    s->last_line[set] = line;
    if (!quick && !list_use(&s->tlb, page)) {
        r.tlb_miss = true;
        r.walk = !list_use(&s->tlb2, page);
    }
    if (list_remove(&s->l1, line)) {
        list_add(&s->l1, line, &victim);
    } else {
        r.level = SPEX_UARCH_L2;
        if (list_remove(&s->l2, line)) {
            list_add(&s->l2, line, &victim);
        } else {
            r.level = list_use(&s->llc, line) ? SPEX_UARCH_LLC : SPEX_UARCH_DRAM;
            if (list_add(&s->l2, line, &victim)) {
                if (list_remove(&s->l1, victim) && s->last_line[victim % s->l1.sets] == victim)
                    s->last_line[victim % s->l1.sets] = 0;
                if (s->dirty[victim - first_line])
                    list_use(&s->llc, victim);
                s->dirty[victim - first_line] = false;
            }
        }
        list_add(&s->l1, line, &victim);
    }
    s->dirty[line - first_line] |= write;
    return r;
}

static void compare(const char *settings, uint64_t bytes, unsigned pattern, unsigned accesses)
{
    struct spex_uarch *model = model_new(settings);
    const struct spex_uarch_config *c = spex_uarch_config_of(model);
    struct spex_uarch_core *core = core_new(model, 0);
    uint64_t base = 0x40000000, seed = pattern * 7919 + bytes, at = 0;
    struct slow slow = {
        .l1 = list_new(c->l1d_size / LINE / c->l1d_ways, c->l1d_ways),
        .l2 = list_new(c->l2_size / LINE / c->l2_ways, c->l2_ways),
        .llc = list_new(c->llc_size / LINE / c->llc_ways, c->llc_ways),
        .tlb = list_new(1, c->tlb_entries),
        .tlb2 = list_new(c->tlb2_entries / c->tlb2_ways, c->tlb2_ways),
        .dirty = calloc(bytes / LINE + 1, 1),
    };
    for (unsigned i = 0; i < accesses; i++) {
        uint64_t x = random64(&seed);
        switch (pattern) {
        case 0:
            at = x % (bytes / 8) * 8;
            break; /* uniform */
        case 1:
            at = (at + 8 * (x % 16)) % bytes / 8 * 8;
            break; /* walk forward */
        case 2:
            at = (x & 7 ? x % (bytes / 16) : x % bytes) / 8 * 8;
            break; /* hot half-kilo */
        default:
            at = (at + (x & 3 ? 8 : 4096 + (x >> 8) % 64 * 64)) % bytes / 8 * 8;
            break;
        }
        bool write = (x >> 60) < 5;
        uint64_t va = base + at;
        spex_uarch_result r = write ? (x >> 59 & 1 ? spex_uarch_store(core, va, 8, 0)
                                                   : spex_uarch_atomic(core, va, 8, 0))
                                    : spex_uarch_load(core, va, 8, 0);
        struct slow_result want = slow_access(&slow, c, va, write, base / LINE);
        if (spex_uarch_result_level(r) != want.level ||
            !!(r & SPEX_UARCH_TLB_MISS) != want.tlb_miss || !!(r & SPEX_UARCH_WALK) != want.walk)
            fail_msg("%s pattern %u access %u va %llx: level %s tlb %d walk %d, want %s %d %d",
                     settings, pattern, i, (unsigned long long)va,
                     spex_uarch_level_name(spex_uarch_result_level(r)), !!(r & SPEX_UARCH_TLB_MISS),
                     !!(r & SPEX_UARCH_WALK), spex_uarch_level_name(want.level), want.tlb_miss,
                     want.walk);
    }
    free(slow.dirty);
    list_free(&slow.l1);
    list_free(&slow.l2);
    list_free(&slow.llc);
    list_free(&slow.tlb);
    list_free(&slow.tlb2);
    spex_uarch_free(model);
}

static void test_equal_to_obvious_model(void **state)
{
    static const char *const settings[] = {
        "neoverse-n1,llc.size=4M",
        "l1d.size=4K,l1d.ways=1,l2.size=16K,l2.ways=2,llc.size=64K,llc.ways=4,tlb.entries=3,"
        "tlb2.entries=16,tlb2.ways=4",
        "l1d.size=8K,l1d.ways=2,l2.size=32K,l2.ways=1,llc.size=128K,llc.ways=1,tlb.entries=1,"
        "tlb2.entries=8,tlb2.ways=1",
        "l1d.size=16K,l1d.ways=16,l2.size=64K,l2.ways=32,llc.size=576K,llc.ways=18,tlb.entries="
        "128",
    };
    for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++)
        for (unsigned pattern = 0; pattern < 4; pattern++) {
            compare(settings[s], 12 << 10, pattern, 50000);
            compare(settings[s], 200 << 10, pattern, 100000);
            compare(settings[s], 8 << 20, pattern, 150000);
        }
}

/* What no address could avoid is not the alignment's doing, in the flag and in the time. */
static void test_optimal_alignment(void **state)
{
    SPEC(DAT-119);
    SPEC(DAT-117);
    struct spex_uarch *model = model_new("align.load=64,align.store=32,split.latency=7");
    struct spex_uarch_core *core = core_new(model, 0);
    static const struct {
        unsigned at, size;
        bool store, marked;
    } rows[] = {
        {0, 128, false, false}, /* a vector as long as two lines, at a line */
        {16, 128, false, true}, /* three lines */
        {0, 64, true, false},   /* DC ZVA */
        {32, 64, true, false},  {16, 64, true, true}, {0, 33, true, false},   {31, 33, true, false},
        {32, 32, true, false},  {16, 32, true, true}, {0, 256, false, false}, {8, 256, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t va = 0x10000 + rows[i].at;
        struct spex_op op =
            rows[i].store ? op_make(SPEX_EXEC_STORE, -1, 0, 1) : op_make(SPEX_EXEC_LOAD, 0, 1, -1);
        struct spex_access access = {0};
        struct spex_uarch_block block;
        struct spex_outcome one = {0}, all = {0};
        spex_uarch_result r = 0;
        block_make(model, &block, 0x1000, &op);
        for (unsigned again = 0; again < 2; again++) /* the second time in level 1 */
            r = rows[i].store ? spex_uarch_store(core, va, rows[i].size, 0)
                              : spex_uarch_load(core, va, rows[i].size, 0);
        r = spex_uarch_access(core, &op, va, rows[i].size, r, &access);
        enter(core, &block);
        spex_uarch_replay(core, core->sequence, 0, 0, &one);
        spex_uarch_replay(core, core->sequence, 0, r, &all);
        if ((access.events >> 11 & 1) != rows[i].marked ||
            all.total != one.total + 7 * rows[i].marked)
            fail_msg("%u bytes at %u: E[11] %u, total %u, %u without", rows[i].size, rows[i].at,
                     (unsigned)(access.events >> 11 & 1), all.total, one.total);
    }
    spex_uarch_free(model);
}

static void test_determinism_and_reset(void **state)
{
    uint64_t sums[3];
    struct spex_uarch *model = model_new("llc.size=64K,llc.ways=1");
    struct spex_uarch_core *core = core_new(model, 0);
    for (unsigned run = 0; run < 3; run++) {
        uint64_t seed = 5;
        sums[run] = 0;
        for (unsigned i = 0; i < 100000; i++) {
            uint64_t x = random64(&seed), va = 0x100000 + x % (1 << 20);
            spex_uarch_result r =
                x >> 63 ? spex_uarch_store(core, va, 1, 0) : spex_uarch_load(core, va, 1, 0);
            sums[run] = sums[run] * 31 + r;
        }
        /* Reset empties the core; a new model also has an empty last level cache. */
        if (run == 0) {
            spex_uarch_free(model);
            model = model_new("llc.size=64K,llc.ways=1");
            core = core_new(model, 0);
        } else {
            spex_uarch_core_reset(core);
            assert_true(spex_uarch_result_level(spex_uarch_load(core, 0x100000, 1, 0)) >
                        SPEX_UARCH_L2);
        }
    }
    assert_int_equal(sums[0], sums[1]);
    spex_uarch_free(model);
}

static void test_none(void **state)
{
    struct spex_uarch *model = model_new("none");
    struct spex_uarch_core *core = core_new(model, 0);
    struct spex_op load = op_make(SPEX_EXEC_LOAD, 0, 1, -1);
    struct spex_access access = {
        .flags = SPEX_ACC_VA | SPEX_ACC_SOURCE, .events = 1, .translation = 3};
    assert_int_equal(spex_uarch_load(core, 0x1234, 8, 0), 0);
    spex_uarch_access(core, &load, 0x1234, 8, 0, &access);
    assert_int_equal(access.events, 0);
    assert_int_equal(access.translation, 0);
    assert_int_equal(access.flags, SPEX_ACC_VA);
    spex_uarch_free(model);
}

TEST_MAIN(TEST(test_chase_steps), TEST(test_chase_latency), TEST(test_stride_steps),
          TEST(test_associativity), TEST(test_tlb_steps), TEST(test_translation_latency),
          TEST(test_split), TEST(test_optimal_alignment), TEST(test_equal_to_obvious_model),
          TEST(test_determinism_and_reset), TEST(test_none))
