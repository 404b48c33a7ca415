#include "query.h"

#include "base/error.h"
#include "base/memory.h"
#include "query/spe.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static void set(struct duck_config *config, const char *name, const char *value)
{
    duck.set_config(config, name, value); /* versions that lack this setting do not need it */
}

static bool open_database(struct query *q, struct spex_error *error)
{
    struct duck_config *config;
    char number[32], *why = NULL;
    if (duck.create_config(&config))
        return false;
    /* do not download extensions */
    set(config, "autoinstall_known_extensions", "false");
    set(config, "autoload_known_extensions", "false");
    if (q->options.spill)
        set(config, "temp_directory", q->options.spill);
    snprintf(number, sizeof number, "%u", q->options.threads);
    set(config, "threads", number);
    if (q->options.memory) {
        snprintf(number, sizeof number, "%" PRIu64 "B", q->options.memory);
        set(config, "memory_limit", number);
    }
    bool ok = !duck.open_ext(":memory:", &q->database, config, &why);
    duck.destroy_config(&config);
    if (!ok)
        error_set(error, SPEX_UNSUPPORTED, 0, "DuckDB cannot start: %s", why ? why : "no reason");
    duck.free(why);
    return ok && !duck.connect(q->database, &q->connection) && spe_register(q) &&
           spe_tables_register(q);
}

enum spex_status query_new(const struct query_options *options, struct query **query,
                           struct spex_error *error)
{
    if (!duckdb_load(options->library, error))
        return error->status;
    struct query *q = memory_get(1, sizeof *q);
    q->account = memory_current();
    q->options = *options;
    q->options.threads = options->threads ? options->threads : 1;
    pthread_mutex_init(&q->lock, NULL);
    out_init(&q->error, -1);
    error_set(error, SPEX_UNSUPPORTED, 0, "DuckDB cannot start");
    if (!open_database(q, error)) {
        query_free(q);
        return SPEX_UNSUPPORTED;
    }
    *query = q;
    return SPEX_OK;
}

void query_free(struct query *q)
{
    if (q->connection)
        duck.disconnect(&q->connection);
    if (q->database)
        duck.close(&q->database);
    while (q->profiles) {
        struct query_profile *p = q->profiles;
        q->profiles = p->next;
        texts_fini(&p->texts);
        free(p->path);
        free(p);
    }
    pthread_mutex_destroy(&q->lock);
    out_fini(&q->error);
    free(q);
}

void query_interrupt(struct query *q)
{
    atomic_store(&q->interrupted, true);
    duck.interrupt(q->connection);
}

bool query_interrupted(const struct query *q)
{
    return atomic_load(&q->interrupted);
}

static bool fail(struct query *q, const char *why)
{
    q->error.size = 0;
    out_text(&q->error, why ? why : "DuckDB gives no reason");
    out_char(&q->error, 0);
    return false;
}

const char *query_error(const struct query *q)
{
    return q->error.size ? q->error.data : "";
}

void query_quote(struct out *out, const char *text)
{
    out_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            out_char(out, '\'');
        out_char(out, *text);
    }
    out_char(out, '\'');
}

/* ---- statements ---- */

/* How many statements there are; 0 if it is not SQL: then q, if not NULL, gets the reason. */
static uint64_t count_statements(struct query *q, const char *sql, bool remember)
{
    struct duck_statements *statements;
    uint64_t n = duck.extract_statements(q->connection, sql, &statements);
    const char *why = duck.extract_statements_error(statements);
    if (why)
        n = 0;
    if (!n && remember)
        fail(q, why ? why : "there is no statement");
    duck.destroy_extracted(&statements);
    return n;
}

