/* Each rule finds its violation at its place, nothing else, and passes what is allowed. */
#include "support/test.h"

#include "record/verifier.h"

#include "violations.h"

static void parse(const char *list, struct arch_features *features)
{
    struct spex_error error;
    if (arch_features_parse(list, features, &error))
        fail_msg("%s: %s", list, error.text);
}

/* Violations of a stream given at once. Returns how many; keeps the first. */
static size_t run(const char *features, const uint8_t *data, size_t size,
                  struct spex_violation *first)
{
    struct arch_features f;
    struct spex_verifier verifier;
    struct spex_violation violation;
    size_t count = 0;
    if (features)
        parse(features, &f);
    verifier_init(&verifier, features ? &f : NULL);
    spex_verifier_feed(&verifier, data, size, 0, true);
    while (spex_verifier_next(&verifier, &violation) == SPEX_OK)
        if (!count++)
            *first = violation;
    return count;
}

static void test_each_row_breaks_its_rule_only(void **state)
{
    for (size_t i = 0; i < VIOLATION_ROWS; i++) {
        const struct violation_row *row = &violation_rows[i];
        uint8_t data[512];
        size_t mark = SIZE_MAX, size = violation_bytes(row->bytes, data, &mark);
        struct spex_violation v;
        size_t count = run(row->features, data, size, &v);
        if (count != 1 || strcmp(v.rule->id, row->rule) || v.offset != mark)
            fail_msg("%s with %s: %zu violations, first %s at %zu, want %s at %zu", row->bytes,
                     row->features, count, count ? v.rule->id : "", count ? (size_t)v.offset : 0,
                     row->rule, mark);
        if (!v.what[0])
            fail_msg("%s: no words for it", row->rule);
        size = violation_bytes(row->repaired, data, &mark);
        if (run(row->features, data, size, &v))
            fail_msg("%s with %s: repaired, but %s at %zu: %s", row->repaired, row->features,
                     v.rule->id, (size_t)v.offset, v.what);
        for (const char *p = row->requirements; *p;) {
            char id[16];
            size_t n = strcspn(p, " ");
            snprintf(id, sizeof id, "%.*s", (int)n, p);
            SPEC_ID(id);
            p += n + (p[n] == ' ');
        }
    }
}

static bool lists(const char *requirements, const char *id, size_t size)
{
    for (const char *p = requirements; (p = strstr(p, id)); p++)
        if ((p[size] == ' ' || !p[size]) && (p == requirements || p[-1] == ' '))
            return true;
    return false;
}

/* Every requirement that a rule names has a row, and rows claim no others. */
static void test_every_rule_and_requirement_has_a_row(void **state)
{
    const struct spex_rule *rule;
    for (size_t i = 0; (rule = spex_verifier_rule(i)); i++) {
        bool any = false;
        for (size_t j = 0; j < VIOLATION_ROWS; j++) {
            const struct violation_row *row = &violation_rows[j];
            if (strcmp(row->rule, rule->id))
                continue;
            any = true;
            for (const char *p = row->requirements; *p;) {
                size_t n = strcspn(p, " ");
                char id[16];
                snprintf(id, sizeof id, "%.*s", (int)n, p);
                if (!lists(rule->requirements, id, n))
                    fail_msg("%s does not name %s", rule->id, id);
                p += n + (p[n] == ' ');
            }
        }
        if (!any)
            fail_msg("no row breaks %s", rule->id);
        for (const char *p = rule->requirements; *p;) {
            size_t n = strcspn(p, " ");
            char id[16];
            snprintf(id, sizeof id, "%.*s", (int)n, p);
            bool proved = !strchr(id, '-');
            for (size_t j = 0; j < VIOLATION_ROWS && !proved; j++)
                proved = !strcmp(violation_rows[j].rule, rule->id) &&
                         lists(violation_rows[j].requirements, id, n);
            if (!proved)
                fail_msg("%s: no row for %s", rule->id, id);
            p += n + (p[n] == ' ');
        }
    }
}

/* An ignored rule is silent; the rest of the rules is not. */
static void test_ignore(void **state)
{
    for (size_t i = 0; i < VIOLATION_ROWS; i++) {
        const struct violation_row *row = &violation_rows[i];
        struct arch_features f;
        struct spex_verifier verifier;
        struct spex_violation v;
        uint8_t data[512];
        size_t mark, size = violation_bytes(row->bytes, data, &mark);
        parse(row->features, &f);
        verifier_init(&verifier, &f);
        assert_int_equal(spex_verifier_ignore(&verifier, row->rule), SPEX_OK);
        assert_int_equal(spex_verifier_ignore(&verifier, "no-such-rule"), SPEX_INVALID);
        spex_verifier_feed(&verifier, data, size, 0, true);
        if (spex_verifier_next(&verifier, &v) == SPEX_OK)
            fail_msg("%s: %s is ignored, but %s at %zu", row->bytes, row->rule, v.rule->id,
                     (size_t)v.offset);
    }
}

