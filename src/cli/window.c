#include "window.h"

#include "base/memory.h"

#include <spex/analysis.h>
#include <spex/record.h>

#include <stdlib.h>
#include <string.h>

struct window {
    struct spex_time_range *ranges;
    size_t count;
    const struct spex_perf_time *clock; /* NULL: timestamps are nanoseconds */
    struct spex_reader *reader;
};

int window_new(const char *time, const struct spex_perfdata *file, struct window **window)
{
    const struct spex_perf_info *info = file ? spex_perfdata_info(file) : NULL;
    struct spex_error error;
    if (!info && strchr(time, '%'))
        return cli_usage("--time: how long a bare stream takes is not known; give START,STOP");
    const uint64_t first = info ? info->first_time : 0, last = info ? info->last_time : 0;
    size_t count;
    if (spex_time_ranges(time, first, last, NULL, 0, &count, &error))
        return cli_usage("--%s", error.text);
    struct window *w = memory_get(1, sizeof *w);
    w->ranges = memory_get(count, sizeof *w->ranges);
    spex_time_ranges(time, first, last, w->ranges, count, &w->count, &error);
    w->clock = info && info->has_time ? &info->time : NULL;
    window_restart(w);
    *window = w;
    return CLI_OK;
}

void window_free(struct window *w)
{
    if (!w)
        return;
    free(w->ranges);
    spex_reader_free(w->reader);
    free(w);
}

void window_restart(struct window *w)
{
    spex_reader_free(w->reader);
    w->reader = NULL;
    if (spex_reader_new(NULL, &w->reader, NULL))
        memory_get(SIZE_MAX, 1); /* ends here */
}

static bool keeps(const struct window *w, const struct spex_record *r)
{
    if (!(r->present & SPEX_HAS_TIMESTAMP))
        return false;
    const uint64_t time = w->clock ? spex_perf_time_to_ns(w->clock, r->timestamp) : r->timestamp;
    for (size_t i = 0; i < w->count; i++)
        if (time >= w->ranges[i].low && time <= w->ranges[i].high)
            return true;
    return false;
}

static bool only_padding(const uint8_t *data, size_t from, size_t to)
{
    while (from < to && !data[from])
        from++;
    return from == to;
}

size_t window_feed(struct window *w, const uint8_t *data, size_t size, bool last, window_use *use,
                   void *context)
{
    struct spex_record record;
    size_t from = 0, to = 0; /* records that are kept and not yet used */
    spex_reader_feed(w->reader, data, size, 0, last);
    for (;;) {
        enum spex_status status = spex_reader_next(w->reader, &record, NULL);
        if (status == SPEX_END)
            break;
        if (status || !keeps(w, &record))
            continue;
        bool next = to > from && only_padding(data, to, (size_t)record.offset);
        if (!next && to > from)
            use(context, from, to);
        if (!next)
            from = (size_t)record.offset;
        to = (size_t)record.offset + record.size;
    }
    if (to > from)
        use(context, from, to);
    return (size_t)spex_reader_position(w->reader);
}
