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
    bool executed;
    bool va, latency, source, partial, empty, event, cached; /* of an access */
    bool accesses;                                           /* anything of that */
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
    if (!load && !source_allowed && x->source)
        return "Data Source says where the data of a load came from (D18.2.4)";
    if (x->executed && !x->va)
        return "the data virtual address is recorded (D17.6.4)";
    if (x->executed && !x->latency)
        return "the translation latency is recorded (D17.6.4)";
    if (x->executed && load && x->f->LDS && !x->source)
        return "Data Source is included for all other loads (D18.2.4)";
    return NULL;
}

/* Any of it may be missing if there was no access, which no cache event says then. */
static inline const char *reading_of_part(const struct reading *x, bool load, bool source_needed)
{
    if (x->partial || x->empty)
        return "E[18:17]: only SVE and SME operations have a Governing predicate (D18.2.6)";
    if (!load && x->source)
        return "Data Source says where the data of a load came from (D18.2.4)";
    if (x->executed && x->cached && x->va && !x->latency)
        return "the translation latency is recorded (D17.6.4)";
    if (x->executed && load && (source_needed || x->cached) && x->f->LDS && !x->source)
        return "Data Source is included for all other loads (D18.2.4)";
    return NULL;
}

/* 0bxxxx1x0x: SG, EVL, PRED, LDST. */
static inline const char *reading_of_vector(const struct reading *x, unsigned payload)
{
    bool store = payload & 1, pred = payload & 4;
    if (!pred && (store || x->f->version >= 3) && (x->partial || x->empty))
        return "E[17] needs a predicate (D18.2.6)";
    if (store && x->source)
        return "Data Source says where the data of a load came from (D18.2.4)";
    if (!x->executed)
        return NULL;
    if (!x->partial && !x->va)
        return "only for an Inactive element is there no address (RMYPFF, RNHSYR)";
    if (!x->empty && x->va && !x->latency)
        return "the translation latency is recorded (D17.6.4)";
    if (!x->empty && !store && x->f->LDS && !x->source)
        return "Data Source is included for all other loads (D18.2.4)";
    return NULL;
}

/* A type that stood for more before it was divided: at least, no plain store has a source. */
static inline const char *reading_of_older(const struct reading *x, bool load, bool source_allowed,
                                           bool vector)
{
    if (!vector && (x->partial || x->empty))
        return "E[18:17]: only SVE and SME operations have a Governing predicate (D18.2.6)";
    if (!load && !source_allowed && x->source)
        return "only ST64BV is a store with a Data Source (D17.6.4.4)";
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
            return reading_of_part(x, false, false);
        return reading_of_access(x, load, atomic);
    }
    switch (payload & 0xfe) {
    case 0x20: /* Memory Copy and Memory Set may copy nothing */
    case 0x24:
        return reading_of_part(x, load, false);
    case 0x30: /* NV2: the address may be missing */
        return reading_of_part(x, load, true);
    case 0x10: /* also SME accesses and copies, where they have no type of their own */
        return (f->SME && !f->SPE_SME) || older_copy
                   ? reading_of_older(x, load, f->LS64 || older_copy, f->SME && !f->SPE_SME)
                   : reading_of_access(x, load, f->LS64);
    case 0x00:
        return older_copy || (older_vector && f->SME)
                   ? reading_of_older(x, load, f->LS64 || older_copy, true)
                   : reading_of_access(x, load, f->version < 2 && f->LS64);
    case 0x04:
        return older_vector ? reading_of_older(x, load, false, true)
                            : reading_of_access(x, load, false);
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
    if (indirect && conditional)
        return "no conditional branch takes its target from a register";
    if (x->partial)
        return "E[18:17]: only SVE and SME operations have a Governing predicate (D18.2.6)";
    if (!gcs)
        return x->accesses ? "a branch accesses no memory" : NULL;
    if (cr == 3)
        return "calls and returns access the Guarded Control Stack";
    return reading_of_access(x, cr == 2, !cr);
}

