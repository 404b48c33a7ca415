/*
 * Exactly once: what is sent is a batch (a file) of numbered parts of so many rows, the same
 * whenever it is sent again. A part counts when its row stands in the ledger. One that does not,
 * or that has another number of rows than the ledger says, was left half: it is taken out of
 * samples and minutes, and sent again. So the state of the world is the server's alone.
 */
#ifndef EXPORT_LEDGER_H
#define EXPORT_LEDGER_H

#include "export/clickhouse.h"
#include "export/native.h"

enum { LEDGER_PART = 1 << 18 }; /* rows */

/* What a row of the ledger says beside batch, part and rows. */
struct ledger_row {
    const char *host, *boot, *input, *event, *cpu, *filters, *version;
    uint64_t period;
    uint32_t first, until; /* seconds of the world's clock */
    uint64_t records, lost, truncated, collided, damaged;
    bool last; /* the totals before are those of the file; 0 in other rows */
};

struct ledger {
    struct clickhouse *server;
    const char *suffix; /* of the tables that are written: "_local" in a cluster */
    char batch[NATIVE_ID + 1];
    char *host;
    struct ledger_part *parts; /* that the server has of the batch */
    size_t count, capacity;
    bool whole;                     /* nothing is to be sent */
    uint64_t rows, repaired, there; /* sent; parts that were half; rows that were there */
    struct out query, answer;
};

/*
 * Asks what the server has: tables of this schema, and parts of the batch. Those left half are
 * taken out.
 */
enum spex_status ledger_begin(struct ledger *ledger, struct clickhouse *server, const char *batch,
                              const char *host, struct spex_error *error);
void ledger_end(struct ledger *ledger);

/* Is a part there already? */
bool ledger_has(const struct ledger *ledger, uint32_t part);
/* Sends one: blocks of the Native format in compressed frames. */
enum spex_status ledger_send(struct ledger *ledger, uint32_t part, uint64_t rows, const void *body,
                             size_t size, const struct ledger_row *row, struct spex_error *error);

#endif
