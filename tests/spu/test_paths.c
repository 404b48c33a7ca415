/* Whatever way an engine takes, the results are the same: blocks, one at a time, saved, shared. */
#include "fixture.h"

#include "base/rng.h"

static const char *const feature_sets[] = {
    "max", "neoverse-n1", "neoverse-v1", "neoverse-n2", "min", "v1p5,no-ernd,align=4", "v1p2,pbt"};
/* clang-format off */
static const char *const choice_sets[] = {
    NULL, "initial_load=first-op", "select_after=3", "select_group=4", "hold=2 pbt_any_op=yes",
    "population_speculative=yes", "multi_access=part", "pbt_stale=no isb_branch=yes",
};
/* clang-format on */

struct step {
    uint64_t pc;
    struct spex_op op;
    struct spex_outcome outcome;
    struct spex_access parts[3];
};

static void random_step(struct rng *rng, struct step *s)
{
    /* clang-format off */
    static const uint8_t kinds[] = {SPEX_OP_OTHER, SPEX_OP_LDST,  SPEX_OP_BRANCH, SPEX_OP_LDST,
                                    SPEX_OP_CSEL,  SPEX_OP_ERET,  SPEX_OP_ISB,    SPEX_OP_MEMCPY,
                                    SPEX_OP_SVE,   SPEX_OP_LDST_SVE, SPEX_OP_EXCEPTION};
    /* clang-format on */
    memset(s, 0, sizeof *s);
    s->pc = rng_next(rng) & 0xfffffc;
    s->op.kind = kinds[rng_below(rng, sizeof kinds)];
    s->op.vectors = 1;
    s->op.vector_bits = 128u << rng_below(rng, 4);
    s->outcome.flags = SPEX_OUT_EXECUTED | (rng_chance(rng, 1, 2) ? SPEX_OUT_PASSED : 0);
    s->outcome.total = rng_below(rng, 5000);
    s->outcome.issue = rng_below(rng, 100);
    s->outcome.target = rng_next(rng) & 0xffffffc;
    s->outcome.target_el = 1;
    s->outcome.target_security = SPEX_NONSECURE;
    if (s->op.kind == SPEX_OP_BRANCH)
        s->op.flags = rng_chance(rng, 1, 2) ? SPEX_OPF_COND : SPEX_OPF_INDIRECT;
    if (s->op.kind == SPEX_OP_MEMCPY)
        s->op.flags = SPEX_OPF_LOAD | SPEX_OPF_STORE;
    if (s->op.kind == SPEX_OP_LDST || s->op.kind == SPEX_OP_LDST_SVE)
        s->op.flags = rng_chance(rng, 1, 3) ? SPEX_OPF_STORE : SPEX_OPF_LOAD;
    for (unsigned i = 0; i < 2; i++) {
        struct spex_access *a = &s->outcome.access[i];
        a->va = rng_next(rng);
        a->pa = rng_next(rng) & 0xffffffffff;
        a->events = rng_next(rng) & 0xffff3c;
        a->data_source = (uint16_t)rng_below(rng, 16);
        a->flags = SPEX_ACC_VA | SPEX_ACC_PA | SPEX_ACC_DONE | SPEX_ACC_SOURCE;
        a->pas = SPEX_NONSECURE;
    }
    if (rng_chance(rng, 1, 4) && s->op.kind != SPEX_OP_MEMCPY) {
        for (unsigned i = 0; i < 3; i++)
            s->parts[i] = s->outcome.access[i & 1];
        s->outcome.parts = s->parts;
        s->outcome.part_count = 1 + rng_below(rng, 3);
    }
}

/* Taken branches and what may count as one. */
static bool is_note(const struct fixture *f, const struct step *s)
{
    switch (s->op.kind) {
    case SPEX_OP_BRANCH:
        return !(s->op.flags & SPEX_OPF_COND) || s->outcome.flags & SPEX_OUT_PASSED;
    case SPEX_OP_ISB:
        return spu_get_config(f->unit)->choices.isb_branch;
    default:
        return s->op.kind == SPEX_OP_ERET || s->op.kind == SPEX_OP_EXCEPTION;
    }
}

/* The engine of the block path: counts ahead, gives back, notes branches, describes the chosen. */
struct block {
    struct fixture *f;
    const struct step *last_branch;
};

