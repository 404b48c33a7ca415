/* report --slices: how rows change over time. */
#ifndef CLI_SLICES_H
#define CLI_SLICES_H

#include "cli/columns.h"

enum { SLICES_MOST = 40 };

/*
 * Makes a second pass: the rows of group, which is sorted, in `count` equal parts of the time of
 * the samples that passed the filters. Prints in the requested format. Returns the exit status.
 */
int slices_print(struct profile *profile, const struct spex_group *group, const enum spex_key *keys,
                 size_t key_count, unsigned count);

#endif
