#include "fleet_query.h"

#include "cli/output.h"
#include "cli/rows.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHERE "{where}"

struct asked {
    struct out answer; /* backed by a temporary file, since it may be large */
    enum table_format format;
};

static enum query_kind kind_of(const char *type)
{
    return strstr(type, "Int") || strstr(type, "Float") || strstr(type, "Decimal") ? QUERY_NUMBER
                                                                                   : QUERY_TEXT;
}

/* Splits a line into cells; an absent cell is NULL. The caller owns the array. */
static const char **read_line(char **at, const char **cells, size_t *capacity, size_t *count)
{
    char end = '\t';
    *count = 0;
    while (end == '\t') {
        cells = memory_grow(cells, *count, capacity, sizeof *cells);
        bool none = !strncmp(*at, "\\N", 2);
        const char *cell = **at ? clickhouse_cell(at, &end) : NULL;
        if (!cell)
            break;
        cells[(*count)++] = none ? NULL : cell;
    }
    return cells;
}

/*
 * Reads the next line and its cells; false at the end, or after a message if that is how the answer
 * ends.
 */
static bool next_row(FILE *in, char **line, const char ***cells, size_t *capacity, size_t *count,
                     bool *whole)
{
    size_t room = 0;
    free(*line);
    *line = NULL;
    ssize_t n = getline(line, &room, in);
    if (n <= 0) {
        *whole &= feof(in) && !ferror(in);
        return false;
    }
    *whole &= (*line)[n - 1] == '\n';
    char *at = *line;
    *cells = read_line(&at, *cells, capacity, count);
    return *whole;
}

/* Prints names and types, then rows. */
static bool print_rows(const struct asked *asked, FILE *in, struct out *out)
{
    const char **names = NULL, **cells = NULL;
    char *name_line = NULL, *line = NULL;
    size_t capacity = 0, cell_capacity = 0, count = 0, n = 0;
    bool whole = true;
    struct rows rows;
    rows_init(&rows, out, asked->format);
    next_row(in, &name_line, &names, &capacity, &count, &whole);
    next_row(in, &line, &cells, &cell_capacity, &n, &whole);
    enum query_kind *kinds = memory_get(count + 1, sizeof *kinds);
    for (size_t i = 0; i < n && i < count; i++)
        kinds[i] = cells[i] ? kind_of(cells[i]) : QUERY_TEXT;
    whole &= n == count;
    rows_begin(&rows, names, kinds, count);
    while (whole && next_row(in, &line, &cells, &cell_capacity, &n, &whole)) {
        whole = n == count;
        if (whole)
            rows_put(&rows, cells);
    }
    rows_end(&rows);
    free(kinds);
    free(names);
    free(cells);
    free(line);
    free(name_line);
    return whole;
}

static bool print(void *context, int fd)
{
    struct asked *asked = context;
    struct out out;
    FILE *in = fdopen(dup(asked->answer.fd), "r");
    out_init(&out, fd);
    if (in)
        rewind(in);
    bool whole = in && print_rows(asked, in, &out);
    int error = out_fini(&out);
    if (in)
        fclose(in);
    if (!whole)
        cli_error("the server's answer ends early, or is none: what is printed is not all");
    else if (error)
        cli_error("cannot write: %s", strerror(error));
    return whole && !error;
}

/* Appends the statement with {where} filled in, and the format of the answer. */
static int put_statement(struct out *out, const char *sql, const char *hosts, const char *last)
{
    struct out where;
    size_t size = strlen(sql);
    const char *place;
    if ((hosts || last) && !strstr(sql, WHERE))
        return cli_usage("--%s needs a statement with " WHERE
                         " in it, such as those of spex query --list --url URL",
                         hosts ? "host" : "last");
    out_init(&where, -1);
    out_char(&where, '1');
    int status = fleet_where(&where, "wall", hosts, last);
    while (size && strchr("; \t\n", sql[size - 1]))
        size--;
    for (; !status && (place = strstr(sql, WHERE)) && (size_t)(place - sql) < size;) {
        out_bytes(out, sql, (size_t)(place - sql));
        out_bytes(out, where.data, where.size);
        size -= (size_t)(place - sql) + strlen(WHERE);
        sql = place + strlen(WHERE);
    }
    out_bytes(out, sql, size);
    out_text(out, "\nFORMAT TabSeparatedWithNamesAndTypes");
    out_char(out, 0);
    out_fini(&where);
    return status;
}

int fleet_query(const struct fleet_options *fleet, const char *sql, const char *hosts,
                const char *last, int format, const char *to)
{
    struct asked asked = {.format = (enum table_format)format};
    struct clickhouse *server = NULL;
    struct output output;
    struct out statement;
    char *partial = NULL;
    if (format > TABLE_AS_CSV)
        return cli_usage("--format: a server's answer can be text, json or csv");
    int file = file_temporary();
    if (file < 0) {
        cli_error("no temporary file: %s; set TMPDIR to a place that can be written",
                  strerror(errno));
        return CLI_DATA;
    }
    out_init(&statement, -1);
    out_init(&asked.answer, file);
    int status = put_statement(&statement, sql, hosts, last);
    if (!status)
        status = fleet_connect(fleet, true, &server);
    if (!status && !(status = fleet_ask(server, statement.data, &asked.answer, &partial)) &&
        !(status = output_open(&output, to, OUTPUT_KEEPS))) {
        status = output_make(&output, print, &asked);
        output_close(&output);
    }
    if (!status && partial) {
        cli_error("%s", partial);
        status = CLI_DATA;
    }
    clickhouse_free(server);
    free(partial);
    out_fini(&statement);
    out_fini(&asked.answer);
    close(file);
    return status;
}
