/*
 * Several cores: MESI step by step, invariants under random traces, and false
 * sharing that looks the same whether the cores run at once or by turns.
 */
#include <pthread.h>

#include "uarch/support.h"
#include "uarch/uarch.h"

static void drain(struct spex_uarch_core *core)
{
    uarch_drain(core->rest);
}

static void expect(spex_uarch_result r, enum spex_uarch_level level, unsigned flags)
{
    unsigned mask = SPEX_UARCH_MODIFIED | SPEX_UARCH_SNOOPED | SPEX_UARCH_UPGRADE |
                    SPEX_UARCH_SOCKET | SPEX_UARCH_CONTENDED;
    if (spex_uarch_result_level(r) != level || (r & mask) != flags)
        fail_msg("level %s flags %#x, want %s %#x",
                 spex_uarch_level_name(spex_uarch_result_level(r)), (unsigned)(r & mask),
                 spex_uarch_level_name(level), flags);
}

static void test_protocol(void **state)
{
    struct spex_uarch *model = model_new("contend.after=255,cluster=2,sockets=1");
    struct spex_uarch_core *a = core_new(model, 0), *b = core_new(model, 1),
                           *c = core_new(model, 2);
    uint64_t x = 0x10000, y = 0x20000, z = 0x30000;

    /* Exclusive, then shared: the data comes from the core that has it. */
    expect(spex_uarch_load(a, x, 8, 0), SPEX_UARCH_DRAM, 0);
    expect(spex_uarch_load(b, x, 8, 0), SPEX_UARCH_PEER, SPEX_UARCH_SNOOPED);
    expect(spex_uarch_load(c, x, 8, 0), SPEX_UARCH_LLC, 0); /* shared: the last level has it too */
    /* A write to a shared line takes it from the others. */
    expect(spex_uarch_store(a, x, 8, 0), SPEX_UARCH_L1, SPEX_UARCH_UPGRADE);
    assert_int_equal(spex_uarch_store(a, x, 8, 0), 0);
    drain(b);
    drain(c);
    expect(spex_uarch_load(b, x, 8, 0), SPEX_UARCH_PEER, SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED);
    expect(spex_uarch_load(c, x, 8, 0), SPEX_UARCH_LLC, 0); /* was written back when b read it */
    drain(a);
    assert_int_equal(spex_uarch_load(a, x, 8, 0), 0); /* still shared */

    /* Modified in one, written by another cluster's. */
    expect(spex_uarch_store(b, y, 8, 0), SPEX_UARCH_DRAM, 0);
    expect(spex_uarch_store(c, y, 8, 0), SPEX_UARCH_FAR, SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED);
    drain(b);
    expect(spex_uarch_load(b, y, 8, 0), SPEX_UARCH_FAR, SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED);

    /* Exclusive to modified is silent for the others; an atomic is a write. */
    expect(spex_uarch_load(a, z, 8, 0), SPEX_UARCH_DRAM, 0);
    assert_int_equal(spex_uarch_atomic(a, z, 8, 0), 0);
    expect(spex_uarch_atomic(b, z, 8, 0), SPEX_UARCH_PEER,
           SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED);
    spex_uarch_free(model);
}

static void test_write_back_and_forget(void **state)
{
    /* The last level: 1024 sets of one way; lines 64K apart push each other out of it. */
    struct spex_uarch *model = model_new("contend.after=255,llc.size=64K,llc.ways=1");
    struct spex_uarch_core *a = core_new(model, 0), *b = core_new(model, 1),
                           *c = core_new(model, 2);
    uint64_t x = 0x100000, step = 0x10000;
    expect(spex_uarch_store(a, x, 8, 0), SPEX_UARCH_DRAM, 0);
    expect(spex_uarch_load(b, x + step, 8, 0), SPEX_UARCH_DRAM, 0); /* x is in a alone now */
    expect(spex_uarch_load(b, x, 8, 0), SPEX_UARCH_PEER, SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED);
    expect(spex_uarch_load(c, x, 8, 0), SPEX_UARCH_LLC, 0); /* b's read had it written back */
    expect(spex_uarch_load(c, x + step, 8, 0), SPEX_UARCH_PEER, SPEX_UARCH_SNOOPED);
    /* Out of a's level 2 (eight ways): nobody is asked for it any more. */
    uint64_t y = x + 64;
    spex_uarch_load(a, y, 8, 0);
    for (unsigned i = 1; i <= 8; i++)
        spex_uarch_load(a, y + i * 0x20000, 8, 0);
    expect(spex_uarch_load(b, y, 8, 0), SPEX_UARCH_DRAM, 0);
    spex_uarch_free(model);
}

