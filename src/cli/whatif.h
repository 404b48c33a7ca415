/* What spex whatif compares: variants of the model, with one run of a program for each. */
#ifndef CLI_WHATIF_H
#define CLI_WHATIF_H

#include "batch.h"
#include "profile.h"

enum { WHATIF_VARIANTS = 32, WHATIF_NAME = 128 };

/* The others are compared with the first one: each differs from it in one thing. */
struct whatif_variant {
    char name[WHATIF_NAME];
    const char *cpu;
    struct cli_list model; /* words of --model */
    const char *ideal;     /* text of --ideal, or NULL */
};

struct whatif_plan {
    struct whatif_variant variants[WHATIF_VARIANTS];
    size_t count;
    char *text; /* buffer that the words point into */
    size_t text_used;
};

/*
 * cpus: A,B,...; words: KEY=V1:V2:... or other words of --model; ideals: texts of --ideal;
 * findings: ideals are added later. CLI_OK or the exit code.
 */
int whatif_plan(const char *cpus, const struct cli_list *words, const struct cli_list *ideals,
                bool findings, struct whatif_plan *plan);
/* Adds the first variant with this made ideal: a text of --ideal, which the plan refers to. */
int whatif_add_ideal(struct whatif_plan *plan, const char *spec);
void whatif_plan_free(struct whatif_plan *plan);

/*
 * Runs each program with each variant, several at a time; runs[program * plan->count + variant],
 * all zero at first. Files are made in the directory `place`. The first variant's output is shown.
 * CLI_OK or the exit code.
 */
int whatif_run(const struct run_options *options, const struct whatif_plan *plan, char ***programs,
               size_t program_count, unsigned at_a_time, const char *place, struct batch_run *runs);
/*
 * whatif_run in two steps, for --ideal. whatif_begin runs the first variant of each program;
 * whatif_go_on looks up in its profile what the other variants make ideal, and runs them. With one
 * program, variants may be added in between.
 */
int whatif_begin(const struct run_options *options, const struct whatif_plan *plan,
                 char ***programs, size_t program_count, unsigned at_a_time, const char *place,
                 struct batch_run *runs);
int whatif_go_on(const struct run_options *options, const struct profile_options *reading,
                 const struct whatif_plan *plan, char ***programs, size_t program_count,
                 unsigned at_a_time, const char *place, struct batch_run *runs);

/* ---- --findings (whatif_findings.c) ---- */

/* A finding in a profile, and what to make ideal to see its cost. */
struct whatif_finding {
    char *ideal; /* a text of --ideal; NULL if there is none for it */
    char *title, *text, *advice;
    double share; /* share of the time */
    double saves; /* largest share of the run's time that it saves; filled in by the caller */
};
struct whatif_findings {
    struct whatif_finding *items;
    size_t count, capacity;
};
/* CLI_OK or the exit code. file: a profile; NULL: the profiles of the options. */
int whatif_find(const struct profile_options *reading, const char *file,
                struct whatif_findings *findings);
/* Sorts by what they save. */
void whatif_sort_findings(struct whatif_findings *findings);
/* exact: measured by running the program again. */
void whatif_print_findings(struct profile *profile, const struct whatif_findings *findings,
                           bool exact, uint64_t clock);
void whatif_json_findings(struct json *json, const struct whatif_findings *findings, bool exact);
void whatif_free_findings(struct whatif_findings *findings);

#endif
