/*
 * Table samples as a Parquet file. Most columns are determined by a few origins: the thread, the
 * instruction, the events and data source. A row keeps one number for each origin, and a page of
 * such a column is made with a map from that number to the column's dictionary. Only addresses,
 * times and latencies are kept for every row.
 *
 * Threads of the pass gather the rows of a slice each, with numbers of its own. Slices come in
 * order then: their numbers become those of the row group, and they are cut into pages. The values
 * of new numbers travel with the page, as text. Other threads make the columns of several pages at
 * a time.
 */
#include "export.h"

#include <spex/sinks.h>

#include "base/memory.h"
#include "base/name.h"
#include "base/crew.h"
#include "base/jobs.h"
#include "base/vec.h"
#include "export/origins.h"
#include "export/parquet.h"
#include "export/tables.h"

#include <pthread.h>
#include <stdio.h>

enum {
    PAGE_ROWS = 1 << 16,
    GROUP_ROWS = 1 << 20,
    STEP = 64,   /* samples whose columns are taken together: they stay in the level 1 cache */
    APART = 128, /* what threads write */
    KINDS = EXPORT_FROM_STACK - EXPORT_FROM_THREAD + 1, /* of origins that rows have numbers of */
};

/* An origin that occurs in a slice. */
struct origin {
    uint64_t key[EXPORT_KEY];
    size_t row; /* the first that has it */
    struct spex_sample sample;
};

/* Rows of a slice. */
struct rows {
    struct rows *next; /* in the list of unused ones */
    size_t count, capacity;
    unsigned users; /* segments of pages */
    VEC(struct origin) origins[EXPORT_FROMS];
    VEC(uint32_t) map[EXPORT_FROMS]; /* the row group's numbers of the first of them */
    uint32_t *numbers[EXPORT_FROMS]; /* of each row's origins: places in origins */
    uint32_t *present;               /* `present` of each row, with EXPORT_ALWAYS */
    struct {
        uint64_t *values; /* values of the rows that have one */
        size_t count;
        uint32_t *texts; /* 1 + start of the row's own text; 0: none */
    } columns[EXPORT_COLUMNS];
    struct out texts; /* each with a 0 after it */
    size_t held;      /* samples yet to become rows */
    struct spex_sample samples[STEP];
};

/* State of a thread that gathers rows: the numbers that its origins have had in all its slices. */
struct gatherer {
    _Alignas(APART) struct origins numbers;
    struct {
        struct {
            uint32_t slice, place; /* place: of the origin in that slice */
        } * items;
        size_t capacity;
    } latest[EXPORT_FROMS];
    uint32_t slice;
};

/* Rows [from, to) of a slice, which are in a page. */
struct segment {
    struct rows *rows;
    size_t from, to;
    uint32_t *own_map[EXPORT_FROMS]; /* as rows->map; NULL: that */
};

struct page {
    size_t rows;
    unsigned group;
    bool begins_group, ends_group;
    bool sorted; /* by time, so far, in its group */
    VEC(struct segment) segments;
    uint32_t *numbers[EXPORT_FROMS], *used[EXPORT_FROMS]; /* of the rows; each number once */
    size_t used_count[EXPORT_FROMS];
    struct out fresh[EXPORT_COLUMNS]; /* values of new numbers: see put_fresh */
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
    struct used used;
    uint32_t *numbers; /* of texts that rows do not share */
    uint64_t *values;
    uint8_t *defined;
};

struct column {
    enum export_column column;
    enum export_from from;
    bool own_text;
    bool gave_up;  /* in the group before: see parquet.h */
    uint32_t *map; /* dictionary index by number */
    size_t capacity;
};

