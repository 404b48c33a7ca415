/*
 * Call stacks of samples, where a profile has them.
 *
 * A stack is a number: that of the call that entered the sampled function. Each distinct call has
 * one number, from 1 on, and knows the call around it; so equal stacks have equal numbers, and all
 * calls of a profile are one tree. 0 is no call.
 *
 * Open the analysis with SPEX_WANT_STACK, and ask for the stack of a sample while it is at hand: in
 * the sink that was given it, or until the next spex_analysis_next. Calls are found while samples
 * are read; they keep their numbers until the analysis is closed, but what spex_analysis_call
 * returns is good only until more samples are read. What it points to stays, too.
 *
 *     for (uint32_t n = spex_sample_stack(analysis, sample); n; n = call->caller) {
 *         call = spex_analysis_call(analysis, n);
 *         puts(call->symbol && call->symbol->name ? call->symbol->name : "?");
 *     }
 *
 * Threads: as the analysis, which belongs to one; a sink may ask whichever thread calls it.
 * Nothing here fails.
 */
#ifndef SPEX_STACKS_H
#define SPEX_STACKS_H

#include <spex/analysis.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPEX_STACK_MAX = 4096 }; /* calls of a stack; what is around them is left out */

/* Where stacks come from. */
enum spex_stacks {
    SPEX_STACKS_NONE,
    /* each record has its own, from samples of an event beside the SPE event (spex record -g) */
    SPEX_STACKS_EXACT,
    /*
     * Another event of the file has call chains (perf record -e arm_spe// -e cycles -g). A
     * function's records get its callers in the same proportions as there, which says nothing
     * about any one record.
     */
    SPEX_STACKS_COMPANION
};

struct spex_call {
    struct spex_module *module;       /* module of the calling instruction; NULL: no mapping */
    const struct spex_symbol *symbol; /* NULL: not known */
    uint64_t address; /* its address in the module; without a module, its run-time address */
    uint32_t caller;  /* the call around it; 0: it is the outermost */
    bool cut;         /* calls between it and what it calls are missing, or may be wrong */
};

enum spex_stacks spex_analysis_stacks(const struct spex_analysis *analysis); /* since 1.4 */
/* The event that they come from, as the file names it; "" if there are none. */
const char *spex_analysis_stacks_event(const struct spex_analysis *analysis); /* since 1.4 */

/* The stack of a sample that is at hand. Since 1.4. */
uint32_t spex_sample_stack(struct spex_analysis *analysis, const struct spex_sample *sample);

/* Calls found so far have numbers below this; it is at least 1. */
size_t spex_analysis_calls(const struct spex_analysis *analysis); /* since 1.4 */
/* One of them; all zero if there is none with this number. Never NULL. Since 1.4. */
const struct spex_call *spex_analysis_call(const struct spex_analysis *analysis, uint32_t n);

#ifdef __cplusplus
}
#endif
#endif
