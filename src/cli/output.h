/*
 * How all commands write a file. The file is made under another name beside the requested one,
 * written completely, and renamed: at any moment the name refers to a whole file, the older or the
 * new one. Input files and programs are never replaced.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli.h"

#include <sys/stat.h>

enum { OUTPUT_PATH = 4096 };

enum output_how {
    OUTPUT_KEEPS = 1,    /* an older file becomes FILE.old */
    OUTPUT_PRIVATE = 2,  /* readable only by the user, as profiles are */
    OUTPUT_TRUTH = 4,    /* there will also be a FILE.truth */
    OUTPUT_IN_PLACE = 8, /* may be the input itself, which is kept as FILE.old */
    OUTPUT_ASKED = 16,   /* use the permissions that the user asked for */
};

struct output {
    const char *name;       /* name as the user gave it */
    char path[OUTPUT_PATH]; /* path of the file itself, with links resolved */
    int stream;             /* a device, FIFO or standard output, open; else -1 */
    unsigned how;           /* enum output_how */
    mode_t mode;            /* permissions of the new file */
    struct output_older {   /* what would be replaced: the file, and its FILE.old */
        bool there;
        dev_t device;
        ino_t inode;
    } older[2];
};

/* --mode MODE, for commands that make a file from a profile. */
#define OUTPUT_MODE(at)                                                                            \
    {                                                                                              \
        "mode", 0, CLI_STRING, at, "MODE",                                                         \
            "permissions of the file, such as 644 (default: no more than the profile has)", NULL,  \
            NULL                                                                                   \
    }

/*
 * Call it before any work: CLI_OK, or the exit status after a message if nothing could be written
 * there. how: of enum output_how.
 */
int output_open(struct output *output, const char *name, unsigned how);
void output_close(struct output *output);

/*
 * The output is made from this file ("-": standard input): CLI_USAGE after a message if it would be
 * replaced. Also keeps users who may not read the input from reading the output.
 */
int output_from(struct output *output, const char *input);
int output_from_open(struct output *output, const char *input, const struct stat *st);
/* Are both the same file, under any name? */
bool output_same(const struct output *a, const struct output *b);
/* Would the file be in this directory? */
bool output_is_in(const struct output *output, const char *directory);
/* Applies --mode; NULL: the option was not given. CLI_OK or CLI_USAGE. */
int output_mode(struct output *output, const char *mode);

/*
 * output_maker writes the output to a descriptor; false after a message, and then there is no new
 * file. output_make: CLI_OK, or CLI_DATA after messages.
 */
typedef bool output_maker(void *context, int fd);
int output_make(const struct output *output, output_maker *make, void *context);

/*
 * Moves a file that was made elsewhere in the same file system to the name. If it returns false,
 * after a message, the file stays where it is.
 */
bool output_put(const struct output *output, const char *made);

#endif
