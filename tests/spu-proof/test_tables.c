/*
 * Tables D17-1 to D17-10 as the manual prints them, each row with every X
 * expanded, driven from register writes to observed results: an event is made
 * to happen by the test host, and what the registers, PMBIRQ, the exception or
 * the record then show is compared with the cell. One file, as they are one chapter of the manual.
 */
#include "rig.h"

#include "base/bits.h"

/* Cells of the tables: a register or target, or why there is none. */
enum cell { NONE, EL1, EL2, EL3, PENDING_B, PENDING_C, NOT_APPLICABLE };

static const unsigned status_registers[] = {0, SPEX_PMBSR_EL1, SPEX_PMBSR_EL2, SPEX_PMBSR_EL3};

/* ---- Tables D17-5, D17-6, D17-7: which PMBSR_ELx records the event ---- */

/* clang-format off */
enum injected {
    GPF_STAGE1, GPF_STAGE2, GPC_FAULT,         /* D17-5 */
    EXTERNAL_STAGE1, EXTERNAL_STAGE2,          /* D17-6 */
    ABORT_STAGE1, ABORT_STAGE2,                /* D17-7 */
    BUFFER_FULL, NOT_ALLOWED, COLLISION,       /* D17-7: other event */
    INJECTED_COUNT
};
/* clang-format on */

static const struct {
    struct spex_spu_stop stop;
    unsigned ec, mss;
} injections[INJECTED_COUNT] = {
    [GPF_STAGE1] = {{SPEX_STOP_FAULT, 0x28, 0, 0}, 0x24, 0x28},
    [GPF_STAGE2] = {{SPEX_STOP_FAULT, 0x25, SPEX_STOP_STAGE2, 0}, 0x25, 0x25},
    [GPC_FAULT] = {{SPEX_STOP_FAULT, 0, SPEX_STOP_GPC, 0}, 0x1e, 0},
    [EXTERNAL_STAGE1] = {{SPEX_STOP_ABORT, 0x15, SPEX_STOP_WALK, 0}, 0x24, 0x15},
    [EXTERNAL_STAGE2] = {{SPEX_STOP_ABORT, 0x16, SPEX_STOP_WALK | SPEX_STOP_STAGE2, 0}, 0x25, 0x16},
    [ABORT_STAGE1] = {{SPEX_STOP_FAULT, 0x07, 0, 0}, 0x24, 0x07},
    [ABORT_STAGE2] = {{SPEX_STOP_FAULT, 0x06, SPEX_STOP_STAGE2, 0}, 0x25, 0x06},
    [BUFFER_FULL] = {{0}, 0, 1},
};

struct controls {
    unsigned pmsee, scr_gpf, scr_ea, ee2, e2pb, hcr_gpf, hcr_tea;
};

/* A record is written (or not) while the event is made to happen; el is the expected register. */
static void inject(struct rig *rig, const struct controls *c, enum injected what, unsigned el)
{
    rig_state(rig, 3, SPEX_ROOT);
    for (unsigned i = 1; i <= 3; i++)
        rig_set(rig, status_registers[i], 0);
    rig_set(rig, SPEX_PMSCR_EL1, 0);
    RIG_FIELD(rig, MDCR_EL3, PMSEE, c->pmsee);
    RIG_FIELD(rig, SCR_EL3, GPF, c->scr_gpf);
    RIG_FIELD(rig, SCR_EL3, EA, c->scr_ea);
    RIG_FIELD(rig, HCR_EL2, GPF, c->hcr_gpf);
    RIG_FIELD(rig, HCR_EL2, TEA, c->hcr_tea);
    RIG_FIELD(rig, MDCR_EL2, E2PB, c->e2pb);
    RIG_FIELD(rig, PMSCR_EL2, EE, c->ee2);
    rig_state(rig, 1, SPEX_NONSECURE);
    rig_start(rig, 0x10000);
    host_clear(&rig->host);
    rig->host.plan = (struct plan){0, UINT64_MAX, injections[what].stop};
    uint64_t coll = 0, s = 1, dl = 0;
    if (what == BUFFER_FULL)
        rig_set(rig, SPEX_PMBPTR_EL1, RIG_BASE + 0x10000 - 0x100);
    if (what == COLLISION) {
        /* One in flight is the most; the second sample collides. */
        struct made_op op;
        ops_plain(SPEX_OP_OTHER, 0, &op);
        rig_arm(rig);
        int slot = spex_spu_begin(rig->unit, op.pc, 0);
        assert_true(slot >= 0);
        rig_arm(rig);
        assert_int_equal(spex_spu_begin(rig->unit, op.pc, 0), SPEX_SPU_NOT_SAMPLED);
        coll = 1;
        s = 0;
        spex_spu_abandon(rig->unit, slot);
    } else if (what == NOT_ALLOWED) {
        /* The buffer is disabled under a sample in flight; choice late_write=not-allowed. */
        struct made_op op;
        ops_plain(SPEX_OP_OTHER, 0, &op);
        rig_arm(rig);
        int slot = spex_spu_begin(rig->unit, op.pc, 0);
        assert_true(slot >= 0);
        RIG_FIELD(rig, PMBLIMITR_EL1, E, 0);
        spex_spu_complete(rig->unit, slot, &op.op, &op.outcome);
        dl = 1;
    } else {
        rig_sample_plain(rig);
    }
    for (unsigned i = 1; i <= 3; i++) {
        uint64_t want = 0;
        if (i == el)
            want = (uint64_t)injections[what].ec << 26 | dl << 19 | s << 17 | coll << 16 |
                   injections[what].mss;
        uint64_t got = rig_get(rig, status_registers[i]);
        if (got != want)
            fail_msg("event %d PMSEE %u SCR.GPF %u EA %u EE %u E2PB %u HCR.GPF %u TEA %u: "
                     "PMBSR_EL%u is 0x%llx, not 0x%llx",
                     what, c->pmsee, c->scr_gpf, c->scr_ea, c->ee2, c->e2pb, c->hcr_gpf, c->hcr_tea,
                     i, (unsigned long long)got, (unsigned long long)want);
    }
}

static struct rig rig;
static unsigned long combinations;

struct row5 {
    const char *id, *cells[5];
    unsigned stage1, stage2, gpc;
};

