/* Packets: both decoders, the encoder and make, over every header there is. */
#include "support/test.h"

#include <spex/wire.h>

#include "base/rng.h"

#include <stdbool.h>

/* Decodes with both decoders, which must agree; checks encode(decode(x)) == x. */
static enum spex_status decode(const uint8_t *data, size_t size, struct spex_packet *packet)
{
    struct spex_packet table, fast;
    memset(&table, 0xa5, sizeof table);
    memset(&fast, 0xa5, sizeof fast);
    /* A heap copy of the exact size, so that a sanitizer sees an over-read. */
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    enum spex_status a = spex_packet_decode_table(copy, size, &table);
    enum spex_status b = spex_packet_decode(copy, size, &fast);
    free(copy);
    assert_int_equal(a, b);
    assert_int_equal(table.payload, fast.payload);
    assert_int_equal(table.type, fast.type);
    assert_int_equal(table.index, fast.index);
    assert_int_equal(table.header[0], fast.header[0]);
    assert_int_equal(table.header[1], fast.header[1]);
    assert_int_equal(table.header_size, fast.header_size);
    assert_int_equal(table.size, fast.size);
    if (a == SPEX_OK) {
        uint8_t out[SPEX_PACKET_MAX];
        size_t length = 0;
        assert_int_equal(spex_packet_encode(&table, out, sizeof out, &length), SPEX_OK);
        assert_int_equal(length, spex_packet_length(&table));
        assert_memory_equal(out, data, length);
        *packet = table;
    }
    return a;
}

/* All 65,536 pairs, with payload bytes that differ; every truncation of each. */
static void test_every_header(void **state)
{
    SPEC(FMT-02);
    SPEC(FMT-09);
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        uint8_t data[16] = {(uint8_t)pair, (uint8_t)(pair >> 8), 0x13, 0x27, 0x35, 0x41,
                            0x5f, 0x6a, 0x7b, 0x8c, 0x9d, 0xae, 0xbf, 0xc0, 0xd1, 0xe2};
        struct spex_packet packet = {0};
        assert_int_equal(decode(data, sizeof data, &packet), SPEX_OK);
        size_t length = spex_packet_length(&packet);
        assert_in_range(length, 1, SPEX_PACKET_MAX);
        for (size_t size = 0; size < length; size++)
            assert_int_equal(decode(data, size, &packet), SPEX_TRUNCATED);
        assert_int_equal(decode(data, length, &packet), SPEX_OK);
    }
}

TEST_MAIN(TEST(test_every_header))
