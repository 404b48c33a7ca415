#include "uarch/slow.h"

#include "uarch/slow_memory.h"

struct store {
    u64 number, va, size, data, drain;
};

struct tagged {
    unsigned tag;
    int counter;
    unsigned useful;
};

struct target {
    unsigned tag, confidence;
    u64 target;
};

struct stream {
    u64 line, used;
    int direction;
    unsigned confidence;
};

struct region {
    u64 region, key, used;
    unsigned seen;
};

struct core {
    struct slow *slow;
    unsigned id, cluster, socket;
    struct cache l1, l2, l1i, btb;
    struct cache tlb, tlb2;
    u64 *walk, *itlb;
    unsigned itlb_count;
    u64 misses1[64], misses2[256];
    struct server l2_server, mesh_server, code_server;
    struct { /* branch targets, oldest first; a pair of entries is one that stands there twice */
        u64 pc[70000];
        unsigned count;
    } near, mid;
    /* the account */
    u64 ready[256], dispatch, fetch, busy[2], drain;
    unsigned drained;
    u64 *retire, *load_retire, *store_drain;
    u64 instructions, loads, stores;
    u64 clock;
    struct store *stored;
    size_t stored_count;
    u64 run_begin, run_next, run_lines, stream_line;
    u64 left, left_came, left_at; /* the last line that another core asked this one for */
    /* prediction */
    unsigned char *history;
    size_t branches;
    struct tagged *tagged[8];
    struct target *target[8];
    u64 base_target[512];
    unsigned char *base;
    u64 ras[64];
    unsigned ras_top;
    /* prefetchers */
    struct {
        u64 pc, last;
        int64_t stride;
        unsigned confidence;
    } stride[256];
    struct stream l1_streams[64], l2_streams[64];
    u64 tick1, tick2, tick3;
    struct region region[16];
    struct {
        u64 key;
        unsigned seen;
    } footprint[4096];
    struct uarch_counts counts;
};

struct slow {
    u64 cycle; /* parts of one */
    struct uarch_config c;
    struct cache llc;
    struct server llc_server, dram[2], link;
    struct {
        u64 page;
        unsigned socket;
    } * homes;
    size_t home_count;
    unsigned cores;
    struct core *core;
};

static u64 max(u64 a, u64 b)
{
    return a > b ? a : b;
}

static uarch_result result_of(unsigned level, u64 latency, u64 flags)
{
    return level | flags | (latency > 65535 ? 65535 : latency) << 16;
}

/* ---- translation ---- */

static u64 page_of(const struct core *k, u64 va)
{
    return va / k->slow->c.page_size;
}

static u64 translate_l2(struct core *k, u64 va, uarch_result *flags)
{
    const struct uarch_config *c = &k->slow->c;
    u64 page = page_of(k, va), entry = page * 64;
    struct line unused;
    *flags |= SPEX_UARCH_TLB_MISS;
    if (line_use(&k->tlb2, entry))
        return c->tlb2_latency;
    line_add(&k->tlb2, (struct line){.line = entry}, &unused);
    *flags |= SPEX_UARCH_WALK;
    k->counts.walk++;
    u64 entries = c->page_size == 2097152 ? 512 : c->page_size / 8, table = page / entries;
    u64 *upper = &k->walk[table % c->walk_entries];
    u64 latency = c->tlb2_latency + c->walk_latency + (*upper != table + 1 ? c->walk_upper : 0);
    *upper = table + 1;
    return latency;
}

static u64 translate(struct core *k, u64 va, uarch_result *flags)
{
    u64 entry = page_of(k, va) * 64;
    struct line unused;
    if (line_use(&k->tlb, entry))
        return 0;
    line_add(&k->tlb, (struct line){.line = entry}, &unused);
    k->counts.tlb_miss++;
    return translate_l2(k, va, flags);
}

static bool translated(struct core *k, u64 va)
{
    u64 entry = page_of(k, va) * 64;
    return line_find(&k->tlb, entry) || line_find(&k->tlb2, entry);
}

/* ---- memory and other cores ---- */

