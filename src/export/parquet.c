/*
 * A Parquet file: its row groups with their indexes, and the footer. The pages of a row group are
 * made in parquet_column.c.
 */
#include "parquet_column.h"

#include "base/bits.h"
#include "base/json.h"
#include "base/memory.h"
#include "export/thrift.h"

#include <errno.h>

static const char magic[] = "PAR1";

static void put(struct parquet *p, const void *data, size_t size)
{
    out_block(p->out, data, size);
    p->written += size;
}

void parquet_take_error(struct parquet *p, const struct parquet_maker *m)
{
    if (m->error && !p->out->error)
        p->out->error = m->error;
}

/* The fields, so many bytes apart. */
static struct parquet_column *new_columns(const struct parquet_field *fields, size_t apart,
                                          size_t count)
{
    struct parquet_column *columns = memory_get(count, sizeof *columns);
    for (size_t i = 0; i < count; i++)
        column_init(&columns[i],
                    (const struct parquet_field *)(const void *)((const char *)fields + i * apart));
    return columns;
}

struct parquet_column *parquet_columns(const struct parquet *p)
{
    return new_columns(&p->columns->field, sizeof *p->columns, p->column_count);
}

void parquet_columns_free(const struct parquet *p, struct parquet_column *columns)
{
    for (size_t i = 0; i < p->column_count; i++)
        column_fini(&columns[i]);
    free(columns);
}

void parquet_begin(struct parquet *p, struct out *out, const char *name,
                   const struct parquet_field *fields, size_t count)
{
    *p = (struct parquet){.out = out, .name = name, .column_count = count};
    p->columns = new_columns(fields, sizeof *fields, count);
    out_init(&p->groups, -1);
    parquet_maker_init(&p->maker);
    put(p, magic, 4);
}

void parquet_page_mapped(struct parquet *p, size_t column, const uint32_t *map, const uint32_t *ids,
                         size_t rows, const uint32_t *used, size_t used_count)
{
    parquet_plan_mapped(&p->maker, &p->columns[column], map, ids, rows, used, used_count);
    parquet_pack(&p->maker, &p->columns[column]);
    parquet_add(&p->maker, &p->columns[column]);
}

/* ---- row groups ---- */

struct chunk {
    uint64_t start, dictionary, data, compressed;
    uint64_t column_index, offset_index;
    uint32_t column_index_size, offset_index_size;
};

static void write_chunk(struct parquet *p, struct parquet_column *c, struct chunk *chunk)
{
    chunk->start = p->written;
    if (c->dictionary_pages) {
        chunk->dictionary = p->written;
        column_dictionary(&p->maker, c);
        put(p, p->maker.header.data, p->maker.header.size);
        put(p, p->maker.packed.data, p->maker.packed.size);
    }
    chunk->data = p->written;
    if (c->pages.error)
        p->out->error = c->pages.error;
    put(p, c->pages.data, c->pages.size);
    chunk->compressed = p->written - chunk->start;
}

static bool write_column_index(struct parquet *p, const struct parquet_column *c)
{
    char bytes[STATISTIC_MOST];
    size_t size, n = c->index.count;
    struct thrift t = {.out = &p->maker.header};
    p->maker.header.size = 0;
    for (size_t i = 0; i < n; i++) {
        const struct parquet_range *r = &c->index.items[i].range;
        if (r->any && (!column_statistic(c, r->least, bytes, &size) ||
                       !column_statistic(c, r->most, bytes, &size)))
            return false;
    }
    thrift_begin(&t);
    thrift_list(&t, 1, THRIFT_TRUE, n);
    for (size_t i = 0; i < n; i++)
        out_char(t.out, c->index.items[i].range.any ? THRIFT_FALSE : THRIFT_TRUE);
    bool ascending = true;
    for (unsigned most = 0; most < 2; most++) {
        thrift_list(&t, 2 + most, THRIFT_BINARY, n);
        const struct parquet_range *before = NULL;
        for (size_t i = 0; i < n; i++) {
            const struct parquet_range *r = &c->index.items[i].range;
            size = 0;
            if (r->any)
                column_statistic(c, most ? r->most : r->least, bytes, &size);
            thrift_bytes(&t, bytes, size);
            if (r->any && before)
                ascending &= column_compare(c, before->least, r->least) <= 0 &&
                             column_compare(c, before->most, r->most) <= 0;
            before = r->any ? r : before;
        }
    }
    thrift_i32(&t, 4, ascending ? 1 : 0);
    thrift_list(&t, 5, THRIFT_I64, n);
    for (size_t i = 0; i < n; i++)
        thrift_varint(t.out, thrift_zigzag((int64_t)c->index.items[i].nulls));
    thrift_end(&t);
    return true;
}

