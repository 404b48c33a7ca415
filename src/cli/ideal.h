/* The words of spex whatif --ideal: what is made ideal, and at which addresses. */
#ifndef CLI_IDEAL_H
#define CLI_IDEAL_H

#include "guest/engine.h"

#include "cli/profile.h"

/*
 * KIND=PLACE,PLACE... and perhaps more of them after blanks (docs/whatif.md). Is it well formed?
 * CLI_OK, or CLI_USAGE after a message.
 */
int ideal_check(const char *spec);
/* Are all pages to be large? That is a word of --model. */
bool ideal_large_pages(const char *spec);
/*
 * The ranges that it names in the programs of a profile, for the caller to free. CLI_OK, or the
 * exit code after a message: a place that nothing has is an error.
 */
int ideal_find(const char *spec, struct profile *profile, struct engine_ideal **ranges,
               size_t *count);

#endif
