/* The period that a run's figures suggest. */
#include "support/test.h"

#include "native/count.h"

static uint64_t recommend(struct native_run_figures f)
{
    const char *why = NULL;
    uint64_t period = native_recommend(&f, &why);
    assert_non_null(why);
    return period;
}

static void test_what_suits_stays(void **state)
{
    (void)state;
    assert_int_equal(recommend((struct native_run_figures){4096, 1024, 50000, 10, 0}), 4096);
    assert_int_equal(recommend((struct native_run_figures){1024, 1024, 500, 0, 0}), 1024);
}

static void test_collisions_and_full_buffers_want_a_longer_one(void **state)
{
    (void)state;
    /* Twice as many collisions as are tolerated: twice the period, and so on. */
    assert_int_equal(recommend((struct native_run_figures){1024, 256, 98000, 2000, 0}), 2048);
    assert_int_equal(recommend((struct native_run_figures){1024, 256, 93000, 7000, 0}), 8192);
    assert_int_equal(recommend((struct native_run_figures){1024, 256, 98000, 0, 1}), 2048);
}

static void test_few_samples_want_a_shorter_one(void **state)
{
    (void)state;
    assert_int_equal(recommend((struct native_run_figures){65536, 1024, 1000, 0, 0}), 8192);
    assert_int_equal(recommend((struct native_run_figures){65536, 1024, 10, 0, 0}), 1024);
    assert_true(recommend((struct native_run_figures){65536, 1024, 0, 0, 0}) < 65536);
    /* not if they collide */
    assert_int_equal(recommend((struct native_run_figures){4096, 256, 1000, 5, 0}), 4096);
}

TEST_MAIN(TEST(test_what_suits_stays), TEST(test_collisions_and_full_buffers_want_a_longer_one),
          TEST(test_few_samples_want_a_shorter_one))
