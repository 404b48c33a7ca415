/* Data sources by CPU, and levels from events where a CPU says nothing. */
#include "support/test.h"

#include "base/bits.h"
#include "base/rng.h"

#include <spex/analysis.h>
#include <spex/datasource.h>

#include <stdlib.h>
#include <unistd.h>

enum { N1 = 0x413fd0c1, AMPERE1A = 0xc00fac40, HIP12 = 0x480fd060, KUNPENG920 = 0x481fd010 };

static struct spex_record load(uint64_t events, int source)
{
    struct spex_record record = {
        .present = SPEX_HAS_OP | SPEX_HAS_EVENTS, .op_class = SPEX_CLASS_LDST, .events = events};
    if (source >= 0) {
        record.present |= SPEX_HAS_DATA_SOURCE;
        record.data_source = (uint16_t)source;
    }
    return record;
}

static struct spex_source_info of(uint32_t midr, struct spex_record record)
{
    struct spex_source_info info;
    spex_source_of(spex_cpu_find(midr), &record, &info);
    return info;
}

static void cpus(void **unused)
{
    /* Variant and revision do not matter. */
    assert_string_equal(spex_cpu_name(spex_cpu_find(N1)), "Neoverse N1");
    assert_string_equal(spex_cpu_name(spex_cpu_find(0x410fd0c0)), "Neoverse N1");
    assert_ptr_equal(spex_cpu_find(0x411fd4f2), spex_cpu_find(0x410fd4f0)); /* V2 */
    assert_true(spex_cpu_has_sources(spex_cpu_find(0x410fd4f0)));
    assert_null(spex_cpu_find(0));
    assert_null(spex_cpu_find(0x410fd034)); /* Cortex-A53: no SPE */
    assert_string_equal(spex_cpu_name(NULL), "unlisted CPU");
    assert_string_equal(spex_cpu_name(spex_cpu_find(KUNPENG920)), "Kunpeng 920");
    assert_false(spex_cpu_has_sources(spex_cpu_find(KUNPENG920)));
    assert_false(spex_cpu_has_sources(NULL));
    assert_string_equal(spex_cpu_event_name(spex_cpu_find(N1), 12), "late-prefetch");
    assert_null(spex_cpu_event_name(spex_cpu_find(N1), 24));
    assert_string_equal(spex_cpu_event_name(spex_cpu_find(HIP12), 24), "forward-hazard");
    assert_null(spex_cpu_event_name(NULL, 12));
}

static void tables(void **unused)
{
    static const struct {
        uint32_t midr;
        int value;
        enum spex_source source;
        bool modified, peer, remote;
    } rows[] = {
        {N1, 0x0, SPEX_SOURCE_L1, 0, 0, 0},
        {N1, 0x8, SPEX_SOURCE_L2, 0, 0, 0},
        {N1, 0x9, SPEX_SOURCE_PEER_CORE, 0, 1, 0},
        {N1, 0xa, SPEX_SOURCE_LOCAL_CLUSTER, 0, 1, 0},
        {N1, 0xb, SPEX_SOURCE_SYSTEM_CACHE, 0, 0, 0},
        {N1, 0xc, SPEX_SOURCE_PEER_CLUSTER, 0, 1, 0},
        {N1, 0xd, SPEX_SOURCE_REMOTE, 0, 1, 1},
        {N1, 0xe, SPEX_SOURCE_DRAM, 0, 0, 0},
        {AMPERE1A, 0, SPEX_SOURCE_PEER_CORE, 0, 1, 0},
        {AMPERE1A, 3, SPEX_SOURCE_SYSTEM_CACHE, 0, 0, 0},
        {AMPERE1A, 5, SPEX_SOURCE_REMOTE, 0, 1, 1},
        {AMPERE1A, 7, SPEX_SOURCE_DRAM, 0, 0, 0},
        {AMPERE1A, 8, SPEX_SOURCE_L1, 0, 0, 0},
        {AMPERE1A, 9, SPEX_SOURCE_L2, 0, 0, 0},
        {HIP12, 1, SPEX_SOURCE_PEER_CORE, 1, 1, 0},
        {HIP12, 3, SPEX_SOURCE_L3, 1, 0, 0},
        {HIP12, 5, SPEX_SOURCE_PEER_CLUSTER, 1, 1, 0},
        {HIP12, 7, SPEX_SOURCE_REMOTE, 1, 1, 1},
        {HIP12, 8, SPEX_SOURCE_DRAM, 0, 0, 0},
        {HIP12, 9, SPEX_SOURCE_REMOTE_DRAM, 0, 0, 1},
        {HIP12, 13, SPEX_SOURCE_IO, 0, 0, 0},
        {HIP12, 17, SPEX_SOURCE_L2, 1, 0, 0},
        {HIP12, 18, SPEX_SOURCE_L1, 0, 0, 0},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spex_source_info info = of(rows[i].midr, load(0, rows[i].value));
        if (info.source != rows[i].source || !info.by_packet || info.modified != rows[i].modified ||
            info.peer != rows[i].peer || info.remote != rows[i].remote)
            fail_msg("row %u: %s", i, spex_source_name(info.source));
        assert_int_equal(spex_source_of_value(spex_cpu_find(rows[i].midr), (unsigned)rows[i].value),
                         rows[i].source);
    }
    /* A value that the table does not have: reported, and judged by the events. */
    struct spex_source_info info = of(N1, load(1 << SPEX_EV_L1D_ACCESS, 5));
    assert_true(info.unlisted && !info.by_packet && info.source == SPEX_SOURCE_L1);
    /* A load without the packet is not an L1 hit, whatever perf makes of it. */
    info = of(N1, load(1 << SPEX_EV_L1D_ACCESS | 1 << SPEX_EV_L1D_MISS, -1));
    assert_true(!info.by_packet && info.source == SPEX_SOURCE_L1 && info.miss);
}

