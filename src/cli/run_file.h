/* Makes a profile from a run, and a whole file from a truncated one. */
#ifndef CLI_RUN_FILE_H
#define CLI_RUN_FILE_H

#include "output.h"
#include "parts.h"

#include "guest/engine.h"

/*
 * Takes the place of the CPU's description and says what made the records: "neoverse-n1, full, spex
 * 1.4".
 */
#define RUN_FILE_MODEL "spex model: "
enum { RUN_FILE_TEXT = 256 };
void run_file_model(const char *cpu, const char *model, char text[RUN_FILE_TEXT]);

/* Begins DIRECTORY/data, which the plugin appends to. False after a message. */
bool run_file_begin(const struct engine *engine);

struct run_file {
    uint64_t size;
    unsigned parts; /* number of files, if there are several: PATH.00001 and so on */
    bool whole;     /* everything was written; otherwise messages say what is missing */
};

/*
 * Makes a profile from a finished run, or several within a limit, and puts them in place. CLI_OK,
 * or CLI_DATA after messages; then the directory is kept for `spex recover`, unless the file is in
 * place. limit: NULL for one file.
 */
int run_file_finish(const struct output *output, const struct parts_limit *limit,
                    const char *directory, struct left_run *run, struct run_file *result);

/* Makes a whole file from a truncated one. CLI_OK, or CLI_DATA after messages. */
int run_file_repair(const struct output *output, const char *from);

#endif
