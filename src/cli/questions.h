/* What spex query executes: its SQL, and the tables and views that the SQL refers to. */
#ifndef CLI_QUESTIONS_H
#define CLI_QUESTIONS_H

#include "cli/cli.h"

#include "query/query.h"

/* Prints the ready-made queries, those for a fleet or the others. Returns an exit status. */
int questions_list(bool fleet);
/* The SQL: as typed, from a file, or a ready-made query by name. NULL after a message. */
char *questions_text(bool fleet, const char *given);
/*
 * Call it before executing the SQL: makes views for the files, -i first. Files and
 * ready-made queries are only looked at if the statement mentions them. False: the query
 * has the reason.
 */
bool questions_views(struct query *query, const struct cli_list *inputs, char **files,
                     const char *asked);

#endif
