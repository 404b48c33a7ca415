#include "histogram.h"

#include "base/memory.h"
#include "base/vec.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_VALUES = 6, LIST_WORDS = 1 + LIST_VALUES / 2 };
enum { PAGE_BITS = HISTOGRAM_PAGE_BITS, PAGE = HISTOGRAM_PAGE };
/* pages in a directory: of values below 1024, and of all values */
enum { SMALL = 1024 >> PAGE_BITS, LARGE = 65536 >> PAGE_BITS };

void histograms_init(struct histograms *h, size_t limit_bytes)
{
    *h = (struct histograms){.count = HISTOGRAM_LOST + 1, .capacity = 4096};
    histograms_limit(h, limit_bytes);
    h->words = memory_get(h->capacity, sizeof *h->words);
    h->words[0] = h->words[HISTOGRAM_LOST] = 0;
}

void histograms_limit(struct histograms *h, size_t limit_bytes)
{
    h->limit = limit_bytes / sizeof *h->words;
}

void histograms_free(struct histograms *h)
{
    memory_free(h->words);
}

static uint32_t allocate(struct histograms *h, size_t words)
{
    if (h->count + words > h->limit ||
        !vec_grow_most(&h->words, &h->capacity, h->count + words, h->limit, sizeof *h->words)) {
        h->lost = true;
        return 0;
    }
    uint32_t at = (uint32_t)h->count;
    assert(at > HISTOGRAM_LOST && h->count + words <= h->capacity);
    memset(h->words + at, 0, words * sizeof *h->words);
    h->count += words;
    return at;
}

static bool is_list(const struct histograms *h, uint32_t handle)
{
    return h->words[handle] & HISTOGRAM_LIST;
}

/* Number of values in a list, or of pages in a directory. */
static unsigned length_of(const struct histograms *h, uint32_t handle)
{
    return h->words[handle] & ~HISTOGRAM_LIST;
}

static uint16_t *list_values(const struct histograms *h, uint32_t handle)
{
    return (uint16_t *)(h->words + handle + 1);
}

/* The list or small directory at *handle in a directory with that many pages. */
static bool widen(struct histograms *h, uint32_t *handle, unsigned pages)
{
    uint32_t old = *handle, at = allocate(h, 1 + (size_t)pages);
    *handle = at ? at : HISTOGRAM_LOST;
    if (!at)
        return false;
    h->words[at] = pages;
    unsigned length = length_of(h, old);
    if (is_list(h, old))
        for (unsigned i = 0; i < length; i++)
            histogram_add(h, handle, list_values(h, old)[i], 1);
    else
        memcpy(h->words + at + 1, h->words + old + 1, length * sizeof *h->words);
    return *handle != HISTOGRAM_LOST;
}

void histogram_add(struct histograms *h, uint32_t *handle, uint16_t value, uint32_t count)
{
    if (*handle == HISTOGRAM_LOST)
        return;
    if (!*handle) {
        uint32_t at = allocate(h, LIST_WORDS);
        *handle = at ? at : HISTOGRAM_LOST;
        if (!at)
            return;
        h->words[at] = HISTOGRAM_LIST;
    }
    unsigned page = value >> PAGE_BITS, length = length_of(h, *handle);
    if (is_list(h, *handle) && length + count <= LIST_VALUES) {
        for (uint32_t i = 0; i < count; i++)
            list_values(h, *handle)[length + i] = value;
        h->words[*handle] += count;
        return;
    }
    /* twice: turning the list into a directory may or may not have made it wide enough */
    while (is_list(h, *handle) || page >= length_of(h, *handle))
        if (!widen(h, handle, page < SMALL ? SMALL : LARGE))
            return;
    size_t entry = *handle + 1 + page;
    if (!h->words[entry]) {
        uint32_t at = allocate(h, PAGE);
        if (!at) {
            *handle = HISTOGRAM_LOST;
            return;
        }
        h->words[entry] = at;
    }
    h->words[h->words[entry] + (value & (PAGE - 1))] += count;
}

