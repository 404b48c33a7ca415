/* Generated streams conform, mean what they say, use everything, and never change. */
#include "support/test.h"

#include "base/rng.h"
#include "record/generated.h"
#include "record/oracle.h"
#include "record/verifier.h"
#include "record/reader.h"

static const char *const layout_names[] = {"compact", "n1", "hisi"};

enum { LISTS = sizeof feature_lists / sizeof feature_lists[0], LAYOUTS = 3 };

#define EACH_STREAM(features, layout, seed, seeds)                                                 \
    for (unsigned features = 0; features < LISTS; features++)                                      \
        for (unsigned layout = 0; layout < LAYOUTS; layout++)                                      \
            for (uint64_t seed = 0; seed < (seeds); seed++)

static void test_generated_streams_conform(void **state)
{
    EACH_STREAM(f, layout, seed, 20)
    {
        struct stream s;
        struct spex_verifier verifier;
        struct spex_violation v;
        make(&s, feature_lists[f], layout, seed, 300, 0);
        verifier_init(&verifier, &s.options.features);
        spex_verifier_feed(&verifier, s.data, s.size, 0, true);
        if (spex_verifier_next(&verifier, &v) == SPEX_OK)
            fail_msg("%s %s seed %u: record %u: %s: %s", feature_lists[f], layout_names[layout],
                     (unsigned)seed, (unsigned)v.record, v.rule->id, v.what);
        assert_int_equal(verifier.records, s.count);
        verifier_init(&verifier, NULL); /* unknown features forbid no more */
        spex_verifier_feed(&verifier, s.data, s.size, 0, true);
        if (spex_verifier_next(&verifier, &v) == SPEX_OK)
            fail_msg("%s: %s: %s", feature_lists[f], v.rule->id, v.what);
        drop(&s);
    }
}

#define SAME(field)                                                                                \
    if (got->field != want->field)                                                                 \
    fail_msg("%s: record at %llu: " #field " is %llx, meant %llx", where,                          \
             (unsigned long long)want->offset, (unsigned long long)got->field,                     \
             (unsigned long long)want->field)

static void compare(const char *where, const struct spex_record *got,
                    const struct spex_record *want)
{
    SAME(offset);
    SAME(size);
    SAME(present);
    for (unsigned i = 0; i < 5; i++)
        SAME(address[i]);
    SAME(events);
    SAME(events_size);
    SAME(timestamp);
    SAME(context[0]);
    SAME(context[1]);
    SAME(total);
    SAME(issue);
    SAME(translation);
    SAME(alt_issue);
    SAME(data_source);
    SAME(data_source_size);
    SAME(op_class);
    SAME(op_payload);
}

/* Reader and oracle read back what the generator meant, and nothing else. */
static void test_records_come_back(void **state)
{
    EACH_STREAM(f, layout, seed, 10)
    {
        struct stream s;
        char where[120];
        make(&s, feature_lists[f], layout, seed, 300, 0);
        snprintf(where, sizeof where, "%s %s seed %u", feature_lists[f], layout_names[layout],
                 (unsigned)seed);
        for (unsigned by = 0; by < 2; by++) {
            struct oracle oracle = oracle_start(s.data, s.size, 0);
            struct spex_reader reader;
            struct spex_record record;
            struct spex_damage damage;
            reader_whole(&reader, s.data, s.size, 0);
            for (size_t i = 0; i < s.count; i++) {
                enum spex_status status = by ? oracle_next(&oracle, &record, &damage)
                                             : spex_reader_next(&reader, &record, &damage);
                if (status)
                    fail_msg("%s: %s at %llu", where, spex_status_name(status),
                             (unsigned long long)damage.offset);
                compare(where, &record, &s.records[i]);
            }
            assert_int_equal(by ? oracle_next(&oracle, &record, &damage)
                                : spex_reader_next(&reader, &record, &damage),
                             SPEX_END);
        }
        drop(&s);
    }
}

/* FNV-1a */
static uint64_t hash(const uint8_t *data, size_t size)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++)
        h = (h ^ data[i]) * 0x100000001b3;
    return h;
}

