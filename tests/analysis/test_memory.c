/*
 * A library does not end its program when out of memory: each allocation in turn fails, alone or
 * with all that come after it, and every function says SPEX_NO_MEMORY or goes on with less; what
 * was made can be ended, and nothing is lost (the sanitizer's build looks for leaks). The test is
 * linked with --wrap, so that all calls in our code come here first.
 */
#include <spex/arrow.h>
#include <spex/findings.h>
#include <spex/generate.h>
#include <spex/spu.h>
#include <spex/verify.h>

#include "analysis/group.h"
#include "support/test.h"
#include "two_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
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
int __wrap_asprintf(char **text, const char *format, ...);

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

int __wrap_asprintf(char **text, const char *format, ...)
{
    va_list args;
    if (fails())
        return -1;
    va_start(args, format);
    const int n = vasprintf(text, format, args);
    va_end(args);
    return n;
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

/* ---- functions that use() does not call ---- */

static char work[40];

static const char *in(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", work, name);
    return path;
}

/* A file with all that the writer remembers; whole, or as a killed writer leaves it. */
static bool write_file(const char *name, bool whole)
{
    static const char *const command[] = {"spex", "record", NULL};
    static const uint8_t bytes[64 << 10];
    struct spex_perf_writer_options options = {.size = sizeof options,
                                               .cpus = 4,
                                               .period = 1024,
                                               .node_cpus = 1,
                                               .stacks = true,
                                               .cmdline = command,
                                               .hostname = "host",
                                               .max_memory = max_memory,
                                               .allocator = allocator};
    struct spex_perf_writer *writer;
    struct spex_error error = {0};
    spex_perf_time_init(&options.time, 1000000000);
    enum spex_status status = spex_perf_writer_open(in(name), &options, &writer, &error);
    if (status) {
        assert_true(status == SPEX_NO_MEMORY && *error.text);
        return false;
    }
    for (int i = 0; i < 40; i++) {
        char file[40];
        struct spex_perf_map map = {.start = 0x10000u * (unsigned)i,
                                    .end = 0x10000u * (unsigned)i + 0x8000,
                                    .pid = 7,
                                    .tid = 7,
                                    .filename = file,
                                    .build_id = {1, (uint8_t)i},
                                    .build_id_size = 20};
        snprintf(file, sizeof file, "/usr/lib/lib%d.so", i);
        spex_perf_writer_fork(writer, 7, 8 + i, 7, 7, 1);
        spex_perf_writer_comm(writer, 7, 8 + i, "work", false, 1);
        spex_perf_writer_map(writer, &map);
        spex_perf_writer_switch(writer, i % 4, 7, 7, 7, 8 + i, 2);
        spex_perf_writer_aux(writer, i % 4, 7, 8 + i, bytes, sizeof bytes, 0, 3);
        spex_perf_writer_lost(writer, i % 4, 5, 4);
        spex_perf_writer_exit(writer, 7, 8 + i, 7, 7, 5);
    }
    status = (whole ? spex_perf_writer_finish : spex_perf_writer_leave)(writer, &error);
    assert_true(!status || ((status == SPEX_NO_MEMORY || status == SPEX_TRUNCATED) && *error.text));
    return !status;
}

static bool writes(void)
{
    return write_file("written", true);
}

static bool continues(void)
{
    const bool left = write_file("left", false);
    struct spex_perf_writer_options options = {
        .size = sizeof options, .cpus = 4, .kept_start = 4096, .allocator = allocator};
    struct spex_perf_writer *w;
    spex_perf_time_init(&options.time, 1000000000);
    const enum spex_status status = spex_perf_writer_open(in("left"), &options, &w, NULL);
    return (status || !spex_perf_writer_leave(w, NULL)) && status != SPEX_NO_MEMORY && left;
}

static bool repairs(void)
{
    uint64_t kept, lost;
    struct spex_error error = {0};
    const int from = open(in("cut"), O_RDONLY | O_CLOEXEC),
              to = open(in("repaired"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(from >= 0 && to >= 0);
    const enum spex_status status = spex_perf_repair(from, to, &kept, &lost, &error);
    assert_true(!status || (status == SPEX_NO_MEMORY && *error.text));
    close(from);
    close(to);
    return !status;
}

static bool streams(void)
{
    struct spex_error error = {0};
    const int from = open(in("whole"), O_RDONLY | O_CLOEXEC),
              to = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(from >= 0 && to >= 0);
    const enum spex_status status = spex_perf_stream(from, to, &error);
    assert_true(!status || (status == SPEX_NO_MEMORY && *error.text));
    close(from);
    close(to);
    return !status;
}

static bool reads(void)
{
    const struct spex_perfdata_options options = {.size = sizeof options,
                                                  .path = in("perf.data"),
                                                  .max_memory = max_memory,
                                                  .allocator = allocator};
    struct spex_perfdata *file;
    struct spex_perf_event event;
    struct spex_aux_cursor *cursor;
    struct spex_aux_span span;
    struct spex_error error = {0};
    enum spex_status status = spex_perfdata_new(&options, &file, &error);
    if (status) {
        assert_true(status == SPEX_NO_MEMORY && *error.text);
        return false;
    }
    while (!spex_perfdata_next(file, &event))
        ;
    bool whole = spex_perfdata_map(file, 7, 0x401000, 2000) && spex_perfdata_comm(file, 7, 2000) &&
                 !spex_perfdata_problem_count(file);
    for (size_t q = 0; q < spex_perfdata_queue_count(file); q++) {
        status = spex_aux_open(file, q, &cursor);
        assert_true(!status || status == SPEX_NO_MEMORY);
        whole &= !status;
        while (!status && !spex_aux_next(cursor, &span))
            spex_aux_keep(cursor, span.last ? 0 : span.size / 2);
        if (!status)
            spex_aux_close(cursor);
    }
    spex_aux_close(NULL);
    spex_perfdata_close(file);
    return whole;
}

static bool names(void)
{
    char root[80], text[1][SPEX_INSTRUCTION_TEXT];
    const struct spex_symbols_options options = {
        .size = sizeof options, .symfs = root, .max_memory = max_memory, .allocator = allocator};
    struct spex_symbols *symbols;
    struct spex_disassembler *disassembler;
    struct spex_line line;
    struct spex_inline frames[4];
    struct spex_segment segment;
    struct spex_error error = {0};
    uint8_t code[4];
    snprintf(root, sizeof root, "%s", work);
    enum spex_status status = spex_symbols_new(&options, &symbols, &error);
    if (status) {
        assert_true(status == SPEX_NO_MEMORY && *error.text);
        return false;
    }
    struct spex_module *module = spex_symbols_module(symbols, "/bin/prog", NULL, 0, 7);
    bool whole = module;
    if (module) {
        whole = spex_module_symbol(module, 0x401104) && spex_module_line(module, 0x401104, &line);
        spex_module_inlines(module, 0x401104, frames, 4);
        whole &= spex_module_segment(module, 0, &segment) &&
                 spex_module_read(module, 0x401104, code, sizeof code) == sizeof code;
        spex_module_problem(module);
        spex_module_file(module);
    }
    module = spex_symbols_module(symbols, "/bin/bare", NULL, 0, 7);
    whole &= module && spex_module_symbol(module, 0x401104); /* opens it */
    char *package = module ? spex_module_package(module) : NULL;
    whole &= package && !strcmp(package, "apt install spexprog-dbgsym");
    free(package);
    spex_symbols_free(symbols);
    char *name = spex_demangle("_ZN4spex6memoryC1ESt6vectorIiSaIiEE");
    whole &= name != NULL;
    free(name);
    setenv("SPEX_DISASSEMBLER", "words", 1);
    status = spex_disassembler_new(&disassembler, &error);
    assert_true(!status || (status == SPEX_NO_MEMORY && *error.text));
    if (!status) {
        spex_disassemble(disassembler, 0, (const uint8_t[4]){0x1f, 0x20, 0x03, 0xd5}, 1, text);
        spex_disassembler_free(disassembler);
    }
    return whole && !status;
}

static bool makes(void)
{
    struct spex_spu_host host = {.size = sizeof host};
    struct spex_spu_config config = {.size = sizeof config, .host = &host};
    struct spex_shapes *shapes = NULL;
    struct spex_reader *r = NULL;
    struct spex_verifier *verifier = NULL;
    struct spex_generator *generator = NULL;
    struct spex_spu *unit = NULL;
    struct spex_error error = {0};
    const enum spex_status made[] = {
        spex_shapes_new(&shapes, &error),           spex_reader_new(NULL, &r, &error),
        spex_verifier_new(NULL, &verifier, &error), spex_generator_new(NULL, &generator, &error),
        spex_spu_new(&config, &unit, &error),
    };
    unsigned refused = 0;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        assert_true(made[i] == SPEX_OK || made[i] == SPEX_NO_MEMORY);
        refused += made[i] == SPEX_NO_MEMORY;
    }
    assert_true(!refused || *error.text);
    spex_shapes_free(shapes);
    spex_reader_free(r);
    spex_verifier_free(verifier);
    spex_generator_free(generator);
    spex_spu_free(unit);
    return !refused;
}

/* As the interface defines them. */
struct ArrowArray {
    int64_t numbers[5];
    void *pointers[3];
    void (*release)(struct ArrowArray *array);
    void *private_data;
};
struct ArrowSchema {
    void *texts[3];
    int64_t numbers[2];
    void *pointers[2];
    void (*release)(struct ArrowSchema *schema);
    void *private_data;
};
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *stream, struct ArrowSchema *schema);
    int (*get_next)(struct ArrowArrayStream *stream, struct ArrowArray *array);
    const char *(*get_last_error)(struct ArrowArrayStream *stream);
    void (*release)(struct ArrowArrayStream *stream);
    void *private_data;
};

