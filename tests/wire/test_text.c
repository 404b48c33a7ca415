/*
 * Text of packets: our own style says every field, perf's two styles have their
 * published shapes. test_perf.py compares perf's style with the real perf 6.1.
 */
#include "support/test.h"

#include <spex/wire.h>

#include <stdbool.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const char *text(const char *hex, enum spex_text_style style)
{
    static char out[SPEX_PACKET_TEXT_MAX];
    uint8_t data[SPEX_PACKET_MAX];
    size_t n = 0;
    for (; *hex; hex += 1 + (hex[2] == ' '), hex += 1) {
        unsigned byte;
        sscanf(hex, "%2x", &byte);
        data[n++] = (uint8_t)byte;
        if (!hex[2])
            break;
    }
    struct spex_packet packet;
    assert_int_equal(spex_packet_decode(data, n, &packet), SPEX_OK);
    assert_int_equal(spex_packet_length(&packet), n);
    size_t length = spex_packet_text(&packet, style, out, sizeof out);
    assert_int_equal(length, strlen(out));
    /* Short buffers get the beginning, terminated. */
    for (size_t capacity = 1; capacity < 20; capacity++) {
        char part[20];
        memset(part, 'x', sizeof part);
        assert_int_equal(spex_packet_text(&packet, style, part, capacity), length);
        assert_int_equal(strlen(part), length < capacity ? length : capacity - 1);
        assert_memory_equal(part, out, strlen(part));
        if (capacity < sizeof part)
            assert_int_equal(part[capacity], 'x');
    }
    return out;
}

