/* Models, cores, blocks and branch prediction. */
#include <stdlib.h>
#include <string.h>

#include "uarch/uarch.h"

static const struct spex_uarch_block no_block = {.end = SPEX_UARCH_END_NONE};

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static unsigned log2_of(uint32_t x)
{
    return 31 - (unsigned)__builtin_clz(x);
}

enum spex_status spex_uarch_new(const struct spex_uarch_config *config, struct spex_uarch **out)
{
    struct spex_uarch *model = aligned_alloc(64, (sizeof *model + 63) / 64 * 64);
    if (!model)
        return SPEX_NO_MEMORY;
    memset(model, 0, sizeof *model);
    model->config = *config;
    const struct spex_uarch_config *c = &model->config;
    model->l1_sets = (c->l1d_size >> UARCH_LINE) / c->l1d_ways;
    model->l1_rest = c->l1d_ways - 1;
    model->l2_mask = (c->l2_size >> UARCH_LINE) / c->l2_ways - 1;
    model->llc_mask = (c->llc_size >> UARCH_LINE) / c->llc_ways - 1;
    model->dir_mask = c->dir_size / UARCH_DIR_WAYS - 1;
    model->stripe_mask = smaller(smaller(UARCH_STRIPES - 1, model->l2_mask),
                                 smaller(model->llc_mask, model->dir_mask));
    model->page_shift = log2_of(c->page_size);
    model->ind_mask = (1u << c->ind_bits) - 1;
    model->stall_load = SPEX_UARCH_TICK * 16 * (100 - c->overlap) / 100;
    model->stall_store = model->stall_load / 4;
    account_latencies(c, model->latency);
    bool ok = true;
    if (!c->none) {
        model->llc = calloc(c->llc_size >> UARCH_LINE, sizeof *model->llc);
        model->dir_tag = calloc(c->dir_size, sizeof *model->dir_tag);
        model->dir = calloc(c->dir_size, sizeof *model->dir);
        model->contended = calloc(UARCH_CONTENDED, sizeof *model->contended);
        ok = model->llc && model->dir_tag && model->dir && model->contended;
    }
    if (!ok) {
        spex_uarch_free(model);
        return SPEX_NO_MEMORY;
    }
    *out = model;
    return SPEX_OK;
}

static void core_release(struct uarch_core *core)
{
    free(core->l1);
    free(core->l2);
    uarch_mmu_fini(&core->mmu);
    free(core->indirect);
    free(core->mail.box);
    free(core->hot);
    free(core);
}

void spex_uarch_free(struct spex_uarch *model)
{
    if (!model)
        return;
    for (uint32_t i = 0; i < model->core_count; i++)
        core_release(model->core[i]);
    free(model->llc);
    free(model->dir_tag);
    free(model->dir);
    free(model->contended);
    free(model->homes.page);
    free(model);
}

const struct spex_uarch_config *spex_uarch_config_of(const struct spex_uarch *model)
{
    return &model->config;
}

void spex_uarch_forked(struct spex_uarch *model, struct spex_uarch_core *core)
{
    for (unsigned i = 0; i < UARCH_STRIPES; i++)
        model->stripe[i].lock = 0;
    model->contended_lock = 0;
    model->cores_lock = 0;
    model->homes.lock = 0;
    for (uint32_t i = 0; i < model->core_count; i++) {
        model->core[i]->mail.lock = 0;
        model->core[i]->mail.idle = model->core[i]->hot != core;
    }
}

/* Everything but the caches, the clock and the place in the system. */
static void core_clear(struct uarch_core *core)
{
    const struct spex_uarch *model = core->model;
    struct spex_uarch_core *hot = core->hot;
    hot->last = &no_block;
    hot->sequence = 0;
    hot->history = 0;
    hot->ras_top = 0;
    for (unsigned i = 0; i < SPEX_UARCH_RING; i++)
        hot->ring[i] = (uintptr_t)&no_block;
    memset(hot->ras, 0, sizeof hot->ras);
    memset(hot->direction, 1 << SPEX_UARCH_DIRECTION_SHIFT, sizeof hot->direction);
    core->path = 0;
    core->miss_next = 0;
    memset(core->miss, 0, sizeof core->miss);
    memset(core->indirect, 0, (model->ind_mask + 1) * sizeof *core->indirect);
    uarch_mmu_clear(&core->mmu);
}

