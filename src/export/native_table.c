#include "native_table.h"

#include "base/name.h"

enum { BLOCK_ROWS = 1 << 14 };

const char *const native_head_names[NATIVE_HEADS] = {"host", "until", "batch", "part"};
const char *const native_head_types[NATIVE_HEADS] = {"String", "DateTime('UTC')", "FixedString(32)",
                                                     "UInt32"};

void native_table_type(const struct tables_column *c, char type[NATIVE_TYPE])
{
    native_type_of(c->type, c->bits, c->null, type);
}

struct columns {
    size_t count, rows;
    const struct tables_column *columns;
    struct out values[TABLES_COLUMNS], nulls[TABLES_COLUMNS], text, host;
};

static void add_row(struct columns *c, const struct tables_cell *cells)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->columns[i].null)
            out_char(&c->nulls[i], !cells[i].there);
        if (c->columns[i].type == EXPORT_STRING) {
            c->text.size = 0;
            out_name_utf8(&c->text, cells[i].there ? cells[i].text : "");
            native_text(&c->values[i], c->text.data, c->text.size);
        } else {
            native_number(&c->values[i], cells[i].there ? cells[i].number : 0,
                          (c->columns[i].bits + 7) / 8);
        }
    }
    c->rows++;
}

static void put_head(struct out *block, const struct native_head_values *head,
                     const struct out *host, size_t rows)
{
    for (unsigned i = 0; i < NATIVE_HEADS; i++) {
        native_heading(block, native_head_names[i], native_head_types[i]);
        for (size_t row = 0; row < rows; row++)
            switch (i) {
            case NATIVE_HOST:
                native_text(block, host->data, host->size);
                break;
            case NATIVE_OF_BATCH:
                out_bytes(block, head->batch, NATIVE_ID);
                break;
            default:
                native_number(block, i == NATIVE_UNTIL ? head->until : head->part, 4);
            }
    }
}

static bool take(struct columns *c, const struct native_head_values *head, struct out *block)
{
    bool good = !c->text.error && !c->host.error;
    block->size = 0;
    native_varint(block, NATIVE_HEADS + c->count);
    native_varint(block, c->rows);
    put_head(block, head, &c->host, c->rows);
    for (size_t i = 0; i < c->count; i++) {
        char type[NATIVE_TYPE];
        native_table_type(&c->columns[i], type);
        native_heading(block, c->columns[i].name, type);
        out_bytes(block, c->nulls[i].data, c->nulls[i].size);
        out_bytes(block, c->values[i].data, c->values[i].size);
        good &= !c->nulls[i].error && !c->values[i].error;
        c->nulls[i].size = c->values[i].size = 0;
    }
    c->rows = 0;
    return good && !block->error;
}

enum spex_status native_table(struct tables *tables, enum tables_id table,
                              const struct native_head_values *head,
                              enum spex_status (*put)(void *user, struct out *block), void *user,
                              uint64_t *rows)
{
    struct columns c = {.count = tables_columns(table), .columns = tables_info[table].columns};
    struct tables_cell cells[TABLES_COLUMNS];
    enum spex_status status = SPEX_OK;
    struct out block;
    out_init(&block, -1);
    out_init(&c.text, -1);
    out_init(&c.host, -1);
    out_name_utf8(&c.host, head->host);
    for (size_t i = 0; i < c.count; i++) {
        out_init(&c.values[i], -1);
        out_init(&c.nulls[i], -1);
    }
    *rows = 0;
    tables_begin(tables, table);
    for (bool more = true; more && !status;) {
        more = tables_next(tables, cells);
        if (more)
            add_row(&c, cells);
        *rows += more;
        if (c.rows == BLOCK_ROWS || (!more && c.rows))
            status = take(&c, head, &block) ? put(user, &block) : SPEX_NO_MEMORY;
    }
    for (size_t i = 0; i < c.count; i++) {
        out_fini(&c.values[i]);
        out_fini(&c.nulls[i]);
    }
    out_fini(&c.text);
    out_fini(&c.host);
    out_fini(&block);
    return status;
}
