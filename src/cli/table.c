#include "table.h"

#include "base/digits.h"
#include "base/memory.h"
#include "base/vec.h"
#include "cli.h"
#include "shorten.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *const table_formats[] = {"text", "json", "csv", NULL};

struct cell {
    bool present, integer, least;
    unsigned char style;
    double number;
    uint64_t whole;
    char *text, *shown; /* the value, and how text output shows it, often the same */
};

struct row {
    bool note;
    char *span; /* text of a row that spans all columns */
    struct cell cells[];
};

struct table {
    const struct table_column *columns;
    size_t count;
    bool hidden[TABLE_COLUMNS], wanted[TABLE_COLUMNS];
    bool selected; /* -F: wanted is complete, in order[] */
    unsigned char order[TABLE_COLUMNS];
    size_t order_count;
    VEC(struct row *) rows;
};

struct table *table_new(const struct table_column *columns)
{
    struct table *t = memory_get(1, sizeof *t);
    t->columns = columns;
    while (columns[t->count].name)
        t->count++;
    for (size_t i = 0; i < t->count; i++) {
        t->order[i] = (unsigned char)i;
        t->wanted[i] = columns[i].rank != 255;
    }
    t->order_count = t->count;
    return t;
}

static void clear(struct cell *c)
{
    if (c->shown != c->text)
        free(c->shown);
    free(c->text);
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->rows.count; i++) {
        for (size_t c = 0; c < t->count; c++)
            clear(&t->rows.items[i]->cells[c]);
        free(t->rows.items[i]->span);
        free(t->rows.items[i]);
    }
    vec_free(&t->rows);
    free(t);
}

/* Names may be written with dashes or underscores. */
static size_t find(const struct table *t, const char *name, size_t size)
{
    for (size_t i = 0; i < t->count; i++) {
        const char *own = t->columns[i].name;
        size_t n = 0;
        while (n < size && own[n] && (own[n] == name[n] || (own[n] == '-' && name[n] == '_')))
            n++;
        if (n == size && !own[n])
            return i;
    }
    return t->count;
}

const char *table_select(struct table *t, const char *fields)
{
    bool add = *fields == '+';
    size_t count = 0;
    for (const char *p = fields + add;; p++) {
        size_t n = strcspn(p, ","), i = find(t, p, n);
        if (i == t->count || count == TABLE_COLUMNS)
            return p;
        if (add)
            t->wanted[i] = true;
        else
            t->order[count++] = (unsigned char)i;
        p += n;
        if (!*p)
            break;
    }
    if (!add) {
        memset(t->wanted, 0, sizeof t->wanted);
        for (size_t i = 0; i < count; i++)
            t->wanted[t->order[i]] = true;
        t->order_count = count;
        t->selected = true;
    }
    return NULL;
}

void table_prefer(struct table *t, const char *fields)
{
    table_select(t, fields);
    t->selected = false;
}

void table_hide(struct table *t, const char *name)
{
    size_t i = find(t, name, strlen(name));
    if (i < t->count)
        t->hidden[i] = true;
}

void table_row(struct table *t)
{
    struct row **row = memory_checked(vec_push(&t->rows));
    *row = memory_get(1, sizeof **row + t->count * sizeof(struct cell));
}

/* Callers pass literals: a wrong name is an error in the program, not in the data. */
static struct cell *cell(struct table *t, const char *column)
{
    size_t i = find(t, column, strlen(column));
    if (i == t->count) {
        fprintf(stderr, "spex: no column '%s'\n", column);
        abort();
    }
    return &t->rows.items[t->rows.count - 1]->cells[i];
}

/* A copy of a name made safe to show (base/name.h); NULL if it already is. */
static char *shown(const char *text)
{
    enum name_part part;
    struct out out;
    size_t size = strlen(text);
    if (!size || (name_part(text, size, &part) == size && part == NAME_PLAIN))
        return NULL;
    out_init(&out, -1);
    out_name_bytes(&out, text, size);
    out_char(&out, 0);
    char *copy = out.error ? NULL : strdup(out.data);
    out_fini(&out);
    return memory_checked(copy);
}

void table_set_text(struct table *t, const char *column, const char *text)
{
    struct cell *c = cell(t, column);
    clear(c);
    c->text = memory_copy(text);
    c->shown = shown(text);
    if (!c->shown)
        c->shown = c->text;
    c->present = true;
}

