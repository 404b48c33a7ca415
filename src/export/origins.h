/*
 * Most columns are determined by a few things, their origins: the thread, the instruction, the
 * events and data source, the call stack (EXPORT_FROM_*). Each distinct origin gets a small number.
 * A column's value is computed once per number and then looked up.
 */
#ifndef EXPORT_ORIGINS_H
#define EXPORT_ORIGINS_H

#include <spex/stacks.h>
#include "base/ids.h"
#include "export/values.h"

enum {
    ORIGINS_MOST = 1 << 18, /* numbers of a kind: clear them then */
    ORIGINS_CACHE = 1 << 12
};

struct origins {
    struct spex_analysis *analysis; /* source of call stacks */
    struct ids ids[EXPORT_FROMS];
    /* 1 + number, at its most likely position */
    uint32_t thread, stack, code[SPEX_PLACES], outcome[ORIGINS_CACHE];
};

void origins_clear(struct origins *origins);
void origins_free(struct origins *origins);

static inline bool origins_full(const struct origins *o)
{
    return o->ids[EXPORT_FROM_THREAD].count >= ORIGINS_MOST ||
           o->ids[EXPORT_FROM_CODE].count >= ORIGINS_MOST ||
           o->ids[EXPORT_FROM_OUTCOME].count >= ORIGINS_MOST ||
           o->ids[EXPORT_FROM_STACK].count >= ORIGINS_MOST;
}

/* from: THREAD, CODE, OUTCOME or STACK, a constant. *fresh: set if the number is new. */
static inline __attribute__((always_inline)) uint32_t origins_find(struct origins *o,
                                                                   enum export_from from,
                                                                   const struct spex_sample *sample,
                                                                   bool *fresh)
{
    struct ids *ids = &o->ids[from];
    uint64_t key[EXPORT_KEY];
    uint32_t *cache = from == EXPORT_FROM_THREAD  ? &o->thread
                      : from == EXPORT_FROM_STACK ? &o->stack
                                                  : &o->code[sample->place];
    if (from == EXPORT_FROM_STACK)
        export_stack_key(o->analysis, sample, key);
    else
        export_key(sample, from, key);
    if (from == EXPORT_FROM_OUTCOME)
        cache = &o->outcome[(key[0] * UINT64_C(0x9e3779b97f4a7c15) ^ key[1]) *
                                UINT64_C(0x9e3779b97f4a7c15) >>
                            52];
    if (__builtin_expect(*cache && ids_equal(ids->keys[*cache - 1], key), 1))
        return *cache - 1;
    uint32_t id = ids_find(ids, key, fresh);
    *cache = id + 1;
    return id;
}

#endif
