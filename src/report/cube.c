#include "report/cube.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_stats(struct vector *v, const struct spex_group *group, const struct spex_row *row,
                      const struct spex_stats *t)
{
#define METRIC(name, from) v->value[METRIC_##name] += from;
#include "report/metrics.def"
    for (unsigned s = 0; s < SPEX_SOURCE_COUNT; s++)
        v->value[METRIC_SOURCE + s] += t->source[s];
    spex_row_buckets(group, row, SPEX_LATENCY_TOTAL, v->value + METRIC_BUCKET);
}

void vector_add(struct vector *v, const struct spex_group *group, const struct spex_row *row)
{
    const struct spex_stats stats = stats_of(row);
    add_stats(v, group, row, &stats);
}

/* Returns how many values are not 0: only those are written. */
static unsigned write_values(const struct vector *v, struct json *json)
{
    unsigned n = 0;
    for (unsigned m = 0; m < METRICS; m++) {
        double square = m == METRIC_time_square ? round(v->time_square) : 0;
        if (!v->value[m] && square <= 0)
            continue;
        n++;
        if (!json)
            continue;
        json_u64(json, m);
        if (v->value[m]) {
            json_u64(json, v->value[m]);
        } else {
            json_begin(json);
            out_printf(json->out, "%.0f", square);
        }
    }
    return n;
}

void vector_write(const struct vector *v, struct json *json)
{
    json_array(json);
    write_values(v, json);
    json_end(json);
}

void metrics_write(struct json *json)
{
    json_array(json);
#define METRIC(name, from) json_string(json, #name);
#include "report/metrics.def"
    json_string(json, "time_square");
    json_string(json, "repeats");
    json_end(json);
}

enum spex_status cube_new(struct cube *cube, struct spex_analysis *analysis,
                          const enum spex_key *keys, size_t count, unsigned flags,
                          unsigned time_shift, struct spex_error *error)
{
    enum spex_key with_time[SPEX_KEYS_MAX];
    struct spex_group_options options = {.size = sizeof options,
                                         .keys = with_time,
                                         .key_count = count + 1,
                                         .flags = flags,
                                         .time_shift = time_shift};
    memcpy(with_time, keys, count * sizeof *keys);
    with_time[count] = SPEX_KEY_TIME_BIN;
    cube->keys = count;
    cube->percentiles = flags & SPEX_GROUP_PERCENTILES;
    enum spex_status status = spex_group_new(analysis, &options, &cube->fine, error);
    options.key_count = count;
    if (!status)
        status = spex_group_new(analysis, &options, &cube->total, error);
    if (!status)
        spex_group_derive(cube->total, cube->fine);
    return status;
}

void cube_free(struct cube *cube)
{
    spex_group_free(cube->total);
    spex_group_free(cube->fine);
    for (size_t i = 0; cube->texts && i < cube->kept; i++)
        free(cube->texts[i].data);
    free(cube->texts);
    free(cube->cells);
    free(cube->rest);
    free(cube->beyond);
}

/* Adds a row of one of the cube's groups. */
static void add_row(const struct cube *cube, struct vector *v, const struct spex_group *group,
                    const struct spex_row *row)
{
    const struct spex_stats stats = stats_of(row);
    add_stats(v, group, row, &stats);
    if (cube->intervals) {
        v->time_square += stats.time_square;
        v->value[METRIC_repeats] += stats.repeats;
    }
}

/* ---- cells in order ---- */

struct index { /* index of the kept rows of the total, by key */
    const struct cube *cube;
    uint32_t *slots; /* row + 1; 0 free */
    size_t mask, words;
};

/* The words of its keys, which are those of the total's first. */
static const uint64_t *first_word(const struct spex_group *group, const struct spex_row *row)
{
    size_t words;
    return spex_row_words(group, row, 0, &words);
}

