/*
 * The account of time: each instruction is dispatched, issued, done and retired at
 * cycles that follow from its operands, its ports, its accesses and the limits of the
 * window. docs/model.md has the rules in the order in which they stand here.
 */
#include "uarch/account.h"

static inline uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The first cycle from t on in which the port is free; it is taken. */
static inline uint64_t book(struct spex_timing_core *core, unsigned port, uint64_t t)
{
    for (;; t++) {
        uint64_t *word = &core->calendar[t % TIMING_CALENDAR], tag = t / TIMING_CALENDAR << 24;
        uint64_t taken = *word >> 24 == tag >> 24 ? *word : tag;
        if ((taken >> 4 * port & 15) < core->pipes[port]) {
            *word = taken + (1ull << 4 * port);
            return t;
        }
    }
}

/* ---- loads and stores ---- */

/* Translation latency of a page, and what it says in a result. */
static inline uint64_t translate(struct spex_timing_core *core, uint64_t va, spex_uarch_result *r)
{
    uint64_t page = va >> core->timing->page_shift;
    if (__builtin_expect(page == core->page, 1))
        return 0;
    core->page = page;
    spex_uarch_result t = uarch_translate(&core->mmu, va, &core->counts);
    *r |= t & (SPEX_UARCH_TLB_MISS | SPEX_UARCH_WALK);
    return spex_uarch_result_translation(t);
}

static uint8_t bytes_of(uint64_t va, unsigned size, uint64_t piece)
{
    uint64_t first = piece * 8;
    unsigned mask = 0;
    for (uint64_t b = first; b < first + 8; b++)
        if (b >= va && b < va + size)
            mask |= 1u << (b - first);
    return (uint8_t)mask;
}

/* Pieces up to this one are of stores that have been written for sure. */
static inline uint64_t written_pieces(const struct spex_timing_core *core)
{
    uint64_t n = core->c->stores;
    return core->stores > n ? core->stored_first[(core->stores - n) % 256] : 0;
}

/* The youngest store that is older than the load and touches these bytes, or NULL. */
static const struct timing_stored *stored_find(const struct spex_timing_core *core, uint64_t piece,
                                               uint8_t bytes)
{
    uint64_t from = written_pieces(core), at = core->stored_head[piece % TIMING_STORED];
    while (at > from) {
        const struct timing_stored *s = &core->stored[at & core->stored_mask];
        if (s->piece == piece && s->bytes & bytes)
            return s;
        at = s->older;
    }
    return NULL;
}

/*
 * A load of size bytes asks at t. True if stores that are not written yet have all its
 * bytes: *data is when it gets them. Otherwise *t moves to where those that have some
 * are written.
 */
static __attribute__((noinline)) bool forward_slow(struct spex_timing_core *core, uint64_t va,
                                                   unsigned size, uint64_t *t, uint64_t *data)
{
    bool all = true;
    uint64_t wait = *t, got = 0;
    for (uint64_t piece = va / 8; piece <= (va + size - 1) / 8; piece++) {
        uint8_t bytes = bytes_of(va, size, piece);
        const struct timing_stored *s = stored_find(core, piece, bytes);
        if (!s || s->drain <= *t) {
            all = false;
            continue;
        }
        all &= (s->bytes & bytes) == bytes;
        wait = later(wait, s->drain);
        got = later(got, later(*t, s->data) + core->c->forward);
    }
    if (all) {
        *data = got;
        core->counts.forwarded++;
        return true;
    }
    *t = wait;
    return false;
}

static inline bool forward(struct spex_timing_core *core, uint64_t va, unsigned size, uint64_t *t,
                           uint64_t *data)
{
    uint64_t from = written_pieces(core);
    uint64_t a = core->stored_head[va / 8 % TIMING_STORED];
    uint64_t b = core->stored_head[(va + size - 1) / 8 % TIMING_STORED];
    if (__builtin_expect(a <= from && b <= from, 1))
        return false;
    return forward_slow(core, va, size, t, data);
}

