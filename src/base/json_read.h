/*
 * JSON, read as a tree: for small files that spex wrote (with struct json of json.h) and people
 * may have edited. All values live as long as the document. Not thread-safe.
 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <spex/base.h>

enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

struct json_value {
    enum json_kind kind;
    const char *name; /* name of an object's member, else NULL */
    const char *text; /* STRING */
    uint64_t number;  /* NUMBER, if it is a whole number that fits */
    bool whole;
    const struct json_value *next; /* next value of the same array or object */
    const struct json_value *first;
};

struct json_document;

/*
 * text is copied. SPEX_INVALID: the error has the line and what is wrong there, and its offset
 * in bytes; nesting that is too deep is also an error.
 */
enum spex_status json_read(const char *text, size_t size, struct json_document **document,
                           struct spex_error *error);
const struct json_value *json_root(const struct json_document *document);
void json_forget(struct json_document *document);

/*
 * The first member with that name; NULL if there is none, or if value is NULL or not an
 * object.
 */
const struct json_value *json_member(const struct json_value *value, const char *name);
/* A string's text; a whole number that fits. False if value is something else, or NULL. */
bool json_get_text(const struct json_value *value, const char **text);
bool json_get_u64(const struct json_value *value, uint64_t *number);

#endif