/* Other, or data processing of SVE and SME: CLASS 0. */
static inline const char *reading_of_other(const struct reading *x, unsigned payload)
{
    bool other = !(payload & 0xf8);
    if (other && payload & 1 && x->partial)
        return "a conditional select or compare has no predicate (D18.2.7)";
    if (other && payload & 4 && x->partial)
        return "an Advanced SIMD operation has no predicate (D18.2.7)";
    if (payload & (other ? 0xff : 0x86) && x->accesses) /* SVE: PRED or FP; SME */
        return "only cache maintenance, prefetch and translation are like loads (D17.6.8)";
    return NULL;
}

/* An executed operation that generated no exception has all of this. */
static inline const char *reading_of_executed(const struct reading *x)
{
    const unsigned always = SPEX_HAS_PC | SPEX_HAS_OP | SPEX_HAS_TOTAL | SPEX_HAS_ISSUE;
    const struct spex_record *r = x->r;
    if ((r->present & always) != always)
        return "PC, type, total and issue latency are there (D17.6)";
    if (r->issue > r->total)
        return "it waits to be issued from its start to its end (D17.6)";
    if (x->latency && r->translation > r->total)
        return "it waits for the MMU from its start to its end (D17.6.4)";
    if (x->empty && (x->event || x->source))
        return "if the access does not occur, its events are zero (D17.6.4)";
    if (x->empty && x->latency && r->translation)
        return "if the PE does not perform the access: not recorded, or zero (D17.6.4)";
    if (x->empty && r->present & SPEX_HAS_PA)
        return "not output if the PE does not translate the address (D17.6.4)";
    if (r->address[SPEX_ADDRESS_PC] & 3)
        return "A64 instructions are words at multiples of four bytes";
    if (x->latency && r->translation && !x->va)
        return "without an address the translation latency is absent or zero (D17.6.4)";
    if (r->present & SPEX_HAS_ALT_ISSUE && x->f->ALTCLK == 1 && !reading_bit(r->events, 24))
        return "SMCU cycles are of operations in Streaming SVE mode (D17.6.1)";
    return NULL;
}

/* The sentence that this record breaks, or NULL. */
static inline const char *reading_broken(const struct arch_features *f, const struct spex_record *r)
{
    const uint64_t of_access = 0x3cu | 0xf00u | 0xf80000u; /* E[5:2], E[11:8], E[23:19] */
    const uint64_t of_caches = 0x0cu | 0x700u | 0xf80000u; /* E[3:2], E[10:8], E[23:19] */
    /* An exception condition that raised none may leave no more (D17.6.10). */
    const unsigned bare = SPEX_HAS_PC | SPEX_HAS_EVENTS | SPEX_HAS_TIMESTAMP | SPEX_HAS_OTHER;
    struct reading x = {
        .f = f,
        .r = r,
        /* else it is UNPREDICTABLE what is there: D17.6.7, D17.6.10 */
        .executed = (r->events & 3) == 2 && r->present & ~bare,
        .va = r->present & SPEX_HAS_VA,
        .latency = r->present & SPEX_HAS_TRANSLATION,
        .source = r->present & SPEX_HAS_DATA_SOURCE,
        .partial = reading_bit(r->events, 17),
        .empty = reading_bit(r->events, 18),
        .event = r->events & of_access,
        .cached = r->events & of_caches,
    };
    x.accesses = x.va || x.latency || x.source || x.event || r->present & SPEX_HAS_PA;
    if (!(r->present & SPEX_HAS_EVENTS))
        return "the Events packet is always output (D17.6.7)";
    if (x.empty && !x.partial)
        return "all elements FALSE is at least one FALSE (D18.2.6)";
    if (r->present & SPEX_HAS_PREV_TARGET && r->address[SPEX_ADDRESS_PREV_TARGET] >> 60 == 15)
        return "EL3 is not in Realm state (D18.2.1)";
    const char *broken = x.executed ? reading_of_executed(&x) : NULL;
    if (broken || !(r->present & SPEX_HAS_OP))
        return broken;
    return r->op_class == 1   ? reading_of_ldst(&x, r->op_payload)
           : r->op_class == 2 ? reading_of_branch(&x, r->op_payload)
                              : reading_of_other(&x, r->op_payload);
}

#endif
