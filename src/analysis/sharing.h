/* What the passes over the samples (sharing.c) collect for judging lines (sharing_judge.c). */
#ifndef ANALYSIS_SHARING_H
#define ANALYSIS_SHARING_H

#include "internal.h"

enum { BUCKETS = 64 }; /* time buckets for overlap */

/* Identifies a line. */
struct identity {
    uint64_t key;  /* line number */
    int32_t space; /* the process, for a virtual address; or KERNEL, PHYSICAL */
};
enum { KERNEL = -1, PHYSICAL = -2 };

struct line {
    struct identity id;
    int32_t tid, pid; /* first user, in the first queue that has one */
    uint32_t samples, writes, queue;
    bool several;
    uint64_t va, cycles;
};
enum { SHARING_LINES = SPEX_GROUP_MAX };

struct activity { /* what a thread did to a candidate */
    uint32_t line, samples;
    int32_t tid;
    uint32_t queue; /* queue of the last access */
    const char *comm;
    uint64_t buckets;
};

/* How a word in a candidate is used, which tells a lock from a counter. */
struct word {
    /* atomics include exclusives; stores are other stores */
    uint32_t samples, atomics, swaps, stores;
    uint32_t block; /* allocs.h */
};
enum { WORDS = 16 };

struct instruction { /* cache: is the instruction at a pc a swap? */
    const struct spex_module *module;
    uint64_t address;
    bool swaps;
};
enum { INSTRUCTIONS = 256 };

struct spex_sharing {
    struct memory *account; /* account of its analysis */
    struct spex_analysis *analysis;
    uint64_t seed; /* seed of the hashes */
    struct line *lines;
    uint32_t *index; /* line + 1 */
    size_t count, capacity, mask;
    struct spex_sharing_totals totals;
    uint64_t with_source;
    /* second pass */
    uint64_t first_time, time_span;
    struct line_set seen;  /* candidates */
    struct line_set wider; /* and what spex_sharing_widen adds */
    size_t candidates;
    struct activity *activities;
    size_t activity_count, activity_capacity;
    uint32_t *activity_index;
    size_t activity_mask;
    struct word *words; /* words of each candidate */
    struct instruction instructions[INSTRUCTIONS];
    struct spex_group *group;
    struct spex_shared_line *results;
    struct spex_shared_use *uses;
    size_t result_count;
    size_t *first_uses; /* index of each candidate's first use, while judging */
    struct sorted_use *sorted;
    bool failed; /* memory ran out: only free it */
    /* Threads count in shards (sharing_shards.c). */
    struct spex_sharing *shard_of;
    _Atomic size_t shard_lines; /* lines for which all its shards together have room */
};

/* Finds the line with this identity, or adds one without users. */
struct line *sharing_line(struct spex_sharing *sharing, const struct identity *id);
/* Records a user of a line, or the first user of another line with the same identity. */
static inline void sharing_use_line(struct line *line, const struct line *use)
{
    line->several |= line->samples && line->tid != use->tid;
    if (!line->samples || use->queue < line->queue) {
        line->tid = use->tid;
        line->pid = use->pid;
        line->va = use->va;
        line->queue = use->queue;
    }
}
/* A thread may change its name: the last queue's name counts. */
static inline void sharing_name_activity(struct activity *a, const char *comm, uint32_t queue)
{
    if (a->comm && queue < a->queue)
        return;
    a->comm = comm;
    a->queue = queue;
}
uint64_t sharing_hash(const struct spex_sharing *sharing, const struct identity *id);
/* Allocates what is counted for candidates. */
void sharing_start_uses(struct spex_sharing *sharing);

/* A thread's use of a candidate; if there is none, adds it or returns NULL. */
struct activity *sharing_activity(struct spex_sharing *sharing, uint32_t line, int32_t tid,
                                  bool add);
/* After the second pass: fills in results and uses. May end through memory_guarded(). */
void sharing_judge(struct spex_sharing *sharing);

#endif
