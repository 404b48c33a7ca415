/*
 * What D17.6 and D18.2 say of one record, read from the text alone, sentence by sentence: no table
 * and no function of the product, but its structs. Records come from the slow reader (oracle.h).
 */
#ifndef TESTS_RECORD_READING_H
#define TESTS_RECORD_READING_H

#include <spex/record.h>

#include "arch/feature_set.h"

struct reading {
    const struct arch_features *f;
    const struct spex_record *r;
    bool va, latency, source, partial, empty, event; /* of an access */
};

static inline bool reading_bit(uint64_t value, unsigned bit)
{
    return value >> bit & 1;
}

/* An operation whose type cannot be a vector's: all of it accesses memory, and says so. */
static inline const char *reading_of_access(const struct reading *x, bool load, bool source_allowed)
{
    if (x->partial || x->empty)
        return "E[18:17]: only SVE and SME operations have a Governing predicate (D18.2.6)";
    if (!x->va)
        return "the data virtual address is recorded (D17.6.4)";
    if (!x->latency)
        return "the translation latency is recorded (D17.6.4)";
    if (load && x->f->LDS && !x->source)
        return "Data Source is included for all other loads (D18.2.4)";
    if (!load && !source_allowed && x->source)
        return "Data Source says where the data of a load came from (D18.2.4)";
    return NULL;
}

/* 0bxxxx1x0x: SG, EVL, PRED, LDST. */
static inline const char *reading_of_vector(const struct reading *x, unsigned payload)
{
    bool store = payload & 1, pred = payload & 4;
    if (!pred && (store || x->f->version >= 3) && (x->partial || x->empty))
        return "E[17] needs a predicate (D18.2.6)";
    if (!x->partial && !x->va)
        return "only for an Inactive element is there no address (RMYPFF, RNHSYR)";
    if (!x->empty && x->va && !x->latency)
        return "the translation latency is recorded (D17.6.4)";
    if (!x->empty && !store && x->f->LDS && !x->source)
        return "Data Source is included for all other loads (D18.2.4)";
    if (store && x->source)
        return "Data Source says where the data of a load came from (D18.2.4)";
    if (x->empty && (x->event || x->source))
        return "if the access does not occur, its events are zero (D17.6.4)";
    return NULL;
}

static inline const char *reading_of_ldst(const struct reading *x, unsigned payload)
{
    const struct arch_features *f = x->f;
    bool load = !(payload & 1), older_copy = f->MOPS && f->version < 4;
    bool older_vector = f->version < 2 && (f->SVE || f->SME);
    if ((payload & 0x0a) == 0x08)
        return reading_of_vector(x, payload);
    if ((payload & 0xe2) == 0x02) { /* AR, EXCL, AT */
        bool atomic = payload & 4, exclusive = payload & 8;
        if (!(payload & 0x1c) || (atomic && exclusive))
            return "an atomic operation, load-acquire, store-release, or exclusive (D18.2.7)";
        if (exclusive && !load) /* the monitor may have failed: D17.6.4 */
            return x->source ? "Data Source of a Store-Exclusive (D18.2.4)" : NULL;
        return reading_of_access(x, load, atomic);
    }
    switch (payload & 0xfe) {
    case 0x20: /* Memory Copy and Memory Set may copy nothing */
    case 0x24:
        return !load && x->source ? "Data Source of the store of a copy (D18.2.4)" : NULL;
    case 0x30: /* NV2: the address may be missing */
        return load && f->LDS && !x->source ? "Data Source of a transformed load (D18.2.4)"
               : !load && x->source         ? "Data Source of a transformed store (D18.2.4)"
                                            : NULL;
    case 0x10:
        if ((f->SME && !f->SPE_SME) || (load && older_copy))
            return NULL;
        return reading_of_access(x, load, f->LS64 || older_copy);
    case 0x00:
        if (older_copy || (older_vector && f->SME))
            return NULL;
        return reading_of_access(x, load, f->version < 2 && f->LS64);
    case 0x04:
        return older_vector ? NULL : reading_of_access(x, load, false);
    default: /* Allocation Tags 0x14, GCS 0x40 and 0x44 */
        return reading_of_access(x, load, false);
    }
}

static inline const char *reading_of_branch(const struct reading *x, unsigned payload)
{
    unsigned cr = payload >> 3 & 3;
    bool gcs = payload & 4, indirect = payload & 2, conditional = payload & 1;
    if (cr == 2 && !indirect)
        return "a procedure return takes its address from a register";
    if (cr == 1 && conditional)
        return "there is no conditional branch with link";
    if (!gcs)
        return x->va || x->latency || x->source || x->event ? "a branch accesses no memory" : NULL;
    if (cr == 3)
        return "calls and returns access the Guarded Control Stack";
    return cr ? reading_of_access(x, cr == 2, false) : NULL;
}

/* The sentence that this record breaks, or NULL. */
static inline const char *reading_broken(const struct arch_features *f, const struct spex_record *r)
{
    const uint64_t of_access = 0x3cu | 0xf00u | 0xf80000u; /* E[5:2], E[11:8], E[23:19] */
    struct reading x = {
        .f = f,
        .r = r,
        .va = r->present & SPEX_HAS_VA,
        .latency = r->present & SPEX_HAS_TRANSLATION,
        .source = r->present & SPEX_HAS_DATA_SOURCE,
        .partial = reading_bit(r->events, 17),
        .empty = reading_bit(r->events, 18),
        .event = r->events & of_access,
    };
    const unsigned always = SPEX_HAS_PC | SPEX_HAS_OP | SPEX_HAS_TOTAL | SPEX_HAS_ISSUE;
    if (!(r->present & SPEX_HAS_EVENTS))
        return "the Events packet is always output (D17.6.7)";
    if (x.empty && !x.partial)
        return "all elements FALSE is at least one FALSE (D18.2.6)";
    if (r->present & SPEX_HAS_PREV_TARGET && r->address[SPEX_ADDRESS_PREV_TARGET] >> 60 == 15)
        return "EL3 is not in Realm state (D18.2.1)";
    if ((r->events & 3) != 2)
        return NULL; /* UNPREDICTABLE whether there is more: D17.6.7, D17.6.10 */
    if ((r->present & always) != always)
        return "PC, type, total and issue latency are there (D17.6)";
    if (r->issue > r->total)
        return "it waits to be issued from its start to its end (D17.6)";
    if (x.latency && r->translation > r->total)
        return "it waits for the MMU from its start to its end (D17.6.4)";
    if (x.latency && r->translation && !x.va)
        return "without an address the translation latency is absent or zero (D17.6.4)";
    if (r->present & SPEX_HAS_ALT_ISSUE && f->ALTCLK == 1 && !reading_bit(r->events, 24))
        return "SMCU cycles are of operations in Streaming SVE mode (D17.6.1)";
    if (r->op_class == 1)
        return reading_of_ldst(&x, r->op_payload);
    if (r->op_class == 2)
        return reading_of_branch(&x, r->op_payload);
    bool other = !(r->op_payload & 0xf8);
    if (other && r->op_payload & 1 && x.partial)
        return "a conditional select or compare has no predicate (D18.2.7)";
    if (other && r->op_payload && (x.va || x.source || x.event))
        return "only cache maintenance, prefetch and translation are like loads (D17.6.8)";
    return NULL;
}

#endif
