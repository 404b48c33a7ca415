/* What the analysis found in a profile (<spex/findings.h>), in text and JSON. */
#ifndef CLI_ADVICE_H
#define CLI_ADVICE_H

#include <spex/findings.h>
#include "cli/profile.h"

/* A pass that also looks for findings. */
struct advice {
    struct spex_findings *findings;
    struct spex_sink sinks[SPEX_SINKS_MAX];
    size_t sink_count;
};
/* Without wanted, samples go only to sink, and there are no findings. sink may be {0}: none. */
struct advice advice_new(struct profile *profile, bool wanted, struct spex_sink sink);
/* Adds another sink, which may run at the same time. */
void advice_feed(struct advice *advice, struct spex_sink sink);
void advice_free(struct advice *advice);
/* One pass; CLI_OK or the exit status. */
int advice_run(struct advice *advice, struct profile *profile);

/* Text: a paragraph for each finding, after a blank line; nothing if the user chose columns. */
void advice_print(const struct advice *advice, struct profile *profile);
/* Writes the findings as a member of a JSON object. */
void advice_json(const struct advice *advice, struct json *json);
/* Writes what to do about a finding. */
void advice_do(struct profile *profile, const struct spex_finding *finding, unsigned indent);

#endif
