/* Records: fields, layouts, framing, and every truncation. */
#include "support/test.h"

#include <spex/record.h>

#include "record/readers.h"
#include "record/stream.h"
#include "record/reader.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- the format ---- */

static void test_figure_d18_1(void **state)
{
    SPEC(FMT-11);
    SPEC(FMT-13);
    SPEC(FMT-14);
    uint8_t data[64];
    struct readers r;
    struct spex_record record;
    /* 16-bit packet, 8-bit packet, End; then the same with a Timestamp. */
    size_t n = bytes_of("52 16 01  49 00  01   52 17 02  49 01  71 01 02 03 04 05 06 07 08", data);
    assert_int_equal(n, 6 + 14);
    readers_init(&r, data, n, 0);
    assert_int_equal(step(&r, &record, NULL), SPEX_OK);
    assert_int_equal(record.offset, 0);
    assert_int_equal(record.size, 6);
    assert_int_equal(record.present, SPEX_HAS_EVENTS | SPEX_HAS_OP);
    assert_int_equal(record.events, 0x116);
    assert_int_equal(step(&r, &record, NULL), SPEX_OK);
    assert_int_equal(record.offset, 6);
    assert_int_equal(record.size, 14);
    assert_int_equal(record.present, SPEX_HAS_EVENTS | SPEX_HAS_OP | SPEX_HAS_TIMESTAMP);
    assert_true(record.timestamp == UINT64_C(0x0807060504030201));
    assert_int_equal(step(&r, &record, NULL), SPEX_END);
    assert_int_equal(step(&r, &record, NULL), SPEX_END);
}

