/* spex stat on a machine with SPE: prints what follows the estimates. */
#ifndef CLI_NATIVE_STAT_H
#define CLI_NATIVE_STAT_H

#include "record.h"

/* samples: records in the profile; least: the shortest period of the PMU. Prints on stderr. */
void native_stat_print(const struct native_totals *totals, uint64_t samples, uint64_t period,
                       uint64_t least);

#endif
