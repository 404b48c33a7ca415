/*
 * JSON, written straight to an output: json_object, then json_name and a value for each member,
 * then json_end. Commas are inserted as needed. Header only: with constant names it compiles to
 * a few moves.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/name.h"

#include <assert.h>
#include <math.h>

/* If members are constants, the compiler tracks the state, so it costs nothing. */
#define JSON_INLINE static inline __attribute__((always_inline))

/* Bit 0 stands for the innermost array or object, bit 1 for the one around it, and so on. */
struct json {
    struct out *out;
    unsigned depth;
    /* whether it has a member; is an array; puts each member on its own line */
    uint32_t any, array, lines;
    bool named; /* the name of the next value has been written */
};

JSON_INLINE struct json json_to(struct out *out)
{
    return (struct json){.out = out};
}

/* Continues an outermost object that already has a member. */
JSON_INLINE struct json json_resume(struct out *out)
{
    return (struct json){.out = out, .depth = 1, .any = 1};
}

static inline void json_line(struct json *json)
{
    out_char(json->out, '\n');
    for (unsigned i = 0; i < json->depth; i++)
        out_char(json->out, ' ');
}

/* Writes what comes before a member: the comma, the new line. */
JSON_INLINE void json_begin(struct json *json)
{
    bool named = json->named, any = json->any & 1;
    json->named = false;
    json->any |= 1;
    if (named || !json->depth)
        return;
    if (any)
        out_char(json->out, ',');
    if ((json->lines & 1) && (any || (json->array & 1)))
        json_line(json);
}

/* text: the opening bracket, and perhaps a first member's name. */
JSON_INLINE void json_open(struct json *json, bool array, bool lines, const char *text)
{
    assert(json->depth < 31);
    json_begin(json);
    out_text(json->out, text);
    json->depth++;
    json->any <<= 1;
    json->array = json->array << 1 | array;
    json->lines = json->lines << 1 | lines;
}

JSON_INLINE void json_object(struct json *json)
{
    json_open(json, false, false, "{");
}

JSON_INLINE void json_array(struct json *json)
{
    json_open(json, true, false, "[");
}

/* An object with each member on its own line. */
JSON_INLINE void json_object_lines(struct json *json)
{
    json_open(json, false, true, "{");
}

JSON_INLINE void json_array_lines(struct json *json)
{
    json_open(json, true, true, "[");
}

/* Ends the innermost array or object; a new line follows the outermost one. */
JSON_INLINE void json_end(struct json *json)
{
    assert(json->depth && !json->named);
    bool array = json->array & 1, line = array && json->any & json->lines & 1;
    json->depth--;
    json->any >>= 1;
    json->array >>= 1;
    json->lines >>= 1;
    if (line)
        json_line(json);
    out_char(json->out, array ? ']' : '}');
    if (!json->depth)
        out_char(json->out, '\n');
}

/* name is a literal without anything to escape. */
JSON_INLINE void json_name(struct json *json, const char *name)
{
    json_begin(json);
    out_char(json->out, '"');
    out_text(json->out, name);
    out_text(json->out, "\":");
    json->named = true;
}

/* ---- values ---- */

static inline void json_null(struct json *json)
{
    json_begin(json);
    out_text(json->out, "null");
}

static inline void json_bool(struct json *json, bool value)
{
    json_begin(json);
    out_text(json->out, value ? "true" : "false");
}

JSON_INLINE void json_u64(struct json *json, uint64_t value)
{
    json_begin(json);
    out_u64(json->out, value);
}

JSON_INLINE void json_i64(struct json *json, int64_t value)
{
    json_begin(json);
    out_i64(json->out, value);
}

/* "0x4a20c0": a string, since JSON numbers are not wide enough for addresses everywhere. */
JSON_INLINE void json_hex(struct json *json, uint64_t value)
{
    json_begin(json);
    out_text(json->out, "\"0x");
    out_hex(json->out, value);
    out_char(json->out, '"');
}

/* null if value is not finite. */
static inline void json_real(struct json *json, double value)
{
    json_begin(json);
    if (isfinite(value))
        out_printf(json->out, "%.6g", value);
    else
        out_text(json->out, "null");
}

/* Any text; NULL is null. */
static inline void json_string(struct json *json, const char *text)
{
    json_begin(json);
    if (text)
        out_name_json(json->out, text);
    else
        out_text(json->out, "null");
}

/* A word of our own tables, which has nothing to escape. */
JSON_INLINE void json_word(struct json *json, const char *word)
{
    json_begin(json);
    out_char(json->out, '"');
    out_text(json->out, word);
    out_char(json->out, '"');
}

/* Bytes as pairs of hexadecimal digits: "b0d0". */
JSON_INLINE void json_bytes(struct json *json, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    json_begin(json);
    out_char(json->out, '"');
    for (size_t i = 0; i < count; i++) {
        char *p = out_room(json->out, 2);
        p[0] = digits[bytes[i] >> 4];
        p[1] = digits[bytes[i] & 15];
        json->out->size += 2;
    }
    out_char(json->out, '"');
}

/* name includes its comma, quotes and colon. */
JSON_INLINE void json_literal(struct json *json, const char *name)
{
    if ((json->any & ~json->lines & 1) && json->depth) {
        out_text(json->out, name);
    } else {
        json_begin(json);
        out_text(json->out, name + 1);
    }
    json->named = true;
}

/* An object and the name of its first member; text includes the brace, quotes and colon. */
JSON_INLINE void json_object_literal(struct json *json, const char *name)
{
    json_open(json, false, false, name);
    json->any |= 1;
    json->named = true;
}

/* A member whose name is a literal, and the variant for the first member of a new object. */
#define JSON_MEMBER(json, name, kind, ...)                                                         \
    (json_literal(json, ",\"" name "\":"), json_##kind(json, __VA_ARGS__))
#define JSON_FIRST(json, name, kind, ...)                                                          \
    (json_object_literal(json, "{\"" name "\":"), json_##kind(json, __VA_ARGS__))

#endif