static struct uarch_core *core_make(struct spex_uarch *model)
{
    const struct spex_uarch_config *c = &model->config;
    struct uarch_core *core = aligned_alloc(64, (sizeof *core + 63) / 64 * 64);
    if (!core)
        return NULL;
    memset(core, 0, sizeof *core);
    size_t hot_size = (sizeof(struct spex_uarch_core) + 63) / 64 * 64;
    core->model = model;
    core->hot = aligned_alloc(64, hot_size);
    core->l1 = malloc(((size_t)model->l1_sets * model->l1_rest + 1) * sizeof *core->l1);
    core->l2 = calloc(c->l2_size >> UARCH_LINE, sizeof *core->l2);
    bool mmu = uarch_mmu_init(&core->mmu, c);
    core->indirect = calloc(model->ind_mask + 1, sizeof *core->indirect);
    /* Each line held can be taken away only once before the mail is read. */
    core->mail.capacity = (c->l2_size >> UARCH_LINE) + 64;
    core->mail.box = malloc(core->mail.capacity * sizeof *core->mail.box);
    if (!core->hot || !core->l1 || !core->l2 || !mmu || !core->indirect || !core->mail.box) {
        core_release(core);
        return NULL;
    }
    struct spex_uarch_core *hot = core->hot;
    memset(hot, 0, hot_size);
    hot->rest = core;
    hot->set_mask = model->l1_sets - 1;
    hot->bp_mask = (1u << c->bp_bits) - 1;
    hot->ras_mask = c->ras_depth - 1;
    hot->penalty[1] = c->mispredict * SPEX_UARCH_TICK;
    for (unsigned i = 0; i < SPEX_UARCH_SETS_MAX; i++)
        hot->mru[i] = UARCH_INVALID;
    for (unsigned i = 0; i < model->l1_sets * model->l1_rest; i++)
        core->l1[i] = UARCH_INVALID;
    return core;
}

enum spex_status spex_uarch_core_new(struct spex_uarch *model, unsigned index,
                                     struct spex_uarch_core **out)
{
    struct uarch_core *core = NULL;
    uarch_lock(&model->cores_lock);
    for (uint32_t i = 0; i < model->core_count && !core; i++)
        if (model->core[i]->free)
            core = model->core[i];
    bool fresh = !core;
    if (fresh && model->core_count < UARCH_CORES)
        core = core_make(model);
    if (core) {
        core->free = core->armed = false;
        core->cluster = index / model->config.cluster;
        core->socket = model->config.sockets == 2 ? core->cluster & 1 : 0;
        core->hot->index = index;
        core->hot->counter = (int64_t)SPEX_UARCH_OPS_MAX << SPEX_UARCH_OPS_SHIFT;
        core->hot->clock_base = 0;
        memset(&core->counts, 0, sizeof core->counts);
        core->hot->mispredicts = 0;
        core_clear(core);
        __atomic_store_n(&core->mail.clock, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&core->mail.idle, 0, __ATOMIC_RELAXED);
        if (fresh) {
            core->id = model->core_count;
            struct uarch_core **list = &model->bit[core->id % UARCH_BITS];
            while (*list)
                list = &(*list)->same_bit;
            model->core[model->core_count++] = core;
            __atomic_store_n(list, core, __ATOMIC_RELEASE);
        }
    }
    uarch_unlock(&model->cores_lock);
    if (!core)
        return SPEX_NO_MEMORY;
    *out = core->hot;
    return SPEX_OK;
}

void spex_uarch_core_reset(struct spex_uarch_core *hot)
{
    uarch_flush(hot->rest);
    core_clear(hot->rest);
}

void spex_uarch_core_free(struct spex_uarch_core *hot)
{
    if (!hot)
        return;
    struct uarch_core *core = hot->rest;
    uarch_flush(core);
    uarch_lock(&core->model->cores_lock);
    __atomic_store_n(&core->mail.idle, 1, __ATOMIC_RELAXED);
    core->free = true;
    uarch_unlock(&core->model->cores_lock);
}

/* ---- time ---- */

static void rebase(struct spex_uarch_core *core, uint32_t operations)
{
    core->clock_base += (uint64_t)core->counter & ((1ull << SPEX_UARCH_OPS_SHIFT) - 1);
    core->counter = ((int64_t)operations - 1) * (1ll << SPEX_UARCH_OPS_SHIFT);
}

void spex_uarch_arm(struct spex_uarch_core *core, uint32_t operations)
{
    core->rest->armed = true;
    rebase(core, operations);
}

void spex_uarch_clock_reach(struct spex_uarch_core *core, uint64_t cycles)
{
    uint64_t now = spex_uarch_clock(core);
    if (cycles > now)
        core->clock_base += (cycles - now) * SPEX_UARCH_TICK;
    __atomic_store_n(&core->rest->mail.clock, spex_uarch_clock(core), __ATOMIC_RELAXED);
}

void spex_uarch_core_idle(struct spex_uarch_core *core, bool idle)
{
    __atomic_store_n(&core->rest->mail.clock, spex_uarch_clock(core), __ATOMIC_RELAXED);
    __atomic_store_n(&core->rest->mail.idle, idle, __ATOMIC_RELAXED);
}