/* clang-format off */
/*                        PMSEE  SCR.GPF  EE2    E2PB  HCR.GPF   stage 1  stage 2  GPC */
#define ROW(id, a, b, c, d, e, s1, s2, gpc) {id, {a, b, c, d, e}, s1, s2, gpc}
static const struct row5 d17_5[] = {
    ROW("BUF-37",         "00",  "x",     "xx",  "xx", "x",      EL1,     EL1,     EL1),
    ROW("BUF-38",         "01",  "x",     "0x",  "xx", "x",      EL1,     EL1,     EL1),
    ROW("BUF-39",         "01",  "x",     "10",  "00", "x",      EL2,     EL2,     EL2),
    ROW("BUF-40",         "01",  "x",     "10",  "1x", "0",      EL1,     EL2,     EL2),
    ROW("BUF-41",         "01",  "x",     "10",  "1x", "1",      EL2,     EL2,     EL2),
    ROW("BUF-42",         "01",  "x",     "11",  "xx", "x",      EL2,     EL2,     EL2),
    ROW("BUF-43",         "10",  "0",     "0x",  "xx", "x",      EL1,     EL1,     EL3),
    ROW("BUF-44",         "10",  "0",     "10",  "00", "x",      EL2,     EL2,     EL3),
    ROW("BUF-45",         "10",  "0",     "10",  "1x", "0",      EL1,     EL2,     EL3),
    ROW("BUF-46",         "10",  "0",     "10",  "1x", "1",      EL2,     EL2,     EL3),
    ROW("BUF-47",         "10",  "0",     "11",  "xx", "x",      EL2,     EL2,     EL3),
    ROW("BUF-48",         "10",  "1",     "xx",  "xx", "x",      EL3,     EL3,     EL3),
    ROW("BUF-49",         "11",  "x",     "xx",  "xx", "x",      EL3,     EL3,     EL3),
};
/* clang-format on */
#undef ROW

static void each5(void *context, const unsigned *v)
{
    const struct row5 *row = context;
    struct controls c = {
        .pmsee = v[0], .scr_gpf = v[1], .ee2 = v[2], .e2pb = v[3], .hcr_gpf = v[4]};
    if (c.e2pb == 1) /* reserved */
        return;
    combinations++;
    inject(&rig, &c, GPF_STAGE1, row->stage1);
    inject(&rig, &c, GPF_STAGE2, row->stage2);
    inject(&rig, &c, GPC_FAULT, row->gpc);
}

static void test_d17_5(void **state)
{
    SPEC(BUF-22);
    SPEC(BUF-23);
    SPEC(BUF-24);
    SPEC(BUF-27);
    SPEC(BUF-29);
    SPEC(BUF-30);
    SPEC(BUF-32);
    SPEC(BUF-33);
    SPEC(BUF-09);
    SPEC(BUF-167);
    SPEC(BUF-170);
    rig_open(&rig, "max", "");
    for (size_t i = 0; i < sizeof d17_5 / sizeof *d17_5; i++) {
        SPEC_ID(d17_5[i].id);
        rig_expand(d17_5[i].cells, 5, each5, (void *)&d17_5[i]);
    }
    rig_close(&rig);
}

struct row6 {
    const char *id, *cells[5];
    unsigned stage1, stage2;
};

/* clang-format off */
/*                        PMSEE  SCR.EA  EE2    E2PB  HCR.TEA   stage 1  stage 2 */
#define ROW(id, a, b, c, d, e, s1, s2) {id, {a, b, c, d, e}, s1, s2}
static const struct row6 d17_6[] = {
    ROW("BUF-50",         "00",  "x",    "xx",  "xx", "x",      EL1,     EL1),
    ROW("BUF-51",         "01",  "x",    "0x",  "xx", "x",      EL1,     EL1),
    ROW("BUF-52",         "01",  "x",    "10",  "00", "x",      EL2,     EL2),
    ROW("BUF-53",         "01",  "x",    "10",  "1x", "0",      EL1,     EL2),
    ROW("BUF-54",         "01",  "x",    "10",  "1x", "1",      EL2,     EL2),
    ROW("BUF-55",         "01",  "x",    "11",  "xx", "x",      EL2,     EL2),
    ROW("BUF-56",         "10",  "0",    "0x",  "xx", "x",      EL1,     EL1),
    ROW("BUF-57",         "10",  "0",    "10",  "00", "x",      EL2,     EL2),
    ROW("BUF-58",         "10",  "0",    "10",  "1x", "0",      EL1,     EL2),
    ROW("BUF-59",         "10",  "0",    "10",  "1x", "1",      EL2,     EL2),
    ROW("BUF-60",         "10",  "0",    "11",  "xx", "x",      EL2,     EL2),
    ROW("BUF-61",         "10",  "1",    "xx",  "xx", "x",      EL3,     EL3),
    ROW("BUF-62",         "11",  "x",    "xx",  "xx", "x",      EL3,     EL3),
};
/* clang-format on */
#undef ROW

static void each6(void *context, const unsigned *v)
{
    const struct row6 *row = context;
    struct controls c = {.pmsee = v[0], .scr_ea = v[1], .ee2 = v[2], .e2pb = v[3], .hcr_tea = v[4]};
    if (c.e2pb == 1)
        return;
    combinations++;
    inject(&rig, &c, EXTERNAL_STAGE1, row->stage1);
    inject(&rig, &c, EXTERNAL_STAGE2, row->stage2);
}

/* With FEAT_SPE_EXC only aborts on walks are reported, as MMU faults: IFDVRZ. */
static void test_d17_6(void **state)
{
    SPEC(BUF-25);
    SPEC(BUF-31);
    SPEC(BUF-36);
    SPEC(BUF-187);
    rig_open(&rig, "max", "walk_abort=fault");
    for (size_t i = 0; i < sizeof d17_6 / sizeof *d17_6; i++) {
        SPEC_ID(d17_6[i].id);
        rig_expand(d17_6[i].cells, 5, each6, (void *)&d17_6[i]);
    }
    rig_close(&rig);
}

/* HCR_EL2.TEA is Effective only with FEAT_RAS. */
static void test_d17_6_without_ras(void **state)
{
    SPEC(BUF-31);
    rig_open(&rig, "max,no-ras", "walk_abort=fault");
    inject(&rig, &(struct controls){.pmsee = 1, .ee2 = 2, .e2pb = 3, .hcr_tea = 1}, EXTERNAL_STAGE1,
           EL1);
    rig_close(&rig);
}

struct row7 {
    const char *id, *cells[3];
    unsigned stage1, stage2, other;
};

/* clang-format off */
/*                        PMSEE  EE2    E2PB    stage 1  stage 2  other event */
#define ROW(id, a, b, c, s1, s2, other) {id, {a, b, c}, s1, s2, other}
static const struct row7 d17_7[] = {
    ROW("BUF-63",         "00",  "xx",  "xx",   EL1,     EL1,     EL1),
    ROW("BUF-64",         "01",  "0x",  "xx",   EL1,     EL1,     EL1),
    ROW("BUF-65",         "01",  "10",  "00",   EL2,     EL2,     EL1),
    ROW("BUF-66",         "01",  "10",  "1x",   EL1,     EL2,     EL1),
    ROW("BUF-67",         "01",  "11",  "xx",   EL2,     EL2,     EL2),
    ROW("BUF-68",         "10",  "0x",  "xx",   EL1,     EL1,     EL1),
    ROW("BUF-69",         "10",  "10",  "00",   EL2,     EL2,     EL1),
    ROW("BUF-70",         "10",  "10",  "1x",   EL1,     EL2,     EL1),
    ROW("BUF-71",         "10",  "11",  "xx",   EL2,     EL2,     EL2),
    ROW("BUF-72",         "11",  "xx",  "xx",   EL3,     EL3,     EL3),
};
/* clang-format on */
#undef ROW

