/* spex stat on a machine with SPE. */
#include "native_stat.h"
#include "stat_data.h"

#include "table.h"

#include "native/count.h"

#include <spex/spu.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void row(uint64_t value, const char *name, const char *text)
{
    char number[32];
    if (stat_data_row(value, name, text))
        return;
    fprintf(stderr, "%20s  %-24s%s\n", text_count(number, value), name, text);
}

static void say_counters(const struct native_totals *t)
{
    static const char *const meaning[NATIVE_COUNTS] = {
        "operations of the sample population", "sampled operations",
        "of those not filtered: records", "not sampled: another sample was in flight"};
    bool any = false;
    for (unsigned i = 0; i < NATIVE_COUNTS; i++)
        if (t->counted[i]) {
            row(t->count[i], native_count_names[i], meaning[i]);
            any = true;
        }
    if (!any && !stat_data())
        fprintf(stderr, "%20s  %-24s%s\n", "-", "sample_*",
                "this CPU's PMU does not count them, or users may not");
}

static void say_period(const struct native_totals *t, uint64_t samples, uint64_t period,
                       uint64_t least)
{
    const char *why;
    struct native_run_figures f = {
        .period = period,
        .least = least,
        .samples = samples,
        .collisions = t->counted[COUNT_COLLISION] ? t->count[COUNT_COLLISION] : t->collided,
        .truncated = t->truncated};
    uint64_t better = native_recommend(&f, &why);
    if (stat_data())
        return;
    fprintf(stderr, "\n");
    if (better == period)
        cli_note("the period %" PRIu64 " suits: %s", period, why);
    else
        cli_note("-c %" PRIu64 " would suit better than %" PRIu64 ": %s", better, period, why);
}

void native_stat_print(const struct native_totals *t, uint64_t samples, uint64_t period,
                       uint64_t least)
{
    double own = (double)t->own_us / 1e6, program = (double)t->program_us / 1e6;
    uint64_t selected = samples + t->count[COUNT_COLLISION];
    if (!stat_data())
        fputc('\n', stderr);
    row(samples, "records", "");
    say_counters(t);
    row(t->aux_buffers, "buffers", "each an interrupt or a switch of threads");
    row(t->truncated, "truncated", "full before they were read");
    row(t->collided, "with collisions", "");
    row(t->lost, "events lost", "");
    if (t->counted[COUNT_COLLISION] && selected && !stat_data())
        fprintf(stderr, "%19.2f%%  %-24s%s\n",
                100.0 * (double)t->count[COUNT_COLLISION] / (double)selected, "collision rate",
                "of the samples that were due");
    if (program > 0 && !stat_data())
        fprintf(stderr, "%19.2f%%  %-24s%s\n", 100 * own / program, "overhead",
                "CPU time of spex, to the program's; SPE's own is in the program's");
    say_period(t, samples, period, least);
}
