/*
 * The table function spe('perf.data'). One thread runs the pass over the profile and fills blocks
 * with the columns that the statement needs. DuckDB's threads take full blocks and copy them into
 * its vectors. The number of blocks is fixed.
 */
#include "spe.h"

#include "base/memory.h"
#include "base/name.h"
#include "export/origins.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    ROWS = 2048, /* rows of a block; DuckDB's vectors hold as many */
    BLOCKS = 16,
    RECORD_BYTES = 64, /* estimate: bytes per record in a file */
};
_Static_assert(sizeof(struct duck_text) == 16, "as DuckDB has it");

/* The values of a column, by the number of its origin. */
struct value {
    bool there;
    union {
        uint64_t number;
        struct duck_text text;
    };
};

struct scan_column {
    enum export_column column;
    enum export_from from;
    unsigned size; /* bytes of an element */
    bool own_text; /* each record has its own: block->texts holds it */
    struct value *values;
    size_t capacity;
};

struct block {
    struct block *next;
    size_t rows;
    struct out texts;
    struct block_column {
        bool nulls;
        uint64_t there[ROWS / 64];
        void *data;
    } columns[];
};

struct scan {
    struct query *query;
    struct query_profile *profile;
    struct export_source source;
    struct scan_column *columns;
    size_t column_count;
    bool wanted[EXPORT_FROMS]; /* whether a column comes from it */
    struct origins *origins;
    struct block *filling;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct block *free, *full, **full_end;
    bool done, stop;
    enum spex_status status;
    struct spex_error error;
};

/* ---- profiles ---- */

struct query_profile *spe_take_profile(struct query *q, const char *path, struct spex_error *error)
{
    struct query_profile *p;
    MEMORY_OF(q->account);
    pthread_mutex_lock(&q->lock);
    for (p = q->profiles; p; p = p->next)
        if (!p->busy && !strcmp(p->path, path))
            break;
    if (!p) {
        struct spex_analysis *analysis = q->options.open(q->options.user, path, error);
        if (analysis) {
            p = memory_get(1, sizeof *p);
            *p = (struct query_profile){.next = q->profiles, .analysis = analysis};
            p->path = memory_copy(path);
            texts_init(&p->texts);
            q->profiles = p;
        }
    }
    if (p)
        p->busy = true;
    pthread_mutex_unlock(&q->lock);
    return p;
}

void spe_leave_profile(struct query *q, struct query_profile *p)
{
    pthread_mutex_lock(&q->lock);
    p->busy = false;
    pthread_mutex_unlock(&q->lock);
}

/* ---- blocks ---- */

static struct block *new_block(const struct scan *s)
{
    struct block *b = memory_get(1, sizeof *b + s->column_count * sizeof *b->columns);
    out_init(&b->texts, -1);
    for (size_t i = 0; i < s->column_count; i++)
        b->columns[i].data = memory_get(ROWS, s->columns[i].size);
    return b;
}

static void free_blocks(const struct scan *s, struct block *b)
{
    while (b) {
        struct block *next = b->next;
        for (size_t i = 0; i < s->column_count; i++)
            free(b->columns[i].data);
        out_fini(&b->texts);
        free(b);
        b = next;
    }
}

/* An empty block for the pass, NULL if no more are wanted. */
static struct block *take_free(struct scan *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->free && !s->stop)
        pthread_cond_wait(&s->changed, &s->lock);
    struct block *b = s->stop ? NULL : s->free;
    if (b)
        s->free = b->next;
    pthread_mutex_unlock(&s->lock);
    if (b) {
        b->rows = b->texts.size = 0;
        for (size_t i = 0; i < s->column_count; i++) {
            b->columns[i].nulls = false;
            memset(b->columns[i].there, 0, sizeof b->columns[i].there);
        }
    }
    return b;
}

static void pass_full(struct scan *s)
{
    struct block *b = s->filling;
    s->filling = NULL;
    pthread_mutex_lock(&s->lock);
    b->next = NULL;
    *s->full_end = b;
    s->full_end = &b->next;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* A full block for DuckDB, NULL after the last. */
static struct block *take_full(struct scan *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->full && !s->done)
        pthread_cond_wait(&s->changed, &s->lock);
    struct block *b = s->full;
    if (b && !(s->full = b->next))
        s->full_end = &s->full;
    pthread_mutex_unlock(&s->lock);
    return b;
}

