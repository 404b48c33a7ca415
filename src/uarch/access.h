/*
 * Loads and stores in the account of time, a part of pipe.c: translation, forwarding, store buffer,
 * write streaming.
 */
#ifndef UARCH_ACCESS_H
#define UARCH_ACCESS_H

#include "uarch/account.h"

static inline uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Translation latency of a page; sets its flags in a result. */
static inline uint64_t translate(struct timing_core *core, uint64_t va, uarch_result *r)
{
    uint64_t page = va >> core->page_shift;
    if (__builtin_expect(page == core->page, 1))
        return 0;
    core->page = page;
    uarch_result t = uarch_translate(&core->mmu, va, &core->counts);
    *r |= t & (SPEX_UARCH_TLB_MISS | SPEX_UARCH_WALK);
    return uarch_result_translation(t);
}

/* Which of the eight bytes of a piece an access covers. */
static inline uint8_t bytes_of(uint64_t va, unsigned size, uint64_t piece)
{
    uint64_t first = piece * 8, end = va + size;
    unsigned from = va > first ? (unsigned)(va - first) : 0;
    unsigned to = end < first + 8 ? (unsigned)(end - first) : 8;
    return (uint8_t)((1u << to) - (1u << from));
}

/* Number of the youngest store that is older than the load and writes some of these bytes, or 0. */
static inline uint64_t stored_find(const struct timing_core *core, uint64_t piece, uint8_t bytes)
{
    uint64_t from = core->stored_from, at = core->stored_head[piece % TIMING_STORED];
    /* wide stores may have more pieces than fit: the oldest are forgotten */
    if (core->stored_count > core->stored_mask)
        from = later(from, core->stored_count - core->stored_mask - 1);
    while (at > from) {
        const struct timing_stored *s = &core->stored[at & core->stored_mask];
        if (s->piece == piece && s->bytes & bytes)
            return at;
        at = s->older;
    }
    return 0;
}

/* Where a load gets its bytes. */
enum forwarded {
    FORWARD_NONE, /* no bytes from stores that are not written yet */
    FORWARD_ALL,
    FORWARD_SOME,
    FORWARD_FAILED /* some bytes, but not in a way that can be forwarded */
};

/*
 * Looks in stores for some bytes of a load, asked for at t. They are forwarded if a single store
 * has all of them and they are at its beginning or begin in its middle. *data: when they arrive;
 * *written: when the store is written.
 */
static enum forwarded forward_part(const struct timing_core *core, uint64_t va, unsigned size,
                                   uint64_t t, uint64_t *data, uint64_t *written)
{
    uint64_t youngest = 0;
    for (uint64_t piece = va / 8; piece <= (va + size - 1) / 8; piece++)
        youngest = later(youngest, stored_find(core, piece, bytes_of(va, size, piece)));
    const struct timing_stored *s = &core->stored[youngest & core->stored_mask];
    if (!youngest || s->drain <= t)
        return FORWARD_NONE;
    uint64_t start = s->piece * 8 + (uint64_t)s->start;
    *written = later(*written, s->drain);
    if (va + size > start + s->size || (va != start && va != start + s->size / 2))
        return FORWARD_FAILED;
    *data = later(*data, later(t, s->data) + core->c->forward);
    return FORWARD_ALL;
}

/*
 * Forwards stores to a load of size bytes at t; the halves of an eight-byte load are handled one by
 * one. *data: when the forwarded bytes arrive. On failure, moves *t to the time when the load asks
 * level 1.
 */
static __attribute__((noinline)) enum forwarded
forward_slow(struct timing_core *core, uint64_t va, unsigned size, uint64_t *t, uint64_t *data)
{
    uint64_t written = 0;
    *data = 0;
    enum forwarded first, second;
    unsigned part = size == 8 ? 4 : size;
    first = second = forward_part(core, va, part, *t, data, &written);
    if (part < size)
        second = forward_part(core, va + part, part, *t, data, &written);
    if (first == FORWARD_FAILED || second == FORWARD_FAILED) {
        *t = written + core->c->forward_fail;
        *data = 0;
        return FORWARD_FAILED;
    }
    if (first == FORWARD_NONE && second == FORWARD_NONE)
        return FORWARD_NONE;
    core->counts.forwarded++;
    return first == second ? FORWARD_ALL : FORWARD_SOME;
}

