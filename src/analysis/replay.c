/* Replay: from samples to what is known of each instruction; weights, and how far to trust them. */
#include "replay.h"

#include "pass.h"

#include "account/blame.h"
#include "base/memory.h"
#include "base/order.h"

#include <stdlib.h>

enum {
    LOOK = 16 << 20, /* bytes of records that are read, spread evenly over all spans */
    NAMES = 1 << 19, /* most entries of the table of addresses by thread */
    ENOUGH = 64,     /* with fewer samples nothing is replayed */
};

/* ---- numbers of the core ---- */

/* Is the preset, such as "neoverse-n1", that of this CPU, such as "Neoverse N1"? */
static bool is_preset_of(const char *preset, const char *cpu)
{
    for (; *preset && *cpu; preset++, cpu++) {
        const char at = *cpu == ' ' ? '-' : *cpu >= 'A' && *cpu <= 'Z' ? (char)(*cpu + 32) : *cpu;
        if (*preset != at)
            return false;
    }
    return !*preset && !*cpu;
}

/* The preset of a core; NULL if it has none. */
static const char *preset_of(uint64_t midr)
{
    const struct spex_cpu_model *cpu = spex_cpu_find(midr);
    const char *name;
    for (size_t i = 0; cpu && (name = uarch_preset_name(i)); i++)
        if (is_preset_of(name, spex_cpu_name(cpu)))
            return name;
    return NULL;
}

/* Uses the numbers of this preset from here on; NULL: those of an average core. */
static void use_core(struct replayer *r, const char *core)
{
    uarch_config_preset(core ? core : "neoverse-n1", &r->config, NULL);
    if (!core)
        uarch_config_set(&r->config, "rob=160", NULL);
    account_latencies(&r->config, r->latency);
    for (size_t i = 0; i < r->site_count; i++)
        if (!r->sites[i].blind)
            account_op(&r->config, r->latency, &r->sites[i].op, &r->sites[i].what);
}

/* ---- samples ---- */

static struct replay_seen *seen_at(struct replayer *r, uint32_t site)
{
    if (!r->sites[site].seen) {
        r->seen = memory_grow(r->seen, r->seen_count, &r->seen_capacity, sizeof *r->seen);
        r->seen[r->seen_count++] = (struct replay_seen){.site = site, .even = 1};
        r->sites[site].seen = (uint32_t)r->seen_count;
    }
    return &r->seen[r->sites[site].seen - 1];
}

/* Enters the site of records with this address and thread. */
static void add_name(struct replayer *r, uint64_t pc, uint64_t who, uint32_t site)
{
    const uint64_t key[IDS_WORDS] = {pc, who};
    uint32_t number;
    bool fresh;
    if (r->name_count >= NAMES)
        return;
    number = ids_find(&r->name_ids, key, &fresh);
    if (fresh) {
        r->names = memory_grow(r->names, r->name_count, &r->name_capacity, sizeof *r->names);
        r->names[r->name_count++] = (struct replay_name){site, false};
    }
    r->names[number].several |= r->names[number].site != site;
}

/* Does the record's operation match the one in the code? */
static bool agrees(const struct replay_site *site, const struct spex_sample *s)
{
    const bool branch = s->record->op_class == SPEX_CLASS_BRANCH;
    const bool memory = s->record->op_class == SPEX_CLASS_LDST;
    const unsigned kind = site->op.kind;
    if (branch)
        return site->flow != REPLAY_ON || site->what.kind == SPEX_OP_ISB;
    if (memory)
        return site->what.flags & (SPEX_OPF_LOAD | SPEX_OPF_STORE) ||
               site->what.kind >= SPEX_OP_LDST;
    return kind != ACCOUNT_LOAD && site->flow != REPLAY_COND && site->flow != REPLAY_RETURN;
}