struct table {
    struct export_job *job;
    struct column columns[EXPORT_COLUMNS];
    size_t column_count;
    int time;                  /* index of the time column */
    bool wanted[EXPORT_FROMS]; /* whether a column comes from it */
    struct gatherer *gatherers;
    unsigned gatherer_count;
    pthread_mutex_t lock; /* for unused */
    struct rows *unused;
    struct rows *rows; /* of samples that come in order */
    /* of the slices in order */
    struct ids numbers[EXPORT_FROMS]; /* those of the row group */
    struct page *pages;               /* one more than can be under way */
    size_t page_count, passed;        /* passed: pages */
    size_t ends[2];                   /* pages up to the end of a group; of the last two */
    uint64_t group_rows;
    unsigned group;
    bool in_group;
    struct crew *crew;
    /* of the file */
    struct parquet file;
    struct parquet_column *groups[2]; /* columns of groups by turns; the first are the file's */
    struct maker *makers;
    unsigned maker_count;
    uint32_t *zeros;
    uint64_t written; /* rows of the group */
    bool sorted;
    uint64_t last_time;
};

/* ---- rows of a slice, by threads of the pass ---- */

static struct rows *take_rows(struct table *t)
{
    pthread_mutex_lock(&t->lock);
    struct rows *r = t->unused;
    if (r)
        t->unused = r->next;
    pthread_mutex_unlock(&t->lock);
    if (!r) {
        r = memory_get(1, sizeof *r);
        out_init(&r->texts, -1);
    }
    return r;
}

static void leave_rows(struct table *t, struct rows *r)
{
    r->count = r->texts.size = r->held = 0;
    for (unsigned from = 0; from < EXPORT_FROMS; from++)
        r->origins[from].count = r->map[from].count = 0;
    for (size_t i = 0; i < t->column_count; i++)
        r->columns[i].count = 0;
    pthread_mutex_lock(&t->lock);
    r->next = t->unused;
    t->unused = r;
    pthread_mutex_unlock(&t->lock);
}

static void drop_rows(struct table *t, struct rows *r)
{
    if (!__atomic_sub_fetch(&r->users, 1, __ATOMIC_ACQ_REL))
        leave_rows(t, r);
}

static void free_rows(struct rows *r)
{
    for (unsigned from = 0; from < EXPORT_FROMS; from++) {
        vec_free(&r->origins[from]);
        vec_free(&r->map[from]);
        memory_free(r->numbers[from]);
    }
    for (size_t i = 0; i < EXPORT_COLUMNS; i++) {
        memory_free(r->columns[i].values);
        memory_free(r->columns[i].texts);
    }
    memory_free(r->present);
    out_fini(&r->texts);
    memory_free(r);
}

static void grow_rows(const struct table *t, struct rows *r, size_t n)
{
    r->capacity = n;
    for (unsigned from = EXPORT_FROM_THREAD; from <= EXPORT_FROM_STACK; from++)
        if (t->wanted[from])
            r->numbers[from] = memory_resize(r->numbers[from], n, sizeof(uint32_t));
    r->present = memory_resize(r->present, n, sizeof *r->present);
    for (size_t i = 0; i < t->column_count; i++) {
        if (t->columns[i].own_text)
            r->columns[i].texts = memory_resize(r->columns[i].texts, n, sizeof(uint32_t));
        else if (t->columns[i].from == EXPORT_FROM_ITSELF)
            r->columns[i].values = memory_resize(r->columns[i].values, n + 1, sizeof(uint64_t));
    }
}

/* The place of an origin in the slice that has none of it yet. */
static uint32_t new_origin(struct gatherer *g, struct rows *r, enum export_from from, uint32_t id,
                           size_t row, const struct spex_sample *sample)
{
    while (id >= g->latest[from].capacity) {
        const size_t before = g->latest[from].capacity;
        g->latest[from].items =
            memory_grow(g->latest[from].items, before, &g->latest[from].capacity,
                        sizeof *g->latest[from].items);
        memset(g->latest[from].items + before, 0,
               (g->latest[from].capacity - before) * sizeof *g->latest[from].items);
    }
    struct origin *o = memory_checked(vec_push(&r->origins[from]));
    memcpy(o->key, g->numbers.ids[from].keys[id], sizeof o->key);
    o->row = row;
    o->sample = *sample;
    const uint32_t place = (uint32_t)r->origins[from].count - 1;
    g->latest[from].items[id].slice = g->slice;
    g->latest[from].items[id].place = place;
    return place;
}