static void each7(void *context, const unsigned *v)
{
    const struct row7 *row = context;
    struct controls c = {.pmsee = v[0], .ee2 = v[1], .e2pb = v[2]};
    if (c.e2pb == 1)
        return;
    combinations++;
    inject(&rig, &c, ABORT_STAGE1, row->stage1);
    inject(&rig, &c, ABORT_STAGE2, row->stage2);
    inject(&rig, &c, BUFFER_FULL, row->other);
    inject(&rig, &c, NOT_ALLOWED, row->other);
    inject(&rig, &c, COLLISION, row->other);
}

static void test_d17_7(void **state)
{
    SPEC(BUF-28);
    SPEC(BUF-151);
    SPEC(BUF-207);
    SPEC(SMP-46);
    SPEC(SMP-47);
    SPEC(BUF-204);
    SPEC(BUF-205);
    SPEC(BUF-206);
    rig_open(&rig, "max", "late_write=not-allowed");
    for (size_t i = 0; i < sizeof d17_7 / sizeof *d17_7; i++) {
        SPEC_ID(d17_7[i].id);
        rig_expand(d17_7[i].cells, 3, each7, (void *)&d17_7[i]);
    }
    rig_close(&rig);
}

/* BUF-34: without EL3 PMSEE acts as 01. BUF-21: without FEAT_SPE_EXC there is PMBSR_EL1 only. */
static void test_reporting_without_el3(void **state)
{
    SPEC(BUF-34);
    rig_open(&rig, "max,no-rme,no-el3,no-secure,no-sel2", "");
    for (unsigned ee = 0; ee < 4; ee++) {
        rig_set(&rig, SPEX_PMBSR_EL1, 0);
        rig_set(&rig, SPEX_PMBSR_EL2, 0);
        RIG_FIELD(&rig, MDCR_EL2, E2PB, 3);
        RIG_FIELD(&rig, PMSCR_EL2, EE, ee);
        rig_state(&rig, 1, SPEX_NONSECURE);
        rig_start(&rig, 0x10000);
        rig.host.plan = (struct plan){0, UINT64_MAX, injections[ABORT_STAGE2].stop};
        rig_sample_plain(&rig);
        assert_int_equal(RIG_GET(&rig, PMBSR_EL1, S), ee < 2);
        assert_int_equal(RIG_GET(&rig, PMBSR_EL2, S), ee >= 2);
        rig_set(&rig, SPEX_PMSCR_EL1, 0);
    }
    rig_close(&rig);
}

static void test_reporting_without_exceptions(void **state)
{
    SPEC(BUF-21);
    rig_open(&rig, "v1p4", "");
    for (unsigned e2pb = 0; e2pb < 4; e2pb++) {
        for (enum injected what = GPF_STAGE1; what <= BUFFER_FULL; what++) {
            if (e2pb == 1)
                continue;
            rig_state(&rig, 3, SPEX_ROOT);
            RIG_FIELD(&rig, MDCR_EL3, PMSEE, 3);
            RIG_FIELD(&rig, SCR_EL3, GPF, 1);
            RIG_FIELD(&rig, SCR_EL3, EA, 1);
            RIG_FIELD(&rig, MDCR_EL2, E2PB, e2pb);
            rig_state(&rig, 1, SPEX_NONSECURE);
            rig_start(&rig, 0x10000);
            rig.host.plan = (struct plan){0, UINT64_MAX, injections[what].stop};
            if (what == BUFFER_FULL)
                rig_set(&rig, SPEX_PMBPTR_EL1, RIG_BASE + 0x10000 - 0x100);
            rig_sample_plain(&rig);
            assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1),
                             (uint64_t)injections[what].ec << 26 | 1 << 17 | injections[what].mss);
            assert_true(rig.host.irq);
            uint64_t value;
            assert_false(spex_spu_get(rig.unit, SPEX_PMBSR_EL2, &value));
            assert_false(spex_spu_get(rig.unit, SPEX_PMBSR_EL3, &value));
        }
    }
    rig_close(&rig);
}

/* ---- Tables D17-8, D17-9, D17-10: interrupt and exception ---- */

#define None NONE
#define na NOT_APPLICABLE
#define B PENDING_B
#define C PENDING_C
enum { LOW, HIGH, UNSAID };

struct row8 {
    const char *id;
    unsigned source;
    const char *cells[6]; /* PMSEE EE2 KE2 TGE EE1 KE1 */
    const char *pm;
    int irq;
    enum cell from[4];
};

/* clang-format off */
/* D17-8 has no PMSCR_EL2.KE, D17-9 no PMSCR_EL1.{EE,KE}, D17-10 neither: x. */
#define ROW8(id, pmsee, ee2, tge, ee, ke, pm, irq, e0, e1, e2, e3)                                 \
    {id, 1, {pmsee, ee2, "x", tge, ee, ke}, pm, irq, {e0, e1, e2, e3}}
#define ROW9(id, pmsee, ee2, ke, tge, pm, e0, e1, e2, e3)                                          \
    {id, 2, {pmsee, ee2, ke, tge, "xx", "x"}, pm, UNSAID, {e0, e1, e2, e3}}
#define ROW10(id, pmsee, tge, e0, e1, e2, e3)                                                      \
    {id, 3, {pmsee, "xx", "x", tge, "xx", "x"}, "x", UNSAID, {e0, e1, e2, e3}}
