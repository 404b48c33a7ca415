/* The columns common to all tables of grouped samples. */
#ifndef CLI_COLUMNS_H
#define CLI_COLUMNS_H

#include "cli/advice.h"
#include <spex/elapsed.h>

/* A quantile of latencies: marked if counters saturate there, absent if negative. */
void columns_latency(const struct profile *profile, struct table *table, const char *column,
                     int value);

/* Percentiles that a table shows: all in JSON and CSV, in text only those of total latency. */
unsigned columns_percentiles(const struct profile_options *options);
/* What a key is, with the option that it needs. */
const char *columns_key_help(enum spex_key key);
/* Columns for a group's statistics followed by its keys; the caller frees the array. */
struct table_column *columns_for_keys(const enum spex_key *keys, size_t count);
/* Fills in counts, misses and sources of data in the current row. */
void columns_ratios(const struct profile *profile, struct table *table,
                    const struct spex_stats *stats, bool all_rows);
/* The text of one key in a row, however long; the caller frees it. */
char *columns_text(const struct spex_group *group, const struct spex_row *row, size_t key);
void columns_key(struct table *table, const char *column, const struct spex_group *group,
                 const struct spex_row *row, size_t key);
void columns_fill_keys(struct table *table, const struct spex_group *group,
                       const struct spex_row *row, const enum spex_key *keys, size_t count);
/* "dram 93% l1 5%": the sources that matter, largest first, without the first `skip`. */
void columns_sources(const struct spex_stats *stats, unsigned skip, unsigned most, char *text,
                     size_t capacity);

/*
 * Makes the table of a group: rows down to the percent limit, then how many more there are, then
 * the total. usual names the columns for text, NULL the standard ones. NULL after a usage error
 * (already reported).
 */
struct table *columns_table(struct profile *profile, struct spex_group *group,
                            const enum spex_key *keys, size_t count, size_t most, const char *usual,
                            struct table_column **columns);

/* Writes the table as spex.report.1 (docs/schema.md). */
void columns_json(struct profile *profile, const struct table *table,
                  const struct spex_group *group, const struct advice *advice,
                  const struct spex_elapsed *elapsed);

#endif
