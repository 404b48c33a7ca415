/*
 * What report, annotate, mem, c2c, branch, diff and script share: common options, opening the
 * profile, the lines that say what was sampled, and messages about an empty or damaged input.
 */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include "cli/cli.h"
#include "cli/table.h"
#include "report/sources.h"
#include "report/stats.h"

#include <spex/sinks.h>

struct profile_options {
    struct cli_list inputs; /* -i: files of one profile */
    const char *symfs, *vmlinux, *kallsyms, *fields;
    struct profile_filters {
#define SPEX_FILTER(option, member, kind, value, help) const char *member;
#include <spex/filters.def>
    } filter;
    struct cli_list source_dirs;
    bool raw, no_demangle, verbose, no_replay, no_source;
    uint64_t midr, max_memory, threads;
    int format;
    const char *percent_limit, *sort;
};

#define PROFILE_AT(type, field) offsetof(type, profile.field)
/* clang-format off */
/* First rows in a command's option table; its options struct has a member "profile". */
#define PROFILE_SOURCE_OPTIONS(type)                                                           \
    {"input", 'i', CLI_LIST, PROFILE_AT(type, inputs), "FILE",                                 \
     "perf.data file to read, - for standard input (default perf.data); several are one profile", \
     NULL, NULL},                                                                              \
    {"raw", 0, CLI_FLAG, PROFILE_AT(type, raw), NULL,                                          \
     "the input is a bare SPE stream, not a perf.data file", NULL, NULL},                      \
    {"midr", 0, CLI_NUMBER, PROFILE_AT(type, midr), "MIDR",                                    \
     "the CPU's MIDR_EL1, to decode data sources, if the input lacks it", NULL, NULL},       \
    CLI_MEMORY(PROFILE_AT(type, max_memory))
#define PROFILE_INPUT_OPTIONS(type)                                                            \
    PROFILE_SOURCE_OPTIONS(type),                                                              \
    {"format", 0, CLI_CHOICE, PROFILE_AT(type, format), "FORMAT", "text, json or csv", "text", \
     table_formats}
#define PROFILE_SYMBOL_OPTIONS(type)                                                           \
    {"symfs", 0, CLI_STRING, PROFILE_AT(type, symfs), "DIR",                                   \
     "look for the profiled binaries below this directory", NULL, NULL},                          \
    {"vmlinux", 0, CLI_STRING, PROFILE_AT(type, vmlinux), "FILE", "kernel with symbols", NULL, \
     NULL},                                                                                    \
    {"kallsyms", 0, CLI_STRING, PROFILE_AT(type, kallsyms), "FILE",                            \
     "copy of /proc/kallsyms from the profiled machine", NULL, NULL},                   \
    {"no-demangle", 0, CLI_FLAG, PROFILE_AT(type, no_demangle), NULL,                          \
     "do not demangle C++ and Rust names", NULL, NULL},                                        \
    {"verbose", 'v', CLI_FLAG, PROFILE_AT(type, verbose), NULL,                                \
     "all notes about names that are missing, not the first of them; whole names",              \
     NULL, NULL}
/* For commands that show time. */
#define PROFILE_REPLAY(type)                                                                   \
    {"no-replay", 0, CLI_FLAG, PROFILE_AT(type, no_replay), NULL,                              \
     "share out time by latencies alone, without replaying the program (docs/time.md)",  \
     NULL, NULL}
#define PROFILE_TEXT_OPTIONS(type)                                                             \
    {"source-dir", 0, CLI_LIST, PROFILE_AT(type, source_dirs), "DIR",                          \
     "source files may also be read below this directory", NULL, NULL},                       \
    {"no-source", 0, CLI_FLAG, PROFILE_AT(type, no_source), NULL,                              \
     "instructions only, without source lines", NULL, NULL}
#define PROFILE_FIELDS(type)                                                                   \
    {"fields", 'F', CLI_STRING, PROFILE_AT(type, fields), "LIST",                              \
     "columns to show, in order; +LIST adds to the default ones", NULL, NULL}
#define PROFILE_TABLE_OPTIONS(type)                                                            \
    PROFILE_FIELDS(type),                                                                      \
    {"percent-limit", 0, CLI_STRING, PROFILE_AT(type, percent_limit), "PERCENT",               \
     "leave out rows below this share (default 0.5 in text, else 0)", NULL, NULL}
/* clang-format on */