static void stored_add(struct spex_timing_core *core, uint64_t va, unsigned size, uint64_t data)
{
    for (uint64_t piece = va / 8; piece <= (va + size - 1) / 8; piece++) {
        uint64_t at = ++core->stored_count, *head = &core->stored_head[piece % TIMING_STORED];
        struct timing_stored *s = &core->stored[at & core->stored_mask];
        s->piece = piece;
        s->data = data;
        s->older = *head;
        s->bytes = va % 8 + size <= 8 ? (uint8_t)(((1u << size) - 1) << va % 8)
                                      : bytes_of(va, size, piece);
        *head = at;
    }
}

/* One access of a load: when its data is there. */
static inline uint64_t load(struct spex_timing_core *core, const struct timing_uop *u, uint64_t va,
                            uint64_t issue, uint64_t pc, spex_uarch_result *result)
{
    spex_uarch_result r = 0, second, flags = 0;
    uint64_t translation = translate(core, va, &flags), t = issue + translation, done;
    bool crosses = (va & 63) + u->size > 64;
    if (__builtin_expect(crosses, 0)) {
        uint64_t more = translate(core, va + u->size - 1, &flags);
        translation += more;
        t += more;
    }
    if (!forward(core, va, u->size, &t, &done)) {
        done = timing_memory_load(core, va, t, pc, &r);
        if (__builtin_expect(crosses, 0)) {
            done = later(done, timing_memory_load(core, (va | 63) + 1, t, pc, &second));
            if (spex_uarch_result_latency(second) > spex_uarch_result_latency(r))
                r = second;
            flags |= SPEX_UARCH_SPLIT;
        }
    }
    if (__builtin_expect((va & (u->align - 1u)) + u->size > u->align, 0)) {
        flags |= SPEX_UARCH_SPLIT;
        done += core->c->split_latency;
    }
    *result = r | flags | (translation > 0xffff ? 0xffff : translation) << 32;
    return done;
}

/* Part of a run of stores that fills whole lines: is this line to be written without being fetched?
 */
static bool streams(struct spex_timing_core *core, uint64_t va, unsigned size)
{
    uint64_t line = va & ~63ull;
    if (va != core->stream_next) {
        core->stream_begin = va;
        core->stream_lines = 0;
    }
    core->stream_next = va + size;
    bool begins = !(va & 63) && core->stream_lines >= core->c->streaming && core->c->streaming &&
                  timing_memory_absent(core, line);
    if (!(core->stream_next & 63) && core->stream_begin <= line && core->stream_lines < 255)
        core->stream_lines++;
    return begins;
}

/* One access of a store whose address and data are known at t: when its line can be written. */
static uint64_t own(struct spex_timing_core *core, uint64_t va, unsigned size, uint64_t t,
                    uint64_t pc, bool atomic, spex_uarch_result *result)
{
    spex_uarch_result second;
    uint64_t line = va & ~63ull;
    bool begins = streams(core, va, size);
    *result = 0;
    if (begins && !atomic) {
        core->stream_line = line;
        return timing_memory_stream(core, line, t, result);
    }
    if (line == core->stream_line && !atomic)
        return t;
    uint64_t done = timing_memory_own(core, va, t, pc, result);
    if ((va & 63) + size > 64) {
        done = later(done, timing_memory_own(core, (va | 63) + 1, t, pc, &second));
        if (spex_uarch_result_latency(second) > spex_uarch_result_latency(*result))
            *result = second;
        *result |= SPEX_UARCH_SPLIT;
    }
    return done;
}

struct accesses {
    const spex_timing_access *next, *end;
    spex_uarch_result *results;
};

static inline bool belongs(const struct accesses *a, uint32_t insn)
{
    return a->next < a->end && (*a->next >> 48) == insn;
}

static inline uint64_t address(spex_timing_access access)
{
    return access & 0xffffffffffffull;
}

static void note(struct accesses *a, spex_uarch_result result)
{
    if (a->results)
        *a->results++ = result;
    a->next++;
}