static void give_back(struct scan *s, struct block *b)
{
    pthread_mutex_lock(&s->lock);
    b->next = s->free;
    s->free = b;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* ---- rows ---- */

static void set_text(struct duck_text *to, const char *text)
{
    size_t size = strlen(text);
    *to = (struct duck_text){.size = (uint32_t)size};
    if (size <= DUCK_INLINE) {
        memcpy(to->inlined, text, size);
    } else {
        memcpy(to->far.prefix, text, sizeof to->far.prefix);
        to->far.data = text;
    }
}

static struct value value_of(struct scan *s, enum export_column column,
                             const struct spex_sample *sample)
{
    struct value v = {0};
    if (export_fields[column].type == EXPORT_STRING) {
        struct texts *texts = &s->profile->texts;
        const char *text = export_text(&s->source, sample, column);
        v.there = text != NULL;
        if (text)
            set_text(&v.text, texts_at(texts, texts_find(texts, text)));
    } else {
        v.there = export_number(&s->source, sample, column, &v.number);
    }
    return v;
}

static void add_values(struct scan *s, enum export_from from, uint32_t id,
                       const struct spex_sample *sample)
{
    for (size_t i = 0; i < s->column_count; i++) {
        struct scan_column *c = &s->columns[i];
        if (c->from != from || export_numbers[c->column].has)
            continue;
        while (id >= c->capacity)
            c->values = memory_grow(c->values, c->capacity, &c->capacity, sizeof *c->values);
        c->values[id] = value_of(s, c->column, sample);
    }
}

/*
 * The numbers of a sample's origins, which determine its columns; 0 for origins that no column
 * needs.
 */
typedef uint32_t row_origins[EXPORT_FROMS];

static inline __attribute__((always_inline)) void find_origin(struct scan *s, enum export_from from,
                                                              const struct spex_sample *sample,
                                                              row_origins origins)
{
    bool fresh = false;
    if (!s->wanted[from])
        return;
    origins[from] = origins_find(s->origins, from, sample, &fresh);
    if (fresh)
        add_values(s, from, origins[from], sample);
}

static inline void put_there(struct block_column *to, size_t row, bool there)
{
    to->there[row / 64] |= (uint64_t)there << row % 64;
    to->nulls |= !there;
}

static inline void put_number(struct block_column *to, size_t row, unsigned size, uint64_t value)
{
    switch (size) {
    case 1:
        ((uint8_t *)to->data)[row] = (uint8_t)value;
        break;
    case 2:
        ((uint16_t *)to->data)[row] = (uint16_t)value;
        break;
    case 4:
        ((uint32_t *)to->data)[row] = (uint32_t)value;
        break;
    default:
        ((uint64_t *)to->data)[row] = value;
    }
}

static void put_own_text(struct scan *s, struct block *b, size_t column, size_t row,
                         const struct spex_sample *sample)
{
    struct block_column *to = &b->columns[column];
    const char *text = export_text(&s->source, sample, s->columns[column].column);
    size_t start = b->texts.size;
    put_there(to, row, text != NULL);
    if (text)
        out_name_utf8(&b->texts, text);
    out_char(&b->texts, 0);
    ((uint64_t *)to->data)[row] = start;
}

/* Inline with a constant size, so that each size gets its own loop. */
static inline __attribute__((always_inline)) void
put_read(struct block_column *to, size_t row, unsigned size, struct export_number number,
         const struct spex_sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_number(to, row + i, size, export_read(&samples[i], number));
        put_there(to, row + i, (samples[i].record->present | EXPORT_ALWAYS) & number.has);
    }
}

static void put_column(struct scan *s, struct block *b, size_t column,
                       const struct spex_sample *samples, size_t count, row_origins *origins)
{
    const struct scan_column *c = &s->columns[column];
    struct block_column *to = &b->columns[column];
    struct export_number number = export_numbers[c->column];
    enum export_from from = c->from;
    size_t row = b->rows;
    if (c->own_text) {
        for (size_t i = 0; i < count; i++)
            put_own_text(s, b, column, row + i, &samples[i]);
    } else if (number.has && c->size == 8) {
        put_read(to, row, 8, number, samples, count);
    } else if (number.has && c->size == 2) {
        put_read(to, row, 2, number, samples, count);
    } else if (number.has) {
        put_read(to, row, c->size, number, samples, count);
    } else if (export_fields[c->column].type == EXPORT_STRING) {
        for (size_t i = 0; i < count; i++) {
            const struct value *v = &c->values[origins[i][from]];
            ((struct duck_text *)to->data)[row + i] = v->text;
            put_there(to, row + i, v->there);
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            const struct value *v = &c->values[origins[i][from]];
            put_number(to, row + i, c->size, v->number);
            put_there(to, row + i, v->there);
        }
    }
}

