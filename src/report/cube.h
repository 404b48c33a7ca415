/*
 * A table that is also kept by interval of time: a group whose last key is SPEX_KEY_TIME_BIN,
 * and one without that key, which has the totals and their order.
 */
#ifndef REPORT_CUBE_H
#define REPORT_CUBE_H

#include "base/json.h"
#include "report/stats.h"

enum metric {
#define METRIC(name, value) METRIC_##name,
#include "report/metrics.def"
    METRIC_time_square, /* ns^2: what the interval of time follows from (struct spex_stats), */
    METRIC_repeats,     /* and these, of the same cubes */
    METRIC_SOURCE,
    METRIC_BUCKET = METRIC_SOURCE + SPEX_SOURCE_COUNT,
    METRICS = METRIC_BUCKET + SPEX_BUCKETS
};
enum { BINS_MOST = 272, CUBE_KEYS = 4 };

struct vector {
    uint64_t value[METRICS];
    double time_square; /* value[METRIC_time_square] is not used: 64 bits may not be enough */
};
/* Adds a row of a group, but for time_square and repeats. */
void vector_add(struct vector *vector, const struct spex_group *group, const struct spex_row *row);
/* Metrics that are not 0, as number and value one after the other. */
void vector_write(const struct vector *vector, struct json *json);
void metrics_write(struct json *json); /* their names */

struct bins { /* intervals of time: 2^shift ns each, from number first on; none without times */
    uint64_t first;
    unsigned shift, count;
};

struct cell {
    uint32_t row,
        bin; /* position in the order of the totals; interval, or the count if there is no time */
    const struct spex_row *from;
};

struct cube_text {
    char *data; /* NULL: not yet written */
    size_t size;
};

struct cube {
    struct spex_group *fine, *total;
    size_t keys;                 /* keys of the total */
    bool percentiles, intervals; /* has "p"; vectors have time_square and repeats */
    size_t rows;                 /* number of rows */
    size_t kept;                 /* rows with cells of their own */
    struct vector *rest;         /* sum of the other rows, by interval */
    struct vector *beyond;       /* what no row of the total holds; NULL: nothing */
    struct cell *cells;
    size_t count;
    struct cube_text *texts; /* output of cube_write_row for each kept row */
};

/* Makes both groups; the total is derived. A status if there is no memory or the keys are wrong. */
enum spex_status cube_new(struct cube *cube, struct spex_analysis *analysis,
                          const enum spex_key *keys, size_t count, unsigned flags,
                          unsigned time_shift, struct spex_error *error);
void cube_free(struct cube *cube);
/* After the last sample: orders rows, and the cells of the first keep of them. */
void cube_finish(struct cube *cube, const struct bins *bins, enum spex_order order, size_t keep);
/*
 * After cube_finish, for a cube that counted only the rows it keeps: adds what the other rows
 * have, taken from a cube that counted all of the same samples.
 */
void cube_rest_of(struct cube *cube, size_t rows, const struct cube *all, const struct bins *bins);
/* Cells of a row that is kept: first and how many. */
const struct cell *cube_cells(const struct cube *cube, size_t row, size_t *count);
/* "total", "p" and "cells" of a row. */
void cube_write_row(const struct cube *cube, size_t row, struct json *json);
/* The same for all rows from this one on, summed up; "p" is left out. */
void cube_write_rest(const struct cube *cube, size_t first, struct json *json);
/* "name": text of the n-th key. */
void cube_write_key(const struct cube *cube, size_t row, size_t n, struct json *json);

#endif
