/* Data addresses over time: nearby pages in one mapping make a stretch. */
#include "report/internal.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, STRETCHES = 24 };
#define GAP (UINT64_C(16) << 20) /* pages further apart do not belong together */

struct page {
    uint64_t space, address; /* process, or all ones for the kernel */
    size_t row;              /* row in the order of the cube */
};

struct stretch {
    size_t first, count; /* pages */
    uint64_t start, end, samples, remote;
    uint64_t nodes[NODES_MOST]; /* samples */
    const struct spex_module *module;
    uint64_t space;
    unsigned bucket_shift, rows;
    struct sum *sums; /* sums by row and interval */
};

static int by_address(const void *a, const void *b)
{
    const struct page *x = a, *y = b;
    if (x->space != y->space)
        return x->space < y->space ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int by_samples(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

static int by_place(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static struct stretch *find_stretches(struct report *r, const struct page *pages, size_t count,
                                      size_t *found)
{
    struct stretch *list = NULL;
    size_t n = 0, capacity = 0;
    for (size_t i = 0; i < count; i++) {
        struct spex_place place;
        const struct page *p = &pages[i];
        spex_analysis_locate(r->analysis, (int)p->space, p->address, &place);
        struct stretch *last = n ? &list[n - 1] : NULL;
        if (!last || p->space != last->space || p->address - last->end > GAP ||
            place.module != last->module) {
            list = memory_grow(list, n, &capacity, sizeof *list);
            last = &list[n++];
            *last = (struct stretch){
                .first = i, .start = p->address, .module = place.module, .space = p->space};
        }
        last->end = p->address + PAGE;
        last->count++;
        const struct spex_row *row = spex_group_row(r->cubes[PAGES].total, p->row);
        last->samples += spex_row_stat(row, SPEX_STAT_SAMPLES);
        last->remote += spex_row_stat(row, SPEX_STAT_REMOTE);
        nodes_add(r->nodes, p->address, p->space, last->nodes);
    }
    *found = n;
    return list;
}

/*
 * Divides the rows among stretches by the number of bits in their sizes, so that both a large heap
 * and a small array show something.
 */
static void share_rows(struct stretch *list, size_t count, unsigned rows)
{
    unsigned bits = 0;
    for (size_t i = 0; i < count; i++)
        bits += 64 - (unsigned)__builtin_clzll((list[i].end - list[i].start) / PAGE);
    for (size_t i = 0; i < count; i++) {
        uint64_t pages = (list[i].end - list[i].start) / PAGE;
        unsigned mine = (64 - (unsigned)__builtin_clzll(pages)) * rows / bits;
        unsigned shift = 12;
        while (pages * PAGE >> shift > (mine ? mine : 1))
            shift++;
        list[i].bucket_shift = shift;
        list[i].rows = (unsigned)((list[i].end - 1 - list[i].start) >> shift) + 1;
    }
}

struct sum {
    uint64_t samples, cycles;
};

/* The stretch that contains an address, NULL if none does; stretches are in order. */
static struct stretch *stretch_of(struct stretch *list, size_t count, uint64_t space,
                                  uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].space == space && address >= list[i].start && address < list[i].end)
            return &list[i];
    return NULL;
}

/* Adds the samples of every page and interval to the rows of the stretches. */
static void add_up(struct report *r, struct stretch *list, size_t count)
{
    const struct spex_group *fine = r->cubes[PAGES].fine;
    for (size_t i = 0; i < count; i++)
        list[i].sums = memory_get((size_t)list[i].rows * (BINS_MOST + 1), sizeof *list[i].sums);
    for (size_t i = 0; i < spex_group_count(fine); i++) {
        const struct spex_row *row = spex_group_row(fine, i);
        const uint64_t address = spex_row_value(fine, row, 0);
        uint64_t bin = spex_row_value(fine, row, 1) - r->bins.first;
        struct stretch *s = stretch_of(list, count, report_space(fine, row), address);
        if (!s || bin >= r->bins.count)
            continue;
        struct sum *sum =
            &s->sums[((address - s->start) >> s->bucket_shift) * (BINS_MOST + 1) + bin];
        uint64_t cycles;
        spex_row_latencies(row, SPEX_LATENCY_TOTAL, &cycles);
        sum->samples += spex_row_stat(row, SPEX_STAT_SAMPLES);
        sum->cycles += cycles;
    }
}

enum { OBJECTS = 4 }; /* how many are named in a stretch */

struct object {
    const struct spex_symbol *symbol;
    uint64_t samples;
};

static int larger_first(const void *a, const void *b)
{
    const struct object *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    return x->symbol->start < y->symbol->start ? -1 : x->symbol->start > y->symbol->start;
}

/* "objects": the variables with most samples in a stretch, found by the lines that took longest. */
static void write_objects(const struct report *r, const struct stretch *s, struct json *json)
{
    struct object *list = NULL;
    size_t count = 0, capacity = 0;
    for (size_t i = 0; i < r->line_count; i++) {
        const struct spex_hot_line *line = &r->lines[i];
        struct spex_place place;
        size_t n = 0;
        if ((uint64_t)(int64_t)line->pid != s->space || line->address < s->start ||
            line->address >= s->end)
            continue;
        spex_analysis_locate(r->analysis, line->pid, line->address, &place);
        if (!place.symbol || !place.symbol->name)
            continue;
        while (n < count && list[n].symbol != place.symbol)
            n++;
        if (n == count) {
            list = memory_grow(list, count, &capacity, sizeof *list);
            list[count++] = (struct object){place.symbol, 0};
        }
        list[n].samples += line->samples;
    }
    if (count)
        qsort(list, count, sizeof *list, larger_first);
    json_name(json, "objects");
    json_array(json);
    for (size_t i = 0; i < count && i < OBJECTS; i++)
        json_string(json, list[i].symbol->name);
    json_end(json);
    free(list);
}

/* Cells as row, interval, samples, cycles one after the other; only those with samples. */
static void write_cells(const struct stretch *s, struct json *json)
{
    json_name(json, "cells");
    json_array(json);
    for (unsigned row = 0; row < s->rows; row++)
        for (unsigned b = 0; b <= BINS_MOST; b++) {
            const struct sum *sum = &s->sums[row * (BINS_MOST + 1) + b];
            if (!sum->samples)
                continue;
            json_u64(json, row);
            json_u64(json, b);
            json_u64(json, sum->samples);
            json_u64(json, sum->cycles);
        }
    json_end(json);
}

void map_write(struct report *r, const struct limits *limits, struct json *json)
{
    const struct cube *cube = &r->cubes[PAGES];
    size_t count = spex_group_count(cube->total), found;
    struct page *pages = memory_get(count + 1, sizeof *pages);
    for (size_t i = 0; i < count; i++) {
        const struct spex_row *row = spex_group_row(cube->total, i);
        pages[i] =
            (struct page){report_space(cube->total, row), spex_row_value(cube->total, row, 0), i};
    }
    qsort(pages, count, sizeof *pages, by_address);
    struct stretch *list = find_stretches(r, pages, count, &found);
    if (found)
        qsort(list, found, sizeof *list, by_samples);
    size_t shown = found < STRETCHES ? found : STRETCHES;
    if (shown)
        qsort(list, shown, sizeof *list, by_place);
    share_rows(list, shown, (unsigned)limits->map_rows);
    add_up(r, list, shown);
    json_name(json, "map");
    json_array_lines(json);
    for (size_t i = 0; i < shown; i++) {
        json_object(json);
        JSON_MEMBER(json, "name", string,
                    list[i].module        ? spex_module_name(list[i].module)
                    : list[i].start >> 63 ? "[kernel]"
                                          : "[unmapped]");
        JSON_MEMBER(json, "pid", i64, (int32_t)list[i].space);
        write_objects(r, &list[i], json);
        JSON_MEMBER(json, "start", hex, list[i].start);
        JSON_MEMBER(json, "shift", u64, list[i].bucket_shift);
        JSON_MEMBER(json, "rows", u64, list[i].rows);
        JSON_MEMBER(json, "samples", u64, list[i].samples);
        JSON_MEMBER(json, "remote", u64, list[i].remote);
        if (r->nodes)
            nodes_write(r->nodes, list[i].nodes, json);
        write_cells(&list[i], json);
        json_end(json);
        free(list[i].sums);
    }
    json_end(json);
    JSON_MEMBER(json, "map_left_out", u64, found - shown);
    free(list);
    free(pages);
}