/* Position of a page of a directory; 0: there is none, or the handle is a list. */
static uint32_t page_of(const struct histograms *h, uint32_t handle, unsigned page)
{
    bool room = !is_list(h, handle) && page < length_of(h, handle);
    return room ? h->words[handle + 1 + page] : 0;
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
    /* other->words is loaded each time: adding may move the arena if both are the same */
    unsigned length = length_of(other, from);
    if (is_list(other, from)) {
        for (unsigned i = 0; i < length; i++)
            histogram_add(h, handle, list_values(other, from)[i], 1);
        return;
    }
    for (unsigned p = 0; p < length; p++) {
        unsigned i = 0;
        if (!other->words[from + 1 + p])
            continue;
        for (; i < PAGE && !page_of(h, *handle, p); i++) {
            uint32_t n = other->words[other->words[from + 1 + p] + i];
            if (n)
                histogram_add(h, handle, (uint16_t)(p << PAGE_BITS | i), n);
        }
        uint32_t *to = h->words + page_of(h, *handle, p);
        const uint32_t *counts = other->words + other->words[from + 1 + p];
        for (; i < PAGE; i++)
            to[i] += counts[i];
    }
}

void histograms_reserve(struct histograms *h, size_t words)
{
    if (words > h->capacity) {
        h->words = memory_resize(h->words, words, sizeof *h->words);
        h->capacity = words;
    }
}

void histograms_append(struct histograms *h, size_t at, const struct histograms *other)
{
    memcpy(h->words + at, other->words, other->count * sizeof *h->words);
}

void histogram_moved(struct histograms *h, uint32_t *handle, size_t at)
{
    if (!*handle || *handle == HISTOGRAM_LOST)
        return;
    *handle += (uint32_t)at;
    for (unsigned p = 0; !is_list(h, *handle) && p < length_of(h, *handle); p++) {
        uint32_t *page = &h->words[*handle + 1 + p];
        *page += *page ? (uint32_t)at : 0;
    }
}

size_t histogram_most_words(const struct histograms *h, uint32_t handle)
{
    if (!handle || handle == HISTOGRAM_LOST)
        return 0;
    size_t words = LIST_WORDS;
    if (is_list(h, handle))
        return words;
    const unsigned length = length_of(h, handle);
    words += 1 + SMALL + (length > SMALL ? 1 + LARGE : 0);
    for (unsigned p = 0; p < length; p++)
        words += h->words[handle + 1 + p] ? PAGE : 0;
    return words;
}

static int compare_values(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* The rank of a quantile, by the nearest-rank definition. */
static uint64_t rank_of(double q, uint64_t total)
{
    double rank = ceil(q * (double)total - 1e-9);
    return rank < 1 ? 1 : rank > (double)total ? total : (uint64_t)rank;
}

int histogram_quantile(const struct histograms *h, uint32_t handle, double q)
{
    if (!handle || handle == HISTOGRAM_LOST)
        return -1;
    const uint32_t *pages = h->words + handle + 1;
    unsigned length = length_of(h, handle);
    if (is_list(h, handle)) {
        uint16_t values[LIST_VALUES];
        memcpy(values, pages, sizeof values);
        qsort(values, length, sizeof *values, compare_values);
        return values[rank_of(q, length) - 1];
    }
    uint64_t total = 0, seen = 0;
    for (unsigned p = 0; p < length; p++)
        for (unsigned i = 0; pages[p] && i < PAGE; i++)
            total += h->words[pages[p] + i];
    uint64_t rank = rank_of(q, total);
    for (unsigned p = 0; p < length; p++)
        for (unsigned i = 0; pages[p] && i < PAGE; i++) {
            seen += h->words[pages[p] + i];
            if (seen >= rank)
                return (int)(p << PAGE_BITS | i);
        }
    return -1;
}

static unsigned bucket_of(unsigned value)
{
    if (value < 4)
        return value;
    unsigned octave = 31 - (unsigned)__builtin_clz(value);
    return 2 * octave + (value >> (octave - 1) & 1);
}

bool histogram_buckets(const struct histograms *h, uint32_t handle, uint64_t counts[SPEX_BUCKETS])
{
    if (handle == HISTOGRAM_LOST)
        return false;
    unsigned length = handle ? length_of(h, handle) : 0;
    if (handle && is_list(h, handle)) {
        for (unsigned i = 0; i < length; i++)
            counts[bucket_of(list_values(h, handle)[i])]++;
        return true;
    }
    for (unsigned p = 0; p < length; p++) {
        uint32_t page = h->words[handle + 1 + p];
        for (unsigned i = 0; page && i < PAGE; i++)
            counts[bucket_of(p << PAGE_BITS | i)] += h->words[page + i];
    }
    return true;
}
