#include "native.h"

#include "base/memory.h"
#include "base/name.h"

#include <stdlib.h>

enum {
    IDS_MOST = 1 << 17,          /* with more distinct values, all are forgotten */
    FAR_BEFORE = 90 * 24 * 3600, /* A time so many seconds before or after the end of the file */
    FAR_BEHIND = 3600            /* is damaged: it would make a partition of its own. */
};

const char *const native_extra_names[NATIVE_EXTRAS] = {"wall", "batch", "part"};
const char *const native_extra_types[NATIVE_EXTRAS] = {"DateTime('UTC')", "FixedString(32)",
                                                       "UInt32"};

bool native_has(enum export_column column)
{
    const struct export_field *f = &export_fields[column];
    return f->columnar && f->type != EXPORT_LIST && f->type != EXPORT_BOOL;
}

static bool is_optional(enum export_column column)
{
    return export_fields[column].null && column != EXPORT_HOST;
}

void native_type_of(enum export_type kind, unsigned bits, bool optional, char type[NATIVE_TYPE])
{
    struct out out;
    out_init(&out, -1);
    if (optional)
        out_text(&out, "Nullable(");
    if (kind == EXPORT_STRING)
        out_text(&out, "String");
    else
        out_printf(&out, "UInt%u", kind == EXPORT_BOOL ? 8 : bits);
    if (optional)
        out_char(&out, ')');
    out_char(&out, 0);
    memcpy(type, out.data, out.size);
    out_fini(&out);
}

void native_type(enum export_column column, char type[NATIVE_TYPE])
{
    const struct export_field *f = &export_fields[column];
    native_type_of(f->type, f->bits, is_optional(column), type);
}

void native_varint(struct out *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        out_char(out, (char)(value | 0x80));
    out_char(out, (char)value);
}

void native_text(struct out *out, const char *text, size_t size)
{
    native_varint(out, size);
    out_bytes(out, text, size);
}

void native_begin(struct native *n, struct export_source *source)
{
    *n = (struct native){.source = source};
    out_init(&n->walls, -1);
    out_init(&n->text, -1);
    for (unsigned i = 0; i < EXPORT_COLUMNS; i++) {
        if (!native_has(i))
            continue;
        struct native_column *c = &n->columns[n->column_count++];
        c->column = i;
        c->from = export_origin(source, i);
        c->bytes = export_fields[i].type == EXPORT_STRING ? 0 : export_fields[i].bits / 8;
        c->optional = is_optional(i);
        out_init(&c->values, -1);
        out_init(&c->nulls, -1);
        out_init(&c->made, -1);
    }
}

void native_end(struct native *n)
{
    for (size_t i = 0; i < n->column_count; i++) {
        struct native_column *c = &n->columns[i];
        out_fini(&c->values);
        out_fini(&c->nulls);
        out_fini(&c->made);
        free(c->cells);
    }
    for (unsigned from = 0; from < EXPORT_FROMS; from++) {
        ids_free(&n->ids[from]);
        free(n->numbers[from]);
    }
    out_fini(&n->walls);
    out_fini(&n->text);
}

/* ---- values ---- */

/* The value of one sample; false if it is absent, which is written as empty or 0. */
static bool put_value(struct native *n, const struct native_column *c, struct out *out,
                      const struct spex_sample *sample)
{
    uint64_t value = 0;
    if (c->bytes) {
        bool there = export_number(n->source, sample, c->column, &value);
        native_number(out, there ? value : 0, c->bytes);
        return there;
    }
    const char *text = export_text(n->source, sample, c->column);
    n->text.size = 0;
    out_name_utf8(&n->text, text ? text : "");
    native_text(out, n->text.data, n->text.size);
    return text != NULL;
}

static void make_cells(struct native *n, enum export_from from, uint32_t id,
                       const struct spex_sample *sample)
{
    for (size_t i = 0; i < n->column_count; i++) {
        struct native_column *c = &n->columns[i];
        if (c->from != from)
            continue;
        c->cells = memory_grow(c->cells, id, &c->cell_capacity, sizeof *c->cells);
        size_t at = c->made.size;
        bool there = put_value(n, c, &c->made, sample);
        c->cells[id] =
            (struct native_cell){.at = at, .size = (uint32_t)(c->made.size - at), .null = !there};
    }
}

static void forget(struct native *n, enum export_from from)
{
    ids_clear(&n->ids[from]);
    for (size_t i = 0; i < n->column_count; i++)
        if (n->columns[i].from == from)
            n->columns[i].made.size = 0;
}

