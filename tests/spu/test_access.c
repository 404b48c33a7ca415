/* Every SPE register from every Exception level under every control (D24.7). */
#include "fixture.h"

#define NONE (-1)

/* How the manual's accessor descriptions treat each register. */
static const struct row {
    unsigned encoding;
    bool read_only;
    int fgt;         /* HDFGRTR_EL2 / HDFGWTR_EL2 bit that traps when 1 */
    int nfgt;        /* ... when 0 */
    int nfgt2;       /* HDFGRTR2_EL2 / HDFGWTR2_EL2 bit that traps when 0 */
    bool tpms, e2pb; /* MDCR_EL2 controls */
    int enable;      /* MDCR_EL3 bit that must be 1 */
    int nv;          /* VNCR_EL2 page offset */
} rows[] = {
    {SPEX_PMSCR_EL1, false, 26, NONE, NONE, true, false, NONE, 0x828},
    {SPEX_PMSNEVFR_EL1, false, NONE, 62, NONE, true, false, 36, 0x850},
    {SPEX_PMSICR_EL1, false, 29, NONE, NONE, true, false, NONE, 0x838},
    {SPEX_PMSIRR_EL1, false, 31, NONE, NONE, true, false, NONE, 0x840},
    {SPEX_PMSFCR_EL1, false, 28, NONE, NONE, true, false, NONE, NONE},
    {SPEX_PMSEVFR_EL1, false, 27, NONE, NONE, true, false, NONE, 0x830},
    {SPEX_PMSLATFR_EL1, false, 32, NONE, NONE, true, false, NONE, 0x848},
    {SPEX_PMSIDR_EL1, true, 30, NONE, NONE, true, false, NONE, NONE},
    {SPEX_PMSDSFR_EL1, false, NONE, NONE, 19, true, false, 42, 0x858},
    {SPEX_PMBLIMITR_EL1, false, 23, NONE, NONE, false, true, NONE, 0x800},
    {SPEX_PMBPTR_EL1, false, 24, NONE, NONE, false, true, NONE, 0x810},
    {SPEX_PMBSR_EL1, false, 25, NONE, NONE, false, true, NONE, 0x820},
    {SPEX_PMBMAR_EL1, false, NONE, NONE, 24, false, true, 55, NONE},
    {SPEX_PMBIDR_EL1, true, 63, NONE, NONE, false, false, NONE, NONE},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static void go_to(struct fixture *f, unsigned el, unsigned security)
{
    struct spex_spu_state state = {.el = (uint8_t)el, .security = (uint8_t)security};
    spex_spu_set_state(f->unit, &state);
}

/* The syndrome that a trapped access must have: EC 0x18, written out from the fields. */
static uint64_t syndrome(unsigned e, unsigned rt, bool read)
{
    uint64_t op0 = e >> 14, op1 = e >> 11 & 7, crn = e >> 7 & 15, crm = e >> 3 & 15, op2 = e & 7;
    return 0x62000000 | op0 << 20 | op2 << 17 | op1 << 14 | crn << 10 | rt << 5 | crm << 1 | read;
}

#define EXPECT(f, e, is_read, result) expect(f, e, is_read, result, #result, __LINE__)

static void expect(struct fixture *f, unsigned e, bool is_read, enum spex_sysreg_result wanted,
                   const char *text, int line)
{
    struct spex_sysreg_detail s = {0};
    uint64_t value = 0x5555;
    assert_int_equal(spex_spu_check(f->unit, e, 7, is_read, NULL), wanted); /* asking is free */
    enum spex_sysreg_result got =
        is_read ? spex_spu_read(f->unit, e, 7, &value, &s) : spex_spu_write(f->unit, e, 7, 0, &s);
    if (got != wanted)
        fail_msg("line %d: %s %s: got %d, expected %s", line, is_read ? "read" : "write",
                 spex_sysreg_name(e), got, text);
    if (got != SPEX_SYSREG_OK)
        assert_int_equal(value, 0x5555);
    if (got == SPEX_SYSREG_TRAP_EL2 || got == SPEX_SYSREG_TRAP_EL3)
        assert_int_equal(s.esr, syndrome(e, 7, is_read));
    if (got == SPEX_SYSREG_UNDEFINED)
        assert_int_equal(s.esr, 0x2000000);
}

static void test_el0_is_undefined(void **state)
{
    SPEC(REG-12);
    struct fixture *f = fixture_new(NULL, NULL, 1);
    go_to(f, 0, SPEX_NONSECURE);
    for (size_t i = 0; i < ROWS; i++) {
        EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_UNDEFINED);
        EXPECT(f, rows[i].encoding, false, SPEX_SYSREG_UNDEFINED);
    }
    EXPECT(f, SPEX_PMSCR_EL2, true, SPEX_SYSREG_UNDEFINED);
    EXPECT(f, SPEX_PMBSR_EL3, true, SPEX_SYSREG_UNDEFINED);
    fixture_free(f);
}

