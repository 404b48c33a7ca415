/*
 * What a program with the installed headers and libraries alone can say of a profile, for
 * comparison with the commands:
 *   reader stacks FILE    "PC <tab> CALLER < CALLER ..." for each sample, the nearest first
 *   reader threads FILE   "TID <tab> SAMPLES" for each thread, counted by four threads in a table,
 *                         in one that a sink fills, and by a sink of our own; all must agree
 *   reader files FILE     "part <tab> NAME <tab> RECORDS", "extent <tab> FIRST <tab> LAST" and, for
 *                         each module with samples, "KIND <tab> PATH <tab> BUILD ID <tab> OPENED
 *                         <tab> BYTES IN THE FILE"
 *   reader findings FILE  "PLACE <tab> SAMPLES <tab> SHARE" of each finding, then "0xLINE <tab>
 *                         NAME <tab> SAMPLES" of the lines that threads share
 */
#include <spex/findings.h>
#include <spex/sinks.h>
#include <spex/stacks.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct spex_error error;

static enum spex_status print_stack(void *analysis, const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct spex_call *call;
        uint32_t n = spex_sample_stack(analysis, &samples[i]);
        printf("0x%" PRIx64 "\t", samples[i].pc);
        for (const char *before = ""; n; n = call->caller, before = " < ") {
            call = spex_analysis_call(analysis, n);
            printf("%s%s", before, call->symbol && call->symbol->name ? call->symbol->name : "?");
        }
        printf("\n");
    }
    return SPEX_OK;
}

static enum spex_status stacks(const char *path)
{
    const struct spex_symbols_options symbols = {.size = sizeof symbols};
    const struct spex_analysis_options options = {
        .size = sizeof options, .want = SPEX_WANT_SYMBOL | SPEX_WANT_STACK, .symbols = &symbols};
    struct spex_analysis *analysis;
    enum spex_status status = spex_analysis_open(path, &options, &analysis, &error);
    if (status != SPEX_OK)
        return status;
    if (spex_analysis_stacks(analysis) != SPEX_STACKS_NONE)
        status = spex_analysis_each(analysis, print_stack, analysis, &error);
    spex_analysis_close(analysis);
    return status;
}

/* A sink that threads have shards of; made counts those that are not yet dropped. */
struct counter {
    uint64_t samples;
    unsigned *shards;
};

static void count_samples(void *context, const struct spex_sample *samples, size_t count)
{
    struct counter *counter = context;
    (void)samples;
    counter->samples += count;
}

static void *split_counter(void *context, unsigned threads)
{
    const struct counter *of = context;
    struct counter *shard = calloc(1, sizeof *shard);
    (void)threads;
    if (shard) {
        shard->shards = of->shards;
        ++*of->shards;
    }
    return shard;
}

static bool join_counters(void *to, void *from)
{
    ((struct counter *)to)->samples += ((struct counter *)from)->samples;
    return true;
}

static void take_counter(void *context, void *sum)
{
    ((struct counter *)context)->samples = ((struct counter *)sum)->samples;
}

static void drop_counter(void *shard)
{
    free(shard);
}

struct memory_only {
    struct spex_feed feed;
    struct spex_group *groups[1];
};

static void feed_memory(void *context, const struct spex_sample *samples, size_t count)
{
    const struct memory_only *m = context;
    for (size_t i = 0; i < count; i++)
        if (spex_sample_memory(&samples[i]))
            spex_group_sink(m->feed.groups[0], &samples[i], 1);
}

static enum spex_status count_threads(struct spex_analysis *analysis)
{
    static const struct spex_sink_shards shards = {split_counter, join_counters, take_counter,
                                                   drop_counter};
    static const enum spex_key keys[] = {SPEX_KEY_TID};
    const struct spex_group_options table = {.size = sizeof table, .keys = keys, .key_count = 1};
    unsigned made = 0;
    struct counter counter = {.shards = &made};
    struct memory_only memory = {.feed = {sizeof memory, memory.groups, 1}};
    struct spex_group *group = NULL;
    enum spex_status status = spex_group_new(analysis, &table, &group, &error);
    if (!status)
        status = spex_group_new(analysis, &table, &memory.groups[0], &error);
    const struct spex_sink sinks[] = {spex_sink_group(group),
                                      spex_sink_groups(&memory.feed, feed_memory),
                                      {count_samples, &counter, &shards, NULL}};
    if (!status)
        status = spex_analysis_pass(analysis, sinks, 3, &error);
    if (!status)
        status = spex_group_sort(group, SPEX_BY_SAMPLES);
    if (!status)
        status = spex_group_sort(memory.groups[0], SPEX_BY_SAMPLES);
    for (size_t i = 0; !status && i < spex_group_count(group); i++) {
        const struct spex_row *row = spex_group_row(group, i);
        printf("%" PRIu64 "\t%" PRIu64 "\n", spex_row_value(group, row, 0),
               spex_row_stat(row, SPEX_STAT_SAMPLES));
    }
    if (!status)
        printf("all\t%" PRIu64 "\nmemory\t%" PRIu64 "\nshards\t%u\n", counter.samples,
               spex_row_stat(spex_group_total(memory.groups[0]), SPEX_STAT_SAMPLES), made);
    spex_group_free(group);
    spex_group_free(memory.groups[0]);
    return status;
}

