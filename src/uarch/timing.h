/*
 * The full microarchitecture model: one account of time for every instruction (docs/model.md
 * describes it; tests/uarch/slow.c is a second implementation of that description).
 *
 * A struct timing is a system: memory, last level cache, parameters. A struct timing_core is a PE
 * with its private caches, predictors and its clock. A system and all its cores are used by one
 * thread at a time, except for timing_predict(). The same calls in the same order give the same
 * results, to the cycle.
 *
 * An engine describes each straight run of instructions once, when it is translated
 * (timing_block_init). For each execution it then reports what was executed, which addresses were
 * accessed and where control went.
 */
#ifndef UARCH_TIMING_H
#define UARCH_TIMING_H

#include "account/op.h"
#include "uarch/model.h"

struct timing; /* opaque */
struct timing_core;

enum spex_status timing_new(const struct uarch_config *config, struct timing **timing);
void timing_free(struct timing *timing); /* frees its cores, too */
/* The cores' clocks may be far apart: a lease begins when another core asks for the line. */
void timing_apart(struct timing *timing);

/* index says where the core is (cluster, socket). Caches are empty, the clock is at 0. */
enum spex_status timing_core_new(struct timing *timing, unsigned index, struct timing_core **core);
/* The core leaves the system; modified lines go to the last level. */
void timing_core_free(struct timing_core *core);

/* ---- what is made ideal ---- */

/*
 * Makes these addresses ideal from here on. The ranges must live as long as the system. Call it
 * before the system has cores and blocks.
 */
void timing_set_ideal(struct timing *timing, const struct ideal_range *ranges, size_t count);

/* ---- blocks ---- */

/* Where a taken branch is found, fastest first. */
enum timing_btb {
    TIMING_BTB_NEAR,
    TIMING_BTB_MID,
    TIMING_BTB_LAST,
    TIMING_BTB_DENSE, /* like LAST, but with another branch after it in the same 32 bytes */
    TIMING_BTB_NOWHERE,
    TIMING_BTB_COUNT
};

struct timing_block {
    uint64_t pc, next; /* address of the first instruction, and after the last */
    uint32_t count;
    uint8_t end; /* enum uarch_end */
    const struct spex_op *ops;
    struct account_op *uops;
    uint64_t extra;                  /* extra dispatch time that its ports need */
    uint32_t number;                 /* number among blocks that may be remembered, from 1 */
    uint32_t loads, stores;          /* number of loads and stores */
    uint32_t hints;                  /* number of prefetches */
    bool steady;                     /* its behaviour may be remembered */
    bool apart;                      /* timing_follow() leaves this block to the engine */
    bool foreseen;                   /* its branch is always predicted */
    uint32_t gone;                   /* number of instructions that take no time */
    uint64_t key;                    /* key of its branch for the predictors */
    uint64_t fetched, found;         /* private to the model: see fetch.c */
    uint32_t place;                  /* number of its branch among the taken ones; 0: never taken */
    bool dense;                      /* result of looking for dense branches */
    uint32_t late[TIMING_BTB_COUNT]; /* how late the target is, in cycles << 16 | parts */
    /* private to the engine: retirement of an execution, cycles << 16, and how it was learned */
    uint64_t mean;
    double exact;
    uint32_t seen;
    uint8_t ways; /* private to far.h: its branch was taken (2), was not (1) */
};

/* ops must live as long as the block. timing_block_fini() frees what the block holds. */
enum spex_status timing_block_init(const struct timing *timing, struct timing_block *block,
                                   uint64_t pc, const struct spex_op *ops, size_t count);
void timing_block_fini(struct timing_block *block);

/* ---- executions ---- */

/*
 * One data access: virtual address in bits 47:0, position of its instruction in the block in bits
 * 59:48. The instruction determines its size. Accesses of a block are in program order; atomics and
 * Store-Exclusive make one access, a failed Store-Exclusive makes none.
 */
typedef uint64_t timing_access;
#define SPEX_TIMING_ACCESS(va, insn) (((va)&0xffffffffffffull) | (uint64_t)(insn) << 48)

struct timing_run {
    uint32_t executed; /* instructions executed, at least 1; all of them unless it was cut */
    bool cut;          /* control left before the block's end: fault, signal */
    uint64_t next;     /* pc of the block that follows, unless cut */
    const timing_access *access;
    size_t access_count;
    /* Filled in if not NULL: one for each executed instruction, one for each access. */
    struct account_insn *insns;
    uarch_result *results;
    /*
     * Set if insns is not NULL, in slots of dispatch since cycle 0, `width` slots per cycle. ready:
     * when the block before and the front end let the first instruction go. ports: when the block's
     * ports let the next block go, or 0 if they do not hold it up.
     */
    uint64_t ready, ports;
    bool mispredicted; /* timing_predict() was wrong about the branch at its end */
};

/*
 * Was the branch at the end of the block, which went to next, mispredicted? Call it once for each
 * execution that is not cut, in order. The answer depends on nothing else and uses only the
 * predictors of the core, so one thread may call it ahead of the thread that runs the blocks.
 */
bool timing_predict(struct timing_core *core, const struct timing_block *block, uint64_t next);

void timing_run(struct timing_core *core, struct timing_block *block, struct timing_run *run);

/*
 * Runs many blocks in a row that were executed whole and need no details. They are given as words:
 * for each block its address with SPEX_TIMING_BLOCK, then its accesses. SPEX_TIMING_WRONG in the
 * word after them means that the branch at the block's end was mispredicted. Stops before a block
 * that is `apart`, or that is not followed by a block's word.
 */
#define SPEX_TIMING_BLOCK (UINT64_C(1) << 60)
#define SPEX_TIMING_WRONG (UINT64_C(1) << 59)
struct timing_words {
    struct timing_block *block; /* the next block */
    const uint64_t *at;         /* the word after the block's own word */
    const uint64_t *stop;       /* the end of the words */
    uint64_t limit;             /* ends when the clock is past this */
    uint64_t instructions;      /* most instructions to run; reduced by those that ran */
    /* Set if there was one: the last block that ended with a taken branch, and where it went. */
    const struct timing_block *taken;
    uint64_t target;
};
void timing_follow(struct timing_core *core, struct timing_words *words);

static inline struct timing_block *timing_block_of(uint64_t word)
{
    return (struct timing_block *)(uintptr_t)(word << 16 >> 16);
}

/* Events, translation latency and data source of an access, from its result. */
void timing_access_outcome(const struct timing_core *core, const struct spex_op *op, uint64_t va,
                           unsigned size, uarch_result result, struct spex_access *access);

/* ---- time ---- */

/* Cycles: when the last instruction retired. Never goes back. */
uint64_t timing_clock(const struct timing_core *core);
/* Lets the core spend cycles in the kernel. The pipeline is empty afterwards. */
void timing_spend(struct timing_core *core, uint64_t cycles);
/*
 * Lets time pass up to a moment; does nothing if that is in the past. Returns the cycles that
 * passed.
 */
uint64_t timing_reach(struct timing_core *core, uint64_t cycles);

/*
 * Number of lines so far that came from other cores, or that they lost because this one wrote to
 * them.
 */
uint64_t timing_lines_taken(const struct timing_core *core);
void timing_counts(const struct timing_core *core, struct uarch_counts *counts);

#endif
