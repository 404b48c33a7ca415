/*
 * Internals of the microarchitecture model: translation, home sockets of memory, outcomes of
 * accesses.
 */
#ifndef UARCH_UARCH_H
#define UARCH_UARCH_H

#include "account/op.h"
#include "uarch/model.h"

enum { UARCH_TLB_MAX = 128, UARCH_RAS_MAX = 64 };

/* State of a line in a cache. */
enum uarch_state {
    UARCH_SHARED = 1,
    UARCH_EXCLUSIVE = 2,
    UARCH_MODIFIED = 3,
};

/* Not a canonical address, so never equal to the line of an access. */
#define UARCH_INVALID 0x0080000000000000ull

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
    const struct uarch_config *c;
    struct uarch_tlb tlb;
    uint64_t *tlb2, *walk;
    uint32_t tlb2_mask, page_shift, walk_shift;
    const struct timing_ideal *ideal; /* lists huge pages; or NULL */
};

struct uarch_homes {
    uint64_t *page; /* (number + 1) << 1 | socket; 0 is free */
    size_t size, used;
};

/* The socket (0 or 1) that owns a page, when a core of `socket` touches it. */
unsigned uarch_home(struct uarch_homes *homes, uint64_t page, unsigned socket);

bool uarch_mmu_init(struct uarch_mmu *mmu, const struct uarch_config *c);
void uarch_mmu_clear(struct uarch_mmu *mmu);
void uarch_mmu_fini(struct uarch_mmu *mmu);
bool uarch_is_huge(const struct uarch_mmu *mmu, uint64_t va);
/*
 * Translates a page: returns the flags and translation latency of a result. _l2: only after a miss
 * in the level 1 TLB.
 */
uarch_result uarch_translate(struct uarch_mmu *mmu, uint64_t va, struct uarch_counts *counts);
uarch_result uarch_translate_l2(struct uarch_mmu *mmu, uint64_t va, struct uarch_counts *counts);
/* True if the level 1 TLB has the page; it is then the most recent one. */
bool uarch_tlb_has(struct uarch_mmu *mmu, uint64_t page);
/* Is the page in one of the TLBs? Changes nothing. */
bool uarch_translated(const struct uarch_mmu *mmu, uint64_t va);
void uarch_tlb_reset(struct uarch_tlb *tlb, unsigned size);

/* How a block ends, from its last operation. */
enum uarch_end uarch_end_of(const struct spex_op *op);
/* The Data Source value of a load whose data came from a level. */
uint8_t uarch_source(enum arch_sources sources, enum uarch_level level, uarch_result r);
/* Events, translation and data source of an access with its result, for a sample. */
void uarch_outcome(const struct uarch_config *c, const struct spex_op *op, uint64_t va,
                   unsigned size, uarch_result result, struct spex_access *access);

#endif