/* Every packet with a field of its own, short and extended header; nothing else set. */
static void test_fields(void **state)
{
    static const struct {
        const char *hex;
        unsigned has;
        struct spex_record record;
        const char *spec;
    } rows[] = {
/* clang-format off */
#define PAYLOAD8 "08 07 06 05 04 03 02 81"
#define VALUE8 UINT64_C(0x8102030405060708)
        {"b0 " PAYLOAD8, SPEX_HAS_PC, {.address = {VALUE8}}, "PKT-04"},
        {"b1 " PAYLOAD8, SPEX_HAS_TARGET, {.address = {[1] = VALUE8}}, "PKT-05"},
        {"b2 " PAYLOAD8, SPEX_HAS_VA, {.address = {[2] = VALUE8}}, "PKT-06"},
        {"b3 " PAYLOAD8, SPEX_HAS_PA, {.address = {[3] = VALUE8}}, "PKT-07"},
        {"b4 " PAYLOAD8, SPEX_HAS_PREV_TARGET, {.address = {[4] = VALUE8}}, "PKT-30"},
        {"20 b0 " PAYLOAD8, SPEX_HAS_PC, {.address = {VALUE8}}, "FMT-33"},
        {"20 b4 " PAYLOAD8, SPEX_HAS_PREV_TARGET, {.address = {[4] = VALUE8}}, "FMT-33"},
        {"98 fe ff", SPEX_HAS_TOTAL, {.total = 0xfffe}, "PKT-37"},
        {"99 00 10", SPEX_HAS_ISSUE, {.issue = 0x1000}, "PKT-38"},
        {"9a 34 12", SPEX_HAS_TRANSLATION, {.translation = 0x1234}, "PKT-39"},
        {"9c 34 12", SPEX_HAS_ALT_ISSUE, {.alt_issue = 0x1234}, "PKT-41"},
        {"20 9c ff ff", SPEX_HAS_ALT_ISSUE, {.alt_issue = 0xffff}, "PKT-46"},
        {"20 99 34 12", SPEX_HAS_ISSUE, {.issue = 0x1234}, "PKT-46"},
        {"64 01 02 03 84", SPEX_HAS_CONTEXT_EL1, {.context = {[0] = 0x84030201}}, "PKT-32"},
        {"65 01 02 03 84", SPEX_HAS_CONTEXT_EL2, {.context = {[1] = 0x84030201}}, "PKT-33"},
        {"42 81", SPEX_HAS_EVENTS, {.events = 0x81, .events_size = 1}, "PKT-62"},
        {"52 01 82", SPEX_HAS_EVENTS, {.events = 0x8201, .events_size = 2}, "PKT-62"},
        {"62 01 02 03 84", SPEX_HAS_EVENTS, {.events = 0x84030201, .events_size = 4}, "PKT-62"},
        {"72 " PAYLOAD8, SPEX_HAS_EVENTS, {.events = VALUE8, .events_size = 8}, "PKT-62"},
        {"43 8c", SPEX_HAS_DATA_SOURCE, {.data_source = 0x8c, .data_source_size = 1}, "PKT-55"},
        {"53 0c 80",
         SPEX_HAS_DATA_SOURCE, {.data_source = 0x800c, .data_source_size = 2}, "PKT-55"},
        {"48 81", SPEX_HAS_OP, {.op_class = 0, .op_payload = 0x81}, "PKT-97"},
        {"49 25", SPEX_HAS_OP, {.op_class = 1, .op_payload = 0x25}, "PKT-97"},
        {"4a ff", SPEX_HAS_OP, {.op_class = 2, .op_payload = 0xff}, "PKT-97"},
        /* no field of their own: skipped, but told */
        {"4b 01", SPEX_HAS_OTHER, {.size = 0}, "FMT-21"},
        {"66 01 02 03 04", SPEX_HAS_OTHER, {.size = 0}, "PKT-34"},
        {"67 01 02 03 04", SPEX_HAS_OTHER, {.size = 0}, "PKT-34"},
        {"b5 " PAYLOAD8, SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"b6 " PAYLOAD8, SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"b7 " PAYLOAD8, SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"21 b0 " PAYLOAD8, SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"21 b7 " PAYLOAD8, SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"22 b0 " PAYLOAD8, SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"23 b7 " PAYLOAD8, SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"9b 01 02", SPEX_HAS_OTHER, {.size = 0}, "PKT-40"},
        {"9d 01 02", SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"9e 01 02", SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"21 98 01 02", SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"22 98 01 02", SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"23 9f 01 02", SPEX_HAS_OTHER, {.size = 0}, NULL},
        {"1f", SPEX_HAS_OTHER, {.size = 0}, "FMT-20"},
        {"20 13", SPEX_HAS_OTHER, {.size = 0}, "FMT-20"},
        {"63 01 71 01 71", SPEX_HAS_OTHER, {.size = 0}, "FMT-20"},
        {"3f 70 01 71 01 71 01 71 01 71", SPEX_HAS_OTHER, {.size = 0}, "FMT-20"},
        {"c0 01", SPEX_HAS_OTHER, {.size = 0}, "FMT-20"},
    };
    /* clang-format on */
    for (unsigned i = 0; i < COUNT(rows); i++) {
        uint8_t data[64];
        struct readers r;
        struct spex_record record, expected = rows[i].record;
        if (rows[i].spec)
            SPEC_ID(rows[i].spec);
        size_t n = bytes_of(rows[i].hex, data);
        data[n++] = 0x01;
        expected.offset = 1000;
        expected.size = (uint16_t)n;
        expected.present = (uint16_t)rows[i].has;
        readers_init(&r, data, n, 1000);
        assert_int_equal(step(&r, &record, NULL), SPEX_OK);
        assert_same_record(&record, &expected);
        assert_int_equal(step(&r, &record, NULL), SPEX_END);
    }
}

/* Padding goes between records and inside them, never counts, and needs no alignment. */
static void test_padding(void **state)
{
    SPEC(FMT-16);
    SPEC(FMT-17);
    SPEC(FMT-18);
    for (size_t before = 0; before < 70; before++) {
        uint8_t data[300] = {0};
        struct readers r;
        struct spex_record record;
        size_t n = before;
        n += bytes_of("b0 01 02 03 04 05 06 07 80 00 00 48 00 00 52 02 00 98 01 00 01", data + n);
        size_t second = n += 3;
        n += bytes_of("49 00 52 02 00 98 02 00 b0 01 02 03 04 05 06 07 80 71 1 0 0 0 0 0 0 0",
                      data + n);
        n += 11;
        readers_init(&r, data, n, 0);
        assert_int_equal(step(&r, &record, NULL), SPEX_OK);
        assert_int_equal(record.offset, before);
        assert_int_equal(record.size, 21);
        assert_int_equal(record.total, 1);
        assert_int_equal(step(&r, &record, NULL), SPEX_OK);
        assert_int_equal(record.offset, second);
        assert_int_equal(record.total, 2);
        assert_int_equal(step(&r, &record, NULL), SPEX_END);
    }
}

/* ---- layouts ---- */

