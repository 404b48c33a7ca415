/*
 * Finds files that are no longer where they were recorded: they are in an archive, or below
 * another root. jitdump files are read together with the profile itself.
 */
#ifndef PERFDATA_BELOW_H
#define PERFDATA_BELOW_H

#include <spex/perfdata.h>

enum { BELOW_ROOTS = 3, BELOW_PATH = 4096 };

/* Directories to search for paths, in order; "" is the original place. NULL ends the list. */
struct below {
    const char *roots[BELOW_ROOTS + 1];
    void (*progress)(void *context, uint64_t done, uint64_t size); /* see file_spool */
    void *context;
};

/* Like spex_perfdata_new; progress is reported through `below`. */
enum spex_status below_open(const struct spex_perfdata_options *options, const struct below *below,
                            struct spex_perfdata **file, struct spex_error *error);

/*
 * The whole jitdump file of a mapping, if it belongs to the mapping's process, to be freed by
 * the caller, and where it was found. NULL if there is none, or if neither the user nor root
 * owns it.
 */
char *below_dump(const struct below *below, const struct spex_perf_map *map, char path[BELOW_PATH],
                 size_t *size);

#endif
