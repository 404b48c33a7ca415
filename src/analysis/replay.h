/*
 * Replay: what an instruction costs among the instructions around it (docs/time.md).
 *
 * A single record's weight cannot tell what its neighbours hid. But the program is known, so a path
 * through it can be walked again: from sampled instructions along the code, with branches going as
 * their samples did and loads taking as long as their samples did, while the account of time
 * (account/plain.h) runs along. The mean cycles blamed on an instruction are the weight of its
 * samples.
 *
 *   replay.c       samples -> what is known of each instruction; weights; how far to trust them
 *   replay_code.c  instructions, from the files that the profile ran
 *   replay_flow.c  how often its parts are executed
 *   replay_walk.c  walks
 *
 * Made once for each file, before its records are counted, by one thread and with a fixed seed;
 * afterwards it is only read.
 */
#ifndef ANALYSIS_REPLAY_H
#define ANALYSIS_REPLAY_H

#include "internal.h"
#include "step.h"

#include "account/plain.h"
#include "base/hash.h"
#include "base/ids.h"
#include "record/counters.h"

struct spex_analysis;

/*
 * What happened to a sample, as far as it tells samples of an instruction with different costs
 * apart: the level that had the line, by events; a misprediction. LATE: level 1 had the line, but
 * the load took long because the line was still on its way. REPLAY_ANY: the mean over all of these.
 */
enum replay_class {
    REPLAY_HIT,
    REPLAY_LATE,
    REPLAY_NEAR,
    REPLAY_FAR,
    REPLAY_MEMORY,
    REPLAY_WRONG,
    REPLAY_ANY,
    REPLAY_CLASSES = REPLAY_ANY
};
enum { REPLAY_HIT_MOST = 8 }; /* cycles */

/* The class of a record. One whose counters ended at `most` says too little. */
static inline enum replay_class replay_class_of(const struct spex_record *r, unsigned most)
{
    const unsigned took = r->total > r->issue ? (unsigned)r->total - r->issue : 0;
    const uint64_t e = r->events;
    return e >> SPEX_EV_MISPREDICT & 1 ? REPLAY_WRONG
           : r->total >= most          ? REPLAY_ANY
           : !(e >> SPEX_EV_L1D_MISS & 1)
               ? (took <= REPLAY_HIT_MOST ? REPLAY_HIT : REPLAY_LATE)
               : (enum replay_class)(REPLAY_NEAR + (e >> SPEX_EV_LLC_ACCESS & 1) +
                                     (e >> SPEX_EV_LLC_MISS & 1));
}

/* ---- the table that readers use ---- */

enum { REPLAY_WEIGHT = 256 }; /* fractions of a cycle */

struct replay_slot {
    uint64_t key;                    /* 0: free */
    uint32_t weight[REPLAY_ANY + 1]; /* in 1/REPLAY_WEIGHT cycles; all 0: look up with the thread */
};

/* For a replayed instruction: what made the operand that it mostly waited for. */
struct replay_wait {
    const struct spex_module *module;
    struct spex_module *maker_module;
    uint64_t address, maker;
    bool stores; /* the maker is a store, whose data this loads */
};

struct replay {
    struct replay_slot *slots;
    size_t mask;
    uint64_t seed;
    unsigned most;     /* largest value of a counter */
    const char *core;  /* preset whose numbers were used; NULL: an average core */
    const char *unfit; /* the CPU's own preset, if it was not used, and its misfit */
    double unfit_misfit;
    bool chosen; /* chosen by fit */
    uint64_t samples, replayed;
    double misfit, cycles;
    double wait;               /* mean issue latency of samples */
    unsigned split;            /* cycles that an access across two lines takes longer */
    uint32_t code;             /* bytes of the level 1 instruction cache */
    struct replay_wait *waits; /* ordered by module and address */
    size_t wait_count;
    bool fits;    /* use these weights; if false, those of time.c */
    float others; /* factor for weights of time.c where replay has none */
};

static inline const struct replay_slot *replay_find(const struct replay *r, uint64_t key)
{
    for (size_t i = hash_word(r->seed, key);; i++) {
        const struct replay_slot *s = &r->slots[i & r->mask];
        if (s->key == key || !s->key)
            return s;
    }
}

/* The code of several programs may be at the same address: the thread tells them apart. */
static inline uint64_t replay_key(uint64_t pc, uint64_t who)
{
    return hash_word(pc, who + 1) | 1;
}

/* The weight of a record of a thread (0: not known), or 0. */
static inline uint32_t replay_weight(const struct replay *r, const struct spex_record *record,
                                     uint64_t who)
{
    const uint64_t pc = (uint64_t)((int64_t)(record->address[SPEX_ADDRESS_PC] << 8) >> 8);
    const enum replay_class class = replay_class_of(record, r->most);
    const struct replay_slot *s = replay_find(r, pc | 1);
    if (__builtin_expect(s->key && !s->weight[REPLAY_ANY], 0))
        s = replay_find(r, replay_key(pc, who));
    return s->weight[class];
}

/* Makes the table for this file; NULL if nothing can be replayed. Reads the file once. */
struct replay *replay_make(struct spex_analysis *analysis);
void replay_free(struct replay *replay);

/* The first one among the files of an analysis; NULL if there is none. */
const struct replay *analysis_any_replay(const struct spex_analysis *analysis);

/* ---- inside ---- */

enum { REPLAY_NONE = UINT32_MAX, REPLAY_TARGETS = 64 };

