/* Reads numbers one after the other in the byte order of the file, never past the end. */
#ifndef PERFDATA_CURSOR_H
#define PERFDATA_CURSOR_H

#include "perfdata/file.h"

struct cursor {
    struct spex_perfdata *file;
    const uint8_t *bytes;
    size_t position, end;
    /* the end was reached: missing numbers read as 0, and so does everything after them */
    bool cut;
    /* event.c: where swapped or unaligned arrays go */
    uint64_t *room;
    size_t room_used;
    /* features.c: offset of the bytes in the file, for messages */
    uint64_t offset;
};

static inline const uint8_t *take(struct cursor *c, size_t size)
{
    if (c->cut || c->end - c->position < size) {
        c->cut = true;
        return NULL;
    }
    c->position += size;
    return c->bytes + c->position - size;
}

static inline uint64_t take64(struct cursor *c)
{
    const uint8_t *p = take(c, 8);
    return p ? get64(c->file, p) : 0;
}

static inline uint32_t take32(struct cursor *c)
{
    const uint8_t *p = take(c, 4);
    return p ? get32(c->file, p) : 0;
}

#endif
