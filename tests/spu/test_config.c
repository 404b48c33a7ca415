/* Configuration: choices by name, what is refused, what every value of every choice runs to. */
#include "fixture.h"

#include "base/rng.h"
#include "record/reader.h"

static void test_defaults_are_in_range(void **state)
{
    struct spu_choices choices;
    const struct spex_spu_choice *row;
    spu_choices_default(&choices);
    for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
        uint64_t value;
        value = *spu_choice_field(&choices, i);
        assert_int_equal(value, row->standard);
        assert_true(value >= row->min && value <= row->max);
        assert_true(strlen(row->text) > 10 && strlen(row->requirements) >= 6);
    }
}

/* Names of values: as many as there are numbers. */
static void test_choices_by_name(void **state)
{
    struct spu_choices choices;
    struct spex_error error;
    const struct spex_spu_choice *row;
    spu_choices_default(&choices);
    for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
        uint64_t words = 0, value;
        for (const char *p = row->values; *p; words++) {
            char assignment[128];
            size_t n = strcspn(p, " ");
            snprintf(assignment, sizeof assignment, "%s=%.*s", row->name, (int)n, p);
            assert_int_equal(spu_choices_set(&choices, assignment, &error), SPEX_OK);
            value = *spu_choice_field(&choices, i);
            if (row->max - row->min < 10) /* numbers that look like words are numbers */
                assert_int_equal(value, row->min + words);
            p += n + (p[n] == ' ');
        }
        if (words)
            assert_int_equal(words, row->max - row->min + 1);
    }
    assert_int_equal(spu_choices_set(&choices, "in_flight=8", &error), SPEX_OK);
    assert_int_equal(choices.in_flight, 8);
    assert_int_equal(spu_choices_set(&choices, "in_flight=0", &error), SPEX_RANGE);
    assert_non_null(strstr(error.text, "1 to 8"));
    assert_int_equal(spu_choices_set(&choices, "in_flight=-1", &error), SPEX_RANGE);
    assert_int_equal(spu_choices_set(&choices, "in_flight=2x", &error), SPEX_RANGE);
    assert_int_equal(spu_choices_set(&choices, "isb_branch=maybe", &error), SPEX_RANGE);
    assert_non_null(strstr(error.text, "no yes"));
    assert_int_equal(spu_choices_set(&choices, "unicorn=1", &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "unicorn"));
    assert_int_equal(spu_choices_set(&choices, "in_flight", &error), SPEX_INVALID);
}