static void block_note(struct block *b)
{
    if (b->last_branch && spex_spu_wants_branches(b->f->unit)) {
        /* an ISB has no target of its own in the stream; the engine knows its pc */
        struct spex_outcome o = b->last_branch->outcome;
        if (b->last_branch->op.kind == SPEX_OP_ISB)
            o.target = b->last_branch->pc + 4;
        spex_spu_note_branch(b->f->unit, &b->last_branch->op, &o);
    }
    b->last_branch = NULL;
}

static void block_run(struct block *b, const struct step *steps, size_t count, struct rng *rng)
{
    for (size_t i = 0; i < count;) {
        uint64_t until = spex_spu_until(b->f->unit);
        size_t n = until < count - i ? (size_t)until : count - i;
        size_t cut = n ? rng_below(rng, (uint32_t)n + 1) : 0; /* the block ends early */
        spex_spu_pass(b->f->unit, n);
        spex_spu_unpass(b->f->unit, n - cut);
        for (size_t k = i; k < i + cut; k++)
            if (is_note(b->f, &steps[k]))
                b->last_branch = &steps[k];
        i += cut;
        if (i < count && spex_spu_until(b->f->unit) == 0) {
            block_note(b);
            int slot = spex_spu_begin(b->f->unit, steps[i].pc, 0);
            if (slot >= 0)
                spex_spu_complete(b->f->unit, slot, &steps[i].op, &steps[i].outcome);
            else if (is_note(b->f, &steps[i]))
                b->last_branch = &steps[i];
            i++;
        }
    }
    block_note(b);
}

static void same(struct fixture *a, struct fixture *b)
{
    unsigned encoding;
    for (size_t i = 0; (encoding = spex_sysreg_at(i)); i++) {
        uint64_t x = 0, y = 0;
        bool has = spex_spu_get(a->unit, encoding, &x);
        assert_int_equal(has, spex_spu_get(b->unit, encoding, &y));
        if (x != y)
            fail_msg("%s: 0x%llx and 0x%llx", spex_sysreg_name(encoding), (unsigned long long)x,
                     (unsigned long long)y);
    }
    assert_int_equal(a->highest, b->highest);
    assert_memory_equal(a->memory, b->memory, MEMORY);
    assert_memory_equal(a->pmu, b->pmu, sizeof a->pmu);
    assert_int_equal(a->triggers, b->triggers);
    assert_int_equal(a->irq, b->irq);
}

/* A register write that an engine may see at any time. */
static void disturb(struct fixture *a, struct fixture *b, unsigned what, uint64_t value)
{
    static const struct {
        unsigned encoding;
        uint64_t mask, set;
    } writes[] = {
        {SPEX_PMSIRR_EL1, 0x301, 0}, {SPEX_PMSCR_EL1, 0x33, 0},  {SPEX_PMSFCR_EL1, 0x1f001f, 0},
        {SPEX_PMBSR_EL1, 0, 0},      {SPEX_PMSICR_EL1, 0x5f, 1}, {SPEX_PMSEVFR_EL1, 0xff, 0},
    };
    unsigned i = what % (sizeof writes / sizeof writes[0]);
    fixture_set(a, writes[i].encoding, (value & writes[i].mask) | writes[i].set);
    fixture_set(b, writes[i].encoding, (value & writes[i].mask) | writes[i].set);
}

