/*
 * POST requests through libcurl, which is loaded for the first request. A client keeps its
 * connection open and belongs to one thread.
 */
#ifndef EXPORT_HTTP_H
#define EXPORT_HTTP_H

#include "base/out.h"

struct http;

struct http_options {
    const char *const *headers; /* "Name: value", NULL-terminated */
    const char *ca;             /* file of certificates to trust; NULL: the system's */
    unsigned connect_timeout;   /* seconds */
    unsigned patience;          /* seconds with hardly a byte before a request is given up */
};

/* SPEX_OK, or why there is no client: the library is missing. */
enum spex_status http_new(const struct http_options *options, struct http **http,
                          struct spex_error *error);
void http_free(struct http *http);

/*
 * Sends one request. SPEX_OK if a whole answer arrived, whatever its code; it is appended to
 * answer. An answer in memory may have up to `most` bytes, one in a file any number. SPEX_IO if no
 * answer arrived: error says why, and *certain means that trying again is useless (wrong protocol
 * name or certificate, more than `most` bytes).
 */
enum spex_status http_post(struct http *http, const char *url, const void *body, size_t size,
                           struct out *answer, size_t most, long *code, bool *certain,
                           struct spex_error *error);

#endif
