#include "rows.h"

#include "base/json.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { HELD = 1000 };

void rows_init(struct rows *r, struct out *out, enum table_format format)
{
    *r = (struct rows){.out = out, .format = format};
    out_init(&r->cell, -1);
}

/* Counts every UTF-8 character as one column: names rarely have wider ones. */
static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static const char *shown(struct rows *r, const char *text)
{
    r->cell.size = 0;
    out_name(&r->cell, text ? text : "-");
    out_char(&r->cell, 0);
    return r->cell.data;
}

/* ---- text ---- */

static void text_cell(struct rows *r, size_t column, const char *text)
{
    size_t width = width_of(text), room = r->widths[column];
    size_t blanks = room > width ? room - width : 0;
    bool right = r->kinds[column] == QUERY_NUMBER, last = column + 1 == r->count;
    out_text(r->out, column ? "  " : "");
    for (size_t i = 0; right && i < blanks; i++)
        out_char(r->out, ' ');
    out_bytes(r->out, text, strlen(text));
    for (size_t i = 0; !right && !last && i < blanks; i++)
        out_char(r->out, ' ');
    if (last)
        out_char(r->out, '\n');
}

static void show_held(struct rows *r)
{
    for (size_t i = 0; i < r->count; i++) {
        r->widths[i] = width_of(shown(r, r->names[i]));
        for (size_t row = 0; row < r->held_rows; row++) {
            size_t width = width_of(r->held[row * r->count + i]);
            r->widths[i] = width > r->widths[i] ? width : r->widths[i];
        }
    }
    for (size_t i = 0; i < r->count; i++)
        text_cell(r, i, shown(r, r->names[i]));
    for (size_t i = 0; i < r->held_rows * r->count; i++) {
        text_cell(r, i % r->count, r->held[i]);
        free(r->held[i]);
    }
    free(r->held);
    r->held = NULL;
    r->held_rows = 0;
}

static void put_text(struct rows *r, const char *const *cells)
{
    if (r->held && r->held_rows == HELD)
        show_held(r);
    for (size_t i = 0; i < r->count; i++) {
        if (r->held)
            r->held[r->held_rows * r->count + i] = memory_copy(shown(r, cells[i]));
        else
            text_cell(r, i, shown(r, cells[i]));
    }
    r->held_rows += r->held != NULL;
}

/* ---- CSV and JSON ---- */

static void put_csv(struct rows *r, const char *const *cells, bool header)
{
    for (size_t i = 0; i < r->count; i++) {
        if (i)
            out_char(r->out, ',');
        if (cells[i] && !header && r->kinds[i] == QUERY_NUMBER)
            out_bytes(r->out, cells[i], strlen(cells[i]));
        else if (cells[i])
            out_name_csv(r->out, cells[i]);
    }
    out_char(r->out, '\n');
}

static void put_json(struct rows *r, const char *const *cells)
{
    for (size_t i = 0; i < r->count; i++) {
        out_char(r->out, i ? ',' : '{');
        out_name_json(r->out, r->names[i]);
        out_char(r->out, ':');
        /* JSON cannot express inf and nan */
        bool no_number =
            r->kinds[i] == QUERY_NUMBER && cells[i] && strpbrk(cells[i], "infatyINFATY");
        if (!cells[i] || no_number)
            out_text(r->out, "null");
        else if (r->kinds[i] == QUERY_TEXT)
            out_name_json(r->out, cells[i]);
        else
            out_bytes(r->out, cells[i], strlen(cells[i]));
    }
    out_text(r->out, "}\n");
}

/* ---- all ---- */

void rows_begin(void *user, const char *const *names, const enum query_kind *kinds, size_t count)
{
    struct rows *r = user;
    r->count = count;
    r->names = memory_get(count + 1, sizeof *r->names);
    r->kinds = memory_get(count + 1, sizeof *r->kinds);
    r->widths = memory_get(count + 1, sizeof *r->widths);
    for (size_t i = 0; i < count; i++)
        r->names[i] = memory_copy(names[i] ? names[i] : "");
    memcpy(r->kinds, kinds, count * sizeof *kinds);
    if (r->format == TABLE_AS_TEXT)
        r->held = memory_get(HELD * count + 1, sizeof *r->held);
    if (r->format == TABLE_AS_CSV)
        put_csv(r, (const char *const *)r->names, true);
}

void rows_put(void *user, const char *const *cells)
{
    struct rows *r = user;
    r->shown++;
    if (r->format == TABLE_AS_TEXT)
        put_text(r, cells);
    else if (r->format == TABLE_AS_CSV)
        put_csv(r, cells, false);
    else
        put_json(r, cells);
}

void rows_end(struct rows *r)
{
    if (r->held)
        show_held(r);
    for (size_t i = 0; i < r->count; i++)
        free(r->names[i]);
    free(r->names);
    free(r->kinds);
    free(r->widths);
    out_fini(&r->cell);
}
