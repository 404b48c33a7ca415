#include "ddl.h"

#include "export/clickhouse.h"
#include "export/ledger.h"
#include "export/native_table.h"

#include <spex/base.h>

enum { ROLLUP_KEPT = 10 }; /* times as long as samples */

static void put_table(struct out *out, const struct ddl *d, const char *name, bool local)
{
    char full[64];
    size_t n = strlen(name);
    memcpy(full, name, n);
    memcpy(full + n, local && d->cluster ? "_local" : "", local && d->cluster ? 7 : 1);
    clickhouse_name(out, d->database);
    out_char(out, '.');
    out_text(out, full);
}

static void put_create(struct out *out, const struct ddl *d, const char *name)
{
    out_text(out, "\nCREATE TABLE IF NOT EXISTS ");
    put_table(out, d, name, true);
    out_text(out, "\n(\n");
}

/* The keys of the table, its partitions, and how long they are kept. */
static void put_engine(struct out *out, const struct ddl *d, const char *engine, const char *time,
                       const char *partition, const char *order, unsigned days)
{
    out_printf(out, "\n)\nENGINE = %s\nPARTITION BY %s\nORDER BY %s\n", engine, partition, order);
    if (d->dialect == DDL_TODAY)
        out_printf(out,
                   "TTL %s + INTERVAL %u DAY\n"
                   "SETTINGS ttl_only_drop_parts = 1;\n",
                   time, days);
    else
        out_text(out, "SETTINGS index_granularity = 8192;\n");
}

/* ---- samples ---- */

static const char *codec_of(enum export_column column)
{
    return column == EXPORT_TIME || column == EXPORT_OFFSET ? " CODEC(Delta, ZSTD)"
                                                            : " CODEC(ZSTD)";
}

static void put_column(struct out *out, const struct ddl *d, enum export_column column)
{
    const struct export_field *f = &export_fields[column];
    char type[NATIVE_TYPE];
    native_type(column, type);
    out_printf(out, ",\n    `%s` ", f->name);
    if (f->type == EXPORT_STRING && d->dialect == DDL_TODAY)
        out_printf(out, "LowCardinality(%s)", type);
    else
        out_text(out, type);
    if (d->dialect == DDL_TODAY)
        out_text(out, codec_of(column));
}