static enum spex_status threads(const char *path)
{
    const struct spex_analysis_options options = {
        .size = sizeof options, .want = SPEX_WANT_DATA, .threads = 4};
    struct spex_analysis *analysis;
    enum spex_status status = spex_analysis_open(path, &options, &analysis, &error);
    if (status != SPEX_OK)
        return status;
    status = count_threads(analysis);
    spex_analysis_close(analysis);
    return status;
}

static void print_module(struct spex_module *module)
{
    static const char *const kinds[] = {"file", "kernel", "jit", "code", "none"};
    struct spex_segment segment;
    uint64_t in_file = 0;
    size_t size;
    const uint8_t *id = spex_module_build_id(module, true, &size);
    const char *file = spex_module_file(module);
    printf("%s\t%s\t", kinds[spex_module_kind(module)], spex_module_path(module));
    for (size_t i = 0; i < size; i++)
        printf("%02x", id[i]);
    for (size_t i = 0; spex_module_segment(module, i, &segment); i++)
        in_file += segment.file_size;
    printf("\t%s\t%" PRIu64 "\n", file ? file : "", in_file);
}

static enum spex_status files(const char *path, const char *symfs)
{
    const struct spex_symbols_options symbols = {.size = sizeof symbols, .symfs = symfs};
    const struct spex_analysis_options options = {
        .size = sizeof options, .want = SPEX_WANT_BASE, .symbols = &symbols};
    struct spex_analysis *analysis;
    struct spex_module *module;
    struct spex_part part;
    uint64_t first, last;
    enum spex_status status = spex_analysis_open(path, &options, &analysis, &error);
    if (status != SPEX_OK)
        return status;
    spex_analysis_want(analysis, SPEX_WANT_SYMBOL);
    status = spex_analysis_run(analysis, NULL, NULL, &error);
    spex_analysis_extent(analysis, &first, &last);
    for (size_t i = 0; !status && spex_analysis_part(analysis, i, &part); i++)
        printf("part\t%s\t%" PRIu64 "\n", part.name, part.totals->records);
    printf("extent\t%" PRIu64 "\t%" PRIu64 "\n", first, last);
    for (size_t i = 0; (module = spex_symbols_nth(spex_analysis_symbols(analysis), i)); i++)
        if (spex_module_samples(module, true))
            print_module(module);
    spex_analysis_close(analysis);
    return status;
}

static enum spex_status print_lines(struct spex_analysis *analysis,
                                    const struct spex_sharing *sharing)
{
    const struct spex_shared_line *line;
    char text[200];
    for (size_t i = 0; (line = spex_sharing_line(sharing, i)); i++) {
        struct spex_finding *finding;
        enum spex_status status = spex_finding_of_line(analysis, sharing, line, &finding);
        if (status)
            return status;
        spex_finding_line_text(analysis, sharing, line, text, sizeof text);
        printf("0x%" PRIx64 "\t%s\t%.0f\n", line->address, text,
               spex_finding_number(finding, "samples"));
        spex_finding_free(finding);
    }
    return SPEX_OK;
}

static enum spex_status find(struct spex_analysis *analysis, struct spex_findings *findings,
                             struct spex_sharing *sharing)
{
    const struct spex_sink first[] = {spex_sink_findings(findings), spex_sink_find(sharing)};
    const struct spex_sink second = spex_sink_look(sharing);
    const struct spex_finding *finding;
    enum spex_status status = spex_analysis_pass(analysis, first, 2, &error);
    if (!status)
        status = spex_findings_finish(findings, NULL);
    for (size_t i = 0; !status && (finding = spex_findings_at(findings, i)); i++)
        printf("%s\t%" PRIu64 "\t%.6f\n", finding->place ? finding->place : "", finding->samples,
               finding->share);
    if (!status && spex_sharing_choose(sharing))
        status = spex_analysis_pass(analysis, &second, 1, &error);
    if (!status)
        status = spex_sharing_finish(sharing);
    return status ? status : print_lines(analysis, sharing);
}

static enum spex_status find_all(const char *path)
{
    const struct spex_symbols_options symbols = {.size = sizeof symbols};
    const struct spex_analysis_options options = {.size = sizeof options,
                                                  .want = SPEX_WANT_SYMBOL | SPEX_WANT_DATA |
                                                          SPEX_WANT_SPENT | SPEX_WANT_TIME,
                                                  .symbols = &symbols};
    struct spex_analysis *analysis;
    struct spex_findings *findings = NULL;
    struct spex_sharing *sharing = NULL;
    enum spex_status status = spex_analysis_open(path, &options, &analysis, &error);
    if (status != SPEX_OK)
        return status;
    status = spex_findings_new(analysis, &findings, &error);
    if (!status)
        status = spex_sharing_new(analysis, &sharing, &error);
    if (!status)
        status = find(analysis, findings, sharing);
    spex_sharing_free(sharing);
    spex_findings_free(findings);
    spex_analysis_close(analysis);
    return status;
}

int main(int argc, char **argv)
{
    enum spex_status status = SPEX_INVALID;
    if (argc == 3 && !strcmp(argv[1], "stacks"))
        status = stacks(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "threads"))
        status = threads(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "findings"))
        status = find_all(argv[2]);
    if (argc >= 3 && !strcmp(argv[1], "files"))
        status = files(argv[2], argc > 3 ? argv[3] : NULL);
    if (status != SPEX_OK)
        fprintf(stderr, "reader: %s\n", error.text);
    return status != SPEX_OK;
}