/* Without features a rule that needs one to be present is off, the others are not tightened. */
static void test_unknown_features(void **state)
{
    for (size_t i = 0; i < VIOLATION_ROWS; i++) {
        const struct violation_row *row = &violation_rows[i];
        uint8_t data[512];
        size_t mark, size = violation_bytes(row->bytes, data, &mark);
        struct spex_violation v;
        const struct spex_rule *rule;
        size_t count = run(NULL, data, size, &v);
        if (count > 1 || (count && strcmp(v.rule->id, row->rule) && !v.rule->unless))
            fail_msg("%s: %s", row->bytes, v.rule->id);
        for (size_t j = 0; (rule = spex_verifier_rule(j)); j++)
            if (!strcmp(rule->id, row->rule) && rule->exact)
                assert_int_equal(count, 0);
        size = violation_bytes(row->repaired, data, &mark);
        if (run(NULL, data, size, &v))
            fail_msg("%s: %s", row->repaired, v.rule->id);
    }
}

/* What the manual leaves to the implementation, and odd but legal streams: all must pass. */
static const struct {
    const char *requirements, *features, *bytes;
} allowed[] = {
#include "violations.def" /* for its abbreviations; the rows are gone */
    /* framing */
    {"", "max", ""},
    {"", "max", "000000000000"},
    {"", "max", "00 42 00 00 00 b0 " NS "00 " TS "00" MIN}, /* padding before, inside and between */
    {"", "max,align=4", "00000000" MIN "00 0000" MIN "000000"},
    {"FMT-33", "max", "20b0 " NS "20b4 " NS "2098 0000 209c 0000 " MIN},
    {"PKT-62", "max",
     "42 02 b0 " NS LAT "48 00 " TS "52 0200 b0 " NS LAT "48 00 " TS "62 02000000 b0 " NS LAT
     "48 00 " TS "72 0200000000000000 b0 " NS LAT "48 00 " TS},
    /* IMPLEMENTATION DEFINED packets, sizes and events */
    {"PKT-10", "max", "b6 " NS "b7 ffffffffffffffff " MIN},
    {"PKT-12", "max", "22b0 " NS "23b7 ffffffffffffffff " MIN},
    {"PKT-43", "max", "9e 0100 9f 0100 2298 0100 239f ffff " MIN},
    {"PKT-55", "max", "49 00 53 ffff " MIN "49 00 43 ff " MIN},
    {"PKT-64", "max", "72 000000000000ffff " TS},
    {"PKT-78", "max", "52 00f0 " TS},
    {"", "v1p3,no-sme,no-spe-sme,no-ev-smcu", "62 000000ff " TS},
    {"PKT-96", "max", "42 01 " TS},
    /* a condition that raised no exception: nothing else need be there, E[1] reads as one */
    {"DAT-222", "max", "42 02 " TS},
    {"DAT-222", "max", "b0 " NS "42 02 " TS},
    {"PKT-46", "max", "98 ffff 99 0010 " MIN},
    {"", "max,countsize=2", "98 ff0f 99 ff0f " MIN},
    /* presence: UNPREDICTABLE after exceptions and for speculative operations (D17.6.7,
       D17.6.10) */
    {"", "max", "42 03 " TS "48 00 42 03 " TS "49 00 42 17 " TS LAT "42 01 " TS},
    {"", "max", EXE "4a 19 42 42 " TS},                            /* not taken, no target */
    {"DAT-238", "max", EXE "4a 19 b1 ffffffffffffffff 42 42 " TS}, /* its target is UNKNOWN */
    {"", "max", EXE "4a 18 42 02 " TS},                            /* an ISB */
    {"", "max", "b0 " NS2 LAT "4a 1a b1 " NS "42 02 " TS},         /* exception return */
    {"", "max", "b0 " NS2 LAT "4a 1a b1 " EL3 "42 02 " TS},        /* an illegal one */
    {"", "max", EXE "4a 19 b1 " NS "42 02 " TS EXE "48 00 b4 " NS "42 02 " TS}, /* D17.6.3.1 */
    /* inactive elements; none that is active, with the address of one and without */
    {"", "max", EXE "49 0c 43 00 62 02000200 " TS EXE "49 8d 62 02000200 " TS},
    {"", "max", EXE VAD "49 0c 62 02000600 " TS EXE "49 0d 62 02000600 " TS},
    {"", "max", "b0 " NS1 LAT "49 30 43 00 42 02 " TS},           /* NV2 without address */
    {"", "max", "b0 " NS1 LAT "49 31 9a 0000 42 02 " TS},         /* and with a latency of zero */
    {"", "max", EXE "9c ffff 48 00 62 02000001 " TS},             /* another clock may be faster */
    {"", "max,altclk=15", EXE "9c 0100 48 00 62 02000000 " TS},   /* and not the SMCU's */
    {"", "max", "b0 " NS "99 ffff 98 ffff 48 00 42 02 " TS},      /* saturated */
    {"", "max", EXE "49 20 42 02 " TS EXE "49 25 42 02 " TS},     /* zero-length copy */
    {"", "max", EXE VAD "49 0b 42 02 " TS EXE "49 0b 42 02 " TS}, /* failed exclusive */
    {"", "max", EXE VAD "9a 0000 49 07 42 02 " TS EXE VAD "9a 0000 49 07 43 00 42 02 " TS},
    {"", "max", EXE VAD "9a 0000 49 11 43 00 42 02 " TS},            /* ST64BV */
    {"", "max", EXE VAD "b3 " NS "9a 0000 48 00 43 00 52 3e0f " TS}, /* prefetch */
    {"", "max", EXE VAD "48 08 62 16000200 " TS},                    /* SVE prefetch */
    {"", "max", EXE "48 00 62 02000600 " TS},                        /* SVE prefetch as Other */
    {"", "max", "b2 ffffffffffffffff 49 00 " MIN},                   /* tag byte */
    {"", "max", VAD "b3 00004000000000cf 49 00 " MIN VAD "b3 000040000000008f 49 00 " MIN},
    {"", "max", "b0 " SEC "b3 " NS MIN "b0 " RLM "b3 " NS MIN "b0 " RLM "b3 " RLM MIN},
    {"", "max", "49 40 42 80 " TS}, /* part of a return */
    {"", "max", "b0 " NS "64 00000000 65 00000000 " MIN "b0 " SEC2 "65 00000000 " MIN},
    {"", "v1p0", EXE "49 04 43 00 42 02 " TS},                       /* SVE before v1p1 */
    {"", "v1p1,no-spe-sme,no-ev-smcu", EXE "49 10 62 02000200 " TS}, /* SME, unspecified */
};

