#include "detail.h"

#include "account.h"
#include "plugin.h"

enum {
    SMALLEST = 1024, /* with periods below this, every operation has details */
    MEMORY = 256,    /* executions of a block after which its mean has forgotten old ones */
};

/* Can there be no details? Several threads take turns and always need them, as do short periods. */
static bool may_be_far(void)
{
    return __atomic_load_n(&plugin.order.count, __ATOMIC_RELAXED) <= 1 &&
           plugin.run->output.period >= SMALLEST;
}

void detail_begin(struct flow *f)
{
    struct detail *d = &f->detail;
    f->vcpu->hot->far = false;
    f->vcpu->hot->far_left = 0;
    if (!plugin.user.sampled)
        return;
    detail_init(d, &plugin.run->model);
    d->learns = may_be_far();
    /* everything up to the first sample, so that something is known */
    d->near = d->learns ? f->left + 1 : UINT64_MAX;
}

/* ---- what blocks take ---- */

void detail_init(struct detail *d, const struct uarch_config *config)
{
    d->window = 2ull * config->rob;
    d->filled = config->rob;
}

uint64_t detail_guess(uint64_t operations)
{
    return operations * __atomic_load_n(&plugin.pace, __ATOMIC_RELAXED);
}

void detail_learn(struct detail *d, struct timing_block *block, const struct timing_run *run,
                  uint64_t cycles)
{
    if (run->cut)
        return;
    const double took = (double)(cycles << SPEX_FAR_FRACTION);
    if (d->fill) {
        d->fill -= d->fill < block->count ? d->fill : block->count;
        d->debt += (int64_t)(cycles << SPEX_FAR_FRACTION) - (int64_t)block->mean;
        return;
    }
    enum { ALL = 1 << 16 };
    d->operations += block->count;
    d->expected += (double)block->mean;
    d->cycles += took;
    if (d->operations > ALL) {
        d->operations /= 2;
        d->expected /= 2;
        d->cycles /= 2;
    }
    __atomic_store_n(&plugin.pace, (uint64_t)(d->cycles / d->operations), __ATOMIC_RELAXED);
    block->seen += block->seen < MEMORY;
    block->exact += (took - block->exact) / block->seen;
    block->mean = (uint64_t)block->exact;
}

/* ---- near and far ---- */

uint64_t detail_leave(struct detail *d, struct timing_core *core)
{
    uint64_t now = timing_clock(core) << SPEX_FAR_FRACTION;
    d->start = d->debt > 0 && (uint64_t)d->debt > now ? 0 : now - (uint64_t)d->debt;
    timing_far_begin(core);
    return d->start;
}

void detail_return(struct detail *d, struct timing_core *core, uint64_t clock)
{
    if (d->expected > 0)
        clock = d->start + (uint64_t)((double)(clock - d->start) * d->cycles / d->expected);
    timing_far_end(core, clock >> SPEX_FAR_FRACTION);
    d->debt = (int64_t)(timing_clock(core) << SPEX_FAR_FRACTION) - (int64_t)clock;
}

void detail_resume(struct flow *f)
{
    struct detail *d = &f->detail;
    struct hot *h = f->vcpu->hot;
    uint64_t window = f->vcpu->off ? 0 : d->window;
    d->learns = may_be_far();
    h->far = d->learns && f->left > window + d->filled;
    if (!h->far) {
        h->far_left = 0;
        d->near = d->learns ? f->left + 1 : UINT64_MAX;
        return;
    }
    h->far_left = f->left - window;
    h->far_clock = detail_leave(d, f->core);
    f->left = window;
}

void detail_settle(struct flow *f)
{
    struct hot *h = f->vcpu->hot;
    if (!h->far)
        return;
    detail_return(&f->detail, f->core, h->far_clock);
    f->left += h->far_left;
    h->far_left = 0;
    h->far = false;
}

void detail_mark(struct vcpu *v, const struct block *last, uint64_t word)
{
    struct hot *h = v->hot;
    if (last) {
        struct timing_run run = account_ended(last, word);
        if (!run.cut) {
            timing_far_branch(h->timing, (struct timing_block *)&last->timing, run.next);
            account_branch(v->flow, &last->timing, run.next);
        }
        v->task.shared->cut += run.executed < last->timing.count;
        h->far_left += last->timing.count - run.executed;
    }
    detail_settle(v->flow);
}

void detail_enter(struct hot *h, struct block *block)
{
    struct flow *f = h->vcpu->flow;
    struct detail *d = &f->detail;
    const struct block *last = h->open;
    if (!h->vcpu->live)
        return;
    if (h->far_left >= block->timing.count) {
        timing_far_lines(h->timing, &block->timing, h->far_clock >> SPEX_FAR_FRACTION);
        hot_far(h, block);
        return;
    }
    if (h->far) { /* details begin here */
        detail_settle(f);
        d->near = f->left + 1;
        d->fill = d->filled;
        if (last) {
            timing_far_branch(h->timing, (struct timing_block *)&last->timing, block->timing.pc);
            account_branch(f, &last->timing, block->timing.pc);
            h->open = NULL;
        }
    }
    uint64_t word = hot_word(h, block);
    if (!d->near) { /* the sample is among the words */
        f->end = word;
        flow_settle(h->vcpu);
        f->end = 0;
        detail_resume(f);
        if (h->far) {
            h->open = NULL;
            hot_enter(h, block);
            return;
        }
    }
    hot_push(h, word);
    d->near -= d->near < block->timing.count ? d->near : block->timing.count;
}
