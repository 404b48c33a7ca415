/*
 * Opens files that input names (modules, sources, JIT maps). A profile may come from anybody,
 * so only regular files of a bounded size are opened, and opening one neither blocks nor has
 * side effects. Also turns pipes into files.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { FILE_ANY_OWNER, FILE_OWN_OR_ROOT };

/*
 * A descriptor for reading, or -1: errno is EINVAL if it is not a regular file, EFBIG if it is
 * larger than most, EPERM if it belongs neither to the user nor to root and owner is set.
 */
int file_open_named(const char *path, uint64_t most, int owner);

/*
 * The whole file, terminated by a 0; NULL and errno as above, ENOMEM if the memory limit
 * forbids it.
 */
char *file_read_named(const char *path, uint64_t most, int owner, size_t *size);
/*
 * Same, from an open descriptor of any kind, which is closed. If fd is -1, fails and keeps
 * errno.
 */
char *file_read_all(int fd, uint64_t most, size_t *size);

/* An unnamed temporary file in $TMPDIR or /tmp; -1 and errno on failure. */
int file_temporary(void);
/*
 * Copies what comes from a pipe to an unnamed temporary file; -1 and errno on failure. progress
 * may be NULL; it is called with size 0, since the end is not known.
 */
int file_spool(int fd, void (*progress)(void *context, uint64_t done, uint64_t size),
               void *context);

#endif
