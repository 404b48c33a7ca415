/*
 * Profiles whose files are not where they were when it was recorded: in an archive, or below
 * another root. jitdump files are read with the profile itself.
 */
#ifndef PERFDATA_BELOW_H
#define PERFDATA_BELOW_H

#include <spex/perfdata.h>

enum { BELOW_ROOTS = 3, BELOW_PATH = 4096 };

/* Directories that paths are looked for below, in turn; "": where they were. NULL ends them. */
struct below {
    const char *roots[BELOW_ROOTS + 1];
};

/* As spex_perfdata_open. */
enum spex_status below_open(const char *path, const struct below *below,
                            struct spex_perfdata **file, struct spex_error *error);

/*
 * The jitdump file of a mapping, if it is of its process: all of it, which the caller frees, and
 * where it was found. NULL if there is none, or it is neither the user's nor root's.
 */
char *below_dump(const struct below *below, const struct spex_perf_map *map, char path[BELOW_PATH],
                 size_t *size);

#endif
