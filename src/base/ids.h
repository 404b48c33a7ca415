/* Assigns small numbers to keys of four words, in order of first appearance. */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IDS_WORDS = 4 };

struct ids {
    uint64_t (*keys)[IDS_WORDS]; /* indexed by number */
    size_t count, capacity;
    uint32_t *slots; /* 1 + the number, at the key's hash */
    size_t slot_count;
};

/* *fresh is set if the key is new. Ends the command if memory runs out. */
uint32_t ids_find(struct ids *ids, const uint64_t key[IDS_WORDS], bool *fresh);
/* The number of a key that already has one; false if it has none. */
bool ids_get(const struct ids *ids, const uint64_t key[IDS_WORDS], uint32_t *number);
void ids_clear(struct ids *ids);
void ids_free(struct ids *ids);

static inline bool ids_equal(const uint64_t a[IDS_WORDS], const uint64_t b[IDS_WORDS])
{
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

/* Same, for callers that mostly pass the same key again: *last is 1 + the number found last. */
static inline uint32_t ids_find_again(struct ids *ids, uint32_t *last,
                                      const uint64_t key[IDS_WORDS], bool *fresh)
{
    *fresh = false;
    if (!*last || !ids_equal(ids->keys[*last - 1], key))
        *last = ids_find(ids, key, fresh) + 1;
    return *last - 1;
}

#endif
