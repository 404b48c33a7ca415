/*
 * Table D17-11 and D17.8.3: every fault that a write to the Profiling Buffer can
 * generate, made by a walker over stage 1, stage 2 and granule protection tables;
 * EC, FSC, MSS2, DL and PMBPTR_EL1; then the cause is removed and profiling goes on.
 */
#include "rig.h"
#include "walker.h"

#include "base/bits.h"

static struct rig rig;
static struct walker walker;

enum { BUFFER = 0x400000, PAGES = 4 };

/* A unit on the walker. */
static void open_walker(const char *features, const char *choices, bool stage2, bool gpt)
{
    rig_open(&rig, features, choices);
    walker_init(&walker);
    rig.config.host = (struct spex_spu_host){.user = &walker, .write = walker_write};
    rig_reopen(&rig);
    walker.watch_low = BUFFER;
    walker.watch_high = BUFFER + PAGES * WALKER_PAGE;
    if (stage2)
        walker.stage2 = walker.next_page++ * (uint64_t)WALKER_PAGE;
    if (gpt)
        walker.gpt = walker.next_page++ * (uint64_t)WALKER_PAGE;
    for (unsigned i = 0; i < PAGES; i++)
        walker_map(&walker, BUFFER + i * (uint64_t)WALKER_PAGE);
}

static void start(uint64_t pointer)
{
    rig_set(&rig, SPEX_PMSCR_EL1, 0);
    rig_set(&rig, SPEX_PMBSR_EL1, 0);
    rig_set(&rig, SPEX_PMBPTR_EL1, pointer);
    rig_set(&rig, SPEX_PMBLIMITR_EL1, (BUFFER + PAGES * WALKER_PAGE) | 1);
    rig_set(&rig, SPEX_PMSIRR_EL1, 1 << 8);
    rig_set(&rig, SPEX_PMSCR_EL1, 3);
}

/* ---- what goes wrong with the page at va ---- */

/* clang-format off */
enum cause {
    TRANSLATION, ADDRESS_SIZE, ACCESS_FLAG, PERMISSION, TLB_CONFLICT, HW_UPDATE, WALK_ABORT,
    GPF_WALK,
    S2_TRANSLATION, S2_ADDRESS_SIZE, S2_ACCESS_FLAG, S2_PERMISSION, S2_ASSURED, S2_TOP_LEVEL,
    S2_HW_UPDATE, S2_WALK_ABORT, S2_GPF_WALK,
    GPF, GPT_WALK, GPT_ADDRESS_SIZE, GPT_ABORT,
};
/* clang-format on */

struct row {
    const char *id;
    enum cause cause;
    unsigned level; /* of the table where it happens */
    unsigned ec, fsc;
    uint32_t mss2;
};

