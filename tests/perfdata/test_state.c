/* Time conversion, event terms, and state as of a time, against plain models. */
#include "support/test.h"

#include <spex/perfdata.h>

#include <unistd.h>

/* ---- time ---- */

static void time_published(void **unused)
{
    /* Kunpeng 920: the times that perf printed beside the raw timestamps. */
    static const uint64_t pairs[6][2] = {
        {31515284203839, 314938859071370}, {31515284272084, 314938859753820},
        {31515284278745, 314938859820430}, {31515284290813, 314938859941110},
        {31515284291591, 314938859948890}, {31515284292063, 314938859953610},
    };
    struct spex_perf_time time = {
        .shift = 24,
        .mult = 167772160,
        .zero = (uint64_t)-213982967020,
        .mask = 0xffffffffffffff,
        .cap_zero = true,
        .cap_short = true,
    };
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(spex_perf_time_to_ns(&time, pairs[i][0]), pairs[i][1]);
        assert_int_equal(spex_perf_time_from_ns(&time, pairs[i][1]), pairs[i][0]);
    }
}

static void time_exact(void **unused)
{
    /* clang-format off */
    static const uint64_t hz[] = {1,         1000,      19200000,   24000000,
                                  25000000,  31250000,  50000000,   62500000,
                                  100000000, 125000000, 1000000000, 3000000000};
    /* clang-format on */
    for (unsigned i = 0; i < sizeof hz / sizeof *hz; i++) {
        struct spex_perf_time time;
        spex_perf_time_init(&time, hz[i]);
        assert_true(time.mult && time.mult >> 32 == 0);
        for (uint64_t seconds = 0; seconds < 100000; seconds += 997) {
            /* A day of running: never off by more than one in 10^9. */
            uint64_t ns = spex_perf_time_to_ns(&time, seconds * hz[i]);
            uint64_t want = seconds * 1000000000;
            uint64_t off = ns > want ? ns - want : want - ns;
            assert_true(off <= want / 100000000 + 1);
            uint64_t ticks = seconds * hz[i] + 12345 % hz[i];
            uint64_t back = spex_perf_time_from_ns(&time, spex_perf_time_to_ns(&time, ticks));
            uint64_t tick_ns = 1000000000 / hz[i];
            if (tick_ns >= 1) /* rounding down twice loses at most one tick */
                assert_true(ticks - back <= 1);
        }
    }
}

static void time_wraps(void **unused)
{
    /* cap_short: the counter is narrower than 64 bits and goes on from time_cycles. */
    struct spex_perf_time time = {
        .shift = 4, .mult = 16, .cycles = 0x1f0, .mask = 0xff, .cap_short = true};
    assert_int_equal(spex_perf_time_to_ns(&time, 0xf8), 0x1f8);
    assert_int_equal(spex_perf_time_to_ns(&time, 0x05), 0x205); /* wrapped */
    time.cap_short = false;
    assert_int_equal(spex_perf_time_to_ns(&time, 0x05), 0x05);
    time.mult = 0;
    assert_int_equal(spex_perf_time_from_ns(&time, 77), 0); /* perf divides by zero here */
}

/* ---- terms ---- */