enum replay_flow {
    REPLAY_ON,
    REPLAY_COND,
    REPLAY_JUMP,
    REPLAY_CALL,
    REPLAY_RETURN,
    REPLAY_INDIRECT,
    REPLAY_INDIRECT_CALL,
    REPLAY_KERNEL, /* a system call, with unknown effect */
};

/* An instruction. Sites have numbers. */
struct replay_site {
    struct spex_module *module;
    uint64_t address;
    struct account_op op;
    struct step step; /* registers and addresses */
    uint64_t to;      /* target of a direct branch */
    uint8_t flow;
    bool blind; /* its code is not known */
    bool next_known, target_known;
    bool leads, follows; /* a branch goes there; the instruction before continues into it */
    bool called, open;   /* known calls go there; unknown ones may, too */
    uint8_t reached;     /* replay_flow.c followed the code to it */
    uint32_t run;        /* run that begins here */
    /* share of runs, in 2^16, that take the branch; accumulator for drawing it */
    uint32_t part, phase;
    /* its branch was taken before; so was another one after it in the same line, */
    bool taken, dense;
    uint32_t looked;                /* when this many branches had been taken */
    uint64_t near_until, mid_until; /* if a block begins here: see uarch/account.h */
    uint32_t next, target;          /* sites, if known; or REPLAY_NONE */
    uint32_t seen;                  /* 1 + its number, or 0 */
    uint32_t block, extra;          /* operations of the block from here on; its ports */
    struct spex_op what;
};

/* A site that was sampled. */
struct replay_seen {
    uint32_t site, count;
    uint32_t issues; /* samples whose issue latency is known */
    uint64_t issue;  /* sum of issue latencies */
    uint32_t loads[REPLAY_WRONG];
    uint32_t stored;             /* late loads that hit level 1, because a store was forwarded */
    uint32_t used[REPLAY_WRONG]; /* samples whose latency counts */
    uint32_t most[REPLAY_WRONG]; /* largest of these latencies */
    uint64_t took[REPLAY_WRONG];
    /* samples with a saturated counter, and where the data of one of them came from */
    uint32_t full;
    uint8_t full_source;
    double weighed; /* time by latencies alone: clock_weight() */
    /* even: factor to the number of samples it should have; more: cycles moved to it from others */
    double even, more;
    uint32_t taken, wrong[2];
    struct replay_target {
        /* where its samples went, the first targets only; a count of 0 ends them */
        uint32_t site, count;
    } * targets; /* REPLAY_TARGETS of an indirect branch, or NULL */
    /* state of the walk */
    uint64_t arrival; /* cycle at which the line it waits for arrives */
    int32_t credit;   /* late hits still to come */
};

/* What the walks found out about a site. */
struct replay_result {
    uint64_t blame[REPLAY_CLASSES]; /* parts of a cycle */
    uint32_t visits[REPLAY_CLASSES];
    uint64_t waited; /* issue latency, summed over all visits */
    uint32_t maker;  /* 1 + the site that made the operand it waited for, for most of that time */
    uint64_t votes;  /* lead of that site in the majority vote */
};
enum { REPLAY_CHUNK = 1 << 12, REPLAY_CHUNKS = 1 << 6 };

struct replay_pages;
struct flows;

struct replayer {
    struct spex_analysis *analysis;
    struct uarch_config config;
    uint16_t latency[SPEX_EXEC_CLASS_COUNT];
    unsigned most;
    struct ids site_ids, name_ids;
    struct replay_site *sites;
    size_t site_count, site_capacity;
    struct replay_seen *seen;
    size_t seen_count, seen_capacity;
    struct replay_name {
        uint32_t site;
        bool several; /* more than one */
    } * names;
    size_t name_count, name_capacity;
    struct replay_start {
        uint32_t site;
        uint16_t took;
        uint8_t class;
    } * starts; /* starting points: the samples */
    size_t start_count, start_capacity;
    struct replay_result *results[REPLAY_CHUNKS]; /* indexed by site; results do not move */
    struct replay_pages *pages;
    struct flows *flows;
    struct walk *walk;
    struct replay *replay; /* the table being made */
    bool failed;           /* memory ran out: only free it */
    struct {
        uint64_t loads, took;
    } sources[256]; /* indexed by data source; loads whose latency is known */
    struct replay_all {
        uint64_t loads[REPLAY_WRONG], took[REPLAY_WRONG], count;
    } all;                       /* sums over loads of all sites */
    uint64_t samples, blind;     /* number read; number whose code is not known */
    uint64_t operations, cycles; /* sums over the walks; cycles in parts */
};

/* The number of the site at a module address, or REPLAY_NONE if there are too many. */
uint32_t replay_site(struct replayer *r, struct spex_module *module, uint64_t address);
/* The site after it; the target of its branch; REPLAY_NONE if that is not known. */
uint32_t replay_next(struct replayer *r, uint32_t site);
uint32_t replay_target(struct replayer *r, uint32_t site);
void replay_pages_free(struct replay_pages *pages);
struct replay_result *replay_result(struct replayer *r, uint32_t site);
/* Mean cycles that the walks blame on it. */
double replay_blame(struct replayer *r, uint32_t site);

/*
 * Computes from the samples how often branches are taken; then again, with what was blamed, for
 * weights.
 */
void replay_flow(struct replayer *r);
void replay_even(struct replayer *r);
void replay_flow_free(struct flows *flows);

/*
 * Walks this many operations with the numbers of r->config, and forgets the results of earlier
 * walks. The second one computes the number that the weights of these samples need.
 */
void replay_walk(struct replayer *r, uint64_t operations);
uint64_t replay_operations(const struct replayer *r);

#endif
