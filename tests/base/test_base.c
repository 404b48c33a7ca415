#include "support/test.h"

#include "base/bits.h"
#include "base/digits.h"
#include "base/json.h"
#include "base/out.h"
#include "base/crew.h"
#include "base/rng.h"
#include "base/search.h"
#include "base/sort.h"
#include "base/vec.h"

#include <stdlib.h>
#include <unistd.h>

static void test_bits(void **state)
{
    assert_int_equal(BITS(3, 0), 0xf);
    assert_true(BITS(63, 0) == ~UINT64_C(0));
    assert_int_equal(bits_get(0xabcd, 15, 8), 0xab);
    assert_int_equal(bits_set(0xffff, 7, 4, 0), 0xff0f);
    uint8_t bytes[8];
    put_le64(bytes, UINT64_C(0x0102030405060708));
    assert_int_equal(bytes[0], 8);
    assert_int_equal(le32(bytes + 4), 0x01020304);
    assert_int_equal(le16(bytes), 0x0708);
}

static void test_out_numbers(void **state)
{
    struct out out;
    out_init(&out, -1);
    static const uint64_t values[] = {0, 9, 10, 99, 100, 12345, 18446744073709551615u};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char want[32];
        out.size = 0;
        out_u64(&out, values[i]);
        out_char(&out, 0);
        snprintf(want, sizeof want, "%llu", (unsigned long long)values[i]);
        assert_string_equal(out.data, want);
        out.size = 0;
        out_hex(&out, values[i]);
        out_char(&out, 0);
        snprintf(want, sizeof want, "%llx", (unsigned long long)values[i]);
        assert_string_equal(out.data, want);
    }
    out.size = 0;
    for (int i = 0; i < 10000; i++)
        out_text(&out, "0123456789");
    assert_int_equal(out.size, 100000);
    assert_int_equal(out_fini(&out), 0);
}

/* One number in every form, against printf. */
static void check_digits(uint64_t value)
{
    unsigned long long v = value;
    char text[DIGITS_ROOM], want[32];
#define SAME(made, ...)                                                                            \
    snprintf(want, sizeof want, __VA_ARGS__);                                                      \
    *(made) = 0;                                                                                   \
    assert_string_equal(text, want)
    SAME(put_u64(text, v), "%llu", v);
    SAME(put_hex(text, v), "%llx", v);
    SAME(put_padded(text, v, 1), "%llu", v);
    SAME(put_padded(text, v, 5), "%5llu", v);
    SAME(put_padded(text, v, 8), "%8llu", v);
    SAME(put_fixed(text, (uint32_t)(v % 1000), 3), "%03llu", v % 1000);
    SAME(put_fixed(text, (uint32_t)(v % 1000000), 6), "%06llu", v % 1000000);
    SAME(put_eight(text, (uint32_t)(v % DIGITS_E8)), "%08llu", v % DIGITS_E8);
#undef SAME
}

static void test_digits(void **state)
{
    struct rng rng = {3};
    for (uint64_t i = 0; i < 20000; i++) { /* both halves of eight digits, all values */
        check_digits(i);
        check_digits(i % 10000 * 10000);
    }
    for (uint64_t power = 1; power; power = power <= UINT64_MAX / 10 ? power * 10 : 0) {
        check_digits(power - 1);
        check_digits(power);
        check_digits(power + 1);
    }
    for (unsigned shift = 0; shift < 64; shift++) {
        check_digits(UINT64_MAX >> shift);
        for (int i = 0; i < 100; i++)
            check_digits(rng_next(&rng) >> shift);
    }
}

