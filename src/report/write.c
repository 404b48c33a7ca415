/*
 * Writes the data as JSON: every section, with fewer rows in the largest ones if the page would be
 * too large.
 */
#include "report/internal.h"

#include "report/words.h"

#include <string.h>

static void write_page_nodes(struct report *r, size_t row, struct json *json)
{
    const struct spex_group *pages = r->cubes[PAGES].total;
    const struct spex_row *page = spex_group_row(pages, row);
    uint64_t counts[NODES_MOST] = {0};
    nodes_add(r->nodes, spex_row_value(pages, page, 0), report_space(pages, page), counts);
    nodes_write(r->nodes, counts, json);
}

/*
 * Writes the rows of a set, each as an object with the texts of its keys under these names; then
 * the sum of the other rows.
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
        if (!spex_row_stat(row, SPEX_STAT_BRANCHES))
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

static void write_head(struct report *r, const struct limits *limits, struct json *json)
{
    (void)limits;
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
    json_begin(json); /* a string: JavaScript numbers may be too small */
    out_printf(json->out, "\"%llu\"", (unsigned long long)r->bins.first);
    JSON_MEMBER(json, "shift", u64, r->bins.shift);
    JSON_MEMBER(json, "count", u64, r->bins.count);
    json_end(json);
    struct spex_replay replay = {.size = sizeof replay};
    spex_analysis_replay(r->analysis, &replay);
    JSON_MEMBER(json, "weights_off", real, replay.weights_off);
    JSON_MEMBER(json, "thread_count", u64, spex_analysis_threads(r->analysis));
    json_name(json, "at_work");
    json_array(json);
    for (unsigned b = 0; b < r->bins.count; b++)
        json_u64(json, r->at_work[b]);
    json_end(json);
    json_name(json, "findings");
    words_write(r->findings, json);
    marks_write(r, json);
}

static void write_functions(struct report *r, const struct limits *limits, struct json *json)
{
    static const char *const keys[] = {"name", "dso"};
    write_set(r, FUNCTIONS, "functions", keys, limits->functions, json);
}

static void write_tables(struct report *r, const struct limits *limits, struct json *json)
{
    static const char *const name[] = {"name"}, *const thread[] = {"pid", "tid", "name"};
    write_set(r, SOURCES, "sources", name, limits->rows, json);
    write_set(r, THREADS, "threads", thread, limits->rows, json);
    write_set(r, CPUS, "cpus", name, limits->rows, json);
    write_set(r, DATA, "data", name, limits->rows, json);
}

static void write_lines(struct report *r, const struct limits *limits, struct json *json)
{
    static const char *const name[] = {"name"};
    write_set(r, LINES, "lines", name, limits->rows / 4, json);
}

static void write_pages(struct report *r, const struct limits *limits, struct json *json)
{
    static const char *const name[] = {"name"};
    write_set(r, PAGES, "pages", name, limits->rows / 4, json);
}

static void write_targets(struct report *r, const struct limits *limits, struct json *json)
{
    static const char *const keys[] = {"pc", "symbol", "target"};
    write_branches(r, limits->rows, json);
    write_set(r, TARGETS, "targets", keys, limits->rows, json);
}

static void write_short(struct report *r, const struct limits *limits, struct json *json)
{
    (void)limits;
    json_name(json, "short"); /* the most samples that a row may lack */
    json_object(json);
    JSON_MEMBER(json, "functions", u64, spex_group_error(r->cubes[FUNCTIONS].fine));
    JSON_MEMBER(json, "pages", u64, spex_group_error(r->cubes[PAGES].fine));
    json_end(json);
}

/*
 * The sections of the data, in order. part: the part they belong to; PARTS: the section never
 * shrinks. by: one thread writes all sections with the same number, since they look up names, lines
 * or code.
 */
static const struct {
    enum part part;
    unsigned by;
    void (*write)(struct report *report, const struct limits *limits, struct json *json);
} sections[] = {{PARTS, 0, write_head},           {PART_FUNCTIONS, 1, write_functions},
                {PART_CODE, 0, code_write},       {PART_STACKS, 0, flame_write},
                {PART_ROWS, 1, write_tables},     {PART_ROWS, 2, write_lines},
                {PART_ROWS, 3, write_pages},      {PART_MAP, 0, map_write},
                {PART_SHARING, 0, sharing_write}, {PART_ROWS, 0, write_targets},
                {PARTS, 0, write_short}};
enum { SECTIONS = sizeof sections / sizeof *sections, WRITERS = 4 };

struct writing {
    struct json json; /* the state before the first section */
    struct limits limits;
    struct out texts[SECTIONS];
    bool changed[SECTIONS];
};

static void write_sections(struct report *r, void *context, size_t by)
{
    struct writing *w = context;
    for (unsigned i = 0; i < SECTIONS; i++) {
        struct json section = w->json;
        section.out = &w->texts[i];
        section.any |= i > 0;
        if (!w->changed[i] || sections[i].by != by)
            continue;
        w->texts[i].size = 0;
        sections[i].write(r, &w->limits, &section);
    }
}

static size_t less(size_t value, double part, size_t least)
{
    size_t smaller = (size_t)((double)value * part);
    return smaller > least ? smaller : least;
}

/* Scales one part down by this factor; false if it is already as small as possible. */
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

/*
 * Takes the excess from the largest part that can shrink, at most half of that part at a time.
 * Returns that part; PARTS if none can shrink.
 */
static enum part make_smaller(struct limits *l, size_t sizes[PARTS], size_t excess)
{
    for (unsigned n = 0; n < PARTS; n++) {
        enum part largest = 0;
        for (unsigned p = 0; p < PARTS; p++)
            largest = sizes[p] > sizes[largest] ? p : largest;
        double size = (double)sizes[largest], left = size - (double)excess;
        double to = left < size / 2 ? 0.5 : left > 0.9 * size ? 0.9 : left / size;
        if (sizes[largest] && shrink(l, largest, to))
            return largest;
        sizes[largest] = 0;
    }
    return PARTS;
}

/* Writes each section into separate memory, so that only sections that shrank are written again. */
void report_write(struct report *r, struct json *json)
{
    struct writing w = {.json = *json,
                        .limits = {.functions = FUNCTIONS_MOST,
                                   .code = 40,
                                   .instructions = 600,
                                   .rows = ROWS_MOST,
                                   .uses = 64,
                                   .map_rows = 96,
                                   .nodes = 1500}};
    enum part smaller;
    for (unsigned i = 0; i < SECTIONS; i++) {
        out_init(&w.texts[i], -1);
        w.changed[i] = true;
    }
    do {
        size_t sizes[PARTS + 1] = {0}, taken = 0;
        report_share(r, WRITERS, &w, write_sections);
        for (unsigned i = 0; i < SECTIONS; i++) {
            sizes[sections[i].part] += w.texts[i].size;
            taken += w.texts[i].size;
        }
        smaller = taken > r->options.most ? make_smaller(&w.limits, sizes, taken - r->options.most)
                                          : PARTS;
        for (unsigned i = 0; i < SECTIONS; i++)
            w.changed[i] = sections[i].part == smaller;
    } while (smaller != PARTS);
    for (unsigned i = 0; i < SECTIONS; i++) {
        out_bytes(json->out, w.texts[i].data, w.texts[i].size);
        json->any |= 1;
        int error = out_fini(&w.texts[i]);
        json->out->error = json->out->error ? json->out->error : error;
    }
}
