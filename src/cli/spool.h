/*
 * A directory that a recorder fills (perf record --switch-output, spex record) and spex ship
 * empties: which files are finished, which are removed if it grows too large, and where unreadable
 * ones go. Only files in the directory itself count, not hidden ones.
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
    uint64_t bytes; /* size of all files, including those set aside */
};

/*
 * CLI_OK, or the exit status after a message: no such directory, or another ship is running on it.
 */
int spool_open(struct spool *spool, const char *path);
void spool_close(struct spool *spool);

/*
 * Reads the directory; files that are still there keep their tries. False with a message if it
 * cannot.
 */
bool spool_scan(struct spool *spool);

/* Removes the oldest files, beginning with those set aside, until at most limit bytes are left. */
struct spool_dropped {
    uint64_t files, bytes;
};
struct spool_dropped spool_bound(struct spool *spool, uint64_t limit);

/* Removes a file that was sent, and only that one: a new file with the same name stays. */
void spool_remove(struct spool *spool, const struct spool_file *file);
/*
 * Moves a file to aside/NAME, and writes the reason to aside/NAME.reason. False after a message, or
 * if another file has its name now.
 */
bool spool_set_aside(struct spool *spool, const struct spool_file *file, const char *reason);

#endif
