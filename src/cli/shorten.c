#include "shorten.h"

#include "base/memory.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

unsigned text_width(const char *text)
{
    unsigned n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Position after the bracket that closes the one at `open`; NULL if there is none. */
static const char *behind(const char *open)
{
    unsigned round = 0, angle = 0;
    for (const char *p = open; *p; p++) {
        round += *p == '(';
        angle += *p == '<' && !round;
        if (*p == ')' && round)
            round--;
        else if (*p == '>' && angle && !round && p[-1] != '-')
            angle--;
        if (!round && !angle)
            return p + 1;
    }
    return NULL;
}

/* Length of "operator" and its symbol; 0: text does not begin with it. */
static size_t operator_length(const char *text)
{
    static const char word[] = "operator";
    size_t n = sizeof word - 1;
    if (strncmp(text, word, n))
        return 0;
    if (!strncmp(text + n, "()", 2))
        return n + 2;
    return n + strspn(text + n, "<>=!+-*/%^&|~,");
}

static void fold(const char *text, bool templates, char *to)
{
    static const char unnamed[] = "(anonymous namespace)";
    enum { LEAST = 2 }; /* width of the dots */
    const char *before = text;
    bool closed = true; /* false once a bracket has no end, to avoid searching again */
    while (*text) {
        bool word = text > before && (isalnum((unsigned char)text[-1]) || text[-1] == '_');
        size_t whole = word ? 0 : operator_length(text);
        if (!whole && !strncmp(text, unnamed, sizeof unnamed - 1))
            whole = sizeof unnamed - 1;
        const char *end = NULL;
        if (!whole && closed && (*text == '(' || *text == '<')) {
            end = behind(text);
            closed = end != NULL;
        }
        if (end && (*text == '(' || templates) && end - text - 2 > LEAST) {
            *to++ = *text;
            *to++ = '.';
            *to++ = '.';
            *to++ = end[-1];
            text = end;
            continue;
        }
        whole = end ? (size_t)(end - text) : whole ? whole : 1;
        memcpy(to, text, whole);
        to += whole;
        text += whole;
    }
    *to = 0;
}

/* Where ":12" or "+0x1f0" begins at the end of the text; the end if there is neither. */
static const char *number_of(const char *text)
{
    const char *end = text + strlen(text), *plus = strrchr(text, '+'), *colon = strrchr(text, ':');
    if (plus && !strncmp(plus, "+0x", 3) && plus[3 + strspn(plus + 3, "0123456789abcdef")] == 0)
        return plus;
    if (colon && colon[1] && colon[1 + strspn(colon + 1, "0123456789")] == 0)
        return colon;
    return end;
}

/* Start of column n. */
static size_t column(const char *text, unsigned n)
{
    size_t i = 0;
    for (; text[i]; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80 && !n--)
            break;
    return i;
}

char *text_shortened(const char *text, unsigned width)
{
    enum { DOTS = 2, HEAD = 4 };
    char *to = memory_get(strlen(text) + 1, 1);
    strcpy(to, text);
    for (unsigned templates = 0; templates < 2 && text_width(to) > width; templates++)
        fold(text, templates, to);
    if (text_width(to) <= width)
        return to;
    const char *tail = number_of(to);
    unsigned keep = text_width(tail);
    if (keep + DOTS + HEAD > width)
        tail = to + strlen(to), keep = 0;
    if (width <= DOTS) {
        to[column(to, width)] = 0;
        return to;
    }
    size_t head = column(to, width - DOTS - keep);
    memmove(to + head + DOTS, tail, strlen(tail) + 1);
    memcpy(to + head, "..", DOTS);
    return to;
}