/* A name as text, CSV and JSON show it. */
static const struct {
    const char *name, *text, *csv, *json;
} names[] = {
    {"", "", "", "\"\""},
    {"main", "main", "main", "\"main\""},
    {"a\"b\\c,d", "a\"b\\c,d", "\"a\"\"b\\c,d\"", "\"a\\\"b\\\\c,d\""},
    {"a\n\t\033]0;x\a\177", "a\\x0a\\x09\\x1b]0;x\\x07\\x7f", "a\\x0a\\x09\\x1b]0;x\\x07\\x7f",
     "\"a\\u000a\\u0009\\u001b]0;x\\u0007\\u007f\""},
    /* U+00E4, U+20AC, U+1F600 */
    {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
     "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
    /* U+009B (CSI), U+202E (right to left), U+FEFF, U+E0041 */
    {"\xc2\x9b", "\\xc2\\x9b", "\\xc2\\x9b", "\"\\u009b\""},
    {"\xe2\x80\xae", "\\xe2\\x80\\xae", "\\xe2\\x80\\xae", "\"\\u202e\""},
    {"\xef\xbb\xbf", "\\xef\\xbb\\xbf", "\\xef\\xbb\\xbf", "\"\\ufeff\""},
    {"\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81", "\\xf3\\xa0\\x81\\x81", "\"\\udb40\\udc41\""},
    /* no UTF-8: a byte alone, one cut short, too long, a surrogate, too large */
    {"\x9b", "\\x9b", "\\x9b", "\"\\\\x9b\""},
    {"a\xe2\x82", "a\\xe2\\x82", "a\\xe2\\x82", "\"a\\\\xe2\\\\x82\""},
    {"\xc0\xaf", "\\xc0\\xaf", "\\xc0\\xaf", "\"\\\\xc0\\\\xaf\""},
    {"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf", "\\xe0\\x9f\\xbf", "\"\\\\xe0\\\\x9f\\\\xbf\""},
    {"\xed\xa0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80", "\"\\\\xed\\\\xa0\\\\x80\""},
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\\xf4\\x90\\x80\\x80",
     "\"\\\\xf4\\\\x90\\\\x80\\\\x80\""},
    /* formulas of spreadsheets, and numbers */
    {"=1+1", "=1+1", "'=1+1", "\"=1+1\""},
    {"+0x08", "+0x08", "+0x08", "\"+0x08\""},
    {"+0x08+A1", "+0x08+A1", "'+0x08+A1", "\"+0x08+A1\""},
    {"-1.5e3", "-1.5e3", "-1.5e3", "\"-1.5e3\""},
    {"+A1", "+A1", "'+A1", "\"+A1\""},
    {"\xff\"", "\\xff\"", "\"\\xff\"\"\"", "\"\\\\xff\\\"\""},
};

static void test_names(void **state)
{
    struct out out;
    out_init(&out, -1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct {
            void (*put)(struct out *out, const char *text);
            const char *want;
        } forms[] = {{out_name, names[i].text},
                     {out_name_csv, names[i].csv},
                     {out_name_json, names[i].json}};
        for (size_t form = 0; form < 3; form++) {
            out.size = 0;
            forms[form].put(&out, names[i].name);
            out_char(&out, 0);
            assert_string_equal(out.data, forms[form].want);
        }
    }
    out.size = 0;
    out_line(&out, "%s of %d", "a\nb", 3);
    out_char(&out, 0);
    assert_string_equal(out.data, "a\\x0ab of 3\n");
    assert_int_equal(out_fini(&out), 0);
}

static void test_json(void **state)
{
    struct out out;
    out_init(&out, -1);
    struct json json = json_to(&out);
    json_object_lines(&json);
    JSON_MEMBER(&json, "a", u64, UINT64_MAX);
    JSON_MEMBER(&json, "b", string, NULL);
    json_name(&json, "c");
    json_array(&json);
    json_i64(&json, -1);
    json_bool(&json, true);
    json_object(&json);
    json_end(&json);
    json_array_lines(&json);
    json_end(&json);
    json_end(&json);
    json_name(&json, "d");
    json_array_lines(&json);
    json_null(&json);
    json_object(&json);
    JSON_MEMBER(&json, "e", hex, 0x4a);
    JSON_MEMBER(&json, "f", string, "x");
    json_end(&json);
    json_end(&json);
    json_end(&json);
    json_object(&json);
    json_end(&json);
    JSON_FIRST(&json, "g", word, "end");
    json = json_resume(&out); /* elsewhere */
    JSON_MEMBER(&json, "h", bytes, (const uint8_t *)"\xb0\x0f", 2);
    json_name(&json, "i");
    JSON_FIRST(&json, "j", bytes, NULL, 0);
    json_end(&json);
    json_end(&json);
    out_char(&out, 0);
    assert_string_equal(out.data, "{\"a\":18446744073709551615,\n \"b\":null,\n"
                                  " \"c\":[-1,true,{},[]],\n"
                                  " \"d\":[\n  null,\n  {\"e\":\"0x4a\",\"f\":\"x\"}\n ]}\n{}\n"
                                  "{\"g\":\"end\",\"h\":\"b00f\",\"i\":{\"j\":\"\"}}\n");
    assert_int_equal(out_fini(&out), 0);
}

static void test_vec(void **state)
{
    VEC(uint32_t) numbers = {0};
    for (uint32_t i = 0; i < 10000; i++) {
        uint32_t *number = vec_push(&numbers);
        assert_non_null(number);
        *number = i;
    }
    assert_int_equal(numbers.count, 10000);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(numbers.items[i], i);
    assert_true(vec_reserve(&numbers, 20000));
    assert_in_range(numbers.capacity, 20000, 40000);
    /* no memory: as it was */
    size_t capacity = numbers.capacity;
    uint32_t *items = numbers.items;
    assert_false(vec_reserve(&numbers, SIZE_MAX));
    assert_false(vec_reserve(&numbers, SIZE_MAX / 4 + 2));
    assert_true(numbers.items == items && numbers.capacity == capacity && numbers.count == 10000);
    /* no more than the most that is allowed, though half as much again would be */
    assert_true(vec_grow_most(&numbers.items, &numbers.capacity, 20001, 20003, 4));
    assert_int_equal(numbers.capacity, 20003);
    assert_false(vec_grow_most(&numbers.items, &numbers.capacity, 20004, 20003, 4));
    assert_int_equal(numbers.capacity, 20003);
    vec_free(&numbers);
    assert_true(!numbers.items && !numbers.count && !numbers.capacity);
}