static void add_target(struct replayer *r, struct replay_seen *seen, const struct spex_sample *s)
{
    const struct spex_record *record = s->record;
    struct spex_analysis *a = r->analysis;
    unsigned k = 0;
    if (!(record->present & SPEX_HAS_TARGET))
        return;
    const uint64_t time =
        record->present & SPEX_HAS_TIMESTAMP ? tick_time(a, record->timestamp) : UINT64_MAX;
    const struct spex_place *place =
        analysis_code_place(a, sample_maps(s, s->target), s->pid, time, s->target);
    if (!place->module)
        return;
    const uint32_t from = seen->site;
    const uint32_t site = replay_site(r, place->module, place->address);
    seen = seen_at(r, from);
    if (site == REPLAY_NONE || r->sites[site].blind)
        return;
    if (!seen->targets)
        seen->targets = memory_get(REPLAY_TARGETS, sizeof *seen->targets);
    while (k < REPLAY_TARGETS && seen->targets[k].count && seen->targets[k].site != site)
        k++;
    if (k == REPLAY_TARGETS)
        return;
    seen->targets[k].site = site;
    seen->targets[k].count++;
}

/* Where its data came from, by Data Source packet and events. */
static uint8_t source_of(const struct spex_record *r)
{
    const unsigned levels =
        (r->events >> SPEX_EV_L1D_MISS & 1) | (r->events >> SPEX_EV_LLC_ACCESS & 1) << 1 |
        (r->events >> SPEX_EV_LLC_MISS & 1) << 2 | (r->events >> SPEX_EV_REMOTE & 1) << 3;
    return (uint8_t)((r->data_source & 15) << 4 | levels);
}

static void add_latency(struct replayer *r, struct replay_seen *seen,
                        const struct spex_record *record, enum replay_class class)
{
    const uint8_t source = source_of(record);
    if (class >= REPLAY_WRONG) {
        seen->full += class == REPLAY_ANY;
        seen->full_source = class == REPLAY_ANY ? source : seen->full_source;
        return;
    }
    const unsigned took =
        record->total > record->issue ? (unsigned)record->total - record->issue : 0;
    seen->loads[class]++;
    r->sources[source].loads += record->op_class == SPEX_CLASS_LDST;
    r->sources[source].took += record->op_class == SPEX_CLASS_LDST ? took : 0;
}

/*
 * Estimates the latency of a load whose counters saturated because it waited too long before: that
 * of other loads whose data comes from the same place.
 */
static void add_full(struct replayer *r, struct replay_seen *seen)
{
    enum { FEW = 8, L1_MISS = 1, LLC = 2, MEMORY = 4 };
    const struct uarch_config *c = &r->config;
    const uint8_t source = seen->full_source;
    uint64_t took = source & MEMORY    ? c->dram_latency
                    : source & LLC     ? c->llc_latency
                    : source & L1_MISS ? c->l2_latency
                                       : c->l1d_latency;
    uint32_t known = 0;
    for (unsigned k = 0; k < REPLAY_WRONG; k++)
        known += seen->loads[k];
    if (known >= FEW || !seen->full)
        return;
    if (r->sources[source].loads >= FEW)
        took = r->sources[source].took / r->sources[source].loads;
    const enum replay_class class =
        source & L1_MISS ? (enum replay_class)(REPLAY_NEAR + (source >> 1 & 1) + (source >> 2 & 1))
                         : REPLAY_HIT;
    seen->loads[class] += seen->full;
    seen->used[class] += seen->full;
    seen->took[class] += seen->full * took;
}

/*
 * Loads that waited for others, at a miss register or in the queue of a level, take many times as
 * long as the rest of their class, but in a replay the core has time. Means are taken over those
 * that take less than twice the mean.
 */
