/*
 * Firefox Profiler's processed profile: for each thread a timeline of samples with their stacks,
 * and markers where data was lost. Samples of one row within a short interval become one weighted
 * sample, so that the size depends on rows and TIMES, not on the number of records. Tables are
 * stored as columns, arrays of equal length, as the profiler requires.
 */
#include "frames.h"

#include "base/digits.h"
#include "base/json.h"
#include "base/memory.h"
#include "export/texts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMES = 4096, MARKERS_MOST = 100000, VERSION = 44, NONE = -1 };

struct cell { /* samples of one row in one time slice */
    uint32_t row, time;
    uint64_t count;
};

struct marker {
    uint64_t time, value;
    int32_t tid;
    const char *name;
};

struct firefox {
    struct export_job *job;
    struct tally *tally;
    struct cell *cells; /* by time; after the pass, by thread and time */
    size_t cell_count, cell_capacity, cells_put;
    struct ids threads; /* thread ids */
    bool begun;
    uint64_t first, width; /* start and length of a time slice, ns */
    uint32_t last;         /* the latest piece */
    struct marker *markers;
    size_t marker_count, marker_capacity;
    uint64_t markers_left;
};

/* ---- the time line ---- */

/* Times never decrease, so a row's latest cell is its last one. */
static void add_cell(struct firefox *f, uint32_t row, uint32_t time, uint64_t count)
{
    uint32_t *last = &f->tally->rows[row].number; /* 1 + its cell */
    if (!*last || f->cells[*last - 1].time != time) {
        f->cells = memory_grow(f->cells, f->cell_count, &f->cell_capacity, sizeof *f->cells);
        f->cells[f->cell_count++] = (struct cell){.row = row, .time = time};
        *last = (uint32_t)f->cell_count;
    }
    f->cells[*last - 1].count += count;
}

/* Doubles the length of intervals. Cells only move towards the front. */
static void halve(struct firefox *f)
{
    size_t count = f->cell_count;
    f->cell_count = 0;
    f->width *= 2;
    f->last /= 2;
    for (size_t i = 0; i < f->tally->count; i++)
        f->tally->rows[i].number = 0;
    for (size_t i = 0; i < count; i++)
        add_cell(f, f->cells[i].row, f->cells[i].time / 2, f->cells[i].count);
}

static void sink(void *job, const struct spex_sample *samples, size_t count)
{
    struct firefox *f = ((struct export_job *)job)->state;
    for (size_t i = 0; i < count; i++) {
        bool timed = samples[i].flags & SPEX_SAMPLE_TIMED;
        if (timed && !f->begun) {
            f->begun = true;
            f->first = samples[i].time;
        }
        uint64_t since = timed && samples[i].time > f->first ? samples[i].time - f->first : 0;
        while (since / f->width >= TIMES)
            halve(f);
        if (since / f->width >
            f->last) /* a sample without a time, or out of order, counts as the latest */
            f->last = (uint32_t)(since / f->width);
        add_cell(f, tally_one(f->tally, &samples[i]), f->last, 1);
    }
}

/* ---- where data was lost ---- */

static void add_marker(struct firefox *f, const struct spex_perf_event *e, const char *name,
                       uint64_t value)
{
    if (f->marker_count == MARKERS_MOST) {
        f->markers_left++;
        return;
    }
    f->markers = memory_grow(f->markers, f->marker_count, &f->marker_capacity, sizeof *f->markers);
    f->markers[f->marker_count++] = (struct marker){e->time, value, e->tid, name};
}

static void find_markers_in(struct firefox *f, struct spex_perfdata *file)
{
    struct spex_perf_event e;
    spex_perfdata_rewind(file);
    while (!spex_perfdata_next(file, &e)) {
        if (e.type == SPEX_PERF_AUX && e.u.aux.flags & SPEX_PERF_AUX_TRUNCATED)
            add_marker(f, &e, "buffer full", e.u.aux.size);
        else if (e.type == SPEX_PERF_AUX && e.u.aux.flags & SPEX_PERF_AUX_PARTIAL)
            add_marker(f, &e, "data lost", e.u.aux.size);
        if (e.type == SPEX_PERF_AUX && e.u.aux.flags & SPEX_PERF_AUX_COLLISION)
            add_marker(f, &e, "collision", e.u.aux.size);
        if (e.type == SPEX_PERF_LOST || e.type == SPEX_PERF_LOST_SAMPLES)
            add_marker(f, &e, "lost", e.u.lost.lost);
    }
}

