/* The full model: systems, cores, blocks, time. */
#include "uarch/timing.h"

#include <stdlib.h>
#include <string.h>

#include "uarch/account.h"

/* ---- making ---- */

static bool cache_init(struct timing_cache *cache, uint32_t size, uint32_t ways)
{
    uint32_t lines = size >> UARCH_LINE;
    *cache = (struct timing_cache){.mask = lines / ways - 1, .ways = ways};
    cache->tag = calloc(lines, sizeof *cache->tag);
    cache->used = calloc(lines, sizeof *cache->used);
    cache->ready = calloc(lines, sizeof *cache->ready);
    cache->from = calloc(lines, sizeof *cache->from);
    return cache->tag && cache->used && cache->ready && cache->from;
}

static void cache_fini(struct timing_cache *cache)
{
    free(cache->tag);
    free(cache->used);
    free(cache->ready);
    free(cache->from);
}

static bool fifo_init(struct timing_fifo *f, uint32_t entries, uint32_t ways, bool ready)
{
    *f = (struct timing_fifo){.mask = entries / ways - 1, .ways = ways};
    f->word = calloc(entries, sizeof *f->word);
    f->next = calloc(entries / ways, sizeof *f->next);
    f->ready = ready ? calloc(entries, sizeof *f->ready) : NULL;
    return f->word && f->next && (!ready || f->ready);
}

/* History lengths of the tables: a geometric series from 4 to the longest. */
static void see_init(struct timing_table *see, uint32_t tables, uint32_t longest)
{
    for (uint32_t i = 0; i < tables; i++) {
        double length = 4;
        for (uint32_t k = 0; tables > 1 && k < i; k++) {
            /* the (tables - 1)th root of longest / 4, by halving */
            double low = 1, high = 64;
            for (unsigned n = 0; n < 60; n++) {
                double root = (low + high) / 2, power = 1;
                for (uint32_t m = 1; m < tables; m++)
                    power *= root;
                if (power < longest / 4.0)
                    low = root;
                else
                    high = root;
            }
            length *= low;
        }
        uint32_t bits = (uint32_t)(length + 0.5);
        see[i] = (struct timing_table){.words = (bits + 63) / 64};
        for (uint32_t w = 0; w < 3; w++)
            see[i].mask[w] = bits >= 64 * (w + 1) ? ~0ull
                             : bits > 64 * w      ? (1ull << (bits - 64 * w)) - 1
                                                  : 0;
    }
}

/* Zeroed memory in cache lines of its own; NULL if there is none. */
static void *line_alloc(size_t size)
{
    size = (size + 63) / 64 * 64;
    void *p = aligned_alloc(64, size);
    return p ? memset(p, 0, size) : NULL;
}

static bool predictor_init(struct timing_predictor *p, const struct uarch_config *c)
{
    bool ok = true;
    p->tables = c->tage_tables;
    p->odd[0] = 0xbf58476d1ce4e5b9ull;
    p->odd[1] = 0x94d049bb133111ebull;
    p->odd[2] = 0xd6e8feb86659fd93ull;
    p->bits = c->tage_bits;
    p->base_mask = (1u << c->base_bits) - 1;
    p->targets = c->ittage_tables;
    p->target_bits = c->ittage_bits;
    p->ras_mask = c->ras_depth - 1;
    see_init(p->see, p->tables, c->tage_history);
    p->usual = p->tables == 5 && p->see[4].words < 3;
    see_init(p->target_see, p->targets, c->tage_history);
    ok &= (p->tagged = malloc(TIMING_TABLES * sizeof *p->tagged)) != NULL;
    for (uint32_t i = 0; p->tagged && i < p->tables; i++)
        for (uint32_t k = 0; k < 1u << p->bits; k++)
            p->tagged[i][k] = (struct timing_tagged){.state = 4};
    for (uint32_t i = 0; i < p->targets; i++)
        ok &= (p->target[i] = calloc(1u << p->target_bits, sizeof **p->target)) != NULL;
    p->shift = 64 - p->bits;
    p->base = malloc((p->base_mask + 1) * sizeof *p->base);
    for (uint32_t i = 0; p->base && i <= p->base_mask; i++)
        p->base[i] = (struct timing_tagged){.state = TIMING_COUNTER | 1};
    return ok && p->base;
}

static void core_release(struct timing_core *core)
{
    struct timing_predictor *p = core->predictor;
    cache_fini(&core->l1);
    cache_fini(&core->l2);
    free(core->l1i.word), free(core->l1i.next), free(core->l1i.ready);
    free(core->btb.word), free(core->btb.next), free(core->taken);
    for (uint32_t i = 0; p && i < TIMING_TABLES; i++)
        free(p->target[i]);
    if (p)
        free(p->tagged), free(p->base);
    free(p);
    free(core->prefetch.stride);
    free(core->prefetch.footprint);
    free(core->slot);
    free(core->went);
    free(core->stored);
    uarch_mmu_fini(&core->mmu);
    free(core);
}

static uint32_t power_above(uint32_t x)
{
    uint32_t p = 1;
    while (p < x)
        p *= 2;
    return p;
}