/* The same seed gives the same bytes on every machine, today and later. */
static void test_golden(void **state)
{
    static const struct {
        const char *features;
        unsigned layout;
        uint64_t seed, hash;
        size_t size;
    } rows[] = {
#include "golden.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stream s;
        make(&s, rows[i].features, rows[i].layout, rows[i].seed, 1000, 0);
        if (s.size != rows[i].size || hash(s.data, s.size) != rows[i].hash)
            fail_msg("{\"%s\", %u, %llu, 0x%016llx, %zu},", rows[i].features, rows[i].layout,
                     (unsigned long long)rows[i].seed, (unsigned long long)hash(s.data, s.size),
                     s.size);
        drop(&s);
    }
}

/* ---- everything is used ---- */

struct use {
    unsigned packets[SPEX_PACKET_TYPE_COUNT][32][2]; /* type, index, extended header */
    unsigned sizes[SPEX_PACKET_TYPE_COUNT][9];
    unsigned subclasses[SPEX_SUB_COUNT][2];
    unsigned events[64], lengths[8], tiles[16], contexts[16], branches[32], extended[32];
    unsigned saturated, unretired, exception, shuffled;
};

static void count_uses(const struct stream *s, struct use *use)
{
    size_t at = 0;
    while (at < s->size) {
        struct spex_packet p;
        assert_int_equal(spex_packet_decode(s->data + at, s->size - at, &p), SPEX_OK);
        use->packets[p.type][p.index][p.header_size - 1]++;
        use->sizes[p.type][p.size]++;
        at += spex_packet_length(&p);
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct spex_record *r = &s->records[i];
        struct spex_op_type t;
        for (unsigned e = 0; e < 64; e++)
            use->events[e] += r->events >> e & 1;
        use->unretired += !(r->events & 2);
        use->exception += (r->events & 3) == 3;
        use->saturated += r->present & SPEX_HAS_TOTAL && r->total == 0xffff;
        if (r->present & SPEX_HAS_PC)
            use->contexts[r->address[0] >> 60]++;
        if (!(r->present & SPEX_HAS_OP))
            continue;
        spex_op_type_decode(r->op_class, r->op_payload, &t);
        use->subclasses[t.subclass][t.store]++;
        if (t.subclass == SPEX_SUB_SVE || t.subclass == SPEX_SUB_LDST_SVE_SME)
            use->lengths[t.length_code]++;
        if (t.subclass == SPEX_SUB_SME)
            use->tiles[t.length_code]++;
        if (t.subclass == SPEX_SUB_BRANCH)
            use->branches[r->op_payload]++;
        if (t.subclass == SPEX_SUB_LDST_EXTENDED)
            use->extended[r->op_payload]++;
    }
}

