/*
 * The table of spex stat for programs: JSON, CSV, or perf's fields (-x). There is one such table in
 * a process.
 */
#ifndef CLI_STAT_DATA_H
#define CLI_STAT_DATA_H

#include "cli.h"

enum stat_format { STAT_TEXT, STAT_JSON, STAT_CSV };
extern const char *const stat_formats[];

/*
 * separator: that of -x, or NULL. what was counted, and on what: a CPU, and the model that counted
 * or NULL. Rows go to fd.
 */
void stat_data_begin(enum stat_format format, const char *separator, int fd, const char *what,
                     const char *cpu, const char *model);
/* Are the rows that follow the model's estimates, or exact? */
void stat_data_estimates(bool on);
/* False if the format is text, which the caller prints. */
bool stat_data_row(uint64_t value, const char *name, const char *text);
/* An estimate with half of its 95% interval. */
bool stat_data_estimate(uint64_t value, const char *name, double half);
/* Returns the exit code. */
int stat_data_end(void);
/* Is the table for programs? Then there are no headings. */
bool stat_data(void);

#endif
