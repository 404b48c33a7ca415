#include "report/internal.h"

#include "analysis/code.h"
#include "analysis/findings.h"
#include "analysis/stacks.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { FUNCTIONS_MOST = 200, ROWS_MOST = 100, HOT_LINES = 25, LINES_MOST = 4096 };

static const struct {
    enum spex_key keys[CUBE_KEYS];
    size_t key_count;
    unsigned flags;
    enum spex_order order;
    size_t keep; /* the most rows that may be shown */
} sets[SETS] = {
    [FUNCTIONS] = {{SPEX_KEY_SYMBOL, SPEX_KEY_DSO},
                   2,
                   SPEX_GROUP_PERCENTILES,
                   SPEX_BY_SAMPLES,
                   FUNCTIONS_MOST},
    [CODE] = {{SPEX_KEY_PC, SPEX_KEY_SYMBOL, SPEX_KEY_DSO},
              3,
              SPEX_GROUP_PERCENTILES,
              SPEX_BY_MISPREDICTS,
              SIZE_MAX},
    [SOURCES] = {{SPEX_KEY_SOURCE}, 1, SPEX_GROUP_PERCENTILES, SPEX_BY_LATENCY, ROWS_MOST},
    [THREADS] = {{SPEX_KEY_PID, SPEX_KEY_TID, SPEX_KEY_COMM}, 3, 0, SPEX_BY_SAMPLES, ROWS_MOST},
    [CPUS] = {{SPEX_KEY_CPU}, 1, 0, SPEX_BY_SAMPLES, ROWS_MOST},
    [DATA] = {{SPEX_KEY_DATA_SYMBOL}, 1, SPEX_GROUP_PERCENTILES, SPEX_BY_LATENCY, ROWS_MOST},
    [LINES] = {{SPEX_KEY_CACHE_LINE}, 1, 0, SPEX_BY_LATENCY, HOT_LINES},
    [PAGES] = {{SPEX_KEY_PAGE}, 1, 0, SPEX_BY_LATENCY, HOT_LINES},
    [TARGETS] = {{SPEX_KEY_PC, SPEX_KEY_SYMBOL, SPEX_KEY_TARGET}, 3, 0, SPEX_BY_SAMPLES, ROWS_MOST},
    [STACKS] = {{SPEX_KEY_STACK, SPEX_KEY_SYMBOL}, 2, 0, SPEX_BY_SAMPLES, SIZE_MAX},
};

/* Counting a sample once and adding up rows at the end is cheaper than counting it in every cube.
 */
static const struct {
    enum spex_key keys[SPEX_KEYS_MAX];
    size_t key_count;
    unsigned flags;
    enum set cubes[2];
} feeds[FEEDS] = {
    [RUNNING] = {{SPEX_KEY_PID, SPEX_KEY_TID, SPEX_KEY_COMM, SPEX_KEY_CPU, SPEX_KEY_TIME_BIN},
                 5,
                 0,
                 {THREADS, CPUS}},
    [ACCESSES] = {{SPEX_KEY_SOURCE, SPEX_KEY_DATA_SYMBOL, SPEX_KEY_TIME_BIN},
                  3,
                  SPEX_GROUP_PERCENTILES,
                  {SOURCES, DATA}},
};

/* ---- gathering ---- */

typedef bool keep_sample(const struct report *r, const struct spex_sample *s);

/* The samples that are to be kept go to one group or two. Inlined: keep is called for each. */
static inline __attribute__((always_inline)) void
feed_kept(const struct report *r, const struct spex_sample *samples, size_t count,
          keep_sample *keep, struct spex_group *group, struct spex_group *also)
{
    const struct spex_sample *list[SPEX_RECORD_BATCH];
    for (size_t i = 0; i < count;) {
        size_t kept = 0;
        for (; i < count && kept < SPEX_RECORD_BATCH; i++) {
            list[kept] = &samples[i];
            kept += keep(r, &samples[i]);
        }
        if (kept)
            spex_group_add(group, list, kept);
        if (kept && also)
            spex_group_add(also, list, kept);
    }
}

/* Each of these is a sink of its own, so that threads share the work. */

static void feed_code(void *context, const struct spex_sample *samples, size_t count)
{
    struct report *r = context;
    spex_group_sink(r->cubes[CODE].fine, samples, count);
    if (r->cubes[STACKS].fine)
        spex_group_sink(r->cubes[STACKS].fine, samples, count);
}

