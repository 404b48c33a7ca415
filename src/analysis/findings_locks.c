/* Locks that threads sleep for: rows of elapsed time that name the same futex, taken by a lock. */
#include "findings.h"

#include "pass.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define LEAST 0.01 /* of the elapsed time */

struct lock {
    const struct spex_elapsed_row *most; /* the row with most of its time */
    uint64_t ns, calls, threads;
};

/* Does this function of a library wait for a lock, not for a condition or for a thread's end? */
static bool locks(const char *function)
{
    static const char *const words[] = {"mutex",    "Mutex",    "rwlock",         "RwLock",
                                        "mtx_lock", "lll_lock", "lock_contended", "futex::Lock"};
    for (size_t i = 0; function && i < sizeof words / sizeof *words; i++)
        if (strstr(function, words[i]) && !strstr(function, "cond"))
            return true;
    return false;
}

static void add(const struct lock *lock, uint64_t all, struct found *found)
{
    const struct spex_elapsed_row *row = lock->most;
    const double share = (double)lock->ns / (double)all;
    found->items = memory_grow(found->items, found->count, &found->capacity, sizeof *found->items);
    struct spex_finding *f = &found->items[found->count++];
    *f = (struct spex_finding){.kind = SPEX_FINDING_LOCK,
                               .how = SPEX_CASE_SLEEP,
                               .share = share,
                               .low = share,
                               .high = share,
                               .samples = lock->calls,
                               .data = finding_words("%s", row->object)};
    if (row->function)
        f->function = finding_words("%s", row->function);
    if (row->function && row->line)
        f->place = finding_words("%s (%s)", row->function, row->line);
    else if (row->function)
        f->place = finding_words("%s", row->function);
    finding_add_number(f, "of_elapsed", share);
    finding_add_number(f, "threads", (double)lock->threads);
    finding_add_number(f, "waits", (double)lock->calls);
}

static void find(const struct spex_elapsed *elapsed, struct found *found)
{
    enum { LOCKS = 64, WAITS = 10 };
    struct lock list[LOCKS];
    struct spex_elapsed_sum sum = {.size = sizeof sum};
    const struct spex_elapsed_row *row;
    size_t count = 0;
    spex_elapsed_add_up(elapsed, &sum);
    const uint64_t all =
        sum.ns[SPEX_ELAPSED_RUNS] + sum.ns[SPEX_ELAPSED_KERNEL] + sum.ns[SPEX_ELAPSED_WAITS];
    for (size_t i = 0; (row = spex_elapsed_at(elapsed, i)); i++) {
        size_t n = 0;
        if (row->state != SPEX_ELAPSED_WAITS || !row->object || !locks(row->through))
            continue;
        while (n < count && strcmp(list[n].most->object, row->object) != 0)
            n++;
        if (n == LOCKS)
            continue;
        if (n == count)
            list[count++] = (struct lock){.most = row};
        list[n].ns += row->ns;
        list[n].calls += row->calls;
        list[n].threads = row->threads > list[n].threads ? row->threads : list[n].threads;
    }
    for (size_t n = 0; n < count; n++)
        if ((double)list[n].ns >= LEAST * (double)all && list[n].calls >= WAITS)
            add(&list[n], all, found);
}

void findings_find_locks(struct spex_analysis *analysis, struct spex_elapsed **elapsed,
                         struct found *found)
{
    if (!analysis->options.filter_count && analysis->file && !*elapsed &&
        !spex_elapsed_new(analysis, false, elapsed, NULL))
        find(*elapsed, found);
}
