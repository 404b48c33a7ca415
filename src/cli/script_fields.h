/*
 * Prints single fields of a record for spex script, of any kind. script_lines.c makes whole lines,
 * in which most fields are pieces of text made once by these functions.
 */
#ifndef CLI_SCRIPT_FIELDS_H
#define CLI_SCRIPT_FIELDS_H

#include "base/name.h"
#include "export/values.h"

struct script_fields {
    int format;     /* enum table_format */
    bool perf;      /* print as perf script does */
    bool one_piece; /* text: print pc and symbol as one piece */
    struct export_source source;
};

enum { SCRIPT_LABEL = 32 };

/* Writes what precedes the value of a field; returns its size. */
unsigned script_label(const struct script_fields *fields, enum export_column field,
                      char text[SCRIPT_LABEL]);
/* Appends nothing if the record lacks the field. */
void script_field(struct script_fields *fields, struct out *out, const struct spex_sample *sample,
                  enum export_column field);

#endif
