/*
 * Files that input names (modules, sources, maps of JIT code): a profile may come from anybody, so
 * only regular files of a bounded size are opened, and opening one neither waits nor sets anything
 * off. And pipes, as files.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FILE_ANY_OWNER, FILE_OWN_OR_ROOT };

/*
 * A descriptor for reading, or -1: errno is EINVAL if it is not a regular file, EFBIG if it is
 * larger than most, EPERM if it must be of the user or root and is not.
 */
int file_open_named(const char *path, uint64_t most, int owner);

/*
 * The whole file, with a 0 after it; NULL and errno as above, ENOMEM if the memory limit forbids
 * it.
 */
char *file_read_named(const char *path, uint64_t most, int owner, size_t *size);
/* The same of an open file of any kind, which is closed; fd -1: errno stays. */
char *file_read_all(int fd, uint64_t most, size_t *size);

/* A temporary file without a name, in $TMPDIR or /tmp; -1: errno. */
int file_temporary(void);
/*
 * A temporary file without a name that holds what comes from a pipe, or -1: errno. progress may be
 * NULL; its size is 0, since the end is not known.
 */
int file_spool(int fd, void (*progress)(void *context, uint64_t done, uint64_t size),
               void *context);

#endif