/* The pass has ended: nobody else walks through the events. */
static void find_markers(struct firefox *f)
{
    struct spex_part part;
    for (size_t i = 0; spex_analysis_part(f->job->analysis, i, &part); i++)
        if (part.file)
            find_markers_in(f, part.file);
}

/* ---- the tables of a thread ---- */

struct columns {
    struct texts texts;
    struct ids functions, frames, stacks; /* keys are their columns */
    uint32_t *row_stack;                  /* index: row - first */
};

static uint32_t find(struct ids *ids, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t key[IDS_WORDS] = {a, b, c, 1};
    bool fresh;
    return ids_find(ids, key, &fresh);
}

/* A frame below the stack so far (0: none, else 1 + its number); returns 1 + the new one's. */
static uint32_t push(struct columns *c, uint32_t stack, const char *name, const char *file,
                     unsigned line)
{
    const uint64_t text = texts_find(&c->texts, name); /* texts are numbered as they come */
    const uint64_t from = file ? 1 + (uint64_t)texts_find(&c->texts, file) : 0;
    uint32_t function = find(&c->functions, text, from, 0);
    uint32_t frame = find(&c->frames, function, line, 0);
    return 1 + find(&c->stacks, stack, frame, 0);
}

static void make_stacks(const struct firefox *f, struct columns *c, size_t first, size_t end)
{
    c->row_stack = memory_get(end - first + 1, sizeof *c->row_stack);
    texts_init(&c->texts);
    for (size_t i = first; i < end; i++) {
        const struct export_frame *frames;
        size_t n = tally_frames(f->tally, &f->tally->rows[i], &frames);
        uint32_t stack = 0;
        for (size_t k = 0; k < n; k++)
            stack = push(c, stack, frames[k].name, frames[k].file, frames[k].line);
        c->row_stack[i - first] = stack - 1;
    }
}

static void put_none(struct json *json, const char *name, size_t count, int value)
{
    json_name(json, name);
    json_array(json);
    for (size_t i = 0; i < count; i++) {
        if (value == NONE)
            json_null(json);
        else
            json_i64(json, value);
    }
    json_end(json);
}

static void put_minus(struct json *json, const char *name, size_t count)
{
    json_name(json, name);
    json_array(json);
    for (size_t i = 0; i < count; i++)
        json_i64(json, -1);
    json_end(json);
}

static void put_false(struct json *json, const char *name, size_t count)
{
    json_name(json, name);
    json_array(json);
    for (size_t i = 0; i < count; i++)
        json_bool(json, false);
    json_end(json);
}

/* Word w of all keys; less: 0 stands for none, and numbers are 1 more. */
static void put_keys(struct json *json, const char *name, const struct ids *ids, unsigned w,
                     bool less)
{
    json_name(json, name);
    json_array(json);
    for (size_t i = 0; i < ids->count; i++) {
        if (less && !ids->keys[i][w])
            json_null(json);
        else
            json_u64(json, ids->keys[i][w] - less);
    }
    json_end(json);
}