static struct timing_core *core_make(struct timing *s)
{
    const struct uarch_config *c = &s->config;
    struct timing_core *core = line_alloc(sizeof *core);
    if (!core)
        return NULL;
    core->timing = s;
    core->c = c;
    core->page = ~0ull;
    core->page_shift = s->page_shift;
    core->l1d_latency = c->l1d_latency;
    core->lat_alu = c->lat_alu;
    core->window = power_above(c->rob) - 1;
    core->slot = calloc(core->window + 1, sizeof *core->slot);
    core->went = aligned_alloc(32, (core->window + 1) * sizeof *core->went);
    core->share = (account_parts(c) + c->width - 1) / c->width;
    core->credit = TIMING_CREDIT;
    core->hook = &core->none;
    core->loads_mask = power_above(c->loads) - 1;
    core->stores_mask = power_above(c->stores) - 1;
    core->dispatch = core->begin = 65536 - account_parts(c);
    core->stored_mask = power_above(8 * c->stores) - 1;
    core->stored = calloc(core->stored_mask + 1, sizeof *core->stored);
    core->l1_misses.count = c->l1d_misses;
    core->l2_misses.count = c->l2_misses;
    core->l2_server.lines = c->l2_lines;
    core->mesh_server.lines = c->mesh_lines;
    core->code_server.lines = c->l2_code;
    core->prefetch.l1.count = c->pf_stream;
    core->prefetch.l2.count = c->pf_l2;
    core->prefetch.stride = calloc(c->pf_stride + 1, sizeof *core->prefetch.stride);
    core->prefetch.footprint = calloc(c->pf_spatial + 1, sizeof *core->prefetch.footprint);
    core->code_generation = ++s->generation;
    core->btb_generation = ++s->generation;
    bool ok = core->slot && core->went && core->stored && core->prefetch.stride &&
              core->prefetch.footprint;
    ok &= cache_init(&core->l1, c->l1d_size, c->l1d_ways);
    ok &= cache_init(&core->l2, c->l2_size, c->l2_ways);
    ok &= fifo_init(&core->l1i, c->l1i_size >> UARCH_LINE, c->l1i_ways, true);
    ok &= uarch_mmu_init(&core->mmu, c);
    core->mmu.ideal = s->ideal.kinds & SPEX_IDEAL_PAGES ? &s->ideal : NULL;
    ok &= fifo_init(&core->btb, c->btb_entries, c->btb_ways, false);
    core->predictor = line_alloc(sizeof *core->predictor);
    ok &= core->predictor && predictor_init(core->predictor, c);
    if (ok)
        return core;
    core_release(core);
    return NULL;
}

enum spex_status timing_new(const struct uarch_config *config, struct timing **out)
{
    struct timing *s = calloc(1, sizeof *s);
    if (!s)
        return SPEX_NO_MEMORY;
    s->config = *config;
    const struct uarch_config *c = &s->config;
    account_latencies(c, s->latency);
    s->page_shift = 31 - (uint32_t)__builtin_clz(c->page_size);
    s->llc_mask = (c->llc_size >> UARCH_LINE) / c->llc_ways - 1;
    s->llc = calloc(c->llc_size >> UARCH_LINE, sizeof *s->llc);
    s->near = calloc(TIMING_NEAR, sizeof *s->near);
    s->llc_server.lines = c->llc_lines;
    s->dram[0].lines = s->dram[1].lines = c->dram_lines;
    s->link.lines = c->remote_lines;
    if (!s->llc || !s->near) {
        timing_free(s);
        return SPEX_NO_MEMORY;
    }
    *out = s;
    return SPEX_OK;
}

void timing_apart(struct timing *s)
{
    s->apart = true;
}

void timing_free(struct timing *s)
{
    if (!s)
        return;
    timing_memo_free(s);
    for (uint32_t i = 0; i < s->core_count; i++)
        core_release(s->core[i]);
    free(s->llc);
    free(s->near);
    free(s->homes.page);
    free(s);
}

enum spex_status timing_core_new(struct timing *s, unsigned index, struct timing_core **out)
{
    struct timing_core *core = core_make(s);
    uint32_t id = 0;
    while (id < s->core_count && !s->core[id]->free)
        id++;
    if (!core || id == TIMING_CORES) {
        if (core)
            core_release(core);
        return SPEX_NO_MEMORY;
    }
    if (id < s->core_count)
        core_release(s->core[id]);
    else
        s->core_count++;
    s->core[id] = core;
    core->id = id;
    core->index = index;
    core->cluster = index / s->config.cluster;
    core->socket = s->config.sockets == 2 ? core->cluster & 1 : 0;
    *out = core;
    return SPEX_OK;
}

void timing_core_free(struct timing_core *core)
{
    if (!core)
        return;
    timing_memory_flush(core);
    core->free = true;
}

/* ---- blocks ---- */