static void write_offset_index(struct parquet *p, const struct parquet_column *c, uint64_t data)
{
    struct thrift t = {.out = &p->maker.header};
    p->maker.header.size = 0;
    thrift_begin(&t);
    thrift_list(&t, 1, THRIFT_STRUCT, c->index.count);
    for (size_t i = 0; i < c->index.count; i++) {
        thrift_begin(&t);
        thrift_i64(&t, 1, data + c->index.items[i].offset);
        thrift_i32(&t, 2, c->index.items[i].size);
        thrift_i64(&t, 3, c->index.items[i].first_row);
        thrift_end(&t);
    }
    thrift_end(&t);
}

static void put_statistics(struct thrift *t, const struct parquet_column *c)
{
    char bytes[STATISTIC_MOST];
    size_t size;
    bool exact = c->range.any && column_statistic(c, c->range.least, bytes, &size) &&
                 column_statistic(c, c->range.most, bytes, &size);
    thrift_begin_field(t, 12);
    thrift_i64(t, 3, c->nulls);
    if (exact) {
        column_statistic(c, c->range.most, bytes, &size);
        thrift_binary(t, 5, bytes, size);
        column_statistic(c, c->range.least, bytes, &size);
        thrift_binary(t, 6, bytes, size);
    }
    thrift_end(t);
}

static void put_meta_data(struct thrift *t, const struct parquet_column *c,
                          const struct chunk *chunk)
{
    thrift_begin_field(t, 3);
    thrift_i32(t, 1, column_type(&c->field));
    thrift_list(t, 2, THRIFT_I32, (size_t)__builtin_popcount(c->encodings));
    for (unsigned e = 0; e < 32; e++)
        if (c->encodings >> e & 1)
            thrift_varint(t->out, thrift_zigzag(e));
    thrift_list(t, 3, THRIFT_BINARY, 1);
    thrift_bytes(t, c->field.name, strlen(c->field.name));
    thrift_i32(t, 4, ZSTD);
    thrift_i64(t, 5, c->rows);
    thrift_i64(t, 6, c->uncompressed);
    thrift_i64(t, 7, chunk->compressed);
    thrift_i64(t, 9, chunk->data);
    if (c->dictionary_pages)
        thrift_i64(t, 11, chunk->dictionary);
    put_statistics(t, c);
    const struct {
        int type;
        unsigned encoding, count;
    } stats[] = {{DICTIONARY_PAGE, PLAIN, c->dictionary_pages ? 1 : 0},
                 {DATA_PAGE, RLE_DICTIONARY, c->dictionary_pages},
                 {DATA_PAGE, c->other_encoding, c->other_pages}};
    size_t n = 0;
    for (size_t i = 0; i < 3; i++)
        n += stats[i].count > 0;
    thrift_list(t, 13, THRIFT_STRUCT, n);
    for (size_t i = 0; i < 3; i++) {
        if (!stats[i].count)
            continue;
        thrift_begin(t);
        thrift_i32(t, 1, stats[i].type);
        thrift_i32(t, 2, stats[i].encoding);
        thrift_i32(t, 3, stats[i].count);
        thrift_end(t);
    }
    thrift_end(t);
}

