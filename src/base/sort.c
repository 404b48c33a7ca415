#include "base/sort.h"

#include "base/jobs.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 1 << 13 };

/* Runs are sorted separately, then merged in pairs: threads share the pieces of each merge. */
struct sorting {
    char *from, *to;
    size_t count, size, run; /* items; bytes of one; items in a sorted run */
    size_t pieces;           /* pieces of each merge */
    int (*compare)(const void *, const void *, void *);
    void *context;
    _Atomic bool failed;
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void sort_run(struct sorting *s, size_t n)
{
    const size_t first = least(n * s->run, s->count), last = least(first + s->run, s->count);
    qsort_r(s->from + first * s->size, last - first, s->size, s->compare, s->context);
}

/* How many of the first `at` items of a merge come from the first of two runs. */
static size_t of_first(const struct sorting *s, const char *a, size_t a_count, const char *b,
                       size_t b_count, size_t at)
{
    size_t low = at > b_count ? at - b_count : 0, high = least(at, a_count);
    while (low < high) {
        const size_t i = low + (high - low) / 2, j = at - i - 1;
        if (s->compare(a + i * s->size, b + j * s->size, s->context) <= 0)
            low = i + 1;
        else
            high = i;
    }
    return low;
}

static void merge_piece(struct sorting *s, size_t n)
{
    const size_t first = least(n / s->pieces * 2 * s->run, s->count);
    const size_t middle = least(first + s->run, s->count);
    const size_t last = least(middle + s->run, s->count), all = last - first;
    const size_t from = all * (n % s->pieces) / s->pieces;
    const size_t to = all * (n % s->pieces + 1) / s->pieces, size = s->size;
    const char *a = s->from + first * size, *b = s->from + middle * size;
    size_t i = of_first(s, a, middle - first, b, last - middle, from), j = from - i;
    char *out = s->to + (first + from) * size;
    for (size_t k = from; k < to; k++, out += size) {
        const bool left =
            j == last - middle ||
            (i < middle - first && s->compare(a + i * size, b + j * size, s->context) <= 0);
        memcpy(out, left ? a + i++ * size : b + j++ * size, size);
    }
}

static void run_guarded(struct sorting *s, void (*part)(struct sorting *, size_t), size_t n)
{
    if (!s->failed && !memory_guarded(memory_current(), part(s, n)))
        s->failed = true;
}

static void run_sort(void *user, size_t n, unsigned thread)
{
    (void)thread;
    run_guarded(user, sort_run, n);
}

static void run_merge(void *user, size_t n, unsigned thread)
{
    (void)thread;
    run_guarded(user, merge_piece, n);
}

void sort_items(void *items, size_t count, size_t size,
                int (*compare)(const void *, const void *, void *), void *context, unsigned threads)
{
    char *room = threads > 1 && count >= FEW ? memory_new(count * size) : NULL;
    if (!room) {
        qsort_r(items, count, size, compare, context);
        return;
    }
    struct sorting s = {.from = items,
                        .to = room,
                        .count = count,
                        .size = size,
                        .run = (count + threads - 1) / threads,
                        .compare = compare,
                        .context = context};
    jobs_run(&(struct jobs){&s, threads, run_sort}, threads);
    for (; s.run < count; s.run *= 2) {
        const size_t merges = (count + 2 * s.run - 1) / (2 * s.run);
        s.pieces = (threads + merges - 1) / merges;
        jobs_run(&(struct jobs){&s, merges * s.pieces, run_merge}, threads);
        char *swap = s.from;
        s.from = s.to;
        s.to = swap;
    }
    if (s.from == room)
        memcpy(items, room, count * size);
    memory_free(room);
    if (s.failed)
        memory_checked(NULL); /* ends here, too */
}
