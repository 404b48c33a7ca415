/*
 * report -g: functions by the time spent in them and in what they call, each with its callers and
 * callees.
 */
#ifndef CLI_CALLS_H
#define CLI_CALLS_H

#include "cli/profile.h"

struct calls;

struct calls *calls_new(struct profile *profile);
void calls_free(struct calls *calls);
/* A spex_sample_sink; the context is a struct calls. */
void calls_sink(void *calls, const struct spex_sample *samples, size_t count);
/* Call it after the pass; returns the exit status. */
int calls_print(struct calls *calls, struct profile *profile);

/* Prints notes on the stacks of a profile, as comments; true if there are any stacks. */
bool calls_say(struct profile *profile, struct out *out);

#endif
