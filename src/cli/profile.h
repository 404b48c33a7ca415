/*
 * What report, annotate, mem, c2c, branch, diff and script share: their common options,
 * opening the profile, the lines that say what was sampled, and the messages about an empty or
 * damaged input.
 */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include "analysis/internal.h"

#include "cli/cli.h"
#include "cli/table.h"
#include "report/sources.h"

struct profile_options {
    struct cli_list inputs; /* -i: files of one profile */
    const char *symfs, *vmlinux, *kallsyms, *fields;
    struct profile_filters {
#define FILTER(option, member, kind, value, help) const char *member;
#include "analysis/filters.def"
    } filter;
    struct cli_list source_dirs;
    bool raw, no_demangle, verbose, no_replay, no_source;
    uint64_t midr, max_memory, threads;
    int format;
    const char *percent_limit, *sort;
};

#define PROFILE_AT(type, field) offsetof(type, profile.field)
/* clang-format off */
/* First in a command's option table; its options struct has a member "profile". */
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
/* Of commands that show time. */
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
    const char **paths; /* paths of all files, NULL after the last */
    char *names;        /* the name, if it had to be allocated */
    char *directory;    /* directory of the first file; NULL: standard input */
    const char *label;  /* before the name in the header; NULL none */
    struct spex_filter filters[SPEX_FILTER_MAX];
    size_t filter_count;
    struct out out; /* stdout */
    unsigned width;
    bool whole_names; /* long names are not cut */
    bool colour;
    /* A line of a fetch stands on the terminal; no more lines: the answer is being shown. */
    _Atomic bool progress, quiet;
    bool told;      /* the output already says what the file lacks */
    double limit;   /* share below which rows are left out */
    uint64_t least; /* samples below which rows of text are left out */
    int status;
};

/*
 * Opens the input for a command; more may be NULL or set further options. Returns
 * CLI_OK or the exit status, the reason already printed.
 */
int profile_open(struct profile *profile, const struct profile_options *options,
                 const char *operand, const struct spex_analysis_options *more);
/* For tables that come from elsewhere: how and where to print, without a profile. */
int profile_printing(struct profile *profile, const struct profile_options *options);
/* The same with any number of operands, which with those of -i are one profile. */
int profile_open_all(struct profile *profile, const struct profile_options *options,
                     char *const *operands, const struct spex_analysis_options *more);
/* A group of the profile; ends the program if there is no memory. */
struct spex_group *profile_group(struct profile *profile, const enum spex_key *keys,
                                 size_t key_count, unsigned flags);
/*
 * The output is made from the profile: CLI_USAGE after a message if it would replace what is read,
 * or if mode (of --mode, or NULL) is none.
 */
struct output;
int profile_output(const struct profile *profile, struct output *output, const char *mode);
/* Where its source files may come from. */
struct source_places profile_sources(const struct profile_options *options);
/* One pass; CLI_OK or the exit status. */
int profile_run(struct profile *profile, struct spex_sink sink);
int profile_run_all(struct profile *profile, const struct spex_sink *sinks, size_t count);
/* After the output: what was damaged or missing, on stderr. Closes all; the exit status. */
int profile_close(struct profile *profile);

/* Says on stderr that not all was recorded, if so. */
void profile_losses(const char *name, uint64_t lost, uint64_t truncated);
/* The filters as they were typed, with a 0 after them. */
void profile_filters(const struct profile *profile, struct out *out);
/* "# perf.data: ..." lines of text output. */
void profile_header(struct profile *profile, struct out *out);
/* The same as members of an object of JSON. */
void profile_members(struct profile *profile, struct json *json);
/* An object of JSON that names its schema and has them. */
struct json profile_json(struct profile *profile, const char *schema);
/* A "# ..." line of text output, broken where the terminal ends. */
void profile_comment(struct profile *profile, struct out *out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Why numbers of operations are not estimated, if they are not. */
void profile_no_estimate(struct profile *profile, struct out *out);
/*
 * Why single instructions are not to be trusted: so many of them have no samples that should have,
 * or the CPU is known for it (its erratum; NULL: none).
 */
struct profile_bias {
    size_t never;
    const char *erratum;
};
struct profile_bias profile_bias(const struct profile *profile, size_t never);
/* Says so, if it is. */
void profile_bias_print(struct profile *profile, struct out *out, size_t never);
/* How much time there is and where it comes from, or why it is not known. */
void profile_time(struct profile *profile, struct out *out, const struct spex_group *group);
/* How whose time it is was told, and how far to trust it; profile_time says it too. */
void profile_trust(struct profile *profile, struct out *out);
/* Nothing to show: says why, on stdout for text; true if there was nothing. */
bool profile_empty(struct profile *profile, uint64_t samples, const char *what);
struct table_options profile_table(const struct profile *profile);

/* Parses "a,b" into keys; the exit status. */
int profile_keys(const char *list, enum spex_key *keys, size_t *count);
/* Says that the first field of the list is none; returns CLI_USAGE. */
int profile_wrong_field(const char *list);

/* NAN when total is 0. */
double ratio_of(uint64_t count, uint64_t total);

#endif