/* The constants that the code compares with are the words that people write. */
static void test_choice_constants(void **state)
{
#define ROW(field, word, constant)                                                                 \
    {                                                                                              \
#field "=" word, offsetof(struct spu_choices, field), constant                             \
    }
    static const struct {
        const char *assignment;
        size_t offset;
        uint64_t value;
    } rows[] = {
        ROW(initial_load, "enabling", LOAD_ENABLING),
        ROW(exception_info, "pc", EXCEPTION_INFO_PC),
        ROW(timestamp_at, "selection", TIMESTAMP_SELECTION),
        ROW(timestamp_at, "completion", TIMESTAMP_COMPLETION),
        ROW(alt_clock, "index-4", ALT_CLOCK_INDEX_4),
        ROW(alt_clock, "impdef", ALT_CLOCK_IMPDEF),
        ROW(dc_zva, "store", DC_ZVA_STORE),
        ROW(part_address, "part", PART_ADDRESS_PART),
        ROW(part_events, "part", PART_EVENTS_PART),
        ROW(cache_op_info, "none", INFO_NONE),
        ROW(cache_op_info, "address", INFO_ADDRESS),
        ROW(cache_op_info, "all", INFO_ALL),
        ROW(sve_prefetch_info, "none", INFO_NONE),
        ROW(sve_prefetch_info, "address", INFO_ADDRESS),
        ROW(sve_prefetch_info, "all", INFO_ALL),
        ROW(ft_zero, "off", FILTER_OFF),
        ROW(fe_zero, "off", FILTER_OFF),
        ROW(fne_zero, "off", FILTER_OFF),
        ROW(fl_zero, "off", FILTER_OFF),
        ROW(fe_fne_overlap, "off", FILTER_OFF),
        ROW(abort_unspecified, "report", UNSPECIFIED_REPORT),
        ROW(abort_unspecified, "ignore", UNSPECIFIED_IGNORE),
        ROW(abort_unspecified, "serror", UNSPECIFIED_SERROR),
        ROW(walk_abort, "fault", WALK_ABORT_FAULT),
        ROW(late_write, "drop", LATE_DROP),
        ROW(late_write, "write", LATE_WRITE),
        ROW(late_write, "not-allowed", LATE_NOT_ALLOWED),
        ROW(reset_unknown, "zero", RESET_ZERO),
        ROW(reset_unknown, "random", RESET_RANDOM),
        ROW(pointer_rule, "full", POINTER_FULL),
        ROW(pointer_rule, "not-allowed", POINTER_NOT_ALLOWED),
        ROW(pointer_rule, "fault", POINTER_FAULT),
        ROW(pointer_rule, "impdef", POINTER_IMPDEF),
        ROW(pointer_rule, "discard", POINTER_DISCARD),
        ROW(pointer_rule, "disabled", POINTER_DISABLED),
        ROW(pointer_rule_at, "record", POINTER_AT_RECORD),
        ROW(pointer_rule_at, "enabling", POINTER_AT_ENABLING),
    };
#undef ROW
    struct spu_choices choices;
    struct spex_error error;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t value;
        assert_int_equal(spu_choices_set(&choices, rows[i].assignment, &error), SPEX_OK);
        memcpy(&value, (const char *)&choices + rows[i].offset, sizeof value);
        assert_int_equal(value, rows[i].value);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *features, *choices, *word;
    } rows[] = {
        {"maxsize=6", NULL, "maxsize"},
        {"neoverse-n1", "layout=n1 data_source_size=2", "layout"},
        {"max", "layout=n1", "layout"},
        {"max", "events_size=1", "events_size"},
        {"max", "events_size=3", "events_size"},
        {"max", "impdef_counter=5", "impdef"},
        {"max", "impdef_address=9", "impdef"},
        {"max", "alt_clock=impdef", "impdef_counter"},
        {"max", "granule=13", "granule"},
        {"max", "pa_bits=56", "pa_bits"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spu_config config;
        struct spex_error error = {0};
        struct spex_spu *unit = NULL;
        spu_config_default(&config);
        assert_int_equal(arch_features_parse(rows[i].features, &config.features, &error), SPEX_OK);
        char copy[128] = "";
        if (rows[i].choices)
            snprintf(copy, sizeof copy, "%s", rows[i].choices);
        for (char *rest = copy, *word; (word = strtok_r(rest, " ", &rest));)
            assert_int_equal(spu_choices_set(&config.choices, word, &error), SPEX_OK);
        if (spu_new(&config, &unit, &error) == SPEX_OK)
            fail_msg("%s %s was accepted", rows[i].features, copy);
        assert_null(unit);
        if (!strstr(error.text, rows[i].word))
            fail_msg("'%s' does not name %s", error.text, rows[i].word);
    }
    struct spu_config config;
    struct spex_error error;
    spu_config_default(&config);
    config.features.GCS = true;
    config.features.CRR = false;
    assert_int_equal(spu_config_check(&config, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "crr"));
    spu_config_default(&config);
    config.choices.isb_branch = 2;
    assert_int_equal(spu_config_check(&config, &error), SPEX_RANGE);
    spu_config_default(&config);
    config.choices.in_flight = 0;
    assert_int_equal(spu_config_check(&config, &error), SPEX_RANGE);
}

/* What a program compiled against other headers passes: a shorter or a longer struct. */
struct longer_config {
    struct spex_spu_config known;
    uint64_t next;
};