static void test_permissions(void **state)
{
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        uint8_t data[512];
        size_t mark, size = violation_bytes(allowed[i].bytes, data, &mark);
        struct spex_violation v;
        if (run(allowed[i].features, data, size, &v))
            fail_msg("%s with %s: %s at %zu: %s", allowed[i].bytes, allowed[i].features, v.rule->id,
                     (size_t)v.offset, v.what);
        if (run(NULL, data, size, &v))
            fail_msg("%s: %s", allowed[i].bytes, v.rule->id);
        if (*allowed[i].requirements)
            SPEC_ID(allowed[i].requirements);
    }
}

/* Before SPEv1p3 a copy looks like a plain store; it may have loaded, or accessed nothing. */
static void test_copy_before_its_subclass(void **state)
{
    uint8_t data[512];
    size_t mark, size = violation_bytes(EXE "49 01 43 00 42 02 " TS, data, &mark);
    struct spex_violation v;
    assert_int_equal(run("v1p2", data, size, &v), 0);
    assert_int_equal(run("v1p2,no-mops", data, size, &v), 2);         /* address, and the source */
    assert_int_equal(run("v1p0,no-mops,no-ls64", data, size, &v), 1); /* SME: the source only */
    assert_int_equal(run("v1p0,no-mops,no-ls64,no-sme,no-spe-sme", data, size, &v), 2);
    assert_int_equal(run("v1p0,no-mops,no-sme,no-spe-sme", data, size, &v), 1); /* ST64BV */
    size = violation_bytes(EXE "49 11 42 02 " TS, data, &mark); /* or like one of unspecified */
    assert_int_equal(run("v1p2", data, size, &v), 0);
    assert_int_equal(run("v1p2,no-mops", data, size, &v), 1);
    assert_int_equal(run("v1p3", data, size, &v), 1);
    size = violation_bytes(EXE "49 11 62 02000200 " TS, data, &mark); /* without a predicate */
    assert_int_equal(run("v1p2", data, size, &v), 1);
}

