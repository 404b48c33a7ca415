/*
 * A host with many threads: 16 of them open 1,000 profiles, each with a limit of its own, and read
 * them in every way there is. For ThreadSanitizer and AddressSanitizer: make check-races.
 */
#include <spex/analysis.h>
#include <spex/arrow.h>

#include "support/test.h"
#include "two_threads.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 16, PROFILES = 1000, SAMPLES = 600, LIMIT = 64 << 20, TOO_LITTLE = 64 << 10 };

static char directory[] = "/tmp/spex-host-XXXXXX", file[64], raw[64], data[1 << 17];
static size_t size;
static atomic_uint next_profile, wrong, refused;

static enum spex_status count(void *context, const struct spex_sample *samples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *(uint64_t *)context += samples[i].record != NULL;
    return SPEX_OK;
}

/* As the interface defines them. */
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *array);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *stream, void *schema);
    int (*get_next)(struct ArrowArrayStream *stream, struct ArrowArray *array);
    const char *(*get_last_error)(struct ArrowArrayStream *stream);
    void (*release)(struct ArrowArrayStream *stream);
    void *private_data;
};

static uint64_t read_arrays(struct spex_analysis *a)
{
    struct ArrowArrayStream stream;
    struct ArrowArray array;
    uint64_t seen = 0;
    if (spex_arrow_stream(a, SPEX_TABLE_SAMPLES, &stream, NULL))
        return 0;
    while (!stream.get_next(&stream, &array) && array.release) {
        seen += (uint64_t)array.length;
        array.release(&array);
    }
    stream.release(&stream);
    return seen;
}

/* Four ways to read, by several threads or one, of three kinds of input. */
static uint64_t read_profile(struct spex_analysis *a, unsigned n)
{
    static const enum spex_key keys[] = {SPEX_KEY_SYMBOL, SPEX_KEY_CACHE_LINE};
    const struct spex_group_options table = {.size = sizeof table, .keys = keys, .key_count = 2};
    const struct spex_sample *samples;
    struct spex_group *group = NULL;
    struct spex_error error;
    uint64_t seen = 0;
    size_t some;
    switch (n % 5) {
    case 0:
        while (!spex_analysis_next(a, &samples, &some, &error))
            seen += some;
        break;
    case 1:
        if (spex_analysis_each(a, count, &seen, &error))
            return 0;
        break;
    case 2:
        return read_arrays(a);
    default:
        if (!spex_group_new(a, &table, &group, &error) &&
            !spex_analysis_run(a, spex_group_sink, group, &error) &&
            !spex_group_sort(group, SPEX_BY_SAMPLES))
            seen = spex_row_stat(spex_group_total(group), SPEX_STAT_SAMPLES);
        spex_group_free(group);
    }
    return seen;
}

static void *host(void *unused)
{
    (void)unused;
    for (unsigned n; (n = atomic_fetch_add(&next_profile, 1)) < PROFILES;) {
        struct spex_analysis_options options = {.size = sizeof options,
                                                .threads = 1 + n % 2,
                                                .ordered = n / 2 % 2,
                                                .max_memory = n % 50 ? LIMIT : TOO_LITTLE};
        struct spex_analysis *a;
        struct spex_error error = {0};
        options.input = n / 3 % 3;
        options.data = data;
        options.data_size = size;
        options.descriptor =
            options.input == SPEX_INPUT_DESCRIPTOR ? open(file, O_RDONLY | O_CLOEXEC) : -1;
        enum spex_status status = spex_analysis_open(file, &options, &a, &error);
        if (n % 50)
            wrong += status || read_profile(a, n) != SAMPLES;
        else
            refused += status == SPEX_NO_MEMORY && *error.text;
        if (!status)
            spex_analysis_close(a);
        if (options.descriptor >= 0)
            close(options.descriptor);
    }
    return NULL;
}

static void test_a_thousand_profiles(void **state)
{
    pthread_t threads[THREADS];
    assert_non_null(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/perf.data", directory);
    snprintf(raw, sizeof raw, "%s/raw", directory);
    make(file, raw, "/nowhere");
    FILE *f = fopen(file, "rb");
    size = fread(data, 1, sizeof data, f);
    assert_true(size > 1000 && size < sizeof data);
    fclose(f);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, host, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    unlink(file);
    unlink(raw);
    rmdir(directory);
    assert_int_equal(wrong, 0);
    assert_int_equal(refused, PROFILES / 50);
}

TEST_MAIN(TEST(test_a_thousand_profiles))
