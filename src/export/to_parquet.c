/*
 * Table samples as a Parquet file. Most columns are determined by a few origins: the thread, the
 * instruction, the events and data source. A row keeps one number for each origin, and a page of
 * such a column is made with a map from that number to the column's dictionary. Only addresses,
 * times and latencies are kept for every row.
 *
 * The pass gathers rows until they fill a page. The values of new numbers travel with the page, as
 * text, so that other threads can make the columns. Only those threads touch the file; one thread
 * at a time works on a column, and it does not matter which.
 */
#include "export.h"

#include "base/memory.h"
#include "base/name.h"
#include "base/crew.h"
#include "export/origins.h"
#include "export/parquet.h"
#include "export/tables.h"

#include <stdio.h>

enum {
    PAGE_ROWS = 1 << 16,
    GROUP_ROWS = 1 << 20,
    HELPERS = 7, /* most helpers: columns are of very different sizes */
    STEP = 64,   /* samples whose columns are taken together: they stay in the level 1 cache */
};

struct page {
    struct page *next; /* next in the list of all pages */
    size_t rows;
    bool ends_group;
    uint32_t *numbers[EXPORT_FROMS]; /* numbers of each row's origins */
    uint32_t *present;               /* `present` of each row, with EXPORT_ALWAYS */
    struct {
        uint64_t *values; /* values of the rows that have one */
        size_t count;
        uint32_t *texts; /* 1 + start of the row's own text; 0: none */
    } columns[EXPORT_COLUMNS];
    struct out texts; /* each with a 0 after it */
    struct out fresh; /* values of new numbers: see put_fresh */
};

/* The set of numbers that occur in a page. */
struct used {
    uint32_t *items;
    size_t count;
    uint8_t *seen; /* indexed by number */
    size_t capacity;
};

/* State of a thread that makes columns. */
struct maker {
    struct parquet_maker parquet;
    struct used own; /* dictionary of texts that rows do not share */
    uint8_t *defined;
};

struct column {
    enum export_column column;
    enum export_from from;
    bool own_text;
    uint32_t *map; /* dictionary index by number */
    size_t capacity;
};

struct table {
    struct export_job *job;
    struct column columns[EXPORT_COLUMNS];
    size_t column_count;
    int time;                  /* index of the time column */
    bool wanted[EXPORT_FROMS]; /* whether a column comes from it */
    /* of the pass */
    struct origins numbers;
    struct page *pages, *page; /* pages: one or two; page: the one being filled */
    uint64_t group_rows;
    bool in_group;
    struct crew *crew;
    /* of the file */
    struct parquet file;
    struct maker makers[1 + HELPERS];
    struct used used[EXPORT_FROMS];
    uint32_t *zeros;
    uint64_t written; /* rows of the group */
    bool sorted;
    uint64_t last_time;
};

/* ---- the pass ---- */

static struct page *new_page(struct table *t)
{
    struct page *p = memory_get(1, sizeof *p);
    for (unsigned from = EXPORT_FROM_THREAD; from <= EXPORT_FROM_STACK; from++)
        p->numbers[from] = memory_get(PAGE_ROWS, sizeof *p->numbers[from]);
    p->present = memory_get(PAGE_ROWS, sizeof *p->present);
    for (size_t i = 0; i < t->column_count; i++) {
        if (t->columns[i].own_text)
            p->columns[i].texts = memory_get(PAGE_ROWS, sizeof(uint32_t));
        else if (t->columns[i].from == EXPORT_FROM_ITSELF)
            p->columns[i].values = memory_get(PAGE_ROWS + 1, sizeof(uint64_t));
    }
    out_init(&p->texts, -1);
    out_init(&p->fresh, -1);
    p->next = t->pages;
    t->pages = p;
    return p;
}

static struct page *page_at_hand(struct table *t)
{
    if (!t->page)
        t->page = new_page(t);
    return t->page;
}

/*
 * Writes out a number that is new in this row group: from and number, then for each column that
 * depends on it whether it has a value, and the value: eight bytes, or a text with its size in
 * front.
 */
