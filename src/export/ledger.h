/*
 * Sends everything exactly once. A batch (a file) is sent as numbered parts with a fixed number of
 * rows, the same each time it is sent. A part counts once its row is in the ledger. A part without
 * a row in the ledger, or with another number of rows than the ledger says, is incomplete: it is
 * removed from all tables and sent again. So all state is on the server.
 */
#ifndef EXPORT_LEDGER_H
#define EXPORT_LEDGER_H

#include "export/clickhouse.h"
#include "export/native_table.h"

enum {
    LEDGER_PART = 1 << 18, /* rows */
    LEDGER_VERSION = 2,    /* schema version of the tables on the server: view spex_schema has it */
    /*
     * tables that a part has rows in: samples, minutes (computed from them), batches, those of
     * tables.def
     */
    LEDGER_TABLES = 3 + TABLES_SENT
};
const char *ledger_table(unsigned n);

/* A row of the ledger, without batch, part and rows. */
struct ledger_row {
    const char *host, *boot, *input, *event, *cpu, *filters, *version;
    uint64_t period;
    uint32_t first, until; /* seconds of the world's clock */
    uint64_t records, lost, truncated, collided, damaged;
    uint64_t side; /* rows in the tables beside samples */
    bool last;     /* the totals before are those of the file; 0 in other rows */
};

struct ledger {
    struct clickhouse *server;
    const char *suffix; /* suffix of the tables written to: "_local" in a cluster */
    char batch[NATIVE_ID + 1];
    char *host;
    struct ledger_part *parts; /* parts of the batch that the server has */
    size_t count, capacity;
    bool whole;                     /* there is nothing to send */
    uint64_t rows, repaired, there; /* sent; parts that were half; rows that were there */
    uint32_t first, until;          /* range of times that was sent */
    struct out query, answer;
};

/*
 * Asks the server for its tables, which must have this schema, and for the parts of the batch.
 * Removes incomplete parts.
 */
enum spex_status ledger_begin(struct ledger *ledger, struct clickhouse *server, const char *batch,
                              const char *host, struct spex_error *error);
void ledger_end(struct ledger *ledger);

/* Whether the server already has a part. */
bool ledger_has(const struct ledger *ledger, uint32_t part);
/* Rows of a table: blocks of the Native format in compressed frames. */
struct ledger_body {
    const char *table;
    void (*columns)(struct out *query, const char *table); /* lists them */
    uint64_t rows;
    const void *data;
    size_t size;
};
/* Sends one, which is all of these: samples first. */
enum spex_status ledger_send(struct ledger *ledger, uint32_t part, const struct ledger_body *bodies,
                             size_t count, const struct ledger_row *row, struct spex_error *error);
/* After the last part: is all there, exactly once? SPEX_IO if somebody else has sent it, too. */
enum spex_status ledger_check(struct ledger *ledger, struct spex_error *error);

#endif