/* Accesses of a load that is issued at `issue`: when it is done. */
static inline uint64_t do_load(struct spex_timing_core *core, const struct timing_uop *u,
                               struct accesses *a, uint32_t insn, uint64_t issue, uint64_t pc)
{
    uint64_t done = issue + u->latency;
    for (bool first = true; belongs(a, insn); first = false) {
        spex_uarch_result result;
        uint64_t there = load(core, u, address(*a->next), issue, pc, &result);
        done = first ? there : later(done, there);
        note(a, result);
    }
    return done;
}

/* The same for stores and atomics; *written is when their lines can be written. */
static uint64_t do_store(struct spex_timing_core *core, const struct timing_uop *u,
                         struct accesses *a, uint32_t insn, uint64_t issue, uint64_t pc,
                         uint64_t *written)
{
    const spex_timing_access *last = a->next;
    uint64_t pieces = core->stored_count;
    spex_uarch_result flags[64];
    uint64_t t = issue, translation[64], data;
    bool atomic = u->kind == TIMING_ATOMIC;
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
        if (atomic && forward(core, va, u->size, &t, &data)) /* waits for it to be written */
            t = later(t, data);
    }
    uint64_t done = t + u->latency;
    *written = done;
    for (unsigned k = 0; a->next < last; k = (k + 1) % 64) {
        uint64_t va = address(*a->next);
        spex_uarch_result result;
        uint64_t line = own(core, va, u->size, atomic ? t : done, pc, atomic, &result);
        if (atomic)
            done = later(done, line + u->latency);
        *written = later(*written, line);
        stored_add(core, va, u->size, done);
        note(a, result | flags[k] | translation[k] << 32);
    }
    if (atomic) { /* all of it at once */
        *written = later(*written, done);
        for (uint64_t i = pieces; i != core->stored_count;)
            core->stored[++i & core->stored_mask].data = done;
    }
    return done;
}

/* The store leaves the buffer: in order, when it has retired and its line is there. */
static void drain(struct spex_timing_core *core, uint64_t pieces, uint64_t when)
{
    if (when > core->drain) {
        core->drain = when;
        core->drained = 1;
    } else if (++core->drained > core->c->pipes_store) {
        core->drain++;
        core->drained = 1;
    }
    core->stored_first[core->stores % 256] = pieces;
    core->store_drain[core->stores++ % 256] = core->drain;
    while (pieces != core->stored_count)
        core->stored[++pieces & core->stored_mask].drain = core->drain;
}

/* ---- instructions ---- */

/* The cycle of the dispatch of the next instruction, and that cycle's count. */
static inline uint64_t dispatch(struct spex_timing_core *core, uint64_t low, uint32_t width)
{
    if (low > core->dispatch) {
        core->dispatch = low;
        core->dispatched = 1;
    } else if (++core->dispatched > width) {
        core->dispatch++;
        core->dispatched = 1;
    }
    return core->dispatch;
}

static inline uint64_t retire(struct spex_timing_core *core, uint64_t done, uint32_t width)
{
    if (done > core->retire) {
        core->retire = done;
        core->retired = 1;
    } else if (++core->retired > width) {
        core->retire++;
        core->retired = 1;
    }
    return core->retire;
}

/* Queues of loads and stores that are full hold dispatch up. */
static inline uint64_t queue_free(const struct spex_timing_core *core, const struct timing_uop *u)
{
    const struct spex_uarch_config *c = core->c;
    if (u->kind == TIMING_LOAD)
        return core->loads >= c->loads ? core->load_retire[(core->loads - c->loads) % 512] : 0;
    if (u->kind == TIMING_STORE || u->kind == TIMING_ATOMIC)
        return core->stores >= c->stores ? core->store_drain[(core->stores - c->stores) % 256] : 0;
    return 0;
}

