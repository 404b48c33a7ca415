/*
 * Packets: the decoder against the oracle, the encoder and make, over every header there is. The
 * expectations are written out from the manual a second time, as lists.
 */
#include "support/test.h"

#include <spex/wire.h>

#include "base/rng.h"
#include "wire/oracle.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void assert_same(const struct spex_packet *a, const struct spex_packet *b)
{
    assert_true(a->payload == b->payload);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->header[0], b->header[0]);
    assert_int_equal(a->header[1], b->header[1]);
    assert_int_equal(a->header_size, b->header_size);
    assert_int_equal(a->size, b->size);
}

/*
 * Decodes with the product and the oracle, which must agree and leave *packet alone
 * on failure; checks encode(decode(x)) == x. A heap copy of the exact size lets a
 * sanitizer see an over-read.
 */
static enum spex_status decode(const uint8_t *data, size_t size, struct spex_packet *packet)
{
    struct spex_packet oracle, fast, before;
    memset(&before, 0xa5, sizeof before);
    oracle = fast = before;
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    enum spex_status a = oracle_packet(copy, size, &oracle);
    enum spex_status b = spex_packet_decode(copy, size, &fast);
    free(copy);
    assert_int_equal(a, b);
    assert_same(&oracle, &fast);
    if (a == SPEX_OK) {
        uint8_t out[SPEX_PACKET_MAX];
        size_t length = 0;
        assert_int_equal(spex_packet_encode(&fast, out, sizeof out, &length), SPEX_OK);
        assert_int_equal(length, spex_packet_length(&fast));
        assert_memory_equal(out, data, length);
        assert_int_equal(spex_packet_encode(&fast, out, length - 1, &length), SPEX_RANGE);
        *packet = fast;
    } else {
        assert_same(&fast, &before);
    }
    return a;
}

/* Ten bytes after the header, none of them zero. */
static struct spex_packet decode_header(unsigned first, unsigned second)
{
    /* clang-format off */
    uint8_t data[12] = {(uint8_t)first, (uint8_t)second, 0x13, 0x27, 0x35, 0x41,
                        0x5f, 0x6a, 0x7b, 0x8c, 0x9d, 0xae};
    /* clang-format on */
    struct spex_packet packet;
    assert_int_equal(decode(data, sizeof data, &packet), SPEX_OK);
    return packet;
}

/* All 65,536 pairs; every truncation of each. */
static void test_every_header_pair(void **state)
{
    SPEC(FMT-02);
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        /* clang-format off */
        uint8_t data[16] = {(uint8_t)pair, (uint8_t)(pair >> 8), 0x13, 0x27, 0x35, 0x41,
                            0x5f, 0x6a, 0x7b, 0x8c, 0x9d, 0xae, 0xbf, 0xc0, 0xd1, 0xe2};
        /* clang-format on */
        struct spex_packet packet;
        assert_int_equal(decode(data, sizeof data, &packet), SPEX_OK);
        assert_in_range(packet.header_size, 1, 2);
        assert_true(packet.size == 0 || packet.size == 1 || packet.size == 2 || packet.size == 4 ||
                    packet.size == 8);
        size_t length = spex_packet_length(&packet);
        for (size_t size = 0; size < length; size++)
            assert_int_equal(decode(data, size, &packet), SPEX_TRUNCATED);
        assert_int_equal(decode(data, length, &packet), SPEX_OK);
    }
}

/* D18.1.1, the ranges as printed. */
static void test_payload_sizes(void **state)
{
    static const struct {
        unsigned low, high, size;
        const char *spec;
    } ranges[] = {
        {0x00, 0x1f, 0, "FMT-03"}, {0x40, 0x4f, 1, "FMT-05"}, {0x80, 0x8f, 1, "FMT-05"},
        {0xc0, 0xcf, 1, "FMT-05"}, {0x50, 0x5f, 2, "FMT-06"}, {0x90, 0x9f, 2, "FMT-06"},
        {0xd0, 0xdf, 2, "FMT-06"}, {0x60, 0x6f, 4, "FMT-07"}, {0xa0, 0xaf, 4, "FMT-07"},
        {0xe0, 0xef, 4, "FMT-07"}, {0x70, 0x7f, 8, "FMT-08"}, {0xb0, 0xbf, 8, "FMT-08"},
        {0xf0, 0xff, 8, "FMT-08"},
    };
    unsigned covered = 0;
    for (unsigned i = 0; i < COUNT(ranges); i++) {
        SPEC_ID(ranges[i].spec);
        for (unsigned h = ranges[i].low; h <= ranges[i].high; h++, covered++) {
            struct spex_packet packet = decode_header(h, 0x77);
            assert_int_equal(packet.header_size, 1);
            assert_int_equal(packet.size, ranges[i].size);
        }
    }
    SPEC(FMT-04);
    SPEC(FMT-09);
    for (unsigned h = 0x20; h <= 0x3f; h++, covered++) {
        for (unsigned second = 0; second < 0x100; second++) {
            static const unsigned sizes[4] = {1, 2, 4, 8};
            struct spex_packet packet = decode_header(h, second);
            assert_int_equal(packet.header_size, 2);
            assert_int_equal(packet.size, second < 0x40 ? 0 : sizes[second >> 4 & 3]);
            if (second < 0x40)
                assert_int_equal(packet.type, SPEX_PACKET_RESERVED);
        }
    }
    assert_int_equal(covered, 256);
}

