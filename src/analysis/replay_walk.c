/* Replay: walks through the code of a profile, and records what happens to each instruction. */
#include "replay.h"

#include "account/blame.h"
#include "base/memory.h"
#include "base/rng.h"

#include <stdlib.h>

enum {
    WARM = 384,      /* operations that fill the window at the beginning of a walk */
    COUNTED = 1024,  /* operations after these, which are counted */
    EACH = 96,       /* operations per sample, */
    LEAST = 1 << 17, /* but at least this many */
    MOST = 3 << 18,  /* and at most this many */
    BLOCK = 128,     /* instructions between two branches that share ports */
    CALLS = 64,
    PAGE = 4096,
};

/* A register's value for address purposes: an unknown base plus an offset. */
struct value {
    uint64_t of;
    int64_t offset;
};

struct walk {
    struct replayer *r;
    struct rng rng;
    struct plain plain;
    struct blame blame;
    uint64_t none; /* receives the blame of operations that do not count */
    /* the current block */
    struct account_insn insns[BLOCK];
    uint64_t *sums[BLOCK];
    uint32_t count, first; /* the site that it begins with */
    uint64_t clock, ready;
    uint64_t near_put, mid_put; /* entries put into the branch target buffers */
    uint32_t branches;          /* number of taken branches */
    /* the position of the walk */
    uint32_t calls[CALLS], depth;
    bool counts; /* false while warming up */
    struct value regs[STEP_REGS];
    uint64_t values;
    uint32_t made_by[ACCOUNT_REGS]; /* 1 + the site that wrote a register; or 0 */
    struct {
        uint64_t place;
        uint32_t site;
    } stored[PLAIN_PLACES]; /* indexed by place_of() */
};

static uint64_t *sum_of(const void *context, uint32_t i)
{
    return ((uint64_t *const *)context)[i];
}

static bool is_direct(const struct replay_site *site)
{
    return site->flow == REPLAY_JUMP || site->flow == REPLAY_CALL;
}

/* Was another branch after this one, in the same 32 bytes, taken before? */
static bool is_dense(struct walk *w, uint32_t at)
{
    struct replayer *r = w->r;
    const uint64_t line = r->sites[at].address / 32;
    bool dense = r->sites[at].dense;
    if (dense || r->sites[at].looked == w->branches)
        return dense;
    for (uint32_t s = replay_next(r, at);
         !dense && s != REPLAY_NONE && r->sites[s].address / 32 == line; s = replay_next(r, s))
        dense = r->sites[s].taken;
    r->sites[at].dense = dense;
    r->sites[at].looked = w->branches;
    return dense;
}

/*
 * Cycles until the target of a taken branch is known, by the branch target buffer that has its
 * block, as in uarch/fetch.c; the last one has them all.
 */
static uint32_t target_cycles(struct walk *w, uint32_t at)
{
    const struct uarch_config *c = &w->r->config;
    const bool dense = c->btb_dense && is_dense(w, at);
    w->branches += !w->r->sites[at].taken;
    w->r->sites[at].taken = true;
    const uint32_t entries = c->btb_pairs && w->r->sites[at].flow == REPLAY_COND ? 2 : 1;
    struct replay_site *site = &w->r->sites[w->first];
    uint32_t cycles = c->btb_mid_cycles;
    if (w->near_put < site->near_until)
        return 1;
    if (w->mid_put >= site->mid_until) {
        cycles = c->btb_cycles + (dense ? c->btb_dense : 0);
        if (c->btb_mid)
            site->mid_until = ++w->mid_put + c->btb_near + c->btb_mid;
    }
    w->near_put += entries;
    site->near_until = w->near_put + c->btb_near - (entries - 1);
    return cycles;
}

/* The time that the block's ports need beyond its operations; stored at its first site. */
static uint64_t extra_of(struct walk *w)
{
    struct replay_site *sites = w->r->sites;
    struct account_ports ports = {{0}};
    if (sites[w->first].block == w->count)
        return sites[w->first].extra;
    for (uint32_t i = 0, at = w->first; i < w->count; i++, at = sites[at].next)
        account_use(&ports, &sites[at].what);
    sites[w->first].block = w->count;
    return sites[w->first].extra = (uint32_t)account_extra(&w->r->config, w->plain.parts, &ports);
}

