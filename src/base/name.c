#include "name.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The character that text begins with, and its length in bytes; 0 if it is not UTF-8 (RFC
 * 3629).
 */
static size_t decode(const char *text, size_t size, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > size)
        return 0;
    uint32_t c = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *code = c;
    return n;
}

/*
 * Control characters, and characters that change how their neighbours are shown (Unicode's
 * Cf).
 */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
           (c >= 0x200b && c < 0x2010) || (c >= 0x2028 && c < 0x202f) ||
           (c >= 0x2060 && c < 0x2070) || c == 0xfeff || (c >= 0xfff9 && c < 0xfffc) ||
           (c >= 0xe0000 && c < 0xe1000);
}

size_t name_part(const char *text, size_t size, enum name_part *part)
{
    size_t plain = 0;
    while (plain < size) {
        unsigned char byte = (unsigned char)text[plain];
        uint32_t code;
        if (byte >= 0x20 && byte < 0x7f) {
            plain++;
            continue;
        }
        size_t n = decode(text + plain, size - plain, &code);
        if (n && !is_control(code)) {
            plain += n;
            continue;
        }
        if (plain)
            break;
        *part = n ? NAME_CONTROL : NAME_BROKEN;
        return n ? n : 1;
    }
    *part = NAME_PLAIN;
    return plain;
}

static void show_bytes(struct out *out, const char *text, size_t size, const char *before)
{
    for (size_t i = 0; i < size; i++) {
        out_text(out, before);
        out_hex_fixed(out, (unsigned char)text[i], 2);
    }
}

void out_name_bytes(struct out *out, const char *text, size_t size)
{
    enum name_part part;
    for (size_t n; size; text += n, size -= n) {
        n = name_part(text, size, &part);
        if (part == NAME_PLAIN)
            out_bytes(out, text, n);
        else
            show_bytes(out, text, n, "\\x");
    }
}

void out_name_utf8(struct out *out, const char *text)
{
    enum name_part part;
    for (size_t n, size = strlen(text); size; text += n, size -= n) {
        n = name_part(text, size, &part);
        if (part == NAME_BROKEN)
            show_bytes(out, text, n, "\\x");
        else
            out_bytes(out, text, n);
    }
}

void out_line(struct out *out, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n >= 0) {
        out_name_bytes(out, text, (size_t)n);
        free(text);
    } else if (!out->error) {
        out->error = ENOMEM;
    }
    out_char(out, '\n');
}

/*
 * Whether a spreadsheet would take text for a formula. Numbers and offsets like +0x38 are not
 * formulas.
 */
static bool is_formula(const char *text)
{
    char first = *text;
    if (first == '=' || first == '@')
        return true;
    if ((first != '+' && first != '-') || !text[1])
        return false;
    if (!strncmp(text + 1, "0x", 2))
        return text[3 + strspn(text + 3, "0123456789abcdef")] != 0;
    return text[1 + strspn(text + 1, "0123456789.eE+-")] != 0;
}

void out_name_csv(struct out *out, const char *text)
{
    const char *mark = is_formula(text) ? "'" : ""; /* marks the field as text in spreadsheets */
    if (!strpbrk(text, ",\"")) {
        out_text(out, mark);
        out_name(out, text);
        return;
    }
    out_char(out, '"');
    out_text(out, mark);
    for (;;) {
        size_t n = strcspn(text, "\"");
        out_name_bytes(out, text, n);
        text += n;
        if (!*text)
            break;
        out_text(out, "\"\"");
        text++;
    }
    out_char(out, '"');
}

/* \\uNNNN; a character beyond 16 bits takes two. */
static void escape_json(struct out *out, uint32_t code)
{
    if (code > 0xffff) {
        code -= 0x10000;
        escape_json(out, 0xd800 | code >> 10);
        code = 0xdc00 | (code & 0x3ff);
    }
    out_text(out, "\\u");
    out_hex_fixed(out, code, 4);
}

static void plain_json(struct out *out, const char *text, size_t size)
{
    while (size) {
        size_t n = 0;
        while (n < size && text[n] != '"' && text[n] != '\\')
            n++;
        out_bytes(out, text, n);
        if (n == size)
            break;
        out_char(out, '\\');
        out_char(out, text[n]);
        text += n + 1;
        size -= n + 1;
    }
}

void out_name_json(struct out *out, const char *text)
{
    enum name_part part;
    out_char(out, '"');
    for (size_t n, size = strlen(text); size; text += n, size -= n) {
        uint32_t code = 0;
        n = name_part(text, size, &part);
        if (part == NAME_PLAIN)
            plain_json(out, text, n);
        else if (part == NAME_CONTROL && decode(text, n, &code))
            escape_json(out, code);
        else
            show_bytes(out, text, n, "\\\\x");
    }
    out_char(out, '"');
}
