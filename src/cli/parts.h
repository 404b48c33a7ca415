/* spex record --switch-output: writes one run as several profiles, one after the other in time. */
#ifndef CLI_PARTS_H
#define CLI_PARTS_H

#include "output.h"

#include "guest/engine.h"

#include <spex/perfdata.h>

struct parts_limit {
    uint64_t bytes; /* most bytes of AUX data in a part; 0: no limit */
    /*
     * longest time, in ns, from its first AUX record to the beginning of its last one; 0: no limit
     */
    uint64_t time;
};

/* "10M", or modelled time in s, ms, us. False if it is neither. */
bool parts_parse(const char *text, struct parts_limit *limit);

/*
 * Makes PATH.00001, PATH.00002, ... from DIRECTORY/data and the run's events; each can be read by
 * itself, since it repeats what earlier parts said. Returns how many there are, 0 after a message.
 * bytes: the size of all of them.
 */
unsigned parts_write(const struct output *output, const char *directory, struct left_run *run,
                     const struct spex_perf_writer_options *options,
                     const struct parts_limit *limit, uint64_t *bytes);

/* Writes an event of a run to a file; in run_file.c. */
void run_file_event(struct spex_perf_writer *writer, const struct engine_event *event);

#endif
