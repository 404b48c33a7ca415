/* How a run becomes a profile, and a file that was cut a whole one. */
#ifndef CLI_RUN_FILE_H
#define CLI_RUN_FILE_H

#include "output.h"
#include "parts.h"

#include "guest/engine.h"

/* In place of the CPU's description: what the records are made by, "neoverse-n1, full, spex 1.4".
 */
#define RUN_FILE_MODEL "spex model: "
enum { RUN_FILE_TEXT = 256 };
void run_file_model(const char *cpu, const char *model, char text[RUN_FILE_TEXT]);

/* Begins DIRECTORY/data, which the plugin appends to. False after a message. */
bool run_file_begin(const struct engine *engine);

struct run_file {
    uint64_t size;
    unsigned parts; /* files, if there are several: PATH.00001 and so on */
    bool whole;     /* all of it was written; otherwise messages say what is missing */
};

/*
 * Makes the profile of a run that has ended, or several of at most so much each, and puts it in
 * place. CLI_OK or CLI_DATA after messages; then the directory stays, for `spex recover`, unless
 * the file is in place. limit: NULL for one file.
 */
int run_file_finish(const struct output *output, const struct parts_limit *limit,
                    const char *directory, struct left_run *run, struct run_file *result);

/* Makes a whole file of one that was cut. CLI_OK or CLI_DATA after messages. */
int run_file_repair(const struct output *output, const char *from);

#endif
