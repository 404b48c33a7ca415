/*
 * Internals of the full model (timing.h). pipe.c computes when things happen, memo.c remembers what
 * blocks did, memory.c has the data side, prefetch.c the prefetchers, fetch.c the instruction side,
 * predict.c the predictors.
 *
 * Requests come in program order, not in order of time: an instruction that waits for its operands
 * asks the memory later than the one after it. So a resource limited by bandwidth or ports is a
 * calendar of when it is taken, not just the time when it is next free.
 */
#ifndef UARCH_ACCOUNT_H
#define UARCH_ACCOUNT_H

#include "uarch/timing.h"
#include "uarch/uarch.h"

enum {
    TIMING_BUCKET = 6,      /* log2 of the cycles of a server's bucket */
    TIMING_BUCKETS = 1024,  /* buckets of a server's calendar */
    TIMING_AGO = 8,         /* buckets of a server whose use counts as its load */
    TIMING_REGISTERS = 256, /* miss registers at most */
    TIMING_STORED = 1024,   /* buckets of the stores that may be forwarded */
    TIMING_CORES = 4096,
    TIMING_TABLES = 8,
    TIMING_ENTRIES = 1 << 14,
    TIMING_STREAMS = 64,
    TIMING_REGIONS = 16,
    TIMING_NEAR = 1 << 16, /* words of the filter that tells which cores may have a line */
};

/* ---- what blocks did ---- */

/*
 * The state that later blocks depend on: when each register is ready, in cycles after the cycle
 * that follows dispatch (0: it is ready), and dispatch's fraction of a cycle. Cores in the same
 * state behave the same. Each state is stored once.
 */
struct timing_state {
    uint32_t seed; /* seed of the hashes */
    uint16_t part;
    uint8_t ready[ACCOUNT_REGS];
    struct timing_state *older; /* next state in the hash chain */
};

/* A load, store or atomic of a block that ran; times are cycles from dispatch of the block on. */
struct timing_step {
    uint16_t insn;
    uint16_t issue, took; /* took: cycles from issue to done */
    uint16_t before;      /* when everything before it in the block is done */
    uint16_t plain;       /* latency if its accesses are plain */
    uint8_t size;         /* bytes of an access */
    bool store;
    uint32_t fits; /* bit k: at address k the access lies within eight bytes; 0: several accesses */
};

/*
 * What a block does in a state, if its accesses take as long as they did when it was remembered.
 * The members used every time fill one cache line of the host.
 */
struct timing_path {
    const struct timing_state *from;
    /* first branch; next of the same path, or of the same hash */
    struct timing_path *branch, *next;
    uint16_t *retire;  /* retirement of all instructions, stored after the steps */
    uint16_t at, took; /* a branch between paths: step `at` took this long instead */
    uint32_t late;     /* how late the target of its branch was once; */
    const struct timing_state *lately; /* the state after that, or NULL; */
    struct timing_path *after;         /* the path that followed then */
    /* what came next: taken << 1 | mispredicted */
    _Alignas(64) struct timing_path *follow[4];
    const struct timing_state *to;
    const struct timing_state *missed; /* state after a mispredicted branch, or NULL */
    uint32_t block;
    uint32_t dispatch;   /* cycles of dispatch added to that state */
    uint16_t done, last; /* completion and retirement of the last instruction; as in a step */
    uint16_t count, steps;
    struct timing_step step[];
};

/* A block took that path, from this cycle of dispatch and after this retirement. */
struct timing_went {
    _Alignas(32) const struct timing_path *path;
    uint64_t base, retire;
};

enum {
    TIMING_PASSED = 128,    /* groups of 16 instructions: more than a window and a block together */
    TIMING_SOON = 48,       /* cycles: a register that is ready later is in no state */
    TIMING_LONGEST = 128,   /* instructions of a block that is remembered */
    TIMING_PATHS = 1 << 14, /* lists of paths, and of states */
    TIMING_CREDIT = 1 << 14, /* cost of remembering at which a core pauses it */
};

