/*
 * Rows of table samples as blocks of ClickHouse's Native format: the number of columns and rows,
 * then each column with its name, its type and all of its values. BOOL columns are left out: the
 * table computes them from event_bits.
 */
#ifndef EXPORT_NATIVE_H
#define EXPORT_NATIVE_H

#include "base/ids.h"
#include "export/values.h"

enum { NATIVE_ID = 32, NATIVE_TYPE = 32 };

/* Columns that the table has before those of schema.def. */
enum native_extra { NATIVE_WALL, NATIVE_BATCH, NATIVE_PART, NATIVE_EXTRAS };
extern const char *const native_extra_names[NATIVE_EXTRAS];
extern const char *const native_extra_types[NATIVE_EXTRAS];

/* Is a column of schema.def sent, and with which type? The host is always known. */
bool native_has(enum export_column column);
void native_type(enum export_column column, char type[NATIVE_TYPE]);

struct native_cell {
    size_t at;
    uint32_t size;
    bool null;
};

struct native_column {
    enum export_column column;
    enum export_from from;
    unsigned bytes; /* bytes of a number; 0: text */
    bool optional;
    struct out values, nulls; /* values and nulls of the current block */
    struct out made;          /* values by number of what the column follows from */
    struct native_cell *cells;
    size_t cell_capacity;
};

struct native {
    struct export_source *source;
    char batch[NATIVE_ID + 1];
    int64_t wall_shift;    /* ns from perf's clock to wall-clock time */
    uint32_t wall_end;     /* seconds: time for samples without a time or with an absurd one */
    bool timed;            /* the shift is known */
    uint32_t first, until; /* range of times of all samples since first was set to UINT32_MAX */
    size_t rows;
    struct out walls;
    struct native_column columns[EXPORT_COLUMNS];
    size_t column_count;
    struct ids ids[EXPORT_FROMS];
    uint32_t *numbers[EXPORT_FROMS]; /* numbers of the current samples */
    size_t numbers_capacity;
    struct out text;
};

void native_begin(struct native *native, struct export_source *source);
void native_end(struct native *native);
void native_add(struct native *native, const struct spex_sample *samples, size_t count);
/* Appends what was added as a block of a part, and is empty again. False: there is no memory. */
bool native_take(struct native *native, uint32_t part, struct out *block);

/*
 * Pieces of a block: a length in the format's encoding (seven bits per byte, lowest first), a text,
 * a number of `bytes` bytes, and the heading before a column's values.
 */
void native_varint(struct out *out, uint64_t value);
void native_text(struct out *out, const char *text, size_t size);
static inline void native_number(struct out *out, uint64_t value, unsigned bytes)
{
    char *p = out_room(out, 8);
    for (unsigned i = 0; i < bytes; i++)
        p[i] = (char)(value >> 8 * i);
    out->size += bytes;
}
void native_heading(struct out *out, const char *name, const char *type);
void native_type_of(enum export_type kind, unsigned bits, bool optional, char type[NATIVE_TYPE]);

#endif