static void test_layout_bytes(void **state)
{
    static const struct spex_record load = {
        /* clang-format off */
        .address = {0xc0ffba66eda1c2d0, 0, 0xff0e3703096b28, 0x80000123456789ab},
        .events = 0x16, .timestamp = 44731163950, .context = {7, 0x5f80},
        .total = 12, .issue = 4, .translation = 1, .data_source = 0xc,
        .present = SPEX_HAS_PC | SPEX_HAS_VA | SPEX_HAS_PA | SPEX_HAS_TOTAL | SPEX_HAS_ISSUE |
                   SPEX_HAS_TRANSLATION | SPEX_HAS_CONTEXT_EL1 | SPEX_HAS_CONTEXT_EL2 |
                   SPEX_HAS_EVENTS | SPEX_HAS_DATA_SOURCE | SPEX_HAS_OP | SPEX_HAS_TIMESTAMP,
        .op_class = 1, .op_payload = 0,
    };
    /* clang-format on */
    static const char n1[] = "b0 d0 c2 a1 ed 66 ba ff c0 64 07 00 00 00 65 80 5f 00 00 49 00 "
                             "52 16 00 99 04 00 98 0c 00 b2 28 6b 09 03 37 0e ff 00 9a 01 00 "
                             "b3 ab 89 67 45 23 01 00 80 43 0c 00 00 71 2e 65 2f 6a 0a 00 00 00";
    static const char compact[] = "64 07 00 00 00 65 80 5f 00 00 98 0c 00 99 04 00 9a 01 00 "
                                  "b0 d0 c2 a1 ed 66 ba ff c0 b2 28 6b 09 03 37 0e ff 00 "
                                  "b3 ab 89 67 45 23 01 00 80 43 0c 49 00 42 16 "
                                  "71 2e 65 2f 6a 0a 00 00 00";
    static const char hisi[] = "b0 d0 c2 a1 ed 66 ba ff c0 99 04 00 98 0c 00 42 16 49 00 "
                               "b2 28 6b 09 03 37 0e ff 00 9a 01 00 b3 ab 89 67 45 23 01 00 80 "
                               "43 0c 64 07 00 00 00 65 80 5f 00 00 00 00 00 "
                               "71 2e 65 2f 6a 0a 00 00 00";
    static const struct {
        enum spex_layout layout;
        const char *hex;
    } rows[] = {{SPEX_LAYOUT_N1, n1}, {SPEX_LAYOUT_COMPACT, compact}, {SPEX_LAYOUT_HISI, hisi}};
    for (unsigned i = 0; i < COUNT(rows); i++) {
        uint8_t want[128], out[2048];
        size_t n = bytes_of(rows[i].hex, want), length = 0;
        assert_int_equal(spex_record_encode(&load, rows[i].layout, 0, out, n, &length), SPEX_OK);
        assert_int_equal(length, n);
        assert_memory_equal(out, want, n);
        length = 99;
        assert_int_equal(spex_record_encode(&load, rows[i].layout, 0, out, n - 1, &length),
                         SPEX_RANGE);
        assert_int_equal(length, 99);
        /* Padding to every alignment. */
        SPEC(FMT-19);
        for (unsigned align = 0; align <= 11; align++) {
            memset(out, 0xff, sizeof out);
            assert_int_equal(
                spex_record_encode(&load, rows[i].layout, align, out, sizeof out, &length),
                SPEX_OK);
            assert_int_equal(length % (1u << align), 0);
            assert_in_range(length, n, n + (1u << align) - 1);
            assert_memory_equal(out, want, n);
            for (size_t j = n; j < length; j++)
                assert_int_equal(out[j], 0);
        }
        assert_int_equal(spex_record_encode(&load, rows[i].layout, 12, out, sizeof out, &length),
                         SPEX_INVALID);
    }
}

/* Every set of packets: each is there iff the record has it, with its payload; N1's places are
 * fixed. */