#define USED(what)                                                                                 \
    if (!(what))                                                                                   \
    fail_msg("never used: " #what " (i = %u)", i)

/* With the feature set max: each packet, INDEX, size, header form, subclass, field and event.
 */
static void test_everything_is_used(void **state)
{
    struct use *use = calloc(1, sizeof *use);
    unsigned i = 0;
    struct stream s;
    make(&s, "max", SPEX_LAYOUT_COMPACT, 7, 40000, 0);
    count_uses(&s, use);
    drop(&s);
    make(&s, "max,no-ts", SPEX_LAYOUT_COMPACT, 7, 100, 0);
    count_uses(&s, use);
    drop(&s);
    for (i = 0; i < SPEX_PACKET_RESERVED; i++)
        USED(use->packets[i][0][0]);
    USED(!use->packets[SPEX_PACKET_RESERVED][0][0] && !use->packets[SPEX_PACKET_RESERVED][0][1]);
    for (i = 0; i < 3; i++)
        USED(use->packets[SPEX_PACKET_OPERATION_TYPE][i][0]);
    for (i = 0; i < 2; i++)
        USED(use->packets[SPEX_PACKET_CONTEXT][i][0]);
    for (i = 0; i < 32; i++) {
        bool impdef = i == 6 || i == 7 || i >= 16;
        bool address = i < 5 || impdef, counter = i < 3 || i == 4 || impdef;
        USED((use->packets[SPEX_PACKET_ADDRESS][i][0] > 0) == (address && i < 8));
        USED((use->packets[SPEX_PACKET_ADDRESS][i][1] > 0) == address);
        USED((use->packets[SPEX_PACKET_COUNTER][i][0] > 0) == (counter && i < 8));
        USED((use->packets[SPEX_PACKET_COUNTER][i][1] > 0) == counter);
    }
    for (i = 1; i <= 8; i *= 2)
        USED(use->sizes[SPEX_PACKET_EVENTS][i]);
    for (i = 1; i <= 2; i++)
        USED(use->sizes[SPEX_PACKET_DATA_SOURCE][i]);
    for (i = SPEX_SUB_OTHER; i < SPEX_SUB_COUNT; i++) {
        bool ldst = i >= SPEX_SUB_LDST_GP && i < SPEX_SUB_BRANCH;
        USED((use->subclasses[i][0] > 0) == (i != SPEX_SUB_LDST_MEMSET));
        USED((use->subclasses[i][1] > 0) == ldst);
    }
    for (i = 0; i < 8; i++)
        USED(use->lengths[i]);
    for (i = 0; i < 16; i++)
        USED((use->tiles[i] > 0) == (i < 12 || i == 15));
    for (i = 0; i < 64; i++)
        USED((use->events[i] > 0) == !(i == 16 || (i >= 26 && i < 48)));
    for (i = 0; i < 16; i++) { /* NS EL EL NSE: EL0 to EL2, Secure, Non-secure, Realm */
        unsigned space = (i & 1) << 1 | i >> 3;
        USED((use->contexts[i] > 0) == (space != 2 && (i >> 1 & 3) != 3));
    }
    for (i = 0; i < 32; i++) { /* CR GCS IND COND */
        unsigned cr = i >> 3, gcs = i >> 2 & 1, form = i & 3;
        bool real =
            (cr == 3 && !gcs && form < 3) || (cr == 1 && form % 2 == 0) || (cr == 2 && form == 2);
        USED((use->branches[i] > 0) == real);
    }
    for (i = 0; i < 32; i++) /* AR EXCL AT */
        USED((use->extended[i] > 0) == (i & 2 && i & 0x1c && (i & 0xc) != 0xc));
    USED(use->saturated && use->unretired && use->exception);
    free(use);
}

/* The lesser feature sets use all they have: one subclass and event more with each version. */
static void test_versions_use_what_they_have(void **state)
{
    static const struct {
        const char *features;
        uint8_t subclass; /* first there */
        uint8_t event;
    } rows[] = {
        {"v1p0", SPEX_SUB_LDST_SIMD_FP, SPEX_EV_LLC_ACCESS},
        {"v1p1", SPEX_SUB_LDST_SVE_SME, SPEX_EV_MISALIGNED},
        {"v1p2", SPEX_SUB_SVE, SPEX_EV_EMPTY_PRED},
        {"v1p3", SPEX_SUB_LDST_MEMCPY, SPEX_EV_PARTIAL_PRED},
        {"v1p4", SPEX_SUB_LDST_GCS, SPEX_EV_SNOOPED},
        {"v1p5", SPEX_SUB_LDST_GCS, SPEX_EV_SMCU},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct use *use = calloc(1, sizeof *use);
        struct stream s;
        make(&s, rows[i].features, SPEX_LAYOUT_COMPACT, 3, 5000, 0);
        count_uses(&s, use);
        if (!use->subclasses[rows[i].subclass][0] || !use->events[rows[i].event])
            fail_msg("%s", rows[i].features);
        drop(&s);
        free(use);
    }
}

static void test_ops(void **state)
{
    for (unsigned ops = 1; ops <= SPEX_GENERATE_ALL; ops++) {
        struct stream s;
        unsigned seen = 0;
        make(&s, "max", SPEX_LAYOUT_COMPACT, ops, 2000, ops);
        for (size_t i = 0; i < s.count; i++)
            if (s.records[i].present & SPEX_HAS_OP)
                seen |= s.records[i].op_class == 1 ? 1u << (s.records[i].op_payload & 1)
                        : s.records[i].op_class    ? SPEX_GENERATE_BRANCH
                                                   : SPEX_GENERATE_OTHER;
        assert_int_equal(seen, ops);
        drop(&s);
    }
}

static void test_bad_options(void **state)
{
    struct generate_options options = {.align = 9};
    struct spex_generator g;
    struct spex_error error = {0};
    assert_int_equal(arch_features_parse("max", &options.features, &error), SPEX_OK);
    assert_int_equal(generator_init(&g, &options, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "aligned to 2^9"));
    options.align = 40; /* more than a shift of 32 bits can say */
    assert_int_equal(generator_init(&g, &options, &error), SPEX_INVALID);
    assert_non_null(strstr(error.text, "aligned to 2^40"));
    options.align = 0;
    options.features.PBT = true;
    options.features.version = 1;
    assert_int_equal(generator_init(&g, &options, &error), SPEX_INVALID);
}

/* In words, as a program outside has it: the same bytes; what is not known is refused by name. */
static void test_options_in_words(void **state)
{
    struct {
        struct spex_generate_options known;
        uint64_t next;
    } o = {{.size = sizeof o, .features = "neoverse-n2", .seed = 7, .align = 6}, 0};
    struct generate_options options = {.seed = 7, .align = 6};
    struct spex_generator by_value, *made = NULL;
    struct spex_error error = {0};
    struct spex_record r;
    uint8_t a[SPEX_RECORD_MAX], b[SPEX_RECORD_MAX];
    assert_int_equal(arch_features_parse("neoverse-n2", &options.features, &error), SPEX_OK);
    assert_int_equal(generator_init(&by_value, &options, &error), SPEX_OK);
    assert_int_equal(spex_generator_new(NULL, &made, &error), SPEX_OK); /* all as standard */
    assert_true(spex_generator_next(made, b, &r) > 0);
    spex_generator_free(made);
    assert_int_equal(spex_generator_new(&o.known, &made, &error), SPEX_OK);
    for (unsigned i = 0; i < 100; i++) {
        size_t size = spex_generator_next(&by_value, a, &r);
        assert_int_equal(spex_generator_next(made, b, &r), size);
        assert_memory_equal(a, b, size);
    }
    spex_generator_free(made);
    made = NULL;
    o.next = 1;
    assert_int_equal(spex_generator_new(&o.known, &made, &error), SPEX_UNSUPPORTED);
    assert_non_null(strstr(error.text, "spex_generate_options"));
    o.next = 0;
    o.known.ops = 16; /* no such kind */
    assert_int_equal(spex_generator_new(&o.known, &made, &error), SPEX_UNSUPPORTED);
    o.known.ops = 0;
    o.known.layout = (enum spex_layout)3;
    assert_int_equal(spex_generator_new(&o.known, &made, &error), SPEX_INVALID);
    o.known.layout = SPEX_LAYOUT_N1;
    o.known.features = "v9";
    assert_int_equal(spex_generator_new(&o.known, &made, &error), SPEX_INVALID);
    assert_null(made);
}

/* ---- damage ---- */

/* What is listed as intact is there byte for byte, and damage leaves most. */
static void test_damage_truth_is_true(void **state)
{
    for (unsigned kind = 0; kind < SPEX_DAMAGE_KIND_COUNT; kind++) {
        for (uint64_t seed = 0; seed < 60; seed++) {
            struct stream s;
            make(&s, "max", seed % LAYOUTS, seed, 1 + seed * 7, 0);
            uint8_t *whole = malloc(s.size);
            memcpy(whole, s.data, s.size);
            struct spex_record *meant = malloc(s.count * sizeof *meant);
            memcpy(meant, s.records, s.count * sizeof *meant);
            size_t size = s.size;
            size_t left = spex_damage_apply(kind, seed, s.data, &size, s.records, s.count);
            assert_true(left < s.count && size <= s.size);
            assert_true(kind == SPEX_DAMAGE_FLIP ? size == s.size : size < s.size || s.count < 8);
            assert_true(s.count < 50 || left > s.count / 3);
            size_t j = 0, wrapped = 0;
            for (size_t i = 0; i < left; i++) {
                const struct spex_record *r = &s.records[i];
                assert_true(r->offset + r->size <= size);
                assert_true(!i || r->offset >= r[-1].offset + r[-1].size);
                while (j < s.count && meant[j].timestamp != r->timestamp)
                    if (++j == s.count && kind == SPEX_DAMAGE_SPLICE && !wrapped++)
                        j = 0; /* a ring buffer wraps once */
                assert_true(j < s.count);
                assert_int_equal(r->size, meant[j].size);
                assert_memory_equal(s.data + r->offset, whole + meant[j].offset, r->size);
            }
            free(whole);
            free(meant);
            drop(&s);
        }
    }
}

/*
 * The reader finds every intact record after damage, except where the remains of the
 * damaged one and the head of the next read as one record, or a later place in the next
 * looks like its start (docs/format.md, resynchronization). At most this many of about
 * 47,000 intact records after 100 (truncate), 2,000 (flip, lose) or 200 (splice) wounds:
 */
static const size_t lost_at_most[SPEX_DAMAGE_KIND_COUNT][LAYOUTS] = {
    [SPEX_DAMAGE_TRUNCATE] = {0, 0, 0},
    [SPEX_DAMAGE_FLIP] = {80, 8, 12},
    [SPEX_DAMAGE_LOSE] = {420, 48, 48},
    [SPEX_DAMAGE_SPLICE] = {60, 10, 8},
};

static size_t missed_by_reader(const struct stream *s, size_t left)
{
    struct spex_reader reader;
    struct spex_record record;
    struct spex_damage damage;
    enum spex_status status;
    size_t i = 0, found = 0;
    reader_whole(&reader, s->data, s->size, 0);
    while ((status = spex_reader_next(&reader, &record, &damage)) != SPEX_END) {
        if (status)
            continue;
        /* Remains in front of it may have been taken for unknown packets of the record. */
        uint64_t end = record.offset + record.size;
        while (i < left && s->records[i].offset + s->records[i].size < end)
            i++;
        if (i < left && s->records[i].offset + s->records[i].size == end &&
            s->records[i].offset >= record.offset && s->records[i].address[0] == record.address[0])
            found++;
    }
    return left - found;
}

static void test_reader_finds_what_is_intact(void **state)
{
    for (unsigned kind = 0; kind < SPEX_DAMAGE_KIND_COUNT; kind++) {
        for (unsigned layout = 0; layout < LAYOUTS; layout++) {
            size_t missed = 0, total = 0;
            for (uint64_t seed = 0; seed < 100; seed++) {
                struct stream s;
                make(&s, layout == SPEX_LAYOUT_N1 ? "neoverse-n1" : "max", layout, seed, 500, 0);
                size_t left = spex_damage_apply(kind, seed, s.data, &s.size, s.records, s.count);
                missed += missed_by_reader(&s, left);
                total += left;
                drop(&s);
            }
            if (total < 45000 || missed > lost_at_most[kind][layout])
                fail_msg("damage %u, %s: %zu of %zu intact records lost", kind,
                         layout_names[layout], missed, total);
        }
    }
}

/* Records of 64 bytes with the most packets there are; sets with one kind of vectors or none. */
static void test_little_room(void **state)
{
    static const struct {
        const char *features;
        unsigned layout;
    } rows[] = {{"v1p4,gcs,maxsize=6", SPEX_LAYOUT_HISI},
                {"v1p4,gcs,maxsize=6", SPEX_LAYOUT_COMPACT},
                {"v1p4,no-sve", SPEX_LAYOUT_COMPACT},
                {"v1p4,no-sme,no-spe-sme,no-ev-smcu", SPEX_LAYOUT_COMPACT},
                {"v1p4,no-sve,no-sme,no-spe-sme,no-ev-smcu", SPEX_LAYOUT_COMPACT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stream s;
        make(&s, rows[i].features, rows[i].layout, i, 30000, 0);
        for (size_t j = 0; j < s.count; j++)
            assert_true(i > 1 || s.records[j].size <= 64);
        struct spex_verify_options options = {.size = sizeof options, .features = rows[i].features};
        struct spex_verifier *verifier;
        struct spex_violation violation;
        struct spex_error error;
        assert_int_equal(spex_verifier_new(&options, &verifier, &error), SPEX_OK);
        spex_verifier_feed(verifier, s.data, s.size, 0, true);
        assert_int_equal(spex_verifier_next(verifier, &violation), SPEX_END);
        spex_verifier_free(verifier);
        drop(&s);
    }
    size_t size = 3;
    uint8_t padding[3] = {0};
    assert_int_equal(spex_damage_apply(SPEX_DAMAGE_FLIP, 1, padding, &size, NULL, 0), 0);
    assert_int_equal(size, 3);
}

TEST_MAIN(TEST(test_little_room), TEST(test_generated_streams_conform),
          TEST(test_records_come_back), TEST(test_golden), TEST(test_everything_is_used),
          TEST(test_versions_use_what_they_have), TEST(test_ops), TEST(test_bad_options),
          TEST(test_options_in_words), TEST(test_damage_truth_is_true),
          TEST(test_reader_finds_what_is_intact))
