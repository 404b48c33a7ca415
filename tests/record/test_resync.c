/*
 * Reading goes on after damage: the rules of docs/format.md, one test each, and
 * how much is lost over thousands of damaged streams.
 */
#include "support/test.h"

#include <spex/record.h>

#include "record/readers.h"
#include "record/stream.h"

/* Building blocks of streams. */
#define PC "b0 10 12 13 14 aa aa 00 80 "
#define PC2 "b0 50 60 70 10 aa aa 00 80 "
#define BODY "48 00 52 02 00 98 07 00 "
#define TS "71 51 7b 66 f5 50 00 00 00 "
#define END "01 "

struct expect {
    enum spex_status status;
    uint64_t offset, size;
};

/* Reads all of hex; what comes must be exactly rows, then SPEX_END. */
static void reads_as(const char *hex, const struct expect *rows, size_t count)
{
    uint8_t data[8192];
    size_t n = bytes_of(hex, data);
    struct readers r;
    struct spex_record record;
    struct spex_damage damage;
    readers_init(&r, data, n, 0);
    for (size_t i = 0; i < count; i++) {
        enum spex_status status = step(&r, &record, &damage);
        assert_int_equal(status, rows[i].status);
        assert_int_equal(status ? damage.offset : record.offset, rows[i].offset);
        assert_int_equal(status ? damage.size : record.size, rows[i].size);
    }
    assert_int_equal(step(&r, &record, &damage), SPEX_END);
}

#define READS_AS(hex, ...)                                                                         \
    reads_as(hex, (const struct expect[]){__VA_ARGS__},                                            \
             sizeof((const struct expect[]){__VA_ARGS__}) / sizeof(struct expect))

/* Rule 2: what is clean is never questioned; unknown packets and missing ones alone are no damage.
 */
static void test_no_damage(void **state)
{
    SPEC(FMT-21);
    READS_AS(PC BODY TS PC2 BODY END, {SPEX_OK, 0, 26}, {SPEX_OK, 26, 18});
    READS_AS(PC BODY "63 01 71 01 71 " TS PC2 BODY TS, {SPEX_OK, 0, 31}, {SPEX_OK, 31, 26});
    READS_AS(PC BODY "4b 05 66 1 2 3 4 b5 1 2 3 4 5 6 7 8 9b 1 2 " TS PC BODY TS, {SPEX_OK, 0, 45},
             {SPEX_OK, 45, 26});
    READS_AS("63 1 2 3 4 " PC BODY TS "63 1 2 3 4 20 " PC2 BODY END, {SPEX_OK, 0, 31},
             {SPEX_OK, 31, 24});
    /* In unknown bytes a whole record that ends before this one does is not one. */
    READS_AS("f0 b0 1 2 3 4 5 6 7  f0 98 1 0 49 0 42 2 9f  f0 1 01 0 0 0 0 0 0 " END,
             {SPEX_OK, 0, 28});
    /* An operation that was not executed may have no PC (D17.6). */
    READS_AS("52 01 00 98 07 00 " TS PC BODY TS, {SPEX_OK, 0, 15}, {SPEX_OK, 15, 26});
}

/* Rule 3 */
static void test_closing_packet_alone(void **state)
{
    SPEC(FMT-11);
    READS_AS(TS PC BODY TS, {SPEX_INVALID, 0, 9}, {SPEX_OK, 9, 26});
    READS_AS(PC BODY TS "00 00 " END PC BODY TS, {SPEX_OK, 0, 26}, {SPEX_INVALID, 28, 1},
             {SPEX_OK, 29, 26});
}

/* Rule 4: 2048 bytes are a record, one more is not. */
static void test_overlong(void **state)
{
    for (unsigned extra = 0; extra < 2; extra++) {
        uint8_t data[4096];
        struct readers r;
        struct spex_record record;
        struct spex_damage damage;
        size_t n = bytes_of(PC BODY, data);
        for (unsigned i = 0; n + 9 + 1 <= 2048; i++)
            n += bytes_of("22 b0 1 2 3 4 5 6 7 8", data + n); /* IMPLEMENTATION DEFINED */
        while (n < 2047 + extra)
            data[n++] = 0x02;
        data[n++] = 0x01;
        size_t second = n;
        n += bytes_of(PC BODY TS, data + n);
        readers_init(&r, data, n, 0);
        if (!extra) {
            assert_int_equal(step(&r, &record, &damage), SPEX_OK);
            assert_int_equal(record.size, 2048);
        } else {
            assert_int_equal(step(&r, &record, &damage), SPEX_INVALID);
            assert_int_equal(damage.offset, 0);
            assert_int_equal(damage.size, 2048);
            assert_int_equal(step(&r, &record, &damage), SPEX_INVALID); /* the End alone */
            assert_int_equal(damage.offset, 2048);
        }
        assert_int_equal(step(&r, &record, &damage), SPEX_OK);
        assert_int_equal(record.offset, second);
        assert_int_equal(step(&r, &record, &damage), SPEX_END);
    }
}