enum { CREW_PARTS = 7 };

struct crew_item {
    unsigned number, done[CREW_PARTS], finished;
};

struct crew_seen {
    struct crew *crew;
    unsigned finished, wrong, workers, order[CREW_PARTS];
};

/* The parts of an item take turns with those of the item before; all but the first with it. */
static void crew_part(void *user, void *data, size_t number, size_t part, unsigned worker)
{
    struct crew_seen *seen = user;
    struct crew_item *item = data;
    bool wrong =
        item->number != number || item->finished || item->done[part]++ || worker >= seen->workers;
    if (item->number % 100 == part)
        usleep(100); /* others go on meanwhile */
    crew_turn(seen->crew, part, number);
    wrong |= seen->order[part]++ != number;
    crew_next(seen->crew, part);
    if (part)
        crew_turn(seen->crew, 0, number + 1);
    wrong |= !item->done[0];
    if (wrong)
        __atomic_fetch_add(&seen->wrong, 1, __ATOMIC_RELAXED);
}

static void crew_finish(void *user, void *data)
{
    struct crew_seen *seen = user;
    struct crew_item *item = data;
    for (unsigned i = 0; i < CREW_PARTS; i++)
        seen->wrong += item->done[i] != 1;
    seen->wrong += item->finished++ || item->number != seen->finished++;
}

/* Whatever the threads: items in order, each part once, and before its end. */
static void test_crew(void **state)
{
    for (unsigned threads = 0; threads < 5; threads++) {
        static struct crew_item items[2000];
        struct crew_seen seen = {.workers = threads + 1};
        const struct crew_work work = {CREW_PARTS, 1 + threads, CREW_PARTS,
                                       crew_part,  crew_finish, &seen};
        struct crew *crew = seen.crew = crew_new(threads, &work);
        memset(items, 0, sizeof items);
        assert_int_equal(crew_threads(crew), threads);
        for (unsigned i = 0; i < 2000; i++) {
            items[i].number = i;
            crew_pass(crew, &items[i]);
            assert_true(i <= threads || items[i - threads - 1].finished);
            assert_true(threads || items[i].finished);
            if (i % 500 == 7) {
                crew_wait(crew, i);
                assert_true(items[i - 1].finished);
            }
        }
        crew_free(crew);
        assert_int_equal(seen.finished, 2000);
        assert_int_equal(seen.wrong, 0);
        assert_int_equal(items[1999].finished, 1);
    }
}

static int by_number(const void *a, const void *b, void *context)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    (void)context;
    return x < y ? -1 : x > y;
}

/* As qsort does, whatever the threads. */
static void test_sort(void **state)
{
    static const size_t counts[] = {0, 1, 100, 8191, 8192, 8193, 50001};
    static uint64_t want[50001], items[50001];
    struct rng rng = {7};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (unsigned threads = 1; threads < 20; threads += 3) {
            for (size_t i = 0; i < counts[c]; i++)
                want[i] = items[i] = rng_below(&rng, threads & 1 ? 100 : 1 << 30);
            qsort_r(want, counts[c], sizeof *want, by_number, NULL);
            sort_items(items, counts[c], sizeof *items, by_number, NULL, threads);
            assert_memory_equal(want, items, counts[c] * sizeof *items);
        }
}

/* As counting from the left does, of any sorted items, from any of them on. */
static void test_search(void **state)
{
    static uint64_t items[40];
    struct rng rng = {3};
    for (unsigned turn = 0; turn < 2000; turn++) {
        const size_t count = rng_below(&rng, 40), from = rng_below(&rng, (uint32_t)count + 1);
        const uint64_t key = rng_below(&rng, 32);
        for (size_t i = 0; i < count; i++)
            items[i] = rng_below(&rng, 30);
        sort_items(items, count, sizeof *items, by_number, NULL, 1);
        size_t want = from;
        while (want < count && items[want] < key)
            want++;
        assert_int_equal(SEARCH(i, from, count, items[i] < key), want);
    }
}

static void test_rng_is_fixed(void **state)
{
    struct rng rng = {1};
    assert_true(rng_next(&rng) == UINT64_C(0x910a2dec89025cc1));
    for (int i = 0; i < 1000; i++)
        assert_in_range(rng_below(&rng, 7), 0, 6);
}

TEST_MAIN(TEST(test_bits), TEST(test_out_numbers), TEST(test_names), TEST(test_json),
          TEST(test_vec), TEST(test_digits), TEST(test_crew), TEST(test_sort), TEST(test_search),
          TEST(test_rng_is_fixed))
