/*
 * JSON, written straight to an output: json_object, then json_name and a value for each member,
 * json_end. Commas come by themselves. Header only: with constant names it is a few moves.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/name.h"

#include <assert.h>

enum { JSON_DEPTH = 16 };

struct json {
    struct out *out;
    unsigned depth;
    struct {
        bool any, array, lines; /* has a member; is an array; each member on a line of its own */
    } level[JSON_DEPTH];
    bool named; /* the name of the value to come has been written */
};

static inline struct json json_to(struct out *out)
{
    return (struct json){.out = out};
}

static inline void json_line(struct json *json)
{
    out_char(json->out, '\n');
    for (unsigned i = 0; i < json->depth; i++)
        out_char(json->out, ' ');
}

/* What stands before a member: the comma, a new line. */
static inline void json_begin(struct json *json)
{
    bool named = json->named, any = json->level[json->depth].any;
    json->named = false;
    json->level[json->depth].any = true;
    if (named || !json->depth)
        return;
    if (any)
        out_char(json->out, ',');
    if (json->level[json->depth].lines && (any || json->level[json->depth].array))
        json_line(json);
}

static inline void json_open(struct json *json, bool array, bool lines)
{
    assert(json->depth + 1 < JSON_DEPTH);
    json_begin(json);
    out_char(json->out, array ? '[' : '{');
    json->depth++;
    json->level[json->depth].any = false;
    json->level[json->depth].array = array;
    json->level[json->depth].lines = lines;
}

static inline void json_object(struct json *json)
{
    json_open(json, false, false);
}

static inline void json_array(struct json *json)
{
    json_open(json, true, false);
}

/* The same with each member on a line. */
static inline void json_object_lines(struct json *json)
{
    json_open(json, false, true);
}

static inline void json_array_lines(struct json *json)
{
    json_open(json, true, true);
}

/* Ends the innermost array or object; behind the outermost comes a new line. */
static inline void json_end(struct json *json)
{
    assert(json->depth && !json->named);
    bool array = json->level[json->depth].array;
    bool line = array && json->level[json->depth].any && json->level[json->depth].lines;
    json->depth--;
    if (line)
        json_line(json);
    out_char(json->out, array ? ']' : '}');
    if (!json->depth)
        out_char(json->out, '\n');
}

/* name is a literal without anything to escape. */
static inline __attribute__((always_inline)) void json_name(struct json *json, const char *name)
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

static inline void json_u64(struct json *json, uint64_t value)
{
    json_begin(json);
    out_u64(json->out, value);
}

static inline void json_i64(struct json *json, int64_t value)
{
    json_begin(json);
    out_i64(json->out, value);
}

/* "0x4a20c0": JSON's numbers are not wide enough for addresses everywhere. */
static inline void json_hex(struct json *json, uint64_t value)
{
    json_begin(json);
    out_text(json->out, "\"0x");
    out_hex(json->out, value);
    out_char(json->out, '"');
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

#define JSON_MEMBER(json, name, kind, value) (json_name(json, name), json_##kind(json, value))

#endif