static void by_events(void **unused)
{
    enum {
        L1A = 1 << 2,
        L1M = 1 << 3,
        L3A = 1 << 8,
        L3M = 1 << 9,
        L2A = 1 << 19,
        L2M = 1 << 20,
        MODIFIED = 1 << 21,
        RECENT = 1 << 22,
        SNOOPED = 1 << 23,
        REMOTE = 1 << 10
    };
    static const struct {
        uint64_t events;
        bool store;
        enum spex_source source;
        bool miss;
    } rows[] = {
        {L1A, 0, SPEX_SOURCE_L1, 0},
        {L1A | L1M, 0, SPEX_SOURCE_L1, 1},
        {L1A | L1M | RECENT, 0, SPEX_SOURCE_LFB, 0},
        {L1A | L1M | L2A, 0, SPEX_SOURCE_L2, 0},
        {L1A | L1M | L2A | L2M, 0, SPEX_SOURCE_L2, 1},
        {L1A | L1M | L2A | L2M | L3A, 0, SPEX_SOURCE_L3, 0},
        {L1A | L1M | L3A | L3M, 0, SPEX_SOURCE_L3, 1},
        {L3A, 0, SPEX_SOURCE_L3, 0},
        {0, 0, SPEX_SOURCE_UNKNOWN, 0},
        {L1A, 1, SPEX_SOURCE_L1, 0},
        {L1A | L2A, 1, SPEX_SOURCE_L2, 0}, /* a store: the deepest level */
        {L1A | L2A | L3A | L3M, 1, SPEX_SOURCE_L3, 1},
        {L1A | L2M, 1, SPEX_SOURCE_L2, 1},
        {0, 1, SPEX_SOURCE_UNKNOWN, 0},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spex_record record = load(rows[i].events, -1);
        record.op_payload = rows[i].store;
        struct spex_source_info info = of(KUNPENG920, record);
        if (info.source != rows[i].source || info.miss != rows[i].miss || info.by_packet)
            fail_msg("row %u: %s %d", i, spex_source_name(info.source), info.miss);
    }
    struct spex_source_info info = of(0, load(L3A | SNOOPED | MODIFIED | REMOTE, -1));
    assert_true(info.peer && info.modified && info.remote);
    info = of(0, load(L3A | MODIFIED, -1));
    assert_false(info.peer || info.modified);
}

