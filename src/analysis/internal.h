/* What the files of analysis share. */
#ifndef ANALYSIS_INTERNAL_H
#define ANALYSIS_INTERNAL_H

#include <spex/analysis.h>

struct op_info {
    char text[96];
    uint8_t op, flags; /* enum spex_sample_op; SPEX_SAMPLE_READS, _WRITES, _INDIRECT */
};
#define OP_INDEX(op_class, payload) (((op_class)&3) << 8 | ((payload)&255))
const struct op_info *op_table(void); /* 4 classes x 256 payloads, by OP_INDEX */
bool op_has_word(const char *text, const char *word, size_t size);

/* ---- filters (filter.c) ---- */

struct filter;
enum spex_status filter_new(const struct spex_filter *spec, uint64_t first_time,
                            uint64_t last_time, struct filter **filter,
                            struct spex_error *error);
void filter_free(struct filter *filter);
bool filter_keeps(struct filter *filter, const struct spex_sample *sample);

/* Event bit of a name ("l1d-miss"), or -1. */
int event_bit(const char *name, size_t size);

/* For tests: a group that is exact for fewer keys. */
void group_set_limit(struct spex_group *group, size_t limit);

/* The words that make up the n-th key of a row. */
const uint64_t *group_key(const struct spex_group *group, const struct spex_row *row, size_t n);

/* Strings that are equal are the same pointer. */
const char *analysis_intern(struct spex_analysis *analysis, const char *text);
/* Source line of a code address, cached and interned; file NULL if there is none. */
void analysis_line(struct spex_analysis *analysis, struct spex_module *module, uint64_t address,
                   struct spex_line *line);

#endif
