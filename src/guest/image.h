/*
 * What execve would start: a guest program, a host program, or nothing. Follows the kernel's rules
 * for scripts (#!, execve(2)).
 */
#ifndef GUEST_IMAGE_H
#define GUEST_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    IMAGE_PATH = 4096,
    IMAGE_LINE = 256, /* bytes of a script that the kernel looks at */
    IMAGE_DEPTH = 5,  /* nesting of scripts whose interpreter is a script */
};

enum image_kind {
    IMAGE_NONE,   /* execve will fail with the right error */
    IMAGE_HOST,   /* the kernel runs it, or refuses it */
    IMAGE_GUEST,  /* an AArch64 program */
    IMAGE_ORPHAN, /* GUEST, but its dynamic linker is missing: ENOENT */
};

struct image {
    char program[IMAGE_PATH]; /* GUEST: the file to run */
    /* For scripts, starting with the first one: interpreter, and its argument or "". */
    char line[IMAGE_DEPTH][2][IMAGE_LINE];
    unsigned scripts;
};

/* Where a path is looked for: in root if it begins with /, else in directory/. */
struct image_search {
    const char *root, *directory; /* "": the current one */
    const char *sysroot;          /* where dynamic linkers are */
    bool inside; /* look in sysroot first for paths that begin with /, as QEMU does */
};

enum image_kind image_find(const char *path, const struct image_search *search,
                           struct image *image);

/*
 * Turns the arguments of execve into those of the image's program: interpreters of scripts first.
 * NULL if there is no memory; the caller frees the array. The strings belong to image, path and
 * argv.
 */
const char **image_arguments(const struct image *image, const char *path, char *const *argv);

#endif
