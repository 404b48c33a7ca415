/*
 * The unit against the checker: whatever choice an implementation makes, the
 * records of plausible operations conform to the feature set.
 */
#include "support/test.h"

#include "spu/config.h"
#include "record/verifier.h"

#include "base/bits.h"
#include "base/rng.h"

enum { BUFFER = 4 << 20, OPERATIONS = 1500 };
#define START UINT64_C(0x10000000)

struct memory {
    uint8_t *data;
    uint64_t count;
};

static void write_buffer(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct memory *m = user;
    memcpy(m->data + (store->address - START), store->bytes, store->count);
}

static bool read_counter(void *user, uint64_t *count)
{
    struct memory *m = user;
    *count = m->count += 7;
    return true;
}

static bool chance(struct rng *rng, unsigned percent)
{
    return rng_chance(rng, percent, 100);
}

/* Operations that programs have: flags that are always set, flags that may be, and who has
 * them. */
static const struct kind {
    uint8_t kind;
    uint32_t always, maybe;
    size_t needs; /* offset of a feature, 0 if none */
} kinds[] = {
#define NEEDS(feature) offsetof(struct arch_features, feature)
    {SPEX_OP_OTHER, 0, SPEX_OPF_FP | SPEX_OPF_SIMD, 0},
    {SPEX_OP_CSEL, 0, 0, 0},
    {SPEX_OP_CSINC, 0, 0, 0},
    {SPEX_OP_CSINV, 0, 0, 0},
    {SPEX_OP_CSNEG, 0, 0, 0},
    {SPEX_OP_CCMP, 0, 0, 0},
    {SPEX_OP_CCMN, 0, 0, 0},
    {SPEX_OP_SVE, 0, SPEX_OPF_PRED | SPEX_OPF_FP, NEEDS(SVE)},
    {SPEX_OP_SME_VECTOR, 0, SPEX_OPF_PRED | SPEX_OPF_FP, NEEDS(SME)},
    {SPEX_OP_SME_TILE, 0, SPEX_OPF_WHOLE_ZA | SPEX_OPF_FP, NEEDS(SME)},
    {SPEX_OP_BRANCH, SPEX_OPF_COND, 0, 0},
    {SPEX_OP_BRANCH, 0, SPEX_OPF_INDIRECT, 0},
    {SPEX_OP_BRANCH, SPEX_OPF_LINK, SPEX_OPF_INDIRECT, 0},
    {SPEX_OP_BRANCH, SPEX_OPF_RETURN | SPEX_OPF_INDIRECT, 0, 0},
    {SPEX_OP_BRANCH, SPEX_OPF_LINK | SPEX_OPF_GCS | SPEX_OPF_STORE, SPEX_OPF_INDIRECT, NEEDS(GCS)},
    {SPEX_OP_BRANCH, SPEX_OPF_RETURN | SPEX_OPF_INDIRECT | SPEX_OPF_GCS | SPEX_OPF_LOAD, 0,
     NEEDS(GCS)},
    {SPEX_OP_ERET, SPEX_OPF_INDIRECT, 0, 0},
    {SPEX_OP_ISB, SPEX_OPF_CSYNC, 0, 0},
    {SPEX_OP_BARRIER, 0, 0, 0},
    {SPEX_OP_EXCEPTION, 0, 0, 0},
    {SPEX_OP_WAIT, 0, 0, 0},
    {SPEX_OP_SYSTEM, 0, 0, 0},
    {SPEX_OP_LDST, SPEX_OPF_LOAD, SPEX_OPF_ACQREL | SPEX_OPF_EXCL, 0},
    {SPEX_OP_LDST, SPEX_OPF_STORE, SPEX_OPF_ACQREL | SPEX_OPF_EXCL, 0},
    {SPEX_OP_LDST, SPEX_OPF_STORE | SPEX_OPF_ATOMIC, SPEX_OPF_ACQREL | SPEX_OPF_LOAD, 0},
    {SPEX_OP_LDST, SPEX_OPF_LOAD | SPEX_OPF_SIMDFP_REG, SPEX_OPF_SIMD | SPEX_OPF_FP, 0},
    {SPEX_OP_LDST, SPEX_OPF_STORE | SPEX_OPF_SIMDFP_REG, SPEX_OPF_SIMD | SPEX_OPF_FP, 0},
    {SPEX_OP_LDST_UNSPEC, SPEX_OPF_LOAD, 0, NEEDS(LS64)},
    {SPEX_OP_LDST_UNSPEC, SPEX_OPF_STORE, 0, NEEDS(LS64)},
    {SPEX_OP_LDST_SVE, SPEX_OPF_LOAD,
     SPEX_OPF_PRED | SPEX_OPF_GATHER | SPEX_OPF_CONTIGUOUS | SPEX_OPF_PRED_ZEROING, NEEDS(SVE)},
    {SPEX_OP_LDST_SVE, SPEX_OPF_STORE, SPEX_OPF_PRED | SPEX_OPF_GATHER, NEEDS(SVE)},
    {SPEX_OP_LDST_SME, SPEX_OPF_LOAD, SPEX_OPF_PRED, NEEDS(SME)},
    {SPEX_OP_LDST_SME, SPEX_OPF_STORE, SPEX_OPF_PRED, NEEDS(SME)},
    {SPEX_OP_LDST_TAG, SPEX_OPF_LOAD, 0, NEEDS(MTE2)},
    {SPEX_OP_LDST_TAG, SPEX_OPF_STORE, 0, NEEDS(MTE2)},
    {SPEX_OP_LDST_NV2, SPEX_OPF_LOAD, 0, NEEDS(NV2)},
    {SPEX_OP_LDST_NV2, SPEX_OPF_STORE, 0, NEEDS(NV2)},
    {SPEX_OP_MEMCPY, SPEX_OPF_LOAD | SPEX_OPF_STORE, 0, NEEDS(MOPS)},
    {SPEX_OP_MEMSET, SPEX_OPF_STORE, 0, NEEDS(MOPS)},
    {SPEX_OP_GCS, SPEX_OPF_LOAD | SPEX_OPF_GCS, 0, NEEDS(GCS)},
    {SPEX_OP_GCS, SPEX_OPF_STORE | SPEX_OPF_GCS, 0, NEEDS(GCS)},
    {SPEX_OP_DC_ZVA, SPEX_OPF_STORE, 0, 0},
    {SPEX_OP_CACHE, 0, 0, 0},
    {SPEX_OP_AT, 0, 0, 0},
    {SPEX_OP_PREFETCH, 0, 0, 0},
    {SPEX_OP_SVE_PREFETCH, 0, SPEX_OPF_PRED, NEEDS(SVE)},
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void draw_op(struct rng *rng, const struct arch_features *f, unsigned el, struct spex_op *op)
{
    const struct kind *k;
    do
        k = &kinds[rng_below(rng, KINDS)];
    while ((k->needs && !*((const uint8_t *)f + k->needs)) ||
           (k->kind == SPEX_OP_LDST_NV2 && el != 1) || (k->kind == SPEX_OP_ERET && !el));
    memset(op, 0, sizeof *op);
    memset(op->src, SPEX_REG_NONE, sizeof op->src);
    memset(op->dst, SPEX_REG_NONE, sizeof op->dst);
    op->kind = k->kind;
    op->flags = k->always | ((uint32_t)rng_next(rng) & k->maybe);
    op->access_size = 8;
    op->access_bytes = 8;
    op->vector_bits = 128u << rng_below(rng, 5);
    op->vectors = (uint8_t)(1u << rng_below(rng, 3));
}

static void draw_access(struct rng *rng, const struct arch_features *f, struct spex_access *a)
{
    a->va = rng_next(rng);
    a->pa = rng_next(rng) >> 16;
    a->events = BIT(2) | BIT(4) | (rng_next(rng) & (BIT(3) | BIT(5)));
    uint64_t optional = (f->LLC ? BITS(9, 8) : 0) | (f->Remote ? BIT(10) : 0) |
                        (f->Misaligned ? BIT(11) : 0) | (f->L2D ? BITS(20, 19) : 0) |
                        (f->Modified ? BIT(21) : 0) | (f->Recent ? BIT(22) : 0) |
                        (f->Snooped ? BIT(23) : 0);
    a->events |= rng_next(rng) & optional;
    a->translation = rng_below(rng, 100);
    a->data_source = (uint16_t)rng_below(rng, 16);
    a->flags = SPEX_ACC_VA | SPEX_ACC_PA | SPEX_ACC_DONE | SPEX_ACC_SOURCE;
    a->flags |=
        (uint16_t)(rng_next(rng) & (SPEX_ACC_TBI | SPEX_ACC_TAG_IGNORED | SPEX_ACC_TAG_CANONICAL));
    if (f->MTE2)
        a->flags |= (uint16_t)(rng_next(rng) & SPEX_ACC_TAG_CHECKED);
    a->pas = SPEX_NONSECURE;
    a->tag = f->MTE2 ? (uint8_t)rng_below(rng, 16) : 0;
}

static bool accesses(const struct spex_op *op)
{
    return op->flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) || op->kind == SPEX_OP_CACHE ||
           op->kind == SPEX_OP_AT || op->kind == SPEX_OP_PREFETCH ||
           op->kind == SPEX_OP_SVE_PREFETCH;
}