static inline void results(struct spex_timing_core *core, const struct timing_uop *u,
                           uint64_t issue, uint64_t done)
{
    core->ready[u->dst[0]] = done;
    core->ready[u->dst[1]] = done;
    if (__builtin_expect(u->more, 0)) {
        core->ready[u->dst[2]] = done;
        core->ready[u->dst[3]] = done;
    }
    for (unsigned d = 0; __builtin_expect(u->base >> d, 0); d++)
        if (u->base >> d & 1)
            core->ready[u->dst[d]] = issue + core->c->lat_alu;
}

static inline __attribute__((always_inline)) void run_all(struct spex_timing_core *core,
                                                          const struct spex_timing_block *block,
                                                          struct spex_timing_run *run, bool trace)
{
    const struct spex_uarch_config *c = core->c;
    struct accesses accesses = {run->access, run->access + run->access_count,
                                trace ? run->results : NULL};
    uint64_t number = core->number;
    uint64_t low = core->start;
    for (uint32_t i = 0; i < run->executed; i++, number++) {
        const struct timing_uop *u = &block->uops[i];
        low = later(low, later(core->slot[(number - c->rob) & core->window].retire,
                               core->slot[(number - c->queue) & core->window].issue));
        if (u->kind)
            low = later(low, queue_free(core, u));
        uint64_t d = dispatch(core, low, c->width), start = d + 1, issue, done, written = 0;
        start = later(start, later(core->ready[u->src[0]],
                                   later(core->ready[u->src[1]], core->ready[u->src[2]])));
        if (__builtin_expect(u->more, 0))
            start = later(start, later(core->ready[u->src[3]], core->ready[u->src[4]]));
        uint64_t pieces = core->stored_count;
        low = 0;
        switch (u->kind) {
        case TIMING_LOAD:
            issue = book(core, u->port, start);
            done = do_load(core, u, &accesses, i, issue, block->pc + 4ull * i);
            break;
        case TIMING_STORE:
        case TIMING_ATOMIC:
            issue = book(core, u->port, start);
            done = do_store(core, u, &accesses, i, issue, block->pc + 4ull * i, &written);
            break;
        case TIMING_DIVIDE:
            issue = book(core, u->port, later(start, core->busy[u->divider]));
            done = core->busy[u->divider] = issue + u->latency;
            break;
        case TIMING_BARRIER:
            issue = book(core, u->port, later(start, later(core->retire, core->drain)));
            low = done = issue + u->latency; /* nothing is dispatched before */
            break;
        default:
            issue = book(core, u->port, start);
            done = issue + u->latency;
        }
        results(core, u, issue, done);
        uint64_t r = retire(core, done, c->retire);
        core->slot[number & core->window] = (struct timing_slot){r, issue};
        if (u->kind == TIMING_LOAD)
            core->load_retire[core->loads++ % 512] = r;
        else if (u->kind == TIMING_STORE || u->kind == TIMING_ATOMIC)
            drain(core, pieces, later(r, written));
        if (trace && run->insns)
            run->insns[i] = (struct spex_timing_insn){d, issue, done, r};
    }
    core->number = number;
    core->start = low;
}

void spex_timing_run(struct spex_timing_core *core, struct spex_timing_block *block,
                     struct spex_timing_run *run)
{
    const struct spex_uarch_config *c = core->c;
    uint64_t ready = timing_fetch(core, block, core->fetch);
    core->start = later(core->start, ready);
    uint64_t first = core->dispatch;
    if (run->insns || run->results)
        run_all(core, block, run, true);
    else
        run_all(core, block, run, false);
    run->mispredicted = false;
    core->fetch = later(core->fetch, first); /* lines of the next block while this is dispatched */
    if (run->cut) {
        core->fetch = core->start = core->retire + c->mispredict;
        return;
    }
    uint32_t late = timing_branch(core, block, run->next, &run->mispredicted);
    if (run->mispredicted) {
        uint64_t done = core->slot[(core->number - 1) & core->window].issue + c->lat_branch;
        core->fetch = done;
        core->start = later(core->start, done + c->mispredict);
    } else if (late) {
        core->start = later(core->start, core->dispatch + late);
    }
}
