/*
 * Exact histograms of 16-bit counters for very many keys, in bounded memory.
 *
 * A histogram is a handle, 0 when empty. It starts as a short list of values;
 * when that is full it becomes a directory of pages of counts, each page 64
 * values wide. All live in one arena with a limit; a histogram that finds no
 * room becomes HISTOGRAM_LOST and its quantiles are withheld, never guessed.
 */
#ifndef ANALYSIS_HISTOGRAM_H
#define ANALYSIS_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_LOST = UINT32_MAX };

struct histograms {
    uint32_t *words;
    size_t count, capacity, limit; /* in words */
};

void histograms_init(struct histograms *h, size_t limit_bytes);
void histograms_free(struct histograms *h);
void histogram_add(struct histograms *h, uint32_t *handle, uint16_t value, uint32_t count);
/* Adds all of from (of the same arena) to handle. */
void histogram_merge(struct histograms *h, uint32_t *handle, uint32_t from);
/* The smallest value v with at least q of the total at or below it; -1 if empty or lost. */
int histogram_quantile(const struct histograms *h, uint32_t handle, double q);

#endif