static void terms_good(void **unused)
{
    struct spex_perf_terms terms;
    char text[256];
    assert_int_equal(spex_perf_terms_parse("arm_spe_0/ts_enable=1,pa_enable,jitter=1,"
                                           "event_filter=0x82,min_latency=100,"
                                           "inv_event_filter=4,period=2048/u",
                                           &terms, NULL),
                     SPEX_OK);
    assert_int_equal(terms.config[0], 0x10003);
    assert_int_equal(terms.config[1], 0x82);
    assert_int_equal(terms.config[2], 100);
    assert_int_equal(terms.config[3], 4);
    assert_int_equal(terms.config[4], 0);
    assert_int_equal(terms.period, 2048);
    assert_true(terms.exclude_kernel && !terms.exclude_user);
    size_t length = spex_perf_terms_text(terms.config, text, sizeof text);
    assert_string_equal(text, "ts_enable=1,pa_enable=1,jitter=1,event_filter=0x82,"
                              "min_latency=100,inv_event_filter=0x4");
    assert_int_equal(length, strlen(text));
    assert_int_equal(spex_perf_terms_text(terms.config, text, 10), length);
    assert_string_equal(text, "ts_enable");
    /* Every form of an event without terms */
    static const char *const empty[] = {"arm_spe//",      "arm_spe_0//", "arm_spe",
                                        "arm_spe_12//uk", "arm_spe/,/",  ""};
    for (unsigned i = 0; i < sizeof empty / sizeof *empty; i++) {
        assert_int_equal(spex_perf_terms_parse(empty[i], &terms, NULL), SPEX_OK);
        assert_int_equal(terms.config[0] | terms.config[1], 0);
        assert_false(terms.exclude_kernel || terms.exclude_user);
    }
    /* Each term sets the bits that the driver documents, and prints as it reads. */
    static const struct {
        const char *name;
        unsigned word, bit;
    } bits[] = {{"ts_enable", 0, 0},           {"pa_enable", 0, 1},
                {"pct_enable", 0, 2},          {"jitter", 0, 16},
                {"branch_filter", 0, 32},      {"load_filter", 0, 33},
                {"store_filter", 0, 34},       {"discard", 0, 35},
                {"branch_filter_mask", 0, 36}, {"load_filter_mask", 0, 37},
                {"store_filter_mask", 0, 38},  {"simd_filter", 0, 39},
                {"simd_filter_mask", 0, 40},   {"float_filter", 0, 41},
                {"float_filter_mask", 0, 42},  {"event_filter", 1, 0},
                {"min_latency", 2, 0},         {"inv_event_filter", 3, 0},
                {"inv_data_src_filter", 4, 0}};
    for (unsigned i = 0; i < sizeof bits / sizeof *bits; i++) {
        assert_int_equal(spex_perf_terms_parse(bits[i].name, &terms, NULL), SPEX_OK);
        for (unsigned word = 0; word < 5; word++)
            assert_int_equal(terms.config[word],
                             word == bits[i].word ? UINT64_C(1) << bits[i].bit : 0);
    }
}

static void terms_bad(void **unused)
{
    static const char *const bad[][2] = {
        {"arm_spe_0/ts_enable=2/", "ts_enable: the largest value is 0x1"},
        {"arm_spe_0/min_latency=4096/", "min_latency: the largest value is 0xfff"},
        {"arm_spe_0/colour=1/", "no term \"colour\""},
        {"arm_spe_0/jitter=/", "is not a number"},
        {"arm_spe_0/jitter=one/", "\"one\" is not a number"},
        {"arm_spe_0/jitter=-1/", "is not a number"},
        {"arm_spe_0/jitter", "closing slash"},
        {"cycles/jitter/", "\"cycles\" is not an SPE event"},
        {"arm_spe_x//", "is not an SPE event"},
        {"arm_spe_//", "is not an SPE event"},
        {"arm_spe//p", "modifier 'p'"},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spex_perf_terms terms = {.period = 99};
        struct spex_error error;
        assert_int_not_equal(spex_perf_terms_parse(bad[i][0], &terms, &error), SPEX_OK);
        if (!strstr(error.text, bad[i][1]))
            fail_msg("%s: %s", bad[i][0], error.text);
        assert_int_equal(terms.period, 99); /* untouched on failure */
    }
}

/* ---- state ---- */

static char path[] = "/tmp/spex-state-XXXXXX";

static struct spex_perf_writer *open_writer(void)
{
    struct spex_perf_writer_options options = {.size = sizeof options, .cpus = 4};
    struct spex_perf_writer *writer;
    struct spex_error error;
    strcpy(path + sizeof path - 7, "XXXXXX");
    close(mkstemp(path));
    spex_perf_time_init(&options.time, 1000000000);
    assert_int_equal(spex_perf_writer_open(path, &options, &writer, &error), SPEX_OK);
    return writer;
}

