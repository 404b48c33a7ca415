/*
 * Talks to a ClickHouse server through its HTTP interface: requests, answers as tab-separated text,
 * and retries while the server is away. Belongs to one thread.
 */
#ifndef EXPORT_CLICKHOUSE_H
#define EXPORT_CLICKHOUSE_H

#include "base/out.h"

struct clickhouse_options {
    const char *url;             /* http://HOST:8123 or https://... */
    const char *database;        /* NULL: spex */
    const char *user, *password; /* NULL: the server's default */
    const char *ca;              /* file of certificates to trust; NULL: the system's */
    unsigned patience;           /* seconds for which a server may be all but silent; 0: 300 */
    unsigned retry;              /* seconds for which temporary errors are tried again */
    void (*waiting)(void *context, const char *why,
                    unsigned ms); /* called before each attempt; may be NULL */
    void *context;
};

struct clickhouse;

/* SPEX_UNSUPPORTED without libcurl, SPEX_RANGE for an invalid URL. */
enum spex_status clickhouse_new(const struct clickhouse_options *options,
                                struct clickhouse **server, struct spex_error *error);
void clickhouse_free(struct clickhouse *server);
const char *clickhouse_database(const struct clickhouse *server);

/* A request. What is not needed is NULL or 0. */
struct clickhouse_request {
    const char *query;
    const char *id; /* id of the query: the server does not run one id twice at the same time */
    const char *settings; /* settings for the URL, "&name=value" each */
    const void *body;     /* data to insert, in which case the query goes into the URL */
    size_t size;
    /*
     * Where the answer goes: cleared first; followed by a 0 that size does not count. If it writes
     * to a file, the answer goes to the file.
     */
    struct out *answer;
};

/*
 * Statuses: SPEX_IO for a temporary error (no connection, the server's disk is full, it has too
 * much to do); SPEX_INVALID for a lasting one (password, database, table, query). clickhouse_ask
 * retries temporary errors for as long as the options say; clickhouse_try does not.
 * clickhouse_code: the server's own number of the last error, 0 if it did not answer.
 */
enum spex_status clickhouse_try(struct clickhouse *server, const struct clickhouse_request *request,
                                struct spex_error *error);
enum spex_status clickhouse_ask(struct clickhouse *server, const struct clickhouse_request *request,
                                struct spex_error *error);
int clickhouse_code(const struct clickhouse *server);

/* Waits before the next attempt, longer each time; false if the time to try again is over. */
struct clickhouse_patience {
    unsigned seconds; /* 0: as long as the options say */
    unsigned next;    /* ms */
    uint64_t begin;   /* when it began, in ms; 0: not begun */
};
bool clickhouse_wait(struct clickhouse *server, struct clickhouse_patience *patience,
                     const char *why);

/* A text of SQL with its quotes; any bytes. A name of a table or column with its quotes. */
void clickhouse_quote(struct out *out, const char *text);
void clickhouse_name(struct out *out, const char *name);

/*
 * The next cell of an answer, with its escapes undone in place; *end is '\t', '
 * ', or 0 for the last cell. NULL after that. Moves *at on.
 */
char *clickhouse_cell(char **at, char *end);

#endif