static inline __attribute__((always_inline)) void put_origin(struct table *t, struct gatherer *g,
                                                             struct rows *r, size_t row,
                                                             enum export_from from,
                                                             const struct spex_sample *sample)
{
    bool fresh = false;
    if (!t->wanted[from])
        return;
    const uint32_t id = origins_find(&g->numbers, from, sample, &fresh);
    uint32_t place;
    if (id < g->latest[from].capacity && g->latest[from].items[id].slice == g->slice)
        place = g->latest[from].items[id].place;
    else
        place = new_origin(g, r, from, id, row, sample);
    r->numbers[from][row] = place;
}

static void put_own_texts(struct table *t, struct rows *r, size_t column,
                          const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = NULL;
        if (t->columns[column].column != EXPORT_SATURATED ||
            counters_may_end(samples[i].record, &t->job->source.end))
            text = export_text(&t->job->source, &samples[i], t->columns[column].column);
        r->columns[column].texts[r->count + i] = text ? (uint32_t)r->texts.size + 1 : 0;
        if (!text)
            continue;
        out_name_utf8(&r->texts, text);
        out_char(&r->texts, 0);
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

/* At most STEP samples. */
static void put_rows(struct table *t, struct gatherer *g, struct rows *r,
                     const struct spex_sample *samples, size_t count)
{
    if (r->capacity - r->count < count)
        grow_rows(t, r, 2 * r->capacity + 2 * STEP);
    uint32_t *present = r->present + r->count, every = ~0u, any = 0;
    for (size_t i = 0; i < count; i++) {
        present[i] = samples[i].record->present | EXPORT_ALWAYS;
        every &= present[i];
        any |= present[i];
        put_origin(t, g, r, r->count + i, EXPORT_FROM_THREAD, &samples[i]);
        put_origin(t, g, r, r->count + i, EXPORT_FROM_CODE, &samples[i]);
        put_origin(t, g, r, r->count + i, EXPORT_FROM_OUTCOME, &samples[i]);
        put_origin(t, g, r, r->count + i, EXPORT_FROM_STACK, &samples[i]);
    }
    for (size_t k = 0; k < t->column_count; k++) {
        struct export_number number = export_numbers[t->columns[k].column];
        if (t->columns[k].own_text)
            put_own_texts(t, r, k, samples, count);
        else if (r->columns[k].values && any & number.has)
            r->columns[k].count = take_values(r->columns[k].values, r->columns[k].count, samples,
                                              count, number, present, every & number.has);
    }
    r->count += count;
}

static void begin_slice(struct gatherer *g)
{
    if (origins_full(&g->numbers))
        origins_clear(&g->numbers);
    if (!++g->slice)
        for (unsigned from = 0; from < EXPORT_FROMS; from++) { /* it wrapped round */
            memset(g->latest[from].items, 0,
                   g->latest[from].capacity * sizeof *g->latest[from].items);
            g->slice = 1;
        }
}

/* Of the merge: mostly few samples at a time; none at the end. */
static void gather(void *context, void *item, unsigned thread, const struct spex_sample *samples,
                   size_t count)
{
    struct table *t = ((struct export_job *)context)->state;
    struct gatherer *g = &t->gatherers[thread];
    struct rows **rows = item, *r = *rows;
    struct memory_pause pause = memory_pause();
    if (!r) {
        r = *rows = take_rows(t);
        begin_slice(g);
    }
    for (size_t i = 0; i < count; i++) {
        r->samples[r->held++] = samples[i];
        if (r->held < STEP)
            continue;
        put_rows(t, g, r, r->samples, STEP);
        r->held = 0;
    }
    if (!count) {
        put_rows(t, g, r, r->samples, r->held);
        r->held = 0;
    }
    memory_resume(pause);
}

/* ---- pages of slices in order ---- */

/*
 * Writes out a number that is new in this row group, for each column that depends on it: the
 * number, whether it has a value, and the value: eight bytes, or a text with its size in front.
 */
static void put_fresh(struct table *t, struct page *p, enum export_from from, uint32_t id,
                      const struct spex_sample *sample)
{
    for (size_t i = 0; i < t->column_count; i++) {
        struct out *out = &p->fresh[i];
        enum export_column column = t->columns[i].column;
        uint64_t value = 0;
        if (t->columns[i].from != from)
            continue;
        out_bytes(out, &id, sizeof id);
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

static struct page *page_at_hand(struct table *t)
{
    return &t->pages[t->passed % t->page_count];
}

static uint32_t map_origin(struct table *t, struct page *p, enum export_from from,
                           const struct origin *o)
{
    bool fresh = false;
    const uint32_t id = ids_find(&t->numbers[from], o->key, &fresh);
    if (fresh)
        put_fresh(t, p, from, id, &o->sample);
    return id;
}

/* The numbers in the row group of the origins that the slice's first rows have. */
static void map_first(struct table *t, struct page *p, struct rows *r, size_t rows)
{
    for (unsigned from = EXPORT_FROM_THREAD; from <= EXPORT_FROM_STACK; from++) {
        const struct origin *origins = r->origins[from].items;
        for (size_t i = r->map[from].count; i < r->origins[from].count && origins[i].row < rows;
             i++)
            *(uint32_t *)memory_checked(vec_push(&r->map[from])) =
                map_origin(t, p, from, &origins[i]);
    }
}

/* Those of other rows, in the order of rows. */
static void map_rest(struct table *t, struct page *p, struct segment *s, enum export_from from)
{
    const struct rows *r = s->rows;
    const size_t count = r->origins[from].count;
    uint32_t *map = s->own_map[from] = memory_get(count + 1, sizeof *map);
    memset(map, 0xff, count * sizeof *map);
    for (size_t row = s->from; row < s->to; row++) {
        const uint32_t place = r->numbers[from][row];
        if (map[place] == UINT32_MAX)
            map[place] = map_origin(t, p, from, &r->origins[from].items[place]);
    }
}

static void pass_page(struct table *t, bool ends_group)
{
    struct page *p = page_at_hand(t);
    p->ends_group = ends_group;
    p->group = t->group;
    t->group_rows += p->rows;
    if (ends_group) {
        for (unsigned from = 0; from < EXPORT_FROMS; from++)
            ids_clear(&t->numbers[from]);
        t->ends[t->group++ % 2] = t->passed + 1;
        t->group_rows = 0;
        t->in_group = false;
    }
    t->passed++;
    crew_pass(t->crew, p);
    if (ends_group && t->group > 1)
        crew_wait(t->crew, t->ends[t->group % 2]); /* whose columns the next group takes */
}

static bool group_is_full(const struct table *t)
{
    bool full = t->group_rows + PAGE_ROWS >= GROUP_ROWS;
    for (unsigned from = 0; from < EXPORT_FROMS; from++)
        full |= t->numbers[from].count >= ORIGINS_MOST;
    return full;
}

static void begin_group(struct table *t, struct page *p, const struct rows *r)
{
    if (!t->in_group)
        put_fresh(t, p, EXPORT_FROM_FILE, 0, &r->samples[0]);
    p->begins_group |= !t->in_group;
    t->in_group = true;
}

static void put_slice(void *context, void *item)
{
    struct table *t = ((struct export_job *)context)->state;
    struct rows *r = *(struct rows **)item;
    struct memory_pause pause = memory_pause();
    *(struct rows **)item = NULL;
    r->users = 1; /* this function */
    for (size_t from = 0; from < r->count;) {
        struct page *p = page_at_hand(t);
        const size_t room = PAGE_ROWS - p->rows, left = r->count - from;
        begin_group(t, p, r);
        struct segment *s = memory_checked(vec_push(&p->segments));
        *s = (struct segment){.rows = r, .from = from, .to = from + (left < room ? left : room)};
        __atomic_fetch_add(&r->users, 1, __ATOMIC_RELAXED);
        if (!from)
            map_first(t, p, r, s->to);
        for (unsigned kind = EXPORT_FROM_THREAD; from && kind <= EXPORT_FROM_STACK; kind++)
            if (t->wanted[kind])
                map_rest(t, p, s, kind);
        p->rows += s->to - from;
        from = s->to;
        if (p->rows == PAGE_ROWS)
            pass_page(t, group_is_full(t));
    }
    drop_rows(t, r);
    memory_resume(pause);
}

static void free_slice(void *item)
{
    struct rows *r = *(struct rows **)item;
    if (r)
        free_rows(r);
}

static const struct spex_sink_slices slices = {sizeof(struct rows *), gather, put_slice,
                                               free_slice};

/* Samples that come in order: slices of a page each, by one thread. */
static void sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct export_job *job = context;
    struct table *t = job->state;
    if (job->tables)
        tables_sink(job->tables, samples, count);
    while (count) {
        struct page *p = page_at_hand(t);
        struct rows *r = t->rows;
        if (!r) {
            r = t->rows = take_rows(t);
            begin_slice(t->gatherers);
            if (r->capacity < PAGE_ROWS)
                grow_rows(t, r, PAGE_ROWS);
            r->samples[0] = samples[0];
        }
        const size_t room = PAGE_ROWS - r->count, n = count < STEP ? count : STEP;
        put_rows(t, t->gatherers, r, samples, n < room ? n : room);
        begin_group(t, p, r);
        map_first(t, p, r, r->count); /* as long as the samples are there */
        samples += n < room ? n : room;
        count -= n < room ? n : room;
        if (r->count == PAGE_ROWS)
            put_slice(job, &t->rows);
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

/* Reads back what put_fresh wrote for the column. */
static void take_fresh(struct table *t, const struct page *p, size_t index,
                       struct parquet_column *to)
{
    const struct export_field *f = &export_fields[t->columns[index].column];
    const struct out *fresh = &p->fresh[index];
    for (const char *at = fresh->data, *end = at + fresh->size; at < end;) {
        uint32_t id, entry = PARQUET_NULL;
        uint64_t value;
        memcpy(&id, at, sizeof id);
        at += sizeof id;
        bool there = *at++;
        memcpy(&value, at, sizeof value);
        at += sizeof value;
        if (there && f->type == EXPORT_STRING)
            entry = parquet_entry_text(to, at, value);
        else if (there)
            entry = f->type == EXPORT_BOOL ? (uint32_t)value : parquet_entry_number(to, value);
        at += f->type == EXPORT_STRING ? value : 0;
        set_map(&t->columns[index], id, entry);
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

static const uint32_t *map_of(const struct segment *s, enum export_from from)
{
    return s->own_map[from] ? s->own_map[from] : s->rows->map[from].items;
}

/* The numbers of a page's rows, and which they are. */
static void write_numbers(struct maker *m, struct page *p, enum export_from from)
{
    uint32_t *to = p->numbers[from];
    for (size_t i = 0; i < p->segments.count; i++) {
        const struct segment *s = &p->segments.items[i];
        const uint32_t *places = s->rows->numbers[from], *map = map_of(s, from);
        for (size_t row = s->from; row < s->to; row++)
            *to++ = map[places[row]];
    }
    find_used(&m->used, p->numbers[from], p->rows);
    p->used_count[from] = m->used.count;
    if (m->used.count)
        memcpy(p->used[from], m->used.items, m->used.count * sizeof *m->used.items);
}

static void write_texts(struct table *t, struct maker *m, const struct page *p, size_t index,
                        struct parquet_column *to)
{
    struct column *c = &t->columns[index];
    uint32_t *numbers = m->numbers; /* 1 + place in the dictionary */
    size_t n = 0;
    set_map(c, 0, PARQUET_NULL);
    for (size_t i = 0; i < p->segments.count; i++) {
        const struct segment *s = &p->segments.items[i];
        for (size_t row = s->from; row < s->to; row++) {
            const uint32_t at = s->rows->columns[index].texts[row];
            numbers[n] = 0;
            if (at) {
                const char *text = s->rows->texts.data + at - 1;
                const uint32_t entry = parquet_entry_text(to, text, strlen(text));
                set_map(c, entry + 1, entry);
                numbers[n] = entry + 1;
            }
            n++;
        }
    }
    find_used(&m->used, numbers, n);
    parquet_plan_mapped(&m->parquet, to, c->map, numbers, n, m->used.items, m->used.count);
}

/* How many of the first rows of a slice have a value. */
static size_t values_before(const struct rows *r, size_t row, unsigned has, size_t all)
{
    size_t n = 0;
    if (row == r->count)
        return all;
    for (size_t i = 0; i < row; i++)
        n += (r->present[i] & has) != 0;
    return n;
}

/* The values of a page's rows, and which rows have one. */
static const uint64_t *take_page(const struct maker *m, const struct page *p, size_t index,
                                 unsigned has, size_t *count)
{
    const struct segment *first = p->segments.items;
    const bool one = p->segments.count == 1 && first->to - first->from == first->rows->count;
    size_t n = one ? first->rows->columns[index].count : 0, row = 0;
    for (size_t i = 0; !one && i < p->segments.count; i++) {
        const struct segment *s = &first[i];
        const struct rows *r = s->rows;
        const size_t all = r->columns[index].count, from = values_before(r, s->from, has, all),
                     to = values_before(r, s->to, has, all);
        memcpy(m->values + n, r->columns[index].values + from, (to - from) * sizeof *m->values);
        n += to - from;
    }
    for (size_t i = 0; n && n < p->rows && i < p->segments.count; i++)
        for (size_t k = first[i].from; k < first[i].to; k++)
            m->defined[row++] = (first[i].rows->present[k] & has) != 0;
    *count = n;
    return one ? first->rows->columns[index].values : m->values;
}

static void write_values(struct table *t, const struct column *c, struct maker *m, struct page *p,
                         struct parquet_column *to)
{
    const size_t index = (size_t)(c - t->columns);
    size_t count;
    const uint64_t *values = take_page(m, p, index, export_numbers[c->column].has, &count);
    parquet_plan_numbers(&m->parquet, to, values, count, m->defined, p->rows);
    if ((int)index != t->time)
        return;
    t->sorted &= count == p->rows;
    for (size_t i = 0; i < count; i++) {
        t->sorted &= values[i] >= t->last_time;
        t->last_time = values[i];
    }
}

/* Turns: a column's page is planned, and added; numbers of origins are there. */
static size_t planned(size_t column)
{
    return 2 * column;
}

static size_t added(size_t column)
{
    return 2 * column + 1;
}

static size_t numbered(const struct table *t, enum export_from from)
{
    return 2 * t->column_count + (from - EXPORT_FROM_THREAD);
}

static void plan_column(struct table *t, struct maker *m, struct page *p, size_t i,
                        struct parquet_column *to)
{
    struct column *c = &t->columns[i];
    const bool file = c->from == EXPORT_FROM_FILE;
    if (p->begins_group)
        to->no_dictionary = c->gave_up;
    if (p->begins_group && (int)i == t->time) {
        t->sorted = true;
        t->last_time = 0;
    }
    take_fresh(t, p, i, to);
    if (p->rows && c->own_text)
        write_texts(t, m, p, i, to);
    else if (p->rows && c->from == EXPORT_FROM_ITSELF)
        write_values(t, c, m, p, to);
    else if (p->rows)
        parquet_plan_mapped(&m->parquet, to, c->map, file ? t->zeros : p->numbers[c->from], p->rows,
                            file ? t->zeros : p->used[c->from], file ? 1 : p->used_count[c->from]);
    if ((int)i == t->time)
        p->sorted = t->sorted;
    if (p->ends_group)
        c->gave_up = parquet_gave_up(to);
}

static void write_column(struct table *t, struct maker *m, struct page *p, size_t number, size_t i)
{
    struct parquet_column *to = &t->groups[p->group % 2][i];
    const enum export_from from = t->columns[i].from;
    if (from >= EXPORT_FROM_THREAD && from <= EXPORT_FROM_STACK)
        crew_turn(t->crew, numbered(t, from), number + 1);
    crew_turn(t->crew, planned(i), number);
    plan_column(t, m, p, i, to);
    crew_next(t->crew, planned(i));
    if (p->rows)
        parquet_pack(&m->parquet, to);
    crew_turn(t->crew, added(i), number);
    if (p->rows)
        parquet_add(&m->parquet, to);
    crew_next(t->crew, added(i));
}

/* First the numbers of rows, then the columns. */
static void write_part(void *user, void *item, size_t number, size_t part, unsigned worker)
{
    struct table *t = user;
    struct maker *m = &t->makers[worker];
    if (part >= KINDS) {
        write_column(t, m, item, number, part - KINDS);
        return;
    }
    const enum export_from from = EXPORT_FROM_THREAD + (unsigned)part;
    if (t->wanted[from])
        write_numbers(m, item, from);
    crew_turn(t->crew, numbered(t, from), number);
    crew_next(t->crew, numbered(t, from));
}

static void finish_page(void *user, void *item)
{
    struct table *t = user;
    struct page *p = item;
    t->written += p->rows;
    if (p->ends_group) {
        parquet_group_end(&t->file, t->groups[p->group % 2], t->written, p->sorted ? t->time : -1);
        t->written = 0;
    }
    for (size_t i = 0; i < p->segments.count; i++) {
        struct segment *s = &p->segments.items[i];
        for (unsigned from = 0; from < EXPORT_FROMS; from++)
            memory_free(s->own_map[from]);
        drop_rows(t, s->rows);
    }
    for (size_t i = 0; i < t->column_count; i++)
        p->fresh[i].size = 0;
    p->segments.count = p->rows = 0;
    p->begins_group = false;
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

static void new_page(const struct table *t, struct page *p)
{
    for (unsigned from = EXPORT_FROM_THREAD; from <= EXPORT_FROM_STACK; from++) {
        if (!t->wanted[from])
            continue;
        p->numbers[from] = memory_get(PAGE_ROWS, sizeof *p->numbers[from]);
        p->used[from] = memory_get(PAGE_ROWS, sizeof *p->used[from]);
    }
    for (size_t i = 0; i < t->column_count; i++)
        out_init(&p->fresh[i], -1);
}

static void new_maker(struct maker *m)
{
    parquet_maker_init(&m->parquet);
    m->used.items = memory_get(PAGE_ROWS + 1, sizeof(uint32_t));
    m->numbers = memory_get(PAGE_ROWS, sizeof *m->numbers);
    m->values = memory_get(PAGE_ROWS, sizeof *m->values);
    m->defined = memory_get(PAGE_ROWS, 1);
}

/* Whether rows can be gathered by several threads: a table or a column may need samples in order.
 */
static bool rows_apart(const struct table *t)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (t->columns[i].own_text && export_looks_up(t->columns[i].column))
            return false;
    return !t->job->tables && !t->wanted[EXPORT_FROM_STACK];
}

static void begin(struct export_job *job)
{
    const struct export_settings *s = job->settings;
    struct parquet_field fields[EXPORT_COLUMNS];
    const unsigned threads = s->threads ? s->threads : 1;
    struct table *t = memory_get(1, sizeof *t);
    job->state = t;
    t->job = job;
    t->time = -1;
    pthread_mutex_init(&t->lock, NULL);
    for (size_t i = 0; i < (s->columns ? s->column_count : EXPORT_COLUMNS); i++)
        if (s->columns || export_fields[i].columnar)
            add_column(t, s->columns ? s->columns[i] : (enum export_column)i, fields);
    job->slices = threads > 1 && rows_apart(t) ? &slices : NULL;
    t->gatherer_count = job->slices && threads < JOBS_THREADS ? threads : JOBS_THREADS;
    t->gatherer_count = job->slices ? t->gatherer_count : 1;
    t->gatherers = memory_aligned(APART, t->gatherer_count * sizeof *t->gatherers);
    memset(t->gatherers, 0, t->gatherer_count * sizeof *t->gatherers);
    for (unsigned i = 0; i < t->gatherer_count; i++)
        t->gatherers[i].numbers.analysis = job->analysis;
    t->zeros = memory_get(PAGE_ROWS, sizeof *t->zeros);
    t->sorted = t->time >= 0;
    parquet_begin(&t->file, job->out, "samples", fields, t->column_count);
    t->groups[0] = t->file.columns;
    t->groups[1] = threads > 1 ? parquet_columns(&t->file) : t->groups[0];
    const size_t under_way = threads > 1 ? 2 + threads / 2 : 1;
    const struct crew_work work = {.parts = KINDS + t->column_count,
                                   .items = under_way,
                                   .turns = KINDS + 2 * t->column_count,
                                   .part = write_part,
                                   .finish = finish_page,
                                   .user = t};
    t->page_count = threads > 1 ? under_way + 1 : 1;
    t->pages = memory_get(t->page_count, sizeof *t->pages);
    for (size_t i = 0; i < t->page_count; i++)
        new_page(t, &t->pages[i]);
    t->maker_count = threads;
    t->makers = memory_get(threads, sizeof *t->makers);
    for (unsigned i = 0; i < threads; i++)
        new_maker(&t->makers[i]);
    t->crew = crew_new(threads - 1, &work);
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
    for (size_t i = 0; i < t->page_count; i++) {
        struct page *p = &t->pages[i];
        for (unsigned from = 0; from < EXPORT_FROMS; from++) {
            memory_free(p->numbers[from]);
            memory_free(p->used[from]);
        }
        for (size_t k = 0; k < t->column_count; k++)
            out_fini(&p->fresh[k]);
        vec_free(&p->segments);
    }
    memory_free(t->pages);
    while (t->unused) {
        struct rows *r = t->unused;
        t->unused = r->next;
        free_rows(r);
    }
}

static void free_gatherers(struct table *t)
{
    for (unsigned i = 0; i < t->gatherer_count; i++) {
        origins_free(&t->gatherers[i].numbers);
        for (unsigned from = 0; from < EXPORT_FROMS; from++)
            memory_free(t->gatherers[i].latest[from].items);
    }
    memory_free(t->gatherers);
}

static enum spex_status end(struct export_job *job)
{
    struct table *t = job->state;
    if (t->rows)
        put_slice(job, &t->rows);
    if (t->in_group)
        pass_page(t, true);
    crew_free(t->crew);
    for (unsigned i = 0; i < t->maker_count; i++) {
        struct maker *m = &t->makers[i];
        parquet_take_error(&t->file, &m->parquet);
        parquet_maker_fini(&m->parquet);
        memory_free(m->used.items);
        memory_free(m->used.seen);
        memory_free(m->numbers);
        memory_free(m->values);
        memory_free(m->defined);
    }
    memory_free(t->makers);
    if (t->groups[1] != t->groups[0])
        parquet_columns_free(&t->file, t->groups[1]);
    end_file(t);
    free_pages(t);
    free_gatherers(t);
    for (size_t i = 0; i < t->column_count; i++)
        memory_free(t->columns[i].map);
    for (unsigned from = 0; from < EXPORT_FROMS; from++)
        ids_free(&t->numbers[from]);
    memory_free(t->zeros);
    pthread_mutex_destroy(&t->lock);
    memory_free(t);
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