static bool is_memory(const struct report *r, const struct spex_sample *s)
{
    (void)r;
    return spex_sample_memory(s);
}

static void feed_memory(void *context, const struct spex_sample *samples, size_t count)
{
    struct report *r = context;
    feed_kept(r, samples, count, is_memory, r->feeds[ACCESSES], r->cubes[PAGES].fine);
}

/* Samples of a thread that follow each other in an interval belong to one row. */
static void feed_running(void *context, const struct spex_sample *samples, size_t count)
{
    struct report *r = context;
    const unsigned shift = r->bins.shift;
    for (size_t i = 0, end; i < count; i = end) {
        const struct spex_sample *s = &samples[i];
        for (end = i + 1; end < count; end++) {
            const struct spex_sample *t = &samples[end];
            if (t->comm != s->comm || t->pid != s->pid || t->tid != s->tid || t->cpu != s->cpu ||
                t->time >> shift != s->time >> shift || (t->flags ^ s->flags) & SPEX_SAMPLE_TIMED)
                break;
        }
        group_add_alike(r->feeds[RUNNING], s, end - i);
    }
}

/* Records of the lines that are shown, and of a few others that share their bit. */
static bool is_hot(const struct report *r, const struct spex_sample *s)
{
    bool physical = s->record->present & SPEX_HAS_PA;
    return spex_sample_memory(s) &&
           (line_set_has(&r->hot, s->va) || (physical && line_set_has(&r->hot, s->pa)));
}

static void feed_hot(void *context, const struct spex_sample *samples, size_t count)
{
    struct report *r = context;
    feed_kept(r, samples, count, is_hot, r->cubes[LINES].fine, NULL);
}

static bool has_target(const struct report *r, const struct spex_sample *s)
{
    (void)r;
    return s->flags & SPEX_SAMPLE_INDIRECT && s->record->present & SPEX_HAS_TARGET;
}

static void feed_targets(void *context, const struct spex_sample *samples, size_t count)
{
    struct report *r = context;
    feed_kept(r, samples, count, has_target, r->cubes[TARGETS].fine, NULL);
}

/* All records: everything but the cells of hot lines, and how lines are shared. */
static enum spex_status count_samples(struct report *r, struct spex_error *error)
{
    const struct analysis_sink sinks[] = {
        {feed_code, r},
        {feed_memory, r},
        {feed_running, r},
        {feed_targets, r},
        {findings_sink, r->findings},
        {spex_sharing_find, r->sharing},
        {nodes_sink, r->nodes} /* the last: if there are some */
    };
    size_t count = sizeof sinks / sizeof *sinks - !r->nodes;
    struct clock_intervals intervals = {r->bins.first, r->at_work, r->bins.shift, r->bins.count};
    analysis_narrow(r->analysis, ~(unsigned)SPEX_WANT_LITTLE, NULL);
    analysis_count_time(r->analysis, &intervals);
    enum spex_status status = analysis_run(r->analysis, sinks, count, error);
    analysis_count_time(r->analysis, NULL);
    return status;
}

/* A closer look at the lines that are shown and at those that threads share. */
static enum spex_status look_closer(struct report *r, struct spex_error *error)
{
    const struct analysis_sink sinks[] = {{feed_hot, r}, {spex_sharing_look, r->sharing}};
    enum spex_status status = SPEX_OK;
    r->lines = sharing_hottest(r->sharing, LINES_MOST, &r->line_count);
    spex_sharing_choose(r->sharing);
    r->closer = *sharing_lines(r->sharing);
    for (size_t i = 0; i < r->line_count && i < HOT_LINES; i++) {
        line_set_add(&r->hot, r->lines[i].address);
        if (r->lines[i].physical) /* others may have it mapped elsewhere */
            line_set_add(&r->hot, r->lines[i].physical);
    }
    for (size_t i = 0; i < sizeof r->hot.bits / sizeof *r->hot.bits; i++)
        r->closer.bits[i] |= r->hot.bits[i];
    analysis_narrow(r->analysis,
                    SPEX_WANT_DATA | SPEX_WANT_TIME | SPEX_WANT_SYMBOL | SPEX_WANT_ALLOC |
                        SPEX_WANT_SPENT,
                    &r->closer);
    if (r->line_count)
        status = analysis_run(r->analysis, sinks, sizeof sinks / sizeof *sinks, error);
    analysis_narrow(r->analysis, ~(unsigned)SPEX_WANT_LITTLE, NULL);
    return status;
}

