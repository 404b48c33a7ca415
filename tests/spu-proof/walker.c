#include "walker.h"

#include <assert.h>
#include <string.h>

#define ADDRESS UINT64_C(0x0000fffffffff000)

void walker_init(struct walker *w)
{
    memset(w, 0, sizeof *w);
    w->next_page = 1;
    w->output_limit = UINT64_C(1) << 40;
    w->gpt_limit = UINT64_MAX;
    w->abort_page = w->no_atomic_page = NOWHERE;
    w->stage1 = w->next_page++ * (uint64_t)WALKER_PAGE;
}

static uint64_t *word(struct walker *w, uint64_t pa)
{
    assert(pa + 8 <= sizeof w->memory);
    return (uint64_t *)(w->memory + pa);
}

static unsigned index_of(uint64_t va, unsigned level)
{
    return va >> (39 - 9 * level) & 511;
}

static uint64_t new_page(struct walker *w)
{
    assert(w->next_page < WALKER_PAGES);
    return w->next_page++ * (uint64_t)WALKER_PAGE;
}

/* The address of a descriptor; makes the tables above it if make. */
static uint64_t descriptor(struct walker *w, uint64_t root, uint64_t va, unsigned level, bool make)
{
    uint64_t table = root;
    for (unsigned l = 0; l < level; l++) {
        uint64_t at = table + 8 * index_of(va, l);
        if (!*word(w, at) && make)
            *word(w, at) = new_page(w) | D_VALID | D_AF;
        table = *word(w, at) & ADDRESS;
    }
    return table + 8 * index_of(va, level);
}

static void map_stage2(struct walker *w, uint64_t ipa)
{
    if (w->stage2)
        *word(w, descriptor(w, w->stage2, ipa, 3, true)) = (ipa & ADDRESS) | D_VALID | D_AF;
}

uint64_t walker_map(struct walker *w, uint64_t va)
{
    uint64_t page = new_page(w);
    *word(w, descriptor(w, w->stage1, va, 3, true)) = page | D_VALID | D_AF;
    map_stage2(w, page);
    for (unsigned level = 0; level < 4; level++) /* stage 1 tables are read through stage 2 */
        map_stage2(w, descriptor(w, w->stage1, va, level, false));
    return page;
}

uint64_t *walker_stage1(struct walker *w, uint64_t va, unsigned level)
{
    return word(w, descriptor(w, w->stage1, va, level, false));
}

uint64_t *walker_stage2(struct walker *w, uint64_t ipa, unsigned level)
{
    return word(w, descriptor(w, w->stage2, ipa, level, false));
}

uint64_t walker_table1(struct walker *w, uint64_t va, unsigned level)
{
    return descriptor(w, w->stage1, va, level, false) & ADDRESS;
}

uint64_t walker_table2(struct walker *w, uint64_t ipa, unsigned level)
{
    return descriptor(w, w->stage2, ipa, level, false) & ADDRESS;
}

const uint8_t *walker_at(struct walker *w, uint64_t va)
{
    uint64_t pa = *walker_stage1(w, va, 3) & ADDRESS;
    return pa ? w->memory + pa + va % WALKER_PAGE : NULL;
}

/* ---- translation ---- */

enum access { WRITE, WALK, UPDATE };

struct request {
    struct walker *w;
    const struct spex_spu_store *store;
    struct spex_spu_stop *stop;
};

static bool fault(struct request *r, unsigned fsc, unsigned flags)
{
    r->stop->kind = SPEX_STOP_FAULT;
    r->stop->fsc = (uint8_t)fsc;
    r->stop->flags = (uint16_t)flags;
    return false;
}

static bool external(struct request *r, unsigned fsc, unsigned flags)
{
    r->stop->kind = SPEX_STOP_ABORT;
    r->stop->fsc = (uint8_t)fsc;
    r->stop->flags = (uint16_t)flags;
    return false;
}

static bool aborts(const struct walker *w, uint64_t pa)
{
    return (int64_t)(pa / WALKER_PAGE) == w->abort_page;
}

/* Granule protection check of a physical address. level and stage: of the walk it is for. */
static bool check_granule(struct request *r, uint64_t pa, enum access what, unsigned level,
                          unsigned stage_flag)
{
    struct walker *w = r->w;
    if (!w->gpt)
        return true;
    if (pa >= w->gpt_limit)
        return fault(r, 0, SPEX_STOP_GPC); /* GPT address size fault */
    if (aborts(w, w->gpt))
        return external(r, 0, SPEX_STOP_GPT);
    static const enum granule own[] = {GPT_SECURE, GPT_NONSECURE, GPT_REALM};
    enum granule g = w->memory[w->gpt + pa / WALKER_PAGE];
    if (g == GPT_INVALID)
        return fault(r, 0, SPEX_STOP_GPC); /* GPT walk fault */
    if (g == GPT_ANY || g == own[r->store->security])
        return true;
    return fault(r, what == WRITE ? 0x28 : 0x24 + level, stage_flag);
}

/* Hardware update of a descriptor. */
static bool update(struct request *r, uint64_t at, uint64_t value, unsigned stage_flag)
{
    if ((int64_t)(at / WALKER_PAGE) == r->w->no_atomic_page)
        return fault(r, 0x31, stage_flag);
    *word(r->w, at) = value;
    return true;
}