static void test_every_set_of_packets(void **state)
{
    static const struct {
        uint8_t header, payload, n1;
        /* clang-format off */
    } slots[] = {/* by bit of present */
                 {0xb0, 1, 0},  {0xb1, 2, 30},  {0xb2, 3, 30},  {0xb3, 4, 42},  {0xb4, 5, 0},
                 {0x98, 6, 27}, {0x99, 7, 24},  {0x9a, 8, 39},  {0x9c, 9, 0},   {0x64, 10, 9},
                 {0x65, 11, 14}, {0x52, 12, 21}, {0x43, 13, 51}, {0x49, 14, 19}, {0x71, 15, 55}};
    /* clang-format on */
    static const enum spex_layout layouts[] = {SPEX_LAYOUT_N1, SPEX_LAYOUT_COMPACT,
                                               SPEX_LAYOUT_HISI};
    const unsigned memory = SPEX_HAS_VA | SPEX_HAS_PA | SPEX_HAS_TRANSLATION | SPEX_HAS_DATA_SOURCE;
    const unsigned not_n1 = SPEX_HAS_PREV_TARGET | SPEX_HAS_ALT_ISSUE;
    /* clang-format off */
    struct spex_record r = {.address = {1, 2, 3, 4, 5}, .total = 6, .issue = 7, .translation = 8,
                            .alt_issue = 9, .context = {10, 11}, .events = 12, .events_size = 2,
                            .data_source = 13, .op_class = 1, .op_payload = 14, .timestamp = 15};
    /* clang-format on */
    for (unsigned i = 0; i < COUNT(layouts) << COUNT(slots); i++) {
        enum spex_layout layout = layouts[i >> COUNT(slots)];
        uint8_t out[128];
        size_t n, at = 0;
        r.present = (uint16_t)(i & ((1 << COUNT(slots)) - 1));
        bool fits = layout != SPEX_LAYOUT_N1 ||
                    !(r.present & not_n1 || (r.present & SPEX_HAS_TARGET && r.present & memory));
        assert_int_equal(spex_record_encode(&r, layout, 0, out, sizeof out, &n),
                         fits ? SPEX_OK : SPEX_RANGE);
        if (!fits)
            continue;
        unsigned seen = 0, slot;
        struct spex_packet packet = {0};
        for (; at < n; at += spex_packet_length(&packet)) {
            assert_int_equal(spex_packet_decode(out + at, n - at, &packet), SPEX_OK);
            if (packet.type == SPEX_PACKET_PADDING || packet.type == SPEX_PACKET_END)
                continue;
            for (slot = 0; slot < COUNT(slots) && slots[slot].header != packet.header[0]; slot++)
                ;
            assert_in_range(slot, 0, COUNT(slots) - 1);
            assert_true(packet.payload == slots[slot].payload);
            assert_true(layout != SPEX_LAYOUT_N1 || at == slots[slot].n1);
            seen |= 1u << slot;
        }
        assert_int_equal(seen, r.present);
        assert_int_equal(packet.type,
                         r.present & SPEX_HAS_TIMESTAMP ? SPEX_PACKET_TIMESTAMP : SPEX_PACKET_END);
        assert_true(layout != SPEX_LAYOUT_N1 || n == 64);
    }
}

/* The lengths seen on hardware: 44 bytes for branches and loads, 32 for the rest. */
static void test_hisi_lengths(void **state)
{
    struct spex_record r = {.present = SPEX_HAS_PC | SPEX_HAS_TOTAL | SPEX_HAS_ISSUE |
                                       SPEX_HAS_EVENTS | SPEX_HAS_OP | SPEX_HAS_TIMESTAMP,
                            .events_size = 2};
    uint8_t out[128];
    size_t n;
    assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_HISI, 0, out, sizeof out, &n), SPEX_OK);
    assert_int_equal(n, 32);
    r.present |= SPEX_HAS_TARGET;
    assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_HISI, 0, out, sizeof out, &n), SPEX_OK);
    assert_int_equal(n, 44);
    r.present ^= SPEX_HAS_TARGET | SPEX_HAS_VA | SPEX_HAS_TRANSLATION;
    assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_HISI, 0, out, sizeof out, &n), SPEX_OK);
    assert_int_equal(n, 44);
}

static void test_encode_refuses(void **state)
{
    static const struct spex_record good = {.present = SPEX_HAS_PC | SPEX_HAS_EVENTS | SPEX_HAS_OP |
                                                       SPEX_HAS_DATA_SOURCE};
    uint8_t out[128];
    size_t n = 77;
    struct spex_record r = good;
    assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_N1, 0, out, sizeof out, &n), SPEX_OK);
