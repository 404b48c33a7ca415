/* Units, generators and checkers in memory of the caller do what those in their own do. */
#include <spex/generate.h>
#include <spex/spu.h>
#include <spex/verify.h>

#include "support/test.h"

static void test_unit(void **state)
{
    struct spex_spu *own, *here;
    struct spex_error error;
    const struct spex_spu_config config = {.size = sizeof config, .seed = 7};
    const struct spex_spu_config wrong = {.size = sizeof wrong, .features = "unicorn"};
    void *memory = malloc(spex_spu_size());
    assert_int_equal(spex_spu_new(&config, &own, &error), SPEX_OK);
    assert_int_equal(spex_spu_init(memory, &config, &here, &error), SPEX_OK);
    size_t size = spex_spu_save(own, NULL, 0);
    uint8_t *a = malloc(size), *b = malloc(size);
    assert_int_equal(spex_spu_save(own, a, size), size);
    assert_int_equal(spex_spu_save(here, b, size), size);
    assert_memory_equal(a, b, size);
    spex_spu_fini(here);
    assert_int_not_equal(spex_spu_init(memory, &wrong, &here, &error), SPEX_OK);
    assert_non_null(strstr(error.text, "unicorn"));
    /* a state that is cut anywhere is refused, and nothing of it is taken */
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_not_equal(spex_spu_restore(own, a, cut), SPEX_OK);
        assert_int_equal(spex_spu_save(own, b, size), size);
        assert_memory_equal(a, b, size);
    }
    spex_spu_free(own);
    free(memory);
    free(a);
    free(b);
    assert_null(spex_pmu_event_name(0));
}

static void test_generator(void **state)
{
    struct spex_generator *own, *here;
    struct spex_error error;
    const struct spex_generate_options options = {.size = sizeof options, .seed = 3};
    void *memory = malloc(spex_generator_size()), *place = malloc(spex_verifier_size());
    struct spex_verifier *verifier;
    assert_int_equal(spex_generator_new(&options, &own, &error), SPEX_OK);
    assert_int_equal(spex_generator_init(memory, &options, &here, &error), SPEX_OK);
    assert_int_equal(spex_verifier_init(place, NULL, &verifier, &error), SPEX_OK);
    uint64_t offset = 0;
    for (unsigned i = 0; i < 100; i++) {
        uint8_t a[SPEX_RECORD_MAX], b[SPEX_RECORD_MAX];
        struct spex_record meant;
        size_t size = spex_generator_next(own, a, &meant);
        assert_int_equal(spex_generator_next(here, b, &meant), size);
        assert_memory_equal(a, b, size);
        spex_verifier_feed(verifier, a, size, offset, i == 99);
        struct spex_violation violation;
        assert_int_equal(spex_verifier_next(verifier, &violation), SPEX_END);
        offset += size;
    }
    assert_int_equal(spex_verifier_records(verifier), 100);
    spex_generator_free(own);
    free(memory);
    free(place);
}

TEST_MAIN(TEST(test_unit), TEST(test_generator))