static void put_rows(struct scan *s, struct block *b, const struct spex_sample *samples,
                     size_t count)
{
    row_origins origins[ROWS];
    if (origins_full(s->origins))
        origins_clear(s->origins);
    for (size_t i = 0; i < count; i++) {
        origins[i][EXPORT_FROM_FILE] = 0;
        find_origin(s, EXPORT_FROM_THREAD, &samples[i], origins[i]);
        find_origin(s, EXPORT_FROM_CODE, &samples[i], origins[i]);
        find_origin(s, EXPORT_FROM_OUTCOME, &samples[i], origins[i]);
        find_origin(s, EXPORT_FROM_STACK, &samples[i], origins[i]);
    }
    if (!b->rows)
        add_values(s, EXPORT_FROM_FILE, 0, samples);
    for (size_t i = 0; i < s->column_count; i++)
        put_column(s, b, i, samples, count, origins);
    b->rows += count;
}

static void sink(void *context, const struct spex_sample *samples, size_t count)
{
    struct scan *s = context;
    while (count) {
        if (!s->filling)
            s->filling = take_free(s);
        if (!s->filling || atomic_load_explicit(&s->query->interrupted, memory_order_relaxed)) {
            spex_analysis_stop(s->profile->analysis);
            return;
        }
        size_t n = ROWS - s->filling->rows < count ? ROWS - s->filling->rows : count;
        put_rows(s, s->filling, samples, n);
        samples += n;
        count -= n;
        if (s->filling->rows == ROWS)
            pass_full(s);
    }
}

static void *run_pass(void *context)
{
    struct scan *s = context;
    memory_enter(s->query->account);
    s->status = spex_analysis_run(s->profile->analysis, sink, s, &s->error);
    if (s->filling && s->filling->rows)
        pass_full(s);
    pthread_mutex_lock(&s->lock);
    if (s->filling) {
        s->filling->next = s->free;
        s->free = s->filling;
    }
    s->done = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- what DuckDB calls ---- */

int spe_type(enum export_type type, unsigned bits)
{
    switch (type) {
    case EXPORT_BOOL:
        return DUCK_BOOLEAN;
    case EXPORT_STRING:
        return DUCK_VARCHAR;
    default:
        return bits == 8    ? DUCK_UTINYINT
               : bits == 16 ? DUCK_USMALLINT
               : bits == 32 ? DUCK_UINTEGER
                            : DUCK_UBIGINT;
    }
}

/* The n-th column of the table: all but lists. */
static enum export_column nth_column(uint64_t n)
{
    for (unsigned i = 0; i < EXPORT_COLUMNS; i++)
        if (export_fields[i].type != EXPORT_LIST && !n--)
            return i;
    return EXPORT_COLUMNS;
}

char *spe_bind_path(struct query *q, struct duck_bind *info)
{
    MEMORY_OF(q->account);
    struct duck_value *value = duck.bind_get_parameter(info, 0);
    char *given = duck.get_varchar(value);
    char *path = memory_copy(given ? given : "");
    struct spex_error error = {0};
    duck.free(given);
    duck.destroy_value(&value);
    duck.bind_set_bind_data(info, path, free);
    struct query_profile *p = spe_take_profile(q, path, &error);
    if (!p) {
        duck.bind_set_error(info, error.text);
        return NULL;
    }
    spe_leave_profile(q, p);
    return path;
}

static void bind(struct duck_bind *info)
{
    const char *path = spe_bind_path(duck.bind_get_extra_info(info), info);
    struct stat st;
    if (!path)
        return;
    if (!stat(path, &st))
        duck.bind_set_cardinality(info, (uint64_t)st.st_size / RECORD_BYTES, false);
    enum export_column column;
    for (uint64_t i = 0; (column = nth_column(i)) < EXPORT_COLUMNS; i++) {
        const struct export_field *f = &export_fields[column];
        struct duck_type *type = duck.create_logical_type(spe_type(f->type, f->bits));
        duck.bind_add_result_column(info, f->name, type);
        duck.destroy_logical_type(&type);
    }
}

static void free_scan(void *data)
{
    struct scan *s = data;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->started)
        pthread_join(s->thread, NULL);
    free_blocks(s, s->free);
    free_blocks(s, s->full);
    for (size_t i = 0; i < s->column_count; i++)
        free(s->columns[i].values);
    free(s->columns);
    origins_free(s->origins);
    free(s->origins);
    export_source_fini(&s->source);
    spe_leave_profile(s->query, s->profile);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

/* Which columns the statement needs, and what the pass must find out for them. */
static unsigned choose_columns(struct scan *s, struct duck_init *info)
{
    unsigned want = SPEX_WANT_BASE;
    s->column_count = duck.init_get_column_count(info);
    s->columns = memory_get(s->column_count + 1, sizeof *s->columns);
    for (size_t i = 0; i < s->column_count; i++) {
        struct scan_column *c = &s->columns[i];
        enum export_column column = nth_column(duck.init_get_column_index(info, i));
        if (column == EXPORT_COLUMNS) /* not ours: use a column that every sample has */
            column = EXPORT_SIZE;
        const struct export_field *f = &export_fields[column];
        c->column = column;
        c->from = export_origin(&s->source, column);
        c->own_text = f->type == EXPORT_STRING && c->from == EXPORT_FROM_ITSELF;
        c->size = c->own_text                ? sizeof(uint64_t)
                  : f->type == EXPORT_STRING ? sizeof(struct duck_text)
                                             : (f->bits + 7) / 8;
        s->wanted[c->from] |= !export_numbers[column].has;
        want |= export_wants(column);
    }
    if (s->wanted[EXPORT_FROM_CODE])
        want |= SPEX_WANT_SYMBOL;
    return want;
}

static void init(struct duck_init *info)
{
    struct query *q = duck.init_get_extra_info(info);
    struct spex_error error = {0};
    struct query_profile *p = spe_take_profile(q, duck.init_get_bind_data(info), &error);
    if (!p) {
        duck.init_set_error(info, error.text);
        return;
    }
    MEMORY_OF(q->account);
    struct scan *s = memory_get(1, sizeof *s);
    s->query = q;
    s->profile = p;
    s->full_end = &s->full;
    s->origins = memory_get(1, sizeof *s->origins);
    s->origins->analysis = p->analysis;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    export_source_init(&s->source, p->analysis);
    spex_analysis_want(p->analysis, choose_columns(s, info));
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct block *b = new_block(s);
        b->next = s->free;
        s->free = b;
    }
    duck.init_set_init_data(info, s, free_scan);
    duck.init_set_max_threads(info, q->options.threads);
    s->started = !pthread_create(&s->thread, NULL, run_pass, s);
    if (!s->started)
        duck.init_set_error(info, "no thread can be had to read the profile");
}

