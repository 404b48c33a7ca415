#include "out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void out_init(struct out *out, int fd)
{
    *out = (struct out){.fd = fd};
    out_grow(out, OUT_ROOM);
}

int out_flush(struct out *out)
{
    size_t done = 0;
    if (out->fd < 0)
        return out->error;
    while (done < out->size && !out->error) {
        ssize_t n = write(out->fd, out->data + done, out->size - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            out->error = errno;
    }
    out->size = 0;
    return out->error;
}

int out_fini(struct out *out)
{
    int error = out_flush(out);
    free(out->data);
    out->data = NULL;
    out->size = out->capacity = 0;
    return error;
}

void out_grow(struct out *out, size_t need)
{
    enum { FILE_BUFFER = 256 * 1024 };
    size_t capacity = out->capacity;
    if (out->fd >= 0 && capacity) {
        out_flush(out);
        if (capacity >= need)
            return;
    }
    if (!capacity)
        capacity = out->fd >= 0 ? FILE_BUFFER : OUT_ROOM;
    while (capacity - out->size < need)
        capacity *= 2;
    char *data = realloc(out->data, capacity);
    if (!data) {
        /* Out of memory for text: nothing sensible is left to print. */
        fputs("spex: out of memory\n", stderr);
        abort();
    }
    out->data = data;
    out->capacity = capacity;
}

void out_bytes(struct out *out, const void *data, size_t size)
{
    const char *bytes = data;
    while (size > 0) {
        size_t n = size < OUT_ROOM ? size : OUT_ROOM;
        memcpy(out_room(out, n), bytes, n);
        out->size += n;
        bytes += n;
        size -= n;
    }
}

void out_u64(struct out *out, uint64_t value)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char text[20], *p = text + sizeof text;
    while (value >= 100) {
        p -= 2;
        memcpy(p, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10) {
        p -= 2;
        memcpy(p, pairs + 2 * value, 2);
    } else {
        *--p = (char)('0' + value);
    }
    size_t n = (size_t)(text + sizeof text - p);
    memcpy(out_room(out, sizeof text), p, n);
    out->size += n;
}

void out_i64(struct out *out, int64_t value)
{
    if (value < 0)
        out_char(out, '-');
    out_u64(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void out_hex_fixed(struct out *out, uint64_t value, unsigned digits)
{
    char *p = out_room(out, 16);
    for (unsigned i = 0; i < digits; i++)
        p[i] = "0123456789abcdef"[(value >> (4 * (digits - 1 - i))) & 15];
    out->size += digits;
}

void out_hex(struct out *out, uint64_t value)
{
    unsigned bits = value ? 64 - (unsigned)__builtin_clzll(value) : 1;
    out_hex_fixed(out, value, (bits + 3) / 4);
}

void out_json_string(struct out *out, const char *text)
{
    out_char(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            out_char(out, '\\');
            out_char(out, (char)c);
        } else if (c < 0x20 || c == 0x7f) {
            out_text(out, "\\u00");
            out_hex_fixed(out, c, 2);
        } else {
            out_char(out, (char)c);
        }
    }
    out_char(out, '"');
}

void out_printf(struct out *out, const char *format, ...)
{
    char text[OUT_ROOM];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0)
        out_bytes(out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}