static void test_becomes_contended(void **state)
{
    /* Stores alone, one for each core in turn: after four changes of hands. */
    struct spex_uarch *model = model_new(NULL);
    struct spex_uarch_core *a = core_new(model, 0), *b = core_new(model, 1);
    unsigned i;
    for (i = 0; i < 10; i++) {
        drain(a);
        drain(b);
        if (spex_uarch_store(i & 1 ? b : a, 0x10000, 8, 0) & SPEX_UARCH_CONTENDED)
            break;
    }
    assert_int_equal(i, 5); /* first has it, four transfers, the next is decided in time */
    spex_uarch_free(model);
}

static void test_sockets(void **state)
{
    struct spex_uarch *model = model_new("contend.after=255,cluster=1,sockets=2,dram.latency=280");
    struct spex_uarch_core *a = core_new(model, 0), *b = core_new(model, 1);
    uint64_t near = 0x200000, far = 0x201000; /* who touches a page first has it */
    expect(spex_uarch_load(a, near, 8, 0), SPEX_UARCH_DRAM, 0);
    expect(spex_uarch_load(b, far + 64, 8, 0), SPEX_UARCH_DRAM, 0);
    spex_uarch_result r = spex_uarch_load(a, far, 8, 0);
    expect(r, SPEX_UARCH_DRAM, SPEX_UARCH_SOCKET);
    assert_int_equal(spex_uarch_result_latency(r), 280 + 220);
    expect(spex_uarch_load(b, near, 8, 0), SPEX_UARCH_REMOTE,
           SPEX_UARCH_SNOOPED | SPEX_UARCH_SOCKET);
    spex_uarch_core_reset(a);
    expect(spex_uarch_load(a, far, 8, 0), SPEX_UARCH_REMOTE,
           SPEX_UARCH_SOCKET); /* its last level */
    spex_uarch_free(model);
}

/* ---- invariants ---- */

/* State of a line in the private caches, checked: level 2 includes level 1 with equal states.
 */
static void check_core(struct spex_uarch_core *hot)
{
    struct uarch_core *core = hot->rest;
    const struct spex_uarch *model = core->model;
    unsigned ways = model->config.l2_ways;
    for (unsigned set = 0; set < model->l1_sets; set++)
        for (unsigned w = 0; w <= model->l1_rest; w++) {
            uint64_t word = w ? core->l1[set * model->l1_rest + w - 1] : hot->mru[set];
            if (word == UARCH_INVALID)
                continue;
            bool found = false;
            for (unsigned i = 0; i < ways; i++)
                found |= core->l2[((word >> 6) & model->l2_mask) * ways + i] == word;
            assert_true(found);
            assert_int_equal((word >> 6) & (model->l1_sets - 1), set);
        }
}

