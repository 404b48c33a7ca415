/*
 * Table samples as a Parquet file. Most columns follow from little: the thread, the instruction,
 * the events and data source. A row keeps one number for each of these, and a page of such a
 * column is made by a map from that number to the column's dictionary; only addresses, times and
 * latencies are kept for every row.
 */
#include "export.h"

#include "base/memory.h"
#include "base/name.h"
#include "export/origins.h"
#include "export/parquet.h"

#include <stdio.h>

enum { PAGE_ROWS = 1 << 16, GROUP_ROWS = 1 << 20 };

/* Rows' numbers for what columns follow from. */
struct origin {
    uint32_t *rows; /* of the page */
    VEC(uint32_t) used;
    uint8_t *seen; /* by number: stands in the page */
    size_t seen_capacity;
};

struct column {
    enum export_column column;
    uint32_t *map; /* by number of the origin */
    size_t capacity;
    struct origin own; /* a text of each record's own: number 0 is none, then entries */
    uint64_t *values;  /* a number of each record's own */
    size_t count;
};

struct table {
    struct export_job *job;
    struct parquet file;
    struct column columns[EXPORT_COLUMNS];
    size_t column_count;
    struct origins numbers;
    struct origin origins[EXPORT_FROMS];
    uint32_t *present; /* of the rows of the page, with EXPORT_ALWAYS */
    uint8_t *defined;
    size_t rows;         /* in the page */
    uint64_t group_rows; /* in pages before it */
    int time;            /* which column */
    bool sorted;
    uint64_t last_time;
    struct out text;
};

static bool is_own_text(enum export_column column)
{
    return export_fields[column].from == EXPORT_FROM_ITSELF &&
           export_fields[column].type == EXPORT_STRING;
}

static uint32_t entry_of(struct table *t, size_t index, const struct spex_sample *sample)
{
    enum export_column column = t->columns[index].column;
    struct parquet_column *to = &t->file.columns[index];
    uint64_t value;
    if (export_fields[column].type == EXPORT_STRING) {
        const char *text = export_text(&t->job->source, sample, column);
        if (!text)
            return PARQUET_NULL;
        t->text.size = 0;
        out_name_utf8(&t->text, text);
        return parquet_entry_text(to, t->text.data, t->text.size);
    }
    if (!export_number(&t->job->source, sample, column, &value))
        return PARQUET_NULL;
    return export_fields[column].type == EXPORT_BOOL ? (uint32_t)value
                                                     : parquet_entry_number(to, value);
}

static void set_map(struct column *c, uint32_t id, uint32_t entry)
{
    if (id >= c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 256;
        c->capacity = c->capacity > id ? c->capacity : id + 1;
        c->map = memory_resize(c->map, c->capacity, sizeof *c->map);
    }
    c->map[id] = entry;
}

/* A number that is new in this row group: what the columns that follow from it are. */
static void add_entries(struct table *t, enum export_from from, uint32_t id,
                        const struct spex_sample *sample)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (export_fields[t->columns[i].column].from == from)
            set_map(&t->columns[i], id, entry_of(t, i, sample));
}

static void put_row(struct origin *o, size_t row, uint32_t id)
{
    o->rows[row] = id;
    if (id >= o->seen_capacity) {
        size_t capacity = o->seen_capacity;
        o->seen_capacity = capacity ? 2 * capacity : 1024;
        o->seen_capacity = o->seen_capacity > id ? o->seen_capacity : id + 1;
        o->seen = memory_resize(o->seen, o->seen_capacity, 1);
        memset(o->seen + capacity, 0, o->seen_capacity - capacity);
    }
    if (!o->seen[id]) {
        uint32_t *used = vec_push(&o->used);
        if (!used) {
            o->used.items = memory_resize(o->used.items, o->used.count + 1, sizeof *used);
            used = &o->used.items[o->used.count++];
        }
        *used = id;
        o->seen[id] = 1;
    }
}

static inline void put_origin(struct table *t, size_t row, enum export_from from,
                              const struct spex_sample *sample)
{
    bool fresh = false;
    uint32_t id = origins_find(&t->numbers, from, sample, &fresh);
    if (fresh)
        add_entries(t, from, id, sample);
    put_row(&t->origins[from], row, id);
}

/* ---- pages ---- */

