/*
 * The tables of spex annotate: the instructions of a function with source lines and samples, and
 * the hottest lines of all functions.
 */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include "cli/profile.h"
#include "export/truth.h"

/* Exact counts for an instruction. */
struct listing_exact {
    uint64_t address, counts[TRUTH_COUNTS];
};

struct listing_of {
    const struct spex_symbol *symbol;
    const struct spex_group *group; /* rows of its instructions */
    bool with_exact;
    const struct listing_exact *exact; /* ordered by address */
    size_t exact_count;
};

struct spex_disassembler;
/* *never: how many instructions in hot blocks were never sampled: code_never_sampled(). */
struct table *listing_function(struct profile *profile, const struct listing_of *of,
                               struct spex_disassembler *disassembler, bool with_source,
                               size_t *never);
/* The group is by symbol and line. */
struct table *listing_hot(struct profile *profile, const struct spex_group *lines);

#endif
