/*
 * spex check: what its parts share. A case is one program on one CPU; it is run in one layout or
 * more, and its result is compared with that of the baseline, a file that spex check --update
 * writes (docs/check.md).
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
/* In the baseline and in reports: the word, and the heading of a column. */
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
    char **texts; /* all that the cases point to */
    size_t text_count, text_capacity;
};

/* Keeps a text as long as the plan. */
char *check_keep(struct check_plan *plan, char *text);
struct check_case *check_add(struct check_plan *plan);
void check_plan_free(struct check_plan *plan);

/*
 * Adds the cases of a suite file; standard has what it does not say. CLI_OK, or the exit code after
 * a message with the line.
 */
int check_suite(const char *path, const struct check_case *standard, struct check_plan *plan);

/* ---- what came out ---- */

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
    char model[20]; /* what was modelled; results of other models are not comparable */
    uint64_t layouts;
    uint64_t counts[CHECK_COUNTS]; /* the median over the layouts, each for itself */
    uint64_t low, high;            /* cycles: the least and the most */
    uint64_t kernel, time;         /* cycles of system calls, which are in those; modelled ns */
    struct check_function *functions;
    size_t function_count, function_capacity;
};

struct check_results {
    struct check_result *items;
    size_t count, capacity;
    char spex[32]; /* the version that made them */
};

/* The function that stands for all that are too small to name. */
#define CHECK_OTHERS "[others]"

void check_result_free(struct check_result *result);
void check_results_free(struct check_results *results);
/* Adds one with copies of these names. */
struct check_result *check_results_add(struct check_results *all, const char *name,
                                       const char *cpu);
/* NULL if there is none. */
struct check_result *check_results_find(const struct check_results *all, const char *name,
                                        const char *cpu);
/* Adds an empty one with a copy of the name. */
struct check_function *check_function_add(struct check_result *result, const char *name);
struct check_line *check_line_add(struct check_function *function, const char *file, unsigned line);

/* The runs of all cases, several at a time; results are in the order of the cases. */
struct check_engine {
    const char *qemu, *qemu_cpu;
    uint64_t seed, jobs;
};
int check_run(struct check_plan *plan, const struct check_engine *engine,
              struct check_results *results);

/*
 * The exact counts of one run by function and line; kernel: with the cycles of system calls. CLI_OK
 * or the exit code after a message.
 */
int check_collect(const char *profile, bool kernel, struct check_result *result);
/* Of several layouts one: medians. At least one; results[0] becomes the answer. */
void check_median(struct check_result *results, size_t count);

/* ---- the baseline ---- */

/* CLI_OK, or the exit code after a message; a file that is not there is CLI_OK without results. */
int check_baseline_read(const char *path, struct check_results *results, bool *there);
int check_baseline_write(const char *path, const struct check_results *results);
/* Takes what is new into old: results of the same case are replaced. */
void check_baseline_merge(struct check_results *old, struct check_results *new);

/* ---- the comparison ---- */

enum check_verdict {
    CHECK_SAME,   /* within the threshold */
    CHECK_SLOWER, /* beyond it */
    CHECK_FASTER,
    CHECK_SPREAD, /* beyond it, and no more than layouts make */
    CHECK_NEW,    /* not in the baseline */
    CHECK_OTHER,  /* the baseline is of another model: not compared */
};
extern const char *const check_verdicts[];

struct check_change {
    const struct check_result *before, *after; /* before: NULL if there is none */
    double threshold, change;                  /* change in cycles and its limit, as fractions */
    enum check_verdict verdict;
};
void check_compare(const struct check_case *c, const struct check_result *before,
                   const struct check_result *after, struct check_change *change);

/* A function, or a line of one, that has more or fewer cycles than before. */
struct check_blame {
    const struct check_function *before, *after; /* NULL: there was none, is none */
    int64_t cycles;                              /* more */
    struct check_blamed_line {
        const struct check_line *before, *after;
        int64_t cycles;
    } lines[3];
    size_t line_count;
};
enum { CHECK_BLAMED = 6 };
/* The functions that make up the change, most first; how many. */
size_t check_blame(const struct check_change *change, struct check_blame blames[CHECK_BLAMED]);

/* ---- printing ---- */

enum check_format { CHECK_TEXT, CHECK_MARKDOWN, CHECK_JSON, CHECK_JUNIT };
extern const char *const check_formats[];
struct check_report {
    const struct check_change *changes;
    size_t count;
    const char *baseline; /* its path; NULL: there is none */
    size_t missing;       /* cases of the baseline that were not run, though all were asked for */
};
void check_print(struct out *out, enum check_format format, const struct check_report *report);
void check_print_data(struct out *out, enum check_format format, const struct check_report *report);

#endif
