#include "mem_type.h"

#include "columns.h"

#include "base/memory.h"
#include "base/order.h"
#include "cli/perf_words.h"

#include <spex/data.h>

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, LINES_MOST = 4096 };

/* The key for the member comes last. */
static const enum spex_key keys[] = {SPEX_KEY_TYPE, SPEX_KEY_TYPE_LINE, SPEX_KEY_TYPE_OFFSET,
                                     SPEX_KEY_MEMBER};
enum { KEYS = sizeof keys / sizeof *keys, MEMBER = KEYS - 1 };

struct by_type {
    struct spex_analysis *analysis;
    struct spex_group *group;
    const char *wanted;
    const char *type; /* type of the last sample, and whether it is the one asked for */
    bool matches;
    uint64_t samples, spent; /* samples and time of all accesses */
};

static void feed(void *context, const struct spex_sample *samples, size_t count)
{
    struct by_type *b = context;
    const struct spex_sample *chosen[SPEX_RECORD_BATCH];
    for (size_t at = 0; at < count;) {
        size_t n = 0;
        for (; at < count && n < SPEX_RECORD_BATCH; at++) {
            const struct spex_sample *s = &samples[at];
            if (!spex_sample_memory(s))
                continue;
            b->samples++;
            b->spent += s->spent;
            const struct spex_member *m = spex_sample_member(b->analysis, s);
            if (m->type != b->type) {
                b->type = m->type;
                b->matches = m->known && !fnmatch(b->wanted, m->type, FNM_NOESCAPE);
            }
            if (b->matches)
                chosen[n++] = s;
        }
        spex_group_add(b->group, chosen, n);
    }
}

static const struct spex_member *member_of(const struct spex_group *group,
                                           const struct spex_row *row)
{
    return spex_row_member(group, row, MEMBER);
}

/* ---- which members belong together ---- */

/* The members of a type that take most of its time. */
struct hot {
    const struct spex_member **members;
    size_t count;
    double share;
    uint64_t bytes;
    unsigned lines, least; /* cache lines that they are on, and the fewest they could be on */
};

struct weighed {
    const struct spex_member *member;
    double cost;
};

static int by_cost(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;
    return x->cost != y->cost ? ORDER(y->cost, x->cost)
                              : ORDER(x->member->offset, y->member->offset);
}

static int by_offset(const void *a, const void *b)
{
    const struct spex_member *const *x = a, *const *y = b;
    return ORDER((*x)->offset, (*y)->offset);
}

/* Computes the bytes and lines of members, ordered by offset; members of unions overlap. */
static void measure(struct hot *hot)
{
    uint64_t end = 0, last_line = UINT64_MAX;
    for (size_t i = 0; i < hot->count; i++) {
        const struct spex_member *m = hot->members[i];
        uint64_t from = m->offset > end ? m->offset : end, to = m->offset + m->size;
        if (to <= from)
            continue;
        hot->bytes += to - from;
        uint64_t first = from / LINE, last = (to - 1) / LINE;
        hot->lines += (unsigned)(last - first) + (first != last_line);
        last_line = last;
        end = to;
    }
    hot->least = (unsigned)((hot->bytes + LINE - 1) / LINE);
}

/* The fewest members with 90% of a type's time; false if the type has no members. */
static bool find_hot(const struct spex_group *group, const char *type, struct hot *hot)
{
    size_t rows = spex_group_count(group), count = 0;
    struct weighed *list = memory_get(rows + 1, sizeof *list);
    double all = 0, sum = 0;
    bool timed = stats_of(spex_group_total(group)).time;
    *hot = (struct hot){.members = memory_get(rows + 1, sizeof *hot->members)};
    for (size_t i = 0; i < rows; i++) {
        const struct spex_row *row = spex_group_row(group, i);
        const struct spex_member *m = member_of(group, row);
        if (m->type != type || m->scalar || m->size > (uint64_t)LINES_MOST * LINE)
            continue;
        list[count++] =
            (struct weighed){m, timed ? spex_row_time(row) : (double)stats_of(row).samples};
        all += list[count - 1].cost;
    }
    qsort(list, count, sizeof *list, by_cost);
    for (size_t i = 0; i < count && sum < 0.9 * all; i++) {
        sum += list[i].cost;
        hot->members[hot->count++] = list[i].member;
    }
    free(list);
    hot->share = all > 0 ? sum / all : 0;
    qsort(hot->members, hot->count, sizeof *hot->members, by_offset);
    measure(hot);
    return hot->count;
}

static void put_names(struct out *out, const struct hot *hot)
{
    for (size_t i = 0; i < hot->count && i < 8; i++) {
        out_text(out, !i ? "" : i + 1 == hot->count ? " and " : ", ");
        out_name(out, hot->members[i]->member);
    }
    if (hot->count > 8)
        out_printf(out, " and %zu more", hot->count - 8);
}

