/* The blocks and allocation sites of a profile (<spex/data.h>): their table. */
#ifndef ANALYSIS_ALLOCS_H
#define ANALYSIS_ALLOCS_H

#include <spex/data.h>

#include "stacks.h"

struct allocs_table; /* shared by all files of a profile */

/* The number of the block that a sample of `event` names; `call` is its allocation site. */
uint32_t allocs_number(struct allocs_table **table, const struct stacks_table *calls,
                       const struct spex_perf_event *event, uint32_t call);
const struct spex_block *allocs_block(const struct allocs_table *table, uint32_t n);
const struct spex_site *allocs_site(const struct allocs_table *table, uint32_t n);
void allocs_table_free(struct allocs_table *table);

#endif
