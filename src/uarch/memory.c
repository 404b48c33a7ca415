/* The data side of the full model: caches, coherence, memory, and what each line costs. */
#include <string.h>

#include "uarch/account.h"

/* ---- what is limited ---- */

uint64_t timing_serve(struct timing_server *server, uint64_t t)
{
    for (uint64_t b = t >> TIMING_BUCKET;; b++) {
        uint64_t *bucket = &server->bucket[b % TIMING_BUCKETS];
        if (*bucket >> 16 != b)
            *bucket = b << 16;
        if ((*bucket & 0xffff) < server->lines) {
            ++*bucket;
            uint64_t start = b << TIMING_BUCKET;
            return start > t ? start : t;
        }
    }
}

uint32_t timing_load(const struct timing_server *server, uint64_t t)
{
    uint64_t b = t >> TIMING_BUCKET;
    uint32_t lines = 0;
    for (uint64_t i = TIMING_AGO; i < 2 * TIMING_AGO && i <= b; i++) {
        uint64_t bucket = server->bucket[(b - i) % TIMING_BUCKETS];
        lines += bucket >> 16 == b - i ? (uint32_t)(bucket & 0xffff) : 0;
    }
    return lines;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uarch_result make(enum uarch_level level, uint64_t latency, uint64_t flags)
{
    return (uint64_t)level | flags | (latency > 0xffff ? 0xffff : latency) << 16;
}

static uarch_result with_latency(uarch_result r, uint64_t latency)
{
    return make(uarch_result_level(r), latency, r & 0xfff0);
}

/* ---- private caches ---- */

enum { NONE = -1 };

static int32_t find(const struct timing_cache *cache, uint64_t line)
{
    uint32_t first = ((uint32_t)(line >> UARCH_LINE) & cache->mask) * cache->ways;
    for (uint32_t i = first; i < first + cache->ways; i++)
        if ((cache->tag[i] ^ line) < 64 && cache->tag[i])
            return (int32_t)i;
    return NONE;
}

static void touch(struct timing_cache *cache, int32_t i)
{
    if (++cache->tick == 0)
        memset(cache->used, 0, (size_t)(cache->mask + 1) * cache->ways * sizeof *cache->used);
    cache->used[i] = cache->tick;
}

/* The way for a new line: a free one, or the least recently used. */
static int32_t place(struct timing_cache *cache, uint64_t line)
{
    uint32_t first = ((uint32_t)(line >> UARCH_LINE) & cache->mask) * cache->ways, best = first;
    for (uint32_t i = first; i < first + cache->ways; i++) {
        if (!cache->tag[i])
            return (int32_t)i;
        if (cache->used[i] < cache->used[best])
            best = i;
    }
    return (int32_t)best;
}

static void put(struct timing_cache *cache, int32_t i, uint64_t word, uint64_t ready)
{
    cache->tag[i] = word;
    cache->ready[i] = ready;
    touch(cache, i);
}

static void set_state(struct timing_cache *cache, uint64_t line, unsigned state)
{
    int32_t i = find(cache, line);
    if (i != NONE)
        cache->tag[i] = state ? (cache->tag[i] & ~(uint64_t)TIMING_STATE) | state : 0;
}

/* ---- last level cache and memory ---- */

static bool is_remote(struct timing_core *core, uint64_t line)
{
    struct timing *s = core->timing;
    return s->config.sockets == 2 &&
           uarch_home(&s->homes, line >> s->page_shift, core->socket) != core->socket;
}

/*
 * True if the line was there. Afterwards it is the most recent of its set, unless it was missing
 * and insert is false. A modified victim goes to memory; *written is when memory took it.
 */
static bool llc_touch(struct timing_core *core, uint64_t line, bool insert, bool dirty, uint64_t t,
                      uint64_t *written)
{
    struct timing *s = core->timing;
    unsigned ways = s->config.llc_ways, i = 0;
    uint64_t *way = &s->llc[((line >> UARCH_LINE) & s->llc_mask) * ways];
    while (i < ways - 1 && way[i] && (way[i] & ~2ull) != (line | 1))
        i++;
    bool hit = (way[i] & ~2ull) == (line | 1);
    if (!hit && !insert)
        return false;
    if (!hit && way[i] & 2) {
        uint64_t victim = way[i] & ~63ull;
        unsigned home = is_remote(core, victim) ? !core->socket : core->socket;
        *written = timing_serve(&s->dram[home], t);
    }
    uint64_t word = line | 1 | (hit ? way[i] & 2 : 0) | (dirty ? 2 : 0);
    memmove(way + 1, way, i * sizeof *way);
    way[0] = word;
    return hit;
}

/* ---- other cores ---- */

struct holders {
    uint32_t count;
    struct timing_core *nearest;
    struct timing_core *owner; /* the core that has the line modified or exclusive */
    bool modified;
};

static unsigned distance(const struct timing_core *a, const struct timing_core *b)
{
    return a->cluster == b->cluster ? 0 : a->socket == b->socket ? 1 : 2;
}

static uint64_t *near_of(const struct timing *s, uint64_t line)
{
    return &s->near[(line >> UARCH_LINE) * 0x9e3779b97f4a7c15ull >> 48 & (TIMING_NEAR - 1)];
}

/* Has each core the line to itself? */
static bool unshared(const struct timing *s, uint64_t line)
{
    return s->ideal.kinds & SPEX_IDEAL_SHARE && timing_ideal_at(&s->ideal, line) & SPEX_IDEAL_SHARE;
}

static struct holders holders_of(struct timing_core *core, uint64_t line)
{
    struct timing *s = core->timing;
    struct holders h = {0};
    if (unshared(s, line))
        return h;
    uint64_t mask = s->core_count > 1 ? *near_of(s, line) : 0;
    if (!(mask & ~(1ull << core->id % 64)) && s->core_count <= 64)
        return h;
    for (uint32_t c = 0; c < s->core_count; c++) {
        struct timing_core *other = s->core[c];
        int32_t i;
        if (other == core || !(mask >> c % 64 & 1) || (i = find(&other->l2, line)) == NONE)
            continue;
        unsigned state = other->l2.tag[i] & TIMING_STATE;
        h.count++;
        if (!h.nearest || distance(core, other) < distance(core, h.nearest))
            h.nearest = other;
        if (state != UARCH_SHARED) {
            h.owner = other;
            h.modified = state == UARCH_MODIFIED;
        }
    }
    return h;
}

/* state 0: the other cores lose the line. */
static void change_others(struct timing_core *core, uint64_t line, unsigned state)
{
    struct timing *s = core->timing;
    uint64_t mask = unshared(s, line) ? 0 : *near_of(s, line);
    for (uint32_t c = 0; c < s->core_count; c++) {
        struct timing_core *other = s->core[c];
        if (other == core || !(mask >> c % 64 & 1) || find(&other->l2, line) == NONE)
            continue;
        set_state(&other->l1, line, state);
        set_state(&other->l2, line, state);
        if (!state)
            other->counts.invalidated++;
    }
}

static uint64_t core_latency(const struct timing_core *core, const struct timing_core *other,
                             enum uarch_level *level)
{
    const struct uarch_config *c = core->c;
    static const enum uarch_level levels[3] = {SPEX_UARCH_PEER, SPEX_UARCH_FAR, SPEX_UARCH_REMOTE};
    unsigned d = distance(core, other);
    *level = levels[d];
    return d == 0 ? c->peer_latency : c->far_latency + (d == 2 ? c->remote_latency : 0);
}

/* Gets the line from another core, asked for at t. */
static uint64_t from_core(struct timing_core *core, struct timing_core *other, uint64_t line,
                          uint64_t t, uint64_t flags, uarch_result *result)
{
    enum uarch_level level;
    uint64_t latency = core_latency(core, other, &level), asked = t;
    int32_t i = find(&other->l2, line);
    if (other->l2.tag[i] & 2) { /* exclusive or modified: the owner keeps it for a moment */
        t = later(t, (core->timing->apart ? t : other->l2.ready[i]) + core->c->lease);
        other->leaving.line = line;
        other->leaving.ready = other->l2.ready[i];
        other->leaving.gone = core->timing->apart ? 0 : t;
    }
    if (level == SPEX_UARCH_REMOTE) {
        t = timing_serve(&core->timing->link, t);
        flags |= SPEX_UARCH_SOCKET;
    }
    core->counts.snoop++;
    core->counts.snoop_modified += flags & SPEX_UARCH_MODIFIED ? 1 : 0;
    *result = make(level, t + latency - asked, flags | SPEX_UARCH_SNOOPED);
    return t + latency;
}

/* Gets the line from the last level or from memory. */
static uint64_t from_memory(struct timing_core *core, uint64_t line, uint64_t t,
                            uarch_result *result)
{
    struct timing *s = core->timing;
    const struct uarch_config *c = &s->config;
    uint64_t asked = t, written, latency = 0, flags = 0;
    bool remote = is_remote(core, line);
    t = timing_serve(&s->llc_server, t);
    if (remote) {
        t = timing_serve(&s->link, t);
        latency = c->remote_latency;
        flags = SPEX_UARCH_SOCKET;
    }
    enum uarch_level level = remote ? SPEX_UARCH_REMOTE : SPEX_UARCH_LLC;
    if (llc_touch(core, line, true, false, t, &written)) {
        t += c->llc_latency + latency;
    } else {
        struct timing_server *dram = &s->dram[remote ? !core->socket : core->socket];
        t = timing_serve(dram, t);
        uint64_t u = timing_load(dram, t), all = (uint64_t)dram->lines * TIMING_AGO;
        if (u > all - (all + 15) / 16)
            u = all - (all + 15) / 16;
        t += c->dram_latency + latency + c->dram_queue * u / (2 * (all - u));
        level = SPEX_UARCH_DRAM;
    }
    *result = make(level, t - asked, flags);
    return t;
}

/* Gets a line that level 2 does not have. Sets how it may be kept. */
static uint64_t beyond(struct timing_core *core, uint64_t line, uint64_t t, bool write,
                       unsigned *state, uarch_result *result)
{
    struct holders h = holders_of(core, line);
    uint64_t unused;
    *state = write ? UARCH_MODIFIED : h.count ? UARCH_SHARED : UARCH_EXCLUSIVE;
    t = timing_serve(&core->mesh_server, t);
    if (!h.count)
        return from_memory(core, line, t, result);
    if (h.owner)
        t = from_core(core, h.owner, line, t, h.modified ? SPEX_UARCH_MODIFIED : 0, result);
    else if (llc_touch(core, line, false, false, t, &unused))
        t = from_memory(core, line, t, result);
    else
        t = from_core(core, h.nearest, line, t, 0, result);
    if (h.modified && !write)
        llc_touch(core, line, true, true, t, &unused);
    if (write || h.owner)
        change_others(core, line, write ? 0 : UARCH_SHARED);
    return t;
}

/* ---- level 2 ---- */

static void l2_fill(struct timing_core *core, uint64_t line, uint64_t flags, uint64_t ready)
{
    int32_t i = place(&core->l2, line);
    uint64_t victim = core->l2.tag[i];
    if (victim) {
        set_state(&core->l1, victim & ~63ull, 0);
        if ((victim & TIMING_STATE) == UARCH_MODIFIED) {
            uint64_t unused, t = timing_serve(&core->timing->llc_server, ready);
            llc_touch(core, victim & ~63ull, true, true, t, &unused);
        }
    }
    put(&core->l2, i, line | flags, ready);
    *near_of(core->timing, line) |= 1ull << core->id % 64;
}

/* Handles a write to a line that this core shares with others. */
static uint64_t upgrade(struct timing_core *core, uint64_t line, uint64_t t, enum uarch_level level,
                        uarch_result *result)
{
    struct holders h = holders_of(core, line);
    set_state(&core->l1, line, UARCH_MODIFIED);
    set_state(&core->l2, line, UARCH_MODIFIED);
    if (!h.count)
        return t;
    enum uarch_level from;
    uint64_t latency = core_latency(core, h.nearest, &from);
    change_others(core, line, 0);
    core->counts.upgrade++;
    *result = make(level, latency,
                   SPEX_UARCH_UPGRADE | (from == SPEX_UARCH_REMOTE ? SPEX_UARCH_SOCKET : 0));
    return t + latency;
}

enum who { DEMAND, AHEAD, CODE };

/* A request to level 2 at t. Sets how level 1 may keep the line. */
static uint64_t l2_request(struct timing_core *core, uint64_t line, uint64_t t, bool write,
                           enum who who, unsigned *state, uarch_result *result)
{
    struct timing_cache *l2 = &core->l2;
    uint64_t asked = t;
    t = timing_serve(&core->l2_server, t);
    int32_t i = find(l2, line);
    if (i != NONE) {
        bool first = l2->tag[i] & TIMING_PREFETCHED;
        l2->tag[i] &= ~(uint64_t)TIMING_PREFETCHED;
        touch(l2, i);
        t = later(t + core->c->l2_latency, l2->ready[i]);
        *result = make(SPEX_UARCH_L2, t - asked, 0);
        if (write && (l2->tag[i] & TIMING_STATE) == UARCH_SHARED)
            t = upgrade(core, line, t, SPEX_UARCH_L2, result);
        else if (write)
            l2->tag[i] |= UARCH_MODIFIED;
        *state = l2->tag[i] & TIMING_STATE;
        *result = with_latency(*result, t - asked);
        if (first) {
            core->counts.prefetch_used++;
            timing_prefetch_l2(core, line, asked, false);
        }
        return t;
    }
    t = later(t, core->l2_misses.free[0]);
    t = beyond(core, line, t, write, state, result);
    timing_take(&core->l2_misses, t);
    *result = with_latency(*result, t - asked);
    l2_fill(core, line, *state, t);
    if (who == DEMAND) {
        core->counts.l2_miss++;
        core->counts.llc_access++;
        core->counts.llc_miss += uarch_result_level(*result) > SPEX_UARCH_LLC;
    }
    timing_prefetch_l2(core, line, asked, true);
    return t;
}

/* ---- level 1 ---- */

/* The line at i was used: swaps it with the first of its set. Returns where it is now. */
static int32_t l1_use(struct timing_cache *l1, uint64_t line, int32_t i)
{
    int32_t first = (int32_t)(((uint32_t)(line >> UARCH_LINE) & l1->mask) * l1->ways);
    touch(l1, i);
    if (i == first)
        return i;
    uint64_t tag = l1->tag[i], ready = l1->ready[i];
    uint32_t used = l1->used[i];
    uint8_t from = l1->from[i];
    l1->tag[i] = l1->tag[first];
    l1->ready[i] = l1->ready[first];
    l1->used[i] = l1->used[first];
    l1->from[i] = l1->from[first];
    l1->tag[first] = tag;
    l1->ready[first] = ready;
    l1->used[first] = used;
    l1->from[first] = from;
    return first;
}

static void l1_fill(struct timing_core *core, uint64_t line, uint64_t flags, uint64_t ready,
                    uarch_result result)
{
    int32_t i = place(&core->l1, line);
    core->l1.tag[i] = line | flags | TIMING_PENDING;
    core->l1.ready[i] = ready;
    core->l1.from[i] = (uint8_t)uarch_result_level(result);
    l1_use(&core->l1, line, i);
}

/*
 * A hit on a line that may be on its way, or was prefetched: true if the prefetchers learn from it.
 */
static bool l1_arrival(struct timing_core *core, int32_t i, uint64_t t)
{
    struct timing_cache *l1 = &core->l1;
    uint64_t flags = l1->tag[i], ready = l1->ready[i];
    if (ready <= core->dispatch >> 16) /* later requests never ask before this */
        l1->tag[i] &= ~(uint64_t)TIMING_PENDING;
    if (!(flags & TIMING_PREFETCHED))
        return false;
    l1->tag[i] &= ~(uint64_t)TIMING_PREFETCHED;
    core->counts.prefetch_used++;
    core->counts.prefetch_late += ready > t + core->c->l1d_latency;
    return true;
}

/* *asked: when a miss register was free. */
static uint64_t l1_miss(struct timing_core *core, uint64_t va, uint64_t t, bool write, uint64_t pc,
                        uarch_result *result, uint64_t *asked)
{
    uint64_t line = va & ~63ull;
    unsigned state;
    *asked = later(t, core->l1_misses.free[0]);
    uint64_t done = l2_request(core, line, *asked, write, DEMAND, &state, result);
    timing_take(&core->l1_misses, done);
    core->counts.l1_miss++;
    l1_fill(core, line, state, done, *result);
    *result = with_latency(*result, done - t);
    if (line == core->stream_line)
        core->stream_line = 0;
    timing_prefetch_l1(core, pc, va, t);
    return done;
}

uint64_t timing_memory_load(struct timing_core *core, uint64_t va, uint64_t t, uint64_t pc,
                            uarch_result *result)
{
    int32_t i = find(&core->l1, va & ~63ull);
    uint64_t done = t + core->c->l1d_latency, asked;
    if (i == NONE)
        return l1_miss(core, va, t, false, pc, result, &asked);
    *result = 0;
    i = l1_use(&core->l1, va & ~63ull, i);
    if (core->l1.tag[i] & (TIMING_PENDING | TIMING_PREFETCHED)) {
        uint64_t ready = core->l1.ready[i];
        if (ready > done) {
            done = ready;
            *result =
                make(SPEX_UARCH_L1, done - t, SPEX_UARCH_RECENT | (uint64_t)core->l1.from[i] << 13);
        }
        if (l1_arrival(core, i, t))
            timing_prefetch_l1(core, pc, va, t);
    }
    return done;
}

unsigned timing_memory_first(struct timing_core *core, uint64_t va)
{
    uint64_t line = va & ~63ull;
    int32_t i = find(&core->l1, line);
    if (i == NONE || core->l1.tag[i] & (TIMING_PENDING | TIMING_PREFETCHED))
        return 0;
    return core->l1.tag[l1_use(&core->l1, line, i)] & TIMING_STATE;
}

uint64_t timing_memory_own(struct timing_core *core, uint64_t va, uint64_t t, uint64_t pc,
                           uarch_result *result, uint64_t *accepted)
{
    uint64_t line = va & ~63ull, done = t;
    int32_t i = find(&core->l1, line);
    *accepted = t;
    *result = 0;
    if (i == NONE)
        return l1_miss(core, va, t, true, pc, result, accepted);
    i = l1_use(&core->l1, line, i);
    bool learn = false;
    if (core->l1.tag[i] & (TIMING_PENDING | TIMING_PREFETCHED)) {
        done = later(done, core->l1.ready[i]);
        learn = l1_arrival(core, i, t);
    }
    switch (core->l1.tag[i] & TIMING_STATE) {
    case UARCH_SHARED:
        done = upgrade(core, line, done, SPEX_UARCH_L1, result);
        break;
    case UARCH_EXCLUSIVE:
        core->l1.tag[i] |= UARCH_MODIFIED;
        set_state(&core->l2, line, UARCH_MODIFIED);
        break;
    }
    if (learn)
        timing_prefetch_l1(core, pc, va, t);
    return done;
}

bool timing_memory_present(const struct timing_core *core, uint64_t line)
{
    return find(&core->l1, line) != NONE;
}

bool timing_memory_in_l2(const struct timing_core *core, uint64_t line)
{
    return find(&core->l2, line) != NONE;
}

uint64_t timing_memory_stream(struct timing_core *core, uint64_t line, uint64_t t,
                              uarch_result *result)
{
    struct timing *s = core->timing;
    if (core->stream_lines < core->c->streaming_far) {
        if (holders_of(core, line).count)
            change_others(core, line, 0);
        core->counts.l1_miss++;
        core->counts.streamed++;
        l2_fill(core, line, UARCH_MODIFIED, t);
        *result = make(SPEX_UARCH_L2, 0, 0);
        return t;
    }
    uint64_t asked = later(t, core->l1_misses.free[0]), written = 0;
    uint64_t done = timing_serve(&s->llc_server, asked);
    if (holders_of(core, line).count)
        change_others(core, line, 0);
    bool remote = is_remote(core, line);
    bool hit = llc_touch(core, line, true, true, done, &written);
    done = later(done, written);
    timing_take(&core->l1_misses, done);
    core->counts.l1_miss++;
    core->counts.l2_miss++;
    core->counts.llc_access++;
    core->counts.llc_miss += !hit;
    core->counts.streamed++;
    *result = make(remote && hit ? SPEX_UARCH_REMOTE
                   : hit         ? SPEX_UARCH_LLC
                                 : SPEX_UARCH_DRAM,
                   done - t, remote ? SPEX_UARCH_SOCKET : 0);
    return done;
}

uint64_t timing_memory_code(struct timing_core *core, uint64_t line, uint64_t t)
{
    uarch_result unused;
    unsigned state;
    core->counts.code_miss++;
    t = timing_serve(&core->code_server, t);
    return l2_request(core, line, t, false, CODE, &state, &unused);
}

void timing_memory_prefetch(struct timing_core *core, uint64_t line, uint64_t t, unsigned level)
{
    if (level == 1 && find(&core->l1, line) != NONE)
        return;
    bool in_l2 = find(&core->l2, line) != NONE;
    if (level == 2 && in_l2)
        return;
    if (level == 1 && core->l1_misses.free[0] > t)
        return;
    if (!in_l2 && (core->l2_misses.free[0] > t || holders_of(core, line).owner))
        return;
    uarch_result result;
    unsigned state;
    core->counts.prefetch++;
    if (level == 1) {
        uint64_t done = l2_request(core, line, t, false, AHEAD, &state, &result);
        timing_take(&core->l1_misses, done);
        l1_fill(core, line, state | TIMING_PREFETCHED, done, result);
        return;
    }
    uint64_t done = beyond(core, line, t, false, &state, &result);
    timing_take(&core->l2_misses, done);
    l2_fill(core, line, state | TIMING_PREFETCHED, done);
}

uint64_t timing_memory_hint(struct timing_core *core, uint64_t line, uint64_t t, unsigned hint)
{
    unsigned level = hint & SPEX_PREFETCH_LEVEL, state;
    struct timing_registers *misses = level == 1 ? &core->l1_misses : &core->l2_misses;
    uint64_t done, unused;
    uarch_result result;
    if (!level || find(level == 1 ? &core->l1 : &core->l2, line) != NONE)
        return t;
    if (level == 3 &&
        (holders_of(core, line).count || llc_touch(core, line, false, false, t, &unused)))
        return t;
    t = later(t, misses->free[0]);
    core->counts.prefetch++;
    if (level == 3)
        done = from_memory(core, line, t, &result);
    else
        done = l2_request(core, line, t, hint & SPEX_PREFETCH_WRITE, AHEAD, &state, &result);
    if (level == 1) {
        l1_fill(core, line, state | TIMING_PREFETCHED, done, result);
        core->stream_line = line == core->stream_line ? 0 : core->stream_line;
    }
    if (level != 2) /* level 2 has reserved the register itself */
        timing_take(misses, done);
    return t;
}

void timing_memory_there(struct timing_core *core, uint64_t va, uint64_t t, bool write)
{
    uint64_t line = va & ~63ull, unused;
    int32_t i = find(&core->l1, line), second = find(&core->l2, line);
    unsigned state = second == NONE ? 0 : core->l2.tag[second] & TIMING_STATE;
    if (!state || (write && state == UARCH_SHARED)) {
        struct holders h = holders_of(core, line);
        if (h.modified && !write)
            llc_touch(core, line, true, true, t, &unused);
        if (h.count && (write || h.owner))
            change_others(core, line, write ? 0 : UARCH_SHARED);
        state = h.count ? UARCH_SHARED : UARCH_EXCLUSIVE;
    }
    state = write ? UARCH_MODIFIED : state;
    if (second == NONE) {
        l2_fill(core, line, state, t);
    } else {
        core->l2.tag[second] = line | state;
        touch(&core->l2, second);
    }
    if (i == NONE)
        i = place(&core->l1, line);
    core->l1.tag[i] = line | state;
    core->l1.ready[i] = t;
    core->l1.from[i] = SPEX_UARCH_L1;
    l1_use(&core->l1, line, i);
}

void timing_memory_flush(struct timing_core *core)
{
    uint32_t lines = (core->l2.mask + 1) * core->l2.ways;
    uint64_t unused;
    for (uint32_t i = 0; i < lines; i++) {
        if ((core->l2.tag[i] & TIMING_STATE) == UARCH_MODIFIED)
            llc_touch(core, core->l2.tag[i] & ~63ull, true, true, core->retire, &unused);
        core->l2.tag[i] = 0;
    }
    memset(core->l1.tag, 0, (size_t)(core->l1.mask + 1) * core->l1.ways * sizeof *core->l1.tag);
}
