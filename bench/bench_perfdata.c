/*
 * perf.data: a file of 1 GB is written, then opened and split into its spans, every byte
 * of which is looked at; against reading the file once and looking at every byte.
 * Resident memory is that of the whole run. SPEX_BENCH_MB sets another size.
 */
#include <spex/perfdata.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { CPUS = 8, CHUNK = 600 * 1000, ROUNDS = 3 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t look(const uint8_t *data, size_t size)
{
    uint64_t sum = 0, word;
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        memcpy(&word, data + i, 8);
        sum += word;
    }
    for (; i < size; i++)
        sum += data[i];
    return sum;
}

static void make(const char *path, uint64_t size)
{
    struct spex_perf_writer_options options = {
        .size = sizeof options, .cpus = CPUS, .midr = 0x413fd0c1, .period = 4096};
    struct spex_perf_writer *writer;
    struct spex_error error;
    uint8_t *chunk = malloc(CHUNK);
    spex_perf_time_init(&options.time, 25000000);
    if (!chunk || spex_perf_writer_open(path, &options, &writer, &error))
        exit(1);
    for (size_t i = 0; i < CHUNK; i++)
        chunk[i] = (uint8_t)(i * 2654435761u >> 13);
    spex_perf_writer_comm(writer, 1, 1, "bench", true, 1);
    for (uint64_t n = 0; n * CHUNK < size; n++)
        spex_perf_writer_aux(writer, (int32_t)(n % CPUS), 1, 1, chunk, CHUNK, 0, 10 + n);
    free(chunk);
    if (spex_perf_writer_finish(writer, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
}

static uint64_t read_once(const char *path)
{
    enum { PIECE = 1 << 20 };
    static uint8_t buffer[PIECE];
    uint64_t sum = 0;
    ssize_t n;
    int fd = open(path, O_RDONLY);
    while ((n = read(fd, buffer, PIECE)) > 0)
        sum += look(buffer, (size_t)n);
    close(fd);
    return sum;
}

static uint64_t split(const char *path, uint64_t *bytes)
{
    struct spex_perfdata *file;
    struct spex_error error;
    uint64_t sum = 0;
    if (spex_perfdata_open(path, &file, &error))
        exit(1);
    *bytes = 0;
    for (size_t i = 0; i < spex_perfdata_queue_count(file); i++) {
        struct spex_aux_cursor *cursor;
        struct spex_aux_span span;
        if (spex_aux_open(file, i, &cursor))
            exit(1);
        while (spex_aux_next(cursor, &span) == SPEX_OK) {
            /* As a consumer of 64-byte items would: a cut one comes again. */
            size_t rest = span.last ? 0 : span.size % 64;
            sum += look(span.data, span.size - rest);
            *bytes += span.size - rest;
            spex_aux_keep(cursor, rest);
        }
        spex_aux_close(cursor);
    }
    spex_perfdata_close(file);
    return sum;
}

static double resident(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

int main(void)
{
    const char *directory = getenv("TMPDIR"), *mb = getenv("SPEX_BENCH_MB");
    uint64_t size = (mb ? strtoull(mb, NULL, 10) : 1000) * 1000000, bytes = 0;
    double once = 1e9, ours = 1e9, start;
    volatile uint64_t sink;
    char path[4096];
    snprintf(path, sizeof path, "%s/spex-bench-XXXXXX", directory ? directory : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    start = seconds();
    make(path, size);
    double write = seconds() - start;
    for (int i = 0; i < ROUNDS; i++) {
        start = seconds();
        sink = read_once(path);
        double time = seconds() - start;
        once = time < once ? time : once;
        start = seconds();
        sink = split(path, &bytes);
        time = seconds() - start;
        ours = time < ours ? time : ours;
    }
    (void)sink;
    unlink(path);
    double gb = (double)bytes / 1e9;
    printf("perfdata.read-once\t%.2f\tGB/s\t1.00\tread(2), every byte looked at\n", gb / once);
    printf("perfdata.split\t%.2f\tGB/s\t%.2f\ttime of reading the file once\n", gb / ours,
           ours / once);
    printf("perfdata.split-resident\t%.1f\tMB\t\tpeak, file of %.1f GB\n", resident(), gb);
    printf("perfdata.write\t%.2f\tGB/s\t%.2f\ttime of reading the file once\n", gb / write,
           write / once);
    return 0;
}