static bool arrays(struct spex_analysis *a, enum spex_table table)
{
    struct ArrowArrayStream s;
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct spex_error error = {0};
    const enum spex_status status = spex_arrow_stream(a, table, &s, &error);
    if (status) {
        assert_true(status == SPEX_NO_MEMORY && *error.text);
        return false;
    }
    int number = s.get_schema(&s, &schema);
    if (!number)
        schema.release(&schema);
    while (!number && !(number = s.get_next(&s, &array)) && array.release)
        array.release(&array);
    assert_true(!number || (number == ENOMEM && *s.get_last_error(&s)));
    s.release(&s);
    return !number;
}

/* Samples on request, and arrays. */
static bool pulls(void)
{
    const struct spex_analysis_options options = {
        .size = sizeof options, .max_memory = max_memory, .allocator = allocator};
    const struct spex_sample *samples;
    struct spex_analysis *a;
    struct spex_error error = {0};
    size_t count;
    enum spex_status status = spex_analysis_open(in("perf.data"), &options, &a, &error);
    if (status) {
        assert_true(status == SPEX_NO_MEMORY && *error.text);
        return false;
    }
    while (!(status = spex_analysis_next(a, &samples, &count, &error)))
        ;
    assert_true(status == SPEX_END || (status == SPEX_NO_MEMORY && *error.text));
    const bool whole = status == SPEX_END && arrays(a, SPEX_TABLE_SAMPLES) &&
                       arrays(a, SPEX_TABLE_FILES) && arrays(a, SPEX_TABLE_THREADS);
    spex_analysis_close(a);
    return whole;
}

