/*
 * Call stacks of samples. A stack is a number: that of the call that entered the sampled function.
 * Each distinct call has one number and knows the call around it, so that equal stacks have equal
 * numbers and the table of calls is a tree; 0 is no call.
 *
 * Where they come from:
 *   exact      `spex record -g`: each record has its own, from samples of an event beside the SPE
 * event companion  another event with callchains in the same file (perf record -e arm_spe// -e
 * cycles -g): a sample of its own. A function's records get its callers in the same proportions,
 *              which says nothing about any one record
 *
 * For sinks: set SPEX_WANT_STACK in the options, and call analysis_stack() while handling the
 * sample.
 */
#ifndef ANALYSIS_STACKS_H
#define ANALYSIS_STACKS_H

#include <spex/analysis.h>

enum { STACKS_DEEPEST = 4096 }; /* calls of a stack */
enum stacks_kind { STACKS_NONE, STACKS_EXACT, STACKS_COMPANION };

struct stacks_call {
    uint32_t caller; /* the call around it, 0 if it is the outermost */
    bool cut;        /* frames between it and what it calls are missing, or may be wrong */
    struct spex_module *module; /* of the instruction that calls; NULL: no mapping */
    const struct spex_symbol *symbol;
    uint64_t address; /* its address in the module; without a module, its run-time address */
};

enum stacks_kind analysis_stacks(const struct spex_analysis *analysis);
/* The event that they come from; "" if there are none. */
const char *analysis_stacks_event(const struct spex_analysis *analysis);
/* The stack of a sample that a sink was just given. */
uint32_t analysis_stack(struct spex_analysis *analysis, const struct spex_sample *sample);
/* Call number n, from 1 up to analysis_call_count(). */
const struct stacks_call *analysis_call(const struct spex_analysis *analysis, uint32_t n);
size_t analysis_call_count(const struct spex_analysis *analysis);

/* ---- for analysis.c ---- */

struct stacks;
struct stacks_table;

/* How far the stacks of a queue were read. */
struct stacks_cursor {
    size_t run, end;
    uint32_t done; /* of that run */
    uint64_t offset;
    bool ahead; /* one was read and not yet used: */
    uint64_t time, ip;
    uint32_t stack;
};

/*
 * NULL if the file has none. *table is shared by all files of the profile, and made if it is NULL.
 */
struct stacks *stacks_new(struct spex_analysis *analysis, struct spex_perfdata *file,
                          struct stacks_table **table);
/* The same for allocations: numbers are those of blocks (allocs.h). */
struct allocs_table;
struct stacks *stacks_new_allocs(struct spex_analysis *analysis, struct spex_perfdata *file,
                                 struct stacks_table **table, struct allocs_table **blocks);
void stacks_free(struct stacks *stacks);
void stacks_table_free(struct stacks_table *table);
/* Prepares what the first pass that wants them needs. */
void stacks_read(struct stacks *stacks);
enum stacks_kind stacks_kind(const struct stacks *stacks);
const char *stacks_event(const struct stacks *stacks);
const struct stacks_call *stacks_call(const struct stacks_table *table, uint32_t n);
size_t stacks_count(const struct stacks_table *table);
/* With a companion: one of the stacks that the sample's function was seen with. */
uint32_t stacks_guess(const struct stacks *stacks, const struct spex_sample *sample);
/* Before a pass, for each queue; and the stacks of the next records, whose times are in ns. */
void stacks_start(struct stacks *stacks, struct stacks_cursor *cursor, int32_t cpu);
void stacks_join(struct stacks *stacks, struct stacks_cursor *cursor,
                 const struct spex_record *records, const uint64_t *times, size_t count,
                 uint32_t *out);

#endif
