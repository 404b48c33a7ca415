/*
 * Exports profiles for other tools: one format, one file. A job is one pass over a profile. The
 * format writes to the job's output, and what people should know about the result goes to the job's
 * notes. Formats need only samples; where samples have call stacks, frames.h provides them.
 */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "export/values.h"

/* The weight of a sample: what the numbers of a profile count. */
enum export_weight {
    EXPORT_WEIGHT_SAMPLES,
    EXPORT_WEIGHT_TIME, /* ns that samples stand for: docs/time.md */
    EXPORT_WEIGHT_LATENCY,
    EXPORT_WEIGHT_MISSES
};
/* The words of --weight, NULL after the last; and its help. */
extern const char *const export_weight_names[];
#define EXPORT_WEIGHT_HELP                                                                         \
    "what --weight says: samples, time (ns of their CPU that samples stand for, docs/time.md), "   \
    "cycles of total latency, or level 1 data cache misses"

struct export_settings {
    enum export_weight weight;
    const enum export_column *columns; /* columns of tables; NULL: all of schema.def */
    size_t column_count;
    const char *input; /* name of the input, as the user gave it */
    const char *truth; /* name of the file of exact counts */
    const char *host, *boot;
    const char *filters;        /* text of the filters, for people */
    const char *version;        /* version of spex */
    struct export_fleet *fleet; /* clickhouse only */
    unsigned threads;           /* parquet: that make its rows, and its pages */
};

struct clickhouse;
struct tables;

/* The server to send to instead of a file, and the result. */
struct export_fleet {
    struct clickhouse *server;
    const char *path; /* path of the file, which is read twice: its bytes name the batch */
    void (*waiting)(
        const struct export_fleet *fleet); /* called while another process sends it; may be NULL */
    bool failed;                           /* the pass ended early, so the samples are incomplete */
    bool whole;                            /* all of it was there */
    uint64_t rows, there;                  /* sent; were there before */
    uint64_t repaired;                     /* parts that an earlier attempt left half */
};

struct export_job {
    struct spex_analysis *analysis;
    struct out *out;
    const struct export_settings *settings;
    struct tables *tables; /* side tables that the pass also fills; NULL: none */
    struct export_source source;
    /* set by begin: how several threads take samples; NULL: by the format's sink alone */
    const struct spex_sink_slices *slices;
    struct out notes; /* lines of text */
    struct spex_error error;
    void *state; /* the format's */
};

struct export_format {
    const char *name, *summary; /* summary: shown in the help */
    const char *weight;         /* what the format's numbers count */
    const char *cannot;         /* what the format cannot express */
    unsigned want;              /* enum spex_want */
    bool ordered, binary;
    bool truth; /* made of exact counts, not of samples */
    /* true: uses settings->weight; false: has several weights, or its own */
    bool weights;
    void (*begin)(struct export_job *job);
    spex_sample_sink *sink;                          /* its context is the job */
    enum spex_status (*end)(struct export_job *job); /* also where the pass failed; frees */
};

#define FORMAT(name) extern const struct export_format export_##name;
#include "export/formats.def"
/* All formats, NULL-terminated. */
extern const struct export_format *const export_formats[];
/* The tables beside samples (tables.h), for a directory of Parquet files; the last has no name. */
extern const struct export_format export_tables[];

/* ClickHouse, after begin: whether there is something to send and a server to take it. */
bool export_clickhouse_ready(const struct export_job *job);

/* enum spex_want of a format with these settings. */
unsigned export_format_wants(const struct export_format *format,
                             const struct export_settings *settings);
/* Before the pass, and after it. */
void export_begin(const struct export_format *format, struct export_job *job);
enum spex_status export_end(const struct export_format *format, struct export_job *job);

#endif