static void draw_outcome(struct rng *rng, const struct arch_features *f, unsigned el,
                         const struct spex_op *op, struct spex_outcome *o)
{
    memset(o, 0, sizeof *o);
    bool vector = op->kind == SPEX_OP_SVE || op->kind == SPEX_OP_LDST_SVE ||
                  op->kind == SPEX_OP_LDST_SME || op->kind == SPEX_OP_SME_VECTOR ||
                  op->kind == SPEX_OP_SME_TILE || op->kind == SPEX_OP_SVE_PREFETCH;
    unsigned fate = rng_below(rng, 20);
    o->flags = fate == 0   ? SPEX_OUT_SPECULATIVE
               : fate == 1 ? SPEX_OUT_NO_INSN
               : fate == 2 ? SPEX_OUT_NONARCH_EXC
               : fate == 3 ? SPEX_OUT_EXECUTED | SPEX_OUT_EXCEPTION
                           : SPEX_OUT_EXECUTED;
    if (op->kind == SPEX_OP_EXCEPTION)
        o->flags = SPEX_OUT_EXECUTED | SPEX_OUT_EXCEPTION;
    bool conditional =
        op->flags & SPEX_OPF_COND || (op->kind >= SPEX_OP_CSEL && op->kind <= SPEX_OP_CCMN);
    if (!conditional || chance(rng, 60))
        o->flags |= SPEX_OUT_PASSED;
    o->total = rng_below(rng, 70000);
    o->issue = rng_below(rng, 5000);
    o->alt_issue = rng_below(rng, 5000);
    o->target = 0x400000 + 4 * rng_below(rng, 100000);
    o->target_el = o->spsr_el = op->kind == SPEX_OP_ERET ? 0 : (uint8_t)el;
    o->target_security = o->spsr_security = SPEX_NONSECURE;
    if (op->kind == SPEX_OP_ERET && chance(rng, 20)) {
        o->flags |= SPEX_OUT_ILLEGAL_ERET;
        o->spsr_el = 3;
        o->target_el = (uint8_t)el;
    }
    if (op->kind == SPEX_OP_BRANCH && !(o->flags & SPEX_OUT_EXCEPTION) && chance(rng, 20))
        o->events |= BIT(SPEX_EV_MISPREDICT);
    if (op->flags & SPEX_OPF_GCS)
        o->flags |= SPEX_OUT_GCS_ENABLED;
    bool governed = vector && (op->flags & (SPEX_OPF_PRED | SPEX_OPF_PRED_ZEROING) ||
                               (op->kind != SPEX_OP_LDST_SVE && op->kind != SPEX_OP_LDST_SME));
    if (governed && f->version >= 2 && chance(rng, 30))
        o->events |= BIT(SPEX_EV_PARTIAL_PRED) | (chance(rng, 30) ? BIT(SPEX_EV_EMPTY_PRED) : 0);
    if (f->SPE_SME && chance(rng, 30))
        o->flags |= SPEX_OUT_STREAMING;
    if (f->ALTCLK && chance(rng, 30))
        o->flags |= SPEX_OUT_ALT_CLOCK;
    if (accesses(op)) {
        draw_access(rng, f, &o->access[0]);
        draw_access(rng, f, &o->access[1]);
        for (unsigned i = 0; i < 2; i++) { /* no Active element; the one that is chosen is not */
            uint16_t *flags = &o->access[i].flags;
            if (o->events & BIT(SPEX_EV_EMPTY_PRED))
                *flags = chance(rng, 50) ? SPEX_ACC_VA | SPEX_ACC_INACTIVE : 0;
            else if (o->events & BIT(SPEX_EV_PARTIAL_PRED) && chance(rng, 30))
                *flags &= (uint16_t) ~(SPEX_ACC_VA | SPEX_ACC_PA);
        }
        if (op->flags & SPEX_OPF_EXCL && op->flags & SPEX_OPF_STORE && chance(rng, 30)) {
            o->flags |= SPEX_OUT_MONITOR_FAIL;
            o->access[0].flags &= (uint16_t)~SPEX_ACC_DONE;
        }
        if (o->flags & SPEX_OUT_EXCEPTION)
            o->access[0].flags = o->access[1].flags = SPEX_ACC_VA;
    }
}

