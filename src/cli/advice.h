/* What the analysis found in a profile (analysis/findings.h), in text and JSON. */
#ifndef CLI_ADVICE_H
#define CLI_ADVICE_H

#include "analysis/findings.h"
#include "cli/profile.h"

/* A pass that also looks for findings. */
struct advice {
    struct findings *findings;
    spex_sample_sink *sink;
    void *context;
};
/* wanted false: samples go to sink alone, and there are no findings. */
struct advice advice_new(struct profile *profile, bool wanted, spex_sample_sink *sink,
                         void *context);
void advice_free(struct advice *advice);
/* One pass; CLI_OK or the exit status. */
int advice_run(struct advice *advice, struct profile *profile);

/* Text: a paragraph for each, behind a blank line; not where columns were asked for. */
void advice_print(const struct advice *advice, struct profile *profile);
/* "findings": in JSON. */
void advice_json(const struct advice *advice, struct json *json);
/* What to do about one of them. */
void advice_do(struct profile *profile, const struct finding *finding, unsigned indent);

#endif