/* Padding does not make a record long; a record after it is found. */
static void test_cut_record_then_padding(void **state)
{
    uint8_t data[9000] = {0};
    struct readers r;
    struct spex_record record;
    struct spex_damage damage;
    bytes_of(PC "48 00 ", data);
    size_t n = 5000 + bytes_of(PC2 BODY TS, data + 5000);
    readers_init(&r, data, n, 0);
    assert_int_equal(step(&r, &record, &damage), SPEX_INVALID);
    assert_int_equal(damage.offset, 0);
    assert_int_equal(damage.size, 11);
    assert_int_equal(step(&r, &record, &damage), SPEX_OK);
    assert_int_equal(record.offset, 5000);
    assert_int_equal(step(&r, &record, &damage), SPEX_END);
    /* Only padding after it, to the end of the buffer. */
    memset(data + 5000, 0, 100);
    readers_init(&r, data, sizeof data, 0);
    assert_int_equal(step(&r, &record, &damage), SPEX_TRUNCATED);
    assert_int_equal(damage.size, 11);
    assert_int_equal(step(&r, &record, &damage), SPEX_END);
}

/* Rule 5: a record that lost its end, at each packet boundary and inside packets. */
static void test_lost_end(void **state)
{
    uint8_t first[64], second[64], data[128];
    size_t a = bytes_of(PC BODY "b2 12 13 14 15 ff ff 00 00 9a 02 00 " TS, first);
    size_t b = bytes_of(PC2 BODY TS, second);
    for (size_t cut = 1; cut < a; cut++) {
        struct readers r;
        struct spex_record record;
        struct spex_damage damage;
        memcpy(data, first, cut);
        memcpy(data + cut, second, b);
        readers_init(&r, data, cut + b, 0);
        enum spex_status status = step(&r, &record, &damage);
        if (cut >= 30) {
            /* Its Timestamp is there, though it swallowed bytes of the next record. */
            assert_int_equal(status, SPEX_OK);
            assert_int_equal(record.offset, 0);
            status = step(&r, &record, &damage);
            assert_int_equal(status, SPEX_INVALID);
            assert_int_equal(damage.offset, 29);
            assert_int_equal(damage.size, cut - 29);
        } else {
            assert_int_equal(status, SPEX_INVALID);
            assert_int_equal(damage.offset, 0);
            assert_int_equal(damage.size, cut);
        }
        assert_int_equal(step(&r, &record, &damage), SPEX_OK);
        assert_int_equal(record.offset, cut);
        assert_int_equal(record.size, b);
        assert_int_equal(step(&r, &record, &damage), SPEX_END);
    }
}

/* Rule 5, with the record in the habit of the stream: the packet before PC is kept. */
static void test_first_packet_habit(void **state)
{
#define HEAD "65 01 02 03 00 98 09 00 "
#define TAIL "b0 10 20 30 40 aa aa 00 80 48 00 52 02 00 "
    READS_AS(HEAD TAIL TS HEAD TAIL HEAD TAIL TS, {SPEX_OK, 0, 31}, {SPEX_INVALID, 31, 22},
             {SPEX_OK, 53, 31});
}

/* Rule 6: the bytes of a closing packet that was none. */
static void test_false_end(void **state)
{
    /* The first Timestamp lost five bytes: the next record's context reads as an End. */
    READS_AS(PC BODY "71 45 00 00 " PC2 "64 42 2a 01 00 " BODY TS, {SPEX_OK, 0, 26},
             {SPEX_INVALID, 17, 4}, {SPEX_OK, 21, 31});
}

/* Rule 7: a packet twice and nothing better. */
static void test_repeated(void **state)
{
    READS_AS(PC BODY "98 08 00 " TS PC2 BODY TS, {SPEX_INVALID, 0, 29}, {SPEX_OK, 29, 26});
    READS_AS(PC "48 00 " PC "52 02 00 " END PC BODY TS, {SPEX_INVALID, 0, 24}, {SPEX_OK, 24, 26});
}