static void test_el1_el2_el3_without_traps(void **state)
{
    struct fixture *f = fixture_new(NULL, NULL, 1);
    for (unsigned el = 1; el <= 3; el++) {
        go_to(f, el, el == 3 ? SPEX_ROOT : SPEX_NONSECURE);
        for (size_t i = 0; i < ROWS; i++) {
            EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_OK);
            if (rows[i].read_only)
                EXPECT(f, rows[i].encoding, false, SPEX_SYSREG_UNDEFINED);
            else
                EXPECT(f, rows[i].encoding, false, SPEX_SYSREG_OK);
        }
    }
    uint64_t unused;
    assert_int_equal(spex_spu_read(f->unit, SPEX_SYSREG(3, 0, 9, 10, 2), 0, &unused, NULL),
                     SPEX_SYSREG_NOT_OURS);
    fixture_free(f);
}

static void test_registers_of_features(void **state)
{
    SPEC(REG-11);
    struct fixture *f = fixture_new("v1p1,no-vhe,no-nv,no-nv2", NULL, 1);
    static const unsigned absent[] = {SPEX_PMSNEVFR_EL1, SPEX_PMSDSFR_EL1, SPEX_PMBMAR_EL1,
                                      SPEX_PMBSR_EL2,    SPEX_PMBSR_EL3,   SPEX_PMSCR_EL12,
                                      SPEX_PMBSR_EL12};
    for (unsigned el = 0; el <= 3; el++) {
        go_to(f, el, el == 3 ? SPEX_SECURE : SPEX_NONSECURE);
        for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
            EXPECT(f, absent[i], true, SPEX_SYSREG_UNDEFINED);
    }
    fixture_free(f);

    f = fixture_new(NULL, NULL, 1);
    go_to(f, 3, SPEX_ROOT);
    EXPECT(f, SPEX_PMBSR_EL3, true, SPEX_SYSREG_OK);
    EXPECT(f, SPEX_PMBSR_EL2, false, SPEX_SYSREG_OK);
    go_to(f, 2, SPEX_NONSECURE);
    EXPECT(f, SPEX_PMBSR_EL3, true, SPEX_SYSREG_UNDEFINED);
    EXPECT(f, SPEX_PMBSR_EL2, false, SPEX_SYSREG_OK);
    EXPECT(f, SPEX_PMSCR_EL2, false, SPEX_SYSREG_OK);
    go_to(f, 1, SPEX_NONSECURE);
    EXPECT(f, SPEX_PMBSR_EL3, true, SPEX_SYSREG_UNDEFINED);
    EXPECT(f, SPEX_PMBSR_EL2, true, SPEX_SYSREG_UNDEFINED);
    EXPECT(f, SPEX_PMSCR_EL2, true, SPEX_SYSREG_UNDEFINED);
    EXPECT(f, SPEX_PMSCR_EL12, true, SPEX_SYSREG_UNDEFINED);
    fixture_free(f);
}