struct timing_memo {
    struct timing_state *state[TIMING_PATHS];
    struct timing_path *path[TIMING_PATHS];
    size_t bytes;
    uint32_t blocks; /* how many blocks have a number */
    struct account_insn insns[TIMING_LONGEST];
};

/* ---- what is limited ---- */

/* A server: serves a limited number of lines in each bucket of 64 cycles. */
struct timing_server {
    uint32_t lines;
    uint64_t bucket[TIMING_BUCKETS]; /* number << 16 | taken */
};
/* Finds the first time, from t on, at which a line can be served, and reserves it. */
uint64_t timing_serve(struct timing_server *server, uint64_t t);
/*
 * Lines taken in TIMING_AGO buckets, which end TIMING_AGO before the bucket of t. The most recent
 * buckets are not complete: cores are accounted for when instructions retire, and others may have
 * asked long before.
 */
uint32_t timing_load(const struct timing_server *server, uint64_t t);

/* Miss registers: when each is free again, as a heap: the one that is free first comes first. */
struct timing_registers {
    uint32_t count;
    uint64_t free[TIMING_REGISTERS];
};
/* The first is taken until then. */
static inline void timing_take(struct timing_registers *r, uint64_t until)
{
    uint32_t at = 0, child;
    for (; (child = 2 * at + 1) < r->count; at = child) {
        child += child + 1 < r->count && r->free[child + 1] < r->free[child];
        if (r->free[child] >= until)
            break;
        r->free[at] = r->free[child];
    }
    r->free[at] = until;
}

/* ---- caches ---- */

enum { /* low bits of a tag word; bits 1:0 are enum uarch_state */
       TIMING_STATE = 3,
       TIMING_PENDING = 4,    /* level 1: the line may still be on its way */
       TIMING_PREFETCHED = 8, /* prefetched and not used yet */
};

/* A private cache that replaces the least recently used way. 0 is no line. */
struct timing_cache {
    uint32_t mask, ways;
    uint32_t tick;
    uint64_t *tag;   /* line address | flags; level 1: the most recent of a set first */
    uint32_t *used;  /* tick of the last use */
    uint64_t *ready; /* when the line is there */
    uint8_t *from;   /* level 1: where it came from (enum uarch_level) */
};

/*
 * The state of a line of level 1 if it is the most recent of its set and nothing else needs doing;
 * else 0.
 */
static inline unsigned timing_l1_quick(const struct timing_cache *l1, uint64_t va)
{
    uint32_t set = (uint32_t)(va >> UARCH_LINE) & l1->mask;
    /* another core may be taking the line away (timing_far_load() and _store()) */
    uint64_t differs = __atomic_load_n(&l1->tag[set * l1->ways], __ATOMIC_RELAXED) ^ (va & ~63ull);
    return differs <= TIMING_STATE ? (unsigned)differs : 0;
}

/* FIFO sets of words: level 1 instruction cache, branch target buffer. */
struct timing_fifo {
    uint32_t mask, ways;
    uint64_t *word;
    uint64_t *ready; /* NULL if unused */
    uint8_t *next;
};

/* ---- prediction ---- */

struct timing_tagged {
    uint16_t tag;
    uint16_t state; /* counter in bits 2:0, taken from 4 on; usefulness in bits 4:3 */
};
enum {
    TIMING_COUNTER =
        32, /* bit of a state that is a two-bit counter below the tables: 0, 1, 6 or 7 */
    TIMING_STATES = 64
};
struct timing_target {
    uint64_t target;
    uint16_t tag;
    uint8_t confidence;
};
struct timing_table { /* the part of the history that a table sees */
    uint64_t mask[3];
    uint32_t words;
};
struct timing_predictor {
    uint64_t history[3]; /* newest in bit 0 of the first */
    uint64_t odd[3];     /* odd factors for the three hashes */
    bool usual;          /* five tables that see at most 128 branches */
    uint32_t shift;      /* right shift that leaves a hash's index in a table */
    uint32_t tables, bits, base_mask, targets, target_bits;
    struct timing_table see[TIMING_TABLES], target_see[TIMING_TABLES];
    struct timing_tagged (*tagged)[TIMING_ENTRIES]; /* tables; each uses only its first entries */
    struct timing_target *target[TIMING_TABLES];
    uint64_t base_target[512];
    struct timing_tagged *base;
    uint64_t ras[UARCH_RAS_MAX];
    uint32_t ras_top, ras_mask;
};
uint64_t timing_branch_key(uint64_t pc);
static inline void timing_history(struct timing_predictor *p, bool taken)
{
    p->history[2] = p->history[2] << 1 | p->history[1] >> 63;
    p->history[1] = p->history[1] << 1 | p->history[0] >> 63;
    p->history[0] = p->history[0] << 1 | taken;
}