static bool remote(struct core *k, u64 line)
{
    struct slow *s = k->slow;
    u64 page = page_of(k, line);
    if (s->c.sockets == 1)
        return false;
    for (size_t i = 0; i < s->home_count; i++)
        if (s->homes[i].page == page)
            return s->homes[i].socket != k->socket;
    s->homes = realloc(s->homes, (s->home_count + 1) * sizeof *s->homes);
    s->homes[s->home_count].page = page;
    s->homes[s->home_count++].socket = k->socket;
    return false;
}

/* Into the last level; returns when memory took a modified victim, or 0. */
static u64 llc_put(struct core *k, u64 line, bool dirty, u64 t)
{
    struct slow *s = k->slow;
    struct line *there = line_use(&s->llc, line), victim;
    if (there) {
        there->dirty |= dirty;
        return 0;
    }
    if (!line_add(&s->llc, (struct line){.line = line, .dirty = dirty}, &victim) || !victim.dirty)
        return 0;
    return serve(&s->dram[remote(k, victim.line) ? !k->socket : k->socket], t);
}

static u64 from_memory(struct core *k, u64 line, u64 t, uarch_result *r)
{
    struct slow *s = k->slow;
    u64 asked = t, extra = 0, flags = 0;
    bool far = remote(k, line);
    t = serve(&s->llc_server, t);
    if (far) {
        t = serve(&s->link, t);
        extra = s->c.remote_latency;
        flags = SPEX_UARCH_SOCKET;
    }
    if (line_find(&s->llc, line)) {
        llc_put(k, line, false, t);
        t += s->c.llc_latency + extra;
        *r = result_of(far ? SPEX_UARCH_REMOTE : SPEX_UARCH_LLC, t - asked, flags);
        return t;
    }
    llc_put(k, line, false, t);
    struct server *dram = &s->dram[far ? !k->socket : k->socket];
    t = serve(dram, t);
    u64 use = 0, all = 8 * (u64)dram->lines, most = all - (all + 15) / 16;
    for (u64 ago = 8; ago < 16; ago++) /* from 1024 to 512 cycles ago */
        use += t / 64 >= ago ? *server_at(dram, t / 64 - ago) : 0;
    use = use > most ? most : use;
    t += s->c.dram_latency + extra + s->c.dram_queue * use / (2 * (all - use));
    *r = result_of(SPEX_UARCH_DRAM, t - asked, flags);
    return t;
}

static unsigned distance(const struct core *a, const struct core *b)
{
    return a->cluster == b->cluster ? 0 : a->socket == b->socket ? 1 : 2;
}

static u64 core_latency(const struct core *k, const struct core *other)
{
    const struct uarch_config *c = &k->slow->c;
    unsigned d = distance(k, other);
    return d == 0 ? c->peer_latency : d == 1 ? c->far_latency : c->far_latency + c->remote_latency;
}

/* The nearest core that has the line, or the one that has it for itself. */
static struct core *holder(struct core *k, u64 line, unsigned *state)
{
    struct core *best = NULL;
    *state = 0;
    for (unsigned i = 0; i < k->slow->cores; i++) {
        struct core *other = &k->slow->core[i];
        struct line *l = other == k ? NULL : line_find(&other->l2, line);
        if (!l)
            continue;
        if (l->state != SHARED) {
            *state = l->state;
            return other;
        }
        *state = SHARED;
        if (!best || distance(k, other) < distance(k, best))
            best = other;
    }
    return best;
}

static void tell_others(struct core *k, u64 line, unsigned state)
{
    for (unsigned i = 0; i < k->slow->cores; i++) {
        struct core *other = &k->slow->core[i];
        if (other == k || !line_find(&other->l2, line))
            continue;
        if (state) {
            line_find(&other->l2, line)->state = state;
            if (line_find(&other->l1, line))
                line_find(&other->l1, line)->state = state;
            continue;
        }
        line_remove(&other->l1, line);
        line_remove(&other->l2, line);
        other->counts.invalidated++;
    }
}

