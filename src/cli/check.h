/*
 * What the parts of spex check share. A case is one program on one CPU; it is run in one or more
 * layouts, and its result is compared with the baseline, a file that spex check --update writes
 * (docs/check.md).
 */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "cli.h"

#include "base/out.h"

enum check_count {
    CHECK_CYCLES,
    CHECK_INSTRUCTIONS,
    CHECK_L1,
    CHECK_L2,
    CHECK_LLC,
    CHECK_WALKS,
    CHECK_MISPREDICTS,
    CHECK_COUNTS
};
/* In the baseline and in reports: the name and the column heading. */
extern const char *const check_names[CHECK_COUNTS], *const check_headings[CHECK_COUNTS];

/* ---- what is run ---- */

struct check_case {
    char *name;
    const char *cpu;
    char **argv; /* the program and its arguments */
    const char *input, *directory, *start_at, *stop_at, *sysroot;
    struct cli_list environment, model;
    double threshold; /* allowed change in cycles, as a fraction */
    uint64_t layouts;
};

struct check_plan {
    struct check_case *items;
    size_t count, capacity;
    char **texts; /* all texts that the cases point to */
    size_t text_count, text_capacity;
};

/* Keeps a text for as long as the plan exists. */
char *check_keep(struct check_plan *plan, char *text);
struct check_case *check_add(struct check_plan *plan);
void check_plan_free(struct check_plan *plan);

/*
 * Adds the cases of a suite file; standard has the values that it leaves out. CLI_OK, or the exit
 * code after a message with the line.
 */
int check_suite(const char *path, const struct check_case *standard, struct check_plan *plan);

/* ---- results ---- */

struct check_line {
    char *file; /* without its directory */
    unsigned line;
    uint64_t cycles;
};

struct check_function {
    char *name;
    uint64_t counts[CHECK_COUNTS];
    struct check_line *lines; /* ordered by file and line */
    size_t line_count, line_capacity;
};

struct check_result {
    char *name, *cpu;
    char model[20]; /* identifies the model: results of different models cannot be compared */
    uint64_t layouts;
    uint64_t counts[CHECK_COUNTS]; /* the median over the layouts, for each count separately */
    uint64_t low, high;            /* range of cycles over the layouts */
    uint64_t kernel, time;         /* cycles of system calls, which cycles include; modelled ns */
    struct check_function *functions;
    size_t function_count, function_capacity;
};

struct check_results {
    struct check_result *items;
    size_t count, capacity;
    char spex[32]; /* the version that made them */
};

/* The name for all functions that are too small to be listed. */
#define CHECK_OTHERS "[others]"

void check_result_free(struct check_result *result);
void check_results_free(struct check_results *results);
/* Adds a result with copies of these names. */
struct check_result *check_results_add(struct check_results *all, const char *name,
                                       const char *cpu);
/* NULL if there is no such result. */
struct check_result *check_results_find(const struct check_results *all, const char *name,
                                        const char *cpu);
/* Adds an empty function with a copy of the name. */
struct check_function *check_function_add(struct check_result *result, const char *name);
struct check_line *check_line_add(struct check_function *function, const char *file, unsigned line);

/* Runs all cases, several at a time; results are in the order of the cases. */
struct check_engine {
    const char *qemu, *qemu_cpu;
    uint64_t seed, jobs;
};
int check_run(struct check_plan *plan, const struct check_engine *engine,
              struct check_results *results);

/*
 * Reads the exact counts of one run by function and line; kernel: with the cycles of system calls.
 * CLI_OK or the exit code after a message.
 */
int check_collect(const char *profile, bool kernel, struct check_result *result);
/* Combines the results of several layouts, at least one, into medians in results[0]. */
void check_median(struct check_result *results, size_t count);

/* ---- the baseline ---- */

/*
 * Reads a baseline: CLI_OK, or the exit code after a message. A missing file is CLI_OK without
 * results.
 */
int check_baseline_read(const char *path, struct check_results *results, bool *there);
int check_baseline_write(const char *path, const struct check_results *results);
/* Moves new results into old; they replace results of the same case. */
void check_baseline_merge(struct check_results *old, struct check_results *new);

/* ---- comparison ---- */

enum check_verdict {
    CHECK_SAME,   /* within the threshold */
    CHECK_SLOWER, /* beyond the threshold */
    CHECK_FASTER,
    CHECK_SPREAD, /* beyond the threshold, but not beyond what layouts differ by */
    CHECK_NEW,    /* not in the baseline */
    CHECK_OTHER,  /* the baseline was made with another model: not compared */
};
extern const char *const check_verdicts[];

struct check_change {
    const struct check_result *before, *after; /* before: NULL if there is none */
    double threshold, change;                  /* change in cycles and its limit, as fractions */
    enum check_verdict verdict;
};
void check_compare(const struct check_case *c, const struct check_result *before,
                   const struct check_result *after, struct check_change *change);

/* A function, or one of its lines, with more or fewer cycles than before. */
struct check_blame {
    /* NULL: it did not exist before, or no longer exists */
    const struct check_function *before, *after;
    int64_t cycles; /* positive: more than before */
    struct check_blamed_line {
        const struct check_line *before, *after;
        int64_t cycles;
    } lines[3];
    size_t line_count;
};
enum { CHECK_BLAMED = 6 };
/* The functions that make up the change, largest first; returns their number. */
size_t check_blame(const struct check_change *change, struct check_blame blames[CHECK_BLAMED]);

/* ---- printing ---- */

enum check_format { CHECK_TEXT, CHECK_MARKDOWN, CHECK_JSON, CHECK_JUNIT };
extern const char *const check_formats[];
struct check_report {
    const struct check_change *changes;
    size_t count;
    const char *baseline; /* path of the baseline; NULL: there is none */
    size_t missing;       /* cases of the baseline that were not run, although all were asked for */
};
void check_print(struct out *out, enum check_format format, const struct check_report *report);
void check_print_data(struct out *out, enum check_format format, const struct check_report *report);

#endif