/* 128 to 256 intervals of a power of two, so that their ends are the same in every profile. */
static struct bins choose_bins(uint64_t first, uint64_t last)
{
    struct bins bins = {0};
    uint64_t span = last - first;
    bins.shift = span > 256 ? 56 - (unsigned)__builtin_clzll(span) : 1;
    bins.first = first >> bins.shift;
    if (last)
        bins.count = (unsigned)((last >> bins.shift) - bins.first) + 1;
    return bins;
}

/*
 * Samples were counted by guessed intervals. True if the guess fits the samples; at_work then
 * begins where they do.
 */
static bool bins_fit(struct report *r)
{
    const struct spex_totals *t = spex_analysis_totals(r->analysis);
    struct bins guess = r->bins, need = choose_bins(t->first_time, t->timed ? t->last_time : 0);
    r->bins = need;
    if (!need.count) /* without times, any intervals will do */
        return true;
    uint64_t before = need.first - guess.first;
    if (need.shift != guess.shift || before >= guess.count || need.count > guess.count - before)
        return false;
    memmove(r->at_work, r->at_work + before, need.count * sizeof *r->at_work);
    return true;
}

static bool has_set(const struct report *r, enum set set)
{
    return set != STACKS || analysis_stacks(r->analysis) != STACKS_NONE;
}

/* What samples are counted in. */
static enum spex_status make_tables(struct report *r, struct spex_error *error)
{
    enum spex_status status = spex_sharing_new(r->analysis, &r->sharing, error);
    if (!status)
        status = findings_new(r->analysis, &r->findings, error);
    r->nodes = nodes_new(r->analysis);
    for (unsigned s = 0; s < SETS && !status; s++)
        if (has_set(r, s))
            status = cube_new(&r->cubes[s], r->analysis, sets[s].keys, sets[s].key_count,
                              sets[s].flags, r->bins.shift, error);
    for (unsigned f = 0; f < FEEDS && !status; f++) {
        struct spex_group_options options = {.size = sizeof options,
                                             .keys = feeds[f].keys,
                                             .key_count = feeds[f].key_count,
                                             .flags = feeds[f].flags,
                                             .time_shift = r->bins.shift};
        status = spex_group_new(r->analysis, &options, &r->feeds[f], error);
        for (unsigned c = 0; c < 2 && !status; c++)
            spex_group_derive(r->cubes[feeds[f].cubes[c]].fine, r->feeds[f]);
    }
    if (!status)
        spex_group_derive(r->cubes[FUNCTIONS].fine, r->cubes[CODE].fine);
    return status;
}

static void free_tables(struct report *r)
{
    for (unsigned s = 0; s < SETS; s++)
        cube_free(&r->cubes[s]);
    for (unsigned f = 0; f < FEEDS; f++)
        spex_group_free(r->feeds[f]);
    findings_free(r->findings);
    nodes_free(r->nodes);
    spex_sharing_free(r->sharing);
    memset(r->cubes, 0, sizeof r->cubes);
    memset(r->feeds, 0, sizeof r->feeds);
    memset(r->at_work, 0, sizeof r->at_work);
    r->findings = NULL;
    r->nodes = NULL;
    r->sharing = NULL;
}

/*
 * Uses intervals that fit the file's first and last time; if the samples turn out to cover
 * another span (filters may choose any), counts once more.
 */
static enum spex_status count_all(struct report *r, struct spex_error *error)
{
    uint64_t first, last;
    enum spex_status status = SPEX_OK;
    analysis_extent(r->analysis, &first, &last);
    if (r->options.filtered || !last) { /* nothing to guess from */
        analysis_narrow(r->analysis, SPEX_WANT_LITTLE, NULL);
        status = spex_analysis_run(r->analysis, NULL, NULL, error);
        const struct spex_totals *t = spex_analysis_totals(r->analysis);
        first = t->first_time;
        last = t->last_time;
    }
    r->bins = choose_bins(first, last);
    for (bool fit = false; !fit && !status; fit = bins_fit(r)) {
        free_tables(r);
        status = make_tables(r, error);
        if (!status)
            status = count_samples(r, error);
    }
    if (!status)
        status = look_closer(r, error);
    if (!status)
        status = spex_sharing_finish(r->sharing);
    if (!status)
        findings_finish(r->findings, r->sharing);
    for (unsigned s = 0; s < SETS && !status; s++)
        if (has_set(r, s))
            cube_finish(&r->cubes[s], &r->bins, sets[s].order, sets[s].keep);
    if (!status)
        cube_rest_of(&r->cubes[LINES], spex_sharing_totals(r->sharing)->lines, &r->cubes[PAGES],
                     &r->bins);
    return status;
}