static const struct row8 exceptions[] = {
    /*               PMSEE    EE2      TGE  EE    KE   PM   IRQ   EL0   EL1   EL2   EL3 */
    ROW8("BUF-94",   "00",    "xx",    "0", "xx", "x", "x", HIGH, None, None, None, None),
    ROW8("BUF-95",   "00",    "xx",    "1", "xx", "x", "x", HIGH, None, na,   None, None),
    ROW8("BUF-96",   "!=00",  "00",    "0", "xx", "x", "x", HIGH, None, None, None, None),
    ROW8("BUF-97",   "!=00",  "00",    "1", "xx", "x", "x", HIGH, None, na,   None, None),
    ROW8("BUF-98",   "!=00",  "!=00",  "0", "0x", "x", "x", HIGH, None, None, None, None),
    ROW8("BUF-99",   "!=00",  "!=00",  "0", "1x", "0", "x", LOW,  EL1,  C,    C,    C),
    ROW8("BUF-100",  "!=00",  "!=00",  "0", "1x", "1", "0", LOW,  EL1,  EL1,  C,    C),
    ROW8("BUF-101",  "!=00",  "!=00",  "0", "1x", "1", "1", LOW,  EL1,  B,    C,    C),
    ROW8("BUF-102",  "!=00",  "!=00",  "1", "0x", "x", "x", HIGH, None, na,   None, None),
    ROW8("BUF-103",  "!=00",  "!=00",  "1", "1x", "x", "x", LOW,  EL2,  na,   C,    C),
    /*               PMSEE    EE2   KE   TGE  PM   EL0   EL1   EL2   EL3 */
    ROW9("BUF-104",  "00",    "xx", "x", "0", "x", None, None, None, None),
    ROW9("BUF-105",  "00",    "xx", "x", "1", "x", None, na,   None, None),
    ROW9("BUF-106",  "!=00",  "0x", "x", "0", "x", None, None, None, None),
    ROW9("BUF-107",  "!=00",  "0x", "x", "1", "x", None, na,   None, None),
    ROW9("BUF-108",  "!=00",  "10", "x", "0", "x", EL2,  EL2,  C,    C),
    ROW9("BUF-109",  "!=00",  "10", "x", "1", "x", EL2,  na,   C,    C),
    ROW9("BUF-110",  "!=00",  "11", "0", "0", "x", EL2,  EL2,  C,    C),
    ROW9("BUF-111",  "!=00",  "11", "0", "1", "x", EL2,  na,   C,    C),
    ROW9("BUF-112",  "!=00",  "11", "1", "0", "0", EL2,  EL2,  EL2,  C),
    ROW9("BUF-113",  "!=00",  "11", "1", "0", "1", EL2,  EL2,  B,    C),
    ROW9("BUF-114",  "!=00",  "11", "1", "1", "0", EL2,  na,   EL2,  C),
    ROW9("BUF-115",  "!=00",  "11", "1", "1", "1", EL2,  na,   B,    C),
    /*               PMSEE  TGE  EL0   EL1   EL2   EL3 */
    ROW10("BUF-116", "0x",  "0", None, None, None, None),
    ROW10("BUF-117", "0x",  "1", None, na,   None, None),
    ROW10("BUF-118", "10",  "0", EL3,  EL3,  EL3,  C),
    ROW10("BUF-119", "10",  "1", EL3,  na,   EL3,  C),
    ROW10("BUF-120", "11",  "0", EL3,  EL3,  EL3,  C),
    ROW10("BUF-121", "11",  "1", EL3,  na,   EL3,  C),
};
/* clang-format on */
#undef B
#undef C
#undef na
#undef None

static void each8(void *context, const unsigned *v)
{
    const struct row8 *row = context;
    struct rig *r = &rig;
    unsigned pm = v[6];
    combinations++;
    rig_state(r, 3, SPEX_ROOT);
    for (unsigned i = 1; i <= 3; i++)
        rig_write(r, status_registers[i], i == row->source ? BIT(17) : 0);
    RIG_FIELD(r, MDCR_EL3, PMSEE, v[0]);
    RIG_FIELD(r, PMSCR_EL2, EE, v[1]);
    RIG_FIELD(r, PMSCR_EL2, KE, v[2]);
    RIG_FIELD(r, HCR_EL2, TGE, v[3]);
    RIG_FIELD(r, PMSCR_EL1, EE, v[4]);
    RIG_FIELD(r, PMSCR_EL1, KE, v[5]);
    for (unsigned el = 0; el < 4; el++) {
        if (row->from[el] == NOT_APPLICABLE)
            continue;
        struct spex_spu_state state;
        rig_state(r, el, el == 3 ? SPEX_ROOT : SPEX_NONSECURE);
        spex_spu_get_state(r->unit, &state);
        state.pm = pm;
        spex_spu_set_state(r->unit, &state);
        struct spex_spu_exception e;
        spex_spu_get_exception(r->unit, 0, &e);
        enum cell want = row->from[el];
        bool pending = want != NONE, unmasked = want >= EL1 && want <= EL3;
        if (e.pending != pending || e.unmasked != unmasked || (unmasked && e.target != want) ||
            (pending && e.source != row->source))
            fail_msg("%s PMSEE %u EE2 %u KE2 %u TGE %u EE %u KE %u PM %u at EL%u: "
                     "pending %d unmasked %d target %u",
                     row->id, v[0], v[1], v[2], v[3], v[4], v[5], pm, el, e.pending, e.unmasked,
                     e.target);
        /* B against C: with PSTATE.PM clear only B would be taken. */
        if (want == PENDING_B || want == PENDING_C) {
            state.pm = false;
            spex_spu_set_state(r->unit, &state);
            spex_spu_get_exception(r->unit, 0, &e);
            if (e.unmasked != (want == PENDING_B))
                fail_msg("%s at EL%u: PSTATE.PM decides: %d", row->id, el, e.unmasked);
            state.pm = pm;
            spex_spu_set_state(r->unit, &state);
            spex_spu_get_exception(r->unit, 0, &e);
        }
        /* The host heard the same. */
        assert_int_equal(r->host.exception.pending, e.pending);
        assert_int_equal(r->host.exception.unmasked, e.unmasked);
        assert_int_equal(r->host.exception.target, e.target);
        if (e.pending) /* EC 0x3D, IL, FSC 1, asynchronous */
            assert_int_equal(e.esr, UINT64_C(0x3d) << 26 | BIT(25) | 1 << 1);
        if (row->irq != UNSAID && r->host.irq != (row->irq == HIGH))
            fail_msg("%s PMSEE %u EE2 %u TGE %u EE %u at EL%u: PMBIRQ is %d", row->id, v[0], v[1],
                     v[3], v[4], el, r->host.irq);
        if (row->irq == UNSAID)
            assert_false(r->host.irq); /* PMBSR_EL1.S is 0 */
    }
}

static void test_d17_8_to_10(void **state)
{
    SPEC(BUF-77);
    SPEC(BUF-78);
    SPEC(BUF-79);
    SPEC(BUF-81);
    SPEC(BUF-82);
    SPEC(BUF-83);
    SPEC(BUF-84);
    SPEC(BUF-86);
    SPEC(BUF-87);
    SPEC(BUF-88);
    SPEC(BUF-89);
    SPEC(BUF-90);
    SPEC(BUF-91);
    SPEC(BUF-131);
    SPEC(BUF-132);
    SPEC(BUF-133);
    SPEC(BUF-134);
    rig_open(&rig, "max", "");
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++) {
        const struct row8 *row = &exceptions[i];
        const char *cells[7];
        memcpy(cells, row->cells, sizeof row->cells);
        cells[6] = row->pm;
        SPEC_ID(row->id);
        rig_expand(cells, 7, each8, (void *)row);
    }
    rig_close(&rig);
}

