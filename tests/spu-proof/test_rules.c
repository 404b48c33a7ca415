/*
 * Rules that neither a table nor a random run shows by itself: each condition of
 * D17.4 alone, EL2 in Secure state, events at EL3, what controls do not disturb.
 */
#include "rig.h"

#include "base/bits.h"
#include "record/reader.h"

static struct rig rig;

/* Does the next operation count, and is it sampled? Both or neither. */
static bool profiled(void)
{
    uint64_t pop = rig_pmu(&rig, SPEX_PMU_SAMPLE_POP);
    host_clear(&rig.host);
    rig_set(&rig, SPEX_PMBPTR_EL1, RIG_BASE);
    rig_sample_plain(&rig);
    bool counted = rig_pmu(&rig, SPEX_PMU_SAMPLE_POP) != pop;
    struct spex_spu_status status = {.size = sizeof status};
    spex_spu_get_status(rig.unit, &status);
    assert_int_equal(counted, rig_has_record(&rig));
    assert_int_equal(counted, spex_spu_until(rig.unit) != UINT64_MAX);
    assert_int_equal(counted, status.enabled);
    return counted;
}

static void state(unsigned el, unsigned aarch32, bool halted)
{
    struct spex_spu_state s;
    rig_state(&rig, el, SPEX_NONSECURE);
    spex_spu_get_state(rig.unit, &s);
    s.aarch32 = (uint8_t)aarch32;
    s.halted = halted;
    spex_spu_set_state(rig.unit, &s);
}

/* D17.4: all eight conditions hold, then each one fails alone. */
static void test_each_condition(void **unused)
{
    SPEC(REG-17);
    SPEC(REG-16);
    SPEC(SMP-39);
    rig_open(&rig, "max", "");
    rig_start(&rig, 0x10000);
    state(0, 0, false);
    assert_true(profiled());

    state(0, 1, false); /* AArch32 */
    assert_false(profiled());
    state(0, 2, false); /* the owning Exception level uses AArch32 */
    assert_false(profiled());
    state(0, 0, false);
    assert_true(profiled());

    RIG_FIELD(&rig, PMBLIMITR_EL1, E, 0); /* buffer disabled */
    assert_false(profiled());
    RIG_FIELD(&rig, PMBLIMITR_EL1, E, 1);
    assert_true(profiled());

    RIG_FIELD(&rig, PMBSR_EL1, S, 1); /* stopped */
    assert_false(profiled());
    RIG_FIELD(&rig, PMBSR_EL1, S, 0);
    assert_true(profiled());

    state(2, 0, false); /* above the owner */
    assert_false(profiled());
    state(0, 0, false);

    rig_state(&rig, 3, SPEX_ROOT);
    RIG_FIELD(&rig, HCR_EL2, TGE, 1); /* owner EL1 and Effective TGE */
    state(0, 0, false);
    assert_false(profiled());
    rig_state(&rig, 3, SPEX_ROOT);
    RIG_FIELD(&rig, HCR_EL2, TGE, 0);
    state(0, 0, false);
    assert_true(profiled());

    rig_state(&rig, 0, SPEX_SECURE); /* another Security state */
    assert_false(profiled());
    rig_state(&rig, 0, SPEX_REALM);
    assert_false(profiled());

    state(0, 0, true); /* Debug state */
    assert_false(profiled());
    state(0, 0, false);
    assert_true(profiled());

    RIG_FIELD(&rig, PMSCR_EL1, E0SPE, 0); /* the enable of the Exception level */
    assert_false(profiled());
    state(1, 0, false);
    assert_true(profiled());
    RIG_FIELD(&rig, PMSCR_EL1, E1SPE, 0);
    assert_false(profiled());
    rig_close(&rig);
}

/* SCR_EL3.{NS,EEL2} decide whether PMBSR_EL2 is there, also for an event at EL3. */
static void test_el2_of_secure_state(void **unused)
{
    SPEC(BUF-26);
    SPEC(BUF-132);
    for (unsigned eel2 = 0; eel2 < 2; eel2++) {
        for (unsigned at_el3 = 0; at_el3 < 2; at_el3++) {
            struct made_op op;
            ops_plain(SPEX_OP_OTHER, 0, &op);
            rig_open(&rig, "max", "");
            rig_state(&rig, 3, SPEX_ROOT);
            RIG_FIELD(&rig, MDCR_EL3, NSPB, 1);
            RIG_FIELD(&rig, MDCR_EL3, PMSEE, 1);
            RIG_FIELD(&rig, SCR_EL3, EEL2, eel2);
            RIG_FIELD(&rig, MDCR_EL2, E2PB, 3);
            RIG_FIELD(&rig, PMSCR_EL2, EE, 3);
            rig_start(&rig, 0x10000);
            rig_state(&rig, 1, SPEX_SECURE);
            rig.host.plan = (struct plan){0, UINT64_MAX, {SPEX_STOP_FAULT, 0x07, 0, 0}};
            rig_arm(&rig);
            int slot = spex_spu_begin(rig.unit, op.pc, 0);
            assert_true(slot >= 0);
            if (at_el3) { /* an SMC, say, that finishes when EL3 already runs */
                struct spex_spu_state el3 = {.el = 3, .security = SPEX_ROOT};
                spex_spu_set_state(rig.unit, &el3);
            }
            spex_spu_complete(rig.unit, slot, &op.op, &op.outcome);
            assert_int_equal(RIG_GET(&rig, PMBSR_EL1, S), !eel2);
            assert_int_equal(RIG_GET(&rig, PMBSR_EL2, S), eel2);
            assert_int_equal(RIG_GET(&rig, PMBSR_EL3, S), 0);
            /* With EE2 of 00 PMBIRQ is driven, if EL2 is there to say so. */
            rig_set(&rig, SPEX_PMBSR_EL2, 0);
            rig_set(&rig, SPEX_PMBSR_EL1, BIT(17));
            RIG_FIELD(&rig, PMSCR_EL1, EE, 3);
            RIG_FIELD(&rig, PMSCR_EL2, EE, 0);
            assert_int_equal(rig.host.irq, eel2);
            rig_close(&rig);
        }
    }
}

