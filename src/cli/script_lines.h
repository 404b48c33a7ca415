/* The lines of spex script: one record each, as text, JSON or CSV, with the requested fields. */
#ifndef CLI_SCRIPT_LINES_H
#define CLI_SCRIPT_LINES_H

#include "cli/profile.h"

struct script_lines;

enum {
    SCRIPT_BLOCK = 64,    /* bytes that may be read past the text of a piece */
    SCRIPT_FULL_PATH = 1, /* flags: whole paths of files */
    SCRIPT_PERF = 2,      /* only for script_lines_perf */
};

/*
 * Fields, format and output come from the profile. CLI_OK, or the exit status with the reason
 * printed.
 */
int script_lines_new(struct script_lines **lines, struct profile *profile, unsigned flags);
void script_lines_free(struct script_lines *lines);

/*
 * Can threads other than the one that runs the analysis make lines, each with its own script_lines?
 */
bool script_lines_alone(const struct script_lines *lines);
/* Writes the names of the fields, as CSV. */
void script_lines_header(struct script_lines *lines);
void script_lines_put(struct script_lines *lines, struct out *out,
                      const struct spex_sample *samples, size_t count);

/* SCRIPT_BLOCK bytes past it may be read; valid until the next call. */
struct script_text {
    const char *data;
    size_t size;
};

/*
 * Parts of a line in perf script's style: "            prog   100 [000] ", "401104 walk+0x4 (prog)
 * ".
 */
void script_lines_perf(struct script_lines *lines, const struct spex_sample *sample,
                       struct script_text *thread, struct script_text *code);

/* Copies in blocks; there must be room for one more. */
static inline char *script_copy(char *p, const char *text, size_t size)
{
    size_t i = 0;
    do
        memcpy(p + i, text + i, SCRIPT_BLOCK);
    while ((i += SCRIPT_BLOCK) < size);
    return p + size;
}

#endif