/* atomic: the load waits for the bytes to be written, whoever has the line. */
static inline enum forwarded forward(struct timing_core *core, uint64_t va, unsigned size,
                                     bool atomic, uint64_t *t, uint64_t *data)
{
    if (core->drain <= *t) /* all stores are written */
        return FORWARD_NONE;
    uint64_t first = va / 8, last = (va + size - 1) / 8;
    if (__builtin_expect(core->stored_head[first % TIMING_STORED] <= core->stored_from &&
                             core->stored_head[last % TIMING_STORED] <= core->stored_from,
                         1))
        return FORWARD_NONE;
    if (!atomic && !timing_memory_present(core, va & ~63ull))
        return FORWARD_NONE; /* another core took the line meanwhile */
    return forward_slow(core, va, size, t, data);
}

static inline void stored_add(struct timing_core *core, uint64_t va, unsigned size, uint64_t data)
{
    uint64_t piece = va / 8, last = (va + size - 1) / 8;
    do {
        uint64_t at = ++core->stored_count, *head = &core->stored_head[piece % TIMING_STORED];
        struct timing_stored *s = &core->stored[at & core->stored_mask];
        s->piece = piece;
        s->data = data;
        s->older = *head;
        s->bytes = bytes_of(va, size, piece);
        s->size = (uint8_t)size;
        s->start = (int8_t)(int64_t)(va - piece * 8);
        *head = at;
    } while (++piece <= last);
}

/* One access of a load; returns when its data arrives. */
static inline uint64_t load(struct timing_core *core, const struct account_op *u, uint64_t va,
                            uint64_t issue, uint64_t pc, uarch_result *result)
{
    uarch_result r = 0, second, flags = 0;
    uint64_t translation = translate(core, va, &flags), t = issue + translation, done, data = 0;
    bool crosses = (va & 63) + u->size > 64;
    if (__builtin_expect(crosses, 0)) {
        uint64_t more = translate(core, va + u->size - 1, &flags);
        translation += more;
        t += more;
    }
    enum forwarded stores = forward(core, va, u->size, false, &t, &data);
    if (__builtin_expect(stores == FORWARD_ALL, 0)) {
        done = data;
    } else {
        done = t + core->c->l1d_latency;
        if (!timing_l1_quick(&core->l1, va))
            done = timing_memory_load(core, va, t, pc, &r);
        if (__builtin_expect(crosses, 0)) {
            done = later(done, timing_memory_load(core, (va | 63) + 1, t, pc, &second));
            if (uarch_result_latency(second) > uarch_result_latency(r))
                r = second;
            flags |= SPEX_UARCH_SPLIT;
        }
        done = later(done, data);
    }
    if (__builtin_expect((va & (u->align - 1u)) + u->size > u->align, 0)) {
        flags |= SPEX_UARCH_SPLIT;
        done += core->c->split_latency;
    }
    *result = r | flags | (translation > 0xffff ? 0xffff : translation) << 32;
    return done;
}

/* Adds a store: does it continue the run of those before it, and how many lines did that fill? */
static inline void run_of_stores(struct timing_core *core, uint64_t va, unsigned size)
{
    if (va != core->stream_next) {
        core->stream_begin = va;
        core->stream_lines = 0;
    }
    core->stream_next = va + size;
    if (!(core->stream_next & 63) && core->stream_begin <= (va & ~63ull) &&
        core->stream_lines < 65535)
        core->stream_lines++;
}

/* In a run of stores that fills whole lines: is this line written without being fetched? */
static inline bool streams(struct timing_core *core, uint64_t va, unsigned size)
{
    uint64_t line = va & ~63ull;
    uint32_t lines = va == core->stream_next ? core->stream_lines : 0;
    run_of_stores(core, va, size);
    return !(va & 63) && lines >= core->c->streaming && core->c->streaming &&
           !timing_memory_present(core, line) && !timing_memory_in_l2(core, line);
}

