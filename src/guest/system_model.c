/*
 * The account of time in system mode, with details near samples (detail.h): one block at a time,
 * when it has ended. Several vCPUs run side by side; when they share state they take turns, in no
 * fixed order.
 */
#include "plugin.h"

#include <string.h>

/* Call before touching state that is shared with other vCPUs. */
static void begin(void)
{
    if (plugin.sys.vcpus > 1)
        pthread_mutex_lock(&plugin.sys.turn);
}

static void end(void)
{
    if (plugin.sys.vcpus > 1)
        pthread_mutex_unlock(&plugin.sys.turn);
}

uint64_t system_clock(const struct sys_vcpu *v)
{
    return !v->core || v->far ? v->clock >> SPEX_FAR_FRACTION : timing_clock(v->core);
}

/* ---- accesses ---- */

void system_access(struct sys_vcpu *v, timing_access word)
{
    if (!v->far) {
        if (v->word_count < MAX_WORDS)
            v->word[v->word_count++] = word;
        return;
    }
    begin();
    timing_far_access(v->core, &v->block->timing, word, v->clock >> SPEX_FAR_FRACTION);
    end();
}

void system_load(struct sys_vcpu *v, timing_access word, unsigned size)
{
    if (!v->far) {
        system_access(v, word);
        return;
    }
    if (__builtin_expect(timing_far_load(v->core, word & FLOW_VALUE, size), 1))
        return;
    begin();
    timing_far_load_slow(v->core, &v->block->timing, word, size, v->clock >> SPEX_FAR_FRACTION);
    end();
}

void system_store(struct sys_vcpu *v, timing_access word, unsigned size)
{
    if (!v->far) {
        system_access(v, word);
        return;
    }
    if (__builtin_expect(timing_far_store(v->core, word & FLOW_VALUE, size), 1))
        return;
    begin();
    timing_far_store_slow(v->core, &v->block->timing, word, size, v->clock >> SPEX_FAR_FRACTION);
    end();
}

/* ---- blocks ---- */

/* DC ZVA accesses were recorded at the entry of the block: puts them where they belong. */
static void sort_words(struct sys_vcpu *v)
{
    for (uint32_t i = 1; i < v->word_count; i++) {
        timing_access word = v->word[i];
        uint32_t to = i;
        for (; to && v->word[to - 1] >> 48 > word >> 48; to--)
            v->word[to] = v->word[to - 1];
        v->word[to] = word;
    }
}

static void account(struct sys_vcpu *v, struct block *block, struct timing_run *run)
{
    struct timing_block *timing = &block->timing;
    uint64_t before = timing_clock(v->core);
    if (block->zva_count)
        sort_words(v);
    run->access = v->word;
    run->access_count = v->word_count;
    if (v->capturing) {
        run->insns = v->time;
        run->results = v->result;
    }
    run->mispredicted = !run->cut && timing_predict(v->core, timing, run->next);
    timing_run(v->core, timing, run);
    detail_learn(&v->detail, timing, run, timing_clock(v->core) - before);
}

void system_account(struct sys_vcpu *v, uint32_t executed, bool cut, uint64_t next)
{
    struct block *block = v->block;
    if (v->accounted || !executed)
        return;
    v->accounted = true;
    v->run = (struct timing_run){.executed = executed, .cut = cut, .next = next};
    if (!v->core)
        return;
    begin();
    if (!v->far)
        account(v, block, &v->run);
    else if (!cut)
        timing_far_branch(v->core, &block->timing, next);
    end();
}

/* Moves the clock of a vCPU that slept: otherwise lines from others would come from its future. */
static void keep_up(struct sys_vcpu *v)
{
    enum { APART = 1000 };
    uint64_t now = timing_clock(v->core);
    if (now + APART < plugin.sys.latest)
        timing_reach(v->core, plugin.sys.latest);
    else if (now > plugin.sys.latest)
        plugin.sys.latest = now;
}

/* Operations until details are needed. */
static uint64_t until_near(const struct sys_vcpu *v)
{
    uint64_t until = spex_spu_until(v->unit.unit);
    return until < v->detail.window ? 0 : until - v->detail.window;
}

void system_approach(struct sys_vcpu *v, struct block *block)
{
    struct timing_block *timing = &block->timing;
    struct detail *d = &v->detail;
    v->accounted = false;
    v->word_count = 0;
    if (!v->core) {
        v->clock += timing->mean;
        return;
    }
    uint64_t left = d->learns ? until_near(v) : 0;
    begin();
    if (v->far && left < timing->count) {
        detail_return(d, v->core, v->clock);
        v->far = false;
        d->fill = d->filled;
    } else if (!v->far && left > d->filled + timing->count && left < UINT64_MAX - d->window) {
        keep_up(v);
        v->clock = detail_leave(d, v->core);
        v->far = true;
    }
    if (v->far) {
        if (!timing_far_fetched(v->core, timing))
            timing_far_lines(v->core, timing, v->clock >> SPEX_FAR_FRACTION);
        v->clock += timing->mean;
    }
    end();
}

/* ---- samples ---- */

void system_outcome(struct sys_vcpu *v, const struct insn *insn, struct spex_access *part,
                    unsigned count)
{
    const struct timing_run *run = &v->run;
    unsigned size = op_of(insn)->kind == SPEX_OP_DC_ZVA ? 64 : insn->size;
    for (size_t i = 0; run->results && i < run->access_count && count; i++) {
        if (run->access[i] >> 48 != insn->index)
            continue;
        timing_access_outcome(v->core, op_of(insn), part->va, size, run->results[i], part);
        if (!(op_of(insn)->flags & SPEX_OPF_LOAD))
            part->flags &= (uint16_t)~SPEX_ACC_SOURCE;
        part++;
        count--;
    }
}

struct account_insn system_time(const struct sys_vcpu *v, const struct insn *insn)
{
    uint64_t now = system_clock(v);
    if (v->run.insns && insn->index < v->run.executed)
        return v->time[insn->index];
    return (struct account_insn){now, now + 1, now + 1, now + 1};
}