static void test_config_grows(void **state)
{
    struct spex_error error;
    struct spex_spu *unit = NULL;
    struct longer_config config = {
        {.size = offsetof(struct spex_spu_config, choices), .features = "neoverse-n1"}, 0};
    config.known.choices = "none of these is read"; /* after the end of the old struct */
    assert_int_equal(spex_spu_config_check(NULL, &error), SPEX_OK); /* all as standard */
    assert_int_equal(spex_spu_new(NULL, &unit, &error), SPEX_OK);
    spex_spu_free(unit);
    assert_int_equal(spex_spu_new(&config.known, &unit, &error), SPEX_OK);
    assert_int_equal(spu_get_config(unit)->features.version, 1);
    spex_spu_free(unit);

    config.known.size = sizeof config;
    config.known.choices = "in_flight=3, isb_branch=yes";
    assert_int_equal(spex_spu_new(&config.known, &unit, &error), SPEX_OK);
    assert_int_equal(spu_get_config(unit)->choices.in_flight, 3);
    assert_int_equal(spu_get_config(unit)->choices.isb_branch, 1);
    spex_spu_free(unit);

    unit = NULL;
    ((uint8_t *)&config.next)[5] = 1; /* in either byte order */
    assert_int_equal(spex_spu_new(&config.known, &unit, &error), SPEX_UNSUPPORTED);
    assert_null(unit); /* out-parameters are untouched */
    assert_non_null(strstr(error.text, "spex_spu_config"));
    assert_int_equal(error.offset, offsetof(struct longer_config, next) + 5);

    for (size_t size = 0; size < sizeof size; size++) {
        config.known.size = size;
        assert_int_equal(spex_spu_config_check(&config.known, &error), SPEX_INVALID);
        assert_non_null(strstr(error.text, "sizeof(struct spex_spu_config)"));
    }
    config.known.size = (size_t)-1;
    assert_int_equal(spex_spu_config_check(&config.known, &error), SPEX_INVALID);
}

#define LONG_NAME                                                                                  \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" /* 72 */

static void test_host_and_words(void **state)
{
    struct {
        struct spex_spu_host known;
        void (*next)(void);
    } host = {{.size = sizeof host}, NULL};
    static const struct {
        const char *features, *choices, *word;
    } wrong[] = {{"unicorn", NULL, "unicorn"},
                 {"max", "unicorn=1", "unicorn"},
                 {"max", "in_flight=1,,granule=13", "granule"},
                 {"max", "in_flight", "form choice=value"},
                 {"max", "in_flight=", "1 to 8"},
                 {"max", "in_flight=9", "1 to 8"},
                 {"max", "in_flight=99999999999999999999", "1 to 8"},
                 {"max", LONG_NAME "=1", "unknown choice 'aaaaaaaaaaaaaaaaaaaaaaaa"},
                 {"max", LONG_NAME LONG_NAME "=1", "choice too long"},
                 {"max", "layout=n1", "layout"}};
    struct spex_spu_config config = {.size = sizeof config, .host = &host.known};
    struct spex_error error;
    assert_int_equal(spex_spu_config_check(&config, &error), SPEX_OK);
    host.next = abort;
    assert_int_equal(spex_spu_config_check(&config, &error), SPEX_UNSUPPORTED);
    assert_non_null(strstr(error.text, "spex_spu_host"));
    config.host = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        config.features = wrong[i].features;
        config.choices = wrong[i].choices;
        assert_int_not_equal(spex_spu_config_check(&config, &error), SPEX_OK);
        if (!strstr(error.text, wrong[i].word))
            fail_msg("'%s' does not name %s", error.text, wrong[i].word);
    }
}

static void test_status_grows(void **state)
{
    struct fixture *f = fixture_new(NULL, NULL, 1);
    struct {
        struct spex_spu_status known;
        uint8_t next[8];
    } status;
    memset(&status, 0xaa, sizeof status);
    status.known.size = offsetof(struct spex_spu_status, discard); /* an older, shorter one */
    spex_spu_get_status(f->unit, &status.known);
    assert_int_equal(status.known.size, offsetof(struct spex_spu_status, discard));
    assert_int_equal(status.known.enabled, 0);
    assert_int_equal(((uint8_t *)&status)[offsetof(struct spex_spu_status, discard)], 0xaa);
    status.known.size = sizeof status; /* a newer, longer one */
    spex_spu_get_status(f->unit, &status.known);
    assert_int_equal(status.known.owner_el, 1);
    for (size_t i = 0; i < sizeof status.next; i++)
        assert_int_equal(status.next[i], 0);
    fixture_free(f);
}

