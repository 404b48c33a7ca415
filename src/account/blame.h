/*
 * Which instruction each cycle is charged to: docs/model.md, "Exact cycles", has the rules.
 *
 * A cycle has as many slots as operations can be dispatched in it. Each operation is charged for
 * the slot in which it was dispatched. An empty slot is charged to its cause: the block whose ports
 * were busy, a mispredicted branch, the operation that had to be fetched first or, if the window or
 * a queue was full, the oldest operation in it. So a latency counts where it holds up the core, and
 * not where other operations run beside it.
 *
 * Everything is inline: the caller passes a function that says where the sum of an operation is.
 */
#ifndef ACCOUNT_BLAME_H
#define ACCOUNT_BLAME_H

#include <assert.h>

#include "account/op.h"

enum {
    BLAME_CYCLE = 720720,    /* parts of a cycle: any width up to 16 divides it */
    BLAME_OPERATIONS = 4096, /* more than the largest window and two blocks */
};

/* All zero before the first block. Operations have numbers, from 0 on. */
struct blame {
    struct {
        uint64_t retire;
        uint64_t *sum;          /* sum of its instruction, in parts of a cycle */
        uint64_t parts, before; /* cycles of this operation; sum of all before it, once settled */
    } operation[BLAME_OPERATIONS];
    uint64_t number;  /* number of the next operation */
    uint64_t oldest;  /* oldest operation that may not have retired */
    uint64_t settled; /* operations before this one have received all their slots */
    uint64_t slots;   /* slots since cycle 0 that were charged or skipped */
    uint64_t retire;  /* when the last operation retired */
    /* for the last block */
    uint64_t first, ports; /* its first operation; slot at which its ports are free again */
    bool wrong;            /* the branch of the last block was mispredicted */
    uint64_t again;        /* slot at which dispatch continued after that */
};

/* A block that has run, as in struct timing_run. */
struct blame_block {
    const struct account_insn *insns;
    uint32_t executed;
    bool wrong, cut;       /* its branch was mispredicted; it ended early */
    uint64_t ready, ports; /* slots */
    uint64_t clock;        /* clock before the block ran */
};
typedef uint64_t *blame_sum(const void *context, uint32_t insn);

#define BLAME_AT(b, n) (&(b)->operation[(n) % BLAME_OPERATIONS])

static inline void blame_add(struct blame *b, uint64_t number, uint64_t parts)
{
    BLAME_AT(b, number)->parts += parts;
    *BLAME_AT(b, number)->sum += parts;
}

/* Charges the slots up to `to`, each of `slot` parts, to the operation. */
static inline void blame_give(struct blame *b, uint64_t number, uint64_t to, uint64_t slot)
{
    if (to > b->slots) {
        blame_add(b, number, (to - b->slots) * slot);
        b->slots = to;
    }
}

/* Charges the slots up to `to` to the oldest operations; if all have retired, keeps the rest. */
static inline void blame_oldest(struct blame *b, uint64_t to, uint64_t width, uint64_t slot)
{
    for (; b->slots < to && b->oldest != b->number; b->oldest++) {
        const uint64_t retire = BLAME_AT(b, b->oldest)->retire * width;
        blame_give(b, b->oldest, retire < to ? retire : to, slot);
        if (retire > to)
            break;
    }
}

/* Divides the slots up to `to` among all operations of the last block. */
static inline void blame_last(struct blame *b, uint64_t to, uint64_t slot)
{
    if (to <= b->slots)
        return;
    const uint64_t parts = (to - b->slots) * slot, count = b->number - b->first;
    for (uint64_t i = b->first; i != b->number; i++)
        blame_add(b, i, parts / count);
    blame_add(b, b->first, parts % count);
    b->slots = to;
}

static inline void blame_settle(struct blame *b)
{
    const uint64_t n = b->settled++;
    BLAME_AT(b, n + 1)->before = BLAME_AT(b, n)->before + BLAME_AT(b, n)->parts;
    b->oldest = b->oldest > b->settled ? b->oldest : b->settled;
}

/* For the child of a fork: forgets what ran before, which belongs to the parent. */
static inline void blame_forget(struct blame *b)
{
    while (b->settled != b->number)
        blame_settle(b);
    b->first = b->number;
    b->ports = 0;
    b->wrong = false;
}

/*
 * Call it when nothing follows for a while: charges the rest to operations that have not retired.
 */
static inline void blame_drain(struct blame *b, const struct uarch_config *c)
{
    blame_oldest(b, b->retire * c->width, c->width, BLAME_CYCLE / c->width);
    blame_forget(b);
}

static inline __attribute__((always_inline)) void blame_count(struct blame *b,
                                                              const struct uarch_config *c,
                                                              const struct blame_block *block,
                                                              blame_sum *sum, const void *context)
{
    const uint64_t width = c->width, slot = BLAME_CYCLE / width;
    const uint64_t ready = block->ready, first = b->number;
    const struct account_insn *last = &block->insns[block->executed - 1];
    assert(c->rob + 2ull * block->executed < BLAME_OPERATIONS);
    if (block->clock != b->retire) { /* time has passed in a system call or waiting */
        blame_drain(b, c);
        b->slots = block->clock * width;
    }
    blame_last(b, b->ports < ready ? b->ports : ready, slot);
    if (b->wrong)
        blame_give(b, first - 1, b->again < ready ? b->again : ready, slot);
    while (b->settled != first && BLAME_AT(b, b->settled)->retire * width <= b->slots)
        blame_settle(b);
    for (uint32_t i = 0; i < block->executed; i++) {
        const uint64_t at = block->insns[i].dispatch * width, number = b->number++;
        BLAME_AT(b, number)->retire = block->insns[i].retire;
        BLAME_AT(b, number)->sum = sum(context, i);
        BLAME_AT(b, number)->parts = 0;
        if (!i)
            blame_give(b, number, ready, slot); /* until the front end delivered it */
        blame_oldest(b, at, width, slot);
        blame_give(b, number, b->slots + 1, slot);
    }
    b->retire = last->retire;
    b->first = first;
    b->ports = block->ports;
    b->wrong = block->wrong || block->cut;
    b->again = ((block->cut ? last->retire : last->done) + c->mispredict) * width;
}

/* Parts of a cycle charged to all operations before this one, which must be settled and recent. */
static inline uint64_t blame_before(const struct blame *b, uint64_t number)
{
    assert(number <= b->settled && b->number - number < BLAME_OPERATIONS);
    return BLAME_AT(b, number)->before;
}

#endif