/*
 * One access of a store whose address and data are known at t. Computes when it has its line and
 * when it can leave the store buffer.
 */
static inline uint64_t own(struct timing_core *core, uint64_t va, unsigned size, uint64_t t,
                           uint64_t pc, bool atomic, uarch_result *result, uint64_t *accepted)
{
    uarch_result second;
    uint64_t line = va & ~63ull, also;
    bool begins = streams(core, va, size);
    *result = 0;
    *accepted = t;
    if (begins && !atomic) {
        core->stream_line = line;
        return *accepted = timing_memory_stream(core, line, t, result);
    }
    if (line == core->stream_line && !atomic)
        return t;
    if (atomic && line == core->leaving.line && t < core->leaving.gone)
        return later(t, core->leaving.ready);
    uint64_t done = timing_memory_own(core, va, t, pc, result, accepted);
    if ((va & 63) + size > 64) {
        done = later(done, timing_memory_own(core, (va | 63) + 1, t, pc, &second, &also));
        *accepted = later(*accepted, also);
        if (uarch_result_latency(second) > uarch_result_latency(*result))
            *result = second;
        *result |= SPEX_UARCH_SPLIT;
    }
    return done;
}

struct accesses {
    const timing_access *next, *end;
    uarch_result *results;
};

static inline bool belongs(const struct accesses *a, uint32_t insn)
{
    return a->next < a->end && (*a->next >> 48) == insn;
}

static inline uint64_t address(timing_access access)
{
    return access & 0xffffffffffffull;
}

static inline void note(struct accesses *a, uarch_result result)
{
    if (a->results)
        *a->results++ = result;
    a->next++;
}

/* One access of a load that always hits: takes its data from a store, if one has it. */
static __attribute__((noinline)) uint64_t hit(struct timing_core *core, const struct account_op *u,
                                              uint64_t va, uint64_t t)
{
    uint64_t data = 0;
    timing_ideal_access(core, va, u->size, t, false);
    if (forward(core, va, u->size, false, &t, &data) == FORWARD_ALL)
        return data;
    return later(t + core->c->l1d_latency, data);
}

/* Does the accesses of a load that is issued at `issue`; returns when it is done. */
static inline uint64_t do_load(struct timing_core *core, const struct account_op *u,
                               struct accesses *a, uint32_t insn, uint64_t issue, uint64_t pc)
{
    uint64_t done = issue + u->latency;
    for (bool first = true; belongs(a, insn); first = false) {
        uarch_result result;
        uint64_t there = __builtin_expect(u->hits, 0)
                             ? (result = 0, hit(core, u, address(*a->next), issue))
                             : load(core, u, address(*a->next), issue, pc, &result);
        done = first ? there : later(done, there);
        note(a, result);
    }
    return done;
}

/* A prefetch is done once its lines have been requested. It has no results: they are 0. */
static inline uint64_t do_hint(struct timing_core *core, const struct account_op *u,
                               struct accesses *a, uint32_t insn, uint64_t issue)
{
    uint64_t done = issue + u->latency;
    for (; belongs(a, insn); note(a, 0)) {
        uint64_t va = address(*a->next), t = issue;
        uarch_result unused = 0;
        if (u->hint)
            t += translate(core, va, &unused);
        done = later(done, timing_memory_hint(core, va & ~63ull, t, u->hint));
    }
    return done;
}

