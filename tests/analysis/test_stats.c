/* Histograms, intervals and operation words against brute force. */
#include "analysis/row.h"

#include "analysis/histogram.h"
#include "analysis/internal.h"
#include "base/hash.h"
#include "base/rng.h"
#include "support/test.h"

#include <spex/analysis.h>

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct spex_group *group_by(const enum spex_key *keys, size_t count, unsigned flags)
{
    struct spex_group_options options = {
        .size = sizeof options, .keys = keys, .key_count = count, .flags = flags};
    struct spex_group *group;
    assert_int_equal(spex_group_new(NULL, &options, &group, NULL), SPEX_OK);
    return group;
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int brute(int *values, int n, double q)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    int rank = (int)ceil(q * n - 1e-9);
    return values[rank < 1 ? 0 : rank - 1];
}

static void quantiles_are_exact(void **state)
{
    static const double qs[] = {0, 0.01, 0.5, 0.9, 0.95, 0.99, 1};
    struct rng rng = {7};
    struct histograms h;
    histograms_init(&h, 256 << 20);
    for (int round = 0; round < 300; round++) {
        int values[2000], n = 1 + (int)rng_below(&rng, round < 100 ? 12 : 2000);
        uint32_t handle = 0, merged = 0, part = 0;
        unsigned spread = 1u << (1 + rng_below(&rng, 16));
        for (int i = 0; i < n; i++) {
            values[i] = (int)rng_below(&rng, spread > 65536 ? 65536 : spread);
            histogram_count(&h, &handle, (uint16_t)values[i]);
            histogram_add(&h, i % 3 ? &part : &merged, (uint16_t)values[i], 1);
        }
        histogram_merge(&h, &merged, &h, part);
        for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
            int want = brute(values, n, qs[i]);
            assert_int_equal(histogram_quantile(&h, handle, qs[i]), want);
            assert_int_equal(histogram_quantile(&h, merged, qs[i]), want);
        }
    }
    histograms_free(&h);
}

static void no_memory_withholds(void **state)
{
    struct histograms h;
    uint32_t early = 0, late = 0;
    histograms_init(&h, 4096);
    for (int i = 0; i < 100; i++)
        histogram_add(&h, &early, (uint16_t)(i % 7), 1);
    for (int i = 0; i < 60000; i += 64)
        histogram_add(&h, &late, (uint16_t)i, 1);
    assert_int_equal(histogram_quantile(&h, late, 0.5), -1);
    assert_int_equal(histogram_quantile(&h, early, 0.5), 3);
    histograms_free(&h);
}

/* Wilson's interval covers the truth 95 times in 100, near enough at every share. */
static void share_interval_covers(void **state)
{
    static const struct {
        double p;
        int n;
    } cases[] = {{0.5, 100}, {0.1, 200}, {0.02, 1000}, {0.9, 50}, {0.3, 5000}};
    struct rng rng = {42};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int covered = 0, rounds = 2000;
        for (int r = 0; r < rounds; r++) {
            uint64_t count = 0;
            for (int i = 0; i < cases[c].n; i++)
                count += rng_below(&rng, 1u << 30) < cases[c].p * (1u << 30);
            struct spex_interval w = spex_share_interval(count, (uint64_t)cases[c].n);
            covered += w.low <= cases[c].p && cases[c].p <= w.high;
        }
        if (covered < rounds * 93 / 100 || covered > rounds * 975 / 1000)
            fail_msg("p %g n %d: covered %d of %d", cases[c].p, cases[c].n, covered, rounds);
    }
}

static void share_interval_values(void **state)
{
    /* 5 of 50: a value every statistics package gives */
    struct spex_interval w = spex_share_interval(5, 50);
    assert_true(fabs(w.low - 0.043475) < 1e-5 && fabs(w.high - 0.213602) < 1e-5);
    w = spex_share_interval(0, 10);
    assert_true(w.low == 0 && fabs(w.high - 0.277533) < 1e-5);
    w = spex_share_interval(10, 10);
    assert_true(w.high == 1);
    w = spex_share_interval(0, 0);
    assert_true(w.low == 0 && w.high == 1);
    /* Newcombe's example: 56/70 against 48/80 */
    w = spex_difference_interval(48, 80, 56, 70);
    assert_true(fabs(w.low - 0.0524) < 1e-4 && fabs(w.high - 0.3339) < 1e-4);
}

