/*
 * What a program of somebody else's asks of a pass over a profile: samples on request, an end for
 * reasons of a sink or of another thread, and input that is not a path.
 */
#include <spex/analysis.h>
#include <spex/sinks.h>

#include "support/test.h"
#include "two_threads.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/spex-passes-XXXXXX", file[64], raw[64];

static int start(void **state)
{
    if (!mkdtemp(directory))
        return 1;
    snprintf(file, sizeof file, "%s/perf.data", directory);
    snprintf(raw, sizeof raw, "%s/raw", directory);
    make(file, raw, "/nowhere");
    return 0;
}

static int end(void **state)
{
    return unlink(file) || unlink(raw) || rmdir(directory);
}

/* What samples said, in order. */
struct seen {
    uint64_t hash, count, calls;
    enum spex_status say; /* after the first call */
};

static enum spex_status look(void *context, const struct spex_sample *samples, size_t count)
{
    struct seen *seen = context;
    for (size_t i = 0; i < count; i++)
        seen->hash = (seen->hash ^ samples[i].pc ^ samples[i].va << 20 ^ samples[i].time << 40 ^
                      (uint64_t)samples[i].tid) *
                     UINT64_C(0x100000001b3);
    seen->count += count;
    seen->calls++;
    return seen->say;
}

static void look_and_go_on(void *context, const struct spex_sample *samples, size_t count)
{
    look(context, samples, count);
}

static struct spex_analysis *opened(const struct spex_analysis_options *options, const char *path)
{
    struct spex_analysis *a;
    struct spex_error error = {0};
    if (spex_analysis_open(path, options, &a, &error))
        fail_msg("%s", error.text);
    return a;
}

static void test_on_request_as_to_a_sink(void **state)
{
    for (unsigned how = 0; how < 8; how++) {
        const char *const more[] = {file};
        const struct spex_analysis_options options = {.size = sizeof options,
                                                      .ordered = how & 1,
                                                      .threads = how & 2 ? 2 : 1,
                                                      .more = more,
                                                      .more_count = how / 4};
        struct spex_analysis *a = opened(&options, file);
        const struct spex_sample *samples;
        size_t count;
        struct spex_error error = {0};
        struct seen pushed = {0}, pulled = {0}, again = {0};
        enum spex_status status;
        assert_int_equal(spex_analysis_run(a, look_and_go_on, &pushed, &error), SPEX_OK);
        assert_int_equal(pushed.count, how / 4 ? 1200 : 600);
        while (!(status = spex_analysis_next(a, &samples, &count, &error)))
            look(&pulled, samples, count);
        assert_int_equal(status, SPEX_END);
        assert_true(pulled.count == pushed.count && pulled.hash == pushed.hash);
        while (!spex_analysis_next(a, &samples, &count, &error))
            look(&again, samples, count);
        assert_true(again.count == pushed.count && again.hash == pushed.hash);
        /* one that is not read to its end */
        assert_int_equal(spex_analysis_next(a, &samples, &count, &error), SPEX_OK);
        assert_true(count > 0 && spex_sample_alike(samples) >= 1);
        spex_analysis_close(a);
    }
}

static void test_a_sink_ends_a_pass(void **state)
{
    for (unsigned threads = 1; threads <= 2; threads++) {
        const struct spex_analysis_options options = {.size = sizeof options, .threads = threads};
        struct spex_analysis *a = opened(&options, file);
        struct spex_error error = {0};
        struct seen fails = {.say = SPEX_IO}, enough = {.say = SPEX_END}, all = {0};
        assert_int_equal(spex_analysis_each(a, look, &fails, &error), SPEX_IO);
        assert_int_equal(fails.calls, 1);
        assert_int_equal(error.status, SPEX_IO);
        assert_non_null(strstr(error.text, spex_status_name(SPEX_IO)));
        assert_int_equal(spex_analysis_each(a, look, &enough, &error), SPEX_OK);
        assert_int_equal(enough.calls, 1);
        assert_int_equal(spex_analysis_each(a, look, &all, &error), SPEX_OK);
        assert_int_equal(all.count, 600);
        spex_analysis_close(a);
    }
}

/* One of two sinks, of which each thread has its own. */
struct failing {
    struct spex_feed feed;
    struct spex_group *group;
    struct spex_analysis *analysis;
    enum spex_status say;
};

static void count_and_fail(void *context, const struct spex_sample *samples, size_t count)
{
    const struct failing *f = context;
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *one = &samples[i];
        spex_feed_add(&f->feed, &one, 1);
    }
    if (f->say != SPEX_OK)
        spex_analysis_fail(f->analysis, f->say);
}

