/*
 * Level 1, level 2, last level cache, directory and contended lines; the slow
 * path of data accesses.
 */
#include <assert.h>
#include <sched.h>
#include <string.h>

#include "uarch/uarch.h"

void uarch_lock(uint32_t *lock)
{
    for (unsigned spins = 0; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE); spins++)
        if (spins >= 64)
            sched_yield(); /* the lock's holder may be waiting for our host CPU */
}

void uarch_unlock(uint32_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static inline bool same_line(uint64_t word, uint64_t line)
{
    return (word ^ line) < 64;
}

/* ---- private caches ---- */

static inline unsigned l1_set(const struct uarch_core *core, uint64_t line)
{
    return (unsigned)(line >> UARCH_LINE) & (core->model->l1_sets - 1);
}

/* The line's word, made the most recent of its set, or NULL. */
static uint64_t *l1_find(struct uarch_core *core, uint64_t line)
{
    unsigned set = l1_set(core, line), rest = core->model->l1_rest;
    uint64_t *mru = &core->hot->mru[set];
    if (same_line(*mru, line))
        return mru;
    uint64_t *way = &core->l1[(size_t)set * rest];
    for (unsigned i = 0; i < rest; i++)
        if (same_line(way[i], line)) {
            uint64_t word = way[i];
            for (; i > 0; i--)
                way[i] = way[i - 1];
            way[0] = *mru;
            *mru = word;
            return mru;
        }
    return NULL;
}

static void l1_insert(struct uarch_core *core, uint64_t word)
{
    unsigned set = l1_set(core, word), rest = core->model->l1_rest, i;
    uint64_t *mru = &core->hot->mru[set];
    if (*mru != UARCH_INVALID && rest) {
        uint64_t *way = &core->l1[(size_t)set * rest];
        for (i = 0; i < rest - 1 && way[i] != UARCH_INVALID; i++)
            ;
        for (; i > 0; i--)
            way[i] = way[i - 1];
        way[0] = *mru;
    }
    *mru = word;
}

/* state 0 removes the line. */
static void l1_change(struct uarch_core *core, uint64_t line, unsigned state)
{
    unsigned set = l1_set(core, line), rest = core->model->l1_rest;
    uint64_t word = state ? line | state : UARCH_INVALID;
    if (same_line(core->hot->mru[set], line)) {
        core->hot->mru[set] = word;
        return;
    }
    uint64_t *way = &core->l1[(size_t)set * rest];
    for (unsigned i = 0; i < rest; i++)
        if (same_line(way[i], line))
            way[i] = word;
}

static inline uint64_t *l2_set(const struct uarch_core *core, uint64_t line)
{
    return &core->l2[((line >> UARCH_LINE) & core->model->l2_mask) * core->model->config.l2_ways];
}

/* The line's word, made the most recent of its set, or 0. */
static uint64_t l2_find(struct uarch_core *core, uint64_t line)
{
    uint64_t *way = l2_set(core, line);
    unsigned ways = core->model->config.l2_ways;
    for (unsigned i = 0; i < ways; i++)
        if (way[i] && same_line(way[i], line)) {
            uint64_t word = way[i];
            for (; i > 0; i--)
                way[i] = way[i - 1];
            return way[0] = word;
        }
    return 0;
}

/* Returns the victim's word or 0. */
static uint64_t l2_insert(struct uarch_core *core, uint64_t word)
{
    uint64_t *way = l2_set(core, word);
    unsigned ways = core->model->config.l2_ways, i;
    for (i = 0; i < ways - 1 && way[i]; i++)
        ;
    uint64_t victim = way[i];
    for (; i > 0; i--)
        way[i] = way[i - 1];
    way[0] = word;
    return victim;
}

static bool l2_change(struct uarch_core *core, uint64_t line, unsigned state)
{
    uint64_t *way = l2_set(core, line);
    unsigned ways = core->model->config.l2_ways;
    for (unsigned i = 0; i < ways; i++)
        if (way[i] && same_line(way[i], line)) {
            way[i] = state ? line | state : 0;
            return true;
        }
    return false;
}

static void private_change(struct uarch_core *core, uint64_t line, unsigned state)
{
    l1_change(core, line, state);
    if (l2_change(core, line, state) && !state)
        core->counts.invalidated++;
}

/* ---- mail ---- */

static void post(struct uarch_core *to, uint64_t line, enum uarch_message message)
{
    struct uarch_mail *mail = &to->mail;
    uarch_lock(&mail->lock);
    if (mail->count < mail->capacity)
        mail->box[mail->count++] = line | message;
    else
        mail->overflow = true;
    uarch_unlock(&mail->lock);
    __atomic_fetch_or(&to->hot->attention, SPEX_UARCH_ATT_MAIL, __ATOMIC_RELEASE);
}

static void post_all(struct uarch_core *from, uint64_t mask, uint64_t line,
                     enum uarch_message message)
{
    for (; mask; mask &= mask - 1) {
        struct uarch_core *to = from->model->bit[__builtin_ctzll(mask)];
        for (; to; to = to->same_bit)
            if (to != from)
                post(to, line, message);
    }
}

static void empty_private(struct uarch_core *core)
{
    const struct spex_uarch *model = core->model;
    for (unsigned i = 0; i < model->l1_sets; i++)
        core->hot->mru[i] = UARCH_INVALID;
    for (unsigned i = 0; i < model->l1_sets * model->l1_rest; i++)
        core->l1[i] = UARCH_INVALID;
    memset(core->l2, 0, model->config.l2_size >> UARCH_LINE << 3);
}

void uarch_drain(struct uarch_core *core)
{
    struct uarch_mail *mail = &core->mail;
    if (!(__atomic_load_n(&core->hot->attention, __ATOMIC_RELAXED) & SPEX_UARCH_ATT_MAIL))
        return;
    __atomic_fetch_and(&core->hot->attention, ~(uint32_t)SPEX_UARCH_ATT_MAIL, __ATOMIC_ACQUIRE);
    uarch_lock(&mail->lock);
    if (mail->overflow) {
        /* Cores beyond 64 share bits of the mask and may get more than they hold. */
        empty_private(core);
        mail->overflow = false;
    }
    for (uint32_t i = 0; i < mail->count; i++)
        private_change(core, mail->box[i] & ~63ull,
                       (mail->box[i] & 63) == UARCH_SHARE ? UARCH_SHARED : 0);
    mail->count = 0;
    uarch_unlock(&mail->lock);
}

/* ---- last level cache: words are line | 1, ways in order of use ---- */

static bool llc_touch(struct spex_uarch *model, uint64_t line, bool insert)
{
    unsigned ways = model->config.llc_ways, i;
    uint64_t *way = &model->llc[((line >> UARCH_LINE) & model->llc_mask) * ways];
    if (way[0] == (line | 1))
        return true;
    for (i = 1; i < ways - 1 && way[i] && way[i] != (line | 1); i++)
        ;
    bool hit = i < ways && way[i] == (line | 1);
    if (!hit && !insert)
        return false;
    if (i >= ways)
        i = ways - 1;
    memmove(way + 1, way, i * sizeof *way);
    way[0] = line | 1;
    return hit;
}

/* ---- directory ---- */

static uint64_t bit_of(const struct uarch_core *core)
{
    return 1ull << core->id % UARCH_BITS;
}

static bool coarse(const struct uarch_core *core)
{
    return core->same_bit || core->model->bit[core->id % UARCH_BITS] != core;
}

static void contended_free(struct spex_uarch *model, struct uarch_entry *entry)
{
    uint32_t index = entry->contended - 1;
    entry->contended = 0;
    entry->transfers = (uint8_t)(model->config.contend_after - 1); /* the next one counts */
    uarch_lock(&model->contended_lock);
    model->contended[index].next_free = model->contended_free;
    model->contended_free = index + 1;
    uarch_unlock(&model->contended_lock);
}

static struct uarch_entry *dir_find(struct spex_uarch *model, uint64_t line)
{
    size_t first = ((line >> UARCH_LINE) & model->dir_mask) * UARCH_DIR_WAYS;
    for (size_t i = first; i < first + UARCH_DIR_WAYS; i++)
        if (model->dir_tag[i] == (line | 1))
            return &model->dir[i];
    return NULL;
}

/* Makes a new entry; it may evict an old one, and with it all private copies of that line. */
static struct uarch_entry *dir_make(struct uarch_core *core, uint64_t line)
{
    struct spex_uarch *model = core->model;
    size_t first = ((line >> UARCH_LINE) & model->dir_mask) * UARCH_DIR_WAYS;
    struct uarch_stripe *stripe = &model->stripe[(line >> UARCH_LINE) & model->stripe_mask];
    size_t victim = first + stripe->rotor++ % UARCH_DIR_WAYS;
    for (size_t i = first; i < first + UARCH_DIR_WAYS; i++)
        if (!model->dir_tag[i] || (!model->dir[i].sharers && !model->dir[i].contended)) {
            victim = i;
            break;
        }
    struct uarch_entry *entry = &model->dir[victim];
    if (model->dir_tag[victim]) {
        uint64_t old = model->dir_tag[victim] & ~63ull;
        post_all(core, entry->sharers, old, UARCH_INVALIDATE);
        if (entry->sharers & bit_of(core))
            private_change(core, old, 0);
        if (entry->sharers && entry->state == UARCH_MODIFIED)
            llc_touch(model, old, true);
        if (entry->contended)
            contended_free(model, entry);
    }
    model->dir_tag[victim] = line | 1;
    memset(entry, 0, sizeof *entry);
    return entry;
}

static void dir_drop(struct uarch_core *core, uint64_t word)
{
    struct uarch_entry *entry = dir_find(core->model, word & ~63ull);
    if ((word & 63) == UARCH_MODIFIED)
        llc_touch(core->model, word & ~63ull, true);
    if (!entry || coarse(core))
        return;
    entry->sharers &= ~bit_of(core);
    if (entry->owner == core->id && entry->state != UARCH_SHARED)
        entry->state = 0;
}

/* ---- where data comes from ---- */

static spex_uarch_result make(enum spex_uarch_level level, uint32_t latency, uint32_t flags)
{
    if (latency > 0xffff)
        latency = 0xffff;
    return (uint64_t)level | flags | (uint64_t)latency << 16;
}

static spex_uarch_result from_core(const struct uarch_core *core, const struct uarch_core *other,
                                   uint32_t flags)
{
    const struct spex_uarch_config *c = &core->model->config;
    flags |= SPEX_UARCH_SNOOPED;
    if (core->cluster == other->cluster)
        return make(SPEX_UARCH_PEER, c->peer_latency, flags);
    if (core->socket == other->socket)
        return make(SPEX_UARCH_FAR, c->far_latency, flags);
    return make(SPEX_UARCH_REMOTE, c->far_latency + c->remote_latency, flags | SPEX_UARCH_SOCKET);
}

static bool home_is_remote(const struct uarch_core *core, uint64_t line)
{
    struct spex_uarch *model = core->model;
    return model->config.sockets == 2 &&
           uarch_home(&model->homes, line >> model->page_shift, core->socket) != core->socket;
}

static spex_uarch_result from_llc(const struct uarch_core *core, uint64_t line)
{
    const struct spex_uarch_config *c = &core->model->config;
    if (home_is_remote(core, line))
        return make(SPEX_UARCH_REMOTE, c->llc_latency + c->remote_latency, SPEX_UARCH_SOCKET);
    return make(SPEX_UARCH_LLC, c->llc_latency, 0);
}

static spex_uarch_result from_memory(const struct uarch_core *core, uint64_t line)
{
    const struct spex_uarch_config *c = &core->model->config;
    if (home_is_remote(core, line))
        return make(SPEX_UARCH_DRAM, c->dram_latency + c->remote_latency, SPEX_UARCH_SOCKET);
    return make(SPEX_UARCH_DRAM, c->dram_latency, 0);
}

/* The nearest core of a mask. */
static const struct uarch_core *nearest(const struct uarch_core *core, uint64_t mask)
{
    const struct uarch_core *best = NULL;
    unsigned best_distance = 3;
    for (; mask; mask &= mask - 1) {
        const struct uarch_core *other = core->model->bit[__builtin_ctzll(mask)];
        unsigned distance = other->cluster == core->cluster ? 0
                            : other->socket == core->socket ? 1
                                                            : 2;
        if (distance < best_distance) {
            best = other;
            best_distance = distance;
        }
    }
    return best;
}

/* ---- contended lines: who has it is decided in virtual time ---- */

static struct uarch_user *user_of(struct uarch_contended *line, const struct uarch_core *core)
{
    struct uarch_user *oldest = &line->user[0];
    for (unsigned i = 0; i < UARCH_USERS; i++) {
        struct uarch_user *user = &line->user[i];
        if (user->core == core->id + 1)
            return user;
        if (oldest->core && (!user->core || user->end < oldest->end))
            oldest = user;
    }
    memset(oldest, 0, sizeof *oldest);
    oldest->core = (uint16_t)(core->id + 1);
    return oldest;
}

/* others: who had the line until now. */
static void contended_make(struct uarch_core *core, struct uarch_entry *entry, uint64_t line,
                           uint64_t others, bool wrote)
{
    struct spex_uarch *model = core->model;
    uint32_t index = 0;
    uarch_lock(&model->contended_lock);
    if (model->contended_free) {
        index = model->contended_free;
        model->contended_free = model->contended[index - 1].next_free;
    } else if (model->contended_used < UARCH_CONTENDED) {
        index = ++model->contended_used;
    }
    uarch_unlock(&model->contended_lock);
    if (!index)
        return; /* stays an ordinary line */
    struct uarch_contended *contended = &model->contended[index - 1];
    memset(contended, 0, sizeof *contended);
    contended->quiet = spex_uarch_clock(core->hot);
    for (; others; others &= others - 1) {
        const struct uarch_core *other = model->bit[__builtin_ctzll(others)];
        struct uarch_user *user = user_of(contended, other);
        user->start = user->end = __atomic_load_n(&other->mail.clock, __ATOMIC_RELAXED);
        user->period = model->config.lease;
        user->wrote = wrote;
    }
    entry->contended = index;
    post_all(core, entry->sharers | bit_of(core), line, UARCH_INVALIDATE);
    private_change(core, line, 0);
    entry->sharers = 0;
    entry->state = 0;
}

/*
 * Did user have the line between the moments last and now of another core's time? If its own
 * time has passed that, its recorded uses answer; if its time is behind, it counts as using
 * the line, as long as it runs and was using it when last heard of.
 */
static bool uses_between(const struct spex_uarch *model, const struct uarch_user *user,
                         uint64_t last, uint64_t now)
{
    if (user->start <= now && user->end >= last)
        return true;
    const struct uarch_mail *mail = &model->core[user->core - 1]->mail;
    uint64_t clock = __atomic_load_n(&mail->clock, __ATOMIC_RELAXED);
    return user->end < last && clock < now && clock <= user->end + model->config.contend_gap &&
           !__atomic_load_n(&mail->idle, __ATOMIC_RELAXED);
}

/* Under the stripe lock. May make the line an ordinary one again (entry->contended 0). */
static spex_uarch_result contended_access(struct uarch_core *core, struct uarch_entry *entry,
                                          bool write)
{
    struct spex_uarch *model = core->model;
    const struct spex_uarch_config *c = &model->config;
    struct uarch_contended *line = &model->contended[entry->contended - 1];
    struct uarch_user *me = user_of(line, core);
    uint64_t now = spex_uarch_clock(core->hot), last = me->end;
    core->counts.contended++;
    if (!me->end || now > me->end + c->contend_gap) {
        me->start = now;
        me->wrote = false;
        me->period = c->lease;
    } else {
        me->period = (uint32_t)((7ull * me->period + (now - me->end)) / 8);
    }
    me->end = now;
    me->wrote |= write;
    uint16_t holder = line->holder;
    bool holder_wrote = line->holder_wrote;
    line->holder_wrote = (holder == me->core && holder_wrote) || write;
    line->holder = me->core;
    if (now < me->held)
        return make(SPEX_UARCH_L1, c->l1d_latency, SPEX_UARCH_CONTENDED);

    const struct uarch_core *from = NULL;
    bool modified = false, quiet = now > line->quiet + 4ull * c->contend_gap;
    uint32_t period = UINT32_MAX;
    for (unsigned i = 0; i < UARCH_USERS; i++) {
        const struct uarch_user *user = &line->user[i];
        if (!user->core || user == me)
            continue;
        quiet &= now > user->end + 4ull * c->contend_gap; /* not if it is ahead of us */
        if (!(write || user->wrote) || !uses_between(model, user, last ? last : now, now))
            continue;
        if (!from || (user->wrote && !modified))
            from = model->core[user->core - 1];
        modified |= user->wrote;
        if (user->period < period)
            period = user->period;
    }
    if (!from && holder && holder != me->core && (write || holder_wrote)) {
        from = model->core[holder - 1];
        modified = holder_wrote;
        period = 0;
    }
    if (from) {
        spex_uarch_result r =
            from_core(core, from, SPEX_UARCH_CONTENDED | (modified ? SPEX_UARCH_MODIFIED : 0));
        line->quiet = now;
        me->held = now + spex_uarch_result_latency(r) + (period > c->lease ? period : c->lease);
        core->counts.snoop++;
        core->counts.snoop_modified += modified;
        return r;
    }
    if (quiet)
        contended_free(model, entry);
    return make(SPEX_UARCH_L1, c->l1d_latency, SPEX_UARCH_CONTENDED);
}

/* ---- misses and ownership, under the stripe lock ---- */

/* The line came from others; modified: one of them had written it. */
static void changed_hands(struct uarch_core *core, struct uarch_entry *entry, uint64_t line,
                          uint64_t others, bool modified)
{
    if (entry->transfers < 255)
        entry->transfers++;
    if (entry->transfers >= core->model->config.contend_after)
        contended_make(core, entry, line, others, modified);
}

/* Level 2 missed. Sets *state to how the line may be kept, 0 for not at all. */
static spex_uarch_result fetch(struct uarch_core *core, struct uarch_entry *entry, uint64_t line,
                               bool write, unsigned *state)
{
    struct spex_uarch *model = core->model;
    uint64_t others = entry->sharers & ~bit_of(core);
    spex_uarch_result r;
    bool transfer = false, modified = false;
    if (!others) {
        r = llc_touch(model, line, true) ? from_llc(core, line) : from_memory(core, line);
        entry->sharers = bit_of(core);
        entry->state = write ? UARCH_MODIFIED : UARCH_EXCLUSIVE;
        *state = entry->state;
        if (coarse(core))
            post_all(core, bit_of(core), line, write ? UARCH_INVALIDATE : UARCH_SHARE);
    } else {
        modified = entry->state == UARCH_MODIFIED;
        if (entry->state == UARCH_SHARED && llc_touch(model, line, false)) {
            r = from_llc(core, line);
        } else {
            r = from_core(core,
                          entry->state == UARCH_SHARED ? nearest(core, others)
                                                       : model->core[entry->owner],
                          modified ? SPEX_UARCH_MODIFIED : 0);
            core->counts.snoop++;
            core->counts.snoop_modified += modified;
        }
        transfer = modified || write;
        if (write) {
            post_all(core, entry->sharers | bit_of(core), line, UARCH_INVALIDATE);
            entry->sharers = bit_of(core);
            entry->state = UARCH_MODIFIED;
        } else {
            if (entry->state != UARCH_SHARED)
                post_all(core, others, line, UARCH_SHARE);
            if (modified)
                llc_touch(model, line, true);
            entry->sharers |= bit_of(core);
            entry->state = UARCH_SHARED;
        }
        *state = entry->state;
    }
    if (entry->state != UARCH_SHARED)
        entry->owner = (uint16_t)core->id;
    if (transfer) {
        changed_hands(core, entry, line, others, modified);
        if (entry->contended)
            *state = 0;
    }
    return r;
}

static spex_uarch_result miss(struct uarch_core *core, uint64_t line, bool write)
{
    struct spex_uarch *model = core->model;
    uint32_t *lock = &model->stripe[(line >> UARCH_LINE) & model->stripe_mask].lock;
    unsigned state = 0;
    spex_uarch_result r = 0;
    /* These tables are far larger than the host's caches: ask for all of it at once. */
    size_t first = ((line >> UARCH_LINE) & model->dir_mask) * UARCH_DIR_WAYS;
    const uint64_t *way =
        &model->llc[((line >> UARCH_LINE) & model->llc_mask) * model->config.llc_ways];
    __builtin_prefetch(&model->dir_tag[first]);
    __builtin_prefetch(&model->dir[first]);
    __builtin_prefetch(&model->dir[first + 4]);
    __builtin_prefetch(way);
    __builtin_prefetch(way + 8);
    uarch_lock(lock);
    uarch_drain(core);
    __atomic_store_n(&core->mail.clock, spex_uarch_clock(core->hot), __ATOMIC_RELAXED);
    struct uarch_entry *entry = dir_find(model, line);
    if (!entry)
        entry = dir_make(core, line);
    if (entry->contended) {
        r = contended_access(core, entry, write);
        if (!entry->contended) { /* alone with it again */
            entry->sharers = bit_of(core);
            entry->owner = (uint16_t)core->id;
            state = entry->state = write ? UARCH_MODIFIED : UARCH_EXCLUSIVE;
        }
    } else {
        r = fetch(core, entry, line, write, &state);
    }
    if (state) {
        uint64_t victim = l2_insert(core, line | state);
        if (victim) {
            l1_change(core, victim & ~63ull, 0);
            dir_drop(core, victim);
        }
        l1_insert(core, line | state);
    }
    uarch_unlock(lock);
    if (spex_uarch_result_level(r) != SPEX_UARCH_L1) {
        core->counts.l1_miss++;
        core->counts.l2_miss++;
        core->counts.llc_access++;
        core->counts.llc_miss += spex_uarch_result_level(r) != SPEX_UARCH_LLC;
    }
    return r;
}

/* A write to a line that this core has, but not modified. */
static spex_uarch_result own(struct uarch_core *core, uint64_t line, enum spex_uarch_level level)
{
    struct spex_uarch *model = core->model;
    const struct spex_uarch_config *c = &model->config;
    uint32_t *lock = &model->stripe[(line >> UARCH_LINE) & model->stripe_mask].lock;
    spex_uarch_result r = level == SPEX_UARCH_L2 ? make(SPEX_UARCH_L2, c->l2_latency, 0) : 0;
    uarch_lock(lock);
    uarch_drain(core);
    uint64_t *word = l1_find(core, line);
    struct uarch_entry *entry = dir_find(model, line);
    if (!word || !entry) { /* lost meanwhile */
        uarch_unlock(lock);
        return miss(core, line, true);
    }
    uint64_t others = entry->sharers & ~bit_of(core);
    if (others || coarse(core))
        post_all(core, entry->sharers | bit_of(core), line, UARCH_INVALIDATE);
    entry->sharers = bit_of(core);
    entry->owner = (uint16_t)core->id;
    entry->state = UARCH_MODIFIED;
    private_change(core, line, UARCH_MODIFIED);
    if (others) {
        spex_uarch_result other = from_core(core, nearest(core, others), 0);
        r = make(level, spex_uarch_result_latency(other),
                 SPEX_UARCH_UPGRADE | (other & SPEX_UARCH_SOCKET));
        core->counts.upgrade++;
        changed_hands(core, entry, line, others, false);
    }
    uarch_unlock(lock);
    return r;
}

/* One line of an access. */
static spex_uarch_result access_line(struct uarch_core *core, uint64_t va, bool write)
{
    const struct spex_uarch_config *c = &core->model->config;
    uint64_t line = va & ~63ull;
    spex_uarch_result translation = uarch_translate(&core->mmu, va, &core->counts), r;
    uint64_t *word = l1_find(core, line);
    if (word) {
        r = write && (*word & 63) != UARCH_MODIFIED ? own(core, line, SPEX_UARCH_L1) : 0;
    } else {
        uint64_t found = l2_find(core, line);
        if (found) {
            core->counts.l1_miss++;
            l1_insert(core, found);
            r = write && (found & 63) != UARCH_MODIFIED ? own(core, line, SPEX_UARCH_L2)
                                                        : make(SPEX_UARCH_L2, c->l2_latency, 0);
        } else {
            r = miss(core, line, write);
        }
    }
    if (translation && !r)
        r = make(SPEX_UARCH_L1, c->l1d_latency, 0);
    return r | translation;
}

enum access_kind { LOAD, STORE, ATOMIC };

static spex_uarch_result access_slow(struct spex_uarch_core *hot, uint64_t va, unsigned size,
                                     unsigned insn, enum access_kind kind)
{
    struct uarch_core *core = hot->rest;
    const struct spex_uarch *model = core->model;
    if (model->config.none)
        return 0;
    spex_uarch_result r = access_line(core, va, kind != LOAD);
    if ((va & 63) + size > 64) {
        spex_uarch_result second = access_line(core, (va | 63) + 1, kind != LOAD);
        uint64_t flags = (r | second) & 0xfff0;
        uint64_t translation = (r >> 32) + (second >> 32);
        if (spex_uarch_result_latency(second) > spex_uarch_result_latency(r))
            r = second;
        uint32_t latency = spex_uarch_result_latency(r);
        if (!latency)
            latency = model->config.l1d_latency;
        if (translation > 0xffff)
            translation = 0xffff;
        r = make(spex_uarch_result_level(r), latency, (uint32_t)flags | SPEX_UARCH_SPLIT) |
            translation << 32;
    }
    if (r == 0)
        return 0;
    uint32_t latency = spex_uarch_result_latency(r);
    uint32_t translation = spex_uarch_result_translation(r);
    if (latency > model->config.l1d_latency || translation) {
        uint64_t now =
            hot->clock_base + ((uint64_t)hot->counter & ((1ull << SPEX_UARCH_OPS_SHIFT) - 1));
        struct uarch_miss *m = &core->miss[core->miss_next++ % UARCH_MISSES];
        m->line = va & ~63ull;
        m->ready = now + (uint64_t)(latency + translation) * SPEX_UARCH_TICK;
        m->sequence = hot->sequence;
        m->insn = (uint16_t)insn;
        m->latency = (uint16_t)latency;
        m->translation = (uint16_t)translation;
        uint32_t l1 = model->config.l1d_latency;
        uint32_t wait = translation + (latency > l1 ? latency - l1 : 0);
        /* Nothing hides the latency of a contended line: the next use needs this one. */
        uint32_t stall = r & SPEX_UARCH_CONTENDED ? 16 * SPEX_UARCH_TICK
                         : kind == STORE          ? model->stall_store
                                                  : model->stall_load;
        hot->counter += wait * stall / 16;
    }
    return r;
}

spex_uarch_result spex_uarch_load_slow(struct spex_uarch_core *core, uint64_t va, unsigned size,
                                       unsigned insn)
{
    return access_slow(core, va, size, insn, LOAD);
}

spex_uarch_result spex_uarch_store_slow(struct spex_uarch_core *core, uint64_t va, unsigned size,
                                        unsigned insn)
{
    return access_slow(core, va, size, insn, STORE);
}

spex_uarch_result spex_uarch_atomic_slow(struct spex_uarch_core *core, uint64_t va, unsigned size,
                                         unsigned insn)
{
    return access_slow(core, va, size, insn, ATOMIC);
}

void uarch_flush(struct uarch_core *core)
{
    struct spex_uarch *model = core->model;
    size_t lines = model->config.l2_size >> UARCH_LINE;
    uarch_drain(core);
    for (size_t i = 0; i < lines; i++)
        if (core->l2[i]) {
            uint32_t *lock = &model->stripe[(core->l2[i] >> UARCH_LINE) & model->stripe_mask].lock;
            uarch_lock(lock);
            uarch_drain(core);
            if (core->l2[i])
                dir_drop(core, core->l2[i]);
            core->l2[i] = 0;
            uarch_unlock(lock);
        }
    empty_private(core);
}
