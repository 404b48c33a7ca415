#include "ledger.h"

#include "base/error.h"
#include "base/memory.h"
#include "export/schema.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE = 600 }; /* seconds for work that the server has taken on */

struct ledger_part {
    uint32_t part;
    bool listed, last, sent; /* sent: by us */
    uint64_t rows, side;     /* what the ledger says: rows of samples, rows of other tables */
    uint64_t samples, minutes, side_rows; /* what the tables have */
};

const char *ledger_table(unsigned n)
{
    static const char *const names[] = {"samples", "minutes", "batches"};
    return n < 3 ? names[n] : tables_info[n - 3].name;
}

static enum spex_status ask(struct ledger *l, struct spex_error *error)
{
    struct clickhouse_request request = {.answer = &l->answer};
    out_char(&l->query, 0);
    request.query = l->query.data;
    enum spex_status status = l->query.error
                                  ? error_set(error, SPEX_NO_MEMORY, 0, "no memory for a query")
                                  : clickhouse_ask(l->server, &request, error);
    l->query.size = 0;
    return status;
}

static uint64_t number_of(const char *cell)
{
    return cell ? strtoull(cell, NULL, 10) : 0;
}

/* ---- what the server has ---- */

static enum spex_status check_schema(struct ledger *l, struct spex_error *error)
{
    enum { UNKNOWN_IDENTIFIER = 47, UNKNOWN_TABLE = 60, UNKNOWN_DATABASE = 81 };
    char end, *at, version[16];
    snprintf(version, sizeof version, "%d", LEDGER_VERSION);
    out_text(&l->query, "SELECT schema, cluster, tables FROM spex_schema");
    enum spex_status status = ask(l, error);
    int code = clickhouse_code(l->server);
    if (status == SPEX_INVALID && (code == UNKNOWN_TABLE || code == UNKNOWN_DATABASE))
        return error_set(
            error, SPEX_INVALID, 0,
            "the server has no tables of spex in database %.60s: make them with spex "
            "export --to clickhouse --print-ddl --database %.60s | clickhouse-client -n",
            clickhouse_database(l->server), clickhouse_database(l->server));
    if (status && code != UNKNOWN_IDENTIFIER)
        return status;
    at = l->answer.data;
    const char *schema = status ? NULL : clickhouse_cell(&at, &end);
    const char *cluster = status ? NULL : clickhouse_cell(&at, &end);
    const char *tables = status ? NULL : clickhouse_cell(&at, &end);
    if (status || !tables || strcmp(tables, version))
        return error_set(error, SPEX_INVALID, 0,
                         "the tables in database %.60s are those of another version of spex: make "
                         "those of this one in another --database, with spex export --to "
                         "clickhouse --print-ddl",
                         clickhouse_database(l->server));
    if (!schema || strcmp(schema, EXPORT_SCHEMA))
        return error_set(
            error, SPEX_INVALID, 0,
            "the tables in database %.60s are of schema %.40s, this spex writes " EXPORT_SCHEMA
            ": use that of the same version, or another --database",
            clickhouse_database(l->server), schema ? schema : "nothing");
    l->suffix = cluster && *cluster ? "_local" : "";
    return SPEX_OK;
}

static struct ledger_part *part_of(struct ledger *l, uint32_t part)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->parts[i].part == part)
            return &l->parts[i];
    l->parts = memory_grow(l->parts, l->count, &l->capacity, sizeof *l->parts);
    l->parts[l->count] = (struct ledger_part){.part = part};
    return &l->parts[l->count++];
}

static void put_where(struct ledger *l)
{
    out_text(&l->query, " WHERE host = ");
    clickhouse_quote(&l->query, l->host);
    out_printf(&l->query, " AND batch = '%s'", l->batch);
}

/* How many rows of the batch are in the tables, by part; samples: where else to look. */
static void ask_rows(struct ledger *l, unsigned which, const char *samples)
{
    if (which < 2) {
        out_printf(&l->query, "SELECT part, %s FROM %s%s", which ? "sumMerge(samples)" : "count()",
                   ledger_table(which), l->suffix);
        put_where(l);
        out_text(&l->query, which ? "" : samples);
    } else {
        out_text(&l->query, "SELECT part, sum(n) FROM (");
        for (unsigned i = 3; i < LEDGER_TABLES; i++) {
            out_printf(&l->query, "%sSELECT part, count() AS n FROM %s%s",
                       i > 3 ? " UNION ALL " : "", ledger_table(i), l->suffix);
            put_where(l);
            out_text(&l->query, " GROUP BY part");
        }
        out_text(&l->query, ")");
    }
    out_text(&l->query, " GROUP BY part");
}

static enum spex_status count_rows(struct ledger *l, const char *samples, struct spex_error *error)
{
    char end, *at;
    for (size_t i = 0; i < l->count; i++)
        l->parts[i].samples = l->parts[i].minutes = l->parts[i].side_rows = 0;
    for (unsigned i = 0; i < 3; i++) {
        ask_rows(l, i, samples);
        enum spex_status status = ask(l, error);
        if (status)
            return status;
        for (at = l->answer.data; *at;) {
            struct ledger_part *p = part_of(l, (uint32_t)number_of(clickhouse_cell(&at, &end)));
            uint64_t count = number_of(clickhouse_cell(&at, &end));
            *(i == 0 ? &p->samples : i == 1 ? &p->minutes : &p->side_rows) = count;
        }
    }
    return SPEX_OK;
}

