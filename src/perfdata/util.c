/* Interned strings and the list of problems. */
#include "file.h"

#include "base/hash.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool strings_grow(struct strings *strings)
{
    size_t slots = strings->slots ? strings->slots * 2 : 256;
    const char **table =
        memory_allows(slots * sizeof *table) ? memory_zeroed(slots, sizeof *table) : NULL;
    if (!table)
        return false;
    for (size_t i = 0; i < strings->slots; i++) {
        const char *text = strings->table[i];
        if (!text)
            continue;
        size_t slot = hash_bytes(hash_seed(), text, strlen(text)) & (slots - 1);
        while (table[slot])
            slot = (slot + 1) & (slots - 1);
        table[slot] = text;
    }
    memory_free(strings->table);
    strings->table = table;
    strings->slots = slots;
    return true;
}

const char *perfdata_strings_add(struct strings *strings, const char *text, size_t length)
{
    enum { BLOCK = 16384 };
    length = strnlen(text, length);
    if (strings->used * 2 >= strings->slots && !strings_grow(strings))
        return NULL;
    size_t slot = hash_bytes(hash_seed(), text, length) & (strings->slots - 1);
    for (const char *old; (old = strings->table[slot]); slot = (slot + 1) & (strings->slots - 1))
        if (!strncmp(old, text, length) && !old[length])
            return old;
    if (strings->room < length + 1) {
        size_t size = length + 1 > BLOCK ? length + 1 : BLOCK;
        /* blocks are too small to ask the limit for each */
        bool fits = strings->blocks.count % 64 || memory_allows(64 * BLOCK);
        char *block = fits ? memory_new(size) : NULL, **place;
        if (!block || !(place = vec_push(&strings->blocks))) {
            memory_free(block);
            return NULL;
        }
        *place = block;
        strings->room = size;
    }
    /* Blocks are filled from their end, so that only the remaining room has to be stored. */
    char *copy = strings->blocks.items[strings->blocks.count - 1] + strings->room - length - 1;
    memcpy(copy, text, length);
    copy[length] = '\0';
    strings->room -= length + 1;
    strings->table[slot] = copy;
    strings->used++;
    return copy;
}

void perfdata_strings_fini(struct strings *strings)
{
    for (size_t i = 0; i < strings->blocks.count; i++)
        memory_free(strings->blocks.items[i]);
    vec_free(&strings->blocks);
    memory_free(strings->table);
}

void perfdata_problem(struct spex_perfdata *file, enum spex_status status, uint64_t offset,
                      const char *format, ...)
{
    char text[240];
    va_list args;
    for (size_t i = 0; i < file->problems.count; i++) {
        if (file->problem_kinds.items[i] == format) {
            file->problems.items[i].count++;
            return;
        }
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *copy = perfdata_strings_add(&file->strings, text, sizeof text);
    const char **kind = vec_push(&file->problem_kinds);
    struct spex_perf_problem *p = kind && copy ? vec_push(&file->problems) : NULL;
    if (!p) {
        if (kind)
            file->problem_kinds.count--;
        file->failed = true;
        return;
    }
    *kind = format;
    *p = (struct spex_perf_problem){.status = status, .offset = offset, .count = 1, .text = copy};
}