/* taken: the site of the taken branch at its end, or REPLAY_NONE. */
static void end_block(struct walk *w, uint32_t taken, bool wrong)
{
    const uint64_t before = w->plain.dispatch;
    if (!w->count)
        return;
    const uint64_t extra = extra_of(w);
    plain_ports(&w->plain, extra);
    const struct blame_block block = {.insns = w->insns,
                                      .executed = w->count,
                                      .wrong = wrong,
                                      .ready = w->ready,
                                      .ports =
                                          w->plain.dispatch != before ? plain_slot(&w->plain) : 0,
                                      .clock = w->clock};
    const uint32_t cycles = taken == REPLAY_NONE ? 0 : target_cycles(w, taken);
    if (!wrong && cycles)
        plain_taken(&w->plain, w->count, extra, cycles,
                    w->r->config.btb_pairs && is_direct(&w->r->sites[taken]));
    if (wrong)
        plain_mispredicted(&w->plain, w->insns[w->count - 1].done);
    blame_count(&w->blame, &w->r->config, &block, sum_of, w->sums);
    w->count = 0;
    w->clock = w->plain.retire;
    w->ready = plain_slot(&w->plain);
}

/* Empties the core: after a system call, or at the beginning. */
static void restart(struct walk *w)
{
    enum { AWAY = 1000 };
    end_block(w, REPLAY_NONE, false);
    const uint64_t last = w->plain.retire > w->plain.drain ? w->plain.retire : w->plain.drain;
    plain_restart(&w->plain, last + AWAY);
    w->clock = w->plain.retire;
    w->ready = plain_slot(&w->plain);
}

/* ---- addresses ---- */

static void forget(struct walk *w, unsigned reg)
{
    w->regs[reg] = (struct value){++w->values, 0};
}

/* Names the eight bytes that an access begins in; 0: not known. */
static uint64_t place_of(const struct walk *w, const struct step *s)
{
    if (s->kind != STEP_MEMORY || s->literal || s->rn >= STEP_REGS || s->index != STEP_NONE)
        return 0;
    const struct value *base = &w->regs[s->rn];
    return hash_word(base->of, (uint64_t)(base->offset + s->offset) >> 3) | 1;
}

static void follow_values(struct walk *w, const struct replay_site *site)
{
    const struct step *s = &site->step;
    struct value sum = {0};
    const bool adds = s->kind == STEP_ADD && s->rd < STEP_REGS && s->rn < STEP_REGS;
    const bool writes =
        s->kind == STEP_MEMORY && s->writeback && s->change != INT64_MIN && s->rn < STEP_REGS;
    if (adds)
        sum = (struct value){w->regs[s->rn].of, w->regs[s->rn].offset + (int64_t)s->value};
    else if (writes)
        sum = (struct value){w->regs[s->rn].of, w->regs[s->rn].offset + s->change};
    for (unsigned d = 0; d < sizeof site->what.dst; d++)
        if (site->what.dst[d] < STEP_REGS)
            forget(w, site->what.dst[d]);
    if (adds)
        w->regs[s->rd] = sum;
    else if (writes)
        w->regs[s->rn] = sum;
}

/* ---- drawing what happens, as in the samples ---- */

enum { ONE = 1 << 16 };

/* The latency drawn for a load. */
struct drawn {
    enum replay_class class;
    struct plain_access access;
};

static uint32_t mean_of(const struct walk *w, const struct replay_seen *seen, unsigned class)
{
    const uint32_t n = seen->used[class];
    const struct replay_all *all = &w->r->all;
    return n                   ? (uint32_t)((seen->took[class] + n / 2) / n)
           : all->loads[class] ? (uint32_t)(all->took[class] / all->loads[class])
                               : w->r->config.l1d_latency;
}

/*
 * Draws a class from the samples plus one sample of the average load, so that a single odd sample
 * does not decide.
 */