/* Choices at random, but those about the buffer, and what the checker cannot know. */
static void draw_choices(struct rng *rng, struct spu_choices *choices,
                         const struct arch_features *f)
{
    const struct spex_spu_choice *c;
    spu_choices_default(choices);
    for (size_t i = 0; (c = spex_spu_choice_at(i)); i++) {
        uint64_t *field = spu_choice_field(choices, i);
        if (!strcmp(c->name, "ft_zero"))
            break; /* filters and buffer from here on */
        if (c->max < UINT64_MAX && chance(rng, 50))
            *field = c->min + rng_below(rng, (uint32_t)(c->max - c->min + 1));
    }
    static const uint8_t impdef[] = {0, 6, 7, 16, 31};
    choices->impdef_counter = impdef[rng_below(rng, 5)];
    choices->impdef_address = impdef[rng_below(rng, 5)];
    choices->impdef_events = rng_next(rng) & (BITS(63, 48) | BITS(15, 12) |
                                              (f->version < 5 && !f->SPE_SME ? BITS(31, 24) : 0));
    choices->store_events = rng_next(rng);
    choices->events_size = 0;
    choices->counter_disabled = 0;
    choices->alt_clock = f->ALTCLK ? choices->alt_clock : 0;
    if (choices->alt_clock == ALT_CLOCK_IMPDEF && !choices->impdef_counter)
        choices->impdef_counter = 6;
    choices->layout = rng_below(rng, 2) ? 1 : 3; /* n1 has no place for everything */
    choices->in_flight = 1;
    choices->select_after = 0;
}