/* BUF-122: without FEAT_NV the reserved values of PMSCR_EL1.EE act as chosen. */
static void test_reserved_ee(void **state)
{
    SPEC(BUF-122);
    for (unsigned choice = 0; choice < 2; choice++) {
        rig_open(&rig, "max,no-nv2,no-nv", choice ? "reserved_ee=0b11" : "reserved_ee=0b00");
        rig_state(&rig, 3, SPEX_ROOT);
        RIG_FIELD(&rig, MDCR_EL3, PMSEE, 1);
        RIG_FIELD(&rig, PMSCR_EL2, EE, 1);
        rig_write(&rig, SPEX_PMBSR_EL1, BIT(17));
        rig_state(&rig, 0, SPEX_NONSECURE);
        for (unsigned ee = 0; ee < 4; ee++) {
            RIG_FIELD(&rig, PMSCR_EL1, EE, ee);
            bool on = ee == 3 || (ee && choice);
            assert_int_equal(rig.host.irq, !on);
            assert_int_equal(rig.host.exception.unmasked, on);
        }
        rig_close(&rig);
    }
}

/* The Security state: only the owner's, and never in Debug state. */
static void test_exceptions_need_the_owning_state(void **state)
{
    SPEC(BUF-80);
    SPEC(BUF-85);
    rig_open(&rig, "max", "");
    for (unsigned source = 1; source <= 3; source++) {
        rig_state(&rig, 3, SPEX_ROOT);
        for (unsigned i = 1; i <= 3; i++)
            rig_write(&rig, status_registers[i], i == source ? BIT(17) : 0);
        RIG_FIELD(&rig, MDCR_EL3, PMSEE, 2);
        RIG_FIELD(&rig, PMSCR_EL2, EE, 2);
        RIG_FIELD(&rig, PMSCR_EL1, EE, 3);
        RIG_FIELD(&rig, SCR_EL3, EEL2, 1);
        for (enum spex_security s = SPEX_SECURE; s <= SPEX_REALM; s++) {
            rig_state(&rig, 0, s);
            struct spex_spu_exception e;
            spex_spu_get_exception(rig.unit, 0, &e);
            assert_true(e.pending);
            assert_int_equal(e.unmasked, s == SPEX_NONSECURE || source == 3);
        }
        rig_state(&rig, 0, SPEX_NONSECURE);
        struct spex_spu_state pe;
        struct spex_spu_exception e;
        spex_spu_get_state(rig.unit, &pe);
        pe.halted = true;
        spex_spu_set_state(rig.unit, &pe);
        spex_spu_get_exception(rig.unit, 0, &e);
        assert_false(e.unmasked);
        pe.halted = false;
        spex_spu_set_state(rig.unit, &pe);
    }
    rig_close(&rig);
}

/* ---- Table D17-3: the timestamp ---- */

enum { COUNT = 1000000, VOFF = 1000, POFF = 30000 };
enum stamp { NO_STAMP, VIRTUAL, PHYSICAL, OFFSET };

struct row3 {
    const char *id;
    int el2; /* 0, 1, -1 for x */
    unsigned owner;
    const char *cells[4]; /* PCT2 TS2 PCT1 TS1 */
    enum stamp stamp;
};

/*                    EL2 enabled  owner  PCT2  TS2  PCT1  TS1 */
#define ROW(id, el2, owner, pct2, ts2, pct1, ts1, stamp)                                           \
    {                                                                                              \
        id, el2, owner, {pct2, ts2, pct1, ts1}, stamp                                              \
    }
/* clang-format off */
static const struct row3 d17_3[] = {
    ROW("DAT-200",    -1,          1,     "xx", "x", "xx", "0",  NO_STAMP),
    ROW("DAT-201",    -1,          1,     "xx", "x", "00", "1",  VIRTUAL),
    ROW("DAT-202",    0,           1,     "xx", "x", "01", "1",  PHYSICAL),
    ROW("DAT-203",    0,           1,     "xx", "x", "11", "1",  OFFSET),
    ROW("DAT-204",    1,           1,     "00", "x", "xx", "1",  VIRTUAL),
    ROW("DAT-205",    1,           1,     "01", "x", "01", "1",  PHYSICAL),
    ROW("DAT-206",    1,           1,     "01", "x", "11", "1",  OFFSET),
    ROW("DAT-207",    1,           1,     "11", "x", "01", "1",  OFFSET),
    ROW("DAT-208",    1,           1,     "11", "x", "11", "1",  OFFSET),
    ROW("DAT-209",    1,           2,     "xx", "0", "xx", "x",  NO_STAMP),
    ROW("DAT-210",    1,           2,     "00", "1", "xx", "x",  VIRTUAL),
    ROW("DAT-211",    1,           2,     "01", "1", "xx", "x",  PHYSICAL),
    ROW("DAT-212",    1,           2,     "11", "1", "xx", "x",  OFFSET),
};
/* clang-format on */
#undef ROW

struct case3 {
    const struct row3 *row;
    int el2;
};

static void each3(void *context, const unsigned *v)
{
    const struct case3 *c = context;
    struct rig *r = &rig;
    if (v[0] == 2 || v[2] == 2) /* reserved PCT */
        return;
    /* EL2 enabled: Non-secure; not: Secure with SCR_EL3.EEL2 clear. */
    enum spex_security security = c->el2 ? SPEX_NONSECURE : SPEX_SECURE;
    for (unsigned el = 0; el <= c->row->owner; el++) {
        combinations++;
        rig_state(r, 3, SPEX_ROOT);
        RIG_FIELD(r, MDCR_EL3, NSPB, c->el2 ? 3 : 1);
        RIG_FIELD(r, MDCR_EL2, E2PB, c->row->owner == 2 ? 0 : 3);
        rig_start(r, 0x10000);
        RIG_FIELD(r, PMSCR_EL2, PCT, v[0]);
        RIG_FIELD(r, PMSCR_EL2, TS, v[1]);
        RIG_FIELD(r, PMSCR_EL1, PCT, v[2]);
        RIG_FIELD(r, PMSCR_EL1, TS, v[3]);
        if (c->row->owner == 2)
            RIG_FIELD(r, PMSCR_EL2, E2SPE, 1);
        rig_state(r, el, security);
        r->host.time = COUNT;
        host_clear(&r->host);
        rig_sample_plain(r);
        struct spex_record record = rig_record(r);
        static const uint64_t want[] = {0, COUNT - VOFF, COUNT, COUNT - POFF};
        bool stamped = record.present & SPEX_HAS_TIMESTAMP;
        if (stamped != (c->row->stamp != NO_STAMP) ||
            (stamped && record.timestamp != want[c->row->stamp]))
            fail_msg("%s EL2 %d PCT2 %u TS2 %u PCT1 %u TS1 %u at EL%u: %s %llu", c->row->id, c->el2,
                     v[0], v[1], v[2], v[3], el, stamped ? "timestamp" : "none",
                     (unsigned long long)record.timestamp);
    }
}