static void test_fine_grained_traps(void **state)
{
    SPEC(REG-13);
    struct fixture *f = fixture_new(NULL, NULL, 1);
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        uint64_t one = r->fgt != NONE ? 1ull << r->fgt : 0, none = 1ull << 62, none2 = 0x1080000;
        uint64_t all = none | one, all2 = none2;
        if (r->nfgt != NONE)
            all &= ~(1ull << r->nfgt);
        if (r->nfgt2 != NONE)
            all2 &= ~(1ull << r->nfgt2);
        if (all == none && all2 == none2)
            continue;
        go_to(f, 1, SPEX_NONSECURE);
        fixture_set(f, SPEX_HDFGRTR_EL2, all);
        fixture_set(f, SPEX_HDFGRTR2_EL2, all2);
        EXPECT(f, r->encoding, true, SPEX_SYSREG_TRAP_EL2);
        if (!r->read_only)
            EXPECT(f, r->encoding, false, SPEX_SYSREG_OK);
        fixture_set(f, SPEX_HDFGRTR_EL2, none);
        fixture_set(f, SPEX_HDFGRTR2_EL2, none2);
        fixture_set(f, SPEX_HDFGWTR_EL2, all);
        fixture_set(f, SPEX_HDFGWTR2_EL2, all2);
        EXPECT(f, r->encoding, true, SPEX_SYSREG_OK);
        if (!r->read_only)
            EXPECT(f, r->encoding, false, SPEX_SYSREG_TRAP_EL2);
        go_to(f, 2, SPEX_NONSECURE); /* not from EL2 */
        if (!r->read_only)
            EXPECT(f, r->encoding, false, SPEX_SYSREG_OK);
        fixture_set(f, SPEX_HDFGWTR_EL2, none);
        fixture_set(f, SPEX_HDFGWTR2_EL2, none2);

        /* SCR_EL3.FGTEn off: no trap. SCR_EL3.FGTEn2 off: always a trap. */
        go_to(f, 1, SPEX_NONSECURE);
        uint64_t scr = fixture_get(f, SPEX_SCR_EL3);
        fixture_set(f, SPEX_HDFGRTR_EL2, all);
        fixture_set(f, SPEX_SCR_EL3, scr & ~(1ull << 27));
        if (r->nfgt2 == NONE)
            EXPECT(f, r->encoding, true, SPEX_SYSREG_OK);
        fixture_set(f, SPEX_HDFGRTR_EL2, none);
        fixture_set(f, SPEX_SCR_EL3, scr & ~(1ull << 59));
        if (r->nfgt2 != NONE)
            EXPECT(f, r->encoding, true, SPEX_SYSREG_TRAP_EL2);
        fixture_set(f, SPEX_SCR_EL3, scr);
    }
    fixture_free(f);
}

static void test_mdcr_el2_traps(void **state)
{
    SPEC(REG-13);
    struct fixture *f = fixture_new(NULL, NULL, 1);
    for (size_t i = 0; i < ROWS; i++) {
        for (unsigned tpms = 0; tpms < 2; tpms++) {
            for (uint64_t e2pb = 0; e2pb < 4; e2pb++) {
                bool trapped = (tpms && rows[i].tpms) || (!(e2pb & 1) && rows[i].e2pb);
                fixture_set(f, SPEX_MDCR_EL2, (uint64_t)tpms << 14 | e2pb << 12);
                go_to(f, 1, SPEX_NONSECURE);
                if (trapped)
                    EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_TRAP_EL2);
                else
                    EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_OK);
                go_to(f, 2, SPEX_NONSECURE);
                EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_OK);
            }
        }
    }
    fixture_free(f);

    /* Secure state without EL2: nothing traps there. */
    f = fixture_new(NULL, NULL, 1);
    fixture_set(f, SPEX_MDCR_EL2, 1 << 14);
    fixture_set(f, SPEX_SCR_EL3, 0);
    fixture_set(f, SPEX_MDCR_EL3, fixture_get(f, SPEX_MDCR_EL3) & ~(1ull << 13));
    go_to(f, 1, SPEX_SECURE);
    for (size_t i = 0; i < ROWS; i++)
        EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_OK);
    fixture_free(f);
}