static void trim(struct replayer *r)
{
    enum { ROUNDS = 2, TWICE = 2 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < r->start_count; i++) {
            const struct replay_start *s = &r->starts[i];
            struct replay_seen *n = &r->seen[r->sites[s->site].seen - 1];
            if (s->class < REPLAY_WRONG && (!round || s->took <= n->most[s->class])) {
                n->used[s->class]++;
                n->took[s->class] += s->took;
            }
        }
        for (size_t i = 0; i < r->seen_count && round + 1 < ROUNDS; i++)
            for (unsigned k = 0; k < REPLAY_WRONG; k++) {
                struct replay_seen *n = &r->seen[i];
                n->most[k] = n->used[k] ? (uint32_t)(TWICE * n->took[k] / n->used[k]) : 0;
                n->used[k] = 0;
                n->took[k] = 0;
            }
    }
}

/*
 * Ignores what happened only once in many samples of an instruction: its frequency is not known,
 * and a single miss would weigh as much as all the rest.
 */
static void drop_odd(struct replayer *r)
{
    enum { MANY = 128 };
    for (size_t i = 0; i < r->seen_count; i++) {
        struct replay_seen *n = &r->seen[i];
        for (unsigned k = 0; k < REPLAY_WRONG && n->count >= MANY; k++)
            if (n->loads[k] == 1)
                n->loads[k] = n->used[k] = 0;
    }
}

static void add_sample(struct replayer *r, const struct spex_sample *s)
{
    const struct spex_record *record = s->record;
    r->samples++;
    const uint32_t site = s->module ? replay_site(r, s->module, s->address) : REPLAY_NONE;
    if (site == REPLAY_NONE || r->sites[site].blind || !agrees(&r->sites[site], s)) {
        r->blind++;
        return;
    }
    struct replay_seen *seen = seen_at(r, site);
    const enum replay_class class = replay_class_of(record, r->most);
    const bool timed =
        (record->present & (SPEX_HAS_TOTAL | SPEX_HAS_ISSUE)) == (SPEX_HAS_TOTAL | SPEX_HAS_ISSUE);
    const bool taken = !(record->events >> SPEX_EV_NOT_TAKEN & 1);
    seen->count++;
    seen->weighed += clock_weight(record);
    if (timed && record->total < r->most && record->issue < r->most) {
        seen->issues++;
        seen->issue += record->issue;
    }
    if (timed)
        add_latency(r, seen, record, class);
    seen->stored += class == REPLAY_LATE && s->source == SPEX_SOURCE_L1 &&
                    record->present & SPEX_HAS_DATA_SOURCE;
    seen->taken += taken;
    seen->wrong[taken] += class == REPLAY_WRONG;
    const enum replay_flow flow = (enum replay_flow)r->sites[site].flow;
    if (flow == REPLAY_RETURN || flow == REPLAY_INDIRECT || flow == REPLAY_INDIRECT_CALL)
        add_target(r, seen, s);
    add_name(r, s->pc, record_who(record), site);
    r->starts = memory_grow(r->starts, r->start_count, &r->start_capacity, sizeof *r->starts);
    r->starts[r->start_count++] = (struct replay_start){
        site, (uint16_t)(record->total > record->issue ? record->total - record->issue : 0),
        (uint8_t)(timed ? class : REPLAY_ANY)};
}

static void collect(void *context, const struct spex_sample *samples, size_t count)
{
    struct replayer *r = context;
    if (!r->failed && memory_guarded(analysis_account(r->analysis),
                                     for (size_t i = 0; i < count; i++) add_sample(r, &samples[i])))
        return;
    r->failed = true;
    analysis_no_memory(analysis_first(r->analysis));
}

/* Adds up all sites. */
static void add_up(struct replayer *r)
{
    for (size_t i = 0; i < r->seen_count; i++) {
        const struct replay_seen *n = &r->seen[i];
        const struct replay_site *site = &r->sites[n->site];
        for (unsigned k = 0; k < REPLAY_WRONG && site->op.kind == ACCOUNT_LOAD; k++) {
            r->all.count += n->used[k];
            r->all.loads[k] += n->used[k];
            r->all.took[k] += n->took[k];
        }
    }
}

