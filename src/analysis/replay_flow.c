/*
 * Replay: how often the parts of the code are executed.
 *
 * Which instructions were sampled is chance, and a branch has few samples. But all instructions of
 * a run (straight code, across calls) are executed equally often, and what enters a run also leaves
 * it: the samples of all neighbours tell how often a branch is taken.
 *
 * Flows are executions in units of one sample per instruction. A run is an edge from its beginning
 * to its end, a conditional branch is two edges; the samples of each edge estimate its flow with
 * the variance of a count. Of all flows that are conserved at each junction, the result is the one
 * nearest to the samples: weighted least squares, by potentials of junctions and conjugate
 * gradients. Where code is called, begins or returns, flow is not conserved.
 */
#include "replay.h"

#include "base/memory.h"

#include <stdlib.h>

enum {
    BEYOND = 3, /* runs without samples that are followed beyond those with some */
    ROUNDS = 3, /* rounds of adjusting weights to flows */
    STEPS = 64, /* most steps of conjugate gradients */
};

enum { FALL, TAKEN, WAYS };

enum { NOWHERE = UINT32_MAX };

/* A flow between two junctions, given by number; at NOWHERE flow is not conserved. */
struct edge {
    uint32_t from, to;
    double samples, length; /* samples seen, and in how many instructions */
    double flow, variance;
    double pull; /* potential of `to` minus that of `from` */
};

/* The flow of a run continues into another run beside it, which it calls. */
struct call {
    uint32_t run, to;
};

/* Straight code from `head` on. If its branch is conditional, that branch has separate edges. */
struct run {
    uint32_t head, last, length, samples, sampled;
    uint32_t edge;
    bool entered, conditional;
    double come, noise; /* flow that arrives through calls, and its variance */
};

struct flows {
    struct run *runs;
    uint32_t count;
    size_t capacity;
    struct edge *edges;
    uint32_t edge_count, junctions;
    struct call *calls;
    size_t call_count, call_capacity;
    double *potential, *rest, *search, *change, *diagonal; /* one each per junction */
};

static bool goes_on(const struct replay_site *site)
{
    return site->flow == REPLAY_ON || site->flow == REPLAY_CALL ||
           site->flow == REPLAY_INDIRECT_CALL || site->flow == REPLAY_KERNEL;
}

static bool has_samples(const struct replayer *r, uint32_t site)
{
    return r->sites[site].seen && r->seen[r->sites[site].seen - 1].count;
}

static void follow(struct replayer *r, uint32_t at, unsigned beyond);

static void follow_target(struct replayer *r, uint32_t at, unsigned beyond)
{
    const enum replay_flow flow = (enum replay_flow)r->sites[at].flow;
    const uint32_t to = flow == REPLAY_ON ? REPLAY_NONE : replay_target(r, at);
    if (to == REPLAY_NONE)
        return;
    r->sites[to].leads = true;
    r->sites[to].called |= flow == REPLAY_CALL;
    r->sites[to].open |= flow == REPLAY_INDIRECT;
    if (beyond && (flow == REPLAY_COND || flow == REPLAY_JUMP))
        follow(r, to, beyond - 1);
}

/* Marks the code that may be executed from a site on. */
static void follow(struct replayer *r, uint32_t at, unsigned beyond)
{
    while (at != REPLAY_NONE && r->sites[at].reached <= beyond) {
        if (has_samples(r, at))
            beyond = BEYOND;
        r->sites[at].reached = (uint8_t)(beyond + 1);
        follow_target(r, at, beyond);
        const bool on = goes_on(&r->sites[at]), may = r->sites[at].flow == REPLAY_COND;
        const uint32_t next = on || may ? replay_next(r, at) : REPLAY_NONE;
        if (next != REPLAY_NONE && on)
            r->sites[next].follows = true;
        if (may && !beyond--)
            return;
        at = next;
    }
}

/* The only target of an indirect call, or REPLAY_NONE. */
static uint32_t only_target(const struct replay_seen *seen)
{
    return seen && seen->targets && !seen->targets[1].count ? seen->targets[0].site : REPLAY_NONE;
}

