/*
 * Describes findings (<spex/findings.h>) in words: the texts are in findings.def, and every front
 * end shows the same.
 */
#ifndef REPORT_WORDS_H
#define REPORT_WORDS_H

#include <spex/findings.h>
#include "base/json.h"

enum words_part { WORDS_FOUND, WORDS_DO, WORDS_SEE };

/* "far-data" */
const char *words_kind(enum spex_finding_kind kind);
/*
 * What was found, what to do, or the command that shows the evidence. timed: shares are of time.
 * The caller frees it.
 */
char *words_of(const struct spex_finding *finding, enum words_part part, bool timed);
/* Writes an array of objects (docs/schema.md), which is empty if findings is NULL. */
void words_write(const struct spex_findings *findings, struct json *json);

#endif