void table_printf(struct table *t, const char *column, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    table_set_text(t, column, memory_checked(text));
    free(text);
}

void table_set(struct table *t, const char *column, double value)
{
    struct cell *c = cell(t, column);
    c->number = value;
    c->present = !isnan(value);
}

void table_set_u64(struct table *t, const char *column, uint64_t value)
{
    struct cell *c = cell(t, column);
    c->whole = value;
    c->number = (double)value;
    c->present = c->integer = true;
}

void table_least(struct table *t, const char *column)
{
    cell(t, column)->least = true;
}

void table_style(struct table *t, const char *column, enum table_style style)
{
    cell(t, column)->style = (unsigned char)style;
}

void table_note(struct table *t)
{
    t->rows.items[t->rows.count - 1]->note = true;
}

void table_span(struct table *t, const char *text)
{
    table_row(t);
    table_note(t);
    t->rows.items[t->rows.count - 1]->span = shown(text);
    if (!t->rows.items[t->rows.count - 1]->span)
        t->rows.items[t->rows.count - 1]->span = memory_copy(text);
}

size_t table_rows(const struct table *t)
{
    return t->rows.count;
}

/* ---- numbers ---- */

const char *text_count(char buffer[32], uint64_t n)
{
    return digits_grouped(buffer, n);
}