static void check_system(struct spex_uarch *model, struct spex_uarch_core **cores, unsigned count)
{
    for (unsigned c = 0; c < count; c++)
        drain(cores[c]);
    for (unsigned c = 0; c < count; c++) {
        struct uarch_core *core = cores[c]->rest;
        check_core(cores[c]);
        for (unsigned i = 0; i < model->config.l2_size / 64; i++) {
            uint64_t word = core->l2[i], line = word & ~63ull;
            if (!word)
                continue;
            /* The directory knows every private line, its state, and who has it. */
            size_t first = ((line >> 6) & model->dir_mask) * UARCH_DIR_WAYS, d;
            for (d = first; d < first + UARCH_DIR_WAYS && model->dir_tag[d] != (line | 1); d++)
                ;
            assert_true(d < first + UARCH_DIR_WAYS);
            assert_true(model->dir[d].sharers >> core->id % 64 & 1);
            assert_int_equal(model->dir[d].contended, 0);
            if (count <= 64) {
                assert_int_equal(model->dir[d].state, word & 63);
                if ((word & 63) != UARCH_SHARED) {
                    assert_int_equal(model->dir[d].sharers, 1ull << core->id % 64);
                    assert_int_equal(model->dir[d].owner, core->id);
                }
            }
        }
    }
}

static void random_trace(const char *settings, unsigned count, unsigned accesses, uint64_t bytes)
{
    struct spex_uarch *model = model_new(settings);
    struct spex_uarch_core *cores[80];
    struct spex_uarch_block block;
    struct spex_op op = op_make(SPEX_EXEC_ALU, -1, -1, -1);
    block_make(model, &block, 0x1000, &op);
    uint64_t seed = count;
    for (unsigned i = 0; i < count; i++)
        cores[i] = core_new(model, i);
    for (unsigned i = 0; i < accesses; i++) {
        uint64_t x = random64(&seed);
        struct spex_uarch_core *core = cores[x % count];
        uint64_t va = 0x100000 + (x >> 8) % bytes / 8 * 8;
        if (x >> 61 == 0)
            spex_uarch_store(core, va, 8, 0);
        else if (x >> 61 == 1)
            spex_uarch_atomic(core, va, 8, 0);
        else
            spex_uarch_load(core, va, 8, 0);
        if (x >> 20 & 1)
            enter(core, &block);
        if (i % 5000 == 0)
            check_system(model, cores, count);
    }
    check_system(model, cores, count);
    /* A core that leaves takes nothing along. */
    spex_uarch_core_free(cores[0]);
    check_system(model, cores + 1, count - 1);
    spex_uarch_free(model);
}

static void test_invariants(void **state)
{
    random_trace("contend.after=255", 2, 60000, 1 << 20);
    random_trace(NULL, 4, 60000, 1 << 16);
    random_trace("l1d.size=4K,l1d.ways=2,l2.size=16K,l2.ways=2,llc.size=64K", 4, 100000, 1 << 17);
    random_trace("dir.size=4096,contend.after=255", 8, 100000, 4 << 20);
    random_trace("l1d.size=4K,l2.size=16K,cluster=2,sockets=2", 80, 60000, 1 << 16);
}

/* ---- false sharing ---- */

static pthread_barrier_t together;

struct worker {
    struct spex_uarch_core *core;
    struct spex_uarch_block *block;
    uint64_t va;
    unsigned iterations;
    uint64_t transfers;
};

/* for (...) x++; with x in memory */
static void work(struct worker *w, unsigned iterations)
{
    for (unsigned i = 0; i < iterations; i++) {
        spex_uarch_arm(w->core, 1000);
        enter(w->core, w->block);
        spex_uarch_result r = spex_uarch_load(w->core, w->va, 8, 0);
        w->transfers += !!(r & SPEX_UARCH_SNOOPED);
        r = spex_uarch_store(w->core, w->va, 8, 2);
        w->transfers += !!(r & SPEX_UARCH_SNOOPED);
    }
}

static void *thread(void *argument)
{
    struct worker *w = argument;
    pthread_barrier_wait(&together);
    work(w, w->iterations);
    return NULL;
}

enum { THREADS = -1 };

