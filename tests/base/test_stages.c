/*
 * Stages on several threads: each sees every item once, one at a time and in order, and only
 * after the stage before; those that are apart see several at a time. Plain TAP, so that it can be
 * built with ThreadSanitizer alone (test_races.py): what a stage has for itself is not atomic here
 * either.
 */
#include "base/stages.h"

#include <stdio.h>
#include <stdlib.h>

enum { STAGES = 5, THREADS = 8 };

struct test {
    unsigned items, threads, apart;
    unsigned made, seen[STAGES];
    unsigned item[THREADS]; /* of those under way */
    unsigned state[THREADS];
    uint64_t sums[STAGES]; /* depends on the order */
    unsigned wrong[STAGES];
};

static void waste(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

static bool run(void *user, unsigned stage, unsigned n)
{
    struct test *t = user;
    if (!stage) {
        if (t->made == t->items)
            return false;
        t->item[n] = t->made++;
        t->state[n] = 0;
    }
    const bool whole = n < t->threads && t->state[n]++ == stage; /* the item's own */
    if (t->apart >> stage & 1) {
        __atomic_fetch_add(&t->wrong[stage], !whole, __ATOMIC_RELAXED);
        __atomic_fetch_add(&t->seen[stage], 1, __ATOMIC_RELAXED);
        waste(1000);
        return true;
    }
    t->wrong[stage] += !whole;
    t->wrong[stage] += t->seen[stage]++ != t->item[n];
    t->sums[stage] = t->sums[stage] * 31 + t->item[n];
    waste((t->item[n] * 7 + stage * 13) % 10 * (stage == 2 ? 400 : 50));
    return true;
}

int main(void)
{
    static const unsigned counts[] = {0, 1, 2, 3, 50, 2000};
    struct test one;
    unsigned n = 0, bad = 0;
    for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++)
        for (unsigned stages = 1; stages <= STAGES; stages += 2)
            for (unsigned threads = 1; threads <= THREADS; threads++) {
                const unsigned apart = stages > 2 && c & 1 ? 1u << (stages - 2) : 0;
                struct test t = {.items = counts[c], .threads = threads, .apart = apart};
                const struct stages_job job = {
                    .user = &t, .stages = stages, .apart = apart, .run = run};
                stages_run(&job, threads);
                bool ok = t.made == counts[c];
                for (unsigned k = 0; k < stages; k++)
                    ok &= !t.wrong[k] && t.seen[k] == counts[c] &&
                          (threads == 1 || t.sums[k] == one.sums[k]);
                if (threads == 1)
                    one = t;
                bad += !ok;
                printf("%s %u - %u items, %u stages, %u threads\n", ok ? "ok" : "not ok", ++n,
                       counts[c], stages, threads);
            }
    printf("1..%u\n", n);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
