#include "base/json_read.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 32, BLOCK = 64 };

/* Values live in blocks, so that they never move. */
struct block {
    struct block *before;
    struct json_value value[BLOCK];
};

struct json_document {
    char *text;
    struct block *blocks;
    size_t used; /* values used in the newest block */
    struct json_value root;
};

struct reader {
    struct json_document *document;
    char *at, *end;
    const char *problem;
};

static bool fail(struct reader *r, const char *problem)
{
    if (!r->problem)
        r->problem = problem;
    return false;
}

static struct json_value *new_value(struct reader *r)
{
    struct json_document *d = r->document;
    if (!d->blocks || d->used == BLOCK) {
        struct block *block = malloc(sizeof *block);
        if (!block) {
            fail(r, "out of memory");
            return NULL;
        }
        block->before = d->blocks;
        d->blocks = block;
        d->used = 0;
    }
    return memset(&d->blocks->value[d->used++], 0, sizeof(struct json_value));
}

static char peek(struct reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at))
        r->at++;
    return *r->at; /* 0 at the end of the text */
}

static bool take(struct reader *r, char c)
{
    bool is = peek(r) == c;
    r->at += is;
    return is;
}

/* ---- strings ---- */

static bool read_hex(struct reader *r, uint32_t *code)
{
    *code = 0;
    for (unsigned i = 0; i < 4; i++, r->at++) {
        if (!isxdigit((unsigned char)*r->at))
            return fail(r, "\\u takes four hexadecimal digits");
        int c = tolower((unsigned char)*r->at);
        *code = *code << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static char *put_utf8(char *to, uint32_t code)
{
    unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(first[more] | code >> 6 * more);
    while (more--)
        *to++ = (char)(0x80 | (code >> 6 * more & 0x3f));
    return to;
}

static char *read_escape(struct reader *r, char *to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint32_t code, low;
    char c = *r->at++;
    const char *known = c ? strchr(names, c) : NULL;
    if (known) {
        *to++ = values[known - names];
        return to;
    }
    if (c != 'u') {
        r->at--;
        fail(r, "an escape that JSON does not have");
        return to;
    }
    if (!read_hex(r, &code))
        return to;
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->at[0] != '\\' || r->at[1] != 'u' || (r->at += 2, !read_hex(r, &low)) ||
            low < 0xdc00 || low >= 0xe000) {
            fail(r, "half of a surrogate pair");
            return to;
        }
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    }
    if (!code || (code >= 0xdc00 && code < 0xe000)) {
        fail(r, "a character that text cannot hold");
        return to;
    }
    return put_utf8(to, code);
}

/* Unescapes in place: the text only gets shorter. */
static bool read_string(struct reader *r, const char **text)
{
    if (!take(r, '"'))
        return fail(r, "a string is missing");
    char *to = r->at;
    *text = to;
    while (!r->problem && *r->at != '"') {
        if ((unsigned char)*r->at < ' ')
            return fail(r, "the string has no end");
        if (*r->at == '\\') {
            r->at++;
            to = read_escape(r, to);
        } else {
            *to++ = *r->at++;
        }
    }
    if (r->problem)
        return false;
    r->at++;
    *to = '\0';
    return true;
}

/* ---- numbers and words ---- */

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

static bool read_number(struct reader *r, struct json_value *value)
{
    const char *p = r->at + (*r->at == '-');
    size_t whole = digits(p);
    if (!whole || (*p == '0' && whole > 1))
        return fail(r, "neither a value nor its end");
    value->kind = JSON_NUMBER;
    errno = 0;
    value->number = strtoull(r->at, NULL, 10);
    value->whole = p == r->at && !errno && !strchr(".eE", p[whole] ? p[whole] : ' ');
    p += whole;
    if (*p == '.') {
        size_t part = digits(p + 1);
        if (!part)
            return fail(r, "a number ends with a point");
        p += 1 + part;
    }
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        if (!digits(p))
            return fail(r, "a number without its exponent");
        p += digits(p);
    }
    r->at += p - r->at;
    return true;
}

