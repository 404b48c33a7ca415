/*
 * Writes Thrift's compact protocol, which Parquet's headers and footers use. Begin a struct, write
 * its fields in order of their numbers, end it.
 */
#ifndef EXPORT_THRIFT_H
#define EXPORT_THRIFT_H

#include "base/out.h"

#include <assert.h>

enum thrift_type {
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_BYTE = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_STRUCT = 12
};

enum { THRIFT_DEPTH = 12 };

struct thrift {
    struct out *out;
    unsigned depth;
    unsigned last[THRIFT_DEPTH]; /* number of the field before, by depth */
};

static inline void thrift_varint(struct out *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        out_char(out, (char)(value | 0x80));
    out_char(out, (char)value);
}

static inline uint64_t thrift_zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline void thrift_field(struct thrift *t, unsigned number, enum thrift_type type)
{
    unsigned *last = &t->last[t->depth];
    assert(number > *last && number - *last < 16);
    out_char(t->out, (char)((number - *last) << 4 | type));
    *last = number;
}

/* A struct: the outermost, one in a list, or one in a field. */
static inline void thrift_begin(struct thrift *t)
{
    assert(t->depth + 1 < THRIFT_DEPTH);
    t->last[++t->depth] = 0;
}

static inline void thrift_begin_field(struct thrift *t, unsigned number)
{
    thrift_field(t, number, THRIFT_STRUCT);
    thrift_begin(t);
}

static inline void thrift_end(struct thrift *t)
{
    assert(t->depth);
    out_char(t->out, 0);
    t->depth--;
}

static inline void thrift_i32(struct thrift *t, unsigned number, int64_t value)
{
    thrift_field(t, number, THRIFT_I32);
    thrift_varint(t->out, thrift_zigzag(value));
}

static inline void thrift_i64(struct thrift *t, unsigned number, uint64_t value)
{
    thrift_field(t, number, THRIFT_I64);
    thrift_varint(t->out, thrift_zigzag((int64_t)value));
}

static inline void thrift_bool(struct thrift *t, unsigned number, bool value)
{
    thrift_field(t, number, value ? THRIFT_TRUE : THRIFT_FALSE);
}

static inline void thrift_bytes(struct thrift *t, const void *data, size_t size)
{
    thrift_varint(t->out, size);
    out_bytes(t->out, data, size);
}

static inline void thrift_binary(struct thrift *t, unsigned number, const void *data, size_t size)
{
    thrift_field(t, number, THRIFT_BINARY);
    thrift_bytes(t, data, size);
}

static inline void thrift_string(struct thrift *t, unsigned number, const char *text)
{
    thrift_binary(t, number, text, strlen(text));
}

/*
 * Begins a list; write structs with thrift_begin and end, texts with thrift_bytes, numbers by hand.
 */
static inline void thrift_list(struct thrift *t, unsigned number, enum thrift_type of, size_t count)
{
    thrift_field(t, number, THRIFT_LIST);
    if (count < 15) {
        out_char(t->out, (char)(count << 4 | of));
    } else {
        out_char(t->out, (char)(0xf0 | of));
        thrift_varint(t->out, count);
    }
}

#endif