static void test_blocks_and_single_operations(void **state)
{
    enum { STEPS = 700, ROUNDS = 12 };
    static struct step steps[STEPS];
    for (size_t fs = 0; fs < sizeof feature_sets / sizeof feature_sets[0]; fs++) {
        for (size_t cs = 0; cs < sizeof choice_sets / sizeof choice_sets[0]; cs++) {
            struct rng rng = {fs * 100 + cs};
            bool v1p5 = !strcmp(feature_sets[fs], "max") || !strncmp(feature_sets[fs], "v1p5", 4);
            if (choice_sets[cs] && strstr(choice_sets[cs], "hold") && !v1p5)
                continue;
            struct fixture *a = fixture_new(feature_sets[fs], choice_sets[cs], fs);
            struct fixture *b = fixture_new(feature_sets[fs], choice_sets[cs], fs);
            struct block block = {.f = b};
            uint64_t irr = 0x100 | (rng_next(&rng) & 1);
            fixture_start(a, 0x3000, irr);
            fixture_start(b, 0x3000, irr);
            for (unsigned round = 0; round < ROUNDS; round++) {
                size_t count = 1 + rng_below(&rng, STEPS);
                for (size_t i = 0; i < count; i++)
                    random_step(&rng, &steps[i]);
                for (size_t i = 0; i < count; i++)
                    spex_spu_op(a->unit, steps[i].pc, &steps[i].op, &steps[i].outcome);
                block_run(&block, steps, count, &rng);
                same(a, b);
                disturb(a, b, rng_below(&rng, 100), rng_next(&rng));
                if (rng_chance(&rng, 1, 3)) {
                    spex_spu_context_sync(a->unit);
                    spex_spu_context_sync(b->unit);
                }
                if (rng_chance(&rng, 1, 3)) {
                    spex_spu_psb(a->unit, NULL);
                    spex_spu_psb(b->unit, NULL);
                }
            }
            same(a, b);
            fixture_free(a);
            fixture_free(b);
        }
    }
}

/* Saved at any step and restored into another unit, the run goes on as if nothing had happened. */
static void test_save_and_restore_anywhere(void **state)
{
    enum { STEPS = 3000 };
    struct rng rng = {5};
    struct fixture *a = fixture_new("max", "hold=3 pbt_any_op=yes part_choice=rotate", 9);
    struct fixture *b = fixture_new("max", "hold=3 pbt_any_op=yes part_choice=rotate", 1);
    uint8_t bytes[32768];
    fixture_start(a, 0x8000, 0x101);
    for (unsigned i = 0; i < STEPS; i++) {
        struct step s;
        if (rng_chance(&rng, 1, 50)) { /* over to the other unit */
            spex_spu_flush(a->unit);
            size_t size = spex_spu_save(a->unit, bytes, sizeof bytes);
            assert_true(size <= sizeof bytes);
            assert_int_equal(spex_spu_restore(b->unit, bytes, size), SPEX_OK);
            b->highest = a->highest;
            memcpy(b->memory, a->memory, MEMORY);
            memcpy(b->pmu, a->pmu, sizeof a->pmu);
            b->triggers = a->triggers;
            struct fixture *t = a;
            a = b;
            b = t;
        }
        random_step(&rng, &s);
        spex_spu_op(a->unit, s.pc, &s.op, &s.outcome);
    }
    struct fixture *straight = fixture_new("max", "hold=3 pbt_any_op=yes part_choice=rotate", 9);
    struct rng again = {5};
    fixture_start(straight, 0x8000, 0x101);
    for (unsigned i = 0; i < STEPS; i++) {
        struct step s;
        rng_chance(&again, 1, 50);
        random_step(&again, &s);
        spex_spu_op(straight->unit, s.pc, &s.op, &s.outcome);
    }
    same(a, straight);
    fixture_free(a);
    fixture_free(b);
    fixture_free(straight);
}

/* Bytes that are no saved unit, or one of another configuration, change nothing. */
static void test_restore_refuses(void **state)
{
    struct fixture *f = fixture_new("max", "hold=3", 1);
    struct fixture *other = fixture_new("max", "hold=2", 1);
    uint8_t bytes[32768], before[32768], after[32768];
    struct rng rng = {7};
    f->anywhere = true; /* a restored pointer may be any */
    fixture_start(f, 0x8000, 0x100);
    size_t size = spex_spu_save(f->unit, bytes, sizeof bytes);
    assert_int_equal(spex_spu_save(f->unit, bytes, 10), size);
    assert_int_equal(spex_spu_restore(other->unit, bytes, size), SPEX_UNSUPPORTED);
    for (size_t n = 0; n < size; n += 7)
        assert_true(spex_spu_restore(f->unit, bytes, n) != SPEX_OK);
    bytes[0] ^= 1;
    assert_int_equal(spex_spu_restore(f->unit, bytes, size), SPEX_INVALID);
    bytes[0] ^= 1;
    for (unsigned i = 0; i < 20000; i++) { /* any damage is refused or harmless */
        uint8_t damaged[32768];
        memcpy(damaged, bytes, size);
        unsigned n = 1 + rng_below(&rng, 4);
        while (n--)
            damaged[24 + rng_below(&rng, (uint32_t)size - 24)] = (uint8_t)rng_next(&rng);
        memset(before, 0, sizeof before);
        memset(after, 0, sizeof after);
        spex_spu_save(f->unit, before, sizeof before);
        if (spex_spu_restore(f->unit, damaged, size) != SPEX_OK) {
            spex_spu_save(f->unit, after, sizeof after);
            assert_memory_equal(before, after, sizeof before);
        } else {
            struct step s;
            for (unsigned k = 0; k < 3; k++) {
                random_step(&rng, &s);
                fixture_set(f, SPEX_PMBPTR_EL1, BASE);
                fixture_set(f, SPEX_PMBLIMITR_EL1, BASE + 0x8001);
                spex_spu_context_sync(f->unit);
                fixture_set(f, SPEX_PMSICR_EL1, 1);
                spex_spu_op(f->unit, s.pc, &s.op, &s.outcome);
                spex_spu_psb(f->unit, NULL);
            }
            assert_int_equal(spex_spu_restore(f->unit, bytes, size), SPEX_OK);
        }
    }
    fixture_free(f);
    fixture_free(other);
}