static bool read_word(struct reader *r, struct json_value *value)
{
    static const struct {
        const char *word;
        enum json_kind kind;
    } words[] = {{"null", JSON_NULL}, {"true", JSON_TRUE}, {"false", JSON_FALSE}};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp(r->at, words[i].word, strlen(words[i].word))) {
            value->kind = words[i].kind;
            r->at += strlen(words[i].word);
            return true;
        }
    return read_number(r, value);
}

/* ---- arrays and objects ---- */

static bool read_value(struct reader *r, struct json_value *value, unsigned depth);

static bool read_members(struct reader *r, struct json_value *value, char last, unsigned depth)
{
    const struct json_value **link = &value->first;
    bool object = last == '}';
    r->at++;
    if (take(r, last))
        return true;
    if (!depth)
        return fail(r, "nested too deeply");
    do {
        struct json_value *member = new_value(r);
        if (!member)
            return false;
        if (object) {
            if (!read_string(r, &member->name))
                return false;
            if (!take(r, ':'))
                return fail(r, "a colon is missing");
        }
        if (!read_value(r, member, depth - 1))
            return false;
        *link = member;
        link = &member->next;
    } while (take(r, ','));
    return take(r, last) || fail(r, object ? "a comma or } is missing" : "a comma or ] is missing");
}

static bool read_value(struct reader *r, struct json_value *value, unsigned depth)
{
    switch (peek(r)) {
    case '{':
        value->kind = JSON_OBJECT;
        return read_members(r, value, '}', depth);
    case '[':
        value->kind = JSON_ARRAY;
        return read_members(r, value, ']', depth);
    case '"':
        value->kind = JSON_STRING;
        return read_string(r, &value->text);
    default:
        return read_word(r, value);
    }
}

enum spex_status json_read(const char *text, size_t size, struct json_document **out,
                           struct spex_error *error)
{
    struct json_document *d = calloc(1, sizeof *d);
    if (!d || !(d->text = malloc(size + 1))) {
        free(d);
        return error_set(error, SPEX_NO_MEMORY, 0, "out of memory");
    }
    memcpy(d->text, text, size);
    d->text[size] = '\0';
    struct reader r = {.document = d, .at = d->text, .end = d->text + size};
    if (read_value(&r, &d->root, DEPTH) && (peek(&r), r.at != r.end))
        fail(&r, *r.at ? "something follows the end" : "a byte of zero");
    if (!r.problem) {
        *out = d;
        return SPEX_OK;
    }
    size_t at = (size_t)(r.at - d->text);
    unsigned line = 1;
    for (size_t i = 0; i < at && i < size; i++)
        line += text[i] == '\n';
    json_forget(d);
    return error_set(error, SPEX_INVALID, at, "line %u: %s", line, r.problem);
}

void json_forget(struct json_document *d)
{
    for (struct block *block = d ? d->blocks : NULL, *before; block; block = before) {
        before = block->before;
        free(block);
    }
    free(d ? d->text : NULL);
    free(d);
}

/* ---- use ---- */

const struct json_value *json_root(const struct json_document *d)
{
    return &d->root;
}

const struct json_value *json_member(const struct json_value *value, const char *name)
{
    const struct json_value *member = value && value->kind == JSON_OBJECT ? value->first : NULL;
    while (member && strcmp(member->name, name))
        member = member->next;
    return member;
}

bool json_get_text(const struct json_value *value, const char **text)
{
    if (!value || value->kind != JSON_STRING)
        return false;
    *text = value->text;
    return true;
}

bool json_get_u64(const struct json_value *value, uint64_t *number)
{
    if (!value || value->kind != JSON_NUMBER || !value->whole)
        return false;
    *number = value->number;
    return true;
}