static void test_every_choice_conforms(void **state)
{
    static const char *const lists[] = {"max",
                                        "neoverse-n1",
                                        "neoverse-v1",
                                        "neoverse-n2",
                                        "v1p0",
                                        "v1p1",
                                        "v1p3",
                                        "v1p4",
                                        "max,maxsize=11,align=4",
                                        "v1p2,no-spe-sme,no-ev-smcu,no-sme"};
    struct memory memory = {malloc(BUFFER), 0};
    size_t total = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        const char *list = lists[seed % (sizeof lists / sizeof lists[0])];
        struct rng rng = {seed};
        struct spu_config config;
        struct spex_error error;
        struct spex_spu *unit;
        spu_config_default(&config);
        if (arch_features_parse(list, &config.features, &error))
            fail_msg("%s", error.text);
        config.features.MaxSize = 11;
        draw_choices(&rng, &config.choices, &config.features);
        config.host.user = &memory;
        config.host.write = write_buffer;
        config.host.counter = read_counter;
        if (spu_new(&config, &unit, &error))
            fail_msg("%s seed %u: %s", list, (unsigned)seed, error.text);
        spex_spu_boot(unit);
        bool ts = seed & 1;
        bool el2 = config.features.EL2 && seed % 3 == 0; /* EL2 owns the buffer */
        if (el2)
            spex_spu_set(unit, SPEX_MDCR_EL2, 0);
        spex_spu_set(unit, SPEX_PMSCR_EL2, 3 | 1 << 3 | 1 << 4 | (unsigned)ts << 5);
        spex_spu_set(unit, SPEX_CONTEXTIDR_EL2, 0x5678);
        spex_spu_set(unit, SPEX_PMSCR_EL1, 3 | 1 << 3 | 1 << 4 | (unsigned)ts << 5);
        spex_spu_set(unit, SPEX_CONTEXTIDR_EL1, 0x1234);
        spex_spu_set(unit, SPEX_PMSIRR_EL1, 1 << 8);
        spex_spu_set(unit, SPEX_PMSICR_EL1, 0);
        spex_spu_set(unit, SPEX_PMBPTR_EL1, START);
        spex_spu_set(unit, SPEX_PMBLIMITR_EL1, (START + BUFFER) | 1);
        spex_spu_context_sync(unit);
        for (unsigned i = 0; i < OPERATIONS; i++) {
            struct spex_spu_state pe = {.el = (uint8_t)(i / 7 % (el2 ? 3 : 2)),
                                        .security = SPEX_NONSECURE};
            struct spex_op op;
            struct spex_outcome outcome;
            spex_spu_set_state(unit, &pe);
            draw_op(&rng, &config.features, pe.el, &op);
            draw_outcome(&rng, &config.features, pe.el, &op, &outcome);
            if (spex_spu_until(unit) != UINT64_MAX)
                spex_spu_pass(unit, spex_spu_until(unit));
            spex_spu_op(unit, 0x400000 + 4 * i, &op, &outcome);
        }
        uint64_t end = 0, status = 0;
        spex_spu_psb(unit, NULL);
        spex_spu_get(unit, SPEX_PMBPTR_EL1, &end);
        spex_spu_get(unit, SPEX_PMBSR_EL1, &status);
        assert_int_equal(status & BIT(17), 0);
        struct spex_verifier verifier;
        struct spex_violation v;
        config.features.TS = ts;
        verifier_init(&verifier, &config.features);
        if (config.choices.omit_issue)
            spex_verifier_ignore(&verifier, "issue-missing");
        spex_verifier_feed(&verifier, memory.data, end - START, 0, true);
        while (spex_verifier_next(&verifier, &v) == SPEX_OK)
            if (!v.rule->unless) /* latencies are drawn without regard to each other */
                fail_msg("%s seed %u: record %u at %llu: %s: %s", list, (unsigned)seed,
                         (unsigned)v.record, (unsigned long long)v.offset, v.rule->id, v.what);
        total += verifier.records;
        spex_spu_free(unit);
    }
    free(memory.data);
    assert_true(total > 100000);
}

TEST_MAIN(TEST(test_every_choice_conforms))
