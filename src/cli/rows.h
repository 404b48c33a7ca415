/* Prints rows whose columns are not known in advance, as text, CSV or JSON lines. */
#ifndef CLI_ROWS_H
#define CLI_ROWS_H

#include "base/out.h"
#include "cli/table.h"
#include "query/query.h"

struct rows {
    struct out *out;
    enum table_format format;
    size_t count; /* number of columns */
    char **names;
    enum query_kind *kinds;
    size_t *widths;
    char **held; /* text: the first rows, which determine the column widths */
    size_t held_rows;
    uint64_t shown;
    struct out cell;
};

void rows_init(struct rows *rows, struct out *out, enum table_format format);
/* Members of a struct query_sink; user is the rows. */
void rows_begin(void *user, const char *const *names, const enum query_kind *kinds, size_t count);
void rows_put(void *user, const char *const *cells);
/* Prints what was held back and the end; frees everything. */
void rows_end(struct rows *rows);

#endif