const char *text_scaled(char buffer[32], double n)
{
    static const char units[] = " kMGTPE";
    size_t unit = 0;
    double size = fabs(n);
    while (size >= 999.95 && unit < 6) {
        size /= 1000;
        n /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(buffer, 32, "%.0f", n);
    else
        snprintf(buffer, 32, "%.*f%c", size < 99.95 ? 1 : 0, n, units[unit]);
    return buffer;
}

const char *text_time(char buffer[32], double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    unsigned unit = 0;
    for (; ns >= 1000 && unit < 3; unit++)
        ns /= 1000;
    snprintf(buffer, 32, "%.*f %s", ns < 10 ? 2 : ns < 100 ? 1 : 0, ns, units[unit]);
    return buffer;
}

static const char *cell_text(const struct table_column *column, const struct cell *c,
                             char buffer[64])
{
    if (!c->present)
        return column->type == TABLE_TEXT ? "" : "-";
    if (c->text)
        return c->shown;
    switch (column->type) {
    case TABLE_COUNT:
        return text_count(buffer, c->integer ? c->whole : (uint64_t)llround(c->number));
    case TABLE_NUMBER:
        if (c->integer || c->number == floor(c->number))
            snprintf(buffer, 64, "%s%.0f", c->least ? ">=" : "", c->number);
        else
            snprintf(buffer, 64, "%s%.1f", c->least ? ">=" : "", c->number);
        return buffer;
    case TABLE_SCALED:
        return text_scaled(buffer, c->number);
    case TABLE_PERCENT:
        snprintf(buffer, 64, "%s%.1f%%", c->least ? "~" : "", c->number * 100);
        return buffer;
    case TABLE_RATE:
        snprintf(buffer, 64, "%.2f", c->number);
        return buffer;
    case TABLE_HEX:
        snprintf(buffer, 64, "0x%llx", (unsigned long long)c->whole);
        return buffer;
    default:
        return "";
    }
}

/* ---- text ---- */

static void pad(struct out *out, unsigned n)
{
    while (n--)
        out_char(out, ' ');
}

static void put_cut(struct out *out, const char *text, unsigned width)
{
    unsigned n = text_width(text);
    if (n <= width) {
        out_text(out, text);
        pad(out, width - n);
        return;
    }
    char *shorter = text_shortened(text, width);
    out_text(out, shorter);
    pad(out, width - text_width(shorter));
    free(shorter);
}

static const char *const styles[] = {"", "\033[31m", "\033[33m", "\033[2m", "\033[1m"};

/*
 * Orders the columns. If -F names no key, keys come last, since rows must say what they are about.
 */
static size_t text_order(const struct table *t, bool *shown, unsigned char order[TABLE_COLUMNS])
{
    bool named = !t->selected;
    size_t count = t->order_count;
    memcpy(order, t->order, count);
    for (size_t i = 0; i < count; i++)
        named |= t->columns[order[i]].key && shown[order[i]];
    for (size_t c = 0; c < t->count && !named; c++)
        if (t->columns[c].key && !t->hidden[c] && count < TABLE_COLUMNS) {
            shown[c] = true;
            order[count++] = (unsigned char)c;
        }
    return count;
}

/*
 * Makes the table as wide as the terminal. Names get up to half of it before statistics do, other
 * texts a few columns: statistics of the highest rank are left out until the rest fits; then the
 * longest texts are cut.
 */
static void fit(const struct table *t, const unsigned char *order, size_t count, unsigned limit,
                bool *shown, unsigned *widths)
{
    enum { LEAST = 24 };
    unsigned names = 0;
    for (size_t i = 0; i < count; i++)
        names += shown[order[i]] && t->columns[order[i]].key;
    unsigned most = names ? limit / 2 / names : 0;
    most = most > LEAST ? most : LEAST;
    for (;;) {
        unsigned total = 0, worst = 0, last = (unsigned)t->count;
        for (size_t i = 0; i < count; i++) {
            size_t c = order[i];
            if (!shown[c])
                continue;
            const unsigned text = t->columns[c].type != TABLE_TEXT ? widths[c]
                                  : t->columns[c].key              ? most
                                                                   : LEAST;
            total += (total ? 2 : 0) + (widths[c] > text ? text : widths[c]);
            worst = t->columns[c].rank > worst ? t->columns[c].rank : worst;
            last = (unsigned)c;
        }
        if (total <= limit || t->selected || !worst || last == t->count)
            break;
        for (size_t c = 0; c < t->count; c++) /* columns of one rank are left out together */
            if (t->columns[c].rank == worst)
                shown[c] = false;
    }
}

static void cut(const struct table *t, const unsigned char *order, size_t count, unsigned limit,
                const bool *shown, unsigned *widths)
{
    enum { CUT = 8 };
    for (;;) {
        unsigned total = 0;
        size_t longest = t->count;
        for (size_t i = 0; i < count; i++) {
            size_t c = order[i];
            if (!shown[c])
                continue;
            total += (total ? 2 : 0) + widths[c];
            if (t->columns[c].type == TABLE_TEXT && widths[c] > CUT &&
                (longest == t->count || widths[c] >= widths[longest]))
                longest = c;
        }
        if (total <= limit || longest == t->count)
            return;
        widths[longest]--;
    }
}

static void print_text(const struct table *t, struct out *out, const struct table_options *o)
{
    unsigned widths[TABLE_COLUMNS] = {0};
    bool shown[TABLE_COLUMNS] = {false};
    const char *indent = o->indent ? o->indent : "";
    char buffer[64];
    for (size_t c = 0; c < t->count; c++) {
        shown[c] = t->wanted[c] && !t->hidden[c];
        bool any = false;
        widths[c] = text_width(t->columns[c].heading);
        for (size_t r = 0; r < t->rows.count; r++) {
            const struct cell *cl = &t->rows.items[r]->cells[c];
            any |= cl->present;
            unsigned n = cl->present ? text_width(cell_text(&t->columns[c], cl, buffer)) : 1;
            if (n > widths[c])
                widths[c] = n;
        }
        if (!any && !t->selected && t->columns[c].rank)
            shown[c] = false; /* nothing to print */
    }
    unsigned char order[TABLE_COLUMNS];
    size_t count = text_order(t, shown, order), last = count ? order[count - 1] : t->count;
    unsigned limit = o->width ? o->width - (unsigned)strlen(indent) : 0;
    if (limit)
        fit(t, order, count, limit, shown, widths);
    if (limit && !o->whole_names)
        cut(t, order, count, limit, shown, widths);
    for (size_t c = 0; c < t->count && o->name_width; c++)
        if (t->columns[c].type == TABLE_TEXT && widths[c] > o->name_width)
            widths[c] = o->name_width;
    for (size_t i = 0; i < count; i++)
        if (shown[order[i]])
            last = order[i];
    for (size_t r = 0; r <= t->rows.count; r++) {
        const struct row *row = r ? t->rows.items[r - 1] : NULL;
        bool first = true;
        out_text(out, indent);
        if (row && row->span) {
            unsigned n = text_width(row->span);
            if (o->colour)
                out_text(out, styles[TABLE_DIM]);
            put_cut(out, row->span, limit && n > limit ? limit : n);
            out_text(out, o->colour ? "\033[0m\n" : "\n");
            continue;
        }
        if (!row && o->colour)
            out_text(out, styles[TABLE_BOLD]);
        for (size_t i = 0; i < count; i++) {
            size_t c = order[i];
            if (!shown[c])
                continue;
            const char *text =
                row ? cell_text(&t->columns[c], &row->cells[c], buffer) : t->columns[c].heading;
            if (row && row->note && !row->cells[c].present)
                text = "";
            bool left = t->columns[c].type == TABLE_TEXT;
            unsigned n = text_width(text);
            unsigned style = row && o->colour ? row->cells[c].style : 0;
            if (!first)
                out_text(out, "  ");
            first = false;
            if (style)
                out_text(out, styles[style]);
            if (!left && n < widths[c])
                pad(out, widths[c] - n);
            if (c == last && left)
                put_cut(out, text, n < widths[c] ? n : widths[c]);
            else if (left)
                put_cut(out, text, widths[c]);
            else
                out_text(out, text);
            if (style)
                out_text(out, "\033[0m");
        }
        if (!row && o->colour)
            out_text(out, "\033[0m");
        while (out->size && out->data[out->size - 1] == ' ')
            out->size--;
        out_char(out, '\n');
    }
}

/* ---- JSON, CSV ---- */

static void number(struct out *out, const struct cell *c)
{
    if (c->integer)
        out_u64(out, c->whole);
    else if (isinf(c->number))
        out_text(out, "null");
    else if (c->number == floor(c->number) && fabs(c->number) < 1e15)
        out_printf(out, "%.0f", c->number);
    else
        out_printf(out, "%.10g", c->number);
}

static void csv_cell(struct out *out, const struct table_column *column, const struct cell *c)
{
    if (!c->present)
        return;
    if (c->text) {
        out_name_csv(out, c->text);
    } else if (column->type == TABLE_HEX) {
        out_text(out, "0x");
        out_hex(out, c->whole);
    } else {
        number(out, c);
    }
}

static void json_cell(struct json *json, const struct table_column *column, const struct cell *c)
{
    if (!c->present) {
        json_null(json);
    } else if (c->text) {
        json_string(json, c->text);
    } else if (column->type == TABLE_HEX) {
        json_hex(json, c->whole);
    } else {
        json_begin(json);
        number(json->out, c);
    }
}

/* Names have dashes; in JSON and CSV, underscores. */
static const char *machine_name(const char *name, char text[80])
{
    size_t n = 0;
    for (; name[n] && n < 79; n++)
        text[n] = name[n] == '-' ? '_' : name[n];
    text[n] = 0;
    return text;
}

void table_json(const struct table *t, struct json *json)
{
    char name[80];
    json_array_lines(json);
    for (size_t r = 0; r < t->rows.count; r++) {
        if (t->rows.items[r]->note)
            continue;
        json_object(json);
        for (size_t i = 0; i < t->order_count; i++) {
            size_t c = t->order[i];
            if (t->hidden[c] || (t->selected && !t->wanted[c]))
                continue;
            json_name(json, machine_name(t->columns[c].name, name));
            json_cell(json, &t->columns[c], &t->rows.items[r]->cells[c]);
        }
        json_end(json);
    }
    json_end(json);
}

static void print_csv(const struct table *t, struct out *out)
{
    char name[80];
    for (size_t r = 0; r <= t->rows.count; r++) {
        bool inner = false;
        if (r && t->rows.items[r - 1]->note)
            continue;
        for (size_t i = 0; i < t->order_count; i++) {
            size_t c = t->order[i];
            if (t->hidden[c] || (t->selected && !t->wanted[c]))
                continue;
            if (inner)
                out_char(out, ',');
            inner = true;
            if (r)
                csv_cell(out, &t->columns[c], &t->rows.items[r - 1]->cells[c]);
            else
                out_text(out, machine_name(t->columns[c].name, name));
        }
        out_char(out, '\n');
    }
}

void table_print(const struct table *t, struct out *out, const struct table_options *options)
{
    if (options->format == TABLE_AS_CSV)
        print_csv(t, out);
    else if (options->format == TABLE_AS_TEXT)
        print_text(t, out, options);
}