static size_t *find_slot(const struct index *index, const uint64_t *key, size_t *slot)
{
    uint64_t hash = hash_seed();
    for (size_t k = 0; k < index->words; k++)
        hash = hash_word(hash, key[k]);
    for (*slot = hash & index->mask; index->slots[*slot]; *slot = (*slot + 1) & index->mask) {
        const struct spex_row *row = spex_group_row(index->cube->total, index->slots[*slot] - 1);
        if (!memcmp(first_word(index->cube->total, row), key, index->words * sizeof *key))
            break;
    }
    return slot;
}

static struct index index_rows(const struct cube *cube, size_t rows)
{
    const struct spex_row *any = spex_group_row(cube->fine, 0);
    struct index index = {cube, NULL, 1023, 0};
    for (size_t k = 0, words; k < cube->keys; k++, index.words += words)
        spex_row_words(cube->fine, any, k, &words);
    while (index.mask < 2 * rows)
        index.mask = 2 * index.mask + 1;
    index.slots = memory_get(index.mask + 1, sizeof *index.slots);
    for (size_t i = 0, slot; i < rows; i++)
        index.slots[*find_slot(&index, first_word(cube->total, spex_group_row(cube->total, i)),
                               &slot)] = (uint32_t)i + 1;
    return index;
}

static int compare_cells(const void *a, const void *b)
{
    const struct cell *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->bin < y->bin ? -1 : x->bin > y->bin;
}

static unsigned bin_of(const struct cube *cube, const struct spex_row *row, const struct bins *bins)
{
    uint64_t at = spex_row_value(cube->fine, row, cube->keys) - bins->first;
    return at < bins->count ? (unsigned)at : bins->count;
}

void cube_finish(struct cube *cube, const struct bins *bins, enum spex_order order, size_t keep)
{
    spex_group_sort(cube->fine, SPEX_BY_NOTHING);
    spex_group_sort(cube->total, order);
    size_t rows = cube->rows = spex_group_count(cube->total), count = spex_group_count(cube->fine),
           n = 0;
    size_t capacity = 0;
    if (!rows || !count)
        return;
    cube->kept = keep < rows ? keep : rows;
    cube->texts = memory_get(cube->kept, sizeof *cube->texts);
    struct index index = index_rows(cube, cube->kept);
    cube->rest = memory_get(BINS_MOST + 1, sizeof *cube->rest);
    for (size_t i = 0, slot; i < count; i++) {
        const struct spex_row *row = spex_group_row(cube->fine, i);
        unsigned bin = bin_of(cube, row, bins);
        uint32_t found = index.slots[*find_slot(&index, first_word(cube->fine, row), &slot)];
        if (!found) {
            add_row(cube, &cube->rest[bin], cube->fine, row);
            continue;
        }
        cube->cells = memory_grow(cube->cells, n, &capacity, sizeof *cube->cells);
        cube->cells[n++] = (struct cell){found - 1, bin, row};
    }
    cube->count = n;
    free(index.slots);
    if (n)
        qsort(cube->cells, n, sizeof *cube->cells, compare_cells);
}

static void vector_take(struct vector *v, const struct spex_group *group,
                        const struct spex_row *row)
{
    struct vector less = {{0}, 0};
    vector_add(&less, group, row);
    for (unsigned m = 0; m < METRICS; m++)
        v->value[m] -= less.value[m];
}

void cube_rest_of(struct cube *cube, size_t rows, const struct cube *all, const struct bins *bins)
{
    if (!cube->rest)
        return;
    cube->rows = rows > cube->kept ? rows : cube->kept;
    cube->beyond = memory_get(1, sizeof *cube->beyond);
    memset(cube->rest, 0, (BINS_MOST + 1) * sizeof *cube->rest);
    for (size_t i = 0; i < spex_group_count(all->total); i++)
        vector_add(cube->beyond, all->total, spex_group_row(all->total, i));
    for (size_t i = 0; i < cube->kept; i++)
        vector_take(cube->beyond, cube->total, spex_group_row(cube->total, i));
    for (size_t i = 0; i < spex_group_count(all->fine); i++) {
        const struct spex_row *row = spex_group_row(all->fine, i);
        vector_add(&cube->rest[bin_of(all, row, bins)], all->fine, row);
    }
    for (size_t i = 0; i < cube->count; i++)
        vector_take(&cube->rest[cube->cells[i].bin], cube->fine, cube->cells[i].from);
}