static enum spex_status count_parts(struct ledger *l, struct spex_error *error)
{
    char end, *at;
    l->count = 0;
    out_printf(&l->query,
               "SELECT part, max(rows), max(last), max(side) FROM batches%s WHERE batch = '%s' "
               "GROUP BY part",
               l->suffix, l->batch);
    enum spex_status status = ask(l, error);
    if (status)
        return status;
    for (at = l->answer.data; *at;) {
        struct ledger_part *p = part_of(l, (uint32_t)number_of(clickhouse_cell(&at, &end)));
        p->listed = true;
        p->rows = number_of(clickhouse_cell(&at, &end));
        p->last = number_of(clickhouse_cell(&at, &end));
        p->side = number_of(clickhouse_cell(&at, &end));
    }
    return count_rows(l, "", error);
}

static bool is_good(const struct ledger_part *p)
{
    return p->listed && p->rows == p->samples && p->rows == p->minutes && p->side == p->side_rows;
}

static bool is_whole(const struct ledger *l)
{
    uint32_t last = 0;
    size_t good = 0;
    bool ends = false;
    for (size_t i = 0; i < l->count; i++) {
        good += is_good(&l->parts[i]);
        if (l->parts[i].last) {
            ends = true;
            last = l->parts[i].part;
        }
    }
    return ends && good == l->count && good == (size_t)last + 1;
}

/* ---- removing ---- */

/* Waits until no query of this batch runs: one that timed out here may still run on the server. */
static enum spex_status settle(struct ledger *l, struct spex_error *error)
{
    struct clickhouse_patience patience = {.seconds = PATIENCE};
    for (;;) {
        char *at, end;
        out_printf(&l->query,
                   "SELECT count() FROM system.processes WHERE query_id LIKE 'spex-%s-%%'",
                   l->batch);
        enum spex_status status = ask(l, error);
        at = l->answer.data;
        if (status || !number_of(clickhouse_cell(&at, &end)))
            return status;
        if (!clickhouse_wait(l->server, &patience, "an earlier insertion is still under way"))
            return error_set(error, SPEX_IO, 0,
                             "an earlier insertion of the same file is still under way");
    }
}

/* Mutations go on after the statement has returned. */
static enum spex_status await_mutation(struct ledger *l, const char *table,
                                       struct spex_error *error)
{
    struct clickhouse_patience patience = {.seconds = PATIENCE};
    for (;;) {
        char *at, end;
        out_printf(&l->query, "SELECT count() FROM system.mutations WHERE database = ");
        clickhouse_quote(&l->query, clickhouse_database(l->server));
        out_printf(&l->query, " AND table = '%s%s' AND NOT is_done AND position(command, '%s') > 0",
                   table, l->suffix, l->batch);
        enum spex_status status = ask(l, error);
        at = l->answer.data;
        if (status || !number_of(clickhouse_cell(&at, &end)))
            return status;
        if (!clickhouse_wait(l->server, &patience,
                             "rows of a part that was left half sent are being removed"))
            return error_set(
                error, SPEX_IO, 0,
                "removing the rows of a part that was left half sent takes too long: try "
                "again later");
    }
}

/* side: also from the tables beside samples. */
static enum spex_status take_out(struct ledger *l, uint32_t part, bool side,
                                 struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    unsigned tables = side ? LEDGER_TABLES : 3;
    for (unsigned i = 0; i < tables && !status; i++) {
        out_printf(&l->query, "ALTER TABLE %s%s DELETE", ledger_table(i), l->suffix);
        put_where(l);
        out_printf(&l->query, " AND part = %u", part);
        status = ask(l, error);
    }
    for (unsigned i = 0; i < tables && !status; i++)
        status = await_mutation(l, ledger_table(i), error);
    l->repaired += !status;
    return status;
}

/* ---- begin and end ---- */

static enum spex_status repair(struct ledger *l, struct spex_error *error)
{
    enum spex_status status = count_parts(l, error);
    bool half = false;
    for (size_t i = 0; i < l->count; i++)
        half |= !is_good(&l->parts[i]);
    if (status || !half)
        return status;
    if ((status = settle(l, error)) || (status = count_parts(l, error)))
        return status;
    for (size_t i = 0; i < l->count && !status; i++)
        if (!is_good(&l->parts[i]))
            status = take_out(l, l->parts[i].part, l->parts[i].side_rows, error);
    return status;
}

enum spex_status ledger_begin(struct ledger *l, struct clickhouse *server, const char *batch,
                              const char *host, struct spex_error *error)
{
    *l = (struct ledger){.server = server, .host = memory_copy(host), .first = UINT32_MAX};
    memcpy(l->batch, batch, NATIVE_ID);
    out_init(&l->query, -1);
    out_init(&l->answer, -1);
    enum spex_status status = check_schema(l, error);
    if (!status)
        status = repair(l, error);
    l->whole = !status && is_whole(l);
    for (size_t i = 0; !status && i < l->count; i++)
        l->there += is_good(&l->parts[i]) ? l->parts[i].rows : 0;
    return status;
}

