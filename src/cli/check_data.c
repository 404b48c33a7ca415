/* The report of spex check for programs: JSON and JUnit. */
#include "check.h"

#include "base/json.h"

#include <math.h>
#include <string.h>

/* ---- JSON ---- */

static void put_counts(struct json *to, const char *name, const struct check_result *r)
{
    json_name(to, name);
    if (!r) {
        json_null(to);
        return;
    }
    json_object(to);
    for (unsigned n = 0; n < CHECK_COUNTS; n++) {
        json_name(to, check_names[n]);
        json_u64(to, r->counts[n]);
    }
    JSON_MEMBER(to, "cycles_low", u64, r->low);
    JSON_MEMBER(to, "cycles_high", u64, r->high);
    JSON_MEMBER(to, "layouts", u64, r->layouts);
    JSON_MEMBER(to, "kernel_cycles", u64, r->kernel);
    JSON_MEMBER(to, "time_ns", u64, r->time);
    json_end(to);
}

static void put_blame(struct json *to, const struct check_blame *b)
{
    json_object(to);
    JSON_MEMBER(to, "function", string, (b->after ? b->after : b->before)->name);
    JSON_MEMBER(to, "cycles", i64, b->cycles);
    JSON_MEMBER(to, "before", u64, b->before ? b->before->counts[CHECK_CYCLES] : 0);
    JSON_MEMBER(to, "after", u64, b->after ? b->after->counts[CHECK_CYCLES] : 0);
    json_name(to, "lines");
    json_array(to);
    for (size_t i = 0; i < b->line_count; i++) {
        const struct check_blamed_line *l = &b->lines[i];
        json_object(to);
        JSON_MEMBER(to, "file", string, (l->after ? l->after : l->before)->file);
        JSON_MEMBER(to, "line", u64, (l->after ? l->after : l->before)->line);
        JSON_MEMBER(to, "cycles", i64, l->cycles);
        json_end(to);
    }
    json_end(to);
    json_end(to);
}

static void put_change(struct json *to, const struct check_change *c)
{
    struct check_blame blames[CHECK_BLAMED];
    size_t count = check_blame(c, blames);
    json_object_lines(to);
    JSON_MEMBER(to, "name", string, c->after->name);
    JSON_MEMBER(to, "cpu", string, c->after->cpu);
    JSON_MEMBER(to, "verdict", word, check_verdicts[c->verdict]);
    JSON_MEMBER(to, "change", real,
                c->before && c->verdict != CHECK_OTHER ? c->change : (double)NAN);
    JSON_MEMBER(to, "threshold", real, c->threshold);
    put_counts(to, "before", c->before);
    put_counts(to, "after", c->after);
    json_name(to, "functions");
    json_array_lines(to);
    for (size_t i = 0; i < count; i++)
        put_blame(to, &blames[i]);
    json_end(to);
    json_end(to);
}

static size_t count_of(const struct check_report *report, enum check_verdict verdict)
{
    size_t n = 0;
    for (size_t i = 0; i < report->count; i++)
        n += report->changes[i].verdict == verdict;
    return n;
}

static void print_json(struct out *out, const struct check_report *report)
{
    struct json to = json_to(out);
    json_object_lines(&to);
    JSON_MEMBER(&to, "schema", string, "spex.check.1");
    JSON_MEMBER(&to, "spex", string, SPEX_VERSION);
    JSON_MEMBER(&to, "baseline", string, report->baseline);
    JSON_MEMBER(&to, "slower", u64, count_of(report, CHECK_SLOWER));
    JSON_MEMBER(&to, "faster", u64, count_of(report, CHECK_FASTER));
    JSON_MEMBER(&to, "missing", u64, report->missing);
    json_name(&to, "benchmarks");
    json_array_lines(&to);
    for (size_t i = 0; i < report->count; i++)
        put_change(&to, &report->changes[i]);
    json_end(&to);
    json_end(&to);
}

/* ---- JUnit ---- */

static void put_xml(struct out *out, const char *text)
{
    struct out clean;
    out_init(&clean, -1);
    out_name(&clean, text);
    for (size_t i = 0; i < clean.size; i++) {
        char c = clean.data[i];
        const char *as = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : NULL;
        if (c == '"')
            as = "&quot;";
        if (as)
            out_text(out, as);
        else
            out_char(out, c);
    }
    out_fini(&clean);
}

static void junit_failure(struct out *out, const struct check_change *c)
{
    struct check_blame blames[CHECK_BLAMED];
    size_t count = check_blame(c, blames);
    out_printf(out,
               "\n      <failure type=\"slower\" message=\"%.2f%% slower, threshold %.10g%%\">",
               100 * c->change, 100 * c->threshold);
    for (size_t i = 0; i < count; i++) {
        out_printf(out, "\n%+lld cycles in ", (long long)blames[i].cycles);
        put_xml(out, (blames[i].after ? blames[i].after : blames[i].before)->name);
    }
    out_text(out, "</failure>\n    ");
}

static void print_junit(struct out *out, const struct check_report *report)
{
    size_t slower = count_of(report, CHECK_SLOWER);
    out_printf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
               "  <testsuite name=\"spex check\" tests=\"%zu\" failures=\"%zu\" errors=\"0\">\n",
               report->count, slower);
    for (size_t i = 0; i < report->count; i++) {
        const struct check_change *c = &report->changes[i];
        out_text(out, "    <testcase classname=\"");
        put_xml(out, c->after->cpu);
        out_text(out, "\" name=\"");
        put_xml(out, c->after->name);
        out_printf(out, "\" time=\"%.9f\">", (double)c->after->time / 1e9);
        if (c->verdict == CHECK_SLOWER)
            junit_failure(out, c);
        out_text(out, "</testcase>\n");
    }
    out_text(out, "  </testsuite>\n</testsuites>\n");
}

void check_print_data(struct out *out, enum check_format format, const struct check_report *report)
{
    if (format == CHECK_JSON)
        print_json(out, report);
    else
        print_junit(out, report);
}
