/* What is computed only when a sample completes: events, data source. */
#include "uarch/uarch.h"

#include "base/bits.h"

#define EVENT(name) BIT(SPEX_EV_##name)

/*
 * D17.6.4.6: a penalty that no other address would avoid does not count as misalignment. An access
 * longer than the boundary crosses some boundaries wherever it is; the best address crosses the
 * fewest.
 */
static bool misaligned(const struct uarch_config *c, const struct spex_op *op, uint64_t va,
                       unsigned size)
{
    uint32_t boundary = op->flags & SPEX_OPF_LOAD ? c->align_load : c->align_store;
    /* the last byte up to which the cost is the same */
    uint32_t best = (size ? size - 1 : 0) | (boundary - 1);
    return (va & (boundary - 1)) + size > best + 1;
}

void uarch_outcome(const struct uarch_config *c, const struct spex_op *op, uint64_t va,
                   unsigned size, uarch_result r, struct spex_access *access)
{
    enum uarch_level level = uarch_result_level(r);
    uint64_t events = EVENT(L1D_ACCESS) | EVENT(TLB_ACCESS);
    if (level != SPEX_UARCH_L1)
        events |= EVENT(L1D_MISS);
    if (r & SPEX_UARCH_WALK)
        events |= EVENT(TLB_WALK);
    if (level > SPEX_UARCH_L2)
        events |= EVENT(LLC_ACCESS);
    if (level > SPEX_UARCH_LLC)
        events |= EVENT(LLC_MISS);
    if (r & SPEX_UARCH_SOCKET)
        events |= EVENT(REMOTE);
    if (misaligned(c, op, va, size)) /* D17.6.4.6: event and penalty always come together */
        events |= EVENT(MISALIGNED);
    access->flags &= (uint16_t)~SPEX_ACC_SOURCE;
    access->data_source = 0;
    if (op->flags & SPEX_OPF_LOAD) { /* loads only: without a load, 0 says that there was none */
        if (level != SPEX_UARCH_L1)
            events |= EVENT(L2D_ACCESS);
        if (level > SPEX_UARCH_L2)
            events |= EVENT(L2D_MISS);
        if (r & SPEX_UARCH_MODIFIED)
            events |= EVENT(MODIFIED);
        if (r & SPEX_UARCH_RECENT)
            events |= EVENT(RECENT);
        if (r & SPEX_UARCH_SNOOPED)
            events |= EVENT(SNOOPED);
        access->flags |= SPEX_ACC_SOURCE;
        if (r & SPEX_UARCH_RECENT) /* for a line on its way: where it comes from */
            level = (enum uarch_level)(r >> 13 & 7);
        access->data_source = uarch_source(c->sources, level, r);
    }
    access->events = events;
    access->start = 0;
    access->translation = uarch_result_translation(r);
    access->memory = uarch_result_latency(r);
}