/* Table D17-11, with the codes of PMBSR_ELx.{EC,FSC}. */
/* clang-format off */
static const struct row d17_11[] = {
    /* id         cause           level  EC    FSC   MSS2 */
    {"BUF-154",   TRANSLATION,    0,     0x24, 0x04, 0},
    {"BUF-154",   TRANSLATION,    1,     0x24, 0x05, 0},
    {"BUF-154",   TRANSLATION,    2,     0x24, 0x06, 0},
    {"BUF-154",   TRANSLATION,    3,     0x24, 0x07, 0},
    {"BUF-154",   S2_TRANSLATION, 1,     0x25, 0x05, 0},
    {"BUF-154",   S2_TRANSLATION, 3,     0x25, 0x07, 0},
    {"BUF-155",   ADDRESS_SIZE,   0,     0x24, 0x00, 0},
    {"BUF-155",   ADDRESS_SIZE,   3,     0x24, 0x03, 0},
    {"BUF-155",   S2_ADDRESS_SIZE, 3,    0x25, 0x03, 0},
    {"BUF-157",   PERMISSION,     3,     0x24, 0x0f, 0},
    {"BUF-157",   S2_PERMISSION,  3,     0x25, 0x0f, 0},
    {"BUF-173",   S2_ASSURED,     3,     0x25, 0x0f, 1u << 7},
    {"BUF-172",   S2_TOP_LEVEL,   3,     0x25, 0x0f, 1u << 8},
    {"BUF-160",   ACCESS_FLAG,    3,     0x24, 0x0b, 0},
    {"BUF-160",   S2_ACCESS_FLAG, 3,     0x25, 0x0b, 0},
    {"BUF-161",   TLB_CONFLICT,   3,     0x24, 0x30, 0},
    {"BUF-162",   HW_UPDATE,      3,     0x24, 0x31, 0},
    {"BUF-162",   S2_HW_UPDATE,   3,     0x25, 0x31, 0},
    {"BUF-163",   WALK_ABORT,     2,     0x24, 0x16, 0},
    {"BUF-163",   WALK_ABORT,     3,     0x24, 0x17, 0},
    {"BUF-163",   S2_WALK_ABORT,  3,     0x25, 0x17, 0},
    {"BUF-163",   GPT_ABORT,      0,     0x1e, 0x00, 0},
    {"BUF-164",   GPF,            0,     0x24, 0x28, 0},
    {"BUF-170",   GPF_WALK,       3,     0x24, 0x27, 0},
    {"BUF-170",   S2_GPF_WALK,    3,     0x25, 0x27, 0},
    {"BUF-167",   GPT_WALK,       0,     0x1e, 0x00, 0},
    {"BUF-167",   GPT_ADDRESS_SIZE, 0,   0x1e, 0x00, 0},
};
/* clang-format on */

static uint64_t pa_of(uint64_t va)
{
    return *walker_stage1(&walker, va, 3) & UINT64_C(0xfffffffff000);
}

static uint8_t *granule_of(uint64_t pa)
{
    return &walker.memory[walker.gpt + pa / WALKER_PAGE];
}

/* Break it; a copy of the walker puts it right again. */
static void break_page(const struct row *row, uint64_t va)
{
    uint64_t ipa = pa_of(va);
    switch (row->cause) {
    /* clang-format off */
    case TRANSLATION: *walker_stage1(&walker, va, row->level) &= ~UINT64_C(1); break;
    case ADDRESS_SIZE: *walker_stage1(&walker, va, row->level) |= UINT64_C(1) << 45; break;
    case ACCESS_FLAG: *walker_stage1(&walker, va, 3) &= ~D_AF; break;
    case PERMISSION: *walker_stage1(&walker, va, 3) |= D_READ_ONLY; break;
    case TLB_CONFLICT: walker.conflict = va; break;
    /* clang-format on */
    case HW_UPDATE:
        walker.ha = true;
        *walker_stage1(&walker, va, 3) &= ~D_AF;
        walker.no_atomic_page = (int64_t)(walker_table1(&walker, va, 3) / WALKER_PAGE);
        break;
    case WALK_ABORT:
        walker.abort_page = (int64_t)(walker_table1(&walker, va, row->level) / WALKER_PAGE);
        break;
    case GPF_WALK:
        *granule_of(walker_table1(&walker, va, row->level)) = GPT_NONE;
        break;
    /* clang-format off */
    case S2_TRANSLATION: *walker_stage2(&walker, ipa, row->level) &= ~UINT64_C(1); break;
    case S2_ADDRESS_SIZE: *walker_stage2(&walker, ipa, 3) |= UINT64_C(1) << 45; break;
    case S2_ACCESS_FLAG: *walker_stage2(&walker, ipa, 3) &= ~D_AF; break;
    case S2_PERMISSION: *walker_stage2(&walker, ipa, 3) |= D_READ_ONLY; break;
    case S2_ASSURED: *walker_stage2(&walker, ipa, 3) |= D_ASSURED; break;
    case S2_TOP_LEVEL: *walker_stage2(&walker, ipa, 3) |= D_TOP_LEVEL; break;
    /* clang-format on */
    case S2_HW_UPDATE:
        walker.ha = true;
        *walker_stage2(&walker, ipa, 3) &= ~D_AF;
        walker.no_atomic_page = (int64_t)(walker_table2(&walker, ipa, 3) / WALKER_PAGE);
        break;
    case S2_WALK_ABORT:
        walker.abort_page = (int64_t)(walker_table2(&walker, ipa, row->level) / WALKER_PAGE);
        break;
    case S2_GPF_WALK:
        *granule_of(walker_table2(&walker, ipa, row->level)) = GPT_NONE;
        break;
    /* clang-format off */
    case GPF: *granule_of(ipa) = GPT_SECURE; break;
    case GPT_WALK: *granule_of(ipa) = GPT_INVALID; break;
    case GPT_ADDRESS_SIZE: walker.gpt_limit = ipa; break;
    case GPT_ABORT: walker.abort_page = (int64_t)(walker.gpt / WALKER_PAGE); break;
        /* clang-format on */
    }
}

