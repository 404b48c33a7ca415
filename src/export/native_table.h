/* The tables beside samples as blocks of ClickHouse's Native format. */
#ifndef EXPORT_NATIVE_TABLE_H
#define EXPORT_NATIVE_TABLE_H

#include "export/native.h"
#include "export/tables.h"

/* Columns of these tables before those of tables.def; the same in all rows of a batch. */
enum native_head { NATIVE_HOST, NATIVE_UNTIL, NATIVE_OF_BATCH, NATIVE_OF_PART, NATIVE_HEADS };
extern const char *const native_head_names[NATIVE_HEADS];
extern const char *const native_head_types[NATIVE_HEADS];

struct native_head_values {
    const char *host;
    uint32_t until; /* seconds: when the file was written last */
    const char *batch;
    uint32_t part;
};

void native_table_type(const struct tables_column *column, char type[NATIVE_TYPE]);

/*
 * Passes the rows of a table to put, block by block; a status from put ends it. SPEX_NO_MEMORY: no
 * memory for a block.
 */
enum spex_status native_table(struct tables *tables, enum tables_id table,
                              const struct native_head_values *head,
                              enum spex_status (*put)(void *user, struct out *block), void *user,
                              uint64_t *rows);

#endif
