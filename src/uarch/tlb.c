/* Address translation: level 1 TLB, level 2 TLB, walk cache. */
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

/* Not for the newest. */
static void unlink_age(struct uarch_tlb *tlb, unsigned i)
{
    unsigned older = tlb->older[i], newer = tlb->newer[i];
    tlb->older[newer] = (uint8_t)older;
    if (older != NONE)
        tlb->newer[older] = (uint8_t)newer;
    else
        tlb->oldest = (uint8_t)newer;
}

/* True if the page was there; it is the most recent one afterwards. */
static bool tlb_touch(struct uarch_tlb *tlb, uint64_t page)
{
    unsigned h = hash(page), i;
    for (i = tlb->head[h]; i != NONE; i = tlb->chain[i])
        if (tlb->page[i] == page) {
            if (i != tlb->newest) {
                unlink_age(tlb, i);
                make_newest(tlb, i);
            }
            return true;
        }
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

spex_uarch_result uarch_translate(struct uarch_core *core, uint64_t va)
{
    const struct spex_uarch *model = core->model;
    struct uarch_tlb *tlb = &core->tlb;
    uint64_t page = va >> model->page_shift;
    if (tlb->newest != NONE && tlb->page[tlb->newest] == page)
        return 0;
    if (tlb_touch(tlb, page))
        return 0;
    core->counts.tlb_miss++;
    /* Level 2: ways of a set in order of use; page + 1, so that 0 is empty. */
    unsigned ways = model->config.tlb2_ways, i;
    uint64_t *set = &core->tlb2[(page & model->tlb2_mask) * ways];
    for (i = 0; i < ways - 1 && set[i] != page + 1; i++)
        ;
    bool hit = set[i] == page + 1;
    memmove(set + 1, set, i * sizeof *set);
    set[0] = page + 1;
    if (hit)
        return SPEX_UARCH_TLB_MISS | (uint64_t)model->config.tlb2_latency << 32;
    core->counts.walk++;
    uint64_t table = va >> model->walk_shift;
    uint64_t *upper = &core->walk[table & (model->config.walk_entries - 1)];
    uint64_t latency = model->config.tlb2_latency + model->config.walk_latency;
    if (*upper != table + 1) {
        *upper = table + 1;
        latency += model->config.walk_upper;
    }
    return SPEX_UARCH_TLB_MISS | SPEX_UARCH_WALK | latency << 32;
}
