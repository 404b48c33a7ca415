/*
 * The instruction side: level 1 cache, TLB, branch target buffer. All three replace their oldest
 * entry, so a hit changes nothing. A block whose lines were all found is found again until
 * something is put in (the core's generation changes).
 */
#include <stdlib.h>
#include <string.h>

#include "uarch/account.h"

enum { NONE = -1 };

static int32_t find(const struct timing_fifo *f, uint64_t word, uint64_t key)
{
    uint32_t first = ((uint32_t)key & f->mask) * f->ways;
    for (uint32_t i = first; i < first + f->ways; i++)
        if (f->word[i] == word)
            return (int32_t)i;
    return NONE;
}

static uint32_t insert(struct timing_fifo *f, uint64_t word, uint64_t key)
{
    uint32_t set = (uint32_t)key & f->mask, i = set * f->ways + f->next[set];
    f->next[set] = (uint8_t)((f->next[set] + 1u) % f->ways);
    f->word[i] = word;
    return i;
}

/* Translation latency of a page of code. */
static uint32_t itlb(struct timing_core *core, uint64_t va)
{
    uint64_t page = (va >> core->timing->page_shift) + 1;
    uint8_t *at = &core->itlb_at[page % 64];
    if (core->itlb[*at] == page)
        return 0;
    for (uint32_t i = 0; i < core->c->itlb_entries; i++)
        if (core->itlb[i] == page) {
            *at = (uint8_t)i;
            return 0;
        }
    core->itlb[core->itlb_next] = page;
    core->itlb_next = (core->itlb_next + 1) % core->c->itlb_entries;
    core->code_generation = ++core->timing->generation;
    return uarch_result_translation(uarch_translate_l2(&core->mmu, va, &core->counts));
}

/* When the line arrives; clears *settled if that is after t. */
static uint64_t line(struct timing_core *core, uint64_t va, uint64_t t, bool *settled)
{
    uint64_t number = va >> UARCH_LINE, asked = t;
    uint32_t translation = itlb(core, va);
    if (__builtin_expect(translation, 0)) { /* nothing is fetched meanwhile */
        t += translation;
        core->fetch = t;
    }
    int32_t i = find(&core->l1i, number + 1, number);
    uint64_t ready;
    if (i != NONE) {
        ready = core->l1i.ready[i];
    } else {
        ready = timing_memory_code(core, va & ~63ull, t);
        core->l1i.ready[insert(&core->l1i, number + 1, number)] = ready;
        core->code_generation = ++core->timing->generation;
        unsigned shift = core->timing->page_shift - UARCH_LINE;
        for (uint32_t k = 1; k <= core->c->pf_code; k++) {
            uint64_t next = number + k;
            if (next >> shift != number >> shift || find(&core->l1i, next + 1, next) != NONE)
                continue;
            uint64_t there = timing_memory_code(core, next << UARCH_LINE, t);
            core->l1i.ready[insert(&core->l1i, next + 1, next)] = there;
            core->counts.code_miss--; /* a prefetch does not count as the program's miss */
        }
    }
    if (ready < t)
        ready = t;
    *settled &= ready == asked;
    return ready;
}

uint64_t timing_fetch_lines(struct timing_core *core, struct timing_block *block, uint64_t t)
{
    uint64_t ready = t;
    bool settled = true;
    for (uint64_t va = block->pc & ~63ull; va < block->next; va += 64) {
        t = t > core->fetch ? t : core->fetch;
        uint64_t r = line(core, va, t, &settled);
        if (r > ready)
            ready = r;
    }
    if (settled)
        block->fetched = core->code_generation;
    return ready;
}

/* ---- branch target buffers ---- */

/* The core's entry for the block's branch; NULL if out of memory. */
static struct timing_taken *taken_of(struct timing_core *core, struct timing_block *block)
{
    if (!block->place)
        block->place = ++core->timing->places;
    if (block->place >= core->taken_count) {
        uint32_t count = block->place * 2;
        struct timing_taken *more = realloc(core->taken, count * sizeof *more);
        if (!more)
            return NULL;
        memset(more + core->taken_count, 0, (count - core->taken_count) * sizeof *more);
        core->taken = more;
        core->taken_count = count;
    }
    return &core->taken[block->place];
}

/* Does another branch follow this one in the same 32 bytes? */
static bool dense(const struct timing_fifo *f, uint64_t pc)
{
    uint32_t first = ((uint32_t)(pc >> 5) & f->mask) * f->ways;
    for (uint32_t i = first; i < first + f->ways; i++)
        if (f->word[i] >> 5 == pc >> 5 && f->word[i] > pc)
            return true;
    return false;
}

/* Looks in the last buffer: is the branch there, and are others close to it? Puts it in. */
static enum timing_btb look_last(struct timing_core *core, struct timing_block *block)
{
    struct timing_fifo *f = &core->btb;
    uint64_t pc = block->next - 4, key = pc >> 5;
    enum timing_btb where = TIMING_BTB_LAST;
    if (block->found != core->btb_generation) {
        if (find(f, pc, key) == NONE) {
            insert(f, pc, key);
            core->btb_generation = ++core->timing->generation;
            core->counts.btb_miss++;
            where = TIMING_BTB_NOWHERE;
        }
        block->found = core->btb_generation;
        block->dense = core->c->btb_dense && dense(f, pc);
    }
    return where == TIMING_BTB_LAST && block->dense ? TIMING_BTB_DENSE : where;
}

uint32_t timing_btb_look(struct timing_core *core, struct timing_block *block)
{
    const struct uarch_config *c = core->c;
    struct timing_taken none = {0}, *taken = taken_of(core, block);
    if (!taken)
        taken = &none;
    enum timing_btb where = TIMING_BTB_MID;
    if (core->mid_put >= taken->mid) {
        where = look_last(core, block);
        if (c->btb_mid)
            taken->mid = ++core->mid_put + c->btb_near + c->btb_mid;
    }
    uint32_t entries = c->btb_pairs && block->end == SPEX_UARCH_END_COND ? 2 : 1;
    core->near_put += entries;
    taken->near = core->near_put + c->btb_near - (entries - 1);
    return block->late[where];
}