static void test_d17_3(void **state)
{
    SPEC(DAT-01);
    SPEC(DAT-190);
    SPEC(DAT-191);
    SPEC(DAT-195);
    SPEC(DAT-213);
    rig_open(&rig, "max", "");
    rig_set(&rig, SPEX_CNTVOFF_EL2, VOFF);
    rig_set(&rig, SPEX_CNTPOFF_EL2, POFF);
    RIG_FIELD(&rig, CNTHCTL_EL2, ECV, 1);
    RIG_FIELD(&rig, SCR_EL3, ECVEn, 1);
    RIG_FIELD(&rig, SCR_EL3, EEL2, 0);
    for (size_t i = 0; i < sizeof d17_3 / sizeof *d17_3; i++) {
        SPEC_ID(d17_3[i].id);
        for (int el2 = 0; el2 <= 1; el2++) {
            struct case3 c = {&d17_3[i], el2};
            if (d17_3[i].el2 < 0 || d17_3[i].el2 == el2)
                rig_expand(d17_3[i].cells, 4, each3, &c);
        }
    }
    rig_close(&rig);
}

static uint64_t stamp_of(struct rig *r, unsigned el)
{
    rig_state(r, el, SPEX_NONSECURE);
    r->host.time = COUNT;
    host_clear(&r->host);
    rig_sample_plain(r);
    struct spex_record record = rig_record(r);
    assert_true(record.present & SPEX_HAS_TIMESTAMP);
    return record.timestamp;
}

/* When the offsets are zero. */
static void test_offsets(void **state)
{
    SPEC(DAT-193);
    SPEC(DAT-194);
    SPEC(DAT-195);
    SPEC(DAT-198);
    SPEC(DAT-199);
    SPEC(DAT-237);
    SPEC(DAT-214);
    SPEC(DAT-215);
    struct rig *r = &rig;
    /* Virtual, owner EL2. */
    rig_open(r, "max", "");
    rig_set(r, SPEX_CNTVOFF_EL2, VOFF);
    rig_set(r, SPEX_CNTPOFF_EL2, POFF);
    RIG_FIELD(r, MDCR_EL2, E2PB, 0);
    rig_start(r, 0x10000);
    rig_set(r, SPEX_PMSCR_EL2, 0);
    RIG_FIELD(r, PMSCR_EL2, TS, 1);
    RIG_FIELD(r, PMSCR_EL2, E2SPE, 1);
    RIG_FIELD(r, PMSCR_EL2, E0HSPE, 1);
    for (unsigned e2h = 0; e2h < 2; e2h++) {
        for (unsigned tge = 0; tge < 2; tge++) {
            rig_state(r, 2, SPEX_NONSECURE);
            RIG_FIELD(r, HCR_EL2, E2H, e2h);
            RIG_FIELD(r, HCR_EL2, TGE, tge);
            assert_int_equal(stamp_of(r, 0), e2h && tge ? COUNT : COUNT - VOFF);
            if (!tge)
                assert_int_equal(stamp_of(r, 1), COUNT - VOFF);
            assert_int_equal(stamp_of(r, 2), e2h ? COUNT : COUNT - VOFF);
        }
    }
    /* Offset physical. */
    rig_state(r, 3, SPEX_ROOT);
    RIG_FIELD(r, HCR_EL2, TGE, 0);
    RIG_FIELD(r, PMSCR_EL2, PCT, 3);
    for (unsigned ecv = 0; ecv < 2; ecv++) {
        for (unsigned en = 0; en < 2; en++) {
            RIG_FIELD(r, CNTHCTL_EL2, ECV, ecv);
            RIG_FIELD(r, SCR_EL3, ECVEn, en);
            assert_int_equal(stamp_of(r, 1), ecv && en ? COUNT - POFF : COUNT);
        }
    }
    rig_close(r);
    /* Without EL3 there is no ECVEn. */
    rig_open(r, "max,no-rme,no-el3,no-secure,no-sel2", "");
    rig_set(r, SPEX_CNTPOFF_EL2, POFF);
    RIG_FIELD(r, CNTHCTL_EL2, ECV, 1);
    RIG_FIELD(r, MDCR_EL2, E2PB, 3);
    rig_start(r, 0x10000);
    RIG_FIELD(r, PMSCR_EL2, PCT, 3);
    RIG_FIELD(r, PMSCR_EL1, PCT, 3);
    RIG_FIELD(r, PMSCR_EL1, TS, 1);
    assert_int_equal(stamp_of(r, 1), COUNT - POFF);
    rig_close(r);
    /* Without FEAT_ECV PCT[1] is RES0: 11 acts as 01, 10 as 00. */
    rig_open(r, "max,no-ecv,no-ecv-poff", "");
    rig_set(r, SPEX_CNTVOFF_EL2, VOFF);
    RIG_FIELD(r, PMSCR_EL2, PCT, 3);
    rig_start(r, 0x10000);
    RIG_FIELD(r, PMSCR_EL1, TS, 1);
    RIG_FIELD(r, PMSCR_EL1, PCT, 3);
    assert_int_equal(RIG_GET(r, PMSCR_EL1, PCT), 1);
    assert_int_equal(stamp_of(r, 1), COUNT);
    RIG_FIELD(r, PMSCR_EL1, PCT, 2);
    assert_int_equal(RIG_GET(r, PMSCR_EL1, PCT), 0);
    assert_int_equal(stamp_of(r, 1), COUNT - VOFF);
    rig_close(r);
    /* Without EL2: PCT1 reads 01, no offset. */
    rig_open(r, "min", "");
    rig_start(r, 0x10000);
    rig_write(r, SPEX_PMSCR_EL1, rig_read(r, SPEX_PMSCR_EL1) & ~UINT64_C(0xc0));
    assert_int_equal(RIG_GET(r, PMSCR_EL1, PCT), 1);
    RIG_FIELD(r, PMSCR_EL1, TS, 1);
    assert_int_equal(stamp_of(r, 1), COUNT);
    rig_close(r);
}

/* ---- Tables D17-1, D17-2, D17-4 ---- */

/* Which control enables profiling at an Exception level. */
enum enable { OFF, E0SPE, E1SPE, E2SPE, E0HSPE, ABSENT };

struct row1 {
    enum spex_security security;
    const char *cells[5]; /* NSPBE NSPB EEL2 E2PB TGE */
    enum enable at[4];    /* EL0 EL1 EL2 EL3 */
};