void parquet_group_end(struct parquet *p, struct parquet_column *columns, uint64_t rows, int sorted)
{
    struct chunk *chunks = memory_get(p->column_count, sizeof *chunks);
    uint64_t uncompressed = 0, compressed = 0;
    for (size_t i = 0; i < p->column_count; i++) {
        write_chunk(p, &columns[i], &chunks[i]);
        uncompressed += columns[i].uncompressed;
        compressed += chunks[i].compressed;
    }
    for (size_t i = 0; i < p->column_count; i++) {
        if (write_column_index(p, &columns[i])) {
            chunks[i].column_index = p->written;
            chunks[i].column_index_size = (uint32_t)p->maker.header.size;
            put(p, p->maker.header.data, p->maker.header.size);
        }
        write_offset_index(p, &columns[i], chunks[i].data);
        chunks[i].offset_index = p->written;
        chunks[i].offset_index_size = (uint32_t)p->maker.header.size;
        put(p, p->maker.header.data, p->maker.header.size);
    }
    struct thrift t = {.out = &p->groups};
    thrift_begin(&t);
    thrift_list(&t, 1, THRIFT_STRUCT, p->column_count);
    for (size_t i = 0; i < p->column_count; i++) {
        thrift_begin(&t);
        thrift_i64(&t, 2, chunks[i].start);
        put_meta_data(&t, &columns[i], &chunks[i]);
        thrift_i64(&t, 4, chunks[i].offset_index);
        thrift_i32(&t, 5, chunks[i].offset_index_size);
        if (chunks[i].column_index) {
            thrift_i64(&t, 6, chunks[i].column_index);
            thrift_i32(&t, 7, chunks[i].column_index_size);
        }
        thrift_end(&t);
        column_clear(&columns[i]);
    }
    thrift_i64(&t, 2, uncompressed);
    thrift_i64(&t, 3, rows);
    if (sorted >= 0) {
        thrift_list(&t, 4, THRIFT_STRUCT, 1);
        thrift_begin(&t);
        thrift_i32(&t, 1, sorted);
        thrift_bool(&t, 2, false);
        thrift_bool(&t, 3, false);
        thrift_end(&t);
    }
    thrift_i64(&t, 5, chunks[0].start);
    thrift_i64(&t, 6, compressed);
    thrift_end(&t);
    p->group_count++;
    p->rows += rows;
    free(chunks);
}

/* ---- footer ---- */

static void put_schema(struct thrift *t, const struct parquet *p)
{
    static const int converted[] = {[8] = 11, [16] = 12, [32] = 13, [64] = 14}; /* UINT_8, ... */
    thrift_list(t, 2, THRIFT_STRUCT, p->column_count + 1);
    thrift_begin(t);
    thrift_string(t, 4, p->name);
    thrift_i32(t, 5, (int64_t)p->column_count);
    thrift_end(t);
    for (size_t i = 0; i < p->column_count; i++) {
        const struct parquet_field *f = &p->columns[i].field;
        thrift_begin(t);
        thrift_i32(t, 1, column_type(f));
        thrift_i32(t, 3, f->optional);
        thrift_string(t, 4, f->name);
        if (f->type == PARQUET_STRING)
            thrift_i32(t, 6, 0); /* UTF8 */
        if (f->type == PARQUET_UINT)
            thrift_i32(t, 6, converted[f->bits]);
        thrift_i32(t, 9, (int64_t)i + 1);
        if (f->type == PARQUET_STRING || f->type == PARQUET_UINT) {
            thrift_begin_field(t, 10);
            thrift_begin_field(t, f->type == PARQUET_STRING ? 1 : 10);
            if (f->type == PARQUET_UINT) {
                thrift_field(t, 1, THRIFT_BYTE);
                out_char(t->out, (char)f->bits);
                thrift_bool(t, 2, false);
            }
            thrift_end(t);
            thrift_end(t);
        }
        thrift_end(t);
    }
}

