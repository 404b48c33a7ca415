/* JSON that is read: values, and what is refused with its line; damage at every byte. */
#include "base/json_read.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json_document *read_text(const char *text)
{
    struct json_document *d = NULL;
    struct spex_error error;
    assert_int_equal(json_read(text, strlen(text), &d, &error), SPEX_OK);
    return d;
}

static void test_values(void **state)
{
    (void)state;
    struct json_document *d = read_text(
        "{\"n\": 18446744073709551615, \"r\": -1.5e3, \"t\": \"a\\u00e9\\ud83d\\ude00\\n\","
        " \"l\": [true, false, null, []], \"o\": {}, \"n\": 2}");
    const struct json_value *root = json_root(d), *list = json_member(root, "l");
    const char *text;
    uint64_t n;
    assert_true(json_get_u64(json_member(root, "n"), &n) && n == UINT64_MAX);
    assert_false(json_get_u64(json_member(root, "r"), &n));
    assert_true(json_get_text(json_member(root, "t"), &text));
    assert_string_equal(text, "a\xc3\xa9\xf0\x9f\x98\x80\n");
    assert_int_equal(list->kind, JSON_ARRAY);
    assert_int_equal(list->first->kind, JSON_TRUE);
    assert_int_equal(list->first->next->kind, JSON_FALSE);
    assert_int_equal(list->first->next->next->next->kind, JSON_ARRAY);
    assert_null(list->first->next->next->next->next);
    assert_null(json_member(root, "x"));
    assert_null(json_member(list, "x"));
    assert_false(json_get_text(NULL, &text));
    json_forget(d);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line 1: neither a value"},
        {"{\"a\": 1,\n \"b\" 2}", "line 2: a colon"},
        {"{\"a\": 1\n\n \"b\": 2}", "line 3: a comma or }"},
        {"[1 2]", "a comma or ]"},
        {"[01]", "neither a value"},
        {"[1.]", "ends with a point"},
        {"[1e]", "exponent"},
        {"\"a\nb\"", "has no end"},
        {"\"\\x\"", "escape"},
        {"\"\\ud800\"", "surrogate"},
        {"\"\\u0000\"", "cannot hold"},
        {"\"\\u00g0\"", "hexadecimal"},
        {"1 2", "follows the end"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "deeply"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json_document *d = NULL;
        struct spex_error error;
        assert_int_equal(json_read(cases[i].text, strlen(cases[i].text), &d, &error), SPEX_INVALID);
        assert_non_null(strstr(error.text, cases[i].says));
        assert_null(d);
    }
}

/* No byte in any place makes it read past the end (the sanitizer looks), and cut text is refused.
 */
static void test_damage(void **state)
{
    static const char text[] =
        "{\"s\": \"\\u00e9x\", \"l\": [1, -2.5, {\"t\": true}], \"n\": null}";
    static const char bytes[] = "\"\\{}[],:0u\n\xff";
    (void)state;
    for (size_t at = 0; at < sizeof text - 1; at++) {
        struct json_document *d;
        char *copy = malloc(at + 1);
        memcpy(copy, text, at);
        assert_int_equal(json_read(copy, at, &d, NULL), SPEX_INVALID);
        free(copy);
        for (size_t b = 0; b < sizeof bytes; b++) {
            copy = malloc(sizeof text - 1);
            memcpy(copy, text, sizeof text - 1);
            copy[at] = bytes[b];
            if (!json_read(copy, sizeof text - 1, &d, NULL))
                json_forget(d);
            free(copy);
        }
    }
}

TEST_MAIN(TEST(test_values), TEST(test_refused), TEST(test_damage))
