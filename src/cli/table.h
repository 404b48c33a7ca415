/*
 * Tables of results: columns are described by a table in the code, and cells are typed. Aligned
 * text, JSON and CSV have one writer each.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/json.h"

enum table_format { TABLE_AS_TEXT, TABLE_AS_JSON, TABLE_AS_CSV };
extern const char *const table_formats[]; /* values for CLI_CHOICE */

enum table_type {
    TABLE_TEXT,    /* left aligned */
    TABLE_COUNT,   /* 26,412 */
    TABLE_NUMBER,  /* 142, 3.5: at most one decimal */
    TABLE_RATE,    /* 1.28 */
    TABLE_SCALED,  /* 66.2M */
    TABLE_PERCENT, /* fraction; 61.2% */
    TABLE_HEX,     /* 0x4a20c0 */
};

enum { TABLE_COLUMNS = 64 };

struct table_column {
    const char *name;    /* name in JSON, CSV and -F; NULL ends the array */
    const char *heading; /* heading in text output */
    enum table_type type;
    /*
     * text: 0 is always shown; the highest ranks are left out first on a narrow terminal; 255 only
     * on request
     */
    unsigned char rank;
    const char *help;
    bool key; /* identifies the row: shown even if -F does not name it */
};

enum table_style { TABLE_PLAIN, TABLE_HOT, TABLE_WARM, TABLE_DIM, TABLE_BOLD };

struct table;

struct table *table_new(const struct table_column *columns);
void table_free(struct table *table);
/*
 * Selects the fields to show (comma-separated names; "+x" adds x to the standard ones). Returns
 * NULL, or the first word that is not a field.
 */
const char *table_select(struct table *table, const char *fields);
/* Like table_select, but these columns may still be left out on a narrow terminal. */
void table_prefer(struct table *table, const char *fields);
/* Leaves a column out of every format. */
void table_hide(struct table *table, const char *name);

void table_row(struct table *table); /* begins a row; cells that are not set are absent */
void table_set_text(struct table *table, const char *column, const char *text);
void table_printf(struct table *table, const char *column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void table_set(struct table *table, const char *column, double value);
void table_set_u64(struct table *table, const char *column, uint64_t value);
/* Marks the number as a bound: text shows ">=" before it, "~" (about) before a percentage. */
void table_least(struct table *table, const char *column);
void table_style(struct table *table, const char *column, enum table_style style);
/* Marks the row as a note on the table (a total, "12 more"), shown only in text. */
void table_note(struct table *table);
/* Adds a line of text across all columns, shown only in text. */
void table_span(struct table *table, const char *text);
size_t table_rows(const struct table *table);

struct table_options {
    enum table_format format;
    unsigned width;           /* width of text output; 0: as wide as needed */
    bool colour, whole_names; /* text: do not cut names that do not fit */
    unsigned name_width;      /* but cut them at this width; 0: never */
    const char *indent;       /* text, before every line */
};
/* Text: heading and rows. CSV: header and rows. JSON: nothing. */
void table_print(const struct table *table, struct out *out, const struct table_options *options);

/* Writes an array of objects. */
void table_json(const struct table *table, struct json *json);

/* ---- numbers outside tables ---- */

const char *text_count(char buffer[32], uint64_t n); /* 26,412 */
const char *text_scaled(char buffer[32], double n);  /* 66.2M */
const char *text_time(char buffer[32], double ns);   /* 2.31 s, 12.4 ms */

#endif
