/*
 * A fault at every byte of every record of a run: nothing that was complete is
 * lost, DL exactly when part of a record is, and restart goes on.
 */
#include "fixture.h"

#include "record/reader.h"

enum { RECORDS = 6 };

static void sample(struct fixture *f, unsigned i)
{
    static const struct spex_op ops[] = {
        {.kind = SPEX_OP_OTHER},
        {.kind = SPEX_OP_LDST, .flags = SPEX_OPF_LOAD},
        {.kind = SPEX_OP_BRANCH, .flags = SPEX_OPF_COND},
    };
    /* clang-format off */
    struct spex_outcome o = {.flags = SPEX_OUT_EXECUTED | SPEX_OUT_PASSED, .total = 100 + i,
                             .target = 0x4444, .target_el = 1, .target_security = SPEX_NONSECURE};
    o.access[0] = (struct spex_access){.va = 0x1000 * i, .pa = 0x77, .pas = SPEX_NONSECURE,
                                       .flags = SPEX_ACC_VA | SPEX_ACC_PA | SPEX_ACC_DONE};
    /* clang-format on */
    f->time = 1000 + i;
    fixture_set(f, SPEX_PMSICR_EL1, 1);
    spex_spu_op(f->unit, 0x100 * i, &ops[i % 3], &o);
}

/* Records in memory from BASE to end, each of which must decode. Returns how many. */
static unsigned decode(struct fixture *f, uint64_t end, struct spex_record *records)
{
    struct spex_reader reader;
    unsigned n = 0;
    reader_whole(&reader, f->memory, (size_t)(end - BASE), 0);
    while (n < RECORDS && spex_reader_next(&reader, &records[n], NULL) == SPEX_OK)
        n++;
    return n;
}

static void run(const char *features)
{
    /* A run without faults says where records begin and what memory looks like. */
    struct fixture *clean = fixture_new(features, NULL, 1);
    uint64_t starts[RECORDS + 1];
    struct spex_record expected[RECORDS];
    fixture_start(clean, 0x4000, 0x100);
    for (unsigned i = 0; i < RECORDS; i++) {
        starts[i] = fixture_get(clean, SPEX_PMBPTR_EL1);
        sample(clean, i);
    }
    starts[RECORDS] = fixture_get(clean, SPEX_PMBPTR_EL1);
    assert_int_equal(decode(clean, starts[RECORDS], expected), RECORDS);

    for (uint64_t at = BASE; at < starts[RECORDS]; at++) {
        struct fixture *f = fixture_new(features, NULL, 1);
        unsigned hit = 0;
        while (starts[hit + 1] <= at)
            hit++;
        fixture_start(f, 0x4000, 0x100);
        f->fault_at = at;
        for (unsigned i = 0; i <= hit; i++)
            sample(f, i);
        uint64_t sr = fixture_get(f, SPEX_PMBSR_EL1);
        assert_int_equal(sr >> 26 & 63, 0x24);
        assert_int_equal(sr & 0x3f, 0x07);
        assert_int_equal(sr >> 17 & 1, 1);
        assert_int_equal(sr >> 19 & 1, at != starts[hit]); /* DL iff inside a record */
        assert_int_equal(fixture_get(f, SPEX_PMBPTR_EL1), at);
        assert_true(f->irq);
        assert_int_equal(f->highest, at);
        assert_memory_equal(f->memory, clean->memory, (size_t)(starts[hit] - BASE));
        /* the last complete record ends at most 2^MaxSize below */
        assert_true(at - starts[hit] <= 1ull << spu_get_config(f->unit)->features.MaxSize);

        /* No further byte while stopped; then the mapping is fixed and the run goes on. */
        sample(f, hit + 1);
        assert_int_equal(f->highest, at);
        f->fault_at = UINT64_MAX;
        fixture_set(f, SPEX_PMBPTR_EL1, starts[hit]); /* DL: software drops the torn record */
        fixture_set(f, SPEX_PMBSR_EL1, 0);
        assert_false(f->irq);
        for (unsigned i = hit + 1; i < RECORDS; i++)
            sample(f, i);
        struct spex_record got[RECORDS];
        unsigned n = decode(f, fixture_get(f, SPEX_PMBPTR_EL1), got);
        assert_int_equal(n, RECORDS - 1);
        for (unsigned i = 0; i < n; i++) {
            const struct spex_record *want = &expected[i < hit ? i : i + 1];
            assert_int_equal(got[i].address[0], want->address[0]);
            assert_int_equal(got[i].total, want->total);
            assert_int_equal(got[i].timestamp, want->timestamp);
            /* a branch that passed while stopped is no previous branch */
            assert_int_equal(got[i].present | SPEX_HAS_PREV_TARGET,
                             want->present | SPEX_HAS_PREV_TARGET);
        }
        fixture_free(f);
    }
    fixture_free(clean);
}

static void test_every_byte_compact(void **state)
{
    SPEC(BUF-74);
    SPEC(BUF-75);
    SPEC(BUF-175);
    run("max");
}

static void test_every_byte_aligned(void **state)
{
    SPEC(BUF-74);
    run("v1p5,align=4");
}

static void test_every_byte_n1(void **state)
{
    run("neoverse-n1");
}

/* An SError names the byte that aborted, and the record goes on after it. */
static void test_serror_address(void **state)
{
    struct fixture *f = fixture_new("max,ea=2", NULL, 1);
    f->abort = true;
    f->fault_at = BASE + 5;
    fixture_start(f, 0x4000, 0x100);
    sample(f, 0);
    assert_int_equal(f->serror, BASE + 5);
    assert_int_equal(fixture_get(f, SPEX_PMBSR_EL1), 0);
    assert_true(f->highest > BASE + 5);
    assert_int_equal(fixture_get(f, SPEX_PMBPTR_EL1), f->highest);
    fixture_free(f);
}

