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
/* wanted false: samples go to sink alone, and there are no findings. It may be {0}: none. */
struct advice advice_new(struct profile *profile, bool wanted, struct spex_sink sink);
/* Adds another sink, which may run at the same time. */
void advice_feed(struct advice *advice, struct spex_sink sink);
void advice_free(struct advice *advice);
/* One pass; CLI_OK or the exit status. */
int advice_run(struct advice *advice, struct profile *profile);

/* Text: a paragraph for each, after a blank line; none if the user chose columns. */
void advice_print(const struct advice *advice, struct profile *profile);
/* "findings": in JSON. */
void advice_json(const struct advice *advice, struct json *json);
/* What to do about one of them. */
void advice_do(struct profile *profile, const struct spex_finding *finding, unsigned indent);

#endif