static void operation_words(void **state)
{
    assert_string_equal(spex_sample_op_text(1, 0x00), "load");
    assert_string_equal(spex_sample_op_text(1, 0x01), "store");
    assert_string_equal(spex_sample_op_text(1, 0x04), "load simd-fp");
    assert_string_equal(spex_sample_op_text(2, 0x01), "branch cond");
    assert_string_equal(spex_sample_op_text(2, 0x02), "branch indirect");
    assert_non_null(strstr(spex_sample_op_text(1, 0x06), "atomic"));
    assert_string_equal(spex_sample_op_text(0, 0x00), "other");
}

/* More keys than rows: large ones stay, each short by at most the bound, and nothing is lost.
 */
static void group_beyond_its_limit(void **state)
{
    enum { KEYS = 60000, SAMPLES = 400000, BATCH = 64 };
    static uint32_t truth[KEYS];
    static const enum spex_key by[] = {SPEX_KEY_PID, SPEX_KEY_TID};
    struct spex_group *g = group_by(by, 2, SPEX_GROUP_PERCENTILES);
    struct spex_record record = {.present = SPEX_HAS_TOTAL, .total = 7};
    struct rng rng = {3};
    group_set_limit(g, 8192);
    for (int i = 0; i < SAMPLES; i += BATCH) {
        struct spex_sample batch[BATCH] = {0};
        for (int j = 0; j < BATCH; j++) {
            /* the smaller the number, the more often */
            uint32_t key = rng_below(&rng, 1 + rng_below(&rng, KEYS));
            truth[key]++;
            batch[j].record = &record;
            batch[j].pid = (int32_t)(key / 100);
            batch[j].tid = (int32_t)key;
        }
        spex_group_sink(g, batch, BATCH);
    }
    spex_group_sort(g, SPEX_BY_SAMPLES);
    assert_true(spex_group_error(g) > 0 && spex_group_count(g) <= 8192);
    assert_int_equal(spex_group_total(g)->stats.samples, SAMPLES);
    assert_int_equal(spex_group_total(g)->stats.latency_sum[0], 7ull * SAMPLES);
    uint64_t seen = 0, last = UINT64_MAX;
    for (size_t i = 0; i < spex_group_count(g); i++) {
        const struct spex_row *row = spex_group_row(g, i);
        uint32_t key = (uint32_t)spex_row_value(g, row, 1), n = row->stats.samples;
        assert_int_equal(spex_row_value(g, row, 0), key / 100);
        assert_true(n <= truth[key] && n + spex_group_error(g) >= truth[key]);
        assert_true(n <= last);
        last = n;
        seen += n;
    }
    assert_int_equal(seen + spex_group_rest(g)->stats.samples, SAMPLES);
    spex_group_free(g);
}

/*
 * Rows that a group remembers, by place, by thread, by key and interval: several keys share what is
 * remembered, and rows move.
 */
static void remembered_rows_beyond_the_limit(void **state)
{
    enum { KEYS = 60000, SAMPLES = 400000, KINDS = 3 };
    static const enum spex_key by[KINDS][2] = {
        {SPEX_KEY_PC}, {SPEX_KEY_TID, SPEX_KEY_COMM}, {SPEX_KEY_PAGE, SPEX_KEY_TIME_BIN}};
    static const size_t words[KINDS] = {1, 2, 2}, at[KINDS] = {1, 0, 0}, unit[KINDS] = {1, 1, 4096};
    for (unsigned kind = 0; kind < KINDS; kind++) {
        static uint32_t truth[KEYS];
        struct spex_group *g = group_by(by[kind], words[kind], 0);
        struct spex_record record = {.present = SPEX_HAS_VA};
        struct rng rng = {4};
        memset(truth, 0, sizeof truth);
        group_set_limit(g, 8192);
        for (uint32_t i = 0, key = 0; i < SAMPLES; i++) {
            if (i % 2 == 0) /* each twice: also where rows move in between */
                key = rng_below(&rng, 1 + rng_below(&rng, KEYS));
            truth[key]++;
            spex_group_sink(g,
                            &(struct spex_sample){.record = &record,
                                                  .address = key,
                                                  .place = key % SPEX_PLACES,
                                                  .tid = (int32_t)key,
                                                  .va = (uint64_t)key * 4096 + i % 4096},
                            1);
        }
        spex_group_sort(g, SPEX_BY_SAMPLES);
        uint64_t seen = 0;
        for (size_t i = 0; i < spex_group_count(g); i++) {
            const struct spex_row *row = spex_group_row(g, i);
            uint64_t key = row->key[at[kind]] / unit[kind];
            assert_true(key < KEYS && row->stats.samples <= truth[key]);
            assert_true(row->stats.samples + spex_group_error(g) >= truth[key]);
            seen += row->stats.samples;
        }
        assert_true(spex_group_error(g) > 0);
        assert_int_equal(seen + spex_group_rest(g)->stats.samples, SAMPLES);
        spex_group_free(g);
    }
}