/* Rule 8: the data ends; a whole record that was hidden by damage is still found. */
static void test_end_of_data(void **state)
{
    /* A cut record takes in the closing packet of the next; padding after does not hide that one.
     */
#define INSIDE "49 b0 42 02 98 07 05 b0 10 12 13 14 aa aa 60 80 01 "
#define ZEROS "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
    READS_AS(PC BODY END "99 1 " INSIDE "0 0 0", {SPEX_OK, 0, 18}, {SPEX_INVALID, 18, 2},
             {SPEX_OK, 20, 17});
    READS_AS(PC BODY END "99 1 " INSIDE ZEROS, {SPEX_OK, 0, 18}, {SPEX_INVALID, 18, 2},
             {SPEX_OK, 20, 17});
    READS_AS(PC BODY TS PC "48 00 52", {SPEX_OK, 0, 26}, {SPEX_TRUNCATED, 26, 12});
    READS_AS(PC BODY TS PC "48 00 00 00", {SPEX_OK, 0, 26}, {SPEX_TRUNCATED, 26, 11});
    READS_AS("b0 10 20 30 " PC2 BODY "72 71 51 7b 66 f5 50 00 00 00 00", {SPEX_TRUNCATED, 0, 30});
    READS_AS(PC BODY "74 01 02 " PC2 BODY TS "00 00 00", {SPEX_INVALID, 0, 20}, {SPEX_OK, 20, 26});
    READS_AS("f0 " PC2 BODY TS, {SPEX_INVALID, 0, 1}, {SPEX_OK, 1, 26});
}

