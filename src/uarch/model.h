/*
 * The microarchitecture model: caches, TLBs, branch prediction, latencies and
 * data sources of an Arm core, as the SPU would see them (Arm ARM D17.6.4,
 * D18.2.5, D18.2.6). A model, not a cycle-accurate core: docs/model.md.
 *
 * One struct spex_uarch is the part that cores share (last level cache,
 * directory, numbers); one struct spex_uarch_core is a PE. A core is used by one
 * thread at a time, different cores by different threads without locks of the
 * caller. A single core given the same calls always gives the same answers.
 *
 * An engine calls spex_uarch_block() at each entry of a straight run of instructions and
 * spex_uarch_load(), _store() or _atomic() for each access. Both have a short inline path for
 * the common case; the rest is a tail call. Only when a sample completes does it ask for more:
 * spex_uarch_access() and spex_uarch_replay() fill in the outcome.
 *
 * Addresses are virtual; the model takes physical ones to be equal. An engine that
 * runs several address spaces on one core puts the space's number into bits 63:56.
 */
#ifndef SPEX_UARCH_H
#define SPEX_UARCH_H

#include "account/config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- blocks: straight runs of instructions, described once at translation ---- */

/* How a block ends. */
enum spex_uarch_end {
    SPEX_UARCH_END_NONE, /* runs into the next, or an exception: nothing to predict */
    SPEX_UARCH_END_COND,
    SPEX_UARCH_END_DIRECT,
    SPEX_UARCH_END_CALL,
    SPEX_UARCH_END_RETURN,
    SPEX_UARCH_END_INDIRECT,
    SPEX_UARCH_END_INDIRECT_CALL,
};

/*
 * Made by spex_uarch_block_init(); must live as long as any core that entered it
 * (so do ops). Embed it in the engine's own struct.
 */
struct spex_uarch_block {
    int64_t delta; /* added to the core's counter at entry */
    uint64_t pc;
    uint64_t next;             /* pc of the instruction after the block */
    uint32_t count;            /* instructions */
    uint8_t end;               /* enum spex_uarch_end */
    const struct spex_op *ops; /* count of them */
};

/* ---- what is made ideal, in the full model alone (timing.h) ---- */

enum spex_ideal {
    SPEX_IDEAL_LOADS = 1,  /* of these instructions hit level 1 and its TLB */
    SPEX_IDEAL_BRANCH = 2, /* these branches are always predicted */
    SPEX_IDEAL_DIVIDE = 4, /* these divisions and square roots cost what additions do */
    SPEX_IDEAL_TIME = 8,   /* these instructions take no time, nor do their accesses */
    SPEX_IDEAL_SHARE = 16, /* each core has these lines of data for itself */
    SPEX_IDEAL_PAGES = 32, /* this data is in pages of 2 MB */
};

struct spex_ideal_range { /* of addresses */
    uint64_t first, size;
    unsigned kinds;
};

/* ---- a core ---- */

struct spex_uarch; /* opaque */

enum {
    SPEX_UARCH_RING = 16,          /* blocks remembered for replay */
    SPEX_UARCH_MODIFIED_STATE = 3, /* in the low six bits of a tag word */
    SPEX_UARCH_RAS_MAX = 64,
    SPEX_UARCH_DIRECTION_SHIFT = 4,     /* where a two-bit counter sits in its byte */
    SPEX_UARCH_OPS_SHIFT = 40,          /* counter: operations left above, ticks below */
    SPEX_UARCH_TICK = 16,               /* ticks in a cycle */
    SPEX_UARCH_OPS_MAX = (1 << 22) - 1, /* largest argument of spex_uarch_arm() */
};

enum spex_uarch_attention {
    SPEX_UARCH_ATT_MAIL = 1u << 0,   /* invalidations wait; the model's own bit */
    SPEX_UARCH_ATT_ENGINE = 1u << 8, /* bits 31:8 are the engine's */
};

/*
 * Fields are read and written by the inline functions; treat them as private. The
 * first cache line and the ring are what every block touches.
 */
struct spex_uarch_core {
    /* operations left << 40 | ticks since the last arm */
    int64_t counter __attribute__((aligned(64)));
    const struct spex_uarch_block *last;
    uint32_t sequence;  /* number of the block being executed */
    uint32_t history;   /* of conditional branches, newest in bit 0 */
    uint32_t attention; /* enum spex_uarch_attention; others set bits atomically */
    uint32_t set_mask;  /* level 1 sets - 1 */
    uint32_t bp_mask;
    uint32_t ras_top;
    uint32_t ras_mask;
    uint32_t index;     /* the engine's number of the core */
    int64_t penalty[2]; /* ticks after a branch predicted right (none), and wrong */
    uint64_t mispredicts;
    /* Entered blocks; the low bit says that the branch before it was mispredicted. */
    uintptr_t ring[SPEX_UARCH_RING];
    uint64_t clock_base; /* ticks before the last arm */
    void *engine;        /* the engine's own, for its slow path */
    struct uarch_core *rest;
    uint64_t ras[SPEX_UARCH_RAS_MAX];
    /* most recent tag word of each level 1 set */
    uint64_t mru[SPEX_UARCH_SETS_MAX] __attribute__((aligned(64)));
    uint8_t direction[1 << 14]; /* two-bit counters, see spex_uarch_block() */
};