/* CheckMDCR_EL3_NSPBTrap for every {NSPBE,NSPB} and state, and the EnPMSx bits. */
static void test_mdcr_el3_traps(void **state)
{
    SPEC(REG-14);
    struct fixture *f = fixture_new(NULL, NULL, 1);
    uint64_t open = fixture_get(f, SPEX_MDCR_EL3);
    for (unsigned nspbe = 0; nspbe < 2; nspbe++) {
        for (unsigned nspb = 0; nspb < 4; nspb++) {
            if (nspbe && !(nspb & 2))
                continue; /* reserved */
            unsigned owner = nspbe ? SPEX_REALM : nspb & 2 ? SPEX_NONSECURE : SPEX_SECURE;
            uint64_t mdcr = (open & ~0x3800ull) | (uint64_t)nspb << 12 | (uint64_t)nspbe << 11;
            for (unsigned security = SPEX_SECURE; security <= SPEX_REALM; security++) {
                bool trapped = !(nspb & 1) || security != owner;
                for (unsigned el = 1; el <= 2; el++) {
                    fixture_set(f, SPEX_MDCR_EL3, mdcr);
                    fixture_set(f, SPEX_SCR_EL3, fixture_get(f, SPEX_SCR_EL3) | 1 << 18);
                    go_to(f, el, security);
                    for (size_t i = 0; i < ROWS; i++) {
                        if (trapped && rows[i].encoding != SPEX_PMBIDR_EL1)
                            EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_TRAP_EL3);
                        else
                            EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_OK);
                    }
                    if (el == 2 && trapped) {
                        EXPECT(f, SPEX_PMSCR_EL2, false, SPEX_SYSREG_TRAP_EL3);
                        EXPECT(f, SPEX_PMBSR_EL2, false, SPEX_SYSREG_TRAP_EL3);
                    }
                }
            }
            go_to(f, 3, SPEX_ROOT);
            for (size_t i = 0; i < ROWS; i++)
                EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_OK);
        }
    }
    fixture_set(f, SPEX_MDCR_EL3, open);
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].enable == NONE)
            continue;
        fixture_set(f, SPEX_MDCR_EL3, open & ~(1ull << rows[i].enable));
        for (unsigned el = 1; el <= 3; el++) {
            go_to(f, el, el == 3 ? SPEX_ROOT : SPEX_NONSECURE);
            if (el < 3)
                EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_TRAP_EL3);
            else
                EXPECT(f, rows[i].encoding, true, SPEX_SYSREG_OK);
        }
        fixture_set(f, SPEX_MDCR_EL3, open);
    }
    fixture_free(f);
}

/* EL2 traps come before EL3 traps; with EDSCR.SDD in Debug state EL3 traps are UNDEFINED, first. */
static void test_order(void **state)
{
    SPEC(REG-14);
    struct fixture *f = fixture_new(NULL, NULL, 1);
    fixture_set(f, SPEX_MDCR_EL3, 0);
    EXPECT(f, SPEX_PMSICR_EL1, true, SPEX_SYSREG_TRAP_EL3);
    fixture_set(f, SPEX_MDCR_EL2, 1 << 14);
    EXPECT(f, SPEX_PMSICR_EL1, true, SPEX_SYSREG_TRAP_EL2);
    struct spex_spu_state debug = {
        .el = 1, .security = SPEX_NONSECURE, .halted = true, .sdd = true};
    spex_spu_set_state(f->unit, &debug);
    EXPECT(f, SPEX_PMSICR_EL1, true, SPEX_SYSREG_UNDEFINED);
    debug.el = 2;
    spex_spu_set_state(f->unit, &debug);
    EXPECT(f, SPEX_PMSICR_EL1, true, SPEX_SYSREG_UNDEFINED);
    debug.sdd = false;
    spex_spu_set_state(f->unit, &debug);
    EXPECT(f, SPEX_PMSICR_EL1, true, SPEX_SYSREG_TRAP_EL3);
    fixture_free(f);
}