const struct cell *cube_cells(const struct cube *cube, size_t row, size_t *count)
{
    size_t low = SEARCH(i, 0, cube->count, cube->cells[i].row < row), high;
    for (high = low; high < cube->count && cube->cells[high].row == row; high++)
        ;
    *count = high - low;
    return cube->cells + low;
}

/* ---- writing ---- */

/* Writes a cell: its interval, the count of numbers that follow, and the numbers. */
static void write_cell(const struct vector *v, unsigned bin, struct json *json)
{
    json_u64(json, bin);
    json_u64(json, 2 * write_values(v, NULL));
    write_values(v, json);
}

static void write_row(const struct cube *cube, size_t row, struct json *json)
{
    static const double quantiles[] = {0.5, 0.95, 0.99};
    const struct spex_row *r = spex_group_row(cube->total, row);
    struct vector v = {{0}, 0};
    size_t count;
    add_row(cube, &v, cube->total, r);
    json_name(json, "total");
    vector_write(&v, json);
    if (cube->percentiles) {
        json_name(json, "p");
        json_array(json);
        for (size_t i = 0; i < 3; i++)
            json_i64(json, spex_row_latency(cube->total, r, SPEX_LATENCY_TOTAL, quantiles[i]));
        json_end(json);
    }
    const struct cell *cells = cube_cells(cube, row, &count);
    json_name(json, "cells");
    json_array(json);
    for (size_t i = 0; i < count; i++) {
        memset(&v, 0, sizeof v);
        add_row(cube, &v, cube->fine, cells[i].from);
        write_cell(&v, cells[i].bin, json);
    }
    json_end(json);
}

/* A page that is too large is written again with fewer rows: those that remain are the same. */
void cube_write_row(const struct cube *cube, size_t row, struct json *json)
{
    struct cube_text *text = &cube->texts[row];
    const size_t from = json->out->size;
    if (text->data) {
        out_bytes(json->out, text->data, text->size);
        return;
    }
    write_row(cube, row, json);
    if (json->out->error) /* out of memory: the text is lost */
        return;
    text->size = json->out->size - from;
    text->data = memory_get(text->size, 1);
    memcpy(text->data, json->out->data + from, text->size);
}

void cube_write_rest(const struct cube *cube, size_t first, struct json *json)
{
    struct vector *bins = memory_get(BINS_MOST + 1, sizeof *bins), total = {{0}, 0};
    if (cube->rest)
        memcpy(bins, cube->rest, (BINS_MOST + 1) * sizeof *bins);
    if (cube->beyond)
        total = *cube->beyond;
    for (size_t i = first; i < (cube->beyond ? cube->kept : cube->rows); i++)
        add_row(cube, &total, cube->total, spex_group_row(cube->total, i));
    for (size_t i = 0; i < cube->count; i++)
        if (cube->cells[i].row >= first)
            add_row(cube, &bins[cube->cells[i].bin], cube->fine, cube->cells[i].from);
    json_name(json, "total");
    vector_write(&total, json);
    json_name(json, "cells");
    json_array(json);
    for (unsigned b = 0; b <= BINS_MOST; b++)
        if (bins[b].value[METRIC_samples])
            write_cell(&bins[b], b, json);
    json_end(json);
    free(bins);
}

void cube_write_key(const struct cube *cube, size_t row, size_t n, struct json *json)
{
    const struct spex_row *r = spex_group_row(cube->total, row);
    char text[1024];
    spex_row_text(cube->total, r, n, text, sizeof text);
    json_string(json, text);
}