/* The caller of an IMPLEMENTATION DEFINED event is told whether it was recorded. */
/* What a host may say about a write that stopped, at the edges of what it was given. */
static size_t claimed;

static void claim(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    *stop = (struct spex_spu_stop){.kind = SPEX_STOP_ABORT, .written = store->count + claimed};
    *(unsigned *)user += 1;
}

static void test_abort_behind_the_last_byte(void **state)
{
    for (claimed = 0; claimed < 2; claimed++) {
        unsigned writes = 0;
        struct spex_spu_host host = {.size = sizeof host, .user = &writes, .write = claim};
        struct spex_spu_config config = {
            .size = sizeof config, .features = "max,ea=2", .host = &host};
        struct spex_error error;
        struct spex_spu *unit;
        assert_int_equal(spex_spu_new(&config, &unit, &error), SPEX_OK);
        spex_spu_boot(unit);
        spex_spu_set(unit, SPEX_PMBPTR_EL1, 0x1000);
        spex_spu_set(unit, SPEX_PMBLIMITR_EL1, 0x9001);
        spex_spu_set(unit, SPEX_PMSCR_EL1, 2);
        spex_spu_set(unit, SPEX_PMSICR_EL1, 1);
        struct spex_op op = {.kind = SPEX_OP_OTHER};
        struct spex_outcome outcome = {.flags = SPEX_OUT_EXECUTED};
        assert_true(spex_spu_op(unit, 0, &op, &outcome));
        uint64_t value = 0; /* an SError that nobody hears: the record counts as written */
        assert_int_equal(writes, 1);
        assert_true(spex_spu_get(unit, SPEX_PMBPTR_EL1, &value) && value > 0x1000);
        assert_true(spex_spu_get(unit, SPEX_PMBSR_EL1, &value) && value == 0);
        spex_spu_free(unit);
    }
}

static void test_impdef_event_is_told(void **state)
{
    SPEC(BUF-208);
    for (int enabled = 0; enabled < 2; enabled++) {
        struct fixture *f = fixture_new(NULL, enabled ? "impdef_event=enabled" : NULL, 1);
        fixture_start(f, 0x4000, 0x100);
        assert_int_equal(spex_spu_impdef_event(f->unit, 1, 2), enabled);
        assert_int_equal(spex_spu_impdef_event(f->unit, 3, 4), 0); /* the first is not serviced */
        assert_int_equal(fixture_get(f, SPEX_PMBSR_EL1) & 0xffff, enabled);
        fixture_free(f);
    }
}

/* Never a byte at or past LIMIT, whatever the sizes, and every full buffer is complete. */
static void test_limit(void **state)
{
    SPEC(BUF-16);
    SPEC(BUF-141);
    SPEC(BUF-142);
    SPEC(BUF-147);
    static const char *const sets[] = {"max", "neoverse-n1", "v1p5,align=5", "maxsize=11",
                                       "v1p5,maxsize=7,no-gcs,no-pbt"};
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        for (uint64_t start = 0; start < 300; start += 1) {
            struct fixture *f = fixture_new(sets[s], NULL, 1);
            const struct arch_features *features = &spu_get_config(f->unit)->features;
            uint64_t limit = BASE + 0x2000, align = 1ull << features->Align;
            uint64_t largest = 1ull << features->MaxSize;
            if (start % align)
                goto next;
            fixture_start(f, 0x2000, 0x100);
            fixture_set(f, SPEX_PMSCR_EL1, 0);
            fixture_set(f, SPEX_PMBPTR_EL1, BASE + start);
            fixture_set(f, SPEX_PMSCR_EL1, 0x33);
            uint64_t before = 0, pointer = BASE + start;
            for (unsigned i = 0; !(fixture_get(f, SPEX_PMBSR_EL1) >> 17 & 1); i++) {
                before = pointer;
                sample(f, i);
                pointer = fixture_get(f, SPEX_PMBPTR_EL1);
            }
            assert_true(f->highest <= limit);
            assert_int_equal(f->highest, pointer);
            assert_int_equal(fixture_get(f, SPEX_PMBSR_EL1), 0x20001);
            assert_true(before <= limit - largest && pointer > limit - largest);
        next:
            fixture_free(f);
        }
    }
}

/*
 * IXPWQC: an asynchronous External abort sets S while a record is written that fills the buffer or
 * faults: the second event finds S set and is not recorded.
 */
static void test_event_after_a_late_abort(void **state)
{
    SPEC(BUF-143);
    SPEC(BUF-165);
    uint64_t aborted =
        1 << 17 | 1 << 18 | 1 << 19 | UINT64_C(0x24) << 26 | 0x11; /* S EA DL EC FSC */
    for (unsigned fault = 0; fault < 2; fault++) {
        struct fixture *f = fixture_new("v1p2,ea=0", NULL, 1);
        fixture_start(f, 0x1000, 0x100);
        fixture_set(f, SPEX_PMBPTR_EL1, BASE + 0x1000 - 256);
        fixture_set(f, SPEX_PMBSR_EL1, 0);
        f->late = true;
        f->fault_at = fault ? BASE + 0x1000 - 250 : UINT64_MAX;
        sample(f, 0);
        assert_int_equal(fixture_get(f, SPEX_PMBSR_EL1), aborted);
        fixture_free(f);
    }
}

TEST_MAIN(TEST(test_event_after_a_late_abort), TEST(test_every_byte_compact),
          TEST(test_every_byte_aligned), TEST(test_every_byte_n1), TEST(test_serror_address),
          TEST(test_abort_behind_the_last_byte), TEST(test_impdef_event_is_told), TEST(test_limit))