/* Records held back are after the words: too few bytes, or sizes that cannot be. */
static void test_restore_held(void **state)
{
    struct fixture *f = fixture_new("max", "hold=3", 1);
    uint8_t bytes[32768];
    struct spex_op op = {.kind = SPEX_OP_OTHER};
    struct spex_outcome outcome = {.flags = SPEX_OUT_EXECUTED};
    struct spex_spu_status status = {.size = sizeof status};
    fixture_start(f, 0x8000, 0x100);
    fixture_set(f, SPEX_PMSICR_EL1, 1);
    size_t empty = spex_spu_save(f->unit, bytes, sizeof bytes);
    assert_true(spex_spu_op(f->unit, 0, &op, &outcome));
    spex_spu_get_status(f->unit, &status);
    assert_int_equal(status.held, 1);
    size_t size = spex_spu_save(f->unit, bytes, sizeof bytes), record = size - empty;
    assert_int_equal(spex_spu_restore(f->unit, bytes, size - 1), SPEX_TRUNCATED);
    assert_int_equal(spex_spu_restore(f->unit, bytes, empty), SPEX_TRUNCATED);
    static const uint16_t wrong[] = {0, SPEX_RECORD_MAX + 1};
    for (size_t i = 0; i < 2; i++) {
        unsigned refused = 0;
        for (size_t at = 24; at < empty; at += 8) { /* its size is one of the words */
            uint8_t damaged[32768];
            memcpy(damaged, bytes, size);
            if (damaged[at] != record || damaged[at + 1])
                continue;
            damaged[at] = (uint8_t)wrong[i];
            damaged[at + 1] = (uint8_t)(wrong[i] >> 8);
            refused += spex_spu_restore(f->unit, damaged, size) == SPEX_INVALID;
        }
        assert_true(refused);
    }
    assert_int_equal(spex_spu_restore(f->unit, bytes, size), SPEX_OK);
    fixture_free(f);
}

static void test_units_share_nothing(void **state)
{
    struct fixture *a = fixture_new(NULL, NULL, 1), *b = fixture_new("neoverse-n1", NULL, 1);
    fixture_start(a, 0x1000, 0x100);
    fixture_start(b, 0x1000, 0x200);
    struct spex_op op = {.kind = SPEX_OP_OTHER};
    struct spex_outcome outcome = {.flags = SPEX_OUT_EXECUTED};
    for (unsigned i = 0; i < 513; i++) {
        spex_spu_op(a->unit, i * 4, &op, &outcome);
        spex_spu_op(b->unit, i * 4, &op, &outcome);
    }
    assert_int_equal(fixture_pmu_count(a, SPEX_PMU_SAMPLE_FEED), 2);
    assert_int_equal(fixture_pmu_count(b, SPEX_PMU_SAMPLE_FEED), 1);
    fixture_free(a);
    fixture_free(b);
}

