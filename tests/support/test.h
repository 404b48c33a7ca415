/*
 * Test harness: cmocka with TAP output and requirement marks.
 *
 * SPEC(SMP-26) inside a test function says: this test fails if requirement
 * SMP-26 of spec/requirements.tsv is broken. The mark is printed as a TAP
 * comment; scripts/conformance.py joins marks of tests that passed with the list.
 * A mark counts for the test function that is running.
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline void spec_mark(const char *test, const char *id)
{
    printf("# SPEC %s %s\n", test, id);
}

/* In a test function. SPEC_ID takes a string, for rows of tables. */
#define SPEC(id) spec_mark(__func__, #id)
#define SPEC_ID(id) spec_mark(__func__, id)

#define TEST_MAIN(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        setvbuf(stdout, NULL, _IOLBF, 0);                                                          \
        cmocka_set_message_output(CM_OUTPUT_TAP);                                                  \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }
#define TEST(function) cmocka_unit_test(function)

#endif