struct profile {
    const struct profile_options *options;
    struct spex_analysis *analysis;
    const char *name;   /* the file's name; "a.data and 2 more" for several */
    const char **paths; /* paths of all files, then NULL */
    char *names;        /* set if name had to be allocated */
    char *directory;    /* directory of the first file; NULL: standard input */
    const char *label;  /* shown before the name in the header; or NULL */
    struct spex_filter filters[SPEX_FILTER_MAX];
    size_t filter_count;
    struct out out; /* stdout */
    unsigned width;
    bool whole_names; /* long names are not cut */
    bool colour;
    /* progress: a download's line is on the terminal; quiet: print no more such lines */
    _Atomic bool progress, quiet;
    bool elapsed;   /* the profile says itself what threads did while they did not run */
    bool told;      /* the output already says what the file lacks */
    double limit;   /* smallest share of rows that are shown */
    uint64_t least; /* fewest samples of rows that are shown in text */
    int status;
};

/*
 * Opens the input for a command; more may be NULL or hold further options. Returns CLI_OK, or the
 * exit status with the reason already printed.
 */
int profile_open(struct profile *profile, const struct profile_options *options,
                 const char *operand, const struct spex_analysis_options *more);
/* For tables from another source: sets how and where to print, without a profile. */
int profile_printing(struct profile *profile, const struct profile_options *options);
/* Like profile_open with any number of operands; with those of -i they form one profile. */
int profile_open_all(struct profile *profile, const struct profile_options *options,
                     char *const *operands, const struct spex_analysis_options *more);
/* Makes a group in the profile; ends the program if there is no memory. */
struct spex_group *profile_group(struct profile *profile, const enum spex_key *keys,
                                 size_t key_count, unsigned flags);
/*
 * Prepares an output that is made from the profile: CLI_USAGE after a message if it would replace
 * an input, or if mode (of --mode, or NULL) is not valid.
 */
struct output;
int profile_output(const struct profile *profile, struct output *output, const char *mode);
/* Where source files may be found. */
struct source_places profile_sources(const struct profile_options *options);
/* Makes one pass; returns CLI_OK or the exit status. */
int profile_run(struct profile *profile, struct spex_sink sink);
int profile_run_all(struct profile *profile, const struct spex_sink *sinks, size_t count);
/*
 * Call it after the output: reports on stderr what was damaged or missing. Closes everything;
 * returns the exit status.
 */
int profile_close(struct profile *profile);

/* Reports on stderr if not everything was recorded. */
/* Says on stderr that a file cannot be opened, and what is wrong in one that was. */
void profile_unopened(const struct spex_error *error);
#define PROFILE_MORE_MEMORY "; --max-memory SIZE allows more"
void profile_problem(const char *name, const struct spex_perf_problem *problem);

void profile_losses(const char *name, uint64_t lost, uint64_t truncated);
/* Appends the filters as they were typed, with a 0 after them. */
void profile_filters(const struct profile *profile, struct out *out);
/* Prints the "# perf.data: ..." lines of text output. */
void profile_header(struct profile *profile, struct out *out);
/* Writes the same as members of a JSON object. */
void profile_members(struct profile *profile, struct json *json);
/* Begins a JSON object with the schema's name and these members. */
struct json profile_json(struct profile *profile, const char *schema);
/* Prints a "# ..." line of text output, wrapped at the terminal's width. */
void profile_comment(struct profile *profile, struct out *out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says why numbers of operations are not estimated, if they are not. */
void profile_no_estimate(struct profile *profile, struct out *out);
/*
 * Why single instructions cannot be trusted: too many that should have samples have none, or the
 * CPU has an erratum (NULL: none known).
 */
struct profile_bias {
    size_t never;
    const char *erratum;
};
struct profile_bias profile_bias(const struct profile *profile, size_t never);
/* Reports the bias, if there is one. */
void profile_bias_print(struct profile *profile, struct out *out, size_t never);
/* Prints how much time there is and where it comes from, or why it is not known. */
void profile_time(struct profile *profile, struct out *out, const struct spex_group *group);
/* Prints how time was attributed and how far to trust that; profile_time includes it. */
void profile_trust(struct profile *profile, struct out *out);
/* The same, unless the fit is good. */
void profile_doubt(struct profile *profile, struct out *out);
/* If there is nothing to show, says why (on stdout for text) and returns true. */
bool profile_empty(struct profile *profile, uint64_t samples, const char *what);
struct table_options profile_table(const struct profile *profile);

/* Parses "a,b" into keys; returns the exit status. */
int profile_keys(const char *list, enum spex_key *keys, size_t *count);
/* Reports that the first field of the list does not exist; returns CLI_USAGE. */
int profile_wrong_field(const char *list);

/* NAN when total is 0. */
double ratio_of(uint64_t count, uint64_t total);

#endif