static void put_fresh(struct table *t, enum export_from from, uint32_t id,
                      const struct spex_sample *sample)
{
    struct out *out = &t->page->fresh;
    uint32_t head[2] = {from, id};
    out_bytes(out, head, sizeof head);
    for (size_t i = 0; i < t->column_count; i++) {
        enum export_column column = t->columns[i].column;
        uint64_t value = 0;
        if (t->columns[i].from != from)
            continue;
        if (export_fields[column].type != EXPORT_STRING) {
            out_char(out, export_number(&t->job->source, sample, column, &value));
            out_bytes(out, &value, sizeof value);
            continue;
        }
        const char *text = export_text(&t->job->source, sample, column);
        out_char(out, text != NULL);
        size_t at = out->size;
        out_bytes(out, &value, sizeof value);
        if (text)
            out_name_utf8(out, text);
        value = out->size - at - sizeof value;
        memcpy(out->data + at, &value, sizeof value);
    }
}

static inline __attribute__((always_inline)) void
put_origin(struct table *t, size_t row, enum export_from from, const struct spex_sample *sample)
{
    bool fresh = false;
    if (!t->wanted[from])
        return;
    uint32_t id = origins_find(&t->numbers, from, sample, &fresh);
    if (__builtin_expect(fresh, 0))
        put_fresh(t, from, id, sample);
    t->page->numbers[from][row] = id;
}

static void put_own_texts(struct table *t, size_t column, const struct spex_sample *samples,
                          size_t count)
{
    struct page *p = t->page;
    for (size_t i = 0; i < count; i++) {
        const char *text = NULL;
        if (t->columns[column].column != EXPORT_SATURATED ||
            counters_may_end(samples[i].record, &t->job->source.end))
            text = export_text(&t->job->source, &samples[i], t->columns[column].column);
        p->columns[column].texts[p->rows + i] = text ? (uint32_t)p->texts.size + 1 : 0;
        if (!text)
            continue;
        out_name_utf8(&p->texts, text);
        out_char(&p->texts, 0);
    }
}

/* Values of a column, those of all or of some of the samples; n: how many there are so far. */
static size_t take_values(uint64_t *values, size_t n, const struct spex_sample *samples,
                          size_t count, struct export_number number, const uint32_t *present,
                          bool all)
{
    if (all) {
        for (size_t i = 0; i < count; i++)
            values[n + i] = export_read(&samples[i], number);
        return n + count;
    }
    for (size_t i = 0; i < count; i++) { /* without a branch: which have it is hard to predict */
        values[n] = export_read(&samples[i], number);
        n += (present[i] & number.has) != 0;
    }
    return n;
}

/* Takes as many rows as fit into the page. */
static void put_rows(struct table *t, const struct spex_sample *samples, size_t count)
{
    struct page *p = t->page;
    uint32_t *present = p->present + p->rows, every = ~0u, any = 0;
    for (size_t i = 0; i < count; i++) {
        present[i] = samples[i].record->present | EXPORT_ALWAYS;
        every &= present[i];
        any |= present[i];
        put_origin(t, p->rows + i, EXPORT_FROM_THREAD, &samples[i]);
        put_origin(t, p->rows + i, EXPORT_FROM_CODE, &samples[i]);
        put_origin(t, p->rows + i, EXPORT_FROM_OUTCOME, &samples[i]);
        put_origin(t, p->rows + i, EXPORT_FROM_STACK, &samples[i]);
    }
    for (size_t k = 0; k < t->column_count; k++) {
        struct export_number number = export_numbers[t->columns[k].column];
        if (t->columns[k].own_text)
            put_own_texts(t, k, samples, count);
        else if (p->columns[k].values && any & number.has)
            p->columns[k].count = take_values(p->columns[k].values, p->columns[k].count, samples,
                                              count, number, present, every & number.has);
    }
    p->rows += count;
}

static void pass_page(struct table *t, bool ends_group)
{
    struct page *p = t->page;
    p->ends_group = ends_group;
    t->group_rows += p->rows;
    if (ends_group) {
        origins_clear(&t->numbers);
        t->group_rows = 0;
        t->in_group = false;
    }
    crew_pass(t->crew, p);
    /* that before p has been written */
    t->page = !crew_threads(t->crew) ? p : p->next ? p->next : p != t->pages ? t->pages : NULL;
}

static void sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct export_job *job = context;
    struct table *t = job->state;
    if (job->tables)
        tables_sink(job->tables, samples, count);
    while (count) {
        struct page *p = page_at_hand(t);
        size_t n = PAGE_ROWS - p->rows < count ? PAGE_ROWS - p->rows : count;
        n = n < STEP ? n : STEP;
        if (!t->in_group)
            put_fresh(t, EXPORT_FROM_FILE, 0, samples);
        t->in_group = true;
        put_rows(t, samples, n);
        samples += n;
        count -= n;
        bool ends = t->group_rows + p->rows >= GROUP_ROWS || origins_full(&t->numbers);
        if (ends || p->rows == PAGE_ROWS)
            pass_page(t, ends);
    }
}