/*
 * The same for data, whose rows are remembered by address: mappings of a page each, in the order
 * of their samples.
 */
static void data_beyond_the_limit(void **state)
{
    enum { MAPPINGS = 1500, SAMPLES = 20000, SIZE = 64, CPUS = 4 };
    static const enum spex_key by[] = {SPEX_KEY_DATA_SYMBOL};
    static uint32_t truth[MAPPINGS];
    static uint8_t bytes[SAMPLES * SIZE];
    char path[] = "/tmp/spex-stats-XXXXXX";
    struct spex_perf_writer_options how = {
        .size = sizeof how, .cpus = CPUS, .period = 1024, .midr = 0x413fd0c1};
    struct spex_analysis_options options = {.size = sizeof options};
    struct spex_perf_writer *writer;
    struct spex_analysis *a;
    struct spex_group *g;
    struct rng rng = {8};
    uint64_t one_thread = 0;
    for (uint32_t i = 0, key = 0; i < SAMPLES; i++) {
        size_t size;
        if (i % 2 == 0)
            key = rng_below(&rng, 1 + rng_below(&rng, MAPPINGS));
        bool known = i % 100; /* some have no address */
        struct spex_record r = {.present = SPEX_HAS_PC | SPEX_HAS_OP | SPEX_HAS_EVENTS |
                                           SPEX_HAS_TOTAL | SPEX_HAS_TIMESTAMP |
                                           (known ? SPEX_HAS_VA : 0),
                                .address = {1, 0, known ? key * 4096 + i % 64 : 0},
                                .events_size = 4,
                                .timestamp = 1000 + i,
                                .total = 9,
                                .op_class = SPEX_CLASS_LDST};
        truth[key] += known;
        assert_int_equal(
            spex_record_encode(&r, SPEX_LAYOUT_N1, 6, bytes + (size_t)i * SIZE, SIZE, &size), 0);
    }
    spex_perf_time_init(&how.time, 1000000000);
    assert_true(close(mkstemp(path)) == 0);
    assert_int_equal(spex_perf_writer_open(path, &how, &writer, NULL), SPEX_OK);
    for (unsigned i = 0; i < MAPPINGS; i++) {
        char name[20];
        snprintf(name, sizeof name, "/nowhere/%u", i);
        spex_perf_writer_map(writer, &(struct spex_perf_map){.start = i * 4096,
                                                             .end = (i + 1) * 4096,
                                                             .pid = 7,
                                                             .tid = 7,
                                                             .data = true,
                                                             .filename = name});
    }
    for (int32_t cpu = 0; cpu < CPUS; cpu++) {
        const size_t part = sizeof bytes / CPUS;
        spex_perf_writer_itrace_start(writer, cpu, 7, 7, 1);
        spex_perf_writer_aux(writer, cpu, 7, 7, bytes + (size_t)cpu * part, part, 0, 2);
    }
    assert_int_equal(spex_perf_writer_finish(writer, NULL), SPEX_OK);
    for (unsigned run = 0; run < 4; run++) {
        const unsigned limited = run / 2;
        options.threads = run % 2 ? CPUS : 1;
        assert_int_equal(spex_analysis_open(path, &options, &a, NULL), SPEX_OK);
        struct spex_group_options table = {.size = sizeof table, .keys = by, .key_count = 1};
        assert_int_equal(spex_group_new(a, &table, &g, NULL), SPEX_OK);
        if (limited)
            group_set_limit(g, 512);
        const struct spex_sink sink = spex_sink_group(g);
        assert_int_equal(spex_analysis_pass(a, &sink, 1, NULL), SPEX_OK);
        spex_group_sort(g, SPEX_BY_SAMPLES);
        uint64_t sum = spex_group_error(g); /* the same with one thread and with several */
        uint64_t seen = limited ? spex_group_rest(g)->stats.samples : 0;
        for (size_t i = 0; i < spex_group_count(g); i++) {
            const struct spex_row *row = spex_group_row(g, i);
            char text[80];
            unsigned key = MAPPINGS;
            seen += row->stats.samples;
            spex_row_text(g, row, 0, text, sizeof text);
            sum = hash_bytes(hash_word(sum, row->stats.samples), text, strlen(text));
            if (sscanf(text, "%u", &key) != 1)
                continue; /* of those without an address */
            assert_true(key < MAPPINGS && row->stats.samples <= truth[key]);
            assert_true(row->stats.samples + spex_group_error(g) >= truth[key]);
        }
        assert_true(limited == (spex_group_error(g) > 0));
        assert_int_equal(seen, SAMPLES);
        assert_true(run % 2 == 0 || sum == one_thread);
        one_thread = sum;
        spex_group_free(g);
        spex_analysis_close(a);
    }
    unlink(path);
}