/*
 * Metadata that tells pandas the types of the columns (pandas.pydata.org, "developer"). Without it
 * pandas turns numbers that may be null into floating point, which loses bits of 64-bit addresses.
 */
static void put_pandas(struct thrift *t, const struct parquet *p)
{
    static const struct {
        const char *kind, *array[2]; /* names for not null, may be null */
    } kinds[] = {
        {"bool", {"bool", "boolean"}},    {"unicode", {"object", "object"}},
        {"uint8", {"uint8", "UInt8"}},    {"uint16", {"uint16", "UInt16"}},
        {"uint32", {"uint32", "UInt32"}}, {"uint64", {"uint64", "UInt64"}},
    };
    struct out text;
    out_init(&text, -1);
    struct json json = json_to(&text);
    json_object(&json);
    for (unsigned i = 0; i < 2; i++) {
        json_name(&json, i ? "column_indexes" : "index_columns");
        json_array(&json);
        json_end(&json);
    }
    json_name(&json, "columns");
    json_array(&json);
    for (size_t i = 0; i < p->column_count; i++) {
        const struct parquet_field *f = &p->columns[i].field;
        size_t kind = f->type == PARQUET_BOOL     ? 0
                      : f->type == PARQUET_STRING ? 1
                      : f->bits == 8              ? 2
                      : f->bits == 16             ? 3
                      : f->bits == 32             ? 4
                                                  : 5;
        json_object(&json);
        JSON_MEMBER(&json, "name", string, f->name);
        JSON_MEMBER(&json, "field_name", string, f->name);
        JSON_MEMBER(&json, "pandas_type", string, kinds[kind].kind);
        JSON_MEMBER(&json, "numpy_type", string, kinds[kind].array[f->optional]);
        json_name(&json, "metadata");
        json_null(&json);
        json_end(&json);
    }
    json_end(&json);
    JSON_MEMBER(&json, "pandas_version", string,
                "1.0.0"); /* first version that knows these types */
    json_end(&json);
    out_char(&text, 0);
    thrift_begin(t);
    thrift_string(t, 1, "pandas");
    thrift_string(t, 2, text.data ? text.data : "");
    thrift_end(t);
    if (text.error)
        p->out->error = ENOMEM;
    out_fini(&text);
}

void parquet_end(struct parquet *p, const struct parquet_note *notes, size_t count,
                 const char *created_by)
{
    struct thrift t = {.out = &p->maker.header};
    char length[4];
    p->maker.header.size = 0;
    thrift_begin(&t);
    thrift_i32(&t, 1, 2);
    put_schema(&t, p);
    thrift_i64(&t, 3, p->rows);
    thrift_list(&t, 4, THRIFT_STRUCT, p->group_count);
    out_bytes(t.out, p->groups.data, p->groups.size);
    thrift_list(&t, 5, THRIFT_STRUCT, count + 1);
    for (size_t i = 0; i < count; i++) {
        thrift_begin(&t);
        thrift_string(&t, 1, notes[i].key);
        thrift_string(&t, 2, notes[i].value);
        thrift_end(&t);
    }
    put_pandas(&t, p);
    thrift_string(&t, 6, created_by);
    thrift_list(&t, 7, THRIFT_STRUCT, p->column_count);
    for (size_t i = 0; i < p->column_count; i++) {
        thrift_begin(&t);
        thrift_begin_field(&t, 1); /* the order that the type defines */
        thrift_end(&t);
        thrift_end(&t);
    }
    thrift_end(&t);
    if (p->maker.header.error || p->groups.error)
        p->out->error = ENOMEM;
    put(p, p->maker.header.data, p->maker.header.size);
    put_le32(length, (uint32_t)p->maker.header.size);
    put(p, length, 4);
    put(p, magic, 4);
    parquet_take_error(p, &p->maker);
    parquet_columns_free(p, p->columns);
    out_fini(&p->groups);
    parquet_maker_fini(&p->maker);
}