static void profile(bool pa, uint64_t *pmu, uint8_t *bytes, size_t *size)
{
    rig_open(&rig, "max", "");
    rig_start(&rig, 0x40000);
    rig_set(&rig, SPEX_PMSIRR_EL1, 1 << 8 | 1);
    RIG_FIELD(&rig, PMSCR_EL1, PA, pa);
    for (unsigned i = 0; i < 40000; i++) {
        struct made_op op;
        ops_plain(SPEX_OP_LDST, i % 3 ? SPEX_OPF_LOAD : SPEX_OPF_STORE, &op);
        op.pc += 4 * (i % 100);
        spex_spu_op(rig.unit, op.pc, &op.op, &op.outcome);
    }
    spex_spu_flush(rig.unit);
    memcpy(pmu, rig.host.pmu, sizeof rig.host.pmu);
    *size = host_bytes(&rig.host, bytes, 0x40000);
    rig_close(&rig);
}

/* Collecting physical addresses adds their packets and changes nothing else. */
static void test_physical_addresses_disturb_nothing(void **unused)
{
    SPEC(DAT-219);
    static uint8_t with[0x40000], without[0x40000];
    uint64_t a[NAIVE_PMU], b[NAIVE_PMU];
    size_t sizes[2];
    profile(true, a, with, &sizes[0]);
    profile(false, b, without, &sizes[1]);
    assert_memory_equal(a, b, sizeof a);
    struct spex_reader x, y;
    struct spex_record r, s;
    size_t records = 0;
    reader_whole(&x, with, sizes[0], 0);
    reader_whole(&y, without, sizes[1], 0);
    while (spex_reader_next(&x, &r, NULL) == SPEX_OK) {
        assert_int_equal(spex_reader_next(&y, &s, NULL), SPEX_OK);
        assert_int_equal(r.present, s.present | SPEX_HAS_PA);
        assert_int_equal(r.address[SPEX_ADDRESS_PC], s.address[SPEX_ADDRESS_PC]);
        assert_int_equal(r.address[SPEX_ADDRESS_VA], s.address[SPEX_ADDRESS_VA]);
        assert_int_equal(r.events, s.events);
        assert_int_equal(r.total, s.total);
        records++;
    }
    assert_true(records > 100);
    assert_int_equal(spex_reader_next(&y, &s, NULL), SPEX_END);
}

/* The choices that bound the pointer: an Alignment fault, or write where it points. */
static void test_misaligned_pointer(void **unused)
{
    SPEC(BUF-156);
    for (unsigned fault = 0; fault < 2; fault++) {
        rig_open(&rig, "max,align=5", fault ? "misaligned_pointer=fault" : "");
        rig_start(&rig, 0x10000);
        rig_set(&rig, SPEX_PMBPTR_EL1, RIG_BASE + 8);
        rig_sample_plain(&rig);
        if (fault) {
            assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), UINT64_C(0x24) << 26 | BIT(17) | 0x21);
            assert_int_equal(rig_get(&rig, SPEX_PMBPTR_EL1), RIG_BASE + 8);
            assert_false(rig_has_record(&rig));
        } else {
            assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), 0);
            assert_int_equal(rig.host.log[0].address, RIG_BASE + 8);
        }
        rig_close(&rig);
    }
}

/* Whatever the size of the record and the place of the pointer: never at or above LIMIT. */
static void test_never_past_limit(void **unused)
{
    SPEC(BUF-16);
    SPEC(BUF-141);
    SPEC(BUF-142);
    SPEC(BUF-147);
    for (unsigned maxsize = 6; maxsize <= 11; maxsize++) {
        for (unsigned back = 0; back < 3000; back += 1 + back / 8) {
            char features[64];
            snprintf(features, sizeof features, "v1p1,no-sme,no-spe-sme,altclk=0,maxsize=%u",
                     maxsize);
            rig_open(&rig, features, "pointer_rule=full scribble=255");
            const uint64_t limit = RIG_BASE + 0x1000;
            rig_start(&rig, 0x1000);
            rig_set(&rig, SPEX_PMSCR_EL1, 0);
            rig_set(&rig, SPEX_PMBPTR_EL1, limit - back);
            rig_set(&rig, SPEX_PMSCR_EL1, 3);
            uint64_t before = limit - back;
            while (!RIG_GET(&rig, PMBSR_EL1, S)) {
                before = rig_get(&rig, SPEX_PMBPTR_EL1);
                rig_sample_plain(&rig);
            }
            uint64_t after = rig_get(&rig, SPEX_PMBPTR_EL1), room = UINT64_C(1) << maxsize;
            assert_true(after > limit - room); /* full: no room for the largest */
            assert_true(after <= limit);
            if (back >= room)
                assert_true(before <= limit - room); /* and there was before: equality is room */
            for (size_t i = 0; i < rig.host.count; i++)
                assert_true(rig.host.log[i].address < limit);
            rig_close(&rig);
        }
    }
}

TEST_MAIN(TEST(test_each_condition), TEST(test_el2_of_secure_state),
          TEST(test_physical_addresses_disturb_nothing), TEST(test_misaligned_pointer),
          TEST(test_never_past_limit))
