#include "slices.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>

struct slices {
    struct spex_feed feed; /* fills the groups */
    struct spex_group *groups[SLICES_MOST];
    unsigned count;
    uint64_t first;
    double width; /* ns */
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct slices *s = context;
    for (size_t i = 0; i < count; i++) {
        if (!(samples[i].flags & SPEX_SAMPLE_TIMED) || samples[i].time < s->first)
            continue;
        double at = (double)(samples[i].time - s->first) / s->width;
        unsigned slice = at < s->count ? (unsigned)at : s->count - 1;
        const struct spex_sample *one = &samples[i];
        spex_group_add(s->feed.groups[slice], &one, 1);
    }
}

static double time_in(struct spex_group *slice, const struct spex_row *row)
{
    const struct spex_row *there = spex_group_find_like(slice, row);
    if (!there)
        memory_checked(NULL);
    return spex_row_time(there);
}

/* The time of a row in a slice, as a share of the slice's time. */
static double share_in(struct spex_group *slice, const struct spex_row *row, double all)
{
    return all > 0 ? time_in(slice, row) / all : NAN;
}

static struct table *make_table(struct profile *p, struct slices *s, const struct spex_group *group,
                                const enum spex_key *keys, size_t key_count,
                                const struct table_column *columns)
{
    double totals[SLICES_MOST] = {0}, all = spex_row_time(spex_group_total(group));
    struct table *table = table_new(columns);
    size_t shown = 0, rows = spex_group_count(group);
    for (unsigned i = 0; i < s->count; i++)
        for (size_t r = 0; r < rows; r++)
            totals[i] += time_in(s->groups[i], spex_group_row(group, r));
    for (size_t r = 0; r < rows; r++) {
        const struct spex_row *row = spex_group_row(group, r);
        double share = spex_row_time(row) / all, most = 0;
        for (unsigned i = 0; i < s->count; i++)
            most = fmax(most, share_in(s->groups[i], row, totals[i]));
        if (share < p->limit && most < 10 * p->limit && shown)
            continue; /* small everywhere */
        shown++;
        table_row(table);
        table_set(table, "time", share);
        for (unsigned i = 0; i < s->count; i++) {
            double part = share_in(s->groups[i], row, totals[i]);
            if (p->options->format == TABLE_AS_TEXT && part >= 0)
                table_printf(table, columns[1 + i].name, part < 0.005 ? "." : "%.0f", 100 * part);
            else if (p->options->format != TABLE_AS_TEXT)
                table_set(table, columns[1 + i].name, part);
        }
        columns_fill_keys(table, group, row, keys, key_count);
    }
    return table;
}

int slices_print(struct profile *p, const struct spex_group *group, const enum spex_key *keys,
                 size_t key_count, unsigned count)
{
    const struct spex_totals *t = spex_analysis_totals(p->analysis);
    if (spex_row_time(spex_group_total(group)) <= 0) {
        cli_error(
            "--slices: time is not known, since the records have no timestamps (ts_enable=1)");
        return CLI_DATA;
    }
    struct slices s = {.feed = {sizeof s, s.groups, count}, .count = count, .first = t->first_time};
    s.width = (double)(t->last_time - t->first_time + 1) / count;
    for (unsigned i = 0; i < count; i++)
        s.groups[i] = profile_group(p, keys, key_count, 0);
    int status = profile_run(p, spex_sink_groups(&s.feed, feed));
    struct table_column columns[1 + SLICES_MOST + SPEX_KEYS_MAX + 1] = {
        {"time", "time", TABLE_PERCENT, 0, "share of the time"}};
    char names[SLICES_MOST][2][16];
    for (unsigned i = 0; i < count; i++) {
        snprintf(names[i][0], sizeof names[i][0], "slice_%u", i + 1);
        snprintf(names[i][1], sizeof names[i][1], "%u", i + 1);
        columns[1 + i] =
            (struct table_column){names[i][0], names[i][1],
                                  p->options->format == TABLE_AS_TEXT ? TABLE_TEXT : TABLE_PERCENT,
                                  0, "share of that part of the time"};
    }
    for (size_t k = 0; k < key_count; k++)
        columns[1 + count + k] = (struct table_column){spex_key_name(keys[k]),
                                                       spex_key_name(keys[k]),
                                                       TABLE_TEXT,
                                                       0,
                                                       columns_key_help(keys[k]),
                                                       true};
    if (!status) {
        struct table *table = make_table(p, &s, group, keys, key_count, columns);
        struct table_options how = profile_table(p);
        profile_header(p, &p->out);
        profile_comment(p, &p->out,
                        "percent of the time of each of %u parts of %.3g ms; .: less than half a "
                        "percent; see one with --time %.4g%%/N",
                        count, s.width / 1e6, 100.0 / count);
        table_print(table, &p->out, &how);
        if (how.format == TABLE_AS_JSON) {
            struct json json = profile_json(p, "spex.slices.1");
            JSON_MEMBER(&json, "first_time", u64, s.first);
            JSON_MEMBER(&json, "slice_ns", u64, (uint64_t)llround(s.width));
            json_name(&json, "rows");
            table_json(table, &json);
            json_end(&json);
        }
        table_free(table);
    }
    for (unsigned i = 0; i < count; i++)
        spex_group_free(s.groups[i]);
    return status;
}
