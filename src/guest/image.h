/*
 * What execve would start: a program of the guest, a program of this machine, or nothing. Follows
 * the kernel's rules for scripts (#!, execve(2)).
 */
#ifndef GUEST_IMAGE_H
#define GUEST_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    IMAGE_PATH = 4096,
    IMAGE_LINE = 256, /* bytes of a script that the kernel looks at */
    IMAGE_DEPTH = 5,  /* scripts whose interpreter is a script */
};

enum image_kind {
    IMAGE_NONE,   /* execve fails, and knows best why */
    IMAGE_HOST,   /* the kernel runs it, or refuses it */
    IMAGE_GUEST,  /* an AArch64 program */
    IMAGE_ORPHAN, /* GUEST, but the dynamic linker that it names is missing: ENOENT */
};

struct image {
    char program[IMAGE_PATH]; /* GUEST: the file that is to run */
    /* For scripts, the first one's first: interpreter, and its argument or "". */
    char line[IMAGE_DEPTH][2][IMAGE_LINE];
    unsigned scripts;
};

/* Where a path is looked for: root before those that begin with /, directory/ before others. */
struct image_search {
    const char *root, *directory; /* "" here */
    const char *sysroot;          /* where dynamic linkers are */
    bool inside; /* look in sysroot first for paths that begin with /, as QEMU does */
};

enum image_kind image_find(const char *path, const struct image_search *search,
                           struct image *image);

/*
 * Turns the arguments of execve into those of the image's program: interpreters of scripts first.
 * NULL if there is no memory; free() it. The strings belong to image, path and argv.
 */
const char **image_arguments(const struct image *image, const char *path, char *const *argv);

#endif
