/* A column of the row group at work: its dictionary, and its pages as they are made. */
#include "parquet_column.h"

#include "base/bits.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/order.h"
#include "export/pack.h"
#include "export/thrift.h"

#include <errno.h>

enum {
    LEVEL = 1,                 /* zstd's compression level */
    DICTIONARY_MOST = 1 << 15, /* entries; a larger dictionary does not pay */
    SLOTS_FIRST = 256
};

int column_type(const struct parquet_field *f)
{
    switch (f->type) {
    case PARQUET_BOOL:
        return BOOLEAN;
    case PARQUET_STRING:
        return BYTE_ARRAY;
    default:
        return f->bits == 64 ? INT64 : INT32;
    }
}

static unsigned plain_size(const struct parquet_field *f)
{
    return column_type(f) == INT32 ? 4 : 8;
}

void column_init(struct parquet_column *c, const struct parquet_field *field)
{
    c->field = *field;
    out_init(&c->pages, -1);
    c->by_value = field->type == PARQUET_UINT && field->bits <= 16;
    c->slot_count = c->by_value ? (size_t)1 << field->bits : SLOTS_FIRST;
    c->slots = memory_get(c->slot_count, sizeof *c->slots);
}

void column_fini(struct parquet_column *c)
{
    out_fini(&c->pages);
    free(c->plain);
    vec_free(&c->index);
    free(c->entries);
    free(c->slots);
}

/* It grew too large at once. */
bool parquet_gave_up(const struct parquet_column *c)
{
    return c->no_dictionary && !c->dictionary_pages;
}

void column_clear(struct parquet_column *c)
{
    c->no_dictionary = parquet_gave_up(c);
    c->pages.size = c->plain_size = 0;
    c->index.count = c->entry_count = 0;
    memset(c->slots, 0, c->slot_count * sizeof *c->slots);
    c->rows = c->nulls = c->uncompressed = 0;
    c->encodings = c->dictionary_pages = c->other_pages = 0;
    c->range = (struct parquet_range){0};
}

/* ---- dictionaries ---- */

static const char *entry_text(const struct parquet_column *c, uint64_t entry, size_t *size)
{
    const char *at = c->plain + c->entries[entry];
    *size = le32(at);
    return at + 4;
}

static uint64_t entry_hash(const struct parquet_column *c, uint64_t entry)
{
    if (c->field.type != PARQUET_STRING)
        return hash_word(hash_seed(), c->entries[entry]);
    size_t size;
    const char *text = entry_text(c, entry, &size);
    return hash_bytes(hash_seed(), text, size);
}

static void grow_slots(struct parquet_column *c)
{
    c->slot_count *= 2;
    free(c->slots);
    c->slots = memory_get(c->slot_count, sizeof *c->slots);
    for (size_t i = 0; i < c->entry_count; i++) {
        size_t at = entry_hash(c, i) & (c->slot_count - 1);
        while (c->slots[at])
            at = (at + 1) & (c->slot_count - 1);
        c->slots[at] = (uint32_t)i + 1;
    }
}

static uint32_t new_entry(struct parquet_column *c, size_t slot, uint64_t entry)
{
    uint32_t index = (uint32_t)c->entry_count;
    c->entries = memory_grow(c->entries, c->entry_count, &c->entry_capacity, sizeof *c->entries);
    c->entries[c->entry_count++] = entry;
    c->slots[slot] = index + 1;
    if (2 * c->entry_count > c->slot_count && !c->by_value)
        grow_slots(c);
    return index;
}

static char *plain_room(struct parquet_column *c, size_t size)
{
    if (c->plain_capacity - c->plain_size < size) {
        c->plain_capacity = 2 * c->plain_capacity + size;
        c->plain = memory_resize(c->plain, c->plain_capacity, 1);
    }
    c->plain_size += size;
    return c->plain + c->plain_size - size;
}

static void put_plain(struct out *out, const struct parquet_field *f, uint64_t value)
{
    char bytes[8];
    put_le64(bytes, value);
    out_bytes(out, bytes, plain_size(f));
}

static uint32_t new_number(struct parquet_column *c, size_t slot, uint64_t value)
{
    char bytes[8];
    put_le64(bytes, value);
    memcpy(plain_room(c, plain_size(&c->field)), bytes, plain_size(&c->field));
    return new_entry(c, slot, value);
}