/* Reads the file's records: all of a small file, and a part of every span of a large one. */
static bool look(struct replayer *r)
{
    struct spex_analysis *a = r->analysis;
    const struct spex_sink sink = {.call = collect, .context = r};
    const struct spex_analysis_options options = a->options;
    const struct line_set *only = a->only;
    const unsigned want = a->filter_want;
    a->options.want = SPEX_WANT_SYMBOL | SPEX_WANT_BRANCH;
    a->options.filter_count = a->options.threads = 0;
    a->options.ordered = false;
    a->options.progress = NULL;
    a->filter_want = 0;
    a->only = NULL;
    a->look = LOOK;
    const bool ok = !merge_file(a, &sink, 1, NULL, NULL);
    a->look = 0;
    for (size_t i = 0; i < a->queue_count; i++) /* merging needs separate readers */
        a->queues[i].reader = NULL;
    a->only = only;
    a->filter_want = want;
    a->options = options;
    return ok;
}

/* ---- weights ---- */

/* The weight in cycles. */
static double weight_of(struct replayer *r, uint32_t site, unsigned class)
{
    const struct replay_result *n = replay_result(r, site);
    uint64_t blame = 0, visits = 0;
    for (unsigned k = 0; k < REPLAY_CLASSES; k++)
        if (k == class || class == REPLAY_ANY) {
            blame += n->blame[k];
            visits += n->visits[k];
        }
    return visits ? (double)blame / ((double)visits * BLAME_CYCLE) : 0;
}

double replay_blame(struct replayer *r, uint32_t site)
{
    return weight_of(r, site, REPLAY_ANY);
}

static void put(struct replay *replay, uint64_t key, const uint32_t weight[REPLAY_ANY + 1])
{
    struct replay_slot *s = (struct replay_slot *)replay_find(replay, key);
    s->key = key;
    memcpy(s->weight, weight, sizeof s->weight);
}

static void weigh(struct replayer *r, const struct replay_seen *seen,
                  uint32_t weight[REPLAY_ANY + 1])
{
    enum { FEW = 8, FLOOR = REPLAY_WEIGHT / 32, MOST = 1 << 23 };
    const double mean = weight_of(r, seen->site, REPLAY_ANY);
    const struct replay_result *result = replay_result(r, seen->site);
    for (unsigned k = 0; k <= REPLAY_ANY; k++) {
        double w = k == REPLAY_ANY || result->visits[k] < FEW ? mean : weight_of(r, seen->site, k);
        w = (w + seen->more) * seen->even * REPLAY_WEIGHT + 0.5;
        weight[k] = mean <= 0 ? 0 : w < FLOOR ? FLOOR : w > MOST ? MOST : (uint32_t)w;
    }
}

static void make_table(struct replayer *r, struct replay *replay)
{
    static const uint32_t ask[REPLAY_ANY + 1] = {0};
    size_t size = 1024;
    while (size < 4 * r->name_count)
        size *= 2;
    replay->slots = memory_get(size, sizeof *replay->slots);
    replay->mask = size - 1;
    replay->seed = hash_seed();
    replay->most = r->most;
    for (size_t i = 0; i < r->name_count; i++) {
        const struct replay_name *n = &r->names[i];
        const uint64_t pc = r->name_ids.keys[i][0], who = r->name_ids.keys[i][1];
        uint32_t weight[REPLAY_ANY + 1];
        weigh(r, &r->seen[r->sites[n->site].seen - 1], weight);
        const struct replay_slot *s = replay_find(replay, pc | 1);
        if (!s->key && !n->several)
            put(replay, pc | 1, weight);
        else if (n->several || memcmp(s->weight, weight, sizeof weight))
            put(replay, pc | 1, ask);
        if (!n->several)
            put(replay, replay_key(pc, who), weight);
    }
}

