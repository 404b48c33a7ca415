/*
 * The generator and the checker against a reading of D17.6 and D18.2 that is neither's: what is
 * generated breaks no sentence, and of records that were changed both say the same.
 */
#include "support/test.h"

#include "base/rng.h"
#include "record/generated.h"
#include "record/oracle.h"
#include "record/reading.h"
#include "record/verifier.h"

/* A feature set at random: a version or preset, some of its features off and others on. */
static void random_features(struct rng *rng, char *list, size_t size)
{
    static const char *const flags[] = {
#define FLAG(field, name, text) name,
#include "arch/features.def"
    };
    struct arch_features unused;
    struct spex_error error;
    do {
        const char *base = feature_lists[rng_below(rng, 15)];
        int n = snprintf(list, size, "%s", base);
        for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
            if (rng_chance(rng, 1, 8))
                n += snprintf(list + n, size - (size_t)n, ",%s%s", rng_below(rng, 3) ? "no-" : "",
                              flags[i]);
        n += snprintf(list + n, size - (size_t)n, ",countsize=%u,maxsize=%u", 2 + rng_below(rng, 2),
                      6 + rng_below(rng, 6));
        if (rng_chance(rng, 1, 3))
            snprintf(list + n, size - (size_t)n, ",altclk=%u", (unsigned[]){0, 1, 15}[n % 3]);
    } while (arch_features_parse(list, &unused, &error));
}

/* Two hundred of them: the checker finds nothing, not even a warning, nor does the reading. */
static void test_random_features(void **state)
{
    struct rng rng = {20261118};
    size_t records = 0;
    for (unsigned i = 0; i < 200; i++) {
        char list[1024];
        struct stream s;
        struct spex_verifier verifier;
        struct spex_violation v;
        random_features(&rng, list, sizeof list);
        make(&s, list, i % 3, i, 400, 0);
        verifier_init(&verifier, &s.options.features);
        spex_verifier_feed(&verifier, s.data, s.size, 0, true);
        if (spex_verifier_next(&verifier, &v) == SPEX_OK)
            fail_msg("%s: record %u: %s: %s", list, (unsigned)v.record, v.rule->id, v.what);
        struct oracle oracle = oracle_start(s.data, s.size, 0);
        struct spex_record record;
        struct spex_damage damage;
        for (; oracle_next(&oracle, &record, &damage) == SPEX_OK; records++) {
            const char *broken = reading_broken(&s.options.features, &record);
            if (broken)
                fail_msg("%s: record at %llu, class %u, payload 0x%02x, events 0x%llx: %s", list,
                         (unsigned long long)record.offset, record.op_class, record.op_payload,
                         (unsigned long long)record.events, broken);
        }
        drop(&s);
    }
    assert_int_equal(records, 200 * 400);
}

/* Takes a packet out, flips a bit of the type or of an event, changes a counter, or adds one. */
static size_t change(struct rng *rng, const uint8_t *data, size_t size, uint8_t *out)
{
    static const struct {
        enum spex_packet_type type;
        unsigned index, size;
    } more[] = {{SPEX_PACKET_DATA_SOURCE, 0, 1},
                {SPEX_PACKET_ADDRESS, SPEX_ADDRESS_VA, 0},
                {SPEX_PACKET_COUNTER, SPEX_COUNTER_TRANSLATION, 0}};
    enum { REMOVE, TYPE, EVENT, COUNTER, ADD, WAYS };
    unsigned way = rng_below(rng, WAYS), add = rng_below(rng, 3), victim = rng_below(rng, 12);
    size_t length = 0, written;
    struct spex_packet p;
    for (size_t at = 0, i = 0; at < size; at += spex_packet_length(&p), i++) {
        assert_int_equal(spex_packet_decode(data + at, size - at, &p), SPEX_OK);
        struct spex_packet q = p;
        bool closing = p.type == SPEX_PACKET_END || p.type == SPEX_PACKET_TIMESTAMP;
        if (way == REMOVE && i == victim && !closing)
            continue;
        if (way == TYPE && p.type == SPEX_PACKET_OPERATION_TYPE)
            q.payload ^= 1u << rng_below(rng, 8);
        if (way == EVENT && p.type == SPEX_PACKET_EVENTS)
            q.payload ^= 1u << rng_below(rng, p.size > 4 ? 32 : 8 * p.size);
        if (way == COUNTER && p.type == SPEX_PACKET_COUNTER)
            q.payload = rng_below(rng, 64);
        if (add < 3 && p.type == more[add].type && p.index == more[add].index)
            add = 3; /* it is there */
        if (closing && way == ADD && add < 3) {
            struct spex_packet extra;
            assert_int_equal(
                spex_packet_make(more[add].type, more[add].index, more[add].size, 3, &extra),
                SPEX_OK);
            assert_int_equal(spex_packet_encode(&extra, out + length, SPEX_PACKET_MAX, &written),
                             SPEX_OK);
            length += written;
        }
        assert_int_equal(spex_packet_encode(&q, out + length, SPEX_PACKET_MAX, &written), SPEX_OK);
        length += written;
    }
    return length;
}