static void random_op(struct rng *rng, struct spex_op *op, struct spex_outcome *o)
{
    memset(op, 0, sizeof *op);
    memset(o, 0, sizeof *o);
    op->kind = (uint8_t)rng_below(rng, SPEX_OP_KIND_COUNT);
    op->flags = (uint32_t)rng_next(rng) & 0xffffff;
    op->vectors = (uint8_t)rng_below(rng, 5);
    op->vector_bits = 16u << rng_below(rng, 14);
    o->flags = (uint32_t)rng_next(rng) & 0x1fff;
    if (rng_chance(rng, 7, 8)) /* most are members of the population */
        o->flags &= ~(uint32_t)(SPEX_OUT_SPECULATIVE | SPEX_OUT_NO_INSN | SPEX_OUT_NONARCH_EXC);
    o->events = rng_next(rng);
    o->total = (uint32_t)rng_next(rng) >> rng_below(rng, 32);
    o->issue = (uint32_t)rng_next(rng) >> rng_below(rng, 32);
    o->target = rng_next(rng);
    o->target_el = (uint8_t)rng_below(rng, 4);
    o->target_security = (uint8_t)rng_below(rng, 4);
    for (unsigned i = 0; i < 2; i++) {
        struct spex_access *a = &o->access[i];
        a->va = rng_next(rng);
        a->pa = rng_next(rng);
        a->events = rng_next(rng);
        a->translation = (uint32_t)rng_next(rng);
        a->data_source = (uint16_t)rng_next(rng);
        a->flags = (uint16_t)(rng_next(rng) & 0x3ff);
        a->pas = (uint8_t)rng_below(rng, 4);
        a->tag = (uint8_t)rng_next(rng);
    }
    o->impdef_address = rng_next(rng);
    o->impdef_counter = (uint32_t)rng_next(rng);
}

/* With each value of each choice, whatever an engine says becomes records that decode and fit. */
static void test_every_value_of_every_choice(void **state)
{
    SPEC(DAT-220);
    static const char *const sets[] = {"max", "neoverse-n1", "v1p2,no-gcs"};
    const struct spex_spu_choice *row;
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        for (size_t i = 0; (row = spex_spu_choice_at(i)); i++) {
            for (unsigned k = 0; k < 6; k++) {
                uint64_t value = row->max - row->min < 6 ? row->min + k
                                 : k == 5                ? row->max
                                                         : row->min + k * (row->max / 7);
                struct rng rng = {i * 10 + k};
                char assignment[100];
                if (value > row->max)
                    continue;
                snprintf(assignment, sizeof assignment, "%s=%llu", row->name,
                         (unsigned long long)value);
                struct spu_config config;
                struct spex_error error;
                spu_config_default(&config);
                arch_features_parse(sets[s], &config.features, &error);
                assert_int_equal(spu_choices_set(&config.choices, assignment, &error), SPEX_OK);
                if (spu_config_check(&config, &error))
                    continue; /* refused, with a reason: test_refused */
                struct fixture *f = fixture_new(sets[s], assignment, i);
                fixture_start(f, 0x10000, 0x100);
                unsigned kept = 0;
                for (unsigned n = 0; n < 60; n++) {
                    struct spex_op op;
                    struct spex_outcome o;
                    random_op(&rng, &op, &o);
                    fixture_set(f, SPEX_PMSICR_EL1, 1);
                    spex_spu_context_sync(f->unit);
                    bool sampled = false;
                    for (unsigned m = 0; m < 17 && !sampled; m++)
                        sampled = spex_spu_op(f->unit, rng_next(&rng), &op, &o);
                    kept += sampled;
                }
                if (kept <= 40)
                    fail_msg("%s %s: only %u sampled", sets[s], assignment, kept);
                spex_spu_psb(f->unit, NULL);
                uint64_t end = fixture_get(f, SPEX_PMBPTR_EL1);
                struct spex_reader reader;
                struct spex_record r;
                struct spex_damage damage = {0};
                enum spex_status status;
                size_t largest = (size_t)1 << config.features.MaxSize;
                reader_whole(&reader, f->memory, (size_t)(end - BASE), 0);
                while ((status = spex_reader_next(&reader, &r, &damage)) == SPEX_OK) {
                    assert_true(r.present & SPEX_HAS_EVENTS);
                    assert_true(r.size <= largest);
                }
                if (status != SPEX_END)
                    fail_msg("%s %s: %s", sets[s], assignment, damage.reason);
                assert_int_equal((end - BASE) % (1u << config.features.Align), 0);
                fixture_free(f);
            }
        }
    }
}