static void find_numbers(struct native *n, enum export_from from, const struct spex_sample *samples,
                         size_t count)
{
    struct ids *ids = &n->ids[from];
    for (size_t i = 0; i < count; i++) {
        uint64_t key[EXPORT_KEY] = {EXPORT_KEY_THERE};
        bool fresh;
        if (from == EXPORT_FROM_CODE)
            export_key(&samples[i], EXPORT_FROM_CODE, key);
        else if (from == EXPORT_FROM_THREAD)
            export_key(&samples[i], EXPORT_FROM_THREAD, key);
        else if (from == EXPORT_FROM_OUTCOME)
            export_key(&samples[i], EXPORT_FROM_OUTCOME, key);
        else if (from == EXPORT_FROM_STACK)
            export_stack_key(n->source->analysis, &samples[i], key);
        uint32_t id = ids_find(ids, key, &fresh);
        if (fresh)
            make_cells(n, from, id, &samples[i]);
        n->numbers[from][i] = id;
    }
}

static void add_mapped(struct native_column *c, const uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct native_cell *cell = &c->cells[numbers[i]];
        out_bytes(&c->values, c->made.data + cell->at, cell->size);
        if (c->optional)
            out_char(&c->nulls, cell->null);
    }
}

static void add_own(struct native *n, struct native_column *c, const struct spex_sample *samples,
                    size_t count)
{
    struct export_number number = export_numbers[c->column];
    for (size_t i = 0; i < count; i++) {
        bool there;
        if (c->bytes && number.has) {
            there = (samples[i].record->present | EXPORT_ALWAYS) & number.has;
            native_number(&c->values, there ? export_read(&samples[i], number) : 0, c->bytes);
        } else {
            there = put_value(n, c, &c->values, &samples[i]);
        }
        if (c->optional)
            out_char(&c->nulls, !there);
    }
}

static uint32_t second_of(const struct native *n, const struct spex_sample *sample)
{
    int64_t second = (int64_t)(sample->time + (uint64_t)n->wall_shift) / 1000000000;
    bool timed = n->timed && sample->record->present & SPEX_HAS_TIMESTAMP;
    return timed && second >= (int64_t)n->wall_end - FAR_BEFORE &&
                   second <= (int64_t)n->wall_end + FAR_BEHIND
               ? (uint32_t)second
               : n->wall_end;
}

static void add_batch(struct native *n, const struct spex_sample *samples, size_t count)
{
    for (unsigned from = EXPORT_FROM_ITSELF + 1; from < EXPORT_FROMS; from++) {
        if (from == EXPORT_FROM_STACK && !n->source->stacks)
            continue;
        if (n->ids[from].count > IDS_MOST)
            forget(n, from);
        find_numbers(n, from, samples, count);
    }
    for (size_t i = 0; i < n->column_count; i++) {
        struct native_column *c = &n->columns[i];
        if (c->from == EXPORT_FROM_ITSELF)
            add_own(n, c, samples, count);
        else
            add_mapped(c, n->numbers[c->from], count);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t second = second_of(n, &samples[i]);
        native_number(&n->walls, second, 4);
        n->first = second < n->first ? second : n->first;
        n->until = second > n->until ? second : n->until;
    }
    n->rows += count;
}

void native_add(struct native *n, const struct spex_sample *samples, size_t count)
{
    if (count > n->numbers_capacity) {
        for (unsigned from = 0; from < EXPORT_FROMS; from++)
            n->numbers[from] = memory_resize(n->numbers[from], count, sizeof **n->numbers);
        n->numbers_capacity = count;
    }
    if (count)
        add_batch(n, samples, count);
}

/* ---- blocks ---- */

void native_heading(struct out *out, const char *name, const char *type)
{
    native_text(out, name, strlen(name));
    native_text(out, type, strlen(type));
}

bool native_take(struct native *n, uint32_t part, struct out *block)
{
    bool good = !n->walls.error && !n->text.error;
    native_varint(block, NATIVE_EXTRAS + n->column_count);
    native_varint(block, n->rows);
    native_heading(block, native_extra_names[NATIVE_WALL], native_extra_types[NATIVE_WALL]);
    out_bytes(block, n->walls.data, n->walls.size);
    native_heading(block, native_extra_names[NATIVE_BATCH], native_extra_types[NATIVE_BATCH]);
    for (size_t i = 0; i < n->rows; i++)
        out_bytes(block, n->batch, NATIVE_ID);
    native_heading(block, native_extra_names[NATIVE_PART], native_extra_types[NATIVE_PART]);
    for (size_t i = 0; i < n->rows; i++)
        native_number(block, part, 4);
    for (size_t i = 0; i < n->column_count; i++) {
        struct native_column *c = &n->columns[i];
        char type[NATIVE_TYPE];
        native_type(c->column, type);
        native_heading(block, export_fields[c->column].name, type);
        out_bytes(block, c->nulls.data, c->nulls.size);
        out_bytes(block, c->values.data, c->values.size);
        c->nulls.size = c->values.size = 0;
        good &= !c->nulls.error && !c->values.error && !c->made.error;
    }
    n->walls.size = 0;
    n->rows = 0;
    return good && !block->error;
}