/* Access flag and write permission of a page descriptor. */
static bool check_page(struct request *r, uint64_t at, unsigned stage_flag)
{
    struct walker *w = r->w;
    uint64_t d = *word(w, at);
    bool manage = r->store->flags & SPEX_STORE_AF_DIRTY;
    if (!(d & D_AF)) {
        if (!(manage && w->ha))
            return fault(r, 0x0b, stage_flag);
        if (!update(r, at, d |= D_AF, stage_flag))
            return false;
    }
    if (stage_flag && (d & D_ASSURED))
        return fault(r, 0x0f, stage_flag | SPEX_STOP_ASSURED_ONLY);
    if (stage_flag && (d & D_TOP_LEVEL))
        return fault(r, 0x0f, stage_flag | SPEX_STOP_TOP_LEVEL);
    /* An EL0 page: a privileged write that honoured PAN would fault; a kernel page would refuse
       an unprivileged one. */
    bool privileged = r->store->flags & SPEX_STORE_PRIVILEGED;
    if (!stage_flag && (d & D_USER) && !(r->store->flags & SPEX_STORE_PAN_IGNORED))
        return fault(r, 0x0f, 0);
    if (!stage_flag && !(d & D_USER) && !privileged)
        return fault(r, 0x0f, 0);
    if (d & D_READ_ONLY) {
        if (!(manage && w->hd && (d & D_DBM)))
            return fault(r, 0x0f, stage_flag);
        return update(r, at, d & ~D_READ_ONLY, stage_flag);
    }
    return true;
}

/* Intermediate to physical. what: the write, or an access to a stage 1 table. */
static bool stage2(struct request *r, uint64_t ipa, enum access what, uint64_t *pa)
{
    struct walker *w = r->w;
    *pa = ipa;
    if (!w->stage2)
        return true;
    uint64_t table = w->stage2;
    for (unsigned level = 0; level < 4; level++) {
        uint64_t at = table + 8 * index_of(ipa, level);
        if (!check_granule(r, at, WALK, level, SPEX_STOP_STAGE2))
            return false;
        if (aborts(w, at))
            return external(r, 0x14 + level, SPEX_STOP_WALK | SPEX_STOP_STAGE2);
        uint64_t d = *word(w, at);
        if (!(d & 1))
            return fault(r, 0x04 + level, SPEX_STOP_STAGE2);
        if ((d & ADDRESS) >= w->output_limit)
            return fault(r, level, SPEX_STOP_STAGE2);
        if (level == 3 && what == WRITE && !check_page(r, at, SPEX_STOP_STAGE2))
            return false;
        table = d & ADDRESS;
    }
    *pa = table | ipa % WALKER_PAGE;
    return true;
}

static bool translate(struct request *r, uint64_t va, uint64_t *pa)
{
    struct walker *w = r->w;
    if (r->store->flags & SPEX_STORE_NVM)
        return stage2(r, va, WRITE, pa);
    if (w->conflict && va / WALKER_PAGE == w->conflict / WALKER_PAGE)
        return fault(r, 0x30, 0);
    uint64_t table = w->stage1;
    for (unsigned level = 0; level < 4; level++) {
        uint64_t at;
        if (!stage2(r, table + 8 * index_of(va, level), WALK, &at))
            return false;
        if (!check_granule(r, at, WALK, level, 0))
            return false;
        if (aborts(w, at))
            return external(r, 0x14 + level, SPEX_STOP_WALK);
        uint64_t d = *word(w, at);
        if (!(d & 1))
            return fault(r, 0x04 + level, 0);
        if ((d & ADDRESS) >= w->output_limit)
            return fault(r, level, 0);
        if (level < 3 && w->haft && (r->store->flags & SPEX_STORE_AF_DIRTY))
            *word(w, at) = d | D_AF;
        if (level == 3 && !check_page(r, at, 0))
            return false;
        table = d & ADDRESS;
    }
    return stage2(r, table | va % WALKER_PAGE, WRITE, pa);
}

void walker_write(void *user, const struct spex_spu_store *store, struct spex_spu_stop *stop)
{
    struct walker *w = user;
    struct request r = {w, store, stop};
    uint64_t pa;
    if (store->flags & SPEX_STORE_TRANSLATE_ONLY) {
        if (translate(&r, store->address, &pa))
            w->touched++;
        *stop = (struct spex_spu_stop){0};
        return;
    }
    for (size_t i = 0; i < store->count; i++) {
        uint64_t va = store->address + i;
        stop->written = i;
        /* A GPF of the write itself names the last stage: the unit knows that it is stage 1. */
        if (!translate(&r, va, &pa) ||
            !check_granule(&r, pa, WRITE, 0, w->stage2 ? SPEX_STOP_STAGE2 : 0))
            return;
        if (aborts(w, pa)) {
            external(&r, 0, 0);
            return;
        }
        if (va >= w->watch_low && va < w->watch_high && !(store->flags & SPEX_STORE_NO_WATCHPOINT))
            w->watchpoints++;
        assert(pa < sizeof w->memory);
        w->memory[pa] = store->bytes[i];
    }
    stop->kind = SPEX_STOP_NONE;
}
