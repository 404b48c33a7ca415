/* Address translation: level 1 TLB, level 2 TLB, walk cache. */
#include <stdlib.h>
#include <string.h>

#include "uarch/uarch.h"

enum { NONE = 0xff };

static unsigned hash(uint64_t page)
{
    return (unsigned)(page ^ page >> 8 ^ page >> 16) & 0xff;
}

void uarch_tlb_reset(struct uarch_tlb *tlb, unsigned size)
{
    memset(tlb, 0, sizeof *tlb);
    memset(tlb->head, NONE, sizeof tlb->head);
    tlb->newest = tlb->oldest = NONE;
    tlb->size = (uint8_t)size;
}

static void make_newest(struct uarch_tlb *tlb, unsigned i)
{
    tlb->newer[i] = NONE;
    tlb->older[i] = tlb->newest;
    if (tlb->newest != NONE)
        tlb->newer[tlb->newest] = (uint8_t)i;
    else
        tlb->oldest = (uint8_t)i;
    tlb->newest = (uint8_t)i;
}

/* i must not be the newest entry. */
static void unlink_age(struct uarch_tlb *tlb, unsigned i)
{
    unsigned older = tlb->older[i], newer = tlb->newer[i];
    tlb->older[newer] = (uint8_t)older;
    if (older != NONE)
        tlb->newer[older] = (uint8_t)newer;
    else
        tlb->oldest = (uint8_t)newer;
}

/* True if the page is there; it is then the most recent one. */
static inline bool tlb_find(struct uarch_tlb *tlb, uint64_t page)
{
    unsigned i = tlb->head[hash(page)];
    while (i != NONE && tlb->page[i] != page)
        i = tlb->chain[i];
    if (i != NONE && i != tlb->newest) {
        unlink_age(tlb, i);
        make_newest(tlb, i);
    }
    return i != NONE;
}

/* True if the page was there; it is the most recent one afterwards. */
static bool tlb_touch(struct uarch_tlb *tlb, uint64_t page)
{
    unsigned h = hash(page), i;
    if (tlb_find(tlb, page))
        return true;
    if (tlb->used < tlb->size) {
        i = tlb->used++;
    } else {
        i = tlb->oldest;
        tlb->oldest = tlb->newer[i];
        if (tlb->oldest == NONE)
            tlb->newest = NONE;
        else
            tlb->older[tlb->oldest] = NONE;
        uint8_t *link = &tlb->head[hash(tlb->page[i])];
        while (*link != i)
            link = &tlb->chain[*link];
        *link = tlb->chain[i];
    }
    tlb->page[i] = page;
    tlb->chain[i] = tlb->head[h];
    tlb->head[h] = (uint8_t)i;
    make_newest(tlb, i);
    return false;
}

bool uarch_tlb_has(struct uarch_mmu *mmu, uint64_t page)
{
    return tlb_find(&mmu->tlb, page);
}

bool uarch_mmu_init(struct uarch_mmu *mmu, const struct uarch_config *c)
{
    mmu->c = c;
    mmu->tlb2_mask = c->tlb2_entries / c->tlb2_ways - 1;
    mmu->page_shift = 31 - (uint32_t)__builtin_clz(c->page_size);
    /* A table of the last level fills one granule (blocks: the 4K granule) with 8-byte entries. */
    mmu->walk_shift = mmu->page_shift + (c->page_size == 2097152 ? 9 : mmu->page_shift - 3);
    mmu->tlb2 = calloc(c->tlb2_entries, sizeof *mmu->tlb2);
    mmu->walk = calloc(c->walk_entries, sizeof *mmu->walk);
    uarch_tlb_reset(&mmu->tlb, c->tlb_entries);
    return mmu->tlb2 && mmu->walk;
}

void uarch_mmu_clear(struct uarch_mmu *mmu)
{
    memset(mmu->tlb2, 0, mmu->c->tlb2_entries * sizeof *mmu->tlb2);
    memset(mmu->walk, 0, mmu->c->walk_entries * sizeof *mmu->walk);
    uarch_tlb_reset(&mmu->tlb, mmu->c->tlb_entries);
}

void uarch_mmu_fini(struct uarch_mmu *mmu)
{
    free(mmu->tlb2);
    free(mmu->walk);
}

/* Marks the numbers of 2 MB pages, where most pages are smaller. */
#define HUGE_PAGE (UINT64_C(1) << 60)

static inline uint64_t page_of(const struct uarch_mmu *mmu, uint64_t va)
{
    if (__builtin_expect(mmu->ideal != NULL, 0) && uarch_is_huge(mmu, va))
        return va >> 21 | HUGE_PAGE;
    return va >> mmu->page_shift;
}

uarch_result uarch_translate(struct uarch_mmu *mmu, uint64_t va, struct uarch_counts *counts)
{
    struct uarch_tlb *tlb = &mmu->tlb;
    uint64_t page = page_of(mmu, va);
    if (tlb->newest != NONE && tlb->page[tlb->newest] == page)
        return 0;
    if (tlb_touch(tlb, page))
        return 0;
    counts->tlb_miss++;
    return uarch_translate_l2(mmu, va, counts);
}

uarch_result uarch_translate_l2(struct uarch_mmu *mmu, uint64_t va, struct uarch_counts *counts)
{
    const struct uarch_config *c = mmu->c;
    /* The ways of a set are in order of use; they hold page + 1, so that 0 is empty. */
    uint64_t page = page_of(mmu, va);
    unsigned ways = c->tlb2_ways, i;
    uint64_t *set = &mmu->tlb2[(page & mmu->tlb2_mask) * ways];
    for (i = 0; i < ways - 1 && set[i] != page + 1; i++)
        ;
    bool hit = set[i] == page + 1;
    memmove(set + 1, set, i * sizeof *set);
    set[0] = page + 1;
    if (hit)
        return SPEX_UARCH_TLB_MISS | (uint64_t)c->tlb2_latency << 32;
    counts->walk++;
    uint64_t table = page & HUGE_PAGE ? va >> 30 | HUGE_PAGE : va >> mmu->walk_shift;
    uint64_t *upper = &mmu->walk[table & (c->walk_entries - 1)];
    uint64_t latency = c->tlb2_latency + c->walk_latency;
    if (*upper != table + 1) {
        *upper = table + 1;
        latency += c->walk_upper;
    }
    return SPEX_UARCH_TLB_MISS | SPEX_UARCH_WALK | latency << 32;
}

bool uarch_translated(const struct uarch_mmu *mmu, uint64_t va)
{
    uint64_t page = page_of(mmu, va);
    for (unsigned i = mmu->tlb.head[hash(page)]; i != NONE; i = mmu->tlb.chain[i])
        if (mmu->tlb.page[i] == page)
            return true;
    const uint64_t *set = &mmu->tlb2[(page & mmu->tlb2_mask) * mmu->c->tlb2_ways];
    for (unsigned i = 0; i < mmu->c->tlb2_ways; i++)
        if (set[i] == page + 1)
            return true;
    return false;
}