static const struct {
    const char *name;
    bool (*call)(void); /* true if all of it worked */
} others[] = {{"writes", writes},   {"continues", continues}, {"repairs", repairs},
              {"streams", streams}, {"reads", reads},         {"names", names},
              {"makes", makes},     {"pulls", pulls}};

static int make_work(void **state)
{
    char path[2][64], command[200];
    snprintf(work, sizeof work, "/tmp/spex-memory-XXXXXX");
    assert_non_null(mkdtemp(work));
    snprintf(path[0], sizeof path[0], "%s/perf.data", work);
    snprintf(path[1], sizeof path[1], "%s/raw", work);
    make(path[0], path[1], "/bin/prog");
    assert_true(write_file("whole", true) && write_file("cut", false));
    for (const char *const *d = (const char *const[]){"bin", "var", "var/lib", "var/lib/dpkg",
                                                      "var/lib/dpkg/info", NULL};
         *d; d++)
        assert_int_equal(mkdir(in(*d), 0700), 0);
    FILE *list = fopen(in("var/lib/dpkg/info/spexprog.list"), "w");
    assert_true(list && fputs("/bin/bare\n", list) >= 0 && !fclose(list));
    snprintf(command, sizeof command,
             "cd %s/bin && cp \"$SPEX_TEST_PROG\" prog && aarch64-linux-gnu-strip -o bare prog",
             work);
    assert_int_equal(system(command), 0);
    return 0;
}

static int remove_work(void **state)
{
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", work);
    return system(command);
}

static void test_every_other_allocation_fails_once(void **state)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        for (unsigned after = 0; after < 2; after++) {
            unsigned long refused = 0;
            fail_at = 0;
            all_after = after;
            print_message("# %s\n", others[i].name);
            assert_true(others[i].call());
            for (unsigned long n = 1;; n++) {
                calls = 0;
                fail_at = n;
                refused += !others[i].call();
                if (calls < n)
                    break;
            }
            fail_at = 0;
            assert_true(refused > 0);
        }
    }
}

/* What writers and readers have is their allocator's, and ends at their limit. */
static void test_limit_of_writers_and_readers(void **state)
{
    static bool (*const counted[])(void) = {writes, reads, pulls};
    struct given given = {0};
    const struct spex_allocator own = {give, take_back, &given};
    allocator = &own;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        given.most = 0;
        max_memory = 0;
        assert_true(counted[i]());
        assert_true(given.most > 1000 && given.bytes == 0);
        const long long need = given.most;
        max_memory = (uint64_t)need * 2 + (2 << 20); /* names are kept by the megabyte */
        assert_true(counted[i]());
        max_memory = (uint64_t)need / 10;
        given.most = 0;
        assert_false(counted[i]());
        assert_true(given.most <= (long long)max_memory + 4096 && given.bytes == 0);
    }
    allocator = NULL;
    max_memory = 0;
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
          cmocka_unit_test_setup_teardown(test_every_other_allocation_fails_once, make_work,
                                          remove_work),
          cmocka_unit_test_setup_teardown(test_limit_of_writers_and_readers, make_work,
                                          remove_work),
          TEST(test_host_with_a_large_heap), TEST(test_more_than_can_be_counted))
