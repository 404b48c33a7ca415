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

/* ---- loads and stores ---- */

/* Translation latency of a page, and what it says in a result. */
static inline uint64_t translate(struct spex_timing_core *core, uint64_t va, spex_uarch_result *r)
{
    uint64_t page = va >> core->page_shift;
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

/* The youngest store that is older than the load and touches these bytes, or NULL. */
static const struct timing_stored *stored_find(const struct spex_timing_core *core, uint64_t piece,
                                               uint8_t bytes)
{
    uint64_t from = core->stored_from, at = core->stored_head[piece % TIMING_STORED];
    /* wide stores may have more pieces than there is room for: the oldest are forgotten */
    if (core->stored_count > core->stored_mask)
        from = later(from, core->stored_count - core->stored_mask - 1);
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
    if (!timing_memory_present(core, va & ~63ull)) /* another core took the line meanwhile */
        return false;
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
    if (core->drain <= *t) /* all stores are written */
        return false;
    uint64_t first = va / 8, last = (va + size - 1) / 8;
    if (__builtin_expect(core->stored_head[first % TIMING_STORED] <= core->stored_from &&
                             core->stored_head[last % TIMING_STORED] <= core->stored_from,
                         1))
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
        done = t + core->c->l1d_latency;
        if (!timing_l1_quick(&core->l1, va))
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

/* Another store: does it continue the run of those before it, and how many lines did that fill? */
static inline void run_of_stores(struct spex_timing_core *core, uint64_t va, unsigned size)
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

/* Part of a run of stores that fills whole lines: is this line to be written without being fetched?
 */
static bool streams(struct spex_timing_core *core, uint64_t va, unsigned size)
{
    uint64_t line = va & ~63ull;
    uint32_t lines = va == core->stream_next ? core->stream_lines : 0;
    run_of_stores(core, va, size);
    return !(va & 63) && lines >= core->c->streaming && core->c->streaming &&
           !timing_memory_present(core, line) && !timing_memory_in_l2(core, line);
}

/*
 * One access of a store whose address and data are known at t: when its line is there,
 * and when the store buffer is rid of it.
 */
static uint64_t own(struct spex_timing_core *core, uint64_t va, unsigned size, uint64_t t,
                    uint64_t pc, bool atomic, spex_uarch_result *result, uint64_t *accepted)
{
    spex_uarch_result second;
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
    uint64_t done = timing_memory_own(core, va, t, pc, result, accepted);
    if ((va & 63) + size > 64) {
        done = later(done, timing_memory_own(core, (va | 63) + 1, t, pc, &second, &also));
        *accepted = later(*accepted, also);
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

/* The same for stores and atomics; *written is when they can leave the store buffer. */
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
        uint64_t accepted;
        uint64_t line = own(core, va, u->size, atomic ? t : done, pc, atomic, &result, &accepted);
        if (atomic)
            done = later(done, line + u->latency);
        *written = later(*written, accepted);
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

/* The store leaves the buffer: in order, when it has retired and was accepted. */
static void drain(struct spex_timing_core *core, uint64_t pieces, uint64_t when)
{
    uint32_t stores = core->c->stores;
    if (when > core->drain) {
        core->drain = when;
        core->drained = 1;
    } else if (++core->drained > core->c->pipes_store) {
        core->drain++;
        core->drained = 1;
    }
    core->stored_first[core->stores % 256] = pieces;
    core->store_drain[core->stores++ % 256] = core->drain;
    if (core->stores > stores)
        core->stored_from = core->stored_first[(core->stores - stores) % 256];
    while (pieces != core->stored_count)
        core->stored[++pieces & core->stored_mask].drain = core->drain;
}

/*
 * A load that hits level 1's most recent line, on the page of the access before, and no store
 * that is not written yet can have its bytes: it has nothing to do but to take its latency.
 */
static inline bool plain_load(const struct spex_timing_core *core, const struct timing_uop *u,
                              struct accesses *a, uint32_t insn, uint64_t issue)
{
    const spex_timing_access *next = a->next;
    if (!belongs(a, insn))
        return false;
    do {
        uint64_t va = address(*next), first = va / 8, last = (va + u->size - 1) / 8;
        if ((va & (u->align - 1u)) + u->size > u->align || va >> core->page_shift != core->page ||
            !timing_l1_quick(&core->l1, va))
            return false;
        if (core->drain > issue && (core->stored_head[first % TIMING_STORED] > core->stored_from ||
                                    core->stored_head[last % TIMING_STORED] > core->stored_from))
            return false;
    } while (++next < a->end && *next >> 48 == insn);
    a->next = next;
    return true;
}

/* The same for a store of one access to a modified line. It is done after its latency. */
static inline bool plain_store(struct spex_timing_core *core, const struct timing_uop *u,
                               struct accesses *a, uint32_t insn, uint64_t done)
{
    if (u->kind != TIMING_STORE || !belongs(a, insn) ||
        (a->next + 1 < a->end && a->next[1] >> 48 == insn))
        return false;
    uint64_t va = address(*a->next), line = va & ~63ull;
    if ((va & 7) + u->size > 8 || va >> core->page_shift != core->page ||
        timing_l1_quick(&core->l1, va) != UARCH_MODIFIED || line == core->stream_line)
        return false;
    run_of_stores(core, va, u->size);
    stored_add(core, va, u->size, done);
    a->next++;
    return true;
}

/* ---- instructions ---- */

/* What has to wait for operands alone is the loop below; this is the rest. */
struct special {
    uint64_t issue, done, stop; /* stop: nothing is dispatched before */
};

static __attribute__((noinline)) struct special
special(struct spex_timing_core *core, const struct timing_uop *u, struct accesses *a,
        uint32_t insn, uint64_t start, uint64_t pc, uint64_t *retire)
{
    struct special s = {.issue = start};
    uint64_t written, pieces = core->stored_count;
    unsigned kind = u->kind;
    if (core->made != core->made_end && kind >= TIMING_LOAD && kind <= TIMING_ATOMIC) {
        s.done = *core->made++;
        while (belongs(a, insn))
            a->next++;
        *retire = later(*retire, s.done);
        kind = TIMING_MADE;
    }
    switch (kind) {
    case TIMING_MADE:
        break;
    case TIMING_LOAD:
        s.done = do_load(core, u, a, insn, start, pc);
        *retire = later(*retire, s.done);
        core->load_retire[core->loads++ % 512] = *retire;
        break;
    case TIMING_STORE:
    case TIMING_ATOMIC:
        s.done = do_store(core, u, a, insn, start, pc, &written);
        *retire = later(*retire, s.done);
        drain(core, pieces, later(*retire, written));
        break;
    case TIMING_DIVIDE:
        s.issue = later(start, core->ready[u->divider]);
        s.done = core->ready[u->divider] = s.issue + u->latency;
        *retire = later(*retire, s.done);
        break;
    case TIMING_BARRIER:
        s.issue = later(start, later(*retire, core->drain));
        s.stop = s.done = s.issue + u->latency;
        *retire = later(*retire, s.done);
        break;
    default: /* many operands */
        s.done = start + u->latency;
        *retire = later(*retire, s.done);
    }
    for (unsigned d = 0; d < 4; d++)
        core->ready[u->dst[d]] = s.done;
    for (unsigned d = 0; u->base >> d; d++)
        if (u->base >> d & 1)
            core->ready[u->dst[d]] = s.issue + core->c->lat_alu;
    return s;
}

/* A queue of loads or stores that is full holds dispatch up. */
static inline uint64_t queue_free(const struct spex_timing_core *core, const struct timing_uop *u)
{
    const struct spex_uarch_config *c = core->c;
    if (core->made != core->made_end) /* they were counted, and none was held up */
        return 0;
    if (u->kind == TIMING_LOAD)
        return core->loads >= c->loads ? core->load_retire[(core->loads - c->loads) % 512] : 0;
    if (u->kind == TIMING_STORE || u->kind == TIMING_ATOMIC)
        return core->stores >= c->stores ? core->store_drain[(core->stores - c->stores) % 256] : 0;
    return 0;
}

/*
 * Each instruction takes its share of a cycle of dispatch. window:
 * the reorder window may hold an instruction of this block up. Returns when the last
 * one was done.
 */
static inline __attribute__((always_inline)) uint64_t run_all(struct spex_timing_core *core,
                                                              const struct spex_timing_block *block,
                                                              struct spex_timing_run *run,
                                                              bool window, bool trace)
{
    struct accesses accesses = {run->access,
                                run->access_count ? run->access + run->access_count : run->access,
                                trace ? run->results : NULL};
    const uint64_t rob = core->c->rob, mask = core->window;
    const uint64_t share = core->share, begin = core->begin;
    const struct timing_uop *u = block->uops, *end = u + run->executed;
    uint64_t number = core->number, dispatch = core->dispatch, retire = core->retire, done = 0;
    uint64_t *const slot = core->slot;
    for (; u < end; u++, number++) {
        if (window)
            dispatch = later(dispatch, slot[(number - rob) & mask] << 16 | begin);
        uint64_t d = dispatch >> 16, issue;
        issue = later(d + 1, later(core->ready[u->src[0]], core->ready[u->src[1]]));
        dispatch = timing_after(dispatch, share, begin);
        if (__builtin_expect(u->kind == TIMING_SIMPLE, 1)) {
            done = issue + u->latency;
            core->ready[u->dst[0]] = done;
            core->ready[u->dst[1]] = done;
            retire = later(retire, done);
        } else {
            uint32_t i = (uint32_t)(u - block->uops);
            uint64_t low = queue_free(core, u);
            if (__builtin_expect(low > d, 0)) {
                d = low;
                dispatch = timing_after(low << 16 | begin, share, begin);
                issue = later(issue, d + 1);
            }
            issue = later(issue, later(core->ready[u->src[2]],
                                       later(core->ready[u->src[3]], core->ready[u->src[4]])));
            if (!trace && u->quick && plain_load(core, u, &accesses, i, issue)) {
                done = issue + core->l1d_latency;
                core->ready[u->dst[0]] = done;
                core->ready[u->base_dst] = issue + core->lat_alu;
                retire = later(retire, done);
                core->load_retire[core->loads++ % 512] = retire;
                slot[number & mask] = retire;
                continue;
            }
            uint64_t last = retire; /* so that the other can stay in a register */
            struct special s = special(core, u, &accesses, i, issue, block->pc + 4ull * i, &last);
            retire = last;
            done = s.done;
            issue = s.issue;
            dispatch = later(dispatch, s.stop << 16 | begin);
        }
        slot[number & mask] = retire;
        if (trace && run->insns)
            run->insns[u - block->uops] = (struct spex_timing_insn){d, issue, done, retire};
    }
    core->number = number;
    core->dispatch = dispatch;
    core->retire = retire;
    return done;
}

/* ---- blocks ---- */

/* The next instructions of the core have retired, up to so many. */
static inline void pass(struct spex_timing_core *core, uint32_t count)
{
    uint64_t last = (core->number + count - 1) / 16;
    for (uint64_t n = core->number / 16; n <= last; n++)
        core->passed[n % TIMING_PASSED] = core->retire;
}

/* The block once, instruction by instruction. */
static uint64_t run_each(struct spex_timing_core *core, const struct spex_timing_block *block,
                         struct spex_timing_run *run)
{
    const struct spex_uarch_config *c = core->c;
    uint64_t number = core->number;
    if (core->state)
        timing_memo_leave(core);
    if (core->went_count)
        timing_memo_slots(core);
    uint64_t last = number + run->executed - 1 - c->rob, done;
    bool window = run->executed > c->rob || core->slot[last & core->window] > core->dispatch >> 16;
    if (__builtin_expect(run->insns || run->results, 0))
        done = run_all(core, block, run, true, true);
    else if (window)
        done = run_all(core, block, run, true, false);
    else
        done = run_all(core, block, run, false, false);
    core->number = number;
    pass(core, run->executed);
    core->number = number + run->executed;
    if (!run->cut)
        core->dispatch = timing_after(core->dispatch, block->extra, core->begin);
    return done;
}

/* The same, and what it did is remembered. made: loads and stores that were made already. */
static __attribute__((noinline)) uint64_t
run_first(struct spex_timing_core *core, const struct spex_timing_block *block,
          const struct spex_timing_run *run, struct timing_path **path, const uint64_t *made,
          uint32_t count)
{
    enum { COST = 8, PAUSE = 1 << 16 };
    struct spex_timing_run traced = *run;
    const struct timing_state *from = core->state;
    struct timing_path *parent = *path;
    uint64_t dispatch = core->dispatch;
    uint64_t took = count ? made[count - 1] - (dispatch >> 16) - parent->step[count - 1].issue : 0;
    if (timing_memo_full(core->timing)) {
        timing_memo_free(core->timing);
        from = NULL;
    }
    traced.insns = core->timing->memo.insns;
    core->made = made;
    core->made_end = made + count;
    uint64_t done = run_each(core, block, &traced);
    core->made = core->made_end = NULL;
    *path = NULL;
    core->credit -= COST;
    if (core->credit <= 0)
        core->credit = -PAUSE;
    else if (from && took <= TIMING_SOON)
        *path = timing_memo_keep(core, block, from, dispatch, parent, count - 1, took);
    return done;
}

/* One load, store or atomic of a path: when it is done. retire: of all that is before it. */
static inline uint64_t make_step(struct spex_timing_core *core, const struct timing_uop *u,
                                 struct accesses *a, uint32_t insn, uint64_t issue, uint64_t pc,
                                 uint64_t retire)
{
    uint64_t done, written, pieces = core->stored_count;
    if (u->kind != TIMING_LOAD) {
        done = written = issue + u->latency;
        if (!plain_store(core, u, a, insn, done))
            done = do_store(core, u, a, insn, issue, pc, &written);
        drain(core, pieces, later(later(retire, done), written));
        return done;
    }
    if (plain_load(core, u, a, insn, issue))
        done = issue + core->l1d_latency;
    else
        done = do_load(core, u, a, insn, issue, pc);
    core->load_retire[core->loads++ % 512] = later(retire, done);
    return done;
}

/* The block as it went before in this state, if it did; its accesses are made again. */
static uint64_t run_known(struct spex_timing_core *core, const struct spex_timing_block *block,
                          const struct spex_timing_run *run, struct timing_path **known)
{
    struct timing_path *path = timing_memo_find(core, block);
    struct accesses a = {run->access, run->access + run->access_count, NULL};
    uint64_t base = core->dispatch >> 16, retire = core->retire, made[TIMING_LONGEST];
    *known = NULL;
    if (__builtin_expect(!path, 0))
        return run_first(core, block, run, known, NULL, 0);
    for (uint32_t i = 0; i < path->steps; i++) {
        const struct timing_step *s = &path->step[i];
        uint64_t issue = base + s->issue;
        made[i] = make_step(core, &block->uops[s->insn], &a, s->insn, issue,
                            block->pc + 4ull * s->insn, later(retire, base + s->before));
        if (__builtin_expect(made[i] - issue == s->took, 1))
            continue;
        struct timing_path *other = timing_memo_branch(path, i, made[i] - issue);
        if (!other) {
            *known = path;
            return run_first(core, block, run, known, made, i + 1);
        }
        path = other;
    }
    core->went[core->went_count++ & core->window] =
        (struct timing_went){.path = path, .base = base, .retire = retire};
    core->retire = later(retire, base + path->last);
    pass(core, path->count);
    core->number += path->count;
    core->dispatch += path->dispatch;
    core->state = path->to;
    core->credit += core->credit < TIMING_CREDIT;
    *known = path;
    return base + path->done;
}

/* May the block have been in this state before? Nothing holds its dispatch up, and no pause. */
static inline bool may_be_known(struct spex_timing_core *core, struct spex_timing_block *block,
                                const struct spex_timing_run *run)
{
    const struct spex_uarch_config *c = core->c;
    uint64_t now = core->dispatch >> 16;
    if (!block->steady || run->cut || run->insns || run->results)
        return false;
    if (core->credit <= 0) {
        core->credit += core->credit == -1 ? TIMING_CREDIT : 1;
        return false;
    }
    uint64_t last = core->number + block->count - 1 - c->rob; /* there are none below 0 */
    if (core->passed[last / 16 % TIMING_PASSED] > now ||
        core->load_retire[(core->loads + block->loads - 1 - c->loads) % 512] > now ||
        core->store_drain[(core->stores + block->stores - 1 - c->stores) % 256] > now)
        return false;
    if (!block->number)
        block->number = ++core->timing->memo.blocks;
    return core->state || timing_memo_enter(core);
}

void spex_timing_run(struct spex_timing_core *core, struct spex_timing_block *block,
                     struct spex_timing_run *run)
{
    const struct spex_uarch_config *c = core->c;
    uint64_t first = core->dispatch >> 16, done, there = timing_fetch(core, block, core->fetch);
    struct timing_path *path = NULL;
    if (there > first) {
        timing_memo_leave(core);
        core->dispatch = there << 16 | core->begin;
    }
    if (may_be_known(core, block, run))
        done = run_known(core, block, run, &path);
    else
        done = run_each(core, block, run);
    run->mispredicted = false;
    core->fetch = later(core->fetch, first); /* lines of the next block while this is dispatched */
    if (__builtin_expect(run->cut, 0)) {
        core->fetch = core->retire + c->mispredict;
        return;
    }
    uint32_t late = 0;
    if (__builtin_expect(block->end == SPEX_UARCH_END_COND, 1)) {
        bool taken = run->next != block->next;
        run->mispredicted =
            timing_direction(&core->predictor, block->key, block->next - 4, taken);
        core->counts.mispredict += run->mispredicted;
        if (taken && block->found != core->btb_generation)
            late = timing_btb(core, block);
    } else {
        late = timing_branch(core, block, run->next, &run->mispredicted);
    }
    if (run->mispredicted) {
        uint64_t again = (done + c->mispredict) << 16 | core->begin;
        core->fetch = done;
        if (again > core->dispatch && path && path->missed) {
            core->dispatch = again;
            core->state = path->missed;
        } else if (again > core->dispatch) {
            timing_memo_missed(core, path, again >> 16);
        }
    } else if (late) {
        timing_memo_leave(core);
        core->dispatch += (uint64_t)late << 16;
    }
}
