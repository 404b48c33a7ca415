/* The tables beside samples as Parquet files, written after the pass over the samples. */
#include "export.h"

#include "base/memory.h"
#include "base/name.h"
#include "export/parquet.h"
#include "export/tables.h"

#include <stdlib.h>

enum { GROUP_ROWS = 1 << 16 };

struct side {
    struct parquet file;
    size_t columns, rows;
    uint32_t *map[TABLES_COLUMNS]; /* dictionary index by row */
    uint32_t *numbers;             /* 0, 1, 2, ... */
    struct out text;
};

static void side_begin(struct side *s, struct export_job *job, enum tables_id table)
{
    static const enum parquet_type types[] = {[EXPORT_STRING] = PARQUET_STRING,
                                              [EXPORT_NUMBER] = PARQUET_UINT,
                                              [EXPORT_ADDRESS_TYPE] = PARQUET_UINT,
                                              [EXPORT_BOOL] = PARQUET_BOOL};
    struct parquet_field fields[TABLES_COLUMNS];
    *s = (struct side){.columns = tables_columns(table)};
    for (size_t i = 0; i < s->columns; i++) {
        const struct tables_column *c = &tables_info[table].columns[i];
        fields[i] = (struct parquet_field){
            .name = c->name, .type = types[c->type], .bits = c->bits, .optional = c->null};
        s->map[i] = memory_get(GROUP_ROWS, sizeof *s->map[i]);
    }
    parquet_begin(&s->file, job->out, tables_info[table].name, fields, s->columns);
    s->numbers = memory_get(GROUP_ROWS, sizeof *s->numbers);
    for (uint32_t i = 0; i < GROUP_ROWS; i++)
        s->numbers[i] = i;
    out_init(&s->text, -1);
}

static void side_flush(struct side *s)
{
    for (size_t i = 0; i < s->columns && s->rows; i++)
        parquet_page_mapped(&s->file, i, s->map[i], s->numbers, s->rows, s->numbers, s->rows);
    if (s->rows)
        parquet_group_end(&s->file, s->file.columns, s->rows, -1);
    s->rows = 0;
}

static uint32_t entry_of(struct side *s, size_t column, const struct tables_cell *cell)
{
    struct parquet_column *to = &s->file.columns[column];
    if (!cell->there)
        return PARQUET_NULL;
    if (to->field.type == PARQUET_BOOL)
        return (uint32_t)cell->number;
    if (to->field.type == PARQUET_UINT)
        return parquet_entry_number(to, cell->number);
    s->text.size = 0;
    out_name_utf8(&s->text, cell->text);
    return parquet_entry_text(to, s->text.data, s->text.size);
}

static enum spex_status end_table(struct export_job *job, enum tables_id table)
{
    const struct parquet_note note = {"spex.schema", EXPORT_SCHEMA};
    struct tables_cell cells[TABLES_COLUMNS];
    struct side s;
    side_begin(&s, job, table);
    tables_begin(job->tables, table);
    while (tables_next(job->tables, cells)) {
        for (size_t i = 0; i < s.columns; i++)
            s.map[i][s.rows] = entry_of(&s, i, &cells[i]);
        if (++s.rows == GROUP_ROWS)
            side_flush(&s);
    }
    side_flush(&s);
    parquet_end(&s.file, &note, 1, "spex");
    for (size_t i = 0; i < s.columns; i++)
        free(s.map[i]);
    free(s.numbers);
    out_fini(&s.text);
    return SPEX_OK;
}

static void begin(struct export_job *job)
{
    (void)job;
}

#define TABLE(id, name_, meaning)                                                                  \
    static enum spex_status end_##id(struct export_job *job)                                       \
    {                                                                                              \
        return end_table(job, TABLES_##id);                                                        \
    }
#define COLUMN(name, type, bits, null, meaning)
#define END
#include "export/tables.def"

const struct export_format export_tables[] = {
#define TABLE(id, name_, meaning) {.name = name_, .binary = true, .begin = begin, .end = end_##id},
#define COLUMN(name, type, bits, null, meaning)
#define END
#include "export/tables.def"
    {0},
};
