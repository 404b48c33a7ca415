/*
 * How a command writes a file, whichever command it is. The file is made under another name beside
 * the one that was asked for, written out, and renamed: under the name there is always a whole
 * file, the older one or the new one, whatever happens in between. Files that are read and programs
 * are never replaced.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli.h"

#include <sys/stat.h>

enum { OUTPUT_PATH = 4096 };

enum output_how {
    OUTPUT_KEEPS = 1,    /* an older file becomes FILE.old */
    OUTPUT_PRIVATE = 2,  /* readable by the user alone, as profiles are */
    OUTPUT_TRUTH = 4,    /* there will be a FILE.truth, too */
    OUTPUT_IN_PLACE = 8, /* may be the input itself, which is kept as FILE.old */
    OUTPUT_ASKED = 16,   /* keep the permissions that the user asked for */
};

struct output {
    const char *name;       /* name as the user gave it */
    char path[OUTPUT_PATH]; /* the file itself, links resolved */
    int stream;             /* a device, FIFO or standard output, open; else -1 */
    unsigned how;           /* enum output_how */
    mode_t mode;            /* permissions of the new file */
    struct output_older {   /* what would be replaced: the file, and its FILE.old */
        bool there;
        dev_t device;
        ino_t inode;
    } older[2];
};

/* --mode MODE of commands that make a file of a profile. */
#define OUTPUT_MODE(at)                                                                            \
    {                                                                                              \
        "mode", 0, CLI_STRING, at, "MODE",                                                         \
            "permissions of the file, such as 644 (default: no more than the profile has)", NULL,  \
            NULL                                                                                   \
    }

/*
 * Before any work: CLI_OK, or the exit status after a message, if nothing could be written there.
 * how: of enum output_how.
 */
int output_open(struct output *output, const char *name, unsigned how);
void output_close(struct output *output);

/*
 * The output is made from this file ("-": standard input): CLI_USAGE after a message if it would be
 * replaced. Who may not read the input may not read the output.
 */
int output_from(struct output *output, const char *input);
int output_from_open(struct output *output, const char *input, const struct stat *st);
/* Whether both would be one file, whatever they are called. */
bool output_same(const struct output *a, const struct output *b);
/* Whether it would lie in this directory. */
bool output_is_in(const struct output *output, const char *directory);
/* What --mode says instead; NULL: nothing. CLI_OK or CLI_USAGE. */
int output_mode(struct output *output, const char *mode);

/*
 * Writes the output to a descriptor; false after a message: then there is no new file. CLI_OK, or
 * CLI_DATA after messages.
 */
typedef bool output_maker(void *context, int fd);
int output_make(const struct output *output, output_maker *make, void *context);

/*
 * Puts a file that was made elsewhere in the same file system under the name; it stays where it is
 * if false is returned, after a message.
 */
bool output_put(const struct output *output, const char *made);

#endif
