/*
 * Buffered text output without printf on the hot path: to a file descriptor, or
 * into growing memory when fd is negative. Errors stick: check once, at the end.
 * The put_* functions write unterminated text and never fail visibly.
 */
#ifndef BASE_OUT_H
#define BASE_OUT_H

#include <spex/base.h>

#include <string.h>

struct out {
    char *data;
    size_t size, capacity;
    int fd;    /* -1: keep in memory */
    int error; /* errno of the first failed write, or ENOMEM */
};

enum { OUT_ROOM = 4096 }; /* the most that one call of out_room can guarantee */

void out_init(struct out *out, int fd);
/* Flushes; returns 0 or the errno that stuck. Frees the buffer. */
int out_fini(struct out *out);
int out_flush(struct out *out);
/* Same text as out_bytes, but large blocks go straight to the file. */
void out_block(struct out *out, const char *data, size_t size);
void out_grow(struct out *out, size_t need);

/* Make sure that n bytes can be stored at data + size; n <= OUT_ROOM. */
static inline char *out_room(struct out *out, size_t n)
{
    if (__builtin_expect(out->capacity - out->size < n, 0))
        out_grow(out, n);
    return out->data + out->size;
}

void out_bytes_slow(struct out *out, const void *data, size_t size);

/* Inline: with a constant text it compiles to a few moves. */
static inline __attribute__((always_inline)) void out_bytes(struct out *out, const void *data,
                                                            size_t size)
{
    if (__builtin_expect(out->capacity - out->size >= size, 1)) {
        memcpy(out->data + out->size, data, size);
        out->size += size;
    } else {
        out_bytes_slow(out, data, size);
    }
}

static inline void out_char(struct out *out, char c)
{
    *out_room(out, 1) = c;
    out->size++;
}

static inline __attribute__((always_inline)) void out_text(struct out *out, const char *text)
{
    out_bytes(out, text, __builtin_strlen(text));
}

void out_u64(struct out *out, uint64_t value);
void out_i64(struct out *out, int64_t value);
void out_hex(struct out *out, uint64_t value); /* no 0x, no leading zeros */
void out_hex_fixed(struct out *out, uint64_t value, unsigned digits);
void out_printf(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
