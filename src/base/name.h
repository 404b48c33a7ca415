/*
 * Output of names from files (symbols, commands, paths, messages). They may hold any byte: each
 * of these functions writes text that is valid UTF-8 and cannot affect a terminal.
 *
 * Text and CSV show a byte that is not UTF-8 as \\x and two digits, and likewise each byte of a
 * character that would move the cursor, end a line or change the direction of writing. JSON has
 * its own escapes for such characters; there only bytes that are not UTF-8 become \\xNN.
 */
#ifndef BASE_NAME_H
#define BASE_NAME_H

#include "base/out.h"

enum name_part {
    NAME_PLAIN,   /* safe to output as it is */
    NAME_CONTROL, /* one character that must be escaped */
    NAME_BROKEN   /* a byte that is not UTF-8 */
};

/*
 * Classifies the beginning of text and returns how many bytes that part takes; size is not
 * 0.
 */
size_t name_part(const char *text, size_t size, enum name_part *part);

void out_name_bytes(struct out *out, const char *text, size_t size);
static inline void out_name(struct out *out, const char *text)
{
    out_name_bytes(out, text, strlen(text));
}
/* A line of text that may contain names. */
void out_line(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * A field of CSV, in quotes if it needs them. Text that a spreadsheet would take for a formula
 * (it begins with =, @, + or - and is not a number) gets a leading '.
 */
void out_name_csv(struct out *out, const char *text);
/*
 * For formats that store lengths in bytes: the text unchanged, except that bytes that are
 * not UTF-8 become \\xNN.
 */
void out_name_utf8(struct out *out, const char *text);
/* A JSON string, with its quotes. */
void out_name_json(struct out *out, const char *text);

#endif
