/*
 * The small tables beside samples, as Parquet files: the files that ran, their functions, and where
 * data was lost. Written behind a pass over the samples; that of functions makes one of its own.
 */
#include "export.h"

#include "analysis/internal.h"
#include "analysis/module.h"
#include "base/memory.h"
#include "base/name.h"
#include "base/ids.h"
#include "export/parquet.h"

#include <stdlib.h>

enum { COLUMNS_MOST = 8, GROUP_ROWS = 1 << 16 };

struct side {
    struct export_job *job;
    struct parquet file;
    size_t columns, rows;
    uint32_t *map[COLUMNS_MOST]; /* by row: the place in the column's dictionary */
    uint32_t *numbers;           /* 0, 1, 2, ... */
    struct out text;
};

static void side_begin(struct side *s, struct export_job *job, const char *name,
                       const struct parquet_field *fields, size_t count)
{
    *s = (struct side){.job = job, .columns = count};
    parquet_begin(&s->file, job->out, name, fields, count);
    for (size_t i = 0; i < count; i++)
        s->map[i] = memory_get(GROUP_ROWS, sizeof *s->map[i]);
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
        parquet_group_end(&s->file, s->rows, -1);
    s->rows = 0;
}

/* Cells of a row, column by column; then side_row. */
static void side_text(struct side *s, size_t column, const char *text)
{
    s->text.size = 0;
    out_name_utf8(&s->text, text ? text : "");
    s->map[column][s->rows] =
        text ? parquet_entry_text(&s->file.columns[column], s->text.data, s->text.size)
             : PARQUET_NULL;
}

static void side_number(struct side *s, size_t column, bool known, uint64_t value)
{
    bool boolean = s->file.columns[column].field.type == PARQUET_BOOL;
    s->map[column][s->rows] = !known    ? PARQUET_NULL
                              : boolean ? (uint32_t)value
                                        : parquet_entry_number(&s->file.columns[column], value);
}

static void side_row(struct side *s)
{
    if (++s->rows == GROUP_ROWS)
        side_flush(s);
}

static enum spex_status side_end(struct side *s)
{
    const struct parquet_note note = {"spex.schema", EXPORT_SCHEMA};
    side_flush(s);
    parquet_end(&s->file, &note, 1, "spex");
    for (size_t i = 0; i < s->columns; i++)
        free(s->map[i]);
    free(s->numbers);
    out_fini(&s->text);
    return SPEX_OK;
}

static void begin(struct export_job *job)
{
    (void)job;
}

/* ---- files ---- */

/* In hexadecimal; NULL if there is none. */
static const char *build_id(struct out *out, const struct spex_module *m)
{
    out->size = 0;
    for (size_t i = 0; i < m->recorded.size; i++)
        out_hex_fixed(out, m->recorded.bytes[i], 2);
    out_char(out, 0);
    return m->recorded.size ? out->data : NULL;
}

static enum spex_status end_files(struct export_job *job)
{
    static const struct parquet_field fields[] = {
        {.name = "path", .type = PARQUET_STRING},
        {.name = "dso", .type = PARQUET_STRING},
        {.name = "build_id", .type = PARQUET_STRING, .optional = true},
        {.name = "kernel", .type = PARQUET_BOOL},
        {.name = "samples", .type = PARQUET_UINT, .bits = 64},
        {.name = "problem", .type = PARQUET_STRING, .optional = true},
    };
    struct spex_symbols *symbols = spex_analysis_symbols(job->analysis);
    struct spex_module *m;
    struct side s;
    struct out id;
    out_init(&id, -1);
    side_begin(&s, job, "files", fields, sizeof fields / sizeof *fields);
    for (size_t n = 0; (m = spex_symbols_nth(symbols, n)); n++) {
        uint64_t samples = spex_module_samples(m, true);
        if (!samples)
            continue;
        side_text(&s, 0, spex_module_path(m));
        side_text(&s, 1, spex_module_name(m));
        side_text(&s, 2, build_id(&id, m));
        side_number(&s, 3, true, spex_module_is_kernel(m));
        side_number(&s, 4, true, samples);
        side_text(&s, 5, spex_module_problem(m));
        side_row(&s);
    }
    out_fini(&id);
    return side_end(&s);
}

/* ---- symbols ---- */

struct functions {
    struct ids ids; /* of symbols */
    uint64_t *counts;
    size_t capacity;
    uint32_t cache[SPEX_PLACES]; /* 1 + number, by place */
};

static void begin_symbols(struct export_job *job)
{
    job->state = memory_get(1, sizeof(struct functions));
}