/* Everything is at fault from the first byte, or only the page that a record runs into. */
static bool breaks_all(const struct row *row)
{
    switch (row->cause) {
    case TRANSLATION:
    case ADDRESS_SIZE:
        return row->level < 3;
    case S2_TRANSLATION:
        return row->level < 3;
    case WALK_ABORT:
    case GPF_WALK:
    case S2_WALK_ABORT:
    case S2_GPF_WALK:
    case GPT_ADDRESS_SIZE:
    case GPT_ABORT:
        return true;
    default:
        return false;
    }
}

static struct walker saved;

/* A record that begins at pointer meets the fault at page; what it wrote before stays. */
static void meet(const struct row *row, uint64_t pointer, uint64_t page, bool in_middle)
{
    saved = walker;
    start(pointer);
    break_page(row, page);
    rig_sample_plain(&rig);
    uint64_t status = rig_get(&rig, SPEX_PMBSR_EL1), at = rig_get(&rig, SPEX_PMBPTR_EL1);
    uint64_t want = (uint64_t)row->mss2 << 32 | (uint64_t)row->ec << 26 |
                    (uint64_t)in_middle << 19 | BIT(17) | row->fsc;
    uint64_t want_at = in_middle ? page : pointer;
    if (status != want || at != want_at)
        fail_msg("%s cause %d level %u: PMBSR_EL1 0x%llx not 0x%llx, PMBPTR_EL1 0x%llx not 0x%llx",
                 row->id, row->cause, row->level, (unsigned long long)status,
                 (unsigned long long)want, (unsigned long long)at, (unsigned long long)want_at);
    if (in_middle) /* the bytes before the page are there: the beginning of a record */
        assert_int_not_equal(*walker_at(&walker, pointer), 0);
    /* Repair and go on where it stopped: REG-25. */
    walker = saved;
    rig_set(&rig, SPEX_PMBSR_EL1, 0);
    rig_sample_plain(&rig);
    assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), 0);
    assert_int_equal(rig_get(&rig, SPEX_PMBPTR_EL1), at + (in_middle ? 32 : 64));
    assert_int_not_equal(*walker_at(&walker, at), 0);
}

static void test_d17_11(void **state)
{
    SPEC(BUF-01);
    SPEC(BUF-06);
    SPEC(BUF-07);
    SPEC(BUF-08);
    SPEC(BUF-73);
    SPEC(BUF-74);
    SPEC(BUF-75);
    SPEC(BUF-166);
    SPEC(BUF-167);
    SPEC(BUF-168);
    SPEC(BUF-169);
    SPEC(BUF-171);
    SPEC(BUF-172);
    SPEC(BUF-173);
    SPEC(BUF-174);
    SPEC(BUF-175);
    SPEC(BUF-187);
    SPEC(REG-25);
    for (size_t i = 0; i < sizeof d17_11 / sizeof *d17_11; i++) {
        const struct row *row = &d17_11[i];
        SPEC_ID(row->id);
        /* Compact records aligned to 64; EL1 owns the buffer: both stages. */
        open_walker("v1p4,align=6,maxsize=8", "layout=compact", true, true);
        meet(row, BUFFER + WALKER_PAGE, BUFFER + WALKER_PAGE, false);
        if (!breaks_all(row)) {
            rig_close(&rig);
            /* Records of 32 bytes aligned to 16: one crosses the page. */
            open_walker("v1p4,align=4,maxsize=8", "layout=compact", true, true);
            meet(row, BUFFER + WALKER_PAGE - 16, BUFFER + WALKER_PAGE, true);
        }
        rig_close(&rig);
    }
}

