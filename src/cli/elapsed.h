/* What threads did while they did not run (<spex/elapsed.h>), beside the tables of samples. */
#ifndef CLI_ELAPSED_H
#define CLI_ELAPSED_H

#include "cli/profile.h"

#include <spex/elapsed.h>

/* NULL: the profile says nothing, or filters ask for a part of it. Freed by spex_elapsed_free. */
struct spex_elapsed *elapsed_of(struct profile *profile);

/* A line of the header, if threads did something else than run; NULL is ignored. */
void elapsed_header(const struct spex_elapsed *elapsed, struct profile *profile);
/* Text: a table of a few rows, after a blank line. */
void elapsed_print(const struct spex_elapsed *elapsed, struct profile *profile);
/* "elapsed": in JSON, null if there is none. At most so many rows; 0: all. */
void elapsed_json(const struct spex_elapsed *elapsed, size_t most, struct json *json);

#endif
