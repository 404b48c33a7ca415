/*
 * The tables beside samples: the files that ran, their functions, call stacks, where data was
 * lost, and what threads did while they did not run. A pass over the samples fills them; after that
 * their rows can be read one by one.
 */
#ifndef EXPORT_TABLES_H
#define EXPORT_TABLES_H

#include "export/values.h"

enum tables_id {
#define TABLE(id, name, meaning) TABLES_##id,
#define COLUMN(name, type, bits, null, meaning)
#define END
#include "export/tables.def"
    TABLES_COUNT,
    TABLES_SENT = TABLES_ELAPSED, /* those before it are a fleet's, too */
};

enum { TABLES_COLUMNS = 11 }; /* most columns of a table */

struct tables_column {
    const char *name;
    enum export_type type;
    unsigned bits;
    const char *null; /* when it is absent; NULL: never */
    const char *meaning;
};

struct tables_info {
    const char *name, *meaning;
    struct tables_column columns[TABLES_COLUMNS + 1]; /* the last has no name */
};

extern const struct tables_info tables_info[TABLES_COUNT];
size_t tables_columns(enum tables_id table);

struct tables_cell {
    bool there;
    uint64_t number;
    const char *text; /* a STRING's bytes, valid until the next row */
};

struct tables;

/* enum spex_want of a pass that feeds them. */
enum { TABLES_WANT = SPEX_WANT_BASE | SPEX_WANT_SYMBOL | SPEX_WANT_STACK };

struct tables *tables_new(struct spex_analysis *analysis);
void tables_free(struct tables *tables);
/* Samples of a pass; the context is a struct tables. */
void tables_sink(void *context, const struct spex_sample *samples, size_t count);

/* After the pass, while nobody else reads the profile: goes to the first row of a table. */
void tables_begin(struct tables *tables, enum tables_id table);
bool tables_next(struct tables *tables, struct tables_cell cells[TABLES_COLUMNS]);

#endif