/* ---- the file ---- */

static void set_map(struct column *c, uint32_t id, uint32_t entry)
{
    if (id >= c->capacity) {
        c->capacity = c->capacity ? 2 * c->capacity : 256;
        c->capacity = c->capacity > id ? c->capacity : id + 1;
        c->map = memory_resize(c->map, c->capacity, sizeof *c->map);
    }
    c->map[id] = entry;
}

/* Reads back what put_fresh wrote. */
static void take_fresh(struct table *t, const struct page *p)
{
    for (const char *at = p->fresh.data, *end = at + p->fresh.size; at < end;) {
        uint32_t head[2];
        memcpy(head, at, sizeof head);
        at += sizeof head;
        for (size_t i = 0; i < t->column_count; i++) {
            const struct export_field *f = &export_fields[t->columns[i].column];
            struct parquet_column *to = &t->file.columns[i];
            uint64_t value;
            if (t->columns[i].from != (enum export_from)head[0])
                continue;
            bool there = *at++;
            memcpy(&value, at, sizeof value);
            at += sizeof value;
            uint32_t entry = PARQUET_NULL;
            if (there && f->type == EXPORT_STRING)
                entry = parquet_entry_text(to, at, value);
            else if (there)
                entry = f->type == EXPORT_BOOL ? (uint32_t)value : parquet_entry_number(to, value);
            at += f->type == EXPORT_STRING ? value : 0;
            set_map(&t->columns[i], head[1], entry);
        }
    }
}

static void find_used(struct used *u, const uint32_t *numbers, size_t rows)
{
    for (size_t i = 0; i < u->count; i++)
        u->seen[u->items[i]] = 0;
    u->count = 0;
    for (size_t i = 0; i < rows; i++) {
        uint32_t id = numbers[i];
        if (__builtin_expect(id >= u->capacity, 0)) {
            size_t capacity = u->capacity;
            u->capacity = 2 * capacity > id ? 2 * capacity : id + 1024;
            u->seen = memory_resize(u->seen, u->capacity, 1);
            memset(u->seen + capacity, 0, u->capacity - capacity);
        }
        u->items[u->count] = id; /* without a branch: new values come at random */
        u->count += !u->seen[id];
        u->seen[id] = 1;
    }
}

static void write_texts(struct table *t, struct maker *m, const struct page *p, size_t index)
{
    struct column *c = &t->columns[index];
    uint32_t *rows = p->columns[index].texts; /* become 1 + place in the dictionary */
    set_map(c, 0, PARQUET_NULL);
    for (size_t i = 0; i < p->rows; i++) {
        if (!rows[i])
            continue;
        const char *text = p->texts.data + rows[i] - 1;
        uint32_t entry = parquet_entry_text(&t->file.columns[index], text, strlen(text));
        set_map(c, entry + 1, entry);
        rows[i] = entry + 1;
    }
    find_used(&m->own, rows, p->rows);
    parquet_make_mapped(&m->parquet, &t->file.columns[index], c->map, rows, p->rows, m->own.items,
                        m->own.count);
}

static void write_values(struct table *t, struct maker *m, const struct page *p, size_t index)
{
    const uint64_t *values = p->columns[index].values;
    unsigned has = export_numbers[t->columns[index].column].has;
    size_t count = p->columns[index].count;
    if (count && count < p->rows)
        for (size_t i = 0; i < p->rows; i++)
            m->defined[i] = (p->present[i] & has) != 0;
    parquet_make_numbers(&m->parquet, &t->file.columns[index], values, count, m->defined, p->rows);
    if ((int)index != t->time)
        return;
    t->sorted &= count == p->rows;
    for (size_t i = 0; i < count; i++) {
        t->sorted &= values[i] >= t->last_time;
        t->last_time = values[i];
    }
}

static void prepare_page(void *user, void *item)
{
    struct table *t = user;
    struct page *p = item;
    take_fresh(t, p);
    for (unsigned from = EXPORT_FROM_THREAD; from <= EXPORT_FROM_STACK; from++)
        if (t->wanted[from])
            find_used(&t->used[from], p->numbers[from], p->rows);
}