/* The end of a text, name or comment that begins here: a semicolon inside does not count. */
static char *skip_quoted(char *p)
{
    if (p[0] == '-' && p[1] == '-')
        return p + strcspn(p, "\n");
    if (p[0] == '/' && p[1] == '*') {
        unsigned depth = 0;
        for (; *p; p++) {
            if (p[0] == '/' && p[1] == '*') {
                depth++;
                p++;
            } else if (p[0] == '*' && p[1] == '/') {
                p++;
                if (!--depth)
                    return p + 1;
            }
        }
        return p;
    }
    if (*p == '$') { /* $tag$ ... $tag$ */
        size_t n =
            1 + strspn(p + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        char tag[64];
        if (p[n] != '$' || n + 2 > sizeof tag)
            return p + 1;
        memcpy(tag, p, n + 1);
        tag[n + 1] = 0;
        char *end = strstr(p + n + 1, tag);
        return end ? end + n + 1 : p + strlen(p);
    }
    bool escapes = *p == 'e' || *p == 'E'; /* E'...' */
    char quote = p[escapes];
    for (p += escapes + 1; *p && *p != quote; p++)
        if (escapes && *p == '\\' && p[1])
            p++;
    return *p ? p + 1 : p;
}

/* The semicolons that are not part of a text, a name or a comment become 1. */
static void mark_ends(char *sql)
{
    for (char *p = sql; *p;) {
        bool word = p > sql && (isalnum((unsigned char)p[-1]) || p[-1] == '_');
        if (*p == '\'' || *p == '"' || (*p == '$' && !word) || (p[0] == '-' && p[1] == '-') ||
            (p[0] == '/' && p[1] == '*') || ((*p == 'e' || *p == 'E') && p[1] == '\'' && !word))
            p = skip_quoted(p);
        else if (*p++ == ';')
            p[-1] = 1;
    }
}

/*
 * Finds where the last statement begins, and cuts off the semicolon before it. Tries each semicolon
 * that may end a statement, from the last one back, and asks DuckDB which one does.
 */
static bool split(struct query *q, char *sql, char **last)
{
    uint64_t n = count_statements(q, sql, true);
    char *ends = memory_copy(sql);
    bool found = false;
    mark_ends(ends);
    *last = sql;
    for (char *p = sql + strlen(sql); n && !found && p-- > sql;) {
        if (ends[p - sql] != 1)
            continue;
        *p = 0;
        uint64_t behind = count_statements(q, p + 1, false);
        if (count_statements(q, sql, false) + behind != n) {
            *p = ';';
        } else if (behind) { /* otherwise only a comment was there */
            *last = p + 1;
            found = true;
        }
    }
    free(ends);
    return found || n == 1 || (n && fail(q, "the last statement was not found"));
}

/* One statement, ready to run; NULL if it is wrong. */
static struct duck_prepared *prepare(struct query *q, const char *sql, uint64_t index)
{
    struct duck_statements *statements;
    struct duck_prepared *prepared = NULL;
    if (index >= duck.extract_statements(q->connection, sql, &statements)) {
        fail(q, duck.extract_statements_error(statements));
    } else if (duck.prepare_extracted_statement(q->connection, statements, index, &prepared)) {
        fail(q, duck.prepare_error(prepared));
        duck.destroy_prepare(&prepared);
        prepared = NULL;
    }
    duck.destroy_extracted(&statements);
    return prepared;
}

static bool run_all(struct query *q, const char *sql)
{
    uint64_t n = count_statements(q, sql, true);
    bool ok = n > 0;
    for (uint64_t i = 0; i < n && ok; i++) {
        struct duck_prepared *prepared = prepare(q, sql, i);
        struct duck_result result = {0};
        ok = prepared &&
             (!duck.execute_prepared(prepared, &result) || fail(q, duck.result_error(&result)));
        duck.destroy_result(&result);
        if (prepared)
            duck.destroy_prepare(&prepared);
    }
    return ok;
}

/* ---- cells ---- */

static enum query_kind kind_of(int type)
{
    switch (type) {
    case DUCK_BOOLEAN:
        return QUERY_BOOL;
    case DUCK_FLOAT:
    case DUCK_DOUBLE:
    case DUCK_HUGEINT:
    case DUCK_UHUGEINT:
    case DUCK_DECIMAL:
        return QUERY_NUMBER;
    default:
        return type >= DUCK_TINYINT && type <= DUCK_UBIGINT ? QUERY_NUMBER : QUERY_TEXT;
    }
}

/* Can a value be shown here? Others are turned into text by DuckDB. */
static bool is_shown(int type)
{
    return type == DUCK_VARCHAR || (type != DUCK_DECIMAL && kind_of(type) != QUERY_TEXT);
}

/* A number of 128 bits in its two halves: by pieces of 32 bits, which every machine can divide. */
static void put_wide(struct out *out, uint64_t high, uint64_t low)
{
    uint32_t pieces[4] = {(uint32_t)(high >> 32), (uint32_t)high, (uint32_t)(low >> 32),
                          (uint32_t)low};
    char digits[40], *p = digits + sizeof digits;
    bool more;
    do {
        uint64_t rest = 0;
        more = false;
        for (unsigned i = 0; i < 4; i++) {
            rest = rest << 32 | pieces[i];
            pieces[i] = (uint32_t)(rest / 10);
            rest %= 10;
            more |= pieces[i] != 0;
        }
        *--p = (char)('0' + rest);
    } while (more);
    out_bytes(out, p, (size_t)(digits + sizeof digits - p));
}

/* As few digits as distinguish a number from its neighbours. */
static void put_real(struct out *out, double value, bool single)
{
    char text[40];
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double again = strtod(text, NULL);
        if (single ? (float)again == (float)value : again == value)
            break;
    }
    out_text(out, text);
}

