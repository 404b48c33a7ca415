/* What spex whatif compares: variants of the model, one run of a program for each. */
#ifndef CLI_WHATIF_H
#define CLI_WHATIF_H

#include "batch.h"
#include "profile.h"

enum { WHATIF_VARIANTS = 32, WHATIF_NAME = 128 };

/* The first one is what the others are compared with: each differs from it in one thing. */
struct whatif_variant {
    char name[WHATIF_NAME];
    const char *cpu;
    struct cli_list model; /* words of --model */
    const char *ideal;     /* of --ideal, or NULL */
};

struct whatif_plan {
    struct whatif_variant variants[WHATIF_VARIANTS];
    size_t count;
    char *text; /* that the words lie in */
    size_t text_used;
};

/*
 * cpus: A,B,...; words: KEY=V1:V2:... or other words of --model; ideals: of --ideal. CLI_OK or the
 * exit code.
 */
int whatif_plan(const char *cpus, const struct cli_list *words, const struct cli_list *ideals,
                struct whatif_plan *plan);
void whatif_plan_free(struct whatif_plan *plan);

/*
 * Runs each program with each variant, several at a time; runs[program * plan->count + variant].
 * What is ideal is looked up in the profile of the first variant, which then runs before the
 * others. Files are made in place. The first variant's output is shown. CLI_OK or the exit code.
 */
int whatif_run(const struct run_options *options, const struct profile_options *reading,
               const struct whatif_plan *plan, char ***programs, size_t program_count,
               unsigned at_a_time, const char *place, struct batch_run *runs);

#endif
