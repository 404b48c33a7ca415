/*
 * The account of time: operands, ports, accesses and the limits of the window decide when each
 * instruction is dispatched, issued, done and retired. docs/model.md has the rules in the same
 * order.
 */
#include "uarch/access.h"

/* ---- instructions ---- */

/* Handles special instructions; the loop below handles those that only wait for operands. */
struct special {
    uint64_t issue, done, stop; /* stop: nothing is dispatched before it */
};

static __attribute__((noinline)) struct special
special(struct timing_core *core, const struct account_op *u, struct accesses *a, uint32_t insn,
        uint64_t start, uint64_t pc, uint64_t *retire)
{
    struct special s = {.issue = start};
    uint64_t written, pieces = core->stored_count;
    unsigned kind = u->kind;
    if (core->made != core->made_end && kind >= ACCOUNT_LOAD && kind <= ACCOUNT_HINT) {
        s.done = *core->made++;
        while (belongs(a, insn))
            a->next++;
        *retire = later(*retire, s.done);
        kind = ACCOUNT_MADE;
    }
    switch (kind) {
    case ACCOUNT_MADE:
        break;
    case ACCOUNT_LOAD:
        s.done = do_load(core, u, a, insn, start, pc);
        *retire = later(*retire, s.done);
        core->load_retire[core->loads++ & core->loads_mask] = *retire;
        break;
    case ACCOUNT_STORE:
    case ACCOUNT_ATOMIC:
        s.done = do_store(core, u, a, insn, start, pc, &written);
        *retire = later(*retire, s.done);
        drain(core, pieces, later(*retire, written));
        break;
    case ACCOUNT_HINT:
        s.done = do_hint(core, u, a, insn, start);
        *retire = later(*retire, s.done);
        break;
    case ACCOUNT_DIVIDE:
        s.issue = later(start, core->ready[u->divider]);
        s.done = core->ready[u->divider] = s.issue + u->latency;
        *retire = later(*retire, s.done);
        break;
    case ACCOUNT_BARRIER:
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

/* A full queue of loads or stores holds up dispatch. */
static inline uint64_t queue_free(const struct timing_core *core, const struct account_op *u)
{
    const struct uarch_config *c = core->c;
    if (core->made != core->made_end) /* accesses were already counted, and none was delayed */
        return 0;
    if (u->kind == ACCOUNT_LOAD)
        return core->loads >= c->loads
                   ? core->load_retire[(core->loads - c->loads) & core->loads_mask]
                   : 0;
    if (u->kind == ACCOUNT_STORE || u->kind == ACCOUNT_ATOMIC)
        return core->stores >= c->stores
                   ? core->store_drain[(core->stores - c->stores) & core->stores_mask]
                   : 0;
    return 0;
}

/* An instruction that takes no time: its results are ready, and its lines are in the caches. */
static void go_over(struct timing_core *core, const struct account_op *u, struct accesses *a,
                    uint32_t insn, uint64_t t)
{
    for (unsigned d = 0; d < 4; d++)
        core->ready[u->dst[d]] = 0;
    for (; belongs(a, insn); note(a, 0))
        timing_ideal_access(core, address(*a->next), u->size, t, u->writes);
}

/*
 * Runs the block; each instruction takes its share of a cycle of dispatch. window: may the reorder
 * window hold up an instruction of this block? Returns when the last instruction was done.
 */
static inline __attribute__((always_inline)) uint64_t run_all(struct timing_core *core,
                                                              const struct timing_block *block,
                                                              struct timing_run *run, bool window,
                                                              bool trace)
{
    struct accesses accesses = {run->access,
                                run->access_count ? run->access + run->access_count : run->access,
                                trace ? run->results : NULL};
    const uint64_t rob = core->c->rob, mask = core->window;
    const uint64_t share = core->share, begin = core->begin;
    const struct account_op *u = block->uops, *end = u + run->executed;
    uint64_t number = core->number, dispatch = core->dispatch, retire = core->retire, done = 0;
    uint64_t *const slot = core->slot;
    for (; u < end; u++, number++) {
        if (trace && u->kind == ACCOUNT_GONE) {
            uint32_t i = (uint32_t)(u - block->uops);
            go_over(core, u, &accesses, i, dispatch >> 16);
            if (run->insns)
                run->insns[i] =
                    (struct account_insn){dispatch >> 16, dispatch >> 16, dispatch >> 16, retire};
            number--; /* takes no place in the window */
            continue;
        }
        if (window)
            dispatch = later(dispatch, slot[(number - rob) & mask] << 16 | begin);
        uint64_t d = dispatch >> 16, issue;
        issue = later(d + 1, later(core->ready[u->src[0]], core->ready[u->src[1]]));
        dispatch = account_after(dispatch, share, begin);
        if (__builtin_expect(u->kind == ACCOUNT_SIMPLE, 1)) {
            done = issue + u->latency;
            core->ready[u->dst[0]] = done;
            core->ready[u->dst[1]] = done;
            retire = later(retire, done);
        } else {
            uint32_t i = (uint32_t)(u - block->uops);
            uint64_t low = queue_free(core, u);
            if (__builtin_expect(low > d, 0)) {
                d = low;
                dispatch = account_after(low << 16 | begin, share, begin);
                issue = later(issue, d + 1);
            }
            issue = later(issue, later(core->ready[u->src[2]],
                                       later(core->ready[u->src[3]], core->ready[u->src[4]])));
            if (!trace && u->quick && plain_load(core, u, &accesses, i, issue)) {
                done = issue + core->l1d_latency;
                core->ready[u->dst[0]] = done;
                core->ready[u->base_dst] = issue + core->lat_alu;
                retire = later(retire, done);
                core->load_retire[core->loads++ & core->loads_mask] = retire;
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
            run->insns[u - block->uops] = (struct account_insn){d, issue, done, retire};
    }
    core->number = number;
    core->dispatch = dispatch;
    core->retire = retire;
    return done;
}

/* ---- blocks ---- */

/*
 * Records, at the last instruction of each block, that all instructions up to that one have
 * retired: see passed().
 */
static inline void note_passed(struct timing_core *core, uint32_t count)
{
    uint64_t last = core->number + count - 1;
    core->passed[last / 16 % TIMING_PASSED] = core->retire;
    for (; __builtin_expect(count > 16, 0); count -= 16)
        core->passed[(last -= 16) / 16 % TIMING_PASSED] = core->retire;
}

/*
 * A time at which this instruction, which must be at least 32 back, has certainly retired. Its
 * block may end among the next 16.
 */
static inline uint64_t passed(const struct timing_core *core, uint64_t number)
{
    return core->passed[(number / 16 + 1) % TIMING_PASSED];
}

/* Runs the block once, instruction by instruction. */
static uint64_t run_each(struct timing_core *core, const struct timing_block *block,
                         struct timing_run *run)
{
    const struct uarch_config *c = core->c;
    uint64_t number = core->number;
    if (core->state)
        timing_memo_leave(core);
    if (core->went_count)
        timing_memo_slots(core);
    uint64_t last = number + run->executed - 1 - c->rob, done;
    bool window = run->executed > c->rob || core->slot[last & core->window] > core->dispatch >> 16;
    if (__builtin_expect(run->insns || run->results || block->gone, 0))
        done = run_all(core, block, run, true, true);
    else if (window)
        done = run_all(core, block, run, true, false);
    else
        done = run_all(core, block, run, false, false);
    uint32_t count = (uint32_t)(core->number - number); /* without those that took no time */
    core->number = number;
    if (count)
        note_passed(core, count);
    core->number = number + count;
    if (!run->cut)
        core->dispatch = account_after(core->dispatch, block->extra, core->begin);
    return done;
}

/* How a block ran: when its last instruction was done, and its path, or NULL. */
struct ran {
    uint64_t done;
    struct timing_path *path;
};

/*
 * Runs the block and remembers what it did. made: loads and stores that were made already, on path
 * parent.
 */
static __attribute__((noinline)) struct ran
run_first(struct timing_core *core, const struct timing_block *block, const timing_access *access,
          const timing_access *end, struct timing_path *parent, const uint64_t *made,
          uint32_t count)
{
    enum { COST = 64, PAUSE = 1 << 16 };
    struct timing_run traced = {.executed = block->count,
                                .access = access,
                                .access_count = (size_t)(end - access),
                                .insns = core->timing->memo.insns};
    const struct timing_state *from = core->state;
    uint64_t dispatch = core->dispatch, gone = core->number - core->first;
    uint64_t took = count ? made[count - 1] - (dispatch >> 16) - parent->step[count - 1].issue : 0;
    if (timing_memo_full(core->timing)) {
        timing_memo_free(core->timing);
        from = NULL;
    }
    core->made = made;
    core->made_end = count ? made + count : made;
    struct ran ran = {.done = run_each(core, block, &traced)};
    core->made = core->made_end = NULL;
    core->first = core->number;
    core->credit += gone < TIMING_CREDIT ? (int32_t)gone - COST : TIMING_CREDIT;
    core->credit = core->credit < TIMING_CREDIT ? core->credit : TIMING_CREDIT;
    if (core->credit <= 0)
        core->credit = -PAUSE;
    else if (from && took <= TIMING_SOON)
        ran.path = timing_memo_keep(core, block, &traced, from, dispatch, parent, count - 1, took);
    return ran;
}

/* Step `at` took another time than before: repeats the loads and stores made up to it. */
static __attribute__((noinline)) struct ran
run_other(struct timing_core *core, const struct timing_block *block, const timing_access *access,
          const timing_access *end, struct timing_path *path, uint32_t at, uint64_t took)
{
    uint64_t made[TIMING_LONGEST], base = core->dispatch >> 16;
    for (uint32_t i = 0; i <= at; i++)
        made[i] = base + path->step[i].issue + (i < at ? path->step[i].took : took);
    return run_first(core, block, access, end, path, made, at + 1);
}

struct made {
    uint64_t done;
    const timing_access *next;
};

/* True if all accesses of a store are plain. It is made, and leaves the buffer after this cycle. */
static inline bool plain_store(struct timing_core *core, const struct account_op *u,
                               struct accesses *a, uint32_t insn, uint64_t done, uint64_t before)
{
    const timing_access *next = a->next;
    uint64_t pieces = core->stored_count;
    if (u->kind != ACCOUNT_STORE || !belongs(a, insn))
        return false;
    do {
        if ((address(*next) & ~63ull) == core->stream_line || !fits(address(*next), u->size) ||
            plain(core, address(*next), UINT64_MAX) != UARCH_MODIFIED)
            return false;
    } while (++next < a->end && *next >> 48 == insn);
    do {
        run_of_stores(core, address(*a->next), u->size);
        stored_add(core, address(*a->next), u->size, done);
    } while (++a->next < next);
    drain(core, pieces, later(before, done));
    return true;
}

/* A step of a path: returns when it is done, and the access after its own. before: retirement. */
static __attribute__((noinline)) struct made
make_step(struct timing_core *core, const struct timing_block *block, uint32_t insn,
          const timing_access *next, const timing_access *end, uint64_t issue, uint64_t before)
{
    const struct account_op *u = &block->uops[insn];
    struct accesses a = {next, end, NULL};
    uint64_t done, written, pieces = core->stored_count, pc = block->pc + 4ull * insn;
    if (u->kind == ACCOUNT_LOAD) {
        done = plain_load(core, u, &a, insn, issue) ? issue + core->l1d_latency
                                                    : do_load(core, u, &a, insn, issue, pc);
        core->load_retire[core->loads++ & core->loads_mask] = later(before, done);
    } else if (u->kind == ACCOUNT_HINT) {
        done = do_hint(core, u, &a, insn, issue);
    } else {
        done = issue + u->latency;
        if (!plain_store(core, u, &a, insn, done, before)) {
            done = do_store(core, u, &a, insn, issue, pc, &written);
            drain(core, pieces, later(later(before, done), written));
        }
    }
    return (struct made){done, a.next};
}

/*
 * Address of the instruction's next access if it is its only one; else an address that never hits.
 * more: whether a word that is no access follows the last access.
 */
static inline uint64_t only_access(uint32_t insn, const timing_access *next,
                                   const timing_access *end, bool more)
{
    if (next == end || ((more || next + 1 < end) && next[1] >> 48 == insn))
        return UINT64_MAX;
    return *next ^ (uint64_t)insn << 48;
}

/* A store with one plain access, like plain_store(). */
static inline bool quick_store(struct timing_core *core, const struct timing_step *s, uint64_t va,
                               uint64_t done, uint64_t before)
{
    if ((va & ~63ull) == core->stream_line || plain(core, va, UINT64_MAX) != UARCH_MODIFIED)
        return false;
    uint64_t piece = va / 8, at = ++core->stored_count, number = core->stores++;
    uint64_t *head = &core->stored_head[piece % TIMING_STORED];
    struct timing_stored *stored = &core->stored[at & core->stored_mask];
    run_of_stores(core, va, s->size);
    leave_buffer(core, later(before, done));
    *stored = (struct timing_stored){.piece = piece,
                                     .data = done,
                                     .drain = core->drain,
                                     .older = *head,
                                     .bytes = (uint8_t)(((1u << s->size) - 1) << (va & 7)),
                                     .size = s->size,
                                     .start = (int8_t)(va & 7)};
    *head = at;
    core->stored_first[number & core->stores_mask] = at - 1;
    core->store_drain[number & core->stores_mask] = core->drain;
    if (number >= core->c->stores)
        core->stored_from = core->stored_first[(number + 1 - core->c->stores) & core->stores_mask];
    return true;
}

/*
 * Does the work of load() for one access to the most recent line of its set while stores to the
 * same eight bytes are still in the buffer. Changes *done if the data comes from one of them.
 */
static inline bool quick_forward(struct timing_core *core, const struct timing_step *s, uint64_t va,
                                 uint64_t issue, uint64_t *done)
{
    if (va >> core->page_shift != core->page || !timing_l1_quick(&core->l1, va))
        return false;
    uint32_t bytes = ((1u << s->size) - 1) << (va & 7);
    uint64_t at = stored_find(core, va / 8, (uint8_t)bytes);
    const struct timing_stored *stored = &core->stored[at & core->stored_mask];
    if (!at || stored->drain <= issue)
        return true;
    if (va / 8 * 8 + (uint64_t)stored->start != va || stored->size != s->size)
        return false;
    core->counts.forwarded++;
    *done = later(issue, stored->data) + core->c->forward;
    return true;
}

/*
 * Repeats what the block did before on this path, but makes its accesses again. access: where to
 * find the first one, which is seldom needed. more: see only_access().
 */
static inline __attribute__((always_inline)) struct ran repeat(struct timing_core *core,
                                                               const struct timing_block *block,
                                                               const timing_access *const *access,
                                                               const timing_access *end,
                                                               struct timing_path *path, bool more)
{
    const timing_access *next = *access;
    const struct timing_step *s = path->step, *stop = s + path->steps;
    uint64_t base = core->dispatch >> 16, retire = core->retire;
    for (; s != stop; s++) {
        uint64_t issue = base + s->issue, done = issue + s->plain;
        uint64_t before = later(retire, base + s->before);
        uint64_t va = only_access(s->insn, next, end, more);
        bool quick = s->fits >> (va & 31) & 1;
        if (quick && !s->store &&
            (plain(core, va, issue) || quick_forward(core, s, va, issue, &done))) {
            next++;
            core->load_retire[core->loads++ & core->loads_mask] = later(before, done);
        } else if (quick && s->store && quick_store(core, s, va, done, before)) {
            next++;
        } else {
            struct made m = make_step(core, block, s->insn, next, end, issue, before);
            next = m.next;
            done = m.done;
        }
        if (__builtin_expect(done - issue == s->took, 1))
            continue;
        uint32_t i = (uint32_t)(s - path->step);
        struct timing_path *other = timing_memo_branch(path, i, done - issue);
        if (!other)
            return run_other(core, block, *access, end, path, i, done - issue);
        path = other;
        s = &path->step[i];
        stop = path->step + path->steps;
    }
    uint32_t count = path->count;
    core->went[core->went_count++ & core->window] =
        (struct timing_went){.path = path, .base = base, .retire = retire};
    core->retire = later(retire, base + path->last);
    note_passed(core, count);
    core->number += count;
    core->dispatch += path->dispatch;
    core->state = path->to;
    return (struct ran){base + path->done, path};
}

/* Repeats the block if such a path exists; otherwise remembers what it does. */
static struct ran run_known(struct timing_core *core, const struct timing_block *block,
                            const timing_access *access, const timing_access *end)
{
    struct timing_path *path = *core->hook;
    if (!path || path->block != block->number) {
        *core->hook = path = timing_memo_find(core, block);
        core->none = NULL;
        if (!path)
            return run_first(core, block, access, end, NULL, NULL, 0);
    }
    return repeat(core, block, &access, end, path, false);
}

/* Does the window or a queue hold up an instruction of the block? */
static __attribute__((noinline)) bool held(struct timing_core *core,
                                           const struct timing_block *block)
{
    const struct uarch_config *c = core->c;
    uint64_t now = core->dispatch >> 16;
    uint64_t last = core->number + block->count - 1 - c->rob; /* there are none below 0 */
    if (core->retire <= now && core->drain <= now) {
        uint32_t least = c->loads < c->stores ? c->loads : c->stores;
        core->room = core->number + (c->rob < least ? c->rob : least);
        return false;
    }
    /* Look further ahead, too: what has retired or was written stays so. */
    enum { AHEAD = 32 };
    if (c->rob < AHEAD + block->count)
        return true;
    if (c->rob >= 2 * AHEAD + block->count && c->loads > AHEAD + block->loads &&
        c->stores > AHEAD + block->stores && passed(core, last + AHEAD) <= now &&
        core->load_retire[(core->loads + block->loads - 1 + AHEAD - c->loads) & core->loads_mask] <=
            now &&
        core->store_drain[(core->stores + block->stores - 1 + AHEAD - c->stores) &
                          core->stores_mask] <= now) {
        core->room = core->number + block->count + AHEAD;
        return false;
    }
    return passed(core, last) > now ||
           core->load_retire[(core->loads + block->loads - 1 - c->loads) & core->loads_mask] >
               now ||
           core->store_drain[(core->stores + block->stores - 1 - c->stores) & core->stores_mask] >
               now;
}

/*
 * May the block have been in this state before? Only if nothing delays its dispatch and remembering
 * is not paused.
 */
static inline bool may_be_known(struct timing_core *core, struct timing_block *block)
{
    if (core->number + block->count > core->room && held(core, block))
        return false;
    if (__builtin_expect(core->state && block->number, 1))
        return true;
    if (!block->steady)
        return false;
    if (core->credit <= 0) {
        core->credit += core->credit == -1 ? TIMING_CREDIT : 1;
        return false;
    }
    if (!block->number)
        block->number = ++core->timing->memo.blocks;
    return core->state || timing_memo_enter(core);
}

/* The lines of the block have arrived: dispatch continues at once, or at that time. */
static inline void arrive(struct timing_core *core, struct timing_block *block)
{
    uint64_t there = timing_fetch(core, block, core->fetch), first = core->dispatch >> 16;
    /* fetch lines of the next block while this one is dispatched */
    core->fetch = later(core->fetch, first);
    if (__builtin_expect(there > first, 0)) {
        timing_memo_leave(core);
        core->dispatch = there << 16 | core->begin;
    }
}

/* Ends a block that ran; wrong: its branch was mispredicted. True if the branch was taken. */
static inline __attribute__((always_inline)) bool depart(struct timing_core *core,
                                                         struct timing_block *block, struct ran ran,
                                                         uint64_t next, bool wrong)
{
    struct timing_path *path = ran.path;
    bool leaves = next != block->next;
    bool taken = block->end > SPEX_UARCH_END_COND || (block->end == SPEX_UARCH_END_COND && leaves);
    uint32_t late = taken ? timing_btb(core, block) : 0;
    if (path)
        core->hook = &path->follow[2 * leaves];
    if (wrong) {
        core->counts.mispredict++;
        uint64_t again = (ran.done + core->c->mispredict) << 16 | core->begin;
        core->fetch = ran.done;
        if (again > core->dispatch && path && path->missed) {
            core->dispatch = again;
            core->state = path->missed;
            core->hook = &path->follow[2 * leaves + 1];
        } else if (again > core->dispatch) {
            timing_memo_missed(core, path, again >> 16);
        }
    } else if (late) {
        timing_memo_late(core, path, late);
    }
    return taken;
}

/* Runs any block that was executed whole and needs no details. */
static __attribute__((noinline)) bool pass(struct timing_core *core, struct timing_block *block,
                                           const timing_access *access, const timing_access *end,
                                           uint64_t next, bool wrong)
{
    struct ran ran = {0};
    arrive(core, block);
    if (may_be_known(core, block)) {
        ran = run_known(core, block, access, end);
    } else {
        struct timing_run run = {
            .executed = block->count, .access = access, .access_count = (size_t)(end - access)};
        ran.done = run_each(core, block, &run);
    }
    return depart(core, block, ran, next, wrong);
}

void timing_follow(struct timing_core *core, struct timing_words *w)
{
    const uint64_t until = core->number + w->instructions;
    const uint64_t *taken = NULL;
    do {
        struct timing_block *block = w->block;
        const uint64_t *end = w->at;
        while (end < w->stop && !(*end >> 60))
            end++;
        uint64_t number = core->number + block->count;
        if (end == w->stop || *end >> 60 != SPEX_TIMING_BLOCK >> 60 || block->apart ||
            number > until)
            break;
        /*
         * The common case: the block follows the same one as before, and nothing delays it. Then
         * dispatch is never before core->fetch.
         */
        struct timing_path *path = *core->hook;
        bool takes;
        if (__builtin_expect(path && path->block == block->number &&
                                 block->fetched == core->code_generation &&
                                 (number <= core->room || !held(core, block)),
                             1)) {
            core->fetch = core->dispatch >> 16;
            struct ran ran = repeat(core, block, &w->at, end, path, true);
            takes = depart(core, block, ran, timing_block_of(*end)->pc, *end & SPEX_TIMING_WRONG);
        } else {
            takes =
                pass(core, block, w->at, end, timing_block_of(*end)->pc, *end & SPEX_TIMING_WRONG);
        }
        if (takes) {
            w->taken = block;
            taken = end;
        }
        w->block = timing_block_of(*end);
        w->at = end + 1;
    } while (core->retire <= w->limit);
    w->instructions = until - core->number;
    if (taken)
        w->target = timing_block_of(*taken)->pc;
}

/* Converts a time of dispatch to the number of instructions that could be dispatched until then. */
static uint64_t slot_of(const struct timing_core *core, uint64_t dispatch)
{
    return (dispatch >> 16) * core->c->width + ((dispatch & 0xffff) - core->begin) / core->share;
}

void timing_run(struct timing_core *core, struct timing_block *block, struct timing_run *run)
{
    if (block->gone == block->count) { /* nothing is fetched */
        run->ready = slot_of(core, core->dispatch);
        run->ports = 0;
        run_each(core, block, run);
        return;
    }
    if (!run->cut && !run->insns && !run->results) {
        const timing_access none = 0, *access = run->access_count ? run->access : &none;
        pass(core, block, access, access + run->access_count, run->next, run->mispredicted);
        return;
    }
    arrive(core, block);
    run->ready = slot_of(core, core->dispatch);
    struct ran ran = {.done = run_each(core, block, run)};
    run->ports = block->extra && !run->cut ? slot_of(core, core->dispatch) : 0;
    if (run->cut)
        core->fetch = core->retire + core->c->mispredict;
    else
        depart(core, block, ran, run->next, run->mispredicted);
}