static void put_tables(struct json *json, const struct columns *c)
{
    size_t n = c->frames.count, m = c->functions.count, s = c->stacks.count;
    json_name(json, "frameTable");
    json_object(json);
    JSON_MEMBER(json, "length", u64, n);
    put_minus(json, "address", n);
    put_none(json, "inlineDepth", n, 0);
    put_none(json, "category", n, 0);
    put_none(json, "subcategory", n, 0);
    put_keys(json, "func", &c->frames, 0, false);
    put_none(json, "nativeSymbol", n, NONE);
    put_none(json, "innerWindowID", n, NONE);
    put_none(json, "implementation", n, NONE);
    json_name(json, "line");
    json_array(json);
    for (size_t i = 0; i < n; i++) {
        if (c->frames.keys[i][1])
            json_u64(json, c->frames.keys[i][1]);
        else
            json_null(json);
    }
    json_end(json);
    put_none(json, "column", n, NONE);
    json_end(json);
    json_name(json, "funcTable");
    json_object(json);
    JSON_MEMBER(json, "length", u64, m);
    put_keys(json, "name", &c->functions, 0, false);
    put_false(json, "isJS", m);
    put_false(json, "relevantForJS", m);
    put_minus(json, "resource", m);
    put_keys(json, "fileName", &c->functions, 1, true);
    put_none(json, "lineNumber", m, NONE);
    put_none(json, "columnNumber", m, NONE);
    json_end(json);
    json_name(json, "stackTable");
    json_object(json);
    JSON_MEMBER(json, "length", u64, s);
    put_keys(json, "prefix", &c->stacks, 0, true);
    put_keys(json, "frame", &c->stacks, 1, false);
    put_none(json, "category", s, 0);
    put_none(json, "subcategory", s, 0);
    json_end(json);
}

/* A table without rows; names separated by commas. */
static void put_empty(struct json *json, const char *name, const char *const *columns)
{
    json_name(json, name);
    json_object(json);
    JSON_MEMBER(json, "length", u64, 0);
    for (; *columns; columns++) {
        json_name(json, *columns);
        json_array(json);
        json_end(json);
    }
    json_end(json);
}

/* Milliseconds with all digits. */
static void put_time(struct json *json, uint64_t ns)
{
    json_begin(json);
    char *p = out_room(json->out, 40), *end = put_u64(p, ns / 1000000);
    *end++ = '.';
    json->out->size += (size_t)(put_fixed(end, (uint32_t)(ns % 1000000), 6) - p);
}

static void put_samples(struct json *json, const struct firefox *f, const struct columns *c,
                        const struct cell *cells, size_t count, size_t first)
{
    json_name(json, "samples");
    json_object(json);
    JSON_MEMBER(json, "length", u64, count);
    json_name(json, "stack");
    json_array(json);
    for (size_t i = 0; i < count; i++)
        json_u64(json, c->row_stack[cells[i].row - first]);
    json_end(json);
    json_name(json, "time");
    json_array(json);
    for (size_t i = 0; i < count; i++)
        put_time(json, cells[i].time * f->width);
    json_end(json);
    json_name(json, "weight");
    json_array(json);
    for (size_t i = 0; i < count; i++)
        json_u64(json, cells[i].count);
    json_end(json);
    JSON_MEMBER(json, "weightType", string, "samples");
    json_end(json);
}

static void put_markers(struct json *json, const struct firefox *f, struct columns *c, int32_t tid)
{
    size_t n = 0;
    struct marker *own = memory_get(f->marker_count + 1, sizeof *own);
    for (size_t i = 0; i < f->marker_count; i++)
        if (f->markers[i].tid == tid)
            own[n++] = f->markers[i];
    json_name(json, "markers");
    json_object(json);
    JSON_MEMBER(json, "length", u64, n);
    put_none(json, "category", n, 0);
    json_name(json, "data");
    json_array(json);
    for (size_t i = 0; i < n; i++) {
        json_object(json);
        JSON_MEMBER(json, "type", string, "spe");
        JSON_MEMBER(json, "value", u64, own[i].value);
        json_end(json);
    }
    json_end(json);
    put_none(json, "endTime", n, NONE);
    json_name(json, "name");
    json_array(json);
    for (size_t i = 0; i < n; i++)
        json_u64(json, texts_find(&c->texts, own[i].name));
    json_end(json);
    put_none(json, "phase", n, 0);
    json_name(json, "startTime");
    json_array(json);
    for (size_t i = 0; i < n; i++)
        put_time(json, own[i].time > f->first ? own[i].time - f->first : 0);
    json_end(json);
    json_end(json);
    free(own);
}