/* Every way to give a stream in two pieces, with the rest again, finds the same. */
static void test_pieces(void **state)
{
    for (size_t i = 0; i < VIOLATION_ROWS; i++) {
        const struct violation_row *row = &violation_rows[i];
        struct arch_features f;
        uint8_t data[512];
        size_t mark = 0, size = violation_bytes(row->bytes, data, &mark);
        parse(row->features, &f);
        for (size_t split = 0; split <= size; split++) {
            struct spex_verifier verifier;
            struct spex_violation v;
            size_t count = 0;
            verifier_init(&verifier, &f);
            spex_verifier_feed(&verifier, data, split, 0, false);
            while (spex_verifier_next(&verifier, &v) == SPEX_OK)
                count++;
            size_t at = split - spex_verifier_rest(&verifier);
            assert_true(split - at < SPEX_PACKET_MAX);
            spex_verifier_feed(&verifier, data + at, size - at, at, true);
            while (spex_verifier_next(&verifier, &v) == SPEX_OK)
                count++;
            if (count != 1)
                fail_msg("%s split at %zu: %zu violations", row->bytes, split, count);
        }
    }
}

/* Offsets count from base; a new piece elsewhere starts afresh. */
static void test_base_and_restart(void **state)
{
    static const uint8_t data[] = {0x42, 0, 1, 0x42, 0, 2, 1};
    struct spex_verifier verifier;
    struct spex_violation v;
    verifier_init(&verifier, NULL);
    spex_verifier_feed(&verifier, data, sizeof data, 1000, true);
    assert_int_equal(spex_verifier_next(&verifier, &v), SPEX_OK);
    assert_int_equal(v.offset, 1005);
    assert_int_equal(v.record, 1);
    assert_int_equal(spex_verifier_next(&verifier, &v), SPEX_END);
    assert_int_equal(verifier.records, 2);
    spex_verifier_feed(&verifier, data, 5, 5000, false); /* leaves an open record */
    assert_int_equal(spex_verifier_next(&verifier, &v), SPEX_END);
    spex_verifier_feed(&verifier, data + 3, 4, 9000, true);
    assert_int_equal(spex_verifier_next(&verifier, &v), SPEX_OK);
    assert_int_equal(v.offset, 9002);
    assert_int_equal(spex_verifier_next(&verifier, &v), SPEX_END);
}

/* Any bytes: ends, stays inside, and every offset is in the stream. */
static void test_any_bytes(void **state)
{
    uint64_t x = 88172645463325252u;
    uint8_t *data = malloc(4096);
    for (unsigned n = 0; n < 400; n++) {
        size_t size = n * 10;
        for (size_t i = 0; i < size; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            data[4096 - size + i] = (uint8_t)x;
        }
        struct arch_features f;
        struct spex_verifier verifier;
        struct spex_violation v;
        parse(n & 1 ? "min" : "neoverse-n2", &f);
        verifier_init(&verifier, &f);
        spex_verifier_feed(&verifier, data + 4096 - size, size, 0, true);
        while (spex_verifier_next(&verifier, &v) == SPEX_OK)
            assert_true(v.offset < size);
    }
    free(data);
}

static void test_options_in_words(void **state)
{
    static const uint8_t crr[] = {0x42, 0x02, 0x4a, 0x08, 0x01}; /* a branch with link, End */
    struct {
        struct spex_verify_options known;
        uint64_t next;
    } o = {{.size = sizeof o, .features = "neoverse-n1"}, 0};
    struct spex_verifier *verifier = NULL;
    struct spex_error error;
    struct spex_violation v;
    unsigned found[2] = {0};
    for (unsigned known = 0; known < 2; known++) {
        assert_int_equal(spex_verifier_new(known ? &o.known : NULL, &verifier, &error), SPEX_OK);
        spex_verifier_feed(verifier, crr, sizeof crr, 0, true);
        while (spex_verifier_next(verifier, &v) == SPEX_OK)
            found[known] += !strcmp(v.rule->id, "op-cr-zero");
        assert_int_equal(spex_verifier_records(verifier), 1);
        spex_verifier_free(verifier);
    }
    assert_int_equal(found[0], 0);
    assert_int_equal(found[1], 1);
    verifier = NULL;
    o.next = 1;
    assert_int_equal(spex_verifier_new(&o.known, &verifier, &error), SPEX_UNSUPPORTED);
    assert_non_null(strstr(error.text, "spex_verify_options"));
    o.next = 0;
    o.known.features = "unicorn";
    assert_int_equal(spex_verifier_new(&o.known, &verifier, &error), SPEX_INVALID);
    assert_null(verifier);
}

TEST_MAIN(TEST(test_each_row_breaks_its_rule_only), TEST(test_every_rule_and_requirement_has_a_row),
          TEST(test_ignore), TEST(test_unknown_features), TEST(test_permissions),
          TEST(test_copy_before_its_subclass), TEST(test_pieces), TEST(test_base_and_restart),
          TEST(test_any_bytes), TEST(test_options_in_words))
