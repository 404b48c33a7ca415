/* The parts of spex top: a running recording, and a table of its samples so far. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "record.h"

enum top_by { TOP_FUNCTION, TOP_LINE, TOP_SOURCE, TOP_PAGE };
enum top_order { TOP_TIME, TOP_LATENCY, TOP_SAMPLES };
extern const char *const top_by_names[], *const top_order_names[];

/* A recording made by a child process in a directory of its own. */
struct top_recording {
    char directory[256];
    char kallsyms[280]; /* native: the kernel's functions; empty: none */
    int process;        /* the child, 0 once it has ended */
    int status;         /* exit status, as from waitpid */
    bool native;
};
/* aside: keeps the program's input and output off the terminal. */
int top_start(struct top_recording *r, const struct record_options *options, bool native,
              bool aside, char **argv);
/* Is it still running? */
bool top_runs(struct top_recording *r);
/* Ends it if it is running, and removes all files. */
void top_end(struct top_recording *r);

struct top_view {
    int by, order;
    char filter[64]; /* part of a function's name */
    unsigned columns, rows;
    bool colour;
    const char *symfs, *kallsyms;
};

/*
 * The text of the table, the functions in its rows one per line, and the title. top_free() frees
 * it.
 */
struct top_table {
    char *text, *names;
    char title[160];
};
/* Makes a table of what there is so far, in a child process; false if there is nothing yet. */
bool top_look(const struct top_recording *r, const struct top_view *view, struct top_table *table);
void top_free(struct top_table *table);
/* Shows the function's instructions through the pager. */
void top_annotate(const struct top_recording *r, const struct top_view *view, const char *function);

#endif