/* What the fault is not: PAN, EL0 pages, watchpoints; with AF and dirty management no fault. */
static void test_no_fault(void **state)
{
    SPEC(BUF-153);
    SPEC(BUF-157);
    SPEC(BUF-158);
    SPEC(BUF-179);
    SPEC(REG-24);
    open_walker("v1p4,align=6,maxsize=8", "layout=compact", true, true);
    *walker_stage1(&walker, BUFFER, 3) |= D_USER; /* PAN would forbid it to a store */
    start(BUFFER);
    rig_sample_plain(&rig);
    assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), 0);
    *walker_stage1(&walker, BUFFER, 3) &= ~D_USER; /* EL0 could not write it, the SPU does */
    rig_state(&rig, 0, SPEX_NONSECURE);
    rig_sample_plain(&rig);
    assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), 0);
    assert_int_equal(walker.watchpoints, 0);
    /* Managed: the flags are set, no fault. */
    walker.ha = walker.hd = true;
    *walker_stage1(&walker, BUFFER, 3) &= ~D_AF;
    *walker_stage1(&walker, BUFFER, 3) |= D_READ_ONLY | D_DBM;
    rig_sample_plain(&rig);
    assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), 0);
    assert_true(*walker_stage1(&walker, BUFFER, 3) & D_AF);
    assert_false(*walker_stage1(&walker, BUFFER, 3) & D_READ_ONLY);
    /* A read-only page that is not dirty-managed faults. */
    *walker_stage1(&walker, BUFFER, 3) |= D_READ_ONLY;
    *walker_stage1(&walker, BUFFER, 3) &= ~D_DBM;
    rig_sample_plain(&rig);
    assert_int_equal(RIG_GET(&rig, PMBSR_EL1, MSS), 0x0f);
    rig_close(&rig);
}

/* PMBIDR_EL1.F of 0, before SPEv1p3: the SPU manages neither Access flag nor dirty state. */
static void test_no_management(void **state)
{
    SPEC(BUF-159);
    SPEC(BUF-160);
    SPEC(BUF-180);
    for (unsigned f = 0; f < 2; f++) {
        open_walker(f ? "v1p2,f,align=6,maxsize=8" : "v1p2,no-f,align=6,maxsize=8",
                    "layout=compact", false, false);
        assert_int_equal(RIG_GET(&rig, PMBIDR_EL1, F), f);
        walker.ha = walker.hd = true;
        *walker_stage1(&walker, BUFFER, 3) |= D_READ_ONLY | D_DBM;
        start(BUFFER);
        rig_sample_plain(&rig);
        assert_int_equal(RIG_GET(&rig, PMBSR_EL1, S), !f);
        assert_int_equal(RIG_GET(&rig, PMBSR_EL1, MSS), f ? 0 : 0x0f);
        start(BUFFER + WALKER_PAGE);
        *walker_stage1(&walker, BUFFER + WALKER_PAGE, 3) &= ~D_AF;
        rig_sample_plain(&rig);
        assert_int_equal(RIG_GET(&rig, PMBSR_EL1, S), !f);
        assert_int_equal(RIG_GET(&rig, PMBSR_EL1, MSS), f ? 0 : 0x0b);
        rig_close(&rig);
    }
}

/* FEAT_HAFT: Table descriptors on the way get their Access flag. */
static void test_table_access_flag(void **state)
{
    SPEC(BUF-182);
    open_walker("v1p4,align=6,maxsize=8", "layout=compact", false, false);
    walker.haft = true;
    for (unsigned level = 0; level < 3; level++)
        *walker_stage1(&walker, BUFFER, level) &= ~D_AF;
    start(BUFFER);
    rig_sample_plain(&rig);
    for (unsigned level = 0; level < 3; level++)
        assert_true(*walker_stage1(&walker, BUFFER, level) & D_AF);
    rig_close(&rig);
}