static u64 beyond(struct core *k, u64 line, u64 t, bool write, unsigned *state, uarch_result *r)
{
    unsigned theirs;
    struct core *other = holder(k, line, &theirs);
    *state = write ? MODIFIED : other ? SHARED : EXCLUSIVE;
    t = serve(&k->mesh_server, t);
    if (!other)
        return from_memory(k, line, t, r);
    if (theirs == SHARED && line_find(&k->slow->llc, line)) {
        t = from_memory(k, line, t, r);
    } else {
        static const unsigned levels[3] = {SPEX_UARCH_PEER, SPEX_UARCH_FAR, SPEX_UARCH_REMOTE};
        u64 asked = t, flags = SPEX_UARCH_SNOOPED;
        if (theirs != SHARED) {
            other->left = line;
            other->left_came = line_find(&other->l2, line)->ready;
            other->left_at = t = max(t, other->left_came + k->slow->c.lease);
        }
        if (distance(k, other) == 2) {
            t = serve(&k->slow->link, t);
            flags |= SPEX_UARCH_SOCKET;
        }
        if (theirs == MODIFIED)
            flags |= SPEX_UARCH_MODIFIED;
        t += core_latency(k, other);
        *r = result_of(levels[distance(k, other)], t - asked, flags);
        k->counts.snoop++;
        k->counts.snoop_modified += theirs == MODIFIED;
    }
    if (theirs == MODIFIED && !write)
        llc_put(k, line, true, t);
    if (write || theirs != SHARED)
        tell_others(k, line, write ? 0 : SHARED);
    return t;
}

/* ---- level 2 and level 1 ---- */

static void prefetch_l1(struct core *k, u64 pc, u64 va, u64 t);
static void prefetch_l2(struct core *k, u64 line, u64 t, bool missed);

static unsigned first_free(const u64 *misses, unsigned count)
{
    unsigned best = 0;
    for (unsigned i = 1; i < count; i++)
        if (misses[i] < misses[best])
            best = i;
    return best;
}

static void l2_put(struct core *k, u64 line, unsigned state, bool ahead, u64 ready)
{
    struct line victim;
    if (line_add(&k->l2,
                 (struct line){.line = line, .state = state, .ahead = ahead, .ready = ready},
                 &victim)) {
        line_remove(&k->l1, victim.line);
        if (victim.state == MODIFIED)
            llc_put(k, victim.line, true, serve(&k->slow->llc_server, ready));
    }
}

static u64 upgrade(struct core *k, u64 line, u64 t, unsigned level, uarch_result *r)
{
    unsigned state;
    struct core *other = holder(k, line, &state);
    line_find(&k->l2, line)->state = MODIFIED;
    if (line_find(&k->l1, line))
        line_find(&k->l1, line)->state = MODIFIED;
    if (!other)
        return t;
    tell_others(k, line, 0);
    k->counts.upgrade++;
    *r = result_of(level, core_latency(k, other),
                   SPEX_UARCH_UPGRADE | (distance(k, other) == 2 ? SPEX_UARCH_SOCKET : 0));
    return t + core_latency(k, other);
}

static u64 l2_ask(struct core *k, u64 line, u64 t, bool write, bool demand, unsigned *state,
                  uarch_result *r)
{
    const struct uarch_config *c = &k->slow->c;
    u64 asked = t;
    t = serve(&k->l2_server, t);
    struct line *l = line_use(&k->l2, line);
    if (l) {
        bool first = l->ahead;
        l->ahead = false;
        t = max(t + c->l2_latency, l->ready);
        *r = result_of(SPEX_UARCH_L2, t - asked, 0);
        if (write && l->state == SHARED)
            t = upgrade(k, line, t, SPEX_UARCH_L2, r);
        else if (write)
            l->state = MODIFIED;
        *state = line_find(&k->l2, line)->state;
        *r = result_of(*r & 15, t - asked, *r & 0xfff0);
        if (first) {
            k->counts.prefetch_used++;
            prefetch_l2(k, line, asked, false);
        }
        return t;
    }
    unsigned m = first_free(k->misses2, c->l2_misses);
    t = max(t, k->misses2[m]);
    t = beyond(k, line, t, write, state, r);
    k->misses2[m] = t;
    *r = result_of(*r & 15, t - asked, *r & 0xfff0);
    l2_put(k, line, *state, false, t);
    if (demand) {
        k->counts.l2_miss++;
        k->counts.llc_access++;
        k->counts.llc_miss += (*r & 15) > SPEX_UARCH_LLC;
    }
    prefetch_l2(k, line, asked, true);
    return t;
}