static void follow_all(struct replayer *r)
{
    for (size_t i = 0; i < r->seen_count; i++) {
        const struct replay_seen *seen = &r->seen[i];
        const enum replay_flow flow = (enum replay_flow)r->sites[seen->site].flow;
        const bool one = flow == REPLAY_INDIRECT_CALL && only_target(seen) != REPLAY_NONE;
        for (unsigned k = 0; seen->targets && k < REPLAY_TARGETS && flow != REPLAY_RETURN; k++)
            if (seen->targets[k].count) {
                struct replay_site *to = &r->sites[seen->targets[k].site];
                to->leads = true;
                to->called |= one;
                to->open |= !one;
            }
        follow(r, seen->site, BEYOND);
    }
}

static bool is_head(const struct replay_site *site)
{
    return site->reached && (site->leads || !site->follows);
}

static uint32_t run_of(const struct replayer *r, uint32_t site)
{
    return site != REPLAY_NONE && r->sites[site].reached && is_head(&r->sites[site])
               ? r->sites[site].run
               : REPLAY_NONE;
}

/* Uses numbers of sites for now. */
static void add_call(struct replayer *r, struct flows *f, uint32_t at)
{
    const struct replay_site *site = &r->sites[at];
    const struct replay_seen *seen = site->seen ? &r->seen[site->seen - 1] : NULL;
    const uint32_t to = site->flow == REPLAY_CALL && site->target_known ? site->target
                        : site->flow == REPLAY_INDIRECT_CALL            ? only_target(seen)
                                                                        : REPLAY_NONE;
    if (to == REPLAY_NONE || !r->sites[to].reached)
        return;
    f->calls = memory_grow(f->calls, f->call_count, &f->call_capacity, sizeof *f->calls);
    f->calls[f->call_count++] = (struct call){f->count, to};
}

static void add_run(struct replayer *r, struct flows *f, uint32_t head)
{
    struct run run = {.head = head};
    uint32_t at = head;
    for (;; at = r->sites[at].next) {
        const struct replay_site *site = &r->sites[at];
        const uint32_t n = site->seen ? r->seen[site->seen - 1].count : 0;
        run.length++;
        run.samples += n;
        run.sampled += n > 0;
        add_call(r, f, at);
        if (!goes_on(site) || site->next == REPLAY_NONE || is_head(&r->sites[site->next]) ||
            !r->sites[site->next].reached)
            break;
    }
    run.last = at;
    run.conditional = r->sites[at].flow == REPLAY_COND;
    r->sites[head].run = f->count;
    f->runs = memory_grow(f->runs, f->count, &f->capacity, sizeof *f->runs);
    f->runs[f->count++] = run;
}

/* The runs that may follow a run: straight on, and the target of its branch. */
static void ways_of(const struct replayer *r, const struct run *run, uint32_t to[WAYS])
{
    const struct replay_site *last = &r->sites[run->last];
    const bool falls = goes_on(last) || run->conditional;
    const bool jumps = run->conditional || last->flow == REPLAY_JUMP;
    to[FALL] = falls && last->next_known ? run_of(r, last->next) : REPLAY_NONE;
    to[TAKEN] = jumps && last->target_known ? run_of(r, last->target) : REPLAY_NONE;
}

/* The junction where flow enters a run; NOWHERE if not all of that flow is known. */
static uint32_t junction_of(const struct replayer *r, const struct flows *f, uint32_t run)
{
    return run == REPLAY_NONE || !f->runs[run].entered || r->sites[f->runs[run].head].open ? NOWHERE
                                                                                           : run;
}

static void add_edge(struct flows *f, uint32_t from, uint32_t to, double samples, double length)
{
    f->edges[f->edge_count++] =
        (struct edge){from, to, samples, length, (samples + 0.5) / length, 0, 0};
}

/* Checks whether the known calls explain the samples, or whether there must be others. */
static void check_calls(struct replayer *r, struct flows *f)
{
    static const double sigmas = 3;
    for (size_t i = 0; i < f->call_count; i++) {
        struct call *call = &f->calls[i];
        const struct run *from = &f->runs[call->run];
        call->to = r->sites[call->to].run;
        f->runs[call->to].entered = true;
        f->runs[call->to].come += (double)from->samples / from->length;
        f->runs[call->to].noise += (from->samples + 1.0) / from->length / from->length;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        const struct run *run = &f->runs[i];
        const double length = run->length, noise = (run->samples + 1) / length / length;
        const double more = run->samples / length - run->come;
        if (r->sites[run->head].called && more * more > sigmas * sigmas * (noise + run->noise))
            r->sites[run->head].open = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < f->call_count; i++)
        if (!r->sites[f->runs[f->calls[i].to].head].open)
            f->calls[kept++] = f->calls[i];
    f->call_count = kept;
}