static enum replay_class draw_class(struct walk *w, const struct replay_seen *seen, uint32_t count)
{
    const struct replay_all *all = &w->r->all;
    enum { ALL = 1 };
    uint32_t at = rng_below(&w->rng, count + ALL);
    unsigned k = REPLAY_HIT;
    if (at < count) {
        for (; k < REPLAY_MEMORY && at >= seen->loads[k]; k++)
            at -= seen->loads[k];
        return (enum replay_class)k;
    }
    for (at = rng_below(&w->rng, (uint32_t)all->count); k < REPLAY_MEMORY && at >= all->loads[k];
         k++)
        at -= (uint32_t)all->loads[k];
    return (enum replay_class)k;
}

/*
 * Draws the class of one of its samples, and takes that class's mean. Loads of a line that is on
 * its way get it at the same time, so late loads come in groups: the first waits as long as late
 * ones do on average, the following ones until the same time, as many as there are late ones. Other
 * loads are late because an earlier store has no data yet: they wait no longer than older
 * operations.
 */
static struct drawn draw_load(struct walk *w, struct replay_seen *seen, uint32_t otherwise)
{
    struct drawn d = {REPLAY_HIT, {.took = otherwise}};
    uint32_t all = 0;
    for (unsigned k = 0; seen && k < REPLAY_WRONG; k++)
        all += seen->loads[k];
    if (!all)
        return d;
    d.class = draw_class(w, seen, all);
    d.access.most = UINT32_MAX;
    if (d.class == REPLAY_LATE && 2 * seen->stored > seen->loads[REPLAY_LATE]) {
        d.access.until = w->plain.retire + w->r->config.forward;
        d.access.most = mean_of(w, seen, REPLAY_LATE);
        d.class = REPLAY_HIT;
    } else if (d.class <= REPLAY_LATE) {
        seen->credit += d.class == REPLAY_LATE;
        d.access.until = seen->arrival;
        d.class = seen->credit >= 1 && seen->arrival <= w->plain.dispatch >> 16 ? REPLAY_LATE
                                                                                : REPLAY_HIT;
    }
    d.access.took = mean_of(w, seen, d.class);
    return d;
}

/* The load is done: settles its class. */
static enum replay_class load_class(struct replay_seen *seen, const struct drawn *d,
                                    const struct account_insn *n)
{
    if (d->class > REPLAY_LATE)
        return d->class;
    const enum replay_class class =
        n->done - n->issue <= REPLAY_HIT_MOST ? REPLAY_HIT : REPLAY_LATE;
    if (d->class == REPLAY_LATE)
        seen->arrival = n->done;
    if (class == REPLAY_LATE)
        seen->credit--;
    return class;
}

/*
 * Predictable branches follow an accumulator, like loops with that number of iterations; others are
 * drawn at random.
 */
static bool draw_taken(struct walk *w, uint32_t at, const struct replay_seen *seen)
{
    enum { GUESSED = 16 };
    struct replay_site *site = &w->r->sites[at];
    if (!site->reached) /* code that hardly ever runs */
        site->part = site->to < site->address ? 3 * ONE / 4 : ONE / 4;
    if (!seen || (seen->wrong[0] + seen->wrong[1]) * GUESSED > seen->count)
        return rng_below(&w->rng, ONE) < site->part;
    site->phase += site->part;
    const bool taken = site->phase >= ONE;
    site->phase &= ONE - 1;
    return taken;
}

static bool draw_wrong(struct walk *w, const struct replay_seen *seen, bool taken)
{
    const uint32_t of = !seen ? 0 : taken ? seen->taken : seen->count - seen->taken;
    return of && rng_below(&w->rng, of) < seen->wrong[taken];
}

static uint32_t draw_target(struct walk *w, const struct replay_seen *seen)
{
    const struct replay_target *target = seen ? seen->targets : NULL;
    uint32_t all = 0, at;
    for (unsigned k = 0; target && k < REPLAY_TARGETS; k++)
        all += target[k].count;
    if (!all)
        return REPLAY_NONE;
    at = rng_below(&w->rng, all);
    for (; at >= target->count; target++)
        at -= target->count;
    return target->site;
}

static struct replay_seen *seen_of(struct replayer *r, uint32_t site)
{
    return r->sites[site].seen ? &r->seen[r->sites[site].seen - 1] : NULL;
}

/* ---- what instructions wait for ---- */