static inline uint32_t entry_number(struct parquet_column *c, uint64_t value, uint64_t seed)
{
    size_t at = c->by_value ? value : hash_word(seed, value) & (c->slot_count - 1);
    for (; c->slots[at]; at = (at + 1) & (c->slot_count - 1))
        if (c->by_value || c->entries[c->slots[at] - 1] == value)
            return c->slots[at] - 1;
    return new_number(c, at, value);
}

uint32_t parquet_entry_number(struct parquet_column *c, uint64_t value)
{
    return entry_number(c, value, hash_seed());
}

uint32_t parquet_entry_text(struct parquet_column *c, const char *text, size_t size)
{
    size_t at = hash_bytes(hash_seed(), text, size) & (c->slot_count - 1), n;
    for (; c->slots[at]; at = (at + 1) & (c->slot_count - 1)) {
        const char *other = entry_text(c, c->slots[at] - 1, &n);
        if (n == size && !memcmp(other, text, n))
            return c->slots[at] - 1;
    }
    uint64_t begins = c->plain_size;
    char *entry = plain_room(c, 4 + size);
    put_le32(entry, (uint32_t)size);
    memcpy(entry + 4, text, size);
    return new_entry(c, at, begins);
}

int column_compare(const struct parquet_column *c, uint64_t a, uint64_t b)
{
    if (c->field.type == PARQUET_STRING) {
        size_t m, n;
        const char *x = entry_text(c, a, &m), *y = entry_text(c, b, &n);
        int order = memcmp(x, y, m < n ? m : n);
        return order ? order : m < n ? -1 : m > n;
    }
    return ORDER(a, b);
}

static void widen(const struct parquet_column *c, struct parquet_range *range, uint64_t value)
{
    if (!range->any || column_compare(c, value, range->least) < 0)
        range->least = value;
    if (!range->any || column_compare(c, value, range->most) > 0)
        range->most = value;
    range->any = true;
}

bool column_statistic(const struct parquet_column *c, uint64_t value, char bytes[STATISTIC_MOST],
                      size_t *size)
{
    if (c->field.type == PARQUET_STRING) {
        const char *text = entry_text(c, value, size);
        if (*size > STATISTIC_MOST)
            return false;
        memcpy(bytes, text, *size);
        return true;
    }
    put_le64(bytes, value);
    *size = c->field.type == PARQUET_BOOL ? 1 : plain_size(&c->field);
    return true;
}

/* ---- pages ---- */

void parquet_maker_init(struct parquet_maker *m)
{
    *m = (struct parquet_maker){.zstd = ZSTD_createCCtx()};
    out_init(&m->body, -1);
    out_init(&m->packed, -1);
    out_init(&m->header, -1);
    if (!m->zstd)
        m->error = ENOMEM;
}

void parquet_maker_fini(struct parquet_maker *m)
{
    out_fini(&m->body);
    out_fini(&m->packed);
    out_fini(&m->header);
    free(m->indices);
    free(m->levels);
    free(m->bits);
    ZSTD_freeCCtx(m->zstd);
}

static void page_header(struct parquet_maker *m, int type, size_t uncompressed, size_t values,
                        int encoding)
{
    struct thrift t = {.out = &m->header};
    m->header.size = 0;
    thrift_begin(&t);
    thrift_i32(&t, 1, type);
    thrift_i32(&t, 2, (int64_t)uncompressed);
    thrift_i32(&t, 3, (int64_t)m->packed.size);
    thrift_begin_field(&t, type == DATA_PAGE ? 5 : 7);
    thrift_i32(&t, 1, (int64_t)values);
    thrift_i32(&t, 2, encoding);
    if (type == DATA_PAGE) {
        thrift_i32(&t, 3, RLE);
        thrift_i32(&t, 4, RLE);
    }
    thrift_end(&t);
    thrift_end(&t);
}

static void compress(struct parquet_maker *m, const char *data, size_t size)
{
    size_t most = ZSTD_compressBound(size);
    m->packed.size = 0;
    if (m->packed.capacity < most)
        out_grow(&m->packed, most);
    if (m->packed.error || m->body.error || m->packed.capacity < most || !m->zstd) {
        m->error = ENOMEM;
        return;
    }
    size_t n = ZSTD_compressCCtx(m->zstd, m->packed.data, m->packed.capacity, data, size, LEVEL);
    if (ZSTD_isError(n))
        m->error = ENOMEM;
    else
        m->packed.size = n;
}

