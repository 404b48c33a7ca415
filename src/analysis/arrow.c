/* Samples and side tables as Arrow arrays. */
#include "pass.h"
#include <spex/arrow.h>

#include "base/error.h"
#include "base/memory.h"

#include <assert.h>
#include <errno.h>

/* ---- what the Arrow C data and stream interfaces define ---- */

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *schema);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *array);
    void *private_data;
};
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *stream, struct ArrowSchema *schema);
    int (*get_next)(struct ArrowArrayStream *stream, struct ArrowArray *array);
    const char *(*get_last_error)(struct ArrowArrayStream *stream);
    void (*release)(struct ArrowArrayStream *stream);
    void *private_data;
};
enum { NULLABLE = 2 };

/* ---- columns ---- */

enum { ROWS = 1 << 13, COLUMNS_MOST = 24 };

struct kind {
    const char *name, *format;
    size_t size; /* bytes of a number; 0: text */
};
#define TEXT(name)                                                                                 \
    {                                                                                              \
        name, "u", 0                                                                               \
    }
#define SIGNED(name)                                                                               \
    {                                                                                              \
        name, "i", 4                                                                               \
    }
#define WORD(name)                                                                                 \
    {                                                                                              \
        name, "L", 8                                                                               \
    }
#define HALF(name)                                                                                 \
    {                                                                                              \
        name, "S", 2                                                                               \
    }

/* In the order in which the functions below add values. */
static const struct kind sample_kinds[] = {
    TEXT("comm"),          SIGNED("pid"),  SIGNED("tid"),       SIGNED("cpu"),
    WORD("time"),          TEXT("op"),     WORD("pc"),          TEXT("symbol"),
    TEXT("dso"),           WORD("target"), WORD("va"),          WORD("pa"),
    HALF("latency"),       HALF("issue"),  HALF("translation"), TEXT("source"),
    WORD("event_bits"),    TEXT("kind"),   TEXT("path"),        WORD("address"),
    WORD("estimated_time")};
static const struct kind file_kinds[] = {TEXT("path"), TEXT("dso"), WORD("samples"),
                                         TEXT("problem")};
static const struct kind thread_kinds[] = {TEXT("comm"), SIGNED("pid"), SIGNED("tid"),
                                           WORD("samples")};
#define COUNT(list) (sizeof(list) / sizeof *(list))
static const struct {
    const struct kind *kinds;
    size_t count;
} tables[SPEX_TABLE_COUNT] = {[SPEX_TABLE_SAMPLES] = {sample_kinds, COUNT(sample_kinds)},
                              [SPEX_TABLE_FILES] = {file_kinds, COUNT(file_kinds)},
                              [SPEX_TABLE_THREADS] = {thread_kinds, COUNT(thread_kinds)}};
_Static_assert(COUNT(sample_kinds) <= COLUMNS_MOST, "room for them");

/* A column, owned by its array: ROWS numbers, or text with the offset at which each one ends. */
struct column {
    struct memory *account;
    const void *buffers[3]; /* validity, values or offsets, bytes */
    uint8_t valid[ROWS / 8];
    int64_t nulls;
    size_t size, room; /* bytes used and allocated */
    char *bytes;
    union {
        int32_t offsets[ROWS + 1];
        uint8_t values[ROWS * 8];
    } u;
};

/* Rows that are being collected into arrays; failed: memory ran out for some. */
struct rows {
    const struct kind *kinds;
    struct column *columns[COLUMNS_MOST];
    size_t count, column; /* column: where the next value goes */
    bool failed;
};

static void end_column(struct column *c)
{
    if (!c)
        return;
    struct memory *account = c->account, *before = memory_enter(account);
    memory_free(c->bytes);
    memory_free(c);
    memory_end(account, before);
}

static void put(struct rows *r, const void *value)
{
    struct column *c = r->columns[r->column];
    const size_t size = r->kinds[r->column++].size;
    if (!value) {
        c->nulls++;
        return;
    }
    c->valid[r->count / 8] |= (uint8_t)(1 << r->count % 8);
    memcpy(c->u.values + r->count * size, value, size);
}

static void put_text(struct rows *r, const char *text)
{
    struct column *c = r->columns[r->column++];
    const size_t length = text ? strlen(text) : 0;
    if (c->room - c->size < length) {
        const size_t room = 2 * c->room + length + 4096;
        char *bytes = room <= INT32_MAX ? memory_again(c->bytes, room) : NULL;
        r->failed |= !bytes;
        if (!bytes)
            return;
        c->bytes = bytes;
        c->room = room;
    }
    if (length)
        memcpy(c->bytes + c->size, text, length);
    c->size += length;
    c->u.offsets[r->count + 1] = (int32_t)c->size;
    c->nulls += !text;
    c->valid[r->count / 8] |= (uint8_t)(!!text << r->count % 8);
}

static void put_word(struct rows *r, bool there, uint64_t value)
{
    put(r, there ? &value : NULL);
}