static struct spex_perfdata *reopen(struct spex_perf_writer *writer)
{
    struct spex_perfdata *file;
    struct spex_error error;
    assert_int_equal(spex_perf_writer_finish(writer, &error), SPEX_OK);
    assert_int_equal(spex_perfdata_open(path, &file, &error), SPEX_OK);
    assert_int_equal(spex_perfdata_problem_count(file), 0);
    unlink(path);
    return file;
}

static void put_map(struct spex_perf_writer *writer, int32_t pid, uint64_t start, uint64_t end,
                    const char *name, uint64_t time)
{
    struct spex_perf_map map = {
        .pid = pid, .tid = pid, .start = start, .end = end, .filename = name, .time = time};
    spex_perf_writer_map(writer, &map);
}

static const char *name_at(const struct spex_perfdata *file, int32_t pid, uint64_t address,
                           uint64_t time)
{
    const struct spex_perf_map *map = spex_perfdata_map(file, pid, address, time);
    return map ? map->filename : "-";
}

static void state_lives(void **unused)
{
    struct spex_perf_writer *w = open_writer();
    put_map(w, -1, UINT64_C(0xffff800000000000), UINT64_C(0xffff900000000000), "[kernel]", 0);
    spex_perf_writer_comm(w, 1, 1, "init", false, 0);
    put_map(w, 1, 0x1000, 0x9000, "/init", 0);
    spex_perf_writer_fork(w, 2, 2, 1, 1, 100);   /* a child has its parent's name and mappings */
    put_map(w, 1, 0x2000, 0x3000, "/late", 150); /* but not what the parent maps later */
    put_map(w, 2, 0x4000, 0x5000, "/child", 160);
    spex_perf_writer_comm(w, 2, 2, "prog", true, 200); /* exec: nothing is left */
    put_map(w, 2, 0x1000, 0x2000, "/prog", 210);
    spex_perf_writer_fork(w, 2, 3, 2, 2, 220); /* a thread shares them */
    spex_perf_writer_comm(w, 2, 3, "worker", false, 230);
    spex_perf_writer_exit(w, 2, 3, 2, 2, 240);
    spex_perf_writer_exit(w, 2, 2, 1, 1, 250);
    spex_perf_writer_fork(w, 2, 2, 1, 1, 300); /* the number is used again */
    spex_perf_writer_switch(w, 0, 0, 0, 2, 2, 105);
    spex_perf_writer_switch(w, 0, 2, 2, 2, 3, 225);
    spex_perf_writer_itrace_start(w, 1, 1, 1, 50);
    struct spex_perfdata *file = reopen(w);

    assert_string_equal(name_at(file, 1, 0x1000, 0), "/init");
    assert_string_equal(name_at(file, 1, 0x8fff, 0), "/init");
    assert_string_equal(name_at(file, 1, 0x9000, 0), "-");
    assert_string_equal(name_at(file, 1, 0xfff, 500), "-");
    assert_string_equal(name_at(file, 2, 0x1000, 99), "-");
    assert_string_equal(name_at(file, 2, 0x1000, 100), "/init");
    assert_string_equal(name_at(file, 1, 0x2000, 149), "/init");
    assert_string_equal(name_at(file, 1, 0x2000, 150), "/late"); /* from its own time on */
    assert_string_equal(name_at(file, 1, 0x3000, 150), "/init");
    assert_string_equal(name_at(file, 2, 0x2000, 160), "/init");
    assert_string_equal(name_at(file, 2, 0x4000, 159), "/init");
    assert_string_equal(name_at(file, 2, 0x4000, 160), "/child");
    assert_string_equal(name_at(file, 2, 0x4000, 200), "-");
    assert_string_equal(name_at(file, 2, 0x1000, 210), "/prog");
    assert_string_equal(name_at(file, 2, 0x2000, 210), "-");
    assert_string_equal(name_at(file, 2, 0x2000, 300), "/late"); /* the new child of 1 */
    assert_string_equal(name_at(file, 2, 0x1000, UINT64_MAX), "/init");
    assert_string_equal(name_at(file, 2, UINT64_C(0xffff812345678000), 10), "[kernel]");
    assert_string_equal(name_at(file, 77, UINT64_C(0xffff812345678000), 10), "[kernel]");

    assert_string_equal(spex_perfdata_comm(file, 2, 100), "init");
    assert_string_equal(spex_perfdata_comm(file, 2, 199), "init");
    assert_string_equal(spex_perfdata_comm(file, 2, 200), "prog");
    assert_null(spex_perfdata_comm(file, 2, 99));
    assert_null(spex_perfdata_comm(file, 3, 219));
    assert_string_equal(spex_perfdata_comm(file, 3, 220), "prog");
    assert_string_equal(spex_perfdata_comm(file, 3, UINT64_MAX), "worker");
    assert_string_equal(spex_perfdata_comm(file, 2, 300), "init");
    assert_string_equal(spex_perfdata_comm(file, 0, 5), "swapper");
    assert_int_equal(spex_perfdata_pid(file, 3, 230), 2);
    assert_int_equal(spex_perfdata_pid(file, 3, 10), -1);
    assert_int_equal(spex_perfdata_pid(file, 0, 10), 0);

    int32_t pid = 9, tid = 9;
    assert_false(spex_perfdata_running(file, 0, 104, &pid, &tid));
    assert_int_equal(tid, 9);
    assert_true(spex_perfdata_running(file, 0, 105, &pid, &tid));
    assert_int_equal(tid, 2);
    assert_true(spex_perfdata_running(file, 0, 1000, &pid, &tid));
    assert_true(pid == 2 && tid == 3);
    assert_true(spex_perfdata_running(file, 1, 50, &pid, &tid));
    assert_int_equal(tid, 1);
    assert_false(spex_perfdata_running(file, 2, 1000, &pid, &tid));
    spex_perfdata_close(file);
}

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (random_state >> 33) % limit;
}

