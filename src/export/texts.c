#include "texts.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/name.h"

#include <stdlib.h>

enum { BLOCK = 1 << 16 };

struct texts_block {
    struct texts_block *before;
    size_t size;
    char data[];
};

void texts_init(struct texts *s)
{
    *s = (struct texts){.slot_count = 1024};
    s->slots = memory_get(s->slot_count, sizeof *s->slots);
    out_init(&s->text, -1);
}

void texts_fini(struct texts *s)
{
    while (s->blocks) {
        struct texts_block *block = s->blocks;
        s->blocks = block->before;
        free(block);
    }
    free(s->starts);
    free(s->slots);
    out_fini(&s->text);
}

static size_t slot_of(const struct texts *s, const char *text)
{
    return hash_bytes(hash_seed(), text, strlen(text)) & (s->slot_count - 1);
}

static void grow(struct texts *s)
{
    s->slot_count *= 2;
    free(s->slots);
    s->slots = NULL;
    s->slots = memory_get(s->slot_count, sizeof *s->slots);
    for (size_t i = 0; i < s->count; i++) {
        size_t at = slot_of(s, texts_at(s, i));
        while (s->slots[at])
            at = (at + 1) & (s->slot_count - 1);
        s->slots[at] = (uint32_t)i + 1;
    }
}

uint32_t texts_find(struct texts *s, const char *text)
{
    s->text.size = 0;
    out_name_utf8(&s->text, text);
    out_char(&s->text, 0);
    size_t size = s->text.size, at = slot_of(s, s->text.data);
    for (; s->slots[at]; at = (at + 1) & (s->slot_count - 1))
        if (!strcmp(texts_at(s, s->slots[at] - 1), s->text.data))
            return s->slots[at] - 1;
    if (s->left < size) {
        s->left = size < BLOCK ? BLOCK : size;
        struct texts_block *block = memory_get(1, sizeof *block + s->left);
        *block = (struct texts_block){s->blocks, s->left};
        s->blocks = block;
    }
    char *start = s->blocks->data + s->blocks->size - s->left;
    memcpy(start, s->text.data, size);
    s->left -= size;
    s->starts = memory_grow(s->starts, s->count, &s->start_capacity, sizeof *s->starts);
    s->starts[s->count++] = start;
    s->slots[at] = (uint32_t)s->count;
    uint32_t number = (uint32_t)s->count - 1;
    if (2 * s->count > s->slot_count)
        grow(s);
    return number;
}
