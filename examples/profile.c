/*
 * Reading a profile with libspex-profile: the functions that a perf.data file with Arm SPE samples
 * shows to be hot, with their latencies, misses and where their data came from. docs/profile.md
 * walks through it.
 *
 *     cc profile.c $(pkg-config --cflags --libs spex-profile) -o profile
 *     ./profile perf.data
 */
#include <spex/analysis.h>

#include <stdio.h>

enum { ROWS = 10 };

static void print_row(const struct spex_group *group, const struct spex_row *row, uint64_t all)
{
    uint64_t samples = spex_row_stat(row, SPEX_STAT_SAMPLES);
    uint64_t accesses = spex_row_stat(row, SPEX_STAT_L1_ACCESS);
    uint64_t misses = spex_row_stat(row, SPEX_STAT_L1_MISS);
    char name[200];
    spex_row_text(group, row, 0, name, sizeof name);
    printf("%5.1f%% %8llu %6d %6d %5.1f%% %8llu  %s\n", 100.0 * (double)samples / (double)all,
           (unsigned long long)samples, spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.5),
           spex_row_latency(group, row, SPEX_LATENCY_TOTAL, 0.95),
           accesses ? 100.0 * (double)misses / (double)accesses : 0.0,
           (unsigned long long)spex_row_source(row, SPEX_SOURCE_DRAM), name);
}

int main(int argc, char **argv)
{
    static const enum spex_key by_symbol[] = {SPEX_KEY_SYMBOL};
    struct spex_analysis_options options = {.size = sizeof options, .want = SPEX_WANT_SYMBOL};
    struct spex_group_options table = {
        .size = sizeof table, .keys = by_symbol, .key_count = 1, .flags = SPEX_GROUP_PERCENTILES};
    struct spex_analysis *profile;
    struct spex_group *group;
    struct spex_error error;
    if (spex_analysis_open(argc > 1 ? argv[1] : "perf.data", &options, &profile, &error) ||
        spex_group_new(profile, &table, &group, &error) ||
        spex_analysis_run(profile, spex_group_sink, group, &error)) {
        fprintf(stderr, "profile: %s\n", error.text);
        return 1;
    }
    const struct spex_totals *totals = spex_analysis_totals(profile);
    spex_group_sort(group, SPEX_BY_SAMPLES);
    printf("%llu samples in %llu bytes of SPE data\n", (unsigned long long)totals->kept,
           (unsigned long long)totals->bytes);
    if (totals->damaged)
        printf("%llu bytes were damaged, the first at 0x%llx: %s\n",
               (unsigned long long)totals->damaged_bytes, (unsigned long long)totals->first_damage,
               totals->damage_reason);
    printf("%6s %8s %6s %6s %6s %8s  %s\n", "share", "samples", "p50", "p95", "miss", "dram",
           "symbol");
    for (size_t i = 0; i < ROWS && i < spex_group_count(group); i++)
        print_row(group, spex_group_row(group, i), totals->kept);
    spex_group_free(group);
    spex_analysis_close(profile);
    return 0;
}