/* Each field of perf's word, where events alone decide it: remote, snoop, TLB, level. */
static void perf_word_fields(void **unused)
{
    enum { L1A = 1 << 2, L1M = 1 << 3, TA = 1 << 4, TW = 1 << 5, REMOTE = 1 << 10, LFB = 1 << 22 };
    enum { MODIFIED = 1 << 21, SNOOPED = 1 << 23 };
    enum { LOAD = 2, STORE = 4, NA = 1, HIT = 2, MISS = 4, L1 = 8, BUFFER = 0x10, CCE1 = 0x400 };
    static const struct {
        enum spex_perf_rules rules;
        uint64_t events;
        unsigned store, level, snoop, tlb, number, remote;
    } rows[] = {
        {SPEX_PERF_RULES_6_1, L1A, 0, L1 | HIT, 0, 0, 0, 0},
        {SPEX_PERF_RULES_6_1, L1A | L1M, 1, L1 | MISS, 0, 0, 0, 0},
        {SPEX_PERF_RULES_6_1, L1A | REMOTE, 0, L1 | HIT | CCE1, 0, 0, 0, 0},
        {SPEX_PERF_RULES_6_1, TA, 0, 0, 0, 0x20 | HIT, 0, 0},
        {SPEX_PERF_RULES_6_1, TA | TW, 0, 0, 0, 0x20 | MISS, 0, 0},
        {SPEX_PERF_RULES_7, 0, 0, NA, 1, 0, 0xf, 0},
        {SPEX_PERF_RULES_7, L1A, 1, L1 | HIT, 1, 0, 1, 0},
        {SPEX_PERF_RULES_7, L1A | L1M, 0, L1 | MISS, 1, 0, 1, 0},
        {SPEX_PERF_RULES_7, L1A | L1M | LFB, 0, BUFFER | HIT, 1, 0, 0xc, 0},
        {SPEX_PERF_RULES_7, L1A | REMOTE, 0, L1 | HIT, 1, 0, 1, 1},
        {SPEX_PERF_RULES_7, L1A | SNOOPED, 0, L1 | HIT, 4, 0, 1, 0},
        {SPEX_PERF_RULES_7, L1A | SNOOPED | MODIFIED, 0, L1 | HIT, 0x10, 0, 1, 0},
        {SPEX_PERF_RULES_7, L1A | MODIFIED | TA | TW, 0, L1 | HIT, 1, 0x20 | MISS, 1, 0},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct spex_record record = load(rows[i].events, -1);
        record.op_payload = (uint8_t)rows[i].store;
        uint64_t want = (rows[i].store ? STORE : LOAD) | rows[i].level << 5 | rows[i].snoop << 19 |
                        (uint64_t)rows[i].tlb << 26 | (uint64_t)rows[i].number << 33 |
                        (uint64_t)rows[i].remote << 37;
        uint64_t got = spex_source_perf(KUNPENG920, &record, 0, rows[i].rules);
        if (got != want)
            fail_msg("row %u: 0x%llx, not 0x%llx", i, (unsigned long long)got,
                     (unsigned long long)want);
    }
    /* The packet may say remote where no event does. */
    struct spex_record remote = load(0, 0xd);
    assert_int_equal(spex_source_perf(N1, &remote, 0, SPEX_PERF_RULES_7) >> 37 & 1, 1);
    /* A CPU with a table gives no source for a store (6.1 and 7 alike). */
    struct spex_record store = load(L1A, 8);
    store.op_payload = 1;
    uint64_t nothing = STORE | NA << 5 | 1 << 19 | UINT64_C(0xf) << 33;
    assert_int_equal(spex_source_perf(N1, &store, 0, SPEX_PERF_RULES_6_1), nothing);
    assert_int_equal(spex_source_perf(N1, &store, 0, SPEX_PERF_RULES_7), nothing);
}

/* What perf's word holds; 6.1's values for N1 are judged by perf itself in the perfdata suite.
 */
static void perf_word(void **unused)
{
    struct spex_record record = load(0x16, 8);
    assert_int_equal(spex_source_perf(N1, &record, 0, SPEX_PERF_RULES_6_1), 0x488100442);
    assert_int_equal(spex_source_perf(N1, &record, 0, SPEX_PERF_RULES_7), 0x488100442);
    record = load(0x16, -1); /* no packet: perf takes it for L1, 6.1 and 7 */
    assert_int_equal(spex_source_perf(N1, &record, 0, SPEX_PERF_RULES_6_1), 0x288100142);
    record = load(0x31e, -1); /* LLC miss on a CPU without a table */
    assert_int_equal(spex_source_perf(KUNPENG920, &record, 0, SPEX_PERF_RULES_6_1),
                     2 | (0x40 | 4) << 5 | UINT64_C(0x22) << 26);
    /* 7: level number and "no snoop known"; "none" where the CPU could have told */
    assert_int_equal(spex_source_perf(KUNPENG920, &record, 0, SPEX_PERF_RULES_7),
                     2 | (0x40 | 4) << 5 | 1 << 19 | UINT64_C(0x22) << 26 | UINT64_C(3) << 33);
    assert_int_equal(spex_source_perf(KUNPENG920, &record, 1 << 23, SPEX_PERF_RULES_7),
                     2 | (0x40 | 4) << 5 | 2 << 19 | UINT64_C(0x22) << 26 | UINT64_C(3) << 33);
    record.op_class = SPEX_CLASS_BRANCH;
    assert_int_equal(spex_source_perf(N1, &record, 0, SPEX_PERF_RULES_7), 0);
}

