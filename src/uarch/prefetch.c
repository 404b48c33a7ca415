/*
 * The prefetchers. They learn from misses and from the first use of a line that was prefetched; an
 * ordinary hit teaches them nothing.
 */
#include "uarch/account.h"

/* Fetches the line at a virtual address, but only if its translation is known. */
static void ahead_l1(struct timing_core *core, uint64_t va, uint64_t t)
{
    if (va >> 47 || !uarch_translated(&core->mmu, va))
        return;
    timing_memory_prefetch(core, va & ~63ull, t, 1);
}

static void stride(struct timing_core *core, uint64_t pc, uint64_t va, uint64_t t)
{
    const struct uarch_config *c = core->c;
    struct timing_stride *s = &core->prefetch.stride[(pc >> 2) % c->pf_stride];
    int64_t step = (int64_t)(va - s->last);
    bool enters = (va ^ s->last) >> core->timing->page_shift;
    if (s->pc != pc) {
        *s = (struct timing_stride){.pc = pc, .last = va};
        return;
    }
    s->last = va;
    if (step != s->stride || step == 0) {
        s->stride = step;
        s->confidence = 0;
        return;
    }
    if (s->confidence < 3)
        s->confidence++;
    /*
     * Fetches the whole distance ahead when the run becomes sure and in each new page; otherwise
     * one more line each time.
     */
    uint32_t first = s->confidence == 2 || enters ? 1 : c->pf_stride_ahead;
    for (uint32_t k = first; s->confidence >= 2 && k <= c->pf_stride_ahead; k++)
        ahead_l1(core, va + (uint64_t)step * k, t);
}

/*
 * Follows runs of neighbouring lines. Returns the run that this line continues, if it is long
 * enough to be believed, or NULL. *first is the nearest line to fetch.
 */
static const struct timing_stream *follow(struct timing_streams *all, uint64_t line, unsigned shift,
                                          uint32_t ahead, uint32_t *first)
{
    struct timing_stream *oldest = &all->stream[0];
    all->tick++;
    for (uint32_t i = 0; i < all->count; i++) {
        struct timing_stream *s = &all->stream[i];
        int64_t step = (int64_t)(line - s->line);
        if (s->used < oldest->used)
            oldest = s;
        if (!s->line || (step != 1 && step != -1) || (s->direction && s->direction != step))
            continue;
        if (s->confidence < 3)
            s->confidence++;
        *first = s->confidence == 2 || (line ^ s->line) >> shift ? 1 : ahead;
        s->direction = (int32_t)step;
        s->line = line;
        s->used = all->tick;
        return s->confidence >= 2 ? s : NULL;
    }
    *oldest = (struct timing_stream){.line = line, .used = all->tick};
    return NULL;
}

/* ---- footprints of regions ---- */

enum { REGION = 11 }; /* log2 of its size in bytes */

static void spatial(struct timing_core *core, uint64_t pc, uint64_t va, uint64_t t)
{
    struct timing_prefetch *p = &core->prefetch;
    uint64_t region = va >> REGION;
    uint32_t line = (uint32_t)(va >> UARCH_LINE) & 31;
    struct timing_region *oldest = &p->region[0];
    p->region_tick++;
    for (unsigned i = 0; i < TIMING_REGIONS; i++) {
        struct timing_region *r = &p->region[i];
        if (r->region == region + 1) {
            r->seen |= 1u << line;
            r->used = p->region_tick;
            return;
        }
        if (r->used < oldest->used)
            oldest = r;
    }
    uint32_t entries = core->c->pf_spatial;
    if (oldest->region)
        p->footprint[oldest->key % entries] =
            (struct timing_footprint){.key = oldest->key, .seen = oldest->seen};
    uint64_t key = (pc >> 2) * 32 + line;
    *oldest = (struct timing_region){
        .region = region + 1, .key = key, .seen = 1u << line, .used = p->region_tick};
    const struct timing_footprint *f = &p->footprint[key % entries];
    if (f->key != key)
        return;
    for (uint32_t i = 0; i < 32; i++)
        if (f->seen >> i & 1 && i != line)
            timing_memory_prefetch(core, (region << REGION) + (uint64_t)i * 64, t, 2);
}

void timing_prefetch_l1(struct timing_core *core, uint64_t pc, uint64_t va, uint64_t t)
{
    const struct uarch_config *c = core->c;
    if (c->pf_stride)
        stride(core, pc, va, t);
    if (c->pf_stream) {
        uint64_t line = va >> UARCH_LINE;
        unsigned shift = core->timing->page_shift - UARCH_LINE;
        uint32_t first = 0;
        const struct timing_stream *s =
            follow(&core->prefetch.l1, line, shift, c->pf_stream_ahead, &first);
        for (uint32_t k = first; s && k <= c->pf_stream_ahead; k++)
            ahead_l1(core, (line + (uint64_t)((int64_t)s->direction * k)) << UARCH_LINE, t);
    }
    if (c->pf_spatial)
        spatial(core, pc, va, t);
}

void timing_prefetch_l2(struct timing_core *core, uint64_t address, uint64_t t, bool missed)
{
    const struct uarch_config *c = core->c;
    uint64_t line = address >> UARCH_LINE;
    unsigned shift = core->timing->page_shift - UARCH_LINE;
    for (uint32_t k = 1; missed && k <= c->pf_next; k++)
        if ((line + k) >> shift == line >> shift)
            timing_memory_prefetch(core, (line + k) << UARCH_LINE, t, 2);
    if (!c->pf_l2)
        return;
    uint32_t first = 0;
    const struct timing_stream *s = follow(&core->prefetch.l2, line, shift, c->pf_l2_ahead, &first);
    for (uint32_t k = first; s && k <= c->pf_l2_ahead; k++) {
        uint64_t to = line + (uint64_t)((int64_t)s->direction * k);
        if (to >> shift == line >> shift)
            timing_memory_prefetch(core, to << UARCH_LINE, t, 2);
    }
}
