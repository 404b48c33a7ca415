/*
 * The schema of all rows that spex writes: schema.def. A column has a name, a type, a unit, the
 * packet that it comes from and a meaning; values.h computes its value for a sample.
 */
#ifndef EXPORT_SCHEMA_H
#define EXPORT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#define EXPORT_SCHEMA "spex.samples.1"

enum export_column {
#define COLUMN(id, name, type, bits, unit, packet, null, from, shown, label, meaning) EXPORT_##id,
#include "export/schema.def"
    EXPORT_COLUMNS
};

/* NUMBER and ADDRESS differ in how people read them: decimal and hexadecimal. */
enum export_type { EXPORT_STRING, EXPORT_NUMBER, EXPORT_ADDRESS_TYPE, EXPORT_BOOL, EXPORT_LIST };

/* The origin of a column: samples with the same origin have the same value. */
enum export_from {
    EXPORT_FROM_ITSELF, /* the record */
    EXPORT_FROM_THREAD, /* pid, tid, cpu, comm */
    EXPORT_FROM_CODE,   /* an instruction, which does one operation */
    EXPORT_FROM_OUTCOME,
    EXPORT_FROM_STACK, /* a call stack */
    EXPORT_FROM_FILE,  /* the same in all samples */
    EXPORT_FROMS
};

struct export_field {
    const char *name;
    enum export_type type;
    unsigned bits; /* width of a number */
    const char *unit, *packet;
    const char *null; /* when it is absent; NULL: never */
    enum export_from from;
    bool text, machine, columnar; /* shown without -F: by script; as JSON and CSV; in Parquet */
    const char *label;            /* before the value in script's text */
    const char *meaning;
};

extern const struct export_field export_fields[EXPORT_COLUMNS];

/*
 * The column named by the first word of a comma-separated list, by its name or perf's name (ip,
 * sym, addr, ...); EXPORT_COLUMNS if there is none.
 */
enum export_column export_column_find(const char *name, size_t length);

#endif
