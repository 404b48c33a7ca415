#include "elapsed.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 5 };
#define LEAST 0.01 /* of the elapsed time: less is not worth a line */

static uint64_t all_of(const struct spex_elapsed_sum *sum)
{
    return sum->ns[SPEX_ELAPSED_RUNS] + sum->ns[SPEX_ELAPSED_KERNEL] + sum->ns[SPEX_ELAPSED_WAITS];
}

static struct spex_elapsed_sum sum_of(const struct spex_elapsed *elapsed)
{
    struct spex_elapsed_sum sum = {.size = sizeof sum};
    spex_elapsed_add_up(elapsed, &sum);
    return sum;
}

static bool worth_it(const struct spex_elapsed_sum *sum)
{
    return (double)(all_of(sum) - sum->ns[SPEX_ELAPSED_RUNS]) >= LEAST * (double)all_of(sum);
}

struct spex_elapsed *elapsed_of(struct profile *p)
{
    struct spex_elapsed *elapsed;
    struct spex_error error;
    if (p->filter_count || !spex_analysis_file(p->analysis))
        return NULL;
    if (spex_elapsed_new(p->analysis, false, &elapsed, &error)) {
        cli_error("%s", error.text);
        return NULL;
    }
    const struct spex_elapsed_sum sum = sum_of(elapsed);
    if (sum.threads && all_of(&sum))
        return elapsed;
    spex_elapsed_free(elapsed);
    return NULL;
}

void elapsed_header(const struct spex_elapsed *elapsed, struct profile *p)
{
    static const char *const words[] = {"running", "in the kernel", "waiting"};
    char time[32], threads[32], parts[300];
    size_t n = 0;
    if (!elapsed)
        return;
    const struct spex_elapsed_sum sum = sum_of(elapsed);
    if (!worth_it(&sum))
        return;
    for (unsigned i = 0; i < SPEX_ELAPSED_STATES; i++)
        if (sum.ns[i])
            n += (size_t)snprintf(parts + n, sizeof parts - n, "%s%.1f%% %s", n ? ", " : "",
                                  100 * ratio_of(sum.ns[i], all_of(&sum)), words[i]);
    const struct spex_elapsed_row *row = spex_elapsed_at(elapsed, 0);
    if (row && row->object)
        snprintf(parts + n, sizeof parts - n, "; %.1f%% is %s for %.100s",
                 100 * ratio_of(row->ns, all_of(&sum)), row->what, row->object);
    profile_comment(p, &p->out, "elapsed: %s of %s thread%s: %s",
                    text_time(time, (double)all_of(&sum)), text_count(threads, sum.threads),
                    sum.threads == 1 ? "" : "s", parts);
}

static const struct table_column columns[] = {
    {"elapsed", "elapsed", TABLE_PERCENT, 0, "share of the elapsed time of all threads"},
    {"time_ns", "ns", TABLE_COUNT, 255, "time"},
    {"time", "time", TABLE_TEXT, 10, "time"},
    {"threads", "threads", TABLE_COUNT, 20, "threads that did so"},
    {"calls", "calls", TABLE_COUNT, 10, "system calls, or times that threads were switched out"},
    {"state", "state", TABLE_TEXT, 255, "kernel or waiting"},
    {"call", "call", TABLE_TEXT, 255, "the system call"},
    {"what", "not running", TABLE_TEXT, 0, "what the time was spent on", true},
    {"object", "for", TABLE_TEXT, 0, "the futex that it waits at", true},
    {"through", "through", TABLE_TEXT, 255, "function of a library that was called for it"},
    {"function", "called from", TABLE_TEXT, 0, "function that calls", true},
    {"line", "line", TABLE_TEXT, 5, "its source line", true},
    {0},
};

static struct table *make_table(const struct spex_elapsed *elapsed, bool all, size_t most)
{
    const struct spex_elapsed_sum sum = sum_of(elapsed);
    struct table *table = table_new(columns);
    const struct spex_elapsed_row *row;
    for (size_t i = 0; (row = spex_elapsed_at(elapsed, i)) && (!most || i < most); i++) {
        const double share = ratio_of(row->ns, all_of(&sum));
        char time[32];
        if (!all && share < LEAST)
            break;
        table_row(table);
        table_set(table, "elapsed", share);
        table_set_u64(table, "time_ns", row->ns);
        if (!all)
            table_set_text(table, "time", text_time(time, (double)row->ns));
        table_set_u64(table, "threads", row->threads);
        table_set_u64(table, "calls", row->calls);
        table_set_text(table, "state", row->state == SPEX_ELAPSED_KERNEL ? "kernel" : "waiting");
        const char *const cells[][2] = {{"call", row->call},         {"what", row->what},
                                        {"object", row->object},     {"through", row->through},
                                        {"function", row->function}, {"line", row->line}};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++)
            if (cells[k][1])
                table_set_text(table, cells[k][0], cells[k][1]);
    }
    if (all)
        table_hide(table, "time");
    return table;
}

void elapsed_print(const struct spex_elapsed *elapsed, struct profile *p)
{
    if (!elapsed || p->options->format != TABLE_AS_TEXT || p->options->fields)
        return;
    const struct spex_elapsed_sum sum = sum_of(elapsed);
    struct table *table = make_table(elapsed, false, ROWS);
    if (worth_it(&sum) && table_rows(table)) {
        const struct table_options how = profile_table(p);
        out_char(&p->out, '\n');
        table_print(table, &p->out, &how);
    }
    table_free(table);
}

void elapsed_json(const struct spex_elapsed *elapsed, size_t most, struct json *json)
{
    json_name(json, "elapsed");
    if (!elapsed) {
        json_null(json);
        return;
    }
    const struct spex_elapsed_sum sum = sum_of(elapsed);
    struct table *table = make_table(elapsed, true, most);
    json_object(json);
    JSON_MEMBER(json, "threads", u64, sum.threads);
    JSON_MEMBER(json, "time_ns", u64, all_of(&sum));
    JSON_MEMBER(json, "running_ns", u64, sum.ns[SPEX_ELAPSED_RUNS]);
    JSON_MEMBER(json, "kernel_ns", u64, sum.ns[SPEX_ELAPSED_KERNEL]);
    JSON_MEMBER(json, "waiting_ns", u64, sum.ns[SPEX_ELAPSED_WAITS]);
    json_name(json, "rows");
    table_json(table, json);
    json_end(json);
    table_free(table);
}