static void count_symbols(void *context, const struct spex_sample *samples, size_t count)
{
    struct functions *f = ((struct export_job *)context)->state;
    for (size_t i = 0; i < count; i++) {
        const struct spex_symbol *symbol = samples[i].symbol;
        uint32_t *cache = &f->cache[samples[i].place];
        uint64_t key[IDS_WORDS] = {(uintptr_t)symbol};
        bool fresh = false;
        if (!symbol || !symbol->name)
            continue;
        if (!*cache || f->ids.keys[*cache - 1][0] != key[0])
            *cache = ids_find(&f->ids, key, &fresh) + 1;
        if (fresh) {
            f->counts = memory_grow(f->counts, *cache - 1, &f->capacity, sizeof *f->counts);
            f->counts[*cache - 1] = 0;
        }
        f->counts[*cache - 1]++;
    }
}

static enum spex_status end_symbols(struct export_job *job)
{
    static const struct parquet_field fields[] = {
        {.name = "symbol", .type = PARQUET_STRING},
        {.name = "raw", .type = PARQUET_STRING},
        {.name = "path", .type = PARQUET_STRING},
        {.name = "dso", .type = PARQUET_STRING},
        {.name = "build_id", .type = PARQUET_STRING, .optional = true},
        {.name = "address", .type = PARQUET_UINT, .bits = 64},
        {.name = "size", .type = PARQUET_UINT, .bits = 64},
        {.name = "samples", .type = PARQUET_UINT, .bits = 64},
    };
    struct functions *f = job->state;
    struct side s;
    struct out id;
    out_init(&id, -1);
    side_begin(&s, job, "symbols", fields, sizeof fields / sizeof *fields);
    for (size_t n = 0; n < f->ids.count; n++) {
        const struct spex_symbol *symbol = (const struct spex_symbol *)(uintptr_t)f->ids.keys[n][0];
        const struct spex_module *m = symbol->module;
        side_text(&s, 0, symbol->name);
        side_text(&s, 1, symbol->raw ? symbol->raw : symbol->name);
        side_text(&s, 2, spex_module_path(m));
        side_text(&s, 3, spex_module_name(m));
        side_text(&s, 4, build_id(&id, m));
        side_number(&s, 5, true, symbol->start);
        side_number(&s, 6, true, symbol->end - symbol->start);
        side_number(&s, 7, true, f->counts[n]);
        side_row(&s);
    }
    out_fini(&id);
    ids_free(&f->ids);
    free(f->counts);
    free(f);
    return side_end(&s);
}

/* ---- losses ---- */

static void put_loss(struct side *s, const struct spex_perf_event *e, const char *kind,
                     uint64_t value)
{
    side_number(s, 0, e->present & SPEX_PERF_SAMPLE_TIME, e->time);
    side_number(s, 1, e->cpu >= 0, (uint32_t)e->cpu);
    side_number(s, 2, e->pid >= 0, (uint32_t)e->pid);
    side_number(s, 3, e->tid >= 0, (uint32_t)e->tid);
    side_text(s, 4, kind);
    side_number(s, 5, true, value);
    side_row(s);
}

static enum spex_status end_losses(struct export_job *job)
{
    static const struct parquet_field fields[] = {
        {.name = "time", .type = PARQUET_UINT, .bits = 64, .optional = true},
        {.name = "cpu", .type = PARQUET_UINT, .bits = 32, .optional = true},
        {.name = "pid", .type = PARQUET_UINT, .bits = 32, .optional = true},
        {.name = "tid", .type = PARQUET_UINT, .bits = 32, .optional = true},
        {.name = "kind", .type = PARQUET_STRING},
        {.name = "value", .type = PARQUET_UINT, .bits = 64},
    };
    struct spex_perf_event e;
    struct side s;
    /* the pass has ended: nobody else walks through the events */
    struct analysis_part part;
    side_begin(&s, job, "losses", fields, sizeof fields / sizeof *fields);
    for (size_t i = 0; analysis_part(job->analysis, i, &part); i++) {
        if (part.file)
            spex_perfdata_rewind(part.file);
        while (part.file && !spex_perfdata_next(part.file, &e)) {
            uint32_t flags = e.type == SPEX_PERF_AUX ? e.u.aux.flags : 0;
            if (flags & SPEX_PERF_AUX_TRUNCATED)
                put_loss(&s, &e, "truncated", e.u.aux.size);
            if (flags & SPEX_PERF_AUX_PARTIAL)
                put_loss(&s, &e, "partial", e.u.aux.size);
            if (flags & SPEX_PERF_AUX_COLLISION)
                put_loss(&s, &e, "collision", e.u.aux.size);
            if (e.type == SPEX_PERF_LOST || e.type == SPEX_PERF_LOST_SAMPLES)
                put_loss(&s, &e, "lost", e.u.lost.lost);
        }
    }
    return side_end(&s);
}

const struct export_format export_tables[] = {
    {.name = "files", .binary = true, .begin = begin, .end = end_files},
    {.name = "symbols",
     .binary = true,
     .begin = begin_symbols,
     .sink = count_symbols,
     .end = end_symbols},
    {.name = "losses", .binary = true, .begin = begin, .end = end_losses},
    {0},
};
