/*
 * A directory that a recorder fills (perf record --switch-output, spex record) and spex ship
 * empties: which files are finished, which are removed when it grows too large, and where
 * unreadable ones go. Only names in the directory itself count, and no hidden ones.
 */
#ifndef CLI_SPOOL_H
#define CLI_SPOOL_H

#include "cli.h"

#include <sys/types.h>
#include <time.h>

struct spool_file {
    char *name;
    dev_t device;
    ino_t inode; /* inode of the file when the directory was read */
    uint64_t size;
    struct timespec written;
    bool finished;  /* nobody has it open for writing */
    unsigned tries; /* how often the server refused it */
};

struct spool {
    const char *path;
    int directory, lock;
    struct spool_file *files; /* oldest first */
    size_t count, capacity;
    uint64_t bytes; /* size of all files, set-aside ones included */
};

/* CLI_OK, or the exit status after a message: no such directory, or another ship is at work. */
int spool_open(struct spool *spool, const char *path);
void spool_close(struct spool *spool);

/* Reads the directory; tries of files that are still there stay. False with a message if it cannot.
 */
bool spool_scan(struct spool *spool);

/* Removes what is oldest, first of what was set aside, until no more than limit bytes are left. */
struct spool_dropped {
    uint64_t files, bytes;
};
struct spool_dropped spool_bound(struct spool *spool, uint64_t limit);

/*
 * A file that was sent goes, and only that one: whatever took its name meanwhile stays.
 */
void spool_remove(struct spool *spool, const struct spool_file *file);
/*
 * Moves a file to aside/NAME, and the reason to aside/NAME.reason. False after a message, or if
 * another file has its name now.
 */
bool spool_set_aside(struct spool *spool, const struct spool_file *file, const char *reason);

#endif
