/* Cache lines that threads contend for, as spex c2c shows them. */
#include "report/internal.h"

#include "base/memory.h"
#include "report/words.h"

#include <stdlib.h>

/* However long its text is. */
static void write_key(const struct spex_group *group, const struct spex_row *row, size_t key,
                      const char *name, struct json *json)
{
    const size_t size = spex_row_text(group, row, key, NULL, 0) + 1;
    char *text = memory_get(size, 1);
    spex_row_text(group, row, key, text, size);
    json_name(json, name);
    json_string(json, text);
    free(text);
}

static void write_use(const struct spex_sharing *s, const struct spex_shared_use *use,
                      struct json *json)
{
    const struct spex_group *group = spex_sharing_group(s);
    const struct spex_stats t = stats_of(use->row);
    json_object(json);
    JSON_MEMBER(json, "offset", u64, use->offset);
    JSON_MEMBER(json, "tid", i64, use->tid);
    JSON_MEMBER(json, "comm", string, use->comm);
    JSON_MEMBER(json, "loads", u64, t.reads);
    JSON_MEMBER(json, "stores", u64, t.writes);
    JSON_MEMBER(json, "peer", u64, t.peer);
    JSON_MEMBER(json, "p50", i64, spex_row_latency(group, use->row, SPEX_LATENCY_TOTAL, 0.5));
    JSON_MEMBER(json, "p95", i64, spex_row_latency(group, use->row, SPEX_LATENCY_TOTAL, 0.95));
    write_key(group, use->row, SPEX_USE_SRCLINE, "srcline", json);
    write_key(group, use->row, SPEX_USE_SYMBOL, "symbol", json);
    json_end(json);
}

void sharing_write(struct report *r, const struct limits *limits, struct json *json)
{
    static const char *const kinds[] = {"false", "true", "mixed"};
    const struct spex_sharing *s = r->sharing;
    const struct spex_sharing_totals *t = spex_sharing_totals(s);
    const struct spex_shared_line *line;
    json_name(json, "sharing");
    json_object(json);
    JSON_MEMBER(json, "memory", u64, t->memory);
    JSON_MEMBER(json, "lines_seen", u64, t->lines);
    JSON_MEMBER(json, "lines_shared", u64, t->shared);
    JSON_MEMBER(json, "by_source", bool, t->sources);
    JSON_MEMBER(json, "by_time", bool, t->timed);
    json_name(json, "lines");
    json_array_lines(json);
    for (size_t i = 0; (line = spex_sharing_line(s, i)) && i < limits->uses; i++) {
        json_object(json);
        JSON_MEMBER(json, "address", hex, line->address);
        JSON_MEMBER(json, "pid", i64, line->pid);
        const size_t size = spex_finding_line_text(r->analysis, s, line, NULL, 0) + 1;
        char *name = memory_get(size, 1);
        spex_finding_line_text(r->analysis, s, line, name, size);
        JSON_MEMBER(json, "name", string, name);
        free(name);
        JSON_MEMBER(json, "kind", string, kinds[line->kind]);
        struct spex_finding *finding = NULL;
        if (spex_finding_of_line(r->analysis, s, line, &finding))
            memory_checked(NULL);
        JSON_MEMBER(json, "lock", bool, finding->kind == SPEX_FINDING_LOCK);
        char *found = words_of(finding, WORDS_FOUND, true);
        char *advice = words_of(finding, WORDS_DO, true);
        JSON_MEMBER(json, "text", string, found);
        JSON_MEMBER(json, "do", string, advice);
        free(found);
        free(advice);
        spex_finding_free(finding);
        JSON_MEMBER(json, "score", real, line->score);
        JSON_MEMBER(json, "contention", real, line->contention);
        JSON_MEMBER(json, "overlap", real, line->overlap);
        JSON_MEMBER(json, "samples", u64, line->samples);
        JSON_MEMBER(json, "loads", u64, line->loads);
        JSON_MEMBER(json, "stores", u64, line->stores);
        JSON_MEMBER(json, "peer", u64, line->peer);
        JSON_MEMBER(json, "with_source", u64, line->with_source);
        JSON_MEMBER(json, "threads", u64, line->threads);
        JSON_MEMBER(json, "writers", u64, line->writers);
        json_name(json, "uses");
        json_array(json);
        for (size_t u = 0; u < line->uses && u < limits->uses; u++)
            write_use(s, spex_sharing_use(s, line->first_use + u), json);
        json_end(json);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}
