#include "ledger.h"

#include "base/error.h"
#include "base/memory.h"
#include "export/schema.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE = 600 }; /* seconds for work that the server has taken on */

struct ledger_part {
    uint32_t part;
    bool listed, last;
    uint64_t rows, samples, minutes; /* by the ledger, and in the tables */
};

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
    enum { UNKNOWN_TABLE = 60, UNKNOWN_DATABASE = 81 };
    char end, *at;
    out_text(&l->query, "SELECT schema, cluster FROM spex_schema");
    enum spex_status status = ask(l, error);
    int code = clickhouse_code(l->server);
    if (status == SPEX_INVALID && (code == UNKNOWN_TABLE || code == UNKNOWN_DATABASE))
        return error_set(
            error, SPEX_INVALID, 0,
            "the server has no tables of spex in database %.60s: make them with spex "
            "export --to clickhouse --print-ddl --database %.60s | clickhouse-client -n",
            clickhouse_database(l->server), clickhouse_database(l->server));
    if (status)
        return status;
    at = l->answer.data;
    const char *schema = clickhouse_cell(&at, &end);
    const char *cluster = clickhouse_cell(&at, &end);
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

static enum spex_status count_parts(struct ledger *l, struct spex_error *error)
{
    static const char *const rows[] = {"count()", "sumMerge(samples)"};
    static const char *const tables[] = {"samples", "minutes"};
    char end, *at;
    l->count = 0;
    out_printf(&l->query,
               "SELECT part, max(rows), max(last) FROM batches%s WHERE batch = '%s' GROUP BY part",
               l->suffix, l->batch);
    enum spex_status status = ask(l, error);
    if (status)
        return status;
    for (at = l->answer.data; *at;) {
        struct ledger_part *p = part_of(l, (uint32_t)number_of(clickhouse_cell(&at, &end)));
        p->listed = true;
        p->rows = number_of(clickhouse_cell(&at, &end));
        p->last = number_of(clickhouse_cell(&at, &end));
    }
    for (unsigned i = 0; i < 2; i++) {
        out_printf(&l->query, "SELECT part, %s FROM %s%s", rows[i], tables[i], l->suffix);
        put_where(l);
        out_text(&l->query, " GROUP BY part");
        if ((status = ask(l, error)))
            return status;
        for (at = l->answer.data; *at;) {
            struct ledger_part *p = part_of(l, (uint32_t)number_of(clickhouse_cell(&at, &end)));
            uint64_t count = number_of(clickhouse_cell(&at, &end));
            *(i ? &p->minutes : &p->samples) = count;
        }
    }
    return SPEX_OK;
}

static bool is_good(const struct ledger_part *p)
{
    return p->listed && p->rows == p->samples && p->rows == p->minutes;
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

/* ---- taking out ---- */

/* Until no query of this batch runs: one that timed out for us may go on over there. */
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

/* Mutations run behind the statement's back. */
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
                             "rows of a part that was left half are taken out"))
            return error_set(error, SPEX_IO, 0,
                             "taking out the rows of a part that was left half takes too long: try "
                             "again later");
    }
}

static enum spex_status take_out(struct ledger *l, uint32_t part, struct spex_error *error)
{
    static const char *const tables[] = {"samples", "minutes", "batches"};
    enum spex_status status = SPEX_OK;
    for (unsigned i = 0; i < 3 && !status; i++) {
        out_printf(&l->query, "ALTER TABLE %s%s DELETE", tables[i], l->suffix);
        put_where(l);
        out_printf(&l->query, " AND part = %u", part);
        status = ask(l, error);
        if (!status)
            status = await_mutation(l, tables[i], error);
    }
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
            status = take_out(l, l->parts[i].part, error);
    return status;
}

enum spex_status ledger_begin(struct ledger *l, struct clickhouse *server, const char *batch,
                              const char *host, struct spex_error *error)
{
    *l = (struct ledger){.server = server, .host = memory_copy(host)};
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

static void put_columns(struct out *out)
{
    for (unsigned i = 0; i < NATIVE_EXTRAS; i++)
        out_printf(out, "%s`%s`", i ? ", " : "", native_extra_names[i]);
    for (unsigned i = 0; i < EXPORT_COLUMNS; i++)
        if (native_has(i))
            out_printf(out, ", `%s`", export_fields[i].name);
}

static enum spex_status insert_rows(struct ledger *l, uint32_t part, const void *body, size_t size,
                                    struct spex_error *error)
{
    char id[NATIVE_ID + 32];
    snprintf(id, sizeof id, "spex-%s-%u", l->batch, part);
    l->query.size = 0;
    out_printf(&l->query, "INSERT INTO samples%s (", l->suffix);
    put_columns(&l->query);
    out_text(&l->query, ") FORMAT Native");
    out_char(&l->query, 0);
    struct clickhouse_request request = {
        .query = l->query.data,
        .id = id,
        .settings = "&decompress=1&http_native_compression_disable_checksumming_on_decompress=1",
        .body = body,
        .size = size,
        .answer = &l->answer};
    enum spex_status status = clickhouse_try(l->server, &request, error);
    l->query.size = 0;
    return status;
}

static enum spex_status insert_entry(struct ledger *l, uint32_t part, uint64_t rows,
                                     const struct ledger_row *r, struct spex_error *error)
{
    const char *texts[] = {EXPORT_SCHEMA, r->version, l->host, r->boot,
                           r->input,      r->event,   r->cpu,  r->filters};
    uint64_t numbers[] = {r->period, r->first,     r->until,    r->records,
                          r->lost,   r->truncated, r->collided, r->damaged};
    out_printf(&l->query,
               "INSERT INTO batches%s (batch, part, last, rows, schema, version, host, "
               "boot, input, event, cpu, filters, period, first, until, records, lost, "
               "truncated, collided, damaged, sent) SELECT '%s', %u, %d, %llu",
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
 * An attempt that fails may have done nothing, half or all of it. Before the next one nothing of
 * it runs any more, and what it left is taken out.
 */
enum spex_status ledger_send(struct ledger *l, uint32_t part, uint64_t rows, const void *body,
                             size_t size, const struct ledger_row *row, struct spex_error *error)
{
    struct clickhouse_patience patience = {0};
    enum spex_status status = rows ? insert_rows(l, part, body, size, error) : SPEX_OK;
    while (status == SPEX_IO && clickhouse_wait(l->server, &patience, error->text)) {
        struct spex_error first = *error;
        if (settle(l, error) || take_out(l, part, error)) {
            *error = first;
            return SPEX_IO;
        }
        status = insert_rows(l, part, body, size, error);
    }
    if (!status)
        status = insert_entry(l, part, rows, row, error);
    l->rows += status ? 0 : rows;
    return status;
}