/* A derived group counts what the finer one gave up, too, and its percentiles are exact. */
static void derived_group_is_exact(void **state)
{
    enum { LINES = 40000, SAMPLES = 200000, BATCH = 50 };
    static const enum spex_key fine[] = {SPEX_KEY_CACHE_LINE, SPEX_KEY_LATENCY};
    static const enum spex_key coarse[] = {SPEX_KEY_PAGE};
    struct spex_group *lines = group_by(fine, 2, SPEX_GROUP_PERCENTILES);
    struct spex_group *pages = group_by(coarse, 1, SPEX_GROUP_PERCENTILES);
    struct spex_group *direct = group_by(coarse, 1, SPEX_GROUP_PERCENTILES);
    struct rng rng = {5};
    group_set_limit(lines, 8192);
    spex_group_derive(pages, lines);
    for (int i = 0; i < SAMPLES; i += BATCH) {
        struct spex_record records[BATCH] = {0};
        struct spex_sample batch[BATCH] = {0};
        for (int j = 0; j < BATCH; j++) {
            records[j].present = SPEX_HAS_VA | SPEX_HAS_TOTAL;
            records[j].total = (uint16_t)rng_below(&rng, 1000);
            batch[j].record = &records[j];
            batch[j].va = (uint64_t)rng_below(&rng, 1 + rng_below(&rng, LINES)) * 64;
            batch[j].pid = (int32_t)rng_below(&rng, 2);
        }
        spex_group_sink(lines, batch, BATCH);
        spex_group_sink(direct, batch, BATCH);
    }
    spex_group_sort(lines, SPEX_BY_SAMPLES);
    spex_group_sort(pages, SPEX_BY_SAMPLES);
    spex_group_sort(direct, SPEX_BY_SAMPLES);
    assert_true(spex_group_error(lines) > 0 && spex_group_error(pages) == 0);
    assert_int_equal(spex_group_count(pages), spex_group_count(direct));
    for (size_t i = 0; i < spex_group_count(pages); i++) {
        const struct spex_row *x = spex_group_row(pages, i), *y = spex_group_row(direct, i);
        assert_memory_equal(x->key, y->key, 2 * sizeof *x->key);
        struct stats a = x->stats, b = y->stats;
        a.repeats = b.repeats = 0; /* two lines of a page in turn are no repeats of either */
        assert_memory_equal(&a, &b, sizeof a);
        for (double q = 0.1; q < 1; q += 0.2)
            assert_int_equal(spex_row_latency(pages, x, SPEX_LATENCY_TOTAL, q),
                             spex_row_latency(direct, y, SPEX_LATENCY_TOTAL, q));
    }
    spex_group_free(lines);
    spex_group_free(pages);
    spex_group_free(direct);
}

/* Twenty functions, each for an exponential time of this mean, in periods: are its runs long? */
static bool runs_are_long(double mean)
{
    enum { SAMPLES = 100000, FUNCTIONS = 20 };
    static const enum spex_key key[] = {SPEX_KEY_PAGE};
    struct spex_group *pages = group_by(key, 1, 0);
    struct rng rng = {8};
    uint64_t page = 0;
    double left = 0;
    for (int i = 0; i < SAMPLES; i++) {
        struct spex_record record = {.present = SPEX_HAS_VA};
        for (left -= 1; left < 0; page = 4096 * (uint64_t)rng_below(&rng, FUNCTIONS))
            left -= mean * log((1 + (double)rng_below(&rng, 1 << 20)) / (1 << 20));
        struct spex_sample sample = {.record = &record, .va = page};
        spex_group_sink(pages, &sample, 1);
    }
    spex_group_sort(pages, SPEX_BY_SAMPLES);
    assert_int_equal(spex_group_count(pages), FUNCTIONS);
    bool first = spex_row_long_runs(pages, spex_group_row(pages, 0));
    for (size_t i = 1; i < FUNCTIONS; i++)
        assert_int_equal(spex_row_long_runs(pages, spex_group_row(pages, i)), first);
    spex_group_free(pages);
    return first;
}

