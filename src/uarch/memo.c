/*
 * Remembers what blocks did. A block does the same again if registers and dispatch have the same
 * relative times as before, and if its accesses take as long. The accesses themselves are always
 * made.
 *
 * This never changes the result; it only gets there faster.
 */
#include "uarch/account.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 16 << 20 }; /* most bytes */

static size_t place(uint64_t hash)
{
    return (size_t)((hash * 0x9e3779b97f4a7c15ull) >> 50) % TIMING_PATHS;
}

/* ---- states ---- */

static bool state_of(const struct timing_core *core, struct timing_state *state)
{
    uint64_t ready = (core->dispatch >> 16) + 1;
    unsigned most = 0;
    memset(state, 0, sizeof *state);
    state->part = (uint16_t)core->dispatch;
    for (unsigned r = 0; r < ACCOUNT_REGS; r++) {
        uint64_t wait = core->ready[r] > ready ? core->ready[r] - ready : 0;
        wait = r == ACCOUNT_NO_DEST ? 0 : wait > 255 ? 255 : wait;
        most = wait > most ? (unsigned)wait : most;
        state->ready[r] = (uint8_t)wait;
    }
    return most <= TIMING_SOON;
}

const struct timing_state *timing_memo_enter(struct timing_core *core)
{
    struct timing_memo *memo = &core->timing->memo;
    struct timing_state state;
    /* The last retirement is later than nearly everything that a register waits for. */
    core->hook = &core->none;
    if (core->retire > (core->dispatch >> 16) + 1 + TIMING_SOON || !state_of(core, &state))
        return core->state = NULL;
    uint64_t hash = state.part, word;
    for (unsigned i = 0; i < ACCOUNT_REGS; i += sizeof word) {
        memcpy(&word, state.ready + i, sizeof word);
        hash = (hash ^ word) * 0xbf58476d1ce4e5b9ull;
        hash ^= hash >> 32;
    }
    struct timing_state **list = &memo->state[place(hash)], *s = *list;
    while (s && (s->part != state.part || memcmp(s->ready, state.ready, sizeof state.ready)))
        s = s->older;
    if (!s && (s = malloc(sizeof *s))) {
        *s = state;
        s->seed = (uint32_t)hash;
        s->older = *list;
        *list = s;
        memo->bytes += sizeof *s;
    }
    return core->state = s;
}

void timing_memo_slots(struct timing_core *core)
{
    uint64_t number = core->number;
    /* Newest first; only those in the window matter. */
    while (core->went_count && core->number - number <= core->window) {
        const struct timing_went *w = &core->went[--core->went_count & core->window];
        number -= w->path->count;
        for (uint32_t i = 0; i < w->path->count; i++) {
            uint64_t retire = w->base + w->path->retire[i];
            core->slot[(number + i) & core->window] = retire > w->retire ? retire : w->retire;
        }
    }
    core->went_count = 0;
}

void timing_memo_leave(struct timing_core *core)
{
    uint64_t ready = (core->dispatch >> 16) + 1;
    const struct timing_state *state = core->state;
    for (unsigned r = 0; state && r < ACCOUNT_REGS; r++)
        core->ready[r] = state->ready[r] ? ready + state->ready[r] : 0;
    core->state = NULL;
    core->hook = &core->none;
}

/* ---- paths ---- */

static struct timing_path **list_of(struct timing_memo *memo, const struct timing_state *from,
                                    uint32_t block)
{
    return &memo->path[(from->seed ^ block * 0x9e3779b1u) >> 16 & (TIMING_PATHS - 1)];
}

struct timing_path *timing_memo_find(struct timing_core *core, const struct timing_block *block)
{
    struct timing_path *path = *list_of(&core->timing->memo, core->state, block->number);
    while (path && (path->from != core->state || path->block != block->number))
        path = path->next;
    return path;
}

struct timing_path *timing_memo_branch(struct timing_path *path, uint32_t at, uint64_t took)
{
    for (path = path->branch; path; path = path->next)
        if (path->at == at && path->took == took)
            return path;
    return NULL;
}