static void connect(struct replayer *r, struct flows *f)
{
    uint32_t to[WAYS];
    for (uint32_t i = 0; i < f->count; i++) {
        ways_of(r, &f->runs[i], to);
        for (unsigned k = 0; k < WAYS; k++)
            if (to[k] != REPLAY_NONE)
                f->runs[to[k]].entered = true;
    }
    check_calls(r, f);
    f->junctions = f->count;
    f->edges = memory_get(3 * (size_t)f->count + 1, sizeof *f->edges);
    for (uint32_t i = 0; i < f->count; i++) {
        struct run *run = &f->runs[i];
        const uint32_t begin = junction_of(r, f, i), end = f->junctions;
        ways_of(r, run, to);
        run->edge = f->edge_count;
        if (run->conditional) {
            const uint32_t at = r->sites[run->last].seen;
            const struct replay_seen none = {0}, *seen = at ? &r->seen[at - 1] : &none;
            add_edge(f, begin, end, run->samples, run->length);
            add_edge(f, end, junction_of(r, f, to[FALL]), seen->count - seen->taken, 1);
            add_edge(f, end, junction_of(r, f, to[TAKEN]), seen->taken, 1);
            f->junctions++;
        } else {
            const uint32_t next = to[FALL] != REPLAY_NONE ? to[FALL] : to[TAKEN];
            add_edge(f, begin, junction_of(r, f, next), run->samples, run->length);
        }
    }
}

/* ---- least squares ---- */

/* Computes the pull on each edge from its junctions; a call pulls the run that it is in. */
static void pull_all(struct flows *f, const double *by)
{
    for (uint32_t i = 0; i < f->edge_count; i++) {
        struct edge *e = &f->edges[i];
        e->pull = (e->to == NOWHERE ? 0 : by[e->to]) - (e->from == NOWHERE ? 0 : by[e->from]);
    }
    for (size_t i = 0; i < f->call_count; i++)
        f->edges[f->runs[f->calls[i].run].edge].pull += by[f->calls[i].to];
}

/* Adds each edge's contribution to its junctions: pull times variance. */
static void give_all(const struct flows *f, double *to)
{
    for (uint32_t i = 0; i < f->edge_count; i++) {
        const struct edge *e = &f->edges[i];
        if (e->to != NOWHERE)
            to[e->to] += e->pull * e->variance;
        if (e->from != NOWHERE)
            to[e->from] -= e->pull * e->variance;
    }
    for (size_t i = 0; i < f->call_count; i++) {
        const struct edge *e = &f->edges[f->runs[f->calls[i].run].edge];
        to[f->calls[i].to] += e->pull * e->variance;
    }
}

static double product(const double *a, const double *b, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Computes the flow that enters junctions without leaving, and how much their potentials change. */
static double begin(struct flows *f)
{
    const uint32_t n = f->junctions;
    double norm = 0;
    memset(f->potential, 0, n * sizeof *f->potential);
    memset(f->rest, 0, n * sizeof *f->rest);
    memset(f->diagonal, 0, n * sizeof *f->diagonal);
    for (uint32_t i = 0; i < f->edge_count; i++) {
        struct edge *e = &f->edges[i];
        e->pull = -(e->samples + 0.5) / e->length / e->variance;
        if (e->to != NOWHERE && e->to != e->from)
            f->diagonal[e->to] += e->variance;
        if (e->from != NOWHERE && e->to != e->from)
            f->diagonal[e->from] += e->variance;
    }
    for (size_t i = 0; i < f->call_count; i++)
        f->diagonal[f->calls[i].to] += f->edges[f->runs[f->calls[i].run].edge].variance;
    give_all(f, f->rest);
    for (uint32_t j = 0; j < n; j++) {
        f->diagonal[j] = f->diagonal[j] > 0 ? f->diagonal[j] : 1;
        f->search[j] = f->rest[j] / f->diagonal[j];
        norm += f->search[j] * f->rest[j];
    }
    return norm;
}

/* Computes potentials so that the flows are conserved, with these variances. */
static void solve(struct flows *f)
{
    static const double enough = 1e-10;
    const uint32_t n = f->junctions;
    const double first = begin(f);
    double norm = first;
    for (unsigned step = 0; step < STEPS && norm > enough * first; step++) {
        memset(f->change, 0, n * sizeof *f->change);
        pull_all(f, f->search);
        give_all(f, f->change);
        const double curve = product(f->search, f->change, n), before = norm;
        if (curve <= 0)
            return;
        norm = 0;
        for (uint32_t j = 0; j < n; j++) {
            f->potential[j] += before / curve * f->search[j];
            f->rest[j] -= before / curve * f->change[j];
            norm += f->rest[j] * f->rest[j] / f->diagonal[j];
        }
        for (uint32_t j = 0; j < n; j++)
            f->search[j] = f->rest[j] / f->diagonal[j] + norm / before * f->search[j];
    }
}

static void fit(struct flows *f)
{
    static const double least = 0.1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < f->edge_count; i++) {
            struct edge *e = &f->edges[i];
            e->variance = (e->flow + 0.5 / e->length) / e->length;
        }
        solve(f);
        pull_all(f, f->potential);
        for (uint32_t i = 0; i < f->edge_count; i++) {
            struct edge *e = &f->edges[i];
            e->flow = (e->samples + 0.5) / e->length + e->variance * e->pull;
            e->flow = e->flow > least / e->length ? e->flow : least / e->length;
        }
    }
}

