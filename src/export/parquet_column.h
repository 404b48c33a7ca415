/*
 * What writing a column needs beyond parquet.h. The format's constants are those of
 * apache/parquet-format, parquet.thrift.
 */
#ifndef EXPORT_PARQUET_COLUMN_H
#define EXPORT_PARQUET_COLUMN_H

#include "parquet.h"

enum { BOOLEAN = 0, INT32 = 1, INT64 = 2, BYTE_ARRAY = 6 };
enum { PLAIN = 0, RLE = 3, DELTA = 5, RLE_DICTIONARY = 8 };
enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2, ZSTD = 6 };
enum { STATISTIC_MOST = 64 }; /* longer texts have no minimum and maximum */

void column_init(struct parquet_column *column, const struct parquet_field *field);
void column_fini(struct parquet_column *column);
/* Ready for the next group. */
void column_clear(struct parquet_column *column);

/* BOOLEAN and so on. */
int column_type(const struct parquet_field *field);
/* Compares two values; texts are indices into the dictionary. */
int column_compare(const struct parquet_column *column, uint64_t a, uint64_t b);
/* A value of statistics: plain, without a length. False for a text that is too long. */
bool column_statistic(const struct parquet_column *column, uint64_t value,
                      char bytes[STATISTIC_MOST], size_t *size);
/* The dictionary as a page: header and packed of the maker. */
void column_dictionary(struct parquet_maker *maker, struct parquet_column *column);

#endif
