/*
 * A library does not end its program when out of memory: each allocation in turn fails, alone or
 * with all that come after it, and every function says SPEX_NO_MEMORY or goes on with less; what
 * was made can be ended, and nothing is lost (the sanitizer's build looks for leaks). The test is
 * linked with --wrap, so that all calls in our code come here first.
 */
#include <spex/findings.h>
#include <spex/generate.h>

#include "analysis/group.h"
#include "support/test.h"
#include "two_threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_ulong calls;
static unsigned long fail_at;
static bool all_after; /* fail, too */

static bool fails(void)
{
    const unsigned long call = atomic_fetch_add(&calls, 1) + 1;
    return call == fail_at || (all_after && fail_at && call > fail_at);
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

static void look_at_samples(void *context, const struct spex_sample *samples, size_t count)
{
    struct spex_place place;
    for (size_t i = 0; i < count; i += 50)
        spex_sample_locate(context, &samples[i], samples[i].va, &place);
}

enum how { IN_TURN, ORDERED, APART, RAW }; /* APART: each queue by a thread of its own */

static enum spex_status run(struct spex_analysis *a, struct spex_sink sink,
                            struct spex_error *error)
{
    return spex_analysis_pass(a, &sink, 1, error);
}

/* What an allocator has given out; each of its blocks says so before it begins. */
struct given {
    atomic_llong bytes, most;
};
struct block {
    size_t size;
    uint64_t mark;
};
static const uint64_t mark = 0x5bec5bec5bec5bec;

static void *give(void *context, size_t size)
{
    struct given *g = context;
    struct block *b = __real_malloc(sizeof *b + size);
    const long long bytes = atomic_fetch_add(&g->bytes, (long long)size) + (long long)size;
    for (long long most = g->most; bytes > most;)
        if (atomic_compare_exchange_weak(&g->most, &most, bytes))
            break;
    *b = (struct block){size, mark};
    return b + 1;
}

static void take_back(void *context, void *memory)
{
    struct given *g = context;
    struct block *b = (struct block *)memory - 1;
    assert_true(b->mark == mark);
    b->mark = 0;
    atomic_fetch_sub(&g->bytes, (long long)b->size);
    free(b);
}

static const struct spex_allocator *allocator;
static uint64_t max_memory;

/* Everything that a program does with a profile. True if all of it worked. */
static bool use(const char *path, enum how how)
{
    static const enum spex_key keys[] = {SPEX_KEY_SYMBOL, SPEX_KEY_CACHE_LINE, SPEX_KEY_SRCLINE};
    static const struct spex_filter filters[] = {{"comm", "one,two"}, {"dso", "*"}};
    struct spex_analysis_options options = {
        .size = sizeof options, .ordered = how == ORDERED, .filters = filters, .filter_count = 2};
    struct spex_group_options table = {
        .size = sizeof table, .keys = keys, .key_count = 3, .flags = SPEX_GROUP_ALL_PERCENTILES};
    struct spex_analysis *a;
    struct spex_group *group = NULL;
    struct spex_sharing *sharing = NULL;
    struct spex_findings *findings = NULL;
    struct spex_error error = {0};
    options.raw = how == RAW;
    options.allocator = allocator;
    options.max_memory = max_memory;
    options.threads = how == APART ? 2 : 0;
    options.filter_count = how == RAW ? 0 : 2; /* nothing has a name there */
    if (spex_analysis_open(path, &options, &a, &error)) {
        assert_true(*error.text);
        return false;
    }
    enum spex_status status = spex_group_new(a, &table, &group, &error);
    if (!status)
        status = run(a, spex_sink_group(group), &error);
    if (!status)
        status = spex_group_sort(group, SPEX_BY_SAMPLES);
    for (size_t i = 0; !status && i < spex_group_count(group); i++) {
        char text[80];
        for (size_t k = 0; k < 3; k++)
            spex_row_text(group, spex_group_row(group, i), k, text, sizeof text);
    }
    if (!status)
        status = spex_analysis_run(a, look_at_samples, a, &error);
    if (!status)
        status = spex_sharing_new(a, &sharing, &error);
    if (!status)
        status = run(a, spex_sink_find(sharing), &error);
    if (!status && spex_sharing_choose(sharing))
        status = run(a, spex_sink_look(sharing), &error);
    else if (!status && how != RAW)
        status = SPEX_NO_MEMORY; /* there are shared lines */
    if (!status)
        status = spex_sharing_finish(sharing);
    if (!status && how == APART) {
        status = spex_findings_new(a, &findings, &error);
        if (!status)
            status = run(a, spex_sink_findings(findings), &error);
        if (!status)
            status = spex_findings_finish(findings, sharing);
    }
    for (size_t i = 0; !status && spex_sharing_line(sharing, i); i++) {
        struct spex_finding *finding = NULL;
        status = spex_finding_of_line(a, sharing, spex_sharing_line(sharing, i), &finding);
        spex_finding_free(finding);
    }
    assert_true(status == SPEX_OK || status == SPEX_NO_MEMORY);
    spex_findings_free(findings);
    spex_sharing_free(sharing);
    spex_group_free(group);
    spex_analysis_close(a);
    return status == SPEX_OK;
}

static void test_every_allocation_fails_once(void **state)
{
    char directory[] = "/tmp/spex-memory-XXXXXX", path[2][64];
    const char *program = getenv("SPEX_TEST_PROG");
    assert_non_null(mkdtemp(directory));
    snprintf(path[0], sizeof path[0], "%s/perf.data", directory);
    snprintf(path[1], sizeof path[1], "%s/raw", directory);
    make(path[0], path[1], program ? program : "/nowhere");
    for (unsigned i = 0; i < 2 * (RAW + 1); i++) {
        const enum how how = i / 2;
        const char *from = path[how == RAW];
        unsigned long refused = 0;
        fail_at = 0;
        all_after = i % 2;
        assert_true(use(from, how));
        for (unsigned long n = 1;; n++) {
            calls = 0;
            fail_at = n;
            refused += !use(from, how);
            if (calls < n)
                break; /* it came to its end */
        }
        assert_true(refused > 20);
    }
    fail_at = 0;
    unlink(path[0]);
    unlink(path[1]);
    rmdir(directory);
}

/* All memory comes from the handle's allocator and goes back to it, and ends at its limit. */
static void test_limit_and_allocator(void **state)
{
    char directory[] = "/tmp/spex-memory-XXXXXX", path[2][64];
    const char *program = getenv("SPEX_TEST_PROG");
    struct given given = {0};
    const struct spex_allocator own = {give, take_back, &given};
    assert_non_null(mkdtemp(directory));
    snprintf(path[0], sizeof path[0], "%s/perf.data", directory);
    snprintf(path[1], sizeof path[1], "%s/raw", directory);
    make(path[0], path[1], program ? program : "/nowhere");
    allocator = &own;
    for (enum how how = IN_TURN; how <= RAW; how++) {
        const char *from = path[how == RAW];
        given.most = 0;
        max_memory = 0;
        assert_true(use(from, how));
        assert_int_equal(given.bytes, 0);
        const long long need = given.most;
        assert_true(need > 1 << 20);
        max_memory = (uint64_t)need * 2; /* some of it is kept for what must go on */
        assert_true(use(from, how));
        for (unsigned part = 1; part <= 32; part++) {
            max_memory = (uint64_t)need * part / 40;
            given.most = 0;
            assert_true(!use(from, how) || part > 4);
            assert_true(given.most <= (long long)max_memory + 4096);
            assert_int_equal(given.bytes, 0);
        }
    }
    allocator = NULL;
    max_memory = 0;
    unlink(path[0]);
    unlink(path[1]);
    rmdir(directory);
}

/* What the rest of the process has is not the library's. */
static void test_host_with_a_large_heap(void **state)
{
    enum { LIMIT = 64 << 20, HEAP = 192 };
    char directory[] = "/tmp/spex-memory-XXXXXX", path[2][64];
    void *heap[HEAP];
    assert_non_null(mkdtemp(directory));
    snprintf(path[0], sizeof path[0], "%s/perf.data", directory);
    snprintf(path[1], sizeof path[1], "%s/raw", directory);
    make(path[0], path[1], "/nowhere");
    for (size_t i = 0; i < HEAP; i++)
        assert_non_null(heap[i] = malloc(1 << 20));
    max_memory = LIMIT;
    assert_true(use(path[0], IN_TURN));
    assert_true(use(path[0], APART));
    max_memory = 0;
    for (size_t i = 0; i < HEAP; i++)
        free(heap[i]);
    unlink(path[0]);
    unlink(path[1]);
    rmdir(directory);
}

/* Four billion samples would take a day to make: the table has already seen most of them. */
static void test_more_than_can_be_counted(void **state)
{
    static const enum spex_key keys[] = {SPEX_KEY_SYMBOL};
    const struct spex_analysis_options options = {.size = sizeof options};
    const struct spex_group_options table = {.size = sizeof table, .keys = keys, .key_count = 1};
    char directory[] = "/tmp/spex-memory-XXXXXX", path[2][64];
    struct spex_analysis *a;
    struct spex_group *group;
    struct spex_error error = {0};
    assert_non_null(mkdtemp(directory));
    snprintf(path[0], sizeof path[0], "%s/perf.data", directory);
    snprintf(path[1], sizeof path[1], "%s/raw", directory);
    make(path[0], path[1], "/nowhere");
    assert_int_equal(spex_analysis_open(path[0], &options, &a, &error), SPEX_OK);
    assert_int_equal(spex_group_new(a, &table, &group, &error), SPEX_OK);
    assert_int_equal(spex_analysis_run(a, spex_group_sink, group, &error), SPEX_OK);
    const uint32_t samples = (uint32_t)spex_analysis_totals(a)->kept;
    assert_true(samples > 0 && group->counted == samples);
    group->counted = UINT32_MAX - samples; /* the last that fit */
    assert_int_equal(spex_analysis_run(a, spex_group_sink, group, &error), SPEX_OK);
    assert_int_equal(spex_analysis_run(a, spex_group_sink, group, &error), SPEX_RANGE);
    assert_non_null(strstr(error.text, "4,294,967,295"));
    group->counted = 0;
    assert_int_equal(spex_analysis_run(a, spex_group_sink, group, &error), SPEX_OK);
    spex_group_free(group);
    spex_analysis_close(a);
    unlink(path[0]);
    unlink(path[1]);
    rmdir(directory);
}

TEST_MAIN(TEST(test_every_allocation_fails_once), TEST(test_limit_and_allocator),
          TEST(test_host_with_a_large_heap), TEST(test_more_than_can_be_counted))
