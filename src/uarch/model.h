/*
 * The microarchitecture model: caches, TLBs, branch prediction, latencies and data sources of an
 * Arm core, as the SPU would see them (Arm ARM D17.6.4, D18.2.5, D18.2.6). It is a model, not
 * cycle-accurate: docs/model.md.
 *
 * This header has what its parts share: timing.h is the account of time, far.h replaces it between
 * samples, none.h replaces it without a model.
 *
 * Addresses are virtual; physical addresses are assumed to be equal. An engine that runs several
 * address spaces on one core puts the space's number above the bits of the address.
 */
#ifndef SPEX_UARCH_H
#define SPEX_UARCH_H

#include "account/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- blocks: straight runs of instructions, described once at translation ---- */

/* How a block ends. */
enum uarch_end {
    SPEX_UARCH_END_NONE, /* continues into the next block, or an exception: nothing to predict */
    SPEX_UARCH_END_COND,
    SPEX_UARCH_END_DIRECT,
    SPEX_UARCH_END_CALL,
    SPEX_UARCH_END_RETURN,
    SPEX_UARCH_END_INDIRECT,
    SPEX_UARCH_END_INDIRECT_CALL,
};

/* ---- what is made ideal ---- */

enum ideal_set {
    SPEX_IDEAL_LOADS = 1,  /* loads of these instructions hit level 1 and its TLB */
    SPEX_IDEAL_BRANCH = 2, /* these branches are always predicted */
    SPEX_IDEAL_DIVIDE = 4, /* these divisions and square roots cost as much as additions */
    SPEX_IDEAL_TIME = 8,   /* these instructions and their accesses take no time */
    SPEX_IDEAL_SHARE = 16, /* each core has these data lines to itself */
    SPEX_IDEAL_PAGES = 32, /* this data is in pages of 2 MB */
};

struct ideal_range { /* a range of addresses */
    uint64_t first, size;
    unsigned kinds;
};

/* ---- data accesses ---- */

/*
 * The result of an access: 0 is a level 1 hit, TLB hit, not split; anything else has the fields
 * below. latency counts from issue to data, without the translation.
 */
typedef uint64_t uarch_result;

enum uarch_level {
    SPEX_UARCH_L1,
    SPEX_UARCH_L2,
    SPEX_UARCH_LLC,
    SPEX_UARCH_PEER,   /* another core of the cluster */
    SPEX_UARCH_FAR,    /* a core of another cluster */
    SPEX_UARCH_REMOTE, /* a cache of another socket */
    SPEX_UARCH_DRAM,
    SPEX_UARCH_LEVEL_COUNT
};

enum uarch_result_flag {
    SPEX_UARCH_TLB_MISS = 1u << 4, /* level 1 TLB miss */
    SPEX_UARCH_WALK = 1u << 5,
    SPEX_UARCH_MODIFIED = 1u << 6, /* the line was modified where it was found */
    SPEX_UARCH_SNOOPED = 1u << 7,  /* data came from another core's cache */
    SPEX_UARCH_SOCKET = 1u << 8,   /* the access went to another socket */
    /* crosses a line (then this is the worse of two accesses) or boundary */
    SPEX_UARCH_SPLIT = 1u << 9,
    SPEX_UARCH_UPGRADE = 1u << 10, /* a write to a line that others shared */
    SPEX_UARCH_RECENT = 1u << 12,  /* level 1 hit on a line that is still on its way */
    /* bits 15:13: the level that it comes from */
};

static inline enum uarch_level uarch_result_level(uarch_result r)
{
    return (enum uarch_level)(r & 15);
}
static inline uint32_t uarch_result_latency(uarch_result r)
{
    return (uint32_t)(r >> 16) & 0xffff;
}
static inline uint32_t uarch_result_translation(uarch_result r)
{
    return (uint32_t)(r >> 32) & 0xffff;
}

/* ---- exact counts for the whole model, for tests and `spex stat` ---- */

struct uarch_counts {
    uint64_t l1_miss, l2_miss, llc_access, llc_miss; /* loads, stores and atomics */
    uint64_t tlb_miss, walk;
    uint64_t snoop, snoop_modified; /* lines that came from another core */
    uint64_t upgrade, invalidated;  /* writes to shared lines; lines lost to others */
    uint64_t mispredict;
    uint64_t prefetch, prefetch_used, prefetch_late; /* prefetched lines */
    uint64_t code_miss;                              /* level 1 instruction cache misses */
    uint64_t btb_miss;
    uint64_t forwarded;    /* loads that got their data from the store buffer */
    uint64_t streamed;     /* lines written without being fetched */
    uint64_t kernel, idle; /* cycles in system calls, and of waiting */
};

#ifdef __cplusplus
}
#endif
#endif
