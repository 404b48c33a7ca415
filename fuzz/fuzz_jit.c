/* Any bytes as perf-PID.map or jitdump: names lie inside the file, and their number is bounded by
 * its size. */
#include "perfdata/jit.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    const char *data;
    size_t size, count, last;
};

static void look(void *context, const struct jit_code *code)
{
    struct seen *s = context;
    if (code->name < s->data || code->name_length > s->size ||
        (size_t)(code->name - s->data) > s->size - code->name_length || !code->name_length ||
        code->end > s->size || code->end < s->last)
        abort();
    s->last = code->end;
    s->count++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* as it is read: with a zero after */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    copy[size] = 0;
    struct seen seen = {.data = copy, .size = size};
    jit_read(copy, size, look, &seen);
    if (seen.count > size / 4)
        abort();
    free(copy);
    return 0;
}
