/*
 * QEMU's command line for a guest program, whoever starts it: spex, the guest (follow.c), or a host
 * program (trace.c). The file `engine` of a run has the parts common to all.
 */
#ifndef GUEST_START_H
#define GUEST_START_H

#include "image.h"

#include <stdbool.h>

enum start_word { /* words of the file, each ended by a zero */
                  START_QEMU,
                  START_PLUGIN,
                  START_CPU,
                  START_SEED,
                  START_SYSROOT,
                  START_SPACE, /* bytes of the address space (QEMU 9.2 on), or empty */
                  START_STACK, /* bytes of the main thread's stack; or empty: QEMU's 8 MB */
                  START_SPEX,  /* spex itself, for trace.c */
                  START_WORDS
};

struct start {
    char *text;
    const char *word[START_WORDS];
};

/* Marker that trace.c's seccomp filter lets pass: a sixth argument of execveat, which has five. */
#define START_MAGIC 0x53706578

bool start_read(const char *directory, struct start *start); /* false with errno */
bool start_read_open(int fd, struct start *start);           /* closes it */
void start_free(struct start *start);

/*
 * Replaces this process by QEMU with the program. path is what execve was given: its last part is
 * the name of the process. from_guest: the guest made the environment, and its LD_PRELOAD is for
 * the guest, not for QEMU. control: an open descriptor of that file, if the process can no longer
 * open it, or -1. Returns only on failure, with errno set.
 */
void start_guest(const struct start *start, const char *directory, const struct image *image,
                 const char *path, char *const *argv, char *const *environment, bool from_guest,
                 int control);

#endif