/* The unit's own encoder against the record module's. */
static void test_encoder(void **state)
{
    static const struct {
        const char *features, *choices;
        enum spex_layout layout;
    } rows[] = {
        {"max", NULL, SPEX_LAYOUT_COMPACT},    {"v1p2,align=5", NULL, SPEX_LAYOUT_COMPACT},
        {"neoverse-n1", NULL, SPEX_LAYOUT_N1}, {"max", "layout=hisi", SPEX_LAYOUT_HISI},
        {"kunpeng-920", "", SPEX_LAYOUT_HISI}, {"ampereone", "", SPEX_LAYOUT_COMPACT},
        {"neoverse-v3", "", SPEX_LAYOUT_N1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rng rng = {i};
        struct fixture *f = fixture_new(rows[i].features, rows[i].choices, i);
        unsigned align = spu_get_config(f->unit)->features.Align;
        unsigned compared = 0;
        for (unsigned n = 0; n < 4000; n++) {
            struct spex_op op;
            struct spex_outcome o;
            struct spex_reader reader;
            struct spex_record r;
            uint8_t bytes[512];
            size_t length = 0;
            random_op(&rng, &op, &o);
            fixture_start(f, 0x4000, 0x100);
            fixture_set(f, SPEX_PMSCR_EL1, rng_next(&rng) | 3);
            fixture_set(f, SPEX_PMSICR_EL1, 1);
            f->time = rng_next(&rng);
            if (!spex_spu_op(f->unit, rng_next(&rng), &op, &o))
                continue;
            size_t size = (size_t)(fixture_get(f, SPEX_PMBPTR_EL1) - BASE);
            reader_whole(&reader, f->memory, size, 0);
            assert_int_equal(spex_reader_next(&reader, &r, NULL), SPEX_OK);
            assert_int_equal(
                spex_record_encode(&r, rows[i].layout, align, bytes, sizeof bytes, &length),
                SPEX_OK);
            assert_int_equal(length, size);
            assert_memory_equal(bytes, f->memory, size);
            compared++;
        }
        assert_true(compared > 3000);
        fixture_free(f);
    }
}

/* RDDCQB: what writes a predicate (a compare) has no Advanced SIMD equivalent. */
static void test_predicate_result(void **state)
{
    struct fixture *f = fixture_new("v1p5,no-archinst", "sve128=asimd", 1);
    struct spex_op op = {.kind = SPEX_OP_SVE, .vector_bits = 128, .flags = SPEX_OPF_ASIMD_EQUIV};
    struct spex_outcome outcome = {.flags = SPEX_OUT_EXECUTED};
    for (unsigned i = 0; i < 2; i++) {
        struct spex_reader reader;
        struct spex_record record;
        fixture_start(f, 0x8000, 0x100);
        fixture_set(f, SPEX_PMSICR_EL1, 1);
        assert_true(spex_spu_op(f->unit, 0, &op, &outcome));
        uint64_t end = fixture_get(f, SPEX_PMBPTR_EL1);
        reader_whole(&reader, f->memory, (size_t)(end - BASE), 0);
        assert_int_equal(spex_reader_next(&reader, &record, NULL), SPEX_OK);
        assert_int_equal(record.op_payload & 8, i ? 8 : 0); /* SVE, or other */
        op.dst[0] = SPEX_REG_P0 + 3;
    }
    fixture_free(f);
}

TEST_MAIN(TEST(test_predicate_result), TEST(test_defaults_are_in_range), TEST(test_choices_by_name),
          TEST(test_choice_constants), TEST(test_refused), TEST(test_config_grows),
          TEST(test_host_and_words), TEST(test_status_grows),
          TEST(test_every_value_of_every_choice), TEST(test_encoder))