static void print_hot(struct profile *p, const char *type, const struct hot *hot)
{
    struct out text;
    out_init(&text, -1);
    out_name(&text, type);
    out_printf(&text, " (%llu bytes): ", (unsigned long long)hot->members[0]->type_size);
    put_names(&text, hot);
    out_printf(&text, " take%s %.1f%% of its time, in %llu bytes on %u cache line%s",
               hot->count == 1 ? "s" : "", 100 * hot->share, (unsigned long long)hot->bytes,
               hot->lines, hot->lines == 1 ? "" : "s");
    if (hot->lines > hot->least)
        out_printf(&text, "; side by side they take %u", hot->least);
    out_char(&text, 0);
    out_char(&p->out, '\n');
    cli_wrap(&p->out, text.data, 2);
    out_fini(&text);
}

static void json_hot(struct json *json, const char *type, const struct hot *hot)
{
    json_object(json);
    JSON_MEMBER(json, "type", string, type);
    JSON_MEMBER(json, "size", u64, hot->members[0]->type_size);
    json_name(json, "members");
    json_array(json);
    for (size_t i = 0; i < hot->count; i++)
        json_string(json, hot->members[i]->member);
    json_end(json);
    JSON_MEMBER(json, "time", real, hot->share);
    JSON_MEMBER(json, "bytes", u64, hot->bytes);
    JSON_MEMBER(json, "lines", u64, hot->lines);
    JSON_MEMBER(json, "lines_least", u64, hot->least);
    json_end(json);
}

/* Prints them for each type that matched, as text or JSON. */
static void show_hot(struct profile *p, const struct spex_group *group, struct json *json)
{
    const char *last = NULL;
    for (size_t i = 0; i < spex_group_count(group); i++) { /* rows of one type are adjacent */
        const char *type = member_of(group, spex_group_row(group, i))->type;
        struct hot hot;
        if (type == last)
            continue;
        last = type;
        if (find_hot(group, type, &hot)) {
            if (json)
                json_hot(json, type, &hot);
            else
                print_hot(p, type, &hot);
        }
        free(hot.members);
    }
}

/* ---- the table ---- */

static int show(struct profile *p, struct by_type *b)
{
    struct table_column *columns;
    char some[32], all[32];
    bool one = !strpbrk(b->wanted, "*?[");
    const struct spex_stats t = stats_of(spex_group_total(b->group));
    double limit = p->limit;
    if (!p->options->percent_limit)
        p->limit = 0; /* members that nothing uses are part of the answer */
    struct table *table = columns_table(
        p, b->group, keys, KEYS, 0,
        one ? "time,share,samples,loads,stores,execute_p50,execute_p95,l1_miss,from,type-line,"
              "type-offset,member"
            : "time,share,samples,loads,stores,l1_miss,from,type,type-line,type-offset,member",
        &columns);
    p->limit = limit;
    if (!table)
        return CLI_USAGE;
    struct table_options how = profile_table(p);
    if (how.format == TABLE_AS_JSON) {
        struct json json = profile_json(p, "spex.types.1");
        JSON_MEMBER(&json, "memory_samples", u64, b->samples);
        json_name(&json, "together");
        json_array(&json);
        show_hot(p, b->group, &json);
        json_end(&json);
        json_name(&json, "rows");
        table_json(table, &json);
        json_end(&json);
    } else {
        profile_header(p, &p->out);
        profile_comment(
            p, &p->out, "%s of %s memory samples, %.1f%% of their time",
            text_count(some, t.samples), text_count(all, b->samples),
            100 * (b->spent ? (double)t.time / (double)b->spent : ratio_of(t.samples, b->samples)));
        table_print(table, &p->out, &how);
        if (how.format == TABLE_AS_TEXT && !p->options->fields)
            show_hot(p, b->group, NULL);
    }
    table_free(table);
    free(columns);
    return CLI_OK;
}

int mem_by_type(struct profile *p, const char *type)
{
    struct by_type b = {.analysis = p->analysis, .wanted = type};
    b.group = profile_group(p, keys, KEYS, columns_percentiles(p->options));
    p->status = profile_run(p, (struct spex_sink){feed, &b});
    spex_group_sort(b.group, SPEX_BY_KEYS);
    const char *why = "has data of this type: --sort type lists those it has";
    if (perf_word("--type", type, strlen(type)))
        why = "has data of this type; --op load and --op store keep operations";
    if (!p->status && !profile_empty(p, stats_of(spex_group_total(b.group)).samples, why))
        p->status = show(p, &b);
    spex_group_free(b.group);
    return profile_close(p);
}