static void put_half(struct rows *r, bool there, uint16_t value)
{
    put(r, there ? &value : NULL);
}

/* A negative value means not known. */
static void put_number(struct rows *r, int32_t value)
{
    put(r, value >= 0 ? &value : NULL);
}

/* ---- rows ---- */

static void put_sample(struct rows *r, const struct spex_sample *s)
{
    const struct spex_record *record = s->record;
    const uint32_t has = record->present;
    put_text(r, s->comm);
    put_number(r, s->pid);
    put_number(r, s->tid);
    put_number(r, s->cpu);
    put_word(r, has & SPEX_HAS_TIMESTAMP, s->time);
    put_text(r,
             has & SPEX_HAS_OP ? spex_sample_op_text(record->op_class, record->op_payload) : NULL);
    put_word(r, has & SPEX_HAS_PC, s->pc);
    put_text(r, s->symbol ? s->symbol->name : NULL);
    put_text(r, s->module ? spex_module_name(s->module) : NULL);
    put_word(r, has & SPEX_HAS_TARGET, s->target);
    put_word(r, has & SPEX_HAS_VA, s->va);
    put_word(r, has & SPEX_HAS_PA, s->pa);
    put_half(r, has & SPEX_HAS_TOTAL, record->total);
    put_half(r, has & SPEX_HAS_ISSUE, record->issue);
    put_half(r, has & SPEX_HAS_TRANSLATION, record->translation);
    put_text(r, s->flags & (SPEX_SAMPLE_READS | SPEX_SAMPLE_WRITES) ? spex_source_name(s->source)
                                                                    : NULL);
    put_word(r, has & SPEX_HAS_EVENTS, record->events);
    put_text(r, spex_sample_op_name(s->op));
    put_text(r, s->module ? spex_module_path(s->module) : NULL);
    put_word(r, s->module, s->address);
    put_word(r, has & SPEX_HAS_TIMESTAMP, s->spent);
}

struct stream {
    struct spex_analysis *analysis;
    enum spex_table table;
    const struct spex_sample *samples; /* rest of the current batch */
    size_t count;
    size_t next; /* next row of a side table: file or thread */
    bool ended;
    struct spex_error error;
};

static enum spex_status fill_samples(struct stream *s, struct rows *r)
{
    while (r->count < ROWS && !s->ended && !r->failed) {
        if (!s->count) {
            enum spex_status status =
                spex_analysis_next(s->analysis, &s->samples, &s->count, &s->error);
            s->ended = status != SPEX_OK;
            if (s->ended)
                return status == SPEX_END ? SPEX_OK : status;
        }
        for (; s->count && r->count < ROWS && !r->failed; s->count--, s->samples++, r->count++) {
            r->column = 0;
            put_sample(r, s->samples);
        }
    }
    return SPEX_OK;
}

static void fill_files(struct stream *s, struct rows *r)
{
    for (struct spex_module *m;
         r->count < ROWS && !r->failed && (m = spex_symbols_nth(s->analysis->symbols, s->next));
         s->next++) {
        if (!spex_module_samples(m, true))
            continue;
        r->column = 0;
        put_text(r, spex_module_path(m));
        put_text(r, spex_module_name(m));
        put_word(r, true, spex_module_samples(m, true));
        put_text(r, spex_module_problem(m));
        r->count++;
    }
}

static void fill_threads(struct stream *s, struct rows *r)
{
    struct spex_thread_total t;
    for (; r->count < ROWS && !r->failed && spex_analysis_thread(s->analysis, s->next, &t);
         s->next++, r->count++) {
        r->column = 0;
        put_text(r, t.comm);
        put_number(r, t.pid);
        put_number(r, t.tid);
        put_word(r, true, t.samples);
    }
}

/* ---- arrays ---- */

static void release_column(struct ArrowArray *array)
{
    end_column(array->private_data);
    array->release = NULL;
}

/* The array that contains all columns; a consumer may have moved some of them out. */
struct parent {
    struct memory *account;
    const void *none[1];
    struct ArrowArray *pointers[COLUMNS_MOST], columns[COLUMNS_MOST];
};

static void release_parent(struct ArrowArray *array)
{
    struct parent *p = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (p->columns[i].release)
            p->columns[i].release(&p->columns[i]);
    struct memory *account = p->account, *before = memory_enter(account);
    memory_free(p);
    memory_end(account, before);
    array->release = NULL;
}

static bool make_columns(struct rows *r, size_t count, struct memory *account)
{
    for (size_t i = 0; i < count; i++) {
        struct column *c = r->columns[i] = memory_zeroed(1, sizeof *c);
        if (!c)
            return false;
        c->account = memory_keep(account);
    }
    return true;
}