static void l1_put(struct core *k, u64 line, unsigned state, bool ahead, u64 ready, uarch_result r)
{
    struct line unused;
    line_add(
        &k->l1,
        (struct line){.line = line, .state = state, .ahead = ahead, .ready = ready, .from = r & 15},
        &unused);
}

static u64 l1_miss(struct core *k, u64 va, u64 t, bool write, u64 pc, uarch_result *r,
                   u64 *accepted)
{
    u64 line = va / 64 * 64;
    unsigned state, m = first_free(k->misses1, k->slow->c.l1d_misses);
    *accepted = max(t, k->misses1[m]);
    u64 done = l2_ask(k, line, *accepted, write, true, &state, r);
    k->misses1[m] = done;
    k->counts.l1_miss++;
    l1_put(k, line, state, false, done, *r);
    *r = result_of(*r & 15, done - t, *r & 0xfff0);
    if (line == k->stream_line)
        k->stream_line = 0;
    prefetch_l1(k, pc, va, t);
    return done;
}

/* First use of a line that was fetched ahead. */
static void used_ahead(struct core *k, struct line *l, u64 va, u64 t, u64 pc)
{
    l->ahead = false;
    k->counts.prefetch_used++;
    k->counts.prefetch_late += l->ready > t + k->slow->c.l1d_latency;
    prefetch_l1(k, pc, va, t);
}

static u64 read_line(struct core *k, u64 va, u64 t, u64 pc, uarch_result *r)
{
    struct line *l = line_use(&k->l1, va / 64 * 64);
    u64 unused, done = t + k->slow->c.l1d_latency;
    *r = 0;
    if (!l)
        return l1_miss(k, va, t, false, pc, r, &unused);
    u64 ready = l->ready;
    unsigned from = l->from;
    if (l->ahead)
        used_ahead(k, l, va, t, pc);
    if (ready > done) {
        *r = result_of(SPEX_UARCH_L1, ready - t, SPEX_UARCH_RECENT | (u64)from << 13);
        return ready;
    }
    return done;
}

static u64 own_line(struct core *k, u64 va, u64 t, u64 pc, uarch_result *r, u64 *accepted)
{
    u64 line = va / 64 * 64;
    struct line *l = line_use(&k->l1, line);
    *r = 0;
    *accepted = t;
    if (!l)
        return l1_miss(k, va, t, true, pc, r, accepted);
    u64 done = max(t, l->ready);
    if (l->state == SHARED)
        done = upgrade(k, line, done, SPEX_UARCH_L1, r);
    l->state = MODIFIED;
    line_find(&k->l2, line)->state = MODIFIED;
    if (l->ahead)
        used_ahead(k, l, va, t, pc);
    return done;
}

/* ---- prefetchers ---- */

static void ahead(struct core *k, u64 line, u64 t, unsigned level)
{
    const struct uarch_config *c = &k->slow->c;
    unsigned m1 = first_free(k->misses1, c->l1d_misses), m2 = first_free(k->misses2, c->l2_misses);
    struct line *in_l2 = line_find(&k->l2, line);
    uarch_result r;
    unsigned state;
    if (level == 1 && (line_find(&k->l1, line) || k->misses1[m1] > t))
        return;
    if (level == 2 && in_l2)
        return;
    if (!in_l2) {
        if (k->misses2[m2] > t || (holder(k, line, &state) && state != SHARED))
            return;
    }
    k->counts.prefetch++;
    if (level == 1) {
        u64 done = l2_ask(k, line, t, false, false, &state, &r);
        k->misses1[m1] = done;
        l1_put(k, line, state, true, done, r);
    } else {
        u64 done = beyond(k, line, t, false, &state, &r);
        k->misses2[m2] = done;
        l2_put(k, line, state, true, done);
    }
}

static void ahead_l1(struct core *k, u64 va, u64 t)
{
    if (va < 1ull << 47 && translated(k, va))
        ahead(k, va / 64 * 64, t, 1);
}

/* The direction of a run that this line continues for the second time or more, 0 if there is
 * none; all_of: it is exactly the second, or the first in its page. */
