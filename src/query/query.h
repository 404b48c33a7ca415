/*
 * SQL over profiles. DuckDB does the work; its library is loaded on first use. The table function
 * spe('perf.data') has the columns of docs/schema.md and computes only those that a statement
 * needs. A file name in place of a table means the same.
 *
 * One thread reads a profile, and several of DuckDB's threads work on its rows. One statement at a
 * time; any thread may call query_interrupt.
 */
#ifndef QUERY_QUERY_H
#define QUERY_QUERY_H

#include "base/out.h"
#include <spex/analysis.h>

struct query_options {
    const char *library; /* a path, or a name for the system's loader */
    const char *spill;   /* directory for what does not fit into memory */
    unsigned threads;
    uint64_t memory; /* bytes; 0: DuckDB's own limit */
    /*
     * Opens a profile for a pass over all samples; NULL, with the reason in error, if it cannot be
     * read. The caller of query_new owns the profile and closes it after query_close. Called by any
     * thread, one at a time.
     */
    struct spex_analysis *(*open)(void *user, const char *path, struct spex_error *error);
    void *user;
};

struct query;

enum spex_status query_new(const struct query_options *options, struct query **query,
                           struct spex_error *error);
void query_free(struct query *query);

/* Ends the running statement, and any later one, with an error. */
void query_interrupt(struct query *query);
bool query_interrupted(const struct query *query);

enum query_kind { QUERY_TEXT, QUERY_NUMBER, QUERY_BOOL };

struct query_sink {
    void (*begin)(void *user, const char *const *names, const enum query_kind *kinds, size_t count);
    void (*row)(void *user, const char *const *cells); /* cells: text, or NULL */
    void *user;
};

/*
 * Runs statements one after the other; sink, which may be NULL, gets the answer of the last one.
 * False: query_error says why.
 */
bool query_ask(struct query *query, const char *sql, const struct query_sink *sink);
/* Runs statements and writes the last answer to a Parquet file. */
bool query_to_parquet(struct query *query, const char *sql, const char *path);
const char *query_error(const struct query *query); /* several lines */

/* 'text', as SQL quotes it. */
void query_quote(struct out *out, const char *text);

#endif