static void put_cell(struct out *out, int type, const void *data, uint64_t row)
{
    const struct duck_text *text = (const struct duck_text *)data + row;
    uint64_t low, high;
    switch (type) {
    case DUCK_BOOLEAN:
        out_text(out, ((const bool *)data)[row] ? "true" : "false");
        break;
    case DUCK_TINYINT:
        out_i64(out, ((const int8_t *)data)[row]);
        break;
    case DUCK_SMALLINT:
        out_i64(out, ((const int16_t *)data)[row]);
        break;
    case DUCK_INTEGER:
        out_i64(out, ((const int32_t *)data)[row]);
        break;
    case DUCK_BIGINT:
        out_i64(out, ((const int64_t *)data)[row]);
        break;
    case DUCK_UTINYINT:
        out_u64(out, ((const uint8_t *)data)[row]);
        break;
    case DUCK_USMALLINT:
        out_u64(out, ((const uint16_t *)data)[row]);
        break;
    case DUCK_UINTEGER:
        out_u64(out, ((const uint32_t *)data)[row]);
        break;
    case DUCK_UBIGINT:
        out_u64(out, ((const uint64_t *)data)[row]);
        break;
    case DUCK_FLOAT:
        put_real(out, (double)((const float *)data)[row], true);
        break;
    case DUCK_DOUBLE:
        put_real(out, ((const double *)data)[row], false);
        break;
    case DUCK_HUGEINT:
    case DUCK_UHUGEINT:
        low = ((const uint64_t *)data)[2 * row];
        high = ((const uint64_t *)data)[2 * row + 1];
        if (type == DUCK_HUGEINT && high >> 63) {
            out_char(out, '-');
            low = -low;
            high = ~high + !low;
        }
        put_wide(out, high, low);
        break;
    default: /* a 0 ends what is shown */
        out_bytes(out, text->size <= DUCK_INLINE ? text->inlined : text->far.data,
                  strnlen(text->size <= DUCK_INLINE ? text->inlined : text->far.data, text->size));
    }
}

static void put_chunk(struct duck_chunk *chunk, const int *types, size_t count,
                      const struct query_sink *sink, struct out *text, const char **cells)
{
    uint64_t rows = duck.data_chunk_get_size(chunk);
    for (uint64_t row = 0; row < rows; row++) {
        text->size = 0;
        for (size_t i = 0; i < count; i++) {
            struct duck_vector *vector = duck.data_chunk_get_vector(chunk, i);
            const uint64_t *there = duck.vector_get_validity(vector);
            bool null = there && !(there[row / 64] >> row % 64 & 1);
            cells[i] = null ? NULL : "";
            if (!null)
                put_cell(text, types[i], duck.vector_get_data(vector), row);
            out_char(text, 0);
        }
        const char *at = text->data;
        for (size_t i = 0; i < count; i++) { /* now that the text no longer moves */
            cells[i] = cells[i] ? at : NULL;
            at += strlen(at) + 1;
        }
        sink->row(sink->user, cells);
    }
}