static void test_memory_of_the_caller(void **state)
{
    struct spu_config config;
    struct spex_spu *unit;
    struct spex_error error;
    spu_config_default(&config);
    void *memory = malloc(spex_spu_size());
    memset(memory, 0xa5, spex_spu_size());
    assert_int_equal(spu_init(memory, &config, &unit, &error), SPEX_OK);
    assert_ptr_equal(memory, unit);
    spex_spu_boot(unit);
    assert_true(spex_spu_until(unit) == UINT64_MAX);
    assert_int_equal(spu_get_config(unit)->features.version, 6);
    spex_spu_fini(unit);
    free(memory);
    spex_spu_free(NULL);
}

/* More parts than the random number has values: one of them is chosen, and its address known. */
static void test_many_parts(void **state)
{
    enum { PARTS = 70000, SAMPLES = 40 };
    struct fixture *f = fixture_new(NULL, "multi_access=part", 5);
    struct spex_access *parts = calloc(PARTS, sizeof *parts);
    struct spex_op op = {.kind = SPEX_OP_LDST, .flags = SPEX_OPF_LOAD};
    struct spex_outcome outcome = {.flags = SPEX_OUT_EXECUTED, .parts = parts, .part_count = PARTS};
    for (unsigned i = 0; i < PARTS; i++)
        parts[i] = (struct spex_access){.va = UINT64_C(0x100000) + 64 * i, .flags = SPEX_ACC_VA};
    fixture_start(f, MEMORY, 0x100);
    while (fixture_get(f, SPEX_PMBPTR_EL1) < BASE + 64 * SAMPLES)
        spex_spu_op(f->unit, 0x1000, &op, &outcome);
    struct spex_reader *reader;
    struct spex_record record;
    unsigned count = 0, far = 0;
    assert_int_equal(spex_reader_new(NULL, &reader, NULL), SPEX_OK);
    spex_reader_feed(reader, f->memory, 64 * SAMPLES, 0, true);
    for (; spex_reader_next(reader, &record, NULL) == SPEX_OK; count++) {
        uint64_t part = (record.address[2] - 0x100000) / 64;
        assert_true(record.present & SPEX_HAS_VA && record.address[2] % 64 == 0 && part < PARTS);
        far += part > PARTS / 2;
    }
    assert_true(count >= SAMPLES / 2 && far > count / 4 && far < count);
    spex_reader_free(reader);
    free(parts);
    fixture_free(f);
}

/* No host at all: everything has a sane default. */
static void test_without_a_host(void **state)
{
    struct spu_config config;
    struct spex_spu *unit;
    struct spex_error error;
    spu_config_default(&config);
    config.features.EA = 2;
    assert_int_equal(spu_new(&config, &unit, &error), SPEX_OK);
    spex_spu_boot(unit);
    spex_spu_set(unit, SPEX_PMBPTR_EL1, 0x1000);
    spex_spu_set(unit, SPEX_PMBLIMITR_EL1, 0x3001);
    spex_spu_set(unit, SPEX_PMSIRR_EL1, 0x101);
    spex_spu_set(unit, SPEX_PMSCR_EL1, 0x32);
    struct spex_op op = {.kind = SPEX_OP_OTHER};
    struct spex_outcome outcome = {.flags = SPEX_OUT_EXECUTED};
    for (unsigned i = 0; i < 100000; i++)
        spex_spu_op(unit, i * 4, &op, &outcome);
    spex_spu_external_abort(unit, 0);
    uint64_t value;
    assert_true(spex_spu_get(unit, SPEX_PMBSR_EL1, &value));
    assert_int_equal(value, 0x20001); /* it filled */
    /* Routed to EL1 as an exception: nobody is told, the state says so. */
    struct spex_spu_exception e;
    spex_spu_set(unit, SPEX_PMSCR_EL2, 1 << 8);
    spex_spu_set(unit, SPEX_PMSCR_EL1, 3 << 8);
    spex_spu_get_exception(unit, 0, &e);
    assert_true(e.pending && e.target == 1);
    spex_spu_get_exception(unit, 4, &e); /* there is no PMBSR_EL4 */
    assert_false(e.pending);
    spex_spu_free(unit);
}

TEST_MAIN(TEST(test_blocks_and_single_operations), TEST(test_save_and_restore_anywhere),
          TEST(test_restore_refuses), TEST(test_restore_held), TEST(test_units_share_nothing),
          TEST(test_memory_of_the_caller), TEST(test_many_parts), TEST(test_without_a_host))