/* FEAT_NV2: EL1 accesses become memory accesses; EL2 names trap. */
static void test_nested_virtualization(void **state)
{
    SPEC(REG-15);
    struct fixture *f = fixture_new(NULL, NULL, 1);
    static const struct {
        unsigned nvx; /* {NV2,NV1,NV} */
    } cases[] = {{0}, {1}, {3}, {4}, {5}, {7}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        unsigned nvx = cases[c].nvx;
        fixture_set(f, SPEX_HCR_EL2,
                    (uint64_t)(nvx >> 2) << 45 | (uint64_t)(nvx >> 1 & 1) << 43 |
                        (uint64_t)(nvx & 1) << 42);
        fixture_set(f, SPEX_PMSCR_EL2, 0); /* EE is 00 */
        for (size_t i = 0; i < ROWS; i++) {
            bool memory = (nvx & 5) == 5 && rows[i].nv != NONE;
            if (rows[i].encoding == SPEX_PMSCR_EL1)
                memory = nvx == 7;
            struct spex_sysreg_detail s = {0};
            uint64_t value;
            enum spex_sysreg_result result =
                spex_spu_read(f->unit, rows[i].encoding, 0, &value, &s);
            assert_int_equal(result, memory ? SPEX_SYSREG_MEMORY : SPEX_SYSREG_OK);
            if (memory)
                assert_int_equal(s.offset, rows[i].nv);
        }
        static const unsigned el12[] = {SPEX_PMSCR_EL12, SPEX_PMBSR_EL12};
        for (unsigned i = 0; i < 2; i++) {
            if (nvx == 5)
                EXPECT(f, el12[i], true, SPEX_SYSREG_MEMORY);
            else if (nvx & 1)
                EXPECT(f, el12[i], true, SPEX_SYSREG_TRAP_EL2);
            else
                EXPECT(f, el12[i], true, SPEX_SYSREG_UNDEFINED);
        }
        if (nvx & 1)
            EXPECT(f, SPEX_PMSCR_EL2, true, SPEX_SYSREG_TRAP_EL2);
        else
            EXPECT(f, SPEX_PMSCR_EL2, true, SPEX_SYSREG_UNDEFINED);

        /* PMBSR_EL1 is real when both EE are enabled and NVx is 1x1 but not 111. */
        fixture_set(f, SPEX_PMSCR_EL2, 1 << 8);
        fixture_set(f, SPEX_PMSCR_EL1, 3 << 8);
        if (nvx == 7)
            EXPECT(f, SPEX_PMBSR_EL1, true, SPEX_SYSREG_MEMORY);
        else
            EXPECT(f, SPEX_PMBSR_EL1, true, SPEX_SYSREG_OK);
        fixture_set(f, SPEX_PMSCR_EL1, 0);
        if ((nvx & 5) == 5)
            EXPECT(f, SPEX_PMBSR_EL1, true, SPEX_SYSREG_MEMORY);
    }
    fixture_free(f);
}

/* Registers that are only held for the unit: the level of their name. */
static void test_registers_of_others(void **state)
{
    struct fixture *f = fixture_new(NULL, NULL, 1);
    static const struct {
        unsigned encoding, lowest;
    } held[] = {
        {SPEX_MDCR_EL2, 2},    {SPEX_MDCR_EL3, 3},       {SPEX_HCR_EL2, 2},     {SPEX_SCR_EL3, 3},
        {SPEX_CNTHCTL_EL2, 2}, {SPEX_CONTEXTIDR_EL1, 1}, {SPEX_CNTVOFF_EL2, 2}, {SPEX_PMCR_EL0, 0},
    };
    for (unsigned el = 0; el <= 3; el++) {
        go_to(f, el, el == 3 ? SPEX_ROOT : SPEX_NONSECURE);
        for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
            if (el >= held[i].lowest)
                EXPECT(f, held[i].encoding, true, SPEX_SYSREG_OK);
            else
                EXPECT(f, held[i].encoding, false, SPEX_SYSREG_UNDEFINED);
        }
    }
    fixture_set(f, SPEX_HCR_EL2, 0xfff);
    assert_int_equal(fixture_get(f, SPEX_HCR_EL2), 0xfff); /* others' bits are kept */
    /* A register that is neither: the caller's own affair. The syndrome is not a duty. */
    uint64_t value = 7;
    unsigned midr = 3u << 14; /* MIDR_EL1 */
    assert_false(spex_spu_get(f->unit, midr, &value));
    assert_false(spex_spu_set(f->unit, midr, 1));
    assert_int_equal(value, 7);
    assert_int_equal(spex_spu_check(f->unit, midr, 0, true, NULL), SPEX_SYSREG_NOT_OURS);
    assert_int_equal(spex_spu_check(f->unit, SPEX_PMSIDR_EL1, 0, false, NULL),
                     SPEX_SYSREG_UNDEFINED);
    struct spex_sysreg_detail detail = {0};
    assert_int_equal(spex_spu_check(f->unit, SPEX_PMSIDR_EL1, 0, false, &detail),
                     SPEX_SYSREG_UNDEFINED);
    assert_int_equal(detail.esr, UINT64_C(1) << 25);
    fixture_free(f);
}

TEST_MAIN(TEST(test_el0_is_undefined), TEST(test_el1_el2_el3_without_traps),
          TEST(test_registers_of_features), TEST(test_fine_grained_traps),
          TEST(test_mdcr_el2_traps), TEST(test_mdcr_el3_traps), TEST(test_order),
          TEST(test_nested_virtualization), TEST(test_registers_of_others))