static void put_thread(struct json *json, struct firefox *f, size_t first, size_t end)
{
    static const char *const symbols[] = {"address", "functionSize", "libIndex", "name", NULL};
    static const char *const resources[] = {"lib", "name", "host", "type", NULL};
    const struct tally_row *row = end > first ? &f->tally->rows[first] : NULL;
    struct columns c = {0};
    char pid[24];
    size_t n = 0;
    struct cell *cells = f->cells ? f->cells + f->cells_put : NULL;
    while (f->cells_put + n < f->cell_count && cells[n].row < end)
        n++;
    f->cells_put += n;
    make_stacks(f, &c, first, end);
    snprintf(pid, sizeof pid, "%d", row ? row->pid : 0);
    json_object_lines(json);
    JSON_MEMBER(json, "processType", string, "default");
    JSON_MEMBER(json, "processStartupTime", u64, 0);
    json_name(json, "processShutdownTime");
    json_null(json);
    JSON_MEMBER(json, "registerTime", u64, 0);
    json_name(json, "unregisterTime");
    json_null(json);
    json_name(json, "pausedRanges");
    json_array(json);
    json_end(json);
    JSON_MEMBER(json, "name", string, row && row->comm ? row->comm : "no samples");
    JSON_MEMBER(json, "isMainThread", bool, !row || row->pid == row->tid);
    JSON_MEMBER(json, "pid", string, pid);
    JSON_MEMBER(json, "tid", i64, row ? row->tid : 0);
    put_samples(json, f, &c, cells, n, first);
    put_markers(json, f, &c, row ? row->tid : 0);
    put_tables(json, &c);
    put_empty(json, "nativeSymbols", symbols);
    put_empty(json, "resourceTable", resources);
    json_name(json, "stringArray");
    json_array(json);
    for (size_t i = 0; i < c.texts.count; i++)
        json_string(json, texts_at(&c.texts, i));
    json_end(json);
    json_end(json);
    texts_fini(&c.texts);
    ids_free(&c.functions);
    ids_free(&c.frames);
    ids_free(&c.stacks);
    free(c.row_stack);
}

/* ---- the profile ---- */

static void put_meta(struct json *json, const struct firefox *f)
{
    const struct spex_sampling *sampling = spex_analysis_sampling(f->job->analysis);
    json_name(json, "meta");
    json_object_lines(json);
    json_name(json, "interval");
    put_time(json, f->width);
    JSON_MEMBER(json, "startTime", u64, 0);
    JSON_MEMBER(json, "processType", u64, 0);
    JSON_MEMBER(json, "product", string, f->job->settings->input);
    JSON_MEMBER(json, "stackwalk", u64, 0);
    JSON_MEMBER(json, "debug", bool, false);
    JSON_MEMBER(json, "version", u64, 24);
    JSON_MEMBER(json, "preprocessedProfileVersion", u64, VERSION);
    JSON_MEMBER(json, "symbolicated", bool, true);
    JSON_MEMBER(json, "importedFrom", string, "spex");
    if (sampling->cpu_name)
        JSON_MEMBER(json, "CPUName", string, sampling->cpu_name);
    json_name(json, "categories");
    json_array(json);
    json_object(json);
    JSON_MEMBER(json, "name", string, "Other");
    JSON_MEMBER(json, "color", string, "grey");
    json_name(json, "subcategories");
    json_array(json);
    json_string(json, "Other");
    json_end(json);
    json_end(json);
    json_end(json);
    json_name(json, "markerSchema");
    json_array(json);
    json_object(json);
    JSON_MEMBER(json, "name", string, "spe");
    json_name(json, "display");
    json_array(json);
    json_string(json, "marker-chart");
    json_string(json, "marker-table");
    json_end(json);
    json_name(json, "data");
    json_array(json);
    json_object(json);
    JSON_MEMBER(json, "key", string, "value");
    JSON_MEMBER(json, "label", string, "bytes, or events lost");
    JSON_MEMBER(json, "format", string, "integer");
    json_end(json);
    json_end(json);
    json_end(json);
    json_end(json);
    json_end(json);
}