enum spex_status report_new(struct spex_analysis *analysis, const struct report_options *options,
                            struct report **report, struct spex_error *error)
{
    struct report *r = memory_get(1, sizeof *r);
    r->analysis = analysis;
    r->options = *options;
    r->sources = sources_new();
    enum spex_status status = spex_disassembler_new(&r->disassembler, error);
    if (!status)
        status = count_all(r, error);
    if (status)
        report_free(r);
    else
        *report = r;
    return status;
}

void report_free(struct report *r)
{
    if (!r)
        return;
    free_tables(r);
    free(r->lines);
    spex_disassembler_free(r->disassembler);
    sources_free(r->sources);
    free(r);
}

/* ---- writing ---- */

static void write_page_nodes(struct report *r, size_t row, struct json *json)
{
    const struct spex_group *pages = r->cubes[PAGES].total;
    const uint64_t *key = group_key(pages, spex_group_row(pages, row), 0);
    uint64_t counts[NODES_MOST] = {0};
    nodes_add(r->nodes, key[0], key[1], counts);
    nodes_write(r->nodes, counts, json);
}

/*
 * Rows of a set, each an object with the texts of its keys under these names; then the other rows,
 * summed up.
 */
static void write_set(struct report *r, enum set set, const char *name, const char *const *keys,
                      size_t most, struct json *json)
{
    const struct cube *cube = &r->cubes[set];
    size_t rows = cube->rows;
    json_name(json, name);
    json_array_lines(json);
    for (size_t i = 0; i < rows && i < most; i++) {
        json_object(json);
        for (size_t k = 0; k < cube->keys; k++) {
            json_name(json, keys[k]);
            cube_write_key(cube, i, k, json);
        }
        if (set == PAGES && r->nodes)
            write_page_nodes(r, i, json);
        cube_write_row(cube, i, json);
        json_end(json);
    }
    if (rows > most) {
        json_object(json);
        JSON_MEMBER(json, "rest", u64, rows - most);
        cube_write_rest(cube, most, json);
        json_end(json);
    }
    json_end(json);
}

static void write_branches(struct report *r, size_t most, struct json *json)
{
    const struct cube *cube = &r->cubes[CODE];
    size_t rows = spex_group_count(cube->total), n = 0;
    json_name(json, "branches");
    json_array_lines(json);
    for (size_t i = 0; i < rows && n < most; i++) {
        const struct spex_row *row = spex_group_row(cube->total, i);
        if (!row->stats.branches)
            continue;
        const struct spex_symbol *symbol = spex_row_symbol(cube->total, row, 1);
        struct spex_line line = {0};
        if (symbol)
            spex_module_line(symbol->module, spex_row_address(cube->total, row, 0), &line);
        json_object(json);
        json_name(json, "pc");
        cube_write_key(cube, i, 0, json);
        json_name(json, "symbol");
        cube_write_key(cube, i, 1, json);
        JSON_MEMBER(json, "file", string, line.file);
        JSON_MEMBER(json, "line", u64, line.line);
        cube_write_row(cube, i, json);
        json_end(json);
        n++;
    }
    json_end(json);
}

