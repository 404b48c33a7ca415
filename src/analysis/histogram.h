/*
 * Exact histograms of 16-bit counters for many keys, in bounded memory.
 *
 * A histogram is a handle, 0 when empty. It starts as a short list of values;
 * when that is full it becomes a directory of pages of counts, each page 64
 * values wide. All live in one arena with a limit; a histogram that finds no
 * room becomes HISTOGRAM_LOST and its quantiles are withheld, never guessed.
 */
#ifndef ANALYSIS_HISTOGRAM_H
#define ANALYSIS_HISTOGRAM_H

#include <spex/analysis.h>

enum { HISTOGRAM_LOST = 1 };

struct histograms {
    uint32_t *words;
    size_t count, capacity, limit; /* in words */
    bool lost;                     /* one was dropped for lack of memory */
};

void histograms_init(struct histograms *h, size_t limit_bytes);
/* A smaller limit does not shrink what is already there. */
void histograms_limit(struct histograms *h, size_t limit_bytes);
void histograms_free(struct histograms *h);
void histogram_add(struct histograms *h, uint32_t *handle, uint16_t value, uint32_t count);

/*
 * Layout in words, at handle:
 *   directory: how many pages there is room for, then their positions (0: none)
 *   list: HISTOGRAM_LIST + length, then the values, two to a word
 * A page is PAGE counts. The words at 0 and at HISTOGRAM_LIST are directories without room.
 */
#define HISTOGRAM_LIST UINT32_C(0x80000000)
enum { HISTOGRAM_PAGE_BITS = 6, HISTOGRAM_PAGE = 1 << HISTOGRAM_PAGE_BITS };

/* Counts one value; fast if its page exists. */
static inline void histogram_count(struct histograms *h, uint32_t *handle, uint16_t value)
{
    const uint32_t *at = h->words + *handle;
    int page = value >> HISTOGRAM_PAGE_BITS;
    if (page < (int32_t)at[0] && at[1 + page])
        h->words[at[1 + page] + (value & (HISTOGRAM_PAGE - 1))]++;
    else
        histogram_add(h, handle, value, 1);
}
/* Adds the histogram `from` in the arena `other` (which may be the same) to handle. */
void histogram_merge(struct histograms *h, uint32_t *handle, const struct histograms *other,
                     uint32_t from);

/*
 * One arena behind others: room for `words` in all; a copy of another at a place in it, by which
 * each of its handles then moves once.
 */
void histograms_reserve(struct histograms *h, size_t words);
void histograms_append(struct histograms *h, size_t at, const struct histograms *other);
void histogram_moved(struct histograms *h, uint32_t *handle, size_t at);
/* The most words that counting this histogram can have taken, in any order. */
size_t histogram_most_words(const struct histograms *h, uint32_t handle);
/* The smallest value v with at least q of the total at or below it; -1 if empty or lost. */
int histogram_quantile(const struct histograms *h, uint32_t handle, double q);

/* Adds the histogram to counts (spex_row_buckets); false if it was lost. */
bool histogram_buckets(const struct histograms *h, uint32_t handle, uint64_t counts[SPEX_BUCKETS]);

#endif