static int by_place(const void *a, const void *b)
{
    const struct replay_wait *x = a, *y = b;
    const uintptr_t m = (uintptr_t)x->module, n = (uintptr_t)y->module;
    return m != n ? ORDER(m, n) : ORDER(x->address, y->address);
}

/* Records what each sampled instruction waits for in the replay. */
static void make_waits(struct replayer *r, struct replay *replay)
{
    replay->waits = memory_get(r->seen_count + 1, sizeof *replay->waits);
    for (size_t i = 0; i < r->seen_count; i++) {
        const struct replay_site *site = &r->sites[r->seen[i].site];
        const uint32_t maker = replay_result(r, r->seen[i].site)->maker;
        const struct replay_site *of = maker ? &r->sites[maker - 1] : NULL;
        if (of)
            replay->waits[replay->wait_count++] = (struct replay_wait){
                site->module, of->module, site->address, of->address, of->op.kind == ACCOUNT_STORE};
    }
    qsort(replay->waits, replay->wait_count, sizeof *replay->waits, by_place);
}

bool spex_analysis_waits_for(const struct spex_analysis *whole, const struct spex_module *module,
                             uint64_t address, struct spex_wait *wait)
{
    assert(whole && wait);
    const struct replay_wait key = {.module = module, .address = address}, *found = NULL;
    struct spex_part part;
    for (size_t i = 0; !found && spex_analysis_part(whole, i, &part); i++) {
        const struct replay *r = (whole->part_count ? whole->parts[i] : whole)->replay;
        if (r && r->fits)
            found = bsearch(&key, r->waits, r->wait_count, sizeof key, by_place);
    }
    if (found)
        *wait = (struct spex_wait){
            .module = found->maker_module, .address = found->maker, .stores = found->stores};
    return found;
}

const struct replay *analysis_any_replay(const struct spex_analysis *whole)
{
    const struct replay *found = NULL;
    struct spex_part part;
    for (size_t i = 0; !found && spex_analysis_part(whole, i, &part); i++)
        found = (whole->part_count ? whole->parts[i] : whole)->replay;
    return found;
}

static uint64_t visits_of(struct replayer *r, uint32_t site)
{
    const struct replay_result *n = replay_result(r, site);
    uint64_t visits = 0;
    for (unsigned k = 0; k < REPLAY_CLASSES; k++)
        visits += n->visits[k];
    return visits;
}

/*
 * How much issue latencies, which the walks do not use, differ from the sampled ones, relative to
 * their mean. wait: receives that mean; or NULL.
 */
static double misfit_of(struct replayer *r, double *wait)
{
    enum { FEW = 4 };
    double issue = 0, off = 0, issues = 0;
    for (size_t i = 0; i < r->seen_count; i++) {
        const struct replay_seen *n = &r->seen[i];
        const uint64_t visits = visits_of(r, n->site);
        if (visits < FEW || n->issues < FEW)
            continue;
        const double mean = (double)n->issue / n->issues;
        const double replayed = (double)replay_result(r, n->site)->waited / (double)visits;
        issue += mean * n->issues;
        issues += n->issues;
        off += (mean > replayed ? mean - replayed : replayed - mean) * n->issues;
    }
    if (wait)
        *wait = issues > 0 ? issue / issues : 0;
    return issue > 0 ? off / issue : 0;
}

/* Records what share was replayed, what an operation takes, and how well it fits. */
static void judge(struct replayer *r, struct replay *replay)
{
    double weights = 0, latencies = 0;
    for (size_t i = 0; i < r->seen_count; i++) {
        const struct replay_seen *n = &r->seen[i];
        if (!visits_of(r, n->site))
            continue;
        replay->replayed += n->count;
        weights += (weight_of(r, n->site, REPLAY_ANY) + n->more) * n->even * n->count;
        latencies += n->weighed;
    }
    replay->samples = r->samples;
    replay->cycles = replay->replayed ? weights / (double)replay->replayed : 0;
    replay->misfit = misfit_of(r, &replay->wait);
    replay->split = r->config.split_latency;
    replay->code = r->config.l1i_size;
    replay->others = latencies > 0 ? (float)(weights / latencies) : 1;
}