void ledger_end(struct ledger *l)
{
    free(l->parts);
    free(l->host);
    out_fini(&l->query);
    out_fini(&l->answer);
}

bool ledger_has(const struct ledger *l, uint32_t part)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->parts[i].part == part)
            return is_good(&l->parts[i]);
    return false;
}

/* ---- sending ---- */

static enum spex_status insert_rows(struct ledger *l, uint32_t part, const struct ledger_body *body,
                                    struct spex_error *error)
{
    char id[NATIVE_ID + 64];
    snprintf(id, sizeof id, "spex-%s-%u-%s", l->batch, part, body->table);
    l->query.size = 0;
    out_printf(&l->query, "INSERT INTO %s%s (", body->table, l->suffix);
    body->columns(&l->query, body->table);
    out_text(&l->query, ") FORMAT Native");
    out_char(&l->query, 0);
    struct clickhouse_request request = {
        .query = l->query.data,
        .id = id,
        .settings = "&decompress=1&http_native_compression_disable_checksumming_on_decompress=1",
        .body = body->data,
        .size = body->size,
        .answer = &l->answer};
    enum spex_status status = clickhouse_try(l->server, &request, error);
    l->query.size = 0;
    return status;
}

static enum spex_status insert_all(struct ledger *l, uint32_t part,
                                   const struct ledger_body *bodies, size_t count,
                                   struct spex_error *error)
{
    enum spex_status status = SPEX_OK;
    for (size_t i = 0; i < count && !status; i++)
        if (bodies[i].rows)
            status = insert_rows(l, part, &bodies[i], error);
    return status;
}

static enum spex_status insert_entry(struct ledger *l, uint32_t part, uint64_t rows,
                                     const struct ledger_row *r, struct spex_error *error)
{
    const char *texts[] = {EXPORT_SCHEMA, r->version, l->host, r->boot,
                           r->input,      r->event,   r->cpu,  r->filters};
    uint64_t numbers[] = {r->period,    r->first,    r->until,   r->records, r->lost,
                          r->truncated, r->collided, r->damaged, r->side};
    out_printf(&l->query,
               "INSERT INTO batches%s (batch, part, last, rows, schema, version, host, "
               "boot, input, event, cpu, filters, period, first, until, records, lost, "
               "truncated, collided, damaged, side, sent) SELECT '%s', %u, %d, %llu",
               l->suffix, l->batch, part, r->last, (unsigned long long)rows);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        out_text(&l->query, ", ");
        clickhouse_quote(&l->query, texts[i] ? texts[i] : "");
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        out_printf(&l->query, i == 1 || i == 2 ? ", toDateTime(%llu)" : ", %llu",
                   (unsigned long long)numbers[i]);
    out_text(&l->query, ", now()");
    return ask(l, error);
}

/*
 * A failed attempt may have done nothing, half or all of its work. Before the next one, wait until
 * no part of it still runs, and remove what it left.
 */
enum spex_status ledger_send(struct ledger *l, uint32_t part, const struct ledger_body *bodies,
                             size_t count, const struct ledger_row *row, struct spex_error *error)
{
    struct clickhouse_patience patience = {0};
    enum spex_status status = insert_all(l, part, bodies, count, error);
    while (status == SPEX_IO && clickhouse_wait(l->server, &patience, error->text)) {
        struct spex_error first = *error;
        if (settle(l, error) || take_out(l, part, count > 1, error)) {
            *error = first;
            return SPEX_IO;
        }
        status = insert_all(l, part, bodies, count, error);
    }
    if (!status)
        status = insert_entry(l, part, bodies->rows, row, error);
    if (status)
        return status;
    struct ledger_part *p = part_of(l, part);
    p->sent = p->listed = true;
    p->rows = bodies->rows;
    p->side = row->side;
    l->rows += bodies->rows;
    l->first = row->first < l->first ? row->first : l->first;
    l->until = row->until > l->until ? row->until : l->until;
    return SPEX_OK;
}

enum spex_status ledger_check(struct ledger *l, struct spex_error *error)
{
    char when[100];
    enum spex_status status;
    bool any = false, good = true;
    for (size_t i = 0; i < l->count; i++)
        any |= l->parts[i].sent;
    if (!any)
        return SPEX_OK;
    snprintf(when, sizeof when, " AND wall >= toDateTime(%u) AND wall <= toDateTime(%u)", l->first,
             l->until);
    if ((status = count_rows(l, when, error)))
        return status;
    for (size_t i = 0; i < l->count; i++)
        good &= !l->parts[i].sent || is_good(&l->parts[i]);
    return good ? SPEX_OK
                : error_set(error, SPEX_IO, 0,
                            "the server has not as many rows of this file as were sent: somebody "
                            "else sends it as well; send it again, which mends it");
}