/* What a sample has does not depend on those before it, with and without the packet. */
enum { SAMPLES = 4000 };

struct seen {
    unsigned count, wrong;
};

static void look(void *context, const struct spex_sample *samples, size_t count)
{
    struct seen *seen = context;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = &samples[i];
        const struct spex_record *r = s->record;
        struct spex_source_info info = of(N1, load(0, r->data_source));
        bool packet = r->present & SPEX_HAS_DATA_SOURCE && info.by_packet;
        bool peer = r->events >> SPEX_EV_SNOOPED & 1 || (packet && (info.peer || info.modified));
        if (!packet)
            info = of(N1, *r);
        /* a miss of level 1, and where it hit is not known; or no access */
        if (info.miss || (!packet && r->op_class != SPEX_CLASS_LDST))
            info.source = SPEX_SOURCE_UNKNOWN;
        seen->count++;
        seen->wrong += s->source != info.source || !!(s->flags & SPEX_SAMPLE_PEER) != peer;
    }
}

static void of_samples(void **unused)
{
    static const uint16_t values[] = {0, 8, 9, 0xb, 0xe, 0x100, 0x109};
    static uint8_t bytes[SAMPLES * 64];
    char path[] = "/tmp/spex-datasource-XXXXXX";
    struct spex_perf_writer_options how = {
        .size = sizeof how, .cpus = 1, .period = 1024, .midr = N1};
    struct spex_analysis_options options = {.size = sizeof options};
    struct spex_perf_writer *writer;
    struct spex_analysis *a;
    struct seen seen = {0};
    struct rng rng = {9};
    for (size_t i = 0, size; i < SAMPLES; i++) {
        bool packet = rng_below(&rng, 2);
        struct spex_record r =
            load(BIT(SPEX_EV_L1D_ACCESS) | (uint64_t)rng_below(&rng, 2) << SPEX_EV_L1D_MISS |
                     (uint64_t)rng_below(&rng, 2) << SPEX_EV_SNOOPED,
                 packet ? values[rng_below(&rng, 7)] : -1);
        r.present |= SPEX_HAS_PC | SPEX_HAS_TIMESTAMP;
        r.timestamp = 1000 + i;
        r.events_size = 4;
        r.data_source_size = packet ? 2 : 0;
        r.op_payload = (uint8_t)rng_below(&rng, 2);
        if (!packet && rng_below(&rng, 4) == 0)
            r.op_class = SPEX_CLASS_OTHER;
        assert_int_equal(spex_record_encode(&r, SPEX_LAYOUT_COMPACT, 6, bytes + i * 64, 64, &size),
                         0);
    }
    spex_perf_time_init(&how.time, 1000000000);
    assert_true(close(mkstemp(path)) == 0);
    assert_int_equal(spex_perf_writer_open(path, &how, &writer, NULL), SPEX_OK);
    spex_perf_writer_itrace_start(writer, 0, 7, 7, 1);
    spex_perf_writer_aux(writer, 0, 7, 7, bytes, sizeof bytes, 0, 2);
    assert_int_equal(spex_perf_writer_finish(writer, NULL), SPEX_OK);
    assert_int_equal(spex_analysis_open(path, &options, &a, NULL), SPEX_OK);
    assert_int_equal(spex_analysis_run(a, look, &seen, NULL), SPEX_OK);
    assert_int_equal(seen.count, SAMPLES);
    assert_int_equal(seen.wrong, 0);
    spex_analysis_close(a);
    unlink(path);
}

TEST_MAIN(TEST(cpus), TEST(tables), TEST(by_events), TEST(perf_word), TEST(perf_word_fields),
          TEST(of_samples))
