/* A table of distinct texts, numbered in the order in which they arrive. Texts do not move. */
#ifndef EXPORT_TEXTS_H
#define EXPORT_TEXTS_H

#include "base/out.h"

struct texts {
    struct texts_block *blocks;
    size_t left;         /* bytes in the newest of them */
    const char **starts; /* start of each text by number: valid UTF-8, 0-terminated */
    size_t count, start_capacity;
    uint32_t *slots; /* 1 + number, by hash */
    size_t slot_count;
    struct out text; /* a text that is being built */
};

void texts_init(struct texts *strings);
void texts_fini(struct texts *strings);
/* Any bytes: those that are not UTF-8 are shown as \xNN. */
uint32_t texts_find(struct texts *strings, const char *text);

static inline const char *texts_at(const struct texts *strings, size_t number)
{
    return strings->starts[number];
}

#endif