/* The site that makes the last of an instruction's operands to arrive, or 0. */
static uint32_t maker_of(const struct walk *w, const struct account_op *u)
{
    const uint64_t *ready = w->plain.ready;
    unsigned last = ACCOUNT_NO_SOURCE;
    for (unsigned s = 0; s < sizeof u->src && u->src[s] != ACCOUNT_NO_SOURCE; s++)
        last = ready[u->src[s]] > ready[last] ? u->src[s] : last;
    if (u->kind == ACCOUNT_DIVIDE && ready[u->divider] > ready[last])
        last = u->divider;
    return w->made_by[last];
}

static void note_made(struct walk *w, const struct account_op *u, uint32_t site)
{
    for (unsigned d = 0; d < sizeof u->dst; d++)
        w->made_by[u->dst[d]] = site + 1;
    if (u->kind == ACCOUNT_DIVIDE)
        w->made_by[u->divider] = site + 1;
}

/*
 * An operation is done: finds whose result it waited for, or 0, and how long. A load may have
 * waited for a store's data.
 */
static uint64_t waited_for(struct walk *w, uint32_t at, uint64_t place, uint32_t *maker,
                           const struct account_insn *n)
{
    const unsigned kind = w->r->sites[at].op.kind;
    const uint64_t operands = n->issue - n->dispatch - 1, data = n->done - n->issue;
    const size_t slot = place % PLAIN_PLACES;
    if (place && (kind == ACCOUNT_STORE || kind == ACCOUNT_ATOMIC)) {
        w->stored[slot].place = place;
        w->stored[slot].site = at;
    }
    if (kind != ACCOUNT_LOAD || !place || w->stored[slot].place != place ||
        data <= REPLAY_HIT_MOST || data <= operands)
        return operands;
    *maker = w->stored[slot].site + 1;
    return data;
}

/*
 * Records how long it waited for this site: the one with more than half of all that time remains
 * (Boyer, Moore).
 */
static void vote(struct replay_result *result, uint32_t maker, uint64_t waited)
{
    if (result->maker == maker) {
        result->votes += waited;
    } else if (result->votes >= waited) {
        result->votes -= waited;
    } else {
        result->votes = waited - result->votes;
        result->maker = maker;
    }
}

/* ---- steps ---- */

static uint32_t any_start(struct walk *w)
{
    return w->r->starts[rng_below(&w->rng, (uint32_t)w->r->start_count)].site;
}

static uint32_t pop(struct walk *w)
{
    return w->depth ? w->calls[--w->depth % CALLS] : REPLAY_NONE;
}

static void push(struct walk *w, uint32_t site)
{
    w->calls[w->depth % CALLS] = site;
    w->depth += w->depth < 1u << 30;
}

/* Follows the branch at a site: was it mispredicted, and taken? */
static uint32_t go(struct walk *w, uint32_t at, bool *wrong, bool *taken)
{
    struct replayer *r = w->r;
    const struct replay_seen *seen = seen_of(r, at);
    const enum replay_flow flow = (enum replay_flow)r->sites[at].flow;
    const uint32_t next = replay_next(r, at);
    uint32_t to = REPLAY_NONE;
    *taken = true;
    switch (flow) {
    case REPLAY_COND:
        *taken = draw_taken(w, at, seen);
        to = *taken ? replay_target(r, at) : next;
        break;
    case REPLAY_CALL:
    case REPLAY_INDIRECT_CALL:
        to = flow == REPLAY_CALL ? replay_target(r, at) : draw_target(w, seen);
        if (to == REPLAY_NONE) /* an unknown function was called: assume that it returned */
            to = next;
        else
            push(w, next);
        break;
    case REPLAY_RETURN:
        to = pop(w);
        if (to == REPLAY_NONE)
            to = draw_target(w, seen);
        break;
    case REPLAY_INDIRECT:
        to = draw_target(w, seen);
        if (to == REPLAY_NONE)
            to = replay_target(r, at);
        if (to == REPLAY_NONE)
            to = pop(w);
        break;
    default:
        to = replay_target(r, at);
    }
    *wrong = draw_wrong(w, seen, *taken);
    return to;
}

