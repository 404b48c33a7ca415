#include "jit.h"

#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

enum { DUMP_MAGIC = 0x4a695444, DUMP_HEADER = 40, DUMP_RECORD = 16 };

static bool is_named(const char *path, const char *prefix, const char *tail)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(prefix),
           digits = strncmp(name, prefix, n) ? 0 : strspn(name + n, "0123456789");
    return digits && !strcmp(name + n + digits, tail);
}

bool jit_is_map(const char *path)
{
    return is_named(path, "perf-", ".map");
}

bool jit_is_dump(const char *path)
{
    return is_named(path, "jit-", ".dump");
}

int64_t jit_dump_pid(const char *data, size_t size)
{
    return size >= DUMP_HEADER && le32(data) == DUMP_MAGIC ? (int64_t)le32(data + 20) : -1;
}

static void read_map(const char *data, size_t size, jit_sink *sink, void *context)
{
    for (size_t at = 0, next; at < size; at = next) {
        const char *line = data + at, *newline = memchr(line, '\n', size - at);
        size_t length = newline ? (size_t)(newline - line) : size - at;
        next = at + length + 1;
        char numbers[64], *end, *name;
        size_t n = length < sizeof numbers - 1 ? length : sizeof numbers - 1;
        memcpy(numbers, line, n);
        numbers[n] = 0;
        uint64_t start = strtoull(numbers, &end, 16);
        if (end == numbers || *end != ' ')
            continue;
        uint64_t bytes = strtoull(end + 1, &name, 16);
        size_t before = (size_t)(name - numbers) + 1;
        if (name == end + 1 || *name != ' ' || before >= length)
            continue;
        sink(context, &(struct jit_code){.end = at + length,
                                         .start = start,
                                         .length = bytes,
                                         .name = line + before,
                                         .name_length = length - before});
    }
}

/* Functions loaded recently, for MOVE records. */
enum { REMEMBERED = 4096 };
struct loaded {
    uint64_t index;
    const char *name;
    size_t length;
};

static void read_dump(const char *data, size_t size, jit_sink *sink, void *context)
{
    enum { LOAD, MOVE };
    struct loaded *loaded = calloc(REMEMBERED, sizeof *loaded);
    size_t loads = 0, at = le32(data + 8); /* size of the header */
    if (at < DUMP_HEADER)
        at = DUMP_HEADER;
    while (loaded && at < size && size - at >= DUMP_RECORD) {
        const char *p = data + at;
        uint32_t id = le32(p), total = le32(p + 4);
        if (total < DUMP_RECORD || total > size - at)
            break; /* the compiler was killed while writing */
        at += total;
        /* pid, tid, vma, then LOAD: address, size, index, name; MOVE: old, new, size, index */
        struct jit_code code = {.time = le64(p + 8), .end = at};
        if (id == LOAD && total > 56) {
            code.start = le64(p + 32);
            code.length = le64(p + 40);
            code.name = p + 56;
            code.name_length = strnlen(p + 56, total - 56);
            loaded[loads++ % REMEMBERED] =
                (struct loaded){le64(p + 48), code.name, code.name_length};
        } else if (id == MOVE && total >= 64) {
            code.start = le64(p + 40);
            code.length = le64(p + 48);
            for (size_t i = 0; i < REMEMBERED && i < loads && !code.name; i++) {
                const struct loaded *l = &loaded[(loads - 1 - i) % REMEMBERED];
                if (l->index == le64(p + 56)) {
                    code.name = l->name;
                    code.name_length = l->length;
                }
            }
        }
        if (code.name && code.name_length)
            sink(context, &code);
    }
    free(loaded);
}

void jit_read(const char *data, size_t size, jit_sink *sink, void *context)
{
    if (jit_dump_pid(data, size) >= 0)
        read_dump(data, size, sink, context);
    else
        read_map(data, size, sink, context);
}
