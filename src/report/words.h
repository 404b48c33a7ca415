/*
 * The words for what the analysis found (<spex/findings.h>): one table, findings.def, which
 * every front end shows.
 */
#ifndef REPORT_WORDS_H
#define REPORT_WORDS_H

#include <spex/findings.h>
#include "base/json.h"

enum { WORDS_NAME = 2000 }; /* bytes of a name of data; longer ones are cut */
enum words_part { WORDS_FOUND, WORDS_DO, WORDS_SEE };

/* "far-data" */
const char *words_kind(enum spex_finding_kind kind);
/*
 * What was found, what to do, or the command that shows the evidence. timed: shares are of time.
 * The caller frees it.
 */
char *words_of(const struct spex_finding *finding, enum words_part part, bool timed);
/* An array of objects (docs/schema.md); findings NULL: an empty one. */
void words_write(const struct spex_findings *findings, struct json *json);

#endif