static void own_page(struct table *t, size_t index)
{
    struct column *c = &t->columns[index];
    const struct export_number *number = &export_numbers[c->column];
    if (is_own_text(c->column)) {
        parquet_page_mapped(&t->file, index, c->map, c->own.rows, t->rows, c->own.used.items,
                            c->own.used.count);
        for (size_t i = 0; i < c->own.used.count; i++)
            c->own.seen[c->own.used.items[i]] = 0;
        c->own.used.count = 0;
        return;
    }
    if (c->count && c->count < t->rows)
        for (size_t i = 0; i < t->rows; i++)
            t->defined[i] = (t->present[i] & number->has) != 0;
    parquet_page_numbers(&t->file, index, c->values, c->count, t->defined, t->rows);
    if ((int)index == t->time) {
        t->sorted &= c->count == t->rows;
        for (size_t i = 0; i < c->count; i++) {
            t->sorted &= c->values[i] >= t->last_time;
            t->last_time = c->values[i];
        }
    }
    c->count = 0;
}

static void end_page(struct table *t)
{
    if (!t->rows)
        return;
    for (size_t i = 0; i < t->column_count; i++) {
        enum export_from from = export_fields[t->columns[i].column].from;
        const struct origin *o = &t->origins[from];
        if (from == EXPORT_FROM_ITSELF)
            own_page(t, i);
        else
            parquet_page_mapped(&t->file, i, t->columns[i].map, o->rows, t->rows, o->used.items,
                                o->used.count);
    }
    for (unsigned from = 0; from < EXPORT_FROMS; from++) {
        struct origin *o = &t->origins[from];
        for (size_t i = 0; i < o->used.count; i++)
            o->seen[o->used.items[i]] = 0;
        o->used.count = 0;
    }
    t->group_rows += t->rows;
    t->rows = 0;
}

static void end_group(struct table *t)
{
    end_page(t);
    if (!t->group_rows)
        return;
    parquet_group_end(&t->file, t->group_rows, t->sorted ? t->time : -1);
    origins_clear(&t->numbers);
    t->group_rows = 0;
    t->sorted = t->time >= 0;
    t->last_time = 0;
}

/* ---- rows ---- */

static void put_own_text(struct table *t, struct column *c, size_t index,
                         const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t entry = PARQUET_NULL;
        if (c->column != EXPORT_SATURATED ||
            counters_may_end(samples[i].record, &t->job->source.end))
            entry = entry_of(t, index, &samples[i]);
        uint32_t id = entry == PARQUET_NULL ? 0 : entry + 1;
        set_map(c, id, entry);
        put_row(&c->own, t->rows + i, id);
    }
}

/* So many rows that the page holds them. */
static void put_rows(struct table *t, const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct spex_sample *s = &samples[i];
        size_t row = t->rows + i;
        t->present[row] = s->record->present | EXPORT_ALWAYS;
        put_origin(t, row, EXPORT_FROM_THREAD, s);
        put_origin(t, row, EXPORT_FROM_CODE, s);
        put_origin(t, row, EXPORT_FROM_OUTCOME, s);
    }
    if (!t->rows) { /* the same in all rows, which are 0 from the beginning */
        put_row(&t->origins[EXPORT_FROM_FILE], 0, 0);
        add_entries(t, EXPORT_FROM_FILE, 0, samples);
    }
    for (size_t k = 0; k < t->column_count; k++) {
        struct column *c = &t->columns[k];
        if (is_own_text(c->column)) {
            put_own_text(t, c, k, samples, count);
        } else if (c->values) {
            struct export_number number = export_numbers[c->column];
            uint64_t *values = c->values;
            size_t n = c->count;
            for (size_t i = 0; i < count; i++) {
                values[n] = export_read(&samples[i], number);
                n += (t->present[t->rows + i] & number.has) != 0;
            }
            c->count = n;
        }
    }
    t->rows += count;
}

static void sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct table *t = ((struct export_job *)context)->state;
    while (count) {
        size_t n = PAGE_ROWS - t->rows < count ? PAGE_ROWS - t->rows : count;
        put_rows(t, samples, n);
        samples += n;
        count -= n;
        if (t->rows == PAGE_ROWS)
            end_page(t);
        if (t->group_rows + t->rows >= GROUP_ROWS || origins_full(&t->numbers))
            end_group(t);
    }
}

/* ---- begin and end ---- */

