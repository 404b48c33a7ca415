/* Replay: instructions, from the files that the profile ran. */
#include "pass.h"
#include "replay.h"

#include "base/memory.h"

#include <spex/a64.h>

#include <stdlib.h>

enum { PAGE = 4096, PAGES = 4096, SITES = REPLAY_CHUNK * REPLAY_CHUNKS };

struct page {
    struct page *next;
    const struct spex_module *module;
    uint64_t number;
    size_t size; /* bytes that could be read */
    uint8_t bytes[PAGE];
};

struct replay_pages {
    struct page *list[PAGES];
    size_t count;
};

void replay_pages_free(struct replay_pages *pages)
{
    for (size_t i = 0; pages && i < PAGES; i++)
        for (struct page *p = pages->list[i], *next; p; p = next) {
            next = p->next;
            memory_free(p);
        }
    memory_free(pages);
}

struct replay_result *replay_result(struct replayer *r, uint32_t site)
{
    struct replay_result **chunk = &r->results[site / REPLAY_CHUNK];
    if (!*chunk)
        *chunk = memory_get(REPLAY_CHUNK, sizeof **chunk);
    return *chunk + site % REPLAY_CHUNK;
}

static const struct page *page_of(struct replayer *r, struct spex_module *module, uint64_t number)
{
    if (!r->pages)
        r->pages = memory_get(1, sizeof *r->pages);
    struct page **list = &r->pages->list[mix(number ^ (uintptr_t)module) % PAGES];
    for (struct page *p = *list; p; p = p->next)
        if (p->module == module && p->number == number)
            return p;
    if (r->pages->count == PAGES)
        return NULL;
    struct page *p = memory_get(1, sizeof *p);
    p->module = module;
    p->number = number;
    p->size = spex_module_read(module, number * PAGE, p->bytes, PAGE);
    p->next = *list;
    r->pages->count++;
    return *list = p;
}

static bool read_word(struct replayer *r, struct spex_module *module, uint64_t address,
                      uint32_t *word)
{
    const struct page *p = address & 3 ? NULL : page_of(r, module, address / PAGE);
    const size_t at = address % PAGE;
    if (!p || at + 4 > p->size)
        return false;
    *word = (uint32_t)p->bytes[at] | (uint32_t)p->bytes[at + 1] << 8 |
            (uint32_t)p->bytes[at + 2] << 16 | (uint32_t)p->bytes[at + 3] << 24;
    return true;
}

static enum replay_flow flow_of(const struct spex_op *op)
{
    if (op->kind == SPEX_OP_EXCEPTION || op->kind == SPEX_OP_ERET)
        return REPLAY_KERNEL;
    if (op->kind != SPEX_OP_BRANCH)
        return REPLAY_ON;
    if (op->flags & SPEX_OPF_COND)
        return REPLAY_COND;
    if (op->flags & SPEX_OPF_RETURN)
        return REPLAY_RETURN;
    if (op->flags & SPEX_OPF_INDIRECT)
        return op->flags & SPEX_OPF_LINK ? REPLAY_INDIRECT_CALL : REPLAY_INDIRECT;
    return op->flags & SPEX_OPF_LINK ? REPLAY_CALL : REPLAY_JUMP;
}

uint32_t replay_site(struct replayer *r, struct spex_module *module, uint64_t address)
{
    const uint64_t key[IDS_WORDS] = {(uintptr_t)module, address};
    uint32_t number, word;
    bool fresh;
    if (r->site_count >= SITES)
        return ids_get(&r->site_ids, key, &number) ? number : REPLAY_NONE;
    number = ids_find(&r->site_ids, key, &fresh);
    if (!fresh)
        return number;
    r->sites = memory_grow(r->sites, r->site_count, &r->site_capacity, sizeof *r->sites);
    struct replay_site *s = &r->sites[r->site_count++];
    *s = (struct replay_site){.module = module, .address = address, .blind = true};
    if (!read_word(r, module, address, &word))
        return number;
    struct spex_op op;
    s->blind = spex_a64_classify(word, NULL, &op) != SPEX_OK;
    s->what = op;
    account_op(&r->config, r->latency, &s->op, &op);
    s->flow = (uint8_t)flow_of(&op);
    spex_a64_target(word, address, &s->to);
    step_decode(word, address, &s->step);
    return number;
}

static uint32_t known(struct replayer *r, struct spex_module *module, uint64_t address)
{
    const uint32_t n = replay_site(r, module, address);
    return n == REPLAY_NONE || r->sites[n].blind ? REPLAY_NONE : n;
}

uint32_t replay_next(struct replayer *r, uint32_t site)
{
    if (!r->sites[site].next_known) {
        const uint32_t next = known(r, r->sites[site].module, r->sites[site].address + 4);
        r->sites[site].next = next;
        r->sites[site].next_known = true;
    }
    return r->sites[site].next;
}

/* Finds a function by name in any file of the profile. */
static uint32_t find_function(struct replayer *r, const char *name, size_t length)
{
    struct spex_module *module;
    for (size_t i = 0; (module = spex_symbols_nth(r->analysis->symbols, i)); i++) {
        const struct spex_symbol *s;
        for (size_t n = 0; (s = spex_module_nth(module, n)); n++)
            if (!s->data && s->raw && !strncmp(s->raw, name, length) && !s->raw[length])
                return known(r, module, s->start);
    }
    return REPLAY_NONE;
}

/*
 * Where a jump through a slot of the global offset table leads, in stubs of the procedure linkage
 * table: adrp x16, slot; ldr x17, [x16, slot]; add x16, x16, slot; br x17.
 */
static uint32_t plt_target(struct replayer *r, uint32_t site)
{
    static const char got[] = "@got";
    enum { BACK = 4 };
    struct spex_module *module = r->sites[site].module;
    const uint64_t at = r->sites[site].address;
    uint64_t page = 0, slot = 0;
    for (unsigned i = BACK; i > 0; i--) {
        struct step step;
        uint32_t word;
        if (at < 4 * i || !read_word(r, module, at - 4 * i, &word))
            continue;
        step_decode(word, at - 4 * i, &step);
        if (step.kind == STEP_SET && step.rd == 16)
            page = step.value;
        else if (page && step.kind == STEP_MEMORY && step.rn == 16 && step.rd == 17)
            slot = page + (uint64_t)step.offset;
    }
    const struct spex_symbol *s = slot ? spex_module_symbol(module, slot) : NULL;
    const size_t length = s && s->raw ? strlen(s->raw) : 0;
    if (length < sizeof got || strcmp(s->raw + length - (sizeof got - 1), got))
        return REPLAY_NONE;
    return find_function(r, s->raw, length - (sizeof got - 1));
}

uint32_t replay_target(struct replayer *r, uint32_t site)
{
    if (!r->sites[site].target_known) {
        const enum replay_flow flow = (enum replay_flow)r->sites[site].flow;
        uint32_t target = REPLAY_NONE;
        if (flow == REPLAY_COND || flow == REPLAY_JUMP || flow == REPLAY_CALL)
            target = known(r, r->sites[site].module, r->sites[site].to);
        else if (flow == REPLAY_INDIRECT)
            target = plt_target(r, site);
        r->sites[site].target = target;
        r->sites[site].target_known = true;
    }
    return r->sites[site].target;
}