/* The misfit with the numbers of a core, by a short walk. */
static double misfit_with(struct replayer *r, const char *core)
{
    enum { TRIAL = 1 << 15 }; /* operations */
    use_core(r, core);
    replay_walk(r, TRIAL);
    return misfit_of(r, NULL);
}

/*
 * Walks with the numbers of the CPU's own core. If these do not fit and another core's fit three
 * times as well, uses those; for a CPU that is not known, those that fit best. Only the fit speaks
 * for them, so readers are told which they are.
 */
static void walk_with_best(struct replayer *r, const char *own, struct replay *replay)
{
    static const double good = 0.3, far = 1.0 / 3; /* docs/time.md */
    const double misfit = misfit_with(r, own);
    const char *best = own, *name;
    double least = misfit;
    for (size_t i = 0; (!own || misfit > good) && (name = uarch_preset_name(i)); i++) {
        const double off = name == own ? misfit : misfit_with(r, name);
        best = off < least ? name : best;
        least = off < least ? off : least;
    }
    replay->chosen = !own || least < far * misfit;
    replay->core = replay->chosen ? best : own;
    replay->unfit = replay->chosen ? own : NULL;
    replay->unfit_misfit = replay->unfit ? misfit : 0;
    use_core(r, replay->core);
    replay_walk(r, replay_operations(r));
}

static void release(struct replayer *r)
{
    replay_pages_free(r->pages);
    replay_flow_free(r->flows);
    ids_free(&r->site_ids);
    ids_free(&r->name_ids);
    for (size_t i = 0; i < r->seen_count; i++)
        memory_free(r->seen[i].targets);
    memory_free(r->sites);
    memory_free(r->seen);
    memory_free(r->names);
    memory_free(r->starts);
    memory_free(r->walk);
    replay_free(r->replay);
    for (size_t i = 0; i < REPLAY_CHUNKS; i++)
        memory_free(r->results[i]);
}

/* If no core's numbers fit better than this, only latencies are used. */
static const double FITS = 2.0;

static void make(struct replayer *r)
{
    struct spex_analysis *a = r->analysis;
    const char *own = preset_of(a->sampling.midr);
    use_core(r, own);
    r->most = a->sampling.counter_most;
    const bool looked = look(r);
    if (analysis_first(a)->no_memory)
        memory_checked(NULL); /* ends here */
    if (!looked || r->start_count < ENOUGH)
        return;
    trim(r);
    drop_odd(r);
    for (size_t i = 0; i < r->seen_count; i++)
        add_full(r, &r->seen[i]);
    add_up(r);
    replay_flow(r);
    r->replay = memory_get(1, sizeof *r->replay);
    walk_with_best(r, own, r->replay);
    replay_even(r);
    make_table(r, r->replay);
    make_waits(r, r->replay);
    judge(r, r->replay);
    r->replay->fits = r->replay->replayed && r->replay->misfit <= FITS;
}

struct replay *replay_make(struct spex_analysis *a)
{
    struct replayer r = {.analysis = a};
    if (!a->file || a->sampling.filters[0] || a->options.no_replay)
        return NULL;
    const bool made = memory_guarded(memory_current(), make(&r));
    struct replay *replay = made ? r.replay : NULL;
    r.replay = made ? NULL : r.replay;
    release(&r);
    if (!made)
        memory_checked(NULL); /* an outer guard must also notice */
    return replay;
}

void replay_free(struct replay *replay)
{
    if (replay) {
        memory_free(replay->slots);
        memory_free(replay->waits);
    }
    memory_free(replay);
}