static const struct {
    const char *hex, *own, *perf, *perf7, *spec;
} rows[] = {
    /* framing */
    {"00", "padding", "PAD", "PAD", ""},
    {"01", "end", "END", "END", ""},
    {"71 2e 65 2f 6a 0a 00 00 00", "timestamp 44731163950", "TS 44731163950", "TS 44731163950", ""},
    {"71 ff ff ff ff ff ff ff ff", "timestamp 18446744073709551615", "TS -1", "TS -1", ""},
    /* addresses: PC, target, previous target share one layout */
    {"b0 d0 c2 a1 ed 66 ba ff c0", "pc 0xffba66eda1c2d0 el2 non-secure",
     "PC 0xffba66eda1c2d0 el2 ns=1", "PC 0xffba66eda1c2d0 el2 ns=1", "PKT-04 PKT-13 PKT-18"},
    {"b0 00 00 00 00 00 00 00 00", "pc 0x0 el0 secure", "PC 0x0 el0 ns=0", "PC 0x0 el0 ns=0",
     "PKT-16"},
    {"b0 01 00 00 00 00 00 00 b0", "pc 0x1 el1 realm", "PC 0x1 el1 ns=1", "PC 0x1 el1 ns=1",
     "PKT-16"},
    {"b0 01 00 00 00 00 00 00 70", "pc 0x1 el3 reserved-state", "PC 0x1 el3 ns=0",
     "PC 0x1 el3 ns=0", "PKT-16"},
    {"b0 01 00 00 00 00 00 00 85", "pc 0x1 el0 non-secure bits59:56 0x5", "PC 0x1 el0 ns=1",
     "PC 0x1 el0 ns=1", "PKT-13"},
    {"b1 e4 b0 ef ed 66 ba ff a0", "target 0xffba66edefb0e4 el1 non-secure",
     "TGT 0xffba66edefb0e4 el1 ns=1", "TGT 0xffba66edefb0e4 el1 ns=1", "PKT-05 PKT-13"},
    {"b4 e4 b0 ef ed 66 ba ff c0", "previous-target 0xffba66edefb0e4 el2 non-secure",
     "ADDR 0xc0ffba66edefb0e4 (4)", "PBT 0xffba66edefb0e4 el2 ns=1", "PKT-30"},
    {"20 b1 e4 b0 ef ed 66 ba ff c0", "target 0xffba66edefb0e4 el2 non-secure",
     "TGT 0xffba66edefb0e4 el2 ns=1", "TGT 0xffba66edefb0e4 el2 ns=1", "FMT-33"},
    {"b2 28 6b 09 03 37 0e ff 00", "va 0xff0e3703096b28", "VA 0xff0e3703096b28",
     "VA 0xff0e3703096b28", "PKT-06 PKT-20"},
    {"b2 c0 3b 29 0f 00 00 ff f2", "va 0xff00000f293bc0 tag 0xf2", "VA 0xf2ff00000f293bc0",
     "VA 0xf2ff00000f293bc0", "PKT-20"},
    {"b3 e8 09 8a d8 0b 08 00 80", "pa 0x80bd88a09e8 non-secure",
     "PA 0x80bd88a09e8 ns=1 ch=0 pat=0", "PA 0x80bd88a09e8 ns=1 ch=0 pat=0", "PKT-07 PKT-23"},
    {"b3 e8 09 8a d8 0b 08 00 db", "pa 0x80bd88a09e8 realm checked tag 0xb",
     "PA 0x80bd88a09e8 ns=1 ch=1 pat=b", "PA 0x80bd88a09e8 ns=1 ch=1 pat=b", "PKT-23 PKT-24"},
    {"b3 01 00 00 00 00 00 00 20", "pa 0x1 secure bit61", "PA 0x1 ns=0 ch=0 pat=0",
     "PA 0x1 ns=0 ch=0 pat=0", "PKT-23 PKT-24"},
    {"b5 01 00 00 00 00 00 00 00", "address[5] 0x1", "ADDR 0x1 (5)", "ADDR 0x1 (5)", "PKT-09"},
    {"b6 01 00 00 00 00 00 00 00", "address[6] 0x1", "ADDR 0x1 (6)", "ADDR 0x1 (6)", "PKT-10"},
    {"b7 01 00 00 00 00 00 00 00", "address[7] 0x1", "ADDR 0x1 (7)", "ADDR 0x1 (7)", "PKT-10"},
    {"21 b0 01 00 00 00 00 00 00 00", "address[8] 0x1", "ADDR 0x1 (8)", "ADDR 0x1 (8)", "PKT-11"},
    {"22 b0 01 00 00 00 00 00 00 00", "address[16] 0x1", "ADDR 0x1 (16)", "ADDR 0x1 (16)",
     "PKT-12"},
    {"23 b7 01 00 00 00 00 00 00 00", "address[31] 0x1", "ADDR 0x1 (31)", "ADDR 0x1 (31)",
     "PKT-12"},
    /* context */
    {"64 80 5f 00 00", "context-el1 0x5f80", "CONTEXT 0x5f80 el1", "CONTEXT 0x5f80 el1", "PKT-32"},
    {"65 ff ff ff ff", "context-el2 0xffffffff", "CONTEXT 0xffffffff el2", "CONTEXT 0xffffffff el2",
     "PKT-33"},
    {"66 01 00 00 00", "context[2] 0x1", "CONTEXT 0x1 el3", "CONTEXT 0x1 el3", "PKT-34"},
    {"67 01 00 00 00", "context[3] 0x1", "CONTEXT 0x1 el4", "CONTEXT 0x1 el4", "PKT-34"},
    /* counters */
    {"98 0c 00", "total 12", "LAT 12 TOT", "LAT 12 TOT", "PKT-37"},
    {"99 ff 0f", "issue 4095", "LAT 4095 ISSUE", "LAT 4095 ISSUE", "PKT-38"},
    {"9a 00 10", "translation 4096", "LAT 4096 XLAT", "LAT 4096 XLAT", "PKT-39 PKT-46"},
    {"9c fe ff", "alt-issue 65534", "LAT 65534 ", "LAT 65534 ", "PKT-41 PKT-46"},
    {"9b 01 00", "counter[3] 1", "LAT 1 ", "LAT 1 ", "PKT-40"},
    {"9d 01 00", "counter[5] 1", "LAT 1 ", "LAT 1 ", "PKT-42"},
    {"9e 01 01", "counter[6] 257", "LAT 257 ", "LAT 257 ", "PKT-43"},
    {"21 9f 01 00", "counter[15] 1", "LAT 1 ", "LAT 1 ", "PKT-42"},
    {"23 9f 01 00", "counter[31] 1", "LAT 1 ", "LAT 1 ", "PKT-43"},
    {"20 98 03 04", "total 1027", "LAT 1027 TOT", "LAT 1027 TOT", "FMT-33"},
    /* data source */
    {"43 0c", "data-source 0xc", "DATA-SOURCE 12", "DATA-SOURCE 12", "PKT-55"},
    {"53 34 12", "data-source 0x1234", "DATA-SOURCE 4660", "DATA-SOURCE 4660", "PKT-55"},
    {"63 01 02 03 04", "reserved 0x4030201", "DATA-SOURCE 67305985", "DATA-SOURCE 67305985", ""},
    /* operation types that perf 6.1 and perf 7 print differently, and the shapes of 7 */
    {"48 00", "op other", "OTHER INSN-OTHER", "OTHER INSN-OTHER", ""},
    {"48 06", "op other ase fp", "OTHER INSN-OTHER", "OTHER ASE FP INSN-OTHER", ""},
    {"48 01", "op other conditional", "OTHER COND-SELECT", "OTHER COND-SELECT", ""},
    {"48 3e", "op sve 256 bits fp predicated", "SVE-OTHER EVLEN 256 FP PRED",
     "SVE-OTHER EVLEN 256 FP PRED", ""},
    {"48 78", "op sve >2048 bits", "SVE-OTHER EVLEN 4096", "SVE-OTHER EVLEN 4096", ""},
    {"48 9e", "op sme 1024 bits fp", "OTHER INSN-OTHER", "SME-OTHER ETS 1024 FP", ""},
    {"48 fc", "op sme whole-za", "OTHER INSN-OTHER", "SME-OTHER ETS 4194304", ""},
    {"48 e8", "op sme reserved-size 12", "OTHER INSN-OTHER", "SME-OTHER ETS 524288", ""},
    {"48 10", "op reserved class 0 payload 0x10", "OTHER INSN-OTHER", "", ""},
    {"49 00", "op load general", "LD GP-REG", "LD GP-REG", ""},
    {"49 05", "op store simd-fp", "ST SIMD-FP", "ST SIMD-FP", ""},
    {"49 10", "op load unspecified", "LD UNSPEC-REG", "LD UNSPEC-REG", ""},
    {"49 31", "op store nv2", "ST NV-SYSREG", "ST NV-SYSREG", ""},
    {"49 14", "op load tag", "LD", "LD MTE-TAG", ""},
    {"49 20", "op load memcpy", "LD", "LD MEMCPY", ""},
    {"49 25", "op store memset", "ST", "ST MEMSET", ""},
    {"49 24", "op reserved class 1 payload 0x24", "LD", "LD", ""},
    {"49 16", "op load extended atomic acquire-release", "LD AT AR", "LD AT AR", ""},
    {"49 1b", "op store extended exclusive acquire-release", "ST EXCL AR", "ST EXCL AR", ""},
    {"49 bd", "op store sve-sme 256 bits predicated gather-scatter", "ST EVLEN 256 PRED SG",
     "ST SVE-SME-REG EVLEN 256 PRED SG", ""},
    {"49 44", "op load gcs common", "LD", "LD GCS COMM", ""},
    {"49 41", "op store gcs", "ST", "ST GCS", ""},
    {"4a 01", "op branch conditional", "B COND", "B COND", ""},
    {"4a 02", "op branch indirect", "B IND", "B IND", ""},
    {"4a 0e", "op branch indirect gcs call", "B", "B IND GCS CR-BL", ""},
    {"4a 12", "op branch indirect return", "B", "B IND CR-RET", ""},
    {"4a 19", "op branch conditional jump", "B COND", "B COND CR-NON-BL-RET", ""},
    {"4b 05", "op reserved class 3 payload 0x5", "OP-TYPE 0x5 (3)", "OP-TYPE 0x5 (3)", ""},
    /* events: all sizes; bits without a name */
    {"42 16", "events retired l1d-access tlb-access", "EV RETIRED L1D-ACCESS TLB-ACCESS",
     "EV RETIRED L1D-ACCESS TLB-ACCESS", "PKT-62"},
    {"52 00 00", "events", "EV", "EV", "PKT-62"},
    {"62 02 f0 01 fc", "events retired transactional bits 12,13,14,15,26,27,28,29,30,31",
     "EV RETIRED", "EV RETIRED TXN IMPDEF:12,13,14,15,26,27,28,29,30,31",
     "PKT-62 PKT-66 PKT-77 PKT-78"},
    {"72 02 00 f8 03 01 80 01 80",
     "events retired l2d-access l2d-miss modified recently-fetched snooped streaming-sve smcu "
     "bits 32,47,48,63",
     "EV RETIRED",
     "EV RETIRED L2D-ACCESS L2D-MISS HITM LFB SNOOPED STREAMING-SVE SMCU IMPDEF:32,47,48,63",
     "PKT-62 PKT-64"},
    /* reserved */
    {"02", "reserved", "Bad packet!", "Bad packet!", ""},
    {"3f 40 7f", "reserved 0x7f", "Bad packet!", "Bad packet!", ""},
};

