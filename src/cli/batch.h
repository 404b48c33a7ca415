/* Runs programs in child processes, several at a time, with all their files in one directory. */
#ifndef CLI_BATCH_H
#define CLI_BATCH_H

#include "run.h"

enum { BATCH_PATH = 4096 };

struct batch_run {
    const char *name; /* name in messages; NULL: no messages for a program that ends well */
    struct run_options options;
    char **argv;
    const char *alone; /* see struct engine_options for this and the next members */
    uint64_t stack;
    const char *start_at, *stop_at;
    /* file for standard input, if not /dev/null; working directory */
    const char *input, *directory;
    bool truth; /* exact counts, in DATA.truth */
    bool show;  /* show the program's output when it ends; else only if it fails */
    /* the result */
    char data[BATCH_PATH]; /* path of its profile */
    struct engine_totals totals;
    int status; /* exit status, as from waitpid */
    bool done;  /* the other result members are set */
};

/*
 * Runs all that are not done yet. They all see the same environment, so that none takes another
 * path: no input, and files for output. All files, profiles too, are made in the directory `place`.
 * what: the word for runs in the progress line. Returns CLI_OK, or the exit code of a run that
 * failed to start, after its messages.
 */
int batch_do(struct batch_run *runs, size_t count, unsigned at_a_time, const char *place,
             const char *what);

#endif
