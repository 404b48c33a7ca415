/*
 * The allocations that hold the data of samples, for profiles of `spex record --allocs`: blocks,
 * and the sites that allocated them. A site is the innermost recorded call that is not in a wrapper
 * of an allocator; without call stacks only one call is recorded.
 *
 * For sinks: set SPEX_WANT_ALLOC in the options, and call analysis_alloc() while handling the
 * sample.
 */
#ifndef ANALYSIS_ALLOCS_H
#define ANALYSIS_ALLOCS_H

#include <spex/analysis.h>

#include "stacks.h"

struct allocs_site {
    struct spex_module *module; /* module of the calling instruction; NULL: no mapping */
    const struct spex_symbol *symbol;
    uint64_t address; /* its address in the module; without a module, its run-time address */
    uint64_t blocks, least, most; /* blocks that samples were in; their sizes in bytes */
};

struct allocs_block {
    uint64_t start, size, number;
    int32_t pid;
    uint32_t site, stack; /* stack: the innermost call */
};

/* The number of the block that holds the data of a sample, while a sink handles it; 0: none. */
uint32_t analysis_alloc(struct spex_analysis *analysis, const struct spex_sample *sample);
const struct allocs_block *analysis_block(const struct spex_analysis *analysis, uint32_t n);
const struct allocs_site *analysis_site(const struct spex_analysis *analysis, uint32_t n);
/* Writes the site as text, such as "tree.c:88 parse"; returns its length like snprintf. */
size_t analysis_site_text(struct spex_analysis *analysis, uint32_t n, char *text, size_t capacity);

/* The site in a row's n-th key; NULL if that key is not SPEX_KEY_ALLOC, or not allocated. */
const struct allocs_site *group_site(const struct spex_group *group, const struct spex_row *row,
                                     size_t n);

/* The block at an offset in a line that threads share; 0: none. */
uint32_t sharing_block(const struct spex_sharing *sharing, const struct spex_shared_line *line,
                       unsigned offset);

/* ---- for stacks.c and analysis.c ---- */

struct allocs_table; /* shared by all files of a profile */

/* The number of the block that a sample of `event` names; `call` is its allocation site. */
uint32_t allocs_number(struct allocs_table **table, const struct stacks_table *calls,
                       const struct spex_perf_event *event, uint32_t call);
const struct allocs_block *allocs_block(const struct allocs_table *table, uint32_t n);
const struct allocs_site *allocs_site(const struct allocs_table *table, uint32_t n);
void allocs_table_free(struct allocs_table *table);

#endif
