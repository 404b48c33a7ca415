#include "histogram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST = HISTOGRAM_LIST, DIRECTORY = HISTOGRAM_DIRECTORY };
enum { LIST_VALUES = 6, LIST_WORDS = 1 + LIST_VALUES / 2 };
enum { PAGE_BITS = HISTOGRAM_PAGE_BITS, PAGE = HISTOGRAM_PAGE };
enum { SMALL_BITS = 4, LARGE_BITS = 16 - PAGE_BITS }; /* values below 1024; all */

void histograms_init(struct histograms *h, size_t limit_bytes)
{
    *h = (struct histograms){.limit = limit_bytes / sizeof *h->words, .count = 1};
}

void histograms_limit(struct histograms *h, size_t limit_bytes)
{
    h->limit = limit_bytes / sizeof *h->words;
}

void histograms_free(struct histograms *h)
{
    free(h->words);
}

static uint32_t allocate(struct histograms *h, size_t words)
{
    if (h->count + words > h->limit)
        return 0;
    if (h->count + words > h->capacity) {
        size_t capacity = h->capacity ? h->capacity + h->capacity / 2 : 4096;
        if (capacity > h->limit)
            capacity = h->limit;
        uint32_t *more = realloc(h->words, capacity * sizeof *more);
        if (!more)
            return 0;
        h->words = more;
        h->capacity = capacity;
    }
    uint32_t at = (uint32_t)h->count;
    memset(h->words + at, 0, words * sizeof *h->words);
    h->count += words;
    return at;
}

static uint16_t *list_values(const struct histograms *h, uint32_t handle)
{
    return (uint16_t *)(h->words + handle + 1);
}

static uint32_t new_directory(struct histograms *h, unsigned bits)
{
    uint32_t at = allocate(h, 1 + ((size_t)1 << bits));
    if (at)
        h->words[at] = DIRECTORY << 16 | bits;
    return at;
}

/* The list or small directory at *handle in a directory with that many bits. */
static bool widen(struct histograms *h, uint32_t *handle, unsigned bits)
{
    uint32_t old = *handle, at = new_directory(h, bits);
    if (!at) {
        *handle = HISTOGRAM_LOST;
        return false;
    }
    *handle = at;
    if (h->words[old] >> 16 == LIST) {
        unsigned n = h->words[old] & 0xffff;
        for (unsigned i = 0; i < n; i++)
            histogram_add(h, handle, list_values(h, old)[i], 1);
    } else {
        memcpy(h->words + at + 1, h->words + old + 1,
               ((size_t)1 << (h->words[old] & 0xffff)) * sizeof *h->words);
    }
    return *handle != HISTOGRAM_LOST;
}

void histogram_add(struct histograms *h, uint32_t *handle, uint16_t value, uint32_t count)
{
    if (*handle == HISTOGRAM_LOST)
        return;
    if (!*handle) {
        uint32_t at = allocate(h, LIST_WORDS);
        if (!at) {
            *handle = HISTOGRAM_LOST;
            return;
        }
        h->words[at] = LIST << 16;
        *handle = at;
    }
    uint32_t head = h->words[*handle];
    unsigned wanted = value >> (PAGE_BITS + SMALL_BITS) ? LARGE_BITS : SMALL_BITS;
    if (head >> 16 == LIST) {
        unsigned n = head & 0xffff;
        if (n + count <= LIST_VALUES) {
            for (uint32_t i = 0; i < count; i++)
                list_values(h, *handle)[n + i] = value;
            h->words[*handle] = head + count;
            return;
        }
        if (!widen(h, handle, wanted))
            return;
    } else if ((head & 0xffff) < wanted && !widen(h, handle, wanted)) {
        return;
    }
    /* widening a list may itself have widened further */
    if ((h->words[*handle] & 0xffff) < wanted && !widen(h, handle, wanted))
        return;
    size_t entry = *handle + 1 + (value >> PAGE_BITS);
    if (!h->words[entry]) {
        uint32_t page = allocate(h, PAGE);
        if (!page) {
            *handle = HISTOGRAM_LOST;
            return;
        }
        h->words[entry] = page;
    }
    h->words[h->words[entry] + (value & (PAGE - 1))] += count;
}

void histogram_merge(struct histograms *h, uint32_t *handle, const struct histograms *other,
                     uint32_t from)
{
    if (!from)
        return;
    if (from == HISTOGRAM_LOST) {
        *handle = HISTOGRAM_LOST;
        return;
    }
    /* other->words is looked up each time: adding may move an arena that is the same */
    unsigned length = other->words[from] & 0xffff;
    if (other->words[from] >> 16 == LIST) {
        for (unsigned i = 0; i < length; i++)
            histogram_add(h, handle, list_values(other, from)[i], 1);
        return;
    }
    for (unsigned p = 0; p < 1u << length; p++)
        for (unsigned i = 0; other->words[from + 1 + p] && i < PAGE; i++) {
            uint32_t n = other->words[other->words[from + 1 + p] + i];
            if (n)
                histogram_add(h, handle, (uint16_t)(p << PAGE_BITS | i), n);
        }
}

static int compare_values(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* How many must be at or below the quantile: the nearest-rank definition. */
static uint64_t rank_of(double q, uint64_t total)
{
    double rank = ceil(q * (double)total - 1e-9);
    return rank < 1 ? 1 : rank > (double)total ? total : (uint64_t)rank;
}

int histogram_quantile(const struct histograms *h, uint32_t handle, double q)
{
    if (!handle || handle == HISTOGRAM_LOST)
        return -1;
    const uint32_t *words = h->words + handle;
    unsigned length = words[0] & 0xffff;
    if (words[0] >> 16 == LIST) {
        uint16_t values[LIST_VALUES];
        memcpy(values, words + 1, sizeof values);
        qsort(values, length, sizeof *values, compare_values);
        return values[rank_of(q, length) - 1];
    }
    uint64_t total = 0, seen = 0;
    for (unsigned p = 0; p < 1u << length; p++)
        for (unsigned i = 0; words[1 + p] && i < PAGE; i++)
            total += h->words[words[1 + p] + i];
    uint64_t rank = rank_of(q, total);
    for (unsigned p = 0; p < 1u << length; p++)
        for (unsigned i = 0; words[1 + p] && i < PAGE; i++) {
            seen += h->words[words[1 + p] + i];
            if (seen >= rank)
                return (int)(p << PAGE_BITS | i);
        }
    return -1;
}