static bool put_result(struct query *q, struct duck_result *result, const int *asked,
                       const struct query_sink *sink)
{
    size_t count = duck.column_count(result);
    int *types = memory_get(count + 1, sizeof *types);
    enum query_kind *kinds = memory_get(count + 1, sizeof *kinds);
    const char **names = memory_get(count + 1, sizeof *names);
    const char **cells = memory_get(count + 1, sizeof *cells);
    struct duck_chunk *chunk;
    struct out text;
    out_init(&text, -1);
    for (size_t i = 0; i < count; i++) {
        types[i] = duck.column_type(result, i);
        kinds[i] = kind_of(asked[i]);
        names[i] = duck.column_name(result, i);
    }
    chunk =
        duck.fetch_chunk(*result); /* an error before the first row: there is no answer at all */
    const char *why = duck.result_error(result);
    if (!why || !*why)
        sink->begin(sink->user, names, kinds, count);
    for (; chunk; chunk = duck.fetch_chunk(*result)) {
        put_chunk(chunk, types, count, sink, &text, cells);
        duck.destroy_data_chunk(&chunk);
    }
    why = duck.result_error(result);
    free(types);
    free(kinds);
    free(names);
    free(cells);
    out_fini(&text);
    return !(why && *why) || fail(q, why);
}

/* ---- asking ---- */

/*
 * Wraps the statement in another one that turns columns we cannot show into text, under the same
 * names.
 */
static void put_around(struct out *out, struct duck_prepared *prepared, const int *types,
                       uint64_t count, const char *sql)
{
    out_text(out, "SELECT ");
    for (uint64_t i = 0; i < count; i++) {
        const char *name = duck.prepared_statement_column_name(prepared, i);
        out_printf(out, "%s%sc%u%s AS \"", i ? ", " : "", is_shown(types[i]) ? "" : "CAST(",
                   (unsigned)i, is_shown(types[i]) ? "" : " AS VARCHAR)");
        for (const char *p = name ? name : ""; *p; p++) {
            if (*p == '"')
                out_char(out, '"');
            out_char(out, *p);
        }
        out_char(out, '"');
        duck.free((void *)(uintptr_t)name);
    }
    out_text(out, " FROM (\n");
    out_text(out, sql);
    out_text(out, "\n) AS t(");
    for (uint64_t i = 0; i < count; i++)
        out_printf(out, "%sc%u", i ? ", " : "", (unsigned)i);
    out_bytes(out, ")", 2);
}

/*
 * Rewrites a statement so that all its columns can be shown. types: those of the statement itself.
 */
static struct duck_prepared *prepare_shown(struct query *q, const char *sql, int **types)
{
    struct duck_prepared *prepared = prepare(q, sql, 0);
    if (!prepared)
        return NULL;
    uint64_t count = duck.prepared_statement_column_count(prepared);
    bool all = true;
    *types = memory_get(count + 1, sizeof **types);
    for (uint64_t i = 0; i < count; i++) {
        (*types)[i] = duck.prepared_statement_column_type(prepared, i);
        all &= is_shown((*types)[i]);
    }
    if (all)
        return prepared;
    struct out around;
    out_init(&around, -1);
    put_around(&around, prepared, *types, count, sql);
    duck.destroy_prepare(&prepared);
    prepared = prepare(q, around.data, 0);
    out_fini(&around);
    return prepared;
}

bool query_ask(struct query *q, const char *sql, const struct query_sink *sink)
{
    char *text = memory_copy(sql), *last;
    int *types = NULL;
    struct duck_prepared *prepared = NULL;
    struct duck_result result = {0};
    q->error.size = 0;
    bool ok = split(q, text, &last) && (last == text || run_all(q, text)) &&
              (prepared = prepare_shown(q, last, &types));
    if (ok) {
        ok = !duck.execute_prepared_streaming(prepared, &result) ||
             fail(q, duck.result_error(&result));
        if (ok && sink && duck.result_return_type(result) == DUCK_ROWS)
            ok = put_result(q, &result, types, sink);
    }
    duck.destroy_result(&result);
    if (prepared)
        duck.destroy_prepare(&prepared);
    free(types);
    free(text);
    return ok;
}

bool query_to_parquet(struct query *q, const char *sql, const char *path)
{
    char *text = memory_copy(sql), *last;
    struct out copy;
    q->error.size = 0;
    out_init(&copy, -1);
    bool ok = split(q, text, &last) && (last == text || run_all(q, text));
    if (ok) {
        out_text(&copy, "COPY (\n");
        out_text(&copy, last);
        out_text(&copy, "\n) TO ");
        query_quote(&copy, path);
        out_text(&copy, " (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)");
        out_char(&copy, 0);
        ok = run_all(q, copy.data);
    }
    out_fini(&copy);
    free(text);
    return ok;
}