/* Runs one operation; returns where the walk continues. */
static uint32_t step(struct walk *w, uint32_t at)
{
    struct replayer *r = w->r;
    const struct replay_site *site = &r->sites[at];
    struct replay_seen *seen = seen_of(r, at);
    const bool load = site->op.kind == ACCOUNT_LOAD || site->op.kind == ACCOUNT_ATOMIC;
    struct drawn drawn = {REPLAY_HIT, {0}};
    if (load)
        drawn = draw_load(w, seen, site->op.latency);
    if (drawn.class <= REPLAY_LATE)
        drawn.access.place = place_of(w, &site->step);
    uint32_t maker = w->counts ? maker_of(w, &site->op) : 0;
    const struct account_insn n = plain_run(&w->plain, &site->op, &drawn.access);
    const uint64_t waited = waited_for(w, at, drawn.access.place, &maker, &n);
    note_made(w, &site->op, at);
    enum replay_class class = n.done - n.issue <= REPLAY_HIT_MOST ? REPLAY_HIT : REPLAY_LATE;
    if (load && seen)
        class = load_class(seen, &drawn, &n);
    bool wrong = false, taken = false,
         ends = site->flow != REPLAY_ON || site->address % PAGE == PAGE - 4;
    enum replay_flow flow = (enum replay_flow)site->flow;
    struct replay_result *result = w->counts ? replay_result(r, at) : NULL;
    if (result) {
        result->waited += n.issue - n.dispatch;
        vote(result, maker, waited);
    }
    follow_values(w, site);
    const uint32_t to =
        flow == REPLAY_ON || flow == REPLAY_KERNEL ? replay_next(r, at) : go(w, at, &wrong, &taken);
    w->first = w->count ? w->first : at;
    w->insns[w->count] = n;
    w->sums[w->count] = &w->none;
    if (result) {
        class = wrong ? REPLAY_WRONG : class;
        result->visits[class]++;
        w->sums[w->count] = &result->blame[class];
    }
    w->count++;
    if (ends || w->count == BLOCK || to == REPLAY_NONE)
        end_block(w, flow != REPLAY_ON && flow != REPLAY_KERNEL && taken ? at : REPLAY_NONE, wrong);
    if (flow == REPLAY_KERNEL)
        restart(w);
    return to;
}

/*
 * Walks from here, with what is still in the core from the previous position: it is mostly in the
 * same part of the program, and a window takes many operations to fill.
 */
static void walk_from(struct walk *w, uint32_t start)
{
    uint32_t at = start;
    end_block(w, REPLAY_NONE, false);
    w->depth = 0;
    for (unsigned reg = 0; reg < STEP_REGS; reg++)
        forget(w, reg);
    for (unsigned i = 0; i < WARM + COUNTED; i++) {
        w->counts = i >= WARM;
        at = step(w, at);
        if (at == REPLAY_NONE && (at = pop(w)) == REPLAY_NONE)
            at = any_start(w);
    }
}

/* Clears what earlier walks left at sites. */
static void clear_sites(struct replayer *r)
{
    for (size_t i = 0; i < r->site_count; i++) {
        struct replay_site *site = &r->sites[i];
        site->taken = site->dense = false;
        site->looked = site->phase = site->block = 0;
        site->near_until = site->mid_until = 0;
    }
    for (size_t i = 0; i < r->seen_count; i++) {
        r->seen[i].arrival = 0;
        r->seen[i].credit = 0;
    }
    for (size_t i = 0; i < REPLAY_CHUNKS; i++)
        if (r->results[i])
            memset(r->results[i], 0, REPLAY_CHUNK * sizeof *r->results[i]);
}

uint64_t replay_operations(const struct replayer *r)
{
    const uint64_t operations = r->start_count * EACH;
    return operations < LEAST ? LEAST : operations > MOST ? MOST : operations;
}

void replay_walk(struct replayer *r, uint64_t operations)
{
    const uint64_t walks = operations / (WARM + COUNTED) + 1;
    clear_sites(r);
    memory_free(r->walk);
    r->walk = NULL;
    struct walk *w = r->walk = memory_get(1, sizeof *w);
    w->r = r;
    plain_init(&w->plain, &r->config);
    restart(w);
    for (uint64_t i = 0; i < walks; i++)
        walk_from(w, r->starts[(2 * i + 1) * r->start_count / (2 * walks)].site);
    restart(w);
}