enum spex_status spex_uarch_new(const struct spex_uarch_config *config, struct spex_uarch **model);
void spex_uarch_free(struct spex_uarch *model); /* and all its cores */
const struct spex_uarch_config *spex_uarch_config_of(const struct spex_uarch *model);
/* In the child of a fork: only the calling thread's core goes on. */
void spex_uarch_forked(struct spex_uarch *model, struct spex_uarch_core *core);

/*
 * A core; index says where it sits (cluster, socket) and should be unique among
 * cores alive at a time. Any number of cores; beyond 64 the directory is coarse.
 */
enum spex_status spex_uarch_core_new(struct spex_uarch *model, unsigned index,
                                     struct spex_uarch_core **core);
/* The core leaves the system; a later spex_uarch_core_new() may use its memory. */
void spex_uarch_core_free(struct spex_uarch_core *core);
/* Empties caches, TLBs and predictors: a new thread on an old index. The clock stays. */
void spex_uarch_core_reset(struct spex_uarch_core *core);

/* The last of ops decides how the block ends. count is at least 1. */
void spex_uarch_block_init(const struct spex_uarch *model, struct spex_uarch_block *block,
                           uint64_t pc, const struct spex_op *ops, size_t count);

/* ---- time and the operation counter ---- */

/*
 * spex_uarch_block() reports SPEX_UARCH_EXPIRED in the block that contains
 * operation number `operations` (1 is the next one executed) or a later one;
 * spex_uarch_left() is then negative or zero: left + count of the block is the
 * 1-based position of that operation in it. Arm again then. An engine that counts
 * by itself never calls this and never sees EXPIRED.
 */
void spex_uarch_arm(struct spex_uarch_core *core, uint32_t operations);

/* Operations until the armed one; at most zero once it has been reached. */
static inline int64_t spex_uarch_left(const struct spex_uarch_core *core)
{
    return (core->counter >> SPEX_UARCH_OPS_SHIFT) + 1;
}

/* Operations of the entered block that were never executed, after a fault. */
static inline void spex_uarch_give_back(struct spex_uarch_core *core, uint32_t operations)
{
    core->counter += (int64_t)((uint64_t)operations << SPEX_UARCH_OPS_SHIFT);
}

/* Modelled cycles since the core was made; never goes back. */
static inline uint64_t spex_uarch_clock(const struct spex_uarch_core *core)
{
    uint64_t ticks = (uint64_t)core->counter & ((1ull << SPEX_UARCH_OPS_SHIFT) - 1);
    return (core->clock_base + ticks) / SPEX_UARCH_TICK;
}
/* Moves the clock forward to cycles; does nothing if it is there already. */
void spex_uarch_clock_reach(struct spex_uarch_core *core, uint64_t cycles);

/*
 * The thread of this core blocks in a system call (or ended), or runs again. A
 * core that does not run does not contend for lines.
 */
void spex_uarch_core_idle(struct spex_uarch_core *core, bool idle);

/* ---- hot path: blocks ---- */

enum spex_uarch_block_flag {
    SPEX_UARCH_EXPIRED = 1u << 0,   /* the armed operation is in this block, or was */
    SPEX_UARCH_ATTENTION = 1u << 1, /* bits of the engine are set in core->attention */
    SPEX_UARCH_INDIRECT = 1u << 2,  /* internal */
};

/*
 * Enters a block. Returns 0 nearly always. Otherwise the engine calls
 * spex_uarch_block_rest() with the same arguments and the returned flags; its
 * result says which of EXPIRED and ATTENTION hold. Whether the branch that led
 * here was mispredicted is asked with spex_uarch_mispredicted().
 *
 *     unsigned flags = spex_uarch_block(core, block);
 *     if (__builtin_expect(flags != 0, 0))
 *         return slow(core, block, flags);   // flags = spex_uarch_block_rest(...)
 */
unsigned spex_uarch_block_rest(struct spex_uarch_core *core, const struct spex_uarch_block *block,
                               unsigned flags);