/* ---- prefetchers ---- */

struct timing_stride {
    uint64_t pc, last;
    int64_t stride;
    uint32_t confidence;
};
struct timing_stream {
    uint64_t line; /* number; 0 is none */
    int32_t direction;
    uint32_t confidence, used;
};
struct timing_streams {
    uint32_t count, tick;
    struct timing_stream stream[TIMING_STREAMS];
};
struct timing_region { /* a region of 2 KB in use */
    uint64_t region;   /* number + 1 */
    uint64_t key;      /* which instruction began it */
    uint32_t seen;     /* one bit per line */
    uint32_t used;
};
struct timing_footprint {
    uint64_t key;
    uint32_t seen;
};
struct timing_prefetch {
    struct timing_stride *stride;
    struct timing_streams l1, l2;
    struct timing_region region[TIMING_REGIONS];
    uint32_t region_tick;
    struct timing_footprint *footprint;
};

/*
 * Position of a block's branch in the first two branch target buffers. They replace their oldest
 * entry, so a branch stays until this many entries have been put in.
 */
struct timing_taken {
    uint64_t near, mid;
};

/* ---- what is made ideal ---- */

struct timing_ideal {
    const struct ideal_range *ranges;
    size_t count;
    unsigned kinds; /* all kinds that occur */
};

/* ---- a core ---- */

struct timing_stored { /* part of a store within eight bytes */
    uint64_t piece;    /* address / 8 */
    uint64_t data, drain;
    uint64_t older; /* number of the piece before in the same bucket */
    uint8_t bytes;  /* bit mask of the eight bytes */
    uint8_t size;   /* bytes of the store, */
    int8_t start;   /* where the store begins, relative to the piece */
};

