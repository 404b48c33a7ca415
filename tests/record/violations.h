/* Rows of violations.def as bytes. */
#ifndef TESTS_VIOLATIONS_H
#define TESTS_VIOLATIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct violation_row {
    const char *rule, *requirements, *features, *bytes, *repaired;
};

static const struct violation_row violation_rows[] = {
#define VIOLATION(rule, requirements, features, bytes, repaired)                                   \
    {rule, requirements, features, bytes, repaired},
#include "violations.def"
};

enum { VIOLATION_ROWS = sizeof violation_rows / sizeof violation_rows[0] };

/* Hexadecimal text to bytes; *mark is where ^ stands. Returns the size. */
static inline size_t violation_bytes(const char *text, uint8_t *out, size_t *mark)
{
    size_t size = 0;
    for (; *text; text++) {
        if (*text == '^') {
            *mark = size;
        } else if (*text != ' ') {
            char pair[3] = {text[0], text[1], 0};
            out[size++] = (uint8_t)strtoul(pair, NULL, 16);
            text++;
        }
    }
    return size;
}

#endif
