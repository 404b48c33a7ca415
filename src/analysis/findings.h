/*
 * How findings (<spex/findings.h>) are made:
 *
 *   findings.c       counts the samples of each instruction
 *   findings_find.c  what is found in these counts
 *   findings_code.c  in which case, from the code
 *   findings_locks.c locks that threads sleep for
 *   shared_parts.c   lines that threads share
 */
#ifndef ANALYSIS_FINDINGS_H
#define ANALYSIS_FINDINGS_H

#include <spex/elapsed.h>
#include <spex/findings.h>

/* Formats text, on the account that this thread works for. */
char *finding_words(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Fills a zeroed finding for one line, whatever its score. */
void finding_fill_line(struct spex_analysis *analysis, const struct spex_sharing *sharing,
                       const struct spex_shared_line *line, struct spex_finding *finding);
/* Frees its texts, which belong to the account that this thread works for. */
void finding_clear(struct spex_finding *finding);

/*
 * What the time of a sample is spent on: table walks take their share, the rest is of exactly one
 * other kind. PEER and FAR: data from there; WRONG: a mispredicted branch.
 */
enum { SPLITS = 4 };
enum closer { FAR, PEER, WRONG, REST, WALKS, CLOSER };

/* An instruction and the sums of its samples of each kind. */
struct spot {
    struct spex_module *module;
    const struct spex_symbol *symbol;
    uint64_t address, time[CLOSER];
    uint64_t low, high; /* range of data addresses of PEER */
    uint64_t late_time; /* walks whose share is unknown because a counter saturated; their cycles */
    uint32_t late, late_cycles;
    /*
     * loads near a line's end that extend into the next line if they access more than 1, 2, 4, 8
     * bytes; and the time of one cycle of each
     */
    uint32_t split[SPLITS];
    uint64_t split_cycle[SPLITS];
    uint32_t samples[CLOSER], branches;
    int32_t pid;
};

struct found {
    struct spex_finding *items;
    size_t count, capacity;
};

struct spots { /* what was counted, ordered by module and address */
    struct spot *list;
    size_t count;
    uint64_t samples;
    uint64_t all; /* total time, or total latency */
    uint64_t memory, accesses, remote, remote_time;
    bool timed;
};
void findings_find(struct spex_analysis *analysis, const struct spots *spots, struct found *found);
/* Locks that threads sleep for; *elapsed is NULL before, and to be freed. */
void findings_find_locks(struct spex_analysis *analysis, struct spex_elapsed **elapsed,
                         struct found *found);
void finding_add_number(struct spex_finding *finding, const char *name, double value);

/* How a load or store gets its address in its loop; *stride is set for STREAM. */
enum spex_finding_case code_address_case(struct spex_analysis *analysis, struct spex_module *module,
                                         const struct spex_symbol *symbol, uint64_t address,
                                         int64_t *stride);
/* The kind of branch. */
enum spex_finding_case code_branch_case(struct spex_analysis *analysis, struct spex_module *module,
                                        uint64_t address);
/* How many bytes an instruction accesses; 0: not known. */
unsigned code_access_bytes(struct spex_analysis *analysis, struct spex_module *module,
                           uint64_t address);
bool code_divides(struct spex_analysis *analysis, struct spex_module *module, uint64_t address);
/*
 * Finds the cycle of dependent operations that an instruction waits for: DEPENDENT_LOADS, _CHAIN,
 * STORE_FORWARDING or DIVISION; the member of the cycle with the smallest address, and whether the
 * instruction is a member. SPEX_FINDING_COUNT: it waits for no cycle, or one whose operations take
 * one cycle each.
 */
enum spex_finding_kind code_circle(struct spex_analysis *analysis, struct spex_module *module,
                                   uint64_t address, uint64_t *first, bool *inside);
/*
 * Is it an instruction that takes locks: a swap or compare-and-swap with acquire semantics, or a
 * load-acquire exclusive?
 */
bool code_takes_lock(struct spex_analysis *analysis, struct spex_module *module, uint64_t address);
/* The smallest loop around an instruction, or the instruction alone; *end is exclusive. */
void code_loop(struct spex_analysis *analysis, struct spex_module *module,
               const struct spex_symbol *symbol, uint64_t address, uint64_t *start, uint64_t *end);

#endif