/* Groups cells by thread and keeps their order within each. */
static void sort_cells(struct firefox *f)
{
    const struct tally_row *rows = f->tally->rows;
    size_t count = f->tally->count, threads = 0;
    uint32_t *thread = memory_get(count + 1, sizeof *thread); /* thread of each row */
    for (size_t i = 0; i < count; i++) {
        threads += !i || rows[i].tid != rows[i - 1].tid || rows[i].pid != rows[i - 1].pid;
        thread[i] = (uint32_t)threads - 1;
    }
    size_t *starts = memory_get(threads + 2, sizeof *starts);
    for (size_t i = 0; i < f->cell_count; i++)
        starts[thread[f->cells[i].row] + 1]++;
    for (size_t i = 0; i < threads; i++)
        starts[i + 1] += starts[i];
    struct cell *sorted = memory_get(f->cell_count + 1, sizeof *sorted);
    for (size_t i = 0; i < f->cell_count; i++)
        sorted[starts[thread[f->cells[i].row]]++] = f->cells[i];
    free(f->cells);
    f->cells = sorted;
    free(thread);
    free(starts);
}

/* Rows are sorted for the output: cells follow them. */
static void sort_rows(struct firefox *f)
{
    struct tally *t = f->tally;
    uint32_t *place = memory_get(t->count + 1, sizeof *place);
    for (size_t i = 0; i < t->count; i++)
        t->rows[i].number = (uint32_t)i;
    tally_sort(t);
    for (size_t i = 0; i < t->count; i++)
        place[t->rows[i].number] = (uint32_t)i;
    for (size_t i = 0; i < f->cell_count; i++)
        f->cells[i].row = place[f->cells[i].row];
    sort_cells(f);
    for (size_t i = 0; i < t->count; i++)
        find(&f->threads, (uint32_t)t->rows[i].tid, 0, 0);
    size_t threads = f->threads.count;
    for (size_t i = 0; i < f->marker_count; i++) /* a thread without samples: the first has them */
        if (find(&f->threads, (uint32_t)f->markers[i].tid, 0, 0) >= threads)
            f->markers[i].tid = t->count ? t->rows[0].tid : 0;
    free(place);
}

static void begin(struct export_job *job)
{
    struct firefox *f = job->state = memory_get(1, sizeof *f);
    f->job = job;
    f->width = 1000;
    f->tally = tally_new(job, TALLY_THREAD | TALLY_STACK);
}

static enum spex_status end(struct export_job *job)
{
    struct firefox *f = job->state;
    struct tally *t = f->tally;
    struct json json = json_to(job->out);
    find_markers(f);
    sort_rows(f);
    json_object_lines(&json);
    put_meta(&json, f);
    json_name(&json, "libs");
    json_array(&json);
    json_end(&json);
    json_name(&json, "pages");
    json_array(&json);
    json_end(&json);
    json_name(&json, "threads");
    json_array_lines(&json);
    for (size_t i = 0, next = 0; i < t->count || !next; i = next) {
        for (next = i; next < t->count && t->rows[next].tid == t->rows[i].tid &&
                       t->rows[next].pid == t->rows[i].pid;
             next++)
            ;
        put_thread(&json, f, i, next);
        next += !t->count;
    }
    json_end(&json);
    json_end(&json);
    if (f->markers_left)
        out_printf(&job->notes, "%" PRIu64 " markers of lost data are left out\n", f->markers_left);
    ids_free(&f->threads);
    free(f->cells);
    free(f->markers);
    tally_free(t);
    free(f);
    return SPEX_OK;
}

const struct export_format export_firefox = {
    .name = "firefox",
    .summary =
        "Firefox Profiler's processed profile: a time line per thread, markers where data was lost",
    .weight = "samples; those of one place within 1/4096 of the time are one with a weight",
    .cannot = "latencies, data addresses, other weights",
    .want = SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_TIME | SPEX_WANT_STACK,
    .ordered = true,
    .begin = begin,
    .sink = sink,
    .end = end,
};