static inline __attribute__((always_inline)) unsigned
spex_uarch_block(struct spex_uarch_core *core, const struct spex_uarch_block *block)
{
    const struct spex_uarch_block *last = core->last;
    uintptr_t entered = (uintptr_t)block;
    uint32_t sequence = ++core->sequence;
    int64_t counter = core->counter + block->delta;
    unsigned flags = 0;
    core->last = block;
    if (__builtin_expect(last->end == SPEX_UARCH_END_COND, 1)) {
        uint32_t history = core->history;
        uint8_t *direction =
            &core->direction[((uint32_t)(last->next >> 2) ^ history) & core->bp_mask];
        /*
         * A table of bytes by counter * 2 + taken: next counter << 4, and bit 7 if it was wrong.
         * The counter is kept as it comes out of the table: shifted, it is the index of the next
         * byte, and shifts ignore bit 7.
         */
        unsigned taken = block->pc != last->next;
        uint8_t next = (uint8_t)(0x30a03090a0009000u >> ((*direction + taken * 8) & 63));
        *direction = next;
        core->history = history * 2 + taken;
        entered += next >> 7;
        counter += core->penalty[next >> 7];
        core->mispredicts += next >> 7;
    } else if (last->end == SPEX_UARCH_END_CALL) {
        core->ras[++core->ras_top & core->ras_mask] = last->next;
    } else if (last->end == SPEX_UARCH_END_RETURN) {
        unsigned wrong = core->ras[core->ras_top-- & core->ras_mask] != block->pc;
        entered += wrong;
        counter += core->penalty[wrong];
        core->mispredicts += wrong;
    } else if (last->end >= SPEX_UARCH_END_INDIRECT) {
        flags = SPEX_UARCH_INDIRECT;
    }
    core->ring[sequence % SPEX_UARCH_RING] = entered;
    core->counter = counter;
    if (__builtin_expect(counter < 0, 0))
        flags |= SPEX_UARCH_EXPIRED;
    if (__builtin_expect(__atomic_load_n(&core->attention, __ATOMIC_RELAXED) != 0, 0))
        flags |= SPEX_UARCH_ATTENTION;
    return flags;
}

/*
 * Control left the last block before its end (signal, fault, exception): its closing branch,
 * if any, was not executed.
 */
void spex_uarch_cut(struct spex_uarch_core *core);

/* ---- hot path: data accesses ---- */

/*
 * What happened: 0 is a level 1 hit, TLB hit, not split; anything else has the
 * fields below. latency counts from issue to data, without the translation.
 */
typedef uint64_t spex_uarch_result;

enum spex_uarch_level {
    SPEX_UARCH_L1,
    SPEX_UARCH_L2,
    SPEX_UARCH_LLC,
    SPEX_UARCH_PEER,   /* another core of the cluster */
    SPEX_UARCH_FAR,    /* a core of another cluster */
    SPEX_UARCH_REMOTE, /* a cache of another socket */
    SPEX_UARCH_DRAM,
    SPEX_UARCH_LEVEL_COUNT
};

enum spex_uarch_result_flag {
    SPEX_UARCH_TLB_MISS = 1u << 4, /* of the level 1 TLB */
    SPEX_UARCH_WALK = 1u << 5,
    SPEX_UARCH_MODIFIED = 1u << 6,   /* the line was modified where it was found */
    SPEX_UARCH_SNOOPED = 1u << 7,    /* it came from another core's cache */
    SPEX_UARCH_SOCKET = 1u << 8,     /* the access went to another socket */
    SPEX_UARCH_SPLIT = 1u << 9,      /* crosses a line (the worse of two accesses) or boundary */
    SPEX_UARCH_UPGRADE = 1u << 10,   /* a write to a line that others shared */
    SPEX_UARCH_CONTENDED = 1u << 11, /* decided in virtual time */
    SPEX_UARCH_RECENT = 1u << 12,    /* level 1 hit on a line that is still on its way */
    /* bits 15:13: then the level that it comes from (full model; fast: 0) */
};

static inline enum spex_uarch_level spex_uarch_result_level(spex_uarch_result r)
{
    return (enum spex_uarch_level)(r & 15);
}
static inline uint32_t spex_uarch_result_latency(spex_uarch_result r)
{
    return (uint32_t)(r >> 16) & 0xffff;
}
static inline uint32_t spex_uarch_result_translation(spex_uarch_result r)
{
    return (uint32_t)(r >> 32) & 0xffff;
}

/* insn: position of the instruction in the block being executed. */
spex_uarch_result spex_uarch_load_slow(struct spex_uarch_core *core, uint64_t va, unsigned size,
                                       unsigned insn);