/* Text, then records. */
static void test_foreign_bytes(void **state)
{
    char text[3000];
    uint8_t data[4000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "the quick brown fox jumps over the lazy dog "[i % 44];
    memcpy(data, text, sizeof text);
    size_t n = sizeof text;
    for (int i = 0; i < 10; i++)
        n += bytes_of(PC BODY TS, data + n);
    struct readers r;
    struct spex_record record;
    struct spex_damage damage;
    size_t found = 0;
    readers_init(&r, data, n, 0);
    for (enum spex_status status; (status = step(&r, &record, &damage)) != SPEX_END;)
        found += status == SPEX_OK && record.offset >= sizeof text && record.size == 26;
    assert_int_equal(found, 10);
}

/* ---- how much is lost ---- */

enum damage_kind { FLIP, LOSE_FEW, LOSE_MANY, DAMAGE_KINDS };

/* Reads everything; counts untouched records that did not come back as they were. */
static size_t count_missed(const struct stream *s, size_t *untold)
{
    struct readers r;
    struct spex_record record;
    struct spex_damage damage;
    uint8_t *told = calloc(1, s->size + 1);
    size_t i = 0, found = 0;
    readers_init(&r, s->data, s->size, 0);
    for (enum spex_status status; (status = step(&r, &record, &damage)) != SPEX_END;) {
        uint64_t offset = status ? damage.offset : record.offset;
        uint64_t size = status ? damage.size : record.size;
        assert_true(offset + size <= s->size);
        memset(told + offset, 1, size);
        if (status)
            continue;
        uint64_t end = record.offset + record.size;
        while (i < s->count && s->records[i].offset + s->records[i].size < end)
            i++;
        if (i == s->count || s->records[i].offset + s->records[i].size != end)
            continue;
        /* What padding before it was turned into may have been taken for unknown packets. */
        struct spex_record meant = s->records[i];
        if (record.offset < meant.offset && (record.present & SPEX_HAS_OTHER)) {
            meant.offset = record.offset;
            meant.size = record.size;
            meant.present |= SPEX_HAS_OTHER;
        }
        found += !memcmp(&record, &meant, sizeof record);
    }
    for (size_t j = 0; j < s->size; j++)
        *untold += !told[j] && s->data[j];
    free(told);
    return s->count - found;
}

/*
 * Ten damages a stream, 200 streams of each kind. Of 1000 damages, at most this
 * many take an untouched neighbour along (measured, rounded up; "varied" shuffles
 * the packets of every record anew, which no implementation does).
 */
static void test_losses(void **state)
{
    static const size_t allowed[STREAM_KINDS][DAMAGE_KINDS] = {
        [STREAM_COMPACT] = {5, 40, 30},
        [STREAM_N1] = {2, 3, 3},
        [STREAM_HISI] = {3, 3, 5},
        [STREAM_VARIED] = {25, 140, 140},
    };
    for (unsigned kind = 0; kind < STREAM_KINDS; kind++) {
        for (unsigned how = 0; how < DAMAGE_KINDS; how++) {
            size_t missed = 0, untold = 0, damages = 0;
            for (uint64_t seed = 1; seed <= 200; seed++) {
                struct stream s = stream_make(seed, kind, 100);
                struct rng rng = {seed * 77};
                for (int i = 0; i < 10; i++, damages++) {
                    size_t at = rng_below(&rng, (uint32_t)s.size);
                    size_t n = 1 + rng_below(&rng, how == LOSE_FEW ? 8 : 100);
                    if (how == FLIP)
                        stream_flip(&s, at, rng_below(&rng, 8));
                    else
                        stream_remove(&s, at, at + n < s.size ? at + n : s.size);
                }
                missed += count_missed(&s, &untold);
                stream_free(&s);
            }
            printf("# %s damage %u: %zu of %zu\n", stream_names[kind], how, missed, damages);
            assert_int_equal(untold, 0); /* every byte is padding, a record's, or reported */
            assert_true(missed * 1000 <= allowed[kind][how] * damages);
        }
    }
}

/* Random bytes: it ends, tells about every byte, and all readers agree. */
static void test_noise(void **state)
{
    struct rng rng = {4};
    for (int round = 0; round < 60; round++) {
        struct stream s = {.size = 1 + rng_below(&rng, 6000)};
        s.data = malloc(s.size);
        for (size_t i = 0; i < s.size; i++) {
            /* Mixes of noise, padding and likely headers. */
            static const uint8_t likely[] = {0xb0, 0x48, 0x49, 0x52, 0x98, 0x99, 0x71, 0x01, 0x20};
            unsigned draw = rng_below(&rng, 8);
            s.data[i] = draw < 3   ? (uint8_t)rng_next(&rng)
                        : draw < 5 ? likely[rng_below(&rng, sizeof likely)]
                                   : 0;
        }
        size_t untold = 0;
        count_missed(&s, &untold);
        assert_int_equal(untold, 0);
        free(s.data);
    }
}

/* The beginning of a record after a place in the middle, and the one before; or none. */
static void test_find(void **state)
{
    for (uint64_t seed = 1; seed < 40; seed++) {
        struct rng rng = {seed};
        struct stream s = stream_make(seed, (enum stream_kind)(seed % STREAM_KINDS), 400);
        for (unsigned i = 0; i < 60; i++) {
            size_t from = rng_below(&rng, (uint32_t)s.size + 20);
            size_t to = from + rng_below(&rng, rng_chance(&rng, 1, 2) ? 300 : 20000), at = 12345;
            struct spex_record before;
            if (!spex_record_find(s.data, s.size, from, to, &before, &at)) {
                assert_int_equal(at, 12345);
                continue;
            }
            assert_true(at >= from && at < to && at < s.size && s.data[at]);
            assert_true(before.offset + before.size <= at);
            for (size_t j = (size_t)before.offset + before.size; j < at; j++)
                assert_int_equal(s.data[j], 0);
        }
        /* With much to read after, it is found. */
        struct spex_record before;
        size_t at;
        assert_true(spex_record_find(s.data, s.size, s.size / 2, s.size, &before, &at));
        for (size_t from = (size_t)before.offset; from < s.size;
             from++) /* nor does one at the end */
            if (spex_record_find(s.data, s.size, from, s.size + 64, &before, &at))
                assert_true(at < s.size);
        for (int i = 0; i < 200; i++) /* damage is no record */
            s.data[rng_below(&rng, (uint32_t)s.size)] ^= (uint8_t)(1u << rng_below(&rng, 8));
        for (size_t from = 0; from < s.size; from += 97)
            if (spex_record_find(s.data, s.size, from, from + 2000, &before, &at))
                assert_true(at >= from && at < from + 2000 && at < s.size && s.data[at]);
        stream_free(&s);
    }
    static const uint8_t nothing[64] = {0}, ends[] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct spex_record before;
    size_t at;
    assert_false(spex_record_find(nothing, sizeof nothing, 0, 64, &before, &at));
    assert_false(spex_record_find(ends, sizeof ends, 0, 8, &before, &at));
    assert_false(spex_record_find(nothing, 0, 5000, 4000, &before, &at));
}

TEST_MAIN(TEST(test_find), TEST(test_no_damage), TEST(test_closing_packet_alone),
          TEST(test_overlong), TEST(test_cut_record_then_padding), TEST(test_lost_end),
          TEST(test_first_packet_habit), TEST(test_false_end), TEST(test_repeated),
          TEST(test_end_of_data), TEST(test_foreign_bytes), TEST(test_losses), TEST(test_noise))