/*
 * Gives each instruction of a run the run's mean number of samples. What is blamed on instructions
 * without samples goes to the others.
 */
static void even_out(struct replayer *r, const struct run *run)
{
    double lost = 0;
    uint32_t at = run->head;
    for (uint32_t i = 0; i < run->length; i++, at = r->sites[at].next)
        lost += has_samples(r, at) ? 0 : replay_blame(r, at);
    at = run->head;
    for (uint32_t i = 0; i < run->length; i++, at = r->sites[at].next)
        if (has_samples(r, at)) {
            struct replay_seen *n = &r->seen[r->sites[at].seen - 1];
            n->even = (double)run->samples / ((double)run->length * n->count);
            n->more = lost / run->sampled;
        }
}

void replay_even(struct replayer *r)
{
    for (uint32_t i = 0; i < r->flows->count; i++)
        even_out(r, &r->flows->runs[i]);
}

/*
 * The share of its executions, in units of PART, in which a branch is taken. A predictable branch
 * goes the other way after a fixed, mostly whole number of times.
 */
static uint32_t part_of(const struct replayer *r, const struct run *run,
                        const struct edge way[WAYS])
{
    enum { PART = 1 << 16, ROUNDS_MOST = 32 };
    static const double sigmas = 1.5;
    const double all = way[TAKEN].flow + way[FALL].flow;
    const unsigned rare = way[TAKEN].flow < way[FALL].flow ? TAKEN : FALL;
    const struct replay_site *site = &r->sites[run->last];
    const struct replay_seen *seen = site->seen ? &r->seen[site->seen - 1] : NULL;
    double part = way[rare].flow / all;
    const double whole = (double)(uint32_t)(1 / part + 0.5);
    const double off = 1 - 1 / (whole * part);
    if (seen && !(seen->wrong[0] + seen->wrong[1]) && whole < ROUNDS_MOST &&
        off * off * (way[rare].samples + 1) < sigmas * sigmas)
        part = 1 / whole;
    return (uint32_t)(PART * (rare == TAKEN ? part : 1 - part) + 0.5);
}

void replay_flow(struct replayer *r)
{
    enum { ARRAYS = 5 };
    struct flows *f = r->flows = memory_get(1, sizeof *f);
    follow_all(r);
    for (uint32_t s = 0; s < r->site_count; s++)
        if (is_head(&r->sites[s]))
            add_run(r, f, s);
    connect(r, f);
    const size_t n = f->junctions + 1;
    f->potential = memory_get(ARRAYS * n, sizeof *f->potential);
    f->rest = f->potential + n;
    f->search = f->rest + n;
    f->change = f->search + n;
    f->diagonal = f->change + n;
    fit(f);
    for (uint32_t i = 0; i < f->count; i++)
        if (f->runs[i].conditional) {
            const uint32_t part = part_of(r, &f->runs[i], &f->edges[f->runs[i].edge + 1]);
            r->sites[f->runs[i].last].part = part;
        }
}

void replay_flow_free(struct flows *f)
{
    if (!f)
        return;
    memory_free(f->runs);
    memory_free(f->edges);
    memory_free(f->calls);
    memory_free(f->potential);
    memory_free(f);
}