/* Tables D18-1 and D18-2 as lists of headers: nothing else may have a type. */
static void test_header_tables(void **state)
{
    static const struct {
        enum spex_packet_type type;
        unsigned count;
        uint8_t headers[8];
        const char *spec;
    } rows[] = {
        {SPEX_PACKET_PADDING, 1, {0x00}, "FMT-22 PKT-135"},
        {SPEX_PACKET_END, 1, {0x01}, "FMT-23"},
        {SPEX_PACKET_TIMESTAMP, 1, {0x71}, "FMT-24"},
        {SPEX_PACKET_EVENTS, 4, {0x42, 0x52, 0x62, 0x72}, "FMT-25 PKT-61"},
        {SPEX_PACKET_DATA_SOURCE, 2, {0x43, 0x53}, "FMT-26 PKT-54"},
        {SPEX_PACKET_CONTEXT, 4, {0x64, 0x65, 0x66, 0x67}, "FMT-27 PKT-31"},
        {SPEX_PACKET_OPERATION_TYPE, 4, {0x48, 0x49, 0x4a, 0x4b}, "FMT-28 PKT-97"},
        {SPEX_PACKET_ADDRESS, 8, {0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7}, "FMT-29 PKT-01"},
        {SPEX_PACKET_COUNTER, 8, {0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f}, "FMT-30 PKT-35"},
    };
    uint8_t expected[256];
    memset(expected, SPEX_PACKET_RESERVED, sizeof expected);
    for (unsigned i = 0; i < COUNT(rows); i++) {
        char text[32], *save = NULL;
        strcpy(text, rows[i].spec);
        for (char *id = strtok_r(text, " ", &save); id; id = strtok_r(NULL, " ", &save))
            SPEC_ID(id);
        for (unsigned j = 0; j < rows[i].count; j++) {
            expected[rows[i].headers[j]] = rows[i].type;
            unsigned index = decode_header(rows[i].headers[j], 0).index;
            switch (rows[i].type) {
            case SPEX_PACKET_CONTEXT:
            case SPEX_PACKET_OPERATION_TYPE:
            case SPEX_PACKET_ADDRESS:
            case SPEX_PACKET_COUNTER:
                assert_int_equal(index, j);
                break;
            default:
                assert_int_equal(index, 0);
            }
        }
    }
    for (unsigned h = 0; h < 256; h++)
        if (h < 0x20 || h > 0x3f)
            assert_int_equal(decode_header(h, 0x55).type, expected[h]);

    SPEC(FMT-31);
    SPEC(FMT-32);
    SPEC(PKT-02);
    SPEC(PKT-03);
    SPEC(PKT-36);
    for (unsigned first = 0x20; first <= 0x3f; first++) {
        for (unsigned second = 0; second < 256; second++) {
            struct spex_packet packet = decode_header(first, second);
            bool address = first <= 0x23 && second >= 0xb0 && second <= 0xb7;
            bool counter = first <= 0x23 && second >= 0x98 && second <= 0x9f;
            assert_int_equal(packet.type, address   ? SPEX_PACKET_ADDRESS
                                          : counter ? SPEX_PACKET_COUNTER
                                                    : SPEX_PACKET_RESERVED);
            assert_int_equal(packet.index,
                             address || counter ? (first - 0x20) * 8 + second % 8 : 0);
        }
    }
}