/* clang-format off */
/*                      NSPBE NSPB   EEL2  E2PB  TGE     EL0     EL1     EL2     EL3 */
#define ROW(s, nspbe, nspb, eel2, e2pb, tge, ...) {s, {nspbe, nspb, eel2, e2pb, tge}, {__VA_ARGS__}}
static const struct row1 d17_1[] = {
    ROW(SPEX_SECURE,    "0",  "0x",  "0",  "xx", "x",    E0SPE,  E1SPE,  ABSENT, OFF),
    ROW(SPEX_SECURE,    "0",  "0x",  "1",  "00", "0",    E0SPE,  E1SPE,  E2SPE,  OFF),
    ROW(SPEX_SECURE,    "0",  "0x",  "1",  "00", "1",    E0HSPE, ABSENT, E2SPE,  OFF),
    ROW(SPEX_SECURE,    "0",  "0x",  "1",  "1x", "0",    E0SPE,  E1SPE,  OFF,    OFF),
    ROW(SPEX_SECURE,    "0",  "0x",  "1",  "1x", "1",    OFF,    ABSENT, OFF,    OFF),
    ROW(SPEX_SECURE,    "0",  "1x",  "x",  "xx", "0",    OFF,    OFF,    OFF,    OFF),
    ROW(SPEX_SECURE,    "1",  "1x",  "x",  "xx", "0",    OFF,    OFF,    OFF,    OFF),
    ROW(SPEX_NONSECURE, "0",  "0x",  "x",  "xx", "0",    OFF,    OFF,    OFF,    OFF),
    ROW(SPEX_NONSECURE, "0",  "1x",  "x",  "00", "0",    E0SPE,  E1SPE,  E2SPE,  OFF),
    ROW(SPEX_NONSECURE, "0",  "1x",  "x",  "00", "1",    E0HSPE, ABSENT, E2SPE,  OFF),
    ROW(SPEX_NONSECURE, "0",  "1x",  "x",  "1x", "0",    E0SPE,  E1SPE,  OFF,    OFF),
    ROW(SPEX_NONSECURE, "0",  "1x",  "x",  "1x", "1",    OFF,    ABSENT, OFF,    OFF),
    ROW(SPEX_NONSECURE, "1",  "1x",  "x",  "xx", "0",    OFF,    OFF,    OFF,    OFF),
    ROW(SPEX_REALM,     "0",  "xx",  "x",  "xx", "0",    OFF,    OFF,    OFF,    OFF),
    ROW(SPEX_REALM,     "1",  "1x",  "x",  "00", "0",    E0SPE,  E1SPE,  E2SPE,  OFF),
    ROW(SPEX_REALM,     "1",  "1x",  "x",  "00", "1",    E0HSPE, ABSENT, E2SPE,  OFF),
    ROW(SPEX_REALM,     "1",  "1x",  "x",  "1x", "0",    E0SPE,  E1SPE,  OFF,    OFF),
    ROW(SPEX_REALM,     "1",  "1x",  "x",  "1x", "1",    OFF,    ABSENT, OFF,    OFF),
};
/* clang-format on */
#undef ROW

/* Profiling is on at el iff the one enable bit is set: seen by SAMPLE_POP and a record. */
static void profiled(struct rig *r, unsigned el, enum spex_security security, enum enable which)
{
    for (enum enable on = E0SPE; on <= E0HSPE; on++) {
        for (unsigned others = 0; others < 2; others++) {
            bool want = which == on ? !others : which != OFF && others;
            bool e0 = (on == E0SPE) != others, e1 = (on == E1SPE) != others;
            bool e2 = (on == E2SPE) != others, e0h = (on == E0HSPE) != others;
            rig_state(r, 3, SPEX_ROOT);
            rig_set(r, SPEX_PMBPTR_EL1, RIG_BASE);
            rig_set(r, SPEX_PMBLIMITR_EL1, (RIG_BASE + 0x10000) | 1);
            rig_set(r, SPEX_PMSCR_EL1, (uint64_t)e1 << 1 | e0);
            rig_set(r, SPEX_PMSCR_EL2, (uint64_t)e2 << 1 | e0h);
            rig_state(r, el, security);
            host_clear(&r->host);
            uint64_t before = rig_pmu(r, SPEX_PMU_SAMPLE_POP);
            rig_sample_plain(r);
            uint64_t counted = rig_pmu(r, SPEX_PMU_SAMPLE_POP) - before;
            if (counted != want || rig_has_record(r) != want)
                fail_msg("EL%u security %d E0 %d E1 %d E2 %d E0H %d: SAMPLE_POP %llu, record %d, "
                         "expected %d",
                         el, security, e0, e1, e2, e0h, (unsigned long long)counted,
                         rig_has_record(r), want);
        }
    }
}

static void each1(void *context, const unsigned *v)
{
    const struct row1 *row = context;
    struct rig *r = &rig;
    if (v[3] == 1) /* E2PB reserved */
        return;
    combinations++;
    for (unsigned el = 0; el < 4; el++) {
        if (row->at[el] == ABSENT || (el == 2 && row->security == SPEX_SECURE && !v[2]))
            continue;
        rig_state(r, 3, SPEX_ROOT);
        RIG_FIELD(r, MDCR_EL3, NSPBE, v[0]);
        RIG_FIELD(r, MDCR_EL3, NSPB, v[1]);
        RIG_FIELD(r, SCR_EL3, EEL2, v[2]);
        RIG_FIELD(r, MDCR_EL2, E2PB, v[3]);
        RIG_FIELD(r, HCR_EL2, TGE, v[4]);
        profiled(r, el, el == 3 ? SPEX_ROOT : row->security, row->at[el]);
    }
}

static void test_d17_1(void **state)
{
    SPEC(REG-18);
    SPEC(FIL-29);
    SPEC(SMP-39);
    rig_open(&rig, "max", "");
    for (size_t i = 0; i < sizeof d17_1 / sizeof *d17_1; i++)
        rig_expand(d17_1[i].cells, 5, each1, (void *)&d17_1[i]);
    rig_close(&rig);
}

/*
 * Table D17-2, whose result column is printed inverted: profiling is stopped in
 * the rows below and in no other.
 */
struct row2 {
    const char *cells[5]; /* PMBSR_EL1.S, PMSEE, EE2, PMBSR_EL2.S, PMBSR_EL3.S */
};
/* clang-format off */
static const struct row2 d17_2[] = {
    /* S1   PMSEE   EE2   S2   S3 */
    {{"1",  "xx",   "xx", "x", "x"}},
    {{"x",  "!=00", "1x", "1", "x"}},
    {{"x",  "1x",   "xx", "x", "1"}},
};
/* clang-format on */

static bool listed[128];

static void each2(void *context, const unsigned *v)
{
    listed[v[0] | v[1] << 1 | v[2] << 3 | v[3] << 5 | v[4] << 6] = true;
}