/* Whether the reading knows the sentences of this rule as well. */
static bool read_too(const char *rule)
{
    static const char *const rules[] = {
        "altclk-streaming",    "issue-total",       "translation-total", "source-store",
        "source-missing",      "events-missing",    "event-empty",       "empty-access",
        "event-predicate-op",  "event-memory-op",   "op-extended",       "op-exclusive",
        "op-gcs-call",         "op-return-direct",  "op-link-cond",      "pc-missing",
        "op-indirect-cond",    "empty-translation", "empty-pa",          "pc-alignment",
        "op-missing",          "total-missing",     "issue-missing",     "va-missing",
        "translation-missing", "translation-alone", "sve-va-missing",    "sve-translation-missing",
        "sve-source-missing",  "sve-load-access",   "prev-level",        "memory-op",
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!strcmp(rules[i], rule))
            return true;
    return false;
}

/* A violation, one that the reading knows if there is any, or NULL. */
static const char *violation(const struct arch_features *features, const uint8_t *data, size_t size)
{
    const char *first = NULL;
    struct spex_verifier verifier;
    struct spex_violation v;
    verifier_init(&verifier, features);
    spex_verifier_ignore(&verifier, "record-align"); /* of what follows */
    spex_verifier_feed(&verifier, data, size, 0, true);
    while (spex_verifier_next(&verifier, &v) == SPEX_OK) {
        if (read_too(v.rule->id))
            return v.rule->id;
        first = v.rule->id;
    }
    return first;
}

/* What breaks a sentence breaks a rule, and the other way round. */
static void test_changed_records(void **state)
{
    struct rng rng = {20261119};
    size_t broken = 0, fine = 0;
    for (unsigned i = 0; i < 200; i++) {
        char list[1024];
        struct stream s;
        random_features(&rng, list, sizeof list);
        make(&s, list, i % 3, i, 400, 0);
        for (size_t j = 0; j < s.count; j++) {
            const struct spex_record *r = &s.records[j];
            uint8_t data[SPEX_RECORD_MAX + SPEX_PACKET_MAX];
            size_t size = change(&rng, s.data + r->offset, r->size, data);
            struct oracle oracle = oracle_start(data, size, 0);
            struct spex_record record;
            struct spex_damage damage;
            if (oracle_next(&oracle, &record, &damage) != SPEX_OK)
                continue;
            const char *sentence = reading_broken(&s.options.features, &record);
            const char *rule = violation(&s.options.features, data, size);
            if (sentence ? !rule : rule && read_too(rule))
                fail_msg("%s: class %u, payload 0x%02x, events 0x%llx, present 0x%x: %s; %s", list,
                         record.op_class, record.op_payload, (unsigned long long)record.events,
                         record.present, sentence ? sentence : "no sentence",
                         rule ? rule : "no rule");
            *(sentence ? &broken : &fine) += 1;
        }
        drop(&s);
    }
    assert_true(broken > 20000 && fine > 20000);
}

TEST_MAIN(TEST(test_random_features), TEST(test_changed_records))