static void hand_out(struct rows *r, size_t count, struct parent *p, struct ArrowArray *array)
{
    for (size_t i = 0; i < count; i++) {
        struct column *c = r->columns[i];
        const bool text = !r->kinds[i].size;
        c->buffers[0] = c->nulls ? c->valid : NULL;
        c->buffers[1] = c->u.values;
        c->buffers[2] = c->bytes ? c->bytes : (const char *)c->valid; /* never NULL */
        p->columns[i] = (struct ArrowArray){.length = (int64_t)r->count,
                                            .null_count = c->nulls,
                                            .n_buffers = text ? 3 : 2,
                                            .buffers = c->buffers,
                                            .release = release_column,
                                            .private_data = c};
        p->pointers[i] = &p->columns[i];
    }
    *array = (struct ArrowArray){.length = (int64_t)r->count,
                                 .n_buffers = 1,
                                 .buffers = p->none,
                                 .n_children = (int64_t)count,
                                 .children = p->pointers,
                                 .release = release_parent,
                                 .private_data = p};
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *array)
{
    struct stream *s = stream->private_data;
    struct memory *account = s->analysis->account;
    const size_t count = tables[s->table].count;
    struct rows r = {.kinds = tables[s->table].kinds};
    MEMORY_OF(account);
    *array = (struct ArrowArray){0};
    struct parent *p = memory_zeroed(1, sizeof *p);
    enum spex_status status = SPEX_OK;
    if (!make_columns(&r, count, account) || !p)
        status = error_set(&s->error, SPEX_NO_MEMORY, 0, "no memory for columns");
    else if (s->table == SPEX_TABLE_SAMPLES)
        status = fill_samples(s, &r);
    else if (s->table == SPEX_TABLE_FILES)
        fill_files(s, &r);
    else
        fill_threads(s, &r);
    if (status == SPEX_OK && r.failed)
        status = error_set(&s->error, SPEX_NO_MEMORY, 0, "no memory for text");
    if (status == SPEX_OK && r.count) {
        p->account = memory_keep(account);
        hand_out(&r, count, p, array);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        end_column(r.columns[i]);
    memory_free(p);
    return status == SPEX_OK          ? 0
           : status == SPEX_NO_MEMORY ? ENOMEM
           : status == SPEX_CANCELLED ? ECANCELED
                                      : EIO;
}

/* ---- schemas ---- */

struct schema {
    struct memory *account;
    struct ArrowSchema *pointers[COLUMNS_MOST], columns[COLUMNS_MOST];
};

static void release_field(struct ArrowSchema *field)
{
    field->release = NULL;
}

static void release_schema(struct ArrowSchema *schema)
{
    struct schema *own = schema->private_data;
    for (int64_t i = 0; i < schema->n_children; i++)
        if (own->columns[i].release)
            own->columns[i].release(&own->columns[i]);
    struct memory *account = own->account, *before = memory_enter(account);
    memory_free(own);
    memory_end(account, before);
    schema->release = NULL;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema)
{
    struct stream *s = stream->private_data;
    MEMORY_OF(s->analysis->account);
    struct schema *own = memory_zeroed(1, sizeof *own);
    if (!own) {
        error_set(&s->error, SPEX_NO_MEMORY, 0, "no memory for a schema");
        return ENOMEM;
    }
    own->account = memory_keep(s->analysis->account);
    const size_t count = tables[s->table].count;
    for (size_t i = 0; i < count; i++) {
        const struct kind *kind = &tables[s->table].kinds[i];
        own->columns[i] = (struct ArrowSchema){.format = kind->format,
                                               .name = kind->name,
                                               .flags = NULLABLE,
                                               .release = release_field};
        own->pointers[i] = &own->columns[i];
    }
    *schema = (struct ArrowSchema){.format = "+s",
                                   .name = "",
                                   .n_children = (int64_t)count,
                                   .children = own->pointers,
                                   .release = release_schema,
                                   .private_data = own};
    return 0;
}

/* ---- streams ---- */

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    const struct stream *s = stream->private_data;
    return *s->error.text ? s->error.text : NULL;
}

static void release_stream(struct ArrowArrayStream *stream)
{
    struct stream *s = stream->private_data;
    MEMORY_OF(s->analysis->account);
    if (s->table == SPEX_TABLE_SAMPLES)
        pull_end(s->analysis);
    memory_free(s);
    stream->release = NULL;
}

enum spex_status spex_arrow_stream(struct spex_analysis *a, enum spex_table table,
                                   struct ArrowArrayStream *stream, struct spex_error *error)
{
    assert(a && stream);
    if ((unsigned)table >= SPEX_TABLE_COUNT)
        return error_set(error, SPEX_UNSUPPORTED, 0, "no table %u", (unsigned)table);
    MEMORY_OF(a->account);
    struct stream *s = memory_zeroed(1, sizeof *s);
    if (!s)
        return error_set(error, SPEX_NO_MEMORY, 0, "no memory for a stream");
    s->analysis = a;
    s->table = table;
    *stream = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, s};
    return SPEX_OK;
}