static void test_rows(void **state)
{
    for (unsigned i = 0; i < COUNT(rows); i++) {
        char ids[64], *save = NULL;
        strcpy(ids, rows[i].spec);
        for (char *id = strtok_r(ids, " ", &save); id; id = strtok_r(NULL, " ", &save))
            SPEC_ID(id);
        assert_string_equal(text(rows[i].hex, SPEX_TEXT_SPEX), rows[i].own);
        assert_string_equal(text(rows[i].hex, SPEX_TEXT_PERF), rows[i].perf);
        assert_string_equal(text(rows[i].hex, SPEX_TEXT_PERF7), rows[i].perf7);
    }
}

/* D18.2.6: every bit, alone, in an 8-byte packet; the list is the manual's. */
static void test_every_event(void **state)
{
    static const struct {
        unsigned bit;
        const char *name, *spec;
    } names[] = {
        /* clang-format off */
        {0, "exception", "PKT-95"},          {1, "retired", "PKT-93"},
        {2, "l1d-access", "PKT-91"},         {3, "l1d-miss", "PKT-90"},
        {4, "tlb-access", "PKT-89"},         {5, "tlb-walk", "PKT-88"},
        {6, "not-taken", "PKT-84"},          {7, "mispredicted", "PKT-83"},
        {8, "llc-access", "PKT-82"},         {9, "llc-miss", "PKT-81"},
        {10, "remote-access", "PKT-80"},     {11, "misaligned", "PKT-79"},
        {16, "transactional", "PKT-77"},
        {17, "partial-predicate", "PKT-75"}, {18, "empty-predicate", "PKT-74"},
        {19, "l2d-access", "PKT-73"},        {20, "l2d-miss", "PKT-72"},
        {21, "modified", "PKT-71"},          {22, "recently-fetched", "PKT-70"},
        {23, "snooped", "PKT-69"},           {24, "streaming-sve", "PKT-68"},
        {25, "smcu", "PKT-67"},
    };
    /* clang-format on */
    for (unsigned bit = 0; bit < 64; bit++) {
        char hex[32] = "72", expected[64];
        const char *name = NULL;
        for (unsigned i = 0; i < 8; i++)
            snprintf(hex + 2 + 3 * i, 4, " %02x", i == bit / 8 ? 1u << bit % 8 : 0);
        for (unsigned i = 0; i < COUNT(names); i++) {
            if (names[i].bit == bit) {
                name = names[i].name;
                SPEC_ID(names[i].spec);
            }
        }
        if (name)
            snprintf(expected, sizeof expected, "events %s", name);
        else
            snprintf(expected, sizeof expected, "events bits %u", bit);
        assert_string_equal(text(hex, SPEX_TEXT_SPEX), expected);
        const char *got = spex_event_name(bit);
        assert_true(name ? got && !strcmp(got, name) : !got);
    }
    /* Bits that a short packet does not hold are zero. */
    SPEC(PKT-63);
    static const uint8_t one[] = {0x42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct spex_packet packet;
    assert_int_equal(spex_packet_decode(one, sizeof one, &packet), SPEX_OK);
    assert_true(packet.payload == 0xff);
}

/* The longest text there is fits. */
static void test_longest(void **state)
{
    for (unsigned style = SPEX_TEXT_SPEX; style <= SPEX_TEXT_PERF7; style++)
        assert_true(strlen(text("72 ff ff ff ff ff ff ff ff", (enum spex_text_style)style)) <
                    SPEX_PACKET_TEXT_MAX - 64);
}

/* As snprintf: the length of the whole, and as much of it as there is room for. */
static void test_room(void **state)
{
    static const uint8_t end[] = {0x01};
    struct spex_packet packet;
    char whole[SPEX_PACKET_TEXT_MAX];
    assert_int_equal(spex_packet_decode(end, sizeof end, &packet), SPEX_OK);
    size_t n = spex_packet_text(&packet, SPEX_TEXT_SPEX, whole, sizeof whole);
    assert_int_equal(n, strlen(whole));
    assert_int_equal(spex_packet_text(&packet, SPEX_TEXT_SPEX, NULL, 0), n);
    for (size_t room = 1; room <= n + 2; room++) {
        char text[SPEX_PACKET_TEXT_MAX];
        memset(text, 'x', sizeof text);
        assert_int_equal(spex_packet_text(&packet, SPEX_TEXT_SPEX, text, room), n);
        size_t kept = room <= n ? room - 1 : n;
        assert_int_equal(strlen(text), kept);
        assert_memory_equal(text, whole, kept);
        assert_int_equal(text[room], 'x');
    }
}

/* The fields of an address payload as functions. */
static void test_address_fields(void **state)
{
    for (unsigned top = 0; top < 256; top++) {
        uint64_t payload = (uint64_t)top << 56 | UINT64_C(0x00a1b2c3d4e5f607);
        assert_true(spex_address_bits(payload) == UINT64_C(0x00a1b2c3d4e5f607));
        assert_int_equal(spex_address_ns(payload), top >> 7);
        assert_int_equal(spex_address_el(payload), top >> 5 & 3);
        assert_int_equal(spex_address_nse(payload), top >> 4 & 1);
    }
}

TEST_MAIN(TEST(test_rows), TEST(test_every_event), TEST(test_longest), TEST(test_room),
          TEST(test_address_fields))
