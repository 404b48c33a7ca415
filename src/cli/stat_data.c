#include "stat_data.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const stat_formats[] = {"text", "json", "csv", NULL};

static struct {
    enum stat_format format;
    const char *separator;
    struct out out;
    struct json json;
    bool estimates;
} table;

bool stat_data(void)
{
    return table.format || table.separator;
}

void stat_data_begin(enum stat_format format, const char *separator, int fd, const char *what,
                     const char *cpu, const char *model)
{
    table.format = format;
    table.separator = separator;
    if (!stat_data())
        return;
    out_init(&table.out, fd);
    if (separator)
        return;
    if (format == STAT_CSV) {
        out_text(&table.out, "name,value,interval,text\n");
        return;
    }
    struct json *to = &table.json;
    *to = json_to(&table.out);
    json_object_lines(to);
    JSON_MEMBER(to, "schema", string, "spex.stat.1");
    JSON_MEMBER(to, "of", string, what);
    JSON_MEMBER(to, "cpu", string, cpu);
    if (model)
        JSON_MEMBER(to, "model", string, model);
    json_name(to, "counters");
    json_array_lines(to);
}

void stat_data_estimates(bool on)
{
    table.estimates = on;
}

/* interval: half of the 95% interval, or NAN for an exact value. */
static bool put(uint64_t value, const char *name, double interval, const char *text)
{
    struct out *out = &table.out;
    if (!stat_data())
        return false;
    if (table.separator) { /* value, unit, event, time it was counted, percent of all time */
        const char *s = table.separator;
        out_printf(out, "%llu%s%s%s%s0%s100.00%s%s\n", (unsigned long long)value, s, s, name, s, s,
                   s, s);
    } else if (table.format == STAT_CSV) {
        out_printf(out, "%s,%llu,", name, (unsigned long long)value);
        if (!isnan(interval))
            out_printf(out, "%.0f", interval);
        out_char(out, ',');
        out_name_csv(out, text);
        out_char(out, '\n');
    } else {
        struct json *to = &table.json;
        json_object(to);
        JSON_MEMBER(to, "name", string, name);
        JSON_MEMBER(to, "value", u64, value);
        if (!isnan(interval))
            JSON_MEMBER(to, "interval", real, round(interval));
        if (table.estimates)
            JSON_MEMBER(to, "estimate", bool, true);
        JSON_MEMBER(to, "text", string, text);
        json_end(to);
    }
    return true;
}

bool stat_data_row(uint64_t value, const char *name, const char *text)
{
    return put(value, name, (double)NAN, text);
}

bool stat_data_estimate(uint64_t value, const char *name, double half)
{
    return put(value, name, half, "");
}

int stat_data_end(void)
{
    if (!stat_data())
        return CLI_OK;
    if (!table.separator && table.format == STAT_JSON) {
        json_end(&table.json);
        json_end(&table.json);
    }
    int error = out_fini(&table.out);
    if (error)
        cli_error("cannot write: %s", strerror(error));
    return error ? CLI_DATA : CLI_OK;
}
