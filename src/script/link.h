/*
 * Lines of text to and from another process, or over standard input and output: every wait has a
 * limit, every line has a bound, and every failure is reported in a sentence.
 */
#ifndef SCRIPT_LINK_H
#define SCRIPT_LINK_H

#include <spex/base.h>

struct link;

enum { LINK_LINE = 1 << 16 }; /* the longest line */

/* Starts a shell command; timeout is for one request and its answer, in milliseconds. */
enum spex_status link_start(const char *command, unsigned timeout, struct link **link,
                            struct spex_error *error);
/* Uses open files, without a time limit. */
enum spex_status link_open(int in, int out, struct link **link, struct spex_error *error);
/* Ends the command too, by force if it does not end by itself. */
void link_close(struct link *link);

/* A request begins: the time limit counts from here. */
void link_begin(struct link *link, const char *name);
/* Sends one line, given without its newline. False after a failure: see link_failure. */
bool link_send(struct link *link, const char *line);
/* The next line, valid until the next call; NULL at the end of the input or after a failure. */
char *link_receive(struct link *link);

/* What went wrong, NULL if nothing did. The first failure is kept. */
const char *link_failure(const struct link *link);
void link_fail(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