struct timing_core {
    struct timing *timing;
    const struct uarch_config *c;
    uint32_t index, cluster, socket, id;
    bool free;
    /* possibly used by another thread: none of it is stored here */
    struct timing_predictor *predictor;
    /* the account */
    _Alignas(64) uint64_t ready[ACCOUNT_REGS];
    uint64_t dispatch; /* earliest dispatch of the next instruction: cycle << 16 | part */
    uint64_t retire;   /* cycle in which the last instruction retired */
    uint64_t number;   /* number of the next instruction */
    uint64_t share;    /* share of a cycle that dispatching one instruction takes */
    uint64_t begin;    /* the first part of a cycle; the last is 65535 */
    const struct timing_state *state; /* holds the state of the registers, if not NULL */
    struct timing_path **hook;        /* where to find what the next block does, and to store it */
    struct timing_path *none;         /* successor if there is no path */
    int32_t credit;                   /* budget for remembering; below 0: a pause */
    uint64_t first;                   /* first instruction after the last unknown block */
    const uint64_t *made, *made_end; /* when the loads and stores that were already made are done */
    uint32_t page_shift, l1d_latency, lat_alu;
    uint64_t loads, stores; /* number so far */
    uint64_t fetch;         /* the next block can be fetched from this time on */
    uint64_t drain;         /* cycle in which the last store was written */
    uint32_t drained;       /* stores written in that cycle */
    uint32_t window;        /* mask of slot[] */
    uint64_t *slot;         /* retirement of the last instructions, except those in `went` */
    uint64_t room;          /* instructions up to this number are not held up */
    uint64_t passed[TIMING_PASSED]; /* when each group of 16 instructions had retired */
    struct timing_went *went;       /* the last blocks that were known, and how many */
    uint32_t went_count;
    uint32_t loads_mask, stores_mask;
    uint64_t load_retire[512], store_drain[256]; /* no smaller than the queues */
    /* stores that may still be forwarded */
    uint64_t stored_count, stored_mask;
    uint64_t stored_from;                /* pieces up to this one have certainly been written */
    uint64_t stored_head[TIMING_STORED]; /* number of the last piece in each bucket */
    uint64_t stored_first[256];          /* number of pieces before each store */
    struct timing_stored *stored;
    /* write streaming */
    uint64_t stream_begin, stream_next; /* range of the run of stores */
    uint64_t stream_line;               /* written without being fetched */
    uint32_t stream_lines;
    /* the data side */
    struct timing_cache l1, l2;
    struct timing_registers l1_misses, l2_misses;
    struct timing_server l2_server, mesh_server;
    struct uarch_mmu mmu;
    uint64_t page; /* page of the last access */
    struct {
        uint64_t line, ready,
            gone; /* the last line that others asked for: when it came, and when it left */
    } leaving;
    struct timing_prefetch prefetch;
    /* the instruction side */
    struct timing_fifo l1i;
    uint64_t itlb[128];
    uint32_t itlb_next;
    uint8_t itlb_at[64]; /* where pages were found last, by number */
    uint64_t code_generation, btb_generation;
    struct timing_fifo btb;
    struct timing_server code_server;
    struct timing_taken *taken; /* indexed by the number of the block's branch */
    uint32_t taken_count;
    uint64_t near_put, mid_put; /* entries put into the first two branch target buffers */
    struct uarch_counts counts;
};

struct timing {
    struct uarch_config config;
    uint16_t latency[SPEX_EXEC_CLASS_COUNT];
    uint32_t page_shift;
    uint32_t llc_mask;
    uint64_t *llc; /* line address | 1 | dirty << 1, ways in order of use */
    struct timing_server llc_server, dram[2], link;
    struct uarch_homes homes;
    uint64_t *near; /* which cores may have a line: one bit per core, by hash of the line */
    struct timing_ideal ideal;
    uint64_t generation;
    struct timing_memo memo;
    bool apart;      /* each core has its own clock */
    uint32_t places; /* number of blocks that ended with a taken branch */
    uint32_t core_count;
    struct timing_core *core[TIMING_CORES];
};

/* ---- memo.c ---- */

/*
 * timing_memo_enter stores the registers as a state, NULL if none fits; timing_memo_leave loads a
 * state into the core.
 */
const struct timing_state *timing_memo_enter(struct timing_core *core);
void timing_memo_leave(struct timing_core *core);
/* Copies the retirement of known blocks to slot[]. */
void timing_memo_slots(struct timing_core *core);
/* What the block does in this state; NULL if not known. */
struct timing_path *timing_memo_find(struct timing_core *core, const struct timing_block *block);
/* What it does in this state if step `at` takes `took`. */
struct timing_path *timing_memo_branch(struct timing_path *path, uint32_t at, uint64_t took);
/*
 * Remembers a block that has run from this state and dispatch; run has its instructions. parent:
 * the path that it left at step `at`, or NULL.
 */
struct timing_path *timing_memo_keep(struct timing_core *core, const struct timing_block *block,
                                     const struct timing_run *run, const struct timing_state *from,
                                     uint64_t dispatch, struct timing_path *parent, uint32_t at,
                                     uint64_t took);
/* Records that the branch at the end of a path was taken and delays dispatch. */
void timing_memo_late(struct timing_core *core, struct timing_path *path, uint32_t late);
/* A branch was mispredicted, perhaps at the end of a path: dispatch continues at this cycle. */
void timing_memo_missed(struct timing_core *core, struct timing_path *path, uint64_t cycle);
/* Forgets everything if it takes too much memory. */
bool timing_memo_full(const struct timing *timing);
void timing_memo_free(struct timing *timing);