static void write_column(void *user, void *item, size_t i, unsigned worker)
{
    struct table *t = user;
    struct page *p = item;
    struct maker *m = &t->makers[worker];
    enum export_from from = t->columns[i].from;
    const struct used *u = &t->used[from];
    bool file = from == EXPORT_FROM_FILE;
    if (!p->rows)
        return;
    if (t->columns[i].own_text)
        write_texts(t, m, p, i);
    else if (from == EXPORT_FROM_ITSELF)
        write_values(t, m, p, i);
    else
        parquet_make_mapped(&m->parquet, &t->file.columns[i], t->columns[i].map,
                            file ? t->zeros : p->numbers[from], p->rows, file ? t->zeros : u->items,
                            file ? 1 : u->count);
    p->columns[i].count = 0;
}

static void finish_page(void *user, void *item)
{
    struct table *t = user;
    struct page *p = item;
    t->written += p->rows;
    if (p->ends_group) {
        parquet_group_end(&t->file, t->written, t->sorted ? t->time : -1);
        t->written = t->last_time = 0;
        t->sorted = t->time >= 0;
    }
    p->rows = p->texts.size = p->fresh.size = 0;
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
    enum export_from from = export_origin(&t->job->source, column);
    t->wanted[from] = true;
    t->columns[t->column_count] = (struct column){
        .column = column,
        .from = from,
        .own_text = from == EXPORT_FROM_ITSELF && f->type == EXPORT_STRING,
    };
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
    unsigned helpers = s->threads > 1 + HELPERS ? HELPERS : s->threads ? s->threads - 1 : 0;
    struct table *t = memory_get(1, sizeof *t);
    job->state = t;
    t->job = job;
    t->time = -1;
    t->numbers.analysis = job->analysis;
    for (size_t i = 0; i < (s->columns ? s->column_count : EXPORT_COLUMNS); i++)
        if (s->columns || export_fields[i].columnar)
            add_column(t, s->columns ? s->columns[i] : (enum export_column)i, fields);
    for (unsigned from = 0; from < EXPORT_FROMS; from++)
        t->used[from].items = memory_get(PAGE_ROWS + 1, sizeof(uint32_t));
    t->zeros = memory_get(PAGE_ROWS, sizeof *t->zeros);
    t->sorted = t->time >= 0;
    parquet_begin(&t->file, job->out, "samples", fields, t->column_count);
    for (unsigned i = 0; i <= helpers; i++) {
        parquet_maker_init(&t->makers[i].parquet);
        t->makers[i].own.items = memory_get(PAGE_ROWS + 1, sizeof(uint32_t));
        t->makers[i].defined = memory_get(PAGE_ROWS, 1);
    }
    const struct crew_work work = {.parts = t->column_count,
                                   .prepare = prepare_page,
                                   .part = write_column,
                                   .finish = finish_page,
                                   .user = t};
    t->crew = crew_new(helpers, &work);
}

/* Metadata about the file's origin, for people who find it later. */
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

static void free_pages(struct table *t)
{
    while (t->pages) {
        struct page *p = t->pages;
        t->pages = p->next;
        for (unsigned from = 0; from < EXPORT_FROMS; from++)
            free(p->numbers[from]);
        free(p->present);
        for (size_t i = 0; i < t->column_count; i++) {
            free(p->columns[i].values);
            free(p->columns[i].texts);
        }
        out_fini(&p->texts);
        out_fini(&p->fresh);
        free(p);
    }
}

static enum spex_status end(struct export_job *job)
{
    struct table *t = job->state;
    if (t->in_group) {
        page_at_hand(t);
        pass_page(t, true);
    }
    crew_free(t->crew);
    for (unsigned i = 0; i <= HELPERS; i++) {
        struct maker *m = &t->makers[i];
        parquet_take_error(&t->file, &m->parquet);
        if (m->defined)
            parquet_maker_fini(&m->parquet);
        free(m->own.items);
        free(m->own.seen);
        free(m->defined);
    }
    end_file(t);
    free_pages(t);
    for (size_t i = 0; i < t->column_count; i++)
        free(t->columns[i].map);
    for (unsigned from = 0; from < EXPORT_FROMS; from++) {
        free(t->used[from].items);
        free(t->used[from].seen);
    }
    origins_free(&t->numbers);
    free(t->zeros);
    free(t);
    return SPEX_OK;
}

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
