/* Parses spex whatif --ideal: what is made ideal, and at which addresses. */
#ifndef CLI_IDEAL_H
#define CLI_IDEAL_H

#include "guest/engine.h"

#include "cli/profile.h"

/*
 * Is the text well formed? KIND=PLACE,PLACE... and perhaps more of these, separated by blanks
 * (docs/whatif.md). CLI_OK, or CLI_USAGE after a message.
 */
int ideal_check(const char *spec);
/* Does it make all pages large? That is done by a word of --model. */
bool ideal_large_pages(const char *spec);
/*
 * Finds the address ranges that the text names in the programs of a profile; the caller frees them.
 * CLI_OK, or the exit code after a message: a place that matches nothing is an error.
 */
int ideal_find(const char *spec, struct profile *profile, struct engine_ideal **ranges,
               size_t *count);

#endif
