/* Records: vectors, encode and decode. */
#include "support/test.h"

#include <spex/record.h>

static const uint8_t n1[] = {
    0xb0, 0xd0, 0xc2, 0xa1, 0xed, 0x66, 0xba, 0xff, 0xc0, 0, 0, 0, 0, 0, 0x65, 0x80, 0x5f, 0, 0,
    0x49, 0, 0x52, 0x16, 0, 0x99, 4, 0, 0x98, 0x0c, 0, 0xb2, 0x28, 0x6b, 9, 3, 0x37, 0x0e, 0xff, 0,
    0x9a, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x43, 0, 0, 0, 0x71, 0x2e, 0x65, 0x2f, 0x6a, 0x0a, 0, 0, 0,
};

static void test_one(void **state)
{
    struct spex_record_reader reader;
    struct spex_record r;
    struct spex_damage damage;
    spex_record_reader_init(&reader, n1, sizeof n1, 100);
    assert_int_equal(spex_record_next(&reader, &r, &damage), SPEX_OK);
    assert_int_equal(r.offset, 100);
    assert_int_equal(r.size, 64);
    assert_int_equal(r.total, 12);
    assert_int_equal(r.timestamp, 44731163950);
    uint8_t out[64];
    size_t length;
    assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_N1, 6, out, sizeof out, &length), SPEX_OK);
    assert_int_equal(length, 64);
    assert_memory_equal(out, n1, 64);
    assert_int_equal(spex_record_next(&reader, &r, &damage), SPEX_END);
}

TEST_MAIN(TEST(test_one))