/* sizes: of the parts, in bytes. */
static void write_all(struct report *r, const struct limits *l, struct json *json,
                      size_t sizes[PARTS])
{
    static const char *const functions[] = {"name", "dso"}, *const source[] = {"name"},
                             *const thread[] = {"pid", "tid", "name"}, *const address[] = {"name"},
                             *const target[] = {"pc", "symbol", "target"};
    memset(sizes, 0, PARTS * sizeof *sizes);
    json_name(json, "metrics");
    metrics_write(json);
    json_name(json, "source_names");
    json_array(json);
    for (unsigned s = 0; s < SPEX_SOURCE_COUNT; s++)
        json_string(json, spex_source_name(s));
    json_end(json);
    json_name(json, "bins");
    json_object(json);
    json_name(json, "first");
    json_begin(json); /* as text: it may be more than a number of JavaScript holds */
    out_printf(json->out, "\"%llu\"", (unsigned long long)r->bins.first);
    JSON_MEMBER(json, "shift", u64, r->bins.shift);
    JSON_MEMBER(json, "count", u64, r->bins.count);
    json_end(json);
    json_name(json, "at_work");
    json_array(json);
    for (unsigned b = 0; b < r->bins.count; b++)
        json_u64(json, r->at_work[b]);
    json_end(json);
    json_name(json, "findings");
    findings_write(r->findings, json);
    marks_write(r, json);
    sizes[PART_FUNCTIONS] -= json->out->size;
    write_set(r, FUNCTIONS, "functions", functions, l->functions, json);
    sizes[PART_FUNCTIONS] += json->out->size;
    sizes[PART_CODE] -= json->out->size;
    code_write(r, l, json);
    sizes[PART_CODE] += json->out->size;
    sizes[PART_STACKS] -= json->out->size;
    flame_write(r, l, json);
    sizes[PART_STACKS] += json->out->size;
    sizes[PART_ROWS] -= json->out->size;
    write_set(r, SOURCES, "sources", source, l->rows, json);
    write_set(r, THREADS, "threads", thread, l->rows, json);
    write_set(r, CPUS, "cpus", source, l->rows, json);
    write_set(r, DATA, "data", source, l->rows, json);
    write_set(r, LINES, "lines", address, l->rows / 4, json);
    write_set(r, PAGES, "pages", address, l->rows / 4, json);
    sizes[PART_ROWS] += json->out->size;
    sizes[PART_MAP] -= json->out->size;
    map_write(r, l, json);
    sizes[PART_MAP] += json->out->size;
    sizes[PART_SHARING] -= json->out->size;
    sharing_write(r, l, json);
    sizes[PART_SHARING] += json->out->size;
    sizes[PART_ROWS] -= json->out->size;
    write_branches(r, l->rows, json);
    write_set(r, TARGETS, "targets", target, l->rows, json);
    sizes[PART_ROWS] += json->out->size;
    json_name(json, "short"); /* at most so many samples of a row may be missing */
    json_object(json);
    JSON_MEMBER(json, "functions", u64, spex_group_error(r->cubes[FUNCTIONS].fine));
    JSON_MEMBER(json, "pages", u64, spex_group_error(r->cubes[PAGES].fine));
    json_end(json);
}

static size_t less(size_t value, double part, size_t least)
{
    size_t smaller = (size_t)((double)value * part);
    return smaller > least ? smaller : least;
}

/* Scales one part down by this factor; false if it is as small as it may be. */
static bool shrink(struct limits *l, enum part part, double to)
{
    const struct limits before = *l;
    switch (part) {
    case PART_FUNCTIONS:
        l->functions = less(l->functions, to, 8);
        break;
    case PART_CODE: /* fewer functions first, then less of each */
        l->code = less(l->code, to, 4);
        if (l->code == before.code)
            l->instructions = less(l->instructions, to, 20);
        if (l->instructions == before.instructions && l->code == before.code)
            l->code = less(l->code, to, 1);
        break;
    case PART_STACKS:
        l->nodes = less(l->nodes, to, 32);
        break;
    case PART_ROWS:
        l->rows = less(l->rows, to, 4);
        break;
    case PART_MAP:
        l->map_rows = less(l->map_rows, to, 8);
        break;
    default:
        l->uses = less(l->uses, to, 4);
        break;
    }
    return memcmp(l, &before, sizeof before) != 0;
}

/* What is too much is taken from the largest part that can shrink, at most half of it at a time. */
static bool make_smaller(struct limits *l, size_t sizes[PARTS], size_t excess)
{
    for (unsigned n = 0; n < PARTS; n++) {
        enum part largest = 0;
        for (unsigned p = 0; p < PARTS; p++)
            largest = sizes[p] > sizes[largest] ? p : largest;
        double size = (double)sizes[largest], left = size - (double)excess;
        double to = left < size / 2 ? 0.5 : left > 0.9 * size ? 0.9 : left / size;
        if (sizes[largest] && shrink(l, largest, to))
            return true;
        sizes[largest] = 0;
    }
    return false;
}

void report_write(struct report *r, struct json *json)
{
    struct limits limits = {.functions = FUNCTIONS_MOST,
                            .code = 40,
                            .instructions = 600,
                            .rows = ROWS_MOST,
                            .uses = 64,
                            .map_rows = 96,
                            .nodes = 1500};
    struct out *out = json->out;
    struct json start = *json;
    for (size_t size = out->size;; out->size = size, *json = start) {
        size_t sizes[PARTS];
        write_all(r, &limits, json, sizes);
        size_t taken = out->size - size;
        if (taken <= r->options.most || !make_smaller(&limits, sizes, taken - r->options.most))
            return;
    }
}