static void test_one_of_several_sinks_ends_a_pass(void **state)
{
    static const enum spex_status says[] = {SPEX_IO, SPEX_OK, SPEX_NO_MEMORY, SPEX_RANGE, SPEX_OK};
    static const enum spex_key key = SPEX_KEY_TID;
    const struct spex_group_options by_tid = {.size = sizeof by_tid, .keys = &key, .key_count = 1};
    for (unsigned threads = 1; threads <= 2; threads++) {
        const struct spex_analysis_options options = {.size = sizeof options, .threads = threads};
        struct spex_analysis *a = opened(&options, file);
        struct spex_error error = {0};
        for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
            struct failing f = {{sizeof f, &f.group, 1}, NULL, a, says[i]};
            struct spex_group *other;
            assert_int_equal(spex_group_new(a, &by_tid, &f.group, &error), SPEX_OK);
            assert_int_equal(spex_group_new(a, &by_tid, &other, &error), SPEX_OK);
            const struct spex_sink sinks[] = {spex_sink_groups(&f.feed, count_and_fail),
                                              spex_sink_group(other)};
            assert_int_equal(spex_analysis_pass(a, sinks, 2, &error), says[i]);
            if (says[i] == SPEX_OK) {
                assert_int_equal(spex_group_sort(f.group, SPEX_BY_KEYS), SPEX_OK);
                assert_int_equal(spex_row_stat(spex_group_total(f.group), SPEX_STAT_SAMPLES), 600);
                assert_int_equal(spex_analysis_threads(a), spex_group_count(f.group));
            } else {
                assert_int_equal(error.status, says[i]);
            }
            spex_group_free(f.group);
            spex_group_free(other);
        }
        spex_analysis_close(a);
    }
}

/* A row's numbers at once, and rows by what they are of. */
static void test_rows_as_data(void **state)
{
    static const enum spex_key keys[] = {SPEX_KEY_PAGE, SPEX_KEY_TID};
    const struct spex_group_options both = {.size = sizeof both, .keys = keys, .key_count = 2};
    const struct spex_group_options pages = {.size = sizeof pages, .keys = keys, .key_count = 1};
    const struct spex_analysis_options options = {.size = sizeof options};
    struct spex_analysis *a = opened(&options, file);
    struct spex_error error = {0};
    struct spex_group *fine, *total, *same;
    assert_int_equal(spex_group_new(a, &both, &fine, &error), SPEX_OK);
    assert_int_equal(spex_group_new(a, &pages, &total, &error), SPEX_OK);
    assert_int_equal(spex_group_new(a, &both, &same, &error), SPEX_OK);
    spex_group_derive(total, fine);
    const struct spex_sink sinks[] = {spex_sink_group(fine), spex_sink_group(same)};
    assert_int_equal(spex_analysis_pass(a, sinks, 2, &error), SPEX_OK);
    assert_true(spex_group_exact(fine));
    assert_int_equal(spex_group_sort(fine, SPEX_BY_NOTHING), SPEX_OK);
    assert_int_equal(spex_group_sort(total, SPEX_BY_KEYS), SPEX_OK);
    uint64_t samples = 0;
    for (size_t i = 0; i < spex_group_count(fine); i++) {
        const struct spex_row *row = spex_group_row(fine, i);
        struct spex_stats stats = {.size = sizeof stats};
        uint64_t sum, counts[SPEX_BUCKETS] = {0};
        spex_row_stats(row, &stats);
        assert_int_equal(stats.samples, spex_row_stat(row, SPEX_STAT_SAMPLES));
        assert_int_equal(stats.writes, spex_row_stat(row, SPEX_STAT_WRITES));
        assert_int_equal(stats.latency_count[SPEX_LATENCY_TOTAL],
                         spex_row_latencies(row, SPEX_LATENCY_TOTAL, &sum));
        assert_int_equal(stats.latency_sum[SPEX_LATENCY_TOTAL], sum);
        assert_true((double)stats.time / 1000 == spex_row_time(row));
        assert_false(spex_row_buckets(fine, row, SPEX_LATENCY_TOTAL, counts)); /* nobody asked */
        samples += stats.samples;
        /* the total has the page once, with the same words */
        size_t words, found = 0;
        const uint64_t *key = spex_row_words(fine, row, 0, &words);
        for (size_t t = 0; t < spex_group_count(total); t++)
            found += !memcmp(key, spex_row_words(total, spex_group_row(total, t), 0, &words),
                             words * sizeof *key);
        assert_int_equal(words, 2);
        assert_int_equal(found, 1);
        assert_int_equal(key[words], spex_row_value(fine, row, 1));
        assert_int_equal(spex_row_pid(fine, row, 1), -1); /* of no address */
        const struct spex_row *there = spex_group_find_like(same, row);
        assert_int_equal(spex_row_stat(there, SPEX_STAT_SAMPLES), stats.samples);
        struct spex_stats shorter = {.size = offsetof(struct spex_stats, retired), .retired = 7};
        spex_row_stats(row, &shorter);
        assert_true(shorter.samples == stats.samples && shorter.retired == 7);
    }
    assert_int_equal(samples, 600);
    spex_group_free(total);
    spex_group_free(fine);
    spex_group_free(same);
    spex_analysis_close(a);
}