static void copy_column(const struct scan *s, const struct block *b, size_t column,
                        struct duck_vector *vector)
{
    const struct scan_column *c = &s->columns[column];
    const struct block_column *from = &b->columns[column];
    if (from->nulls) {
        duck.vector_ensure_validity_writable(vector);
        memcpy(duck.vector_get_validity(vector), from->there, (b->rows + 63) / 64 * 8);
    }
    if (!c->own_text) {
        memcpy(duck.vector_get_data(vector), from->data, b->rows * c->size);
        return;
    }
    for (size_t row = 0; row < b->rows; row++) { /* DuckDB copies the text: the block goes on */
        const char *text = b->texts.data + ((const uint64_t *)from->data)[row];
        if (from->there[row / 64] >> row % 64 & 1)
            duck.vector_assign_string_element_len(vector, row, text, strlen(text));
    }
}

static void call(struct duck_call *info, struct duck_chunk *chunk)
{
    struct scan *s = duck.function_get_init_data(info);
    struct block *b = take_full(s);
    duck.data_chunk_set_size(chunk, b ? b->rows : 0);
    if (!b) {
        if (s->status)
            duck.function_set_error(info, s->error.text);
        return;
    }
    for (size_t i = 0; i < s->column_count; i++)
        copy_column(s, b, i, duck.data_chunk_get_vector(chunk, i));
    give_back(s, b);
}

/* A name that is not a table: if it is the name of a file, that file. */
static void replace(struct duck_replacement *info, const char *name, void *extra)
{
    struct stat st;
    (void)extra;
    if (stat(name, &st) || !S_ISREG(st.st_mode))
        return;
    struct duck_value *value = duck.create_varchar(name);
    duck.replacement_scan_set_function_name(info, "spe");
    duck.replacement_scan_add_parameter(info, value);
    duck.destroy_value(&value);
}

bool spe_register(struct query *q)
{
    struct duck_function *function = duck.create_table_function();
    struct duck_type *text = duck.create_logical_type(DUCK_VARCHAR);
    duck.table_function_set_name(function, "spe");
    duck.table_function_add_parameter(function, text);
    duck.table_function_set_extra_info(function, q, NULL);
    duck.table_function_set_bind(function, bind);
    duck.table_function_set_init(function, init);
    duck.table_function_set_function(function, call);
    duck.table_function_supports_projection_pushdown(function, true);
    bool ok = duck.vector_size() >= ROWS && !duck.register_table_function(q->connection, function);
    duck.destroy_logical_type(&text);
    duck.destroy_table_function(&function);
    duck.add_replacement_scan(q->database, replace, NULL, NULL);
    return ok;
}
