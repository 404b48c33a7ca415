#include "support/test.h"

#include "base/bits.h"
#include "base/digits.h"
#include "base/out.h"
#include "base/relay.h"
#include "base/rng.h"

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
    out_json_string(&out, "a\"\\\n");
    out_char(&out, 0);
    assert_string_equal(out.data, "\"a\\\"\\\\\\u000a\"");
    for (int i = 0; i < 10000; i++)
        out_text(&out, "0123456789");
    assert_int_equal(out.size, 100000 + 14);
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

struct counted {
    uint64_t next, wrong;
};

static void use_number(void *user, void *item)
{
    struct counted *counted = user;
    uint64_t *number = item;
    counted->wrong += *number != ++counted->next;
    if (counted->next % 1000 == 0)
        usleep(100); /* the owner has to wait now and then */
    *number = 0;
}

/* Whatever the count, all items are used in order, and an item comes back as it was left. */
static void test_relay(void **state)
{
    static const uint64_t counts[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 20000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct counted counted = {0};
        struct relay *relay = relay_new(sizeof(uint64_t), use_number, &counted);
        assert_non_null(relay);
        for (uint64_t n = 1; n <= counts[i]; n++) {
            uint64_t *number = relay_item(relay);
            assert_int_equal(*number, 0);
            *number = n;
            relay_pass(relay);
            if (n % 3000 == 0)
                usleep(100); /* and the thread */
        }
        relay_free(relay);
        assert_int_equal(counted.next, counts[i]);
        assert_int_equal(counted.wrong, 0);
    }
}

static void test_rng_is_fixed(void **state)
{
    struct rng rng = {1};
    assert_true(rng_next(&rng) == UINT64_C(0x910a2dec89025cc1));
    for (int i = 0; i < 1000; i++)
        assert_in_range(rng_below(&rng, 7), 0, 6);
}

TEST_MAIN(TEST(test_bits), TEST(test_out_numbers), TEST(test_digits), TEST(test_relay),
          TEST(test_rng_is_fixed))
