/* Sends SQL to the ClickHouse server of a fleet. */
#ifndef CLI_FLEET_QUERY_H
#define CLI_FLEET_QUERY_H

#include "cli/fleet.h"

/*
 * hosts and last select rows where the statement has {where}; NULL selects all. format: enum
 * table_format. Returns the exit status; 1 also if the answer is partial.
 */
int fleet_query(const struct fleet_options *fleet, const char *sql, const char *hosts,
                const char *last, int format, const char *output);

#endif
