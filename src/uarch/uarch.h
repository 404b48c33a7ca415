/*
 * Inside of the microarchitecture model.
 *
 * Tag words are line addresses with the MESI state in the low bits. Level 1 keeps
 * the most recent word of each set in spex_uarch_core.mru (what the inline path
 * looks at) and the others, most recent first, in uarch_core.l1. Level 2 includes
 * level 1 and repeats its states, so that a level 1 victim is simply dropped.
 *
 * A core's caches are touched by its own thread alone. Requests of other cores (invalidate,
 * share) are posted to its mailbox and served at its next block entry or miss. The directory
 * is the truth; it and the last level cache are guarded by striped locks. A stripe is chosen
 * by the low bits of the line number, which are low bits of every set index too: a line and
 * all its possible victims share one.
 */
#ifndef UARCH_UARCH_H
#define UARCH_UARCH_H

#include "account/op.h"
#include "uarch/model.h"

enum {
    UARCH_STRIPES = 256,
    UARCH_MISSES = 64,
    UARCH_REPLAY = 96, /* operations */
    UARCH_TLB_MAX = 128,
    UARCH_USERS = 8,        /* cores remembered for a contended line */
    UARCH_BITS = 64,        /* of a sharer mask */
    UARCH_CONTENDED = 4096, /* contended lines at a time */
    UARCH_CORES = 4096,
};

enum uarch_state {
    UARCH_SHARED = 1,
    UARCH_EXCLUSIVE = 2,
    UARCH_MODIFIED = SPEX_UARCH_MODIFIED_STATE
};

/* No canonical address: never equal to the line of an access. */
#define UARCH_INVALID 0x0080000000000000ull

enum uarch_message { UARCH_INVALIDATE = 0, UARCH_SHARE = 1 };

struct uarch_miss {
    uint64_t line;
    uint64_t ready; /* in ticks */
    uint32_t sequence;
    uint16_t insn;
    uint16_t latency, translation;
};

/* Exact least-recently-used fully associative TLB: hash chains and a list of ages. */
struct uarch_tlb {
    uint64_t page[UARCH_TLB_MAX];
    uint8_t chain[UARCH_TLB_MAX];
    uint8_t older[UARCH_TLB_MAX], newer[UARCH_TLB_MAX];
    uint8_t head[256];
    uint8_t newest, oldest, used, size;
};

/* Translation: level 1 TLB for data, level 2 TLB, walk cache. */
struct uarch_mmu {
    const struct spex_uarch_config *c;
    struct uarch_tlb tlb;
    uint64_t *tlb2, *walk;
    uint32_t tlb2_mask, page_shift, walk_shift;
    const struct timing_ideal *ideal; /* has pages that are huge; or NULL */
};

/* Written by other cores; away from everything hot. */
struct uarch_mail {
    _Alignas(64) uint32_t lock;
    uint32_t count;
    bool overflow;
    uint64_t *box;
    uint32_t capacity;
    _Alignas(64) uint64_t clock; /* published, in cycles */
    uint32_t idle;
};

struct uarch_core {
    struct spex_uarch *model;
    struct spex_uarch_core *hot;
    uint64_t *l1; /* l1_rest words a set */
    uint64_t *l2;
    uint64_t *indirect;
    uint32_t path; /* of indirect branches */
    uint32_t id;   /* in the model; id % 64 is the bit in sharer masks */
    uint32_t cluster, socket;
    uint32_t miss_next;
    struct uarch_miss miss[UARCH_MISSES];
    struct uarch_mmu mmu;
    struct spex_uarch_counts counts;
    bool free;
    bool armed;                  /* the engine counts operations */
    struct uarch_core *same_bit; /* next core with the same bit */
    struct uarch_mail mail;
};

struct uarch_user {      /* of a contended line */
    uint64_t start, end; /* of its present phase of use, cycles */
    uint64_t held;       /* until when the line is certainly still here */
    uint32_t period;     /* mean distance of its uses */
    uint16_t core;       /* id + 1, 0 is free */
    bool wrote;          /* in this phase */
};

struct uarch_contended {
    struct uarch_user user[UARCH_USERS];
    uint64_t quiet;  /* cycles of the last conflict */
    uint16_t holder; /* id + 1 of the last user in host order */
    bool holder_wrote;
    uint32_t next_free;
};

struct uarch_entry { /* of the directory */
    uint64_t sharers;
    uint32_t contended; /* index + 1 */
    uint16_t owner;     /* id, if exclusive or modified */
    uint8_t state;      /* enum uarch_state */
    uint8_t transfers;
};

struct uarch_stripe {
    _Alignas(64) uint32_t lock;
    uint32_t rotor;
};

struct uarch_homes {
    uint64_t *page; /* (number + 1) << 1 | socket; 0 is free */
    size_t size, used;
    uint32_t lock;
};

struct spex_uarch {
    struct spex_uarch_config config;
    struct uarch_homes homes;
    uint32_t l1_sets, l1_rest, l2_mask, llc_mask, dir_mask;
    uint32_t stripe_mask, page_shift, ind_mask;
    uint32_t stall_load, stall_store; /* ticks a cycle of latency, in 1/16 */
    uint16_t latency[SPEX_EXEC_CLASS_COUNT];
    uint64_t *llc;
    uint64_t *dir_tag;
    struct uarch_entry *dir;
    struct uarch_contended *contended;
    uint32_t contended_lock, contended_free, contended_used;
    uint32_t cores_lock, core_count;
    struct uarch_core *core[UARCH_CORES];
    struct uarch_core *bit[UARCH_BITS];
    struct uarch_stripe stripe[UARCH_STRIPES];
};

/* The socket (0 or 1) of a page that a core of `socket` touches. */
unsigned uarch_home(struct uarch_homes *homes, uint64_t page, unsigned socket);

void uarch_lock(uint32_t *lock);
void uarch_unlock(uint32_t *lock);

bool uarch_mmu_init(struct uarch_mmu *mmu, const struct spex_uarch_config *c);
void uarch_mmu_clear(struct uarch_mmu *mmu);
void uarch_mmu_fini(struct uarch_mmu *mmu);
/* Translation of a page: flags and translation latency of a result. _l2: past the level 1 TLB. */
bool uarch_is_huge(const struct uarch_mmu *mmu, uint64_t va);
spex_uarch_result uarch_translate(struct uarch_mmu *mmu, uint64_t va,
                                  struct spex_uarch_counts *counts);
spex_uarch_result uarch_translate_l2(struct uarch_mmu *mmu, uint64_t va,
                                     struct spex_uarch_counts *counts);
/* Is it in one of the TLBs? Changes nothing. */
/* True if the level 1 TLB has the page; it is the most recent one then. */
bool uarch_tlb_has(struct uarch_mmu *mmu, uint64_t page);
bool uarch_translated(const struct uarch_mmu *mmu, uint64_t va);
void uarch_tlb_reset(struct uarch_tlb *tlb, unsigned size);

/* How a block that ends with op ends. */
enum spex_uarch_end uarch_end_of(const struct spex_op *op);
/* Events, translation and data source of an access with its result, for a sample. */
/* Data Source value of a load whose data came from a level. */
uint8_t uarch_source(enum arch_sources sources, enum spex_uarch_level level, spex_uarch_result r);

void uarch_outcome(const struct spex_uarch_config *c, const struct spex_op *op, uint64_t va,
                   unsigned size, spex_uarch_result result, struct spex_access *access);

/* Does what others asked for. */
void uarch_drain(struct uarch_core *core);
/* Gives every line back to the directory and empties the caches. */
void uarch_flush(struct uarch_core *core);

#endif