/* Transfers of both cores when they take turns of `turn` iterations, or run as threads. */
static uint64_t share(uint64_t distance, unsigned iterations, int turn, uint64_t *least)
{
    struct spex_uarch *model = model_new(NULL);
    struct spex_op ops[5] = {op_make(SPEX_EXEC_LOAD, 0, 1, -1), op_make(SPEX_EXEC_ALU, 0, 0, -1),
                             op_make(SPEX_EXEC_STORE, -1, 0, 1), op_make(SPEX_EXEC_ALU, 2, 2, -1),
                             branch_make(SPEX_OPF_COND)};
    struct spex_uarch_block block;
    spex_uarch_block_init(model, &block, 0x1000, ops, 5);
    struct worker w[2];
    for (unsigned i = 0; i < 2; i++)
        w[i] = (struct worker){core_new(model, i), &block, 0x10000 + i * distance, iterations, 0};
    if (turn == THREADS) {
        pthread_t t[2];
        pthread_barrier_init(&together, NULL, 2);
        for (unsigned i = 0; i < 2; i++)
            pthread_create(&t[i], NULL, thread, &w[i]);
        for (unsigned i = 0; i < 2; i++)
            pthread_join(t[i], NULL);
    } else {
        for (unsigned done = 0; done < iterations; done += (unsigned)turn)
            for (unsigned i = 0; i < 2; i++)
                work(&w[i], (unsigned)turn);
    }
    if (least)
        *least = w[0].transfers < w[1].transfers ? w[0].transfers : w[1].transfers;
    uint64_t sum = w[0].transfers + w[1].transfers;
    spex_uarch_free(model);
    return sum;
}

static void test_false_sharing(void **state)
{
    enum { N = 400000 };
    uint64_t least, turns[5];
    static const int turn[5] = {1, 10, 100, 10000, 40000};
    for (unsigned i = 0; i < 5; i++) {
        turns[i] = share(8, N, turn[i], &least);
        print_message("# turns of %d: %llu transfers, at least %llu on one core\n", turn[i],
                      (unsigned long long)turns[i], (unsigned long long)least);
        /* Both cores see it, however the host orders them. */
        assert_true(least > N / 100);
        assert_true(turns[i] < N / 2); /* a lease is more than one access */
        assert_true(turns[i] < turns[0] * 2 && turns[i] * 2 > turns[0]);
    }
    /* Ten times as long, so that threads meet on a host with one CPU too. */
    uint64_t threads = share(8, 10 * N, THREADS, &least) / 10;
    print_message("# threads: %llu transfers, at least %llu on one core\n",
                  (unsigned long long)threads, (unsigned long long)least / 10);
    /* The first few turns on one CPU are lost; the padded twin has 4. */
    assert_true(threads < turns[0] * 3 && threads * 10 > turns[0]);
    /* The padded twin. */
    assert_true(share(64, N, 1, NULL) <= 4);
    assert_true(share(64, N, 10000, NULL) <= 4);
    assert_true(share(64, N, THREADS, NULL) <= 4);
}

static spex_uarch_result store_at(struct spex_uarch_core *core, uint64_t cycles)
{
    drain(core);
    spex_uarch_clock_reach(core, cycles);
    return spex_uarch_store(core, 0x10000, 8, 0);
}

static void test_idle_core_does_not_contend(void **state)
{
    for (unsigned idle = 0; idle < 2; idle++) {
        struct spex_uarch *model = model_new(NULL);
        struct spex_uarch_core *a = core_new(model, 0), *b = core_new(model, 1);
        unsigned counts[2] = {0};
        for (unsigned i = 0; i < 1000; i++) /* contended */
            store_at(i & 1 ? a : b, i * 10);
        spex_uarch_core_idle(b, idle);
        /* a goes on alone. b may only be late, or it may sleep. */
        uint64_t start = spex_uarch_clock(a);
        for (unsigned i = 0; i < 20000; i++)
            counts[i >= 10000] += !!(store_at(a, start + i * 10) & SPEX_UARCH_SNOOPED);
        if (!idle) {
            assert_true(counts[0] > 500 && counts[1] > 500);
        } else {
            assert_true(counts[0] < 100); /* what b did before on its own clock */
            assert_int_equal(counts[1], 0);
            assert_int_equal(spex_uarch_store(a, 0x10000, 8, 0), 0); /* an ordinary line again */
            /* b comes back long after: one transfer, as of any line. */
            spex_uarch_core_idle(b, false);
            spex_uarch_clock_reach(b, spex_uarch_clock(a));
            drain(b);
            expect(spex_uarch_load(b, 0x10000, 8, 0), SPEX_UARCH_PEER,
                   SPEX_UARCH_SNOOPED | SPEX_UARCH_MODIFIED);
        }
        spex_uarch_free(model);
    }
}

