#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_BUFFER = 256 * 1024 };

void out_init(struct out *out, int fd)
{
    *out = (struct out){.fd = fd};
#ifdef F_SETPIPE_SZ
    if (fd >= 0) /* room for several buffers, so that the reader is not waited for */
        fcntl(fd, F_SETPIPE_SZ, 4 * FILE_BUFFER);
#endif
    out_grow(out, OUT_ROOM);
}

static void write_all(struct out *out, const char *data, size_t size)
{
    size_t done = 0;
    while (done < size && !out->error) {
        ssize_t n = write(out->fd, data + done, size - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            out->error = errno;
    }
}

int out_flush(struct out *out)
{
    if (out->fd < 0)
        return out->error;
    write_all(out, out->data, out->size);
    out->size = 0;
    return out->error;
}

void out_block(struct out *out, const char *data, size_t size)
{
    if (out->fd < 0 || size < 8 * OUT_ROOM) {
        out_bytes(out, data, size);
    } else {
        out_flush(out);
        write_all(out, data, size);
    }
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

void out_bytes_slow(struct out *out, const void *data, size_t size)
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

/* "00" to "99", and "00" to "ff". */
static const char decimal[] = "00010203040506070809101112131415161718192021222324252627282930313233"
                              "34353637383940414243444546474849505152535455565758596061626364656667"
                              "6869707172737475767778798081828384858687888990919293949596979899";
#define HEX16(h)                                                                                   \
    h "0" h "1" h "2" h "3" h "4" h "5" h "6" h "7" h "8" h "9" h "a" h "b" h "c" h "d" h "e" h "f"
static const char hexadecimal[] = HEX16("0") HEX16("1") HEX16("2") HEX16("3") HEX16("4") HEX16("5")
    HEX16("6") HEX16("7") HEX16("8") HEX16("9") HEX16("a") HEX16("b") HEX16("c") HEX16("d")
    HEX16("e") HEX16("f");

static unsigned decimal_digits(uint64_t value)
{
    unsigned digits = 1;
    for (; value >= 10000; value /= 10000)
        digits += 4;
    return digits + (value >= 10) + (value >= 100) + (value >= 1000);
}

void out_u64(struct out *out, uint64_t value)
{
    char *p = out_room(out, 20);
    if (value < 10) {
        *p = (char)('0' + value);
        out->size++;
        return;
    }
    unsigned digits = decimal_digits(value);
    out->size += digits;
    for (p += digits; value >= 100; value /= 100)
        memcpy(p -= 2, decimal + 2 * (value % 100), 2);
    if (value >= 10)
        memcpy(p - 2, decimal + 2 * value, 2);
    else
        p[-1] = (char)('0' + value);
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
    out->size += digits;
    for (p += digits; digits >= 2; digits -= 2, value >>= 8)
        memcpy(p -= 2, hexadecimal + 2 * (value & 255), 2);
    if (digits)
        p[-1] = hexadecimal[2 * (value & 15) + 1];
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
