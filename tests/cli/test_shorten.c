/* Names that do not fit into their column keep what tells them apart. */
#include "cli/shorten.h"
#include "support/test.h"

static void is(const char *text, unsigned width, const char *want)
{
    char *got = text_shortened(text, width);
    assert_string_equal(got, want);
    free(got);
}

static void parameters_go_before_template_arguments(void **state)
{
    (void)state;
    const char *replace =
        "std::basic_string<char, std::char_traits<char> >::_M_replace(unsigned long)";
    is(replace, 80, replace);
    is(replace, 66, "std::basic_string<char, std::char_traits<char> >::_M_replace(..)");
    is(replace, 64, "std::basic_string<char, std::char_traits<char> >::_M_replace(..)");
    is(replace, 63, "std::basic_string<..>::_M_replace(..)");
    is(replace, 20, "std::basic_string<..");
    is("void f<std::pair<int, long>, &g(int)>(int, int)", 20, "void f<..>(..)");
}

static void operators_are_no_brackets(void **state)
{
    (void)state;
    is("std::ostream& std::operator<< <std::char_traits>(std::ostream&, char const*)", 40,
       "std::ostream& std::operator<< <..>(..)");
    is("(anonymous namespace)::Pool::operator()(int, long) const", 52,
       "(anonymous namespace)::Pool::operator()(..) const");
    is("a::operator->(b const&, c const&)", 20, "a::operator->(..)");
    is("f<(1 > 2), (x->y)>::g(long, long, long)", 24, "f<..>::g(..)");
    is("my_operator<int, long, char>::f()", 20, "my_operator<..>::f()");
}

static void numbers_of_places_stay(void **state)
{
    (void)state;
    is("libsqlite3.so.0.8.6+0xe469c", 20, "libsqlite3..+0xe469c");
    is("src/storage/engine/btree.cc:1234", 16, "src/stora..:1234");
    is("btree.cc:1234", 8, "btree...");
}

static void anything_fits(void **state)
{
    (void)state;
    is("unbalanced<<<(((", 12, "unbalanced..");
    is("h\303\251llo w\303\266rld", 8, "h\303\251llo ..");
    is("name", 2, "na");
    is("name", 0, "");
}

TEST_MAIN(TEST(parameters_go_before_template_arguments), TEST(operators_are_no_brackets),
          TEST(numbers_of_places_stay), TEST(anything_fits))