static struct timing_step step_of(const struct timing_core *core, const struct account_op *u,
                                  uint32_t insn, const struct timing_run *run)
{
    bool load = u->kind == ACCOUNT_LOAD, store = u->kind == ACCOUNT_STORE;
    unsigned accesses = 0;
    uint32_t fits = 0;
    for (size_t i = 0; i < run->access_count; i++)
        accesses += run->access[i] >> 48 == insn;
    for (unsigned k = 0; (load || store) && accesses == 1 && k < 32; k++)
        fits |= (uint32_t)(k % 8 + u->size <= 8) << k;
    return (struct timing_step){.insn = (uint16_t)insn,
                                .plain = load ? (uint16_t)core->l1d_latency : u->latency,
                                .size = (uint8_t)u->size,
                                .store = store,
                                .fits = fits};
}

static void fill_steps(const struct timing_core *core, struct timing_path *path,
                       const struct timing_block *block, const struct timing_run *run,
                       uint64_t begin)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < block->count; i++) {
        unsigned kind = block->uops[i].kind;
        uint64_t issue = run->insns[i].issue - begin, done = run->insns[i].done - begin;
        if (kind >= ACCOUNT_LOAD && kind <= ACCOUNT_HINT) {
            struct timing_step *s = &path->step[path->steps++];
            *s = step_of(core, &block->uops[i], i, run);
            s->issue = (uint16_t)issue;
            s->took = (uint16_t)(done - issue);
            s->before = (uint16_t)last;
        }
        last = done > last ? done : last;
        path->retire[i] = (uint16_t)last;
        path->done = (uint16_t)done;
    }
    path->last = (uint16_t)last;
}

struct timing_path *timing_memo_keep(struct timing_core *core, const struct timing_block *block,
                                     const struct timing_run *run, const struct timing_state *from,
                                     uint64_t dispatch, struct timing_path *parent, uint32_t at,
                                     uint64_t took)
{
    struct timing_memo *memo = &core->timing->memo;
    uint32_t accesses = block->loads + block->stores + block->hints, count = block->count;
    if (!timing_memo_enter(core) || core->retire - (dispatch >> 16) > UINT16_MAX ||
        core->dispatch - dispatch > UINT32_MAX)
        return NULL;
    size_t size = sizeof(struct timing_path) + accesses * sizeof(struct timing_step) +
                  count * sizeof(uint16_t);
    struct timing_path *path = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!path)
        return NULL;
    memset(path, 0, size);
    memo->bytes += size;
    path->from = from;
    path->to = core->state;
    path->block = block->number;
    path->dispatch = (uint32_t)(core->dispatch - dispatch);
    path->count = (uint16_t)count;
    path->retire = (uint16_t *)(path->step + accesses);
    path->at = (uint16_t)at;
    path->took = (uint16_t)took;
    fill_steps(core, path, block, run, dispatch >> 16);
    struct timing_path **list = parent ? &parent->branch : list_of(memo, from, block->number);
    path->next = *list;
    *list = path;
    core->hook = path->follow;
    return path;
}

void timing_memo_late(struct timing_core *core, struct timing_path *path, uint32_t late)
{
    if (path && path->lately && path->late == late) {
        core->dispatch = account_after(core->dispatch, late, core->begin);
        core->state = path->lately;
        core->hook = &path->after;
        return;
    }
    timing_memo_leave(core);
    core->dispatch = account_after(core->dispatch, late, core->begin);
    if (!path)
        return;
    path->late = late;
    path->lately = timing_memo_enter(core);
    path->after = NULL;
}

void timing_memo_missed(struct timing_core *core, struct timing_path *path, uint64_t cycle)
{
    timing_memo_leave(core);
    core->dispatch = cycle << 16 | core->begin;
    if (path)
        path->missed = timing_memo_enter(core);
}

/* ---- all of it ---- */

static void free_paths(struct timing_path *path)
{
    while (path) {
        struct timing_path *next = path->next;
        free_paths(path->branch);
        free(path);
        path = next;
    }
}

void timing_memo_free(struct timing *timing)
{
    struct timing_memo *memo = &timing->memo;
    for (uint32_t i = 0; i < timing->core_count; i++) {
        timing_memo_slots(timing->core[i]);
        timing_memo_leave(timing->core[i]);
    }
    for (unsigned i = 0; i < TIMING_PATHS; i++) {
        free_paths(memo->path[i]);
        for (struct timing_state *s = memo->state[i], *older; s; s = older) {
            older = s->older;
            free(s);
        }
        memo->path[i] = NULL;
        memo->state[i] = NULL;
    }
    memo->bytes = 0;
}

bool timing_memo_full(const struct timing *timing)
{
    return timing->memo.bytes > MOST;
}
