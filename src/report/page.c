/* The page around the data: the files of page/, combined by embed.py. */
#include "report/report.h"

#include "page.inc"

static void write_escaped(struct out *out, const char *text)
{
    struct out name;
    out_init(&name, -1);
    out_name(&name, text);
    for (size_t i = 0; i < name.size; i++)
        switch (name.data[i]) {
        case '&':
            out_text(out, "&amp;");
            break;
        case '<':
            out_text(out, "&lt;");
            break;
        case '>':
            out_text(out, "&gt;");
            break;
        default:
            out_char(out, name.data[i]);
        }
    out_fini(&name);
}

void report_page(struct out *out, const char *title, const char *data, size_t size)
{
    out_text(out, page_head);
    write_escaped(out, title);
    out_text(out, page_body);
    /* JSON has '<' in strings only; escaped like this, no name can end the script element */
    for (const char *end = data + size; data < end;) {
        const char *next = memchr(data, '<', (size_t)(end - data));
        out_block(out, data, (size_t)((next ? next : end) - data));
        if (next)
            out_text(out, "\\u003c");
        data = next ? next + 1 : end;
    }
    out_text(out, page_tail);
}
