/*
 * Parquet files: row groups of column chunks of pages, compressed with zstd, and a footer. It only
 * appends, so any output will do. Memory holds one compressed row group, that group's dictionaries,
 * and a few hundred bytes per group and column for the footer.
 *
 * There are two ways to pass a page of a column:
 *   mapped   few distinct values: rows have ids, and a map turns ids into dictionary indices
 *   numbers  a value per row: a dictionary while it pays, then DELTA_BINARY_PACKED or PLAIN
 */
#ifndef EXPORT_PARQUET_H
#define EXPORT_PARQUET_H

#include "base/out.h"
#include "base/vec.h"

#include <zstd.h>

enum parquet_type { PARQUET_BOOL, PARQUET_UINT, PARQUET_STRING };

struct parquet_field {
    const char *name;
    enum parquet_type type;
    unsigned bits;  /* PARQUET_UINT: 8, 16, 32 or 64 */
    bool optional;  /* may be null */
    bool ascending; /* values mostly grow: no dictionary is tried */
};

#define PARQUET_NULL UINT32_MAX

/* Minimum and maximum of a page or chunk; for texts, as indices into the dictionary. */
struct parquet_range {
    bool any; /* some value is not null */
    uint64_t least, most;
};

struct parquet_page {
    uint64_t offset; /* offset within the column's pages */
    uint32_t size;
    uint64_t first_row;
    uint64_t nulls;
    struct parquet_range range;
};

struct parquet_column {
    struct parquet_field field;
    struct out pages; /* pages of the row group, with headers */
    VEC(struct parquet_page) index;
    char *plain; /* the dictionary as it will be written */
    size_t plain_size, plain_capacity;
    uint64_t *entries; /* numbers, or where texts begin in plain */
    size_t entry_count, entry_capacity;
    uint32_t *slots; /* 1 + entry by hash; of numbers of few bits by their value */
    size_t slot_count;
    bool by_value;
    bool no_dictionary; /* in this group */
    uint64_t rows, nulls, uncompressed;
    unsigned encodings; /* a bit each */
    unsigned dictionary_pages, other_pages, other_encoding;
    struct parquet_range range;
};

/* Scratch memory to make pages with, and the page that is being made. */
struct parquet_maker {
    struct out body, packed, header;
    uint32_t *indices;
    uint8_t *levels, *bits;
    size_t room; /* rows that these hold */
    ZSTD_CCtx *zstd;
    int error;
    struct {
        int encoding;
        size_t rows, count;     /* count: of those that are not null */
        const uint64_t *values; /* not in a dictionary */
        const uint8_t *defined;
        unsigned width; /* bits of an index */
        bool same;      /* all have the first index */
        struct parquet_range range;
    } page;
};
void parquet_maker_init(struct parquet_maker *maker);
void parquet_maker_fini(struct parquet_maker *maker);

struct parquet {
    struct out *out;
    const char *name; /* name of the table */
    uint64_t written; /* bytes before what out still holds */
    struct parquet_column *columns;
    size_t column_count;
    uint64_t rows; /* rows in finished groups */
    struct out groups;
    size_t group_count;
    struct parquet_maker maker;
};

/* fields are copied, names are not. out stays the caller's. */
void parquet_begin(struct parquet *file, struct out *out, const char *name,
                   const struct parquet_field *fields, size_t count);

/* The index of a value in the column's dictionary of this group. */
uint32_t parquet_entry_number(struct parquet_column *column, uint64_t value);
uint32_t parquet_entry_text(struct parquet_column *column, const char *text, size_t size);

/*
 * map: for each id, an index into the dictionary, 0 or 1 for a boolean, or PARQUET_NULL. used: the
 * ids that occur in the page.
 */
void parquet_page_mapped(struct parquet *file, size_t column, const uint32_t *map,
                         const uint32_t *ids, size_t rows, const uint32_t *used, size_t used_count);
/*
 * A page in three steps: it is planned, pages of a column in their order; packed, on any thread;
 * and added, in their order again. numbers: `count` values, for the rows where defined is 1; both
 * must stay until the page is packed.
 */
void parquet_plan_mapped(struct parquet_maker *maker, struct parquet_column *column,
                         const uint32_t *map, const uint32_t *ids, size_t rows,
                         const uint32_t *used, size_t used_count);
void parquet_plan_numbers(struct parquet_maker *maker, struct parquet_column *column,
                          const uint64_t *values, size_t count, const uint8_t *defined,
                          size_t rows);
void parquet_pack(struct parquet_maker *maker, const struct parquet_column *column);
void parquet_add(struct parquet_maker *maker, struct parquet_column *column);
/* After the last page that a maker has made. */
void parquet_take_error(struct parquet *file, const struct parquet_maker *maker);

/*
 * All columns must have the same rows. sorted: number of a column that never falls, or -1. columns:
 * the file's, or others with the same fields, so that a group can be begun before the one before it
 * is written.
 */
void parquet_group_end(struct parquet *file, struct parquet_column *columns, uint64_t rows,
                       int sorted);
struct parquet_column *parquet_columns(const struct parquet *file);
void parquet_columns_free(const struct parquet *file, struct parquet_column *columns);
/* After the last page of a group was planned: the next one need not try a dictionary. */
bool parquet_gave_up(const struct parquet_column *column);

struct parquet_note {
    const char *key, *value;
};
/* The footer; frees. Errors are in out. */
void parquet_end(struct parquet *file, const struct parquet_note *notes, size_t count,
                 const char *created_by);

#endif