/* Columns that follow from others take no room: the server computes them when asked. */
static void put_events(struct out *out)
{
#define SPEX_EVENT(bit, constant, name_, perf, version)                                            \
    out_printf(out, ",\n    `%s` Nullable(UInt8) ALIAS bitAnd(bitShiftRight(event_bits, %d), 1)",  \
               export_fields[EXPORT_EV_##constant].name, bit);
#include <spex/events.def>
}

static void put_samples(struct out *out, const struct ddl *d)
{
    out_text(out, "\n-- One row a sample: docs/schema.md. wall is the time of day, time perf's "
                  "clock; batch and "
                  "part name a row of the ledger.");
    put_create(out, d, "samples");
    for (unsigned i = 0; i < NATIVE_EXTRAS; i++)
        out_printf(out, "%s    `%s` %s", i ? ",\n" : "", native_extra_names[i],
                   native_extra_types[i]);
    for (unsigned i = 0; i < EXPORT_COLUMNS; i++)
        if (native_has(i))
            put_column(out, d, i);
    put_events(out);
    put_engine(out, d, "MergeTree", "wall", "toYYYYMMDD(wall)",
               "(host, toStartOfMinute(wall), ifNull(dso, ''), ifNull(symbol, ''), wall)", d->days);
}

/* ---- the tables beside samples ---- */

static void put_tables(struct out *out, const struct ddl *d)
{
    out_text(out,
             "\n-- What stands beside samples, sent with the last part of a batch: docs/schema.md. "
             "until is when the file was written last.");
    for (unsigned table = 0; table < TABLES_SENT; table++) {
        const struct tables_info *info = &tables_info[table];
        put_create(out, d, info->name);
        for (unsigned i = 0; i < NATIVE_HEADS; i++)
            out_printf(out, "%s    `%s` %s", i ? ",\n" : "", native_head_names[i],
                       native_head_types[i]);
        for (size_t i = 0; i < tables_columns(table); i++) {
            char type[NATIVE_TYPE];
            bool low = info->columns[i].type == EXPORT_STRING && d->dialect == DDL_TODAY;
            native_table_type(&info->columns[i], type);
            out_printf(out, low ? ",\n    `%s` LowCardinality(%s)" : ",\n    `%s` %s",
                       info->columns[i].name, type);
        }
        put_engine(out, d, "MergeTree", "until", "toYYYYMMDD(until)",
                   table == TABLES_STACKS ? "(host, batch, depth, stack)" : "(host, batch)",
                   d->days);
    }
}

/* ---- the ledger ---- */

static void put_ledger(struct out *out, const struct ddl *d)
{
    out_text(
        out,
        "\n-- What was sent: a file is a batch, whole when the row with last = 1 is there. A part "
        "without a row here is half.");
    put_create(out, d, "batches");
    out_text(
        out,
        "    batch FixedString(32),\n    part UInt32,\n    last UInt8,\n    rows UInt64,\n"
        "    schema String,\n    version String,\n    host String,\n    boot String,\n"
        "    input String,\n    event String,\n    cpu String,\n    filters String,\n"
        "    period UInt64,\n    first DateTime('UTC'),\n    until DateTime('UTC'),\n"
        "    records UInt64,\n    lost UInt64,\n    truncated UInt64,\n"
        "    collided UInt64,\n    damaged UInt64,\n    sent DateTime('UTC'),\n    side UInt64");
    put_engine(out, d, "ReplacingMergeTree", "until", "toYYYYMM(until)", "(batch, part)",
               ROLLUP_KEPT * d->days);
}

/* ---- roll-ups ---- */

#define LEVELS_TYPE "AggregateFunction(quantilesExactWeighted(0.5, 0.95, 0.99), UInt64, UInt8)"

static void put_minutes(struct out *out, const struct ddl *d)
{
    static const char *const keys[] = {"comm", "dso", "symbol"};
    out_text(out, "\n-- Roll-ups by minute. batch and part are keys so that a part that was left "
                  "half can be taken "
                  "out again.");
    put_create(out, d, "minutes");
    out_text(out, "    host String,\n    minute DateTime('UTC'),\n    batch FixedString(32),\n"
                  "    part UInt32");
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        char type[NATIVE_TYPE];
        native_type(export_column_find(keys[i], strlen(keys[i])), type);
        out_printf(out, d->dialect == DDL_TODAY ? ",\n    %s LowCardinality(%s)" : ",\n    %s %s",
                   keys[i], type);
    }
#define SUM(name, type, value) out_text(out, ",\n    " #name " AggregateFunction(sum, " type ")");
#define LEVELS(name, value, where) out_text(out, ",\n    " #name " " LEVELS_TYPE);
#include "export/rollup.def"
    put_engine(out, d, "AggregatingMergeTree", "minute", "toYYYYMMDD(minute)",
               "(host, minute, ifNull(dso, ''), ifNull(symbol, ''), comm, batch, part)",
               ROLLUP_KEPT * d->days);
    out_text(out, "\nCREATE MATERIALIZED VIEW IF NOT EXISTS ");
    clickhouse_name(out, d->database);
    out_text(out, ".minutes_feed TO ");
    put_table(out, d, "minutes", true);
    out_text(out,
             " AS\nSELECT\n    host,\n    toStartOfMinute(wall) AS minute,\n    batch,\n    part,\n"
             "    comm,\n    dso,\n    symbol");
#define SUM(name, type, value) out_text(out, ",\n    sumState(to" type "(" value ")) AS " #name);
#define LEVELS(name, value, where)                                                                 \
    out_text(out, ",\n    quantilesExactWeightedState(0.5, 0.95, 0.99)(toUInt64(" value            \
                  "), toUInt8(" where ")) AS " #name);
#include "export/rollup.def"
    out_text(out, "\nFROM ");
    put_table(out, d, "samples", true);
    out_text(out, "\nGROUP BY host, minute, batch, part, comm, dso, symbol;\n");
}

/* ---- the rest ---- */

static void put_distributed(struct out *out, const struct ddl *d)
{
    out_text(out,
             "\n-- The whole cluster under the same names. spex writes to the server of its URL.");
    for (unsigned i = 0; i < LEDGER_TABLES; i++) {
        const char *name = ledger_table(i);
        out_text(out, "\nCREATE TABLE IF NOT EXISTS ");
        put_table(out, d, name, false);
        out_text(out, " AS ");
        put_table(out, d, name, true);
        out_text(out, "\nENGINE = Distributed(");
        clickhouse_quote(out, d->cluster);
        out_text(out, ", ");
        clickhouse_quote(out, d->database);
        out_printf(out, ", %s_local);\n", name);
    }
}

static void put_old_retention(struct out *out, const struct ddl *d)
{
    out_printf(
        out,
        "\n-- Retention: this version drops nothing by itself. Once a day run what this prints:\n"
        "--   SELECT DISTINCT concat('ALTER TABLE ', database, '.', table, ' DROP PARTITION ', "
        "partition, ';')\n"
        "--   FROM system.parts WHERE active AND database = '%s' AND\n"
        "--       (table LIKE 'minutes%%' AND max_date < today() - %u OR NOT table LIKE "
        "'minutes%%' AND\n"
        "--        NOT table LIKE 'batches%%' AND max_date < today() - %u)\n"
        "-- Rows by user: this version has no CREATE ROW POLICY; users.xml does it "
        "(<databases><%s><samples><filter>).\n",
        d->database, ROLLUP_KEPT * d->days, d->days, d->database);
}

static void put_policies(struct out *out, const struct ddl *d)
{
    out_text(out,
             "\n-- Who sees which hosts: a row per user and pattern, such as ('default', '%').\n"
             "CREATE TABLE IF NOT EXISTS ");
    clickhouse_name(out, d->database);
    out_text(out, ".readers\n(\n    user String,\n    host_pattern String\n)\n"
                  "ENGINE = MergeTree\nORDER BY user;\n"
                  "-- The policies that heed it, for whoever wants them:\n");
    for (unsigned i = 0; i < LEDGER_TABLES; i++) {
        out_printf(out, "-- CREATE ROW POLICY IF NOT EXISTS spex_%s ON ", ledger_table(i));
        put_table(out, d, ledger_table(i), true);
        out_text(out,
                 " USING arrayExists(p -> host LIKE p, (SELECT groupArray(host_pattern) FROM ");
        clickhouse_name(out, d->database);
        out_text(out, ".readers WHERE user = currentUser())) TO ALL;\n");
    }
}

void ddl_print(struct out *out, const struct ddl *d)
{
    out_printf(out, "-- Tables of spex in ClickHouse, schema %s, %s%s.\n", EXPORT_SCHEMA,
               d->dialect == DDL_18 ? "version 18.16" : "version 23 or later",
               d->cluster ? "; for every server of the cluster" : "");
    out_text(out, "CREATE DATABASE IF NOT EXISTS ");
    clickhouse_name(out, d->database);
    out_text(out, ";\n");
    put_samples(out, d);
    put_tables(out, d);
    put_ledger(out, d);
    put_minutes(out, d);
    if (d->cluster)
        put_distributed(out, d);
    out_text(out, "\n-- What spex asks first.\nCREATE VIEW IF NOT EXISTS ");
    clickhouse_name(out, d->database);
    out_text(out, ".spex_schema AS SELECT '" EXPORT_SCHEMA "' AS schema, ");
    clickhouse_quote(out, d->cluster ? d->cluster : "");
    out_printf(out, " AS cluster, %d AS tables;\n", LEDGER_VERSION);
    if (d->dialect == DDL_18)
        put_old_retention(out, d);
    else
        put_policies(out, d);
}