/* Thousands of overlapping mappings in any order of time, against asking each of them. */
static void state_random(void **unused)
{
    enum { MAPS = 1500, PIDS = 5, QUESTIONS = 20000 };
    static struct {
        int32_t pid;
        uint64_t start, end, time;
        char name[16];
    } maps[MAPS];
    struct spex_perf_writer *w = open_writer();
    for (unsigned i = 0; i < MAPS; i++) {
        maps[i].pid = (int32_t)(1 + random_below(PIDS));
        if (maps[i].pid == 5 && i % 50) /* one process with few */
            maps[i].pid = 4;
        maps[i].start = random_below(2000);
        maps[i].end = maps[i].start + random_below(random_below(8) ? 50 : 2000);
        maps[i].time = random_below(300); /* many at the same time */
        snprintf(maps[i].name, sizeof maps[i].name, "m%u", i);
        put_map(w, maps[i].pid, maps[i].start, maps[i].end, maps[i].name, maps[i].time);
    }
    struct spex_perfdata *file = reopen(w);
    assert_int_equal(spex_perfdata_map_count(file), MAPS);
    for (unsigned n = 0; n < QUESTIONS; n++) {
        int32_t pid = (int32_t)(1 + random_below(PIDS + 1));
        uint64_t address = random_below(2200), time = random_below(320);
        int best = -1;
        for (int i = 0; i < MAPS; i++)
            if (maps[i].pid == pid && maps[i].start <= address && address < maps[i].end &&
                maps[i].time <= time && (best < 0 || maps[i].time >= maps[best].time))
                best = i;
        assert_string_equal(name_at(file, pid, address, time), best < 0 ? "-" : maps[best].name);
    }
    spex_perfdata_close(file);
}

TEST_MAIN(TEST(time_published), TEST(time_exact), TEST(time_wraps), TEST(terms_good),
          TEST(terms_bad), TEST(state_lives), TEST(state_random))