static void test_little_endian(void **state)
{
    SPEC(FMT-12);
    SPEC(PKT-136);
    static const uint8_t timestamp[] = {0x71, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t context[] = {0x64, 0x80, 0x5f, 0x01, 0x02};
    static const uint8_t counter[] = {0x9e, 0x34, 0x12};
    struct spex_packet packet;
    decode(timestamp, sizeof timestamp, &packet);
    assert_true(packet.payload == UINT64_C(0x0807060504030201));
    decode(context, sizeof context, &packet);
    assert_true(packet.payload == 0x02015f80);
    decode(counter, sizeof counter, &packet);
    assert_true(packet.payload == 0x1234);
    /* With more after: the decoder may take eight bytes at once. */
    uint8_t more[32] = {0};
    memcpy(more, timestamp, sizeof timestamp);
    decode(more, sizeof more, &packet);
    assert_true(packet.payload == UINT64_C(0x0807060504030201));
    memset(more, 0xff, sizeof more);
    memcpy(more, counter, sizeof counter);
    decode(more, sizeof more, &packet);
    assert_true(packet.payload == 0x1234);
}

/* Whatever the bytes are, none after the end is read: there is no memory after it. */
static void test_no_over_read(void **state)
{
    SPEC(FMT-09);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    for (unsigned header = 0; header < 0x10000; header++) {
        for (size_t size = 1; size <= SPEX_PACKET_MAX; size++) {
            uint8_t *data = pages + page - size;
            struct spex_packet packet;
            data[0] = (uint8_t)(header >> 8);
            if (size > 1)
                data[1] = (uint8_t)header;
            enum spex_status status = spex_packet_decode(data, size, &packet);
            assert_true(status == SPEX_TRUNCATED ||
                        (status == SPEX_OK && spex_packet_length(&packet) <= size));
        }
    }
    munmap(pages, 2 * page);
}

/* Reserved packets are skipped by size and come back byte for byte. */
static void test_reserved_is_kept(void **state)
{
    SPEC(FMT-20);
    static const struct {
        uint8_t bytes[10];
        unsigned length;
    } rows[] = {
        {{0x02}, 1},
        {{0x1f}, 1},
        {{0x20, 0x00}, 2},
        {{0x3f, 0x3f}, 2},
        {{0x20, 0x71, 1, 2, 3, 4, 5, 6, 7, 8}, 10},
        {{0x24, 0xb0, 1, 2, 3, 4, 5, 6, 7, 8}, 10},
        {{0x20, 0x42, 9}, 3},
        {{0x63, 1, 2, 3, 4}, 5},
        {{0x73, 1, 2, 3, 4, 5, 6, 7, 8}, 9},
        {{0x40, 9}, 2},
        {{0xc1, 9}, 2},
        {{0xff, 1, 2, 3, 4, 5, 6, 7, 8}, 9},
    };
    for (unsigned i = 0; i < COUNT(rows); i++) {
        struct spex_packet packet;
        assert_int_equal(decode(rows[i].bytes, rows[i].length, &packet), SPEX_OK);
        assert_int_equal(packet.type, SPEX_PACKET_RESERVED);
        assert_int_equal(spex_packet_length(&packet), rows[i].length);
    }
}

/* make: the shortest header that says it, for every type, index and size. */
static void test_make(void **state)
{
    SPEC(FMT-33);
    struct spex_packet packet, decoded;
    for (unsigned index = 0; index < 40; index++) {
        for (unsigned type = SPEX_PACKET_ADDRESS; type <= SPEX_PACKET_COUNTER; type++) {
            enum spex_status status = spex_packet_make(type, index, 0, 0x1234, &packet);
            if (index > 31) {
                assert_int_equal(status, SPEX_RANGE);
                continue;
            }
            assert_int_equal(status, SPEX_OK);
            assert_int_equal(packet.header_size, index < 8 ? 1 : 2);
            uint8_t out[SPEX_PACKET_MAX];
            size_t length;
            assert_int_equal(spex_packet_encode(&packet, out, sizeof out, &length), SPEX_OK);
            assert_int_equal(decode(out, length, &decoded), SPEX_OK);
            assert_same(&packet, &decoded);
        }
    }
    /* An extended header with high index bits 00 is the same packet. */
    decoded = decode_header(0x20, 0xb1);
    assert_int_equal(decoded.type, SPEX_PACKET_ADDRESS);
    assert_int_equal(decoded.index, SPEX_ADDRESS_TARGET);

    static const struct {
        enum spex_packet_type type;
        unsigned sizes; /* 1 << size that make takes */
        unsigned max_index;
    } rows[] = {
        {SPEX_PACKET_PADDING, 1 << 0, 0},
        {SPEX_PACKET_END, 1 << 0, 0},
        {SPEX_PACKET_TIMESTAMP, 1 << 0 | 1 << 8, 0},
        {SPEX_PACKET_EVENTS, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8, 0},
        {SPEX_PACKET_DATA_SOURCE, 1 << 1 | 1 << 2, 0},
        {SPEX_PACKET_CONTEXT, 1 << 0 | 1 << 4, 3},
        {SPEX_PACKET_OPERATION_TYPE, 1 << 0 | 1 << 1, 3},
        {SPEX_PACKET_ADDRESS, 1 << 0 | 1 << 8, 31},
        {SPEX_PACKET_COUNTER, 1 << 0 | 1 << 2, 31},
    };
    for (unsigned i = 0; i < COUNT(rows); i++) {
        for (unsigned size = 0; size <= 9; size++) {
            enum spex_status status = spex_packet_make(rows[i].type, 0, size, 0, &packet);
            assert_int_equal(status, rows[i].sizes >> size & 1 ? SPEX_OK : SPEX_RANGE);
            if (status != SPEX_OK)
                continue;
            assert_int_equal(packet.type, rows[i].type);
            uint8_t out[SPEX_PACKET_MAX];
            size_t length;
            assert_int_equal(spex_packet_encode(&packet, out, sizeof out, &length), SPEX_OK);
            assert_int_equal(decode(out, length, &decoded), SPEX_OK);
            assert_same(&packet, &decoded);
            if (packet.size && packet.size < 8) {
                uint64_t large = UINT64_C(1) << (8 * packet.size);
                assert_int_equal(spex_packet_make(rows[i].type, 0, size, large, &packet),
                                 SPEX_RANGE);
                assert_int_equal(spex_packet_make(rows[i].type, 0, size, large - 1, &packet),
                                 SPEX_OK);
            }
        }
        unsigned size = (unsigned)__builtin_ctz(rows[i].sizes);
        assert_int_equal(spex_packet_make(rows[i].type, rows[i].max_index, size, 0, &packet),
                         SPEX_OK);
        assert_int_equal(spex_packet_make(rows[i].type, rows[i].max_index + 1, size, 0, &packet),
                         SPEX_RANGE);
    }
    assert_int_equal(spex_packet_make(SPEX_PACKET_RESERVED, 0, 0, 0, &packet), SPEX_INVALID);
    assert_int_equal(spex_packet_make(SPEX_PACKET_END, 0, 0, 1, &packet), SPEX_RANGE);
}

/* Packets that contradict themselves are not written. */
static void test_encode_refuses(void **state)
{
    static const struct spex_packet good = {
        .payload = 0x16, .type = SPEX_PACKET_EVENTS, .header = {0x52}, .header_size = 1, .size = 2};
    struct spex_packet p;
    uint8_t out[SPEX_PACKET_MAX];
    size_t length = 77;
    p = good, p.type = SPEX_PACKET_DATA_SOURCE;
    assert_int_equal(spex_packet_encode(&p, out, sizeof out, &length), SPEX_INVALID);
    p = good, p.index = 1;
    assert_int_equal(spex_packet_encode(&p, out, sizeof out, &length), SPEX_INVALID);
    p = good, p.size = 4;
    assert_int_equal(spex_packet_encode(&p, out, sizeof out, &length), SPEX_INVALID);
    p = good, p.header_size = 2;
    assert_int_equal(spex_packet_encode(&p, out, sizeof out, &length), SPEX_INVALID);
    p = good, p.header[1] = 1;
    assert_int_equal(spex_packet_encode(&p, out, sizeof out, &length), SPEX_INVALID);
    p = good, p.header[0] = 0x42;
    assert_int_equal(spex_packet_encode(&p, out, sizeof out, &length), SPEX_INVALID);
    p = good, p.header[0] = 0x22;
    assert_int_equal(spex_packet_encode(&p, out, sizeof out, &length), SPEX_INVALID);
    p = good, p.payload = 0x10000;
    assert_int_equal(spex_packet_encode(&p, out, sizeof out, &length), SPEX_RANGE);
    assert_int_equal(spex_packet_encode(&good, out, 2, &length), SPEX_RANGE);
    assert_int_equal(length, 77);
    assert_int_equal(spex_packet_encode(&good, out, 3, &length), SPEX_OK);
    assert_int_equal(length, 3);
}

/* Random packets, random lengths of what is there. */
static void test_random(void **state)
{
    struct rng rng = {18};
    for (int i = 0; i < 200000; i++) {
        uint8_t data[24];
        for (unsigned j = 0; j < sizeof data; j += 8) {
            uint64_t bits = rng_next(&rng);
            memcpy(data + j, &bits, 8);
        }
        struct spex_packet packet;
        decode(data, rng_below(&rng, sizeof data + 1), &packet);
    }
}

static void test_names(void **state)
{
    static const char *const names[] = {"padding",     "end",     "timestamp",      "events",
                                        "data-source", "context", "operation-type", "address",
                                        "counter",     "reserved"};
    assert_int_equal(COUNT(names), SPEX_PACKET_TYPE_COUNT);
    for (unsigned i = 0; i < COUNT(names); i++)
        assert_string_equal(spex_packet_type_name((enum spex_packet_type)i), names[i]);
    assert_string_equal(spex_packet_type_name(SPEX_PACKET_TYPE_COUNT), "?");
}

TEST_MAIN(TEST(test_every_header_pair), TEST(test_payload_sizes), TEST(test_header_tables),
          TEST(test_little_endian), TEST(test_no_over_read), TEST(test_reserved_is_kept),
          TEST(test_make), TEST(test_encode_refuses), TEST(test_random), TEST(test_names))
