/*
 * The tables of spex annotate: a function's instructions with source lines and what was sampled at
 * each, and the hottest lines of all functions.
 */
#ifndef CLI_LISTING_H
#define CLI_LISTING_H

#include "cli/profile.h"
#include "export/truth.h"

/* What was counted for an instruction. */
struct listing_exact {
    uint64_t address, counts[TRUTH_COUNTS];
};

struct listing_of {
    const struct spex_symbol *symbol;
    const struct spex_group *group; /* its instructions */
    bool with_exact;
    const struct listing_exact *exact; /* ordered by address */
    size_t exact_count;
};

struct spex_disassembler;
/* *never: instructions of hot blocks that were never sampled: code_never_sampled(). */
struct table *listing_function(struct profile *profile, const struct listing_of *of,
                               struct spex_disassembler *disassembler, bool with_source,
                               size_t *never);
/* Rows of symbol and line. */
struct table *listing_hot(struct profile *profile, const struct spex_group *lines);

#endif