/* The page after may be translated, and become dirty, before anything is written there. */
static void test_dirty_ahead(void **state)
{
    SPEC(BUF-181);
    for (unsigned ahead = 0; ahead < 2; ahead++) {
        open_walker("v1p4,align=6,maxsize=8",
                    ahead ? "layout=compact dirty_ahead=yes" : "layout=compact", false, false);
        walker.ha = walker.hd = true;
        uint64_t next = BUFFER + WALKER_PAGE;
        *walker_stage1(&walker, next, 3) |= D_READ_ONLY | D_DBM;
        start(BUFFER);
        rig_sample_plain(&rig);
        assert_int_equal(!(*walker_stage1(&walker, next, 3) & D_READ_ONLY), ahead);
        for (unsigned i = 0; i < 64; i++)
            assert_int_equal(walker_at(&walker, next)[i], 0);
        assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), 0);
        rig_close(&rig);
    }
}

/* FEAT_SPE_nVM: no stage 1; an intermediate address, attributes from PMBMAR_EL1. */
static void test_nvm(void **state)
{
    SPEC(REG-23);
    open_walker("v1p5,align=6,maxsize=8", "layout=compact", true, false);
    RIG_FIELD(&rig, PMSCR_EL2, EnVM, 1);
    uint64_t ipa = pa_of(BUFFER);
    *walker_stage1(&walker, BUFFER, 3) = 0; /* would fault if anybody looked */
    rig_set(&rig, SPEX_PMBMAR_EL1, 0x3ff);
    rig_set(&rig, SPEX_PMBPTR_EL1, ipa);
    rig_set(&rig, SPEX_PMBLIMITR_EL1, (ipa + WALKER_PAGE) | 1 << 7 | 1);
    rig_set(&rig, SPEX_PMSIRR_EL1, 1 << 8);
    rig_set(&rig, SPEX_PMSCR_EL1, 3);
    rig_sample_plain(&rig);
    assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), 0);
    assert_int_not_equal(walker.memory[ipa], 0);
    /* Stage 2 still protects. */
    *walker_stage2(&walker, ipa, 3) &= ~UINT64_C(1);
    rig_sample_plain(&rig);
    assert_int_equal(RIG_GET(&rig, PMBSR_EL1, EC), 0x25);
    assert_int_equal(RIG_GET(&rig, PMBSR_EL1, MSS), 0x07);
    /* Above the implemented physical addresses: a stage 1 Address Size fault, level 0. */
    for (unsigned above = 0; above < 2; above++) {
        rig_close(&rig);
        open_walker("v1p5,align=6,maxsize=8",
                    above ? "layout=compact pa_bits=40 above_oa=ignored"
                          : "layout=compact pa_bits=40",
                    true, false);
        RIG_FIELD(&rig, PMSCR_EL2, EnVM, 1);
        for (unsigned bit = 40; bit < 56; bit += 5) {
            uint64_t at = BIT(bit) | 0x10000;
            rig_set(&rig, SPEX_PMSCR_EL1, 0);
            rig_set(&rig, SPEX_PMBSR_EL1, 0);
            rig_set(&rig, SPEX_PMBPTR_EL1, at);
            rig_set(&rig, SPEX_PMBLIMITR_EL1, (at + 0x10000) | 1 << 7 | 1);
            rig_set(&rig, SPEX_PMSIRR_EL1, 1 << 8);
            rig_set(&rig, SPEX_PMSCR_EL1, 3);
            rig_sample_plain(&rig);
            uint64_t want = bit < 48 || !above ? UINT64_C(0x24) << 26 | BIT(17)
                                               : UINT64_C(0x25) << 26 | BIT(17) | 0x04;
            if (bit < 48 || !above)
                assert_int_equal(rig_get(&rig, SPEX_PMBSR_EL1), want);
            else /* ignored here: stage 2 is asked, which maps nothing there */
                assert_int_equal(RIG_GET(&rig, PMBSR_EL1, EC), 0x25);
            assert_int_equal(rig_get(&rig, SPEX_PMBPTR_EL1), at);
        }
    }
    rig_close(&rig);
}

TEST_MAIN(TEST(test_d17_11), TEST(test_no_fault), TEST(test_no_management),
          TEST(test_table_access_flag), TEST(test_dirty_ahead), TEST(test_nvm))
