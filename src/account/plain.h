/*
 * The account of time (docs/model.md) for one core, in its plain form: operation by operation,
 * where the time of each load is already known. It has no caches, no code that must be fetched, and
 * no unknown branch targets. Profiles are replayed with it.
 *
 * uarch/pipe.c keeps the same account for a running program, with its caches and a memory of what
 * blocks did: it is made for a thousand times as many operations, and shares the rules of op.h, but
 * not this code. tests/account/test_plain.c checks that both give the same four cycles for each
 * operation.
 */
#ifndef ACCOUNT_PLAIN_H
#define ACCOUNT_PLAIN_H

#include "account/op.h"

enum {
    PLAIN_WINDOW = 1024,
    PLAIN_LOADS = 512,
    PLAIN_STORES = 256,
    PLAIN_PLACES = 64, /* eight-byte pieces of stores that may be forwarded, by hash */
};

struct plain {
    const struct uarch_config *c;
    uint16_t latency[SPEX_EXEC_CLASS_COUNT];
    uint64_t ready[ACCOUNT_REGS];
    uint64_t dispatch, share, begin; /* see uarch/account.h */
    uint32_t parts;
    uint64_t retire;                /* when the last operation retired */
    uint64_t number, loads, stores; /* number so far */
    uint64_t drain;                 /* cycle in which the last store was written */
    uint32_t drained;               /* stores written in that cycle */
    uint64_t retired[PLAIN_WINDOW], load_retired[PLAIN_LOADS], store_drained[PLAIN_STORES];
    struct {
        uint64_t place, data, number;
    } stored[PLAIN_PLACES];
};

void plain_init(struct plain *p, const struct uarch_config *c);
/* Empties the core at this cycle: after a system call. */
void plain_restart(struct plain *p, uint64_t cycle);

/*
 * What is known about a load or atomic. took: cycles from issue to done. until: it is not done
 * before this cycle, because its line is on its way or the data of a store is; but no later than
 * `most` cycles. place: names the eight bytes of a load or store, if two of them can be recognized
 * as the same; else 0.
 */
struct plain_access {
    uint32_t took, most;
    uint64_t until, place;
};
/* Runs the next operation. */
struct account_insn plain_run(struct plain *p, const struct account_op *u,
                              const struct plain_access *access);
/* Ends a block whose ports need this much more time than its operations: account_extra(). */
void plain_ports(struct plain *p, uint64_t extra);
/*
 * Its branch was taken and predicted: its target takes at least this many cycles, or half as many
 * if pairs of such branches are predicted at a time. count: operations in the block.
 */
void plain_taken(struct plain *p, uint32_t count, uint64_t extra, uint32_t cycles, bool pair);
/* Its branch, done at this cycle, was mispredicted. */
void plain_mispredicted(struct plain *p, uint64_t done);

/* The earliest time at which the next operation can be dispatched, in slots since cycle 0. */
static inline uint64_t plain_slot(const struct plain *p)
{
    return (p->dispatch >> 16) * p->c->width + ((p->dispatch & 0xffff) - p->begin) / p->share;
}

#endif