/* The other thread cancels once the first samples are there, which waits for that. */
struct race {
    struct spex_analysis *analysis;
    sem_t there, done;
    unsigned calls;
};

static void *cancel(void *context)
{
    struct race *r = context;
    sem_wait(&r->there);
    spex_analysis_cancel(r->analysis);
    sem_post(&r->done);
    return NULL;
}

static enum spex_status wait_for_it(void *context, const struct spex_sample *samples, size_t count)
{
    struct race *r = context;
    if (!r->calls++) {
        sem_post(&r->there);
        sem_wait(&r->done);
    }
    return SPEX_OK;
}

static void test_another_thread_cancels(void **state)
{
    const char *const more[] = {file, file};
    for (unsigned how = 0; how < 4; how++) {
        const struct spex_analysis_options options = {.size = sizeof options,
                                                      .ordered = how & 1,
                                                      .threads = how & 2 ? 2 : 1,
                                                      .more = more,
                                                      .more_count = 2};
        struct spex_analysis *a = opened(&options, file);
        struct spex_error error = {0};
        struct race race = {.analysis = a};
        struct seen all = {0};
        const struct spex_sample *samples;
        size_t count;
        pthread_t other;
        sem_init(&race.there, 0, 0);
        sem_init(&race.done, 0, 0);
        assert_int_equal(pthread_create(&other, NULL, cancel, &race), 0);
        assert_int_equal(spex_analysis_each(a, wait_for_it, &race, &error), SPEX_CANCELLED);
        pthread_join(other, NULL);
        assert_int_equal(race.calls, 1);
        assert_int_equal(spex_analysis_each(a, look, &all, &error), SPEX_OK);
        assert_int_equal(all.count, 1800);
        assert_int_equal(spex_analysis_next(a, &samples, &count, &error), SPEX_OK);
        spex_analysis_cancel(a);
        assert_int_equal(spex_analysis_next(a, &samples, &count, &error), SPEX_CANCELLED);
        assert_int_equal(spex_analysis_next(a, &samples, &count, &error), SPEX_OK);
        spex_analysis_close(a);
        sem_destroy(&race.there);
        sem_destroy(&race.done);
    }
}

/* A pipe holds a profile as small as this one. */
static int pipe_of(const void *data, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], data, size), size);
    close(ends[1]);
    return ends[0];
}

static void test_kinds_of_input(void **state)
{
    for (unsigned is_raw = 0; is_raw < 2; is_raw++) {
        const char *path = is_raw ? raw : file;
        static char data[1 << 17];
        struct seen from_path = {0};
        struct spex_error error = {0};
        struct spex_analysis_options options = {.size = sizeof options, .raw = is_raw};
        int fd = open(path, O_RDONLY);
        ssize_t size = read(fd, data, sizeof data);
        assert_true(size > 1000 && (size_t)size < sizeof data);
        struct spex_analysis *a = opened(&options, path);
        assert_int_equal(spex_analysis_each(a, look, &from_path, &error), SPEX_OK);
        spex_analysis_close(a);
        for (unsigned how = 0; how < 3; how++) {
            struct seen seen = {0};
            options.input = how ? SPEX_INPUT_DESCRIPTOR : SPEX_INPUT_MEMORY;
            options.descriptor = how == 2 ? pipe_of(data, (size_t)size) : fd;
            options.data = how ? NULL : data;
            options.data_size = how ? 0 : (size_t)size;
            a = opened(&options, NULL);
            if (how == 2)
                close(options.descriptor); /* what was read from it was kept */
            assert_int_equal(spex_analysis_each(a, look, &seen, &error), SPEX_OK);
            assert_true(seen.count == from_path.count && seen.hash == from_path.hash);
            spex_analysis_close(a);
            assert_int_not_equal(fcntl(fd, F_GETFD), -1);
        }
        options.input = SPEX_INPUT_DESCRIPTOR;
        options.descriptor = -1;
        assert_int_equal(spex_analysis_open("no file", &options, &a, &error), SPEX_IO);
        assert_non_null(strstr(error.text, "no file"));
        options.input = SPEX_INPUT_MEMORY + 1;
        assert_int_equal(spex_analysis_open(path, &options, &a, &error), SPEX_UNSUPPORTED);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_on_request_as_to_a_sink),          TEST(test_a_sink_ends_a_pass),
        TEST(test_one_of_several_sinks_ends_a_pass), TEST(test_rows_as_data),
        TEST(test_another_thread_cancels),           TEST(test_kinds_of_input)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, end);
}
