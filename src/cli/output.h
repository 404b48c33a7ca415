/*
 * Where a profile goes, and how a run becomes one. A file under the requested name is always
 * whole: it is made in the run's directory, next to it, and renamed.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli.h"
#include "parts.h"

#include "guest/engine.h"

enum { OUTPUT_PATH = 4096 };

struct output {
    const char *name;         /* as given */
    char path[OUTPUT_PATH];   /* of the file itself: links are followed */
    struct parts_limit limit; /* several files; nothing: one */
    int stream;               /* a device, FIFO or standard output, open; else -1 */
};

/*
 * Before anything runs: CLI_OK, or the exit code after a message, if nothing could be
 * written there. truth: there will be a PATH.truth, too.
 */
int output_open(struct output *output, const char *name, bool truth);
void output_close(struct output *output);

/* Begins DIRECTORY/data, which the plugin appends to. False after a message. */
bool output_begin(const struct spex_engine *engine);

struct output_result {
    uint64_t size;
    unsigned parts; /* files, if there are several: PATH.00001 and so on */
    bool whole;     /* all of it was written; otherwise messages say what is missing */
};

/*
 * Makes the profile of a run that has ended and puts it in place. CLI_OK or CLI_DATA after
 * messages; then the directory stays, for `spex recover`, unless the file is in place.
 */
int output_finish(const struct output *output, const char *directory, struct spex_run *run,
                  struct output_result *result);

/* Makes a whole file of one that was cut. CLI_OK or CLI_DATA after messages. */
int output_repair(const struct output *output, const char *from);

/* Writes the output to a descriptor; false after a message: then there is no file. */
typedef bool output_maker(void *context, int fd);
int output_make(const struct output *output, output_maker *make, void *context);

#endif