#define REFUSES(layout, status, change)                                                            \
    r = good, (change), n = 77;                                                                    \
    assert_int_equal(spex_record_encode(&r, layout, 0, out, sizeof out, &n), status);              \
    assert_int_equal(n, 77)
    REFUSES(SPEX_LAYOUT_COMPACT, SPEX_INVALID, r.events_size = 3);
    REFUSES(SPEX_LAYOUT_COMPACT, SPEX_INVALID, (r.events_size = 1, r.events = 256));
    REFUSES(SPEX_LAYOUT_COMPACT, SPEX_INVALID, (r.data_source_size = 1, r.data_source = 256));
    REFUSES(SPEX_LAYOUT_COMPACT, SPEX_INVALID, r.data_source_size = 4);
    REFUSES(SPEX_LAYOUT_COMPACT, SPEX_INVALID, r.op_class = 3);
    REFUSES((enum spex_layout)7, SPEX_INVALID, r.total = 1);
    REFUSES(SPEX_LAYOUT_N1, SPEX_RANGE, r.present |= SPEX_HAS_PREV_TARGET);
    REFUSES(SPEX_LAYOUT_N1, SPEX_RANGE, r.present |= SPEX_HAS_ALT_ISSUE);
    REFUSES(SPEX_LAYOUT_N1, SPEX_RANGE, r.present |= SPEX_HAS_TARGET | SPEX_HAS_VA);
    REFUSES(SPEX_LAYOUT_N1, SPEX_RANGE, r.events_size = 1);
    REFUSES(SPEX_LAYOUT_N1, SPEX_RANGE, r.events_size = 8);
    REFUSES(SPEX_LAYOUT_N1, SPEX_RANGE, r.events = UINT64_C(1) << 32);
    REFUSES(SPEX_LAYOUT_N1, SPEX_RANGE, r.data_source = 256);
    /* Four bytes of events, as cores with SVE have: what follows moves up by two. */
    r = good;
    r.events = 0x20000;
    r.data_source = 0xe;
    assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_N1, 6, out, sizeof out, &n), SPEX_OK);
    assert_int_equal(n, 64);
    assert_int_equal(out[21], 0x62);
    assert_int_equal(out[53], 0x43);
    assert_int_equal(out[54], 0x0e);
    assert_int_equal(out[63], 0x01);
}

static void assert_reads_as_made(struct stream s)
{
    struct readers r;
    struct spex_record record;
    readers_init(&r, s.data, s.size, 0);
    for (size_t i = 0; i < s.count; i++) {
        assert_int_equal(step(&r, &record, NULL), SPEX_OK);
        assert_same_record(&record, &s.records[i]);
    }
    assert_int_equal(step(&r, &record, NULL), SPEX_END);
    stream_free(&s);
}

/* decode(encode(r)) == r for random records in every layout; sizes are chosen when not given. */
static void test_round_trip(void **state)
{
    for (unsigned kind = 0; kind < STREAM_VARIED; kind++)
        assert_reads_as_made(stream_make(5 + kind, kind, 3000));
    struct spex_record r = {.present = SPEX_HAS_EVENTS | SPEX_HAS_DATA_SOURCE};
    static const uint64_t events[] = {0xff, 0x100, 0x10000, UINT64_C(0x100000000)};
    for (unsigned i = 0; i < 4; i++) {
        uint8_t out[64];
        size_t n;
        r.events = events[i];
        r.data_source = i ? 0x100 : 0xff;
        assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_COMPACT, 0, out, 64, &n), SPEX_OK);
        assert_int_equal(n, (i ? 3 : 2) + 1 + (1 << i) + 1);
    }
}

/* Orders of the manual's freedom: extended headers, IMPLEMENTATION DEFINED packets, padding. */
static void test_any_order(void **state)
{
    SPEC(FMT-10);
    for (uint64_t seed = 1; seed <= 20; seed++)
        assert_reads_as_made(stream_make(seed, STREAM_VARIED, 300));
}

/* Whatever the number that one batch may hold, the records and the end are the same. */
static void test_batches(void **state)
{
    static const size_t counts[] = {1, 2, 3, 7, 64, 1000};
    for (unsigned kind = 0; kind < STREAM_KINDS; kind++) {
        struct stream s = stream_make(50 + kind, kind, 500);
        struct spex_record *out = calloc(1000, sizeof *out);
        for (unsigned i = 0; i < COUNT(counts); i++) {
            struct spex_reader *reader;
            struct spex_error error;
            enum spex_status status = SPEX_OK;
            size_t done = 0;
            assert_int_equal(spex_reader_new(NULL, &reader, &error), SPEX_OK);
            spex_reader_feed(reader, s.data, s.size, 0, true);
            while (status == SPEX_OK) {
                size_t n = spex_reader_batch(reader, out, counts[i], &status, NULL);
                assert_true(n == counts[i] || status != SPEX_OK);
                for (size_t j = 0; j < n; j++)
                    assert_same_record(&out[j], &s.records[done + j]);
                done += n;
            }
            assert_int_equal(status, SPEX_END);
            spex_reader_free(reader);
            assert_int_equal(done, s.count);
        }
        free(out);
        stream_free(&s);
    }
}