/* The time of a taken branch beyond the dispatch of its block, which takes `own` parts. */
static void late_init(const struct uarch_config *c, struct timing_block *block, uint64_t parts,
                      uint64_t own)
{
    const uint32_t cycles[TIMING_BTB_COUNT] = {
        [TIMING_BTB_NEAR] = 1,
        [TIMING_BTB_MID] = c->btb_mid_cycles,
        [TIMING_BTB_LAST] = c->btb_cycles,
        [TIMING_BTB_DENSE] = c->btb_cycles + c->btb_dense,
    };
    bool pair =
        c->btb_pairs && (block->end == SPEX_UARCH_END_DIRECT || block->end == SPEX_UARCH_END_CALL);
    for (unsigned i = 0; i < TIMING_BTB_NOWHERE; i++) {
        uint64_t least = cycles[i] * parts / (pair ? 2 : 1), late = least > own ? least - own : 0;
        block->late[i] = (uint32_t)(late / parts << 16 | late % parts);
    }
    block->late[TIMING_BTB_NOWHERE] = c->btb_miss << 16;
}

enum uarch_end uarch_end_of(const struct spex_op *op)
{
    if (op->kind != SPEX_OP_BRANCH)
        return SPEX_UARCH_END_NONE;
    if (op->flags & SPEX_OPF_COND)
        return SPEX_UARCH_END_COND;
    if (op->flags & SPEX_OPF_RETURN)
        return SPEX_UARCH_END_RETURN;
    if (op->flags & SPEX_OPF_INDIRECT)
        return op->flags & SPEX_OPF_LINK ? SPEX_UARCH_END_INDIRECT_CALL : SPEX_UARCH_END_INDIRECT;
    return op->flags & SPEX_OPF_LINK ? SPEX_UARCH_END_CALL : SPEX_UARCH_END_DIRECT;
}

enum spex_status timing_block_init(const struct timing *s, struct timing_block *block, uint64_t pc,
                                   const struct spex_op *ops, size_t count)
{
    const struct uarch_config *c = &s->config;
    *block = (struct timing_block){.pc = pc,
                                   .next = pc + 4 * count,
                                   .count = (uint32_t)count,
                                   .end = (uint8_t)uarch_end_of(&ops[count - 1]),
                                   .ops = ops,
                                   .key = timing_branch_key(pc + 4 * count - 4)};
    block->uops = calloc(count, sizeof *block->uops);
    if (!block->uops)
        return SPEX_NO_MEMORY;
    struct account_ports ports = {{0}};
    block->steady = count <= TIMING_LONGEST && count <= c->rob;
    for (size_t i = 0; i < count; i++) {
        struct spex_op op = ops[i];
        unsigned ideal = s->ideal.count ? timing_ideal_op(&s->ideal, pc + 4 * i, &op) : 0;
        account_op(c, s->latency, &block->uops[i], &op);
        timing_ideal_uop(ideal, &op, &block->uops[i]);
        unsigned kind = block->uops[i].kind;
        if (kind != ACCOUNT_GONE)
            account_use(&ports, &op);
        block->gone += kind == ACCOUNT_GONE;
        block->foreseen = ideal & (SPEX_IDEAL_BRANCH | SPEX_IDEAL_TIME);
        block->loads += kind == ACCOUNT_LOAD;
        block->hints += kind == ACCOUNT_HINT;
        block->stores += kind == ACCOUNT_STORE || kind == ACCOUNT_ATOMIC;
        block->steady &= kind != ACCOUNT_BARRIER && kind != ACCOUNT_GONE;
    }
    block->apart = block->gone;
    block->steady &= block->loads <= c->loads && block->stores <= c->stores;
    const uint32_t parts = account_parts(c);
    const uint64_t extra = account_extra(c, parts, &ports);
    block->extra = extra / parts << 16 | extra % parts;
    if (block->uops[count - 1].kind != ACCOUNT_GONE)
        late_init(c, block, parts,
                  (count - block->gone) * ((parts + c->width - 1) / c->width) + extra);
    return SPEX_OK;
}

void timing_block_fini(struct timing_block *block)
{
    free(block->uops);
}

/* ---- time and samples ---- */

uint64_t timing_clock(const struct timing_core *core)
{
    return core->retire;
}

static void skip(struct timing_core *core, uint64_t cycles)
{
    timing_memo_leave(core);
    core->retire += cycles;
    core->fetch = core->retire;
    core->dispatch = core->retire << 16 | core->begin;
}

void timing_spend(struct timing_core *core, uint64_t cycles)
{
    core->counts.kernel += cycles;
    skip(core, cycles);
}

uint64_t timing_reach(struct timing_core *core, uint64_t cycles)
{
    uint64_t by = cycles > core->retire ? cycles - core->retire : 0;
    core->counts.idle += by;
    if (by)
        skip(core, by);
    return by;
}

void timing_access_outcome(const struct timing_core *core, const struct spex_op *op, uint64_t va,
                           unsigned size, uarch_result result, struct spex_access *access)
{
    uarch_outcome(core->c, op, va, size, result, access);
}

uint64_t timing_lines_taken(const struct timing_core *core)
{
    return core->counts.snoop + core->counts.upgrade;
}

void timing_counts(const struct timing_core *core, struct uarch_counts *counts)
{
    *counts = core->counts;
}