/* Definition levels: their size in four bytes, then the hybrid. */
static void put_levels(struct parquet_maker *m, const struct parquet_column *c,
                       const uint8_t *defined, size_t count, size_t rows)
{
    m->body.size = 0;
    if (!c->field.optional)
        return;
    out_bytes(&m->body, "\0\0\0", 4);
    if (count == rows || !count)
        pack_run(&m->body, count ? 1 : 0, rows, 1);
    else
        pack_bits(&m->body, defined, rows);
    put_le32(m->body.data, (uint32_t)(m->body.size - 4));
}

static void take_room(struct parquet_maker *m, size_t rows)
{
    if (rows <= m->room)
        return;
    m->room = rows;
    m->indices = memory_resize(m->indices, rows, sizeof *m->indices);
    m->levels = memory_resize(m->levels, rows, 1);
    m->bits = memory_resize(m->bits, rows, 1);
}

/* Notes the page, and counts it in what all of the column's pages have in common. */
static void plan(struct parquet_maker *m, struct parquet_column *c, int encoding, size_t rows,
                 size_t count, const struct parquet_range *range)
{
    m->page.encoding = encoding;
    m->page.rows = rows;
    m->page.count = count;
    m->page.range = *range;
    m->page.width = pack_width(c->entry_count ? c->entry_count - 1 : 0);
    c->encodings |= 1u << encoding | 1u << RLE;
    if (encoding == RLE_DICTIONARY)
        c->dictionary_pages++;
    else
        c->other_pages++, c->other_encoding = (unsigned)encoding;
    if (range->any) {
        widen(c, &c->range, range->least);
        widen(c, &c->range, range->most);
    }
}

/* Indices of a page, or one for all of it. */
static void put_indices(struct parquet_maker *m)
{
    out_char(&m->body, (char)m->page.width);
    if (m->page.same)
        pack_run(&m->body, m->indices[0], m->page.count, m->page.width);
    else if (m->page.count)
        pack_indices(&m->body, m->indices, m->page.count, m->page.width);
}

/* Booleans of a page; how many there are. */
static size_t map_bits(struct parquet_maker *m, const uint32_t *map, const uint32_t *ids,
                       size_t rows, bool some_null)
{
    size_t count = 0;
    if (!some_null) {
        for (size_t i = 0; i < rows; i++)
            m->bits[i] = (uint8_t)map[ids[i]];
        return rows;
    }
    for (size_t i = 0; i < rows; i++) {
        uint32_t value = map[ids[i]];
        m->bits[count] = (uint8_t)value;
        m->levels[i] = value != PARQUET_NULL;
        count += value != PARQUET_NULL;
    }
    return count;
}

void parquet_plan_mapped(struct parquet_maker *m, struct parquet_column *c, const uint32_t *map,
                         const uint32_t *ids, size_t rows, const uint32_t *used, size_t used_count)
{
    struct parquet_range range = {0};
    bool boolean = c->field.type == PARQUET_BOOL, some_null = false, same = true;
    bool number = c->field.type == PARQUET_UINT;
    for (size_t i = 0; i < used_count; i++) {
        uint32_t entry = map[used[i]];
        if (entry == PARQUET_NULL)
            some_null = true;
        else
            widen(c, &range, number ? c->entries[entry] : entry);
        same &= entry == map[used[0]];
    }
    take_room(m, rows ? rows : 1);
    size_t count = rows;
    if (same) {
        m->indices[0] = used_count ? map[used[0]] : 0;
        count = some_null ? 0 : rows;
    } else if (boolean) {
        count = map_bits(m, map, ids, rows, some_null);
    } else if (!some_null) {
        for (size_t i = 0; i < rows; i++)
            m->indices[i] = map[ids[i]];
    } else {
        count = 0;
        for (size_t i = 0; i < rows; i++) {
            uint32_t entry = map[ids[i]];
            m->indices[count] = entry;
            m->levels[i] = entry != PARQUET_NULL;
            count += entry != PARQUET_NULL;
        }
    }
    if (boolean && same)
        memset(m->bits, (int)m->indices[0], count);
    m->page.defined = m->levels;
    m->page.same = same;
    plan(m, c, boolean ? PLAIN : RLE_DICTIONARY, rows, count, &range);
}