/* All accesses of a store or atomic; *written is when they can leave the store buffer. */
static inline uint64_t do_store(struct timing_core *core, const struct account_op *u,
                                struct accesses *a, uint32_t insn, uint64_t issue, uint64_t pc,
                                uint64_t *written)
{
    const timing_access *last = a->next;
    uint64_t pieces = core->stored_count;
    uarch_result flags[64];
    uint64_t t = issue, translation[64], data;
    bool atomic = u->kind == ACCOUNT_ATOMIC;
    for (unsigned k = 0; last < a->end && (*last >> 48) == insn; last++, k = (k + 1) % 64) {
        uint64_t va = address(*last), end = va + u->size - 1;
        flags[k] = 0;
        translation[k] = translate(core, va, &flags[k]);
        if ((va ^ end) > 63)
            translation[k] += translate(core, end, &flags[k]);
        if ((va & (u->align - 1u)) + u->size > u->align) {
            flags[k] |= SPEX_UARCH_SPLIT;
            t = later(t, issue + core->c->split_latency);
        }
        t = later(t, issue + translation[k]);
        if (atomic && forward(core, va, u->size, true, &t, &data) != FORWARD_NONE)
            t = later(t, data);
    }
    uint64_t done = t + u->latency;
    *written = done;
    for (unsigned k = 0; a->next < last; k = (k + 1) % 64) {
        uint64_t va = address(*a->next);
        uarch_result result;
        uint64_t accepted;
        uint64_t line = own(core, va, u->size, atomic ? t : done, pc, atomic, &result, &accepted);
        if (atomic)
            done = later(done, line + u->latency);
        *written = later(*written, accepted);
        stored_add(core, va, u->size, done);
        note(a, result | flags[k] | translation[k] << 32);
    }
    if (atomic) { /* all at once */
        *written = later(*written, done);
        for (uint64_t i = pieces; i != core->stored_count;)
            core->stored[++i & core->stored_mask].data = done;
    }
    return done;
}

/* Stores leave the buffer in order, a limited number per cycle: computes when the next one can. */
static inline void leave_buffer(struct timing_core *core, uint64_t when)
{
    if (when > core->drain) {
        core->drain = when;
        core->drained = 1;
    } else if (++core->drained > core->c->pipes_store) {
        core->drain++;
        core->drained = 1;
    }
}

/* Lets the store leave the buffer once it has retired and was accepted. */
static inline void drain(struct timing_core *core, uint64_t pieces, uint64_t when)
{
    uint32_t stores = core->c->stores;
    leave_buffer(core, when);
    core->stored_first[core->stores & core->stores_mask] = pieces;
    core->store_drain[core->stores++ & core->stores_mask] = core->drain;
    if (core->stores > stores)
        core->stored_from = core->stored_first[(core->stores - stores) & core->stores_mask];
    while (pieces != core->stored_count)
        core->stored[++pieces & core->stored_mask].drain = core->drain;
}

/* Does the access lie within eight bytes? */
static inline bool fits(uint64_t va, unsigned size)
{
    return (va & 7) + size <= 8;
}

/*
 * A plain access: within eight bytes (the caller knows: fits()), a hit in the level 1 TLB and
 * cache, and nothing else is needed, so it takes just its latency. For a load, no store in the
 * buffer may hold its bytes at t. Returns the state of the line, or 0 if the access is not plain;
 * in that case the changes made so far do no harm when the access is repeated the general way.
 */
static inline unsigned plain(struct timing_core *core, uint64_t va, uint64_t t)
{
    uint64_t page = va >> core->page_shift;
    if (page != core->page) {
        if (!uarch_tlb_has(&core->mmu, page))
            return 0;
        core->page = page;
    }
    if (core->drain > t && core->stored_head[va / 8 % TIMING_STORED] > core->stored_from)
        return 0;
    unsigned state = timing_l1_quick(&core->l1, va);
    return state ? state : timing_memory_first(core, va);
}

/* Are all accesses of a load plain? */
static inline bool plain_load(struct timing_core *core, const struct account_op *u,
                              struct accesses *a, uint32_t insn, uint64_t issue)
{
    const timing_access *next = a->next;
    if (!belongs(a, insn))
        return false;
    do {
        if (!fits(address(*next), u->size) || !plain(core, address(*next), issue))
            return false;
    } while (++next < a->end && *next >> 48 == insn);
    a->next = next;
    return true;
}

#endif