static void test_use_at_a_later_time_is_not_forgotten(void **state)
{
    struct spex_uarch *model = model_new(NULL);
    struct spex_uarch_core *a = core_new(model, 0), *b = core_new(model, 1);
    unsigned early = 0, late = 0;
    for (unsigned i = 0; i < 100; i++)
        store_at(i & 1 ? a : b, i * 10);
    /* b, the host's favourite, goes ahead: away from the line, and back to it at 300000. */
    for (unsigned i = 0; i < 1000; i++)
        store_at(b, 300000 + i * 100);
    /* a comes after. It is alone until 300000, and then it is not. */
    for (unsigned i = 0; i < 2800; i++)
        early += !!(store_at(a, 20000 + i * 100) & SPEX_UARCH_SNOOPED);
    for (unsigned i = 0; i < 900; i++)
        late += !!(store_at(a, 300000 + i * 100) & SPEX_UARCH_SNOOPED);
    assert_true(early < 50);
    assert_true(late > 400);
    spex_uarch_free(model);
}

static void test_read_sharing_is_free(void **state)
{
    /* Many readers of one line, no writer: a miss each, then hits. */
    struct spex_uarch *model = model_new(NULL);
    struct spex_uarch_core *cores[8];
    unsigned misses = 0;
    for (unsigned i = 0; i < 8; i++)
        cores[i] = core_new(model, i);
    for (unsigned i = 0; i < 8000; i++)
        misses += spex_uarch_load(cores[i % 8], 0x10000, 8, 0) != 0;
    assert_int_equal(misses, 8);
    spex_uarch_free(model);
}

/* ---- threads ---- */

struct stress {
    struct spex_uarch *model;
    struct spex_uarch_core *core;
    unsigned number;
};

static void *stress(void *argument)
{
    struct stress *s = argument;
    struct spex_op op = branch_make(SPEX_OPF_COND);
    struct spex_uarch_block block;
    uint64_t seed = s->number;
    block_make(s->model, &block, 0x1000, &op);
    for (unsigned i = 0; i < 300000; i++) {
        uint64_t x = random64(&seed), va = 0x100000 + (x >> 8) % (1 << 18) / 8 * 8;
        if (x & 7)
            spex_uarch_load(s->core, va, 8, 0);
        else
            spex_uarch_store(s->core, va, 8, 0);
        if (x & 8) {
            spex_uarch_arm(s->core, 100);
            enter(s->core, &block);
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct spex_uarch *model = model_new("l2.size=128K,llc.size=256K");
    struct stress s[4];
    struct spex_uarch_core *cores[4];
    pthread_t t[4];
    for (unsigned i = 0; i < 4; i++) {
        s[i] = (struct stress){model, core_new(model, i), i};
        cores[i] = s[i].core;
        pthread_create(&t[i], NULL, stress, &s[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    check_system(model, cores, 4);
    spex_uarch_free(model);
}

TEST_MAIN(TEST(test_protocol), TEST(test_write_back_and_forget), TEST(test_becomes_contended),
          TEST(test_sockets), TEST(test_invariants), TEST(test_false_sharing),
          TEST(test_idle_core_does_not_contend), TEST(test_use_at_a_later_time_is_not_forgotten),
          TEST(test_read_sharing_is_free), TEST(test_threads))