static int follow(struct stream *all, unsigned count, u64 *tick, u64 line, u64 page, bool *all_of)
{
    struct stream *oldest = all;
    ++*tick;
    for (unsigned i = 0; i < count; i++) {
        struct stream *s = &all[i];
        int64_t step = (int64_t)(line - s->line);
        if (s->used < oldest->used)
            oldest = s;
        if (s->line && (step == 1 || step == -1) && (!s->direction || s->direction == step)) {
            s->confidence += s->confidence < 3;
            *all_of = s->confidence == 2 || line / page != s->line / page;
            s->direction = (int)step;
            s->line = line;
            s->used = *tick;
            return s->confidence >= 2 ? s->direction : 0;
        }
    }
    *oldest = (struct stream){.line = line, .used = *tick};
    return 0;
}

static void spatial(struct core *k, u64 pc, u64 va, u64 t)
{
    u64 region = va / 2048;
    unsigned line = va / 64 % 32;
    struct region *oldest = k->region;
    ++k->tick3;
    for (unsigned i = 0; i < 16; i++) {
        if (k->region[i].region == region + 1) {
            k->region[i].seen |= 1u << line;
            k->region[i].used = k->tick3;
            return;
        }
        if (k->region[i].used < oldest->used)
            oldest = &k->region[i];
    }
    unsigned entries = k->slow->c.pf_spatial;
    if (oldest->region) {
        k->footprint[oldest->key % entries].key = oldest->key;
        k->footprint[oldest->key % entries].seen = oldest->seen;
    }
    u64 key = pc / 4 * 32 + line;
    *oldest = (struct region){region + 1, key, k->tick3, 1u << line};
    if (k->footprint[key % entries].key != key)
        return;
    unsigned seen = k->footprint[key % entries].seen;
    for (unsigned i = 0; i < 32; i++)
        if (seen & 1u << i && i != line)
            ahead(k, region * 2048 + i * 64, t, 2);
}

static void prefetch_l1(struct core *k, u64 pc, u64 va, u64 t)
{
    const struct uarch_config *c = &k->slow->c;
    bool whole = false;
    if (c->pf_stride) {
        __typeof__(k->stride[0]) *s = &k->stride[pc / 4 % c->pf_stride];
        int64_t step = (int64_t)(va - s->last);
        if (s->pc != pc) {
            s->pc = pc;
            s->stride = 0;
            s->confidence = 0;
        } else if (step == 0 || step != s->stride) {
            s->stride = step;
            s->confidence = 0;
        } else {
            s->confidence += s->confidence < 3;
            bool enters = va / c->page_size != s->last / c->page_size;
            unsigned first = s->confidence == 2 || enters ? 1 : c->pf_stride_ahead;
            s->last = va;
            if (s->confidence >= 2)
                for (unsigned n = first; n <= c->pf_stride_ahead; n++)
                    ahead_l1(k, va + (u64)step * n, t);
        }
        s->last = va;
    }
    if (c->pf_stream) {
        int direction =
            follow(k->l1_streams, c->pf_stream, &k->tick1, va / 64, c->page_size / 64, &whole);
        for (unsigned n = whole ? 1 : c->pf_stream_ahead; direction && n <= c->pf_stream_ahead; n++)
            ahead_l1(k, (va / 64 + (u64)((int64_t)direction * n)) * 64, t);
    }
    if (c->pf_spatial)
        spatial(k, pc, va, t);
}

static void prefetch_l2(struct core *k, u64 address, u64 t, bool missed)
{
    const struct uarch_config *c = &k->slow->c;
    u64 line = address / 64, page = c->page_size / 64;
    bool whole = false;
    for (unsigned n = 1; missed && n <= c->pf_next; n++)
        if ((line + n) / page == line / page)
            ahead(k, (line + n) * 64, t, 2);
    if (!c->pf_l2)
        return;
    int direction = follow(k->l2_streams, c->pf_l2, &k->tick2, line, page, &whole);
    for (unsigned n = whole ? 1 : c->pf_l2_ahead; direction && n <= c->pf_l2_ahead; n++) {
        u64 to = line + (u64)((int64_t)direction * n);
        if (to / page == line / page)
            ahead(k, to * 64, t, 2);
    }
}

#include "uarch/slow_predict.h"

#include "uarch/slow_pipe.h"
