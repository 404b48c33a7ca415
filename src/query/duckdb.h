/* DuckDB's library, loaded at run time: functions as pointers, opaque handles. */
#ifndef QUERY_DUCKDB_H
#define QUERY_DUCKDB_H

#include <stdbool.h>
#include <stdint.h>

struct spex_error;
struct duck_config;
struct duck_database;
struct duck_connection;
struct duck_statements;
struct duck_prepared;
struct duck_chunk;
struct duck_vector;
struct duck_type;
struct duck_value;
struct duck_function;
struct duck_bind;
struct duck_init;
struct duck_call;
struct duck_replacement;

struct duck_result { /* same size as DuckDB's own; the contents are private to DuckDB */
    uint64_t numbers[3];
    void *pointers[3];
};

/* Types of columns, as DuckDB numbers them. */
enum duck_type_id {
    DUCK_BOOLEAN = 1,
    DUCK_TINYINT,
    DUCK_SMALLINT,
    DUCK_INTEGER,
    DUCK_BIGINT,
    DUCK_UTINYINT,
    DUCK_USMALLINT,
    DUCK_UINTEGER,
    DUCK_UBIGINT,
    DUCK_FLOAT,
    DUCK_DOUBLE,
    DUCK_HUGEINT = 16,
    DUCK_VARCHAR = 17,
    DUCK_DECIMAL = 19,
    DUCK_UHUGEINT = 32,
};
enum { DUCK_ROWS = 3 }; /* value of result_return_type: the answer is a table */

/* A text in a column: short ones are stored in place. */
enum { DUCK_INLINE = 12 };
struct duck_text {
    union {
        struct {
            uint32_t size;
            char inlined[DUCK_INLINE];
        };
        struct {
            uint32_t size;
            char prefix[4];
            const char *data;
        } far;
    };
};

struct duckdb {
#define FUNCTION(result, name, arguments) result(*name) arguments;
#include "query/duckdb.def"
};

/* One per process: DuckDB's callbacks cannot be handed it, so they look here. */
extern struct duckdb duck;

/*
 * path: of a file, or a name for the system's loader. False: error says what is missing. Once
 * loaded it stays.
 */
bool duckdb_load(const char *path, struct spex_error *error);

#endif
