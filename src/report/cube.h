/*
 * A table that is also kept for each interval of time: a group whose last key is SPEX_KEY_TIME_BIN,
 * and one without that key, which has the totals and their order.
 */
#ifndef REPORT_CUBE_H
#define REPORT_CUBE_H

#include "base/json.h"
#include "report/stats.h"

enum metric {
#define METRIC(name, value) METRIC_##name,
#include "report/metrics.def"
    METRIC_time_square, /* ns^2: for the confidence interval of time (struct spex_stats), */
    METRIC_repeats,     /* like these; only of the cube for which intervals is set */
    METRIC_SOURCE,
    METRIC_BUCKET = METRIC_SOURCE + SPEX_SOURCE_COUNT,
    METRICS = METRIC_BUCKET + SPEX_BUCKETS
};
enum { BINS_MOST = 272, CUBE_KEYS = 4 };

struct vector {
    uint64_t value[METRICS];
    /* value[METRIC_time_square] is not used: the sum may need more than 64 bits */
    double time_square;
};
/* Adds a row of a group, except for time_square and repeats. */
void vector_add(struct vector *vector, const struct spex_group *group, const struct spex_row *row);
/* Writes the metrics that are not 0 as pairs of number and value. */
void vector_write(const struct vector *vector, struct json *json);
void metrics_write(struct json *json); /* writes their names */

/* intervals of time: 2^shift ns each, starting with number first; none without timestamps */
struct bins {
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
    size_t kept;                 /* rows that have their own cells */
    struct vector *rest;         /* sum of the other rows, by interval */
    struct vector *beyond;       /* what belongs to no row of the total; NULL: nothing */
    struct cell *cells;
    size_t count;
    struct cube_text *texts; /* output of cube_write_row for each kept row */
};

/* Makes both groups; the total is derived. A status if there is no memory or the keys are wrong. */
enum spex_status cube_new(struct cube *cube, struct spex_analysis *analysis,
                          const enum spex_key *keys, size_t count, unsigned flags,
                          unsigned time_shift, struct spex_error *error);
void cube_free(struct cube *cube);
/* Call it after the last sample: orders the rows, and the cells of the first `keep` rows. */
void cube_finish(struct cube *cube, const struct bins *bins, enum spex_order order, size_t keep);
/*
 * Call it after cube_finish, for a cube that counted only the rows it keeps: adds what belongs to
 * the other rows, taken from a cube that counted all the same samples.
 */
void cube_rest_of(struct cube *cube, size_t rows, const struct cube *all, const struct bins *bins);
/* The cells of a kept row: the first one, and how many there are. */
const struct cell *cube_cells(const struct cube *cube, size_t row, size_t *count);
/* Writes "total", "p" and "cells" of a row. */
void cube_write_row(const struct cube *cube, size_t row, struct json *json);
/* Writes the same for the sum of all rows from this one on, without "p". */
void cube_write_rest(const struct cube *cube, size_t first, struct json *json);
/* Writes "name": the text of the n-th key. */
void cube_write_key(const struct cube *cube, size_t row, size_t n, struct json *json);

#endif