/* ---- blocks ---- */

enum spex_uarch_end uarch_end_of(const struct spex_op *op)
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

/*
 * Ticks that a block takes when nothing misses: half way between what dispatch
 * allows (blocks overlap perfectly) and its longest chain of operands (they do not
 * overlap at all).
 */
static uint32_t cost(const struct spex_uarch *model, const struct spex_op *ops, size_t count)
{
    uint32_t ready[SPEX_REG_COUNT] = {0}, chain = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t start = 0;
        for (unsigned s = 0; s < 5; s++)
            if (ops[i].src[s] < SPEX_REG_COUNT && ready[ops[i].src[s]] > start)
                start = ready[ops[i].src[s]];
        uint32_t done = start + model->latency[ops[i].exec];
        for (unsigned d = 0; d < 4; d++)
            if (ops[i].dst[d] < SPEX_REG_COUNT)
                ready[ops[i].dst[d]] = done;
        if (done > chain)
            chain = done;
    }
    uint32_t throughput = (uint32_t)count * SPEX_UARCH_TICK / model->config.width;
    uint32_t ticks = (throughput + chain * SPEX_UARCH_TICK) / 2;
    return ticks > throughput ? ticks : throughput;
}

void spex_uarch_block_init(const struct spex_uarch *model, struct spex_uarch_block *block,
                           uint64_t pc, const struct spex_op *ops, size_t count)
{
    block->pc = pc;
    block->next = pc + 4 * count;
    block->count = (uint32_t)count;
    block->ops = ops;
    block->end =
        (uint8_t)(model->config.none ? SPEX_UARCH_END_NONE : uarch_end_of(&ops[count - 1]));
    block->delta = -(int64_t)count * (1ll << SPEX_UARCH_OPS_SHIFT) + cost(model, ops, count);
}

unsigned spex_uarch_block_rest(struct spex_uarch_core *hot, const struct spex_uarch_block *block,
                               unsigned flags)
{
    struct uarch_core *core = hot->rest;
    if (flags & SPEX_UARCH_INDIRECT) {
        uintptr_t word = hot->ring[(hot->sequence - 1) % SPEX_UARCH_RING];
        const struct spex_uarch_block *last = (const void *)(word & ~(uintptr_t)1);
        if (last->end == SPEX_UARCH_END_INDIRECT_CALL)
            hot->ras[++hot->ras_top & hot->ras_mask] = last->next;
        uint64_t *target =
            &core->indirect[((uint32_t)(last->next >> 2) ^ core->path) & core->model->ind_mask];
        if (*target != block->pc) {
            *target = block->pc;
            hot->ring[hot->sequence % SPEX_UARCH_RING] |= 1;
            hot->counter += hot->penalty[1];
            hot->mispredicts++;
        }
        core->path = core->path << 3 ^ (uint32_t)(block->pc >> 2);
    }
    if (flags & (SPEX_UARCH_ATTENTION | SPEX_UARCH_EXPIRED)) {
        uarch_drain(core);
        __atomic_store_n(&core->mail.clock, spex_uarch_clock(hot), __ATOMIC_RELAXED);
        if (hot->counter < 0 && !core->armed) /* nobody waits for an operation */
            rebase(hot, SPEX_UARCH_OPS_MAX);
        flags = hot->counter < 0 ? SPEX_UARCH_EXPIRED : 0;
        if (__atomic_load_n(&hot->attention, __ATOMIC_RELAXED) &
            ~(uint32_t)(SPEX_UARCH_ATT_ENGINE - 1))
            flags |= SPEX_UARCH_ATTENTION;
        return flags;
    }
    return 0;
}

void spex_uarch_cut(struct spex_uarch_core *core)
{
    core->last = &no_block;
}

void spex_uarch_counts(const struct spex_uarch_core *core, struct spex_uarch_counts *counts)
{
    *counts = core->rest->counts;
    counts->mispredict = core->mispredicts;
}

const char *spex_uarch_level_name(enum spex_uarch_level level)
{
    static const char *const names[SPEX_UARCH_LEVEL_COUNT] = {
        [SPEX_UARCH_L1] = "l1",     [SPEX_UARCH_L2] = "l2",   [SPEX_UARCH_LLC] = "llc",
        [SPEX_UARCH_PEER] = "peer", [SPEX_UARCH_FAR] = "far", [SPEX_UARCH_REMOTE] = "remote",
        [SPEX_UARCH_DRAM] = "dram",
    };
    return (unsigned)level < SPEX_UARCH_LEVEL_COUNT ? names[level] : "unknown";
}
