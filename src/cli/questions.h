/* What spex query is asked: its text, and what the names in that mean. */
#ifndef CLI_QUESTIONS_H
#define CLI_QUESTIONS_H

#include "cli/cli.h"

#include "query/query.h"

/* Prints the ready-made questions, those to a fleet or the others. An exit status. */
int questions_list(bool fleet);
/* The text of SQL that was typed, of a file, or of a question by name. NULL after a message. */
char *questions_text(bool fleet, const char *given);
/*
 * Before SQL is asked: its views of the files, -i first. Files are looked at only for a statement
 * that mentions them, and questions are views of their names only there, too. False: the query has
 * the reason.
 */
bool questions_views(struct query *query, const struct cli_list *inputs, char **files,
                     const char *asked);

#endif
