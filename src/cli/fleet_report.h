/* The report table for a fleet, from the roll-ups on its ClickHouse server. */
#ifndef CLI_FLEET_REPORT_H
#define CLI_FLEET_REPORT_H

#include "cli/fleet.h"

/* hosts, last: NULL selects all. Returns the exit status; 1 also if the answer is partial. */
int fleet_report(const struct profile_options *options, const struct fleet_options *fleet,
                 const char *hosts, const char *last);

#endif
