/* What a user of libspex-profile writes: make a perf.data, read it, group it. C11 and C++11,
 * strictly. */
#include <spex/analysis.h>
#include <spex/datasource.h>
#include <spex/generate.h>
#include <spex/perfdata.h>
#include <spex/symbols.h>

#include <stdio.h>
#include <string.h>

static const char path[] = "install-test.data";
enum { RECORDS = 100 };

static int make(void)
{
    static uint8_t bytes[RECORDS * SPEX_RECORD_MAX];
    struct spex_perf_writer_options options;
    struct spex_perf_writer *writer;
    struct spex_generate_options how;
    struct spex_generator *generator;
    struct spex_record record;
    struct spex_error error;
    size_t size = 0;
    int i;
    memset(&how, 0, sizeof how);
    how.size = sizeof how;
    how.features = "neoverse-n1";
    how.ops = SPEX_GENERATE_LOAD;
    if (spex_generator_new(&how, &generator, &error))
        return 1;
    for (i = 0; i < RECORDS; i++)
        size += spex_generator_next(generator, bytes + size, &record);
    spex_generator_free(generator);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.cpus = 1;
    options.period = 1024;
    options.midr = 0x413fd0c1;
    spex_perf_time_init(&options.time, 1000000000);
    if (spex_perf_writer_open(path, &options, &writer, &error))
        return 1;
    spex_perf_writer_comm(writer, 7, 7, "user", true, 0);
    spex_perf_writer_itrace_start(writer, 0, 7, 7, 1);
    spex_perf_writer_aux(writer, 0, 7, 7, bytes, size, 0, 2);
    return spex_perf_writer_finish(writer, &error);
}

static int look(void)
{
    static const enum spex_key keys[] = {SPEX_KEY_COMM, SPEX_KEY_OP};
    struct spex_analysis_options options;
    struct spex_group_options table;
    struct spex_analysis *analysis;
    struct spex_group *group;
    struct spex_error error;
    uint64_t samples;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    memset(&table, 0, sizeof table);
    table.size = sizeof table;
    table.keys = keys;
    table.key_count = 2;
    if (spex_analysis_open(path, &options, &analysis, &error) ||
        spex_group_new(analysis, &table, &group, &error) ||
        spex_analysis_run(analysis, spex_group_sink, group, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    spex_group_sort(group, SPEX_BY_SAMPLES);
    samples = spex_row_stat(spex_group_total(group), SPEX_STAT_SAMPLES);
    table.key_count = SPEX_KEYS_MAX + 1;
    if (spex_group_new(analysis, &table, &group, &error) != SPEX_RANGE)
        return 2;
    spex_group_free(group);
    spex_analysis_close(analysis);
    return samples == RECORDS ? 0 : 3;
}

int main(void)
{
    if (make() || look())
        return 1;
    remove(path);
    printf("libspex-profile works\n");
    return 0;
}
