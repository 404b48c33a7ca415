/*
 * The table functions spe_files('perf.data'), spe_symbols, spe_stacks, spe_losses and spe_elapsed:
 * the tables beside samples. A pass over the profile when the statement begins, then one thread
 * passes rows to DuckDB on request.
 */
#include "spe.h"

#include "base/memory.h"
#include "base/name.h"
#include "export/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2048 }; /* DuckDB's vectors hold as many */

struct which {
    struct query *query;
    enum tables_id table;
};

struct rows {
    struct which *which;
    struct query_profile *profile;
    struct tables *tables;
    struct out text;
};

static void bind(struct duck_bind *info)
{
    const struct which *w = duck.bind_get_extra_info(info);
    const struct tables_column *c = tables_info[w->table].columns;
    for (bool found = spe_bind_path(w->query, info); found && c->name; c++) {
        struct duck_type *type = duck.create_logical_type(spe_type(c->type, c->bits));
        duck.bind_add_result_column(info, c->name, type);
        duck.destroy_logical_type(&type);
    }
}

static void free_rows(void *data)
{
    struct rows *r = data;
    tables_free(r->tables);
    out_fini(&r->text);
    spe_leave_profile(r->which->query, r->profile);
    free(r);
}

static void count(void *context, const struct spex_sample *samples, size_t n)
{
    struct rows *r = context;
    if (atomic_load_explicit(&r->which->query->interrupted, memory_order_relaxed))
        spex_analysis_stop(r->profile->analysis);
    else
        tables_sink(r->tables, samples, n);
}

static void init(struct duck_init *info)
{
    struct which *w = duck.init_get_extra_info(info);
    struct spex_error error = {0};
    struct query_profile *p = spe_take_profile(w->query, duck.init_get_bind_data(info), &error);
    if (!p) {
        duck.init_set_error(info, error.text);
        return;
    }
    MEMORY_OF(w->query->account);
    struct rows *r = memory_get(1, sizeof *r);
    *r = (struct rows){.which = w, .profile = p, .tables = tables_new(p->analysis)};
    out_init(&r->text, -1);
    duck.init_set_init_data(info, r, free_rows);
    duck.init_set_max_threads(info, 1);
    spex_analysis_want(p->analysis, TABLES_WANT);
    if (spex_analysis_run(p->analysis, count, r, &error))
        duck.init_set_error(info, error.text);
    tables_begin(r->tables, w->table);
}

static void put_cell(struct rows *r, const struct tables_column *c, const struct tables_cell *cell,
                     struct duck_vector *vector, uint64_t row)
{
    void *data = duck.vector_get_data(vector);
    if (!cell->there) {
        duck.vector_ensure_validity_writable(vector);
        duck.vector_get_validity(vector)[row / 64] &= ~(UINT64_C(1) << row % 64);
    } else if (c->type == EXPORT_STRING) {
        r->text.size = 0;
        out_name_utf8(&r->text, cell->text);
        duck.vector_assign_string_element_len(vector, row, r->text.data, r->text.size);
    } else if (c->type == EXPORT_BOOL) {
        ((bool *)data)[row] = cell->number;
    } else if (c->bits == 32) {
        ((uint32_t *)data)[row] = (uint32_t)cell->number;
    } else {
        ((uint64_t *)data)[row] = cell->number;
    }
}

static void call(struct duck_call *info, struct duck_chunk *chunk)
{
    struct rows *r = duck.function_get_init_data(info);
    MEMORY_OF(r->which->query->account);
    const struct tables_column *columns = tables_info[r->which->table].columns;
    struct tables_cell cells[TABLES_COLUMNS];
    uint64_t rows = 0;
    while (rows < ROWS && tables_next(r->tables, cells)) {
        for (size_t i = 0; columns[i].name; i++)
            put_cell(r, &columns[i], &cells[i], duck.data_chunk_get_vector(chunk, i), rows);
        rows++;
    }
    duck.data_chunk_set_size(chunk, rows);
}

bool spe_tables_register(struct query *q)
{
    bool ok = true;
    for (unsigned i = 0; i < TABLES_COUNT && ok; i++) {
        struct duck_function *function = duck.create_table_function();
        struct duck_type *text = duck.create_logical_type(DUCK_VARCHAR);
        struct which *which = memory_get(1, sizeof *which);
        char name[32];
        *which = (struct which){q, i};
        snprintf(name, sizeof name, "spe_%s", tables_info[i].name);
        duck.table_function_set_name(function, name);
        duck.table_function_add_parameter(function, text);
        duck.table_function_set_extra_info(function, which, free);
        duck.table_function_set_bind(function, bind);
        duck.table_function_set_init(function, init);
        duck.table_function_set_function(function, call);
        ok = !duck.register_table_function(q->connection, function);
        duck.destroy_logical_type(&text);
        duck.destroy_table_function(&function);
    }
    return ok;
}
