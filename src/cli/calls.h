/*
 * report -g: functions by the time spent in them and below them, each with who called it and what
 * it called.
 */
#ifndef CLI_CALLS_H
#define CLI_CALLS_H

#include "cli/profile.h"

struct calls;

struct calls *calls_new(struct profile *profile);
void calls_free(struct calls *calls);
/* A spex_sample_sink; its context is the calls. */
void calls_sink(void *calls, const struct spex_sample *samples, size_t count);
/* After the pass; the exit status. */
int calls_print(struct calls *calls, struct profile *profile);

/* Notes on the stacks of a profile, as comments; true if there are any stacks. */
bool calls_say(struct profile *profile, struct out *out);

#endif