static void forget_entries(struct parquet_column *c, size_t before)
{
    for (size_t i = before; c->by_value && i < c->entry_count; i++)
        c->slots[c->entries[i]] = 0;
    c->entry_count = before;
    c->plain_size = before * plain_size(&c->field);
    if (!c->by_value) {
        c->slot_count /= 2; /* grow_slots doubles it, and fills it again */
        grow_slots(c);
    }
}

static inline void extend(struct parquet_range *range, uint64_t value)
{
    range->least = value < range->least ? value : range->least;
    range->most = value > range->most ? value : range->most;
}

/*
 * Looks up the values' dictionary indices, with minimum and maximum. If there are too many values,
 * leaves the dictionary unchanged.
 */
static bool find_entries(struct parquet_maker *m, struct parquet_column *c, const uint64_t *values,
                         size_t count, struct parquet_range *range)
{
    size_t before = c->entry_count;
    uint32_t *indices = m->indices, last = 0;
    uint64_t seed = hash_seed(), value = 0;
    struct parquet_range found = {count, UINT64_MAX, 0};
    bool same = true;
    for (size_t i = 0; i < count; i++) {
        if (!i || values[i] != value) {
            same = !i;
            value = values[i];
            extend(&found, value);
            last = entry_number(c, value, seed);
            if (__builtin_expect(c->entry_count > DICTIONARY_MOST, 0)) {
                forget_entries(c, before);
                return false;
            }
        }
        indices[i] = last;
    }
    m->page.same = same && count;
    *range = found;
    return true;
}

void parquet_plan_numbers(struct parquet_maker *m, struct parquet_column *c, const uint64_t *values,
                          size_t count, const uint8_t *defined, size_t rows)
{
    struct parquet_range range = {count, UINT64_MAX, 0};
    take_room(m, rows ? rows : 1);
    int encoding = RLE_DICTIONARY;
    if (c->no_dictionary || c->field.ascending || !find_entries(m, c, values, count, &range)) {
        c->no_dictionary = true;
        for (size_t i = 0; i < count; i++)
            extend(&range, values[i]);
        encoding = column_type(&c->field) == INT64 ? DELTA : PLAIN;
    }
    m->page.values = values;
    m->page.defined = defined;
    plan(m, c, encoding, rows, count, &range);
}

void parquet_pack(struct parquet_maker *m, const struct parquet_column *c)
{
    const size_t count = m->page.count;
    put_levels(m, c, m->page.defined, count, m->page.rows);
    if (m->page.encoding == RLE_DICTIONARY)
        put_indices(m);
    else if (c->field.type == PARQUET_BOOL)
        pack_bools(&m->body, m->bits, count);
    else if (m->page.encoding == DELTA)
        pack_delta(&m->body, m->page.values, count);
    else
        for (size_t i = 0; i < count; i++)
            put_plain(&m->body, &c->field, m->page.values[i]);
    compress(m, m->body.data, m->body.size);
    page_header(m, DATA_PAGE, m->body.size, m->page.rows, m->page.encoding);
}

void parquet_add(struct parquet_maker *m, struct parquet_column *c)
{
    const size_t nulls = m->page.rows - m->page.count;
    struct parquet_page *page = vec_push(&c->index);
    if (!page) {
        m->error = ENOMEM;
        return;
    }
    *page = (struct parquet_page){.offset = c->pages.size,
                                  .size = (uint32_t)(m->header.size + m->packed.size),
                                  .first_row = c->rows,
                                  .nulls = nulls,
                                  .range = m->page.range};
    out_bytes(&c->pages, m->header.data, m->header.size);
    out_bytes(&c->pages, m->packed.data, m->packed.size);
    c->rows += m->page.rows;
    c->nulls += nulls;
    c->uncompressed += m->header.size + m->body.size;
}

void column_dictionary(struct parquet_maker *m, struct parquet_column *c)
{
    compress(m, c->plain, c->plain_size);
    page_header(m, DICTIONARY_PAGE, c->plain_size, c->entry_count, PLAIN);
    c->uncompressed += m->header.size + c->plain_size;
    c->encodings |= 1u << PLAIN;
}