/* Cut a stream at every byte: all records before the cut, then TRUNCATED at the right place. */
static void test_every_truncation(void **state)
{
    for (unsigned kind = 0; kind < STREAM_KINDS; kind++) {
        struct stream s = stream_make(90 + kind, kind, 12);
        for (size_t size = 0; size <= s.size; size++) {
            uint8_t *copy = malloc(size ? size : 1);
            memcpy(copy, s.data, size);
            struct readers r;
            struct spex_record record;
            struct spex_damage damage;
            readers_init(&r, copy, size, 0);
            size_t i = 0;
            for (; i < s.count && s.records[i].offset + s.records[i].size <= size; i++) {
                assert_int_equal(step(&r, &record, &damage), SPEX_OK);
                assert_same_record(&record, &s.records[i]);
            }
            enum spex_status status = step(&r, &record, &damage);
            if (i < s.count && s.records[i].offset < size) {
                assert_int_equal(status, SPEX_TRUNCATED);
                assert_true(damage.offset == s.records[i].offset);
                assert_true(damage.offset + damage.size <= size);
                status = step(&r, &record, &damage);
            }
            assert_int_equal(status, SPEX_END);
            free(copy);
        }
        stream_free(&s);
    }
}

static void test_making(void **state)
{
    struct spex_error error;
    struct spex_reader *reader = NULL;
    struct spex_shapes *shared;
    struct spex_reader_options options = {.size = 1};
    assert_int_equal(spex_reader_new(&options, &reader, &error), SPEX_INVALID);
    assert_null(reader);
    assert_non_null(strstr(error.text, "spex_reader_options"));
    assert_int_equal(spex_shapes_new(&shared, &error), SPEX_OK);
    options = (struct spex_reader_options){.size = sizeof options, .shapes = shared};
    for (int i = 0; i < 2; i++) { /* one that is shared outlives its readers */
        assert_int_equal(spex_reader_new(&options, &reader, &error), SPEX_OK);
        spex_reader_free(reader);
    }
    spex_shapes_free(shared);
    spex_reader_free(NULL);
    struct spex_record r = {.present = SPEX_HAS_EVENTS, .events_size = 9};
    uint8_t out[64];
    size_t n = 5;
    assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_COMPACT, 0, out, sizeof out, &n),
                     SPEX_INVALID);
    assert_int_equal(n, 5);
}

/* In memory of the caller; what does not go on where the last piece ended begins anew. */
static void test_gap(void **state)
{
    static const uint8_t piece[] = {0xb0, 1, 2,    3, 4, 5,    6,    7, 8,
                                    0x49, 0, 0x52, 2, 0, 0x01, 0xb0, 9};
    void *memory[] = {malloc(spex_shapes_size()), malloc(spex_reader_size())};
    struct spex_reader_options options = {.size = sizeof options};
    struct spex_reader *reader;
    struct spex_record record;
    options.shapes = spex_shapes_init(memory[0]);
    assert_int_equal(spex_reader_init(memory[1], &options, &reader, NULL), SPEX_OK);
    for (uint64_t offset = 0; offset < 3000; offset += 1000) {
        spex_reader_feed(reader, piece, sizeof piece, offset, false);
        assert_int_equal(spex_reader_next(reader, &record, NULL),
                         SPEX_END); /* to be judged later */
        assert_int_equal(spex_reader_rest(reader), sizeof piece);
    }
    spex_reader_feed(reader, piece, sizeof piece, 5000, true);
    assert_int_equal(spex_reader_next(reader, &record, NULL), SPEX_OK);
    assert_int_equal(record.offset, 5000);
    free(memory[0]);
    free(memory[1]);
}

TEST_MAIN(TEST(test_making), TEST(test_figure_d18_1), TEST(test_fields), TEST(test_padding),
          TEST(test_layout_bytes), TEST(test_every_set_of_packets), TEST(test_hisi_lengths),
          TEST(test_encode_refuses), TEST(test_round_trip), TEST(test_any_order),
          TEST(test_batches), TEST(test_every_truncation), TEST(test_gap))