static void add_column(struct table *t, enum export_column column, struct parquet_field *fields)
{
    static const enum parquet_type types[] = {[EXPORT_STRING] = PARQUET_STRING,
                                              [EXPORT_NUMBER] = PARQUET_UINT,
                                              [EXPORT_ADDRESS_TYPE] = PARQUET_UINT,
                                              [EXPORT_BOOL] = PARQUET_BOOL};
    const struct export_field *f = &export_fields[column];
    for (size_t i = 0; i < t->column_count; i++)
        if (t->columns[i].column == column)
            return;
    if (f->type == EXPORT_LIST)
        return; /* event_bits and a column for each event say it */
    if (column == EXPORT_TIME)
        t->time = (int)t->column_count;
    struct column *c = &t->columns[t->column_count];
    c->column = column;
    if (is_own_text(column))
        c->own.rows = memory_get(PAGE_ROWS, sizeof *c->own.rows);
    else if (f->from == EXPORT_FROM_ITSELF && export_numbers[column].has)
        c->values = memory_get(PAGE_ROWS + 1, sizeof *c->values);
    fields[t->column_count++] = (struct parquet_field){
        .name = f->name,
        .type = types[f->type],
        .bits = f->bits,
        .optional = f->null,
        .ascending = column == EXPORT_TIME || column == EXPORT_OFFSET,
    };
}

static void begin(struct export_job *job)
{
    const struct export_settings *s = job->settings;
    struct parquet_field fields[EXPORT_COLUMNS];
    struct table *t = memory_get(1, sizeof *t);
    job->state = t;
    t->job = job;
    t->time = -1;
    for (size_t i = 0; i < (s->columns ? s->column_count : EXPORT_COLUMNS); i++)
        if (s->columns || export_fields[i].columnar)
            add_column(t, s->columns ? s->columns[i] : (enum export_column)i, fields);
    for (unsigned from = 0; from < EXPORT_FROMS; from++)
        t->origins[from].rows = memory_get(PAGE_ROWS, sizeof *t->origins[from].rows);
    t->present = memory_get(PAGE_ROWS, sizeof *t->present);
    t->defined = memory_get(PAGE_ROWS, 1);
    t->sorted = t->time >= 0;
    out_init(&t->text, -1);
    parquet_begin(&t->file, job->out, "samples", fields, t->column_count);
}

/* Where the file comes from, for those who find it later. */
static void end_file(struct table *t)
{
    enum { NOTES = 20 };
    struct export_job *job = t->job;
    const struct spex_totals *totals = spex_analysis_totals(job->analysis);
    const struct spex_sampling *sampling = spex_analysis_sampling(job->analysis);
    struct parquet_note notes[NOTES];
    char numbers[NOTES][24];
    size_t n = 0;
    struct out made;
    out_init(&made, -1);
    out_text(&made, "spex ");
    out_text(&made, job->settings->version);
    out_char(&made, 0);
#define TEXT(key_, text)                                                                           \
    if (text)                                                                                      \
    notes[n++] = (struct parquet_note){key_, text}
#define COUNT(key_, number)                                                                        \
    snprintf(numbers[n], sizeof numbers[n], "%llu", (unsigned long long)(number));                 \
    notes[n] = (struct parquet_note){key_, numbers[n]};                                            \
    n++
    TEXT("spex.schema", EXPORT_SCHEMA);
    TEXT("spex.input", job->settings->input);
    TEXT("spex.host", job->source.host);
    TEXT("spex.event", sampling->known ? sampling->terms : NULL);
    TEXT("spex.cpu", sampling->cpu_name);
    TEXT("spex.filters", job->settings->filters);
    TEXT("spex.no_estimate", spex_analysis_no_estimate(job->analysis));
    COUNT("spex.period", sampling->period);
    COUNT("spex.records", totals->records);
    COUNT("spex.samples", totals->kept);
    COUNT("spex.lost", totals->lost);
    COUNT("spex.truncated", totals->truncated);
    COUNT("spex.collided", totals->collided);
    COUNT("spex.damaged", totals->damaged);
    COUNT("spex.counter_most", sampling->counter_most);
    parquet_end(&t->file, notes, n, made.data);
    out_fini(&made);
}

static enum spex_status end(struct export_job *job)
{
    struct table *t = job->state;
    end_group(t);
    end_file(t);
    for (size_t i = 0; i < t->column_count; i++) {
        struct column *c = &t->columns[i];
        free(c->map);
        free(c->values);
        free(c->own.rows);
        free(c->own.seen);
        vec_free(&c->own.used);
    }
    for (unsigned from = 0; from < EXPORT_FROMS; from++) {
        struct origin *o = &t->origins[from];
        free(o->rows);
        free(o->seen);
        vec_free(&o->used);
    }
    origins_free(&t->numbers);
    free(t->present);
    free(t->defined);
    out_fini(&t->text);
    free(t);
    return SPEX_OK;
}

extern const struct export_format export_parquet;
const struct export_format export_parquet = {
    .name = "parquet",
    .summary = "table samples, one row per record, columns of docs/schema.md",
    .weight = "each row is a sample; column operations says what it stands for",
    .cannot = "events as a list: event_bits and the ev_ columns say it",
    .ordered = true,
    .binary = true,
    .begin = begin,
    .sink = sink,
    .end = end,
};