static void test_d17_2(void **state)
{
    SPEC(REG-16);
    memset(listed, 0, sizeof listed);
    for (size_t i = 0; i < sizeof d17_2 / sizeof *d17_2; i++)
        rig_expand(d17_2[i].cells, 5, each2, NULL);
    rig_open(&rig, "max", "");
    for (unsigned v = 0; v < 128; v++) {
        combinations++;
        rig_state(&rig, 3, SPEX_ROOT);
        rig_start(&rig, 0x10000);
        RIG_FIELD(&rig, MDCR_EL3, PMSEE, v >> 1 & 3);
        RIG_FIELD(&rig, PMSCR_EL2, EE, v >> 3 & 3);
        rig_write(&rig, SPEX_PMBSR_EL1, (v & 1) << 17);
        rig_write(&rig, SPEX_PMBSR_EL2, (uint64_t)(v >> 5 & 1) << 17);
        rig_write(&rig, SPEX_PMBSR_EL3, (uint64_t)(v >> 6 & 1) << 17);
        rig_state(&rig, 1, SPEX_NONSECURE);
        host_clear(&rig.host);
        uint64_t pop = rig_pmu(&rig, SPEX_PMU_SAMPLE_POP);
        rig_sample_plain(&rig);
        if (rig_has_record(&rig) == listed[v])
            fail_msg("combination 0x%x: record %d", v, rig_has_record(&rig));
        assert_int_equal(rig_pmu(&rig, SPEX_PMU_SAMPLE_POP) - pop, !listed[v]);
        struct spex_spu_status status = {.size = sizeof status};
        spex_spu_get_status(rig.unit, &status);
        assert_int_equal(status.stopped, listed[v]);
    }
    rig_close(&rig);
}

/* Without FEAT_SPE_EXC, and with EL2 disabled in the state, only PMBSR_EL1.S stops. */
static void test_stopped_by_el2_only_where_it_is(void **state)
{
    SPEC(REG-16);
    rig_open(&rig, "max", "");
    rig_state(&rig, 3, SPEX_ROOT);
    RIG_FIELD(&rig, MDCR_EL3, NSPB, 1);
    RIG_FIELD(&rig, MDCR_EL3, PMSEE, 1);
    RIG_FIELD(&rig, SCR_EL3, EEL2, 0);
    rig_start(&rig, 0x10000);
    RIG_FIELD(&rig, PMSCR_EL2, EE, 3);
    rig_write(&rig, SPEX_PMBSR_EL2, BIT(17));
    rig_state(&rig, 1, SPEX_SECURE);
    rig_sample_plain(&rig);
    assert_true(rig_has_record(&rig));
    rig_close(&rig);
}

struct row4 {
    const char *cells[4]; /* NSPBE NSPB[1] EEL2 E2PB */
    enum spex_security security;
    unsigned el;
};
/* Table D17-4; the Realm row is printed with "Non-secure". */
/* clang-format off */
static const struct row4 d17_4[] = {
    /* NSPBE NSPB1 EEL2 E2PB    owner */
    {{"0",   "0",  "0", "xx"},  SPEX_SECURE, 1},
    {{"0",   "0",  "1", "00"},  SPEX_SECURE, 2},
    {{"0",   "0",  "1", "1x"},  SPEX_SECURE, 1},
    {{"0",   "1",  "x", "00"},  SPEX_NONSECURE, 2},
    {{"0",   "1",  "x", "1x"},  SPEX_NONSECURE, 1},
    {{"1",   "1",  "x", "00"},  SPEX_REALM, 2},
    {{"1",   "1",  "x", "1x"},  SPEX_REALM, 1},
};
/* clang-format on */

static void each4(void *context, const unsigned *v)
{
    const struct row4 *row = context;
    struct rig *r = &rig;
    if (v[3] == 1)
        return;
    for (unsigned e2h = 0; e2h < 2; e2h++) {
        combinations++;
        rig_state(r, 3, SPEX_ROOT);
        RIG_FIELD(r, MDCR_EL3, NSPBE, v[0]);
        RIG_FIELD(r, MDCR_EL3, NSPB, v[1] << 1 | 1);
        RIG_FIELD(r, SCR_EL3, EEL2, v[2]);
        RIG_FIELD(r, MDCR_EL2, E2PB, v[3]);
        RIG_FIELD(r, HCR_EL2, E2H, e2h);
        rig_start(r, 0x10000);
        rig_state(r, 1, row->security);
        struct spex_spu_status status = {.size = sizeof status};
        spex_spu_get_status(r->unit, &status);
        assert_int_equal(status.owner_security, row->security);
        assert_int_equal(status.owner_el, row->el);
        /* The write itself uses the owner's translation regime. */
        memset(&r->host.store, 0xff, sizeof r->host.store);
        host_clear(&r->host);
        rig_sample_plain(r);
        assert_true(rig_has_record(r));
        assert_int_equal(r->host.store.security, row->security);
        assert_int_equal(r->host.store.el, row->el);
        assert_int_equal(r->host.store.e2h, row->el == 2 && e2h);
        assert_int_equal(r->host.store.flags, SPEX_STORE_PRIVILEGED | SPEX_STORE_PAN_IGNORED |
                                                  SPEX_STORE_TAG_UNCHECKED |
                                                  SPEX_STORE_NO_WATCHPOINT | SPEX_STORE_AF_DIRTY);
        /* PMBIDR_EL1.P, at each level. */
        for (unsigned el = 0; el <= 3; el++) {
            if (el == 0 || (el == 2 && row->security == SPEX_SECURE && !v[2]))
                continue;
            rig_state(r, el, row->security);
            assert_int_equal(RIG_GET(r, PMBIDR_EL1, P), el < 3 && row->el > el);
        }
        rig_state(r, 1, row->security == SPEX_NONSECURE ? SPEX_SECURE : SPEX_NONSECURE);
        assert_int_equal(RIG_GET(r, PMBIDR_EL1, P), 1);
    }
}

static void test_d17_4(void **state)
{
    SPEC(REG-21);
    SPEC(REG-24);
    SPEC(REG-03);
    SPEC(BUF-153);
    rig_open(&rig, "max", "");
    for (size_t i = 0; i < sizeof d17_4 / sizeof *d17_4; i++)
        rig_expand(d17_4[i].cells, 4, each4, (void *)&d17_4[i]);
    rig_close(&rig);
    /* One Security state: no EL3. */
    rig_open(&rig, "min", "");
    struct spex_spu_status status = {.size = sizeof status};
    spex_spu_get_status(rig.unit, &status);
    assert_int_equal(status.owner_security, SPEX_NONSECURE);
    assert_int_equal(status.owner_el, 1);
    rig_close(&rig);
    printf("# %lu combinations of Tables D17-1 to D17-10\n", combinations);
}

TEST_MAIN(TEST(test_d17_5), TEST(test_d17_6), TEST(test_d17_6_without_ras), TEST(test_d17_7),
          TEST(test_reporting_without_el3), TEST(test_reporting_without_exceptions),
          TEST(test_d17_8_to_10), TEST(test_reserved_ee),
          TEST(test_exceptions_need_the_owning_state), TEST(test_d17_3), TEST(test_offsets),
          TEST(test_d17_1), TEST(test_d17_2), TEST(test_stopped_by_el2_only_where_it_is),
          TEST(test_d17_4))
