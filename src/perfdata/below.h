/*
 * Profiles whose files are no longer where they were recorded: they are in an archive, or
 * below another root. jitdump files are read with the profile itself.
 */
#ifndef PERFDATA_BELOW_H
#define PERFDATA_BELOW_H

#include <spex/perfdata.h>

enum { BELOW_ROOTS = 3, BELOW_PATH = 4096 };

/*
 * Directories below which paths are looked for, in turn; "" is the original place. NULL ends the
 * list.
 */
struct below {
    const char *roots[BELOW_ROOTS + 1];
    void (*progress)(void *context, uint64_t done, uint64_t size); /* as file_spool's */
    void *context;
};

/* As spex_perfdata_open. */
enum spex_status below_open(const char *path, const struct below *below,
                            struct spex_perfdata **file, struct spex_error *error);

/*
 * The whole jitdump file of a mapping, if it is of the mapping's process, for the caller to
 * free, and where it was found. NULL if there is none, or if it belongs to neither the user nor
 * root.
 */
char *below_dump(const struct below *below, const struct spex_perf_map *map, char path[BELOW_PATH],
                 size_t *size);

#endif