/* ---- memory.c ---- */

/* A load at cycle t: when its data is there. */
uint64_t timing_memory_load(struct timing_core *core, uint64_t va, uint64_t t, uint64_t pc,
                            uarch_result *result);
/*
 * Gets ownership of a line for a write asked for at t; returns when the line arrives. The store
 * itself is done once it is accepted: it waits in the line's miss register.
 */
uint64_t timing_memory_own(struct timing_core *core, uint64_t va, uint64_t t, uint64_t pc,
                           uarch_result *result, uint64_t *accepted);
/* Uses a line of level 1: its state if nothing else is needed, otherwise 0. */
unsigned timing_memory_first(struct timing_core *core, uint64_t va);
/* Writes a whole line without fetching it. */
uint64_t timing_memory_stream(struct timing_core *core, uint64_t line, uint64_t t,
                              uarch_result *result);
/* Is the line in level 1 or on its way there? Is it in level 2? */
bool timing_memory_present(const struct timing_core *core, uint64_t line);
bool timing_memory_in_l2(const struct timing_core *core, uint64_t line);
/* A line for the instruction cache. */
uint64_t timing_memory_code(struct timing_core *core, uint64_t line, uint64_t t);
/* Fetches a line into level 1 or 2, if there is room; does nothing if it is there already. */
void timing_memory_prefetch(struct timing_core *core, uint64_t line, uint64_t t, unsigned level);
/*
 * A prefetch by the program (enum spex_prefetch). Nothing waits for the line; returns when a miss
 * register took the request.
 */
uint64_t timing_memory_hint(struct timing_core *core, uint64_t line, uint64_t t, unsigned hint);
void timing_memory_flush(struct timing_core *core);
/* Puts the line of va into level 1 from t on, at no cost. */
void timing_memory_there(struct timing_core *core, uint64_t va, uint64_t t, bool write);

/* ---- ideal.c ---- */

/* The kinds (enum ideal_set) that apply to an address. */
unsigned timing_ideal_at(const struct timing_ideal *ideal, uint64_t address);
/* Changes an instruction as the ideal requires. Returns its kinds. */
unsigned timing_ideal_op(const struct timing_ideal *ideal, uint64_t pc, struct spex_op *op);
/* Changes what account_op() made of op. */
void timing_ideal_uop(unsigned kinds, const struct spex_op *op, struct account_op *u);
/* Makes the line and page of an access available at once. */
void timing_ideal_access(struct timing_core *core, uint64_t va, unsigned size, uint64_t t,
                         bool write);

/* ---- prefetch.c: what happened in level 1 and level 2 ---- */

void timing_prefetch_l1(struct timing_core *core, uint64_t pc, uint64_t va, uint64_t t);
void timing_prefetch_l2(struct timing_core *core, uint64_t line, uint64_t t, bool missed);

/* ---- fetch.c ---- */

/* When the lines of the block arrive, if they are requested at t. */
uint64_t timing_fetch_lines(struct timing_core *core, struct timing_block *block, uint64_t t);
static inline uint64_t timing_fetch(struct timing_core *core, struct timing_block *block,
                                    uint64_t t)
{
    return block->fetched == core->code_generation ? t : timing_fetch_lines(core, block, t);
}
/* A taken branch: how late its target is, in cycles << 16 | parts. */
uint32_t timing_btb_look(struct timing_core *core, struct timing_block *block);
static inline bool timing_btb_near(const struct timing_core *core, const struct timing_block *block)
{
    return block->place < core->taken_count && core->near_put < core->taken[block->place].near;
}
static inline uint32_t timing_btb(struct timing_core *core, struct timing_block *block)
{
    return timing_btb_near(core, block) ? block->late[TIMING_BTB_NEAR]
                                        : timing_btb_look(core, block);
}

#endif
