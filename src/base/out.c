#include "out.h"

#include "base/digits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_BUFFER = 256 * 1024 };

static char nowhere[OUT_ROOM]; /* scratch space once memory has run out: written, never read */

void out_init(struct out *out, int fd)
{
    *out = (struct out){.fd = fd};
#ifdef F_SETPIPE_SZ
    if (fd >= 0) /* room for several buffers, so that spex need not wait for the reader */
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
    if (out->data != nowhere)
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
    char *data = realloc(out->data == nowhere ? NULL : out->data, capacity);
    if (!data) { /* the text is lost, and the error says so; callers still need room to write to */
        if (!out->error)
            out->error = ENOMEM;
        if (!out->data) {
            out->data = nowhere;
            out->capacity = OUT_ROOM;
        }
        out->size = 0;
        return;
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

void out_u64(struct out *out, uint64_t value)
{
    out->size = (size_t)(put_u64(out_room(out, DIGITS_ROOM), value) - out->data);
}

void out_i64(struct out *out, int64_t value)
{
    if (value < 0)
        out_char(out, '-');
    out_u64(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void out_hex_fixed(struct out *out, uint64_t value, unsigned digits)
{
    char *p = out_room(out, DIGITS_ROOM);
    value <<= 64 - 4 * digits;
    put_le64(p, hex_digits((uint32_t)(value >> 32)));
    if (digits > 8)
        put_le64(p + 8, hex_digits((uint32_t)value));
    out->size += digits;
}

void out_hex(struct out *out, uint64_t value)
{
    out->size = (size_t)(put_hex(out_room(out, DIGITS_ROOM), value) - out->data);
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
