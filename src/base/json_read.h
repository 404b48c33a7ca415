/*
 * JSON, read as a tree: for small files of our own making that people may have edited (struct json
 * of json.h writes them). All values live as long as the document. Not safe for several threads.
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
    const char *name; /* of a member of an object, else NULL */
    const char *text; /* STRING */
    uint64_t number;  /* NUMBER, if it is whole and fits */
    bool whole;
    const struct json_value *next; /* in its array or object */
    const struct json_value *first;
};

struct json_document;

/*
 * text is copied. SPEX_INVALID with the line and what is wrong there, at error->offset in bytes;
 * also for what is nested too deeply.
 */
enum spex_status json_read(const char *text, size_t size, struct json_document **document,
                           struct spex_error *error);
const struct json_value *json_root(const struct json_document *document);
void json_forget(struct json_document *document);

/* The first member of that name, NULL if there is none or value is no object (NULL, too). */
const struct json_value *json_member(const struct json_value *value, const char *name);
/* A string's text; a whole number that fits. False: it is something else, or NULL. */
bool json_get_text(const struct json_value *value, const char **text);
bool json_get_u64(const struct json_value *value, uint64_t *number);

#endif