spex_uarch_result spex_uarch_store_slow(struct spex_uarch_core *core, uint64_t va, unsigned size,
                                        unsigned insn);
spex_uarch_result spex_uarch_atomic_slow(struct spex_uarch_core *core, uint64_t va, unsigned size,
                                         unsigned insn);

/* size is at most 64. */
static inline __attribute__((always_inline)) spex_uarch_result
spex_uarch_load(struct spex_uarch_core *core, uint64_t va, unsigned size, unsigned insn)
{
    uint64_t tag = core->mru[(va >> 6) & core->set_mask];
    /* First and last byte are in the line of the tag, whatever its state. */
    if (__builtin_expect(((tag ^ va) | (tag ^ (va + size - 1))) < 64, 1))
        return 0;
    return spex_uarch_load_slow(core, va, size, insn);
}

static inline __attribute__((always_inline)) spex_uarch_result
spex_uarch_store(struct spex_uarch_core *core, uint64_t va, unsigned size, unsigned insn)
{
    uint64_t tag = core->mru[(va >> 6) & core->set_mask];
    uint64_t want = (va & ~63ull) + SPEX_UARCH_MODIFIED_STATE;
    if (__builtin_expect(((tag ^ want) | ((want ^ (va + size - 1)) & ~63ull)) == 0, 1))
        return 0;
    return spex_uarch_store_slow(core, va, size, insn);
}

/* LSE atomics and Store-Exclusive: one access, though engines see a load and a store. */
static inline __attribute__((always_inline)) spex_uarch_result
spex_uarch_atomic(struct spex_uarch_core *core, uint64_t va, unsigned size, unsigned insn)
{
    uint64_t tag = core->mru[(va >> 6) & core->set_mask];
    uint64_t want = (va & ~63ull) + SPEX_UARCH_MODIFIED_STATE;
    if (__builtin_expect(((tag ^ want) | ((want ^ (va + size - 1)) & ~63ull)) == 0, 1))
        return 0;
    return spex_uarch_atomic_slow(core, va, size, insn);
}

/* ---- at a sample ---- */

/*
 * Fills events (E[2..5], E[8..11], E[19..23]), translation, data_source and the
 * flag SPEX_ACC_SOURCE of one access; flags and addresses are the caller's. Call it
 * right after the access, with its result: a level 1 hit on a line that is still
 * on its way is a "recently fetched" hit. The result comes back with that and with
 * misalignment added, for spex_uarch_replay().
 * Bits that the CPU or the SPE version does not have are for the SPU to drop. With
 * preset none nothing is known: all zero.
 */
spex_uarch_result spex_uarch_access(const struct spex_uarch_core *core, const struct spex_op *op,
                                    uint64_t va, unsigned size, spex_uarch_result result,
                                    struct spex_access *access);

/*
 * Latencies of instruction insn of the block numbered sequence (core->sequence when it was
 * current, at most 8 blocks ago): a scoreboard replays the last operations. result is what
 * spex_uarch_access() returned, the worst if there were several accesses, 0 if none. Fills
 * total and issue.
 */
void spex_uarch_replay(const struct spex_uarch_core *core, uint32_t sequence, unsigned insn,
                       spex_uarch_result result, struct spex_outcome *outcome);

/*
 * Of the branch that closes the block numbered sequence, once the next was entered;
 * right after spex_uarch_block() that is core->sequence - 1.
 */
static inline bool spex_uarch_mispredicted(const struct spex_uarch_core *core, uint32_t sequence)
{
    return core->ring[(sequence + 1) % SPEX_UARCH_RING] & 1;
}

/* ---- the whole model's truth, for tests and `spex stat` ---- */

struct spex_uarch_counts {
    uint64_t l1_miss, l2_miss, llc_access, llc_miss; /* loads, stores and atomics */
    uint64_t tlb_miss, walk;
    uint64_t snoop, snoop_modified; /* lines that came from another core */
    uint64_t upgrade, invalidated;  /* writes to shared lines; lines lost to others */
    uint64_t contended;             /* accesses decided in virtual time (fast) */
    uint64_t mispredict;
    /* the full model alone */
    uint64_t prefetch, prefetch_used, prefetch_late; /* lines fetched ahead */
    uint64_t code_miss;                              /* of the level 1 instruction cache */
    uint64_t btb_miss;
    uint64_t forwarded;    /* loads that got their data from the store buffer */
    uint64_t streamed;     /* lines written without being fetched */
    uint64_t kernel, idle; /* cycles of system calls, and of waiting */
};
void spex_uarch_counts(const struct spex_uarch_core *core, struct spex_uarch_counts *counts);

const char *spex_uarch_level_name(enum spex_uarch_level level);

#ifdef __cplusplus
}
#endif
#endif