static void runs_of_over_two_periods_are_long(void **state)
{
    assert_false(runs_are_long(0.1));
    assert_false(runs_are_long(1));
    assert_false(runs_are_long(1.7));
    assert_true(runs_are_long(2.4));
    assert_true(runs_are_long(20));
}

/* The instructions of one function, from those of all; and whether all of them are there. */
static void rows_of_one_function(void **state)
{
    enum { SAMPLES = 20000, ADDRESSES = 100, FUNCTIONS = 7 };
    static struct spex_symbol functions[FUNCTIONS];
    static const enum spex_key by[] = {SPEX_KEY_SYMBOL, SPEX_KEY_PC};
    struct spex_group *all = group_by(by, 2, SPEX_GROUP_EXECUTE);
    struct spex_group *one = group_by(by + 1, 1, SPEX_GROUP_EXECUTE);
    struct spex_group *direct = group_by(by + 1, 1, SPEX_GROUP_EXECUTE);
    struct rng rng = {6};
    for (int i = 0; i < SAMPLES; i++) {
        struct spex_record record = {.present = SPEX_HAS_TOTAL,
                                     .total = (uint16_t)rng_below(&rng, 70000)};
        uint32_t at = rng_below(&rng, ADDRESSES);
        struct spex_sample s = {.record = &record,
                                .address = at,
                                .place = at,
                                .symbol = &functions[at % FUNCTIONS],
                                .spent = at};
        spex_group_sink(all, &s, 1);
        if (at % FUNCTIONS == 2)
            spex_group_sink(direct, &s, 1);
    }
    assert_true(spex_group_exact(all));
    spex_group_derive_of(one, all, &functions[2]);
    spex_group_sort(one, SPEX_BY_SAMPLES);
    spex_group_sort(direct, SPEX_BY_SAMPLES);
    assert_true(spex_group_count(one) == spex_group_count(direct) && spex_group_count(one) == 14);
    for (size_t i = 0; i < spex_group_count(one); i++) {
        const struct spex_row *x = spex_group_row(one, i), *y = spex_group_row(direct, i);
        assert_int_equal(x->key[1], y->key[1]);
        assert_true(x->stats.samples == y->stats.samples && x->stats.time == y->stats.time);
        assert_int_equal(spex_row_latency(one, x, SPEX_LATENCY_EXECUTE, 0.9),
                         spex_row_latency(direct, y, SPEX_LATENCY_EXECUTE, 0.9));
    }
    struct spex_group *few = group_by(by, 2, 0);
    group_set_limit(few, 3);
    struct spex_record record = {0};
    for (uint32_t at = 0; at < ADDRESSES; at++)
        spex_group_sink(few, &(struct spex_sample){.record = &record, .address = at, .place = at},
                        1);
    assert_false(spex_group_exact(few));
    spex_group_free(all);
    spex_group_free(one);
    spex_group_free(direct);
    spex_group_free(few);
}

/* A record without a packet is no sample of its latency. */
static void latencies_of_their_packets(void **state)
{
    static const enum spex_key by[] = {SPEX_KEY_TID};
    struct spex_group *g = group_by(by, 1, SPEX_GROUP_ALL_PERCENTILES);
    struct spex_record with = {.present = SPEX_HAS_TOTAL | SPEX_HAS_ISSUE | SPEX_HAS_TRANSLATION,
                               .total = 90,
                               .issue = 60,
                               .translation = 30};
    struct spex_record without = {0};
    for (int i = 0; i < 10; i++)
        spex_group_sink(g, &(struct spex_sample){.record = i ? &without : &with}, 1);
    spex_group_sort(g, SPEX_BY_SAMPLES);
    const struct spex_row *row = spex_group_row(g, 0);
    assert_int_equal(row->stats.samples, 10);
    for (double q = 0.1; q < 1; q += 0.2) {
        assert_int_equal(spex_row_latency(g, row, SPEX_LATENCY_TOTAL, q), 90);
        assert_int_equal(spex_row_latency(g, row, SPEX_LATENCY_ISSUE, q), 60);
        assert_int_equal(spex_row_latency(g, row, SPEX_LATENCY_TRANSLATION, q), 30);
    }
    spex_group_free(g);
}

TEST_MAIN(TEST(quantiles_are_exact), TEST(no_memory_withholds), TEST(share_interval_covers),
          TEST(share_interval_values), TEST(operation_words), TEST(group_beyond_its_limit),
          TEST(rows_of_one_function), TEST(derived_group_is_exact),
          TEST(runs_of_over_two_periods_are_long), TEST(latencies_of_their_packets),
          TEST(remembered_rows_beyond_the_limit), TEST(data_beyond_the_limit))
